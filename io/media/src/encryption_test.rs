use super::*;

const ARRAY: u128 = 7;
const WITH: [u8; KEY_BYTES] = [3; KEY_BYTES];

fn key() -> DataKey {
    DataKey::new([9; KEY_BYTES])
}

fn sources() -> [KeySource; 3] {
    [
        KeySource::File,
        KeySource::Passphrase { salt: [4; 16], memory: 65_536, passes: 3, lanes: 4 },
        KeySource::Kmip { id: "3f2a".into() },
    ]
}

#[test]
fn a_wrapped_key_is_opened_by_the_key_that_wrapped_it_alone() {
    for source in sources() {
        let envelope = Envelope::wrap(ARRAY, &key(), source, &WITH, [1; 12]);
        let page = envelope.encode();
        assert_eq!(Envelope::decode(&page, ARRAY), Some(envelope.clone()));
        assert_eq!(Envelope::decode(&page, ARRAY + 1), None);
        assert_eq!(envelope.open(&WITH).map(|key| key.0), Some(key().0));
        assert!(envelope.open(&[2; KEY_BYTES]).is_none());
        assert!(!page.windows(8).any(|window| window == [9; 8]), "the data key is not on the page");
        assert!(Keyring::sealed(ARRAY, key()).fits(&envelope));
        assert!(!Keyring::sealed(ARRAY, DataKey::new([8; KEY_BYTES])).fits(&envelope));
    }
}

#[test]
fn a_damaged_envelope_is_told_apart_from_a_wrong_key() {
    let envelope = Envelope::wrap(ARRAY, &key(), sources()[1].clone(), &WITH, [1; 12]);
    let page = envelope.encode();
    for at in [0, 9, 40, 60, 2050, 2080, 4093] {
        let mut other = page.to_vec();
        other[at] ^= 1;
        assert_eq!(Envelope::decode(&other, ARRAY), None, "byte {at}");
    }
}

#[test]
fn the_key_derivation_parameters_are_covered_by_the_tag() {
    let envelope = Envelope::wrap(ARRAY, &key(), sources()[1].clone(), &WITH, [1; 12]);
    let weaker = KeySource::Passphrase { salt: [4; 16], memory: 8, passes: 1, lanes: 1 };
    assert!(Envelope { source: weaker, ..envelope.clone() }.open(&WITH).is_none());
    assert!(Envelope { sequence: 5, ..envelope }.open(&WITH).is_none());
}

#[test]
fn rotation_keeps_the_data_key_and_erasing_leaves_nothing() {
    let first = Envelope::wrap(ARRAY, &key(), KeySource::File, &WITH, [1; 12]);
    let second = first.rewrap(&key(), KeySource::Kmip { id: "k".into() }, &[5; KEY_BYTES], [2; 12]);
    assert_eq!((second.sequence, second.open(&WITH).is_none()), (2, true));
    assert_eq!(second.open(&[5; KEY_BYTES]).map(|key| key.0), Some(key().0));
    let gone = second.erased();
    assert_eq!((gone.sequence, &gone.source), (3, &KeySource::Erased));
    assert!(gone.open(&[5; KEY_BYTES]).is_none() && gone.open(&[0; KEY_BYTES]).is_none());
    assert_eq!(Envelope::decode(&gone.encode(), ARRAY), Some(gone));
}

#[test]
fn owners_and_kinds_have_keys_of_their_own() {
    let seal = |keyring: &Keyring, kind, salt| {
        let mut bytes = [0; 32];
        keyring.cipher(kind, salt).expect("a key").seal(&[0; 12], b"", &mut bytes);
        bytes
    };
    let sealed =
        |keyring: &Keyring| Kind::ALL.map(|kind| [seal(keyring, kind, 1), seal(keyring, kind, 2)]).concat();
    let all = sealed(&Keyring::sealed(ARRAY, key()));
    assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 6);
    assert_eq!(all, sealed(&Keyring::new(ARRAY, Some(key()), 2)), "for any owner of the drives");
}
