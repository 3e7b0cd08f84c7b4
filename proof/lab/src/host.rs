//! A hypervisor host as storage sees it: virtual machines and the data mover as worlds with outstanding commands, a
//! scheduler for each disk, paths with queues and links, and the figures that `esxtop` would show.
//!
//! The model is pure: time is an argument, chance a seed, and the array is what takes the commands of [`Host::advance`] and
//! reports them to [`Host::answered`]. Against [`crate::ideal`] it runs in virtual time, against a real array in real time.
//!
//! A command's life: a world issues it → it waits in its disk's queue (KAVG, QUED) until the disk has less than its
//! limit under way (ACTV) → a path is chosen → the link takes it, half a round trip goes by → the array has it → its
//! data comes back over the link → the adapter raises an interrupt, at once or when its coalescing time is over (all of
//! that DAVG) → the world has its answer (GAVG = KAVG + DAVG).

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

/// Nanoseconds since the beginning.
pub type Time = u64;
/// A command's name, between host and array.
pub type Tag = u64;

/// Which way commands go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// One path, the others for when it fails.
    Fixed,
    /// All paths in turn.
    RoundRobin,
}

/// What an administrator sets on the host, and what the fabric is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Path selection.
    pub policy: Policy,
    /// Commands until round robin takes the next path.
    pub switch_every: u32,
    /// `Disk.SchedNumReqOutstanding`: commands under way on a disk for which worlds compete.
    pub outstanding: u32,
    /// `Disk.SchedQuantum`: commands of one world in a row, when they are close to each other.
    pub quantum: u32,
    /// `Disk.SectorMaxDiff`, in bytes: what is close.
    pub proximity: u64,
    /// Commands under way on a disk that the adapter bears.
    pub hba_depth: u32,
    /// How long the adapter collects answers before it interrupts.
    pub coalescing: Time,
    /// Paths to every disk.
    pub paths: usize,
    /// Bytes a second of each path in each direction; 0 for no limit.
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

/// What a write carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Compresses to half, and is never the same twice.
    Half,
    /// Does not compress, and is never the same twice.
    Random,
    /// Zeros.
    Zero,
    /// A part of the golden image, from this byte on.
    Image(u64),
    /// A part of a database's table, from this byte on.
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

/// What a command does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// READ
    Read,
    /// WRITE
    Write(Content),
    /// WRITE SAME of zeros
    Zero,
    /// EXTENDED COPY from a place on a disk
    Copy {
        /// The disk that is read.
        from: usize,
        /// Where it is read, in bytes.
        at: u64,
    },
    /// UNMAP
    Unmap,
    /// COMPARE AND WRITE of a sector: ATS
    Ats {
        /// The stamp that the sector must have, 0 for zeros.
        expect: u64,
        /// The stamp that it gets.
        replace: u64,
    },
    /// RESERVE
    Reserve,
    /// RELEASE
    Release,
}

impl Kind {
    /// True when the data goes through the host.
    pub fn moves_data(&self) -> bool {
        matches!(self, Kind::Read | Kind::Write(_))
    }
}

/// A command to a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Index of the disk.
    pub disk: usize,
    /// What to do.
    pub kind: Kind,
    /// Where, in bytes.
    pub at: u64,
    /// With how many bytes.
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

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// GOOD, with what was read.
    Good(Vec<u8>),
    /// The comparison failed.
    Miscompare,
    /// Another initiator has reserved the disk.
    Conflict,
    /// BUSY, TASK SET FULL, or a unit attention: again at once.
    Busy,
    /// DATA PROTECT, space allocation failed: the virtual machine is paused.
    NoSpace,
    /// The array does not know the command: the host does it itself.
    Unsupported,
    /// ILLEGAL REQUEST, logical block address out of range.
    OutOfRange,
    /// Anything else.
    Failed(String),
}

/// A command on its way to the array.
#[derive(Clone, Debug)]
pub struct Send {
    /// Names it in the answer.
    pub tag: Tag,
    /// The path it takes.
    pub path: usize,
    /// The command.
    pub command: Command,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A world may go on.
    Wake(usize),
    /// A command reaches the array.
    Arrive(Tag),
    /// An adapter interrupts.
    Interrupt(usize),
    /// A command that was refused for now is issued again.
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

/// How long a host waits before it sends again what was answered BUSY or with a reservation conflict, on the average.
const AGAIN: Time = 2_000_000;
/// How long a virtual machine that ran out of space waits before it tries again.
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
    /// A host with this many disks, on which these worlds begin at time 0.
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

    /// The figures so far.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// When something happens next without an answer.
    pub fn next_event(&self) -> Option<Time> {
        self.agenda.peek().map(|Reverse((time, ..))| *time)
    }

    /// Commands that have not come back to their worlds.
    pub fn under_way(&self) -> usize {
        self.tasks.len()
    }

    /// True when every world has done what it had to do.
    pub fn is_finished(&self) -> bool {
        self.worlds.iter().all(|slot| slot.world.is_finished() && slot.under_way == 0)
    }

    /// True when one of its worlds comes to an end by itself.
    pub fn has_end(&self) -> bool {
        self.worlds.iter().any(|slot| slot.world.has_end())
    }

    /// True when every world that comes to an end has done so.
    pub fn is_over(&self) -> bool {
        self.worlds
            .iter()
            .all(|slot| !slot.world.has_end() || slot.world.is_finished() && slot.under_way == 0)
    }

    /// True when one of its worlds gave up.
    pub fn has_failed(&self) -> bool {
        self.worlds.iter().any(|slot| slot.world.has_failed())
    }

    /// True while a virtual machine is paused for want of space.
    pub fn is_stunned(&self, world: usize) -> bool {
        self.worlds.get(world).is_some_and(|slot| slot.stunned)
    }

    /// Nothing new is issued from here on; what is under way ends.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Lets everything happen that happens until `now`, and adds the commands that reach the array.
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

    /// Takes all that a world has to give.
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

    /// Sends what the disk's limit admits.
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

    /// The array has answered a command that was sent.
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
