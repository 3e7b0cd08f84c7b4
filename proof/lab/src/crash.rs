//! Crash test: repeated kill -9 of the running array, during operations whose acknowledgements are recorded. After each
//! kill, the drives must be consistent (`ashlard check`). After each restart, every block of every unit is read:
//! acknowledged writes must exist, others may, and no logical block is torn. At the same time, an operator takes,
//! restores, clones and deletes snapshots of all units.
//!
//! Each cycle draws its conditions: sessions, queue depth, the number of threads that compete for processors, a single
//! processor for the array, and an idle time before the kill. These vary the interleavings of the array's threads.

mod model;
mod operator;
mod plan;
mod starve;

use crate::array::{Array, Drives, Programs};
use crate::cdb;
use crate::libiscsi::{Completion, Ending, Libiscsi, Login, Session, wait};
use crate::real::make_ready;
use crate::scratch::Scratch;
use crate::seed::{Seed, stamp_of};
use crate::target::{Shape, Target};
use anyhow::{Context, Result, bail};
use model::{Model, Tick};
use operator::Operator;
use plan::{Expected, Operation, Plan, Run, Unit};
use starve::BusyThreads;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Length and seed of the test.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of kills.
    pub cycles: u64,
    /// Store options of `ashlard`.
    pub store: Vec<String>,
    /// Seed of the commands and of the time of the kill, as far as the array's responses allow.
    pub seed: u64,
}

/// Counters of the test.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Number of survived kills.
    pub cycles: u64,
    /// Modifying operations that ended with GOOD.
    pub acknowledged: u64,
    /// Operations in flight at the time of a kill.
    pub unanswered: u64,
    /// Operator commands with a response.
    pub chores: u64,
    /// Kills while other threads kept the processors busy, or with one processor for the array.
    pub starved: u64,
    /// Kills of an idle array.
    pub idle: u64,
    /// Blocks compared after restarts.
    pub verified: u64,
    /// Maximum time from start to serving.
    pub slowest_start: Duration,
}

const INITIATOR: &str = "iqn.2001-04.org.example:crash";
/// The last one has many times more map pages than a checkpoint takes under one lock.
const SHAPES: [Shape; 5] = [
    Shape { bytes: 48 << 20, block_bytes: 512 },
    Shape { bytes: 48 << 20, block_bytes: 512 },
    Shape { bytes: 48 << 20, block_bytes: 4096 },
    Shape { bytes: 20 << 20, block_bytes: 4096 },
    Shape { bytes: 384 << 20, block_bytes: 4096 },
];
/// Commands in flight during the verification after a restart.
const VERIFY_DEPTH: usize = 16;
/// Maximum number of printed events of a wrong block.
const MAX_PRINTED_EVENTS: usize = 40;
const VERIFY_BYTES: u32 = 256 << 10;
/// Time limit for the load of one cycle.
const LOAD_LIMIT: Duration = Duration::from_secs(60);

/// Runs the cycles in a folder below `parent`; the first fault ends the test and keeps the folder.
pub fn run(programs: &Programs, parent: &Path, options: Options) -> Result<Report> {
    let scratch = Scratch::new(parent, "crash")?;
    let result = World::new(programs, scratch.path(), &options).and_then(|mut world| {
        for cycle in 0..options.cycles {
            world.cycle(cycle).with_context(|| format!("cycle {cycle} of seed {}", options.seed))?;
        }
        Ok(world.report)
    });
    scratch.end(result)
}

/// Conditions of one cycle.
#[derive(Clone, Copy, Debug)]
struct Conditions {
    sessions: u32,
    /// Commands in flight per session.
    depth: usize,
    /// Responses before the kill.
    answers: u64,
    /// Threads that compete for the processors.
    busy_threads: u64,
    /// Time without commands before the kill.
    idle: Option<Duration>,
}

impl Conditions {
    fn draw(seed: &mut Seed) -> Self {
        let small = seed.one_in(2);
        Self {
            sessions: [1, 2, 2, 4, 8][seed.range(0, 5) as usize],
            depth: [1, 4, 16, 32][seed.range(0, 4) as usize],
            answers: seed.range(1, if small { 200 } else { 3000 }),
            busy_threads: [0, 0, 2, 3, 6][seed.range(0, 5) as usize],
            idle: seed.one_in(5).then(|| Duration::from_millis(seed.range(0, 3000))),
        }
    }
}

struct World {
    library: Rc<Libiscsi>,
    array: Array,
    units: Vec<Unit>,
    plan: Plan,
    now: Tick,
    in_flight: BTreeMap<Tick, Operation>,
    history: Vec<Event>,
    operator: Operator,
    report: Report,
}

/// An event, for the report of a fault.
#[derive(Clone, Copy, Debug)]
enum Event {
    Sent { at: Tick, name: &'static str, run: Run, first_stamp: u64 },
    Answered { sent: Tick, at: Tick },
    Killed { at: Tick },
    Stopped { at: Tick },
    KilledStarting { at: Tick },
    Verified { at: Tick },
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Event::Sent { at, name, run: Run { lba, blocks, .. }, first_stamp } => {
                write!(f, "{at:#x}: {name} of {blocks} blocks from {lba}, stamps from {first_stamp:#x}")
            }
            Event::Answered { sent, at } => write!(f, "{at:#x}: {sent:#x} is answered"),
            Event::Killed { at } => write!(f, "{at:#x}: kill -9"),
            Event::Stopped { at } => write!(f, "{at:#x}: stopped"),
            Event::KilledStarting { at } => write!(f, "{at:#x}: kill -9 while it starts"),
            Event::Verified { at } => write!(f, "{at:#x}: everything read and found right"),
        }
    }
}

impl Options {
    /// Kills of an array on file-backed drives.
    pub fn new(cycles: u64, seed: u64) -> Self {
        Self { cycles, store: Drives { count: 4, bytes: 1 << 30 }.arguments(), seed }
    }
}

impl World {
    fn new(programs: &Programs, folder: &Path, options: &Options) -> Result<Self> {
        let library = Libiscsi::load()?;
        let mut array = Array::start_on(programs, folder, options.store.clone(), None)?;
        let luns = array.fresh(&SHAPES, &[INITIATOR])?;
        let mut session = login(&library, &array, 0)?;
        let units = luns.iter().zip(SHAPES).map(|(lun, shape)| unit(&mut session, *lun, shape));
        let units = units.collect::<Result<_>>()?;
        let plan = Plan::new(options.seed);
        let (in_flight, history, operator) = (BTreeMap::new(), Vec::new(), Operator::default());
        let report = Report::default();
        let mut world = Self { library, array, units, plan, now: 0, in_flight, history, operator, report };
        world.found_group()?;
        Ok(world)
    }

    /// One cycle: load, kill, check of the drives, restart, verification.
    fn cycle(&mut self, cycle: u64) -> Result<()> {
        let conditions = Conditions::draw(self.plan.seed());
        let starved = conditions.busy_threads > 0 || self.array.core().is_some();
        let busy = BusyThreads::start(conditions.busy_threads);
        let mut sessions = (0..conditions.sessions)
            .map(|session| login(&self.library, &self.array, session))
            .collect::<Result<Vec<_>>>()?;
        self.load(&mut sessions, conditions)?;
        if let Some(idle) = conditions.idle {
            self.idle(&mut sessions, idle)?;
        }
        let at = self.now;
        if self.plan.seed().one_in(10) {
            self.array.stop()?;
            self.history.push(Event::Stopped { at });
        } else {
            self.array.kill()?;
            self.history.push(Event::Killed { at });
        }
        drop(busy);
        self.drain(sessions)?;
        self.abandon()?;
        self.report.unanswered += self.in_flight.len() as u64;
        let unanswered = std::mem::take(&mut self.in_flight).len();
        self.array.check().context("what is on the drives")?;
        self.restart()?;
        self.verify()?;
        self.inspect().context("snapshots")?;
        self.history.push(Event::Verified { at: self.now });
        self.report.cycles += 1;
        self.report.starved += u64::from(starved);
        self.report.idle += u64::from(conditions.idle.is_some());
        if cycle % 10 == 9 {
            eprintln!("cycle {}: {conditions:?}, then {unanswered} in flight; {:?}", cycle + 1, self.report);
        }
        Ok(())
    }

    /// Keeps the queues full until this many operations have a response.
    fn load(&mut self, sessions: &mut [Session], conditions: Conditions) -> Result<()> {
        let (start, goal) = (Instant::now(), self.report.acknowledged + conditions.answers);
        while self.report.acknowledged < goal && start.elapsed() < LOAD_LIMIT {
            for session in &mut *sessions {
                while session.in_flight() < conditions.depth {
                    self.send(session)?;
                }
            }
            self.operate()?;
            self.take_answers(sessions)?;
        }
        self.array.check_alive()
    }

    /// Waits for all responses, then leaves the array idle.
    fn idle(&mut self, sessions: &mut [Session], time: Duration) -> Result<()> {
        let start = Instant::now();
        while sessions.iter().any(|session| session.in_flight() > 0) && start.elapsed() < LOAD_LIMIT {
            self.take_answers(sessions)?;
        }
        std::thread::sleep(time);
        self.array.check_alive()
    }

    /// Takes the responses of one second.
    fn take_answers(&mut self, sessions: &mut [Session]) -> Result<()> {
        let mut polls: Vec<_> = sessions.iter().map(Session::pollfd).collect();
        wait(&mut polls, 1000)?;
        for (session, poll) in sessions.iter_mut().zip(polls) {
            let ended = session.service(poll.revents).context("while the array should be running")?;
            ended.into_iter().try_for_each(|completion| self.end(completion, true))?;
        }
        Ok(())
    }

    fn send(&mut self, session: &mut Session) -> Result<()> {
        let operation = loop {
            let Some(operation) = self.plan.next(&self.units) else { continue };
            if self.in_flight.values().all(|other| other.independent(&operation)) {
                break operation;
            }
        };
        let command = operation.command.clone();
        let tag = self.sent(operation);
        session.submit(tag, command)
    }

    /// Notes the sending of an operation.
    fn sent(&mut self, operation: Operation) -> Tick {
        self.now += 1;
        for effect in &operation.effects {
            for model in models(&mut self.units, &mut self.operator, effect.run.unit) {
                (effect.run.lba..).zip(&effect.stamps).for_each(|(lba, it)| model.send(lba, *it, self.now));
            }
            let (run, first_stamp) = (effect.run, effect.stamps.first().copied().unwrap_or(0));
            self.history.push(Event::Sent { at: self.now, name: operation.name, run, first_stamp });
        }
        self.in_flight.insert(self.now, operation);
        self.now
    }

    /// Processes the end of an operation. While the array runs, each must have a response.
    fn end(&mut self, completion: Completion, running: bool) -> Result<()> {
        let Completion { tag, ending } = completion;
        if ending == Ending::Unanswered && !running {
            return Ok(());
        }
        let operation = self.in_flight.remove(&tag).context("an answer to nothing")?;
        let what = || {
            let (name, out) = (operation.name, plan::bytes_out(&operation.command));
            format!(
                "{name} to LUN {}, CDB {:02x?}, {out} bytes out",
                operation.command.lun, operation.command.cdb
            )
        };
        match (&operation.expected, ending) {
            (Expected::Miscompare, Ending::Check { key: 0x0e, .. }) => {}
            (Expected::Good(None), Ending::Good(_)) => self.acknowledge(tag, &operation),
            (Expected::Good(Some(run)), Ending::Good(data)) => {
                self.compare(run.unit, run.lba, &data, false).with_context(what)?;
            }
            // A stop was requested: units report it while they go down, and the command had no effect.
            (_, Ending::Check { key: 2, .. } | Ending::Status(_)) if !running => self.refuse(tag, &operation),
            // After a restore, every nexus gets a unit attention (medium may have changed); the command was not
            // executed.
            (_, Ending::Check { key: 6, code: 0x2800 }) if self.operator.has_restored() => {
                self.refuse(tag, &operation);
            }
            (expected, ending) => bail!("{} ended with {ending:?} instead of {expected:?}", what()),
        }
        Ok(())
    }

    fn acknowledge(&mut self, sent: Tick, operation: &Operation) {
        self.now += 1;
        self.history.push(Event::Answered { sent, at: self.now });
        for effect in &operation.effects {
            for model in models(&mut self.units, &mut self.operator, effect.run.unit) {
                (effect.run.lba..effect.run.lba + effect.run.blocks)
                    .for_each(|lba| model.answer(lba, sent, self.now));
            }
        }
        self.report.acknowledged += u64::from(!operation.effects.is_empty());
    }

    fn refuse(&mut self, sent: Tick, operation: &Operation) {
        for effect in &operation.effects {
            for model in models(&mut self.units, &mut self.operator, effect.run.unit) {
                (effect.run.lba..effect.run.lba + effect.run.blocks).for_each(|lba| model.refuse(lba, sent));
            }
        }
    }

    /// Takes the responses in transit at the time of the kill: the host received them, so they count.
    fn drain(&mut self, sessions: Vec<Session>) -> Result<()> {
        for mut session in sessions {
            while session.in_flight() > 0 {
                let mut poll = [session.pollfd()];
                wait(&mut poll, 1000)?;
                let lost = session.service(poll[0].revents);
                let ended = lost.as_ref().map_or_else(|_| session.ended(), |ended| ended.clone());
                ended.into_iter().try_for_each(|completion| self.end(completion, false))?;
                if lost.is_err() || poll[0].revents & (libc::POLLHUP | libc::POLLERR) != 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Restarts the array; sometimes it is killed during the start.
    fn restart(&mut self) -> Result<()> {
        let one_processor = self.plan.seed().one_in(4);
        self.array.set_core(one_processor.then_some(0));
        while self.plan.seed().one_in(5) {
            self.array.restart_unattended()?;
            std::thread::sleep(Duration::from_millis(self.plan.seed().range(0, 150)));
            self.array.kill()?;
            self.history.push(Event::KilledStarting { at: self.now });
        }
        let start = Instant::now();
        self.array.restart().context("the array does not come back")?;
        self.report.slowest_start = self.report.slowest_start.max(start.elapsed());
        Ok(())
    }

    /// Reads all units and compares them with the model.
    fn verify(&mut self) -> Result<()> {
        let mut session = login(&self.library, &self.array, 0)?;
        for index in 0..self.units.len() {
            let unit = &self.units[index];
            let (lun, block_bytes, blocks) = (unit.lun, unit.block_bytes, unit.model.blocks());
            read_all(&mut session, lun, block_bytes, blocks, |first, data| {
                self.compare(index, first, data, true)
            })?;
        }
        Ok(())
    }

    /// Compares read data with the model; if nothing is in flight, the model adopts the read data.
    fn compare(&mut self, index: usize, first: u64, data: &[u8], settle: bool) -> Result<()> {
        let unit = &mut self.units[index];
        let mut wrong = Vec::new();
        for (lba, block) in (first..).zip(data.chunks(unit.block_bytes as usize)) {
            match stamp_of(block) {
                Some(stamp) if unit.model.allows(lba, stamp) => {
                    if settle {
                        unit.model.settle(lba, stamp);
                        self.report.verified += 1;
                    }
                }
                Some(stamp) => wrong.push((lba, format!("{stamp:#x}"))),
                None => wrong.push((lba, format!("a torn block {:02x?}", &block[..32]))),
            }
        }
        let Some((lba, found)) = wrong.first() else { return Ok(()) };
        let (lun, count, expected) = (unit.lun, wrong.len(), unit.model.describe(*lba));
        self.print_history(index, *lba);
        bail!("LUN {lun}: {count} wrong blocks from {lba} on: may hold {expected}, holds {found}")
    }

    /// Prints the history of a block, oldest first.
    fn print_history(&self, unit: usize, lba: u64) {
        let mut touching = std::collections::BTreeSet::new();
        let events = self.history.iter().filter(|event| match event {
            Event::Sent { at, run, .. } => {
                let touches = run.unit == unit && run.lba <= lba && lba < run.lba + run.blocks;
                if touches {
                    touching.insert(*at);
                }
                touches
            }
            Event::Answered { sent, .. } => touching.contains(sent),
            _ => true,
        });
        let events: Vec<_> = events.collect();
        events.iter().rev().take(MAX_PRINTED_EVENTS).rev().for_each(|event| eprintln!("  {event}"));
    }
}

/// All models of a unit: its own, and those of snapshots in progress.
fn models<'a>(
    units: &'a mut [Unit],
    operator: &'a mut Operator,
    unit: usize,
) -> impl Iterator<Item = &'a mut Model> {
    std::iter::once(&mut units[unit].model).chain(operator.models(unit))
}

/// Reads a whole unit; passes data with its first block, in any order.
fn read_all(
    session: &mut Session,
    lun: u16,
    block_bytes: u32,
    blocks: u64,
    mut take: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let step = VERIFY_BYTES / block_bytes;
    let mut next = 0;
    while next < blocks || session.in_flight() > 0 {
        while next < blocks && session.in_flight() < VERIFY_DEPTH {
            let count = u64::from(step).min(blocks - next) as u32;
            session.submit(next, cdb::read(lun, next, count, block_bytes))?;
            next += u64::from(count);
        }
        let mut poll = [session.pollfd()];
        wait(&mut poll, 1000)?;
        for completion in session.service(poll[0].revents)? {
            let Ending::Good(data) = completion.ending else {
                bail!("LUN {lun}, reading at {}: {:?}", completion.tag, completion.ending);
            };
            take(completion.tag, &data)?;
        }
    }
    Ok(())
}

fn login(library: &Rc<Libiscsi>, array: &Array, session: u32) -> Result<Session> {
    let portals = array.portals();
    let portal = portals[session as usize % portals.len()].to_string();
    let (target, header_digest) = (array.iqn(), session % 2 == 1);
    let login = Login { initiator: INITIATOR, portal: &portal, target, lun: 1, session, header_digest };
    let mut session = Session::login(library, login)?;
    for lun in (1..).take(SHAPES.len()) {
        make_ready(&mut session, lun)?;
    }
    Ok(session)
}

fn unit(session: &mut Session, lun: u16, shape: Shape) -> Result<Unit> {
    let Ending::Good(page) = session.perform(cdb::inquiry_identification(lun))? else {
        bail!("LUN {lun} does not answer INQUIRY");
    };
    let naa = cdb::naa(&page).with_context(|| format!("LUN {lun} has no NAA designator"))?;
    let model = Model::new(shape.bytes / u64::from(shape.block_bytes));
    Ok(Unit { lun, block_bytes: shape.block_bytes, naa, model })
}

/// A new seed, from the clock.
pub fn new_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Seed::new(now.as_nanos() as u64).bits() >> 32
}
