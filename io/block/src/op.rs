//! Operations on a disk, their results and errors.

use crate::{Data, Disk, DiskId, Recipe};
use std::sync::Arc;

/// A run of logical blocks of one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// First logical block.
    pub lba: u64,
    /// Number of logical blocks; an empty run always succeeds.
    pub blocks: u64,
}

impl Extent {
    /// A run of `blocks` logical blocks from `lba` on.
    pub fn new(lba: u64, blocks: u64) -> Self {
        Self { lba, blocks }
    }

    /// The first block after the run; `None` if that does not fit in 64 bits.
    pub fn end(&self) -> Option<u64> {
        self.lba.checked_add(self.blocks)
    }

    /// True if both runs have a block in common.
    pub fn overlaps(&self, other: &Extent) -> bool {
        let end = |extent: &Extent| extent.lba.saturating_add(extent.blocks);
        self.lba < end(other) && other.lba < end(self)
    }
}

/// One segment of a [`Op::Copy`]. Both disks have the same logical block length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopySegment {
    /// Disk read from.
    pub source: DiskId,
    /// First block read.
    pub source_lba: u64,
    /// Disk written to.
    pub target: DiskId,
    /// First block written.
    pub target_lba: u64,
    /// Number of logical blocks.
    pub blocks: u64,
}

/// An operation on a disk. Each is atomic with respect to every other operation on the same disk, regardless of its
/// length. After an error other than [`Error::Medium`] nothing has taken effect.
#[derive(Clone, Debug)]
pub enum Op {
    /// Read the run; returns [`Reply::Data`]. Blocks never written read as zeros.
    Read(Extent),
    /// As [`Op::Read`], for a reader that shares the store with the disk: returns [`Reply::Located`] or [`Reply::Data`].
    Locate(Extent),
    /// Write `data`, a whole number of logical blocks, from `lba` on. Completes when it is durable.
    Write {
        /// First block written.
        lba: u64,
        /// The bytes; the length gives the number of blocks.
        data: Data,
    },
    /// Write one logical block's bytes to every block of the run (SBC WRITE SAME). All-zero bytes make the run
    /// mapped without storing anything.
    Fill {
        /// The run.
        extent: Extent,
        /// Exactly one logical block.
        block: Data,
    },
    /// Deallocate the runs; they read as zeros afterwards. All runs in one step.
    Unmap(Vec<Extent>),
    /// Compare the blocks at `lba` with `compare` and, only if equal, write `write` of the same length.
    /// A difference is [`Error::Miscompare`].
    CompareAndWrite {
        /// First block.
        lba: u64,
        /// The expected bytes.
        compare: Data,
        /// The bytes that replace them.
        write: Data,
    },
    /// Replace the blocks at `lba` by the bitwise OR of themselves and `data` (SBC ORWRITE).
    Or {
        /// First block.
        lba: u64,
        /// The bytes to merge.
        data: Data,
    },
    /// Perform the segments in order as one step: a later segment sees what an earlier one wrote. Any disk
    /// performs it; the disks are named by the segments. A disk that the receiver can't reach is [`Error::Unreachable`].
    /// If source and target of a segment overlap, the whole source is read before the target is written.
    Copy(Vec<CopySegment>),
    /// Provisioning state of the run; returns [`Reply::Status`].
    Status(Extent),
    /// Make an image of the disk; returns [`Reply::Image`]. It takes no time and no space that depends on the size.
    Image,
    /// When it completes, every operation that completed before is durable.
    Flush,
    /// Store a small opaque state (at most 64 KiB) with the disk; durable when it completes. The front ends store what
    /// must move with the volume: persistent reservations.
    SaveState(bytes::Bytes),
}

impl Op {
    /// True if it changes blocks of the disk that performs it. [`Op::Copy`] changes those that it names.
    pub fn is_change(&self) -> bool {
        match self {
            Op::Write { .. }
            | Op::Fill { .. }
            | Op::Unmap(_)
            | Op::CompareAndWrite { .. }
            | Op::Or { .. } => true,
            Op::Read(_)
            | Op::Locate(_)
            | Op::Copy(_)
            | Op::Status(_)
            | Op::Image
            | Op::Flush
            | Op::SaveState(_) => false,
        }
    }
}

/// Provisioning state of a block (SBC-4 4.7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provisioning {
    /// Written since it was last unmapped.
    Mapped,
    /// Never written, or unmapped.
    Deallocated,
}

/// A run of blocks with the same provisioning state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The run.
    pub extent: Extent,
    /// Its state.
    pub state: Provisioning,
}

/// The result of an [`Op`] that succeeded.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Done, and durable if the operation changed something.
    Done,
    /// The data read: exactly the requested blocks.
    Data(Data),
    /// The location of exactly the requested blocks: only for [`Op::Locate`].
    Located(Recipe),
    /// Regions in order that cover the requested run without gaps; neighbours differ in state.
    Status(Vec<Region>),
    /// The image that [`Op::Image`] made.
    Image(Image),
}

/// The content of a disk at one moment between the start and the completion of [`Op::Image`], as a read-only disk of its
/// own, which only its holders can name. It ends with its last holder, and with the process.
#[derive(Clone)]
pub struct Image(pub Arc<dyn Disk>);

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({:?})", self.0.id())
    }
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The run exceeds the disk.
    #[error("{} blocks from block {} on are outside a disk of {blocks} blocks", extent.blocks, extent.lba)]
    OutOfRange {
        /// The requested run.
        extent: Extent,
        /// Size of the disk in logical blocks.
        blocks: u64,
    },
    /// The lengths in the operation do not fit the disk's block length or each other.
    #[error("malformed operation: {0}")]
    Malformed(&'static str),
    /// COMPARE AND WRITE found other data.
    #[error("data differs at byte {offset}")]
    Miscompare {
        /// Offset in bytes of the first difference from the start of the compared data.
        offset: u64,
    },
    /// No physical space for this write; unmapping or growth makes it possible again.
    #[error("no physical space left")]
    NoSpace,
    /// A block can't be read and could not be reconstructed.
    #[error("unrecoverable data at block {lba}")]
    Medium {
        /// The first such logical block.
        lba: u64,
    },
    /// Temporarily unavailable: starting, or taking over.
    #[error("not ready yet")]
    NotReady,
    /// The disk accepts no changes.
    #[error("read-only")]
    ReadOnly,
    /// A copy names a disk that the receiver can't reach.
    #[error("the disk {:032x} is not reachable from here", _0.0)]
    Unreachable(DiskId),
    /// The store under the disk stopped to protect data; the text says why.
    #[error("stopped: {0}")]
    Stopped(String),
    /// The disk takes no changes while the other array of its synchronous replication is out of reach.
    #[error("the other array of the synchronous replication is out of reach")]
    Unreplicated,
    /// The disk has been deleted.
    #[error("deleted")]
    Deleted,
    /// The disk is retention-locked until this time, in seconds since 1970: it can't be deleted or changed before.
    #[error("retention-locked until {until}")]
    RetentionLocked {
        /// End of the retention.
        until: u64,
    },
}

/// The result of an operation.
pub type Result<T = Reply> = std::result::Result<T, Error>;
