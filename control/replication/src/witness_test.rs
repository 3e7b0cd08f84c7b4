//! Rulings of a witness, over all requests in any order.

use super::*;
use std::collections::BTreeSet;

const SESSIONS: u64 = 3;

fn requests() -> Vec<Request> {
    let of_session = |session| {
        let alone = |end| Request::Alone { session, end };
        [Request::Enroll { session }, Request::Join { session }, alone(End::Source), alone(End::Target)]
    };
    (1..=SESSIONS).flat_map(of_session).collect()
}

fn ask(known: &mut Option<Ruling>, request: Request) -> Answer {
    let (after, answer) = decide(*known, request);
    *known = after;
    answer
}

/// Calls `look` with every sequence of requests and their answers.
fn all_sequences(length: usize, look: &mut impl FnMut(&[(Request, Answer)])) {
    fn go_on(
        known: Option<Ruling>,
        history: &mut Vec<(Request, Answer)>,
        length: usize,
        look: &mut impl FnMut(&[(Request, Answer)]),
    ) {
        look(history);
        if history.len() == length {
            return;
        }
        for request in requests() {
            let (after, answer) = decide(known, request);
            history.push((request, answer));
            go_on(after, history, length, look);
            history.pop();
        }
    }
    go_on(None, &mut Vec::new(), length, look);
}

#[test]
fn a_session_is_granted_to_one_array_and_to_the_target_only_after_the_source_joined_it() {
    let mut grants = BTreeSet::new();
    all_sequences(5, &mut |history| {
        let granted = |wanted| history.contains(&(wanted, Answer::Granted));
        for session in 1..=SESSIONS {
            let alone = |end| granted(Request::Alone { session, end });
            assert!(!(alone(End::Source) && alone(End::Target)), "{history:?}");
            assert!(!alone(End::Target) || granted(Request::Join { session }), "{history:?}");
            grants.insert((session, alone(End::Source), alone(End::Target)));
        }
    });
    // Every session can be granted.
    assert_eq!(grants.len(), SESSIONS as usize * 3);
}

#[test]
fn what_is_granted_stays_so_until_a_newer_session_and_the_newest_session_never_goes_back() {
    all_sequences(4, &mut |history| {
        let mut known = None;
        for (request, answer) in history {
            let before: Option<Ruling> = known;
            assert_eq!(ask(&mut known, *request), *answer);
            let (Some(before), Some(after)) = (before, known) else { continue };
            assert!(after.session >= before.session, "{history:?}");
            let is_kept = after.session > before.session || before.alone.is_none() || before == after;
            assert!(is_kept, "{history:?}");
            // Repeated because the answer was lost: the same answer.
            assert_eq!(decide(known, *request), (known, *answer), "{history:?}");
        }
    });
}

#[test]
fn a_request_that_was_held_up_by_the_network_changes_nothing() {
    let mut known = None;
    assert_eq!(ask(&mut known, Request::Join { session: 4 }), Answer::Unknown);
    assert_eq!(ask(&mut known, Request::Enroll { session: 4 }), Answer::Granted);
    assert_eq!(ask(&mut known, Request::Join { session: 4 }), Answer::Granted);
    assert_eq!(ask(&mut known, Request::Alone { session: 4, end: End::Source }), Answer::Granted);
    // The source had reported the session twice.
    assert_eq!(ask(&mut known, Request::Join { session: 4 }), Answer::Outdated);
    assert_eq!(ask(&mut known, Request::Alone { session: 4, end: End::Target }), Answer::Other);
    assert_eq!(ask(&mut known, Request::Join { session: 6 }), Answer::Granted);
    assert_eq!(ask(&mut known, Request::Alone { session: 4, end: End::Source }), Answer::Outdated);
    assert_eq!(ask(&mut known, Request::Alone { session: 6, end: End::Target }), Answer::Granted);
    assert_eq!(ask(&mut known, Request::Join { session: 6 }), Answer::Other);
}

#[test]
fn a_witness_that_has_lost_what_it_knew_grants_nothing_of_before() {
    for end in [End::Source, End::Target] {
        let mut known = None;
        for session in 1..=5 {
            assert_eq!(ask(&mut known, Request::Alone { session, end }), Answer::Unknown);
        }
        // The source has had session 5, and the next number is the target's.
        assert_eq!(ask(&mut known, Request::Enroll { session: 7 }), Answer::Granted);
        for session in 1..=5 {
            assert_eq!(ask(&mut known, Request::Alone { session, end }), Answer::Outdated);
        }
    }
}
