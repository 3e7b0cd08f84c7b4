//! Reports about the target: REPORT LUNS, target port groups and supported task management functions.

use crate::Lun;
use crate::encoding::sense::{Code, Fault};
use crate::unit::command::{Flow, Request};

/// REPORT LUNS (SPC-5 6.34)
pub(crate) fn luns(request: Request<'_>) -> Result<Flow, Fault> {
    let luns: Vec<u16> = request.peers.keys().copied().collect();
    let list = lun_list(request.cdb.u8(2), &luns).ok_or(Fault::cdb_byte(2))?;
    request.peers.values().for_each(|path| path.clear_unit_attention(Code::LUNS_CHANGED));
    Ok(Flow::data(list))
}

/// The parameter data for a SELECT REPORT value; `None` if the value is reserved. There are no well-known and no
/// administrative units.
pub(crate) fn lun_list(select: u8, luns: &[u16]) -> Option<Vec<u8>> {
    let reported = match select {
        0x00 | 0x02 | 0x11 => luns,
        0x01 | 0x10 | 0x12 => &[],
        _ => return None,
    };
    let mut out = ((reported.len() * 8) as u32).to_be_bytes().to_vec();
    out.extend_from_slice(&[0; 4]);
    reported.iter().for_each(|lun| out.extend_from_slice(&Lun::of(*lun).0));
    Some(out)
}

/// States of a target port group (SPC-5 table 191).
const ACTIVE_OPTIMIZED: u8 = 0x00;
const UNAVAILABLE: u8 = 0x03;

/// REPORT TARGET PORT GROUPS (SPC-5 6.36): the ports of each controller are a group.
pub(crate) fn target_port_groups(request: Request<'_>) -> Result<Flow, Fault> {
    let extended = match request.cdb.u8(1) >> 5 {
        0 => false,
        1 => true,
        _ => return Err(Fault::cdb_bit(1, 7)),
    };
    let groups = request.path.unit.identity.ports.all();
    // With one controller active/optimized is the only state (AO_SUP); a group of another one may be unavailable (U_SUP).
    let supported = if groups.len() > 1 { 0x09 } else { 0x01 };
    let mut body = if extended { vec![0x10, 0, 0, 0] } else { Vec::new() };
    for group in groups.iter() {
        let ports = &group.ports[..group.ports.len().min(255)];
        let state = if group.is_active { ACTIVE_OPTIMIZED } else { UNAVAILABLE };
        let [high, low] = group.id.to_be_bytes();
        // Status: by the target.
        body.extend_from_slice(&[state, supported, high, low, 0, 0x00, 0, ports.len() as u8]);
        for port in ports {
            body.extend_from_slice(&[0, 0]);
            body.extend_from_slice(&port.to_be_bytes());
        }
    }
    Ok(Flow::data(with_length(body)))
}

/// Prefixes the four bytes of a length that counts what follows.
pub(crate) fn with_length(body: Vec<u8>) -> Vec<u8> {
    let mut out = (body.len() as u32).to_be_bytes().to_vec();
    out.extend_from_slice(&body);
    out
}

/// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (SPC-5 6.37)
pub(crate) fn task_management_functions(request: Request<'_>) -> Result<Flow, Fault> {
    // ABORT TASK, ABORT TASK SET, CLEAR TASK SET, LOGICAL UNIT RESET; no ACA, no queries, no I_T nexus reset.
    let functions = 0x80 | 0x40 | 0x10 | 0x08;
    let mut out = vec![functions, 0, 0, 0];
    if request.cdb.bit(2, 0x80) {
        // Extended: additional length, then timeouts that are not specified.
        out[3] = 12;
        out.extend_from_slice(&[0; 12]);
    }
    Ok(Flow::data(out))
}

/// REQUEST SENSE (SPC-5 6.39): a pending unit attention condition, or NO SENSE.
pub(crate) fn request_sense(request: Request<'_>) -> Result<Flow, Fault> {
    let sense = request.path.take_unit_attention().unwrap_or(Code::NO_SENSE.into());
    Ok(Flow::data(block::Data::from(sense.encode(request.cdb.bit(1, 0x01)))))
}

/// START STOP UNIT (SBC-4 5.31). A unit is always active, for all of its initiators: requests to start it succeed, and
/// requests to stop it or to change its power condition are refused.
pub(crate) fn start_stop_unit(request: Request<'_>) -> Result<Flow, Fault> {
    const START_VALID: u8 = 0;
    const ACTIVE: u8 = 1;
    if request.cdb.bit(4, 0x02) {
        return Err(Fault::cdb_bit(4, 1)); // LOEJ: the medium can't be loaded or ejected
    }
    match request.cdb.u8(4) >> 4 {
        START_VALID if request.cdb.bit(4, 0x01) => Ok(Flow::good()),
        START_VALID => Err(Fault::cdb_bit(4, 0)),
        ACTIVE => Ok(Flow::good()),
        _ => Err(Fault::cdb_bit(4, 7)),
    }
}

/// SEND DIAGNOSTIC (SPC-5 6.42): the default self-test passes; there are no others.
pub(crate) fn send_diagnostic(request: Request<'_>) -> Result<Flow, Fault> {
    if request.cdb.bit(1, 0xE0) || !request.data.is_empty() {
        return Err(Fault::cdb_byte(1));
    }
    Ok(Flow::good())
}

/// PREVENT ALLOW MEDIUM REMOVAL (SPC-4 6.22): the medium is never removed.
pub(crate) fn prevent_allow(_: Request<'_>) -> Result<Flow, Fault> {
    Ok(Flow::good())
}
