//! Arbitrary bytes between two arrays that replicate: payloads of every kind of message, offers against a volume, and packed
//! blocks.
//!
//! The first byte is the kind; the rest is the payload.

use block::Geometry;
use bytes::Bytes;
use replication::{Message, unpack};

/// Takes one input.
pub fn run(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    let payload = Bytes::copy_from_slice(rest);
    let Ok(message) = Message::decode(u16::from(*kind), payload) else { return };
    // What was understood is sent in the same way.
    let again = Message::decode(message.kind(), message.encode().concat().into());
    assert_eq!(again.as_ref(), Ok(&message));
    match message {
        Message::Offer(offer) => {
            for blocks in [0, 3, 800, 1 << 40] {
                let geometry = Geometry { block_bytes: 512, blocks };
                if offer.check(geometry, 0).is_ok() {
                    // An offer that fits has as many blocks as fingerprints, all within the volume.
                    assert_eq!(offer.blocks().count(), offer.fingerprints.len());
                    assert!(offer.blocks().all(|block| block * 8 < blocks));
                    assert!(offer.end() <= blocks.div_ceil(8));
                }
            }
        }
        Message::Blocks { method, packed, .. } => {
            for len in [0, 512, 4096, 1 << 20] {
                if let Ok(found) = unpack(method, &packed, len) {
                    assert_eq!(found.len(), len);
                }
            }
        }
        _ => {}
    }
}
