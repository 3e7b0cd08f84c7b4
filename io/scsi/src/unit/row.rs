//! A row of the command table: what the generic checks need of a command.

use crate::encoding::cdb::{Cdb, Span};
use crate::encoding::task_set::Class;
use crate::unit::command::Handler;
use block::Extent;
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
