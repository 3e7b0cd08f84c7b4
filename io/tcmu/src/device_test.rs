use super::*;
use crate::model::{Completion, Kernel};
use crate::stopped_clock::Stopped;
use block::mem::MemArray;
use block::{Disk, DiskId, Geometry, Op, Space};
use export::{Exports, InitiatorPort};
use scsi::{PortGroups, Target, TargetIdentity};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Mutex;
use std::task::Waker;

const BLOCK: usize = 512;
const GOOD: u8 = 0;
const CHECK: u8 = 2;
const RESERVATION_CONFLICT: u8 = 0x18;
const TASK_SET_FULL: u8 = 0x28;
const TASK_ABORTED: u8 = 0x40;

/// Operations wait here while the gate is shut.
#[derive(Default)]
struct Gate(Mutex<(bool, Vec<Waker>)>);

impl Gate {
    fn set(&self, shut: bool) {
        let mut state = self.0.lock().unwrap();
        state.0 = shut;
        state.1.drain(..).for_each(Waker::wake);
    }
}

struct Slow {
    inner: Arc<dyn Disk>,
    gate: Arc<Gate>,
}

impl Disk for Slow {
    fn id(&self) -> DiskId {
        self.inner.id()
    }

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn space(&self) -> Space {
        self.inner.space()
    }

    fn state(&self) -> Bytes {
        self.inner.state()
    }

    fn execute(&self, op: Op) -> block::Pending {
        let (inner, gate) = (self.inner.clone(), self.gate.clone());
        block::Pending::later(async move {
            poll_fn(|cx| {
                let mut state = gate.0.lock().unwrap();
                if !state.0 {
                    return Poll::Ready(());
                }
                state.1.push(cx.waker().clone());
                Poll::Pending
            })
            .await;
            inner.execute(op).await
        })
    }
}

struct World {
    target: Arc<Target>,
    exports: Arc<Exports>,
    gate: Arc<Gate>,
    budget: Arc<Budget>,
}

/// A device and the kernel's side of it.
struct Path {
    kernel: Kernel,
    device: Device,
}

impl World {
    fn new() -> Self {
        let identity = TargetIdentity {
            name: "iqn.2026-01.test:target".into(),
            vendor: "ASHLAR".into(),
            product: "ALL-FLASH ARRAY".into(),
            revision: "0".into(),
            ports: PortGroups::from(2),
        };
        let exports = Exports::new(Arc::new(Stopped));
        let target = Target::new(identity, exports.clone(), [7; 32]);
        let (store, gate) = (MemArray::new(), Arc::new(Gate::default()));
        for id in [1, 2] {
            let inner = Arc::new(store.create(DiskId(id), Geometry { block_bytes: 512, blocks: 4096 }));
            exports.add_volume(Arc::new(Slow { inner, gate: gate.clone() }));
        }
        for host in ["00:00:00:00:00:00:00:a1", "00:00:00:00:00:00:00:a2"] {
            exports.set_mappings(host, BTreeMap::from([(0, DiskId(1)), (300, DiskId(2))]));
        }
        Self { target, exports, gate, budget: Arc::new(Budget::new(64 << 20)) }
    }

    fn nexus(&self, wwpn: u64) -> Arc<Nexus> {
        Arc::new(self.target.attach(InitiatorPort::FibreChannel { wwpn }, 1))
    }

    fn path_of(&self, nexus: &Arc<Nexus>, number: u16) -> Path {
        let kernel = Kernel::new(1 << 16, 2048);
        let ring = Ring::open(kernel.area()).unwrap();
        let memory = DeviceMemory::open(self.budget.clone(), "a").unwrap();
        Path { device: Device::new(ring, nexus.clone(), number, memory), kernel }
    }

    /// A device of LUN 0 that has reported its first unit attention.
    fn path(&self, wwpn: u64) -> Path {
        let mut path = self.path_of(&self.nexus(wwpn), 0);
        assert_eq!(path.send(&[0; 6], &[]).status, CHECK);
        path
    }
}

impl Path {
    fn poll(&mut self) -> Vec<(u16, Completion)> {
        let mut done = Vec::new();
        while self.device.poll(&mut Context::from_waker(Waker::noop())).unwrap() {
            done.extend(self.kernel.completed());
        }
        done
    }

    fn begin(&mut self, cdb: &[u8], data: &[u8]) -> u16 {
        self.kernel.command(cdb, data).unwrap()
    }

    fn send(&mut self, cdb: &[u8], data: &[u8]) -> Completion {
        let id = self.begin(cdb, data);
        let mut done = self.poll();
        assert_eq!(done.len(), 1, "{cdb:02x?}");
        let (of, completion) = done.remove(0);
        assert_eq!(of, id);
        completion
    }
}

fn rw(opcode: u8, block: u8, blocks: u16) -> [u8; 10] {
    let [high, low] = blocks.to_be_bytes();
    [opcode, 0, 0, 0, 0, block, 0, high, low, 0]
}
const READ: u8 = 0x28;
const WRITE: u8 = 0x2A;

#[test]
fn a_command_of_the_ring_is_one_of_the_nexus() {
    let world = World::new();
    let mut path = world.path_of(&world.nexus(0xA1), 0);
    let first = path.send(&[0; 6], &[]);
    assert_eq!((first.status, first.sense[2], first.sense[12]), (CHECK, 6, 0x29), "POWER ON");
    let inquiry = path.send(&[0x12, 0, 0, 0, 255, 0], &[0xEE; 255]);
    assert_eq!((inquiry.status, inquiry.length), (GOOD, Some(96)));
    assert_eq!(&inquiry.data[8..14], b"ASHLAR");
    assert_eq!(inquiry.data[96..], [0; 159], "nothing is there that is not the array's");
    let bytes: Vec<u8> = (0..BLOCK * 9).map(|n| (n / 7) as u8).collect();
    assert_eq!(path.send(&rw(WRITE, 5, 9), &bytes).status, GOOD);
    let read = path.send(&rw(READ, 5, 9), &vec![0; bytes.len()]);
    assert_eq!((read.status, read.length), (GOOD, Some(bytes.len() as u32)));
    assert!(read.data == bytes);
    let unknown = path.send(&[0xFF, 0, 0, 0, 0, 0], &[]);
    assert_eq!((unknown.status, unknown.sense[2], unknown.sense[12]), (CHECK, 5, 0x20));
    let cut = path.send(&rw(WRITE, 5, 9), &bytes[..BLOCK]);
    assert_eq!(cut.status, CHECK, "less data than the command has");
    assert!(path.kernel.is_idle() && path.device.is_idle());
}

#[test]
fn the_port_of_a_device_is_one_of_fibre_channel() {
    let mut path = World::new().path(0xA1);
    let page = path.send(&[0x12, 1, 0x83, 4, 0, 0], &[0; 1024]).data;
    let end = 4 + usize::from(page[3]);
    let (mut at, mut of_port) = (4, Vec::new());
    while at < end {
        if page[at + 1] & 0x30 == 0x10 {
            of_port.push((page[at] >> 4, page[at + 1] & 0x0F));
        }
        at += 4 + usize::from(page[at + 3]);
    }
    // Relative port and port group, by protocol 0; no iSCSI name.
    assert_eq!(of_port, [(0, 4), (0, 5)]);
}

#[test]
fn a_device_is_one_unit_of_its_nexus_and_copies_find_the_others() {
    let world = World::new();
    let nexus = world.nexus(0xA1);
    let (mut low, mut high) = (world.path_of(&nexus, 0), world.path_of(&nexus, 300));
    for path in [&mut low, &mut high] {
        assert_eq!(path.send(&[0; 6], &[]).status, CHECK);
    }
    let serial = |path: &mut Path| path.send(&[0x12, 1, 0x80, 0, 255, 0], &[0; 255]).data;
    assert_ne!(serial(&mut low), serial(&mut high));
    let absent = world.path_of(&nexus, 7).send(&[0; 6], &[]);
    assert_eq!((absent.sense[2], absent.sense[12]), (5, 0x25), "LOGICAL UNIT NOT SUPPORTED");
}

#[test]
fn reservations_hold_between_devices_because_each_is_a_nexus() {
    let world = World::new();
    let (mut one, mut other) = (world.path(0xA1), world.path(0xA2));
    let list = |key: u64, new: u64| [&key.to_be_bytes()[..], &new.to_be_bytes(), &[0; 8]].concat();
    let out = |action: u8, kind: u8| [0x5F, action, kind, 0, 0, 0, 0, 0, 24, 0];
    assert_eq!(one.send(&out(0, 0), &list(0, 0xABC)).status, GOOD);
    assert_eq!(one.send(&out(1, 3), &list(0xABC, 0)).status, GOOD);
    let write = vec![1; BLOCK];
    assert_eq!(one.send(&rw(WRITE, 0, 1), &write).status, GOOD);
    assert_eq!(other.send(&rw(WRITE, 0, 1), &write).status, RESERVATION_CONFLICT);
    let status = one.send(&[0x5E, 3, 0, 0, 0, 0, 0, 0, 255, 0], &[0; 255]);
    // The TransportID of Fibre Channel: format 0, the name from byte 8.
    assert_eq!((status.data[32], &status.data[40..48]), (0, &0xA1_u64.to_be_bytes()[..]));
}

#[test]
fn commands_complete_when_they_have_ended_and_not_in_order() {
    let world = World::new();
    let mut path = world.path(0xA1);
    world.gate.set(true);
    let write = path.begin(&rw(WRITE, 0, 1), &[7; BLOCK]);
    let inquiry = path.begin(&[0x12, 0, 0, 0, 96, 0], &[0; 96]);
    assert_eq!(path.poll().iter().map(|(id, _)| *id).collect::<Vec<_>>(), [inquiry]);
    assert!(!path.device.is_idle());
    world.gate.set(false);
    assert_eq!(path.poll().iter().map(|(id, it)| (*id, it.status)).collect::<Vec<_>>(), [(write, GOOD)]);
}

#[test]
fn aborted_commands_have_their_response_and_no_effect() {
    let world = World::new();
    let mut path = world.path(0xA1);
    world.gate.set(true);
    let ids = [0, 1, 2].map(|block| path.begin(&rw(WRITE, block, 1), &[7; BLOCK]));
    assert!(path.poll().is_empty());
    assert!(path.kernel.manage(1, &[ids[1]]));
    let done = path.poll();
    assert_eq!(done.iter().map(|(id, it)| (*id, it.status)).collect::<Vec<_>>(), [(ids[1], TASK_ABORTED)]);
    // LOGICAL UNIT RESET aborts the other commands, and is reported to other initiators.
    let mut other = world.path(0xA2);
    assert!(path.kernel.manage(5, &[ids[0], ids[2]]));
    let done: BTreeMap<_, _> = path.poll().into_iter().map(|(id, it)| (id, it.status)).collect();
    assert_eq!(done, [(ids[0], TASK_ABORTED), (ids[2], TASK_ABORTED)].into());
    world.gate.set(false);
    for path in [&mut path, &mut other] {
        let attention = path.send(&[0; 6], &[]);
        assert_eq!((attention.sense[2], attention.sense[12]), (6, 0x29), "BUS DEVICE RESET");
    }
    assert_eq!(path.send(&rw(READ, 0, 3), &[1; 3 * BLOCK]).data, [0; 3 * BLOCK]);
    assert!(path.kernel.is_idle());
}

#[test]
fn commands_wait_in_the_ring_for_memory() {
    let world = World::new();
    let mut path = world.path(0xA1);
    world.gate.set(true);
    let data = vec![7; 2048 * BLOCK];
    let ids: Vec<_> = std::iter::from_fn(|| path.kernel.command(&rw(WRITE, 0, 2048), &data)).collect();
    assert_eq!(ids.len(), 8, "then its data area is full");
    assert!(path.poll().is_empty());
    assert!(world.budget.used() > 8 << 20);
    let mut rest = world.path_of(&world.nexus(0xA2), 0);
    let small = World { budget: Arc::new(Budget::new(1 << 20)), ..world };
    let mut full = small.path_of(&small.nexus(0xA3), 0);
    small.exports.set_mappings("00:00:00:00:00:00:00:a3", BTreeMap::from([(0, DiskId(1))]));
    let full_id = full.begin(&rw(WRITE, 0, 2048), &vec![7; 2048 * BLOCK]);
    let done = full.poll();
    assert_eq!((done[0].0, done[0].1.status), (full_id, TASK_SET_FULL), "it can never begin");
    small.gate.set(false);
    assert_eq!(rest.send(&[0; 6], &[]).status, CHECK);
    let done: Vec<_> = path.poll().into_iter().map(|(id, it)| (id, it.status)).collect();
    assert_eq!(done.len(), ids.len());
    assert!(done.iter().all(|(id, status)| ids.contains(id) && *status == GOOD));
}

#[test]
fn a_command_that_waits_for_memory_begins_when_others_have_ended() {
    let world = World { budget: Arc::new(Budget::new(4 << 20)), ..World::new() };
    let mut path = world.path(0xA1);
    world.gate.set(true);
    let ids: Vec<_> = (0..5).map(|_| path.begin(&rw(WRITE, 0, 2048), &vec![7; 2048 * BLOCK])).collect();
    assert!(path.poll().is_empty());
    assert!(world.budget.used() <= 3 << 20, "{}", world.budget.used());
    world.gate.set(false);
    assert_eq!(path.poll().iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
    assert!(path.device.is_idle());
}

#[test]
fn a_device_that_stops_takes_nothing_more_and_ends_what_it_has() {
    let world = World::new();
    let mut path = world.path(0xA1);
    world.gate.set(true);
    path.begin(&rw(WRITE, 0, 1), &[7; BLOCK]);
    assert!(path.poll().is_empty());
    path.device.stop();
    path.begin(&rw(READ, 0, 1), &[0; BLOCK]);
    world.gate.set(false);
    assert_eq!(path.poll().len(), 1);
    assert!(path.device.is_idle());
    assert_eq!(path.kernel.outstanding(), 1);
}

#[test]
fn a_second_command_of_one_identifier_is_an_error() {
    let world = World::new();
    let mut path = world.path(0xA1);
    world.gate.set(true);
    let first = path.begin(&rw(WRITE, 0, 1), &[7; BLOCK]);
    path.begin(&rw(WRITE, 1, 1), &[7; BLOCK]);
    let area = path.kernel.area();
    // The first entry has this length; its identifier is written into the second.
    let length = u64::from(area.load(64).unwrap());
    let begin = 128 + length;
    let bytes = u64::from(area.load(begin).unwrap() & !7);
    area.write(begin + bytes + 4, &first.to_le_bytes()).unwrap();
    let error = path.device.poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(error, Err(DeviceError::Duplicate(first)));
}
