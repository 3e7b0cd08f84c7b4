//! Payload data from pieces as they arrive: small ones are copied together.
//!
//! A piece costs its record and an allocation of its own. A host chooses how small its pieces are, so a payload of one-byte
//! pieces would take many times the memory that it is charged.

use crate::Data;
use bytes::{Bytes, BytesMut};

/// Shorter pieces are copied together.
const SMALL_BYTES: usize = 4 << 10;
/// Size at which copied bytes become a piece.
const PIECE_BYTES: usize = 64 << 10;

/// Collects a payload.
#[derive(Default)]
pub struct Collector {
    pieces: Data,
    small: BytesMut,
}

impl Collector {
    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.pieces.len() + self.small.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a piece at the end.
    pub fn push(&mut self, piece: Bytes) {
        if piece.len() < SMALL_BYTES && !(self.pieces.is_empty() && self.small.is_empty()) {
            self.small.extend_from_slice(&piece);
            if self.small.len() >= PIECE_BYTES {
                self.pieces.push(self.small.split().freeze());
            }
            return;
        }
        self.pieces.push(self.small.split().freeze());
        self.pieces.push(piece);
    }

    /// The payload.
    pub fn finish(mut self) -> Data {
        self.pieces.push(self.small.freeze());
        self.pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_of_single_bytes_has_few_pieces() {
        let expected: Vec<u8> = (0..200_000_u32).map(|index| index as u8).collect();
        let mut collector = Collector::default();
        expected.iter().for_each(|byte| collector.push(Bytes::copy_from_slice(&[*byte])));
        assert_eq!(collector.len(), expected.len());
        let data = collector.finish();
        assert!(data.parts().count() <= 5, "{} pieces", data.parts().count());
        assert_eq!(data.to_bytes(), expected);
    }

    #[test]
    fn long_pieces_are_kept_as_they_are_between_short_ones() {
        let (long, short) = (Bytes::from(vec![1; SMALL_BYTES]), Bytes::from_static(&[2; 3]));
        let mut collector = Collector::default();
        for piece in [&short, &short, &long, &short, &long] {
            collector.push(piece.clone());
        }
        let data = collector.finish();
        assert_eq!(data.parts().map(Bytes::len).collect::<Vec<_>>(), [3, 3, SMALL_BYTES, 3, SMALL_BYTES]);
        assert!(data.parts().any(|part| part.as_ptr() == long.as_ptr()), "not copied");
    }
}
