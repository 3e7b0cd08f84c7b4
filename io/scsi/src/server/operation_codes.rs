//! REPORT SUPPORTED OPERATION CODES: the command table, as hosts read it.

use crate::commands::report::with_length;
use crate::commands::reserve::is_supported;
use crate::encoding::sense::Fault;
use crate::server::opcode::{self, TABLE};
use crate::unit::command::{Flow, Request};
use crate::unit::row::Row;

/// REPORT SUPPORTED OPERATION CODES (SPC-5 6.35)
pub(crate) fn report(request: Request<'_>) -> Result<Flow, Fault> {
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
