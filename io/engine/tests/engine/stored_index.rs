//! The deduplication index is in the log: what was known before a crash is known after it, without idle time.

use crate::support::{Dice, MemShelf, World, each_seed, options};
use block::Op;
use engine::{Options, Tunables};
use shelf::Layout;
use std::sync::Arc;

const BLOCK: usize = 4096;
const MIB: usize = 1 << 20;
/// The kind of the index's objects.
const INDEX: u8 = 8;

const LAYOUT: Layout = Layout {
    segment_bytes: 256 << 10,
    stripe_bytes: 64 << 10,
    segments: 256,
    journal_bytes: 4 << 20,
    batch_bytes: 256 << 10,
    superblock_bytes: 16 << 10,
};

fn bounds() -> Options {
    Options { index_bytes: 1 << 20, recompress: false, ..options() }
}

/// A world whose background does not come to read frames for the index while hosts write: it rests longer than they do.
fn open(shelf: Arc<MemShelf>, bounds: Options) -> World {
    World::open_slow(shelf, bounds, 100)
}

fn crash(world: World, seed: u64, bounds: Options) -> World {
    let shelf = world.shelf.crash(&mut Dice::new(seed));
    drop(world);
    open(shelf, bounds)
}

fn new_world(bounds: Options) -> World {
    let mut world = open(MemShelf::new(LAYOUT), bounds);
    world.create(1, BLOCK as u32, 64 << 20);
    world.create(2, BLOCK as u32, 64 << 20);
    world
}

/// Writes all of it from block `at` on, as a host copies a file.
fn fill(world: &mut World, id: u128, at: u64, image: &[u8]) {
    for (piece, bytes) in (0..).zip(image.chunks(128 << 10)) {
        world.write(id, at + piece * 32, bytes);
        world.turn(20);
    }
    world.settle();
}

/// Percent of an image that a copy of it stores again.
fn stored_again(world: &mut World, at: u64, image: &[u8]) -> u64 {
    let before = world.engine.space().unique;
    fill(world, 2, at, image);
    assert!(world.read(2, at, (image.len() / BLOCK) as u64) == image, "the copy differs");
    world.check();
    (world.engine.space().unique - before) * 100 / image.len() as u64
}

fn index_objects(world: &World) -> Vec<(u32, u32)> {
    let objects = world.shelf.objects().into_iter().filter(|(_, _, kind, _)| *kind == INDEX);
    objects.map(|(segment, at, ..)| (segment, at)).collect()
}

#[test]
fn a_copy_of_known_data_right_after_a_crash_or_a_stop_is_found() {
    let image = Dice::new(5).bytes(8 * MIB);
    let mut world = new_world(bounds());
    fill(&mut world, 1, 0, &image);
    let mut world = crash(world, 1, bounds());
    let again = stored_again(&mut world, 0, &image);
    assert!(again <= 5, "{again} % after a crash");
    let engine = world.engine.clone();
    world.run(engine.shutdown()).expect("shut down");
    drop(engine);
    let mut world = open(world.shelf, bounds());
    let again = stored_again(&mut world, 4096, &image);
    assert!(again == 0, "{again} % after a stop");
}

#[test]
fn it_is_found_with_any_limits_after_many_crashes_while_it_is_written_again_and_segments_are_cleaned() {
    each_seed(|seed| {
        let mut dice = Dice::new(seed + 17);
        let limits = |dice: &mut Dice| {
            let mut one = |max: u64| 1 + dice.below(max);
            let tunables = Tunables {
                // Loading ends before so much waits that it has to be flushed.
                object_part_bytes: one(16 << 10).max(4096) as usize,
                index_reads_in_flight: 4 + one(4) as usize,
                index_spare_bytes: one(64 << 10),
                index_rewrite_min_bytes: one(16 << 10),
                dirty_bytes_max: one(64 << 10),
                ..Tunables::default()
            };
            Options { tunables, ..bounds() }
        };
        let image = dice.bytes(4 * MIB);
        let mut world = new_world(limits(&mut dice));
        fill(&mut world, 1, 0, &image);
        for round in 0..6 {
            // Overwritten data leave stale entries, and segments to clean.
            for _ in 0..4 {
                let noise = dice.bytes(2 * MIB);
                fill(&mut world, 1, 4096, &noise);
            }
            world = crash(world, round, limits(&mut dice));
            let again = stored_again(&mut world, 8192, &image);
            assert!(again <= 5, "{again} % in round {round}");
        }
        let live = world.engine.space();
        assert!(live.metadata < 2 * MIB as u64, "objects that were replaced stay: {live:?}");
    });
}

#[test]
fn a_part_that_cannot_be_read_costs_idle_time_and_nothing_else() {
    let image = Dice::new(6).bytes(4 * MIB);
    let mut world = new_world(bounds());
    fill(&mut world, 1, 0, &image);
    let mut world = crash(world, 1, bounds());
    world.settle();
    let objects = index_objects(&world);
    assert!(!objects.is_empty());
    let shelf = world.shelf.crash(&mut Dice::new(2));
    drop(world);
    for (segment, at) in objects {
        shelf.flip(segment, at + 24);
    }
    let mut world = World::open_with(shelf, bounds());
    // Its rests end, so that the frames are read.
    world.settle();
    let again = stored_again(&mut world, 0, &image);
    assert_eq!(again, 0);
}

#[test]
fn it_takes_no_room_from_hosts() {
    let blocks = |formats| {
        let layout = Layout { segments: 48, ..LAYOUT };
        let bounds = Options { formats, ..bounds() };
        let mut world = open(MemShelf::new(layout), bounds.clone());
        world.create(1, BLOCK as u32, 64 << 20);
        let mut dice = Dice::new(9);
        let mut written = 0;
        loop {
            let data = dice.bytes(16 << 10).into();
            match world.execute(1, Op::Write { lba: written, data }) {
                Ok(_) => written += 4,
                Err(block::Error::NoSpace) => break,
                Err(other) => panic!("{other}"),
            }
            world.turn(50);
        }
        world.settle();
        world.check();
        let mut world = crash(world, 3, bounds);
        world.settle();
        world.check();
        world.execute(1, Op::Write { lba: 0, data: dice.bytes(4 << 10).into() }).expect("it is overwritten");
        written
    };
    let (with, without) = (blocks(8..=8), blocks(7..=7));
    assert!(with + 4 >= without, "{with} blocks, {without} without the index");
}

#[test]
fn a_commit_to_its_format_writes_what_is_known_already() {
    let image = Dice::new(7).bytes(4 * MIB);
    let mut world = open(MemShelf::new(LAYOUT), Options { formats: 7..=7, ..bounds() });
    world.create(1, BLOCK as u32, 64 << 20);
    world.create(2, BLOCK as u32, 64 << 20);
    let shelf = world.shelf.clone();
    drop(world);
    let mut world = open(shelf, bounds());
    fill(&mut world, 1, 0, &image);
    assert_eq!(index_objects(&world), [], "an earlier release opens it");
    let engine = world.engine.clone();
    world.run(engine.commit_format()).expect("committed");
    drop(engine);
    fill(&mut world, 1, 8192, &Dice::new(8).bytes(MIB));
    let engine = world.engine.clone();
    world.run(engine.shutdown()).expect("shut down");
    drop(engine);
    let mut world = open(world.shelf, bounds());
    let again = stored_again(&mut world, 0, &image);
    assert_eq!(again, 0);
}
