//! World `replication`: a group of volumes on one array, replicated to another one.
//!
//! Both arrays are real engines on drives of their own that crash independently, at any drive request. A host changes
//! the source, one operation after the other. The connection delivers bytes late, in any portions. It is cut at any
//! moment, with the loss of data in transit, and reopened, even while the target still serves an older one.
//!
//! Checked: every published point equals the source after a prefix of the operations, which ends between the beginning
//! and the end of the point's creation. This holds for the whole group, with size and provisioning, and across crashes.
//! Both arrays agree on its digest. A transfer resumes after the last offer that the target had confirmed, so only
//! outstanding offers are sent again. When all faults are over, the newest point is published. Some seeds reverse the
//! replication ([`mod@reversal`]), and in some users take snapshots that become points ([`mod@snapshots`]).

mod link;
mod reversal;
mod side;
mod snapshots;
pub mod synchronous;

use crate::Report;
use crate::array::one_step;
use crate::bounds::Bounds;
use crate::machine::Outcome;
use ::replication::{Error, Key, Limits, Message, Point, Reason, Source, Synced, Target};
use block::mem::MemArray;
use block::workload::{Mix, Random, Workload};
use block::{Data, Disk, DiskId, Extent, Geometry, Op, Region, Reply};
use bytes::Bytes;
use engine::Engine;
use link::Link;
use side::{Side, SideEnv};
use snapshots::Snapshots;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The replication.
const REPLICATION: u128 = 0x5eed;

/// The array of each side.
const ARRAYS: [u128; 2] = [1, 2];

/// A world with more turns counts as an endless loop.
const MAX_TURNS: u64 = 4_000_000;

/// Maximum number of points on the target before one is deleted.
const MAX_POINTS: usize = 3;

type Check = Result<(), String>;

/// An operation of the host.
#[derive(Clone, Debug)]
enum HostOp {
    Op(DiskId, Op),
    Resize(DiskId, u64),
}

/// A point of the model.
struct Known {
    /// The possible contents.
    candidates: Vec<MemArray>,
    volumes: Vec<DiskId>,
    /// Names of its source snapshots.
    names: Vec<String>,
    /// Whether it is being taken, or an operation that began before is still in progress.
    open: bool,
    taken: bool,
}

/// Invariants of a transfer across its connections.
#[derive(Default)]
struct Progress {
    point: u64,
    base: u64,
    /// The first unconfirmed offer.
    next: u64,
    /// The next offer on this connection.
    expected: Option<u64>,
    /// Position at which the target resumes a transfer.
    stated: Option<(u64, u64, u64)>,
}

struct World {
    random: Random,
    workload: Workload,
    source: Side,
    target: Side,
    limits: Limits,
    mix_full: u64,
    model: MemArray,
    group: Vec<DiskId>,
    host: Option<(HostOp, Outcome<Result<(), block::Error>>)>,
    taking: Option<Outcome<Result<Point, Error>>>,
    points: BTreeMap<u64, Known>,
    snapshots: Snapshots,
    sender: Option<Arc<Source<SideEnv>>>,
    receiver: Option<Arc<Target<SideEnv>>>,
    syncing: Option<Outcome<Result<Synced, Error>>>,
    serving: Vec<Outcome<Result<Option<u64>, Error>>>,
    deleting: Option<Outcome<Result<(), Error>>>,
    link: Option<Link>,
    /// Replaced connections, which the target may still consider alive.
    replaced: Vec<Link>,
    progress: Progress,
    published: BTreeSet<u64>,
    rounds: u64,
    /// Remaining reversals.
    reversals: u64,
    /// Current number of the replication.
    number: u128,
    /// Whether the host is idle.
    demoted: bool,
    /// Whether no operation may begin.
    stopping: bool,
    healed: bool,
    report: Report,
    trace: DefaultHasher,
}

/// Runs a seed.
pub fn run(seed: u64, bounds: Bounds) -> Result<Report, String> {
    let mut world = World::new(seed, bounds);
    world.boot_source()?;
    world.create_volumes()?;
    world.boot_target()?;
    world.publish_rounds()?;
    for _ in 0..world.reversals {
        world.reverse()?;
        world.publish_rounds()?;
    }
    world.end()?;
    world.report.crashes = world.source.crashes + world.target.crashes;
    world.report.requests = world.source.machine.completed() + world.target.machine.completed();
    world.source.machine.drives.trace().hash(&mut world.trace);
    world.target.machine.drives.trace().hash(&mut world.trace);
    world.report.trace = world.trace.finish();
    Ok(world.report)
}

/// The result of a model future, which is ready at once.
fn immediate<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the model holds nothing back"),
    }
}

/// Applies an operation of the host to the model.
fn model(array: &MemArray, op: &HostOp) -> Result<(), block::Error> {
    match op {
        HostOp::Op(id, op) => {
            let disk = array.disk(*id).expect("the model has all volumes");
            immediate(disk.execute(op.clone())).map(drop)
        }
        HostOp::Resize(id, blocks) => {
            array.disk(*id).expect("the model has all volumes").resize(*blocks);
            Ok(())
        }
    }
}

/// The content of a disk, with its provisioning.
#[derive(PartialEq)]
struct Content {
    geometry: Geometry,
    data: Vec<Bytes>,
    regions: Vec<Region>,
}

async fn content(disk: Arc<dyn Disk>) -> Result<Content, block::Error> {
    let geometry = disk.geometry();
    let (mut data, mut regions) = (Vec::new(), Vec::new());
    for lba in (0..geometry.blocks).step_by(256) {
        let extent = Extent::new(lba, 256.min(geometry.blocks - lba));
        if let Reply::Data(found) = disk.execute(Op::Read(extent)).await? {
            data.push(found.to_bytes());
        }
        if let Reply::Status(found) = disk.execute(Op::Status(extent)).await? {
            regions.extend(found);
        }
    }
    Ok(Content { geometry, data, regions })
}

/// The first difference between a disk and the model.
fn difference(found: &Content, model: &MemArray, id: DiskId) -> Option<String> {
    let disk = model.disk(id).expect("the model has all volumes");
    let wanted = immediate(content(Arc::new(disk))).expect("the model reads");
    if found.geometry != wanted.geometry {
        return Some(format!("its size is {:?} instead of {:?}", found.geometry, wanted.geometry));
    }
    let differs = found.data.iter().zip(&wanted.data).position(|(one, other)| one != other);
    if let Some(at) = differs {
        let (one, other) = (Data::from(found.data[at].clone()), Data::from(wanted.data[at].clone()));
        let byte = one.first_difference(&other).unwrap_or_default() as u64;
        return Some(format!(
            "it differs at block {}",
            at as u64 * 256 + byte / u64::from(found.geometry.block_bytes)
        ));
    }
    if found.geometry.block_bytes != 4096 {
        // The engine maps 4 KiB, the model maps logical blocks.
        return None;
    }
    let at = found.regions.iter().zip(&wanted.regions).find(|(one, other)| one != other);
    at.map(|(one, other)| format!("it has {one:?} instead of {other:?}"))
}

impl World {
    fn new(seed: u64, bounds: Bounds) -> Self {
        let mut random = Random::new(seed ^ 0x7265_706c);
        let mut pick = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        let limits = Limits {
            offer_blocks: pick(&[1, 3, 16, 64]) as usize,
            offers: pick(&[1, 2, 8]) as usize,
            index_entries: pick(&[0, 64, 4096]) as usize,
            // Drawn separately, like the reversals below.
            known_blocks: [0, 8, 4096][Random::new(seed ^ 0x6b6e_6f77).below(3) as usize],
        };
        let mix = Mix {
            read: 0,
            status: 0,
            save_state: 0,
            flush: 0,
            max_blocks: pick(&[16, 64, 200]),
            ..Mix::default()
        };
        let (rounds, mix_full) = (pick(&[2, 4, 6]), pick(&[1, 5, 20]));
        // Drawn separately: the behaviour of older seeds before the first reversal is unchanged.
        let reversals = [0, 0, 1, 2][Random::new(seed ^ 0x7265_7673).below(4) as usize];
        Self {
            source: Side::new(seed ^ 0x5000, bounds, 1 << 64),
            target: Side::new(seed ^ 0x7000, bounds, 2 << 64),
            random,
            workload: Workload::new(seed, mix),
            limits,
            mix_full,
            model: MemArray::new(),
            group: Vec::new(),
            host: None,
            taking: None,
            points: BTreeMap::new(),
            snapshots: Snapshots::new(seed),
            sender: None,
            receiver: None,
            syncing: None,
            serving: Vec::new(),
            deleting: None,
            link: None,
            replaced: Vec::new(),
            progress: Progress::default(),
            published: BTreeSet::new(),
            rounds,
            reversals,
            number: REPLICATION,
            demoted: false,
            stopping: false,
            healed: false,
            report: Report::default(),
            trace: DefaultHasher::new(),
        }
    }

    fn heal(&mut self) {
        self.healed = true;
        self.source.heal();
        self.target.heal();
    }

    fn publish_rounds(&mut self) -> Check {
        let mut turns = 0;
        while (self.published.len() as u64) < self.rounds {
            turns += 1;
            if turns == MAX_TURNS / 2 {
                self.heal();
            }
            if turns > MAX_TURNS {
                return Err(format!("{} points are published of {}", self.published.len(), self.rounds));
            }
            self.turn()?;
        }
        Ok(())
    }

    fn boot_source(&mut self) -> Check {
        self.source.boot()?;
        self.make_sender()
    }

    fn make_sender(&mut self) -> Check {
        let engine = self.source.engine.clone().ok_or("the source is up")?;
        let (env, key) = (self.source.env.clone(), Key::new(b"pairing"));
        self.sender = Some(Arc::new(Source::new(engine, env, key, ARRAYS[0], self.limits)));
        Ok(())
    }

    fn boot_target(&mut self) -> Check {
        self.target.boot()?;
        self.make_receiver()
    }

    fn make_receiver(&mut self) -> Check {
        let engine = self.target.engine.clone().ok_or("the target is up")?;
        let (env, key) = (self.target.env.clone(), Key::new(b"pairing"));
        let receiver = Arc::new(Target::new(engine, env, key, ARRAYS[1], self.limits));
        self.receiver = Some(receiver.clone());
        let number = self.number;
        let accepted = self.target.machine.finish(async move { receiver.accept(number, 0).await })?;
        match accepted {
            Some(accepted) => accepted.map_err(|cause| format!("accepting: {cause}"))?,
            None => return self.crash_target(),
        }
        self.compare_points()
    }

    /// Creates the volumes on an array that does not crash before they are complete.
    fn create_volumes(&mut self) -> Check {
        let count = 1 + self.random.below(3);
        for number in 0..count {
            let id = DiskId(u128::from(number + 1));
            let block_bytes = if self.random.chance(70) { 4096 } else { 512 };
            let blocks = (64 + self.random.below(1500)) * 4096 / u64::from(block_bytes);
            let odd = if self.random.chance(30) { self.random.below(7) } else { 0 };
            let geometry = Geometry { block_bytes, blocks: blocks + odd };
            self.model.create(id, geometry);
            self.group.push(id);
            loop {
                let engine = self.source.engine.clone().ok_or("the source is up")?;
                if engine.disk(id).is_some() {
                    break;
                }
                let create = async move { engine.create_volume(id, geometry, 0).await.map(drop) };
                match self.source.machine.finish(create)? {
                    Some(created) => created.map_err(|cause| format!("creating a volume: {cause}"))?,
                    None => {
                        self.source.crash();
                        self.boot_source()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Performs one step.
    fn turn(&mut self) -> Check {
        if self.source.machine.must_crash() {
            self.crash_source()?;
        }
        if self.target.machine.must_crash() {
            self.crash_target()?;
        }
        self.take_outcomes()?;
        self.begin()?;
        let cut = !self.healed && self.random.below(3000) == 0;
        self.link.iter().filter(|_| cut).for_each(Link::cut);
        // Each end detects sooner or later that the other one has ended.
        if !self.replaced.is_empty() && self.random.below(200) == 0 {
            self.replaced.drain(..).for_each(|link| link.cut());
        }
        let first = self.random.below(3);
        for way in (0..3).map(|way| (first + way) % 3) {
            let did = match way {
                0 => self.source.machine.step()?,
                1 => self.target.machine.step()?,
                _ => self.link.as_ref().is_some_and(|link| link.deliver(&mut self.random)),
            };
            self.check_messages()?;
            if did {
                return Ok(());
            }
        }
        // Nothing else is possible: advance the time, or begin an operation.
        self.source.machine.pass(std::time::Duration::from_secs(1));
        self.target.machine.pass(std::time::Duration::from_secs(1));
        Ok(())
    }

    /// Begins operations that are not in progress.
    fn begin(&mut self) -> Check {
        if self.stopping {
            return Ok(());
        }
        if !self.demoted && self.host.is_none() && self.random.below(20) < self.mix_full {
            self.begin_host_op()?;
        }
        let sender = self.sender.clone().ok_or("the source is up")?;
        let unfinished = self.points.keys().last().is_some_and(|last| !self.published.contains(last));
        if !self.demoted
            && self.taking.is_none()
            && !self.snapshots.is_taking()
            && self.random.below(if unfinished { 20_000 } else { 400 }) == 0
        {
            self.begin_point(sender.clone());
        }
        self.begin_snapshots(&sender)?;
        if self.syncing.is_none() && self.random.below(50) == 0 {
            let receiver = self.receiver.clone().ok_or("the target is up")?;
            let capacity = [2048, 64 << 10, 8 << 20][self.random.below(3) as usize];
            let (link, one, other) = Link::new(capacity, self.snapshots.version());
            self.check_messages()?;
            self.replaced.extend(self.link.replace(link));
            (self.progress.expected, self.progress.stated) = (None, None);
            let number = self.number;
            let sync = async move { sender.sync(number, one).await };
            self.syncing = Some(self.source.machine.start(sync).1);
            self.serving
                .push(self.target.machine.start(async move { receiver.serve(number, other).await }).1);
        }
        self.begin_deletion()
    }

    fn begin_host_op(&mut self) -> Check {
        let engine = self.source.engine.clone().ok_or("the source is up")?;
        let disks: Vec<_> = self.model.disks().iter().map(|disk| (disk.id(), disk.geometry())).collect();
        let op = if self.random.below(100) == 0 {
            let (id, geometry) = disks[self.random.below(disks.len() as u64) as usize];
            HostOp::Resize(id, 8 + self.random.below(geometry.blocks + 200))
        } else {
            let model = &self.model;
            let (id, op) = self.workload.next(&disks, |id, extent| model.peek(id, extent));
            HostOp::Op(id, one_step(op, &disks))
        };
        let perform = op.clone();
        let future = async move {
            match perform {
                HostOp::Op(id, op) => {
                    let volume = engine.volume(id).ok_or(block::Error::Deleted)?;
                    volume.execute(op).await.map(drop)
                }
                HostOp::Resize(id, blocks) => engine.resize_volume(id, blocks).await,
            }
        };
        self.host = Some((op, self.source.machine.start(future).1));
        Ok(())
    }

    fn begin_point(&mut self, sender: Arc<Source<SideEnv>>) {
        // Usually all volumes; omitted ones return later.
        let mut volumes = self.group.clone();
        if !self.demoted && self.random.chance(20) {
            let left_out = self.random.below(volumes.len() as u64) as usize;
            if volumes.len() > 1 {
                volumes.remove(left_out);
            }
        }
        self.snapshots.give_up();
        let number = self.next_point();
        let known = Known {
            candidates: vec![self.model.fork()],
            volumes: volumes.clone(),
            names: Vec::new(),
            open: true,
            taken: false,
        };
        self.points.insert(number, known);
        let replication = self.number;
        let take = async move { sender.take_point(replication, &volumes).await };
        self.taking = Some(self.source.machine.start(take).1);
    }

    /// Number of the next point.
    fn next_point(&self) -> u64 {
        self.points.keys().last().map_or(1, |last| last + 1)
    }

    fn begin_deletion(&mut self) -> Check {
        let receiver = self.receiver.clone().ok_or("the target is up")?;
        if self.deleting.is_some() || self.random.below(500) != 0 {
            return Ok(());
        }
        let points = receiver.points(self.number).map_err(|error| error.to_string())?;
        if points.len() > MAX_POINTS {
            let number = points[self.random.below(2) as usize].number;
            let replication = self.number;
            let delete = async move { receiver.delete_point(replication, number).await };
            self.deleting = Some(self.target.machine.start(delete).1);
        }
        Ok(())
    }

    fn take_outcomes(&mut self) -> Check {
        if let Some((op, result)) = self.host.take_if_done() {
            self.end_host_op(&op, Some(result))?;
        }
        if let Some(result) = self.taking.as_ref().and_then(Outcome::take) {
            self.taking = None;
            let point = result.map_err(|cause| format!("taking a point: {cause}"))?;
            let known = self.points.get_mut(&point.number).ok_or("a point with another number")?;
            (known.taken, known.open) = (true, known.open && self.host.is_some());
            self.snapshots.note_taken(|_| true);
        }
        self.take_outcomes_of_snapshots()?;
        if let Some(result) = self.syncing.as_ref().and_then(Outcome::take) {
            self.syncing = None;
            self.end_sync(result)?;
        }
        let mut published = false;
        let mut wrong = None;
        self.serving.retain(|serving| match serving.take() {
            None => true,
            Some(Ok(number)) => {
                published |= number.is_some();
                false
            }
            Some(Err(error)) => {
                wrong = wrong.take().or(unexpected(&error));
                false
            }
        });
        if let Some(wrong) = wrong {
            return Err(format!("serving: {wrong}"));
        }
        if let Some(result) = self.deleting.as_ref().and_then(Outcome::take) {
            self.deleting = None;
            match result {
                Ok(()) | Err(Error::Busy | Error::Newest(_)) => {}
                Err(error) => return Err(format!("deleting a point: {error}")),
            }
        }
        if published { self.compare_points() } else { Ok(()) }
    }

    /// Handles the end of an operation, possibly by a crash; `None` if its effect is unknown.
    fn end_host_op(&mut self, op: &HostOp, result: Option<Result<(), block::Error>>) -> Check {
        if let Some(result) = result {
            self.report.operations += 1;
            let wanted = model(&self.model, op);
            if result.is_ok() != wanted.is_ok() {
                return Err(format!("{op:?} is {result:?} instead of {wanted:?}"));
            }
        }
        let all = self.points.values_mut().chain(self.snapshots.known());
        for known in all.filter(|known| known.open) {
            known.candidates.push(self.model.fork());
            known.open = !known.taken;
        }
        Ok(())
    }

    fn end_sync(&mut self, result: Result<Synced, Error>) -> Check {
        match result {
            Ok(synced) => {
                let sender = self.sender.clone().ok_or("the source is up")?;
                let points = sender.points(self.number).map_err(|error| error.to_string())?;
                let point = points.iter().find(|point| point.number == synced.point);
                let point = point.ok_or("the source has not the point that it transferred")?;
                let receiver = self.receiver.clone().ok_or("the target is up")?;
                let theirs = receiver.points(self.number).map_err(|error| error.to_string())?;
                let same = theirs.iter().find(|theirs| theirs.number == point.number);
                if !same.is_some_and(|same| same.digest.is_some() && same.digest == point.digest) {
                    return Err(format!("point {} has another digest on the target", point.number));
                }
                // The target may not know that the source was informed, and no message may follow.
                if self.published.contains(&synced.point) { Ok(()) } else { self.compare_points() }
            }
            Err(Error::NoPoint) => Ok(()),
            Err(error) => match unexpected(&error) {
                Some(what) => Err(format!("syncing: {what}")),
                None => Ok(()),
            },
        }
    }

    fn crash_source(&mut self) -> Check {
        self.source.crash();
        (self.syncing, self.taking) = (None, None);
        self.snapshots.crash();
        let interrupted = self.host.take().map(|(op, _)| op);
        self.boot_source()?;
        if let Some(op) = interrupted {
            self.find_effect(&op)?;
            self.end_host_op(&op, None)?;
        }
        let sender = self.sender.clone().ok_or("the source is up")?;
        let there = sender.points(self.number).map_err(|error| error.to_string())?;
        let there: BTreeSet<u64> = there.iter().map(|point| point.number).collect();
        self.points.retain(|number, known| known.taken || there.contains(number));
        self.points.values_mut().for_each(|known| (known.taken, known.open) = (true, false));
        self.snapshots.note_taken(|number| there.contains(&number));
        Ok(())
    }

    /// Determines whether an operation that a crash ended took effect, and applies it to the model.
    fn find_effect(&mut self, op: &HostOp) -> Check {
        let (before, after) = (self.model.fork(), self.model.fork());
        _ = model(&after, op);
        for id in self.group.clone() {
            let found = loop {
                let engine = self.source.engine.clone().ok_or("the source is up")?;
                match self.source.machine.finish(read(engine, id))? {
                    Some(found) => {
                        break found.map_err(|cause| format!("reading volume {}: {cause}", id.0))?;
                    }
                    None => {
                        self.source.crash();
                        self.boot_source()?;
                    }
                }
            };
            if difference(&found, &before, id).is_some() {
                if let Some(what) = difference(&found, &after, id) {
                    return Err(format!("volume {} of the source after {op:?}: {what}", id.0));
                }
                self.model = after.fork();
            }
        }
        Ok(())
    }

    fn crash_target(&mut self) -> Check {
        self.target.crash();
        self.serving.clear();
        self.deleting = None;
        self.boot_target()
    }

    /// Compares every published point with the model.
    fn compare_points(&mut self) -> Check {
        let receiver = self.receiver.clone().ok_or("the target is up")?;
        let points = receiver.points(self.number).map_err(|error| error.to_string())?;
        for point in points {
            let mut found = Vec::new();
            for volume in &point.volumes {
                let engine = self.target.engine.clone().ok_or("the target is up")?;
                let snapshot = DiskId(volume.snapshot);
                match self.target.machine.finish(read(engine, snapshot))? {
                    // Compared after the crash.
                    None => return Ok(()),
                    // In deletion.
                    Some(Err(block::Error::Deleted)) if self.deleting.is_some() => break,
                    Some(Err(cause)) => return Err(format!("reading point {}: {cause}", point.number)),
                    Some(Ok(content)) => found.push((DiskId(volume.source), content)),
                }
            }
            if found.len() == point.volumes.len() {
                self.compare_point(&point, &found)?;
                self.published.insert(point.number);
            }
        }
        Ok(())
    }

    fn compare_point(&mut self, point: &Point, found: &[(DiskId, Content)]) -> Check {
        let number = point.number;
        let known = self.points.get(&number).ok_or(format!("point {number} was never taken"))?;
        if known.volumes != found.iter().map(|(id, _)| *id).collect::<Vec<_>>() {
            return Err(format!("point {number} has other volumes"));
        }
        if !self.snapshots.agree(point, known) {
            return Err(format!("point {number} has the names {:?}", point.snapshots));
        }
        self.report.snapshots += u64::from(!point.snapshots.is_empty() && !self.published.contains(&number));
        let differs = |model: &MemArray| {
            let mut volumes = found.iter();
            volumes.find_map(|(id, content)| Some((*id, difference(content, model, *id)?)))
        };
        let mut last = (DiskId(0), String::new());
        for candidate in &known.candidates {
            match differs(candidate) {
                None => return Ok(()),
                Some(difference) => last = difference,
            }
        }
        let (id, what) = last;
        Err(format!("point {number}, volume {}, of {} states: {what}", id.0, known.candidates.len()))
    }

    /// Checks that only outstanding offers are sent again.
    fn check_messages(&mut self) -> Check {
        let sent = self.link.as_ref().map(Link::take_sent).unwrap_or_default();
        for (_, message) in sent {
            let progress = &mut self.progress;
            match message {
                Message::State { position, .. } => {
                    progress.stated = position.map(|at| (at.point, at.base, at.next));
                }
                Message::Begin { point, base, resume, .. } => {
                    let same = (progress.point, progress.base) == (point, base);
                    let next = if resume { progress.stated.map_or(0, |(.., next)| next) } else { 0 };
                    if same && next < progress.next {
                        return Err(format!(
                            "point {point} is resumed at offer {next}, and {} were confirmed",
                            progress.next
                        ));
                    }
                    (progress.point, progress.base, progress.next) = (point, base, next);
                    progress.expected = Some(next);
                }
                Message::Offer(offer) => {
                    if progress.expected != Some(offer.number) {
                        return Err(format!("offer {} instead of {:?}", offer.number, progress.expected));
                    }
                    if offer.number >= progress.next + self.limits.offers as u64 {
                        return Err(format!("offer {} with {} confirmed", offer.number, progress.next));
                    }
                    progress.expected = Some(offer.number + 1);
                }
                Message::Applied { number } => progress.next = number + 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// Ends all faults: another point is published, or a newer one in its place, and both arrays are restarted.
    fn end(&mut self) -> Check {
        self.heal();
        let last = self.points.keys().last().copied().unwrap_or_default() + 1;
        let mut turns = 0;
        while self.published.last().is_none_or(|newest| *newest < last) {
            turns += 1;
            if turns > MAX_TURNS {
                return Err(format!("point {last} is not published though nothing fails"));
            }
            if !self.points.contains_key(&last) && self.taking.is_none() && !self.snapshots.is_taking() {
                let sender = self.sender.clone().ok_or("the source is up")?;
                self.begin_point(sender);
            }
            self.turn()?;
        }
        // Both check themselves on start.
        self.crash_source()?;
        self.crash_target()?;
        Ok(())
    }
}

/// An operation that has ended.
trait TakeIfDone {
    fn take_if_done(&mut self) -> Option<(HostOp, Result<(), block::Error>)>;
}

impl TakeIfDone for Option<(HostOp, Outcome<Result<(), block::Error>>)> {
    fn take_if_done(&mut self) -> Option<(HostOp, Result<(), block::Error>)> {
        let result = self.as_ref()?.1.take()?;
        self.take().map(|(op, _)| (op, result))
    }
}

async fn read(engine: Arc<Engine>, id: DiskId) -> Result<Content, block::Error> {
    content(engine.volume(id).ok_or(block::Error::Deleted)?).await
}

/// Describes an error that no fault of the world explains.
fn unexpected(error: &Error) -> Option<String> {
    match error {
        Error::Stream(_) | Error::Busy | Error::Refused { reason: Reason::Busy, .. } => None,
        error => Some(error.to_string()),
    }
}
