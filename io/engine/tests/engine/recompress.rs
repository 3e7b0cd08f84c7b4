//! Recompression while the array is idle.

use crate::support::{Dice, MemShelf, World, options};
use block::DiskId;
use engine::{Compression, Options, Policy, Tunables};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

const BLOCK: usize = 4096;

/// Blocks of words out of a small dictionary, all different.
fn prose(seed: u64, blocks: usize) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let words: Vec<Vec<u8>> = (0..200).map(|n| Dice::new(n).bytes(3 + n as usize % 6)).collect();
    let mut text = Vec::new();
    while text.len() < blocks * BLOCK {
        text.extend_from_slice(&words[dice.below(200) as usize]);
    }
    text.truncate(blocks * BLOCK);
    text
}

/// A volume with `blocks` blocks of prose, written one by one, out of order, and flushed one by one.
fn scattered(options: Options, blocks: usize) -> World {
    let mut world = World::open_with(MemShelf::small(), options);
    world.create(1, 4096, 8 << 20);
    let text = prose(1, blocks);
    let order: Vec<usize> = (0..blocks).map(|n| n * 37 % blocks).collect();
    for n in order {
        world.write(1, n as u64, &text[n * BLOCK..(n + 1) * BLOCK]);
        world.turn(6);
    }
    world
}

#[test]
fn small_frames_are_joined_and_compressed_with_more_effort_while_nobody_asks() {
    let mut hasty = scattered(Options { recompress: false, ..options() }, 100);
    hasty.settle();
    let mut world = scattered(options(), 100);
    world.settle();
    let (before, after) = (hasty.engine.space(), world.engine.space());
    assert_eq!(before.unique, after.unique);
    assert!(after.physical * 10 < before.physical * 9, "{} of {}", after.physical, before.physical);
    assert_eq!(world.read(1, 0, 100), prose(1, 100));
    world.check();
    // Once is enough: the next start finds nothing to do.
    let engine = world.engine.clone();
    world.run(engine.shutdown()).expect("shut down");
    drop(engine);
    world = world.crash(&mut Dice::new(1));
    world.settle();
    assert_eq!(world.shelf.segment_writes(), 0);
    assert_eq!(world.read(1, 0, 100), prose(1, 100));
    world.check();
}

/// What is flushed leaves work for the time without hosts, so that the background always has some while hosts write.
#[test]
fn writes_that_follow_each_other_are_flushed_together_although_there_is_idle_work() {
    let open = Arc::new(AtomicBool::new(true));
    let mut world = World::open_gated(MemShelf::small(), open.clone());
    world.create(1, 4096, 8 << 20);
    let text = prose(1, 8);
    world.write(1, 100, &prose(2, 1));
    world.turn(50);
    let flushed = world.engine.log_writes();
    assert!(flushed.data > 0);
    open.store(false, Relaxed);
    for n in 0..8 {
        world.write(1, n, &text[n as usize * BLOCK..][..BLOCK]);
        world.turn(6);
    }
    assert_eq!(world.engine.log_writes(), flushed);
    open.store(true, Relaxed);
    world.turn(50);
    let frame = world.engine.log_writes().data - flushed.data;
    let single = flushed.data;
    assert!(frame < 8 * single, "{frame} bytes in frames of neighbours, {single} in one of one block");
    assert_eq!(world.read(1, 0, 8), text);
    world.check();
}

#[test]
fn what_disks_share_stays_shared() {
    let mut world = scattered(Options { recompress: false, ..options() }, 64);
    let engine = world.engine.clone();
    world.run(engine.snapshot(&[(DiskId(1), DiskId(2))], &[], 0, 0)).expect("a snapshot");
    // The first half is a leaf's block of its own from here on, the rest too: they are in one leaf.
    world.write(1, 3, &prose(9, 1));
    world.settle();
    drop(engine);
    let mut world = world.crash(&mut Dice::new(4));
    world.settle();
    let engine = world.engine.clone();
    assert_eq!(engine.space().unique, 65 * BLOCK as u64);
    let difference = world.run(engine.diff(Some(DiskId(2)), DiskId(1), 0, 100)).expect("compared");
    assert_eq!(difference.regions.iter().map(|region| region.extent.blocks).sum::<u64>(), 1);
    assert_eq!(world.read(2, 0, 64), prose(1, 64));
    world.check();
}

#[test]
fn a_volume_without_reduction_is_left_as_it_is() {
    let mut world = World::open(MemShelf::small());
    world.create(1, 4096, 8 << 20);
    let engine = world.engine.clone();
    let off = Policy { dedup: false, compression: Compression::Off, verify: false };
    world.run(engine.set_policy(DiskId(1), off)).expect("set");
    world.write(1, 0, &prose(1, 64));
    world.settle();
    assert!(engine.space().physical > 64 * BLOCK as u64);
}

#[test]
fn nothing_begins_before_the_array_has_been_idle_for_long() {
    let mut world = World::open_restless(MemShelf::small());
    world.create(1, 4096, 8 << 20);
    world.write(1, 0, &prose(1, 64));
    world.settle();
    let hasty = world.engine.space().physical;
    let mut world = World::open(world.shelf);
    world.settle();
    assert!(world.engine.space().physical < hasty);
    assert_eq!(world.read(1, 0, 64), prose(1, 64));
}

#[test]
fn nothing_is_recompressed_while_a_host_reads_even_from_memory() {
    let mut hasty = scattered(Options { recompress: false, ..options() }, 64);
    hasty.settle();
    let engine = hasty.engine.clone();
    hasty.run(engine.shutdown()).expect("the last checkpoint");
    let before = engine.space().physical;
    // What hosts read in order is joined.
    let tunables = Tunables { join_leaves_max: 0, ..options().tunables };
    let mut world = World::open_slow(hasty.shelf, Options { tunables, ..options() }, 3);
    for n in 0..2000 {
        assert_eq!(world.read(1, n % 64, 1), prose(1, 64)[n as usize % 64 * BLOCK..][..BLOCK]);
        world.turn(1);
    }
    assert_eq!(world.engine.space().physical, before);
    world.settle();
    assert!(world.engine.space().physical * 10 < before * 9);
    assert_eq!(world.read(1, 0, 64), prose(1, 64));
}

#[test]
fn a_power_loss_at_any_step_loses_nothing() {
    for seed in 0..60 {
        let mut world = scattered(Options { recompress: false, ..options() }, 48);
        world.settle();
        let mut world = World::open(world.shelf);
        world.slow(seed);
        let mut dice = Dice::new(seed);
        world.turn(20 + dice.below(600) as usize);
        if seed % 3 == 0 {
            world.write(1, dice.below(48), &prose(100, 1));
            world.turn(dice.below(100) as usize);
            let text = world.read(1, 0, 48);
            let mut world = world.crash(&mut dice);
            assert_eq!(world.read(1, 0, 48), text, "seed {seed}");
            world.check();
        } else {
            let mut world = world.crash(&mut dice);
            world.check();
            assert_eq!(world.read(1, 0, 48), prose(1, 48), "seed {seed}");
            world.settle();
            world.check();
        }
    }
}
