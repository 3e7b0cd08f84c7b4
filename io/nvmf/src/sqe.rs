//! The layout of commands and completions (NVM Express Base 2.0 clauses 3.3.3.1 and 3.3.3.2; Fabrics clause 6).

use crate::status::Status;
use block::Data;
use std::ops::Range;

/// Bytes of a submission queue entry.
pub(crate) const SQE_BYTES: usize = 64;

/// The opcode of all fabrics commands (Base figure 316).
pub(crate) const FABRICS: u8 = 0x7F;

/// The namespace identifier that means all namespaces.
pub(crate) const ALL_NAMESPACES: u32 = u32::MAX;

/// SGL descriptor types and subtypes (Base figure 106): data in the capsule at an offset, and data that the transport
/// transfers.
const SGL_IN_CAPSULE: u8 = 0x01;
const SGL_TRANSPORT: u8 = 0x5A;

/// Location of a command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataLocation {
    /// In the capsule, at this offset.
    Capsule(u64),
    /// In data PDUs.
    Transport,
}

/// Direction of a command's data, by the two lowest bits of the opcode or of the fabrics command type (Base figure 88).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// No data.
    None,
    /// From the host.
    Out,
    /// To the host.
    In,
}

/// The parts of a fused operation (Base figure 87).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fuse {
    /// A command of its own.
    Normal,
    /// The first command of a fused operation.
    First,
    /// The second command.
    Second,
    /// The reserved value.
    Reserved,
}

/// A command, and the memory charged for it in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Command {
    pub(crate) sqe: Sqe,
    pub(crate) charge: u64,
}

impl Command {
    pub(crate) fn cid(&self) -> u16 {
        self.sqe.cid()
    }
}

/// A submission queue entry.
#[derive(Clone, Copy)]
pub(crate) struct Sqe {
    bytes: [u8; SQE_BYTES],
    /// The number of its controller's view on arrival: the namespaces that the host can have meant.
    pub(crate) view: u64,
}

impl Sqe {
    /// A command that arrived under this view of its controller.
    pub(crate) fn new(bytes: [u8; SQE_BYTES], view: u64) -> Sqe {
        Sqe { bytes, view }
    }

    pub(crate) fn opcode(&self) -> u8 {
        self.bytes[0]
    }

    /// Whether PSDT has its reserved value (Base figure 87).
    pub(crate) fn has_reserved_transfer(&self) -> bool {
        self.bytes[1] >> 6 == 0x03
    }

    pub(crate) fn fuse(&self) -> Fuse {
        match self.bytes[1] & 0x03 {
            0 => Fuse::Normal,
            1 => Fuse::First,
            2 => Fuse::Second,
            _ => Fuse::Reserved,
        }
    }

    /// Command identifier.
    pub(crate) fn cid(&self) -> u16 {
        u16::from_le_bytes([self.bytes[2], self.bytes[3]])
    }

    /// The type of a fabrics command.
    pub(crate) fn fabrics_type(&self) -> u8 {
        self.bytes[4]
    }

    pub(crate) fn nsid(&self) -> u32 {
        self.dword(1)
    }

    /// Command dword `index`.
    pub(crate) fn dword(&self, index: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.bytes[4 * index..4 * index + 4]);
        u32::from_le_bytes(bytes)
    }

    /// Two command dwords, the first one lower.
    pub(crate) fn qword(&self, index: usize) -> u64 {
        u64::from(self.dword(index)) | u64::from(self.dword(index + 1)) << 32
    }

    /// Starting LBA of most I/O commands (NVM Command Set 3.2).
    pub(crate) fn slba(&self) -> u64 {
        self.qword(10)
    }

    /// Number of logical blocks of most I/O commands; the field counts from zero.
    pub(crate) fn blocks(&self) -> u64 {
        u64::from(self.dword(12) & 0xFFFF) + 1
    }

    pub(crate) fn direction(&self) -> Direction {
        let bits = if self.opcode() == FABRICS { self.fabrics_type() } else { self.opcode() };
        match bits & 0x03 {
            1 => Direction::Out,
            2 => Direction::In,
            _ => Direction::None,
        }
    }

    /// Bytes of data to transfer, by the first SGL descriptor.
    pub(crate) fn data_bytes(&self) -> u32 {
        if self.direction() == Direction::None { 0 } else { self.dword(8) }
    }

    /// Location of the data; commands over fabrics describe it by SGLs only.
    pub(crate) fn data_location(&self) -> Result<DataLocation, Status> {
        if self.bytes[1] >> 6 != 0x01 {
            return Err(Status::INVALID_FIELD);
        }
        match self.bytes[39] {
            SGL_IN_CAPSULE => Ok(DataLocation::Capsule(self.qword(6))),
            SGL_TRANSPORT => Ok(DataLocation::Transport),
            _ => Err(Status::SGL_TYPE_INVALID),
        }
    }

    /// Data of a command that are at this offset of a capsule with `capsule_bytes` bytes of data.
    pub(crate) fn range_in_capsule(&self, offset: u64, capsule_bytes: usize) -> Result<Range<usize>, Status> {
        let from = usize::try_from(offset).ok().filter(|from| *from <= capsule_bytes);
        let from = from.ok_or(Status::SGL_OFFSET_INVALID)?;
        let end = from + self.data_bytes() as usize;
        if end > capsule_bytes {
            return Err(Status::DATA_SGL_LENGTH_INVALID);
        }
        Ok(from..end)
    }
}

/// Outcome of a command, before it is encoded.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) status: Status,
    /// Dwords 0 and 1 of the completion.
    pub(crate) result: u64,
    /// Data for the host.
    pub(crate) data: Data,
}

impl From<Status> for Outcome {
    fn from(status: Status) -> Self {
        Outcome { status, result: 0, data: Data::new() }
    }
}

impl Outcome {
    pub(crate) fn success() -> Self {
        Status::SUCCESS.into()
    }

    pub(crate) fn result(result: u64) -> Self {
        Outcome { result, ..Outcome::success() }
    }

    pub(crate) fn data(data: impl Into<Data>) -> Self {
        Outcome { data: data.into(), ..Outcome::success() }
    }
}

impl From<Result<Outcome, Status>> for Outcome {
    fn from(result: Result<Outcome, Status>) -> Self {
        result.unwrap_or_else(Outcome::from)
    }
}

/// A completion queue entry (Base figure 90).
pub(crate) fn completion(outcome: &Outcome, sqhd: u16, qid: u16, cid: u16) -> [u8; 16] {
    let mut out = [0; 16];
    out[..8].copy_from_slice(&outcome.result.to_le_bytes());
    out[8..10].copy_from_slice(&sqhd.to_le_bytes());
    out[10..12].copy_from_slice(&qid.to_le_bytes());
    out[12..14].copy_from_slice(&cid.to_le_bytes());
    out[14..].copy_from_slice(&outcome.status.field().to_le_bytes());
    out
}
