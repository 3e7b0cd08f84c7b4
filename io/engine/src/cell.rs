//! Cells: blocks of a frame that are compressed and verified one by one. A read of one block reads, verifies and decodes
//! that one alone, and a frame loses its dead blocks without decoding those that stay.
//!
//! The checksum of a cell covers its bytes and, as a seed, the block's name, so that a cell of another frame is not taken
//! for this one without reading the frame's header.

use crate::codec::Malformed;
use crate::entry::{BLOCK, BlockId};
use crate::record::checksum;
use std::ops::Range;

/// Blocks of a frame, one bit each.
pub type Blocks = u8;

/// All blocks that a frame can have.
pub const ALL: Blocks = 0xff;

/// The block indexes of a set, in order.
pub fn indexes(blocks: Blocks) -> impl Iterator<Item = u8> {
    (0..BlockId::PER_FRAME as u8).filter(move |index| blocks >> index & 1 == 1)
}

/// Bytes of the checksum before the data of a cell.
pub const CHECKSUM: usize = 4;

/// How the data of a cell is encoded: the upper four bits of a [`Cell`].
const RAW: u16 = 0;
const LZ4: u16 = 1;

/// Bytes that compressed data may take at most: compression has to save at least a sixteenth.
pub const fn max_compressed_len(bytes: usize) -> usize {
    bytes - bytes / 16
}

/// Bytes that a compressed cell may take at most.
pub const MAX_COMPRESSED: usize = max_compressed_len(BLOCK);

/// Length in bytes and encoding of one cell: the lower twelve bits are the length of the data less one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell(u16);

impl Cell {
    fn new(encoding: u16, len: usize) -> Self {
        assert!((1..=BLOCK).contains(&len), "a cell has up to a block of data");
        Self(encoding << 12 | (len - 1) as u16)
    }

    /// Bytes of its data.
    fn len(self) -> usize {
        usize::from(self.0 & 0xfff) + 1
    }

    fn is_valid(self) -> bool {
        match self.0 >> 12 {
            RAW => self.len() == BLOCK,
            LZ4 => self.len() <= MAX_COMPRESSED,
            _ => false,
        }
    }
}

/// The cells of a frame, in the order of their blocks. A block without a cell has the value of an invalid cell, 0.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Cells([u16; BlockId::PER_FRAME]);

impl Cells {
    /// No cells: the frame has its blocks in one piece.
    pub const NONE: Self = Self([0; BlockId::PER_FRAME]);

    /// Bytes of one cell in the list of a frame.
    pub const LISTED: usize = size_of::<u16>();

    /// Whether the frame has its blocks in one piece.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// The blocks that have a cell.
    pub fn blocks(&self) -> Blocks {
        (0..BlockId::PER_FRAME).fold(0, |blocks, index| blocks | u8::from(self.0[index] != 0) << index)
    }

    /// Those of `blocks` alone.
    pub fn only(&self, blocks: Blocks) -> Self {
        let mut cells = Self::NONE;
        indexes(blocks).for_each(|index| cells.0[usize::from(index)] = self.0[usize::from(index)]);
        cells
    }

    /// The numbers that describe the cells, in the order of the blocks.
    pub fn listed(&self) -> impl Iterator<Item = u16> + '_ {
        indexes(self.blocks()).map(|index| self.0[usize::from(index)])
    }

    /// The cells of these blocks as [`Cells::listed`] gives them.
    pub fn read(blocks: Blocks, mut next: impl FnMut() -> Result<u16, Malformed>) -> Result<Self, Malformed> {
        let mut cells = Self::NONE;
        for index in indexes(blocks) {
            let cell = Cell(next()?);
            if !cell.is_valid() {
                return Err(Malformed("cell: its length or encoding does not exist"));
            }
            cells.0[usize::from(index)] = cell.0;
        }
        Ok(cells)
    }

    fn len_of(&self, index: u8) -> usize {
        match self.0[usize::from(index)] {
            0 => 0,
            cell => CHECKSUM + Cell(cell).len(),
        }
    }

    /// Bytes of all cells.
    pub fn len(&self) -> usize {
        (0..BlockId::PER_FRAME as u8).map(|index| self.len_of(index)).sum()
    }

    /// Where the cells of these blocks lie in the bytes of all cells, with those between them; `None` if none of them
    /// has a cell.
    pub fn range(&self, blocks: Blocks) -> Option<Range<usize>> {
        let wanted = blocks & self.blocks();
        let (first, last) = (wanted.trailing_zeros() as u8, wanted.checked_ilog2()? as u8);
        let start = (0..first).map(|index| self.len_of(index)).sum();
        Some(start..start + (first..=last).map(|index| self.len_of(index)).sum::<usize>())
    }

    /// Appends the cell of a block, in the order of the blocks. `scratch` has room for [`MAX_COMPRESSED`] bytes.
    pub fn push(
        &mut self,
        name: BlockId,
        block: &[u8],
        compress: bool,
        scratch: &mut [u8],
        out: &mut Vec<u8>,
    ) {
        assert_eq!(block.len(), BLOCK, "a cell is made of a block");
        let packed = if compress { compress_lz4(block, &mut scratch[..MAX_COMPRESSED]) } else { None };
        let (encoding, data) = packed.map_or((RAW, block), |len| (LZ4, &scratch[..len]));
        out.extend_from_slice(&(checksum(data) ^ seed(name)).to_le_bytes());
        out.extend_from_slice(data);
        self.0[usize::from(name.index)] = Cell::new(encoding, data.len()).0;
    }

    /// The checksum and the data of each of these blocks, in `bytes` that are those of [`Cells::range`].
    fn split<'a>(&self, blocks: Blocks, bytes: &'a [u8]) -> impl Iterator<Item = (u8, &'a [u8])> {
        let cells = *self;
        let wanted = blocks & cells.blocks();
        let start = cells.range(wanted).map_or(0, |range| range.start);
        indexes(wanted).map(move |index| {
            let at: usize = (0..index).map(|index| cells.len_of(index)).sum::<usize>() - start;
            (index, bytes.get(at..at + cells.len_of(index)).unwrap_or_default())
        })
    }

    /// Decodes cells of `frame` from the bytes of [`Cells::range`], after verifying them. Returns the blocks one after
    /// the other.
    pub fn decode(&self, frame: u64, blocks: Blocks, bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
        let wanted = blocks & self.blocks();
        let mut out = Vec::with_capacity(wanted.count_ones() as usize * BLOCK);
        for (index, cell) in self.split(wanted, bytes) {
            let data = verified(BlockId { frame, index }, cell)?;
            match self.0[usize::from(index)] >> 12 {
                RAW => out.extend_from_slice(data),
                _ => append_lz4(data, BLOCK, &mut out).ok_or(Malformed("cell: it does not decompress"))?,
            }
        }
        Ok(out)
    }

    /// Verifies all cells of `frame`.
    pub fn verify(&self, frame: u64, bytes: &[u8]) -> Result<(), Malformed> {
        self.split(ALL, bytes)
            .try_for_each(|(index, cell)| verified(BlockId { frame, index }, cell).map(drop))
    }

    /// Appends the cells of these blocks as they are.
    pub fn copy(&self, blocks: Blocks, bytes: &[u8], out: &mut Vec<u8>) {
        for (index, cell) in self.split(ALL, bytes) {
            if blocks >> index & 1 == 1 {
                out.extend_from_slice(cell);
            }
        }
    }
}

/// Compresses by LZ4; `None` if the outcome does not fit in `out`. Returns its length in bytes.
pub fn compress_lz4(data: &[u8], out: &mut [u8]) -> Option<usize> {
    let mode = Some(lz4::block::CompressionMode::FAST(1));
    lz4::block::compress_to_buffer(data, mode, false, out).ok().filter(|len| *len > 0)
}

/// Appends the `len` bytes that LZ4 compressed; `None` if these are not `len` bytes compressed.
pub fn append_lz4(packed: &[u8], len: usize, out: &mut Vec<u8>) -> Option<()> {
    let from = out.len();
    out.resize(from + len, 0);
    let decoded = lz4::block::decompress_to_buffer(packed, Some(i32::try_from(len).ok()?), &mut out[from..]);
    decoded.ok().filter(|decoded| *decoded == len).map(drop)
}

/// What the checksum of a block's cell is combined with: the upper half of a product, which differs for any two blocks
/// whose names differ in few bits.
fn seed(name: BlockId) -> u32 {
    (name.bits().wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// The data of a cell, if its checksum is right.
fn verified(name: BlockId, cell: &[u8]) -> Result<&[u8], Malformed> {
    let (sum, data) = cell.split_first_chunk::<CHECKSUM>().ok_or(Malformed("cell: it is cut off"))?;
    if u32::from_le_bytes(*sum) != checksum(data) ^ seed(name) {
        return Err(Malformed("cell: the checksum differs"));
    }
    Ok(data)
}

#[cfg(test)]
#[path = "cell_test.rs"]
mod tests;
