//! Blocks that compress are cells in the journal, in memory, and in their frames.

use crate::inconsistencies::ready;
use crate::support::{Dice, MemShelf, World, options};
use block::{Error, Extent, Op, Reply};
use engine::{Compression, Engine, Policy};

const BLOCK: usize = 4096;

/// A block that is like no other, which LZ4 halves.
fn half(number: u64) -> Vec<u8> {
    let mut block = Dice::new(number + 1).bytes(BLOCK / 2);
    block.resize(BLOCK, number as u8 | 1);
    block
}

/// A world whose background does nothing, with a volume.
fn world() -> World {
    let mut world = World::open_gated(MemShelf::small(), std::sync::Arc::default());
    world.create(1, 4096, 8 << 20);
    world.turn(50);
    world
}

/// Bytes of the journal that a write takes.
fn appended(world: &mut World, lba: u64, bytes: &[u8]) -> u64 {
    let before = world.shelf.appended_bytes();
    world.write(1, lba, bytes);
    world.shelf.appended_bytes() - before
}

#[test]
fn a_write_takes_of_the_journal_what_its_cells_do() {
    let mut world = world();
    assert_eq!(appended(&mut world, 0, &half(0)), 4096, "its record and its cell");
    let sixteen: Vec<u8> = (16..32).flat_map(half).collect();
    assert_eq!(appended(&mut world, 16, &sixteen), (1 + 9) * 4096);
    assert_eq!(appended(&mut world, 1, &Dice::new(7).bytes(BLOCK)), 8192, "it does not compress");
    let policy = Policy { compression: Compression::Off, ..Policy::default() };
    let engine = world.engine.clone();
    world.run(engine.set_policy(block::DiskId(1), policy)).expect("set");
    assert_eq!(appended(&mut world, 2, &half(2)), 8192, "nothing is compressed there");
}

#[test]
fn cells_are_read_after_power_losses_and_flushed_as_they_are() {
    let mut world = world();
    let noise = Dice::new(9).bytes(BLOCK);
    let all: Vec<u8> = (0..40).flat_map(|n| if n % 5 == 4 { noise.clone() } else { half(n) }).collect();
    world.write(1, 0, &all);
    for n in 0..20 {
        world.write(1, 64 + n, &half(100 + n));
    }
    for seed in 0..3 {
        assert_eq!(world.read(1, 0, 40), all);
        world = world.crash(&mut Dice::new(seed));
    }
    let alone: Vec<u8> = (100..120).flat_map(half).collect();
    assert_eq!((world.read(1, 0, 40), world.read(1, 64, 20)), (all.clone(), alone.clone()));
    world.settle();
    assert!(world.engine.log_writes().data < 65 * 2300, "{:?}", world.engine.log_writes());
    assert_eq!((world.read(1, 0, 40), world.read(1, 64, 20)), (all, alone));
    world.check();
}

#[test]
fn where_nothing_compresses_it_is_tried_ever_less_and_resumed_when_something_does() {
    let mut world = world();
    for n in 0..60 {
        world.write(1, n, &Dice::new(n).bytes(BLOCK));
    }
    let tries = (0..80).filter(|n| appended(&mut world, 100 + n, &half(*n)) == 4096).count();
    assert!((16..80).contains(&tries), "{tries}: at the latest after 63 frames");
}

/// A part of an array in memory may be spoiled before it gets its checksum, or a program may have written it wrongly. Nothing
/// says that the write was not acknowledged, so the journal does not end there.
#[test]
fn a_cell_that_does_not_decode_in_a_batch_that_is_whole_is_lost_and_nothing_else() {
    let mut world = world();
    let [first, second]: [Vec<u8>; 2] = [0, 16].map(|from| (from..from + 16).flat_map(half).collect());
    world.write(1, 0, &first);
    world.write(1, 16, &second);
    world.write(1, 40, &half(40));
    let shelf = world.shelf.crash(&mut Dice::new(1));
    drop(world);
    assert_eq!(shelf.corrupt_journal(&half(20)[100..200]), 1);
    let why = World::try_open(shelf.crash(&mut Dice::new(1)), options()).err().expect("refused").to_string();
    assert!(why.contains("block 4 of journal batch") && why.contains("ashlard check --repair"), "{why}");
    let (engine, found) = ready(Engine::open_leniently(shelf.clone(), options())).expect("opened");
    let repair = ready(engine.repair(found, &mut |_| {})).expect("repaired");
    let lost: Vec<Extent> = repair.lost.iter().flat_map(|loss| loss.extents.clone()).collect();
    assert_eq!(lost, [Extent::new(16, 16)], "{repair:?}");
    ready(engine.write_repair()).expect("written");
    drop(engine);
    let mut world = World::open(shelf.crash(&mut Dice::new(1)));
    assert_eq!((world.read(1, 0, 16), world.read(1, 40, 1)), (first, half(40)));
    assert!(matches!(world.execute(1, Op::Read(Extent::new(20, 1))), Err(Error::Medium { .. })));
    world.write(1, 16, &second);
    assert!(matches!(world.execute(1, Op::Read(Extent::new(20, 1))), Ok(Reply::Data(_))));
    world.settle();
    world.check();
}
