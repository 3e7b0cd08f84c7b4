use super::*;
use shelf::arbiter::{Sign, Signs};

const VICTIM: MemberId = MemberId(2);

fn beat(count: u64) -> Beat {
    Beat { joined: 1, count }
}

/// Notes that a witness has a beat.
fn note(observation: &mut Observation, witness: usize, count: u64, now: u64) {
    let signs = Signs::from([(VICTIM, Sign { beat: beat(count), mark: 0 })]);
    observation.note(witness, &signs, &[VICTIM], MemberId(1), now);
}

/// The beats stop at one witness after the other, and one of the first does not reply.
#[test]
fn a_witness_that_does_not_reply_does_not_hold_an_expulsion_up() {
    let mut observation = Observation::new(3);
    note(&mut observation, 0, 7, 10);
    note(&mut observation, 1, 8, 20);
    note(&mut observation, 2, 7, 10);
    let mut expulsion = Expulsion::new(VICTIM, 5, (3, &observation), (110, 10));
    assert_eq!(expulsion.attempt(110, 500), Some((0, beat(7))));
    assert_eq!(expulsion.attempt(110, 500), Some((2, beat(7))));
    assert_eq!(expulsion.attempt(110, 500), None);
    expulsion.note(0, true);
    expulsion.observe(&observation, 19);
    assert_eq!(expulsion.attempt(119, 500), None, "it may hold a lease by this one");
    expulsion.observe(&observation, 20);
    assert_eq!(expulsion.attempt(120, 500), Some((1, beat(8))));
    expulsion.note(1, true);
    assert!(expulsion.is_certain());
}

/// A member that beats again can't be marked; when it is silent again, the same witness is asked again.
#[test]
fn a_witness_that_refused_a_mark_is_asked_again_once_its_beat_stands_still() {
    let mut observation = Observation::new(3);
    (0..2).for_each(|witness| note(&mut observation, witness, 7, 10));
    let mut expulsion = Expulsion::new(VICTIM, 5, (3, &observation), (110, 10));
    while expulsion.attempt(110, 110).is_some_and(|(witness, _)| witness == 0) {
        expulsion.note(0, false);
    }
    observation.forget(0, VICTIM);
    note(&mut observation, 0, 9, 120);
    expulsion.observe(&observation, 119);
    assert!(expulsion.attempt(219, 300).is_none_or(|(witness, _)| witness != 0));
    expulsion.observe(&observation, 120);
    assert_eq!(expulsion.attempt(220, 300), Some((0, beat(9))));
}
