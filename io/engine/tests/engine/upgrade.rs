//! Opening an array keeps its format, so that an earlier release opens it, too. Only a commit raises it, and a power loss at any
//! moment of that leaves the old format or the new one.

use crate::format::{LAYOUT, V6};
use crate::support::{Dice, MemShelf, World, options, poll};
use block::{Error, Known, Ledger, Sequence};
use engine::{Engine, Options};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

/// What an earlier release opens and writes.
fn earlier() -> Options {
    Options { formats: 6..=6, ..options() }
}

fn format_6() -> Arc<MemShelf> {
    MemShelf::import(LAYOUT, &std::fs::read(V6).expect("the fixture is in the tree"))
}

/// The format of the superblock.
fn format_of(shelf: &MemShelf) -> u8 {
    let bytes = shelf.export();
    let at = bytes.windows(4).position(|four| four == b"ALE1").expect("a superblock");
    bytes[at + 8]
}

/// Whether its journal has cells.
fn has_cells(shelf: &MemShelf) -> bool {
    shelf.export().windows(4).any(|four| four == b"ALJ2")
}

fn commit(engine: &Arc<Engine>) -> Pin<Box<dyn Future<Output = block::Result<()>>>> {
    let engine = engine.clone();
    Box::pin(async move { engine.commit_format().await })
}

#[test]
fn a_new_array_has_the_newest_format_and_has_nothing_to_commit() {
    let mut world = World::open(MemShelf::small());
    assert_eq!((world.engine.format(), world.engine.formats()), (8, 6..=8));
    let done = commit(&world.engine);
    world.run(done).expect("nothing to do");
    assert_eq!(format_of(&world.shelf), 8);
}

#[test]
fn an_array_of_an_earlier_release_goes_on_in_its_format_until_a_commit() {
    let mut world = World::open(format_6());
    assert!(!world.engine.notes_commands());
    world.create(9, 512, 1 << 20);
    world.write(9, 0, &[1; 4096]);
    world.settle();
    world.write(9, 8, &[2; 4096]);
    let world = world.crash(&mut Dice::new(1));
    assert_eq!((world.engine.format(), format_of(&world.shelf)), (6, 6));
    // The earlier release is installed again: it finds what was written since.
    let mut world = world.crash_with(&mut Dice::new(2), earlier());
    assert_eq!(world.read(9, 0, 16), [[1; 4096], [2; 4096]].concat());
    world.write(9, 16, &[3; 4096]);
    world.settle();
    world.check();
    // And the new one, which commits.
    let mut world = world.crash(&mut Dice::new(3));
    let done = commit(&world.engine);
    world.run(done).expect("committed");
    assert_eq!((world.engine.format(), format_of(&world.shelf)), (8, 8));
    assert!(world.engine.notes_commands() && !has_cells(&world.shelf));
    assert_eq!(world.read(9, 0, 24), [[1; 4096], [2; 4096], [3; 4096]].concat());
    world.write(9, 24, &[4; 4096]);
    assert!(has_cells(&world.shelf));
    let mut world = world.crash(&mut Dice::new(4));
    assert_eq!(world.read(9, 24, 8), [4; 4096]);
    world.settle();
    world.check();
    assert_eq!((world.engine.format(), format_of(&world.shelf)), (8, 8));
    let known = world.engine.look_up(Sequence { front: 1, number: 0, lowest: 0 });
    assert_eq!(known, Known::New);
    let why = World::try_open(world.shelf.crash(&mut Dice::new(5)), earlier()).err().expect("refused");
    assert!(why.to_string().contains("format 8") && why.to_string().contains("newer"), "{why}");
}

#[test]
fn a_power_loss_at_any_moment_of_a_commit_leaves_the_old_format_or_the_new_one() {
    let (mut old, mut new, mut acknowledged) = (0, 0, 0);
    for seed in 0..150 {
        let mut dice = Dice::new(seed);
        let mut world = World::open(format_6());
        world.create(9, 512, 1 << 20);
        world.write(9, 0, &[1; 8192]);
        world.slow(seed);
        let mut done = commit(&world.engine);
        let turns = dice.below(9);
        let committed = (0..turns).any(|_| {
            world.turn(1);
            poll(done.as_mut()) == Poll::Ready(Ok(()))
        });
        drop(done);
        // Its releases differ: the old one opens what is in the old format.
        let options = if seed % 2 == 0 && !committed { earlier() } else { options() };
        let shelf = world.shelf.crash(&mut dice);
        drop(world);
        let format = format_of(&shelf);
        assert!(!committed || format == 8, "seed {seed}: it was acknowledged");
        let expected = options.formats.contains(&format.into());
        match World::try_open(shelf, options) {
            Ok(mut world) => {
                assert!(expected && world.engine.format() == u32::from(format), "seed {seed}");
                assert_eq!(world.read(9, 0, 16), [1; 8192], "seed {seed}");
                world.check();
            }
            Err(why) => assert!(!expected && why.to_string().contains("format 8"), "seed {seed}: {why}"),
        }
        acknowledged += u32::from(committed);
        (old, new) = (old + u32::from(format == 6), new + u32::from(format == 8));
    }
    assert!(old > 20 && new > 20 && acknowledged > 10, "{old} old, {new} new, {acknowledged} acknowledged");
}

#[test]
fn a_commit_ends_with_an_error_when_the_array_stops_before() {
    let mut world = World::open(format_6());
    let engine = world.engine.clone();
    world.shelf.fail();
    let done = commit(&engine);
    assert!(matches!(world.run(done), Err(Error::Stopped(_))));
    assert_eq!(engine.format(), 6);
}
