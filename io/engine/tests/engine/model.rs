//! Random operations on an engine and on the model, with power losses between them: both always agree, and every
//! count of the engine is what a recount finds, and deleting a disk frees what was said before.

use crate::support::{Dice, MemShelf, World, each_seed, options};
use block::mem::MemArray;
use block::{CopySegment, Data, Disk, DiskId, Error, Extent, Geometry, Op, Provisioning, Region, Reply};
use engine::Options;

/// Volumes: identity, block length, MiB.
const VOLUMES: [(u128, u32, u64); 3] = [(1, 512, 6), (2, 512, 9), (3, 4096, 5)];

struct Pair {
    world: World,
    model: MemArray,
    dice: Dice,
    log: Vec<String>,
    /// Snapshots and clones: identity, and the time until they are kept.
    extras: Vec<(u128, u64)>,
    last: u128,
    now: u64,
    recompresses: bool,
}

/// Maximum number of snapshots and clones at a time.
const EXTRAS: usize = 3;

impl Pair {
    fn new(seed: u64) -> Self {
        let recompresses = seed.is_multiple_of(2);
        let mut world =
            World::open_with(MemShelf::small(), Options { recompress: recompresses, ..options() });
        let model = MemArray::new();
        for (id, block_bytes, mib) in VOLUMES {
            world.create(id, block_bytes, mib << 20);
            let blocks = (mib << 20) / u64::from(block_bytes);
            model.create(DiskId(id), Geometry { block_bytes, blocks });
        }
        let (dice, log, extras) = (Dice::new(seed), Vec::new(), Vec::new());
        Self { world, model, dice, log, extras, last: 9, now: 1, recompresses }
    }

    fn disk(&self, id: u128) -> block::mem::MemDisk {
        self.model.disk(DiskId(id)).expect("a disk of the model")
    }

    fn extent(&mut self, id: u128, most: u64) -> Extent {
        let blocks = self.disk(id).geometry().blocks;
        let per_leaf = (2 << 20) / u64::from(self.disk(id).geometry().block_bytes);
        let count = match self.dice.below(8) {
            0 => per_leaf,
            1 => 1,
            2 => 8 * (1 + self.dice.below(most / 8 + 1)),
            _ => 1 + self.dice.below(most),
        }
        .min(blocks);
        let mut lba = self.dice.below(blocks - count + 1);
        match self.dice.below(3) {
            0 => lba = lba / 8 * 8,
            1 if count == per_leaf => lba = lba / per_leaf * per_leaf,
            _ => {}
        }
        Extent::new(lba, count)
    }

    fn payload(&mut self, blocks: u64, block_bytes: u32) -> Data {
        let len = blocks as usize * block_bytes as usize;
        let mut bytes = match self.dice.below(4) {
            0 => self.dice.bytes(len),
            1 => vec![self.dice.below(3) as u8; len],
            _ => {
                let pattern = self.dice.below(20) as u8;
                (0..len).map(|at| (at / 4096) as u8 ^ pattern).collect()
            }
        };
        if self.dice.below(4) == 0 {
            bytes[..len / 2].fill(0);
        }
        let mut data = Data::new();
        let cut = [len, 512, 5000, 8192][self.dice.below(4) as usize];
        bytes.chunks(cut).for_each(|part| data.push(bytes::Bytes::copy_from_slice(part)));
        data
    }

    fn op(&mut self, id: u128) -> Op {
        let block_bytes = self.disk(id).geometry().block_bytes;
        let small = 200 * 512 / u64::from(block_bytes);
        let kind = self.dice.below(20);
        let extent = if kind < 8 { self.extent(id, small) } else { self.extent(id, small * 8) };
        let extent = if kind < 8 { Extent::new(extent.lba, extent.blocks.min(small)) } else { extent };
        match kind {
            0..=5 => Op::Write { lba: extent.lba, data: self.payload(extent.blocks, block_bytes) },
            6 => {
                let extent = Extent::new(extent.lba, extent.blocks.min(9));
                let right = self.dice.below(2) == 0;
                let compare = match self.disk(id).execute(Op::Read(extent)) {
                    block::Pending::Ready(Some(Ok(Reply::Data(data)))) if right => data,
                    _ => self.payload(extent.blocks, block_bytes),
                };
                Op::CompareAndWrite {
                    lba: extent.lba,
                    compare,
                    write: self.payload(extent.blocks, block_bytes),
                }
            }
            7 => Op::Or { lba: extent.lba, data: self.payload(extent.blocks, block_bytes) },
            8 | 9 => Op::Fill { extent, block: self.payload(1, block_bytes) },
            10..=12 => {
                let count = 1 + self.dice.below(3);
                Op::Unmap((0..count).map(|_| self.extent(id, small * 4)).collect())
            }
            13..=16 => {
                let count = 1 + self.dice.below(3);
                Op::Copy((0..count).map(|_| self.segment(block_bytes)).collect())
            }
            17 => Op::SaveState(bytes::Bytes::from(vec![7; self.dice.below(300) as usize])),
            18 => Op::Status(extent),
            _ => Op::Read(extent),
        }
    }

    fn segment(&mut self, block_bytes: u32) -> CopySegment {
        let alike: Vec<u128> = VOLUMES.iter().filter(|one| one.1 == block_bytes).map(|one| one.0).collect();
        let is_alike = |id: &u128| self.disk(*id).geometry().block_bytes == block_bytes;
        let sources: Vec<u128> = self.ids().into_iter().filter(is_alike).collect();
        let source = sources[self.dice.below(sources.len() as u64) as usize];
        let target = alike[self.dice.below(alike.len() as u64) as usize];
        let from = self.extent(source, 3000 * 512 / u64::from(block_bytes));
        let room = self.disk(target).geometry().blocks;
        let blocks = from.blocks.min(room);
        let mut target_lba = self.dice.below(room - blocks + 1);
        match self.dice.below(3) {
            0 if target_lba > 8 => target_lba = target_lba / 8 * 8 - 8 + from.lba % 8,
            1 => target_lba = from.lba.min(room - blocks),
            _ => {}
        }
        CopySegment {
            source: DiskId(source),
            source_lba: from.lba,
            target: DiskId(target),
            target_lba,
            blocks,
        }
    }

    /// Every disk there is.
    fn ids(&self) -> Vec<u128> {
        VOLUMES.iter().map(|one| one.0).chain(self.extras.iter().map(|one| one.0)).collect()
    }

    fn any(&mut self) -> u128 {
        let ids = self.ids();
        ids[self.dice.below(ids.len() as u64) as usize]
    }

    fn kept_until(&self, id: u128) -> u64 {
        self.extras.iter().find(|extra| extra.0 == id).map_or(0, |extra| extra.1)
    }

    /// One of the operations on whole disks.
    fn whole_disk_step(&mut self) {
        self.now += self.dice.below(3);
        let (engine, now, source) = (self.world.engine.clone(), self.now, self.any());
        let extra = self.extras.get(self.dice.below(EXTRAS as u64) as usize).copied();
        let kind = self.dice.below(8);
        self.log.push(format!("{kind} of {source} or {extra:?} at {now}"));
        match (kind, extra) {
            (0..=2, _) if self.extras.len() < EXTRAS => {
                self.last += 1;
                let (new, until) = (DiskId(self.last), now + self.dice.below(4));
                let made = self.model.clone_disk(DiskId(source), new);
                if kind < 2 {
                    let pairs = [(DiskId(source), new)];
                    self.world.run(engine.snapshot(&pairs, &[], now, until)).expect("a snapshot");
                    made.set_read_only(true);
                    self.extras.push((new.0, until));
                } else {
                    self.world.run(engine.clone_volume(DiskId(source), new, now)).expect("a clone");
                    made.set_read_only(false);
                    self.extras.push((new.0, 0));
                }
            }
            (3, _) => {
                let target = VOLUMES[self.dice.below(3) as usize].0;
                let alike =
                    |id| self.disk(id).geometry().block_bytes == self.disk(target).geometry().block_bytes;
                if source != target && alike(source) {
                    self.world.run(engine.restore_volume(DiskId(target), DiskId(source))).expect("restored");
                    self.disk(target).restore(DiskId(source));
                }
            }
            (4, Some((id, until))) => {
                let read_only = self.dice.below(2) == 0;
                let answer = self.world.run(engine.set_read_only(DiskId(id), read_only, now));
                match answer {
                    Ok(()) => {
                        self.disk(id).set_read_only(read_only);
                        let over = self.extras.iter_mut().filter(|extra| extra.0 == id && !read_only);
                        over.for_each(|extra| extra.1 = 0);
                    }
                    Err(Error::RetentionLocked { .. }) => assert!(until > now && !read_only),
                    Err(other) => panic!("{other:?}"),
                }
            }
            (5, Some((id, until))) => {
                let new = now + self.dice.below(3);
                match self.world.run(engine.keep_until(DiskId(id), new, now)) {
                    Ok(()) => {
                        assert!(new >= until || until <= now);
                        self.extras.iter_mut().filter(|extra| extra.0 == id).for_each(|extra| extra.1 = new);
                    }
                    Err(Error::RetentionLocked { .. }) => assert!(until > now && until > new),
                    Err(Error::Malformed(_)) => assert!(!self.disk(id).is_read_only()),
                    Err(other) => panic!("{other:?}"),
                }
            }
            (6 | 7, Some((id, _))) => self.delete(id),
            _ => {}
        }
    }

    /// Deletes a disk, now and then after a look at what comes back with it.
    fn delete(&mut self, id: u128) {
        let (engine, now, until) = (self.world.engine.clone(), self.now, self.kept_until(id));
        let exact = !self.recompresses && self.dice.below(2) == 0;
        let mut said = None;
        if exact {
            self.world.settle();
            let exclusive = self.world.run(engine.exclusive_of(&[DiskId(id)])).expect("counted");
            said = Some((exclusive, engine.space()));
        }
        match self.world.run(engine.delete_volume(DiskId(id), now)) {
            Ok(()) => {
                assert!(until <= now, "{id} was kept until {until}, and it is {now}");
                self.model.remove(DiskId(id));
                self.extras.retain(|extra| extra.0 != id);
                if let Some((exclusive, before)) = said {
                    self.world.settle();
                    let after = engine.space();
                    assert_eq!(before.unique - after.unique, exclusive.unique);
                    assert_eq!(before.physical - after.physical, exclusive.physical);
                }
            }
            Err(Error::RetentionLocked { until: kept }) => assert!(kept == until && until > now),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn step(&mut self) {
        if self.dice.below(8) == 0 {
            return self.whole_disk_step();
        }
        let id = self.any();
        let op = self.op(id);
        self.log.push(format!("{id} {op:?}"));
        let expected = match self.disk(id).execute(op.clone()) {
            block::Pending::Ready(Some(result)) => result,
            _ => panic!("the model answers at once"),
        };
        let answer = self.world.execute(id, op);
        match (&expected, &answer) {
            (Ok(Reply::Status(model)), Ok(Reply::Status(engine))) => self.compare_status(id, model, engine),
            (Ok(Reply::Data(model)), Ok(Reply::Data(engine))) => {
                assert_eq!(model.first_difference(engine), None);
            }
            (Ok(Reply::Done), Ok(Reply::Done)) => {}
            (Err(Error::ReadOnly), Err(Error::ReadOnly)) => {}
            (Err(Error::Miscompare { offset: a }), Err(Error::Miscompare { offset: b })) => assert_eq!(a, b),
            other => panic!("{other:?}"),
        }
    }

    /// What the model has mapped is mapped. The engine maps whole blocks of 4 KiB.
    fn compare_status(&self, id: u128, model: &[Region], engine: &[Region]) {
        let mapped = |regions: &[Region]| -> Vec<bool> {
            let state = |region: &Region| {
                std::iter::repeat_n(region.state == Provisioning::Mapped, region.extent.blocks as usize)
            };
            regions.iter().flat_map(state).collect()
        };
        let (model, engine) = (mapped(model), mapped(engine));
        assert_eq!(model.len(), engine.len());
        let exact = self.disk(id).geometry().block_bytes == 4096;
        let fits = |(model, engine): (&bool, &bool)| if exact { model == engine } else { !model || *engine };
        assert!(model.iter().zip(&engine).all(fits));
    }

    /// The figures of space against what the model holds, when everything has been flushed and released: logical data are
    /// exact, unique ones between the distinct blocks and all of them, and no part is larger than the whole.
    fn check_figures(&mut self) {
        let (mut logical, mut distinct) = (0, std::collections::BTreeSet::new());
        for id in self.ids() {
            let blocks = self.disk(id).geometry().blocks;
            let block::Pending::Ready(Some(Ok(Reply::Data(data)))) =
                self.disk(id).execute(Op::Read(Extent::new(0, blocks)))
            else {
                panic!("the model reads")
            };
            let bytes = data.to_bytes();
            for block in bytes.chunks(4096).filter(|block| block.iter().any(|byte| *byte != 0)) {
                logical += 4096;
                distinct.insert(block.to_vec());
            }
        }
        let space = self.world.engine.space();
        assert_eq!(space.logical(), logical, "{space:?}");
        assert_eq!(space.unique + space.shared, logical, "{space:?}");
        assert!(space.unique >= distinct.len() as u64 * 4096 && space.unique <= logical, "{space:?}");
        assert!(space.physical + space.metadata + space.reclaimable <= space.total, "{space:?}");
        assert!(space.physical + space.metadata + space.free <= space.total, "{space:?}");
        let ratios = space.ratios();
        let close = |a: Option<f64>, b: f64| a.is_some_and(|a| (a / b - 1.0).abs() < 1e-9);
        let Some((dedup, compression)) = ratios.deduplication.zip(ratios.compression) else {
            assert_eq!(space.unique, 0);
            return;
        };
        assert!(dedup >= 1.0 && dedup <= logical as f64 / (distinct.len() * 4096) as f64, "{ratios:?}");
        assert!(close(ratios.data, dedup * compression), "{ratios:?}");
        assert!(close(ratios.data, logical as f64 / space.physical as f64), "{ratios:?}");
        let thin = ratios.thin_provisioning.unwrap_or(0.0);
        assert!(thin >= 1.0 && close(ratios.total, thin * dedup * compression), "{ratios:?}");
    }

    fn compare_all(&mut self) {
        for id in self.ids() {
            let blocks = self.disk(id).geometry().blocks;
            let block::Pending::Ready(Some(Ok(Reply::Data(model)))) =
                self.disk(id).execute(Op::Read(Extent::new(0, blocks)))
            else {
                panic!("the model reads")
            };
            let engine = self.world.read(id, 0, blocks);
            let difference = model.first_difference(&engine.into());
            assert_eq!(difference, None, "volume {id}");
            assert_eq!(self.disk(id).state(), self.world.volume(id).state());
            assert_eq!(self.disk(id).is_read_only(), self.world.volume(id).is_read_only());
            let info = self.world.engine.disk(DiskId(id)).expect("it is there");
            assert_eq!(info.kept_until, self.kept_until(id));
        }
    }
}

fn run(seed: u64, rounds: u64, ops: u64) {
    let mut pair = Pair::new(seed);
    for _ in 0..rounds {
        for _ in 0..ops {
            pair.step();
            let turns = pair.dice.below(3) as usize;
            pair.world.turn(turns);
        }
        if pair.dice.below(2) == 0 {
            pair.world.settle();
            pair.check_figures();
        }
        pair.compare_all();
        pair.world.check();
        if pair.dice.below(3) > 0 {
            let mut dice = pair.dice.clone();
            pair.dice.next();
            let shelf = pair.world.shelf.crash(&mut dice);
            let bounds = Options { recompress: pair.recompresses, ..options() };
            pair = Pair { world: World::open_with(shelf, bounds), ..pair };
            pair.world.check();
            pair.compare_all();
        }
    }
}

#[test]
fn engine_and_model_agree_through_power_losses() {
    each_seed(|seed| run(seed, 6, 60));
}
