//! Hostile media for tests and fuzzing: every decoder in one function, and metadata that is inconsistent although
//! checksums hold. Whatever the bytes are, nothing may panic.

mod fields;
mod tamper;

pub use tamper::{Pick, TARGETS, Target, tamper};

use crate::batch::{self, Blocks};
use crate::catalog::Catalog;
use crate::cell;
use crate::codec::Take;
use crate::entry::decode_node;
use crate::frame;
use crate::frame_table::TablePage;
use crate::page_index::Chunk;
use crate::record;
use crate::root::{Payload, Root};
use bytes::Bytes;

/// Lets every decoder read `bytes`, which may be anything.
pub fn decode_all(bytes: &[u8]) {
    let _ = Payload::decode(bytes);
    let _ = Root::decode(bytes);
    let _ = Catalog::decode(bytes);
    let _ = Chunk::decode(bytes);
    let _ = TablePage::decode(bytes);
    let _ = decode_node(bytes);
    let _ = batch::open(bytes, 1, 4096);
    for body in [Bytes::new(), Bytes::from_static(&[0; 4096])] {
        let (pos, head) = (shelf::JournalPos(1), batch::resealed(bytes, 1));
        let _ = batch::open(&head, 1, body.len());
        let blocks = Blocks::of(&shelf::Batch { pos, head, body });
        (0..blocks.len()).for_each(|page| _ = blocks.get(page));
    }
    let _ = record::decode(&mut Take::new(bytes, "record"), 9);
    // After a valid checksum, too.
    let sealed = frame::metadata(frame::ObjectKind::Frame, 1, |out| out.extend_from_slice(bytes));
    for object in [Bytes::copy_from_slice(bytes), sealed, frame::resealed(bytes)] {
        if let Ok(header) = frame::verify(&object) {
            let _ = frame::fingerprints(&object, &header);
            let _ = frame::unpack(&object, header.number, cell::ALL);
            let _ = frame::keep_cells(&object, &header, 0x55);
            if let Ok(cells) = header.cells(&object) {
                let _ = frame::unpack_cells(bytes, header.number, &cells, 0x33);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_decoder_panics() {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as usize
        };
        for _ in 0..20_000 {
            let len = next() % 120;
            let small = next() % 2 == 0;
            let bytes: Vec<u8> =
                (0..len).map(|_| if small { next() as u8 & 0x8f } else { next() as u8 }).collect();
            decode_all(&bytes);
        }
    }
}
