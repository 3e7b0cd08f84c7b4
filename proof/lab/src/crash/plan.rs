//! Operations to send, chosen by a seed, each with its expected effect on the model.

use super::model::Model;
use crate::cdb::{self, Segment};
use crate::libiscsi::{Command, Transfer};
use crate::seed::{Seed, expand};

/// A logical unit under test.
pub struct Unit {
    /// Its LUN.
    pub lun: u16,
    /// Logical block length in bytes.
    pub block_bytes: u32,
    /// Its NAA designator.
    pub naa: Vec<u8>,
    /// Possible content.
    pub model: Model,
}

/// A run of blocks of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Index of the unit.
    pub unit: usize,
    /// First block.
    pub lba: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl Run {
    fn overlaps(&self, other: &Run) -> bool {
        self.unit == other.unit && self.lba < other.lba + other.blocks && other.lba < self.lba + self.blocks
    }
}

/// Content of a run after the operation: one stamp per block.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The run.
    pub run: Run,
    /// The stamps.
    pub stamps: Vec<u64>,
}

/// Expected end of the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// GOOD; Data-In, if any, equals the model's content of this run.
    Good(Option<Run>),
    /// MISCOMPARE
    Miscompare,
}

/// An operation to be sent.
pub struct Operation {
    /// Name in the standard.
    pub name: &'static str,
    /// The command.
    pub command: Command,
    /// Changed blocks, each once.
    pub effects: Vec<Effect>,
    /// Runs that are read; no concurrent operation may write there.
    pub reads: Vec<Run>,
    /// Expected end.
    pub expected: Expected,
}

impl Operation {
    fn writes(&self) -> impl Iterator<Item = &Run> {
        self.effects.iter().map(|effect| &effect.run)
    }

    /// Whether both can be in flight together with a known result: writes may overlap.
    pub fn independent(&self, other: &Operation) -> bool {
        let clash = |reads: &[Run], writer: &Operation| {
            reads.iter().any(|read| writer.writes().any(|write| read.overlaps(write)))
        };
        !clash(&self.reads, other) && !clash(&other.reads, self)
    }
}

/// Stamps below this are repeated, so that blocks deduplicate; higher ones are used once.
const FRESH_STAMPS: u64 = 1 << 32;
const POOL_RUNS: u64 = 24;
const POOL_RUN: u64 = 1 << 16;
const LEAF_BYTES: u64 = 2 << 20;
const LONG_COPY_BYTES: u64 = 10 << 20;

/// Source of operations.
pub struct Plan {
    seed: Seed,
    fresh: u64,
    copies: u8,
}

impl Plan {
    /// The operations of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed: Seed::new(seed), fresh: FRESH_STAMPS, copies: 0 }
    }

    /// Random source for other choices of the same run.
    pub fn seed(&mut self) -> &mut Seed {
        &mut self.seed
    }

    /// The next operation, or `None` if none was possible this time.
    pub fn next(&mut self, units: &[Unit]) -> Option<Operation> {
        let unit = self.seed.range(0, units.len() as u64) as usize;
        match self.seed.range(0, 100) {
            0..45 => Some(self.write(units, unit)),
            45..55 => self.read(units, unit),
            55..65 => Some(self.unmap(units, unit)),
            65..75 => Some(self.write_same(units, unit)),
            75..87 => self.compare_and_write(units, unit),
            87..98 => self.extended_copy(units, unit),
            _ => Some(Operation {
                name: "SYNCHRONIZE CACHE",
                command: cdb::synchronize(units[unit].lun),
                effects: Vec::new(),
                reads: Vec::new(),
                expected: Expected::Good(None),
            }),
        }
    }

    /// A run of at most `max` blocks, often aligned to 4 KiB.
    fn run(&mut self, units: &[Unit], unit: usize, max: u64) -> Run {
        let (total, per_page) = (units[unit].model.blocks(), 4096 / u64::from(units[unit].block_bytes));
        let blocks = self.seed.range(1, max + 1).min(total);
        let lba = self.seed.range(0, total - blocks + 1);
        match self.seed.one_in(2) {
            true => {
                let blocks = blocks.next_multiple_of(per_page).min(total);
                Run { unit, lba: (lba / per_page * per_page).min(total - blocks), blocks }
            }
            false => Run { unit, lba, blocks },
        }
    }

    fn stamps(&mut self, blocks: u64) -> Vec<u64> {
        let first = if self.seed.one_in(3) {
            1 + self.seed.range(0, POOL_RUNS) * POOL_RUN
        } else {
            let first = self.fresh;
            self.fresh += blocks;
            first
        };
        (first..first + blocks).collect()
    }

    fn write(&mut self, units: &[Unit], unit: usize) -> Operation {
        let max = [1, 8, 16, 64, 256, 1024][self.seed.range(0, 6) as usize];
        let run = self.run(units, unit, max);
        let stamps = self.stamps(run.blocks);
        let data = content(&stamps, units[unit].block_bytes);
        let fua = self.seed.one_in(4);
        let command = cdb::write(units[unit].lun, run.lba, run.blocks as u32, fua, data);
        changes("WRITE", command, vec![Effect { run, stamps }])
    }

    fn read(&mut self, units: &[Unit], unit: usize) -> Option<Operation> {
        let run = self.run(units, unit, 256);
        certain(units, run)?;
        let command = cdb::read(units[unit].lun, run.lba, run.blocks as u32, units[unit].block_bytes);
        let expected = Expected::Good(Some(run));
        Some(Operation { name: "READ", command, effects: Vec::new(), reads: vec![run], expected })
    }

    fn unmap(&mut self, units: &[Unit], unit: usize) -> Operation {
        let count = self.seed.range(1, 5);
        let max = [8, 64, 4096][self.seed.range(0, 3) as usize];
        let runs: Vec<_> = (0..count).map(|_| self.run(units, unit, max)).collect();
        let descriptors: Vec<_> = runs.iter().map(|run| (run.lba, run.blocks as u32)).collect();
        let effects = runs.into_iter().map(|run| Effect { run, stamps: vec![0; run.blocks as usize] });
        changes("UNMAP", cdb::unmap(units[unit].lun, &descriptors), merged(effects.collect()))
    }

    fn write_same(&mut self, units: &[Unit], unit: usize) -> Operation {
        let max = [64, 2048, 8192][self.seed.range(0, 3) as usize];
        let run = self.run(units, unit, max);
        let (stamp, unmap) = match self.seed.range(0, 3) {
            0 => (self.stamps(1)[0], false),
            1 => (0, false),
            _ => (0, true),
        };
        let bare = stamp == 0 && self.seed.one_in(2);
        let block = (!bare).then(|| content(&[stamp], units[unit].block_bytes));
        let command = cdb::write_same(units[unit].lun, run.lba, run.blocks as u32, unmap, block);
        changes("WRITE SAME", command, vec![Effect { run, stamps: vec![stamp; run.blocks as usize] }])
    }

    fn compare_and_write(&mut self, units: &[Unit], unit: usize) -> Option<Operation> {
        let run = self.run(units, unit, 8);
        let run = Run { blocks: run.blocks.min(8), ..run };
        let mut compare = certain(units, run)?;
        let stamps = self.stamps(run.blocks);
        let wrong = self.seed.one_in(4);
        if wrong {
            let at = self.seed.range(0, run.blocks) as usize;
            compare[at] = self.stamps(1)[0] | 1 << 60;
        }
        let block_bytes = units[unit].block_bytes;
        let mut data = content(&compare, block_bytes);
        data.extend(content(&stamps, block_bytes));
        let command = cdb::compare_and_write(units[unit].lun, run.lba, run.blocks as u8, data);
        let (effects, expected) = match wrong {
            true => (Vec::new(), Expected::Miscompare),
            false => (vec![Effect { run, stamps }], Expected::Good(None)),
        };
        Some(Operation { name: "COMPARE AND WRITE", command, effects, reads: vec![run], expected })
    }

    fn extended_copy(&mut self, units: &[Unit], unit: usize) -> Option<Operation> {
        let block_bytes = units[unit].block_bytes;
        let leaf = LEAF_BYTES / u64::from(block_bytes);
        let peers: Vec<_> = (0..units.len()).filter(|&peer| units[peer].block_bytes == block_bytes).collect();
        let (mut effects, mut reads, mut segments): (Vec<Effect>, Vec<Run>, _) = (vec![], vec![], vec![]);
        for _ in 0..self.seed.range(1, 4) {
            let source = peers[self.seed.range(0, peers.len() as u64) as usize];
            let target = peers[self.seed.range(0, peers.len() as u64) as usize];
            // A long one exceeds the size of one change if it is not aligned.
            let most = if self.seed.one_in(8) { LONG_COPY_BYTES / u64::from(block_bytes) } else { 512 };
            let (mut from, mut to) = (self.run(units, source, most), self.run(units, target, 1));
            if self.seed.one_in(2) {
                from = Run { lba: from.lba / leaf * leaf, blocks: leaf, ..from };
                to.lba = to.lba / leaf * leaf;
            }
            to.lba = to.lba.min(units[target].model.blocks() - from.blocks);
            to.blocks = from.blocks;
            let stamps = copied(units, &effects, from)?;
            let index = |unit| peers.iter().position(|peer| *peer == unit).unwrap_or(0) as u16;
            let blocks = u16::try_from(from.blocks).ok()?;
            let (source, target) = (index(source), index(target));
            segments.push(Segment { source, source_lba: from.lba, target, target_lba: to.lba, blocks });
            reads.push(from);
            effects.push(Effect { run: to, stamps });
        }
        let names: Vec<_> = peers.iter().map(|peer| units[*peer].naa.as_slice()).collect();
        self.copies = self.copies.wrapping_add(1);
        let command = cdb::extended_copy(units[unit].lun, self.copies, &names, block_bytes, &segments);
        let (name, effects, expected) = ("EXTENDED COPY", merged(effects), Expected::Good(None));
        Some(Operation { name, command, effects, reads, expected })
    }
}

fn changes(name: &'static str, command: Command, effects: Vec<Effect>) -> Operation {
    Operation { name, command, effects, reads: Vec::new(), expected: Expected::Good(None) }
}

/// Content of blocks with these stamps.
fn content(stamps: &[u64], block_bytes: u32) -> Vec<u8> {
    let mut data = vec![0; stamps.len() * block_bytes as usize];
    for (stamp, block) in stamps.iter().zip(data.chunks_mut(block_bytes as usize)) {
        expand(*stamp, block);
    }
    data
}

/// The stamps of a run, if each block has only one possible stamp.
fn certain(units: &[Unit], run: Run) -> Option<Vec<u64>> {
    (run.lba..run.lba + run.blocks).map(|lba| units[run.unit].model.certain(lba)).collect()
}

/// The stamps of a run from the view of a later copy segment, after the writes of earlier segments.
fn copied(units: &[Unit], earlier: &[Effect], run: Run) -> Option<Vec<u64>> {
    (run.lba..run.lba + run.blocks)
        .map(|lba| {
            let here = Run { unit: run.unit, lba, blocks: 1 };
            let written = earlier.iter().rev().find(|effect| effect.run.overlaps(&here));
            match written {
                Some(effect) => Some(effect.stamps[(lba - effect.run.lba) as usize]),
                None => units[run.unit].model.certain(lba),
            }
        })
        .collect()
}

/// The same changes with each block once, from the last change.
fn merged(effects: Vec<Effect>) -> Vec<Effect> {
    let overlap = effects
        .iter()
        .enumerate()
        .any(|(at, effect)| effects[..at].iter().any(|earlier| earlier.run.overlaps(&effect.run)));
    if !overlap {
        return effects;
    }
    let last: std::collections::BTreeMap<_, _> = effects
        .iter()
        .flat_map(|Effect { run, stamps }| {
            (run.lba..).zip(stamps).map(|(lba, stamp)| ((run.unit, lba), *stamp))
        })
        .collect();
    let single = |((unit, lba), stamp)| Effect { run: Run { unit, lba, blocks: 1 }, stamps: vec![stamp] };
    last.into_iter().map(single).collect()
}

/// Bytes that a command sends, for reports.
pub fn bytes_out(command: &Command) -> usize {
    match &command.transfer {
        Transfer::Out(data) => data.len(),
        _ => 0,
    }
}
