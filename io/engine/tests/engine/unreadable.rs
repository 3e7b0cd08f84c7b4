//! Parts of the log can't be read for the time of one start, and can be read again at the next.

use crate::support::{Dice, MemShelf, World, data, each_seed, options, small_layout};
use block::{Error, Op};
use engine::{Options, Tunables};
use std::sync::Arc;

const LEAVES: u64 = 24;

fn page(leaf: u64, round: u64) -> Vec<u8> {
    Dice::new(leaf << 32 | round).bytes(4096)
}

/// Checkpoints come before the blocks that their map pages name have been flushed.
fn open(shelf: Arc<MemShelf>) -> World {
    let tunables = Tunables { flush_slots: 2, ..Tunables::default() };
    World::open_with(shelf, Options { page_bytes: 64 << 10, tunables, ..options() })
}

/// Writes a block of a leaf of the map; true if it was written.
fn write(world: &mut World, leaf: u64, round: u64) -> bool {
    match world.execute(1, Op::Write { lba: leaf * 512, data: data(&page(leaf, round)) }) {
        Ok(_) => true,
        Err(Error::Medium { .. }) => false,
        Err(other) => panic!("leaf {leaf}: {other}"),
    }
}

#[test]
fn a_checkpoint_that_can_not_read_a_map_page_keeps_what_the_page_names() {
    each_seed(|seed| {
        let mut dice = Dice::new(seed + 50);
        let mut refused = 0;
        let mut world = open(MemShelf::small());
        world.create(1, 4096, LEAVES << 21);
        let mut rounds = [0; LEAVES as usize];
        (0..LEAVES).for_each(|leaf| assert!(write(&mut world, leaf, 0)));
        for round in 1..12 {
            // Map pages go to the log while the blocks that they name wait to be flushed.
            world.turn(dice.below(60) as usize);
            for leaf in (0..LEAVES).filter(|leaf| (leaf + round) % 3 > 0) {
                assert!(write(&mut world, leaf, round));
                rounds[leaf as usize] = round;
                world.turn(dice.below(4) as usize);
            }
            for life in 0..2 {
                world = open(world.shelf.crash(&mut dice));
                world.shelf.hide((0..small_layout().segments).filter(|_| dice.below(2) == 0));
                for leaf in (0..LEAVES).filter(|leaf| (leaf + round) % 4 == life) {
                    match write(&mut world, leaf, round + 100) {
                        true => rounds[leaf as usize] = round + 100,
                        false => refused += 1,
                    }
                }
                world.settle();
            }
            world = open(world.shelf.crash(&mut dice));
            world.check();
            for (leaf, round) in (0..).zip(rounds) {
                assert_eq!(world.read(1, leaf * 512, 1), page(leaf, round), "leaf {leaf}");
            }
        }
        assert!(refused > 0, "nothing was unreadable");
    });
}
