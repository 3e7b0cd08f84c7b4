#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::task::{Context, Waker};

const LIMITS: ConnectionLimits = ConnectionLimits {
    total: 12,
    unauthenticated: 8,
    unauthenticated_per_address: 4,
    authenticated: 8,
    authenticated_per_identity: 3,
};

fn at(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + number).into()
}

fn gives_way(admitted: &Admitted) -> bool {
    pin!(admitted.gives_way()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn strangers_from_any_number_of_addresses_never_take_a_proven_slot_and_never_keep_a_new_one_out() {
    let admission = Admission::new(LIMITS);
    let known: Vec<_> = (0..4).map(|_| admission.admit(at(1)).unwrap()).collect();
    assert!(known[..3].iter().all(|it| it.prove("a")) && known[3].prove("b"));
    let mut strangers = Vec::new();
    for number in 0..500 {
        strangers.push(admission.admit(at(2 + number % 77)).unwrap());
    }
    let closed = strangers.iter().filter(|it| gives_way(it)).count();
    assert_eq!(closed, 500 - LIMITS.unauthenticated);
    assert!(!known.iter().any(gives_way));
    let late = admission.admit(at(1)).unwrap();
    assert!(late.prove("b") && !gives_way(&late));
}

#[test]
fn one_identity_does_not_take_every_slot() {
    let admission = Admission::new(LIMITS);
    let of_a: Vec<_> = (0..4).map(|number| admission.admit(at(number)).unwrap()).collect();
    let proven = of_a.iter().map(|it| it.prove("a")).collect::<Vec<_>>();
    assert_eq!(proven, [true, true, true, false]);
    assert!(of_a[0].prove("a"), "a second time");
    let of_b = admission.admit(at(9)).unwrap();
    assert!(of_b.prove("b"));
    drop(of_a);
    let again = admission.admit(at(1)).unwrap();
    assert!(again.prove("a"));
}

#[test]
fn proven_connections_leave_room_for_new_ones() {
    let admission = Admission::new(LIMITS);
    let open: Vec<_> = (0..12).map(|number| admission.admit(at(number)).unwrap()).collect();
    let proven = open.iter().enumerate().filter(|(number, it)| it.prove(&number.to_string())).count();
    assert_eq!(proven, LIMITS.authenticated);
    // All others give way one after the other; there always is a candidate.
    let more: Vec<_> = (0..20).map(|number| admission.admit(at(100 + number)).unwrap()).collect();
    assert_eq!(open.iter().chain(&more).filter(|it| gives_way(it)).count(), 20);
}

#[test]
fn a_connection_that_was_proven_gives_way_after_those_that_never_were() {
    let admission = Admission::new(LIMITS);
    let known = admission.admit(at(1)).unwrap();
    let strangers: Vec<_> = (0..3).map(|_| admission.admit(at(1)).unwrap()).collect();
    assert!(known.prove("a"));
    known.rest();
    let mut new = Vec::new();
    for stranger in &strangers {
        new.push(admission.admit(at(1)).unwrap());
        assert!(gives_way(stranger) && !gives_way(&known));
        // It is the youngest again.
        assert!(known.prove("a"));
        known.rest();
    }
}

#[test]
fn connections_of_this_machine_give_way_to_its_own_alone() {
    let admission = Admission::new(LIMITS);
    let here = IpAddr::from(Ipv4Addr::LOCALHOST);
    let local: Vec<_> = (0..4).map(|_| admission.admit(here).unwrap()).collect();
    let _strangers: Vec<_> = (0..100).map(|number| admission.admit(at(number)).unwrap()).collect();
    assert!(!local.iter().any(gives_way));
    let _one_more = admission.admit(here).unwrap();
    assert!(gives_way(&local[0]));
}

#[test]
fn a_slot_is_free_after_its_connection_whatever_its_state() {
    let admission = Admission::new(LIMITS);
    for round in 0..200 {
        let open: Vec<_> = (0..14).map(|number| admission.admit(at(number % 3)).unwrap()).collect();
        open.iter().skip(round % 5).for_each(|it| _ = it.prove("a"));
        open.iter().skip(round % 3).for_each(Admitted::rest);
    }
    let open = admission.open.lock();
    assert!(open.connections.is_empty() && open.unproven.is_empty() && open.proven.is_empty());
    assert_eq!(open.active(), 0);
}
