//! Where everything lies on the drives. Pure arithmetic over the numbers that the labels carry.
//!
//! Every drive has the same plan, measured by the smallest of them:
//!
//! ```text
//! label A | superblock 0 | superblock 1 | journal | segments …            | label B
//! 0         64 KiB                                                         last page
//! ```
//!
//! A segment is the same run of `rows` chunks on every drive; one row over all drives is a stripe. A stripe holds `data`
//! chunks of payload and, once there is parity, the rest of its width behind them. Chunk `c` of row `r` in segment
//! `s` lies on drive `(s + r + c) mod width`, so that first chunks, and later parity, are spread over all drives.

use crate::media::{Reader, Writer};
use crate::{ALIGN, Error, Layout, SegmentId};

/// Bytes kept for label A.
pub const LABEL_BYTES: u64 = 64 << 10;

/// A drive smaller than this can't be a member.
pub const SMALLEST_DRIVE: u64 = 8 << 20;

/// Bytes in front of the payload of a journal record and of a superblock.
pub const HEADER_BYTES: usize = 128;

/// Most drives of one shelf.
pub const WIDEST: usize = 64;

/// Most copies of the journal.
pub const JOURNAL_COPIES: usize = 3;

/// The plan of a shelf, fixed when it is formatted and part of every label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Drives in the shelf.
    pub width: u16,
    /// Chunks of payload in a stripe; the others are parity.
    pub data: u16,
    /// Bytes of a chunk: what one drive holds of a stripe.
    pub chunk_bytes: u32,
    /// Chunks of a segment on each drive.
    pub rows: u32,
    /// Number of segments.
    pub segments: u32,
    /// Bytes of each of the two superblock slots.
    pub superblock_bytes: u32,
    /// Bytes of the journal ring on each drive.
    pub journal_bytes: u64,
}

/// A run of bytes on one drive that holds a part of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The drive's slot.
    pub slot: usize,
    /// First byte on the drive.
    pub at: u64,
    /// Number of bytes.
    pub len: u32,
}

/// Sizes asked for when formatting; what is left out is chosen by the size of the drives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// Bytes that one drive holds of a stripe.
    pub chunk_bytes: Option<u32>,
    /// Payload of a segment, rounded down to whole stripes.
    pub segment_bytes: Option<u32>,
    /// Journal ring on each drive.
    pub journal_bytes: Option<u64>,
}

impl Geometry {
    /// The length of its fields on media.
    pub const ENCODED: usize = 28;

    /// Plans a shelf of `width` drives, the smallest of `drive_bytes`.
    ///
    /// Small arrays get small segments, at least 64 of them where stripes allow, so that what is kept in reserve in
    /// whole segments stays in proportion; large ones get 16 MiB, so that the tables of segments stay short.
    ///
    /// # Errors
    /// [`Error::Unusable`] when the drives are too small, too many, or `sizes` don't fit.
    pub fn plan(width: usize, drive_bytes: u64, sizes: &Sizes) -> Result<Self, Error> {
        if width == 0 || width > WIDEST {
            return Err(Error::Unusable(format!("a shelf has 1 to {WIDEST} drives, not {width}")));
        }
        if drive_bytes < SMALLEST_DRIVE {
            return Err(Error::Unusable(format!(
                "the smallest drive has {drive_bytes} bytes; at least {SMALLEST_DRIVE} are needed"
            )));
        }
        let page = ALIGN as u64;
        let chunk_bytes = sizes.chunk_bytes.unwrap_or(64 << 10);
        let journal = (drive_bytes / 16).clamp((drive_bytes / 8).min(2 << 20), 512 << 20);
        let journal_bytes = sizes.journal_bytes.unwrap_or(journal) / page * page;
        let superblock_bytes = (drive_bytes / 256).clamp(64 << 10, 1 << 20) / page * page;
        let mut plan = Self {
            width: width as u16,
            data: width as u16,
            chunk_bytes,
            rows: 1,
            segments: 0,
            superblock_bytes: superblock_bytes as u32,
            journal_bytes,
        };
        let room = (drive_bytes - page).saturating_sub(plan.segments_at());
        let stripe = u64::from(chunk_bytes) * u64::from(plan.data);
        let payload = room * u64::from(plan.data);
        let wanted = match sizes.segment_bytes {
            Some(bytes) => u64::from(bytes),
            None => (payload / 64).min(16 << 20),
        };
        // A power of two of rows where nothing else was asked for, so that sizes look familiar.
        let rows = (wanted / stripe.max(1)).max(1);
        let rows = if sizes.segment_bytes.is_some() { rows } else { 1 << rows.ilog2() };
        plan.rows = u32::try_from(rows).unwrap_or(u32::MAX);
        plan.segments = u32::try_from(room / plan.rows_bytes().max(1)).unwrap_or(u32::MAX);
        plan.check(drive_bytes)?;
        Ok(plan)
    }

    /// Holds the numbers against each other and the size of a drive: they may come from media.
    ///
    /// # Errors
    /// [`Error::Unusable`] with the first relation that does not hold.
    pub fn check(&self, drive_bytes: u64) -> Result<(), Error> {
        let page = ALIGN as u64;
        // In 128 bits nothing that fits in the fields can overflow.
        let journal_end =
            u128::from(LABEL_BYTES) + 2 * u128::from(self.superblock_bytes) + u128::from(self.journal_bytes);
        let segments = u128::from(self.segments) * u128::from(self.rows) * u128::from(self.chunk_bytes);
        let end =
            journal_end.next_multiple_of(u128::from(self.chunk_bytes.max(1))) + segments + u128::from(page);
        let aligned = |bytes: u64| bytes > 0 && bytes.is_multiple_of(page);
        let segment = u128::from(self.rows) * u128::from(self.chunk_bytes) * u128::from(self.data);
        let rules = [
            (self.width > 0 && usize::from(self.width) <= WIDEST, "number of drives"),
            (self.data > 0 && self.data <= self.width, "number of data chunks"),
            (aligned(self.chunk_bytes.into()), "chunk size"),
            (self.rows > 0 && segment <= 1 << 30, "segment size"),
            (self.segments > 0, "number of segments"),
            (aligned(self.superblock_bytes.into()), "superblock size"),
            (aligned(self.journal_bytes) && self.journal_bytes >= 256 << 10, "journal size"),
            (end <= u128::from(drive_bytes), "size of a drive"),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, what)) => Err(Error::Unusable(format!("the layout does not fit: {what}: {self:?}"))),
            None => Ok(()),
        }
    }

    /// First byte of superblock slot 0 or 1.
    pub fn superblock_at(&self, copy: usize) -> u64 {
        LABEL_BYTES + copy as u64 * u64::from(self.superblock_bytes)
    }

    /// First byte of the journal ring.
    pub fn journal_at(&self) -> u64 {
        self.superblock_at(2)
    }

    /// First byte of segment 0, on a border of chunks.
    pub fn segments_at(&self) -> u64 {
        (self.journal_at() + self.journal_bytes).next_multiple_of(u64::from(self.chunk_bytes.max(1)))
    }

    /// Bytes of a segment on one drive.
    pub fn rows_bytes(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.chunk_bytes)
    }

    /// Payload of a stripe.
    pub fn stripe_bytes(&self) -> u32 {
        u32::from(self.data) * self.chunk_bytes
    }

    /// The sizes as the engine sees them.
    pub fn layout(&self) -> Layout {
        Layout {
            segment_bytes: self.rows * self.stripe_bytes(),
            stripe_bytes: self.stripe_bytes(),
            segments: self.segments,
            // The seal with which the next owner begins must always find its page.
            journal_bytes: self.journal_bytes - ALIGN as u64,
            batch_bytes: (self.journal_bytes / 4).min(16 << 20) as u32 / ALIGN as u32 * ALIGN as u32,
            superblock_bytes: self.superblock_bytes - HEADER_BYTES as u32,
        }
    }

    /// Where the chunks of a segment's bytes `offset..offset + len` lie, in the order of the bytes.
    pub fn pieces(&self, segment: SegmentId, offset: u32, len: u32) -> impl Iterator<Item = Piece> + use<> {
        let plan = *self;
        let start = plan.segments_at() + u64::from(segment.0) * plan.rows_bytes();
        let mut next = offset;
        std::iter::from_fn(move || {
            let left = offset + len - next;
            if left == 0 {
                return None;
            }
            let (index, within) = (next / plan.chunk_bytes, next % plan.chunk_bytes);
            let (row, chunk) = (index / u32::from(plan.data), index % u32::from(plan.data));
            let slot = (u64::from(segment.0) + u64::from(row) + u64::from(chunk)) % u64::from(plan.width);
            let len = left.min(plan.chunk_bytes - within);
            next += len;
            let at = start + u64::from(row) * u64::from(plan.chunk_bytes) + u64::from(within);
            Some(Piece { slot: slot as usize, at, len })
        })
    }

    /// Writes its fields.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.put(&self.width.to_le_bytes())
            .put(&self.data.to_le_bytes())
            .put(&self.chunk_bytes.to_le_bytes())
            .put(&self.rows.to_le_bytes())
            .put(&self.segments.to_le_bytes())
            .put(&self.superblock_bytes.to_le_bytes())
            .put(&self.journal_bytes.to_le_bytes());
    }

    /// Reads its fields; they have not been checked against anything.
    pub fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            width: from.take().map(u16::from_le_bytes)?,
            data: from.take().map(u16::from_le_bytes)?,
            chunk_bytes: from.u32()?,
            rows: from.u32()?,
            segments: from.u32()?,
            superblock_bytes: from.u32()?,
            journal_bytes: from.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_from_media_that_are_too_large_are_refused_without_overflow() {
        let plan = Geometry::plan(4, 64 << 20, &Sizes::default()).unwrap();
        assert!(plan.check(64 << 20).is_ok());
        let chunk_bytes = u32::MAX / ALIGN as u32 * ALIGN as u32;
        for huge in [
            Geometry { rows: u32::MAX, ..plan },
            Geometry { rows: u32::MAX, chunk_bytes, ..plan },
            Geometry { rows: u32::MAX, chunk_bytes, width: 64, data: 64, ..plan },
            Geometry {
                rows: u32::MAX,
                chunk_bytes,
                width: u16::MAX,
                data: u16::MAX,
                segments: u32::MAX,
                ..plan
            },
            Geometry { journal_bytes: u64::MAX, superblock_bytes: u32::MAX, ..plan },
        ] {
            assert!(huge.check(u64::MAX).is_err(), "{huge:?}");
        }
    }
}
