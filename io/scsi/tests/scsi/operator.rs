//! What an operator sets on units, and what is counted.

use crate::host::{Array, BLOCK, End, Task, long, number, pattern, ten};
use block::DiskId;
use export::{Event, Mapping, Operation, PathId, QosLimits, QuotaRefusals, Rate};
use scsi::{ManagementFunction, Status, TaskAttribute};
use std::collections::BTreeMap;
use std::time::Duration;

const DISK: DiskId = DiskId(1);

fn operations(per_second: u64) -> QosLimits {
    QosLimits { operations: Some(Rate { per_second, burst: 0 }), bytes: None }
}

fn show_read_only(array: &Array, name: &str, read_only: bool) {
    array.exports.set_mappings(name, BTreeMap::from([(0, Mapping { read_only, ..DISK.into() })]));
}

#[test]
fn commands_beyond_the_limit_wait_and_go_on_in_time() {
    let (array, _disk, host) = Array::with_host();
    array.exports.set_limits(DISK, operations(100));
    host.write(0, &pattern(1, 1)).good();
    host.command(&[0; 6]).good(); // TEST UNIT READY costs nothing
    let write = host.start(0, &long(0x8A, 0, 0, 1), &pattern(1, 2));
    let mut write = Task::begin(write);
    let read = Task::begin(host.start(0, &long(0x88, 0, 0, 1), &[]));
    array.clock.advance(Duration::from_millis(10));
    assert!(write.poll().is_ready());
    array.clock.advance(Duration::from_millis(10));
    assert_eq!(read.end().expect("an answer").good(), pattern(1, 2));
    array.exports.set_limits(DISK, QosLimits::default());
    (0..100).for_each(|_| drop(host.read(0, 1).good()));
}

#[test]
fn a_waiting_command_is_a_task_that_aborts_reach_and_barriers_wait_for() {
    let (array, _disk, host) = Array::with_host();
    host.write(0, &pattern(1, 1)).good();
    array.exports.set_limits(DISK, operations(1));
    host.read(0, 1).good();
    let aborted = Task::begin(host.start(0, &long(0x8A, 0, 0, 1), &pattern(1, 2)));
    host.manage(ManagementFunction::AbortTask { tag: host.last_tag() });
    assert!(aborted.end().is_none());
    let waiting = Task::begin(host.start(0, &long(0x8A, 0, 0, 1), &pattern(1, 3)));
    let ordered = host.start_with(TaskAttribute::Ordered, 0, &long(0x88, 0, 0, 1), &[]);
    let mut ordered = Task::begin(ordered);
    array.clock.advance(Duration::from_secs(1));
    assert!(ordered.poll().is_pending(), "the older write has not begun");
    waiting.end().expect("an answer").good();
    assert!(ordered.poll().is_pending(), "its turn, but not its time");
    array.clock.advance(Duration::from_secs(1));
    assert_eq!(ordered.end().expect("an answer").good(), pattern(1, 3));
    let reset = Task::begin(host.start(0, &long(0x8A, 0, 0, 1), &pattern(1, 4)));
    host.manage(ManagementFunction::LogicalUnitReset);
    assert!(reset.end().is_none());
    host.take_unit_attentions();
    array.clock.advance(Duration::from_secs(9));
    assert_eq!(host.read(0, 1).good(), pattern(1, 3));
}

#[test]
fn a_lock_is_never_late() {
    let (array, _disk, host) = Array::with_host();
    array.exports.set_limits(DISK, operations(1));
    host.read(0, 1).good();
    let (old, new) = (vec![0; BLOCK], pattern(1, 1));
    host.send(&long(0x89, 0, 0, 0x0001), &[old, new].concat()).good();
    let waiting = Task::begin(host.start(0, &long(0x88, 0, 0, 1), &[]));
    array.clock.advance(Duration::from_secs(1));
    let mut waiting = waiting;
    assert!(waiting.poll().is_pending(), "it waits for the cost of the lock");
    array.clock.advance(Duration::from_secs(1));
    waiting.end().expect("an answer").good();
}

#[test]
fn a_group_has_its_limit_in_common() {
    let array = Array::new();
    (1..=3).for_each(|id| drop(array.disk(id)));
    array.map_luns("a", &[(0, 1), (1, 2), (2, 3)]);
    let host = array.connect("a", 1);
    host.take_unit_attentions();
    (1..3).for_each(|lun| drop(host.command_lun(lun, &[0; 6]).fails(6, 0x29, 0)));
    let bytes = QosLimits { operations: None, bytes: Some(Rate { per_second: 512, burst: 0 }) };
    (1..3).for_each(|id| array.exports.set_group(DiskId(id), Some(7)));
    array.exports.set_group_limits(7, bytes);
    host.read(0, 1).good();
    let second = Task::begin(host.start(1, &long(0x88, 0, 0, 1), &[]));
    host.command_lun(2, &long(0x88, 0, 0, 1)).good();
    array.clock.advance(Duration::from_secs(1));
    second.end().expect("an answer").good();
    array.exports.set_group(DiskId(1), None);
    (0..10).for_each(|_| drop(host.read(0, 1).good()));
    array.exports.set_group_limits(7, QosLimits::default());
    (0..10).for_each(|_| drop(host.command_lun(1, &long(0x88, 0, 0, 1)).good()));
}

#[test]
fn the_unmap_throttle_slows_down_what_unmaps_and_nothing_else() {
    let (array, _disk, host) = Array::with_host();
    array.exports.set_unmap_throttle(9);
    // 32 MiB at 384 MiB a second; 38.4 MiB may come at once.
    let unmap = || host.start(0, &long(0x93, 0x09, 0, 1 << 16), &[]);
    crate::host::wait(unmap());
    crate::host::wait(unmap());
    let waiting = Task::begin(unmap());
    host.read(0, 1).good();
    array.clock.advance(Duration::from_millis(84));
    waiting.end().expect("an answer").good();
    let waiting = Task::begin(unmap());
    array.exports.set_unmap_throttle(0);
    waiting.end().expect("an answer").good();
}

#[test]
fn a_read_only_mapping_refuses_writes_of_that_initiator() {
    let (array, _disk, host) = Array::with_host();
    let other = array.host("b", 1);
    host.write(0, &pattern(1, 1)).good();
    show_read_only(&array, "a", true);
    assert_eq!(host.take_unit_attentions(), [(0x2A, 0x01)]);
    host.write(0, &pattern(1, 2)).fails(7, 0x27, 0x00);
    host.command(&long(0x93, 0x09, 0, 8)).fails(7, 0x27, 0x00);
    assert_eq!(host.command(&[0x1A, 0, 0x3F, 0, 255, 0]).good()[2] & 0x80, 0x80, "WP");
    assert_eq!(other.command(&[0x1A, 0, 0x3F, 0, 255, 0]).good()[2] & 0x80, 0);
    other.write(0, &pattern(1, 3)).good();
    assert_eq!(host.read(0, 1).good(), pattern(1, 3));
    show_read_only(&array, "a", false);
    host.take_unit_attentions();
    host.write(0, &pattern(1, 4)).good();
}

#[test]
fn a_read_only_disk_says_so_as_long_as_it_is() {
    let (array, disk, host) = Array::with_host();
    disk.set_read_only(true);
    let protected =
        |host: &crate::host::Host| host.command(&[0x1A, 0, 0x3F, 0, 255, 0]).good()[2] & 0x80 != 0;
    let late = array.host("b", 1);
    host.write(0, &pattern(1, 2)).fails(7, 0x27, 0x00);
    late.write(0, &pattern(1, 2)).fails(7, 0x27, 0x00);
    assert!(protected(&host) && protected(&late));
    disk.set_read_only(false);
    host.write(0, &pattern(1, 2)).good();
    late.write(0, &pattern(1, 2)).good();
    assert!(!protected(&host) && !protected(&late));
}

#[test]
fn scsi_2_reservations_can_be_switched_off() {
    let (array, _disk, host) = Array::with_host();
    let other = array.host("b", 1);
    let supported = |opcode| host.command(&[0xA3, 0x0C, 1, opcode, 0, 0, 0, 0, 0, 64, 0, 0]).good()[1] & 7;
    host.command(&[0x16, 0, 0, 0, 0, 0]).good();
    assert_eq!(supported(0x16), 3);
    array.target.set_simple_reservations(DISK, false);
    other.write(0, &pattern(1, 1)).good();
    host.command(&[0x16, 0, 0, 0, 0, 0]).fails(5, 0x20, 0);
    host.command(&[0x17, 0, 0, 0, 0, 0]).fails(5, 0x20, 0);
    assert_eq!(supported(0x16), 1);
    array.target.set_simple_reservations(DISK, true);
    host.command(&[0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0]).good();
}

#[test]
fn a_hard_quota_refuses_what_would_map_more_of_all_its_units() {
    let array = Array::new();
    (1..=2).for_each(|id| drop(array.disk(id)));
    array.map_luns("a", &[(0, 1), (1, 2)]);
    let host = array.connect("a", 1);
    host.take_unit_attentions();
    host.command_lun(1, &[0; 6]).fails(6, 0x29, 0);
    let send = |lun, cdb: &[u8], data: &[u8]| End::of(host.start(lun, cdb, data));
    host.write(0, &pattern(8, 1)).good();
    array.set_quota(&[1, 2], Some(12_288));
    send(1, &long(0x8A, 0, 0, 8), &pattern(8, 1)).good();
    host.write(0, &pattern(8, 2)).good();
    assert_eq!(array.exports.refresh_quota(7), QuotaRefusals::default());
    host.write(8, &pattern(16, 3)).fails(7, 0x27, 0x07);
    assert_eq!(array.exports.refresh_quota(7), QuotaRefusals { operations: 1, bytes: 8192 });
    host.write(8, &pattern(8, 3)).good();
    host.write(12, &pattern(8, 3)).fails(7, 0x27, 0x07);
    send(1, &long(0x8A, 0, 8, 1), &pattern(1, 1)).fails(7, 0x27, 0x07);
    host.send(&ten(0x41, 0, 100, 4), &pattern(1, 5)).fails(7, 0x27, 0x07);
    let lock = [pattern(1, 0), pattern(1, 9)].concat();
    host.send(&long(0x89, 0, 100, 0x0001), &lock).fails(7, 0x27, 0x07);
    // What is mapped can be written, whatever its size, and unmapped, which makes room at once.
    host.write(0, &pattern(16, 4)).good();
    host.command(&long(0x93, 0x09, 0, 8)).good();
    send(1, &long(0x8A, 0, 8, 8), &pattern(8, 1)).good();
    host.write(0, &pattern(1, 2)).fails(7, 0x27, 0x07);
    array.set_quota(&[1, 2], Some(16_384));
    host.write(0, &pattern(8, 2)).good();
    host.write(16, &pattern(8, 2)).fails(7, 0x27, 0x07);
    array.set_quota(&[1, 2], None);
    host.write(16, &pattern(8, 2)).good();
    assert_eq!(array.exports.refresh_quota(7), QuotaRefusals::default(), "there is none");
}

#[test]
fn what_is_under_way_counts_as_mapped() {
    let (array, disk) = Array::with_held_disk();
    let host = array.host("a", 1);
    array.set_quota(&[1], Some(12_288));
    let begin = |lba| Task::begin(host.start(0, &long(0x8A, 0, lba, 8), &pattern(8, 1)));
    let (first, second, aborted) = (begin(0), begin(8), begin(16));
    host.write(24, &pattern(8, 1)).fails(7, 0x27, 0x07);
    drop(aborted);
    let third = begin(24);
    host.write(32, &pattern(8, 1)).fails(7, 0x27, 0x07);
    disk.release();
    for write in [first, second, third] {
        write.end().expect("an answer").good();
    }
    host.write(0, &pattern(8, 2)).good();
    host.write(32, &pattern(8, 1)).fails(7, 0x27, 0x07);
}

#[test]
fn initiators_learn_of_events_once() {
    let (array, _disk, host) = Array::with_host();
    let other = array.host("b", 1);
    array.exports.notify(DISK, Event::ThresholdCrossed);
    assert_eq!((host.take_unit_attentions(), other.take_unit_attentions()), (vec![(0x38, 0x07)], vec![]));
    array.exports.notify(DISK, Event::ContentReplaced);
    array.exports.notify(DISK, Event::CapacityChanged);
    let expected = [(0x28, 0x00), (0x2A, 0x09)];
    assert_eq!(
        (&host.take_unit_attentions()[..], &other.take_unit_attentions()[..]),
        (&expected[..], &expected[..])
    );
    array.exports.notify(DiskId(99), Event::ThresholdCrossed);
}

#[test]
fn what_happens_is_counted_by_unit_way_kind_and_size() {
    let array = Array::new();
    (1..=2).for_each(|id| drop(array.disk(id)));
    array.map_luns("a", &[(0, 1), (1, 2)]);
    let host = array.connect("a", 1);
    host.take_unit_attentions();
    let other = array.host("b", 2);
    host.write(0, &pattern(16, 1)).good();
    host.read(0, 8).good();
    other.read(0, 8).good();
    host.send(&long(0x89, 0, 0, 0x0001), &[pattern(1, 9), pattern(1, 9)].concat()).fails(0x0E, 0x1D, 0);
    host.command(&long(0x93, 0x09, 8, 8)).good();
    let path = |initiator: &str, port| PathId { initiator: initiator.into(), port };
    let all = array.exports.statistics();
    let a = &all[&DISK][&path("a", 1)];
    let of = |operation| {
        let counts = a.of(operation);
        (counts.operations(), counts.bytes, counts.failures)
    };
    assert_eq!(of(Operation::Write), (1, 8192, 0));
    assert_eq!(of(Operation::Read), (1, 4096, 0));
    assert_eq!(of(Operation::CompareAndWrite), (0, 0, 1));
    assert_eq!(of(Operation::WriteSame), (1, 4096, 0));
    assert_eq!(all[&DISK][&path("b", 2)].of(Operation::Read).operations(), 1);
    drop(other);
    assert_eq!(array.exports.statistics()[&DISK][&path("b", 2)].of(Operation::Read).operations(), 1, "kept");
    // LOG SENSE reports the same numbers.
    let log = host.command(&ten(0x4D, 0, 0x5900_0000, 512)).good();
    let numbers: Vec<u64> = log[8..40].chunks(8).map(number).collect();
    assert_eq!(numbers, [2, 2, 24, 16], "reads, writes, blocks written, blocks read");
}

#[test]
fn latency_is_the_time_from_begin_to_answer() {
    let (array, held) = Array::with_held_disk();
    let host = array.host("a", 1);
    let write = Task::begin(host.start(0, &long(0x8A, 0, 0, 8), &pattern(8, 1)));
    array.clock.advance(Duration::from_millis(2));
    held.release();
    assert_eq!(write.end().expect("an answer").status, Status::Good);
    let statistics = array.exports.statistics();
    let writes = statistics[&DISK].values().next().expect("a path").of(Operation::Write);
    assert_eq!(writes.latency.total(), Duration::from_millis(2));
    held.hold();
    let aborted = Task::begin(host.start(0, &long(0x8A, 0, 0, 8), &pattern(8, 1)));
    drop(aborted);
    let statistics = array.exports.statistics();
    assert_eq!(statistics[&DISK].values().next().expect("a path").of(Operation::Write).failures, 1);
}
