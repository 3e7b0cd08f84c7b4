use super::super::{Party, SharedArray, SharedMedium, Timer, find};
use super::*;
use crate::{Drive, DriveShelf, FormatOptions};
use shelf::conformance::arbiter::{Subject, run};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the model holds nothing back"),
    }
}

fn beat(joined: u64, count: u64) -> Beat {
    Beat { joined, count }
}

/// Waits for replies without a limit.
fn forever() -> Timer {
    Arc::new(|_, _| {})
}

/// Drives with an array, seen by two servers.
struct Shelf {
    media: Vec<Arc<SharedMedium>>,
    /// Number of missing drives.
    away: usize,
    processes: u64,
}

impl Shelf {
    fn new(count: usize) -> Self {
        let media: Vec<_> = (0..count).map(|at| SharedMedium::new(format!("drive {at}"), 16 << 20)).collect();
        let options = FormatOptions { array: 0xa5, ..FormatOptions::default() };
        now(DriveShelf::format(drives(&media, 0), options)).unwrap();
        Self { media, away: 0, processes: 0 }
    }

    fn array(&self, server: u32) -> SharedArray {
        now(find(&drives(&self.media, server), &forever())).unwrap()
    }

    /// A new process of a server's controller.
    fn process(&mut self, own: usize) -> (Party, Arc<DriveArbiter>) {
        self.processes += 1;
        let mut array = self.array(own as u32);
        let party = array.party(own, 100 * (own as u64 + 1) + self.processes);
        let missing: Vec<String> =
            array.drives.iter().take(self.away).map(|(_, drive)| drive.name().into()).collect();
        array.retain(|name| !missing.iter().any(|missing| missing == name));
        array.drives.iter().for_each(|(_, drive)| now(party.take_part(&**drive)).unwrap());
        let arbiter = now(party.arbiter(&array)).unwrap();
        (party, arbiter)
    }
}

fn drives(media: &[Arc<SharedMedium>], server: u32) -> Vec<Arc<dyn Drive>> {
    media.iter().map(|medium| medium.port(server)).collect()
}

impl Subject for Shelf {
    fn clear(&mut self) {
        *self = Self { away: self.away, ..Self::new(self.media.len()) };
    }

    fn arbiter(&mut self, member: MemberId) -> Result<Arc<dyn Arbiter>> {
        Ok(self.process(index(member)?).1)
    }

    fn finish<T>(&mut self, operation: BoxFuture<'static, Result<T>>) -> Result<T> {
        now(operation)
    }
}

#[test]
fn it_is_an_arbiter() {
    for count in [3, 4, 7] {
        run(&mut Shelf::new(count)).unwrap();
    }
}

#[test]
fn a_majority_of_drives_is_enough_for_the_map() {
    let mut shelf = Shelf::new(5);
    shelf.away = 2;
    let (_, arbiter) = shelf.process(0);
    assert_eq!(now(arbiter.replace(None, 1, Bytes::from_static(b"map"))), Ok(true));
    // Only one drive of that majority is present.
    shelf.away = 0;
    let (_, other) = shelf.process(1);
    assert_eq!(now(other.map()), Ok(Some(Bytes::from_static(b"map"))));
    shelf.away = 3;
    let mut array = shelf.array(0);
    array.retain(|name| name > "drive 2");
    assert!(now(array.party(0, 9).arbiter(&array)).is_err(), "two of five are no majority");
}

#[test]
fn a_process_ends_the_one_before_it_with_its_number() {
    let mut shelf = Shelf::new(3);
    let (_, first) = shelf.process(0);
    assert_eq!(now(first.replace(None, 1, Bytes::from_static(b"map"))), Ok(true));
    assert_eq!(now(first.beat(0, MemberId(1), beat(1, 1), 1)), Ok(true));
    // On another server.
    let mut array = shelf.array(7);
    let party = array.party(0, 77);
    array.drives.iter().for_each(|(_, drive)| now(party.take_part(&**drive)).unwrap());
    assert!(matches!(now(first.beat(0, MemberId(1), beat(1, 2), 1)), Err(Error::Fenced { .. })));
    let replaced = now(first.replace(Some(1), 2, Bytes::from_static(b"late")));
    assert!(matches!(replaced, Err(Error::Fenced { .. })), "{replaced:?}");
    array.retain(|_| true);
    let second = now(party.arbiter(&array)).unwrap();
    assert_eq!(now(second.beat(0, MemberId(1), beat(1, 1), 1)), Ok(false), "the beat before is kept");
    assert_eq!(now(second.beat(0, MemberId(1), beat(1, 2), 1)), Ok(true));
}

#[test]
fn a_map_that_does_not_fit_is_refused() {
    let (_, arbiter) = Shelf::new(3).process(0);
    let refused = now(arbiter.replace(None, 1, Bytes::from(vec![0; MAX_MAP_BYTES + 1])));
    assert!(matches!(refused, Err(Error::NoSpace { .. })));
}

/// The other controller completes the ballot of a controller that died half-way, which counts once.
#[test]
fn what_a_majority_accepted_is_decided_by_the_other_controller() {
    let mut shelf = Shelf::new(3);
    let (_, a) = shelf.process(0);
    let value = Value { version: 4, proposal: (101, 1), map: Bytes::from_static(b"accepted") };
    a.memory.lock().ballot = Ballot { decided: None, begun: 2, accepted: 2, value: Some(value) };
    now(a.vote()).unwrap();
    let (_, b) = shelf.process(1);
    assert_eq!(now(b.map()), Ok(None), "it is not decided yet");
    assert_eq!(now(b.replace(None, 5, Bytes::from_static(b"later"))), Ok(false));
    assert_eq!(now(b.map()), Ok(Some(Bytes::from_static(b"accepted"))));
    assert_eq!(now(a.map()), Ok(Some(Bytes::from_static(b"accepted"))));
}
