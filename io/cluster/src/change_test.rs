use super::*;
use crate::map::{Identity, Service};

fn identity(id: u16) -> Identity {
    let (name, link) = (format!("controller {id}"), Default::default());
    let instance = u64::from(id);
    Identity {
        id: MemberId(id),
        name,
        instance,
        link,
        service: Service::default(),
        release: "1".into(),
        reads: 0,
    }
}

/// Controllers 1 (the home) to `members`, all running.
fn map_of(members: u16) -> (Map, Vec<MemberId>) {
    let mut map = Map::first(7, (3, 1000), &identity(1));
    (2..=members).for_each(|id| {
        map = map.next(0, 2000);
        map.admit(&identity(id));
    });
    (map, (1..=members).map(MemberId).collect())
}

fn make(change: Change, map: &Map, live: &[MemberId]) -> Result<Option<Map>, Refusal> {
    change.made(map, map.next(0, 3000), live)
}

#[test]
fn only_a_controller_that_does_not_take_part_is_removed() {
    let (mut map, live) = map_of(2);
    assert_eq!(make(Change::Remove(MemberId(2)), &map, &live), Err(Refusal::Runs(2)));
    assert_eq!(make(Change::Remove(MemberId(1)), &map, &live), Err(Refusal::Home(1)));
    assert_eq!(make(Change::Remove(MemberId(3)), &map, &live), Ok(None), "it is gone already");
    for standing in [Standing::Expelled, Standing::Left] {
        map.release(MemberId(2), standing, &live[..1]);
        let after = make(Change::Remove(MemberId(2)), &map, &live[..1]).unwrap().unwrap();
        assert_eq!((after.members.len(), after.version), (1, map.version + 1));
    }
}

#[test]
fn a_controller_is_drained_while_another_one_can_be_the_home() {
    let (map, live) = map_of(3);
    let drain = Change::Drain(MemberId(1));
    assert_eq!(make(drain, &map, &live[..1]), Err(Refusal::NoOther), "the others are silent");
    assert_eq!(make(Change::Drain(MemberId(4)), &map, &live), Err(Refusal::Unknown(4)));
    let drained = make(Change::Drain(MemberId(2)), &map, &live).unwrap().unwrap();
    assert!(drained.is_drained(MemberId(2)));
    assert_eq!(make(Change::Drain(MemberId(2)), &drained, &live), Ok(None));
    assert_eq!(make(drain, &drained, &live[..2]), Err(Refusal::NoOther), "the other one is drained");
    let handing_over = make(drain, &drained, &live).unwrap().unwrap();
    assert_eq!(make(Change::Resume(MemberId(1)), &handing_over, &live), Err(Refusal::Home(1)));
    let resumed = make(Change::Resume(MemberId(2)), &drained, &live).unwrap().unwrap();
    assert!(!resumed.is_drained(MemberId(2)));
    assert_eq!(make(Change::Resume(MemberId(2)), &resumed, &live), Ok(None));

    let mut left = handing_over.next(0, 4000);
    left.release(MemberId(1), Standing::Left, &live[1..]);
    assert_eq!(left.home(0).unwrap().home, 3, "the one that is not drained");
    assert_eq!(make(drain, &left, &live), Ok(None));
    left.set_drained(MemberId(1), false);
    assert_eq!(make(drain, &left, &live), Err(Refusal::Away(1)));
}

#[test]
fn a_drained_controller_serves_if_nobody_else_can_and_is_not_drained_then() {
    let (mut map, live) = map_of(2);
    map.set_drained(MemberId(2), true);
    map.release(MemberId(1), Standing::Expelled, &live[1..]);
    assert_eq!((map.home(0).unwrap().home, map.is_drained(MemberId(2))), (2, false));
}

#[test]
fn a_controller_that_starts_again_is_as_drained_as_before() {
    let (mut map, _) = map_of(2);
    map.set_drained(MemberId(2), true);
    map.admit(&identity(2));
    assert!(map.is_drained(MemberId(2)));
    map.remove(MemberId(2));
    map.admit(&identity(2));
    assert!(!map.is_drained(MemberId(2)), "it is another one");
}
