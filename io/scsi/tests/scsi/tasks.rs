//! Tasks: ordering, aborts, and the unit attentions of other initiators.

use crate::host::{Array, BLOCK, Task, long, pattern};
use scsi::{ManagementFunction, ManagementResponse, Status, TaskAttribute};
use std::task::Poll;

const DEVICE_RESET: (u8, u8) = (0x29, 0x03);
const CLEARED: (u8, u8) = (0x2F, 0x00);
const RESERVE: [u8; 6] = [0x16, 0, 0, 0, 0, 0];

fn write_cdb(lba: u64) -> Vec<u8> {
    long(0x8A, 0, lba, 1)
}

#[test]
fn an_aborted_write_never_takes_effect() {
    let (array, disk) = Array::with_held_disk();
    let host = array.host("a", 1);
    let mut task = Task::begin(host.start(0, &write_cdb(0), &pattern(1, 1)));
    let function = ManagementFunction::AbortTask { tag: host.last_tag() };
    assert_eq!(host.manage(function), ManagementResponse::Complete);
    disk.release();
    assert!(matches!(task.poll(), Poll::Ready(None)), "its initiator gets no response");
    assert_eq!(host.read(0, 1).good(), vec![0; BLOCK]);
    // The task is over, and so is the function for it.
    assert_eq!(host.manage(function), ManagementResponse::Complete);
}

#[test]
fn a_dropped_task_never_takes_effect() {
    let (array, disk) = Array::with_held_disk();
    let host = array.host("a", 1);
    drop(Task::begin(host.start(0, &write_cdb(0), &pattern(1, 1))));
    disk.release();
    assert_eq!(host.read(0, 1).good(), vec![0; BLOCK]);
}

#[test]
fn clear_task_set_aborts_all_tasks_and_notifies_other_initiators() {
    let (array, disk) = Array::with_held_disk();
    let (a, b, idle) = (array.host("a", 1), array.host("b", 1), array.host("c", 1));
    let own = Task::begin(a.start(0, &write_cdb(0), &pattern(1, 1)));
    let other = Task::begin(b.start(0, &write_cdb(1), &pattern(1, 2)));
    a.manage(ManagementFunction::ClearTaskSet);
    disk.release();
    assert!(own.end().is_none() && other.end().is_none());
    assert_eq!(
        (a.take_unit_attentions(), b.take_unit_attentions(), idle.take_unit_attentions()),
        (vec![], vec![CLEARED], vec![])
    );
    assert_eq!(a.read(0, 2).good(), vec![0; 2 * BLOCK]);
}

#[test]
fn with_tas_other_initiators_learn_by_status() {
    let (array, disk) = Array::with_held_disk();
    let (a, b) = (array.host("a", 1), array.host("b", 1));
    disk.release();
    // MODE SELECT (6) of the control page with TAS.
    let page = [0, 0, 0, 0, 0x0A, 10, 0, 0x10, 0, 0x40, 0, 0, 0xFF, 0xFF, 0, 0];
    a.send(&[0x15, 0x10, 0, 0, 16, 0], &page).good();
    disk.hold();
    assert_eq!(b.take_unit_attentions(), [(0x2A, 0x01)]);
    let task = Task::begin(b.start(0, &write_cdb(1), &pattern(1, 2)));
    a.manage(ManagementFunction::ClearTaskSet);
    assert_eq!(task.end().expect("a response").status, Status::TaskAborted);
    assert_eq!(b.take_unit_attentions(), []);
}

#[test]
fn abort_task_set_leaves_others_alone() {
    let (array, disk) = Array::with_held_disk();
    let (a, b) = (array.host("a", 1), array.host("b", 1));
    let own = Task::begin(a.start(0, &write_cdb(0), &pattern(1, 1)));
    let other = Task::begin(b.start(0, &write_cdb(1), &pattern(1, 2)));
    a.manage(ManagementFunction::AbortTaskSet);
    disk.release();
    assert!(own.end().is_none());
    other.end().expect("a response").good();
    assert_eq!(b.take_unit_attentions(), []);
}

#[test]
fn a_logical_unit_reset_ends_tasks_and_reservations_and_notifies_everyone() {
    let (array, disk) = Array::with_held_disk();
    let (a, b) = (array.host("a", 1), array.host("b", 2));
    b.command(&RESERVE).good();
    let task = Task::begin(b.start(0, &write_cdb(0), &pattern(1, 1)));
    a.read(0, 1).conflicts();
    assert_eq!(a.manage(ManagementFunction::LogicalUnitReset), ManagementResponse::Complete);
    disk.release();
    assert!(task.end().is_none());
    assert_eq!(
        (a.take_unit_attentions(), b.take_unit_attentions()),
        (vec![DEVICE_RESET], vec![DEVICE_RESET])
    );
    assert_eq!(a.read(0, 1).good(), vec![0; BLOCK]);
}

#[test]
fn a_reset_of_the_target_reaches_every_unit_that_the_initiator_sees() {
    let array = Array::new();
    (1..=3).for_each(|id| drop(array.disk(id)));
    array.map_luns("a", &[(0, 1), (1, 2)]);
    array.map_luns("b", &[(0, 1), (1, 3)]);
    let (a, b) = (array.connect("a", 1), array.connect("b", 1));
    for lun in [0, 1] {
        a.command_lun(lun, &[0; 6]).fails(6, 0x29, 0x00);
        b.command_lun(lun, &[0; 6]).fails(6, 0x29, 0x00);
    }
    a.manage(ManagementFunction::TargetReset);
    b.command_lun(0, &[0; 6]).fails(6, 0x29, 0x03);
    b.command_lun(1, &[0; 6]).good();
    a.command_lun(1, &[0; 6]).fails(6, 0x29, 0x03);
}

#[test]
fn the_loss_of_a_nexus_ends_its_tasks_and_its_reservation() {
    let (array, disk) = Array::with_held_disk();
    let (a, b) = (array.host("a", 1), array.host("b", 1));
    b.command(&RESERVE).good();
    let task = Task::begin(b.start(0, &write_cdb(0), &pattern(1, 1)));
    drop(b);
    disk.release();
    assert!(task.end().is_none());
    assert_eq!(a.read(0, 1).good(), vec![0; BLOCK]);
    assert_eq!(a.take_unit_attentions(), []);
}

#[test]
fn an_ordered_task_waits_for_the_older_and_holds_the_younger_back() {
    let (array, disk) = Array::with_held_disk();
    let (a, b) = (array.host("a", 1), array.host("b", 1));
    let mut older = Task::begin(a.start(0, &write_cdb(0), &pattern(1, 1)));
    let read = long(0x88, 0, 0, 1);
    let mut ordered = Task::begin(b.start_with(TaskAttribute::Ordered, 0, &read, &[]));
    let younger = Task::begin(a.start(0, &read, &[]));
    // Head of queue passes; it reads what is there before the write.
    let head = a.start_with(TaskAttribute::HeadOfQueue, 0, &read, &[]);
    assert_eq!(crate::host::End::from(crate::host::wait(head).expect("a response")).good(), vec![0; BLOCK]);
    a.command(&[0x12, 0, 0, 0, 36, 0]).good();
    disk.release();
    assert!(ordered.poll().is_pending(), "the older task has not been answered yet");
    assert!(older.poll().is_ready());
    assert_eq!(ordered.end().expect("a response").good(), pattern(1, 1));
    assert_eq!(younger.end().expect("a response").good(), pattern(1, 1));
}

#[test]
fn a_waiting_task_that_is_aborted_lets_the_others_go_on() {
    let (array, disk) = Array::with_held_disk();
    let host = array.host("a", 1);
    let _older = Task::begin(host.start(0, &write_cdb(0), &pattern(1, 1)));
    let ordered = Task::begin(host.start_with(TaskAttribute::Ordered, 0, &write_cdb(0), &pattern(1, 2)));
    let tag = host.last_tag();
    let mut younger = Task::begin(host.start(0, &long(0x88, 0, 9, 1), &[]));
    host.manage(ManagementFunction::AbortTask { tag });
    assert!(younger.poll().is_ready());
    assert!(ordered.end().is_none());
    drop(disk);
}

#[test]
fn a_reservation_waits_for_what_runs() {
    let (array, disk) = Array::with_held_disk();
    let (a, b) = (array.host("a", 1), array.host("b", 1));
    let mut writing = Task::begin(a.start(0, &write_cdb(0), &pattern(1, 1)));
    let reserving = Task::begin(b.start(0, &RESERVE, &[]));
    let refused = Task::begin(a.start(0, &write_cdb(1), &pattern(1, 2)));
    disk.release();
    assert!(matches!(writing.poll(), Poll::Ready(Some(_))));
    reserving.end().expect("a response").good();
    refused.end().expect("a response").conflicts();
    b.read(0, 1).good();
}

#[test]
fn two_commands_with_one_tag_do_not_mix() {
    let (array, disk) = Array::with_held_disk();
    let host = array.host("a", 1);
    let first = Task::begin(host.start(0, &write_cdb(0), &pattern(1, 1)));
    host.reuse_last_tag();
    host.write(1, &pattern(1, 2)).fails(0x0B, 0x4E, 0);
    disk.release();
    first.end().expect("a response").good();
    assert_eq!(host.read(1, 1).good(), vec![0; BLOCK]);
}
