//! A unit under test: the sectors that are watched, each with its history, its size, and who has reserved it.

use super::history::{Action, History, Operation, Tick, Value};
use super::timeline::Timeline;
use crate::cdb::Exclusive;
use crate::host::Outcome;
use crate::seed::{Seed, expand, stamp_of};
use anyhow::{Context, Result, bail, ensure};

/// Blocks of an area: few, so that commands meet each other.
pub const AREA_BLOCKS: u64 = 96;
/// Units of data structures in arrays: areas lie across such borders.
const BORDER_BYTES: u64 = 2 << 20;

/// A host that has reserved the unit, and what others may not do.
pub type Reservation = Option<(usize, Exclusive)>;

/// Which command it was, and when.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The command.
    pub command: u64,
    /// The host that sent it.
    pub host: usize,
    /// When it was sent.
    pub invoked: Tick,
    /// When its answer came.
    pub returned: Tick,
}

/// A unit.
pub struct Unit {
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// First blocks of the areas that are watched.
    areas: Vec<u64>,
    /// Their blocks, area by area.
    sectors: Vec<Sector>,
    /// Its size in logical blocks.
    pub size: Timeline<u64>,
    /// Who has reserved it.
    pub reservation: Timeline<Reservation>,
}

struct Sector {
    history: History,
    /// The value that was seen last.
    last: Value,
    /// Zeros were written since the history began: a second time the value would not be unique.
    zeroed: bool,
}

/// Blocks of one area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first one.
    pub lba: u64,
    /// How many.
    pub blocks: u64,
}

impl Unit {
    /// A unit of this many blocks with zeros in it, until [`Unit::known`] says more.
    ///
    /// # Errors
    /// When it is too small.
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

    /// Watches one more area, which has zeros.
    fn watch(&mut self, first: u64, now: Tick) {
        self.areas.push(first);
        let sector = || Sector { history: History::new(0, now), last: 0, zeroed: true };
        self.sectors.extend((0..AREA_BLOCKS).map(|_| sector()));
    }

    /// It is asked to have this many blocks: those after the old end are watched.
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

    /// The value of a block that was seen last.
    ///
    /// # Errors
    /// When it is not watched.
    pub fn last(&mut self, lba: u64) -> Result<Value> {
        self.sector(lba).map(|sector| sector.last)
    }

    /// Whether zeros may be written to these blocks, which they then are: once in a history.
    ///
    /// # Errors
    /// When one is not watched.
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

    /// Zeros were not written to these blocks after all.
    ///
    /// # Errors
    /// When one is not watched.
    pub fn return_zero(&mut self, run: Run) -> Result<()> {
        (run.lba..run.lba + run.blocks)
            .try_for_each(|lba| self.sector(lba).map(|sector| sector.zeroed = false))
    }

    /// Records what a command that was answered did to a block.
    ///
    /// # Errors
    /// When the block is not watched.
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

    /// Records a write or a compare that took effect or not; `ended`: not after its span.
    ///
    /// # Errors
    /// When the block is not watched.
    pub fn record_unknown(&mut self, lba: u64, span: Span, action: Action, ended: bool) -> Result<()> {
        let Span { command, invoked, returned, .. } = span;
        let returned = ended.then_some(returned);
        self.sector(lba)?.history.push(Operation { command, invoked, returned, answered: false, action });
        Ok(())
    }

    /// Records what a read returned.
    ///
    /// # Errors
    /// When it is no value that a command could have written.
    pub fn record_read(&mut self, lba: u64, span: Span, data: &[u8]) -> Result<()> {
        self.values(lba, data)?
            .into_iter()
            .try_for_each(|(lba, value)| self.record(lba, span, Action::Read(value)))
    }

    /// Records what a snapshot holds, which was taken at some moment of the span.
    ///
    /// # Errors
    /// When it is no value that a command could have written.
    pub fn record_snapshot(&mut self, lba: u64, span: Span, data: &[u8]) -> Result<()> {
        let Span { command, invoked, returned, .. } = span;
        for (lba, value) in self.values(lba, data)? {
            let action = Action::Read(value);
            let returned = Some(returned);
            self.sector(lba)?.history.push(Operation { command, invoked, returned, answered: true, action });
        }
        Ok(())
    }

    /// The values of blocks.
    fn values(&self, lba: u64, data: &[u8]) -> Result<Vec<(u64, Value)>> {
        let blocks = (lba..).zip(data.chunks(self.block_bytes as usize));
        let value = |(lba, block): (u64, &[u8])| {
            let head = &block[..block.len().min(32)];
            let value = stamp_of(block);
            Ok((lba, value.with_context(|| format!("block {lba} is torn or has other data: {head:02x?}"))?))
        };
        blocks.map(value).collect()
    }

    /// Whether a command to these blocks may end like this, by the size and the reservations that there may have been.
    ///
    /// # Errors
    /// If it may not.
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

    /// Commands without an answer had their effect until now, or never will.
    pub fn fence(&mut self, now: Tick) {
        self.sectors.iter_mut().for_each(|sector| sector.history.fence(now));
    }

    /// Checks every history; returns how many operations they have.
    ///
    /// # Errors
    /// The first one that nothing explains: the block, and what happened to it.
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

    /// Begins all histories again with what was read last, when nothing is under way.
    pub fn restart(&mut self, now: Tick) {
        for sector in &mut self.sectors {
            sector.history.restart(sector.last, now);
            // An unanswered write of zeros may be among what stays.
            sector.zeroed = sector.last == 0
                || sector.history.operations().iter().any(|it| it.action == Action::Write(0));
        }
        self.size.forget(now);
        self.reservation.forget(now);
    }
}

/// A block whose history nothing explains.
#[derive(Debug)]
pub struct Contradiction {
    /// The block.
    pub lba: u64,
    /// What is wrong.
    pub why: String,
    /// What happened to it.
    pub history: History,
}

impl std::fmt::Display for Contradiction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "block {}: {}", self.lba, self.why)
    }
}

impl std::error::Error for Contradiction {}

/// The bytes of blocks with these values.
pub fn content(values: impl ExactSizeIterator<Item = Value>, block_bytes: u32) -> Vec<u8> {
    let mut data = vec![0; values.len() * block_bytes as usize];
    for (value, block) in values.zip(data.chunks_mut(block_bytes as usize)) {
        expand(value, block);
    }
    data
}
