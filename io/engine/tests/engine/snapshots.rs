//! Snapshots: one moment for all disks of a group, kept apart from what comes after, whatever is deleted in whatever
//! order, and never half there.

use crate::support::{Dice, MemShelf, World, data};
use block::{CopySegment, Disk, DiskId, Error, Extent, Op, Provisioning, Region, Reply};
use bytes::Bytes;
use engine::{DiskInfo, Engine};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

fn snapshot(world: &mut World, pairs: &[(u128, u128)]) -> block::Result<()> {
    let pairs: Vec<_> = pairs.iter().map(|(source, id)| (DiskId(*source), DiskId(*id))).collect();
    let engine = world.engine.clone();
    world.run(async move { engine.snapshot(&pairs, &[], 100, 0).await }).map(drop)
}

fn restore(world: &mut World, id: u128, source: u128) -> block::Result<()> {
    let engine = world.engine.clone();
    world.run(async move { engine.restore_volume(DiskId(id), DiskId(source)).await })
}

fn delete(world: &mut World, id: u128) -> block::Result<()> {
    let engine = world.engine.clone();
    world.run(async move { engine.delete_volume(DiskId(id), 100).await })
}

fn set_read_only(world: &mut World, id: u128, read_only: bool, now: u64) -> block::Result<()> {
    let engine = world.engine.clone();
    world.run(async move { engine.set_read_only(DiskId(id), read_only, now).await })
}

/// Everything that differs, asked for in answers of at most `most` runs.
fn diff(world: &mut World, old: Option<u128>, new: u128, most: usize) -> Vec<Region> {
    let (engine, mut regions, mut next) = (world.engine.clone(), Vec::<Region>::new(), Some(0));
    while let Some(from) = next {
        let engine = engine.clone();
        let part = async move { engine.diff(old.map(DiskId), DiskId(new), from, most).await };
        let part = world.run(part).expect("compared");
        assert!(part.regions.len() <= most && part.next.is_none_or(|next| next > from));
        next = part.next;
        for region in part.regions {
            match regions.last_mut() {
                Some(last) if last.extent.end() == Some(region.extent.lba) && last.state == region.state => {
                    last.extent.blocks += region.extent.blocks;
                }
                _ => regions.push(region),
            }
        }
    }
    regions
}

#[test]
fn a_snapshot_stays_as_it_was_and_a_restore_brings_it_back() {
    let mut dice = Dice::new(1);
    let mut world = World::open(MemShelf::small());
    world.create(1, 512, 8 << 20);
    let first = dice.bytes(3 << 20);
    for (lba, part) in (0..).step_by(512).zip(first.chunks(256 << 10)) {
        world.write(1, lba, part);
    }
    world.execute(1, Op::SaveState(Bytes::from_static(b"keys"))).unwrap();
    snapshot(&mut world, &[(1, 2)]).expect("taken");
    world.write(1, 5, &dice.bytes(100 << 10));
    world.execute(1, Op::Unmap(vec![Extent::new(4000, 3000)])).unwrap();
    assert_eq!(world.read(2, 0, 6144), first);
    assert_eq!(world.volume(2).state(), "", "the state belongs to the volume");
    let info = world.engine.disk(DiskId(2)).expect("listed");
    assert_eq!((info.parent, info.origin, info.created), (Some(DiskId(1)), Some(DiskId(1)), 100));
    assert!(info.snapshot && info.read_only && world.volume(2).is_read_only());
    let mut world = world.crash(&mut dice);
    assert_eq!(world.read(2, 0, 6144), first);
    let engine = world.engine.clone();
    world.run(engine.resize_volume(DiskId(1), 30_000)).expect("grown");
    restore(&mut world, 1, 2).expect("restored");
    assert_eq!(world.volume(1).geometry().blocks, 16_384, "the size comes back too");
    assert_eq!(world.read(1, 0, 6144), first);
    assert_eq!(world.volume(1).state(), "keys");
    world.write(1, 0, &[9; 512]);
    assert_eq!(world.read(2, 0, 6144), first, "and the snapshot still stays");
    let mut world = world.crash(&mut dice);
    assert_eq!(world.read(1, 0, 2), [&[9; 512], &first[512..1024]].concat());
    drop(engine);
    world.settle();
    world.check();
}

#[test]
fn a_snapshot_takes_no_changes_until_it_is_made_writable() {
    let mut world = World::open(MemShelf::small());
    world.create(1, 512, 1 << 20);
    world.write(1, 0, &[1; 4096]);
    snapshot(&mut world, &[(1, 2)]).expect("taken");
    let segment = |source, target| CopySegment {
        source: DiskId(source),
        source_lba: 0,
        target: DiskId(target),
        target_lba: 64,
        blocks: 8,
    };
    let changes = [
        Op::Write { lba: 0, data: data(&[2; 4096]) },
        Op::Write { lba: 3, data: data(&[2; 512]) },
        Op::Fill { extent: Extent::new(0, 16), block: data(&[2; 512]) },
        Op::Unmap(vec![Extent::new(0, 16)]),
        Op::CompareAndWrite { lba: 0, compare: data(&[1; 512]), write: data(&[2; 512]) },
        Op::Or { lba: 0, data: data(&[2; 512]) },
        Op::Copy(vec![segment(1, 2)]),
        Op::Copy(vec![segment(2, 1), segment(1, 2)]),
    ];
    for op in changes.clone() {
        assert_eq!(world.execute(2, op).unwrap_err(), Error::ReadOnly);
    }
    let engine = world.engine.clone();
    assert_eq!(world.run(engine.resize_volume(DiskId(2), 5)).unwrap_err(), Error::ReadOnly);
    assert_eq!(restore(&mut world, 2, 1).unwrap_err(), Error::ReadOnly);
    world.execute(2, Op::SaveState(Bytes::from_static(b"reserved"))).expect("not a change of a block");
    world.execute(1, Op::Copy(vec![segment(2, 1)])).expect("it can be read");
    assert_eq!(world.read(1, 64, 8), [1; 4096]);
    set_read_only(&mut world, 2, false, 100).expect("made writable");
    for op in changes {
        let outcome = world.execute(2, op);
        assert!(matches!(outcome, Ok(_) | Err(Error::Miscompare { .. })), "a change like any other");
    }
    assert_eq!(world.read(1, 0, 8), [1; 4096]);
    world.check();
}

#[test]
fn what_is_kept_can_neither_be_deleted_nor_changed_before_its_time() {
    let mut world = World::open(MemShelf::small());
    world.create(1, 512, 1 << 20);
    let engine = world.engine.clone();
    let kept = Error::RetentionLocked { until: 500 };
    let pairs = [(DiskId(1), DiskId(2))];
    world.run(engine.snapshot(&pairs, &[], 100, 500)).expect("taken");
    assert_eq!(world.run(engine.delete_volume(DiskId(2), 499)).unwrap_err(), kept);
    assert_eq!(world.run(engine.set_read_only(DiskId(2), false, 499)).unwrap_err(), kept);
    assert_eq!(world.run(engine.keep_until(DiskId(2), 400, 499)).unwrap_err(), kept);
    assert_eq!(world.run(engine.keep_until(DiskId(2), 0, 499)).unwrap_err(), kept);
    world.run(engine.keep_until(DiskId(2), 600, 499)).expect("longer");
    drop(engine);
    let mut world = world.crash(&mut Dice::new(1));
    let engine = world.engine.clone();
    assert_eq!(
        world.run(engine.delete_volume(DiskId(2), 599)).unwrap_err(),
        Error::RetentionLocked { until: 600 }
    );
    assert!(matches!(world.run(engine.keep_until(DiskId(1), 600, 0)), Err(Error::Malformed(_))));
    world.run(engine.delete_volume(DiskId(1), 100)).expect("its volume is not kept");
    world.run(engine.keep_until(DiskId(2), 0, 600)).expect("the time has come");
    world.run(engine.delete_volume(DiskId(2), 0)).expect("deleted");
    drop(engine);
    world.settle();
    assert_eq!(world.engine.space().mapped, 0);
    world.check();
}

#[test]
fn a_read_only_volume_gets_another_content_and_takes_changes_in_one_step() {
    let mut dice = Dice::new(7);
    let mut world = World::open(MemShelf::small());
    world.create(1, 512, 1 << 20);
    world.write(1, 0, &[1; 4096]);
    snapshot(&mut world, &[(1, 2)]).expect("taken");
    world.write(1, 0, &[3; 4096]);
    set_read_only(&mut world, 1, true, 100).expect("made read-only");
    let unlock = |world: &mut World, id: u128, source: u128, now: u64| {
        let engine = world.engine.clone();
        world.run(async move { engine.restore_and_unlock(DiskId(id), DiskId(source), now).await })
    };
    assert!(matches!(unlock(&mut world, 1, 1, 100), Err(Error::Malformed(_))));
    let engine = world.engine.clone();
    world.run(async move { engine.keep_until(DiskId(1), 200, 100).await }).expect("kept");
    assert_eq!(unlock(&mut world, 1, 2, 150).unwrap_err(), Error::RetentionLocked { until: 200 });
    assert_eq!(world.read(1, 0, 8), [3; 4096]);
    unlock(&mut world, 1, 2, 200).expect("restored");
    assert_eq!(world.read(1, 0, 8), [1; 4096]);
    let mut world = world.crash(&mut dice);
    assert_eq!(world.read(1, 0, 8), [1; 4096]);
    world.write(1, 0, &[4; 4096]);
    assert_eq!(world.read(2, 0, 8), [1; 4096]);
    world.check();
}

#[test]
fn a_group_with_a_mistake_in_it_is_refused_whole() {
    let mut world = World::open(MemShelf::small());
    world.create(1, 512, 1 << 20);
    world.create(2, 4096, 1 << 20);
    for defects in [&[(1, 5), (9, 6)][..], &[(1, 5), (2, 5)], &[(1, 5), (2, 1)]] {
        assert!(snapshot(&mut world, defects).is_err());
        assert!(world.engine.volume(DiskId(5)).is_none());
    }
    assert!(matches!(restore(&mut world, 1, 2), Err(Error::Malformed(_))), "other block length");
    assert!(matches!(restore(&mut world, 1, 1), Err(Error::Malformed(_))));
    assert_eq!(restore(&mut world, 1, 77).unwrap_err(), Error::Deleted);
    snapshot(&mut world, &[(1, 5), (2, 6), (1, 7)]).expect("taken");
    assert_eq!(world.engine.disks().len(), 5);
}

#[test]
fn snapshots_are_deleted_in_any_order_and_all_space_comes_back() {
    for seed in 0..6 {
        let mut dice = Dice::new(seed);
        let mut world = World::open(MemShelf::small());
        world.create(1, 512, 4 << 20);
        let mut contents: Vec<(u128, Vec<u8>)> = Vec::new();
        for id in 2..12u128 {
            let bytes = dice.bytes(64 << 10);
            world.write(1, dice.below(8000), &bytes[..40 << 10]);
            world.write(1, dice.below(8000), &bytes[40 << 10..]);
            let from = if dice.below(3) == 0 { id - 1 } else { 1 };
            snapshot(&mut world, &[(from, id)]).expect("taken");
            let all = world.read(id, 0, 8192);
            contents.push((id, all));
            world.turn(dice.below(20) as usize);
        }
        contents.push((1, world.read(1, 0, 8192)));
        while !contents.is_empty() {
            let (id, _) = contents.swap_remove(dice.below(contents.len() as u64) as usize);
            delete(&mut world, id).expect("deleted");
            if dice.below(3) == 0 {
                world.settle();
            }
            if dice.below(4) == 0 {
                world = world.crash(&mut dice);
            }
            for (id, bytes) in &contents {
                assert!(world.read(*id, 0, 8192) == *bytes, "seed {seed}: disk {id}");
            }
            world.check();
        }
        world.settle();
        let space = world.engine.space();
        assert_eq!((space.mapped, space.unique, space.physical), (0, 0, 0), "seed {seed}");
    }
}

/// Writes numbers in order, round about over several disks, each submitted when the one before was acknowledged.
struct Client {
    disks: u64,
    next: u64,
    waits: Option<Pin<Box<dyn Future<Output = block::Result>>>>,
}

const PLACES: u64 = 40;

impl Client {
    fn go(&mut self, world: &World) {
        for _ in 0..4 {
            if let Some(waits) = &mut self.waits {
                let Poll::Ready(answer) = waits.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
                    return;
                };
                answer.expect("written");
            }
            let (disk, place) = (1 + self.next % self.disks, self.next / self.disks % PLACES);
            let mut bytes = vec![self.next as u8; if place % 3 == 0 { 4096 } else { 512 }];
            bytes[..8].copy_from_slice(&self.next.to_le_bytes());
            let op = Op::Write { lba: place * 8, data: data(&bytes) };
            self.waits = Some(Box::pin(world.volume(u128::from(disk)).execute(op)));
            self.next += 1;
        }
    }
}

/// The number found at each place of the disks with these identities is the last that a prefix has there.
fn prefix(world: &mut World, ids: &[u128]) -> u64 {
    let mut found = Vec::new();
    for (disk, id) in (0..).zip(ids) {
        let all = world.read(*id, 0, PLACES * 8);
        for place in 0..PLACES {
            let at = place as usize * 4096;
            let number = u64::from_le_bytes(all[at..at + 8].try_into().expect("eight bytes"));
            found.push((disk, place, number));
        }
    }
    let last = found.iter().map(|(.., number)| *number).max().unwrap_or(0);
    let disks = ids.len() as u64;
    for (disk, place, number) in found {
        // The greatest number up to the last that goes to this place: the first round of all begins at `disks`.
        let round = disks * PLACES;
        let base = place * disks + disk;
        let expected = if base > last { 0 } else { base + (last - base) / round * round };
        let expected = if expected < disks { 0 } else { expected };
        assert_eq!(number, expected, "disk {disk}, place {place}, up to {last}");
    }
    last
}

#[test]
fn a_group_snapshot_under_load_is_a_prefix_of_what_was_written() {
    for seed in 0..8 {
        let mut dice = Dice::new(seed);
        let mut world = World::open(MemShelf::small());
        for id in 1..=4 {
            world.create(id, 512, 1 << 20);
        }
        world.slow(seed);
        let mut client = Client { disks: 4, next: 4, waits: None };
        let (mut groups, mut underway) = (Vec::new(), None);
        let mut last = 0;
        for step in 0..6000u128 {
            client.go(&world);
            world.turn(1);
            if underway.is_none() && dice.below(60) == 0 {
                let ids: Vec<u128> = (0..4).map(|n| 100 + step * 4 + n).collect();
                let pairs: Vec<_> =
                    ids.iter().zip(1..).map(|(id, source)| (DiskId(source), DiskId(*id))).collect();
                let engine = world.engine.clone();
                let taken = async move { engine.snapshot(&pairs, &[], 0, 0).await.map(drop) };
                underway = Some((ids, Box::pin(taken)));
            }
            if let Some((ids, taken)) = &mut underway
                && let Poll::Ready(answer) = taken.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                answer.expect("taken");
                groups.push(ids.clone());
                underway = None;
            }
            if dice.below(1500) == 0 {
                client.waits = None;
                let mut crashed = world.crash(&mut dice);
                last = prefix(&mut crashed, &[1, 2, 3, 4]).max(last);
                client.next = last + 1;
                if let Some((ids, _)) = underway.take() {
                    let there = ids.iter().filter(|id| crashed.engine.volume(DiskId(**id)).is_some()).count();
                    assert!(there == 0 || there == 4, "half a group");
                }
                crashed.slow(seed + 1);
                world = crashed;
            }
        }
        drop((client, underway));
        let mut world = world.crash(&mut dice);
        assert!(groups.len() > 10);
        let mut before = 0;
        for group in &groups {
            let last = prefix(&mut world, group);
            assert!(last >= before, "in order");
            before = last;
        }
        world.check();
    }
}

#[test]
fn differences_are_found_whatever_the_size() {
    let mut dice = Dice::new(4);
    let mut world = World::open(MemShelf::small());
    world.create(1, 512, 40 << 40);
    world.write(1, 0, &dice.bytes(8192));
    snapshot(&mut world, &[(1, 2)]).unwrap();
    assert_eq!(diff(&mut world, Some(2), 1, 10), []);
    world.write(1, 9, &[7; 512]);
    world.write(1, 1 << 33, &dice.bytes(64 << 10));
    world.execute(1, Op::Unmap(vec![Extent::new((1 << 33) + 16, 8)])).unwrap();
    world.execute(1, Op::Fill { extent: Extent::new(1 << 34, 1 << 33), block: data(&[0; 512]) }).unwrap();
    snapshot(&mut world, &[(1, 3)]).unwrap();
    world.write(1, 0, &[1; 4096]);
    let region = |lba, blocks, state| Region { extent: Extent::new(lba, blocks), state };
    let mapped = Provisioning::Mapped;
    let expected = [
        region(8, 8, mapped),
        region(1 << 33, 16, mapped),
        region((1 << 33) + 24, 104, mapped),
        region(1 << 34, 1 << 33, mapped),
    ];
    for most in [1, 2, 100] {
        assert_eq!(diff(&mut world, Some(2), 3, most), expected);
    }
    let back: Vec<_> = expected.iter().map(|one| one.extent).collect();
    let other: Vec<_> = diff(&mut world, Some(3), 2, 3).iter().map(|one| one.extent).collect();
    assert_eq!(other, back);
    let all = diff(&mut world, None, 2, 100);
    assert_eq!(all, [region(0, 16, mapped)]);
    let engine = world.engine.clone();
    assert_eq!(world.run(engine.diff(None, DiskId(9), 0, 1)).unwrap_err(), Error::Deleted);
}

#[test]
fn a_difference_between_sizes_ends_with_the_newer_disk() {
    let mut world = World::open(MemShelf::small());
    world.create(1, 512, 1 << 20);
    world.write(1, 2040, &[1; 4096]);
    snapshot(&mut world, &[(1, 2)]).unwrap();
    let engine = world.engine.clone();
    world.run(engine.resize_volume(DiskId(1), (9 << 30) / 512 + 3)).unwrap();
    world.write(1, (9 << 30) / 512, &[1; 3 * 512]);
    let regions = diff(&mut world, Some(2), 1, 9);
    assert_eq!(regions[0].extent, Extent::new((9 << 30) / 512, 3));
    assert_eq!(regions.len(), 1);
    world.run(engine.resize_volume(DiskId(1), 2047)).unwrap();
    let regions = diff(&mut world, Some(2), 1, 9);
    assert_eq!(regions.iter().map(|one| one.extent).collect::<Vec<_>>(), [Extent::new(2040, 7)]);
    assert_eq!(diff(&mut world, Some(1), 2, 9)[0].extent, Extent::new(2040, 8));
}

/// Random disks that descend from each other: what differs is exactly what the bytes and states say, where nothing
/// was written again with what was there.
#[test]
fn differences_name_every_block_that_differs() {
    for seed in 0..10 {
        let mut dice = Dice::new(seed);
        let mut world = World::open(MemShelf::small());
        world.create(1, 4096, 24 << 20);
        for id in 2..6 {
            for _ in 0..12 {
                let lba = dice.below(6000);
                match dice.below(4) {
                    0 => drop(world.execute(1, Op::Unmap(vec![Extent::new(lba, dice.below(144))])).unwrap()),
                    1 => {
                        let extent = Extent::new(lba, dice.below(144));
                        let block = data(&vec![dice.below(2) as u8; 4096]);
                        world.execute(1, Op::Fill { extent, block }).unwrap();
                    }
                    _ => {
                        let blocks = 1 + dice.below(4) as usize;
                        let bytes = dice.bytes(4096 * blocks);
                        world.write(1, lba, &bytes);
                    }
                }
                world.turn(dice.below(6) as usize);
            }
            snapshot(&mut world, &[(1, id)]).unwrap();
        }
        world = world.crash(&mut dice);
        for (old, new) in [(2, 3), (5, 2), (3, 1)] {
            let found = diff(&mut world, Some(old), new, 3);
            let mut named = vec![None; 6144];
            for region in &found {
                for lba in region.extent.lba..region.extent.end().unwrap() {
                    named[lba as usize] = Some(region.state);
                }
            }
            let (before, after) = (world.read(old, 0, 6144), world.read(new, 0, 6144));
            let states = status(&mut world, new);
            for (lba, named) in named.iter().enumerate() {
                let at = lba * 4096..(lba + 1) * 4096;
                assert!(named.is_some() || before[at.clone()] == after[at], "seed {seed}: block {lba}");
                assert!(named.is_none_or(|state| state == states[lba]), "seed {seed}: block {lba}");
            }
        }
    }
}

fn status(world: &mut World, id: u128) -> Vec<Provisioning> {
    let blocks = world.volume(id).geometry().blocks;
    match world.execute(id, Op::Status(Extent::new(0, blocks))) {
        Ok(Reply::Status(regions)) => {
            let each = |region: Region| std::iter::repeat_n(region.state, region.extent.blocks as usize);
            regions.into_iter().flat_map(each).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn ten_thousand_snapshots_live_together() {
    let mut dice = Dice::new(5);
    let mut world = World::open(MemShelf::small());
    world.create(1, 512, 64 << 20);
    for n in 0..32 {
        world.write(1, 8 + n * 4096, &dice.bytes(8192));
    }
    world.settle();
    let log = world.shelf.segment_writes();
    for n in 0..10_000u64 {
        let bytes = [n.to_le_bytes(); 64].concat();
        world.write(1, n % 8, &bytes);
        snapshot(&mut world, &[(1, 10 + u128::from(n))]).expect("taken");
        world.turn(1);
    }
    assert!(world.shelf.segment_writes() - log < 400 << 20);
    let mut world = world.crash(&mut dice);
    assert_eq!(world.engine.disks().len(), 10_001);
    for n in (0..10_000u64).step_by(997) {
        let read = world.read(10 + u128::from(n), n % 8, 1);
        assert_eq!(read[..8], n.to_le_bytes());
    }
    restore(&mut world, 1, 10 + 5000).expect("restored");
    assert_eq!(world.read(1, 5000 % 8, 1)[..8], 5000u64.to_le_bytes());
    for n in 0..10_000 {
        delete(&mut world, 10 + (n * 7919) % 10_000).expect("deleted");
    }
    world.settle();
    assert_eq!(world.engine.disks().len(), 1);
    world.check();
}

/// All properties of the disks.
fn whole(world: &mut World) -> Vec<(DiskInfo, Vec<u8>)> {
    let disks = world.engine.disks();
    let read = |disk: DiskInfo| {
        let bytes = world.read(disk.id.0, 0, disk.geometry.blocks);
        (disk, bytes)
    };
    disks.into_iter().map(read).collect()
}

type Change = fn(Arc<Engine>) -> Pin<Box<dyn Future<Output = block::Result<()>>>>;

/// Changes of snapshots on the disks of [`scene`].
const CHANGES: [(&str, Change); 8] = [
    ("snapshot", |engine| {
        Box::pin(async move {
            let pairs = [(DiskId(1), DiskId(20)), (DiskId(2), DiskId(21)), (DiskId(10), DiskId(22))];
            let records = [("group".to_owned(), Some(Bytes::from_static(b"taken")))];
            engine.snapshot(&pairs, &records, 5, 9).await.map(drop)
        })
    }),
    ("clone", |engine| {
        Box::pin(async move { engine.clone_volume(DiskId(10), DiskId(20), 5).await.map(drop) })
    }),
    ("restore", |engine| Box::pin(async move { engine.restore_volume(DiskId(1), DiskId(10)).await })),
    ("make writable", |engine| Box::pin(async move { engine.set_read_only(DiskId(10), false, 5).await })),
    ("keep", |engine| Box::pin(async move { engine.keep_until(DiskId(10), 99, 5).await })),
    ("delete a volume", |engine| Box::pin(async move { engine.delete_volume(DiskId(1), 5).await })),
    ("delete a snapshot", |engine| Box::pin(async move { engine.delete_volume(DiskId(10), 5).await })),
    ("resize", |engine| Box::pin(async move { engine.resize_volume(DiskId(2), 3000).await })),
];

/// Two volumes, and a snapshot of the first, which has changed since.
fn scene() -> World {
    let mut dice = Dice::new(3);
    let mut world = World::open(MemShelf::small());
    world.create(1, 512, 1 << 20);
    world.create(2, 512, 1 << 20);
    world.write(1, 3, &dice.bytes(64 << 10));
    world.write(2, 800, &dice.bytes(16 << 10));
    snapshot(&mut world, &[(1, 10)]).expect("taken");
    world.write(1, 64, &dice.bytes(16 << 10));
    world
}

#[test]
fn a_power_loss_at_any_step_leaves_a_change_whole_or_absent() {
    for (name, change) in CHANGES {
        let (mut before, mut after) = (scene(), scene());
        let (before, engine) = (whole(&mut before), after.engine.clone());
        after.run(change(engine)).expect(name);
        let after = whole(&mut after);
        assert!(before != after, "{name} does something");
        let mut seen = [false; 2];
        for steps in 0..60 {
            let mut world = scene();
            world.slow(steps);
            let mut asked = change(world.engine.clone());
            let mut answered = false;
            for _ in 0..steps {
                let mut context = Context::from_waker(Waker::noop());
                answered = answered || asked.as_mut().poll(&mut context).is_ready();
                world.turn(1);
            }
            drop(asked);
            let mut world = world.crash(&mut Dice::new(steps));
            let found = whole(&mut world);
            let taken = found == after;
            assert!(taken || found == before && !answered, "{name}, {steps} steps");
            let group = world.engine.records("group").len();
            assert_eq!(group == 1, taken && name == "snapshot", "records go with the disks");
            seen[usize::from(taken)] = true;
            world.check();
            world.settle();
            world.check();
        }
        assert_eq!(seen, [true; 2], "{name}: both happen");
    }
}
