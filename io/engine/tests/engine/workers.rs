//! Workers: jobs end in any order, the engine keeps its own.

use crate::support::{Dice, MemShelf, World, each_seed, options};
use engine::{Options, Tunables};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 2600;

/// Options with which everything is divided into many jobs.
fn divided(job_blocks: usize) -> Options {
    let tunables = Tunables { job_blocks, clean_window_bytes: 64 << 10, ..Tunables::default() };
    Options { tunables, ..options() }
}

/// A block of this version: half of them compress, and a part repeats.
fn block(version: u64) -> Vec<u8> {
    let mut bytes = Dice::new(if version.is_multiple_of(5) { version % 35 } else { version }).bytes(BLOCK);
    if version.is_multiple_of(2) {
        bytes[BLOCK / 4..].fill(version as u8);
    }
    bytes
}

/// Overwrites an array that is two thirds full several times, so that it is cleaned; returns what each block has, and the
/// most jobs that waited at the same time.
fn overwrite(world: &mut World, dice: &mut Dice) -> (Vec<u64>, usize) {
    world.create(1, BLOCK as u32, BLOCKS * BLOCK as u64);
    let (mut model, mut most) = (vec![0; BLOCKS as usize], 0);
    for step in 1..2500u64 {
        let lba = dice.below(BLOCKS - 16);
        let count = 1 + dice.below(16);
        let versions: Vec<u64> = (0..count).map(|n| step * 16 + n).collect();
        let bytes: Vec<u8> = versions.iter().flat_map(|version| block(*version)).collect();
        world.write(1, lba, &bytes);
        model[lba as usize..][..count as usize].copy_from_slice(&versions);
        most = most.max(world.jobs.lock().len());
    }
    (model, most)
}

fn assert_all(world: &mut World, model: &[u64]) {
    for (lba, version) in (0..).zip(model) {
        let wanted = if *version == 0 { vec![0; BLOCK] } else { block(*version) };
        assert!(world.read(1, lba, 1) == wanted, "block {lba} is not version {version}");
    }
}

#[test]
fn whatever_the_order_in_which_jobs_end_all_is_there_and_counted_right() {
    each_seed(|seed| {
        let mut dice = Dice::new(seed);
        let job_blocks = [1, 3, 16, 64][seed as usize % 4];
        let shelf = MemShelf::small();
        let mut world = World::open_with_workers(shelf, divided(job_blocks), 1 + seed as usize % 4, seed);
        world.slow(seed);
        let (model, most) = overwrite(&mut world, &mut dice);
        assert!(most > 1, "jobs wait for each other: {most}");
        let moved = world.engine.log_writes().moved;
        assert!(moved > 100 * BLOCK as u64, "nothing was cleaned: {moved}");
        assert_all(&mut world, &model);
        world.settle();
        world.check();
        assert_all(&mut world, &model);
        let mut world = world.crash_with(&mut dice, divided(job_blocks));
        assert_all(&mut world, &model);
        world.check();
    });
}

#[test]
fn a_flush_is_divided_among_the_workers() {
    let mut world = World::open_with_workers(MemShelf::small(), divided(8), 4, 1);
    world.create(1, BLOCK as u32, BLOCKS * BLOCK as u64);
    world.write(1, 0, &(1..=24).flat_map(block).collect::<Vec<_>>());
    let mut most = 0;
    for _ in 0..100 {
        world.turn(1);
        most = most.max(world.jobs.lock().len());
    }
    assert_eq!(most, 3, "eight blocks each");
    assert!(world.jobs.lock().is_empty());
}

#[test]
fn an_engine_whose_workers_have_ended_stops_and_has_everything_after_the_next_start() {
    let mut dice = Dice::new(3);
    let mut world = World::open_with_workers(MemShelf::small(), divided(1), 2, 3);
    world.create(1, BLOCK as u32, BLOCKS * BLOCK as u64);
    let bytes: Vec<u8> = (1..=24).flat_map(block).collect();
    world.write(1, 0, &bytes);
    for _ in 0..100 {
        if !world.jobs.lock().is_empty() {
            break;
        }
        world.turn(1);
    }
    let dropped = std::mem::take(&mut *world.jobs.lock());
    assert!(!dropped.is_empty(), "the flush was handed over");
    drop(dropped);
    world.settle();
    assert!(world.engine.stopped().is_some(), "what was handed over will never be there");
    let mut world = world.crash_with(&mut dice, options());
    assert_eq!(world.read(1, 0, 24), bytes);
    world.settle();
    world.check();
}
