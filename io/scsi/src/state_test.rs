use super::*;

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
        let bytes = store(&Reservations::new(registry.clone()), &Pages::default()).unwrap();
        let (reservations, pages) = load(&bytes).unwrap();
        assert_eq!((reservations.registry, pages), (registry, Pages::default()));
    }
}

#[test]
fn a_registry_without_aptpl_leaves_nothing() {
    let mut registry = Registry::restore(1, vec![registrant("iqn.a", 1)], None);
    registry.persists = false;
    let (reservations, _) = load(&store_registry(&registry, &Pages::default()).unwrap()).unwrap();
    assert_eq!(reservations.registry, Registry::default());
}

#[test]
fn what_would_not_be_read_back_is_not_stored() {
    for name in ["x".repeat(256), "x".repeat(300)] {
        let registry = Registry::restore(1, vec![registrant(&name, 1)], None);
        assert!(store_registry(&registry, &Pages::default()).is_err());
    }
}

/// Version 1: no page images, one registrant that holds Write Exclusive.
fn older() -> Vec<u8> {
    [
        &[1, 0, 0, 1, 5, 0, 0, 0, 1, 0, 0, 1, 0][..],
        &[9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4, 5, 6, 3, b'i', b'q', b'n'],
    ]
    .concat()
}

#[test]
fn bytes_of_an_older_release_are_understood() {
    let (reservations, pages) = load(&older()).unwrap();
    let holder = port("iqn", 1);
    assert_eq!(reservations.registry.key(&holder), Some(9));
    assert_eq!(
        reservations.registry.held(),
        Some(&Held { kind: Kind::WriteExclusive, holder: Some(holder) })
    );
    assert_eq!((reservations.registry.generation, pages), (5, Pages::default()));
}

#[test]
fn what_is_not_understood_to_its_last_byte_is_no_state() {
    let bytes = older();
    assert!(load(&[]).is_some(), "nothing was saved");
    for length in 1..bytes.len() {
        assert!(load(&bytes[..length]).is_none(), "{length} bytes");
    }
    assert!(load(&[&bytes[..], &[0]].concat()).is_none(), "more than there is to it");
    let with = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        load(&bytes)
    };
    assert!(with(0, 2).is_none(), "another version");
    assert!(with(3, 2).is_none(), "persistent or not");
    assert!(with(8, 9).is_none(), "a type of reservation that there is not");
    assert!(with(8, 0).is_none(), "a holder of no reservation");
    assert!(with(8, 7).is_none(), "a single holder of a reservation that all hold");
    assert!(with(9, 1).is_none(), "a holder that is not registered");
    assert!(with(23, 2).is_none(), "all ports or not");
    assert!(load(&[1, 3, 0, 0x3E, 1, 0, 0]).is_none(), "a mode page that there is not");
}

#[test]
fn no_bytes_make_it_panic() {
    let bytes = older();
    for at in 0..bytes.len() {
        for value in 0..=255 {
            let mut other = bytes.clone();
            other[at] = value;
            load(&other);
        }
    }
}
