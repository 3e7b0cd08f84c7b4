//! Map pages: one pattern over terabytes takes a few, and writes that need more than memory allows are refused.

use crate::support::{Dice, MemShelf, World, data, options, small_layout};
use block::{Disk, DiskId, Error, Extent, Op};
use shelf::Layout;

const BLOCK: u64 = 4096;
const LEAF: u64 = 512;

#[test]
fn one_pattern_over_terabytes_takes_a_few_map_pages() {
    let mut dice = Dice::new(1);
    let mut world = World::open(MemShelf::small());
    let blocks = (16 << 40) / BLOCK;
    world.create(1, 4096, 16 << 40);
    let pattern = dice.bytes(BLOCK as usize);
    // Both ends lie within a leaf.
    let fill = Op::Fill { extent: Extent::new(3, blocks - 10), block: data(&pattern) };
    world.execute(1, fill).expect("one block of data");
    assert_eq!(world.volume(1).space().mapped, (blocks - 10) * BLOCK);
    assert!(world.engine.space().map_pages < 32, "{:?}", world.engine.space());
    world.settle();
    world.check();
    let other = dice.bytes(BLOCK as usize);
    let middle = blocks / 2 + 77;
    world.execute(1, Op::Write { lba: middle, data: data(&other) }).expect("written");
    let mut world = world.crash(&mut dice);
    for (lba, expected) in [
        (2, vec![0; 4096]),
        (3, pattern.clone()),
        (LEAF, pattern.clone()),
        (middle - 1, pattern.clone()),
        (middle, other),
        (middle + 1, pattern.clone()),
        (blocks - 8, pattern),
        (blocks - 7, vec![0; 4096]),
    ] {
        assert_eq!(world.read(1, lba, 1), expected, "block {lba}");
    }
    world.check();
    world.execute(1, Op::Unmap(vec![Extent::new(0, blocks)])).expect("unmapped");
    world.settle();
    world.check();
    assert_eq!((world.engine.space().map_pages, world.engine.space().unique), (0, 0));
}

#[test]
fn writes_that_need_more_map_pages_than_memory_allows_are_refused_and_all_else_goes_on() {
    let mut dice = Dice::new(2);
    let bounds = engine::Options { map_pages: 40, ..options() };
    let mut world = World::open_with(MemShelf::small(), bounds);
    world.create(1, 4096, 1 << 40);
    let write = |lba: u64, dice: &mut Dice| Op::Write { lba, data: data(&dice.bytes(BLOCK as usize)) };
    let mut leaves = 0;
    loop {
        match world.execute(1, write(leaves * LEAF * LEAF, &mut dice)) {
            Ok(_) => leaves += 1,
            Err(Error::NoSpace) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(leaves > 10);
    let space = world.engine.space();
    assert!(space.map_pages <= 40 && space.map_pages_max == 40, "{space:?}");
    // What is mapped is read and overwritten; what is not yet, beside it in its leaf, is written.
    world.execute(1, write(0, &mut dice)).expect("it was mapped");
    world.execute(1, write(1, &mut dice)).expect("its leaf is there");
    world.settle();
    world.check();
    let mut world = world.crash(&mut dice);
    world.read(1, 0, 2);
    world.execute(1, Op::Unmap(vec![Extent::new(0, LEAF)])).expect("it gives pages back");
    world.settle();
    world.execute(1, write(leaves * LEAF * LEAF, &mut dice)).expect("a leaf was given back");
    world.check();
}

/// A chunk of the page index without pages is not written. After a restart its numbers counted as pages in use, and a volume
/// that was made and deleted often enough left no page for others.
#[test]
fn pages_of_a_deleted_volume_are_not_in_use_after_a_restart() {
    let mut dice = Dice::new(3);
    let bounds = engine::Options { map_pages: 900, ..options() };
    let mut world = World::open_with(MemShelf::small(), bounds.clone());
    for round in 0..3 {
        world.create(round, 4096, 1 << 40);
        for leaf in 0..600 {
            let write = Op::Write { lba: leaf * LEAF, data: data(&dice.bytes(BLOCK as usize)) };
            world.execute(round, write).unwrap_or_else(|why| panic!("round {round}, leaf {leaf}: {why}"));
        }
        let engine = world.engine.clone();
        world.run(engine.delete_volume(DiskId(round), 0)).expect("deleted");
        world.settle();
        let engine = world.engine.clone();
        world.run(engine.shutdown()).expect("shut down");
        world = World::open_with(world.shelf.crash(&mut dice), bounds.clone());
        assert_eq!(world.engine.space().map_pages, 0);
        world.check();
    }
}

/// A write is split where a batch of the journal ends, also within a leaf that it replaces whole and that is not in memory.
#[test]
fn a_split_write_over_leaves_that_are_not_in_memory_keeps_all_counts() {
    for leaves in 1..4 {
        let mut dice = Dice::new(leaves);
        let layout = Layout { journal_bytes: 32 << 20, batch_bytes: 1 << 20, ..small_layout() };
        let few = engine::Options { page_bytes: 8192, slot_bytes: 64 << 20, ..options() };
        let mut world = World::open_with(MemShelf::new(layout), few.clone());
        world.create(1, 4096, 64 << 20);
        for leaf in 0..4 {
            world.write(1, leaf * LEAF + 7, &dice.bytes(8 * 4096));
        }
        world.settle();
        let engine = world.engine.clone();
        world.run(engine.shutdown()).expect("shut down");
        let mut world = World::open_with(world.shelf.clone(), few);
        let bytes = dice.bytes((leaves * LEAF * BLOCK) as usize);
        world.write(1, LEAF, &bytes);
        assert_eq!(world.read(1, LEAF, leaves * LEAF), bytes);
        world.settle();
        world.check();
        assert!(world.engine.inconsistencies().is_empty());
    }
}
