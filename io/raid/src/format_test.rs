//! The bytes of version 5, as `docs/format/shelf.md` draws them. These tests change only with the format version.

use crate::DriveState;
use crate::encryption::{DataKey, Envelope, Keyring, Kind};
use crate::geometry::{Geometry, MAX_COLUMNS, Profile};
use crate::journal::Header;
use crate::label::{Label, LabelPage, Member};
use crate::segment_map::{Column, ENTRIES_PER_PAGE, Entry, Page};
use crate::striping::{Checksums, StripeSet};
use crate::superblock::StoredSuperblock;
use crate::{ALIGN, JournalPos, Superblock};
use bytes::Bytes;
use shelf::pool::KeySource;
use smallvec::smallvec;
use std::sync::Arc;

const GEOMETRY: Geometry = Geometry {
    stripe_pages: 32,
    rows: 4,
    max_segments: 560,
    superblock_bytes: 65_536,
    journal_bytes: 2 << 20,
};

/// Bytes in hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn label() -> Label {
    Label {
        optional_features: 0,
        array: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
        drive: 0x11,
        generation: 2,
        epoch: 3,
        bytes: 16 << 20,
        journal: 0b11,
        slot: 1,
        sealed: false,
        shared: false,
        failures_to_tolerate: None,
        segments: 50,
        geometry: GEOMETRY,
        members: vec![
            Member { drive: 0x10, bytes: 32 << 20, state: DriveState::Failed, last_common_epoch: 2 },
            Member { drive: 0x11, bytes: 16 << 20, state: DriveState::Online, last_common_epoch: 0 },
        ],
    }
}

#[test]
fn a_label_of_version_5() {
    let page = label().encode();
    assert_eq!(page.len(), ALIGN);
    let fields = concat!(
        "4153484c4142454c",
        "05000000",
        "00000000",
        "100f0e0d0c0b0a090807060504030201",
        "11000000000000000000000000000000",
        "0200000000000000",
        "0300000000000000",
        "0000000100000000",
        "0300000000000000",
        "0100",
        "00",
        "00",
        "32000000",
        "20000000",
        "04000000",
        "30020000",
        "00000100",
        "0000200000000000",
    );
    assert_eq!(hex(&page[..112]), fields);
    let members = concat!(
        "10000000000000000000000000000000",
        "0000000200000000",
        "0302000000000000",
        "11000000000000000000000000000000",
        "0000000100000000",
        "0100000000000000",
    );
    assert_eq!(hex(&page[512..576]), members);
    assert!(page[112..512].iter().chain(&page[576..4092]).all(|byte| *byte == 0));
    assert_eq!(hex(&page[4092..]), LABEL_CHECKSUM);
    assert_eq!(Label::decode(&page), LabelPage::Label(Box::new(label())));
}

#[test]
fn a_label_says_what_is_wrong_with_it() {
    let page = label().encode();
    assert_eq!(Label::decode(&[0; ALIGN]), LabelPage::Blank);
    for at in [0, 9, 50, 100, 3000, 4095] {
        let mut other = page.to_vec();
        other[at] ^= 1;
        assert_eq!(Label::decode(&other), LabelPage::Other, "byte {at}");
    }
    let mut newer = page.to_vec();
    newer[8] = 9;
    let checksum = crate::codec::crc32c([&newer[..4092]]);
    newer[4092..].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(Label::decode(&newer), LabelPage::Version(9));
    for (version, found) in [(3, LabelPage::Version(3)), (4, LabelPage::Label(Box::new(label())))] {
        let mut older = page.to_vec();
        older[8] = version;
        let checksum = crate::codec::crc32c([&older[..4092]]);
        older[4092..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Label::decode(&older), found, "version {version}");
    }
    let mut first = Label { generation: 0, members: Vec::new(), ..label() }.encode().to_vec();
    first[4092..].fill(0);
    assert_eq!(Label::decode(&first), LabelPage::Unfinished, "torn after its first sector");
    first[..512].fill(0);
    first[4095] = 7;
    assert_eq!(Label::decode(&first), LabelPage::Unfinished, "torn in front of its last sector");
}

#[test]
fn a_batch_header_of_version_5() {
    let header = Header {
        takeover: false,
        array: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
        epoch: 3,
        pos: JournalPos(7),
        at: 0x5000,
        acknowledged: JournalPos(6),
        head: 5,
        body: 4096,
        contents: 0x0a0b_0c0d,
        salt: 0x2122_2324_2526_2728,
        tag: [7; 16],
        stripe_set: None,
        checksums: Checksums::default(),
    };
    let page = header.encode(b"hello");
    let fields = concat!(
        "4153484241544348",
        "100f0e0d0c0b0a090807060504030201",
        "0300000000000000",
        "0700000000000000",
        "0050000000000000",
        "0600000000000000",
        "05000000",
        "00100000",
        "0d0c0b0a",
        "2827262524232221",
        "07070707070707070707070707070707",
    );
    assert_eq!((hex(&page[..92]), page.len()), (fields.to_owned(), ALIGN));
    assert!(page[92..124].iter().all(|byte| *byte == 0));
    assert_eq!(hex(&page[124..128]), HEADER_CHECKSUM);
    assert_eq!(&page[128..134], b"hello\0");
    assert_eq!((Header::decode(&page), header.cost()), (Some(header), 8192));
    let seal = Header { takeover: true, head: 0, body: 0, ..header }.encode(&[]);
    assert_eq!((&seal[..8], seal.len()), (&b"ASH_SEAL"[..], ALIGN));

    let stripe_set = StripeSet::from_media(0b11_0101, 5 * ALIGN);
    let mut columns = [0; MAX_COLUMNS];
    columns[..4].copy_from_slice(&[0x0101_0101, 0x0202_0202, 0x0303_0303, 0x0404_0404]);
    let checksums = Checksums { front: 0x0506_0708, columns };
    let striped = Header { body: 5 * ALIGN as u32, contents: 0, stripe_set, checksums, ..header };
    let page = striped.encode(b"hello");
    assert_eq!((&page[..8], hex(&page[68..92])), (&b"ASHLANES"[..], fields[136..].to_owned()));
    let fields = concat!("3500000000000000", "08070605", "00000000", "01010101020202020303030304040404",);
    assert!(page[92..128].iter().chain(&page[160..252]).all(|byte| *byte == 0));
    assert_eq!(
        (hex(&page[128..160]), hex(&page[252..256])),
        (fields.to_owned(), STRIPED_CHECKSUM.to_owned())
    );
    assert_eq!(&page[256..262], b"hello\0");
    // The front, and three pages in each column of data.
    assert_eq!((Header::decode(&page), striped.cost(), striped.whole()), (Some(striped), 4 * 4096, 6 * 4096));
    let targets: Vec<_> = striped.targets(0b10_0010).collect();
    let (front, at) = (4096, striped.at);
    // Batch 7 turns the four drives by three: slot 5 has the first column.
    let expected = [(0, 8192), (1, 0), (2, 12288), (4, 12288), (5, 12288)];
    assert_eq!(targets.iter().map(|(slot, ..)| *slot).collect::<Vec<_>>(), expected.map(|(slot, _)| slot));
    for ((slot, address, len), (_, column)) in targets.into_iter().zip(expected) {
        let copy = [1, 5].contains(&slot);
        let place = if copy { (at, front + column) } else { (at + front, column) };
        assert_eq!((address, len), place, "slot {slot}");
    }
    for wrong in [0b111, 0b11_1111] {
        let mut other = page.to_vec();
        other[128] = wrong;
        let checksum = crate::codec::crc32c([&other[..252]]);
        other[252..256].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Header::decode(&other), None, "drives {wrong:b}");
    }
}

#[test]
fn a_superblock_of_version_5() {
    let root = StoredSuperblock {
        array: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
        epoch: 3,
        salt: 0x2122_2324_2526_2728,
        sequence: 9,
        journal_at: 0x5000,
        journal_epoch: 2,
        acknowledged: JournalPos(8),
        superblock: Superblock { journal_from: JournalPos(7), payload: Bytes::from_static(b"root") },
    };
    let keyring = Keyring::clear(root.array);
    let slot = root.encode(&keyring);
    let fields = concat!(
        "4153485355504552",
        "100f0e0d0c0b0a090807060504030201",
        "0300000000000000",
        "0900000000000000",
        "0700000000000000",
        "0050000000000000",
        "0200000000000000",
        "0800000000000000",
        "04000000",
    );
    assert_eq!((hex(&slot[..76]), slot.len()), (fields.to_owned(), ALIGN));
    assert_eq!(hex(&slot[76..80]), PAYLOAD_CHECKSUM);
    assert_eq!(hex(&slot[80..88]), "2827262524232221");
    assert!(slot[88..124].iter().all(|byte| *byte == 0));
    assert_eq!(&slot[128..133], b"root\0");
    assert_eq!(StoredSuperblock::decode(&slot, &keyring), Some(root.clone()));
    assert_eq!(StoredSuperblock::decode(&slot, &Keyring::clear(1)), None);
    for at in [0, 30, 77, 124, 130] {
        let mut other = slot.to_vec();
        other[at] ^= 1;
        assert_eq!(StoredSuperblock::decode(&other.into(), &keyring), None, "byte {at}");
    }
}

#[test]
fn a_page_of_the_map_of_version_5() {
    let entry = Entry {
        generation: 0x0000_0003_0000_0007,
        salt: 0x2122_2324_2526_2728,
        placed: 0x0000_0003_0000_0009,
        filled: 4,
        profile: Profile { data: 2, parity: 1 },
        columns: smallvec![
            Some(Column { slot: 5, granule: 0x0102_0304, stale: true }),
            None,
            Some(Column { slot: 6, granule: 16, stale: false })
        ],
    };
    let mut entries = vec![None; ENTRIES_PER_PAGE];
    entries[1] = Some(Arc::new(entry));
    let array = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10;
    let written = Page { number: 2, epoch: 3, sequence: 4, entries };
    let page = written.encode(array);
    let front = concat!(
        "4153485f534d4150",
        "100f0e0d0c0b0a090807060504030201",
        "02000000",
        "00000000",
        "0300000000000000",
        "0400000000000000",
    );
    assert_eq!((hex(&page[..48]), page.len()), (front.to_owned(), ALIGN));
    let fields =
        concat!("0700000003000000", "04000000", "02010000", "0504030281", "ff00000000", "0610000000");
    assert_eq!(hex(&page[64 + 152..][..31]), fields);
    assert_eq!(hex(&page[64 + 152 + 136..][..16]), "09000000030000002827262524232221");
    assert_eq!(hex(&page[60..64]), MAP_CHECKSUM);
    assert_eq!(Page::decode(&page, array), Some(written));
    assert_eq!(Page::decode(&page, 1), None);
    for at in [0, 30, 61, 210, 4000] {
        let mut other = page.to_vec();
        other[at] ^= 1;
        assert_eq!(Page::decode(&other, array), None, "byte {at}");
    }
}

#[test]
fn an_envelope_of_version_4() {
    let lock = KeySource::Passphrase { salt: [5; 16], memory: 65_536, passes: 3, lanes: 4 };
    let array = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10;
    let envelope = Envelope::wrap(array, &DataKey::new([1; 32]), lock, &[2; 32], [3; 12]);
    let page = envelope.encode();
    let front = concat!(
        "4153485f4b455953",
        "04000000",
        "00000000",
        "100f0e0d0c0b0a090807060504030201",
        "0100000000000000",
    );
    assert_eq!((hex(&page[..40]), page.len()), (front.to_owned(), ALIGN));
    assert_eq!(hex(&page[40..56]), KEY_CHECK);
    let lock = concat!("02000000", "05050505050505050505050505050505", "00000100", "03000000", "04000000");
    assert_eq!(hex(&page[56..88]), lock);
    assert!(page[88..2048].iter().chain(&page[2108..4092]).all(|byte| *byte == 0));
    assert_eq!(hex(&page[2048..2108]), WRAPPED);
    assert_eq!(Envelope::decode(&page, array), Some(envelope));
}

/// Sealed data of this version can be opened forever.
#[test]
fn records_sealed_by_version_4() {
    let keyring = Keyring::sealed(7, DataKey::new([1; 32]));
    let seal = |kind| {
        let mut bytes = *b"sealed";
        let tag = keyring.cipher(kind, 0x2122_2324_2526_2728).unwrap().seal(&[4; 12], b"beside", &mut bytes);
        hex(&bytes) + &hex(&tag)
    };
    assert_eq!([Kind::Segments, Kind::Journal, Kind::Superblock].map(seal), SEALED);
}

const KEY_CHECK: &str = "e2a37a13868d5533ae4677f956b2e85b";
const WRAPPED: &str = concat!(
    "030303030303030303030303",
    "c4fcfa2816fe7870dca44531838648b401ca12593ff04e3ef9551e9b61eee76c",
    "ce6b18200aa703f052145be984171e3d",
);
const SEALED: [&str; 3] = [
    "506522c1c27417a5191f39aa73d781ff186fcf041fa6",
    "bfab6deb3febf3e24daa0a850127ca89b438a39387e4",
    "c8d8900b8ddfcc32fc1c59acf226c534613bf601fd1c",
];
const LABEL_CHECKSUM: &str = "0f145528";
const HEADER_CHECKSUM: &str = "e399d0ca";
const STRIPED_CHECKSUM: &str = "c65f20bb";
const PAYLOAD_CHECKSUM: &str = "9f5f80d9";
const MAP_CHECKSUM: &str = "d947f095";
