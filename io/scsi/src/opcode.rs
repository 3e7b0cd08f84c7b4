//! The command table: one row per command. It drives decoding, dispatch, reservation conflicts, write protection, data
//! lengths and REPORT SUPPORTED OPERATION CODES, so that they can't disagree.

use crate::cdb::{Cdb, Span};
use crate::command::Handler;
use crate::task_set::Class;
use crate::transport::Command;
use crate::{
    compare_and_write, copy, inquiry, log_pages, mode_pages, persistent_reserve, provisioning, read_write,
    report, reservation, rod, unmap, verify, write_same,
};
use block::{Data, Extent};
use export::Operation;

/// One command: an operation code, with its service action where it has any.
pub(crate) struct Row {
    pub(crate) opcode: u8,
    /// The service action, in the low five bits of CDB byte 1 (byte 9 of variable length CDBs, which are not used).
    pub(crate) action: Option<u8>,
    pub(crate) name: &'static str,
    /// The CDB bits that the command uses; the length is the CDB's. Byte 0 is the operation code.
    pub(crate) usage: &'static [u8],
    pub(crate) conflict: ConflictRule,
    pub(crate) effect: Effect,
    pub(crate) class: Class,
    pub(crate) transfer: Transfer,
    pub(crate) handler: Handler,
    /// The kind that it is counted as.
    pub(crate) operation: Operation,
}

/// How reservations held by others affect a command (SPC-5 5.14.1, SBC-4 5.3; SPC-2 5.5.1 for RESERVE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConflictRule {
    /// Always allowed, and reports no unit attention: INQUIRY, REPORT LUNS, REQUEST SENSE.
    Open,
    /// Allowed under every persistent reservation and under RESERVE.
    Always,
    /// Allowed under every persistent reservation, not under RESERVE.
    Persistent,
    /// Allowed to others under the Write Exclusive types.
    Read,
    /// Not allowed to others.
    Write,
    /// The handler decides: RESERVE and RELEASE.
    Own,
}

/// What a command changes that other initiators share. Every row has it, so write protection and read-only mappings
/// hold for every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing, or only what the sender itself holds: RELEASE.
    Nothing,
    /// The medium: refused under software write protection, on a read-only disk and on a read-only mapping.
    Medium,
    /// The state of the unit (mode pages, registrations, reservations): refused on a read-only mapping.
    Unit,
    /// The media of the units that its parameter list names: each is checked when it is looked up.
    Named,
}

/// The data of a command, and where the CDB has its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    None,
    /// Data-In up to the allocation length at the byte, of the length in bytes.
    In(usize, usize),
    /// As many logical blocks come back as the CDB asks for.
    BlocksIn(Span),
    /// The command names blocks but transfers none.
    Blocks(Span),
    /// A parameter list of the length at the byte, of the length in bytes.
    Out(usize, usize),
    /// As many logical blocks as the CDB says. If the initiator announces less, that is written and the transport
    /// reports the residual.
    BlocksOut(Span),
    /// As many logical blocks as the CDB says, all of them.
    AllOut(Span),
    /// Twice as many: the blocks to compare, then the blocks to write.
    TwiceOut(Span),
    /// One logical block, or none with NDOB.
    OneOut(Span),
    /// By BYTCHK: none, all, or one logical block (SBC-4 5.33).
    VerifyOut(Span),
}

impl Row {
    /// The run of blocks that the CDB names; empty for commands that name none.
    pub(crate) fn extent(&self, cdb: &Cdb) -> Extent {
        use Transfer::{AllOut, Blocks, BlocksIn, BlocksOut, OneOut, TwiceOut, VerifyOut};
        match self.transfer {
            BlocksIn(span) | Blocks(span) | BlocksOut(span) | AllOut(span) | TwiceOut(span)
            | OneOut(span) | VerifyOut(span) => cdb.extent(span),
            _ => Extent::new(0, 0),
        }
    }

    /// Bytes of Data-Out that the CDB asks for.
    pub(crate) fn data_out(&self, cdb: &Cdb, block_bytes: u32) -> u64 {
        let blocks = |count: u64| count * u64::from(block_bytes);
        match self.transfer {
            Transfer::Out(at, bytes) => cdb.field(at, bytes),
            Transfer::BlocksOut(span) | Transfer::AllOut(span) => blocks(cdb.extent(span).blocks),
            Transfer::TwiceOut(span) => blocks(2 * cdb.extent(span).blocks),
            Transfer::OneOut(_) if self.opcode == 0x93 && cdb.bit(1, 0x01) => 0,
            Transfer::OneOut(_) => blocks(1),
            Transfer::VerifyOut(span) => match cdb.u8(1) >> 1 & 3 {
                1 => blocks(cdb.extent(span).blocks),
                3 => blocks(1),
                _ => 0,
            },
            _ => 0,
        }
    }

    /// Whether the command changes nothing, so that it may be performed again, at any later time. What takes a parameter list
    /// or is serialized with others may have an effect on what its sender holds.
    pub(crate) fn is_repeatable(&self) -> bool {
        let is_passive = matches!(self.class, Class::Free | Class::Media);
        self.effect == Effect::Nothing && is_passive && !matches!(self.transfer, Transfer::Out(..))
    }

    /// Whether the command unmaps blocks, by its CDB.
    pub(crate) fn unmaps(&self, cdb: &Cdb) -> bool {
        match self.operation {
            Operation::Unmap => true,
            Operation::WriteSame => cdb.bit(1, 0x08),
            _ => false,
        }
    }

    /// Bytes that the command reads, writes, unmaps or copies, by its CDB and its parameter list.
    pub(crate) fn amount(&self, cdb: &Cdb, data: &Data, block_bytes: u32) -> u64 {
        let blocks = match self.operation {
            Operation::Unmap => unmap::amount(data),
            Operation::Copy => return copy::amount(self.action, data, block_bytes),
            Operation::TokenCopy => rod::written_blocks(data),
            _ => self.extent(cdb).blocks,
        };
        blocks.saturating_mul(block_bytes.into())
    }

    /// Whether Data-Out longer than the CDB asks for is an error instead of a residual: the bytes would be
    /// misinterpreted.
    pub(crate) fn exact(&self) -> bool {
        matches!(self.transfer, Transfer::TwiceOut(_) | Transfer::OneOut(_))
    }

    /// Whether Data-Out shorter than the CDB asks for is accepted.
    pub(crate) fn takes_less(&self) -> bool {
        matches!(self.transfer, Transfer::BlocksOut(_))
    }

    /// The allocation length, which truncates Data-In, if the command has one.
    pub(crate) fn allocation(&self, cdb: &Cdb) -> Option<u64> {
        match self.transfer {
            Transfer::In(at, bytes) => Some(cdb.field(at, bytes)),
            _ => None,
        }
    }

    /// The first bit set in the CDB that the command does not use: byte and bit.
    pub(crate) fn stray_bit(&self, cdb: &Cdb) -> Option<(u16, u8)> {
        let ignored = |at: usize| if self.opcode == INQUIRY && at == 1 { SCSI2_LUN } else { 0 };
        let stray = |(at, (given, used)): (usize, (&u8, &u8))| given & !used & !ignored(at);
        let bits = cdb.bytes().iter().zip(self.usage).enumerate().skip(1).map(|it| (it.0, stray(it)));
        let (at, bits) = bits.into_iter().find(|(_, bits)| *bits != 0)?;
        Some((at as u16, 7 - bits.leading_zeros() as u8))
    }
}

/// INQUIRY, whose CDB may have the logical unit number in [`SCSI2_LUN`].
const INQUIRY: u8 = 0x12;
/// Bits of CDB byte 1 that SCSI-2 (7.2.2) has for the logical unit number, reserved since. Linux sets them in the INQUIRY
/// with which it scans a single unit, as it does not know the version of the target yet.
const SCSI2_LUN: u8 = 0xE0;

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
        reservation::reserve, b"\x16\x00\x00\x00\x00\x00"),
    row((0x17, None), "RELEASE (6)", (Own, Nothing), Change, Transfer::None,
        reservation::release, b"\x17\x00\x00\x00\x00\x00"),
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
        reservation::reserve, b"\x56\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
    row((0x57, None), "RELEASE (10)", (Own, Nothing), Change, Transfer::None,
        reservation::release, b"\x57\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
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
        report::operation_codes, b"\xa3\x1f\x87\xff\xff\xff\xff\xff\xff\xff\x00\x00"),
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
