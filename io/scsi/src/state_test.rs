use super::*;
use crate::cdb::List;

fn port(name: &str, target: u16) -> Port {
    Port { initiator: InitiatorPort { name: name.into(), isid: [1, 2, 3, 4, 5, 6] }, target }
}

fn registrant(name: &str, key: u64) -> Registrant {
    Registrant { port: port(name, 2), key, all_ports: key == 1 }
}

#[test]
fn what_is_stored_is_loaded() {
    let registrants = vec![registrant("iqn.a", 1), registrant("iqn.b", u64::MAX)];
    for held in [
        None,
        Some(Held { kind: Kind::ExclusiveAccess, holder: Some(port("iqn.b", 2)) }),
        Some(Held { kind: Kind::WriteExclusiveAll, holder: None }),
    ] {
        let registry = Registry::restore(77, registrants.clone(), held);
        let bytes = store(&Reservations::new(registry.clone()), &Pages::default());
        let (reservations, pages) = load(&bytes);
        assert_eq!((reservations.registry, pages), (registry, Pages::default()));
    }
}

#[test]
fn a_registry_without_aptpl_leaves_nothing() {
    let mut registry = Registry::restore(1, vec![registrant("iqn.a", 1)], None);
    registry.persists = false;
    let (reservations, _) = load(&store_registry(&registry, &Pages::default()));
    assert_eq!(reservations.registry, Registry::default());
}

#[test]
fn bytes_of_an_older_release_are_understood() {
    // Version 1: no page images, one registrant that holds Write Exclusive.
    let bytes = [
        &[1, 0, 0, 1, 5, 0, 0, 0, 1, 0, 0, 1, 0][..],
        &[9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4, 5, 6, 3, b'i', b'q', b'n'],
    ]
    .concat();
    let (reservations, pages) = load(&bytes);
    let holder = port("iqn", 1);
    assert_eq!(reservations.registry.key(&holder), Some(9));
    assert_eq!(
        reservations.registry.held(),
        Some(&Held { kind: Kind::WriteExclusive, holder: Some(holder) })
    );
    assert_eq!((reservations.registry.generation, pages), (5, Pages::default()));
}

#[test]
fn damaged_bytes_are_no_state_and_no_panic() {
    let registry = Registry::restore(1, vec![registrant("iqn.a", 1)], None);
    let bytes = store_registry(&registry, &Pages::default());
    for length in 0..bytes.len() {
        assert_eq!(load(&bytes[..length]).0.registry, Registry::default());
    }
    for at in 0..bytes.len() {
        let mut other = bytes.to_vec();
        other[at] ^= 0xFF;
        load(&other);
    }
    assert!(Pages::from_saved(List(&bytes).0) == Pages::default());
}
