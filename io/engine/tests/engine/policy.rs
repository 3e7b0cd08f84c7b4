//! Reduction policies: the effect on data, and that they survive a power loss.

use crate::support::{Dice, MemShelf, World};
use block::DiskId;
use engine::{Compression, Policy};

const OFF: Policy = Policy { dedup: false, compression: Compression::Off, verify: false };

fn world(policies: &[Policy]) -> World {
    let mut world = World::open(MemShelf::small());
    for (id, policy) in (1..).zip(policies) {
        world.create(id, 512, 4 << 20);
        let engine = world.engine.clone();
        world.run(engine.set_policy(DiskId(id), *policy)).expect("set");
    }
    world
}

/// Blocks that differ from each other and compress to a few bytes.
fn text() -> Vec<u8> {
    (0..16u8).flat_map(|n| [n + 1; 4096]).collect()
}

#[test]
fn a_policy_outlives_a_crash_and_a_clone_inherits_it() {
    let policy = Policy { dedup: false, compression: Compression::High, verify: true };
    let mut world = world(&[policy]);
    let engine = world.engine.clone();
    world.run(engine.clone_volume(DiskId(1), DiskId(7), 0)).expect("cloned");
    drop(engine);
    for settled in [false, true] {
        if settled {
            world.settle();
            let engine = world.engine.clone();
            world.run(engine.shutdown()).expect("shut down");
        }
        world = world.crash(&mut Dice::new(1));
        assert_eq!(world.engine.policy(DiskId(1)), Some(policy));
        assert_eq!(world.engine.policy(DiskId(7)), Some(policy));
        assert_eq!(world.engine.policy(DiskId(9)), None);
    }
}

#[test]
fn without_deduplication_and_compression_data_take_what_they_are() {
    let mut world = world(&[OFF]);
    for at in [0, 1024, 2048] {
        world.write(1, at, &text());
    }
    world.settle();
    let space = world.engine.space();
    assert_eq!(space.unique, (3 * 64) << 10);
    assert!(space.physical > space.unique, "{space:?}");
    assert_eq!(world.read(1, 1024, 128), text());
    world.check();
}

#[test]
fn compression_makes_data_small_and_they_come_back() {
    for compression in [Compression::Fast, Compression::High, Compression::Adaptive] {
        let mut world = world(&[Policy { dedup: false, compression, verify: false }]);
        world.write(1, 0, &text());
        world.write(1, 256, &Dice::new(1).bytes(64 << 10));
        world.settle();
        let physical = world.engine.space().physical;
        assert!((64 << 10..70 << 10).contains(&physical), "{compression:?}: {physical}");
        let engine = world.engine.clone();
        world.run(engine.shutdown()).expect("shut down");
        drop(engine);
        world = world.crash(&mut Dice::new(1));
        assert_eq!(world.read(1, 0, 128), text());
        assert_eq!(world.read(1, 256, 128), Dice::new(1).bytes(64 << 10));
        world.check();
    }
}

#[test]
fn a_volume_without_deduplication_neither_finds_nor_is_found() {
    let on = Policy::default();
    let mut world = world(&[OFF, on, on]);
    for (id, unique) in [(1, 64), (2, 128), (3, 128), (1, 192)] {
        // The last one is the first volume's again: its own older blocks are gone then, the others' are not shared.
        world.write(id, if unique == 192 { 512 } else { 0 }, &text());
        world.settle();
        assert_eq!(world.engine.space().unique, unique << 10, "volume {id}");
    }
    world.check();
}

#[test]
fn verified_duplicates_are_shared_when_the_bytes_are_the_same() {
    let verify = Policy { verify: true, ..Policy::default() };
    let mut world = world(&[verify, verify]);
    world.write(1, 0, &text());
    world.write(1, 512, &text());
    world.settle();
    world.write(2, 0, &text());
    world.settle();
    assert_eq!(world.engine.space().unique, 64 << 10);
    world.check();
}

#[test]
fn after_a_restart_copies_are_found_once_the_index_has_been_rebuilt() {
    let mut world = world(&[Policy::default(), Policy::default()]);
    world.write(1, 0, &text());
    world.settle();
    let before = world.engine.space();
    world = world.crash(&mut Dice::new(3));
    world.settle();
    world.write(2, 800, &text());
    world.settle();
    let after = world.engine.space();
    assert_eq!((after.unique, after.physical), (before.unique, before.physical));
    assert_eq!(world.read(2, 800, 128), text());
    world.check();
}
