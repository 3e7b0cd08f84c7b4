//! Execution of the checker: sends commands over all paths, keeps several in flight, and records their results.
//!
//! One thread sends and receives everything, so the order of its events is the real-time order: a response received
//! before a command was sent precedes it.

use super::history::{Action, Tick, Value};
use super::management::{Chores, Management};
use super::port::{Answer, Port, Request};
use super::reserving::Episode;
use super::unit::{Contradiction, Run, Span, Unit, content};
use crate::host::Outcome;
use crate::libiscsi::wait_for;
use crate::seed::Seed;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Maximum number of commands in flight per path.
const DEPTH: usize = 8;
/// Time without any response after which a target counts as stalled.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of one poll; operator chores are checked in between.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of printed events of an unexplained block.
const MAX_PRINTED_EVENTS: usize = 30;

/// Parameters of the checker.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of the commands.
    pub seed: u64,
    /// Paths may be lost, and commands may fail.
    pub faults: bool,
    /// Whether hosts reserve units; if so, whether registrations persist through a power loss.
    pub reservations: Option<bool>,
}

/// Counters of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Commands with a response.
    pub answered: u64,
    /// Writes and compares that took effect.
    pub changed: u64,
    /// Compares with a miscompare.
    pub differed: u64,
    /// Commands with a reservation conflict.
    pub conflicts: u64,
    /// Commands refused temporarily, and unit attentions.
    pub refused: u64,
    /// Commands without a response, or failed during fault injection.
    pub unanswered: u64,
    /// Reservations that were made and released.
    pub reservations: u64,
    /// Resizes of units.
    pub resized: u64,
    /// Snapshots that were compared.
    pub snapshots: u64,
    /// Operations on sectors that were explained.
    pub explained: u64,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} commands answered, {} changed blocks, {} compares found another value, {} unanswered, {} refused for now; \
             {} reservations with {} conflicts, {} resizes, {} snapshots: one order explains all {} operations on blocks",
            self.answered,
            self.changed,
            self.differed,
            self.unanswered,
            self.refused,
            self.reservations,
            self.conflicts,
            self.resized,
            self.snapshots,
            self.explained
        )
    }
}

/// A path, open or lost.
struct Path {
    host: usize,
    name: String,
    port: Option<Box<dyn Port>>,
}

/// A command in flight.
struct Flight {
    path: usize,
    unit: usize,
    run: Run,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Read,
    Write {
        first: Value,
    },
    Zero,
    Swap {
        from: Value,
        to: Value,
    },
    /// A step of the current reservation.
    Reservation,
}

/// The checker of some units.
pub struct Checker {
    options: Options,
    seed: Seed,
    paths: Vec<Path>,
    pub(super) units: Vec<Unit>,
    flights: BTreeMap<u64, Flight>,
    /// Descriptions of sent commands, for reports.
    sent: BTreeMap<u64, String>,
    now: Tick,
    fresh: Value,
    episode: Option<Episode>,
    /// No further reservation begins.
    closing: bool,
    pub(super) chores: Chores,
    /// Counters.
    pub report: Report,
}

impl Checker {
    /// A checker of these units, whose content is overwritten.
    pub fn new(units: Vec<Unit>, options: Options) -> Self {
        Self {
            options,
            seed: Seed::new(options.seed),
            paths: Vec::new(),
            units,
            flights: BTreeMap::new(),
            sent: BTreeMap::new(),
            now: 1,
            fresh: 1,
            episode: None,
            closing: false,
            chores: Chores::default(),
            report: Report::default(),
        }
    }

    /// Adds a path of a host; returns its number.
    pub fn add_path(&mut self, host: usize, name: impl Into<String>, port: Box<dyn Port>) -> usize {
        self.paths.push(Path { host, name: name.into(), port: Some(port) });
        self.paths.len() - 1
    }

    /// Restores a lost path.
    pub fn restore_path(&mut self, path: usize, port: Box<dyn Port>) {
        self.paths[path].port = Some(port);
    }

    /// Paths that were lost.
    pub fn lost_paths(&self) -> impl Iterator<Item = usize> + '_ {
        (0..).zip(&self.paths).filter(|(_, path)| path.port.is_none()).map(|(index, _)| index)
    }

    /// Random source for choices of the same run.
    pub fn seed(&mut self) -> &mut Seed {
        &mut self.seed
    }

    pub(super) fn tick(&mut self) -> Tick {
        self.now += 1;
        self.now
    }

    /// Writes a value to every watched block, so that all values are unique.
    ///
    /// # Errors
    /// The fault found.
    pub fn fill(&mut self) -> Result<()> {
        for unit in 0..self.units.len() {
            let runs: Vec<Run> = self.units[unit].areas().collect();
            for run in runs {
                self.send_surely(unit, run, What::Write { first: 0 })?;
            }
        }
        self.settle(None)
    }

    /// Keeps all paths busy until this many commands have a response.
    ///
    /// # Errors
    /// A violation of the standards, or a stall.
    pub fn run(&mut self, answers: u64, mut management: Option<&mut (dyn Management + '_)>) -> Result<()> {
        let goal = self.report.answered + answers;
        let mut heard = (Instant::now(), self.report.answered);
        while self.report.answered < goal {
            ensure!(self.paths.iter().any(|path| path.port.is_some()), "no path is left");
            self.fill_queues()?;
            self.advance_reservation()?;
            if let Some(management) = management.as_deref_mut() {
                self.advance_chores(management)?;
            }
            self.exchange()?;
            if heard.1 != self.report.answered {
                heard = (Instant::now(), self.report.answered);
            }
            ensure!(
                heard.0.elapsed() < STALL_TIMEOUT,
                "nothing was answered for {} s",
                STALL_TIMEOUT.as_secs()
            );
        }
        Ok(())
    }

    /// Fills all queues and sends them, so that commands of all hosts are in flight.
    ///
    /// # Errors
    /// A violation of the standards.
    pub fn load(&mut self) -> Result<()> {
        self.fill_queues()?;
        self.exchange()
    }

    /// Waits for all commands, reads every watched block and all snapshots, checks all histories, and restarts them.
    ///
    /// # Errors
    /// The first unexplained history.
    pub fn settle(&mut self, management: Option<&mut (dyn Management + '_)>) -> Result<()> {
        let start = Instant::now();
        self.closing = true;
        while self.episode.is_some() {
            self.advance_reservation()?;
            self.exchange()?;
            ensure!(start.elapsed() < STALL_TIMEOUT, "a reservation does not come to its end");
        }
        self.closing = false;
        self.drain()?;
        if let Some(management) = management {
            self.finish_chores(management)?;
        }
        for unit in 0..self.units.len() {
            let runs: Vec<Run> = self.units[unit].areas().collect();
            for run in runs {
                self.send_surely(unit, run, What::Read)?;
            }
        }
        self.check()?;
        let now = self.tick();
        self.units.iter_mut().for_each(|unit| unit.restart(now));
        self.sent.clear();
        Ok(())
    }

    /// Takes the responses of every path, and gives the paths up: commands without a response took effect or not.
    ///
    /// # Errors
    /// A violation of the standards.
    pub fn abandon(&mut self) -> Result<()> {
        let start = Instant::now();
        while !self.flights.is_empty() && self.paths.iter().any(|path| path.port.is_some()) {
            self.exchange()?;
            ensure!(start.elapsed() < STALL_TIMEOUT, "connections to a target that has gone stay open");
        }
        (0..self.paths.len()).try_for_each(|path| self.lose(path))
    }

    /// Ends the effect of commands without a response: their nexuses or the process have ended.
    pub fn fence(&mut self) {
        let now = self.tick();
        self.units.iter_mut().for_each(|unit| unit.fence(now));
    }

    /// Waits until no command is in flight.
    ///
    /// # Errors
    /// A violation of the standards, or a stall.
    pub fn drain(&mut self) -> Result<()> {
        let start = Instant::now();
        while !self.flights.is_empty() {
            self.exchange()?;
            ensure!(start.elapsed() < STALL_TIMEOUT, "{} commands are not answered", self.flights.len());
        }
        Ok(())
    }

    fn check(&mut self) -> Result<()> {
        for (index, unit) in self.units.iter().enumerate() {
            match unit.check() {
                Ok(operations) => self.report.explained += operations,
                Err(error) => {
                    if let Some(found) = error.downcast_ref::<Contradiction>() {
                        self.print(found);
                    }
                    return Err(error.context(format!("unit {index}")));
                }
            }
        }
        Ok(())
    }

    /// Prints the events of a block, in the order of responses.
    fn print(&self, found: &Contradiction) {
        let operations = found.history.operations();
        let first = operations.len().saturating_sub(MAX_PRINTED_EVENTS);
        for operation in &operations[first..] {
            let until = operation.returned.map_or("-".into(), |returned| returned.to_string());
            let what = self.sent.get(&operation.command).map_or("an earlier command", String::as_str);
            let answer = if operation.answered { "" } else { ", no answer" };
            eprintln!("  {}..{until}: {:x?}{answer}: {what}", operation.invoked, operation.action);
        }
    }

    /// Allocates new values for this many blocks; returns the first.
    fn values(&mut self, blocks: u64) -> Value {
        let first = self.fresh;
        self.fresh += blocks;
        first
    }

    fn fill_queues(&mut self) -> Result<()> {
        for path in 0..self.paths.len() {
            while self.paths[path].port.as_ref().is_some_and(|port| port.in_flight() < DEPTH) {
                let (unit, run, what) = self.choose()?;
                self.send(path, unit, run, what)?;
            }
        }
        Ok(())
    }

    /// Chooses the next command.
    fn choose(&mut self) -> Result<(usize, Run, What)> {
        let index = self.seed.range(0, self.units.len() as u64) as usize;
        let most = [1, 1, 8, 64][self.seed.range(0, 4) as usize];
        let unit = &mut self.units[index];
        let run = unit.run(&mut self.seed, most);
        let single = Run { blocks: 1, ..run };
        let (run, what) = match self.seed.range(0, 20) {
            0..8 => (run, What::Read),
            8..14 => (run, What::Write { first: self.values(run.blocks) }),
            14 if unit.take_zero(run)? => (run, What::Zero),
            // Usually few blocks, so that hosts compete for them.
            _ => {
                let area = unit.areas().next().context("no area")?;
                let lba = if self.seed.one_in(2) { area.lba + self.seed.range(0, 4) } else { single.lba };
                let from = self.units[index].last(lba)?;
                (Run { lba, blocks: 1 }, What::Swap { from, to: self.values(1) })
            }
        };
        Ok((index, run, what))
    }

    fn request(&self, unit: usize, run: Run, what: What) -> Option<Request> {
        let (Run { lba, blocks }, block_bytes) = (run, self.units[unit].block_bytes);
        Some(match what {
            What::Read => Request::Read { lba, blocks: blocks as u32 },
            What::Write { first } => {
                let data = content((0..blocks as usize).map(|at| first + at as u64), block_bytes);
                Request::Write { lba, data }
            }
            What::Zero => Request::Zero { lba, blocks: blocks as u32 },
            What::Swap { from, to } => {
                Request::CompareAndWrite { lba, data: content([from, to].into_iter(), block_bytes) }
            }
            What::Reservation => return None,
        })
    }

    fn send(&mut self, path: usize, unit: usize, run: Run, what: What) -> Result<()> {
        let request = self.request(unit, run, what).context("no command of data")?;
        self.submit((path, unit), run, what, request)
    }

    /// Sends a step of a reservation.
    pub(super) fn send_reservation(&mut self, path: usize, unit: usize, request: Request) -> Result<()> {
        self.submit((path, unit), Run { lba: 0, blocks: 0 }, What::Reservation, request)
    }

    fn submit(&mut self, (path, unit): (usize, usize), run: Run, what: What, request: Request) -> Result<()> {
        let tag = self.tick();
        let name = match &request {
            Request::Read { .. } => "READ",
            Request::Write { .. } => "WRITE",
            Request::Zero { .. } => "WRITE ZEROES",
            Request::CompareAndWrite { .. } => "COMPARE AND WRITE",
            Request::Register { .. } | Request::Reserve { .. } | Request::Release { .. } => "reservation",
        };
        let text =
            format!("{name} of blocks {} to {} by {}", run.lba, run.lba + run.blocks, self.paths[path].name);
        self.sent.insert(tag, text);
        self.flights.insert(tag, Flight { path, unit, run, what });
        let port = self.paths[path].port.as_mut().context("a path that was lost")?;
        match port.submit(tag, unit, request) {
            Ok(()) => Ok(()),
            Err(error) => self.lost(path, error),
        }
    }

    /// Repeats a command until it succeeds; a write uses new values each time.
    fn send_surely(&mut self, unit: usize, run: Run, what: What) -> Result<()> {
        let start = Instant::now();
        loop {
            let paths: Vec<usize> =
                (0..self.paths.len()).filter(|path| self.paths[*path].port.is_some()).collect();
            ensure!(!paths.is_empty(), "no path is left");
            let path = paths[self.seed.range(0, paths.len() as u64) as usize];
            let refused = (self.report.refused, self.report.unanswered);
            let what = match what {
                What::Write { .. } => What::Write { first: self.values(run.blocks) },
                other => other,
            };
            self.send(path, unit, run, what)?;
            self.drain()?;
            if refused == (self.report.refused, self.report.unanswered) {
                return Ok(());
            }
            ensure!(start.elapsed() < STALL_TIMEOUT, "a command is refused again and again");
        }
    }

    /// Sends and receives on all paths.
    pub(super) fn exchange(&mut self) -> Result<()> {
        let ports = self.paths.iter().filter_map(|path| path.port.as_ref());
        let mut polls: Vec<_> = ports.filter_map(|port| port.pollfd()).collect();
        if !polls.is_empty() {
            wait_for(&mut polls, POLL_INTERVAL)?;
        }
        let mut polls = polls.into_iter();
        for path in 0..self.paths.len() {
            let Some(port) = self.paths[path].port.as_mut() else { continue };
            let revents = match port.pollfd() {
                Some(_) => polls.next().map_or(0, |poll| poll.revents),
                None => 0,
            };
            let mut answers = Vec::new();
            let result = port.service(revents, &mut answers);
            answers.into_iter().try_for_each(|answer| self.end(answer))?;
            if let Err(error) = result {
                self.lost(path, error)?;
            }
        }
        Ok(())
    }

    fn lost(&mut self, path: usize, error: anyhow::Error) -> Result<()> {
        if !self.options.faults {
            return Err(error.context(self.paths[path].name.clone()));
        }
        self.lose(path)
    }

    fn lose(&mut self, path: usize) -> Result<()> {
        self.paths[path].port = None;
        let tags: Vec<u64> =
            self.flights.iter().filter(|(_, flight)| flight.path == path).map(|(tag, _)| *tag).collect();
        tags.into_iter().try_for_each(|tag| self.end(Answer { tag, outcome: None }))
    }

    /// Processes the end of a command.
    fn end(&mut self, Answer { tag, outcome }: Answer) -> Result<()> {
        let returned = self.tick();
        let flight = self.flights.remove(&tag).context("an answer to nothing")?;
        let Flight { path, unit, run, what } = flight;
        let span = Span { command: tag, host: self.paths[path].host, invoked: tag, returned };
        let text = |checker: &Self| checker.sent.get(&tag).cloned().unwrap_or_default();
        if let What::Reservation = what {
            return self.reservation_ended(path, outcome).with_context(|| text(self));
        }
        self.report.answered += u64::from(outcome.is_some());
        let writes = !matches!(what, What::Read);
        if let Some(outcome) = &outcome {
            let allowed = self.units[unit].check_outcome(span, run, writes, outcome);
            allowed.with_context(|| text(self))?;
        }
        let result = match outcome {
            Some(Outcome::Good(data)) => self.took_effect(unit, run, what, (span, &data)),
            Some(Outcome::Miscompare) => match what {
                What::Swap { from, .. } => {
                    self.report.differed += 1;
                    self.units[unit].record(run.lba, span, Action::Differs(from))
                }
                _ => bail!("{}: a miscompare", text(self)),
            },
            Some(Outcome::Failed(why)) if !self.options.faults => bail!("{}: {why}", text(self)),
            Some(Outcome::Failed(_)) => self.unknown(unit, run, what, (span, true)),
            None => self.unknown(unit, run, what, (span, false)),
            Some(refusal) => {
                match refusal {
                    Outcome::Conflict => self.report.conflicts += 1,
                    Outcome::OutOfRange => {}
                    _ => self.report.refused += 1,
                }
                match what {
                    What::Zero => self.units[unit].return_zero(run),
                    _ => Ok(()),
                }
            }
        };
        result.with_context(|| text(self))
    }

    fn took_effect(&mut self, unit: usize, run: Run, what: What, (span, data): (Span, &[u8])) -> Result<()> {
        self.report.changed += u64::from(!matches!(what, What::Read));
        let unit = &mut self.units[unit];
        match what {
            What::Read => {
                let (found, wanted) = (data.len() as u64, run.blocks * u64::from(unit.block_bytes));
                ensure!(found == wanted, "{found} bytes instead of {wanted}");
                unit.record_read(run.lba, span, data)
            }
            What::Write { first } => (run.lba..run.lba + run.blocks)
                .zip(first..)
                .try_for_each(|(lba, value)| unit.record(lba, span, Action::Write(value))),
            What::Zero => {
                (run.lba..run.lba + run.blocks).try_for_each(|lba| unit.record(lba, span, Action::Write(0)))
            }
            What::Swap { from, to } => unit.record(run.lba, span, Action::Swap { from, to }),
            What::Reservation => Ok(()),
        }
    }

    /// Records a command that took effect or not; `ended`: it has no effect after its span.
    fn unknown(&mut self, unit: usize, run: Run, what: What, (span, ended): (Span, bool)) -> Result<()> {
        self.report.unanswered += 1;
        let unit = &mut self.units[unit];
        let blocks = (run.lba..run.lba + run.blocks).zip(0..);
        for (lba, at) in blocks {
            let action = match what {
                What::Read | What::Reservation => continue,
                What::Write { first } => Action::Write(first + at),
                What::Zero => Action::Write(0),
                What::Swap { from, to } => Action::Swap { from, to },
            };
            unit.record_unknown(lba, span, action, ended)?;
        }
        Ok(())
    }

    /// The current reservation.
    pub(super) fn episode(&mut self) -> &mut Option<Episode> {
        &mut self.episode
    }

    /// Whether a reservation may begin now, and whether registrations persist.
    pub(super) fn may_reserve(&mut self) -> Option<bool> {
        let persistent = self.options.reservations.filter(|_| !self.closing)?;
        self.seed.one_in(50).then_some(persistent)
    }

    /// Whether the current reservation must end now.
    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether paths may be lost.
    pub(super) fn tolerates_faults(&self) -> bool {
        self.options.faults
    }

    /// Stops making reservations: the target does not support them.
    pub(super) fn give_up_reservations(&mut self) {
        self.options.reservations = None;
    }

    /// Paths of a host; `None` if one is lost.
    pub(super) fn paths_of(&self, host: usize) -> Option<Vec<usize>> {
        let paths = (0..).zip(&self.paths).filter(|(_, path)| path.host == host);
        paths.map(|(index, path)| path.port.is_some().then_some(index)).collect()
    }

    /// Number of hosts.
    pub(super) fn hosts(&self) -> usize {
        self.paths.iter().map(|path| path.host + 1).max().unwrap_or(0)
    }
}
