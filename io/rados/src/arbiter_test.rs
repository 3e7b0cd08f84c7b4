use super::*;
use crate::memory::Cluster;
use shelf::arbiter::{Arbiter as _, Sign};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the model answers at once"),
    }
}

fn arbiter() -> Arc<Arbiter> {
    now(Arbiter::new(Cluster::default().client())).unwrap()
}

const A: MemberId = MemberId(1);

fn beat(joined: u64, count: u64) -> Beat {
    Beat { joined, count }
}

#[test]
fn a_map_is_replaced_by_who_knows_its_version() {
    let arbiter = arbiter();
    let map = |text: &'static str| Bytes::from_static(text.as_bytes());
    assert_eq!(now(arbiter.map()).unwrap(), None);
    assert!(now(arbiter.replace(None, 7, map("first"))).unwrap());
    assert!(!now(arbiter.replace(None, 8, map("first again"))).unwrap());
    assert!(!now(arbiter.replace(Some(6), 8, map("of an older one"))).unwrap());
    assert!(now(arbiter.replace(Some(7), 9, map("second"))).unwrap());
    assert_eq!(now(arbiter.map()).unwrap(), Some(map("second")));
}

#[test]
fn beats_only_grow() {
    let arbiter = arbiter();
    assert!(now(arbiter.beat(0, A, beat(2, 1), 2)).unwrap());
    assert!(!now(arbiter.beat(0, A, beat(2, 1), 2)).unwrap(), "the same");
    assert!(!now(arbiter.beat(0, A, beat(1, 99), 2)).unwrap(), "of a process that joined before");
    assert!(now(arbiter.beat(0, A, beat(2, 300), 2)).unwrap());
    assert_eq!(now(arbiter.signs(0)).unwrap()[&A], Sign { beat: beat(2, 300), mark: 0 });
    assert_eq!(now(arbiter.signs(1)).unwrap(), Signs::new());
}

#[test]
fn a_mark_refuses_beats_until_a_newer_map_is_known() {
    let arbiter = arbiter();
    assert!(now(arbiter.beat(1, A, beat(2, 1), 4)).unwrap());
    assert!(!now(arbiter.mark(1, A, beat(2, 0), 5)).unwrap(), "it has beaten since");
    assert!(now(arbiter.mark(1, A, beat(2, 1), 5)).unwrap());
    assert!(now(arbiter.mark(1, A, beat(2, 1), 5)).unwrap(), "repeated");
    assert!(!now(arbiter.mark(1, A, beat(2, 1), 4)).unwrap(), "an older one");
    assert!(!now(arbiter.beat(1, A, beat(2, 2), 4)).unwrap());
    assert!(now(arbiter.beat(1, A, beat(2, 2), 5)).unwrap());
}

#[test]
fn a_member_without_a_beat_can_be_marked() {
    let arbiter = arbiter();
    assert!(now(arbiter.mark(2, A, Beat::default(), 3)).unwrap());
    assert!(!now(arbiter.beat(2, A, beat(2, 1), 2)).unwrap());
}

#[test]
fn signs_that_are_damaged_are_refused_and_foreign_attributes_ignored() {
    let mut signs = Signs::new();
    for (name, value) in [("b", ""), ("c.0001", "?"), ("owner", "1"), ("b.zz", "?")] {
        add_sign(&mut signs, name, value).unwrap();
    }
    for (name, value) in [("b.0001", "12"), ("b.0001", "é"), ("x.0001", ""), ("x.0001", "é")] {
        assert!(matches!(add_sign(&mut signs, name, value), Err(Error::Corrupt { .. })), "{name} {value}");
    }
}

#[test]
fn a_namespace_is_shared_from_the_first_map_on() {
    let objects = Cluster::default().client();
    let arbiter = now(Arbiter::new(objects.clone())).unwrap();
    assert!(!now(is_shared(&*objects)).unwrap(), "beats alone say nothing");
    assert!(now(arbiter.replace(None, 1, Bytes::from_static(b"map"))).unwrap());
    assert!(now(is_shared(&*objects)).unwrap());
}
