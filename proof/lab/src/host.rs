//! Model of a hypervisor host from the view of storage: virtual machines and the data mover as worlds with outstanding
//! commands, a scheduler for each disk, paths with queues and links, and the figures of `esxtop`.
//!
//! The model is pure: time is an argument, randomness a seed, and the array executes the commands of [`Host::advance`]
//! and reports results to [`Host::answered`]. It runs in virtual time with [`crate::ideal`], and in real time with a
//! real array.
//!
//! Stages of a command: a world issues it → it waits in its disk's queue (KAVG, QUED) until the disk has fewer
//! outstanding commands than its limit (ACTV) → a path is chosen → the link takes it, for half a round trip → the array
//! executes it → its data returns over the link → the adapter raises an interrupt, at once or after its coalescing time
//! (all of this is DAVG) → the world has the result (GAVG = KAVG + DAVG).

pub mod device;
pub mod figures;
pub mod path;
pub mod world;

use crate::seed::Seed;
use device::Device;
use figures::Figures;
use path::Path;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use world::{Next, World};

/// Nanoseconds since the start.
pub type Time = u64;
/// Identifier of a command between host and array.
pub type Tag = u64;

/// Path selection policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// One path; the others are for failover.
    Fixed,
    /// All paths in turn.
    RoundRobin,
}

/// Host settings and properties of the fabric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Path selection.
    pub policy: Policy,
    /// Commands before round robin switches to the next path.
    pub switch_every: u32,
    /// `Disk.SchedNumReqOutstanding`: outstanding commands of a disk when worlds compete.
    pub outstanding: u32,
    /// `Disk.SchedQuantum`: consecutive commands of one world, if they are close to each other.
    pub quantum: u32,
    /// `Disk.SectorMaxDiff`, in bytes: the distance that counts as close.
    pub proximity: u64,
    /// Outstanding commands of a disk, limited by the adapter.
    pub hba_depth: u32,
    /// Interrupt coalescing time of the adapter.
    pub coalescing: Time,
    /// Paths to every disk.
    pub paths: usize,
    /// Bytes per second of each path in each direction; 0 for no limit.
    pub link: u64,
    /// Time on the wire, there and back.
    pub round_trip: Time,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::Fixed,
            switch_every: 1000,
            outstanding: 32,
            quantum: 8,
            proximity: 2000 * 512,
            hba_depth: 64,
            coalescing: 0,
            paths: 2,
            link: 0,
            round_trip: 0,
        }
    }
}

/// Content of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Compresses to half, and is unique.
    Half,
    /// Incompressible and unique.
    Random,
    /// Zeros.
    Zero,
    /// A part of the golden image, starting at this byte.
    Image(u64),
    /// A part of a database table, starting at this byte.
    Table(u64),
    /// These bytes.
    Bytes(Vec<u8>),
}

impl Content {
    /// The part from this offset in bytes.
    pub fn from(&self, offset: u64) -> Self {
        match self {
            Content::Image(at) => Content::Image(at + offset),
            Content::Table(at) => Content::Table(at + offset),
            other => other.clone(),
        }
    }
}

/// Kind of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// READ
    Read,
    /// WRITE
    Write(Content),
    /// WRITE SAME of zeros
    Zero,
    /// EXTENDED COPY from a location on a disk
    Copy {
        /// The source disk.
        from: usize,
        /// Source offset in bytes.
        at: u64,
    },
    /// UNMAP
    Unmap,
    /// COMPARE AND WRITE of a sector: ATS
    Ats {
        /// Expected stamp of the sector, 0 for zeros.
        expect: u64,
        /// New stamp of the sector.
        replace: u64,
    },
    /// RESERVE
    Reserve,
    /// RELEASE
    Release,
}

impl Kind {
    /// True if the data pass through the host.
    pub fn moves_data(&self) -> bool {
        matches!(self, Kind::Read | Kind::Write(_))
    }
}

/// A command to a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Index of the disk.
    pub disk: usize,
    /// Kind of the command.
    pub kind: Kind,
    /// Offset in bytes.
    pub at: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl Command {
    fn link_bytes(&self) -> (u64, u64) {
        match &self.kind {
            Kind::Read => (0, self.bytes),
            Kind::Write(_) => (self.bytes, 0),
            _ => (512, 0),
        }
    }
}

/// Outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// GOOD, with the data read.
    Good(Vec<u8>),
    /// The comparison failed.
    Miscompare,
    /// Another initiator has reserved the disk.
    Conflict,
    /// BUSY, TASK SET FULL, or a unit attention: retry soon.
    Busy,
    /// DATA PROTECT, space allocation failed: the virtual machine is paused.
    NoSpace,
    /// The array does not support the command: the host performs the operation itself.
    Unsupported,
    /// ILLEGAL REQUEST, logical block address out of range.
    OutOfRange,
    /// Any other failure.
    Failed(String),
}

/// A command in transit to the array.
#[derive(Clone, Debug)]
pub struct Send {
    /// Identifier in the result.
    pub tag: Tag,
    /// Path of the command.
    pub path: usize,
    /// The command.
    pub command: Command,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A world may continue.
    Wake(usize),
    /// A command reaches the array.
    Arrive(Tag),
    /// An adapter raises an interrupt.
    Interrupt(usize),
    /// A temporarily refused command is reissued.
    Again(Tag),
}

struct Task {
    world: usize,
    command: Command,
    issued: Time,
    dispatched: Time,
    path: usize,
    outcome: Option<Outcome>,
}

struct Slot {
    world: Box<dyn World>,
    under_way: u32,
    wakes: Option<Time>,
    stunned: bool,
}

/// Mean wait of a host before it retries after BUSY or a reservation conflict.
const AGAIN: Time = 2_000_000;
/// Wait of a virtual machine that ran out of space before it retries.
const STUN_AGAIN: Time = 100_000_000;

/// A host.
pub struct Host {
    settings: Settings,
    random: Seed,
    worlds: Vec<Slot>,
    disks: Vec<Device>,
    paths: Vec<Path>,
    agenda: BinaryHeap<Reverse<(Time, u64, Event)>>,
    order: u64,
    tasks: BTreeMap<Tag, Task>,
    next_tag: Tag,
    figures: Figures,
    closed: bool,
}

impl Host {
    /// A host with this many disks and worlds that begin at time 0.
    pub fn new(settings: Settings, disks: usize, worlds: Vec<Box<dyn World>>, seed: u64) -> Self {
        let slot = |world| Slot { world, under_way: 0, wakes: None, stunned: false };
        let mut host = Self {
            settings,
            random: Seed::new(seed),
            worlds: worlds.into_iter().map(slot).collect(),
            disks: (0..disks).map(|_| Device::default()).collect(),
            paths: (0..settings.paths.max(1)).map(|_| Path::default()).collect(),
            agenda: BinaryHeap::new(),
            order: 0,
            tasks: BTreeMap::new(),
            next_tag: 1,
            figures: Figures::new(disks),
            closed: false,
        };
        (0..host.worlds.len()).for_each(|world| host.at(0, Event::Wake(world)));
        host
    }

    /// Current figures.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Time of the next event that does not depend on a result.
    pub fn next_event(&self) -> Option<Time> {
        self.agenda.peek().map(|Reverse((time, ..))| *time)
    }

    /// Commands whose results have not reached their worlds.
    pub fn under_way(&self) -> usize {
        self.tasks.len()
    }

    /// True if every world has finished.
    pub fn is_finished(&self) -> bool {
        self.worlds.iter().all(|slot| slot.world.is_finished() && slot.under_way == 0)
    }

    /// True if one of its worlds ends by itself.
    pub fn has_end(&self) -> bool {
        self.worlds.iter().any(|slot| slot.world.has_end())
    }

    /// True if every world that ends by itself has finished.
    pub fn is_over(&self) -> bool {
        self.worlds
            .iter()
            .all(|slot| !slot.world.has_end() || slot.world.is_finished() && slot.under_way == 0)
    }

    /// True if one of its worlds has failed.
    pub fn has_failed(&self) -> bool {
        self.worlds.iter().any(|slot| slot.world.has_failed())
    }

    /// True while a virtual machine is paused for lack of space.
    pub fn is_stunned(&self, world: usize) -> bool {
        self.worlds.get(world).is_some_and(|slot| slot.stunned)
    }

    /// Issues no further commands; outstanding ones complete.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Processes all events until `now`, and adds the commands that reach the array.
    pub fn advance(&mut self, now: Time, out: &mut Vec<Send>) {
        while let Some(Reverse((time, _, event))) = self.agenda.peek().copied()
            && time <= now
        {
            self.agenda.pop();
            self.happen(time, event, out);
        }
        self.figures.advance(now, &self.disks);
    }

    fn at(&mut self, time: Time, event: Event) {
        self.order += 1;
        self.agenda.push(Reverse((time, self.order, event)));
    }

    fn happen(&mut self, now: Time, event: Event, out: &mut Vec<Send>) {
        match event {
            Event::Wake(world) => {
                self.worlds[world].wakes = None;
                self.wake(world, now);
            }
            Event::Arrive(tag) => {
                if let Some(task) = self.tasks.get(&tag) {
                    out.push(Send { tag, path: task.path, command: task.command.clone() });
                }
            }
            Event::Interrupt(path) => {
                for tag in self.paths[path].interrupt(now) {
                    self.deliver(tag, now);
                }
            }
            Event::Again(tag) => {
                let Some(task) = self.tasks.get(&tag) else { return };
                let (disk, world, at) = (task.command.disk, task.world, task.command.at);
                self.disks[disk].queue(world, tag, at);
                self.dispatch(disk, now);
            }
        }
    }

    /// Takes all available commands of a world.
    fn wake(&mut self, world: usize, now: Time) {
        let mut touched = Vec::new();
        while !self.closed {
            let slot = &mut self.worlds[world];
            if slot.under_way >= slot.world.outstanding() {
                break;
            }
            match slot.world.next(now, &mut self.random) {
                Next::Command(command) => {
                    slot.under_way += 1;
                    let (tag, disk) = (self.next_tag, command.disk);
                    self.next_tag += 1;
                    self.disks[disk].queue(world, tag, command.at);
                    if !touched.contains(&disk) {
                        touched.push(disk);
                    }
                    let (path, outcome) = (0, None);
                    let task = Task { world, command, issued: now, dispatched: now, path, outcome };
                    self.tasks.insert(tag, task);
                }
                Next::At(time) => {
                    if slot.wakes.is_none_or(|known| time < known) {
                        slot.wakes = Some(time);
                        self.at(time.max(now + 1), Event::Wake(world));
                    }
                    break;
                }
                Next::Nothing => break,
            }
        }
        touched.into_iter().for_each(|disk| self.dispatch(disk, now));
    }

    /// Sends commands up to the disk's limit.
    fn dispatch(&mut self, disk: usize, now: Time) {
        self.figures.change(now, disk, &self.disks[disk]);
        while let Some(tag) = self.disks[disk].pick(&self.settings) {
            let path = self.disks[disk].path(&self.settings, disk);
            let Some(task) = self.tasks.get_mut(&tag) else { continue };
            (task.dispatched, task.path) = (now, path);
            let (bytes, _) = task.command.link_bytes();
            let arrives =
                self.paths[path].send(now, bytes, self.settings.link) + self.settings.round_trip / 2;
            self.at(arrives, Event::Arrive(tag));
        }
        self.figures.change(now, disk, &self.disks[disk]);
    }

    /// Processes the result of a command.
    pub fn answered(&mut self, now: Time, tag: Tag, outcome: Outcome) {
        let Some(task) = self.tasks.get_mut(&tag) else { return };
        task.outcome = Some(outcome);
        let (path, (_, bytes)) = (task.path, task.command.link_bytes());
        let back = self.settings.round_trip - self.settings.round_trip / 2;
        let arrives = self.paths[path].receive(now, bytes, self.settings.link) + back;
        if let Some(time) = self.paths[path].collect(tag, arrives, self.settings.coalescing) {
            self.at(time, Event::Interrupt(path));
        }
    }

    fn deliver(&mut self, tag: Tag, now: Time) {
        let Some(mut task) = self.tasks.remove(&tag) else { return };
        let disk = task.command.disk;
        self.disks[disk].finish(task.world);
        let outcome = task.outcome.take().unwrap_or(Outcome::Busy);
        let wait = match &outcome {
            Outcome::Conflict | Outcome::Busy => Some(AGAIN / 2 + self.random.range(0, AGAIN)),
            Outcome::NoSpace => Some(STUN_AGAIN),
            _ => None,
        };
        self.worlds[task.world].stunned = outcome == Outcome::NoSpace;
        let times = figures::Times { issued: task.issued, dispatched: task.dispatched, delivered: now };
        self.figures.ended(&task.command, &outcome, times);
        if let (Some(wait), false) = (wait, self.closed) {
            self.tasks.insert(tag, task);
            self.at(now + wait, Event::Again(tag));
        } else {
            let world = task.world;
            self.worlds[world].under_way -= 1;
            self.worlds[world].world.done(now, &task.command, outcome);
            self.wake(world, now);
        }
        self.dispatch(disk, now);
    }
}

#[cfg(test)]
#[path = "host_test.rs"]
mod tests;
