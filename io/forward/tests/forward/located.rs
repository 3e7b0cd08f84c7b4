//! Reads whose data the home locates: the front end reads the data, or asks the home again.

use crate::rig::{BLOCK, FUNCTIONS, Home, MS, Side, long, read, write};
use crate::{HOSTS, connected, status};
use forward::{HOLD_NS, MAX_FETCH_NS};
use scsi::{ManagementFunction, ManagementResponse, Status, TaskAttribute};

/// A home that locates, a front end that reads data itself, and a host that has written block 9.
fn locating() -> (Home, Side, u32) {
    let (home, mut side, nexus) = connected();
    home.disk.locate();
    side.front.locate(true);
    assert_eq!(side.ask(nexus, &write(9), &[0x5A; BLOCK], MS).status, Status::Good);
    (home, side, nexus)
}

/// Starts a read whose data the front end has to read.
fn located(side: &mut Side, nexus: u32) -> u64 {
    let number = side.start(nexus, &read(9), &[], MS);
    side.settle(MS);
    assert!(!side.completed.contains_key(&number) && side.located.iter().any(|(it, _)| *it == number));
    number
}

/// The first byte of the data of an ended read.
fn found(side: &Side, number: u64) -> u8 {
    assert_eq!(status(side, number), Some(Status::Good));
    let response = side.completed[&number].as_ref().expect("a response");
    assert_eq!(response.data_in.len(), BLOCK);
    response.data_in.to_bytes()[0]
}

#[test]
fn the_front_end_reads_what_the_home_locates() {
    let (home, mut side, nexus) = locating();
    let number = side.start(nexus, &read(9), &[], MS);
    side.write();
    side.deliver_to_home(usize::MAX, MS);
    side.run();
    side.write();
    assert!(side.to_front.len() < BLOCK, "no data cross: {} bytes", side.to_front.len());
    side.settle(MS);
    side.fetch(&home.disk, true);
    assert_eq!(found(&side, number), 0x5A);
    assert_eq!(side.front.fetching(), 0);
    // The home refuses invalid commands.
    let beyond = side.ask(nexus, &read(1 << 40), &[], MS);
    assert_eq!(beyond.status, Status::CheckCondition);
}

#[test]
fn a_front_end_that_does_not_ask_gets_data() {
    let (home, mut side, nexus) = connected();
    home.disk.locate();
    assert_eq!(side.ask(nexus, &write(9), &[0x5A; BLOCK], MS).status, Status::Good);
    assert_eq!(side.ask(nexus, &read(9), &[], MS).data_in.to_bytes()[..], [0x5A; BLOCK]);
}

/// The initiator accepts less data than the command requests.
#[test]
fn a_transfer_that_is_cut_short_is_sent() {
    let (_home, mut side, nexus) = locating();
    let blocks = (2 << 20) / BLOCK as u32;
    let number = side.start(nexus, &long(0x88, 0, blocks), &[], MS);
    side.settle(MS);
    assert_eq!(status(&side, number), Some(Status::Good));
    assert!(
        side.located.is_empty() && side.completed[&number].as_ref().is_some_and(|it| it.located.is_none())
    );
}

/// The home repeats its answer, even if the front end asks for data now.
#[test]
fn an_answer_that_was_lost_is_located_again() {
    let (home, mut side, nexus) = locating();
    let number = side.start(nexus, &read(9), &[], MS);
    side.write();
    side.deliver_to_home(usize::MAX, MS);
    side.run();
    side.cut(2 * MS);
    side.front.locate(false);
    side.connect(&home, 3 * MS);
    side.settle(3 * MS);
    side.fetch(&home.disk, true);
    assert_eq!(found(&side, number), 0x5A);
}

#[test]
fn what_can_not_be_read_is_asked_for_again_as_it_is_then() {
    let (home, mut side, nexus) = locating();
    let number = located(&mut side, nexus);
    assert_eq!(side.ask(nexus, &write(9), &[6; BLOCK], MS).status, Status::Good);
    side.fetch(&home.disk, false);
    side.settle(MS);
    assert_eq!(found(&side, number), 6);
    assert!(side.located.is_empty(), "it is sent, not located");
}

#[test]
fn a_read_that_takes_too_long_is_asked_for_again() {
    let (home, mut side, nexus) = locating();
    let number = located(&mut side, nexus);
    for late in [MAX_FETCH_NS, MAX_FETCH_NS + MS] {
        assert!(!side.completed.contains_key(&number), "{late}");
        // The link is silent for the same time.
        side.cut(late);
        side.tick_front(late).expect("no link");
        side.connect(&home, late);
        side.settle(late);
    }
    assert_eq!(found(&side, number), 0x5A);
    // Data read until then are dropped.
    let before = side.completed.len();
    side.fetch(&home.disk, true);
    side.settle(MAX_FETCH_NS);
    assert_eq!(side.completed.len(), before);
}

#[test]
fn neither_a_broken_link_nor_another_home_matters_to_data_that_are_read_here() {
    let (home, mut side, nexus) = locating();
    let kept = located(&mut side, nexus);
    let gone = located(&mut side, nexus);
    let successor = home.successor(&HOSTS);
    side.move_to(&successor, 2 * MS);
    side.fetch(&home.disk, true);
    assert_eq!(found(&side, kept), 0x5A);
    side.fetch(&home.disk, false);
    side.connect(&successor, 3 * MS);
    side.settle(3 * MS);
    assert_eq!(found(&side, gone), 0x5A);
    let waits = located(&mut side, nexus);
    side.cut(4 * MS);
    side.fetch(&home.disk, false);
    side.tick_front(4 * MS + HOLD_NS).expect("no link");
    side.run();
    assert_eq!(status(&side, waits), Some(Status::Busy), "without a home it ends like others");
}

#[test]
fn an_aborted_read_gives_no_response_after_that_of_the_function() {
    for function in FUNCTIONS {
        let (home, mut side, nexus) = locating();
        let number = located(&mut side, nexus);
        let tag = side.last_tag();
        // Another host's read, another command of this host after the function, and one with another tag.
        let other = side.host(HOSTS[1], 2, MS);
        let others = located(&mut side, other);
        let managed = side.manage(nexus, function(tag), MS);
        side.settle(MS);
        assert_eq!(side.managed.get(&managed), Some(&ManagementResponse::Complete));
        assert!(side.completed.get(&number).expect("it has ended").is_none());
        side.fetch(&home.disk, true);
        assert!(side.completed[&number].is_none());
        side.fetch(&home.disk, true);
        assert_eq!(found(&side, others), 0x5A, "of another nexus");
    }
}

#[test]
fn functions_end_only_what_they_reach() {
    let (home, mut side, nexus) = locating();
    let number = located(&mut side, nexus);
    let tag = side.last_tag();
    let managed = side.manage(nexus, ManagementFunction::AbortTask { tag: tag + 1 }, MS);
    let later = side.start(nexus, &read(9), &[], MS);
    side.settle(MS);
    assert_eq!(side.managed.get(&managed), Some(&ManagementResponse::Complete));
    side.fetch(&home.disk, true);
    assert_eq!(found(&side, number), 0x5A);
    // A function does not reach later commands.
    side.fetch(&home.disk, true);
    assert_eq!(found(&side, later), 0x5A);
    let before = located(&mut side, nexus);
    let managed = side.manage(nexus, ManagementFunction::AbortTaskSet, MS);
    let after = side.start(nexus, &read(9), &[], MS);
    side.settle(MS);
    assert!(side.managed.contains_key(&managed) && side.completed[&before].is_none());
    side.fetch(&home.disk, true);
    side.fetch(&home.disk, true);
    assert_eq!(found(&side, after), 0x5A);
}

/// The home would not find the command, whose response would follow that of the function.
#[test]
fn what_can_not_be_read_while_a_function_is_under_way_is_busy() {
    let (home, mut side, nexus) = locating();
    let number = located(&mut side, nexus);
    let managed = side.manage(nexus, ManagementFunction::AbortTaskSet, MS);
    side.fetch(&home.disk, false);
    side.run();
    assert_eq!(status(&side, number), Some(Status::Busy));
    side.settle(MS);
    assert_eq!(side.managed.get(&managed), Some(&ManagementResponse::Complete));
}

/// The read would return data of a later ordered command.
#[test]
fn what_can_not_be_read_after_an_ordered_command_is_busy() {
    let (home, mut side, nexus) = locating();
    let early = located(&mut side, nexus);
    let ordered = side.start_with(TaskAttribute::Ordered, nexus, (&write(9), &[8; BLOCK]), MS);
    side.settle(MS);
    assert_eq!(status(&side, ordered), Some(Status::Good));
    let late = located(&mut side, nexus);
    side.fetch(&home.disk, false);
    side.run();
    assert_eq!(status(&side, early), Some(Status::Busy));
    side.fetch(&home.disk, false);
    side.settle(MS);
    assert_eq!(found(&side, late), 8);
}

#[test]
fn a_nexus_that_ends_drops_what_is_read_for_it() {
    let (home, mut side, nexus) = locating();
    let number = located(&mut side, nexus);
    side.front.detach(nexus);
    assert_eq!(side.front.fetching(), 0);
    for is_there in [true, false] {
        side.located.extend(side.located.first().cloned());
        side.fetch(&home.disk, is_there);
        side.settle(MS);
    }
    assert!(!side.completed.contains_key(&number));
}
