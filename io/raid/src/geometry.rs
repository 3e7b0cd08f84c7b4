//! Geometry: the layout of a drive, computed from the numbers in the labels.
//!
//! Every drive has the same regions in front, followed by as much space for segments as the drive has:
//!
//! ```text
//! label A, key | superblock 0 | superblock 1 | segment map | journal | granules …            | label B
//! 0              64 KiB                                                                        last page
//! ```
//!
//! A segment is `rows` stripes of `stripe_pages` sectors of payload each, independent of the drives that hold it. With `data` columns
//! of payload, each column has `stripe_pages / data` sectors of every stripe (rounded up: the chunk) and is contiguous
//! on its drive, row after row. A granule is one page for every row, so a column takes as many granules as its chunk
//! has pages, and columns of any width fill a drive without gaps.

use crate::codec::{Reader, Writer};
use crate::sector::PAYLOAD_BYTES;
use crate::segment_map::ENTRIES_PER_PAGE;
use crate::{ALIGN, Error, Layout};

/// Bytes for label A and the envelope.
pub const LABEL_BYTES: u64 = 64 << 10;

/// A drive smaller than this can't be a member.
pub const MIN_DRIVE_BYTES: u64 = 8 << 20;

/// Header of a journal record and of a superblock.
pub const HEADER_BYTES: usize = 128;

/// Maximum number of drives of one array.
pub const MAX_DRIVES: usize = 64;

/// Maximum number of columns of a segment.
pub const MAX_COLUMNS: usize = 24;

/// Copies of the journal: two drives may fail.
pub const JOURNAL_COPIES: usize = 3;

const PAGE: u64 = ALIGN as u64;

/// Erasure-coding profile of a segment: data columns and parity columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Columns of payload.
    pub data: u8,
    /// Columns of parity, 0 to 2.
    pub parity: u8,
}

impl Profile {
    /// The profile for this many drives: dual parity from three on, a mirror of two, none for one.
    pub fn of(drives: usize) -> Self {
        let drives = drives.clamp(1, MAX_COLUMNS) as u8;
        let parity = (drives - 1).min(2);
        Self { data: drives - parity, parity }
    }

    /// Number of columns.
    pub fn width(self) -> usize {
        usize::from(self.data) + usize::from(self.parity)
    }
}

/// The geometry of a shelf, fixed when it is formatted and part of every label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Sectors of payload in a stripe.
    pub stripe_pages: u32,
    /// Stripes of a segment.
    pub rows: u32,
    /// Entries of the segment map: most segments that there can ever be.
    pub max_segments: u32,
    /// Bytes of each of the two superblock slots.
    pub superblock_bytes: u32,
    /// Bytes of the journal ring on each drive.
    pub journal_bytes: u64,
}

/// Sizes for formatting; those left out are chosen by the size of the drives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// Bytes that one drive holds of a stripe.
    pub chunk_bytes: Option<u32>,
    /// Payload of a segment, rounded down to whole stripes.
    pub segment_bytes: Option<u32>,
    /// Journal ring on each drive.
    pub journal_bytes: Option<u64>,
}

/// How much an array may grow beyond the drives that it is formatted with.
const MAX_GROWTH_FACTOR: u64 = 8;

impl Geometry {
    /// Length of its fields on media.
    pub const ENCODED: usize = 24;

    /// Chooses the geometry for drives of these sizes.
    ///
    /// Small arrays get small segments, at least 64 of them where stripes allow, so that reserves in whole segments
    /// stay proportionate; large ones get 16 MiB, and very large ones more, so that there are no more than a quarter
    /// of a million.
    ///
    /// # Errors
    /// [`Error::Unusable`] when the drives are too small, too many, or `sizes` don't fit.
    pub fn plan(drives: &[u64], sizes: &Sizes) -> Result<Self, Error> {
        if drives.is_empty() || drives.len() > MAX_DRIVES {
            return Err(Error::Unusable(format!(
                "a shelf has 1 to {MAX_DRIVES} drives, not {}",
                drives.len()
            )));
        }
        let smallest = drives.iter().copied().min().unwrap_or(0);
        if smallest < MIN_DRIVE_BYTES {
            return Err(Error::Unusable(format!(
                "the smallest drive has {smallest} bytes; at least {MIN_DRIVE_BYTES} are needed"
            )));
        }
        let profile = Profile::of(drives.len());
        let chunk_bytes = u64::from(sizes.chunk_bytes.unwrap_or(64 << 10));
        if chunk_bytes == 0 || !chunk_bytes.is_multiple_of(PAGE) {
            return Err(Error::Unusable(format!("a chunk of {chunk_bytes} bytes is not whole pages")));
        }
        let stripe_pages = chunk_bytes / PAGE * u64::from(profile.data);
        let journal = (smallest / 16).clamp((smallest / 8).min(2 << 20), 512 << 20);
        let journal_bytes = sizes.journal_bytes.unwrap_or(journal) / PAGE * PAGE;
        let superblock_bytes = (smallest / 256).clamp(64 << 10, 1 << 20) / PAGE * PAGE;
        let front = LABEL_BYTES + 2 * superblock_bytes + journal_bytes;
        let raw: u64 = drives.iter().map(|bytes| bytes.saturating_sub(front)).sum();
        let payload = raw / profile.width() as u64 * u64::from(profile.data);
        let stripe = stripe_pages * PAYLOAD_BYTES as u64;
        let wanted = match sizes.segment_bytes {
            Some(bytes) => u64::from(bytes),
            None => (payload / 64).min(16 << 20).max((payload >> 18).min(512 << 20)),
        };
        // A power of two of rows unless a size was given, so that sizes look familiar.
        let rows = (wanted / stripe).max(1);
        let rows = if sizes.segment_bytes.is_some() { rows } else { 1 << rows.ilog2() };
        let most = (payload / (rows * stripe) + 1) * MAX_GROWTH_FACTOR;
        let plan = Self {
            stripe_pages: u32::try_from(stripe_pages).unwrap_or(u32::MAX),
            rows: u32::try_from(rows).unwrap_or(u32::MAX),
            max_segments: u32::try_from(most.next_multiple_of(ENTRIES_PER_PAGE as u64)).unwrap_or(u32::MAX),
            superblock_bytes: superblock_bytes as u32,
            journal_bytes,
        };
        plan.check(smallest)?;
        Ok(plan)
    }

    /// Checks the numbers against each other and the size of a drive: they may come from media.
    ///
    /// # Errors
    /// [`Error::Unusable`] with the first relation that does not hold.
    pub fn check(&self, drive_bytes: u64) -> Result<(), Error> {
        let page = u128::from(PAGE);
        // In 128 bits nothing that fits in the fields can overflow.
        let map = u128::from(self.max_segments).div_ceil(ENTRIES_PER_PAGE as u128) * 2 * page;
        let front = u128::from(LABEL_BYTES)
            + 2 * u128::from(self.superblock_bytes)
            + map
            + u128::from(self.journal_bytes);
        let granule = u128::from(self.rows) * page;
        let segment = u128::from(self.rows) * u128::from(self.stripe_pages) * page;
        let needed = front.next_multiple_of(1 << 16) + granule + page;
        let aligned = |bytes: u64| bytes > 0 && bytes.is_multiple_of(PAGE);
        let rules = [
            (self.stripe_pages > 0 && self.rows > 0 && segment <= 1 << 30, "segment size"),
            (self.max_segments > 0 && self.max_segments <= 1 << 28, "number of segments"),
            (aligned(self.superblock_bytes.into()), "superblock size"),
            (aligned(self.journal_bytes) && self.journal_bytes >= 256 << 10, "journal size"),
        ];
        if let Some((_, what)) = rules.iter().find(|(holds, _)| !holds) {
            return Err(Error::Unusable(format!("the layout of the drives has an impossible {what}")));
        }
        if needed > u128::from(drive_bytes) {
            return Err(Error::Unusable(format!(
                "a drive of {drive_bytes} bytes is too small for the layout, which needs at least {needed}"
            )));
        }
        Ok(())
    }

    /// Offset of superblock slot 0 or 1.
    pub fn superblock_at(&self, copy: usize) -> u64 {
        LABEL_BYTES + copy as u64 * u64::from(self.superblock_bytes)
    }

    /// Offset of the segment map: two consecutive places for each page.
    pub fn map_at(&self) -> u64 {
        self.superblock_at(2)
    }

    /// Bytes of the pages of the map that `segments` segments have.
    pub fn map_bytes(&self, segments: u32) -> u64 {
        u64::from(segments).div_ceil(ENTRIES_PER_PAGE as u64) * 2 * PAGE
    }

    /// Offset of the journal ring.
    pub fn journal_at(&self) -> u64 {
        self.map_at() + self.map_bytes(self.max_segments)
    }

    /// Offset of the space for segments.
    pub fn granules_at(&self) -> u64 {
        (self.journal_at() + self.journal_bytes).next_multiple_of(1 << 16)
    }

    /// Bytes of a granule: one page for every row.
    pub fn granule_bytes(&self) -> u64 {
        u64::from(self.rows) * PAGE
    }

    /// Granules on a drive of this many bytes.
    pub fn granules(&self, drive_bytes: u64) -> u32 {
        let room = drive_bytes.saturating_sub(PAGE).saturating_sub(self.granules_at());
        (room / self.granule_bytes()).min(1 << 31) as u32
    }

    /// Pages that one column holds of every stripe, which is also the number of granules that it takes.
    pub fn chunk_pages(&self, profile: Profile) -> u32 {
        self.stripe_pages.div_ceil(u32::from(profile.data.max(1)))
    }

    /// Offset on its drive of page `page` of row `row` of a column that begins at `granule`.
    pub fn page_at(&self, profile: Profile, granule: u32, row: u32, page: u32) -> u64 {
        let within = u64::from(row) * u64::from(self.chunk_pages(profile)) + u64::from(page);
        self.granules_at() + u64::from(granule) * self.granule_bytes() + within * PAGE
    }

    /// Payload of a stripe.
    pub fn stripe_bytes(&self) -> u32 {
        self.stripe_pages * PAYLOAD_BYTES as u32
    }

    /// The sizes for the engine.
    pub fn layout(&self, segments: u32) -> Layout {
        Layout {
            segment_bytes: self.rows * self.stripe_bytes(),
            stripe_bytes: self.stripe_bytes(),
            segments,
            // The takeover record of the next owner must always find its page.
            journal_bytes: self.journal_bytes - PAGE,
            batch_bytes: (self.journal_bytes / 4).min(16 << 20) as u32 / ALIGN as u32 * ALIGN as u32,
            superblock_bytes: self.superblock_bytes - HEADER_BYTES as u32,
        }
    }

    /// Encodes its fields.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.put(&self.stripe_pages.to_le_bytes())
            .put(&self.rows.to_le_bytes())
            .put(&self.max_segments.to_le_bytes())
            .put(&self.superblock_bytes.to_le_bytes())
            .put(&self.journal_bytes.to_le_bytes());
    }

    /// Decodes its fields, unchecked.
    pub fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            stripe_pages: from.u32()?,
            rows: from.u32()?,
            max_segments: from.u32()?,
            superblock_bytes: from.u32()?,
            journal_bytes: from.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_survive_two_drives_wherever_there_are_three() {
        let profile = |drives| {
            let Profile { data, parity } = Profile::of(drives);
            (data, parity)
        };
        let expected = [(1, 0), (1, 1), (1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (6, 2)];
        assert!((1..=8).map(profile).eq(expected));
        assert_eq!((profile(16), profile(24), profile(60)), ((14, 2), (22, 2), (22, 2)));
    }

    #[test]
    fn numbers_from_media_that_are_too_large_are_refused_without_overflow() {
        let plan = Geometry::plan(&[64 << 20; 4], &Sizes::default()).unwrap();
        assert!(plan.check(64 << 20).is_ok());
        for huge in [
            Geometry { rows: u32::MAX, ..plan },
            Geometry { rows: u32::MAX, stripe_pages: u32::MAX, ..plan },
            Geometry { max_segments: u32::MAX, ..plan },
            Geometry { journal_bytes: u64::MAX, superblock_bytes: u32::MAX, ..plan },
        ] {
            let error = huge.check(u64::MAX).unwrap_err().to_string();
            assert!(!error.contains("Geometry"), "{error}");
        }
        let small = plan.check(1 << 20).unwrap_err().to_string();
        assert!(small.starts_with("a drive of 1048576 bytes is too small"), "{small}");
    }

    #[test]
    fn usable_space_is_what_dual_parity_leaves() {
        for (drives, part) in [(8, 0.75), (16, 0.875)] {
            let plan = Geometry::plan(&vec![64 << 30; drives], &Sizes::default()).unwrap();
            let profile = Profile::of(drives);
            let segments = plan.granules(64 << 30) / plan.chunk_pages(profile);
            let usable = u64::from(segments) * u64::from(plan.layout(segments).segment_bytes);
            let share = usable as f64 / (drives as f64 * (64u64 << 30) as f64);
            assert!(share > part - 0.02 && share < part, "{drives} drives: {share}");
        }
    }
}
