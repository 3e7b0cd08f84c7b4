//! One volume over NVMe/TCP and SCSI at once: data, Compare and Write, and reservations hold across both.

use crate::lab_test::*;
use scsi::{
    Command, Direction, Execution, InitiatorPort, Lun, Nexus, Response, Status, Target, TargetIdentity,
    TaskAttribute,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const IQN: &str = "iqn.2026-01.test:mixed";

/// A SCSI host that sees disk 1 as LUN 0.
struct ScsiHost {
    _target: Arc<Target>,
    nexus: Nexus,
}

impl ScsiHost {
    fn new(world: &World) -> Self {
        let identity = TargetIdentity {
            name: "iqn.2026-01.test:array".into(),
            vendor: "ASHLAR".into(),
            product: "ALL-FLASH ARRAY".into(),
            revision: "1".into(),
            ports: 1.into(),
        };
        let target = Target::new(identity, world.exports.clone(), [1; 32]);
        world.exports.set_mappings(IQN, BTreeMap::from([(0, block::DiskId(1))]));
        let nexus = target.attach(InitiatorPort::iscsi(IQN, [0; 6]), 1);
        let host = Self { _target: target, nexus };
        while host.send(&[0; 6], &[]).status != Status::Good {}
        host
    }

    fn send(&self, cdb: &[u8], data: &[u8]) -> Response {
        let execution = self.nexus.execute(Command {
            tag: 1,
            lun: Lun([0; 8]),
            cdb: bytes::Bytes::copy_from_slice(cdb),
            attribute: TaskAttribute::Simple,
            direction: if data.is_empty() { Direction::In } else { Direction::Out },
            data_out: data.to_vec().into(),
            data_in_limit: 1 << 20,
        });
        let mut task = match execution {
            Execution::Done(response) => return response,
            Execution::Task(task) => task,
        };
        for _ in 0..1000 {
            if let Poll::Ready(end) = task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return end.expect("it is not aborted");
            }
        }
        panic!("the command does not end");
    }

    fn write(&self, lba: u8, byte: u8) -> Status {
        self.send(&[0x2A, 0, 0, 0, 0, lba, 0, 0, 1, 0], &[byte; 512]).status
    }

    /// The byte that fills a block.
    fn read(&self, lba: u8) -> u8 {
        let data = self.send(&[0x28, 0, 0, 0, 0, lba, 0, 0, 1, 0], &[]).data_in.to_bytes();
        assert!(data.len() == 512 && data.iter().all(|byte| *byte == data[0]));
        data[0]
    }

    /// COMPARE AND WRITE; returns whether it wrote.
    fn compare_and_write(&self, lba: u8, old: u8, new: u8) -> bool {
        let cdb = [0x89, 0, 0, 0, 0, 0, 0, 0, 0, lba, 0, 0, 0, 1, 0, 0];
        self.send(&cdb, &[[old; 512], [new; 512]].concat()).status == Status::Good
    }

    /// PERSISTENT RESERVE OUT
    fn reserve_out(&self, action: u8, kind: u8, key: u64, new_key: u64) -> Status {
        let list = [key.to_be_bytes(), new_key.to_be_bytes(), [0; 8]].concat();
        self.send(&[0x5F, action, kind, 0, 0, 0, 0, 0, 24, 0], &list).status
    }
}

/// Fused Compare and Write; the status of both.
fn fused(io: &mut Host, lba: u64, old: u8, new: u8) -> [u16; 2] {
    let compare = Cmd::new(0x05, 1).run_of(lba, 1).out(vec![old; 512], true).fuse(1);
    io.submit(&compare);
    io.submit(&write(1, lba, vec![new; 512], true).fuse(2));
    [io.end(&compare).status, io.end(&compare).status]
}

#[test]
fn both_protocols_see_the_same_blocks_and_exclude_each_other_by_compare_and_write() {
    let world = World::new();
    let (_admin, mut io) = world.connected(HOST);
    let scsi = ScsiHost::new(&world);
    assert_eq!(scsi.write(3, 7), Status::Good);
    assert_eq!(io.run(read(1, 3, 1)).data, vec![7; 512]);
    assert_eq!(io.run(write(1, 4, vec![8; 512], true)).status, 0);
    assert_eq!(scsi.read(4), 8);
    // A lock that both hosts take alternately.
    assert_eq!(fused(&mut io, 9, 0, 1), [0, 0]);
    assert!(!scsi.compare_and_write(9, 0, 2), "held by the other");
    assert_eq!(fused(&mut io, 9, 1, 0), [0, 0]);
    assert!(scsi.compare_and_write(9, 0, 2));
    assert_eq!(fused(&mut io, 9, 0, 1), [0x285, 0x009], "held by the other");
    assert_eq!(scsi.read(9), 2);
}

#[test]
fn a_reservation_by_one_protocol_keeps_the_hosts_of_the_other_out() {
    let world = World::new();
    let (_admin, mut io) = world.connected(HOST);
    let scsi = ScsiHost::new(&world);
    // Write Exclusive by SCSI: the NVMe host reads only.
    assert_eq!(scsi.reserve_out(0x00, 0, 0, 0xA1), Status::Good);
    assert_eq!(scsi.reserve_out(0x01, 0x01, 0xA1, 0), Status::Good);
    assert_eq!(io.run(write(1, 0, vec![1; 512], true)).status, 0x083);
    assert_eq!(io.run(read(1, 0, 1)).status, 0);
    // The NVMe host registers, and preempts the SCSI host.
    let keys = |one: u64, other: u64| [one.to_le_bytes(), other.to_le_bytes()].concat();
    assert_eq!(io.run(Cmd::new(0x0D, 1).out(keys(0, 0xB2), true)).status, 0, "register");
    let preempt = Cmd::new(0x11, 1).dword(10, 1 | 1 << 8).out(keys(0xB2, 0xA1), true);
    assert_eq!(io.run(preempt).status, 0);
    assert_eq!(io.run(write(1, 0, vec![1; 512], true)).status, 0);
    // The SCSI host gets a unit attention condition, and may no longer write.
    let attention = scsi.send(&[0x2A, 0, 0, 0, 0, 0, 0, 0, 1, 0], &[9; 512]);
    assert_eq!(
        (attention.status, attention.sense[2], attention.sense[12]),
        (Status::CheckCondition, 6, 0x2A)
    );
    assert_eq!(scsi.write(0, 9), Status::ReservationConflict);
    assert_eq!(scsi.read(0), 1);
    let release = Cmd::new(0x15, 1).dword(10, 1 << 8).out(0xB2_u64.to_le_bytes().to_vec(), true);
    assert_eq!(io.run(release).status, 0);
    assert_eq!(scsi.write(0, 9), Status::Good);
    assert_eq!(io.run(read(1, 0, 1)).data, vec![9; 512]);
}
