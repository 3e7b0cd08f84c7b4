use super::*;
use proptest::prelude::*;

fn sequence(number: u64, lowest: u64) -> Sequence {
    Sequence { front: 9, number, lowest }
}

fn whole(sequence: Sequence) -> Note {
    Note { sequence, whole: true }
}

#[test]
fn a_command_is_done_once() {
    let mut done = NotedCommands::default();
    assert_eq!(done.look_up(sequence(5, 3)), Known::New);
    done.note(whole(sequence(5, 3)));
    assert_eq!(done.look_up(sequence(5, 3)), Known::Done);
    assert_eq!(done.look_up(sequence(4, 3)), Known::New, "commands are done in any order");
    assert_eq!(done.look_up(Sequence { front: 8, number: 5, lowest: 3 }), Known::New, "of another front end");
    done.note(whole(sequence(7, 6)));
    assert_eq!(done.look_up(sequence(5, 3)), Known::Answered, "a late copy");
    assert_eq!(done.len(), 1);
    done.forget(9);
    assert!(done.is_empty());
}

#[test]
fn a_command_in_parts_is_done_with_its_last() {
    let mut done = NotedCommands::default();
    let part = Note { sequence: sequence(5, 3), whole: false };
    done.note(part);
    done.note(part);
    assert_eq!(done.look_up(sequence(5, 3)), Known::Part);
    let mut done = NotedCommands::decode(&done.encode()).expect("what was encoded");
    assert_eq!(done.look_up(sequence(5, 3)), Known::Part);
    done.note(whole(sequence(5, 4)));
    assert_eq!(done.look_up(sequence(5, 5)), Known::Done);
}

#[test]
fn numbers_that_contradict_each_other_are_refused() {
    let mut done = NotedCommands::default();
    assert_eq!(done.look_up(sequence(1, 2)), Known::Invalid);
    assert_eq!(done.look_up(sequence(MAX_WINDOW, 0)), Known::Invalid);
    assert_eq!(done.look_up(sequence(u64::MAX, u64::MAX)), Known::New);
    for front in 0..MAX_FRONTS as u64 {
        done.note(whole(Sequence { front: 100 + front, number: 0, lowest: 0 }));
    }
    assert_eq!(done.look_up(sequence(1, 1)), Known::Invalid, "too many front ends");
}

#[test]
fn damaged_bytes_are_refused() {
    let mut done = NotedCommands::default();
    (0..3).for_each(|number| done.note(whole(sequence(number, 0))));
    let good = done.encode();
    assert_eq!(NotedCommands::decode(&good), Some(done));
    for len in 0..good.len() {
        assert_eq!(NotedCommands::decode(&good[..len]), None, "{len} bytes");
    }
    assert_eq!(NotedCommands::decode(&[&good[..], &[0]].concat()), None);
    assert_eq!(NotedCommands::decode(&[0xff; 64]), None);
}

proptest! {
    /// A front end sends commands again in any order, and takes answers in any order; homes change in between.
    #[test]
    fn every_command_takes_effect_once(steps in proptest::collection::vec((0u64..40, any::<bool>(), any::<bool>()), 1..300)) {
        let (mut done, mut effects, mut answered) = (NotedCommands::default(), [0u32; 40], [false; 40]);
        let mut late = Vec::new();
        for (number, answer_arrives, home_changes) in steps {
            let lowest = answered.iter().position(|answered| !answered).unwrap_or(40) as u64;
            if number >= lowest && !answered[number as usize] {
                let sent = sequence(number, lowest);
                late.push(sent);
                match done.look_up(sent) {
                    Known::New => {
                        done.note(whole(sent));
                        effects[number as usize] += 1;
                    }
                    known => prop_assert_eq!(known, Known::Done),
                }
                answered[number as usize] |= answer_arrives;
            } else if let Some(copy) = late.get(number as usize).copied() {
                // A copy that was delayed on the way.
                let known = done.look_up(copy);
                prop_assert!(matches!(known, Known::Done | Known::Answered), "{:?}", known);
            }
            if home_changes {
                done = NotedCommands::decode(&done.encode()).expect("what was encoded");
            }
        }
        prop_assert!(effects.iter().all(|count| *count <= 1));
    }
}
