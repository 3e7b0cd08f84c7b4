//! Initiators in front of a SCSI target over disks in memory.

use block::mem::MemArray;
use block::{DiskId, Geometry};
use bytes::Bytes;
use export::Exports;
use scsi::{
    Clock, Command, Data, Direction, Execution, InitiatorPort, Lun, Nexus, Sleep, Status, Target,
    TargetIdentity, TaskAttribute,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

/// Small, since the model keeps a map entry for each block written.
const BLOCKS: u64 = 1 << 12;

/// A clock that advances by a millisecond with each reading, so that no wait is long.
#[derive(Default)]
pub(crate) struct FastClock(AtomicU64);

impl Clock for FastClock {
    fn now(&self) -> u64 {
        self.0.fetch_add(1_000_000, Ordering::Relaxed)
    }

    fn sleep_until(&self, _: u64) -> Sleep {
        Box::pin(std::future::ready(()))
    }
}

/// One initiator with a session.
pub struct Initiator {
    nexus: Nexus,
}

/// A target with two disks, which two initiators see as LUN 0 and 1.
pub fn array() -> (Arc<Target>, [Initiator; 2]) {
    let (target, _, initiators) = array_with_store();
    (target, initiators)
}

/// As [`array`], with the store of the disks.
pub fn array_with_store() -> (Arc<Target>, MemArray, [Initiator; 2]) {
    let identity = TargetIdentity {
        name: "iqn.2026-01.test:target".into(),
        vendor: "ASHLAR".into(),
        product: "ALL-FLASH ARRAY".into(),
        revision: "0".into(),
        ports: 2.into(),
    };
    let exports = Exports::new(Arc::new(FastClock::default()));
    let (target, store) = (Target::new(identity, exports.clone(), [7; 32]), MemArray::new());
    for id in [1, 2] {
        let disk = store.create(DiskId(id), Geometry { block_bytes: 512, blocks: BLOCKS });
        exports.add_volume(Arc::new(disk));
    }
    let initiators = ["a", "b"].map(|name| {
        exports.set_mappings(name, BTreeMap::from([(0, DiskId(1)), (1, DiskId(2))]));
        let nexus = target.attach(InitiatorPort::iscsi(name, [0; 6]), 1);
        let initiator = Initiator { nexus };
        (0..2).for_each(|lun| drop(initiator.send(lun, &[0; 6], &[]))); // the first unit attentions
        initiator
    });
    (target, store, initiators)
}

impl Initiator {
    /// Sends a command and waits for its response, which must arrive and be consistent: whether it is GOOD, and the data.
    pub fn send(&self, lun: u16, cdb: &[u8], data: &[u8]) -> (bool, Bytes) {
        let command = Command {
            tag: 1,
            lun: Lun([0, lun as u8, 0, 0, 0, 0, 0, 0]),
            cdb: Bytes::copy_from_slice(cdb),
            attribute: TaskAttribute::Simple,
            direction: if data.is_empty() { Direction::In } else { Direction::Out },
            data_out: Data::from(data.to_vec()),
            data_in_limit: 1 << 20,
        };
        let response = match self.nexus.execute(command) {
            Execution::Done(response) => response,
            Execution::Task(mut task) => {
                let mut context = Context::from_waker(Waker::noop());
                let mut polls = (0..10_000).map(|_| task.as_mut().poll(&mut context));
                let end = polls.find(|poll| poll.is_ready());
                match end {
                    Some(std::task::Poll::Ready(Some(response))) => response,
                    _ => panic!("the command does not complete"),
                }
            }
        };
        assert_eq!(response.status == Status::CheckCondition, !response.sense.is_empty());
        (response.status == Status::Good, response.data_in.to_bytes())
    }
}
