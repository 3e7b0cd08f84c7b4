//! A host with a read-only mapping can't change what the other hosts of the unit share with it.

use crate::host::{Array, BLOCK, End, Host, address, long, pattern, ten, wait};
use block::DiskId;
use bytes::Bytes;
use export::Mapping;
use scsi::{
    Command, Data, Direction, Execution, ManagementFunction, ManagementResponse, Status, TaskAttribute,
};
use std::collections::BTreeMap;

/// Disk 1 with a host that may write, "a", and one that may only read, "r"; "r" may write to disk 2 as LUN 1.
fn shared() -> (Array, Host, Host) {
    let array = Array::new();
    (1..=2).for_each(|id| drop(array.disk(id)));
    let writer = array.host("a", 1);
    array.exports.set_mappings(
        "r",
        BTreeMap::from([
            (0, Mapping { read_only: true, ..DiskId(1).into() }),
            (1, Mapping { read_only: false, ..DiskId(2).into() }),
        ]),
    );
    let reader = array.connect("r", 1);
    reader.take_unit_attentions();
    reader.command_lun(1, &[0; 6]).fails(6, 0x29, 0);
    (array, writer, reader)
}

/// What a host sees of a unit that others may have changed.
fn seen(host: &Host) -> Vec<Bytes> {
    assert_eq!(host.take_unit_attentions(), [], "it has no unit attention");
    let asked = [
        &ten(0x5A, 0x08, 0x3FFF << 16, 1024)[..],
        &ten(0x5A, 0x08, 0xFFFF << 16, 1024),
        &[0x5E, 3, 0, 0, 0, 0, 0, 0xFF, 0, 0],
        &[0x5E, 1, 0, 0, 0, 0, 0, 0xFF, 0, 0],
        &long(0x88, 0, 0, 64),
    ];
    let seen = asked.into_iter().map(|cdb| host.command(cdb).good()).collect();
    host.write(0, &pattern(64, 5)).good();
    seen
}

fn out(host: &Host, action: u8, kind: u8, key: u64, new: u64) -> End {
    let mut list = [key.to_be_bytes(), new.to_be_bytes()].concat();
    list.extend_from_slice(&[0; 8]);
    host.send(&[0x5F, action, kind, 0, 0, 0, 0, 0, 24, 0], &list)
}

#[test]
fn nothing_that_others_share_is_changed() {
    let (_array, writer, reader) = shared();
    writer.write(0, &pattern(64, 5)).good();
    let before = seen(&writer);
    let swp = [0, 0, 0, 0, 0x0A, 10, 0, 0x10, 0x08, 0, 0, 0, 0xFF, 0xFF, 0, 0];
    reader.send(&[0x15, 0x10, 0, 0, 16, 0], &swp).fails(7, 0x27, 0);
    reader.send(&[0x15, 0x11, 0, 0, 16, 0], &swp).fails(7, 0x27, 0);
    let long_swp = [&[0; 8][..], &swp[4..]].concat();
    reader.send(&[0x55, 0x11, 0, 0, 0, 0, 0, 0, 20, 0], &long_swp).fails(7, 0x27, 0);
    for action in [0, 1, 3, 4, 5, 6, 7] {
        let end = out(&reader, action, 3, 0, 7);
        end.fails(7, 0x27, 0);
    }
    reader.command(&[0x16, 0, 0, 0, 0, 0]).fails(7, 0x27, 0);
    reader.command(&[0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0]).fails(7, 0x27, 0);
    reader.command(&[0x17, 0, 0, 0, 0, 0]).good();
    reader.command(&[0x1B, 0, 0, 0, 0, 0]).fails(5, 0x24, 0);
    reader.command(&[0x1B, 0, 0, 0, 1, 0]).good();
    assert_eq!(seen(&writer), before);
}

#[test]
fn the_owner_of_a_writable_mapping_may_do_all_of_that() {
    let (_array, writer, _reader) = shared();
    out(&writer, 6, 0, 0, 7).good();
    out(&writer, 1, 3, 7, 0).good();
    let swp = [0, 0, 0, 0, 0x0A, 10, 0, 0x10, 0x08, 0, 0, 0, 0xFF, 0xFF, 0, 0];
    writer.send(&[0x15, 0x10, 0, 0, 16, 0], &swp).good();
    writer.write(0, &pattern(1, 1)).fails(7, 0x27, 0x02);
    let off = [0, 0, 0, 0, 0x0A, 10, 0, 0x10, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0];
    writer.send(&[0x15, 0x10, 0, 0, 16, 0], &off).good();
    writer.write(0, &pattern(1, 1)).good();
}

#[test]
fn functions_that_end_the_tasks_of_others_are_rejected() {
    let (array, disk) = Array::with_held_disk();
    array.exports.set_mappings("r", BTreeMap::from([(0, Mapping { read_only: true, ..DiskId(1).into() })]));
    let (writer, reader) = (array.host("a", 1), array.connect("r", 1));
    reader.take_unit_attentions();
    writer.command(&[0x16, 0, 0, 0, 0, 0]).good();
    disk.hold();
    let task = crate::host::Task::begin(writer.start(0, &long(0x8A, 0, 0, 1), &pattern(1, 1)));
    for function in [ManagementFunction::ClearTaskSet, ManagementFunction::LogicalUnitReset] {
        assert_eq!(reader.manage(function), ManagementResponse::Rejected);
    }
    assert_eq!(reader.manage(ManagementFunction::TargetReset), ManagementResponse::Complete);
    assert_eq!(reader.manage(ManagementFunction::AbortTaskSet), ManagementResponse::Complete);
    disk.release();
    assert_eq!(task.end().expect("it was not aborted").status, Status::Good);
    reader.read(0, 1).conflicts();
    assert!(array.target.hosts_sharing_with("r").is_empty(), "a cold reset ends no session of others");
    assert_eq!(array.target.hosts_sharing_with("a").len(), 2);
}

#[test]
fn a_reservation_does_not_outlast_the_right_to_write() {
    let (array, writer, _) = shared();
    let other = array.host("b", 1);
    writer.command(&[0x16, 0, 0, 0, 0, 0]).good();
    other.write(0, &pattern(1, 1)).conflicts();
    array.exports.set_mappings("a", BTreeMap::from([(0, Mapping { read_only: true, ..DiskId(1).into() })]));
    other.write(0, &pattern(1, 1)).good();
}

/// A small generator of numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A CDB with every bit that the usage data allows taken from the generator, mostly small.
fn cdb(numbers: &mut Numbers, usage: &[u8]) -> Vec<u8> {
    let byte = |numbers: &mut Numbers, mask: u8| match numbers.below(3) {
        0 => numbers.below(256) as u8 & mask,
        _ => numbers.below(25) as u8 & mask,
    };
    let mut cdb: Vec<u8> = usage.iter().map(|mask| byte(numbers, *mask)).collect();
    cdb[0] = usage[0];
    cdb
}

#[test]
fn no_command_at_all_changes_what_others_share() {
    let (_array, writer, reader) = shared();
    writer.write(0, &pattern(64, 5)).good();
    let commands = writer.command(&[0xA3, 0x0C, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0]).good();
    let mut numbers = Numbers(7);
    for command in commands[4..].chunks(8) {
        let (opcode, action) = (command[0], command[3]);
        let asked =
            [0xA3, 0x0C, if command[5] & 1 == 1 { 2 } else { 1 }, opcode, 0, action, 0, 0, 1, 0, 0, 0];
        let usage = writer.command(&asked).good()[4..].to_vec();
        let mut good = 0;
        for _ in 0..150 {
            let mut cdb = cdb(&mut numbers, &usage);
            if command[5] & 1 == 1 {
                cdb[1] = cdb[1] & 0xE0 | action;
            }
            let blocks = numbers.below(5) as usize * BLOCK;
            let length = [0, 24, 28, blocks, 64 * BLOCK][numbers.below(5) as usize];
            let data: Vec<u8> = (0..length).map(|_| numbers.below(16) as u8).collect();
            let end = send(&reader, &cdb, data);
            good += usize::from(end.status == Status::Good);
            if numbers.below(4) == 0 {
                reader.manage(ManagementFunction::LogicalUnitReset);
            }
        }
        assert_eq!(writer.take_unit_attentions(), [], "{opcode:#04x}/{action:#04x}, {good} GOOD");
        let blocks = writer.read(0, 64).good();
        assert_eq!(blocks, pattern(64, 5), "{opcode:#04x}/{action:#04x}");
        writer.write(0, &pattern(64, 5)).good();
        let pages = writer.command(&ten(0x5A, 0x08, 0x3FFF << 16, 1024)).good();
        assert_eq!(pages, Array::with_host().2.command(&ten(0x5A, 0x08, 0x3FFF << 16, 1024)).good());
        assert_eq!(&writer.command(&[0x5E, 3, 0, 0, 0, 0, 0, 0xFF, 0, 0]).good()[..], [0; 8]);
    }
}

fn send(host: &Host, cdb: &[u8], data: Vec<u8>) -> End {
    let mut padded = cdb.to_vec();
    padded.resize(16, 0);
    let execution = host.nexus.execute(Command {
        tag: u64::MAX,
        lun: address(0),
        cdb: padded.into(),
        attribute: TaskAttribute::Simple,
        direction: if data.is_empty() { Direction::In } else { Direction::Out },
        data_out: Data::from(data),
        data_in_limit: u64::MAX,
    });
    match execution {
        Execution::Done(response) => response.into(),
        task => wait(task).expect("a response").into(),
    }
}
