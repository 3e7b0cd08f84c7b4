use super::*;

const NAME: &str = "iqn.2030-01.clone:1";

fn address(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

fn found(displacements: &Displacements) -> Vec<String> {
    let host = |name: &str| (name == NAME).then(|| "web1".to_owned());
    displacements.conditions(host).into_values().map(|it| it.message).collect()
}

#[test]
fn machines_that_end_each_others_session_again_and_again_are_named() {
    let mut displacements = Displacements::default();
    for turn in 0..3 {
        assert!(found(&displacements).is_empty(), "a reinstatement alone is none");
        displacements.note(NAME, address(2), 1, 100 + turn);
        displacements.note(NAME, address(3), 1, 100 + turn);
    }
    let messages = found(&displacements);
    assert!(messages.len() == 1 && messages[0].contains("10.0.0.2 and 10.0.0.3"), "{messages:?}");
    displacements.forget(102 + WINDOW_SECONDS - 1);
    assert!(found(&displacements).is_empty(), "two of three are long ago");
    displacements.forget(102 + WINDOW_SECONDS);
    assert!(displacements.0.is_empty());
}

#[test]
fn one_machine_that_comes_back_and_unknown_names_are_none() {
    let mut displacements = Displacements::default();
    displacements.note(NAME, address(2), 50, 100);
    displacements.note(NAME, address(3), 2, 100);
    displacements.note("iqn.2030-01.gone:1", address(4), 9, 100);
    displacements.note("iqn.2030-01.gone:1", address(5), 9, 100);
    assert!(found(&displacements).is_empty());
}

#[test]
fn addresses_are_bounded() {
    let mut displacements = Displacements::default();
    for number in 0..200 {
        displacements.note(NAME, address(number), 1, number.into());
    }
    assert_eq!(displacements.0[NAME].len(), MAX_ADDRESSES);
    assert!(displacements.0[NAME].contains_key(&address(199)));
}
