use super::*;

const NAME: &str = "iqn.2030-01.clone:1";

fn address(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

fn found(displacements: &Displacements) -> Vec<String> {
    let host = |name: &str| (name == NAME).then(|| "web1".to_owned());
    displacements.conditions(host).into_values().map(|it| it.message).collect()
}

const SESSION: (&str, u64) = (NAME, 0x0002_3D00_0001);

#[test]
fn machines_that_end_each_others_session_again_and_again_are_named() {
    let mut displacements = Displacements::default();
    for turn in 0..3 {
        assert!(found(&displacements).is_empty(), "a reinstatement alone is none");
        displacements.note(SESSION, address(2), 1, 100 + turn);
        displacements.note(SESSION, address(3), 1, 100 + turn);
    }
    let messages = found(&displacements);
    assert!(messages.len() == 1 && messages[0].contains("10.0.0.2 and 10.0.0.3"), "{messages:?}");
    displacements.forget(102 + WINDOW_SECONDS - 1);
    assert!(found(&displacements).is_empty(), "two of three are long ago");
    displacements.forget(102 + WINDOW_SECONDS);
    assert!(displacements.0.is_empty());
}

#[test]
fn machines_behind_one_address_are_recognised_by_how_often_they_do() {
    let mut displacements = Displacements::default();
    // Two machines, each of which logs in 2 s after it was displaced.
    for now in (100..138).step_by(2) {
        displacements.note(SESSION, address(2), 1, now);
        displacements.forget(now);
        assert!(found(&displacements).is_empty());
    }
    displacements.note(SESSION, address(2), 1, 138);
    let messages = found(&displacements);
    assert!(
        messages.len() == 1 && messages[0].contains("10.0.0.2 (several machines at one address"),
        "{messages:?}"
    );
}

#[test]
fn one_machine_that_comes_back_and_unknown_names_are_none() {
    let mut displacements = Displacements::default();
    // A network that is cut every 10 s takes 32 sessions at a time, and one of an address that the machine had before.
    for now in (100..1000).step_by(10) {
        displacements.forget(now);
        (0..32).for_each(|isid| displacements.note((NAME, isid), address(2), 1, now));
        assert!(found(&displacements).is_empty());
    }
    displacements.note((NAME, 0), address(3), 2, 1000);
    for now in 1000..1100 {
        displacements.note(("iqn.2030-01.gone:1", 0), address(4), 1, now);
        displacements.note(("iqn.2030-01.gone:1", 0), address(5), 1, now);
    }
    assert!(found(&displacements).is_empty());
}

#[test]
fn addresses_and_sessions_are_bounded() {
    let mut displacements = Displacements::default();
    for number in 0..200 {
        displacements.note(SESSION, address(number), 1, number.into());
    }
    let addresses = &displacements.0[&(NAME.to_owned(), SESSION.1)];
    assert_eq!(addresses.len(), MAX_ADDRESSES);
    assert!(addresses.contains_key(&address(199)));
    (0..10_000).for_each(|isid| displacements.note((NAME, isid), address(2), 1, 200));
    assert_eq!(displacements.0.len(), MAX_SESSIONS);
}
