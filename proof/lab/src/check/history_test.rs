use super::*;
use crate::seed::Seed;

fn operation(invoked: Tick, returned: Tick, action: Action) -> Operation {
    Operation { command: 0, invoked, returned: Some(returned), answered: true, action }
}

fn unanswered(invoked: Tick, until: Option<Tick>, action: Action) -> Operation {
    Operation { command: 0, invoked, returned: until, answered: false, action }
}

fn history(operations: &[Operation]) -> History {
    let mut history = History::new(1, 1);
    operations.iter().for_each(|it| history.push(*it));
    history
}

fn check(operations: &[Operation]) -> Result<(), Violation> {
    history(operations).check()
}

/// Tries every order, as in the definition.
fn is_explained(value: Value, rest: &[Operation]) -> bool {
    let first_end = rest.iter().map(Operation::end).min();
    let Some(first_end) = first_end else { return true };
    if rest.iter().all(|it| !it.answered) {
        return true;
    }
    (0..rest.len()).any(|index| {
        let it = rest[index];
        let mut others = rest.to_vec();
        others.remove(index);
        // An operation without a response may not have been performed.
        let skipped = !it.answered && is_explained(value, &others);
        let next = match it.action {
            Action::Read(seen) if seen == value => Some(value),
            Action::Write(to) => Some(to),
            Action::Swap { from, to } if from == value => Some(to),
            Action::Differs(from) if from != value => Some(value),
            _ => None,
        };
        let may_be_first = it.invoked <= first_end;
        skipped || may_be_first && next.is_some_and(|next| is_explained(next, &others))
    })
}

/// Some operations at random times, with possible results.
fn random(seed: &mut Seed) -> Vec<Operation> {
    let count = seed.range(1, 7) as usize;
    let mut ticks: Vec<Tick> = (2..2 + 2 * count as u64).collect();
    (1..ticks.len()).rev().for_each(|at| ticks.swap(at, seed.range(0, at as u64 + 1) as usize));
    let mut operations: Vec<Operation> = Vec::new();
    for (index, pair) in ticks.chunks(2).enumerate() {
        let (invoked, returned) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
        let (to, some) = (index as Value + 2, 1 + seed.range(0, count as u64 + 1));
        let action = match seed.range(0, 8) {
            0..3 => Action::Read(some),
            3 | 4 => Action::Write(to),
            5 | 6 => Action::Swap { from: some, to },
            _ => Action::Differs(some),
        };
        let may_lack = matches!(action, Action::Write(_) | Action::Swap { .. });
        operations.push(match (may_lack && seed.one_in(5), seed.one_in(2)) {
            (false, _) => operation(invoked, returned, action),
            (true, fenced) => unanswered(invoked, fenced.then_some(returned), action),
        });
    }
    operations
}

#[test]
fn the_verdict_is_that_of_trying_every_order() {
    let (mut seed, mut explained) = (Seed::new(7), [0; 2]);
    for _ in 0..60_000 {
        let operations = random(&mut seed);
        let expected = is_explained(1, &operations);
        let found = check(&operations);
        let is_exact = !operations.iter().any(|it| matches!(it.action, Action::Differs(_)))
            || operations.iter().all(|it| it.answered);
        assert!(found.is_ok() || !expected, "a false alarm: {found:?} of {operations:#?}");
        assert!(found.is_err() || expected || !is_exact, "not found: {operations:#?}");
        explained[usize::from(expected)] += 1;
    }
    assert!(explained.iter().all(|count| *count > 2_000), "{explained:?}: too few of one kind");
}

#[test]
fn a_stale_read_is_found() {
    let write = operation(2, 3, Action::Write(2));
    assert_eq!(check(&[write, operation(4, 5, Action::Read(2))]), Ok(()));
    let found = check(&[write, operation(4, 5, Action::Read(1))]);
    assert!(matches!(found, Err(Violation::Contradiction { .. })), "{found:?}");
    // During the write either value is right, but never the old one after the new one.
    let write = operation(2, 9, Action::Write(2));
    let [new, old] = [Action::Read(2), Action::Read(1)];
    assert_eq!(check(&[operation(3, 4, old), operation(5, 6, new), write]), Ok(()));
    assert!(check(&[operation(3, 4, new), operation(5, 6, old), write]).is_err());
}

#[test]
fn a_write_that_comes_after_its_fence_is_found() {
    let late = Action::Write(2);
    let reads = [operation(5, 6, Action::Read(1)), operation(7, 8, Action::Read(2))];
    assert_eq!(check(&[unanswered(2, None, late), reads[0], reads[1]]), Ok(()));
    assert!(check(&[unanswered(2, Some(4), late), reads[0], reads[1]]).is_err());
    let mut fenced = history(&[unanswered(2, None, late)]);
    fenced.fence(4);
    reads.into_iter().for_each(|read| fenced.push(read));
    assert!(fenced.check().is_err());
}

#[test]
fn a_compare_that_lost_an_update_is_found() {
    let swap = |invoked, returned, to| operation(invoked, returned, Action::Swap { from: 1, to });
    assert_eq!(check(&[swap(2, 5, 2), swap(3, 4, 3)]), Err(Violation::ComparedTwice(1)));
    let write_between = [operation(2, 3, Action::Write(2)), swap(4, 5, 3)];
    assert!(check(&write_between).is_err(), "the value compared with was overwritten before");
}

#[test]
fn what_nothing_wrote_and_what_never_differed_is_found() {
    assert_eq!(check(&[operation(2, 3, Action::Read(9))]), Err(Violation::NeverWritten(9)));
    assert_eq!(
        check(&[operation(2, 3, Action::Differs(1)), operation(4, 5, Action::Read(1))]),
        Err(Violation::WronglyDiffers(1))
    );
}

#[test]
fn a_history_that_begins_again_keeps_what_may_still_happen() {
    let pending = unanswered(2, None, Action::Write(2));
    let mut history =
        history(&[pending, operation(3, 4, Action::Write(3)), operation(5, 6, Action::Read(3))]);
    history.restart(3, 6);
    assert_eq!(history.operations(), [pending]);
    history.push(operation(7, 8, Action::Read(2)));
    assert_eq!(history.check(), Ok(()));
    history.push(operation(9, 10, Action::Read(3)));
    assert!(history.check().is_err());
}

#[test]
fn a_long_history_is_checked_in_one_pass() {
    // Values in sequence, each read twice: a quadratic algorithm would not end.
    let mut history = History::new(1, 1);
    for value in 2..200_000 {
        let at = value * 6;
        history.push(operation(at, at + 1, Action::Write(value)));
        history.push(operation(at + 2, at + 3, Action::Read(value)));
        history.push(operation(at + 4, at + 5, Action::Differs(value - 1)));
    }
    assert_eq!(history.check(), Ok(()));
    history.push(operation(1_200_001, 1_200_002, Action::Read(100_000)));
    assert!(history.check().is_err());
}
