//! The store contract: what the engine requires of its storage.
//!
//! A shelf is a journal, segments and a superblock. The engine is written against this trait alone, so that the same
//! engine runs on local drives (crate `raid`) and on other stores.

use crate::{AlignedBuf, Done, Workers};
use bytes::Bytes;
use std::sync::Arc;

/// Sizes fixed when the shelf was formatted, in bytes unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of payload in a segment; a multiple of `stripe_bytes`.
    pub segment_bytes: u32,
    /// The unit in which a segment is written, front to back: the payload of a full stripe. Any number of bytes.
    pub stripe_bytes: u32,
    /// Number of segments. It may grow while the shelf is open, when space is added.
    pub segments: u32,
    /// Capacity of the journal: it must be trimmed before [`Shelf::journal_taken`] exceeds this. A batch takes at most
    /// [`Shelf::journal_cost`]. Every opening since the last trim may have taken one page more.
    pub journal_bytes: u64,
    /// Largest `head` plus `body` of one journal batch.
    pub batch_bytes: u32,
    /// Largest superblock payload.
    pub superblock_bytes: u32,
}

impl Layout {
    /// Asserts what every [`Shelf::write`] demands: whole stripes, `len` bytes at `offset`, inside of a segment.
    ///
    /// # Panics
    /// When they are not: the caller knows the layout.
    pub fn assert_stripes(&self, segment: SegmentId, offset: u32, len: usize) {
        assert!(
            segment.0 < self.segments
                && offset.is_multiple_of(self.stripe_bytes)
                && len.is_multiple_of(self.stripe_bytes as usize)
                && u64::from(offset) + len as u64 <= u64::from(self.segment_bytes),
            "whole stripes inside of a segment: {}, {len} bytes at {offset}",
            segment.0
        );
    }
}

/// A segment of the log, `0..Layout::segments`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub u32);

/// Number of free segments that can still be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// With full redundancy: these and all segments in use have the redundancy that the store can give now.
    pub protected: u32,
    /// With any redundancy. A writer that stays within it is never refused for lack of space.
    pub any: u32,
}

/// The number of a journal batch: 1, 2, 3… over the whole life of the shelf, without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JournalPos(pub u64);

/// One writing of a segment, from its begin to the next discard. No other writing of any segment has the same numbers, so that
/// pages verify that they are of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Writing {
    /// A number that its owner gave to no other writing.
    pub generation: u64,
    /// The random number of that owner.
    pub salt: u64,
}

/// Where bytes of a segment come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The opening of the shelf that says so: a number that no other opening has.
    pub opening: u64,
    /// The writing that they are of.
    pub writing: Writing,
}

/// Reads segments of a store that another process owns. It changes nothing.
pub trait SegmentReader: Send + Sync {
    /// Reads the bytes of `range`, offset and length, which may be any numbers: exactly the bytes of this writing, or
    /// an error, whatever the owner does at the same time.
    fn read(&self, segment: SegmentId, writing: Writing, range: (u32, u32), done: Done<Bytes>);
}

/// One durable group commit as recovery finds it.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Its number.
    pub pos: JournalPos,
    /// The descriptors, as appended.
    pub head: Bytes,
    /// The data pages, as appended, in one piece.
    pub body: Bytes,
}

/// The root record of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The first journal batch that recovery needs; earlier ones may be overwritten once this is durable.
    pub journal_from: JournalPos,
    /// The engine's own root, opaque here.
    pub payload: Bytes,
}

/// Redundant, append-only space with a journal. It has one owner at a time: opening takes a new, higher epoch, which is
/// made durable, and superblocks of an older owner are refused with [`Error::Fenced`](crate::Error::Fenced) from then on.
///
/// No method blocks; outcomes come through [`Done`], or through [`wait`](crate::wait) as a future. The module
/// [`conformance`](crate::conformance) tests that an implementation keeps this contract.
pub trait Shelf: Send + Sync {
    /// Sizes, fixed for the life of the shelf except that segments may be added.
    fn layout(&self) -> Layout;

    /// From now on the store computes on these workers what no host waits for: redundancy, rebuild, repair. Before that, and in
    /// a store that keeps this default, the caller of each method computes.
    fn use_workers(&self, workers: &Workers) {
        let _ = workers;
    }

    /// Bytes of [`Layout::journal_bytes`] that a batch takes at most, with the store's own headers and padding.
    fn journal_cost(&self, head: usize, body: usize) -> u64;

    /// Segments that can be written now. Fewer than the free segments if the store has lost space. A shelf that always has room
    /// for all of its segments, or that has stopped, keeps this default.
    fn room(&self) -> Room {
        Room { protected: u32::MAX, any: u32::MAX }
    }

    /// True while writes wait because the underlying storage is full. They are retried until they succeed; reads and
    /// the journal continue.
    fn is_starved(&self) -> bool {
        false
    }

    /// Appends one batch to the journal and completes when it is durable with full redundancy. Batches become durable in
    /// the order of the calls: when one is completed, all before it are durable too. Several may be in flight.
    ///
    /// `head` describes what is in `body` and means nothing to the shelf; it shares the batch's first page with the
    /// shelf's own header. Every piece of `body` is aligned to 4096 bytes in memory and a multiple of 4096
    /// long, so that it goes to the device without a copy (see [`AlignedBuf::share`]). An error is final for this owner,
    /// except [`Error::JournalFull`](crate::Error::JournalFull), which is returned immediately: nothing was written, and after a superblock that trims
    /// the journal the batch may be appended again.
    ///
    /// # Panics
    /// When `head` and `body` together are longer than [`Layout::batch_bytes`].
    fn append(&self, head: Bytes, body: Vec<Bytes>, done: Done<JournalPos>);

    /// Bytes of [`Layout::journal_bytes`] that the untrimmed batches before `pos` take, including those in flight.
    /// Zero before the journal of an older owner has been recovered.
    fn journal_taken(&self, pos: JournalPos) -> u64;

    /// True while batches in the journal have less redundancy than when they were appended, because a drive that holds a
    /// part of them has failed, or can't be removed because of them. A superblock that trims them restores it.
    fn wants_trim(&self) -> bool {
        false
    }

    /// Replays the journal from `from` to its end: every batch whose append was completed, in order, and perhaps some
    /// that were not. A torn or stale batch ends it. Called once after opening, before the first append; it may be
    /// skipped on a shelf that was just formatted.
    fn recover(&self, from: JournalPos, done: Done<Vec<Batch>>);

    /// Writes whole stripes of a segment at `offset`, a multiple of `stripe_bytes`. Not durable before a later
    /// [`Shelf::sync`]. Calls for a segment come in the order of the offsets, without gaps, and need not wait for each
    /// other. A stripe is written once after [`Shelf::discard`], never twice, and a segment that an older owner began is
    /// discarded before it is written again.
    fn write(&self, segment: SegmentId, offset: u32, stripes: Arc<AlignedBuf>, done: Done<()>);

    /// Reads `len` bytes of a segment at `offset`, any alignment; returns exactly these bytes. They are
    /// verified as far as the shelf can; reads of bytes never written are [`Error::Corrupt`](crate::Error::Corrupt) or arbitrary.
    fn read(&self, segment: SegmentId, offset: u32, len: u32, done: Done<Bytes>);

    /// The same for work that no host waits for: verified on the workers.
    fn read_in_background(&self, segment: SegmentId, offset: u32, len: u32, done: Done<Bytes>) {
        self.read(segment, offset, len, done);
    }

    /// How another process reads these bytes, which are written and durable, by a [`SegmentReader`]. `None` if it can't, or the
    /// shelf does not know.
    fn source(&self, segment: SegmentId, offset: u32, len: u32) -> Option<Source> {
        let _ = (segment, offset, len);
        None
    }

    /// Completes when every segment write that was completed before the call is durable.
    fn sync(&self, done: Done<()>);

    /// Frees a segment: its contents are no longer needed, and it may be written again from its front. Early
    /// discards give the shelf more space to protect the remaining data. Discarding twice has no further effect.
    fn discard(&self, segment: SegmentId);

    /// Writes all copies of the superblock durably. Journal batches before
    /// `superblock.journal_from` are trimmed when it completes. A store whose segments hold data may refuse to open
    /// without one.
    fn write_superblock(&self, superblock: Superblock, done: Done<()>);

    /// The newest valid superblock; `None` on a shelf that was just formatted.
    fn superblock(&self) -> Option<Superblock>;
}
