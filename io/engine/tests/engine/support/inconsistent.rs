//! A small array with some of everything in its checkpoint and in its journal, what its volumes hold, and what hosts
//! may do with it afterwards.

use super::{Dice, MemShelf, World, data, options};
use block::{CopySegment, DiskId, Error, Extent, Op, Reply};
use bytes::Bytes;
use engine::{Options, Policy};
use shelf::{Layout, Shelf};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const BLOCK: u64 = 4096;

pub const LAYOUT: Layout = Layout {
    segment_bytes: 256 << 10,
    stripe_bytes: 16 << 10,
    segments: 64,
    journal_bytes: 4 << 20,
    batch_bytes: 128 << 10,
    superblock_bytes: 4096,
};

pub fn bounds() -> Options {
    Options { slot_bytes: 8 << 20, ..options() }
}

/// The block with this name: some compress, some do not; none is zeros unless its name is.
pub fn content(name: u64) -> Vec<u8> {
    match name {
        0 => vec![0; BLOCK as usize],
        name if name % 3 == 0 => Dice::new(name).bytes(BLOCK as usize),
        name => format!("block {name}; ").into_bytes().into_iter().cycle().take(BLOCK as usize).collect(),
    }
}

/// The name of a block of which nothing is known.
const ANY: u64 = u64::MAX;

/// What the volumes hold: names of blocks by volume and block.
#[derive(Clone, Default)]
pub struct Model {
    pub volumes: BTreeMap<u128, BTreeMap<u64, u64>>,
    /// Blocks that are worth a look.
    pub seen: BTreeSet<u64>,
}

/// A world with its model.
pub struct Array {
    pub world: World,
    pub model: Model,
    dice: Dice,
}

impl Array {
    fn on(shelf: Arc<MemShelf>, model: Model, seed: u64) -> Self {
        Self { world: World::open_with(shelf, bounds()), model, dice: Dice::new(seed) }
    }

    fn create(&mut self, id: u128, block_bytes: u32, bytes: u64) {
        self.world.create(id, block_bytes, bytes);
        self.model.volumes.insert(id, BTreeMap::new());
    }

    fn logical(&self, id: u128) -> u64 {
        BLOCK / u64::from(block::Disk::geometry(&*self.world.volume(id)).block_bytes)
    }

    fn write(&mut self, id: u128, block: u64, names: &[u64]) {
        let bytes: Vec<u8> = names.iter().flat_map(|name| content(*name)).collect();
        let lba = block * self.logical(id);
        self.world.write(id, lba, &bytes);
        for (at, name) in (block..).zip(names) {
            self.note(id, at, *name);
        }
    }

    fn note(&mut self, id: u128, block: u64, name: u64) {
        self.model.seen.insert(block);
        let volume = self.model.volumes.get_mut(&id).expect("known");
        _ = if name == 0 { volume.remove(&block) } else { volume.insert(block, name) };
    }

    fn unmap(&mut self, id: u128, block: u64, count: u64) {
        let each = self.logical(id);
        self.world.execute(id, Op::Unmap(vec![Extent::new(block * each, count * each)])).expect("unmapped");
        (block..block + count).for_each(|block| self.note(id, block, 0));
    }

    fn fill(&mut self, id: u128, block: u64, count: u64, byte: u8) {
        let each = self.logical(id);
        let extent = Extent::new(block * each, count * each);
        let bytes = vec![byte; (BLOCK / each) as usize];
        self.world.execute(id, Op::Fill { extent, block: data(&bytes) }).expect("filled");
    }

    fn copy(&mut self, source: u128, from: u64, target: u128, to: u64, count: u64) {
        let each = self.logical(source);
        let segment = CopySegment {
            source: DiskId(source),
            source_lba: from * each,
            target: DiskId(target),
            target_lba: to * each,
            blocks: count * each,
        };
        self.world.execute(target, Op::Copy(vec![segment])).expect("copied");
        let names: Vec<_> = (from..from + count)
            .map(|block| self.model.volumes[&source].get(&block).copied().unwrap_or(0))
            .collect();
        (to..).zip(names).for_each(|(block, name)| self.note(target, block, name));
    }

    fn snapshot(&mut self, source: u128, id: u128) {
        let engine = self.world.engine.clone();
        self.world.run(engine.snapshot(&[(DiskId(source), DiskId(id))], &[], 1, 0)).expect("taken");
        let copy = self.model.volumes[&source].clone();
        self.model.volumes.insert(id, copy);
    }

    fn clone_volume(&mut self, source: u128, id: u128) {
        let engine = self.world.engine.clone();
        self.world.run(engine.clone_volume(DiskId(source), DiskId(id), 2)).expect("cloned");
        let copy = self.model.volumes[&source].clone();
        self.model.volumes.insert(id, copy);
    }

    fn delete(&mut self, id: u128) {
        let engine = self.world.engine.clone();
        self.world.run(engine.delete_volume(DiskId(id), 3)).expect("deleted");
        self.model.volumes.remove(&id);
    }

    fn names(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| 1 + self.dice.below(4000)).collect()
    }

    /// Writes to a volume until a checkpoint comes in between.
    fn until_checkpoint(&mut self, id: u128, from: u64) {
        let before = self.world.shelf.superblock();
        for n in 0..100 {
            let names = self.names(32);
            self.write(id, from + n * 40, &names);
            if n > 20 {
                self.world.turn(1);
            }
            if self.world.shelf.superblock() != before {
                return;
            }
        }
        panic!("no checkpoint");
    }

    fn end(self) -> (Arc<MemShelf>, Model) {
        (self.world.shelf.crash(&mut Dice::new(1)), self.model)
    }
}

/// The array.
pub fn array(seed: u64) -> (Arc<MemShelf>, Model) {
    let mut array = Array::on(MemShelf::new(LAYOUT), Model::default(), seed);
    array.create(1, 512, 2 << 30);
    array.create(2, 4096, 1 << 30);
    array.create(6, 4096, 64 << 20);
    let names = array.names(40);
    for block in [0, 700, 300_000] {
        array.write(1, block, &names);
        array.write(2, block / 2 + 5, &names[..30]);
    }
    array.write(6, 3, &names[10..]);
    for leaf in 0..5 {
        array.write(6, leaf * 512 + 100, &names[..2]);
    }
    array.fill(2, 20_000, 1200, 7);
    array.fill(1, 400_000, 600, 0);
    array.snapshot(1, 3);
    array.clone_volume(2, 4);
    let engine = array.world.engine.clone();
    array.world.run(engine.put_record("a/b", Some(Bytes::from_static(b"value")))).expect("kept");
    array.world.execute(1, Op::SaveState(Bytes::from_static(b"reservations"))).expect("saved");
    let names = array.names(8);
    array.write(1, 704, &names);
    array.world.settle();
    array.world.run(engine.shutdown()).expect("shut down");
    let (shelf, model) = array.end();

    // References to blocks of pages that are not in memory, and a checkpoint with slots that were not flushed.
    let mut array = Array::on(shelf, model, seed + 1);
    array.unmap(2, 5, 10);
    array.unmap(6, 10, 4);
    array.delete(6);
    array.world.settle();
    let names = array.names(3);
    array.write(4, 5, &names);
    array.snapshot(2, 5);
    array.until_checkpoint(2, 40_000);
    let (shelf, model) = array.end();

    // A journal after it.
    let mut array = Array::on(shelf, model, seed + 2);
    let names = array.names(12);
    array.write(2, 40_004, &names);
    array.write(1, 2, &names[3..9]);
    array.copy(2, 40_000, 4, 30_000, 20);
    array.copy(1, 512, 1, 1024, 512);
    array.create(7, 512, 16 << 20);
    array.write(7, 9, &names[..4]);
    array.snapshot(4, 8);
    array.fill(7, 512, 600, 9);
    array.unmap(2, 706 / 2 + 5, 3);
    let engine = array.world.engine.clone();
    array.world.run(engine.resize_volume(DiskId(7), 8 << 11)).expect("resized");
    array.world.run(engine.set_policy(DiskId(7), Policy { verify: true, ..Policy::default() })).expect("set");
    array.world.run(engine.put_record("a/c", Some(Bytes::from_static(b"more")))).expect("kept");
    array.world.run(engine.restore_volume(DiskId(4), DiskId(8))).expect("restored");
    if seed % 2 == 1 {
        // Stopped in good order: nothing is in the journal, and an opening loads no page.
        array.world.settle();
        array.world.run(engine.shutdown()).expect("shut down");
    }
    array.end()
}

/// What reading everything brought.
#[derive(Default, Debug)]
pub struct Seen {
    pub right: usize,
    pub lost: usize,
    /// Volume, block, and what was there instead.
    pub defects: Vec<(u128, u64, String)>,
}

fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Medium { .. } | Error::OutOfRange { .. } | Error::Deleted | Error::Stopped(_))
}

/// Reads all that is known of volumes; errors are counted, not taken amiss.
pub fn read_all(world: &mut World, model: &Model) -> Seen {
    let mut seen = Seen::default();
    let known: Vec<u64> = model.seen.iter().copied().collect();
    for (id, volume) in &model.volumes {
        let Some(disk) = world.engine.volume(DiskId(*id)) else {
            seen.lost += known.len();
            continue;
        };
        let geometry = block::Disk::geometry(&*disk);
        let (each, blocks) = (BLOCK / u64::from(geometry.block_bytes), geometry.bytes() / BLOCK);
        for run in known.chunk_by(|one, next| one + 1 == *next).flat_map(|run| run.chunks(32)) {
            let run: Vec<u64> = run.iter().copied().filter(|block| *block < blocks).collect();
            let Some(first) = run.first().copied() else { continue };
            let all = Extent::new(first * each, run.len() as u64 * each);
            if let Ok(Reply::Data(data)) = world.execute(*id, Op::Read(all)) {
                compare(&mut seen, *id, volume, first, &data.to_bytes());
                continue;
            }
            for block in run {
                match world.execute(*id, Op::Read(Extent::new(block * each, each))) {
                    Ok(Reply::Data(data)) => compare(&mut seen, *id, volume, block, &data.to_bytes()),
                    Err(error) if is_refusal(&error) => seen.lost += 1,
                    other => panic!("a read ended with {other:?}"),
                }
            }
        }
    }
    seen
}

fn compare(seen: &mut Seen, id: u128, volume: &BTreeMap<u64, u64>, first: u64, bytes: &[u8]) {
    for (block, found) in (first..).zip(bytes.chunks(BLOCK as usize)) {
        let name = volume.get(&block).copied().unwrap_or(0);
        // What was filled or cleared by a pattern is not in the model.
        if name == ANY {
            continue;
        }
        let is_pattern = found.iter().all(|byte| *byte == found[0]) && matches!(found[0], 7 | 9);
        if found == content(name) || name == 0 && is_pattern {
            seen.right += 1;
        } else {
            let text = String::from_utf8_lossy(&found[..24]).into_owned();
            seen.defects.push((id, block, format!("{text:?} instead of {name}")));
        }
    }
}

/// What hosts do: some of everything on every volume, whatever becomes of it. The model follows what was answered.
pub fn use_all(world: &mut World, model: &mut Model, seed: u64) {
    let mut dice = Dice::new(seed);
    let ids: Vec<u128> = model.volumes.keys().copied().collect();
    let known: Vec<u64> = model.seen.iter().copied().collect();
    for round in 0..3 {
        for id in &ids {
            let Some(disk) = world.engine.volume(DiskId(*id)) else { continue };
            let geometry = block::Disk::geometry(&*disk);
            let each = BLOCK / u64::from(geometry.block_bytes);
            let block: u64 = known[dice.below(known.len() as u64) as usize];
            let count = 1 + dice.below(12);
            let extent = Extent::new(block * each, count * each);
            let names: Vec<u64> = (0..count).map(|_| 5000 + dice.below(1000)).collect();
            let bytes: Vec<u8> = names.iter().flat_map(|name| content(*name)).collect();
            let op = match dice.below(6) {
                0 => Op::Unmap(vec![extent]),
                1 => Op::Copy(vec![CopySegment {
                    source: DiskId(ids[dice.below(ids.len() as u64) as usize]),
                    source_lba: 0,
                    target: DiskId(*id),
                    target_lba: block * each,
                    blocks: count * each,
                }]),
                _ => Op::Write { lba: block * each, data: bytes.into() },
            };
            let is_write = matches!(op, Op::Write { .. });
            let outcome = world.execute(*id, op);
            // What anything else left is not known.
            for (block, name) in (block..block + count).zip(names) {
                if let Some(volume) = model.volumes.get_mut(id)
                    && outcome.is_ok()
                {
                    model.seen.insert(block);
                    volume.insert(block, if is_write { name } else { ANY });
                }
            }
        }
        let engine = world.engine.clone();
        let (from, to) = (ids[dice.below(ids.len() as u64) as usize], 100 + round);
        let pairs = [(DiskId(from), DiskId(to))];
        if world.run(engine.snapshot(&pairs, &[], 9, 0)).is_ok() {
            let copy = model.volumes[&from].clone();
            model.volumes.insert(to, copy);
        }
        let gone = ids[dice.below(ids.len() as u64) as usize];
        if round == 1 && world.run(engine.delete_volume(DiskId(gone), 10)).is_ok() {
            model.volumes.remove(&gone);
        }
        world.turn(300);
    }
}
