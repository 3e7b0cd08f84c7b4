//! Cells: blocks of a frame that are compressed and verified one by one. A read of one block reads, verifies and decodes
//! that one alone, and a frame loses its dead blocks without decoding those that stay.
//!
//! A cell is made where a block is received, and goes through the journal and memory to its frame as it is.
//!
//! The checksum of a cell covers its bytes and, as a seed, the block's name, so that a cell of another frame is not taken
//! for this one without reading the frame's header. Before it has a frame, the checksum covers its bytes alone.

use crate::codec::Malformed;
use crate::entry::{BLOCK, BlockId};
use crate::record::checksum;
use bytes::{Bytes, BytesMut};
use std::cell::RefCell;
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

/// Bytes of one cell in the list of a frame or batch.
pub const LISTED: usize = size_of::<u16>();

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

/// What LZ4 made of a block.
#[derive(Clone, Debug, Default)]
pub enum Lz4 {
    /// It was not tried.
    #[default]
    Untried,
    /// It saves too little.
    Useless,
    /// A cell that has no frame yet.
    Cell(Bytes),
}

/// A block that waits for a flush.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Its bytes.
    pub page: Bytes,
    /// What LZ4 made of it.
    pub lz4: Lz4,
}

/// Memory that cells are cut from, one after the other.
const ARENA_BYTES: usize = 256 << 10;

thread_local! {
    static ARENA: RefCell<(BytesMut, [u8; MAX_COMPRESSED])> = RefCell::new((BytesMut::new(), [0; MAX_COMPRESSED]));
}

impl Lz4 {
    /// Compresses a block.
    pub fn of(block: &[u8]) -> Self {
        assert_eq!(block.len(), BLOCK, "a cell is made of a block");
        ARENA.with_borrow_mut(|(room, scratch)| {
            let Some(len) = compress_lz4(block, scratch) else { return Self::Useless };
            if room.capacity() < CHECKSUM + len {
                *room = BytesMut::with_capacity(ARENA_BYTES);
            }
            room.extend_from_slice(&checksum(&scratch[..len]).to_le_bytes());
            room.extend_from_slice(&scratch[..len]);
            Self::Cell(room.split().freeze())
        })
    }

    /// Bytes of the cell; zero if there is none.
    pub fn len(&self) -> usize {
        if let Self::Cell(cell) = self { cell.len() } else { 0 }
    }

    /// The number that describes the block in the list of a batch.
    pub fn listed(&self) -> u16 {
        match self.len() {
            0 => Cell::new(RAW, BLOCK).0,
            len => Cell::new(LZ4, len - CHECKSUM).0,
        }
    }
}

/// Bytes of the cell that a number in the list of a batch describes; `None` if the block is raw.
pub fn listed_len(listed: u16) -> Result<Option<usize>, Malformed> {
    let cell = Cell(listed);
    if !cell.is_valid() {
        return Err(WRONG_CELL);
    }
    Ok((cell.0 >> 12 == LZ4).then(|| CHECKSUM + cell.len()))
}

/// The block of a cell that has no frame yet, after verifying it.
pub fn decode(cell: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::with_capacity(BLOCK);
    append_lz4(verified(0, cell)?, BLOCK, &mut out).ok_or(NOT_COMPRESSED)?;
    Ok(out)
}

const WRONG_CELL: Malformed = Malformed("cell: its length or encoding does not exist");
const NOT_COMPRESSED: Malformed = Malformed("cell: it does not decompress");

/// The cells of a frame, in the order of their blocks. A block without a cell has the value of an invalid cell, 0.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Cells([u16; BlockId::PER_FRAME]);

impl Cells {
    /// No cells: the frame has its blocks in one piece.
    pub const NONE: Self = Self([0; BlockId::PER_FRAME]);

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
                return Err(WRONG_CELL);
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

    /// Appends the cell of a block, in the order of the blocks. Where LZ4 was not tried, this may `compress`.
    pub fn push(&mut self, name: BlockId, block: &[u8], lz4: &Lz4, compress: bool, out: &mut Vec<u8>) {
        assert_eq!(block.len(), BLOCK, "a cell is made of a block");
        let now = if compress && matches!(lz4, Lz4::Untried) { Lz4::of(block) } else { lz4.clone() };
        let (sum, data) = match &now {
            Lz4::Cell(cell) => {
                let (sum, data) = cell.split_first_chunk().expect("a cell has a checksum");
                (u32::from_le_bytes(*sum), data)
            }
            _ => (checksum(block), block),
        };
        out.extend_from_slice(&(sum ^ seed(name)).to_le_bytes());
        out.extend_from_slice(data);
        self.0[usize::from(name.index)] = now.listed();
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
            let data = verified(seed(BlockId { frame, index }), cell)?;
            match self.0[usize::from(index)] >> 12 {
                RAW => out.extend_from_slice(data),
                _ => append_lz4(data, BLOCK, &mut out).ok_or(NOT_COMPRESSED)?,
            }
        }
        Ok(out)
    }

    /// Verifies all cells of `frame`.
    pub fn verify(&self, frame: u64, bytes: &[u8]) -> Result<(), Malformed> {
        self.split(ALL, bytes)
            .try_for_each(|(index, cell)| verified(seed(BlockId { frame, index }), cell).map(drop))
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
fn verified(seed: u32, cell: &[u8]) -> Result<&[u8], Malformed> {
    let (sum, data) = cell.split_first_chunk::<CHECKSUM>().ok_or(Malformed("cell: it is cut off"))?;
    if u32::from_le_bytes(*sum) != checksum(data) ^ seed {
        return Err(Malformed("cell: the checksum differs"));
    }
    Ok(data)
}

#[cfg(test)]
#[path = "cell_test.rs"]
mod tests;
