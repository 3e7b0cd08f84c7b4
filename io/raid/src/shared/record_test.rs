use super::*;

const ARRAY: u128 = 0xa5;

fn sign(key: u64, count: u64) -> Sign {
    Sign { key, beat: Beat { joined: 3, count }, marks: [0, 7] }
}

fn value(version: u64, map: &'static str) -> Value {
    Value { version, proposal: (9, version), map: Bytes::from_static(map.as_bytes()) }
}

/// Two copies of a record, as on a drive.
struct Pair(Vec<u8>);

impl Pair {
    fn new(bytes: usize) -> Self {
        Self(vec![0; 2 * bytes])
    }

    fn write<R: Record>(&mut self, record: &R) -> usize {
        let before = newest::<R>(&self.0, ARRAY, 1).unwrap();
        let (copy, page) = next(record, ARRAY, 1, before.as_ref());
        self.0[copy * R::BYTES..(copy + 1) * R::BYTES].copy_from_slice(&page);
        copy
    }

    fn newest<R: Record>(&self) -> Option<R> {
        newest::<R>(&self.0, ARRAY, 1).unwrap().map(|found| found.record)
    }
}

#[test]
fn the_older_copy_is_overwritten_and_a_torn_one_does_not_count() {
    let mut pair = Pair::new(SIGN_BYTES);
    assert_eq!(pair.newest::<Sign>(), None);
    assert_eq!([1, 2, 3].map(|count| pair.write(&sign(5, count))), [0, 1, 0]);
    assert_eq!(pair.newest(), Some(sign(5, 3)));
    pair.0[100] ^= 1;
    assert_eq!(pair.newest(), Some(sign(5, 2)), "the copy before");
    assert_eq!(pair.write(&sign(5, 4)), 0, "over the torn one");
    assert_eq!(pair.newest(), Some(sign(5, 4)));
}

#[test]
fn keys_of_both_copies_are_known() {
    let mut pair = Pair::new(SIGN_BYTES);
    pair.write(&sign(5, 1));
    pair.write(&sign(6, 1));
    let keys: Vec<u64> = copies::<Sign>(&pair.0, ARRAY).iter().map(|sign| sign.key).collect();
    assert_eq!(keys, [5, 6]);
    assert!(copies::<Sign>(&pair.0, ARRAY + 1).is_empty(), "of another array");
}

#[test]
fn ballots_keep_both_maps() {
    let mut pair = Pair::new(BALLOT_BYTES);
    let long = Value { map: Bytes::from(vec![b'm'; MAX_MAP_BYTES]), ..value(4, "") };
    let ballots = [
        Ballot::default(),
        Ballot { decided: Some(value(3, "three")), ..Ballot::default() },
        Ballot {
            decided: Some(long.clone()),
            begun: 6,
            accepted: 4,
            value: Some(Value { version: 5, ..long }),
        },
    ];
    for ballot in ballots {
        pair.write(&ballot);
        assert_eq!(pair.newest(), Some(ballot));
    }
}

#[test]
fn records_of_another_controller_or_release_are_not_taken() {
    let mut pair = Pair::new(SIGN_BYTES);
    pair.write(&sign(5, 1));
    assert!(newest::<Sign>(&pair.0, ARRAY, 0).unwrap().is_none());
    pair.0[24] = 9;
    let at = SIGN_BYTES - CHECKSUM_BYTES;
    let checksum = crc32c([&pair.0[..at]]);
    pair.0[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
    assert!(matches!(newest::<Sign>(&pair.0, ARRAY, 1), Err(Error::Unusable(_))));
}

#[test]
fn a_list_names_an_odd_number_of_drives() {
    let page = encode_list(ARRAY, &[1, 2, 3]);
    assert_eq!(decode_list(&page, ARRAY), Ok(Some(vec![1, 2, 3])));
    assert_eq!(decode_list(&page, ARRAY + 1), Ok(None));
    assert_eq!(decode_list(&[0; LIST_BYTES], ARRAY), Ok(None));
    let mut even = page.to_vec();
    even[28] = 2;
    let at = LIST_BYTES - CHECKSUM_BYTES;
    let checksum = crc32c([&even[..at]]);
    even[at..].copy_from_slice(&checksum.to_le_bytes());
    assert!(matches!(decode_list(&even, ARRAY), Err(Error::Corrupt { .. })));
}
