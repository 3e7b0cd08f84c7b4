//! Test data: blocks that are all different, or repeat, generated at the cost of a copy.

use bytes::{Bytes, BytesMut};

/// Bytes of a block.
pub const BLOCK: usize = 4096;

/// Kind of contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// All different, and none compresses.
    Random,
    /// All different; each compresses to half.
    Half,
    /// 64 different blocks again and again.
    Duplicate,
}

/// Generator of data.
pub struct Maker {
    content: Content,
    template: Vec<u8>,
    made: u64,
}

/// Blocks of the template.
const TEMPLATE: usize = 64;

impl Maker {
    /// A generator of blocks of this kind.
    pub fn new(content: Content) -> Self {
        let mut state = 0x1234_5678_9abc_def1u64;
        let mut template = vec![0; TEMPLATE * BLOCK];
        let random = if content == Content::Half { BLOCK / 2 } else { BLOCK };
        for block in template.chunks_mut(BLOCK) {
            for word in block[..random].chunks_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                word.copy_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
            }
        }
        Self { content, template, made: 0 }
    }

    /// The next `blocks` blocks in one piece, as a transport hands them over.
    pub fn next(&mut self, blocks: usize) -> Bytes {
        let mut out = BytesMut::with_capacity(blocks * BLOCK);
        for _ in 0..blocks {
            let from = self.made as usize % TEMPLATE * BLOCK;
            let at = out.len();
            out.extend_from_slice(&self.template[from..from + BLOCK]);
            if self.content != Content::Duplicate {
                out[at + 8..at + 16].copy_from_slice(&self.made.to_le_bytes());
            }
            self.made += 1;
        }
        out.freeze()
    }
}
