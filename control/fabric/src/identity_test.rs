use super::*;
use cluster::{Identity, Standing};

const ARRAY: u128 = 7;

fn own(secret: &[u8], id: u16) -> Own {
    let identity = mutual_tls::new_identity(vec!["controller.ashlar.invalid".into()], "test").unwrap();
    Own::new(secret, identity, (ARRAY, id)).unwrap()
}

fn map_of(own: &Own) -> Map {
    let link = cluster::Link {
        address: "192.0.2.1:8445".into(),
        certificate: own.fingerprint.clone(),
        proof: own.proof.clone(),
    };
    let identity = Identity {
        id: MemberId(own.id),
        name: String::new(),
        instance: 1,
        link,
        service: Default::default(),
        release: String::new(),
        reads: 0,
    };
    Map::first(ARRAY, (1, 0), &identity)
}

fn shown(own: &Own) -> Vec<u8> {
    mutual_tls::parse(&own.identity).unwrap().0.to_vec()
}

#[test]
fn a_controller_is_known_by_its_certificate_and_the_shared_key() {
    let (one, two) = (own(b"shared", 1), own(b"shared", 2));
    let map = map_of(&two);
    assert_eq!(one.find(&map, &shown(&two)).unwrap().id, 2);
    let unknown = one.find(&map, &shown(&one)).unwrap_err().to_string();
    assert!(unknown.contains("no controller"), "{unknown}");
}

#[test]
fn who_can_only_write_the_map_is_not_trusted() {
    let (one, other) = (own(b"shared", 1), own(b"guessed", 2));
    let error = one.find(&map_of(&other), &shown(&other)).unwrap_err().to_string();
    assert!(error.contains("another secrets.key"), "{error}");
    // The proof of one controller is none for another one, nor for another certificate.
    let two = own(b"shared", 2);
    let mut map = map_of(&two);
    map.members[0].id = 3;
    assert!(!one.trusts(&map.members[0]));
    let mut map = map_of(&two);
    map.members[0].link.certificate = other.fingerprint.clone();
    assert!(one.find(&map, &shown(&other)).is_err());
    for wrong in ["", "0", "zz", "é"] {
        map.members[0].link.proof = wrong.into();
        assert!(!one.trusts(&map.members[0]), "{wrong}");
    }
}

#[test]
fn a_controller_that_was_expelled_is_not_served() {
    let (one, two) = (own(b"shared", 1), own(b"shared", 2));
    let mut map = map_of(&two);
    map.members[0].standing = Standing::Expelled;
    let error = one.find(&map, &shown(&two)).unwrap_err().to_string();
    assert!(error.contains("does not take part"), "{error}");
}

#[test]
fn a_folder_keeps_its_certificate_and_needs_the_shared_key() {
    let folder = tempfile::tempdir().unwrap();
    let error = Own::load(folder.path(), (ARRAY, 1)).err().unwrap().to_string();
    assert!(error.contains("secrets.key") && error.contains("copy it"), "{error}");
    std::fs::write(folder.path().join("secrets.key"), [9; 32]).unwrap();
    let first = Own::load(folder.path(), (ARRAY, 1)).unwrap();
    let again = Own::load(folder.path(), (ARRAY, 1)).unwrap();
    assert_eq!((first.fingerprint, first.proof), (again.fingerprint, again.proof));
}
