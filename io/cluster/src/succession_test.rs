use super::*;
use crate::map::{Identity, Service};
use shelf::arbiter::{Beat, Sign, Signs};

fn identity(id: u16) -> Identity {
    Identity {
        id: MemberId(id),
        name: String::new(),
        instance: id.into(),
        link: Default::default(),
        service: Service::default(),
        release: String::new(),
        reads: 0,
    }
}

/// Two controllers; the first one is the home.
fn pair() -> Map {
    let mut map = Map::first(7, (1, 0), &identity(1)).next(0, 0);
    map.admit(&identity(2));
    map
}

/// The second one has seen the first one's last beat at 1000, in all witnesses.
fn seen() -> Observation {
    let mut observation = Observation::new(3);
    let beat = Beat { joined: 1, count: 9 };
    let signs = Signs::from([(MemberId(1), Sign { beat, mark: 0 })]);
    for witness in 0..3 {
        observation.note(witness, &signs, &[MemberId(1)], MemberId(2), 1000);
    }
    observation
}

fn after(before: &Map, standing: Standing) -> Map {
    let mut map = before.next(0, 0);
    map.release(MemberId(1), standing, &[MemberId(2)]);
    map
}

#[test]
fn an_expulsion_has_the_time_of_silence_and_the_time_until_the_others_agree() {
    let (before, observation) = (pair(), seen());
    let expulsion = Expulsion::new(MemberId(1), before.version, (3, &observation), (4500, 1000));
    let known =
        Known { before: Some(&before), observation: &observation, expulsion: Some(&expulsion), now: 4600 };
    let found = known.succession(0, MemberId(2), &after(&before, Standing::Expelled));
    let from = Some(MemberId(1));
    assert_eq!(found, Succession { from, cause: Cause::Expelled, silent_ns: 3500, agreed_ns: 100 });

    // Another controller was faster.
    let known = Known { expulsion: None, ..known };
    let found = known.succession(0, MemberId(2), &after(&before, Standing::Expelled));
    assert_eq!((found.silent_ns, found.agreed_ns), (3600, 0));
}

#[test]
fn who_leaves_was_not_silent() {
    let (before, observation) = (pair(), seen());
    let known = Known { before: Some(&before), observation: &observation, expulsion: None, now: 4600 };
    let found = known.succession(0, MemberId(2), &after(&before, Standing::Left));
    assert_eq!(found, Succession { from: Some(MemberId(1)), cause: Cause::Left, ..Succession::default() });
    let mut moved = before.next(0, 0);
    moved.reassign(0, &[MemberId(2)]);
    assert_eq!(known.succession(0, MemberId(2), &moved).cause, Cause::GivenUp);
    assert_eq!(known.succession(0, MemberId(1), &moved).cause, Cause::Restarted);
}

#[test]
fn the_first_home_has_none_before_it_and_one_after_a_stop_of_all_saw_no_silence() {
    let (map, observation) = (pair(), seen());
    let known = Known { before: None, observation: &observation, expulsion: None, now: 4600 };
    assert_eq!(known.succession(0, MemberId(1), &map), Succession::default());
    let mut gone = map.next(0, 0);
    gone.release(MemberId(1), Standing::Expelled, &[]);
    let known = Known { before: Some(&gone), ..known };
    let mut adopted = gone.next(0, 0);
    adopted.reassign(0, &[MemberId(2)]);
    let found = known.succession(0, MemberId(2), &adopted);
    assert_eq!((found.cause, found.silent_ns, found.agreed_ns), (Cause::Expelled, 0, 0));
}
