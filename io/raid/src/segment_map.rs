//! The segment map on media: which columns on which drives hold each segment.
//!
//! Every drive has the whole map, in pages of [`ENTRIES`] segments, and two places for each page. A changed page goes
//! to the place that does not hold the newest one, on all drives; the newest whole one on any drive counts. Changes of
//! different pages need no order among them: where two segments claim the same space, the one that was placed later has
//! it, because space is given away only when the one before has been discarded, or its other place is durable.

use crate::codec::{Reader, Writer, crc32c};
use crate::geometry::{Form, MOST_COLUMNS, WIDEST};
use crate::{ALIGN, AlignedBuf};
use bytes::Bytes;
use smallvec::SmallVec;
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"ASH_SMAP";

/// Segments in a page of the map.
pub const ENTRIES: usize = (ALIGN - FRONT) / ENTRY;

const FRONT: usize = 64;
const ENTRY: usize = 32 + 5 * MOST_COLUMNS;
const CHECKSUM_AT: usize = FRONT - 4;
const NO_SLOT: u8 = 0xff;

/// Where a column begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The slot of its drive.
    pub slot: u8,
    /// Its first granule there.
    pub granule: u32,
    /// Some of what should be there is not: its drive went away while the segment was being written.
    pub stale: bool,
}

/// In the place of the first granule: the column is stale.
const STALE: u32 = 1 << 31;

/// Where a segment is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Unique for every content of a segment: see [`Sectors`](crate::sector::Sectors).
    pub generation: u64,
    /// The salt of the owner that gave it the generation.
    pub salt: u64,
    /// Grows with every choice of place, of any segment.
    pub placed: u64,
    /// No row from here on is durable. In front, those are missing that were under way at a crash: nobody reads them.
    pub filled: u32,
    /// Its form.
    pub form: Form,
    /// Its columns, none where nothing was written or what was written is not there.
    pub columns: SmallVec<[Option<Column>; MOST_COLUMNS]>,
}

impl Entry {
    /// The place in `columns` of part `part` of row `row`: data columns first, then P, then Q. Parity goes round.
    pub fn index(&self, row: u32, part: usize) -> usize {
        (part + row as usize) % self.columns.len()
    }

    /// The column of a part of a row.
    pub fn column(&self, row: u32, part: usize) -> Option<Column> {
        self.columns.get(self.index(row, part)).copied().flatten()
    }

    /// The columns that are not whole on a drive of this set.
    pub fn lost(&self, drives: u64) -> impl Iterator<Item = usize> {
        let whole = move |column: &Option<Column>| {
            column.is_some_and(|column| !column.stale && drives >> column.slot & 1 == 1)
        };
        self.columns.iter().enumerate().filter(move |(_, column)| !whole(column)).map(|(index, _)| index)
    }

    fn encode(&self, out: &mut Writer<'_>) {
        out.put(&self.generation.to_le_bytes()).put(&self.filled.to_le_bytes());
        out.put(&[self.form.data, self.form.parity, 0, 0]);
        for index in 0..MOST_COLUMNS {
            let column = self.columns.get(index).copied().flatten();
            let column = column.unwrap_or(Column { slot: NO_SLOT, granule: 0, stale: false });
            let granule = column.granule | if column.stale { STALE } else { 0 };
            out.put(&[column.slot]).put(&granule.to_le_bytes());
        }
        out.put(&self.placed.to_le_bytes()).put(&self.salt.to_le_bytes());
    }

    /// None when the place is empty; an error when it makes no sense.
    fn decode(from: &mut Reader<'_>) -> Option<Option<Self>> {
        let (generation, filled) = (from.u64()?, from.u32()?);
        let [data, parity, _, _] = from.take()?;
        let form = Form { data, parity };
        let mut columns = SmallVec::new();
        for index in 0..MOST_COLUMNS {
            let [slot] = from.take()?;
            let granule = from.u32()?;
            if index < form.width() {
                let column = Column { slot, granule: granule & !STALE, stale: granule & STALE != 0 };
                columns.push((usize::from(slot) < WIDEST).then_some(column));
            }
        }
        let (placed, salt) = (from.u64()?, from.u64()?);
        if generation == 0 {
            return Some(None);
        }
        let sound = data > 0 && parity <= 2 && form.width() <= MOST_COLUMNS;
        sound.then_some(Some(Self { generation, salt, placed, filled, form, columns }))
    }
}

/// A page of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its number: it begins with segment `number * ENTRIES`.
    pub number: u32,
    /// The owner that wrote it.
    pub epoch: u64,
    /// One more with every commit of an owner.
    pub sequence: u64,
    /// At most [`ENTRIES`] segments; what is behind them is empty.
    pub entries: Vec<Option<Arc<Entry>>>,
}

impl Page {
    /// The page as it is written.
    pub fn encode(&self, array: u128) -> Bytes {
        let mut page = AlignedBuf::zeroed(ALIGN);
        let mut out = Writer::new(&mut page);
        out.put(&MAGIC).put(&array.to_le_bytes());
        out.put(&self.number.to_le_bytes()).put(&[0; 4]);
        out.put(&self.epoch.to_le_bytes()).put(&self.sequence.to_le_bytes());
        for (index, entry) in self.entries.iter().take(ENTRIES).enumerate() {
            if let Some(entry) = entry {
                let at = FRONT + index * ENTRY;
                entry.encode(&mut Writer::new(&mut page[at..at + ENTRY]));
            }
        }
        let checksum = crc32c([&page[..CHECKSUM_AT], &page[FRONT..]]);
        page[CHECKSUM_AT..FRONT].copy_from_slice(&checksum.to_le_bytes());
        Arc::new(page).share(0..ALIGN)
    }

    /// What a page holds; none when it is not a whole one of this array.
    pub fn decode(page: &[u8], array: u128) -> Option<Self> {
        let (front, entries) = page.get(..ALIGN)?.split_at_checked(FRONT)?;
        let (covered, checksum) = front.split_at_checked(CHECKSUM_AT)?;
        let mut from = Reader(covered);
        if from.take() != Some(MAGIC)
            || Reader(checksum).u32() != Some(crc32c([covered, entries]))
            || from.u128() != Some(array)
        {
            return None;
        }
        let number = from.u32()?;
        from.take::<4>()?;
        let (epoch, sequence) = (from.u64()?, from.u64()?);
        let mut from = Reader(entries);
        let decoded: Option<Vec<_>> =
            (0..ENTRIES).map(|_| Entry::decode(&mut from).map(|entry| entry.map(Arc::new))).collect();
        Some(Self { number, epoch, sequence, entries: decoded? })
    }

    /// Which of two pages of one number is newer.
    pub fn age(&self) -> (u64, u64) {
        (self.epoch, self.sequence)
    }
}
