//! Large journal batches: the body lies striped over drives, with dual parity, instead of in every copy.
//!
//! Each drive of the set has one **column** of the body, at the same address of its ring, behind where the front of the
//! batch (header and head) lies on the drives that have copies of the journal. Columns of data come first, then P and Q;
//! the drives take turns, batch by batch, at having each of them. Any two may be lost. The header has a checksum of every
//! column, so that what is found proves to be the right one, or counts as lost.
//!
//! Small batches stay copies: they would be whole pages on more drives, and have to wait for all of them.

use crate::codec::crc32c;
use crate::geometry::MOST_COLUMNS;
use crate::{ALIGN, JournalPos, parity};
use smallvec::SmallVec;

/// Columns of parity.
pub const PARITY: usize = 2;

/// Fewer drives have nothing to gain: two columns of data at least.
const LEAST_DRIVES: usize = PARITY + 2;

/// Pages of a body that is striped, at least.
const LEAST_PAGES: usize = 4;

const ZEROS: &[u8] = &[0; ALIGN];

/// The drives that have a column of a batch, as a set of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lanes(u64);

/// Checksums of the parts of a striped batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// CRC32C of everything behind the header up to the body.
    pub front: u32,
    /// CRC32C of every column, in their order; zero behind the last.
    pub columns: [u32; MOST_COLUMNS],
}

impl Lanes {
    /// The drives out of `drives` that a body of so many bytes is best striped over: where the fewest pages are
    /// written, counting every request as one, and of what is as good the fewest pages without that. None when as many
    /// copies are as good. `pos` has all drives take turns.
    pub fn choose(drives: u64, copies: usize, body: usize, pos: JournalPos) -> Option<Self> {
        let (there, pages) = (drives.count_ones() as usize, body / ALIGN);
        if pages < LEAST_PAGES {
            return None;
        }
        let cost = |width: &usize| width * (pages.div_ceil(width - PARITY) + 1);
        let width = (LEAST_DRIVES..=there.min(MOST_COLUMNS)).rev().min_by_key(cost)?;
        if cost(&width) >= copies * (pages + 1) {
            return None;
        }
        let start = (pos.0 % there as u64) as usize;
        let slots: SmallVec<[usize; 64]> = slots(drives).collect();
        let chosen = slots.iter().cycle().skip(start).take(width);
        Some(Self(chosen.fold(0, |set, slot| set | 1 << slot)))
    }

    /// Lanes as a header names them; none when no writer would have chosen them for a body of so many bytes.
    pub fn of_media(set: u64, body: usize) -> Option<Self> {
        let (lanes, pages) = (Self(set), body / ALIGN);
        let fits = (LEAST_DRIVES..=MOST_COLUMNS).contains(&lanes.width())
            && body.is_multiple_of(ALIGN)
            && pages > 0
            // The last column of data is not empty.
            && pages.div_ceil(lanes.height(body) / ALIGN) == lanes.data();
        fits.then_some(lanes)
    }

    /// The set of slots.
    pub fn drives(self) -> u64 {
        self.0
    }

    /// Columns that are lost when these drives are left.
    pub fn lost(self, left: u64) -> usize {
        (self.0 & !left).count_ones() as usize
    }

    /// Columns, of data and parity.
    pub fn width(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Columns of data.
    pub fn data(self) -> usize {
        self.width() - PARITY
    }

    /// Bytes of the longest column, which every parity has: what a body of so many bytes takes of the ring.
    pub fn height(self, body: usize) -> usize {
        (body / ALIGN).div_ceil(self.data()) * ALIGN
    }

    /// The part of the body that column `index` of data has.
    pub fn part(self, index: usize, body: usize) -> std::ops::Range<usize> {
        let height = self.height(body);
        (index * height).min(body)..((index + 1) * height).min(body)
    }

    /// Bytes of column `index`.
    pub fn len(self, index: usize, body: usize) -> usize {
        if index < self.data() { self.part(index, body).len() } else { self.height(body) }
    }

    /// The slots, in the order of the columns that they have of batch `pos`.
    pub fn order(self, pos: JournalPos) -> SmallVec<[usize; MOST_COLUMNS]> {
        let mut order: SmallVec<[usize; MOST_COLUMNS]> = slots(self.0).collect();
        let turn = (pos.0 % order.len() as u64) as usize;
        order.rotate_left(turn);
        order
    }

    /// P and Q of a body, one behind the other, into `parities`.
    ///
    /// # Panics
    /// When that is not [`PARITY`] times [`Lanes::height`] long.
    pub fn compute(self, body: &[&[u8]], parities: &mut [u8]) {
        let rows = body.len().div_ceil(self.data());
        assert_eq!(parities.len(), PARITY * rows * ALIGN, "room for the parities");
        let (p, q) = parities.split_at_mut(rows * ALIGN);
        for (row, (p, q)) in p.chunks_exact_mut(ALIGN).zip(q.chunks_exact_mut(ALIGN)).enumerate() {
            let page = |column| body.get(column * rows + row).copied().unwrap_or(ZEROS);
            let columns: SmallVec<[&[u8]; MOST_COLUMNS]> = (0..self.data()).map(page).collect();
            parity::compute(&columns, p, Some(q));
        }
    }

    /// The checksums of all columns, of the pages of a body and its parities.
    pub fn checks(self, body: &[&[u8]], parities: &[u8]) -> [u32; MOST_COLUMNS] {
        let rows = body.len().div_ceil(self.data());
        let mut checks = [0; MOST_COLUMNS];
        let data = body.chunks(rows).map(|column| crc32c(column.iter().copied()));
        let parities = parities.chunks(rows * ALIGN).map(|column| crc32c([column]));
        checks.iter_mut().zip(data.chain(parities)).for_each(|(check, found)| *check = found);
        checks
    }

    /// The body out of the columns that are there, in order; none when too few are.
    ///
    /// # Panics
    /// When a column has another length than [`Lanes::len`].
    pub fn join(self, columns: &[Option<impl AsRef<[u8]>>], body: usize) -> Option<Vec<u8>> {
        let height = self.height(body);
        let (data, parities) = columns.split_at(self.data());
        let whole: Vec<Option<Vec<u8>>> = data
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let mut column = column.as_ref()?.as_ref().to_vec();
                assert_eq!(column.len(), self.len(index, body), "column {index}");
                column.resize(height, 0);
                Some(column)
            })
            .collect();
        let known: Vec<Option<&[u8]>> = whole.iter().map(Option::as_deref).collect();
        let [p, q] = [0, 1].map(|which| parities[which].as_ref().map(AsRef::as_ref));
        let mut lost = parity::reconstruct(&parity::Known { data: &known, p, q }, height)?.into_iter();
        let mut joined = Vec::with_capacity(self.data() * height);
        for column in whole {
            joined.extend_from_slice(&column.or_else(|| lost.next())?);
        }
        joined.truncate(body);
        Some(joined)
    }
}

/// The slots in a set of bits.
fn slots(set: u64) -> impl Iterator<Item = usize> {
    (0..u64::BITS as usize).filter(move |slot| set >> slot & 1 == 1)
}

#[cfg(test)]
#[path = "striping_test.rs"]
mod tests;
