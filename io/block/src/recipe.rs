//! Recipes: where the bytes of a read are, for a reader that shares the store with the disk's own process.
//!
//! What a recipe names is never something else later: a frame by the opening of the store that numbered it, its place by the
//! writing of the segment. So a recipe that is late yields the same bytes, or none.

use crate::Data;
use bytes::Bytes;
use std::pin::Pin;

/// Bytes of a block of a frame.
pub const FRAME_BLOCK_BYTES: u64 = 4096;

/// Blocks that a frame has at most.
pub const MAX_FRAME_BLOCKS: u8 = 8;

/// The content of a run of blocks, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// The opening of the store whose frame numbers these are.
    pub opening: u64,
    /// The pieces; together they are the run.
    pub pieces: Vec<Piece>,
}

/// A part of a [`Recipe`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// This many zero bytes.
    Zeros(u64),
    /// Bytes that only the memory of the disk's process has.
    Bytes(Bytes),
    /// Blocks of a frame in the store.
    Blocks(FrameBlocks),
}

/// Neighbouring blocks of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameBlocks {
    /// The number of the frame.
    pub frame: u64,
    /// The blocks that are stored at its place, one bit each.
    pub stored: u8,
    /// The first block that is meant.
    pub first: u8,
    /// How many.
    pub count: u8,
    /// Location of the frame.
    pub place: Place,
}

/// Bytes of a segment of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The segment.
    pub segment: u32,
    /// Offset in bytes from its start.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
    /// The generation and the salt with which the segment was written: no other writing has both.
    pub writing: (u64, u64),
}

impl FrameBlocks {
    /// True if a frame can have these blocks, and they are stored.
    pub fn is_valid(&self) -> bool {
        let Some(end) = self.first.checked_add(self.count).filter(|end| *end <= MAX_FRAME_BLOCKS) else {
            return false;
        };
        self.count > 0 && (self.first..end).all(|index| self.stored >> index & 1 == 1)
    }
}

impl Piece {
    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Zeros(bytes) => *bytes,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Blocks(blocks) => u64::from(blocks.count) * FRAME_BLOCK_BYTES,
        }
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Recipe {
    /// Length in bytes of what it describes; more than any transfer if that does not fit in 64 bits.
    pub fn len(&self) -> u64 {
        self.pieces.iter().map(Piece::len).fold(0, u64::saturating_add)
    }

    /// True if it describes nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Reads what recipes name, in a process that shares the store with the disk's own.
pub trait Resolver: Send + Sync {
    /// The bytes of a recipe; `None` if they can't be had from here, or not any more: the disk is asked for them then. A recipe
    /// may come from outside, with any numbers.
    fn resolve(&self, recipe: Recipe) -> Pin<Box<dyn Future<Output = Option<Data>> + Send>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_valid_if_a_frame_can_store_them() {
        let place = Place { segment: 0, offset: 0, len: 1, writing: (1, 1) };
        let is_valid =
            |stored, first, count| FrameBlocks { frame: 1, stored, first, count, place }.is_valid();
        assert!(is_valid(0b110, 1, 2) && is_valid(0xFF, 0, 8) && is_valid(0x80, 7, 1));
        assert!(!is_valid(0b101, 0, 2) && !is_valid(0xFF, 0, 0) && !is_valid(0xFF, 1, 8));
        assert!(!is_valid(0xFF, 255, 2) && !is_valid(0xFF, 9, 1) && !is_valid(0xFF, 8, 0));
    }
}
