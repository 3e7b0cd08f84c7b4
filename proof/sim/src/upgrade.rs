//! World `upgrade`: an array of an earlier release, opened by it and by this release alternately, with a commit to the
//! newest format at any moment.
//!
//! Checked: opening never changes the format; an acknowledged commit stays, and an interrupted one took effect or not;
//! the earlier release opens the old format with all later writes, and refuses the new one; notes of commands in the
//! new format agree with the content after a crash.

use crate::Report;
use crate::bounds::{self, Bounds};
use crate::machine::{Machine, Outcome};
use block::workload::Random;
use block::{Data, Disk, DiskId, Extent, Geometry, Known, Ledger, Note, Op, Sequence};
use engine::{Engine, FORMATS, Options};
use raid::{FormatOptions, Limits, Opening, Sizes};
use std::sync::Arc;
use std::time::Duration;

const ARRAY: u128 = 11;
const DISK: DiskId = DiskId(1);
const DRIVE_BYTES: u64 = 96 << 20;
/// The format of the earlier release.
const OLD: u32 = 6;
/// The format of this release.
const NEWEST: u32 = *FORMATS.end();
const BLOCK: usize = 4096;
/// Number of blocks, each with one write at a time.
const BLOCKS: u64 = 24;
/// The front end of noted writes.
const FRONT: u64 = 77;

/// State of the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Commit {
    /// It was not requested.
    None,
    /// The commit was requested, and not acknowledged.
    Begun,
    /// The commit is durable: it was acknowledged, or seen after a crash.
    Durable,
}

/// An unacknowledged write.
struct Open {
    value: u64,
    noted: Option<u64>,
    outcome: Outcome<block::Result>,
}

/// A block: its acknowledged value, and other possible ones.
#[derive(Default)]
struct Cell {
    value: u64,
    open: Option<Open>,
}

struct World {
    random: Random,
    machine: Machine,
    options: Options,
    limits: Limits,
    formatted: bool,
    lives: u64,
    commit: Commit,
    /// The last value, and the number of the last noted command.
    next: (u64, u64),
    cells: Vec<Cell>,
    report: Report,
}

/// Runs a seed.
pub fn run(seed: u64, bounds: Bounds) -> Result<Report, String> {
    let mut world = World::new(seed, bounds);
    let lives = 4 + world.random.below(4);
    for life in 0..lives {
        let far = [60, 300, 1500][world.random.below(3) as usize];
        world.machine.crash_after(1 + world.random.below(far));
        let earlier = life == 0 || world.random.chance(35);
        if let Some(engine) = world.boot(earlier)? {
            world.work(&engine)?;
        }
        world.machine.crash();
        world.report.crashes += 1;
    }
    world.machine.go_on();
    world.boot(false)?.ok_or("a machine that does not crash")?;
    world.report.requests = world.machine.completed();
    world.report.trace = world.machine.drives.trace();
    Ok(world.report)
}

impl World {
    fn new(seed: u64, bounds: Bounds) -> Self {
        let mut random = Random::new(seed ^ 0x7570_6772);
        let options = bounds::of_small_array(seed, bounds, [3; 32]);
        let machine = Machine::on_blank_drives(seed, &mut random, DRIVE_BYTES);
        Self {
            random,
            machine,
            options,
            limits: bounds::store(bounds, seed),
            formatted: false,
            lives: 0,
            commit: Commit::None,
            next: (0, 0),
            cells: (0..BLOCKS).map(|_| Cell::default()).collect(),
            report: Report::default(),
        }
    }

    /// Opens the array with one release; `None` if it must crash first, or refuses the array as it should.
    fn boot(&mut self, earlier: bool) -> Result<Option<Arc<Engine>>, String> {
        self.lives += 1;
        let opening = Opening { salt: self.lives, key: None };
        let sizes = Sizes { chunk_bytes: Some(16 << 10), segment_bytes: None, journal_bytes: Some(4 << 20) };
        let store =
            FormatOptions { array: ARRAY, sizes, opening, limits: self.limits, ..FormatOptions::default() };
        let mut options = self.options.clone();
        // Until the first release has created the array, the other one has none to open.
        let makes = !self.cells.iter().any(|cell| cell.value > 0) && self.commit == Commit::None;
        if earlier || makes {
            options.formats = OLD..=OLD;
        }
        let newest = *options.formats.end();
        let started = match self.machine.start_array(&mut self.formatted, store, options) {
            Err(why)
                if why.contains(&format!("format {NEWEST}"))
                    && newest == OLD
                    && self.commit != Commit::None =>
            {
                self.commit = Commit::Durable;
                return Ok(None);
            }
            other => other?,
        };
        let Some(engine) = started else { return Ok(None) };
        let format = engine.format();
        self.commit = match (self.commit, format) {
            (Commit::None | Commit::Begun, OLD) => Commit::None,
            (Commit::Begun | Commit::Durable, NEWEST) => Commit::Durable,
            (commit, format) => {
                return Err(format!("the array has format {format}, and its commit: {commit:?}"));
            }
        };
        self.verify(engine)
    }

    /// Checks that every block has its acknowledged value, or one of an outstanding write.
    fn verify(&mut self, engine: Arc<Engine>) -> Result<Option<Arc<Engine>>, String> {
        if engine.volume(DISK).is_none() {
            let (making, geometry) = (engine.clone(), Geometry { block_bytes: BLOCK as u32, blocks: BLOCKS });
            let made = self.machine.finish(async move { making.create_volume(DISK, geometry, 1).await })?;
            let Some(made) = made else { return Ok(None) };
            made.map_err(|cause| format!("making the volume: {cause}"))?;
        }
        let volume = engine.volume(DISK).ok_or("the volume is gone")?;
        let mut found = Vec::new();
        let reading = volume.clone();
        let read =
            self.machine.finish(async move { reading.execute(Op::Read(Extent::new(0, BLOCKS))).await })?;
        let Some(read) = read else { return Ok(None) };
        match read.map_err(|cause| format!("reading: {cause}"))? {
            block::Reply::Data(data) => found.extend_from_slice(&data.to_bytes()),
            other => return Err(format!("a read returned {other:?}")),
        }
        for (at, cell) in self.cells.iter_mut().enumerate() {
            let bytes = found.get(at * BLOCK..).and_then(|rest| rest.first_chunk::<8>());
            let value = u64::from_le_bytes(*bytes.ok_or("a short read")?);
            let open = cell.open.take();
            if value != cell.value && open.as_ref().is_none_or(|open| open.value != value) {
                return Err(format!("block {at} has {value}, and {} was acknowledged", cell.value));
            }
            if let Some(Open { value: wanted, noted: Some(number), .. }) = open {
                let known = engine.look_up(Sequence { front: FRONT, number, lowest: 0 });
                if (known == Known::Done) != (value == wanted) {
                    return Err(format!("block {at} has {value}, and the write of {wanted} is {known:?}"));
                }
            }
            cell.value = value;
        }
        Ok(Some(engine))
    }

    /// Writes blocks, and commits at some moment, until the machine crashes.
    fn work(&mut self, engine: &Arc<Engine>) -> Result<(), String> {
        let mut committing: Option<Outcome<block::Result<()>>> = None;
        let may_commit = engine.formats().contains(&NEWEST) && engine.format() == OLD;
        while !self.machine.must_crash() {
            if self.random.chance(30) {
                self.write(engine);
            }
            if may_commit && self.commit == Commit::None && self.random.chance(3) {
                let engine = engine.clone();
                committing = Some(self.machine.start(async move { engine.commit_format().await }).1);
                self.commit = Commit::Begun;
            }
            if !self.machine.step()? {
                self.machine.pass(Duration::from_millis(20));
            }
            if let Some(ended) = committing.as_ref().and_then(Outcome::take) {
                ended.map_err(|cause| format!("committing: {cause}"))?;
                if engine.format() != NEWEST {
                    return Err(format!("it was committed, and the format is {}", engine.format()));
                }
                self.commit = Commit::Durable;
                self.report.settled += 1;
            }
            self.take()?;
            if let Some(why) = engine.stopped() {
                return Err(format!("the engine has stopped: {why}"));
            }
        }
        self.take()
    }

    /// Begins a write of a block without an outstanding one.
    fn write(&mut self, engine: &Arc<Engine>) {
        let lba = self.random.below(BLOCKS);
        let cell = &mut self.cells[lba as usize];
        let Some(volume) = engine.volume(DISK).filter(|_| cell.open.is_none()) else { return };
        let (value, number) = (self.next.0 + 1, self.next.1);
        let noted = engine.notes_commands() && self.random.chance(50);
        self.next = (value, number + u64::from(noted));
        let mut bytes = vec![0; BLOCK];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        let op = Op::Write { lba, data: Data::from(bytes) };
        let sequence = Sequence { front: FRONT, number, lowest: 0 };
        let pending = match noted {
            true => volume.execute_noted(op, Note { sequence, whole: true }),
            false => volume.execute(op),
        };
        let (_, outcome) = self.machine.start(pending);
        cell.open = Some(Open { value, noted: noted.then_some(number), outcome });
    }

    /// Takes acknowledgements.
    fn take(&mut self) -> Result<(), String> {
        for cell in &mut self.cells {
            let Some(ended) = cell.open.as_ref().and_then(|open| open.outcome.take()) else { continue };
            ended.map_err(|cause| format!("writing: {cause}"))?;
            cell.value = cell.open.take().map_or(cell.value, |open| open.value);
            self.report.operations += 1;
        }
        Ok(())
    }
}
