//! Volatile state of a unit after a takeover: SCSI-2 reservations, registrations without APTPL, current mode pages and
//! unit attention conditions.

use crate::rig::{BLOCK, Home, MS, POWER_ON, Side, is_cleared, read, write};
use crate::{HOSTS, connected, sense};
use forward::LINGER_NS;
use scsi::{ManagementFunction, ManagementResponse, Power, Response, Status};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const RESERVE: [u8; 6] = [0x16, 0, 0, 0, 0, 0];
const RELEASE: [u8; 6] = [0x17, 0, 0, 0, 0, 0];
const READY: [u8; 6] = [0; 6];

/// Write Exclusive, Registrants Only.
const KIND: u8 = 5;

/// Two front ends with a host each.
struct Pair {
    home: Home,
    sides: [Side; 2],
    nexuses: [u32; 2],
}

impl Pair {
    fn new() -> Self {
        let (home, one, a) = connected();
        let mut other = Side::new(&home, 12);
        other.connect(&home, 0);
        let b = other.host(HOSTS[1], 2, 0);
        Self { home, sides: [one, other], nexuses: [a, b] }
    }

    fn ask(&mut self, at: usize, cdb: &[u8], data: &[u8]) -> Response {
        self.sides[at].ask(self.nexuses[at], cdb, data, MS)
    }

    fn status(&mut self, at: usize, cdb: &[u8], data: &[u8]) -> Status {
        self.ask(at, cdb, data).status
    }

    /// PERSISTENT RESERVE OUT; `persists` is APTPL.
    fn reserve(&mut self, at: usize, action: u8, keys: [u64; 2], persists: bool) -> Response {
        let mut list = [keys[0].to_be_bytes(), keys[1].to_be_bytes(), [0; 8]].concat();
        list[20] = u8::from(persists);
        self.ask(at, &[0x5F, action, KIND, 0, 0, 0, 0, 0, 24, 0], &list)
    }

    /// The registered keys.
    fn keys(&mut self, at: usize) -> Vec<u64> {
        let found = self.ask(at, &[0x5E, 0, 0, 0, 0, 0, 0, 1, 0, 0], &[]).data_in.to_bytes();
        found[8..]
            .chunks_exact(8)
            .map(|key| u64::from_be_bytes(key.try_into().expect("eight bytes")))
            .collect()
    }

    /// Saves state that no command waits for, as the home does several times a second.
    fn save(&self) {
        let mut save = pin!(self.home.target.save_volatile());
        assert!(matches!(save.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(()))));
    }

    /// Makes another home take over; the front ends in `order` connect to it.
    fn take_over(&mut self, power: Power, order: &[usize]) {
        let successor = self.home.successor_with(&HOSTS, power);
        self.sides.iter_mut().for_each(|side| side.move_to(&successor, 2 * MS));
        self.home = successor;
        order.iter().for_each(|at| self.connect(*at));
    }

    fn connect(&mut self, at: usize) {
        self.sides[at].connect(&self.home, 2 * MS);
        self.sides[at].settle(2 * MS);
    }
}

fn code(response: &Response) -> (u8, u8, u8) {
    assert_eq!(response.status, Status::CheckCondition);
    sense(response)
}

#[test]
fn a_scsi_2_reservation_goes_on_with_its_nexus() {
    let mut pair = Pair::new();
    assert_eq!(pair.status(0, &RESERVE, &[]), Status::Good);
    // The other host connects first.
    pair.take_over(Power::On(POWER_ON), &[1]);
    assert_eq!(pair.status(1, &write(4), &[1; BLOCK]), Status::ReservationConflict);
    pair.connect(0);
    assert_eq!(pair.status(0, &write(4), &[1; BLOCK]), Status::Good, "without a unit attention");
    assert_eq!(pair.status(1, &write(4), &[1; BLOCK]), Status::ReservationConflict);
    // A released reservation stays released.
    assert_eq!(pair.status(0, &RELEASE, &[]), Status::Good);
    pair.take_over(Power::On(POWER_ON), &[1, 0]);
    assert_eq!(pair.status(1, &write(4), &[1; BLOCK]), Status::Good);
}

#[test]
fn a_scsi_2_reservation_ends_when_its_nexus_is_not_resumed() {
    let mut pair = Pair::new();
    assert_eq!(pair.status(0, &RESERVE, &[]), Status::Good);
    // The host's session ends while there is no home; its next session is another nexus.
    pair.take_over(Power::On(POWER_ON), &[1]);
    assert_eq!(pair.status(1, &write(4), &[1; BLOCK]), Status::ReservationConflict);
    let gone = pair.nexuses[0];
    pair.sides[0].front.detach(gone);
    pair.nexuses[0] = pair.sides[0].front.attach(1, [0, 2, 0x3D, 0, 0, 1], HOSTS[0]);
    pair.connect(0);
    assert_eq!(pair.status(1, &write(4), &[1; BLOCK]), Status::Good);
    // Or its front end leaves the cluster.
    assert_eq!(pair.status(1, &RESERVE, &[]), Status::Good);
    pair.take_over(Power::On(POWER_ON), &[0]);
    assert_eq!(code(&pair.ask(0, &READY, &[])), (6, 0x29, 0), "it is a new nexus");
    assert_eq!(pair.status(0, &write(4), &[1; BLOCK]), Status::ReservationConflict);
    assert_eq!(pair.home.target.unclaimed_fronts(), [12].into());
    pair.home.target.release_unclaimed(12);
    assert_eq!(pair.status(0, &write(4), &[1; BLOCK]), Status::Good);
}

#[test]
fn registrations_without_aptpl_go_on_but_not_over_a_loss_of_power() {
    for persists in [false, true] {
        let mut pair = Pair::new();
        assert_eq!(pair.reserve(0, 0, [0, 7], persists).status, Status::Good);
        assert_eq!(pair.reserve(1, 0, [0, 8], persists).status, Status::Good);
        assert_eq!(pair.reserve(0, 1, [7, 0], persists).status, Status::Good);
        pair.take_over(Power::On(POWER_ON), &[1, 0]);
        assert_eq!(pair.keys(1), [7, 8]);
        // The removal of a registration by another key's holder is reported after another takeover.
        assert_eq!(pair.reserve(1, 4, [8, 7], persists).status, Status::Good);
        pair.take_over(Power::On(POWER_ON), &[0, 1]);
        assert_eq!(code(&pair.ask(0, &READY, &[])), (6, 0x2A, 5), "REGISTRATIONS PREEMPTED");
        assert_eq!(pair.status(0, &write(4), &[1; BLOCK]), Status::ReservationConflict);
        assert_eq!(pair.status(1, &write(4), &[1; BLOCK]), Status::Good);
        // All controllers were off.
        pair.take_over(Power::On(POWER_ON + 1), &[0, 1]);
        assert_eq!(code(&pair.ask(0, &READY, &[])), (6, 0x29, 0), "POWER ON");
        assert_eq!(pair.keys(0), if persists { vec![8] } else { vec![] });
    }
}

#[test]
fn current_mode_pages_and_what_others_are_told_of_them_go_on() {
    let mut pair = Pair::new();
    // SWP of the control mode page, not saved.
    let select = [&[0, 0, 0, 0][..], &[0x0A, 10, 0, 0x10, 0x08, 0, 0, 0, 0xFF, 0xFF, 0, 0]].concat();
    assert_eq!(pair.status(0, &[0x15, 0x10, 0, 0, 16, 0], &select), Status::Good);
    pair.take_over(Power::On(POWER_ON), &[0, 1]);
    assert_eq!(code(&pair.ask(1, &READY, &[])), (6, 0x2A, 1), "MODE PARAMETERS CHANGED");
    assert_eq!(code(&pair.ask(0, &write(4), &[1; BLOCK])), (7, 0x27, 2), "SOFTWARE WRITE PROTECTED");
    // A reported condition is not reported again.
    pair.save();
    pair.take_over(Power::On(POWER_ON), &[0, 1]);
    assert_eq!(pair.status(1, &READY, &[]), Status::Good);
    assert_eq!(code(&pair.ask(0, &write(4), &[1; BLOCK])), (7, 0x27, 2));
    pair.take_over(Power::On(POWER_ON + 1), &[0, 1]);
    assert_eq!(code(&pair.ask(0, &READY, &[])), (6, 0x29, 0));
    assert_eq!(pair.status(0, &write(4), &[1; BLOCK]), Status::Good);
}

#[test]
fn a_reset_is_not_undone_by_a_takeover() {
    let mut pair = Pair::new();
    assert_eq!(pair.status(0, &RESERVE, &[]), Status::Good);
    let nexus = pair.nexuses[1];
    let reset = pair.sides[1].manage(nexus, ManagementFunction::LogicalUnitReset, MS);
    pair.sides[1].settle(MS);
    assert_eq!(pair.sides[1].managed.get(&reset), Some(&ManagementResponse::Complete));
    pair.take_over(Power::On(POWER_ON), &[0, 1]);
    assert_eq!(code(&pair.ask(0, &READY, &[])), (6, 0x29, 3), "BUS DEVICE RESET");
    assert_eq!(code(&pair.ask(1, &READY, &[])), (6, 0x29, 3));
    assert_eq!(pair.status(1, &write(4), &[1; BLOCK]), Status::Good);
}

#[test]
fn a_home_that_does_not_know_the_power_on_learns_it_from_a_front_end() {
    let mut pair = Pair::new();
    assert_eq!(pair.status(0, &RESERVE, &[]), Status::Good);
    // The controller has restarted; the first front end that connects was running all the time.
    pair.take_over(Power::Unknown { fresh: 9 }, &[1]);
    assert_eq!(pair.home.target.power(), Power::On(POWER_ON));
    assert_eq!(pair.status(1, &read(4), &[]), Status::ReservationConflict);
    pair.connect(0);
    assert_eq!(pair.status(0, &write(4), &[1; BLOCK]), Status::Good);
    // No controller knows it: the power was lost.
    pair.take_over(Power::Unknown { fresh: 10 }, &[]);
    let mut late = Side::new(&pair.home, 13);
    late.connect(&pair.home, 2 * MS);
    let host = late.front.attach(3, [9; 6], HOSTS[1]);
    late.settle(2 * MS);
    assert_eq!(code(&late.ask(host, &READY, &[], 2 * MS)), (6, 0x29, 0));
    assert_eq!(late.ask(host, &write(4), &[1; BLOCK], 2 * MS).status, Status::ReservationConflict);
    pair.home.target.resolve_power(None);
    assert_eq!(pair.home.target.power(), Power::On(10));
    assert_eq!(code(&late.ask(host, &READY, &[], 2 * MS)), (6, 0x29, 0));
    assert_eq!(late.ask(host, &write(4), &[1; BLOCK], 2 * MS).status, Status::Good);
}

#[test]
fn what_is_reserved_while_the_power_on_is_not_known_goes_on() {
    let mut pair = Pair::new();
    pair.take_over(Power::Unknown { fresh: 9 }, &[]);
    let mut early = Side::new(&pair.home, 13);
    early.connect(&pair.home, 2 * MS);
    let host = early.host(HOSTS[1], 3, 2 * MS);
    assert_eq!(early.ask(host, &RESERVE, &[], 2 * MS).status, Status::Good);
    pair.connect(0);
    assert_eq!(pair.home.target.power(), Power::On(POWER_ON));
    early.settle(300 * MS);
    early.tick_home(300 * MS).expect("it is not silent");
    early.settle(300 * MS);
    pair.save();
    let successor = pair.home.successor_with(&HOSTS, Power::On(POWER_ON));
    early.move_to(&successor, 301 * MS);
    pair.take_over(Power::On(POWER_ON), &[]);
    pair.home = successor;
    pair.connect(0);
    assert_eq!(pair.status(0, &write(4), &[1; BLOCK]), Status::ReservationConflict);
    early.connect(&pair.home, 302 * MS);
    early.settle(302 * MS);
    assert_eq!(early.ask(host, &write(4), &[1; BLOCK], 302 * MS).status, Status::Good);
}

#[test]
fn a_nexus_that_its_home_has_ended_is_told_so() {
    let mut pair = Pair::new();
    assert_eq!(pair.status(0, &RESERVE, &[]), Status::Good);
    pair.sides[0].cut(2 * MS);
    let later = 2 * MS + LINGER_NS;
    pair.sides[0].tick_home(later).expect("no link");
    assert_eq!(pair.status(1, &write(4), &[1; BLOCK]), Status::Good, "the reservation ended with the nexus");
    let Pair { home, sides: [side, _], nexuses: [nexus, _] } = &mut pair;
    side.connect(home, later);
    side.settle(later);
    let first = side.ask(*nexus, &READY, &[], later);
    assert_eq!(code(&first), (6, 0x29, 7), "I_T NEXUS LOSS");
    assert!(!is_cleared(&first));
    assert_eq!(side.ask(*nexus, &READY, &[], later).status, Status::Good);
}
