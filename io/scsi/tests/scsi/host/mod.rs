//! Test support: a target over disks in memory, and hosts that send CDBs to it.

pub mod held;

use block::mem::{MemArray, MemDisk};
use block::{Disk, DiskId, Geometry};
use bytes::Bytes;
use export::Exports;
use scsi::{
    Clock, Command, Data, Direction, Execution, InitiatorPort, Lun, ManagementFunction, ManagementResponse,
    Nexus, Response, Sleep, Status, Target, TargetIdentity, TaskAttribute,
};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub const BLOCK: usize = 512;
pub const BLOCKS: u64 = 1 << 16;

/// A target over disks in memory, with a clock that is advanced by hand.
pub struct Array {
    pub exports: Arc<Exports>,
    pub target: Arc<Target>,
    pub store: MemArray,
    pub clock: Arc<ManualClock>,
}

/// A clock that is advanced by hand. It wakes no task: the tests poll.
#[derive(Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    pub fn advance(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn sleep_until(&self, _: u64) -> Sleep {
        Box::pin(std::future::pending())
    }
}

pub fn identity() -> TargetIdentity {
    TargetIdentity {
        name: "iqn.2025-01.org.example:array".into(),
        vendor: "ASHLAR".into(),
        product: "ALL-FLASH ARRAY".into(),
        revision: "0.1".into(),
        ports: 2.into(),
    }
}

impl Array {
    pub fn new() -> Array {
        let clock = Arc::new(ManualClock(AtomicU64::new(1 << 40)));
        let exports = Exports::new(clock.clone());
        let target = Target::new(identity(), exports.clone(), [7; 32]);
        Array { exports, target, store: MemArray::new(), clock }
    }

    /// Adds a disk of [`BLOCKS`] blocks as a unit.
    pub fn disk(&self, id: u128) -> MemDisk {
        let disk = self.store.create(DiskId(id), Geometry { block_bytes: BLOCK as u32, blocks: BLOCKS });
        self.exports.add_volume(Arc::new(disk.clone()));
        disk
    }

    /// Shows disks to an initiator: number and identity.
    pub fn map_luns(&self, name: &str, luns: &[(u16, u128)]) {
        let view: BTreeMap<u16, DiskId> = luns.iter().map(|(lun, id)| (*lun, DiskId(*id))).collect();
        self.exports.set_mappings(name, view);
    }

    /// Connects a host through a target port.
    pub fn connect(&self, name: &str, port: u16) -> Host {
        self.connect_port(InitiatorPort::iscsi(name, [0, 2, 0x3D, 0, 0, port as u8]), port)
    }

    /// Connects an initiator port through a target port.
    pub fn connect_port(&self, initiator: InitiatorPort, port: u16) -> Host {
        let name = initiator.host_name().into_owned();
        Host { name, nexus: self.target.attach(initiator, port), tag: Cell::new(1) }
    }

    /// One disk, shown as LUN 0 to host "a", whose first unit attention is over.
    pub fn with_host() -> (Array, MemDisk, Host) {
        let array = Array::new();
        let disk = array.disk(1);
        let host = array.host("a", 1);
        (array, disk, host)
    }

    /// One disk that can hold changes back, mapped as LUN 0 to every host that connects.
    pub fn with_held_disk() -> (Array, held::Held) {
        let array = Array::new();
        let geometry = Geometry { block_bytes: BLOCK as u32, blocks: BLOCKS };
        let disk = held::Held::new(array.store.create(DiskId(1), geometry));
        array.exports.add_volume(Arc::new(disk.clone()));
        (array, disk)
    }

    /// Sets how many bytes some disks may have mapped together.
    pub fn set_quota(&self, ids: &[u128], limit: Option<u64>) {
        let store = self.store.clone();
        let mapped = move |id: &DiskId| Some(store.disk(*id)?.space().mapped);
        let usage = Arc::new(move |members: &BTreeSet<DiskId>| members.iter().filter_map(&mapped).sum());
        (1..=3).for_each(|id| self.exports.set_group(DiskId(id), ids.contains(&id).then_some(7)));
        self.exports.set_group_quota(7, limit, usage);
    }

    /// A host that sees disk 1 as LUN 0 and has no unit attention left.
    pub fn host(&self, name: &str, port: u16) -> Host {
        self.map_luns(name, &[(0, 1)]);
        let host = self.connect(name, port);
        host.take_unit_attentions();
        host
    }
}

/// An initiator port with its session.
pub struct Host {
    name: String,
    pub nexus: Nexus,
    tag: Cell<u64>,
}

/// How a command ended.
#[derive(Debug)]
pub struct End {
    pub status: Status,
    pub sense: Bytes,
    pub data: Bytes,
    pub wanted: u64,
}

impl From<Response> for End {
    fn from(response: Response) -> End {
        End {
            status: response.status,
            sense: response.sense,
            data: response.data_in.to_bytes(),
            wanted: response.data_out_wanted,
        }
    }
}

impl End {
    /// The end of a command that nothing keeps from ending.
    pub fn of(execution: Execution) -> End {
        wait(execution).expect("a response").into()
    }

    /// The data of a command that must have ended with GOOD.
    #[track_caller]
    pub fn good(self) -> Bytes {
        assert_eq!(self.status, Status::Good, "sense {:?}", self.code());
        self.data
    }

    /// Sense key, additional sense code and qualifier.
    pub fn code(&self) -> Option<(u8, u8, u8)> {
        match *self.sense.first()? {
            0x70 => Some((self.sense[2], self.sense[12], self.sense[13])),
            0xF0 => Some((self.sense[2], self.sense[12], self.sense[13])),
            _ => Some((self.sense[1], self.sense[2], self.sense[3])),
        }
    }

    #[track_caller]
    pub fn fails(self, key: u8, asc: u8, ascq: u8) -> End {
        assert_eq!(self.status, Status::CheckCondition);
        assert_eq!(self.code(), Some((key, asc, ascq)));
        self
    }

    #[track_caller]
    pub fn conflicts(self) {
        assert_eq!(self.status, Status::ReservationConflict, "sense {:?}", self.code());
    }
}

impl Host {
    /// The same host at another target.
    pub fn on(&self, target: &Arc<Target>) -> Host {
        let initiator = InitiatorPort::iscsi(&self.name, [0, 2, 0x3D, 0, 0, 1]);
        Host { name: self.name.clone(), nexus: target.attach(initiator, 1), tag: Cell::new(1) }
    }

    /// Sends a command and waits for its end.
    pub fn send(&self, cdb: &[u8], data: &[u8]) -> End {
        End::of(self.start(0, cdb, data))
    }

    /// Sends a command without Data-Out.
    pub fn command(&self, cdb: &[u8]) -> End {
        self.send(cdb, &[])
    }

    /// Sends a command to a logical unit and waits for its end.
    pub fn command_lun(&self, lun: u16, cdb: &[u8]) -> End {
        End::of(self.start(lun, cdb, &[]))
    }

    /// Begins a command.
    pub fn start(&self, lun: u16, cdb: &[u8], data: &[u8]) -> Execution {
        self.start_with(TaskAttribute::Simple, lun, cdb, data)
    }

    pub fn start_with(&self, attribute: TaskAttribute, lun: u16, cdb: &[u8], data: &[u8]) -> Execution {
        let tag = self.tag.replace(self.tag.get() + 1);
        self.nexus.execute(Command {
            tag,
            lun: address(lun),
            cdb: padded(cdb),
            attribute,
            direction: if data.is_empty() { Direction::In } else { Direction::Out },
            data_out: Data::from(data.to_vec()),
            data_in_limit: u64::MAX,
        })
    }

    /// The tag of the command sent last.
    pub fn last_tag(&self) -> u64 {
        self.tag.get() - 1
    }

    /// Makes the next command carry the tag of the last one.
    pub fn reuse_last_tag(&self) {
        self.tag.set(self.tag.get() - 1);
    }

    pub fn manage(&self, function: ManagementFunction) -> ManagementResponse {
        self.nexus.manage(address(0), function)
    }

    /// Takes every unit attention condition of LUN 0.
    pub fn take_unit_attentions(&self) -> Vec<(u8, u8)> {
        let mut seen = Vec::new();
        while let Some((6, asc, ascq)) = self.command(&[0; 6]).code() {
            seen.push((asc, ascq));
        }
        seen
    }

    pub fn write(&self, lba: u64, data: &[u8]) -> End {
        self.send(&long(0x8A, 0, lba, (data.len() / BLOCK) as u32), data)
    }

    pub fn read(&self, lba: u64, blocks: u32) -> End {
        self.command(&long(0x88, 0, lba, blocks))
    }
}

/// The wire form of a logical unit number.
pub fn address(lun: u16) -> Lun {
    let [high, low] = lun.to_be_bytes();
    Lun([if lun < 256 { 0 } else { 0x40 | high }, low, 0, 0, 0, 0, 0, 0])
}

/// iSCSI carries CDBs in 16 bytes.
fn padded(cdb: &[u8]) -> Bytes {
    let mut out = cdb.to_vec();
    out.resize(cdb.len().max(16), 0);
    out.into()
}

/// A 16-byte CDB of a media command.
pub fn long(opcode: u8, flags: u8, lba: u64, blocks: u32) -> Vec<u8> {
    let mut cdb = vec![opcode, flags];
    cdb.extend_from_slice(&lba.to_be_bytes());
    cdb.extend_from_slice(&blocks.to_be_bytes());
    cdb.extend_from_slice(&[0, 0]);
    cdb
}

/// A 10-byte CDB of a media command.
pub fn ten(opcode: u8, flags: u8, lba: u32, blocks: u16) -> Vec<u8> {
    let mut cdb = vec![opcode, flags];
    cdb.extend_from_slice(&lba.to_be_bytes());
    cdb.push(0);
    cdb.extend_from_slice(&blocks.to_be_bytes());
    cdb.push(0);
    cdb
}

/// Drives an execution to its end. Everything here is answered from memory, so a task that stays pending after some
/// polls is stuck.
pub fn wait(execution: Execution) -> Option<Response> {
    match execution {
        Execution::Done(response) => Some(response),
        Execution::Task(task) => {
            let mut task = pin!(task);
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..1000 {
                if let Poll::Ready(end) = task.as_mut().poll(&mut context) {
                    return end;
                }
            }
            panic!("the task is stuck");
        }
    }
}

/// A task in progress, polled once.
pub struct Task(std::pin::Pin<Box<dyn Future<Output = Option<Response>> + Send>>);

impl Task {
    /// Begins a command that must not be over at once.
    #[track_caller]
    pub fn begin(execution: Execution) -> Task {
        let Execution::Task(task) = execution else { panic!("the command is over: {execution:?}") };
        let mut task = Task(task);
        assert!(task.poll().is_pending());
        task
    }

    pub fn poll(&mut self) -> Poll<Option<Response>> {
        self.0.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    /// The end of a task that must be over now.
    #[track_caller]
    pub fn end(mut self) -> Option<End> {
        match self.poll() {
            Poll::Ready(end) => end.map(End::from),
            Poll::Pending => panic!("the task is still running"),
        }
    }
}

/// A big-endian number of up to eight bytes.
pub fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Bytes that differ between blocks.
pub fn pattern(blocks: usize, seed: u8) -> Vec<u8> {
    (0..blocks * BLOCK).map(|at| (at / BLOCK) as u8 ^ (at % 251) as u8 ^ seed).collect()
}
