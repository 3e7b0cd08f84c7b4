//! Space accounting: live bytes, counted as they change, per segment and for the whole array.

use crate::codec::{Malformed, Put, Take};
use crate::entry::{BLOCK, Entry};
use shelf::SegmentId;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where an object lies in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// Segment.
    pub segment: u32,
    /// Offset in bytes from the segment's start.
    pub offset: u32,
    /// Length in bytes with the object's header; zero if it lies nowhere.
    pub len: u32,
}

impl Location {
    /// The segment as the shelf names it.
    pub fn segment(self) -> SegmentId {
        SegmentId(self.segment)
    }

    /// Whether it lies nowhere.
    pub fn is_none(self) -> bool {
        self.len == 0
    }

    /// Writes it with variable-length fields.
    pub fn put(self, out: &mut Vec<u8>) {
        out.var(u64::from(self.len));
        if self.len > 0 {
            out.var(u64::from(self.segment));
            out.var(u64::from(self.offset));
        }
    }

    /// Reads what [`Location::put`] wrote.
    pub fn take(take: &mut Take<'_>) -> Result<Self, Malformed> {
        match take.var32()? {
            0 => Ok(Self::default()),
            len => Ok(Self { len, segment: take.var32()?, offset: take.var32()? }),
        }
    }
}

/// Live bytes of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Shares of frames that are still referred to.
    pub data: u64,
    /// Metadata that the newest state refers to.
    pub meta: u64,
}

impl Live {
    /// Both together.
    pub fn total(self) -> u64 {
        self.data + self.meta
    }
}

/// Number of segments, for readers of free space.
#[derive(Debug)]
pub struct SegmentCounts {
    total: AtomicU32,
    free: AtomicU32,
    usable: AtomicU32,
}

impl SegmentCounts {
    /// This many segments, all in use.
    pub fn new(total: u32) -> Self {
        Self { total: total.into(), free: 0.into(), usable: total.into() }
    }

    /// Segments that there are.
    pub fn total(&self) -> u32 {
        self.total.load(Ordering::Acquire)
    }

    /// Segments in use.
    pub fn used(&self) -> u32 {
        self.total() - self.free.load(Ordering::Acquire)
    }

    /// Segments in use, and the free ones that drives have room for.
    pub fn usable(&self) -> u32 {
        self.usable.load(Ordering::Acquire)
    }

    /// Drives were added.
    pub fn set_total(&self, total: u32) {
        self.total.store(total, Ordering::Release);
    }

    /// Sets the number of free segments.
    pub fn set_free(&self, free: u32) {
        self.free.store(free, Ordering::Release);
    }

    /// Sets the number of segments that fit on the drives: fewer than are free if drives have failed permanently.
    pub fn set_room(&self, room: u32) {
        let free = self.free.load(Ordering::Acquire);
        self.usable.store(self.total() - free + free.min(room), Ordering::Release);
    }
}

/// Live bytes of every segment, with their sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    segments: Vec<Live>,
    /// Segments in which nothing is live.
    empty: u32,
    /// Live data bytes after reduction, frame headers included.
    pub physical: u64,
    /// Live metadata bytes in the log.
    pub metadata: u64,
    /// Blocks in frames with at least one reference.
    pub unique_blocks: u64,
}

impl Usage {
    /// Nothing used in `segments` segments.
    pub fn new(segments: u32) -> Self {
        Self { segments: vec![Live::default(); segments as usize], empty: segments, ..Self::default() }
    }

    /// The data that a checkpoint counted, in a log of at least as many segments, and no metadata.
    pub fn of_data(live: Vec<Live>, unique_blocks: u64, segments: u32) -> Self {
        let mut usage = Self { segments: live, unique_blocks, ..Self::default() };
        usage.segments.resize(segments as usize, Live::default());
        for live in &mut usage.segments {
            live.meta = 0;
            usage.physical += live.data;
            usage.empty += u32::from(live.data == 0);
        }
        usage
    }

    /// Counts an object of metadata.
    pub fn add_meta(&mut self, location: Location) {
        self.move_meta(Location::default(), location);
    }

    /// Adds empty segments.
    pub fn grow(&mut self, segments: u32) {
        let known = self.segments.len();
        self.segments.resize(known.max(segments as usize), Live::default());
        self.empty += (self.segments.len() - known) as u32;
    }

    /// Segments in which nothing is live.
    pub fn empty(&self) -> u32 {
        self.empty
    }

    /// Changes the live bytes of a segment.
    fn change(&mut self, segment: u32, change: impl FnOnce(&mut Live)) {
        let live = &mut self.segments[segment as usize];
        let before = live.total() == 0;
        change(live);
        match (before, live.total() == 0) {
            (true, false) => self.empty -= 1,
            (false, true) => self.empty += 1,
            _ => {}
        }
    }

    /// Live bytes of a segment.
    pub fn of(&self, segment: u32) -> Live {
        self.segments[segment as usize]
    }

    /// Every segment's live bytes, in order.
    pub fn segments(&self) -> &[Live] {
        &self.segments
    }

    /// One more live block, `share` bytes of a frame in `segment`.
    pub fn add_block(&mut self, segment: u32, share: u64) {
        self.change(segment, |live| live.data += share);
        self.physical += share;
        self.unique_blocks += 1;
    }

    /// A block died.
    pub fn sub_block(&mut self, segment: u32, share: u64) {
        // The check finds a checkpoint that counted too little.
        self.change(segment, |live| live.data = live.data.saturating_sub(share));
        self.physical = self.physical.saturating_sub(share);
        self.unique_blocks = self.unique_blocks.saturating_sub(1);
    }

    /// Metadata moved from one location to another; either may be nowhere.
    pub fn move_meta(&mut self, from: Location, to: Location) {
        for (location, grow) in [(from, false), (to, true)] {
            if location.is_none() {
                continue;
            }
            let len = u64::from(location.len);
            let changed = |bytes: u64| if grow { bytes + len } else { bytes.saturating_sub(len) };
            self.change(location.segment, |live| live.meta = changed(live.meta));
            self.metadata = changed(self.metadata);
        }
    }
}

/// Blocks of 4 KiB that hosts have mapped, and how many of these are zeros and take no space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Mapped.
    pub mapped: u64,
    /// Mapped, and zeros.
    pub zero: u64,
}

impl Tally {
    /// What one entry of a leaf counts for.
    pub fn of(entry: Entry) -> Self {
        Self { mapped: u64::from(entry.is_mapped()), zero: u64::from(entry == Entry::ZERO) }
    }
}

impl std::ops::Add for Tally {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        let sum = u64::saturating_add;
        Self { mapped: sum(self.mapped, more.mapped), zero: sum(self.zero, more.zero) }
    }
}

impl std::ops::Sub for Tally {
    type Output = Self;

    fn sub(self, less: Self) -> Self {
        // Exact, unless the counts of a checkpoint contradict each other, which the check finds.
        let difference = u64::saturating_sub;
        Self { mapped: difference(self.mapped, less.mapped), zero: difference(self.zero, less.zero) }
    }
}

impl std::ops::Mul<u64> for Tally {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self { mapped: self.mapped.saturating_mul(times), zero: self.zero.saturating_mul(times) }
    }
}

impl std::iter::Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| sum + one)
    }
}

/// Space of one disk, or of several together, in bytes. Counted as it changes, never by looking at the maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSpace {
    /// Size.
    pub provisioned: u64,
    /// Mapped by hosts, in blocks of 4 KiB.
    pub mapped: u64,
    /// Of that, zeros: they are mapped and stored nowhere.
    pub zero: u64,
}

impl DiskSpace {
    pub(crate) fn new(provisioned: u64, tally: Tally) -> Self {
        let bytes = |blocks: u64| blocks.saturating_mul(BLOCK as u64);
        Self { provisioned, mapped: bytes(tally.mapped), zero: bytes(tally.zero) }
    }

    /// Mapped, and not zeros: what deduplication and compression are to reduce.
    pub fn data(&self) -> u64 {
        self.mapped.saturating_sub(self.zero)
    }
}

impl std::iter::Sum for DiskSpace {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            provisioned: sum.provisioned.saturating_add(one.provisioned),
            mapped: sum.mapped.saturating_add(one.mapped),
            zero: sum.zero.saturating_add(one.zero),
        })
    }
}

/// Space of the whole array, in bytes unless said otherwise. Everything is counted as it changes;
/// [`crate::Engine::check`] counts it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceReport {
    /// Sum of the volumes' sizes, without snapshots.
    pub provisioned: u64,
    /// Mapped by hosts on all volumes, without snapshots.
    pub mapped: u64,
    /// Of that, zeros: they are mapped and stored nowhere.
    pub zero: u64,
    /// Mapped on snapshots and not zeros; most of it is shared with volumes and other snapshots.
    pub snapshot: u64,
    /// Distinct blocks with data, of volumes and snapshots: those in the log, and those on their way to it.
    pub unique: u64,
    /// Logical data of volumes and snapshots beyond the distinct blocks: what sharing saves, by deduplication,
    /// copies, clones and snapshots.
    pub shared: u64,
    /// What the distinct blocks take in the log after compression, and those on their way to it.
    pub physical: u64,
    /// Maps, frame table and the rest of the engine's own data in the log.
    pub metadata: u64,
    /// Bytes of the log that nothing refers to any more: cleaning reclaims them as they are needed.
    pub reclaimable: u64,
    /// Bytes that can still be written before [`block::Error::NoSpace`], if nothing reduces.
    pub free: u64,
    /// Size of the log without the reserve for checkpoints and cleaning. It shrinks when drives have gone and the
    /// others have no room for all of it.
    pub total: u64,
    /// Number of map pages; a page maps at most 2 MiB of volumes, or 512 other pages.
    pub map_pages: u64,
    /// Map pages at most: see [`crate::Options::map_pages`].
    pub map_pages_max: u64,
}
