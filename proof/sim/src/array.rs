//! The worlds of the array: volumes over the engine over the shelf.

use crate::bounds::{self, Bounds};
use crate::drives::{Drives, Fault, Lies};
use crate::executor::TaskId;
use crate::history::{Action, ActionId, History, Known, Present};
use crate::machine::{Machine, Outcome};
use crate::{Report, World};
use block::workload::{Mix, Random, Workload};
use block::{CopySegment, Disk, DiskId, Error, Extent, Geometry, Op, Reply};
use engine::{Engine, Options, Rest};
use raid::geometry::Geometry as Plan;
use raid::{DriveShelf, FormatOptions, Opening, Sizes};
use std::sync::Arc;
use std::task::Poll;

/// Most volumes at a time.
const VOLUMES: usize = 6;

/// Sizes and tempers of a world, from its seed.
struct Setting {
    world: World,
    drives: u64,
    drive_bytes: u64,
    sizes: Sizes,
    options: Options,
    mix: Mix,
    /// Bytes of a volume, at most.
    volume_bytes: u64,
    at_once: usize,
    crashes: u64,
    /// How often the background is polled before it takes the array to be idle.
    long_rest: u64,
    /// Steps of hosts and drives that may come before the background goes on where it waits.
    reach: u64,
}

impl Setting {
    fn new(world: World, random: &mut Random) -> Self {
        let mut pick = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        let mut options = Options::new([7; 32]);
        options.slot_bytes = pick(&[1 << 20, 4 << 20, 16 << 20]) as usize;
        options.cache_bytes = pick(&[64 << 10, 4 << 20]) as usize;
        options.index_bytes = pick(&[64 << 10, 4 << 20]) as usize;
        options.page_bytes = pick(&[256 << 10, 1 << 20, 16 << 20]) as usize;
        let mut setting = Self {
            world,
            drives: pick(&[1, 2, 3, 4]),
            drive_bytes: pick(&[64 << 20, 96 << 20]),
            sizes: Sizes {
                chunk_bytes: Some(pick(&[8 << 10, 16 << 10, 64 << 10]) as u32),
                segment_bytes: None,
                journal_bytes: Some(pick(&[1 << 20, 2 << 20, 4 << 20])),
            },
            options,
            mix: Mix { longest: pick(&[16, 64, 300]), ..Mix::default() },
            volume_bytes: 6 << 20,
            at_once: pick(&[1, 4, 16]) as usize,
            crashes: pick(&[1, 2, 4]),
            long_rest: pick(&[0, 0, 20, 200]),
            reach: 0,
        };
        // An operation fits into the journal, whatever its blocks are.
        let journal = setting.sizes.journal_bytes.unwrap_or(0);
        setting.sizes.journal_bytes = Some(journal.max(4 * 4096 * setting.mix.longest));
        match world {
            World::OutOfSpace => {
                (setting.drives, setting.drive_bytes) = (1 + setting.drives % 2, 16 << 20);
                setting.sizes.journal_bytes = Some(1 << 20);
                (setting.mix.write, setting.mix.longest, setting.volume_bytes) = (90, 48, 24 << 20);
            }
            World::BitRot | World::DriveFailures => setting.drives = setting.drives.max(2),
            World::LostWrites => {
                (setting.drives, setting.crashes) = (setting.drives + 1, setting.crashes + 2)
            }
            World::Shelf | World::Array | World::Retention => {}
        }
        setting
    }

    /// Draws what [`Bounds::Drawn`] says.
    fn draw(&mut self, random: &mut Random) {
        bounds::draw(&mut self.options, random);
        self.reach = [0, 10, 100, 1000][random.below(4) as usize];
    }
}

struct UnderWay {
    id: ActionId,
    task: TaskId,
    outcome: Outcome<block::Result>,
}

/// One life of the array, between two crashes.
struct Life {
    engine: Arc<Engine>,
    under_way: Vec<UnderWay>,
    /// Nothing has been asked for yet, and the background does not run: what is in memory is on the drives.
    fresh: bool,
}

struct Run {
    setting: Setting,
    machine: Machine,
    history: History,
    workload: Workload,
    random: Random,
    report: Report,
    formatted: bool,
    next_volume: u128,
    saw_no_space: bool,
    /// The drives that lie are this one and those behind it.
    first_liar: u64,
    now: u64,
}

/// Runs the world of this seed.
///
/// # Errors
/// The first thing that was wrong.
pub fn run(world: World, seed: u64, bounds: Bounds) -> Result<Report, String> {
    let mut random = Random::new(seed ^ 0x6172_7261);
    let mut setting = Setting::new(world, &mut random);
    if bounds == Bounds::Drawn {
        setting.draw(&mut Random::new(seed ^ 0x626f_756e));
    }
    let drives = Drives::new(seed, &vec![setting.drive_bytes; setting.drives as usize]);
    let first_liar = if world == World::LostWrites { random.below(setting.drives) } else { 0 };
    let mut run = Run {
        machine: Machine::new(seed, drives.clone()),
        history: History::new(std::env::var_os("SIM_TRACE").is_some()),
        workload: Workload::new(seed, setting.mix),
        random,
        report: Report::default(),
        formatted: false,
        next_volume: 1,
        saw_no_space: false,
        first_liar,
        now: 0,
        setting,
    };
    run.machine.reach = run.setting.reach;
    while run.report.crashes < run.setting.crashes {
        let far = [30, 300, 3000][run.random.below(3) as usize];
        run.machine.crash_after(1 + run.random.below(far));
        let booted = run.boot()?;
        let recovered = booted.is_some();
        if let Some(mut life) = booted {
            run.work(&mut life, u64::MAX)?;
            run.abandon(life);
        }
        run.machine.crash();
        run.report.crashes += 1;
        run.machine.drives.note(run.history.open());
        match world {
            World::BitRot if recovered => run.rot()?,
            World::LostWrites if run.formatted => run.lie(),
            _ => {}
        }
    }
    run.last_life()?;
    (run.report.requests, run.report.trace, run.report.lies) =
        (drives.completed(), drives.trace(), drives.lied());
    Ok(run.report)
}

fn say(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Run {
    /// Starts the array over the drives and holds what it brings back against the history; none when the machine has
    /// to crash before.
    fn boot(&mut self) -> Result<Option<Life>, String> {
        let handles = self.machine.drives.handles();
        // Every owner has its own, as outside: the shelf refuses to let one write on what another began.
        let opening = Opening { salt: 1 + self.report.crashes, key: None };
        let (sizes, again) = (self.setting.sizes, opening.clone());
        let options = FormatOptions { array: 9, sizes, opening, ..FormatOptions::default() };
        let format = !self.formatted;
        let open = async move {
            if format && !DriveShelf::is_formatted(&handles).await? {
                DriveShelf::format(handles, options).await
            } else {
                DriveShelf::open(handles, again).await
            }
        };
        let Some(shelf) = self.machine.finish(open)? else { return Ok(None) };
        let shelf = shelf.map_err(|cause| format!("opening the shelf: {cause}"))?;
        self.formatted = true;
        self.machine.start_background(shelf.background());
        let open = Engine::open(shelf, self.setting.options.clone());
        let Some(engine) = self.machine.finish(open)? else { return Ok(None) };
        let engine = engine.map_err(|cause| format!("opening the engine: {cause}"))?;
        let mut life = Life { engine, under_way: Vec::new(), fresh: true };
        if !self.compare(&mut life)? || !self.check(&life)? {
            return Ok(None);
        }
        let long = self.setting.long_rest;
        let rest = move |rest| polls(if rest == Rest::Long { long } else { 0 });
        self.machine.start_background(life.engine.background_with_rest(rest));
        life.fresh = false;
        Ok(Some(life))
    }

    /// The engine's own count; false when the machine has to crash before.
    fn check(&mut self, life: &Life) -> Result<bool, String> {
        let engine = life.engine.clone();
        match self.machine.finish(async move { engine.check().await })? {
            None => Ok(false),
            Some(Err(cause)) => Err(format!("check: {cause}")),
            Some(Ok(findings)) if findings.is_empty() => Ok(true),
            Some(Ok(findings)) => Err(format!("check: {}", findings.join("; "))),
        }
    }

    /// Unties every knot and compares every block; false when the machine has to crash before.
    fn compare(&mut self, life: &mut Life) -> Result<bool, String> {
        if !self.settle(life)? {
            return Ok(false);
        }
        let known = self.history.disks();
        let present = present(&life.engine);
        let sizes: Vec<_> = present.iter().map(|(id, known)| (*id, known.geometry)).collect();
        if sizes != known {
            return Err(format!("the volumes are {sizes:?} instead of {known:?}"));
        }
        for (id, geometry) in known {
            for lba in (0..geometry.blocks).step_by(512) {
                let extent = Extent::new(lba, 512.min(geometry.blocks - lba));
                for op in [Op::Read(extent), Op::Status(extent)] {
                    let action = Action::Op(id, op.clone());
                    let Some(answer) = self.machine.finish(ask(&life.engine, action.clone()))? else {
                        return Ok(false);
                    };
                    let entry = self.history.ask(action);
                    self.history.answer(entry, answer);
                    self.history
                        .settle(&present)
                        .map_err(|what| format!("comparing all of disk {}: {what}", id.0))?;
                }
            }
            let model = self.history.model.disk(id).map(|disk| Known::of_model(&disk));
            if present.get(&id) != model.as_ref() {
                return Err(format!("disk {} is {:?} instead of {model:?}", id.0, present.get(&id)));
            }
        }
        self.compare_differences(life)
    }

    /// What the engine does not say to be different on two disks is equal; false when the machine has to crash before.
    fn compare_differences(&mut self, life: &Life) -> Result<bool, String> {
        let disks = self.history.disks();
        let alike = |pair: &&[(DiskId, Geometry)]| pair[0].1.block_bytes == pair[1].1.block_bytes;
        for pair in disks.windows(2).filter(alike) {
            let ((old, _), (new, geometry)) = (pair[0], pair[1]);
            let (mut next, mut differs) = (Some(0), Vec::new());
            while let Some(from) = next {
                let engine = life.engine.clone();
                let part = async move { engine.diff(Some(old), new, from, 100).await };
                match self.machine.finish(part)? {
                    None => return Ok(false),
                    Some(Err(Error::Medium { .. } | Error::Stopped(_)))
                        if self.setting.world == World::DriveFailures =>
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

    /// Explains what has ended; false when the machine has to crash before.
    fn settle(&mut self, life: &mut Life) -> Result<bool, String> {
        while let Some((ids, observations)) = self.history.settle(&present(&life.engine))? {
            if life.engine.stopped().is_some() {
                // What a stopped engine has in memory may be on the drives or not: it stays tied until the next life.
                return Ok(true);
            }
            if !life.fresh && self.history.names_disks(&ids) {
                // What there is and what it keeps is known from memory: it is there for good when a record that was
                // put behind it is.
                let engine = life.engine.clone();
                match self.machine.finish(async move { engine.put_record("behind", None).await })? {
                    None => return Ok(false),
                    Some(Ok(())) => {}
                    Some(Err(Error::Stopped(_))) if self.setting.world == World::DriveFailures => {
                        return Ok(true);
                    }
                    Some(Err(cause)) => return Err(format!("a record behind all that was asked: {cause}")),
                }
            }
            let mut seen = Vec::new();
            for (id, op) in observations {
                let action = Action::Op(id, op.clone());
                let Some(answer) = self.machine.finish(ask(&life.engine, action))? else { return Ok(false) };
                if matches!(answer, Err(Error::Stopped(_) | Error::Medium { .. }))
                    && self.setting.world == World::DriveFailures
                {
                    // Nothing can be seen any more: it stays tied until the next life.
                    return Ok(true);
                }
                seen.push((id, op, answer));
            }
            self.history.untie(&ids, &seen, &present(&life.engine))?;
        }
        Ok(true)
    }

    /// Asks for things until the machine has to crash, or `count` have been asked for.
    fn work(&mut self, life: &mut Life, count: u64) -> Result<(), String> {
        let mut asked = 0;
        while !self.machine.must_crash() && asked < count {
            if self.setting.world == World::DriveFailures && self.random.chance(1) && self.random.chance(20) {
                self.fail();
            }
            if life.under_way.len() < self.setting.at_once && self.random.chance(30) {
                asked += u64::from(self.ask_something(life));
            } else if !life.under_way.is_empty() && self.random.below(1000) < 3 {
                let index = self.random.below(life.under_way.len() as u64) as usize;
                let cancelled = life.under_way.swap_remove(index);
                self.machine.executor.cancel(cancelled.task);
                self.history.give_up(cancelled.id);
            } else if !self.machine.step()? && !self.collect(life)? {
                if !life.under_way.is_empty() {
                    return Err(self.stuck(life));
                }
                if life.engine.stopped().is_some() {
                    // Nothing can be explained any more in this life, so nothing more can be asked.
                    return Ok(());
                }
            }
            self.collect(life)?;
            if !self.settle(life)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn stuck(&self, life: &Life) -> String {
        let waiting: Vec<_> = life.under_way.iter().map(|each| self.history.show(each.id)).collect();
        let stopped = life.engine.stopped();
        format!(
            "waiting for something that never comes (engine stopped: {stopped:?}):\n  {}",
            waiting.join("\n  ")
        )
    }

    /// Starts an action; false when it would meet too many others.
    fn ask_something(&mut self, life: &mut Life) -> bool {
        let disks = self.history.disks();
        self.now += u64::from(self.setting.world == World::Retention);
        let action = match self.random.below(200) {
            _ if disks.is_empty() => self.create(),
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
            12..20 if self.setting.world == World::Retention => {
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
        let (task, outcome) = self.machine.start(ask(&life.engine, action));
        life.under_way.push(UnderWay { id, task, outcome });
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

    /// A time until which something is kept, often one that is over; time goes on with what is asked.
    fn soon(&mut self) -> u64 {
        if self.setting.world == World::Retention {
            (self.now + self.random.below(60)).saturating_sub(20)
        } else {
            0
        }
    }

    fn create(&mut self) -> Action {
        self.next_volume += 1;
        let block_bytes = if self.random.chance(70) { 512 } else { 4096 };
        let bytes = (1 << 20) + self.random.below(self.setting.volume_bytes);
        let blocks = bytes / u64::from(block_bytes);
        Action::Create(DiskId(self.next_volume), Geometry { block_bytes, blocks })
    }

    /// Takes the answers that are there; false when there are none.
    fn collect(&mut self, life: &mut Life) -> Result<bool, String> {
        let (mut index, before) = (0, life.under_way.len());
        while index < life.under_way.len() {
            let Some(answer) = life.under_way[index].outcome.take() else {
                index += 1;
                continue;
            };
            let UnderWay { id, .. } = life.under_way.swap_remove(index);
            self.judge(&answer)?;
            self.history.answer(id, answer);
            self.report.operations += 1;
        }
        Ok(life.under_way.len() < before)
    }

    /// Some errors are right in some worlds only.
    fn judge(&mut self, answer: &block::Result) -> Result<(), String> {
        match (answer, self.setting.world) {
            (Err(Error::NoSpace), World::OutOfSpace) => self.saw_no_space = true,
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

    /// What is under way at a crash has no answer.
    fn abandon(&mut self, mut life: Life) {
        for each in life.under_way.drain(..) {
            match each.outcome.take() {
                Some(answer) => self.history.answer(each.id, answer),
                None => self.history.give_up(each.id),
            }
        }
    }

    /// A life that ends in order: everything is answered, the engine is shut down, and all is there afterwards.
    fn last_life(&mut self) -> Result<(), String> {
        let mut life = self.boot()?.ok_or("no crash was asked for")?;
        self.work(&mut life, 300)?;
        self.drain(&mut life)?;
        if self.setting.world == World::OutOfSpace {
            self.give_back(&mut life)?;
        }
        if life.engine.stopped().is_none() {
            let engine = life.engine.clone();
            let outcome = self.machine.finish(async move { engine.shutdown().await })?;
            match outcome {
                Some(Err(cause)) if self.setting.world != World::DriveFailures => {
                    return Err(format!("shutdown: {cause}"));
                }
                _ => {}
            }
            if self.setting.world != World::DriveFailures {
                self.compare(&mut life)?;
                self.check(&life)?;
            }
        }
        drop(life);
        self.machine.crash();
        self.boot()?.ok_or("no crash was asked for")?;
        Ok(())
    }

    fn drain(&mut self, life: &mut Life) -> Result<(), String> {
        while !life.under_way.is_empty() {
            if !self.machine.step()? && !self.collect(life)? {
                return Err(self.stuck(life));
            }
            self.collect(life)?;
        }
        self.settle(life).map(|_| ())
    }

    /// Unmaps everything, lets the background work, and expects that there is space again.
    fn give_back(&mut self, life: &mut Life) -> Result<(), String> {
        for (id, geometry) in self.history.disks() {
            self.perform(life, Action::Access(id, false, self.now))
                .map_err(|cause| format!("a disk of a full array is made writable: {cause}"))?;
            let op = Op::Unmap(vec![Extent::new(0, geometry.blocks)]);
            self.perform(life, Action::Op(id, op))
                .map_err(|cause| format!("unmap of a full array: {cause}"))?;
        }
        while self.machine.step()? {}
        let Some((id, geometry)) = self.history.disks().first().copied() else { return Ok(()) };
        for lba in 0..8 {
            let block = geometry.block_bytes as usize;
            let data: Vec<u8> = (0..16 * block / 8).flat_map(|_| self.random.word().to_le_bytes()).collect();
            let write = Action::Op(id, Op::Write { lba: lba * 16, data: data.into() });
            self.perform(life, write)
                .map_err(|cause| format!("write to an array emptied by unmap: {cause}"))?;
        }
        Ok(())
    }

    fn perform(&mut self, life: &mut Life, action: Action) -> Result<(), String> {
        let id = self.history.ask(action.clone());
        let answer = self.machine.finish(ask(&life.engine, action))?.ok_or("no crash was asked for")?;
        let outcome = answer.as_ref().map(|_| ()).map_err(say);
        self.history.answer(id, answer);
        self.settle(life)?;
        outcome
    }

    fn plan(&self) -> Result<Plan, String> {
        let drives = vec![self.setting.drive_bytes; self.setting.drives as usize];
        Plan::plan(&drives, &self.setting.sizes).map_err(say)
    }

    /// Corrupts copies on one drive: what the shelf mirrors is on all of them after a recovery.
    fn rot(&mut self) -> Result<(), String> {
        let journal = self.plan()?.granules_at();
        let drive = self.random.below(self.setting.drives.min(3)) as usize;
        self.machine.drives.rot(drive, 0..journal);
        Ok(())
    }

    /// Drives begin to lie, and have some pages corrupted: as many as parity bears, and one copy of the journal is on
    /// another. They are the same in every life: what they have lost may not have been missed yet.
    fn lie(&mut self) {
        let drives = self.setting.drives;
        let liars = self.first_liar..self.first_liar + (drives - 1).min(2);
        for drive in liars.map(|drive| (drive % drives) as usize) {
            let mut often = || [0, 1, 5, 30][self.random.below(4) as usize];
            let lies = Lies { lost: often(), misdirected: often() };
            self.machine.drives.note((drive, lies));
            self.machine.drives.set_lies(drive, lies);
            if self.random.chance(10) {
                self.machine.drives.rot(drive, 0..self.setting.drive_bytes);
            }
        }
    }

    /// A drive stops taking journal writes, or anything.
    fn fail(&mut self) {
        let Ok(plan) = self.plan() else { return };
        let drive = self.random.below(self.setting.drives) as usize;
        let fault = match self.random.below(3) {
            0 => Fault::Dead,
            _ => Fault::Writes(plan.journal_at()..plan.journal_at() + plan.journal_bytes),
        };
        self.machine.drives.note(format!("{drive} {fault:?}"));
        self.machine.drives.set_fault(drive, fault);
    }
}

/// Waits for so many polls more.
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

/// A list of copies is one step only where all of it is aligned to 4 KiB, or it is short.
fn one_step(op: Op, disks: &[(DiskId, Geometry)]) -> Op {
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

/// Asks the array.
fn ask(engine: &Arc<Engine>, action: Action) -> impl Future<Output = block::Result> + 'static {
    let engine = engine.clone();
    async move {
        match action {
            Action::Op(id, op) => engine.volume(id).ok_or(Error::Gone)?.execute(op).await,
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
