//! The bytes of version 1, as `docs/format/shelf.md` draws them. These tests change only with the format version.

use crate::geometry::Geometry;
use crate::journal::Header;
use crate::label::{Found, Label};
use crate::superblock::Root;
use crate::{ALIGN, JournalPos, Superblock};
use bytes::Bytes;

const GEOMETRY: Geometry = Geometry {
    width: 3,
    data: 3,
    chunk_bytes: 65_536,
    rows: 4,
    segments: 50,
    superblock_bytes: 65_536,
    journal_bytes: 2 << 20,
};

/// Bytes in hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn label() -> Label {
    Label {
        array: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
        drive: 0x11,
        generation: 2,
        epoch: 3,
        bytes: 16 << 20,
        journal: 0b111,
        slot: 1,
        geometry: GEOMETRY,
    }
}

#[test]
fn a_label_of_version_1() {
    let page = label().encode();
    assert_eq!(page.len(), ALIGN);
    let fields = concat!(
        "4153484c4142454c",
        "01000000",
        "00000000",
        "100f0e0d0c0b0a090807060504030201",
        "11000000000000000000000000000000",
        "0200000000000000",
        "0300000000000000",
        "0000000100000000",
        "0700000000000000",
        "0100000000000000",
        "0300",
        "0300",
        "00000100",
        "04000000",
        "32000000",
        "00000100",
        "0000200000000000",
    );
    assert_eq!(hex(&page[..116]), fields);
    assert!(page[116..4092].iter().all(|byte| *byte == 0));
    assert_eq!(hex(&page[4092..]), LABEL_CHECKSUM);
    assert_eq!(Label::decode(&page), Found::Label(Box::new(label())));
}

#[test]
fn a_label_says_what_is_wrong_with_it() {
    let page = label().encode();
    assert_eq!(Label::decode(&[0; ALIGN]), Found::Blank);
    for at in [0, 9, 50, 100, 3000, 4095] {
        let mut other = page.to_vec();
        other[at] ^= 1;
        assert_eq!(Label::decode(&other), Found::Other, "byte {at}");
    }
    let mut newer = page.to_vec();
    newer[8] = 9;
    let checksum = crate::media::crc32c([&newer[..4092]]);
    newer[4092..].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(Label::decode(&newer), Found::Newer(9));
    let mut first = Label { generation: 0, ..label() }.encode().to_vec();
    first[4092..].fill(0);
    assert_eq!(Label::decode(&first), Found::Unfinished, "torn behind its first sector");
    first[..512].fill(0);
    first[4095] = 7;
    assert_eq!(Label::decode(&first), Found::Unfinished, "torn in front of its last sector");
}

#[test]
fn a_batch_header_of_version_1() {
    let header = Header {
        seal: false,
        array: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
        epoch: 3,
        pos: JournalPos(7),
        at: 0x5000,
        answered: JournalPos(6),
        head: 5,
        body: 4096,
        contents: 0x0a0b_0c0d,
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
    );
    assert_eq!((hex(&page[..68]), page.len()), (fields.to_owned(), ALIGN));
    assert!(page[68..124].iter().all(|byte| *byte == 0));
    assert_eq!(hex(&page[124..128]), HEADER_CHECKSUM);
    assert_eq!(&page[128..134], b"hello\0");
    assert_eq!((Header::decode(&page), header.cost()), (Some(header), 8192));
    let seal = Header { seal: true, head: 0, body: 0, ..header }.encode(&[]);
    assert_eq!((&seal[..8], seal.len()), (&b"ASH_SEAL"[..], ALIGN));
}

#[test]
fn a_superblock_of_version_1() {
    let root = Root {
        array: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
        epoch: 3,
        sequence: 9,
        journal_at: 0x5000,
        journal_epoch: 2,
        answered: JournalPos(8),
        superblock: Superblock { journal_from: JournalPos(7), payload: Bytes::from_static(b"root") },
    };
    let slot = root.encode();
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
    assert!(slot[80..124].iter().all(|byte| *byte == 0));
    assert_eq!(&slot[128..133], b"root\0");
    assert_eq!(Root::decode(&slot, root.array), Some(root.clone()));
    assert_eq!(Root::decode(&slot, 1), None);
    for at in [0, 30, 77, 124, 130] {
        let mut other = slot.to_vec();
        other[at] ^= 1;
        assert_eq!(Root::decode(&other.into(), root.array), None, "byte {at}");
    }
}

const LABEL_CHECKSUM: &str = "d1e1c785";
const HEADER_CHECKSUM: &str = "2e864fab";
const PAYLOAD_CHECKSUM: &str = "9f5f80d9";
