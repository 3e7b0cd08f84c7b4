//! Striping of large journal batches: the body is striped over drives with dual parity instead of copied to each
//! journal copy.
//!
//! Each drive of the set has one **column** of the body, at the same address of its ring, which follows the front of
//! the batch (header and head) on the drives with journal copies. Data columns come first, then P and Q; which drive
//! has which column rotates with every batch. Any two drives may fail. The header has a checksum of every column, so
//! that a column that is found either verifies or counts as lost.
//!
//! Small batches stay copies: striped, they would take whole pages on more drives, and have to wait for all of them.

use crate::codec::crc32c;
use crate::geometry::MAX_COLUMNS;
use crate::{ALIGN, JournalPos, parity};
use smallvec::SmallVec;

/// Parity columns.
pub const PARITY_COLUMNS: usize = 2;

/// Below this striping gains nothing: at least two data columns.
const MIN_STRIPE_DRIVES: usize = PARITY_COLUMNS + 2;

const ZEROS: &[u8] = &[0; ALIGN];

/// The drives that have a column of a batch, as a set of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StripeSet(u64);

/// Checksums of the parts of a striped batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksums {
    /// CRC32C of everything after the header up to the body.
    pub front: u32,
    /// CRC32C of every column, in order; zero after the last.
    pub columns: [u32; MAX_COLUMNS],
}

impl StripeSet {
    /// Chooses the drives out of `drives` to stripe a body over: the set with the fewest pages written, where every
    /// request counts as one more; among equal ones the widest. `None` if copies are as good. The set rotates with
    /// `pos`.
    pub fn choose(drives: u64, copies: usize, body: usize, pos: JournalPos) -> Option<Self> {
        let (there, pages) = (drives.count_ones() as usize, body / ALIGN);
        let cost = |width: &usize| width * (pages.div_ceil(width - PARITY_COLUMNS) + 1);
        let width = (MIN_STRIPE_DRIVES..=there.min(MAX_COLUMNS)).rev().min_by_key(cost)?;
        if cost(&width) >= copies * (pages + 1) {
            return None;
        }
        let start = (pos.0 % there as u64) as usize;
        let slots: SmallVec<[usize; 64]> = slots(drives).collect();
        let chosen = slots.iter().cycle().skip(start).take(width);
        Some(Self(chosen.fold(0, |set, slot| set | 1 << slot)))
    }

    /// Decodes the set in a header; `None` if no writer would have chosen it for a body of this many bytes.
    pub fn from_media(set: u64, body: usize) -> Option<Self> {
        let (stripe_set, pages) = (Self(set), body / ALIGN);
        let fits = (MIN_STRIPE_DRIVES..=MAX_COLUMNS).contains(&stripe_set.width())
            && body.is_multiple_of(ALIGN)
            && pages > 0
            // The last column of data is not empty.
            && pages.div_ceil(stripe_set.height(body) / ALIGN) == stripe_set.data();
        fits.then_some(stripe_set)
    }

    /// The set of slots.
    pub fn drives(self) -> u64 {
        self.0
    }

    /// Columns that are lost if only these drives are left.
    pub fn lost(self, left: u64) -> usize {
        (self.0 & !left).count_ones() as usize
    }

    /// Number of columns, data and parity.
    pub fn width(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Number of data columns.
    pub fn data(self) -> usize {
        self.width() - PARITY_COLUMNS
    }

    /// Length of the longest column, which is that of the parities: what the body takes of each ring.
    pub fn height(self, body: usize) -> usize {
        (body / ALIGN).div_ceil(self.data()) * ALIGN
    }

    /// The part of the body that data column `index` holds.
    pub fn part(self, index: usize, body: usize) -> std::ops::Range<usize> {
        let height = self.height(body);
        (index * height).min(body)..((index + 1) * height).min(body)
    }

    /// Length of column `index`.
    pub fn len(self, index: usize, body: usize) -> usize {
        if index < self.data() { self.part(index, body).len() } else { self.height(body) }
    }

    /// The slots in the order of their columns of batch `pos`.
    pub fn order(self, pos: JournalPos) -> SmallVec<[usize; MAX_COLUMNS]> {
        let mut order: SmallVec<[usize; MAX_COLUMNS]> = slots(self.0).collect();
        let turn = (pos.0 % order.len() as u64) as usize;
        order.rotate_left(turn);
        order
    }

    /// Computes P and Q of a body into `parities`.
    ///
    /// # Panics
    /// When `parities` is not [`PARITY_COLUMNS`] times [`StripeSet::height`] long.
    pub fn compute(self, body: &[&[u8]], parities: &mut [u8]) {
        let rows = body.len().div_ceil(self.data());
        assert_eq!(parities.len(), PARITY_COLUMNS * rows * ALIGN, "room for the parities");
        let (p, q) = parities.split_at_mut(rows * ALIGN);
        for (row, (p, q)) in p.chunks_exact_mut(ALIGN).zip(q.chunks_exact_mut(ALIGN)).enumerate() {
            let page = |column| body.get(column * rows + row).copied().unwrap_or(ZEROS);
            let columns: SmallVec<[&[u8]; MAX_COLUMNS]> = (0..self.data()).map(page).collect();
            parity::compute(&columns, p, Some(q));
        }
    }

    /// The checksums of all columns of a body and its parities.
    pub fn checksums(self, body: &[&[u8]], parities: &[u8]) -> [u32; MAX_COLUMNS] {
        let rows = body.len().div_ceil(self.data());
        let mut checksums = [0; MAX_COLUMNS];
        let data = body.chunks(rows).map(|column| crc32c(column.iter().copied()));
        let parities = parities.chunks(rows * ALIGN).map(|column| crc32c([column]));
        checksums.iter_mut().zip(data.chain(parities)).for_each(|(check, found)| *check = found);
        checksums
    }

    /// Reconstructs the body from the columns that are there, in order; `None` if too few are.
    ///
    /// # Panics
    /// When a column has another length than [`StripeSet::len`].
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
