use super::*;

fn origin(nexus: u32) -> Origin {
    Origin { front: 1 << 40, nexus }
}

#[test]
fn a_state_is_decoded_as_it_was_encoded() {
    let attentions = vec![(origin(3), Code::MODE_CHANGED), (origin(4), Code::LUNS_CHANGED)];
    let full = Volatile { pages: vec![1, 2, 3], holder: Some(origin(7)), attentions, overflowed: false };
    for state in [full, Volatile { overflowed: true, ..Volatile::default() }, Volatile::default()] {
        assert_eq!(Volatile::decode(&state.encode()), Some(state));
    }
    assert!(Volatile::default().encode().is_empty());
}

#[test]
fn more_attentions_than_are_saved_are_one_for_all() {
    let attentions = (0..600).map(|nexus| (origin(nexus), Code::CAPACITY_CHANGED)).collect();
    let state = Volatile { attentions, ..Volatile::default() };
    let decoded = Volatile::decode(&state.encode()).unwrap();
    assert_eq!(decoded, Volatile { overflowed: true, ..Volatile::default() });
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let attentions = vec![(Origin { front: 2, nexus: 3 }, Code::RESERVATIONS_PREEMPTED)];
    let holder = Some(Origin { front: 0x0102, nexus: 9 });
    let bytes = Volatile { pages: vec![0xAA], holder, attentions, overflowed: false }.encode();
    let expected = [
        &[1, 1, 2, 1, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0xAA][..],
        &[1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 6, 0x2A, 3],
    ];
    assert_eq!(bytes, expected.concat());
}

#[test]
fn damaged_bytes_are_not_understood() {
    let attentions = vec![(origin(1), Code::MODE_CHANGED)];
    let bytes =
        Volatile { pages: vec![7; 9], holder: Some(origin(2)), attentions, overflowed: false }.encode();
    for length in 1..bytes.len() {
        assert_eq!(Volatile::decode(&bytes[..length]), None, "{length}");
    }
    for (at, value) in [(0, 2), (1, 4), (bytes.len() - 1, 0x55)] {
        let mut damaged = bytes.to_vec();
        damaged[at] = value;
        assert_eq!(Volatile::decode(&damaged), None, "{at}");
    }
}
