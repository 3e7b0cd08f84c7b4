//! Bytes from media: no decoder of the shelf panics, whatever they are, and a plan that is accepted can be used.
//!
//! The first byte chooses; with its top bit the checksums of what follows are made right first.
#![no_main]

use bytes::Bytes;
use shelf::SegmentId;
use shelf::journal::Header;
use shelf::label::{Found, Label};
use shelf::superblock::Root;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let mut page = rest.to_vec();
    page.resize(rest.len().max(4096), 0);
    match choice & 3 {
        0 => label(&mut page, choice & 128 != 0),
        1 => {
            if choice & 128 != 0 {
                seal(&mut page, 124);
            }
            if let Some(header) = Header::decode(&page) {
                header.cost();
                header.contents(&Bytes::from(page));
            }
        }
        _ => {
            if choice & 128 != 0 {
                seal(&mut page, 124);
            }
            let array = u128::from_le_bytes(page[8..24].try_into().expect("16 bytes"));
            Root::decode(&Bytes::from(page), array);
        }
    }
});

fn label(page: &mut [u8], whole: bool) {
    if whole {
        page[..8].copy_from_slice(b"ASHLABEL");
        seal(page, 4092);
    }
    if let Found::Label(label) = Label::decode(&page[..4096]) {
        let layout = label.geometry.layout();
        let last = SegmentId(layout.segments - 1);
        for piece in label.geometry.pieces(last, 0, layout.segment_bytes).take(1000) {
            assert!(piece.at + u64::from(piece.len) <= label.bytes && piece.slot < usize::from(label.geometry.width));
        }
    }
}

fn seal(page: &mut [u8], at: usize) {
    let checksum = shelf::checksum(&page[..at]);
    page[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
}
