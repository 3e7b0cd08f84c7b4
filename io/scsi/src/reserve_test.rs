use super::registry::Action;
use super::*;
use crate::InitiatorPort;

fn port(name: &str) -> Port {
    Port { initiator: InitiatorPort { name: name.into(), isid: [0; 6] }, target: 1 }
}

fn register(registry: &Registry, name: &str, key: u64) -> Registry {
    let action =
        Action::Register { existing: None, key, ports: vec![port(name)], all_ports: false, persists: false };
    registry.perform(&port(name), 0, &action).expect("a registration").next
}

#[test]
fn a_refused_action_changes_nothing() {
    let registry = register(&Registry::default(), "a", 1);
    let before = registry.clone();
    let refused = registry.perform(&port("a"), 2, &Action::Clear);
    assert_eq!((refused, registry), (Err(Fault::CONFLICT), before));
}

#[test]
fn registrations_are_bounded() {
    let mut registry = Registry::default();
    for index in 0..256 {
        registry = register(&registry, &format!("host{index}"), 1);
    }
    let action = Action::Register {
        existing: None,
        key: 1,
        ports: vec![port("one more")],
        all_ports: false,
        persists: false,
    };
    assert!(registry.perform(&port("one more"), 0, &action).is_err());
}

#[test]
fn the_last_registrant_takes_a_shared_reservation_along() {
    let registry = register(&register(&Registry::default(), "a", 1), "b", 2);
    let kind = Kind::ExclusiveAccessAll;
    let registry = registry.perform(&port("a"), 1, &Action::Reserve { kind }).unwrap().next;
    let registry = register(&registry, "a", 0);
    assert!(registry.holds(&port("b")) && !registry.admits(&port("a")));
    assert_eq!(register(&registry, "b", 0).held(), None);
}
