//! Front ends and a home over links that break, with the real target over a model of a disk.

mod located;
mod rig;
mod seeds;
mod sessions;
mod takeover;

use forward::{ABORTED_NS, HOLD_NS, LINGER_NS, MAX_AGE_NS, OPEN_HOLD_NS};
use rig::{BLOCK, FUNCTIONS, Home, MS, Notes, Side, is_cleared, long, read, swap, write};
use scsi::{ManagementFunction, ManagementResponse, Status};

const HOSTS: [&str; 2] = ["iqn.2026-01.test:a", "iqn.2026-01.test:b"];

/// A home, a connected front end, and a host.
fn connected() -> (Home, Side, u32) {
    connected_to(Home::new(&HOSTS))
}

fn connected_to(home: Home) -> (Home, Side, u32) {
    let mut side = Side::new(&home, 11);
    side.connect(&home, 0);
    let nexus = side.host(HOSTS[0], 1, 0);
    (home, side, nexus)
}

fn status(side: &Side, number: u64) -> Option<Status> {
    side.completed.get(&number).map(|response| response.as_ref().expect("a response").status)
}

/// Whether the host was informed that the fate of a command is open.
fn cleared(side: &Side, number: u64) -> bool {
    side.completed.get(&number).is_some_and(|response| is_cleared(response.as_ref().expect("a response")))
}

/// The data of a COMPARE AND WRITE that expects zeros.
fn from_zeros(new: u8) -> Vec<u8> {
    [vec![0; BLOCK], vec![new; BLOCK]].concat()
}

fn sense(response: &scsi::Response) -> (u8, u8, u8) {
    (response.sense[2], response.sense[12], response.sense[13])
}

#[test]
fn commands_cross_with_their_data_status_and_sense() {
    let (home, mut side, nexus) = connected();
    let data = [0x5A; BLOCK];
    assert_eq!(side.ask(nexus, &write(9), &data, MS).status, Status::Good);
    let found = side.ask(nexus, &read(9), &[], MS);
    assert_eq!((found.status, &found.data_in.to_bytes()[..]), (Status::Good, &data[..]));
    let beyond = side.ask(nexus, &read(1 << 40), &[], MS);
    assert_eq!((beyond.status, sense(&beyond)), (Status::CheckCondition, (5, 0x21, 0)));
    let short = side.ask(nexus, &long(0x8A, 0, 2), &data, MS);
    assert_eq!(short.data_out_wanted, 2 * BLOCK as u64);
    assert_eq!(home.disk.effects(9), 1);
}

#[test]
fn all_front_ends_share_the_state_of_a_unit() {
    let (home, mut one, a) = connected();
    let mut other = Side::new(&home, 12);
    other.connect(&home, 0);
    let b = other.host(HOSTS[1], 2, 0);
    // COMPARE AND WRITE of both against the same content: one succeeds.
    assert_eq!(one.ask(a, &swap(3), &from_zeros(1), MS).status, Status::Good);
    let miscompare = other.ask(b, &swap(3), &from_zeros(2), MS);
    assert_eq!(sense(&miscompare).0, 0x0E);
    // RESERVE(6) of SCSI-2 excludes the other front end's host, until the nexus ends with the process of its front end.
    assert_eq!(one.ask(a, &[0x16, 0, 0, 0, 0, 0], &[], MS).status, Status::Good);
    assert_eq!(other.ask(b, &write(4), &[1; BLOCK], MS).status, Status::ReservationConflict);
    drop(one);
    assert_eq!(other.ask(b, &write(4), &[1; BLOCK], MS).status, Status::Good);
}

#[test]
fn an_answer_that_was_lost_is_given_again_and_nothing_is_done_twice() {
    let (home, mut side, nexus) = connected();
    let number = side.start(nexus, &write(5), &[1; BLOCK], MS);
    let attention = side.start(nexus, &read(1 << 40), &[], MS);
    side.write();
    side.deliver_to_home(usize::MAX, MS);
    side.run();
    assert_eq!((home.disk.effects(5), side.completed.contains_key(&number)), (1, false));
    side.cut(2 * MS);
    // Another host's write intervenes.
    let mut other = Side::new(&home, 12);
    other.connect(&home, 2 * MS);
    let b = other.host(HOSTS[1], 2, 2 * MS);
    assert_eq!(other.ask(b, &write(5), &[2; BLOCK], 2 * MS).status, Status::Good);
    // Older than the maximum age of a command that is not begun yet.
    let later = LINGER_NS - MS;
    side.connect(&home, later);
    side.settle(later);
    assert_eq!((status(&side, number), home.disk.effects(5)), (Some(Status::Good), 2));
    assert_eq!(status(&side, attention), Some(Status::CheckCondition), "the answer that it had");
    assert_eq!(side.ask(nexus, &read(5), &[], later).data_in.to_bytes()[0], 2);
}

#[test]
fn a_command_that_did_not_arrive_is_sent_again_while_it_is_fresh_or_if_it_changes_nothing() {
    for (away, ends, effects) in [(MAX_AGE_NS / 2, Status::Good, 1), (MAX_AGE_NS - MS, Status::Busy, 0)] {
        let (home, mut side, nexus) = connected();
        let number = side.start(nexus, &write(5), &[1; BLOCK], MS);
        let found = side.start(nexus, &read(5), &[], MS);
        side.write();
        side.cut(MS);
        side.connect(&home, MS + away);
        side.settle(MS + away);
        assert_eq!((status(&side, number), home.disk.effects(5)), (Some(ends), effects), "{away}");
        assert_eq!(status(&side, found), Some(Status::Good), "{away}");
    }
}

#[test]
fn a_running_command_goes_on_while_the_link_is_broken() {
    let (home, mut side, nexus) = connected();
    home.disk.hold();
    let number = side.start(nexus, &write(5), &[1; BLOCK], MS);
    side.settle(MS);
    side.cut(2 * MS);
    side.connect(&home, 500 * MS);
    side.settle(500 * MS);
    assert!(!side.completed.contains_key(&number));
    home.disk.release();
    side.settle(500 * MS);
    assert_eq!((status(&side, number), home.disk.effects(5)), (Some(Status::Good), 1));
}

#[test]
fn an_aborted_command_sends_no_response_and_never_takes_effect() {
    let (home, mut side, nexus) = connected();
    for function in FUNCTIONS {
        home.disk.hold();
        let number = side.start(nexus, &write(6), &[1; BLOCK], MS);
        let tag = side.last_tag();
        let abort = side.manage(nexus, function(tag), MS);
        side.settle(MS);
        assert!(side.completed.get(&number).expect("it has ended").is_none());
        assert_eq!(side.managed.get(&abort), Some(&ManagementResponse::Complete));
        home.disk.release();
        side.settle(MS);
        assert_eq!(home.disk.effects(6), 0);
        while side.ask(nexus, &[0; 6], &[], MS).status != Status::Good {}
    }
}

#[test]
fn a_reset_by_one_front_end_reaches_the_hosts_of_all() {
    let (home, mut one, a) = connected();
    let mut other = Side::new(&home, 12);
    other.connect(&home, 0);
    let b = other.host(HOSTS[1], 2, 0);
    home.disk.hold();
    let number = one.start(a, &write(6), &[1; BLOCK], MS);
    one.settle(MS);
    let reset = other.manage(b, ManagementFunction::LogicalUnitReset, MS);
    other.settle(MS);
    assert_eq!(other.managed.get(&reset), Some(&ManagementResponse::Complete));
    one.settle(MS);
    assert!(one.completed.contains_key(&number), "it was aborted");
    home.disk.release();
    one.settle(MS);
    assert_eq!(home.disk.effects(6), 0);
    let attention = one.ask(a, &[0; 6], &[], MS);
    assert_eq!((attention.status, sense(&attention).0), (Status::CheckCondition, 6));
}

#[test]
fn at_a_home_of_an_older_release_nexuses_go_on_and_open_changes_end_while_the_rest_is_sent_again() {
    let (home, mut side, idle) = connected_to(Home::new(&HOSTS).with(Notes::None));
    let busy = side.host(HOSTS[1], 2, 0);
    assert_eq!(side.ask(busy, &write(6), &[9; BLOCK], MS).status, Status::Good);
    home.disk.hold();
    let number = side.start(busy, &write(7), &[1; BLOCK], MS);
    side.settle(MS);
    // Their answers are lost: the first one carries the unit attention of the new nexus.
    let reads = [side.start(busy, &[0; 6], &[], MS), side.start(busy, &read(6), &[], MS)];
    let reset = side.manage(busy, ManagementFunction::AbortTaskSet, MS);
    side.write();
    let successor = home.successor(&HOSTS);
    side.move_to(&successor, 2 * MS);
    // While there is no home, commands are held.
    let held = side.start(idle, &write(8), &[1; BLOCK], 3 * MS);
    home.disk.release();
    side.connect(&successor, 1000 * MS);
    side.settle(1000 * MS);
    assert!(cleared(&side, number));
    assert_eq!(status(&side, reads[0]), Some(Status::CheckCondition));
    let found = side.completed.get(&reads[1]).expect("it has ended").as_ref().expect("a response");
    assert_eq!((found.status, &found.data_in.to_bytes()[..]), (Status::Good, &[9; BLOCK][..]));
    assert_eq!(side.managed.get(&reset), Some(&ManagementResponse::Complete));
    let attention = side.completed.get(&held).expect("it has ended").as_ref().expect("a response");
    assert_eq!((attention.status, sense(attention).0), (Status::CheckCondition, 6), "the nexus is a new one");
    while side.ask(idle, &[0; 6], &[], 1000 * MS).status != Status::Good {}
    assert_eq!(side.ask(idle, &write(8), &[1; BLOCK], 1000 * MS).status, Status::Good);
    assert_eq!((successor.disk.effects(7), successor.disk.effects(8)), (0, 1));
}

#[test]
fn a_new_home_answers_for_what_took_effect_and_performs_the_rest() {
    let (home, mut side, nexus) = connected();
    let done = [
        side.start(nexus, &swap(5), &from_zeros(1), MS),
        side.start(nexus, &write(6), &[2; BLOCK], MS),
        side.start(nexus, &long(0x93, 20, 2), &[3; BLOCK], MS),
    ];
    let refused = side.start(nexus, &swap(5), &from_zeros(9), MS);
    side.write();
    side.deliver_to_home(usize::MAX, MS);
    side.run();
    home.disk.hold();
    let held = [
        side.start(nexus, &[0; 6], &[], MS),
        side.start(nexus, &swap(8), &from_zeros(4), MS),
        side.start(nexus, &write(9), &[5; BLOCK], MS),
    ];
    side.write();
    side.deliver_to_home(usize::MAX, MS);
    side.run();
    let successor = home.successor(&HOSTS);
    side.move_to(&successor, 2 * MS);
    home.disk.release();
    side.connect(&successor, 1000 * MS);
    side.settle(1000 * MS);
    let ended = |number: u64| side.completed[&number].as_ref().expect("a response");
    for number in done {
        let response = ended(number);
        let wanted = if number == done[0] { 2 * BLOCK } else { BLOCK };
        assert_eq!((response.status, response.data_out_wanted), (Status::Good, wanted as u64), "{number}");
    }
    assert_eq!(sense(ended(refused)).0, 0x0E, "it had no effect, and is evaluated again");
    let held = held.map(ended);
    assert!(held.iter().all(|response| response.status == Status::Good), "{held:?}");
    assert_eq!([5, 6, 8, 9].map(|lba| home.disk.effects(lba)), [1; 4]);
    // Again, after the next home has taken over as well.
    let late = side.start(nexus, &swap(10), &from_zeros(6), 1000 * MS);
    side.write();
    side.deliver_to_home(usize::MAX, 1000 * MS);
    side.run();
    let third = successor.successor(&HOSTS).successor(&HOSTS);
    side.move_to(&third, 1001 * MS);
    side.connect(&third, 9000 * MS);
    side.settle(9000 * MS);
    assert_eq!((status(&side, late), home.disk.effects(10)), (Some(Status::Good), 1));
}

#[test]
fn a_command_that_is_too_old_for_a_new_home_did_not_take_effect() {
    let (home, mut side, nexus) = connected();
    home.disk.hold();
    let number = side.start(nexus, &swap(5), &from_zeros(1), MS);
    side.settle(MS);
    let successor = home.successor(&HOSTS);
    side.move_to(&successor, 2 * MS);
    home.disk.release();
    side.connect(&successor, 2 * MS + MAX_AGE_NS);
    side.settle(2 * MS + MAX_AGE_NS);
    assert_eq!((status(&side, number), home.disk.effects(5)), (Some(Status::Busy), 0));
}

#[test]
fn a_takeover_may_take_longer_than_new_commands_are_held() {
    let (home, mut side, nexus) = connected();
    let done = side.start(nexus, &swap(5), &from_zeros(1), MS);
    side.write();
    side.deliver_to_home(usize::MAX, MS);
    side.run();
    home.disk.hold();
    let open = side.start(nexus, &swap(6), &from_zeros(1), MS);
    side.write();
    side.deliver_to_home(usize::MAX, MS);
    side.run();
    let successor = home.successor(&HOSTS);
    side.move_to(&successor, 2 * MS);
    home.disk.release();
    let held = side.start(nexus, &write(7), &[1; BLOCK], 3 * MS);
    let late = 2 * HOLD_NS;
    side.tick_front(late).expect("no link");
    side.run();
    assert_eq!(status(&side, held), Some(Status::Busy), "no home has seen it");
    side.connect(&successor, late);
    side.settle(late);
    assert_eq!((status(&side, done), home.disk.effects(5)), (Some(Status::Good), 1));
    assert_eq!((status(&side, open), home.disk.effects(6)), (Some(Status::Busy), 0));
}

#[test]
fn of_a_command_that_took_effect_in_part_the_fate_is_open() {
    let (home, mut side, nexus) = connected();
    let big = vec![3; 12 << 20];
    let blocks = (big.len() / BLOCK) as u32;
    for (writes, whole) in [(1, false), (2, true)] {
        home.disk.hold_after(writes);
        let number = side.start(nexus, &long(0x8A, 0, blocks), &big, MS);
        side.write();
        side.deliver_to_home(usize::MAX, MS);
        side.run();
        let successor = home.successor(&HOSTS);
        side.move_to(&successor, 2 * MS);
        home.disk.release();
        side.connect(&successor, 3 * MS);
        side.settle(3 * MS);
        match whole {
            true => assert_eq!(status(&side, number), Some(Status::Good)),
            false => assert!(cleared(&side, number)),
        }
        while side.ask(nexus, &[0; 6], &[], 3 * MS).status != Status::Good {}
    }
    assert_eq!(home.disk.effects(0), 2, "of each the first part, once");
}

#[test]
fn a_reservation_is_answered_for_by_a_new_home_and_is_open_at_a_home_that_forgot_the_nexus() {
    let (home, mut side, nexus) = connected();
    let begin = |side: &mut Side| {
        let number = side.start(nexus, &[0x16, 0, 0, 0, 0, 0], &[], MS);
        side.write();
        side.deliver_to_home(usize::MAX, MS);
        side.run();
        number
    };
    let reserved = begin(&mut side);
    let successor = home.successor(&HOSTS);
    side.move_to(&successor, 2 * MS);
    side.connect(&successor, 3 * MS);
    side.settle(3 * MS);
    assert_eq!(status(&side, reserved), Some(Status::Good), "it was saved with its note");
    let reserved = begin(&mut side);
    side.cut(4 * MS);
    side.tick_home(4 * MS + LINGER_NS).expect("no link");
    side.connect(&successor, 5 * MS + LINGER_NS);
    side.settle(5 * MS + LINGER_NS);
    assert!(cleared(&side, reserved));
}

#[test]
fn the_home_aborts_what_a_front_end_leaves_and_the_host_learns_it() {
    let (home, mut side, nexus) = connected();
    home.disk.hold();
    let number = side.start(nexus, &write(7), &[1; BLOCK], MS);
    side.settle(MS);
    side.cut(2 * MS);
    side.tick_home(2 * MS + LINGER_NS - 1).expect("no link");
    assert!(!side.service.is_idle());
    side.tick_home(2 * MS + LINGER_NS).expect("no link");
    assert!(side.service.is_idle());
    home.disk.release();
    side.connect(&home, 3 * LINGER_NS);
    side.settle(3 * LINGER_NS);
    assert_eq!((status(&side, number), home.disk.effects(7)), (Some(Status::Busy), 0));
}

#[test]
fn without_a_home_for_long_new_commands_are_busy_and_the_fate_of_begun_ones_is_open() {
    // The next home knows noted commands, so the front end waits for it.
    for (notes, patience) in [(Notes::None, HOLD_NS), (Notes::Kept, OPEN_HOLD_NS)] {
        without_a_home_for(notes, patience);
    }
}

fn without_a_home_for(notes: Notes, patience: u64) {
    let (home, mut side, idle) = connected_to(Home::new(&HOSTS).with(notes));
    let open = side.host(HOSTS[1], 2, 0);
    home.disk.hold();
    let begun = side.start(open, &write(7), &[1; BLOCK], MS);
    side.settle(MS);
    let cut = patience - 3000 * MS;
    side.cut(cut);
    let held = side.start(idle, &write(8), &[1; BLOCK], cut);
    side.tick_front(cut + ABORTED_NS - 1).expect("no link");
    side.run();
    assert!(
        !side.completed.contains_key(&begun),
        "it is older than requests are held, and the home may still do it"
    );
    side.tick_front(cut + ABORTED_NS).expect("no link");
    side.run();
    assert!(cleared(&side, begun) && !side.completed.contains_key(&held));
    side.tick_front(cut + HOLD_NS).expect("no link");
    side.run();
    assert_eq!(status(&side, held), Some(Status::Busy));
}

#[test]
fn a_silent_link_is_broken_at_both_ends() {
    let (_home, mut side, _) = connected();
    assert_eq!(side.tick_front(forward::SILENCE_NS), Err(forward::Error::Silent));
    assert_eq!(side.tick_home(forward::SILENCE_NS), Err(forward::Error::Silent));
}

#[test]
fn a_nexus_that_ended_while_the_link_was_broken_ends_at_the_home_too() {
    let (home, mut side, a) = connected();
    let b = side.host(HOSTS[1], 2, 0);
    assert_eq!(side.ask(a, &[0x16, 0, 0, 0, 0, 0], &[], MS).status, Status::Good);
    side.cut(MS);
    side.front.detach(a);
    side.connect(&home, 2 * MS);
    side.settle(2 * MS);
    assert_eq!(side.ask(b, &write(4), &[1; BLOCK], 2 * MS).status, Status::Good, "no reservation is left");
}

#[test]
fn much_data_is_sent_in_portions_in_order() {
    let (home, mut side, nexus) = connected();
    home.disk.hold();
    let big = vec![3; 12 << 20];
    let blocks = (big.len() / BLOCK) as u32;
    let numbers: Vec<u64> = (0..4).map(|_| side.start(nexus, &long(0x8A, 0, blocks), &big, MS)).collect();
    side.write();
    assert!(side.to_home.len() < 25 << 20, "two of them");
    side.settle(MS);
    home.disk.release();
    side.settle(MS);
    assert!(numbers.iter().all(|number| side.completed.contains_key(number)));
}

#[test]
fn a_new_home_is_noticed_even_if_its_first_answer_is_lost() {
    let (home, mut side, nexus) = connected();
    let number = side.start(nexus, &write(5), &[1; BLOCK], MS);
    side.write();
    side.deliver_to_home(usize::MAX, MS);
    side.run();
    assert_eq!(home.disk.effects(5), 1);
    let successor = home.successor(&HOSTS);
    side.move_to(&successor, 2 * MS);
    side.connect(&successor, 3 * MS);
    side.write();
    // The home has the nexus now, and the front end is not informed that it was new there.
    side.deliver_to_home(usize::MAX, 3 * MS);
    side.cut(4 * MS);
    side.connect(&successor, 5 * MS);
    side.settle(5 * MS);
    assert_eq!((status(&side, number), home.disk.effects(5)), (Some(Status::Good), 1));
}

#[test]
fn attempts_that_a_front_end_does_not_complete_keep_nothing_running() {
    let (home, mut side, nexus) = connected();
    home.disk.hold();
    let number = side.start(nexus, &write(7), &[1; BLOCK], MS);
    side.settle(MS);
    side.cut(MS);
    let (half, end) = (MS + LINGER_NS * 3 / 4, MS + LINGER_NS);
    // The home has a connection without traffic.
    side.connect(&home, half);
    side.tick_home(end).expect("it is not silent for long");
    home.disk.release();
    side.run();
    assert_eq!(home.disk.effects(7), 0);
    side.settle(end);
    assert_eq!((status(&side, number), home.disk.effects(7)), (Some(Status::Busy), 0));
}
