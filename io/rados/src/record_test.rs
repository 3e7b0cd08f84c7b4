use super::*;
use media::encryption::DataKey;
use shelf::pool::KEY_BYTES;

fn keyrings() -> [Keyring; 2] {
    [Keyring::clear(7), Keyring::new(7, Some(DataKey::new([3; KEY_BYTES])), 11)]
}

fn stored() -> StoredSuperblock {
    let layout = Layout {
        segment_bytes: 8160,
        stripe_bytes: 4080,
        segments: 9,
        journal_bytes: 1 << 20,
        batch_bytes: 1 << 16,
        superblock_bytes: 1 << 12,
    };
    let term = |epoch, from| Term { epoch, from: JournalPos(from), first_object: [1, 2, 3, epoch] };
    let superblock = Some(Superblock { journal_from: JournalPos(3), payload: Bytes::from_static(b"root") });
    let (terms, instance) = (vec![term(2, 1), term(5, 4)], "127.0.0.1:0/77".into());
    StoredSuperblock { epoch: 5, salt: 11, sequence: 8, layout, terms, instance, superblock }
}

#[test]
fn a_superblock_reads_back_and_every_changed_byte_is_detected() {
    for keyring in keyrings() {
        let (written, mut bytes) = (stored(), stored().encode(&keyring).to_vec());
        assert_eq!(StoredSuperblock::decode(&bytes, &keyring), Some(written));
        let new = StoredSuperblock { superblock: None, ..stored() };
        assert_eq!(StoredSuperblock::decode(&new.encode(&keyring), &keyring), Some(new));
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert_eq!(StoredSuperblock::decode(&bytes, &keyring), None, "byte {at}");
            bytes[at] ^= 1;
            assert_eq!(StoredSuperblock::decode(&bytes[..at], &keyring), None, "{at} bytes");
        }
        assert_eq!(StoredSuperblock::decode(&bytes, &Keyring::clear(8)), None, "another array");
    }
}

#[test]
fn a_batch_reads_back_and_every_changed_byte_is_detected() {
    for keyring in keyrings() {
        let body = [Bytes::from(vec![7; 4096])];
        let mut bytes =
            encode_batch((JournalPos(6), JournalPos(4)), b"head", &body, (5, 11), &keyring).to_vec();
        assert_eq!(bytes.len() as u64, batch_bytes(4, 4096));
        let (found, len) = decode_batch(&bytes, &keyring).expect("a batch");
        assert_eq!(
            (found.epoch, found.batch.pos, found.acknowledged, len),
            (5, JournalPos(6), JournalPos(4), bytes.len())
        );
        assert_eq!((&found.batch.head[..], &found.batch.body[..]), (&b"head"[..], &body[0][..]));
        for at in (0..HEADER_BYTES + 4 + 4096).step_by(3) {
            bytes[at] ^= 16;
            assert!(decode_batch(&bytes, &keyring).is_none(), "byte {at}");
            bytes[at] ^= 16;
        }
        assert!(decode_batch(&bytes[..bytes.len() - 4096], &keyring).is_none(), "its end is missing");
    }
}

#[test]
fn a_superblock_of_a_later_release_is_refused_with_what_to_do() {
    let mut bytes = stored().encode(&Keyring::clear(7)).to_vec();
    assert!(StoredSuperblock::refusal(&bytes).is_none());
    bytes[8] = 9;
    let refusal = StoredSuperblock::refusal(&bytes).expect("a refusal").to_string();
    assert!(refusal.contains("version 9") && refusal.contains("use that release"), "{refusal}");
}

/// A field at an offset, as a number.
fn field(bytes: &[u8], at: usize, len: usize) -> u64 {
    let mut number = [0; 8];
    number[..len].copy_from_slice(&bytes[at..at + len]);
    u64::from_le_bytes(number)
}

/// Version 1, as `docs/format/rados.md` draws it: changes only with the version.
#[test]
fn fields_are_where_the_format_says() {
    let keyring = Keyring::clear(7);
    let bytes = stored().encode(&keyring);
    assert_eq!(&bytes[..8], b"ASHRSUPB");
    let fields =
        [(8, 4), (12, 8), (28, 8), (36, 8), (44, 8), (52, 4), (56, 4), (60, 4), (64, 8), (72, 4), (76, 4)];
    let found = fields.map(|(at, len)| field(&bytes, at, len));
    assert_eq!(found, [1, 7, 5, 11, 8, 8160, 4080, 9, 1 << 20, 1 << 16, 1 << 12]);
    let fields = [(80, 8), (88, 2), (90, 2), (92, 4)];
    assert_eq!(fields.map(|(at, len)| field(&bytes, at, len)), [3, 2, 14, 2 * 48 + 14 + 4]);
    assert_eq!(field(&bytes, 236, 4), u64::from(crc32c([&bytes[256..]])));
    assert_eq!(field(&bytes, 252, 4), u64::from(crc32c([&bytes[..252]])));
    let owners = [0, 8, 16, 40, 48, 56].map(|at| field(&bytes, 256 + at, 8));
    assert_eq!(owners, [2, 1, 1, 2, 5, 4]);
    assert_eq!(&bytes[256 + 96..], b"127.0.0.1:0/77root");

    let body = [Bytes::from(vec![7; 4096])];
    let bytes = encode_batch((JournalPos(6), JournalPos(4)), b"head", &body, (5, 11), &keyring);
    assert_eq!(&bytes[..8], b"ASHRBTCH");
    let fields = [(8, 4), (12, 8), (28, 8), (36, 8), (44, 8), (52, 4), (56, 4), (60, 8)];
    assert_eq!(fields.map(|(at, len)| field(&bytes, at, len)), [1, 7, 5, 11, 6, 4, 4096, 4]);
    assert_eq!(&bytes[256..261], b"head\x07");
    assert_eq!(bytes.len(), 2 * 4096);
}
