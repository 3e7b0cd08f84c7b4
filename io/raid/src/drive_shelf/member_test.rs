use super::*;
use crate::MemDrive;
use rig::drive::{Intercepted, Request};

/// All answers come at once after a while, as when a whole server stood still: while the first of those that are late is
/// given up, the drive answers the second.
#[test]
fn an_answer_that_comes_while_others_are_given_up_is_not_owed() {
    let held: Arc<Mutex<Vec<Done<Bytes>>>> = Arc::default();
    let answer_last = {
        let held = held.clone();
        move || {
            let done = held.lock().pop();
            done.expect("a request")(Ok(Bytes::new()));
        }
    };
    let hold = move |drive: &Arc<MemDrive>, request| match request {
        Request::Read { done, .. } => held.lock().push(done),
        request => request.submit(&**drive),
    };
    let member = Member::new(0, 1, 1 << 20, Arc::new(Intercepted::new(MemDrive::new("held", 1 << 20), hold)));
    member.tick(Duration::from_secs(1));
    let answer = answer_last.clone();
    member.read(
        0,
        4096,
        Box::new(move |outcome| {
            assert!(outcome.is_err(), "it is given up");
            answer();
        }),
    );
    member.read(0, 4096, Box::new(|outcome| assert!(outcome.is_ok(), "it has come")));
    member.tick(Duration::from_secs(100));
    assert!(member.is_overdue(), "the first is owed");
    answer_last();
    assert!(!member.is_overdue());
}
