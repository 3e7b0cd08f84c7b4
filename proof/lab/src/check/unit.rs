//! A unit under test: watched sectors with their histories, size, and reservation.

use super::history::{Action, History, Operation, Tick, Value};
use super::timeline::Timeline;
use crate::cdb::Exclusive;
use crate::host::Outcome;
use crate::seed::{Seed, expand, stamp_of};
use anyhow::{Context, Result, bail, ensure};

/// Blocks of an area: few, so that commands overlap.
pub const AREA_BLOCKS: u64 = 96;
/// Granularity of data structures in arrays: areas cross such boundaries.
const BORDER_BYTES: u64 = 2 << 20;

/// The host with the reservation, and the access that it excludes for others.
pub type Reservation = Option<(usize, Exclusive)>;

/// Identity and time of a command.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The command.
    pub command: u64,
    /// The host that sent it.
    pub host: usize,
    /// Time of sending.
    pub invoked: Tick,
    /// Time of the response.
    pub returned: Tick,
}

/// A unit.
pub struct Unit {
    /// Block length in bytes.
    pub block_bytes: u32,
    /// First blocks of the watched areas.
    areas: Vec<u64>,
    /// Blocks of the areas, area by area.
    sectors: Vec<Sector>,
    /// Size in logical blocks.
    pub size: Timeline<u64>,
    /// The reservation.
    pub reservation: Timeline<Reservation>,
}

struct Sector {
    history: History,
    /// The last observed value.
    last: Value,
    /// Whether zeros were written since the history began: a second time, the value would not be unique.
    zeroed: bool,
}

/// Blocks of one area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First block.
    pub lba: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl Unit {
    /// A unit of this many zero blocks, until [`Unit::known`] changes that.
    ///
    /// # Errors
    /// If it is too small.
    pub fn new(block_bytes: u32, blocks: u64) -> Result<Self> {
        ensure!(blocks >= 4 * AREA_BLOCKS, "{blocks} blocks are too few: {} are needed", 4 * AREA_BLOCKS);
        let border = (BORDER_BYTES / u64::from(block_bytes)).min(blocks / 2);
        let mut unit = Self {
            block_bytes,
            areas: Vec::new(),
            sectors: Vec::new(),
            size: Timeline::new(blocks),
            reservation: Timeline::new(None),
        };
        for first in [0, border - AREA_BLOCKS / 2, blocks - AREA_BLOCKS] {
            if unit.areas.last().is_none_or(|last| last + AREA_BLOCKS <= first) {
                unit.watch(first, 0);
            }
        }
        Ok(unit)
    }

    /// Watches another area, which has zeros.
    fn watch(&mut self, first: u64, now: Tick) {
        self.areas.push(first);
        let sector = || Sector { history: History::new(0, now), last: 0, zeroed: true };
        self.sectors.extend((0..AREA_BLOCKS).map(|_| sector()));
    }

    /// Notes a requested size; the blocks after the old end are watched.
    pub fn grow(&mut self, blocks: u64, now: Tick) {
        if let Some(end) = self.size.last() {
            self.watch(end, now);
        }
        self.size.begin(blocks, now);
    }

    /// The areas, as runs.
    pub fn areas(&self) -> impl Iterator<Item = Run> + '_ {
        self.areas.iter().map(|first| Run { lba: *first, blocks: AREA_BLOCKS })
    }

    /// A run of at most this many blocks in one area.
    pub fn run(&self, seed: &mut Seed, most: u64) -> Run {
        let area = self.areas[seed.range(0, self.areas.len() as u64) as usize];
        let blocks = seed.range(1, most.min(AREA_BLOCKS) + 1);
        Run { lba: area + seed.range(0, AREA_BLOCKS - blocks + 1), blocks }
    }

    fn sector(&mut self, lba: u64) -> Result<&mut Sector> {
        let area = self.areas.iter().rposition(|first| (*first..first + AREA_BLOCKS).contains(&lba));
        let area = area.context("a block that is not watched")?;
        let index = area * AREA_BLOCKS as usize + (lba - self.areas[area]) as usize;
        self.sectors.get_mut(index).context("a block that is not watched")
    }

    /// The last observed value of a block.
    ///
    /// # Errors
    /// If it is not watched.
    pub fn last(&mut self, lba: u64) -> Result<Value> {
        self.sector(lba).map(|sector| sector.last)
    }

    /// Whether zeros may be written to these blocks, once in a history; marks them as written.
    ///
    /// # Errors
    /// If one is not watched.
    pub fn take_zero(&mut self, run: Run) -> Result<bool> {
        for lba in run.lba..run.lba + run.blocks {
            if self.sector(lba)?.zeroed {
                return Ok(false);
            }
        }
        for lba in run.lba..run.lba + run.blocks {
            self.sector(lba)?.zeroed = true;
        }
        Ok(true)
    }

    /// Reverts the mark, since the zeros were not written.
    ///
    /// # Errors
    /// If one is not watched.
    pub fn return_zero(&mut self, run: Run) -> Result<()> {
        (run.lba..run.lba + run.blocks)
            .try_for_each(|lba| self.sector(lba).map(|sector| sector.zeroed = false))
    }

    /// Records the result of an answered command for a block.
    ///
    /// # Errors
    /// If the block is not watched.
    pub fn record(&mut self, lba: u64, span: Span, action: Action) -> Result<()> {
        let sector = self.sector(lba)?;
        let Span { command, invoked, returned, .. } = span;
        let returned = Some(returned);
        sector.history.push(Operation { command, invoked, returned, answered: true, action });
        if let Action::Read(value) | Action::Write(value) | Action::Swap { to: value, .. } = action {
            sector.last = value;
        }
        Ok(())
    }

    /// Records a write or compare that took effect or not; `ended`: not after its span.
    ///
    /// # Errors
    /// If the block is not watched.
    pub fn record_unknown(&mut self, lba: u64, span: Span, action: Action, ended: bool) -> Result<()> {
        let Span { command, invoked, returned, .. } = span;
        let returned = ended.then_some(returned);
        self.sector(lba)?.history.push(Operation { command, invoked, returned, answered: false, action });
        Ok(())
    }

    /// Records the result of a read.
    ///
    /// # Errors
    /// If no command could have written the value.
    pub fn record_read(&mut self, lba: u64, span: Span, data: &[u8]) -> Result<()> {
        self.values(lba, data)?
            .into_iter()
            .try_for_each(|(lba, value)| self.record(lba, span, Action::Read(value)))
    }

    /// Records the content of a snapshot, taken at some moment of the span.
    ///
    /// # Errors
    /// If no command could have written the value.
    pub fn record_snapshot(&mut self, lba: u64, span: Span, data: &[u8]) -> Result<()> {
        let Span { command, invoked, returned, .. } = span;
        for (lba, value) in self.values(lba, data)? {
            let action = Action::Read(value);
            let returned = Some(returned);
            self.sector(lba)?.history.push(Operation { command, invoked, returned, answered: true, action });
        }
        Ok(())
    }

    /// Values of blocks.
    fn values(&self, lba: u64, data: &[u8]) -> Result<Vec<(u64, Value)>> {
        let blocks = (lba..).zip(data.chunks(self.block_bytes as usize));
        let value = |(lba, block): (u64, &[u8])| {
            let head = &block[..block.len().min(32)];
            let value = stamp_of(block);
            Ok((lba, value.with_context(|| format!("block {lba} is torn or has other data: {head:02x?}"))?))
        };
        blocks.map(value).collect()
    }

    /// Checks the outcome of a command against the possible sizes and reservations.
    ///
    /// # Errors
    /// If the outcome is impossible.
    pub fn check_outcome(&self, span: Span, run: Run, writes: bool, outcome: &Outcome) -> Result<()> {
        let Span { host, invoked, returned, .. } = span;
        let end = run.lba + run.blocks;
        let excludes = |it: Reservation| {
            it.is_some_and(|(holder, kind)| holder != host && (writes || kind == Exclusive::Access))
        };
        let (mut within, mut beyond) = (false, false);
        for blocks in self.size.possible(invoked, returned) {
            within |= end <= blocks;
            beyond |= end > blocks;
        }
        let (mut free, mut excluded) = (false, false);
        for reservation in self.reservation.possible(invoked, returned) {
            free |= !excludes(reservation);
            excluded |= excludes(reservation);
        }
        match outcome {
            Outcome::Good(_) | Outcome::Miscompare if !free => {
                bail!("host {host} was not excluded while another one has reserved the unit")
            }
            Outcome::Good(_) | Outcome::Miscompare if !within => {
                bail!("blocks up to {end} are accessible beyond the end of the unit")
            }
            Outcome::Conflict if !excluded => {
                bail!("a reservation conflict, and no other host has reserved the unit")
            }
            Outcome::OutOfRange if !beyond => {
                bail!("blocks up to {end} are out of range, and the unit has them")
            }
            _ => Ok(()),
        }
    }

    /// Ends the possible effect of commands without a response.
    pub fn fence(&mut self, now: Tick) {
        self.sectors.iter_mut().for_each(|sector| sector.history.fence(now));
    }

    /// Checks every history; returns the number of operations.
    ///
    /// # Errors
    /// The first unexplained history: the block and its events.
    pub fn check(&self) -> Result<u64> {
        let mut operations = 0;
        for (index, sector) in self.sectors.iter().enumerate() {
            let lba = self.areas[index / AREA_BLOCKS as usize] + index as u64 % AREA_BLOCKS;
            operations += sector.history.operations().len() as u64;
            if let Err(why) = sector.history.check() {
                return Err(
                    Contradiction { lba, why: why.to_string(), history: sector.history.clone() }.into()
                );
            }
        }
        Ok(operations)
    }

    /// Restarts all histories with the last read values, when nothing is in flight.
    pub fn restart(&mut self, now: Tick) {
        for sector in &mut self.sectors {
            sector.history.restart(sector.last, now);
            // An unanswered write of zeros may remain.
            sector.zeroed = sector.last == 0
                || sector.history.operations().iter().any(|it| it.action == Action::Write(0));
        }
        self.size.forget(now);
        self.reservation.forget(now);
    }
}

/// A block with an unexplained history.
#[derive(Debug)]
pub struct Contradiction {
    /// The block.
    pub lba: u64,
    /// Reason.
    pub why: String,
    /// Events of the block.
    pub history: History,
}

impl std::fmt::Display for Contradiction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "block {}: {}", self.lba, self.why)
    }
}

impl std::error::Error for Contradiction {}

/// Content of blocks with these values.
pub fn content(values: impl ExactSizeIterator<Item = Value>, block_bytes: u32) -> Vec<u8> {
    let mut data = vec![0; values.len() * block_bytes as usize];
    for (value, block) in values.zip(data.chunks_mut(block_bytes as usize)) {
        expand(value, block);
    }
    data
}
