//! Blocks wait in the journal for their neighbours and for newer versions of themselves.

use crate::support::{Dice, MemShelf, World, options};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

const BLOCK: usize = 4096;

/// A block that is like no other.
fn block(number: u64) -> Vec<u8> {
    let mut dice = Dice::new(number + 1);
    (0..BLOCK).map(|_| dice.below(256) as u8).collect()
}

/// A world whose writes gather for as long as `open` is false.
fn gathering() -> (World, Arc<AtomicBool>) {
    let open = Arc::new(AtomicBool::new(false));
    let mut world = World::open_gated(MemShelf::small(), open.clone());
    world.create(1, 4096, 8 << 20);
    world.turn(50);
    (world, open)
}

#[test]
fn what_is_overwritten_while_it_waits_is_reduced_once() {
    let (mut world, open) = gathering();
    for version in 0..20 {
        world.write(1, 7, &block(version));
        world.turn(6);
    }
    assert_eq!(world.engine.log_writes().data, 0, "it waits");
    open.store(true, Relaxed);
    world.turn(50);
    let once = world.engine.log_writes().data;
    assert!(once > 0 && once < BLOCK as u64 + 1024, "{once} bytes for one block");
    assert_eq!(world.read(1, 7, 1), block(19));
    world.check();
}

#[test]
fn what_may_wait_is_bounded_without_any_clock() {
    let (mut world, _closed) = gathering();
    let written = (0..2048u64).find(|n| {
        world.write(1, *n, &block(*n));
        world.turn(6);
        world.engine.log_writes().data > 0
    });
    let bound = options().slot_bytes / 4 / BLOCK;
    assert!(written.is_some_and(|count| count as usize <= bound), "{written:?} of {bound} blocks waited");
    assert!(written.is_some_and(|count| count > 8), "{written:?} blocks are no gathering");
    world.check();
}

#[test]
fn a_crash_while_blocks_wait_loses_none() {
    let (mut world, _closed) = gathering();
    for n in 0..20 {
        world.write(1, n * 100, &block(n));
    }
    let mut world = world.crash(&mut Dice::new(4));
    world.settle();
    for n in 0..20 {
        assert_eq!(world.read(1, n * 100, 1), block(n));
    }
    world.check();
}
