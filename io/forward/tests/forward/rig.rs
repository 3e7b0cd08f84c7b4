//! Test support: a target over a disk that can hold writes back and counts them, a home, front ends, and the link between them.

use block::mem::{MemArray, MemDisk};
use block::{
    Disk, DiskId, Geometry, Known, Ledger, Note, Op, Pending, Piece, Recipe, Reply, Sequence, Space,
};
use bytes::Bytes;
use export::{Clock, Exports, Power, Sleep};
use forward::{Event, Front, Service};
use peer::{Channel, Received, message::Hello};
use scsi::{
    Command, Data, Direction, Lun, ManagementFunction, ManagementResponse, Response, Status, Target,
    TargetIdentity, TaskAttribute,
};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

pub const BLOCK: usize = 512;
pub const BLOCKS: u64 = 1 << 16;
pub const MS: u64 = 1_000_000;
/// Reading of both clocks when a test begins, which is time zero for the tests.
const START: u64 = 1_000_000 * MS;
pub const ARRAY: u128 = 7;
/// The power-on of the target.
pub const POWER_ON: u64 = 5;
const DISK: DiskId = DiskId(1);

/// The task management functions that reach a command with a tag.
pub const FUNCTIONS: [fn(u64) -> ManagementFunction; 5] = [
    |tag| ManagementFunction::AbortTask { tag },
    |_| ManagementFunction::AbortTaskSet,
    |_| ManagementFunction::ClearTaskSet,
    |_| ManagementFunction::LogicalUnitReset,
    |_| ManagementFunction::TargetReset,
];

/// A stopped clock: tests here use no limits.
struct Still;

impl Clock for Still {
    fn now(&self) -> u64 {
        1 << 40
    }

    fn sleep_until(&self, _: u64) -> Sleep {
        Box::pin(std::future::pending())
    }
}

/// A disk whose writes wait while it is held, and are counted by first block when they take effect.
#[derive(Clone)]
pub struct Slow {
    inner: MemDisk,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    held: bool,
    /// Writes before the disk is held.
    left: Option<u32>,
    wakers: Vec<Waker>,
    effects: BTreeMap<u64, u32>,
    /// Whether the disk locates reads.
    locates: bool,
    /// Located data, by the opening of the recipe.
    located: Vec<Data>,
}

impl Slow {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic before")
    }

    pub fn hold(&self) {
        self.state().held = true;
    }

    /// Holds all writes after this many.
    pub fn hold_after(&self, writes: u32) {
        self.state().left = Some(writes);
    }

    pub fn release(&self) {
        let wakers = {
            let mut state = self.state();
            (state.held, state.left) = (false, None);
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Locates reads: the store keeps the data that they would have returned.
    pub fn locate(&self) {
        self.state().locates = true;
    }

    /// The data of a recipe of this disk.
    pub fn located(&self, recipe: &Recipe) -> Data {
        self.state().located[recipe.opening as usize].clone()
    }

    /// Number of writes to this block that took effect.
    pub fn effects(&self, lba: u64) -> u32 {
        self.state().effects.get(&lba).copied().unwrap_or(0)
    }
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

    fn execute(&self, op: Op) -> Pending {
        self.perform(op, None)
    }

    fn execute_noted(&self, op: Op, note: Note) -> Pending {
        self.perform(op, Some(note))
    }
}

impl Slow {
    fn locate_read(&self, read: Pending) -> Pending {
        let disk = self.clone();
        Pending::later(async move {
            let Reply::Data(data) = read.await? else { panic!("a read returns data") };
            let mut state = disk.state();
            state.located.push(data.clone());
            let (opening, pieces) = (state.located.len() as u64 - 1, vec![Piece::Zeros(data.len() as u64)]);
            Ok(Reply::Located(Recipe { opening, pieces }))
        })
    }

    fn perform(&self, op: Op, note: Option<Note>) -> Pending {
        if let Op::Locate(extent) = op
            && self.state().locates
        {
            return self.locate_read(self.inner.execute(Op::Read(extent)));
        }
        let (Op::Write { lba, .. } | Op::CompareAndWrite { lba, .. }) = op else {
            return self.inner.execute_with(op, note);
        };
        let disk = self.clone();
        Pending::later(async move {
            poll_fn(|context| {
                let mut state = disk.state();
                if !state.held && state.left != Some(0) {
                    state.left = state.left.map(|left| left - 1);
                    return Poll::Ready(());
                }
                state.wakers.push(context.waker().clone());
                Poll::Pending
            })
            .await;
            let result = disk.inner.execute_with(op, note).await;
            if result.is_ok() {
                *disk.state().effects.entry(lba).or_default() += 1;
            }
            result
        })
    }
}

/// Behaviour of homes for commands that earlier homes performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notes {
    /// Homes note commands and look them up.
    Kept,
    /// Homes of a release that does neither.
    None,
    /// Homes note commands, and look none up: a defect that tests must find.
    Ignored,
}

/// A ledger that knows no command.
struct Blind(MemArray);

impl Ledger for Blind {
    fn look_up(&self, _: Sequence) -> Known {
        Known::New
    }

    fn settled(&self) -> Pending {
        self.0.settled()
    }

    fn fronts(&self) -> Vec<u64> {
        self.0.fronts()
    }

    fn forget(&self, front: u64) -> Pending {
        self.0.forget(front)
    }
}

/// The home: a process whose state is lost at its end, over a disk that survives.
pub struct Home {
    store: MemArray,
    pub disk: Slow,
    pub target: Arc<Target>,
    notes: Notes,
    power: Power,
    hosts: Vec<String>,
    pub id: u64,
}

impl Home {
    /// A home with a disk that every host sees as LUN 0.
    pub fn new(hosts: &[&str]) -> Self {
        let store = MemArray::new();
        let inner = store.create(DISK, Geometry { block_bytes: BLOCK as u32, blocks: BLOCKS });
        let disk = Slow { inner, state: Arc::default() };
        Self::over((store, disk), hosts, (Notes::Kept, Power::On(POWER_ON)), 100)
    }

    fn over(
        (store, disk): (MemArray, Slow),
        hosts: &[&str],
        (notes, power): (Notes, Power),
        id: u64,
    ) -> Self {
        let exports = Exports::new(Arc::new(Still));
        exports.set_power(power);
        let identity = TargetIdentity {
            name: "iqn.2025-01.org.example:array".into(),
            vendor: "ASHLAR".into(),
            product: "ALL-FLASH ARRAY".into(),
            revision: "0.1".into(),
            ports: 4.into(),
        };
        let target = Target::new(identity, exports.clone(), [7; 32]);
        exports.add_volume(Arc::new(disk.clone()));
        hosts.iter().for_each(|host| exports.set_mappings(host, BTreeMap::from([(0, DISK)])));
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        Self { store, disk, target, notes, power, hosts, id }
    }

    /// The same home, with other knowledge of commands. It has served no host yet.
    pub fn with(self, notes: Notes) -> Self {
        // An older release does not save volatile state either.
        let power = if notes == Notes::None { Power::EndsWithProcess } else { Power::On(POWER_ON) };
        let hosts: Vec<&str> = self.hosts.iter().map(String::as_str).collect();
        Self::over((self.store, self.disk), &hosts, (notes, power), self.id)
    }

    /// The process that takes over.
    pub fn successor(&self, hosts: &[&str]) -> Self {
        self.successor_with(hosts, self.power)
    }

    /// The successor, with its knowledge of the target's power.
    pub fn successor_with(&self, hosts: &[&str], power: Power) -> Self {
        Self::over((self.store.clone(), self.disk.clone()), hosts, (self.notes, power), self.id + 1)
    }

    /// The home's service for a front end.
    pub fn service(&self, front: u64) -> Service {
        let ledger: Option<Arc<dyn Ledger>> = match self.notes {
            Notes::Kept => Some(Arc::new(self.store.clone())),
            Notes::None => None,
            Notes::Ignored => Some(Arc::new(Blind(self.store.clone()))),
        };
        Service::new((self.target.clone(), ledger), 0, front, 1)
    }
}

/// A front end, its service at the home, and the link between them.
pub struct Side {
    pub front: Front,
    pub service: Service,
    instance: u64,
    up: bool,
    /// Bytes in transit.
    pub to_home: Vec<u8>,
    pub to_front: Vec<u8>,
    pub completed: BTreeMap<u64, Option<Response>>,
    pub managed: BTreeMap<u64, ManagementResponse>,
    /// Reads whose data the front end has to read.
    pub located: Vec<(u64, Recipe)>,
    /// Repeated reads: first number by later number.
    again: BTreeMap<u64, u64>,
    tag: u64,
}

pub fn hello(channel: &mut Channel) -> Hello {
    match channel.next_message() {
        Ok(Some(Received::Hello(hello))) => hello,
        other => panic!("no hello: {other:?}"),
    }
}

impl Side {
    pub fn new(home: &Home, instance: u64) -> Self {
        Self {
            front: Front::new(0, instance),
            service: home.service(instance),
            instance,
            up: false,
            to_home: Vec::new(),
            to_front: Vec::new(),
            completed: BTreeMap::new(),
            managed: BTreeMap::new(),
            located: Vec::new(),
            again: BTreeMap::new(),
            tag: 0,
        }
    }

    pub fn connect(&mut self, home: &Home, now: u64) {
        let mut one = Channel::new(1, ARRAY, self.instance);
        let mut other = Channel::new(2, ARRAY, home.id);
        one.take_output().iter().for_each(|bytes| other.receive(bytes.clone()));
        other.take_output().iter().for_each(|bytes| one.receive(bytes.clone()));
        let (of_home, of_front) = (hello(&mut one), hello(&mut other));
        self.front.connect(one, &of_home, START + now);
        self.service.connect(other, &of_front, START + now);
        self.up = true;
    }

    /// Breaks the connection: bytes in transit are lost.
    pub fn cut(&mut self, now: u64) {
        self.front.disconnect(START + now);
        self.service.disconnect(START + now);
        self.to_home.clear();
        self.to_front.clear();
        self.up = false;
    }

    /// The home's process ends, and another one takes over.
    pub fn move_to(&mut self, home: &Home, now: u64) {
        self.cut(now);
        // Another process: it counts from the beginning.
        self.service = home.service(self.instance);
    }

    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Advances the time at the front end.
    pub fn tick_front(&mut self, now: u64) -> Result<(), forward::Error> {
        self.front.tick(START + now)
    }

    /// Advances the time at the home.
    pub fn tick_home(&mut self, now: u64) -> Result<(), forward::Error> {
        self.service.tick(START + now)
    }

    /// Moves output into transit.
    pub fn write(&mut self) {
        self.front.take_output().iter().for_each(|bytes| self.to_home.extend_from_slice(bytes));
        self.service.take_output().iter().for_each(|bytes| self.to_front.extend_from_slice(bytes));
    }

    /// Delivers some bytes towards the home.
    pub fn deliver_to_home(&mut self, count: usize, now: u64) {
        let bytes: Vec<u8> = self.to_home.drain(..count.min(self.to_home.len())).collect();
        self.service.receive(bytes.into(), START + now).expect("well-formed requests");
    }

    pub fn deliver_to_front(&mut self, count: usize, now: u64) {
        let bytes: Vec<u8> = self.to_front.drain(..count.min(self.to_front.len())).collect();
        self.front.receive(bytes.into(), START + now).expect("well-formed answers");
    }

    /// Runs tasks, and takes events.
    pub fn run(&mut self) {
        while self.service.poll(&mut Context::from_waker(Waker::noop())).is_ready() {}
        for event in self.front.events() {
            match event {
                Event::Completed(number, response) => {
                    let number = self.again.get(&number).copied().unwrap_or(number);
                    assert!(self.completed.insert(number, response).is_none(), "{number} ended twice");
                }
                Event::Managed(number, response) => {
                    assert!(self.managed.insert(number, response).is_none(), "{number} ended twice");
                }
                Event::Configured(_) => {}
                Event::Located(number, recipe) => self.located.push((number, recipe)),
                Event::AskedAgain(number, again) => _ = self.again.insert(again, number),
            }
        }
    }

    /// Delivers the data of the first located read, or its failure.
    pub fn fetch(&mut self, disk: &Slow, is_there: bool) {
        let (number, recipe) = self.located.remove(0);
        let data = is_there.then(|| disk.located(&recipe));
        if let Some(response) = self.front.fetched(number, data) {
            assert!(self.completed.insert(number, Some(response)).is_none(), "{number} ended twice");
        }
    }

    /// Moves bytes until there are none.
    pub fn settle(&mut self, now: u64) {
        loop {
            self.run();
            self.write();
            if self.to_home.is_empty() && self.to_front.is_empty() {
                return;
            }
            self.deliver_to_home(usize::MAX, now);
            self.run();
            self.write();
            self.deliver_to_front(usize::MAX, now);
        }
    }

    pub fn start(&mut self, nexus: u32, cdb: &[u8], data: &[u8], now: u64) -> u64 {
        self.start_with(TaskAttribute::Simple, nexus, (cdb, data), now)
    }

    pub fn start_with(
        &mut self,
        attribute: TaskAttribute,
        nexus: u32,
        (cdb, data): (&[u8], &[u8]),
        now: u64,
    ) -> u64 {
        let mut padded = cdb.to_vec();
        padded.resize(cdb.len().max(16), 0);
        self.tag += 1;
        let command = Command {
            tag: self.tag,
            lun: Lun([0; 8]),
            cdb: padded.into(),
            attribute,
            direction: if data.is_empty() { Direction::In } else { Direction::Out },
            data_out: Data::from(data.to_vec()),
            data_in_limit: if data.is_empty() { 1 << 20 } else { 0 },
        };
        self.front.execute(nexus, command, START + now)
    }

    pub fn last_tag(&self) -> u64 {
        self.tag
    }

    pub fn manage(&mut self, nexus: u32, function: ManagementFunction, now: u64) -> u64 {
        self.front.manage(nexus, Lun([0; 8]), function, START + now)
    }

    /// Performs a whole command over a working link.
    pub fn ask(&mut self, nexus: u32, cdb: &[u8], data: &[u8], now: u64) -> Response {
        let number = self.start(nexus, cdb, data, now);
        self.settle(now);
        self.completed.get(&number).expect("it has ended").clone().expect("a response")
    }

    /// A nexus whose first unit attention was reported.
    pub fn host(&mut self, name: &str, port: u16, now: u64) -> u32 {
        let nexus = self.front.attach(port, [0, 2, 0x3D, 0, 0, port as u8], name);
        self.settle(now);
        while self.ask(nexus, &[0; 6], &[], now).status != Status::Good {}
        nexus
    }
}

/// True if the response says that the fate of the command is open: ABORTED COMMAND, COMMANDS CLEARED BY DEVICE SERVER.
pub fn is_cleared(response: &Response) -> bool {
    let sense = &response.sense;
    response.status == Status::CheckCondition && (sense[2], sense[12], sense[13]) == (0x0B, 0x2F, 0x02)
}

/// A 16-byte CDB of a media command.
pub fn long(opcode: u8, lba: u64, blocks: u32) -> Vec<u8> {
    let mut cdb = vec![opcode, 0];
    cdb.extend_from_slice(&lba.to_be_bytes());
    cdb.extend_from_slice(&blocks.to_be_bytes());
    cdb.extend_from_slice(&[0, 0]);
    cdb
}

pub fn write(lba: u64) -> Vec<u8> {
    long(0x8A, lba, 1)
}

/// COMPARE AND WRITE of one block.
pub fn swap(lba: u64) -> Vec<u8> {
    long(0x89, lba, 0x0100_0000u32.swap_bytes())
}

pub fn read(lba: u64) -> Vec<u8> {
    long(0x88, lba, 1)
}
