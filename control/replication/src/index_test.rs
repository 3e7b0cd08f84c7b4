use super::*;

fn fingerprint(n: u64) -> Fingerprint {
    let mut out = [0; 16];
    out[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    out[8..].copy_from_slice(&n.wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes());
    out
}

#[test]
fn the_last_place_of_a_block_is_found() {
    let mut index = Index::new(1024);
    (0..100).for_each(|n| index.insert(&fingerprint(n), DiskId(u128::from(n % 3)), n));
    index.insert(&fingerprint(7), DiskId(9), 70);
    assert_eq!(index.find(&fingerprint(7)), Some((DiskId(9), 70)));
    assert_eq!(index.find(&fingerprint(8)), Some((DiskId(2), 8)));
    assert_eq!(index.find(&fingerprint(500)), None);
}

#[test]
fn a_full_index_keeps_its_size_and_most_of_the_newest() {
    let mut index = Index::new(64);
    (0..10_000).for_each(|n| index.insert(&fingerprint(n), DiskId(1), n));
    let found = (0..10_000).filter(|n| index.find(&fingerprint(*n)).is_some()).count();
    assert_eq!(found, 64);
    assert!((9_990..10_000).any(|n| index.find(&fingerprint(n)).is_some()));
}

#[test]
fn an_index_of_no_entries_finds_nothing() {
    let mut index = Index::new(3);
    index.insert(&fingerprint(1), DiskId(1), 1);
    assert_eq!(index.find(&fingerprint(1)), None);
}
