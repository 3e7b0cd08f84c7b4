//! The segment map on media: which columns on which drives hold each segment.
//!
//! Every drive has the whole map, in pages of [`ENTRIES_PER_PAGE`] segments, with two places for each page. A changed page is
//! written to the place that does not hold its newest version, on all drives; the newest valid version on any drive
//! counts. Changes of different pages need no order: if two segments claim the same space, the one placed later has
//! it, because space is reused only after the earlier one was discarded, or its new place is durable.

use crate::codec::{RECORDS, Reader, Writer, crc32c};
use crate::geometry::{MAX_COLUMNS, MAX_DRIVES, Profile};
use crate::{ALIGN, AlignedBuf};
use bytes::Bytes;
use smallvec::SmallVec;
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"ASH_SMAP";

/// Segments in a page of the map.
pub const ENTRIES_PER_PAGE: usize = (ALIGN - HEADER_BYTES) / ENTRY_BYTES;

const HEADER_BYTES: usize = 64;
const ENTRY_BYTES: usize = 32 + 5 * MAX_COLUMNS;
const CHECKSUM_AT: usize = HEADER_BYTES - 4;
const NO_SLOT: u8 = 0xff;

/// Where a column begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The slot of its drive.
    pub slot: u8,
    /// Its first granule there.
    pub granule: u32,
    /// Some of its rows are missing: its drive failed while the segment was being written.
    pub stale: bool,
}

/// Flag in the first granule: the column is stale.
const STALE: u32 = 1 << 31;

/// Place of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Unique for every content of a segment: see [`Sectors`](crate::sector::Sectors).
    pub generation: u64,
    /// The salt of the owner that gave it the generation.
    pub salt: u64,
    /// Counter of placements, of any segment.
    pub placed: u64,
    /// No row from here on is durable. Rows before it that were in flight at a crash are missing: nothing refers to
    /// them.
    pub filled: u32,
    /// Its profile.
    pub profile: Profile,
    /// Its columns; `None` where nothing was written, or what was written is lost.
    pub columns: SmallVec<[Option<Column>; MAX_COLUMNS]>,
}

impl Entry {
    /// The index in `columns` of part `part` of row `row`: data columns first, then P, then Q. Parity rotates.
    pub fn index(&self, row: u32, part: usize) -> usize {
        (part + row as usize) % self.columns.len()
    }

    /// The column of a part of a row.
    pub fn column(&self, row: u32, part: usize) -> Option<Column> {
        self.columns.get(self.index(row, part)).copied().flatten()
    }

    /// The columns that are not complete on a drive of this set.
    pub fn lost(&self, drives: u64) -> impl Iterator<Item = usize> {
        let whole = move |column: &Option<Column>| {
            column.is_some_and(|column| !column.stale && drives >> column.slot & 1 == 1)
        };
        self.columns.iter().enumerate().filter(move |(_, column)| !whole(column)).map(|(index, _)| index)
    }

    fn encode(&self, out: &mut Writer<'_>) {
        out.put(&self.generation.to_le_bytes()).put(&self.filled.to_le_bytes());
        out.put(&[self.profile.data, self.profile.parity, 0, 0]);
        for index in 0..MAX_COLUMNS {
            let column = self.columns.get(index).copied().flatten();
            let column = column.unwrap_or(Column { slot: NO_SLOT, granule: 0, stale: false });
            let granule = column.granule | if column.stale { STALE } else { 0 };
            out.put(&[column.slot]).put(&granule.to_le_bytes());
        }
        out.put(&self.placed.to_le_bytes()).put(&self.salt.to_le_bytes());
    }

    /// `Some(None)` for a free segment; `None` if the entry is invalid.
    fn decode(from: &mut Reader<'_>) -> Option<Option<Self>> {
        let (generation, filled) = (from.u64()?, from.u32()?);
        let [data, parity, _, _] = from.take()?;
        let profile = Profile { data, parity };
        let mut columns = SmallVec::new();
        for index in 0..MAX_COLUMNS {
            let [slot] = from.take()?;
            let granule = from.u32()?;
            if index < profile.width() {
                let column = Column { slot, granule: granule & !STALE, stale: granule & STALE != 0 };
                columns.push((usize::from(slot) < MAX_DRIVES).then_some(column));
            }
        }
        let (placed, salt) = (from.u64()?, from.u64()?);
        if generation == 0 {
            return Some(None);
        }
        let sound = data > 0 && parity <= 2 && profile.width() <= MAX_COLUMNS;
        sound.then_some(Some(Self { generation, salt, placed, filled, profile, columns }))
    }
}

/// A page of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its number: it begins with segment `number * ENTRIES_PER_PAGE`.
    pub number: u32,
    /// The owner that wrote it.
    pub epoch: u64,
    /// Incremented by every commit of an owner.
    pub sequence: u64,
    /// At most [`ENTRIES_PER_PAGE`] segments; the rest is free.
    pub entries: Vec<Option<Arc<Entry>>>,
}

impl Page {
    /// Encodes the page.
    pub fn encode(&self, array: u128) -> Bytes {
        let mut page = AlignedBuf::zeroed(ALIGN);
        let mut out = Writer::new(&mut page);
        out.put(&MAGIC).put(&array.to_le_bytes());
        out.put(&self.number.to_le_bytes()).put(&[0; 4]);
        out.put(&self.epoch.to_le_bytes()).put(&self.sequence.to_le_bytes());
        for (index, entry) in self.entries.iter().take(ENTRIES_PER_PAGE).enumerate() {
            if let Some(entry) = entry {
                let at = HEADER_BYTES + index * ENTRY_BYTES;
                entry.encode(&mut Writer::new(&mut page[at..at + ENTRY_BYTES]));
            }
        }
        let checksum = crc32c([&page[..CHECKSUM_AT], &page[HEADER_BYTES..]]);
        page[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        Arc::new(page).share(0..ALIGN)
    }

    /// Decodes a page; `None` if it is not a valid one of this array.
    pub fn decode(page: &[u8], array: u128) -> Option<Self> {
        let (front, entries) = page.get(..ALIGN)?.split_at_checked(HEADER_BYTES)?;
        let (covered, checksum) = front.split_at_checked(CHECKSUM_AT)?;
        let mut from = Reader(covered);
        if from.take() != Some(MAGIC)
            || Reader(checksum).u32() != Some(crc32c([covered, entries]))
            || from.u128() != Some(array)
        {
            return None;
        }
        let (number, version) = (from.u32()?, from.u32()?);
        if !RECORDS.reads(version) {
            return None;
        }
        let (epoch, sequence) = (from.u64()?, from.u64()?);
        let mut from = Reader(entries);
        let decoded: Option<Vec<_>> = (0..ENTRIES_PER_PAGE)
            .map(|_| Entry::decode(&mut from).map(|entry| entry.map(Arc::new)))
            .collect();
        Some(Self { number, epoch, sequence, entries: decoded? })
    }

    /// The version of a valid page of this array, if this release can't read it.
    pub fn unknown_version(page: &[u8], array: u128) -> Option<u32> {
        let (front, entries) = page.get(..ALIGN)?.split_at_checked(HEADER_BYTES)?;
        let (covered, checksum) = front.split_at_checked(CHECKSUM_AT)?;
        let mut from = Reader(covered);
        let valid = from.take() == Some(MAGIC)
            && Reader(checksum).u32() == Some(crc32c([covered, entries]))
            && from.u128() == Some(array);
        from.u32()?;
        from.u32().filter(|version| valid && !RECORDS.reads(*version))
    }

    /// Orders versions of a page: the newer one is greater.
    pub fn age(&self) -> (u64, u64) {
        (self.epoch, self.sequence)
    }
}
