//! Deduplication with an index that has room for a part of the blocks.

use crate::support::{Dice, MemShelf, World, options};
use block::DiskId;
use engine::{Compression, Options, Policy};
use shelf::Layout;

const BLOCK: usize = 4096;
const MIB: usize = 1 << 20;

const LAYOUT: Layout = Layout {
    segment_bytes: 1 << 20,
    stripe_bytes: 64 << 10,
    segments: 128,
    journal_bytes: 4 << 20,
    batch_bytes: 256 << 10,
    superblock_bytes: 4096,
};

/// A world with two volumes whose index has room for this many blocks.
fn world(entries: usize, compression: Compression) -> World {
    let bounds = Options { index_bytes: entries * 24, recompress: false, ..options() };
    let mut world = World::open_with(MemShelf::new(LAYOUT), bounds);
    let engine = world.engine.clone();
    for id in [1, 2] {
        world.create(id, 4096, 64 << 20);
        let policy = Policy { compression, ..Policy::default() };
        world.run(engine.set_policy(DiskId(id), policy)).expect("set");
    }
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

/// Blocks that a copy of an image of this many MiB takes, in hundredths of it.
fn copied(mut world: World, mib: usize) -> u64 {
    let image = Dice::new(5).bytes(mib * MIB);
    fill(&mut world, 1, 0, &image);
    let before = world.engine.space().unique;
    assert_eq!(before as usize, image.len());
    fill(&mut world, 2, 77, &image);
    let blocks = (image.len() / BLOCK) as u64;
    assert!(world.read(2, 77, blocks) == image, "the copy differs");
    world.check();
    (world.engine.space().unique - before) * 100 / before
}

#[test]
fn a_copy_is_found_though_the_index_has_a_sixteenth_of_it() {
    let mib = 12;
    let stored = copied(world(mib * MIB / BLOCK / 16, Compression::Fast), mib);
    assert!(stored <= 10, "{stored} % of the copy was stored again");
}

#[test]
fn a_copy_is_found_though_most_fingerprints_were_left_out_where_nothing_repeated() {
    // Both volumes are fresh to look for copies in; the first stops being so after 4 MiB.
    let stored = copied(world(1 << 16, Compression::Adaptive), 12);
    assert!(stored <= 10, "{stored} % of the copy was stored again");
}

#[test]
fn what_was_left_out_is_looked_up_when_the_array_is_idle() {
    let image = Dice::new(6).bytes(6 * MIB);
    let mut world = world(1 << 16, Compression::Adaptive);
    fill(&mut world, 1, 0, &image);
    // In a place where nothing repeats either, one in eight is looked for.
    let other = Dice::new(7).bytes(6 * MIB);
    fill(&mut world, 2, 0, &other);
    let scattered: Vec<usize> = (0..200).map(|n| (n * 7 + 1) % 1500).collect();
    for (n, block) in scattered.iter().enumerate() {
        world.write(2, 4000 + 2 * n as u64, &image[block * BLOCK..(block + 1) * BLOCK]);
    }
    world.settle();
    let hasty = world.engine.space().unique;
    let engine = world.engine.clone();
    world.run(engine.shutdown()).expect("shut down");
    drop(engine);
    let mut world = World::open_with(world.shelf, Options { index_bytes: 24 << 16, ..options() });
    world.settle();
    let idle = world.engine.space().unique;
    assert_eq!(idle, (image.len() + other.len()) as u64, "{hasty} before");
    for (n, block) in scattered.iter().enumerate() {
        assert_eq!(world.read(2, 4000 + 2 * n as u64, 1), image[block * BLOCK..(block + 1) * BLOCK]);
    }
    world.check();
}
