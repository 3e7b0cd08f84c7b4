//! Worlds of the whole array: volumes, engine and store.

mod drive_changes;
mod drive_faults;
mod keys;
mod located;
mod management;
mod pool;
mod pressure;
mod repair;
mod scenario;

use crate::bounds::Bounds;
use crate::drives::Drives;
use crate::executor::TaskId;
use crate::history::{Action, ActionId, History, Known, Present};
use crate::machine::{Machine, Outcome};
use crate::{Report, World};
use block::workload::{Random, Workload};
use block::{CopySegment, Disk, DiskId, Error, Extent, Geometry, Op, Reply};
use drive_changes::Roster;
use drive_faults::SlowDrive;
use engine::{Engine, Rest};
use keys::{ARRAY, KeyChange, Keys};
use located::FrontEnd;
use management::{Chore, Held, Managed};
use pool::Owners;
use rados::Store;
use raid::{DriveShelf, FormatOptions};
use scenario::Scenario;
use shelf::Shelf;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Maximum number of volumes at a time.
const VOLUMES: usize = 6;

struct UnderWay {
    id: ActionId,
    task: TaskId,
    outcome: Outcome<block::Result>,
}

/// The array between two crashes.
struct Incarnation {
    engine: Arc<Engine>,
    /// The store, in worlds over drives.
    shelf: Option<Arc<DriveShelf>>,
    /// The store, in worlds over RADOS.
    rados: Option<Arc<Store>>,
    /// A change of the drives in progress.
    change: Option<drive_changes::Change>,
    /// A change of the key in progress.
    key_change: Option<KeyChange>,
    /// A change of policies or records in progress.
    chore: Option<Chore>,
    /// Images of volumes.
    images: Vec<Held>,
    /// Minimum number of drives since the opening that could fail without data loss.
    tolerates: usize,
    under_way: Vec<UnderWay>,
    /// No action was requested yet, and the background does not run: memory and drives agree.
    fresh: bool,
}

impl Incarnation {
    /// A newly opened engine; the caller adds its store.
    fn new(engine: Arc<Engine>, tolerates: usize) -> Self {
        Self {
            engine,
            shelf: None,
            rados: None,
            change: None,
            key_change: None,
            chore: None,
            images: Vec::new(),
            tolerates,
            under_way: Vec::new(),
            fresh: true,
        }
    }

    fn drives(&self) -> &Arc<DriveShelf> {
        self.shelf.as_ref().expect("a world over drives")
    }
}

struct Run {
    scenario: Scenario,
    machine: Machine,
    owners: Owners,
    front: FrontEnd,
    history: History,
    workload: Workload,
    random: Random,
    report: Report,
    formatted: bool,
    /// Number of openings of the store, without the one after each counted crash.
    openings: u64,
    next_volume: u128,
    /// The first drive that loses or misdirects writes, as do all later ones.
    first_faulty: u64,
    now: u64,
    /// Actions whose effect is unreadable until the next start, because drives have failed.
    unreadable: BTreeSet<ActionId>,
    roster: Roster,
    slow_drive: Option<SlowDrive>,
    keys: Keys,
    managed: Managed,
}

/// Runs a seed of a world.
///
/// # Errors
/// The first violation.
pub fn run(world: World, seed: u64, bounds: Bounds) -> Result<Report, String> {
    let mut random = Random::new(seed ^ 0x6172_7261);
    let scenario = Scenario::drawn(world, &mut random, bounds, seed);
    let count = (scenario.drives + scenario.spares) as usize;
    let drives = Drives::new(seed, &vec![scenario.drive_bytes; count]);
    if let Some(percent) = scenario.pressure.and_then(|pressure| pressure.file_system_percent) {
        drives.make_sparse(scenario.drives * scenario.drive_bytes / 100 * percent);
    }
    let first_faulty = if world == World::LostWrites { random.below(scenario.drives) } else { 0 };
    let mut run = Run {
        machine: Machine::new(seed, drives.clone()),
        owners: Owners::default(),
        front: FrontEnd::new(seed),
        history: History::new(std::env::var_os("SIM_TRACE").is_some()),
        workload: Workload::new(seed, scenario.mix),
        random,
        report: Report::default(),
        formatted: false,
        openings: 0,
        next_volume: 1,
        first_faulty,
        now: 0,
        unreadable: BTreeSet::new(),
        roster: Roster::new(scenario.drives as usize, count),
        slow_drive: SlowDrive::draw(world, seed, scenario.drives).filter(|_| scenario.ticks),
        keys: Keys::new(seed),
        managed: Managed::default(),
        scenario,
    };
    run.machine.reach = run.scenario.reach;
    if bounds != Bounds::Drawn {
        run.machine.jobs.inline();
    }
    run.scenario.options.workers = run.machine.jobs.workers().clone();
    if matches!(world, World::Rados | World::Located) {
        pool::install(&mut run);
    }
    while run.report.crashes < run.scenario.crashes {
        let far = run.far();
        run.machine.crash_after(1 + run.random.below(far));
        let booted = run.boot()?;
        let recovered = booted.is_some();
        if let Some(mut incarnation) = booted {
            run.work(&mut incarnation, u64::MAX)?;
            run.abandon(incarnation);
        }
        run.end_of_life();
        run.report.crashes += 1;
        run.machine.drives.note(run.history.open());
        run.change_roster();
        if world == World::Encrypted {
            run.change_key_offline()?;
        }
        match world {
            World::BitRot | World::Encrypted if recovered && run.may_rot() => run.corrupt()?,
            World::LostWrites if run.formatted => run.inject_write_faults(),
            World::Repair if recovered => run.damage()?,
            _ => {}
        }
    }
    run.last_incarnation()?;
    (run.report.requests, run.report.trace, run.report.write_faults) =
        (run.machine.completed(), drives.trace(), drives.faulty_writes());
    (run.report.resolved, run.report.unresolved) = run.front.counts();
    Ok(run.report)
}

fn say(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Run {
    /// Maximum number of drive requests before the next power loss.
    fn far(&mut self) -> u64 {
        let far = [30, 300, 3000][self.random.below(3) as usize];
        // Filling an array takes many requests.
        if self.scenario.pressure.is_some() { far * 3 } else { far }
    }

    /// Starts the array on the drives and compares its contents with the history; `None` if the machine must crash
    /// first.
    fn boot(&mut self) -> Result<Option<Incarnation>, String> {
        match self.machine.cluster.clone() {
            Some(cluster) => self.boot_rados(&cluster),
            None => self.boot_drives(),
        }
    }

    fn open_engine(&mut self, shelf: Arc<dyn Shelf>) -> Result<Option<Arc<Engine>>, String> {
        let opened = self.machine.finish(Engine::open(shelf, self.scenario.options.clone()))?;
        opened.transpose().map_err(|cause| format!("opening the engine: {cause}"))
    }

    /// Opens or creates the store on the drives; `None` if the machine must crash first.
    fn open_drives(&mut self) -> Result<Option<Arc<DriveShelf>>, String> {
        let handles = self.machine.drives.handles();
        let handles: Vec<_> = self.roster.given().map(|drive| handles[drive].clone()).collect();
        // Every owner has its own salt, as in the product: the shelf refuses a second owner with the same one.
        let Some(opening) = self.opening(&handles)? else { return Ok(None) };
        let (sizes, limits) = (self.scenario.sizes, self.scenario.limits);
        let options = FormatOptions { array: ARRAY, sizes, opening, limits, ..FormatOptions::default() };
        let shelf = self.machine.open_shelf(handles, !self.formatted, options)?;
        self.formatted |= shelf.is_some();
        Ok(shelf)
    }

    fn boot_drives(&mut self) -> Result<Option<Incarnation>, String> {
        let Some(shelf) = self.open_drives()? else { return Ok(None) };
        if self.scenario.ticks {
            let shelf = shelf.clone();
            self.machine.clock = Some(Box::new(move |now| shelf.tick(now)));
        }
        let tolerates = shelf.status().tolerates;
        let Some(engine) = self.open_engine(shelf.clone())? else { return Ok(None) };
        if self.scenario.ticks {
            let (shelf, engine) = (shelf.clone(), engine.clone());
            self.machine.clock = Some(Box::new(move |now| {
                shelf.tick(now);
                engine.watch_drives();
            }));
        }
        self.begin(Incarnation { shelf: Some(shelf), ..Incarnation::new(engine, tolerates) })
    }

    /// Compares all contents, and starts the background.
    fn begin(&mut self, mut incarnation: Incarnation) -> Result<Option<Incarnation>, String> {
        self.unreadable.clear();
        if !self.compare(&mut incarnation)? || !self.machine.check(&incarnation.engine)? {
            return Ok(None);
        }
        self.compare_managed(&incarnation.engine)?;
        let (gather, long) = (self.scenario.gather_rest, self.scenario.long_rest);
        let rest = move |rest| {
            polls(match rest {
                Rest::Short => 0,
                Rest::Gather => gather,
                Rest::Long => long,
            })
        };
        self.machine.start_background(incarnation.engine.background_with_rest(rest));
        incarnation.fresh = false;
        self.note_spread();
        self.retire_strays(&incarnation);
        Ok(Some(incarnation))
    }

    /// Explains every conflict group and compares every block; false if the machine must crash first.
    fn compare(&mut self, incarnation: &mut Incarnation) -> Result<bool, String> {
        if !self.settle(incarnation)? {
            return Ok(false);
        }
        // Unexplained changes may have taken effect or not.
        let explained = |id: &DiskId| !self.history.changes_disk(*id);
        let mut known = self.history.disks();
        known.retain(|(id, _)| explained(id));
        let mut present = present(&incarnation.engine);
        present.retain(|id, _| explained(id));
        let sizes: Vec<_> = present.iter().map(|(id, known)| (*id, known.geometry)).collect();
        if sizes != known {
            return Err(format!("the volumes are {sizes:?} instead of {known:?}"));
        }
        for (id, geometry) in known {
            for extent in runs(geometry) {
                for op in [Op::Read(extent), Op::Status(extent)] {
                    let action = Action::Op(id, op.clone());
                    let Some(answer) = self.machine.finish(ask(&incarnation.engine, action.clone()))? else {
                        return Ok(false);
                    };
                    let entry = self.history.ask(action);
                    self.history.answer(entry, answer);
                    self.history
                        .settle(&present, &self.unreadable)
                        .map_err(|what| format!("comparing all of disk {}: {what}", id.0))?;
                }
            }
            let model = self.history.model.disk(id).map(|disk| Known::of_model(&disk));
            if present.get(&id) != model.as_ref() {
                return Err(format!("disk {} is {:?} instead of {model:?}", id.0, present.get(&id)));
            }
        }
        self.compare_differences(incarnation)
    }

    /// Checks that blocks which the engine does not report as different are equal; false if the machine must crash
    /// first.
    fn compare_differences(&mut self, incarnation: &Incarnation) -> Result<bool, String> {
        let disks = self.history.disks();
        let alike = |pair: &&[(DiskId, Geometry)]| pair[0].1.block_bytes == pair[1].1.block_bytes;
        for pair in disks.windows(2).filter(alike) {
            let ((old, _), (new, geometry)) = (pair[0], pair[1]);
            let (mut next, mut differs) = (Some(0), Vec::new());
            while let Some(from) = next {
                let engine = incarnation.engine.clone();
                let part = async move { engine.diff(Some(old), new, from, 100).await };
                match self.machine.finish(part)? {
                    None => return Ok(false),
                    Some(Err(Error::Medium { .. } | Error::Stopped(_)))
                        if self.scenario.world == World::DriveFailures =>
                    {
                        return Ok(true);
                    }
                    Some(part) => {
                        let part = part.map_err(|cause| format!("difference: {cause}"))?;
                        next = part.next;
                        differs.extend(part.regions.into_iter().map(|region| region.extent));
                    }
                }
            }
            let each = 4096 / u64::from(geometry.block_bytes);
            let model = &self.history.model;
            let size = |id| model.disk(id).map_or(0, |disk| disk.geometry().blocks);
            let both = size(old).min(geometry.blocks) / each * each;
            let blocks = (0..both).step_by(each as usize).map(|lba| Extent::new(lba, each));
            for block in blocks.filter(|block| !differs.iter().any(|extent| extent.overlaps(block))) {
                if model.peek(old, block).first_difference(&model.peek(new, block)).is_some() {
                    return Err(format!("disks {} and {} differ at {block:?}", old.0, new.0));
                }
            }
        }
        Ok(true)
    }

    /// Explains ended actions; false if the machine must crash first.
    fn settle(&mut self, incarnation: &mut Incarnation) -> Result<bool, String> {
        if !self.history.may_settle(&self.unreadable) {
            return Ok(true);
        }
        'groups: while let Some((ids, observations)) =
            self.history.settle(&present(&incarnation.engine), &self.unreadable)?
        {
            if incarnation.engine.stopped().is_some() {
                // The memory of a stopped engine may be on the drives or not: its actions stay unexplained until the
                // next start.
                return Ok(true);
            }
            if !incarnation.fresh && self.history.names_disks(&ids) {
                // Disks and retention are read from memory: they are durable if a later record is.
                let engine = incarnation.engine.clone();
                match self.machine.finish(async move { engine.put_record("last", None).await })? {
                    None => return Ok(false),
                    Some(Ok(())) => {}
                    Some(Err(Error::Stopped(_))) if self.scenario.world == World::DriveFailures => {
                        return Ok(true);
                    }
                    Some(Err(cause)) => return Err(format!("a record after everything: {cause}")),
                }
            }
            let mut seen = Vec::new();
            for (id, op) in observations {
                let action = Action::Op(id, op.clone());
                let Some(answer) = self.machine.finish(ask(&incarnation.engine, action))? else {
                    return Ok(false);
                };
                if matches!(answer, Err(Error::Stopped(_) | Error::Medium { .. }))
                    && self.scenario.world == World::DriveFailures
                {
                    // Other groups may still be readable.
                    self.unreadable.extend(ids);
                    continue 'groups;
                }
                seen.push((id, op, answer));
            }
            self.history.check_group(&ids, &seen, &present(&incarnation.engine))?;
        }
        Ok(true)
    }

    /// Requests actions until the machine must crash, or `count` have been requested.
    fn work(&mut self, incarnation: &mut Incarnation, count: u64) -> Result<(), String> {
        let (mut asked, mut waits) = (0, 0);
        while !self.machine.must_crash() && asked < count {
            self.disturb(incarnation)?;
            if self.scenario.world == World::DriveFailures && self.random.chance(1) && self.random.chance(20)
            {
                self.fail();
            }
            self.look_back()?;
            if self.machine.cluster.is_some() && self.random.below(2000) == 0 {
                self.change_pool(incarnation);
            }
            if incarnation.under_way.len() < self.scenario.at_once && self.random.chance(30) {
                asked += u64::from(self.ask_something(incarnation));
            } else if !incarnation.under_way.is_empty() && self.random.below(1000) < 3 {
                let index = self.random.below(incarnation.under_way.len() as u64) as usize;
                let cancelled = incarnation.under_way.swap_remove(index);
                self.machine.executor.cancel(cancelled.task);
                self.history.give_up(cancelled.id);
            } else if !self.machine.step()? && !self.collect(incarnation)? {
                if !incarnation.under_way.is_empty() {
                    waits += 1;
                    if !self.machine.wait(waits) {
                        return Err(self.stuck(incarnation));
                    }
                }
                if incarnation.engine.stopped().is_some() {
                    // No action can be explained any more in this incarnation, so no more are requested.
                    return Ok(());
                }
            }
            if self.collect(incarnation)? {
                waits = 0;
            }
            if !self.settle(incarnation)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Makes the front end resolve old recipes again.
    fn look_back(&mut self) -> Result<(), String> {
        if self.front.is_open()
            && self.random.chance(3)
            && let Some(look) = self.front.look_back()
        {
            self.machine.start(look);
        }
        self.front.check()
    }

    /// Injects faults and operator actions.
    fn disturb(&mut self, incarnation: &mut Incarnation) -> Result<(), String> {
        if self.scenario.world == World::Encrypted {
            self.change_key(incarnation)?;
        }
        if self.scenario.world == World::Management {
            self.manage(incarnation)?;
        }
        if !self.scenario.ticks {
            return Ok(());
        }
        if self.random.chance(1) {
            self.machine.pass(Duration::from_millis(self.random.below(500)));
        }
        self.press();
        self.slow_down(incarnation);
        if self.scenario.world == World::DriveChanges {
            self.change_drives(incarnation)?;
        }
        Ok(())
    }

    fn stuck(&self, incarnation: &Incarnation) -> String {
        let waiting: Vec<_> = incarnation.under_way.iter().map(|each| self.history.show(each.id)).collect();
        let stopped = incarnation.engine.stopped();
        format!(
            "waiting for something that never comes (engine stopped: {stopped:?}):\n  {}",
            waiting.join("\n  ")
        )
    }

    /// Starts an action; false if it would conflict with too many others.
    fn ask_something(&mut self, incarnation: &mut Incarnation) -> bool {
        let disks = self.history.disks();
        self.now += u64::from(self.scenario.world == World::Retention);
        let filling = self.filling_write(incarnation, &disks);
        let action = match self.random.below(200) {
            _ if disks.is_empty() => self.create(),
            _ if let Some(write) = filling => write,
            0 if disks.len() < VOLUMES => self.create(),
            1 | 2 if disks.len() < VOLUMES => {
                let source = disks[self.random.below(disks.len() as u64) as usize].0;
                self.next_volume += 1;
                Action::Clone(source, DiskId(self.next_volume))
            }
            3 | 10 | 11 if disks.len() > 2 => {
                Action::Delete(disks[self.random.below(disks.len() as u64) as usize].0, self.now)
            }
            4 => {
                let (id, geometry) = disks[self.random.below(disks.len() as u64) as usize];
                Action::Resize(id, geometry.blocks + self.random.below(300))
            }
            5 | 6 if disks.len() < VOLUMES => self.snapshot(&disks),
            7 => Action::Restore(self.one(&disks), self.one(&disks)),
            8 | 9 => Action::Access(self.one(&disks), self.random.chance(30), self.now),
            12..20 if self.scenario.world == World::Retention => {
                let until = self.soon();
                Action::Keep(self.one(&disks), until, self.now)
            }
            _ => {
                let model = &self.history.model;
                let (id, op) = self.workload.next(&disks, |id, extent| model.peek(id, extent));
                Action::Op(id, one_step(op, &disks))
            }
        };
        if !self.history.admits(&action) {
            return false;
        }
        self.machine.drives.note(format!("{action:?}"));
        let id = self.history.ask(action.clone());
        let located = match &action {
            Action::Op(disk, Op::Read(extent)) => self.front.read(&incarnation.engine, (*disk, *extent)),
            _ => None,
        };
        let (task, outcome) = match located {
            Some(read) => self.machine.start(read),
            None => self.machine.start(ask(&incarnation.engine, action)),
        };
        incarnation.under_way.push(UnderWay { id, task, outcome });
        true
    }

    fn one(&mut self, disks: &[(DiskId, Geometry)]) -> DiskId {
        disks[self.random.below(disks.len() as u64) as usize].0
    }

    /// A snapshot of one disk, or of two together.
    fn snapshot(&mut self, disks: &[(DiskId, Geometry)]) -> Action {
        let mut sources = vec![self.one(disks), self.one(disks)];
        sources.truncate(1 + self.random.below(2) as usize);
        sources.dedup();
        let mut pair = |source| {
            self.next_volume += 1;
            (source, DiskId(self.next_volume))
        };
        let pairs = sources.into_iter().map(&mut pair).collect();
        Action::Snapshot(pairs, self.soon())
    }

    /// A retention time, often one that is over; time advances with each request.
    fn soon(&mut self) -> u64 {
        if self.scenario.world == World::Retention {
            (self.now + self.random.below(60)).saturating_sub(20)
        } else {
            0
        }
    }

    fn create(&mut self) -> Action {
        self.next_volume += 1;
        let block_bytes = if self.random.chance(70) { 512 } else { 4096 };
        let bytes = (1 << 20) + self.random.below(self.scenario.volume_bytes);
        let blocks = bytes / u64::from(block_bytes);
        Action::Create(DiskId(self.next_volume), Geometry { block_bytes, blocks })
    }

    /// Takes the available answers; false if there are none.
    fn collect(&mut self, incarnation: &mut Incarnation) -> Result<bool, String> {
        let (mut index, before) = (0, incarnation.under_way.len());
        while index < incarnation.under_way.len() {
            let Some(answer) = incarnation.under_way[index].outcome.take() else {
                index += 1;
                continue;
            };
            let UnderWay { id, .. } = incarnation.under_way.swap_remove(index);
            self.judge(&answer)?;
            self.history.answer(id, answer);
            self.report.operations += 1;
        }
        Ok(incarnation.under_way.len() < before)
    }

    /// Checks errors that are valid only in some worlds.
    fn judge(&mut self, answer: &block::Result) -> Result<(), String> {
        match (answer, self.scenario.world) {
            (Err(Error::NoSpace), World::OutOfSpace | World::DriveChanges) => {}
            (Err(Error::NoSpace), World::Rados | World::Located) if self.owners.was_full => {}
            (Err(Error::Stopped(_) | Error::Medium { .. }), World::DriveFailures) => {}
            (
                Err(cause @ (Error::NoSpace | Error::Stopped(_) | Error::Medium { .. } | Error::NotReady)),
                _,
            ) => {
                return Err(format!("answered {cause}"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Gives up the actions in progress at a crash.
    fn abandon(&mut self, mut incarnation: Incarnation) {
        self.report.count_refusals(&incarnation.engine);
        if self.scenario.world == World::Encrypted {
            self.note_redundancy(&incarnation);
        }
        for each in incarnation.under_way.drain(..) {
            match each.outcome.take() {
                Some(answer) => self.history.answer(each.id, answer),
                None => self.history.give_up(each.id),
            }
        }
    }

    /// Ends the last incarnation in order: all actions complete, the engine is shut down, and all contents are durable.
    fn last_incarnation(&mut self) -> Result<(), String> {
        let mut incarnation = self.boot()?.ok_or("no crash was asked for")?;
        self.work(&mut incarnation, 300)?;
        self.drain(&mut incarnation)?;
        if matches!(self.scenario.world, World::OutOfSpace | World::DriveChanges) {
            self.unmap_all(&mut incarnation)?;
        }
        if incarnation.engine.stopped().is_none() {
            let engine = incarnation.engine.clone();
            let outcome = self.machine.finish(async move { engine.shutdown().await })?;
            match outcome {
                Some(Err(cause)) if self.scenario.world != World::DriveFailures => {
                    return Err(format!("shutdown: {cause}"));
                }
                _ => {}
            }
            if self.scenario.world != World::DriveFailures {
                self.compare(&mut incarnation)?;
                self.machine.check(&incarnation.engine)?;
            }
        }
        self.report.count_refusals(&incarnation.engine);
        drop(incarnation);
        self.machine.crash();
        self.change_roster();
        self.boot()?.ok_or("no crash was asked for")?;
        Ok(())
    }

    fn drain(&mut self, incarnation: &mut Incarnation) -> Result<(), String> {
        let mut waits = 0;
        while !incarnation.under_way.is_empty() {
            if !self.machine.step()? && !self.collect(incarnation)? {
                waits += 1;
                if !self.machine.wait(waits) {
                    return Err(self.stuck(incarnation));
                }
            }
            if self.collect(incarnation)? {
                waits = 0;
            }
        }
        self.settle(incarnation).map(|_| ())
    }

    /// Runs a future to completion while no crash is due.
    fn finished<T: 'static>(&mut self, future: impl Future<Output = T> + 'static) -> Result<T, String> {
        self.machine.finish(future)?.ok_or_else(|| "no crash was asked for".into())
    }

    fn perform(&mut self, incarnation: &mut Incarnation, action: Action) -> Result<(), String> {
        let id = self.history.ask(action.clone());
        let answer = self.finished(ask(&incarnation.engine, action))?;
        let outcome = answer.as_ref().map(|_| ()).map_err(say);
        self.history.answer(id, answer);
        self.settle(incarnation)?;
        outcome
    }
}

/// Runs of a disk, as long as one read.
fn runs(geometry: Geometry) -> impl Iterator<Item = Extent> {
    const RUN: u64 = 512;
    let starts = (0..geometry.blocks).step_by(RUN as usize);
    starts.map(move |lba| Extent::new(lba, RUN.min(geometry.blocks - lba)))
}

/// Waits for a number of polls.
fn polls(mut left: u64) -> impl Future<Output = ()> {
    std::future::poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

/// The volumes of an engine.
fn present(engine: &Engine) -> Present {
    let kept = |id| engine.disk(id).map_or(0, |disk| disk.kept_until);
    engine.volumes().iter().map(|disk| (disk.id(), Known::of(&**disk, kept(disk.id())))).collect()
}

/// Limits a list of copies to what is atomic: all segments aligned to 4 KiB, or a short list.
pub(crate) fn one_step(op: Op, disks: &[(DiskId, Geometry)]) -> Op {
    let Op::Copy(mut segments) = op else { return op };
    let bytes =
        |id: DiskId| disks.iter().find(|(known, _)| *known == id).map_or(512, |(_, found)| found.block_bytes);
    let aligned = |segment: &CopySegment| {
        let of = [segment.source_lba, segment.target_lba, segment.blocks];
        of.iter().all(|blocks| (blocks.wrapping_mul(u64::from(bytes(segment.source)))).is_multiple_of(4096))
    };
    if !segments.iter().all(aligned) {
        for segment in &mut segments {
            segment.blocks = segment.blocks.min((32 << 10) / u64::from(bytes(segment.source)));
        }
    }
    Op::Copy(segments)
}

/// Requests an action of the array.
fn ask(engine: &Arc<Engine>, action: Action) -> impl Future<Output = block::Result> + 'static {
    let engine = engine.clone();
    async move {
        match action {
            Action::Op(id, op) => engine.volume(id).ok_or(Error::Deleted)?.execute(op).await,
            Action::Create(id, geometry) => engine.create_volume(id, geometry, 0).await.map(|_| Reply::Done),
            Action::Clone(source, id) => engine.clone_volume(source, id, 0).await.map(|_| Reply::Done),
            Action::Snapshot(pairs, until) => {
                engine.snapshot(&pairs, &[], 0, until).await.map(|_| Reply::Done)
            }
            Action::Restore(id, source) => engine.restore_volume(id, source).await.map(|()| Reply::Done),
            Action::Keep(id, until, now) => engine.keep_until(id, until, now).await.map(|()| Reply::Done),
            Action::Access(id, read_only, now) => {
                engine.set_read_only(id, read_only, now).await.map(|()| Reply::Done)
            }
            Action::Resize(id, blocks) => engine.resize_volume(id, blocks).await.map(|()| Reply::Done),
            Action::Delete(id, now) => engine.delete_volume(id, now).await.map(|()| Reply::Done),
        }
    }
}
