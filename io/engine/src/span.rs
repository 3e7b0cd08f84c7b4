//! Byte ranges of a volume, and how they lie on its 4 KiB blocks.

use crate::entry::BLOCK;
use block::{Error, Extent, Geometry, Result};

const BLOCK_BYTES: u64 = BLOCK as u64;

/// A range of bytes of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub from: u64,
    pub to: u64,
}

impl Span {
    /// The bytes of a run of logical blocks.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the volume does not have all of them.
    pub fn of(Geometry { block_bytes, blocks }: Geometry, extent: Extent) -> Result<Self> {
        match extent.end() {
            Some(end) if end <= blocks => {
                let each = u64::from(block_bytes);
                Ok(Span { from: extent.lba * each, to: end * each })
            }
            _ => Err(Error::OutOfRange { extent, blocks }),
        }
    }

    /// Fails if a volume does not have all of it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn check(self, geometry: Geometry) -> Result<()> {
        let each = u64::from(geometry.block_bytes);
        Self::of(geometry, Extent::new(self.from / each, self.len() / each)).map(drop)
    }

    pub fn is_aligned(self) -> bool {
        self.from.is_multiple_of(BLOCK as u64) && self.to.is_multiple_of(BLOCK as u64)
    }

    /// The first 4 KiB block that it touches, and how many.
    pub fn blocks(self) -> (u64, u64) {
        let first = self.from / BLOCK as u64;
        (first, self.to.div_ceil(BLOCK as u64) - first)
    }

    pub fn len(self) -> u64 {
        self.to - self.from
    }
}

/// The parts of a span: the blocks at its ends that it covers in part, and the whole blocks between them.
pub struct Parts {
    /// Blocks covered in part, with the part.
    pub edges: Vec<(u64, Span)>,
    /// The span of whole blocks; empty when there is none.
    pub whole: Span,
}

impl Span {
    /// The parts of the span.
    pub fn parts(self) -> Parts {
        let (low, high) = (self.from.next_multiple_of(BLOCK_BYTES), self.to / BLOCK_BYTES * BLOCK_BYTES);
        if low > high {
            let part = (self.len() > 0).then_some((self.from / BLOCK_BYTES, self));
            return Parts { edges: part.into_iter().collect(), whole: Span { from: low, to: low } };
        }
        let head = Span { from: self.from, to: low };
        let tail = Span { from: high, to: self.to };
        let edges = [head, tail].into_iter().filter(|edge| edge.len() > 0);
        Parts {
            edges: edges.map(|edge| (edge.from / BLOCK_BYTES, edge)).collect(),
            whole: Span { from: low, to: high },
        }
    }

    /// The span cut at the borders of blocks.
    pub fn each_block(self) -> impl Iterator<Item = Span> {
        let (first, count) = self.blocks();
        (first..first + count).map(move |block| Span {
            from: self.from.max(block * BLOCK_BYTES),
            to: self.to.min((block + 1) * BLOCK_BYTES),
        })
    }

    /// The part in its block.
    pub fn in_block(self) -> std::ops::Range<usize> {
        let base = self.from / BLOCK_BYTES * BLOCK_BYTES;
        (self.from - base) as usize..(self.to - base) as usize
    }
}
