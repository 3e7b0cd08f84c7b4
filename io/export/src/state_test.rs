use super::*;

fn nexus(name: &str, target_port: u16) -> NexusName {
    NexusName { initiator: InitiatorPort::iscsi(name, [1, 2, 3, 4, 5, 6]), target_port }
}

fn registrant(name: &str, key: u64) -> Registrant {
    Registrant { nexus: nexus(name, 2), key, all_ports: key == 1 }
}

fn with(registrations: Registrations) -> SavedState {
    let mode_pages = Bytes::from_static(&[0x0A, 2, 0, 0]);
    SavedState { registrations, mode_pages, ..SavedState::default() }
}

#[test]
fn a_state_is_decoded_as_it_was_encoded() {
    let registrants = vec![registrant("iqn.a", 1), registrant("iqn.b", u64::MAX)];
    for reservation in [
        None,
        Some(Reservation { kind: ReservationType::ExclusiveAccess, holder: Some(nexus("iqn.b", 2)) }),
        Some(Reservation { kind: ReservationType::WriteExclusiveAll, holder: None }),
    ] {
        let state = with(Registrations::restore(77, registrants.clone(), reservation));
        let bytes = state.encode().unwrap();
        assert_eq!(bytes[0], 1, "written as version 1, which earlier releases can read");
        assert_eq!(SavedState::decode(&bytes), Some(state));
    }
}

#[test]
fn registrations_without_aptpl_are_not_saved() {
    let mut registrations = Registrations::restore(1, vec![registrant("iqn.a", 1)], None);
    registrations.persists = false;
    let decoded = SavedState::decode(&with(registrations).encode().unwrap()).unwrap();
    assert_eq!(decoded, with(Registrations::default()));
}

#[test]
fn a_state_that_would_not_be_decoded_is_not_encoded() {
    for name in ["x".repeat(256), "x".repeat(300)] {
        let registrations = Registrations::restore(1, vec![registrant(&name, 1)], None);
        assert!(with(registrations).encode().is_err());
    }
}

/// Version 1: no page images, one registrant that holds Write Exclusive.
fn version_1() -> Vec<u8> {
    [
        &[1, 0, 0, 1, 5, 0, 0, 0, 1, 0, 0, 1, 0][..],
        &[9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4, 5, 6, 3, b'i', b'q', b'n'],
    ]
    .concat()
}

#[test]
fn version_1_is_read() {
    let state = SavedState::decode(&version_1()).unwrap();
    let holder = nexus("iqn", 1);
    assert_eq!(state.registrations.key(&holder), Some(9));
    let reservation = Reservation { kind: ReservationType::WriteExclusive, holder: Some(holder) };
    assert_eq!(state.registrations.reservation(), Some(&reservation));
    assert_eq!((state.registrations.generation, state.mode_pages.len()), (5, 0));
    assert_eq!(state.encode().unwrap(), version_1(), "and written back byte by byte");
}

/// Version 2: a registrant of each transport, and a record of an unknown type.
fn version_2() -> Vec<u8> {
    let registrant = [9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0];
    let registrations = [
        &[5, 0, 0, 0, 3, 1, 0, 5, 0][..],
        &registrant,
        &[1, 1, 2, 3, 4, 5, 6, 3, b'i', b'q', b'n'],
        &registrant,
        &[2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 3, b'n', b'q', b'n'],
        &registrant,
        &[3, 0x21, 0, 0, 0x24, 0xFF, 0, 0, 1, 0],
        &registrant,
        &[4, 0x50, 0, 0, 0, 0, 0, 0, 1, 0],
        &registrant,
        &[5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0],
    ]
    .concat();
    let length = registrations.len() as u8;
    [
        &[2, 1, 0, 2, 0, 0, 0, 0xAA, 0xBB, 2, 0, length, 0, 0, 0][..],
        &registrations,
        &[0x34, 0x12, 3, 0, 0, 0, 7, 8, 9],
    ]
    .concat()
}

/// Version 2 with volatile state: of power-on 7, two bytes of the SCSI front end, one registrant that holds Write Exclusive.
fn volatile() -> Vec<u8> {
    [
        &[2, 1, 0, 0, 0, 0, 0, 3, 0, 50, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0xAA, 0xBB][..],
        &[5, 0, 0, 0, 1, 0, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0],
        &[1, 1, 2, 3, 4, 5, 6, 8],
        b"iqn.test",
    ]
    .concat()
}

#[test]
fn volatile_state_is_a_record_of_version_2() {
    let state = SavedState::decode(&volatile()).unwrap();
    assert_eq!(state.registrations, Registrations::default());
    let volatile_state = state.volatile.clone().unwrap();
    assert_eq!((volatile_state.power_on, &volatile_state.scsi[..]), (7, &[0xAA, 0xBB][..]));
    let registrations = volatile_state.registrations.unwrap();
    assert_eq!((registrations.persists, registrations.generation), (false, 5));
    assert!(registrations.holds(&nexus("iqn.test", 1)));
    assert_eq!(state.encode().unwrap(), volatile());
    for length in 8..volatile().len() {
        assert_eq!(SavedState::decode(&volatile()[..length]), None, "{length}");
    }
}

#[test]
fn version_2_holds_every_transport_and_keeps_unknown_records() {
    let state = SavedState::decode(&version_2()).unwrap();
    let initiators: Vec<_> =
        state.registrations.registrants().iter().map(|registrant| &registrant.nexus.initiator).collect();
    assert_eq!(*initiators[0], InitiatorPort::iscsi("iqn", [1, 2, 3, 4, 5, 6]));
    assert_eq!(*initiators[2], InitiatorPort::FibreChannel { wwpn: 0x2100_0024_FF00_0001 });
    assert!(matches!(initiators[1], InitiatorPort::Nvme { nqn, .. } if nqn == "nqn"));
    assert!(matches!(initiators[3], InitiatorPort::Sas { address: 0x5000_0000_0000_0001 }));
    assert!(matches!(initiators[4], InitiatorPort::Srp { .. }));
    let holder = state.registrations.reservation().and_then(|reservation| reservation.holder.as_ref());
    assert_eq!(holder.map(|nexus| &nexus.initiator), Some(initiators[1]));
    assert_eq!(&state.mode_pages[..], [0xAA, 0xBB]);
    assert_eq!(state.unknown.len(), 1);
    assert_eq!(state.encode().unwrap(), version_2());
}

#[test]
fn a_state_is_decoded_to_its_last_byte_or_not_at_all() {
    assert_eq!(SavedState::decode(&[]), Some(SavedState::default()), "nothing was saved");
    let bytes = version_1();
    for length in 1..bytes.len() {
        assert_eq!(SavedState::decode(&bytes[..length]), None, "{length} bytes");
    }
    assert_eq!(SavedState::decode(&[&bytes[..], &[0]].concat()), None, "bytes left over");
    let with = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        SavedState::decode(&bytes)
    };
    assert_eq!(with(0, 0), None, "older than the oldest version");
    assert_eq!(with(0, 3), None, "newer than the current version");
    assert_eq!(with(3, 2), None, "persistent or not");
    assert_eq!(with(8, 9), None, "an unknown type of reservation");
    assert_eq!(with(8, 0), None, "a holder of no reservation");
    assert_eq!(with(8, 7), None, "a single holder of a shared reservation");
    assert_eq!(with(9, 1), None, "a holder that is not registered");
    assert_eq!(with(23, 2), None, "all ports or not");
    let bytes = version_2();
    // The prefixes that end with a complete record are states of their own.
    let ends = [1, 9, bytes.len() - 9];
    for length in (1..bytes.len()).filter(|length| !ends.contains(length)) {
        assert_eq!(SavedState::decode(&bytes[..length]), None, "{length} bytes");
    }
    let twice = [&bytes[..], &bytes[1..9]].concat();
    assert_eq!(SavedState::decode(&twice), None, "a record that may occur once");
    let mut unknown_transport = bytes.clone();
    unknown_transport[9 + 6 + 9 + 11] = 6;
    assert_eq!(SavedState::decode(&unknown_transport), None, "an unknown transport");
}

#[test]
fn arbitrary_bytes_do_not_panic() {
    for bytes in [version_1(), version_2()] {
        for at in 0..bytes.len() {
            for value in 0..=255 {
                let mut other = bytes.clone();
                other[at] = value;
                SavedState::decode(&other);
            }
        }
    }
}
