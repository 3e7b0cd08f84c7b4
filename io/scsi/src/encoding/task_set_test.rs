use super::*;

#[test]
fn simple_tasks_pass_each_other_and_wait_for_barriers() {
    let mut queue = Queue::default();
    let first = queue.push(Media);
    let ordered = queue.push(Ordered);
    let second = queue.push(Media);
    let head = queue.push(Head);
    assert!(queue.may_run(first, 7));
    assert!(!queue.may_run(ordered, 0), "an ordered task waits for the older simple one");
    assert!(!queue.may_run(second, 0), "a simple task waits for the older ordered one");
    assert!(queue.may_run(head, 7), "head of queue passes");
    queue.remove(first);
    assert!(!queue.may_run(ordered, 1), "counted tasks are older than the barrier");
    assert!(queue.may_run(ordered, 0));
    queue.remove(ordered);
    assert!(queue.may_run(second, 0));
    assert!(!queue.has_barrier());
}

#[test]
fn changes_of_reservations_stand_alone() {
    let mut queue = Queue::default();
    let first = queue.push(Change);
    let second = queue.push(Change);
    let head = queue.push(Head);
    assert!(queue.may_run(first, 0));
    assert!(!queue.may_run(second, 0));
    assert!(!queue.may_run(head, 0));
    assert!(!queue.may_run(first, 1));
}

#[test]
fn every_class_that_others_wait_for_is_a_barrier_or_counted() {
    for newer in [Free, Media, Ordered, Head, Change] {
        assert!(!newer.waits_for(Free));
        assert!(!Free.waits_for(newer));
        // What a simple task waits for must be queued, since simple tasks look at the flag only.
        assert_eq!(Media.waits_for(newer), newer.is_barrier());
    }
}

#[test]
fn attributes_apply_to_media_commands_only() {
    assert_eq!(Media.with(TaskAttribute::Ordered), Ordered);
    assert_eq!(Media.with(TaskAttribute::HeadOfQueue), Head);
    assert_eq!(Change.with(TaskAttribute::HeadOfQueue), Change);
    assert_eq!(Free.with(TaskAttribute::Ordered), Free);
}
