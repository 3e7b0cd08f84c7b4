//! Hosts that send malformed PDUs: the connection ends with a termination request, nothing panics, and its memory is
//! bounded by the budget.

use crate::connection::UNKNOWN_GUARANTEE_BYTES;
use crate::lab_test::*;
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

const CONNECTIONS: u32 = 10_000;

/// A sound PDU of a kind that a host sends.
fn sound(host: &Host, choice: u64) -> Vec<u8> {
    match choice % 5 {
        0 => host.pdu(0, &[0; 120], &[], 0),
        1 => host.pdu(2, &[0; 16], &[1; 24], 0),
        2 => host.pdu(4, &write(1, 0, vec![3; 512], true).cid(9).bytes, &[3; 512], 0),
        3 => host.pdu(4, &write(1, 0, vec![3; 4096], false).cid(9).bytes, &[], 0),
        _ => host.pdu(6, &[9, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0], &[5; 4096], 4),
    }
}

#[test]
fn ten_thousand_malformed_pdus_end_their_connections() {
    let world = World::new();
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let (mut terminated, mut errors) = (0, [0; 7]);
    let mut admin = world.open();
    admin.initialize((false, false));
    let id = admin.connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32).unwrap();
    admin.run(property_set(0x14, 1));
    let base = world.budget.used();
    for round in 0..CONNECTIONS {
        let mut host = world.open();
        let stage = rng.next_u64() % 3;
        if stage > 0 {
            let digests = rng.next_u64();
            host.initialize((digests & 1 != 0, digests & 2 != 0));
        }
        if stage > 1 {
            host.connect(HOST, SUBSYSTEM, 1, id, 16).unwrap();
        }
        for _ in 0..=rng.next_u64() % 3 {
            let mut pdu = sound(&host, rng.next_u64());
            for _ in 0..rng.next_u64() % 4 {
                let at = (rng.next_u64() % pdu.len().min(48) as u64) as usize;
                pdu[at] = rng.next_u64() as u8;
            }
            host.send(&pdu);
        }
        assert!(world.budget.used() < base + (2 << 20), "round {round}");
        while let Some(came) = host.next() {
            if came.kind == 3 {
                terminated += 1;
                errors[usize::from(came.header[8])] += 1;
                assert!(host.connection.ended().is_some());
                assert!(!host.connection.wants_input(), "nothing is read after the end");
            }
        }
        drop(host);
        assert_eq!(world.budget.used(), base, "round {round}");
    }
    assert!(terminated > CONNECTIONS / 2, "{terminated}");
    // Every error except reserved ones and limits, which these mutations rarely hit.
    assert!(errors[1..=4].iter().all(|count| *count > 0), "{errors:?}");
    assert_eq!(admin.run(property_get(0x1C, false)).result, 1, "others are not disturbed");
}

#[test]
fn before_connect_a_connection_holds_little() {
    let world = World::new();
    let before = world.budget.used();
    let mut host = world.open();
    assert_eq!(world.budget.used() - before, UNKNOWN_GUARANTEE_BYTES);
    host.initialize((false, false));
    let refused = Cmd::new(0x06, 0).out(vec![0; 8192], true);
    for cid in 1..200 {
        let pdu = host.pdu(4, &refused.clone().cid(cid).bytes, &refused.data, 0);
        host.send(&pdu);
    }
    assert_eq!(world.budget.used() - before, UNKNOWN_GUARANTEE_BYTES);
    let long = host.pdu(4, &refused.clone().cid(1).bytes, &vec![0; 8193], 0);
    host.send(&long);
    assert!(host.connection.ended().is_some());
}

/// Writes whose data never arrives: their charge stays within the budget, and other hosts get their share.
#[test]
fn requested_data_is_charged_before_it_is_held() {
    let mut world = World::new();
    let (_admin, mut hog) = world.connected(HOST);
    world.peer = ([10, 0, 0, 7], 50_000).into();
    let (_other_admin, mut other) = world.connected(OTHER);
    let mut requested = 0;
    for _ in 0..120 {
        hog.submit(&write(1, 0, vec![0; 1 << 20], false));
        while let Some(came) = hog.next() {
            assert_eq!(came.kind, 9, "an R2T");
            requested += 1;
        }
    }
    assert!((16..=32).contains(&requested), "half of the pool of 64 MiB: {requested}");
    assert!(world.budget.used() <= 64 << 20);
    assert_eq!(other.run(write(1, 0, vec![1; 1 << 20], false)).status, 0);
    // While data are in transit, a capsule with data is refused, since it can't wait in the stream.
    let end = loop {
        let cmd = write(1, 0, vec![0; 8192], true);
        hog.submit(&cmd);
        if let Some(end) = hog.completion()
            && end.status != 0
        {
            break end;
        }
    };
    assert_eq!((end.status, end.retry), (0x021, true), "Command Interrupted");
    let used = world.budget.used();
    hog.connection.close("test");
    assert!(world.budget.used() < used - (16 << 20));
}
