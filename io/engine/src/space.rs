//! Bytes in use, counted as they change: per segment, and for the whole array.

use crate::codec::{Malformed, Put, Take};
use crate::root::Root;
use shelf::SegmentId;

/// Where an object lies in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Segment.
    pub segment: u32,
    /// Offset in bytes from the segment's start.
    pub offset: u32,
    /// Length in bytes with the object's header; zero when it is nowhere.
    pub len: u32,
}

impl Place {
    /// The segment as the shelf names it.
    pub fn segment(self) -> SegmentId {
        SegmentId(self.segment)
    }

    /// True when it is nowhere.
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

    /// Reads what [`Place::put`] wrote.
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

/// Live bytes of every segment, with their sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    segments: Vec<Live>,
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
        Self { segments: vec![Live::default(); segments as usize], ..Self::default() }
    }

    /// What a checkpoint counted, in a log of at least as many segments.
    pub fn from_root(root: &Root, segments: u32) -> Self {
        let mut usage =
            Self { segments: root.segments.clone(), unique_blocks: root.unique_blocks, ..Self::default() };
        usage.segments.resize(segments as usize, Live::default());
        usage.physical = usage.segments.iter().map(|live| live.data).sum();
        usage.metadata = usage.segments.iter().map(|live| live.meta).sum();
        usage
    }

    /// Goes on with more segments; they are empty.
    pub fn grow(&mut self, segments: u32) {
        let known = self.segments.len();
        self.segments.resize(known.max(segments as usize), Live::default());
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
        self.segments[segment as usize].data += share;
        self.physical += share;
        self.unique_blocks += 1;
    }

    /// A block died.
    pub fn sub_block(&mut self, segment: u32, share: u64) {
        self.segments[segment as usize].data -= share;
        self.physical -= share;
        self.unique_blocks -= 1;
    }

    /// Metadata moved from one place to another; either may be none.
    pub fn move_meta(&mut self, from: Place, to: Place) {
        for (place, grow) in [(from, false), (to, true)] {
            if place.is_none() {
                continue;
            }
            let len = u64::from(place.len);
            let live = &mut self.segments[place.segment as usize].meta;
            (*live, self.metadata) =
                if grow { (*live + len, self.metadata + len) } else { (*live - len, self.metadata - len) };
        }
    }
}

/// Space of the whole array in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceReport {
    /// Sum of the volumes' sizes.
    pub provisioned: u64,
    /// Mapped by the hosts on all volumes.
    pub mapped: u64,
    /// Left of it after zero detection and deduplication: distinct blocks in the log, and those on their way to it.
    pub unique: u64,
    /// What the distinct blocks take in the log after compression, and those on their way to it.
    pub physical: u64,
    /// Maps, frame table and the rest of the engine's own data in the log.
    pub metadata: u64,
    /// Can still be written before [`block::Error::NoSpace`], when nothing reduces.
    pub free: u64,
    /// Size of the log, without what is kept for checkpoints and cleaning.
    pub total: u64,
}
