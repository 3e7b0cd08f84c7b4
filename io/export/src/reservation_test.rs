use super::*;
use crate::InitiatorPort;

fn nexus(name: &str) -> NexusName {
    NexusName { initiator: InitiatorPort::iscsi(name, [0; 6]), target_port: 1 }
}

fn register(registrations: &Registrations, name: &str, key: u64) -> Registrations {
    let request = Request::Register {
        existing: None,
        key,
        nexuses: vec![nexus(name)],
        all_ports: false,
        persists: false,
    };
    registrations.evaluate(&nexus(name), 0, &request).expect("a registration").next
}

#[test]
fn a_refused_request_changes_nothing() {
    let registrations = register(&Registrations::default(), "a", 1);
    let before = registrations.clone();
    let refused = registrations.evaluate(&nexus("a"), 2, &Request::Clear);
    assert_eq!((refused, registrations), (Err(Refusal::Conflict), before));
}

#[test]
fn registrations_are_bounded() {
    let mut registrations = Registrations::default();
    for index in 0..256 {
        registrations = register(&registrations, &format!("host{index}"), 1);
    }
    let request = Request::Register {
        existing: None,
        key: 1,
        nexuses: vec![nexus("one more")],
        all_ports: false,
        persists: false,
    };
    let refused = registrations.evaluate(&nexus("one more"), 0, &request);
    assert_eq!(refused, Err(Refusal::TooManyRegistrants));
}

#[test]
fn a_shared_reservation_ends_with_its_last_registrant() {
    let registrations = register(&register(&Registrations::default(), "a", 1), "b", 2);
    let kind = ReservationType::ExclusiveAccessAll;
    let registrations = registrations.evaluate(&nexus("a"), 1, &Request::Reserve { kind }).unwrap().next;
    let registrations = register(&registrations, "a", 0);
    assert!(registrations.holds(&nexus("b")) && !registrations.admits(&nexus("a")));
    assert_eq!(register(&registrations, "b", 0).reservation(), None);
}

#[test]
fn initiators_of_different_transports_are_different_registrants() {
    let registrations = register(&Registrations::default(), "a", 1);
    let initiator = InitiatorPort::Nvme { nqn: "a".into(), host_id: [0; 16] };
    assert_eq!(registrations.key(&NexusName { initiator, target_port: 1 }), None);
}
