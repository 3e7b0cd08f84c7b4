//! Reports about the target: REPORT LUNS, target port groups, supported commands and task management functions.

use crate::Lun;
use crate::command::{Flow, Request};
use crate::opcode::{self, TABLE};
use crate::reserve::is_supported;
use crate::row::Row;
use crate::sense::{Code, Fault};

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
fn with_length(body: Vec<u8>) -> Vec<u8> {
    let mut out = (body.len() as u32).to_be_bytes().to_vec();
    out.extend_from_slice(&body);
    out
}

/// REPORT SUPPORTED OPERATION CODES (SPC-5 6.35)
pub(crate) fn operation_codes(request: Request<'_>) -> Result<Flow, Fault> {
    let cdb = request.cdb;
    let timeouts = cdb.bit(2, 0x80);
    let (opcode, action) = (cdb.u8(3), cdb.u16(4));
    let supported: Vec<&Row> = TABLE.iter().filter(|row| is_supported(&request.path.unit, row)).collect();
    let rows: Vec<&Row> = supported.iter().copied().filter(|row| row.opcode == opcode).collect();
    let has_actions = rows.iter().any(|row| row.action.is_some());
    let of_action = || rows.iter().find(|row| row.action.map(u16::from) == Some(action)).copied();
    match cdb.u8(2) & 0x07 {
        0 => return Ok(Flow::data(all_commands(&supported, timeouts))),
        1 if has_actions => Err(Fault::cdb_byte(3)),
        1 => Ok(rows.first().copied()),
        2 if !has_actions && !rows.is_empty() => Err(Fault::cdb_byte(4)),
        2 => Ok(of_action()),
        3 if has_actions => Ok(of_action()),
        // An operation code without service actions is found under service action zero.
        3 => Ok(rows.first().copied().filter(|_| action == 0)),
        _ => Err(Fault::cdb_bit(2, 2)),
    }
    .map(|row| Flow::data(one_command(row, timeouts)))
}

/// The timeouts descriptor: no nominal time, and 30 seconds recommended.
const TIMEOUTS: [u8; 12] = [0, 0x0A, 0, 0, 0, 0, 0, 0, 0, 0, 0, 30];

fn all_commands(rows: &[&Row], timeouts: bool) -> Vec<u8> {
    let mut body = Vec::with_capacity(rows.len() * 20);
    for row in rows {
        let flags = u8::from(row.action.is_some()) | if timeouts { 0x02 } else { 0 };
        let length = row.usage.len() as u8;
        body.extend_from_slice(&[row.opcode, 0, 0, row.action.unwrap_or(0), 0, flags, 0, length]);
        if timeouts {
            body.extend_from_slice(&TIMEOUTS);
        }
    }
    with_length(body)
}

fn one_command(row: Option<&Row>, timeouts: bool) -> Vec<u8> {
    let Some(row) = row else { return vec![0, 0x01, 0, 0] };
    let mut out = vec![0, 0x03 | if timeouts { 0x80 } else { 0 }, 0, row.usage.len() as u8];
    out.extend(opcode::usage(row));
    if timeouts {
        out.extend_from_slice(&TIMEOUTS);
    }
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
