//! Operator actions during the check: units grow, and snapshots are taken, whose content must be that of one moment
//! between request and response.

use super::checker::Checker;
use super::history::Tick;
use super::unit::{Run, Span};
use anyhow::{Context, Result, bail, ensure};
use std::process::Child;

/// Responses between two chores.
const CHORE_INTERVAL_ANSWERS: u64 = 400;
/// Maximum number of snapshots between checks of histories.
const MAX_SNAPSHOTS: usize = 4;
/// Maximum number of growths of a unit, and blocks of each.
const MAX_GROWTHS: u32 = 4;
const GROWTH_BLOCKS: u64 = 2048;

/// Operator interface of the array under test.
pub trait Management {
    /// Resizes a unit.
    ///
    /// # Errors
    /// If the request can't be made.
    fn grow(&mut self, unit: usize, bytes: u64) -> Result<Child>;

    /// Takes a snapshot of a unit.
    ///
    /// # Errors
    /// If the request can't be made.
    fn snapshot(&mut self, unit: usize, name: &str) -> Result<Child>;

    /// Reads blocks of a snapshot, and deletes it.
    ///
    /// # Errors
    /// If it can't be read.
    fn read_snapshot(&mut self, unit: usize, name: &str, runs: &[Run]) -> Result<Vec<Vec<u8>>>;
}

/// Current and finished chores.
#[derive(Default)]
pub struct Chores {
    running: Option<(Child, Chore)>,
    taken: Vec<Taken>,
    /// Number of responses before the next chore.
    due: u64,
    count: u64,
    growths: u32,
}

enum Chore {
    Grow(usize),
    Snapshot(Taken),
}

/// A snapshot.
struct Taken {
    unit: usize,
    name: String,
    runs: Vec<Run>,
    from: Tick,
    until: Tick,
}

impl Checker {
    /// Continues the current chore, or begins one.
    pub(super) fn advance_chores(&mut self, management: &mut dyn Management) -> Result<()> {
        if let Some((child, _)) = &mut self.chores.running {
            return match child.try_wait()? {
                Some(_) => self.chore_ended(),
                None => Ok(()),
            };
        }
        if self.report.answered < self.chores.due {
            return Ok(());
        }
        self.chores.due = self.report.answered + CHORE_INTERVAL_ANSWERS;
        let units = self.units.len() as u64;
        let unit = self.seed().range(0, units) as usize;
        let begun = match self.seed().one_in(3) {
            true if self.chores.growths < MAX_GROWTHS => self.begin_growth(unit, management)?,
            _ if self.chores.taken.len() < MAX_SNAPSHOTS => self.begin_snapshot(unit, management)?,
            _ => return Ok(()),
        };
        self.chores.running = Some(begun);
        Ok(())
    }

    fn begin_growth(&mut self, index: usize, management: &mut dyn Management) -> Result<(Child, Chore)> {
        self.chores.growths += 1;
        let now = self.tick();
        let unit = &mut self.units[index];
        let blocks = unit.size.last().context("a size")? + GROWTH_BLOCKS;
        unit.grow(blocks, now);
        let bytes = blocks * u64::from(unit.block_bytes);
        Ok((management.grow(index, bytes)?, Chore::Grow(index)))
    }

    fn begin_snapshot(&mut self, unit: usize, management: &mut dyn Management) -> Result<(Child, Chore)> {
        self.chores.count += 1;
        let name = format!("check{}", self.chores.count);
        let from = self.tick();
        let known = self.units[unit].size.possible(from, from).min().context("a size")?;
        let runs = self.units[unit].areas().filter(|run| run.lba + run.blocks <= known).collect();
        let child = management.snapshot(unit, &name)?;
        Ok((child, Chore::Snapshot(Taken { unit, name, runs, from, until: Tick::MAX })))
    }

    fn chore_ended(&mut self) -> Result<()> {
        let Some((child, chore)) = self.chores.running.take() else { return Ok(()) };
        let output = child.wait_with_output()?;
        let now = self.tick();
        if !output.status.success() {
            // The result is unknown: a size stays open until the next one is confirmed, a snapshot is ignored.
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            ensure!(self.tolerates_faults(), "the array refuses: {why}");
            return Ok(());
        }
        match chore {
            Chore::Grow(unit) => {
                self.units[unit].size.settle(now);
                self.report.resized += 1;
            }
            Chore::Snapshot(taken) => self.chores.taken.push(Taken { until: now, ..taken }),
        }
        Ok(())
    }

    /// Waits for the current chore, and compares all snapshots.
    pub(super) fn finish_chores(&mut self, management: &mut dyn Management) -> Result<()> {
        self.chore_ended()?;
        for Taken { unit, name, runs, from, until } in std::mem::take(&mut self.chores.taken) {
            let data = management.read_snapshot(unit, &name, &runs)?;
            if data.len() != runs.len() {
                bail!("snapshot {name} can't be read");
            }
            let span = Span { command: from, host: 0, invoked: from, returned: until };
            for (run, data) in runs.iter().zip(data) {
                self.units[unit]
                    .record_snapshot(run.lba, span, &data)
                    .with_context(|| format!("snapshot {name}"))?;
            }
            self.report.snapshots += 1;
        }
        Ok(())
    }
}
