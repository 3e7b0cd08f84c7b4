use super::*;

fn fingerprint(n: u64) -> Fingerprint {
    u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_bf58_476d_1ce4_e5b9).to_le_bytes()
}

#[test]
fn a_fingerprint_is_found_by_its_identity_alone() {
    let mut known = Known::new(1024);
    // Consecutive identities, and the smallest and the largest possible one.
    (0..200).for_each(|n| known.insert(n, fingerprint(n)));
    known.insert(u64::MAX >> 2, fingerprint(1000));
    known.insert(7, fingerprint(70));
    assert_eq!(known.find(0), Some(fingerprint(0)));
    assert_eq!(known.find(7), Some(fingerprint(70)));
    assert_eq!(known.find(199), Some(fingerprint(199)));
    assert_eq!(known.find(u64::MAX >> 2), Some(fingerprint(1000)));
    assert_eq!(known.find(200), None);
}

#[test]
fn a_full_one_keeps_its_size_and_is_never_wrong() {
    let mut known = Known::new(64);
    (0..10_000).for_each(|n| known.insert(n, fingerprint(n)));
    let found: Vec<_> = (0..10_000).filter_map(|n| Some((n, known.find(n)?))).collect();
    assert!(found.len() <= 64 && found.len() > 16, "{} are known", found.len());
    assert!(found.iter().all(|(n, found)| *found == fingerprint(*n)));
    assert!(found.iter().any(|(n, _)| *n > 9_900));
}

#[test]
fn one_of_no_entries_knows_nothing() {
    let mut known = Known::new(3);
    known.insert(1, fingerprint(1));
    assert_eq!(known.find(1), None);
}
