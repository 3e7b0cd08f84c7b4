//! Bytes from media: no decoder of the shelf panics for any input, and an accepted geometry can be used.
//!
//! The first byte selects the decoder; if its top bit is set, the checksums of the remaining bytes are corrected first.

use bytes::Bytes;
use raid::encryption::{DataKey, Envelope, Keyring};
use raid::geometry::Profile;
use raid::journal::Header;
use raid::label::{Label, LabelPage};
use raid::segment_map::Page;
use raid::superblock::StoredSuperblock;

/// One input.
pub fn run(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let mut page = rest.to_vec();
    page.resize(rest.len().max(4096), 0);
    match choice & 7 {
        0 => label(&mut page, choice & 128 != 0),
        1 => {
            if choice & 128 != 0 {
                let at = if page.starts_with(b"ASHLANES") { 252 } else { 124 };
                write_checksum(&mut page, at);
            }
            if let Some(header) = Header::decode(&page) {
                header.cost();
                header.targets(7).count();
                let page = Bytes::from(page);
                header.open(&page, &Keyring::clear(header.array));
                header.open(&page, &Keyring::sealed(header.array, DataKey::new([1; 32])));
            }
        }
        2 => {
            if choice & 128 != 0 {
                write_checksum(&mut page, 124);
            }
            let array = u128::from_le_bytes(page[8..24].try_into().expect("16 bytes"));
            StoredSuperblock::epoch_of(&page, array);
            let page = Bytes::from(page);
            StoredSuperblock::decode(&page, &Keyring::clear(array));
            StoredSuperblock::decode(&page, &Keyring::sealed(array, DataKey::new([1; 32])));
        }
        3 => envelope(&mut page, choice & 128 != 0),
        _ => map(&mut page, choice & 128 != 0),
    }
}

fn label(page: &mut [u8], fix_checksum: bool) {
    if fix_checksum {
        page[..8].copy_from_slice(b"ASHLABEL");
        write_checksum(page, 4092);
    }
    if let LabelPage::Label(label) = Label::decode(&page[..4096]) {
        let plan = label.geometry;
        plan.layout(label.segments);
        for drives in [1, 2, 3, 8, 64] {
            let profile = Profile::of(drives);
            let (columns, pages) =
                (plan.granules(label.bytes) / plan.chunk_pages(profile), plan.chunk_pages(profile));
            if let Some(last) = columns.checked_sub(1) {
                let end = plan.page_at(profile, last * pages, plan.rows - 1, pages - 1) + 4096;
                assert!(end <= Label::second_at(label.bytes));
            }
        }
    }
}

fn envelope(page: &mut [u8], fix_checksum: bool) {
    if fix_checksum {
        page[..8].copy_from_slice(b"ASH_KEYS");
        page[8..12].copy_from_slice(&raid::ENVELOPES.current.to_le_bytes());
        write_checksum(page, 4092);
    }
    let array = u128::from_le_bytes(page[16..32].try_into().expect("16 bytes"));
    if let Some(envelope) = Envelope::decode(&page[..4096], array) {
        assert!(envelope.open(&[1; 32]).is_none());
        assert_eq!(Envelope::decode(&envelope.encode(), array), Some(envelope));
    }
}

fn map(page: &mut [u8], fix_checksum: bool) {
    if fix_checksum {
        page[..8].copy_from_slice(b"ASH_SMAP");
        let checksum = raid::checksum(&[&page[..60], &page[64..4096]].concat());
        page[60..64].copy_from_slice(&checksum.to_le_bytes());
    }
    let array = u128::from_le_bytes(page[8..24].try_into().expect("16 bytes"));
    if let Some(decoded) = Page::decode(page, array) {
        for entry in decoded.entries.iter().flatten() {
            assert!(
                entry.columns.len() == entry.profile.width()
                    && entry.column(u32::MAX, 0) == entry.column(u32::MAX, 0)
            );
            entry.lost(u64::MAX).count();
        }
        assert_eq!(Page::decode(&decoded.encode(array), array), Some(decoded));
    }
}

fn write_checksum(page: &mut [u8], at: usize) {
    let checksum = raid::checksum(&page[..at]);
    page[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
}
