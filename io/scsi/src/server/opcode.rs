//! The command table: one row per command. It drives decoding, dispatch, reservation conflicts, write protection, data
//! lengths and REPORT SUPPORTED OPERATION CODES, so that they can't disagree.

use super::operation_codes;
use crate::commands::{
    compare_and_write, copy, inquiry, log_pages, mode_pages, persistent_reserve, provisioning, read_write,
    report, reserve, rod, unmap, verify, write_same,
};
use crate::encoding::cdb::{Cdb, Span};
use crate::encoding::task_set::Class;
use crate::encoding::transport::Command;
use crate::unit::command::Handler;
use crate::unit::row::{ConflictRule, Effect, Row, Transfer};
use block::Data;
use export::Operation;

/// The row of a CDB; `None` if there is no such command.
pub(crate) fn find(cdb: &Cdb) -> Option<&'static Row> {
    let first = usize::from(*FIRST.get(usize::from(cdb.u8(0)))?);
    let rows = TABLE.get(first..)?;
    if rows.first()?.action.is_none() {
        return rows.first();
    }
    rows.iter().take_while(|row| row.opcode == cdb.u8(0)).find(|row| row.action == Some(cdb.u8(1) & 0x1F))
}

impl Command {
    /// True if it changes nothing, so that it may be performed again, at any later time.
    pub fn is_repeatable(&self) -> bool {
        find(&Cdb::new(self.cdb.clone())).is_none_or(Row::is_repeatable)
    }

    /// True if all that it changes is content of disks, which note it. Others may change what ends with this process.
    pub fn is_noted(&self) -> bool {
        let row = find(&Cdb::new(self.cdb.clone()));
        row.is_some_and(|row| matches!(row.effect, Effect::Medium | Effect::Named))
    }

    /// Bytes of Data-Out that it asks for by its CDB.
    pub(crate) fn data_out_wanted(&self, block_bytes: u32) -> u64 {
        let cdb = Cdb::new(self.cdb.clone());
        find(&cdb).map_or(0, |row| row.data_out(&cdb, block_bytes))
    }
}

/// Bytes that the command reads, writes, unmaps or copies, by its CDB and its parameter list.
pub(crate) fn amount(row: &Row, cdb: &Cdb, data: &Data, block_bytes: u32) -> u64 {
    let blocks = match row.operation {
        Operation::Unmap => unmap::amount(data),
        Operation::Copy => return copy::amount(row.action, data, block_bytes),
        Operation::TokenCopy => rod::written_blocks(data),
        _ => row.extent(cdb).blocks,
    };
    blocks.saturating_mul(block_bytes.into())
}

/// True if there is a command with this operation code and any service action.
pub(crate) fn known(opcode: u8) -> bool {
    TABLE.iter().any(|row| row.opcode == opcode)
}

/// The CDB usage data of a command: operation code and service action as values, the rest as masks.
pub(crate) fn usage(row: &Row) -> Vec<u8> {
    let mut out = row.usage.to_vec();
    if let (Some(action), Some(byte)) = (row.action, out.get_mut(1)) {
        *byte = *byte & 0xE0 | action;
    }
    out
}

/// The index of the first row of each operation code; the table's length if there is none.
static FIRST: [u8; 256] = {
    let mut first = [TABLE.len() as u8; 256];
    let mut at = TABLE.len();
    while at > 0 {
        at -= 1;
        first[TABLE[at].opcode as usize] = at as u8;
    }
    first
};

#[rustfmt::skip]
const fn row(
    (opcode, action): (u8, Option<u8>), name: &'static str, (conflict, effect): (ConflictRule, Effect), class: Class,
    transfer: Transfer, handler: Handler, usage: &'static [u8],
) -> Row {
    let operation = operation(opcode, action);
    Row { opcode, action, name, usage, conflict, effect, class, transfer, handler, operation }
}

/// Statistics class of a command.
const fn operation(opcode: u8, action: Option<u8>) -> Operation {
    match opcode {
        0x08 | 0x28 | 0x88 | 0xA8 => Operation::Read,
        0x0A | 0x2A | 0x2E | 0x8A | 0x8B | 0x8E | 0x9C | 0xAA | 0xAE => Operation::Write,
        0x41 | 0x93 => Operation::WriteSame,
        0x42 => Operation::Unmap,
        0x83 => match action {
            Some(0x00 | 0x01) => Operation::Copy,
            Some(0x11) => Operation::TokenCopy,
            _ => Operation::Other,
        },
        0x89 => Operation::CompareAndWrite,
        _ => Operation::Other,
    }
}

use Class::{Change, Free, Media};
use ConflictRule::{Always, Open, Own, Persistent, Read, Write};
use Effect::{Medium, Named, Nothing, Unit};
use Span::{Atomic, Compare, Six, Sixteen, Ten, Twelve};
use Transfer::{AllOut, Blocks, BlocksIn, BlocksOut, In, OneOut, Out, TwiceOut, VerifyOut};

/// Every command, by operation code and service action.
#[rustfmt::skip]
pub(crate) const TABLE: &[Row] = &[
    row((0x00, None), "TEST UNIT READY", (Persistent, Nothing), Free, Transfer::None,
        read_write::test_unit_ready, b"\x00\x00\x00\x00\x00\x00"),
    row((0x03, None), "REQUEST SENSE", (Open, Nothing), Free, In(4, 1),
        report::request_sense, b"\x03\x01\x00\x00\xff\x00"),
    row((0x08, None), "READ (6)", (Read, Nothing), Media, BlocksIn(Six),
        read_write::read, b"\x08\x1f\xff\xff\xff\x00"),
    row((0x0A, None), "WRITE (6)", (Write, Medium), Media, BlocksOut(Six),
        read_write::write, b"\x0a\x1f\xff\xff\xff\x00"),
    row((0x12, None), "INQUIRY", (Open, Nothing), Free, In(3, 2),
        inquiry::inquiry, b"\x12\x01\xff\xff\xff\x00"),
    row((0x15, None), "MODE SELECT (6)", (Write, Unit), Change, Out(4, 1),
        mode_pages::select, b"\x15\x11\x00\x00\xff\x00"),
    row((0x16, None), "RESERVE (6)", (Own, Unit), Change, Transfer::None,
        reserve::reserve, b"\x16\x00\x00\x00\x00\x00"),
    row((0x17, None), "RELEASE (6)", (Own, Nothing), Change, Transfer::None,
        reserve::release, b"\x17\x00\x00\x00\x00\x00"),
    row((0x1A, None), "MODE SENSE (6)", (Read, Nothing), Free, In(4, 1),
        mode_pages::sense, b"\x1a\x08\xff\xff\xff\x00"),
    row((0x1B, None), "START STOP UNIT", (Write, Nothing), Free, Transfer::None,
        report::start_stop_unit, b"\x1b\x01\x00\x0f\xf7\x00"),
    row((0x1D, None), "SEND DIAGNOSTIC", (Write, Nothing), Free, Out(3, 2),
        report::send_diagnostic, b"\x1d\xf7\x00\xff\xff\x00"),
    row((0x1E, None), "PREVENT ALLOW MEDIUM REMOVAL", (Write, Nothing), Free, Transfer::None,
        report::prevent_allow, b"\x1e\x00\x00\x00\x03\x00"),
    row((0x25, None), "READ CAPACITY (10)", (Always, Nothing), Free, Transfer::None,
        read_write::read_capacity_10, b"\x25\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
    row((0x28, None), "READ (10)", (Read, Nothing), Media, BlocksIn(Ten),
        read_write::read, b"\x28\x1a\xff\xff\xff\xff\x3f\xff\xff\x00"),
    row((0x2A, None), "WRITE (10)", (Write, Medium), Media, BlocksOut(Ten),
        read_write::write, b"\x2a\x1a\xff\xff\xff\xff\x3f\xff\xff\x00"),
    row((0x2E, None), "WRITE AND VERIFY (10)", (Write, Medium), Media, BlocksOut(Ten),
        verify::write_and_verify, b"\x2e\x16\xff\xff\xff\xff\x3f\xff\xff\x00"),
    row((0x2F, None), "VERIFY (10)", (Read, Nothing), Media, VerifyOut(Ten),
        verify::verify, b"\x2f\x16\xff\xff\xff\xff\x3f\xff\xff\x00"),
    row((0x34, None), "PRE-FETCH (10)", (Read, Nothing), Media, Blocks(Ten),
        read_write::pre_fetch, b"\x34\x02\xff\xff\xff\xff\x3f\xff\xff\x00"),
    row((0x35, None), "SYNCHRONIZE CACHE (10)", (Write, Nothing), Media, Blocks(Ten),
        read_write::synchronize_cache, b"\x35\x06\xff\xff\xff\xff\x3f\xff\xff\x00"),
    row((0x37, None), "READ DEFECT DATA (10)", (Read, Nothing), Free, In(7, 2),
        read_write::read_defect_data, b"\x37\x00\x1f\x00\x00\x00\x00\xff\xff\x00"),
    row((0x41, None), "WRITE SAME (10)", (Write, Medium), Media, OneOut(Ten),
        write_same::write_same, b"\x41\x18\xff\xff\xff\xff\x3f\xff\xff\x00"),
    row((0x42, None), "UNMAP", (Write, Medium), Media, Out(7, 2),
        unmap::unmap, b"\x42\x01\x00\x00\x00\x00\x3f\xff\xff\x00"),
    row((0x4D, None), "LOG SENSE", (Always, Nothing), Free, In(7, 2),
        log_pages::sense, b"\x4d\x01\xff\xff\x00\xff\xff\xff\xff\x00"),
    row((0x55, None), "MODE SELECT (10)", (Write, Unit), Change, Out(7, 2),
        mode_pages::select, b"\x55\x11\x00\x00\x00\x00\x00\xff\xff\x00"),
    row((0x56, None), "RESERVE (10)", (Own, Unit), Change, Transfer::None,
        reserve::reserve, b"\x56\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
    row((0x57, None), "RELEASE (10)", (Own, Nothing), Change, Transfer::None,
        reserve::release, b"\x57\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
    row((0x5A, None), "MODE SENSE (10)", (Read, Nothing), Free, In(7, 2),
        mode_pages::sense, b"\x5a\x18\xff\xff\x00\x00\x00\xff\xff\x00"),
    row((0x5E, Some(0x00)), "PERSISTENT RESERVE IN, READ KEYS", (Persistent, Nothing), Free, In(7, 2),
        persistent_reserve::persistent_in, b"\x5e\x1f\x00\x00\x00\x00\x00\xff\xff\x00"),
    row((0x5E, Some(0x01)), "PERSISTENT RESERVE IN, READ RESERVATION", (Persistent, Nothing), Free, In(7, 2),
        persistent_reserve::persistent_in, b"\x5e\x1f\x00\x00\x00\x00\x00\xff\xff\x00"),
    row((0x5E, Some(0x02)), "PERSISTENT RESERVE IN, REPORT CAPABILITIES", (Persistent, Nothing), Free, In(7, 2),
        persistent_reserve::persistent_in, b"\x5e\x1f\x00\x00\x00\x00\x00\xff\xff\x00"),
    row((0x5E, Some(0x03)), "PERSISTENT RESERVE IN, READ FULL STATUS", (Persistent, Nothing), Free, In(7, 2),
        persistent_reserve::persistent_in, b"\x5e\x1f\x00\x00\x00\x00\x00\xff\xff\x00"),
    row((0x5F, Some(0x00)), "PERSISTENT RESERVE OUT, REGISTER", (Persistent, Unit), Change, Out(5, 4),
        persistent_reserve::persistent_out, b"\x5f\x1f\xff\x00\x00\xff\xff\xff\xff\x00"),
    row((0x5F, Some(0x01)), "PERSISTENT RESERVE OUT, RESERVE", (Persistent, Unit), Change, Out(5, 4),
        persistent_reserve::persistent_out, b"\x5f\x1f\xff\x00\x00\xff\xff\xff\xff\x00"),
    row((0x5F, Some(0x02)), "PERSISTENT RESERVE OUT, RELEASE", (Persistent, Nothing), Change, Out(5, 4),
        persistent_reserve::persistent_out, b"\x5f\x1f\xff\x00\x00\xff\xff\xff\xff\x00"),
    row((0x5F, Some(0x03)), "PERSISTENT RESERVE OUT, CLEAR", (Persistent, Unit), Change, Out(5, 4),
        persistent_reserve::persistent_out, b"\x5f\x1f\xff\x00\x00\xff\xff\xff\xff\x00"),
    row((0x5F, Some(0x04)), "PERSISTENT RESERVE OUT, PREEMPT", (Persistent, Unit), Change, Out(5, 4),
        persistent_reserve::persistent_out, b"\x5f\x1f\xff\x00\x00\xff\xff\xff\xff\x00"),
    row((0x5F, Some(0x05)), "PERSISTENT RESERVE OUT, PREEMPT AND ABORT", (Persistent, Unit), Free, Out(5, 4),
        persistent_reserve::persistent_out, b"\x5f\x1f\xff\x00\x00\xff\xff\xff\xff\x00"),
    row((0x5F, Some(0x06)), "PERSISTENT RESERVE OUT, REGISTER AND IGNORE EXISTING KEY", (Persistent, Unit), Change, Out(5, 4),
        persistent_reserve::persistent_out, b"\x5f\x1f\xff\x00\x00\xff\xff\xff\xff\x00"),
    row((0x5F, Some(0x07)), "PERSISTENT RESERVE OUT, REGISTER AND MOVE", (Persistent, Unit), Change, Out(5, 4),
        persistent_reserve::persistent_out, b"\x5f\x1f\xff\x00\x00\xff\xff\xff\xff\x00"),
    row((0x5F, Some(0x08)), "PERSISTENT RESERVE OUT, REPLACE LOST RESERVATION", (Persistent, Unit), Change, Out(5, 4),
        persistent_reserve::persistent_out, b"\x5f\x1f\xff\x00\x00\xff\xff\xff\xff\x00"),
    row((0x83, Some(0x00)), "EXTENDED COPY (LID1)", (Write, Named), Media, Out(10, 4),
        copy::extended_copy, b"\x83\x1f\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00"),
    row((0x83, Some(0x01)), "EXTENDED COPY (LID4)", (Write, Named), Media, Out(10, 4),
        copy::extended_copy, b"\x83\x1f\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00"),
    row((0x83, Some(0x10)), "POPULATE TOKEN", (Read, Nothing), Media, Out(10, 4),
        rod::populate_token, b"\x83\x1f\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x3f\x00"),
    row((0x83, Some(0x11)), "WRITE USING TOKEN", (Write, Medium), Media, Out(10, 4),
        rod::write_using_token, b"\x83\x1f\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x3f\x00"),
    row((0x83, Some(0x1C)), "COPY OPERATION ABORT", (Write, Nothing), Free, Transfer::None,
        copy::abort, b"\x83\x1f\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
    row((0x84, Some(0x00)), "RECEIVE COPY RESULTS, COPY STATUS (LID1)", (Write, Nothing), Free, In(10, 4),
        copy::receive_copy_results, b"\x84\x1f\xff\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00"),
    row((0x84, Some(0x03)), "RECEIVE COPY RESULTS, OPERATING PARAMETERS", (Write, Nothing), Free, In(10, 4),
        copy::receive_copy_results, b"\x84\x1f\xff\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00"),
    row((0x84, Some(0x04)), "RECEIVE COPY RESULTS, FAILED SEGMENT DETAILS (LID1)", (Write, Nothing), Free, In(10, 4),
        copy::receive_copy_results, b"\x84\x1f\xff\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00"),
    row((0x84, Some(0x05)), "RECEIVE COPY STATUS (LID4)", (Write, Nothing), Free, In(10, 4),
        copy::receive_copy_results, b"\x84\x1f\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00"),
    row((0x84, Some(0x07)), "RECEIVE ROD TOKEN INFORMATION", (Write, Nothing), Free, In(10, 4),
        rod::receive_information, b"\x84\x1f\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00"),
    row((0x84, Some(0x08)), "REPORT ALL ROD TOKENS", (Write, Nothing), Free, In(10, 4),
        rod::report_all, b"\x84\x1f\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00"),
    row((0x88, None), "READ (16)", (Read, Nothing), Media, BlocksIn(Sixteen),
        read_write::read, b"\x88\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x3f\x00"),
    row((0x89, None), "COMPARE AND WRITE", (Write, Medium), Media, TwiceOut(Compare),
        compare_and_write::compare_and_write, b"\x89\x18\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\xff\x3f\x00"),
    row((0x8A, None), "WRITE (16)", (Write, Medium), Media, BlocksOut(Sixteen),
        read_write::write, b"\x8a\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x3f\x00"),
    row((0x8B, None), "ORWRITE (16)", (Write, Medium), Media, AllOut(Sixteen),
        read_write::or_write, b"\x8b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x3f\x00"),
    row((0x8E, None), "WRITE AND VERIFY (16)", (Write, Medium), Media, BlocksOut(Sixteen),
        verify::write_and_verify, b"\x8e\x16\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x3f\x00"),
    row((0x8F, None), "VERIFY (16)", (Read, Nothing), Media, VerifyOut(Sixteen),
        verify::verify, b"\x8f\x16\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x3f\x00"),
    row((0x90, None), "PRE-FETCH (16)", (Read, Nothing), Media, Blocks(Sixteen),
        read_write::pre_fetch, b"\x90\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x3f\x00"),
    row((0x91, None), "SYNCHRONIZE CACHE (16)", (Write, Nothing), Media, Blocks(Sixteen),
        read_write::synchronize_cache, b"\x91\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x3f\x00"),
    row((0x93, None), "WRITE SAME (16)", (Write, Medium), Media, OneOut(Sixteen),
        write_same::write_same, b"\x93\x19\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x3f\x00"),
    row((0x9C, None), "WRITE ATOMIC (16)", (Write, Medium), Media, AllOut(Atomic),
        read_write::write_atomic, b"\x9c\x18\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\xff\xff\x3f\x00"),
    row((0x9E, Some(0x10)), "READ CAPACITY (16)", (Always, Nothing), Free, In(10, 4),
        read_write::read_capacity_16, b"\x9e\x1f\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00"),
    row((0x9E, Some(0x12)), "GET LBA STATUS", (Read, Nothing), Media, In(10, 4),
        provisioning::get_lba_status, b"\x9e\x1f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00"),
    row((0xA0, None), "REPORT LUNS", (Open, Nothing), Free, In(6, 4),
        report::luns, b"\xa0\x00\xff\x00\x00\x00\xff\xff\xff\xff\x00\x00"),
    row((0xA3, Some(0x0A)), "REPORT TARGET PORT GROUPS", (Always, Nothing), Free, In(6, 4),
        report::target_port_groups, b"\xa3\xff\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00"),
    row((0xA3, Some(0x0C)), "REPORT SUPPORTED OPERATION CODES", (Read, Nothing), Free, In(6, 4),
        operation_codes::report, b"\xa3\x1f\x87\xff\xff\xff\xff\xff\xff\xff\x00\x00"),
    row((0xA3, Some(0x0D)), "REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS", (Read, Nothing), Free, In(6, 4),
        report::task_management_functions, b"\xa3\x1f\x80\x00\x00\x00\xff\xff\xff\xff\x00\x00"),
    row((0xA8, None), "READ (12)", (Read, Nothing), Media, BlocksIn(Twelve),
        read_write::read, b"\xa8\x1a\xff\xff\xff\xff\xff\xff\xff\xff\x3f\x00"),
    row((0xAA, None), "WRITE (12)", (Write, Medium), Media, BlocksOut(Twelve),
        read_write::write, b"\xaa\x1a\xff\xff\xff\xff\xff\xff\xff\xff\x3f\x00"),
    row((0xAE, None), "WRITE AND VERIFY (12)", (Write, Medium), Media, BlocksOut(Twelve),
        verify::write_and_verify, b"\xae\x16\xff\xff\xff\xff\xff\xff\xff\xff\x3f\x00"),
    row((0xAF, None), "VERIFY (12)", (Read, Nothing), Media, VerifyOut(Twelve),
        verify::verify, b"\xaf\x16\xff\xff\xff\xff\xff\xff\xff\xff\x3f\x00"),
    row((0xB7, None), "READ DEFECT DATA (12)", (Read, Nothing), Free, In(6, 4),
        read_write::read_defect_data, b"\xb7\x1f\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00"),
];

#[cfg(test)]
#[path = "opcode_test.rs"]
mod tests;
