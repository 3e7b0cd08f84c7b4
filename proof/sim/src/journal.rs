//! World `shelf`: the store alone under crashes and drive failures.
//!
//! A client knows the operations acknowledged to it, while as many drives as the store reports to tolerate fail,
//! vanish, hang, return or rot.

use crate::Report;
use crate::bounds::{self, Bounds};
use crate::drives::{Drives, Fault};
use crate::machine::{Machine, Outcome};
use block::workload::Random;
use bytes::Bytes;
use raid::encryption::{DataKey, Envelope};
use raid::{DriveShelf, FormatOptions, Opening, Sizes};
use shelf::pool::{KEY_BYTES, KeySource};
use shelf::{ALIGN, AlignedBuf, Batch, Error, JournalPos, Layout, SegmentId, Shelf, Superblock, wait};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const DRIVE_BYTES: u64 = 8 << 20;

/// End of the mirrored area of such a drive: label, superblocks, map and journal; segments follow.
const MIRRORED: u64 = (64 + 2 * 64 + 256) << 10;

/// Injects faults, no more than the store reports to tolerate.
struct FaultInjector {
    drives: Arc<Drives>,
    count: usize,
    /// Number of further drives that may be hit.
    budget: usize,
    /// Drives that were hit and may not be rebuilt yet: they may be hit again.
    hit: BTreeSet<usize>,
    /// Drives among these with silently corrupt pages, unknown to the store.
    rotten: BTreeSet<usize>,
    /// Drives that are missing at the next opening.
    away: BTreeSet<usize>,
    now: Duration,
    /// Clock jumps allowed without progress.
    patience: u32,
}

/// Clock jumps after which every request has timed out.
const PATIENCE: u32 = 20;

impl FaultInjector {
    /// A drive that may be hit now, if any.
    fn choose(&mut self, random: &mut Random) -> Option<usize> {
        let drive = random.below(self.count as u64) as usize;
        if !self.hit.contains(&drive) {
            self.budget = self.budget.checked_sub(1)?;
            self.hit.insert(drive);
        }
        Some(drive)
    }

    fn log(&self, when: &str, drive: usize, fault: u64) {
        let event = format!("{when}: fault {fault} of drive {drive}, {} more drives may be hit", self.budget);
        if std::env::var_os("SIM_TRACE").is_some() {
            eprintln!("{event}");
        }
        self.drives.note(event);
    }

    /// Advances time, but only as long as healthy drives must reply.
    fn pass(&mut self, time: Duration) {
        self.now = self.drives.pass(time);
    }

    /// Injects faults while the shelf runs.
    fn inject(&mut self, random: &mut Random) {
        let Some(drive) = self.choose(random) else { return };
        let fault = random.below(6);
        self.log("running", drive, fault);
        match fault {
            0 | 1 => self.drives.set_fault(drive, Fault::Dead),
            2 => self.drives.set_fault(drive, Fault::Writes(0..DRIVE_BYTES)),
            3 => self.drives.set_fault(drive, Fault::Stuck),
            _ => {
                let from = if random.chance(50) { 0 } else { MIRRORED };
                self.drives.corrupt(drive, from..DRIVE_BYTES);
                self.rotten.insert(drive);
            }
        }
    }

    /// Injects faults while the power is off.
    fn inject_while_off(&mut self, random: &mut Random) {
        self.away.clear();
        for drive in self.hit.clone() {
            if random.chance(40) {
                self.away.insert(drive);
            }
        }
        for _ in 0..2 {
            if !random.chance(30) {
                continue;
            }
            let Some(drive) = self.choose(random) else { return };
            let fault = random.below(4);
            self.log("off", drive, fault);
            match fault {
                0 => self.drives.wipe(drive),
                1 => {
                    self.drives.corrupt(drive, 0..DRIVE_BYTES);
                    self.rotten.insert(drive);
                }
                _ => _ = self.away.insert(drive),
            }
        }
    }

    /// Updates the budget: the tolerance that the shelf reports, less faults unknown to it. The budget may grow if
    /// everything has been synced since the shelf tolerated `synced` failures.
    fn count(&mut self, shelf: &DriveShelf, synced: Option<usize>) {
        let index = |name: &String| name.trim_start_matches("drive").parse::<usize>().ok();
        let there: BTreeSet<usize> = shelf.drives().iter().filter_map(index).collect();
        let faulty = |drive: &usize| self.drives.fault(*drive) != Fault::None;
        let hidden = |drive: &usize| there.contains(drive) && (self.rotten.contains(drive) || faulty(drive));
        // Drives that the shelf relies on are not hit, but may have wrong pages.
        let unknown = (0..self.count).filter(hidden).count();
        let tolerates = shelf.status().tolerates;
        // It may rely on more returned drives with wrong pages than it can spare: these are not hit again.
        let counted_on = |drive: &usize| unknown > tolerates && !faulty(drive);
        let hit = |drive: &usize| !there.contains(drive) || hidden(drive) && !counted_on(drive);
        let hit = (0..self.count).filter(hit).collect();
        let most = synced.unwrap_or(tolerates).min(tolerates).saturating_sub(unknown);
        self.budget = synced.map_or(self.budget.min(most), |_| most);
        self.hit = hit;
    }
}

/// Batches, superblocks and stripes as the client knows them across crashes.
#[derive(Default)]
struct Expected {
    /// Appended batches by number; trimmed ones may still exist.
    batches: BTreeMap<u64, (Vec<u8>, Vec<u8>)>,
    /// The newest acknowledged batch.
    answered: u64,
    /// The last acknowledged superblock.
    root: Option<(u64, Vec<u8>)>,
    /// A superblock in progress.
    next_root: Option<(u64, Vec<u8>)>,
    /// Stripes of segments: content, write number, and whether a sync was acknowledged since.
    stripes: BTreeMap<(u32, u32), Stripe>,
    writes: u64,
    /// Segments of earlier incarnations, which may not be written before a discard.
    closed: BTreeSet<u32>,
    /// Segments are written after the first superblock, as the contract demands. Older seeds did not follow this.
    superblock_first: bool,
}

impl Expected {
    fn may_write(&self) -> bool {
        self.root.is_some() || !self.superblock_first
    }
}

#[derive(Clone, Copy)]
struct Stripe {
    byte: u8,
    write: u64,
    synced: bool,
}

type Answer<T> = Outcome<shelf::Result<T>>;

/// Outstanding operations.
#[derive(Default)]
struct UnderWay {
    appends: Vec<(u64, Answer<JournalPos>)>,
    root: Option<Answer<()>>,
    writes: Vec<((u32, u32), u8, Answer<()>)>,
    /// The sync with the writes acknowledged before it, and the tolerated failures at that time.
    sync: Option<(u64, usize, Answer<()>)>,
}

impl UnderWay {
    fn is_idle(&self) -> bool {
        self.appends.is_empty() && self.root.is_none() && self.writes.is_empty() && self.sync.is_none()
    }
}

/// Parameters of the shelf's incarnations.
struct Start {
    sizes: Sizes,
    /// The worlds of odd seeds are encrypted.
    key: Option<(DataKey, Envelope)>,
    salts: Random,
    formatted: bool,
    limits: raid::Limits,
}

fn sealing() -> (DataKey, Envelope) {
    let key = DataKey::new([7; KEY_BYTES]);
    let envelope = Envelope::wrap(ARRAY, &key, KeySource::File, &[8; KEY_BYTES], [9; 12]);
    (key, envelope)
}

const ARRAY: u128 = 5;

/// Runs a seed of the world.
///
/// # Errors
/// The first violation.
pub fn run(seed: u64, bounds: Bounds) -> Result<Report, String> {
    let mut random = Random::new(seed ^ 0x7368_656c);
    let count = [1, 2, 3, 4, 5, 6, 8][random.below(7) as usize];
    let drives = Drives::new(seed, &vec![DRIVE_BYTES; count]);
    let mut machine = Machine::new(seed, drives.clone());
    if bounds != Bounds::Drawn {
        machine.jobs.inline();
    }
    if bounds != Bounds::Measured {
        machine.reach = [0, 10, 100, 1000][Random::new(seed ^ 0x626f_756e).below(4) as usize];
    }
    let mut memory = Expected { superblock_first: bounds == Bounds::Drawn, ..Expected::default() };
    let mut report = Report::default();
    let chunk_bytes = Some([4 << 10, 8 << 10, 20 << 10][random.below(3) as usize]);
    let sizes = Sizes { journal_bytes: Some(256 << 10), chunk_bytes, segment_bytes: None };
    let mut faults = FaultInjector {
        drives: drives.clone(),
        count,
        budget: 0,
        hit: BTreeSet::new(),
        rotten: BTreeSet::new(),
        away: BTreeSet::new(),
        now: Duration::from_secs(1),
        patience: PATIENCE,
    };
    drives.pass(faults.now);
    let mut start = Start {
        sizes,
        key: (seed % 2 == 1).then(sealing),
        salts: Random::new(seed),
        formatted: false,
        limits: bounds::store(bounds, seed),
    };
    let crashes = 2 + random.below(6);
    while report.crashes < crashes {
        let far = [20, 60, 600, 1500, 4000][random.below(5) as usize];
        machine.crash_after(1 + random.below(far));
        if let Some(shelf) = boot(&mut machine, &mut memory, &mut start, &faults)? {
            report.operations += work(&mut machine, &mut memory, &shelf, &mut random, &mut faults)?;
        }
        machine.crash();
        report.crashes += 1;
        faults.inject_while_off(&mut random);
    }
    let opened = boot(&mut machine, &mut memory, &mut start, &faults)?;
    opened.ok_or("no crash was asked for")?;
    (report.requests, report.trace) = (drives.completed(), drives.trace());
    Ok(report)
}

/// Formats or opens, and checks the contents; `None` if the machine must crash first.
fn boot(
    machine: &mut Machine,
    memory: &mut Expected,
    start: &mut Start,
    faults: &FaultInjector,
) -> Result<Option<Arc<DriveShelf>>, String> {
    let handles = machine.drives.handles().into_iter().enumerate();
    let handles: Vec<_> =
        handles.filter(|(index, _)| !faults.away.contains(index)).map(|(_, handle)| handle).collect();
    let opening = Opening { salt: start.salts.next_u64(), key: start.key.clone() };
    let limits = start.limits;
    if !start.formatted {
        let options = FormatOptions {
            array: ARRAY,
            sizes: start.sizes,
            opening: opening.clone(),
            limits,
            ..FormatOptions::default()
        };
        let format = async move {
            if DriveShelf::is_formatted(&handles).await? {
                DriveShelf::open_with(handles, opening, limits).await
            } else {
                DriveShelf::format(handles, options).await
            }
        };
        let Some(shelf) = machine.finish(format)? else { return Ok(None) };
        let shelf = shelf.map_err(|cause| format!("formatting: {cause}"))?;
        start.formatted = true;
        let for_recovery = shelf.clone();
        let recover = async move { recover(&for_recovery, JournalPos(1)).await };
        let Some(batches) = machine.finish(recover)? else { return Ok(None) };
        let batches = batches.map_err(|cause| format!("recovery: {cause}"))?;
        return if batches.is_empty() { Ok(Some(shelf)) } else { Err("batches on a new shelf".into()) };
    }
    let Some(shelf) = machine.finish(DriveShelf::open_with(handles, opening, limits))? else {
        return Ok(None);
    };
    let shelf = shelf.map_err(|cause| format!("opening: {cause}"))?;
    let root = shelf.superblock().map(|superblock| (superblock.journal_from.0, superblock.payload.to_vec()));
    if root != memory.root && (root.is_none() || root != memory.next_root) {
        return Err(format!("superblock {root:?} instead of {:?} or {:?}", memory.root, memory.next_root));
    }
    (memory.root, memory.next_root) = (root, None);
    let from = memory.root.as_ref().map_or(1, |(from, _)| *from);
    let for_recovery = shelf.clone();
    let recovered = machine.finish(async move { recover(&for_recovery, JournalPos(from)).await })?;
    let Some(batches) = recovered else { return Ok(None) };
    let batches = batches.map_err(|cause| format!("recovery: {cause}"))?;
    check_batches(memory, from, &batches)?;
    check_stripes(machine, memory, &shelf)?;
    Ok((!machine.must_crash()).then_some(shelf))
}

async fn recover(shelf: &DriveShelf, from: JournalPos) -> shelf::Result<Vec<Batch>> {
    let (done, batches) = wait();
    shelf.recover(from, done);
    batches.await
}

fn check_batches(memory: &mut Expected, from: u64, batches: &[Batch]) -> Result<(), String> {
    for (pos, batch) in (from..).zip(batches) {
        let expected = memory.batches.get(&pos).ok_or_else(|| format!("batch {pos} was never appended"))?;
        if batch.pos.0 != pos || (&batch.head[..], &batch.body[..]) != (&expected.0[..], &expected.1[..]) {
            return Err(format!("batch {pos} is not what was appended, or came as {:?}", batch.pos));
        }
    }
    let last = from + batches.len() as u64 - 1;
    if last < memory.answered {
        return Err(format!("batch {} was answered, the journal ends at {last}", memory.answered));
    }
    // A recovered batch stays; a lost one never returns.
    memory.batches.retain(|pos, _| *pos <= last);
    memory.answered = last;
    Ok(())
}

fn check_stripes(
    machine: &mut Machine,
    memory: &mut Expected,
    shelf: &Arc<DriveShelf>,
) -> Result<(), String> {
    memory.stripes.retain(|_, stripe| stripe.synced);
    let stripe = shelf.layout().stripe_bytes;
    for ((segment, index), Stripe { byte, .. }) in memory.stripes.clone() {
        let shelf = shelf.clone();
        let read = async move {
            let (done, bytes) = wait();
            shelf.read(SegmentId(segment), index * stripe, stripe, done);
            bytes.await
        };
        let Some(read) = machine.finish(read)? else { return Ok(()) };
        if !read.map_err(|cause| cause.to_string())?.iter().all(|found| *found == byte) {
            return Err(format!("stripe {index} of segment {segment} was synced and is not there"));
        }
    }
    Ok(())
}

/// Requests operations until the machine must crash; returns the number of answers.
fn work(
    machine: &mut Machine,
    memory: &mut Expected,
    shelf: &Arc<DriveShelf>,
    random: &mut Random,
    faults: &mut FaultInjector,
) -> Result<u64, String> {
    shelf.use_workers(machine.jobs.workers());
    if random.chance(90) {
        machine.start_background(shelf.background());
    }
    memory.closed = memory.stripes.keys().map(|(segment, _)| *segment).collect();
    let unused = (0..shelf.layout().segments).filter(|segment| !memory.closed.contains(segment));
    unused.for_each(|segment| shelf.discard(SegmentId(segment)));
    let mut under_way = UnderWay::default();
    let mut answers = 0;
    let mut full = false;
    while !machine.must_crash() {
        match random.below(12) {
            0..3 if !full && under_way.appends.len() < 5 => append(memory, shelf, random, &mut under_way),
            3 if under_way.root.is_none() => {
                full = false;
                let old = memory.root.as_ref().map_or(1, |(from, _)| *from);
                let from = memory.answered + 1 - random.below(memory.answered + 2 - old);
                let payload =
                    Vec::from(random.next_u64().to_le_bytes()).repeat(1 + random.below(900) as usize);
                memory.next_root = Some((from, payload.clone()));
                let superblock = Superblock { journal_from: JournalPos(from), payload: payload.into() };
                let (done, answer) = Outcome::of_call();
                shelf.write_superblock(superblock, done);
                under_way.root = Some(answer);
            }
            4 | 5 if memory.may_write() => write(memory, shelf, random, &mut under_way),
            6 if under_way.sync.is_none() => {
                let bearable = shelf.status().tolerates;
                let (done, answer) = Outcome::of_call();
                shelf.sync(done);
                under_way.sync = Some((memory.writes, bearable, answer));
            }
            7 if random.chance(10) => {
                let segment = random.below(u64::from(shelf.layout().segments)) as u32;
                if under_way.writes.iter().all(|((busy, _), ..)| *busy != segment) {
                    memory.stripes.retain(|(of, _), _| *of != segment);
                    memory.closed.remove(&segment);
                    shelf.discard(SegmentId(segment));
                }
            }
            8 if random.below(1000) < 15 => {
                faults.count(shelf, None);
                faults.inject(random);
            }
            9 if random.chance(5) => {
                faults.pass(Duration::from_millis(random.below(3000)));
                shelf.tick(faults.now);
            }
            _ => {
                if !machine.step()? && !under_way.is_idle() {
                    if faults.patience == 0 {
                        let status = shelf.status();
                        return Err(format!("an operation never completed: {status:?}"));
                    }
                    faults.patience -= 1;
                    faults.pass(Duration::from_secs(5));
                    shelf.tick(faults.now);
                } else {
                    faults.patience = PATIENCE;
                }
            }
        }
        answers += collect(memory, &mut under_way, &mut full, shelf, faults)?;
    }
    // It tolerates less if data was placed with less parity since, for lack of space.
    faults.count(shelf, None);
    Ok(answers)
}

fn append(memory: &mut Expected, shelf: &Arc<DriveShelf>, random: &mut Random, under_way: &mut UnderWay) {
    let last = under_way.appends.last().map_or(memory.answered, |(pos, _)| *pos);
    // With equal lengths, an old batch begins exactly where a new one ends; with different ones, it begins inside.
    let head_len = if random.chance(50) { 100 } else { random.below(9000) as usize };
    let head: Vec<u8> = (0..head_len).map(|_| random.next_u64() as u8).collect();
    let mut body = AlignedBuf::zeroed(
        ALIGN * [0, random.below(4) as usize, random.below(13) as usize][random.below(3) as usize],
    );
    let len = body.len();
    body.chunks_mut(8).for_each(|word| word.copy_from_slice(&random.next_u64().to_le_bytes()));
    memory.batches.insert(last + 1, (head.clone(), body.to_vec()));
    let body = Arc::new(body);
    let pieces = (0..len / ALIGN).map(|page| body.share(page * ALIGN..(page + 1) * ALIGN)).collect();
    let (done, answer) = Outcome::of_call();
    shelf.append(Bytes::from(head), pieces, done);
    under_way.appends.push((last + 1, answer));
}

fn write(memory: &Expected, shelf: &Arc<DriveShelf>, random: &mut Random, under_way: &mut UnderWay) {
    let Layout { segments, segment_bytes, stripe_bytes, .. } = shelf.layout();
    let (segment, count) = (random.below(u64::from(segments).min(8)) as u32, segment_bytes / stripe_bytes);
    let begun =
        memory.stripes.keys().chain(under_way.writes.iter().map(|(at, ..)| at)).any(|(of, _)| *of == segment);
    if memory.closed.contains(&segment) || (!begun && shelf.room().any == 0) {
        return;
    }
    let written = |index: &u32| {
        memory.stripes.contains_key(&(segment, *index))
            || under_way.writes.iter().any(|(at, ..)| *at == (segment, *index))
    };
    let Some(index) = (0..count).find(|index| !written(index)) else { return };
    let byte = 1 + random.below(255) as u8;
    let mut stripe = AlignedBuf::zeroed(stripe_bytes as usize);
    stripe.fill(byte);
    let (done, answer) = Outcome::of_call();
    shelf.write(SegmentId(segment), index * stripe_bytes, Arc::new(stripe), done);
    under_way.writes.push(((segment, index), byte, answer));
}

/// Takes the available answers.
fn collect(
    memory: &mut Expected,
    under_way: &mut UnderWay,
    full: &mut bool,
    shelf: &DriveShelf,
    faults: &mut FaultInjector,
) -> Result<u64, String> {
    let mut answers = 0;
    let mut index = 0;
    while index < under_way.appends.len() {
        let (pos, answer) = &under_way.appends[index];
        let Some(answer) = answer.take() else {
            index += 1;
            continue;
        };
        match answer {
            Ok(answered) if answered.0 == *pos => memory.answered = memory.answered.max(*pos),
            // Answered at once, before the next request: only an append with room gets a number.
            Err(Error::JournalFull) if index + 1 == under_way.appends.len() => {
                memory.batches.remove(pos);
                *full = true;
            }
            other => return Err(format!("append {pos} was answered {other:?}")),
        }
        under_way.appends.remove(index);
        answers += 1;
    }
    if let Some(answer) = under_way.root.as_ref().and_then(Outcome::take) {
        answer.map_err(|cause| format!("superblock: {cause}"))?;
        memory.root = memory.next_root.take();
        under_way.root = None;
        answers += 1;
    }
    let mut index = 0;
    while index < under_way.writes.len() {
        let (at, byte, answer) = &under_way.writes[index];
        let Some(answer) = answer.take() else {
            index += 1;
            continue;
        };
        answer.map_err(|cause| format!("write: {cause}"))?;
        memory.writes += 1;
        memory.stripes.insert(*at, Stripe { byte: *byte, write: memory.writes, synced: false });
        under_way.writes.remove(index);
        answers += 1;
    }
    if let Some(answer) = under_way.sync.as_ref().and_then(|(.., answer)| answer.take()) {
        answer.map_err(|cause| format!("sync: {cause}"))?;
        let (covered, bearable) =
            under_way.sync.take().map_or((0, 0), |(covered, bearable, _)| (covered, bearable));
        faults.count(shelf, Some(bearable));
        let stripes = memory.stripes.values_mut().filter(|stripe| stripe.write <= covered);
        stripes.for_each(|stripe| stripe.synced = true);
        answers += 1;
    }
    Ok(answers)
}
