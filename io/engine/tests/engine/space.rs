//! Space: what is dropped comes back, what is overwritten is cleaned, and a full array serves on and recovers.

use crate::support::{Dice, MemShelf, World, data, options};
use block::{Disk, DiskId, Error, Extent, Op};

const BLOCK: u64 = 4096;

/// Writes random blocks until the array refuses; returns how many it took.
fn fill(world: &mut World, dice: &mut Dice, id: u128, at: &mut u64) -> u64 {
    let blocks = world.volume(id).geometry().blocks;
    let mut size = 4;
    for written in 0.. {
        let lba = *at % (blocks - 8);
        match world.execute(id, Op::Write { lba, data: data(&dice.bytes(size * BLOCK as usize)) }) {
            Ok(_) => *at += size as u64,
            Err(Error::NoSpace) if size == 1 => return written,
            Err(Error::NoSpace) => size = 1,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!()
}

#[test]
fn a_full_array_serves_on_and_comes_back_by_unmap_alone() {
    let mut dice = Dice::new(1);
    let mut world = World::open(MemShelf::small());
    world.create(1, 4096, 64 << 20);
    let mut at = 0;
    for round in 0..6 {
        let written = fill(&mut world, &mut dice, 1, &mut at);
        assert!(written > 100, "round {round}: {written}");
        let marker = dice.bytes(BLOCK as usize);
        assert_eq!(world.execute(1, Op::Write { lba: 0, data: data(&marker) }).unwrap_err(), Error::NoSpace);
        world.read(1, 0, 64);
        world.settle();
        let (text, last) = (b"what is overwritten with less ".repeat(137), (at - 1) % (64 * 256 - 8));
        world
            .execute(1, Op::Write { lba: last, data: data(&text[..4096]) })
            .expect("it takes less than before");
        assert_eq!(world.read(1, last, 1), text[..4096]);
        world.execute(1, Op::Write { lba: 5, data: data(&[0; 4096]) }).expect("zeros need no space");
        world.execute(1, Op::Flush).expect("nothing to do");
        world.settle();
        world.check();
        if round % 2 == 1 {
            world = world.crash(&mut dice);
            let more = fill(&mut world, &mut dice, 1, &mut at);
            assert!(
                more < written / 20,
                "full after a restart too, but for what had been counted at its worst"
            );
            world.check();
        }
        // Every other 32 KiB: what is left is spread over all segments and has to be cleaned out of them.
        let blocks = world.volume(1).geometry().blocks;
        let holes = (round % 2 * 8..blocks - 8).step_by(16).map(|lba| Extent::new(lba, 8));
        for holes in holes.collect::<Vec<_>>().chunks(64) {
            world.execute(1, Op::Unmap(holes.to_vec())).expect("unmap needs no space");
        }
        world.settle();
        world.execute(1, Op::Write { lba: 0, data: data(&marker) }).expect("there is room again");
        assert_eq!(world.read(1, 0, 1), marker);
        world.check();
    }
}

#[test]
fn overwriting_many_times_the_capacity_never_fills_the_array() {
    let mut dice = Dice::new(2);
    let shelf = MemShelf::small();
    let mut world = World::open(shelf.clone());
    let blocks = 2600; // 10 MiB of 16
    world.create(1, 4096, blocks * BLOCK);
    let mut model = vec![0u64; blocks as usize];
    for step in 1..12_000u64 {
        let lba = if step <= blocks { step - 1 } else { dice.below(blocks) };
        let mut bytes = Dice::new(step).bytes(BLOCK as usize);
        bytes[..8].copy_from_slice(&step.to_le_bytes());
        world.write(1, lba, &bytes);
        model[lba as usize] = step;
    }
    world.settle();
    world.check();
    for (lba, step) in model.iter().enumerate() {
        assert_eq!(world.read(1, lba as u64, 1)[..8], step.to_le_bytes(), "block {lba}");
    }
    let (host, media) = (12_000 * BLOCK, shelf.segment_writes());
    assert!(media < 5 * host, "{media} bytes of log for {host} bytes written");
}

#[test]
fn a_deleted_volume_gives_back_space_though_its_map_was_not_in_memory() {
    let mut tight = options();
    tight.page_bytes = 32 << 10; // a few pages of maps
    tight.tunables.released_pages = 1;
    let mut dice = Dice::new(12);
    let mut world = World::open_with(MemShelf::small(), tight);
    world.create(1, 4096, 128 << 20);
    for leaf in 0..48 {
        world.write(1, leaf * 512, &dice.bytes(BLOCK as usize));
    }
    world.settle();
    let engine = world.engine.clone();
    world.run(engine.delete_volume(DiskId(1), 0)).expect("deleted");
    world.settle();
    assert_eq!(world.engine.space().map_pages, 0, "nothing has to be asked for");
    world.check();
}

#[test]
fn space_is_counted_exactly() {
    let mut dice = Dice::new(3);
    let mut world = World::open(MemShelf::small());
    world.create(1, 512, 4 << 20);
    world.create(2, 512, 4 << 20);
    let noise = dice.bytes(64 << 10);
    world.write(1, 0, &noise);
    world.write(2, 1024, &noise);
    world.write(1, 512, &[0; 32 << 10]);
    world.settle();
    let space = world.engine.space();
    assert_eq!((space.provisioned, space.mapped, space.unique), (8 << 20, 160 << 10, 64 << 10));
    assert!((64 << 10..68 << 10).contains(&space.physical), "{space:?}");
    assert_eq!(world.volume(1).space().mapped, 96 << 10);
    world.write(2, 2048, &b"compressible ".repeat(4096)[..32 << 10]);
    world.settle();
    let more = world.engine.space();
    assert_eq!(more.unique, 96 << 10);
    assert!(more.physical < space.physical + (4 << 10), "{more:?}");
    world.execute(1, Op::Unmap(vec![Extent::new(0, 8192)])).unwrap();
    world.settle();
    assert_eq!(world.engine.space().unique, 96 << 10, "the other volume holds it");
    let engine = world.engine.clone();
    world.run(engine.delete_volume(DiskId(2), 0)).unwrap();
    world.settle();
    let empty = world.engine.space();
    assert_eq!((empty.mapped, empty.unique, empty.physical), (0, 0, 0));
    drop(engine);
    world.check();
}

#[test]
fn a_clean_shutdown_leaves_nothing_to_replay() {
    let mut dice = Dice::new(4);
    let mut world = World::open(MemShelf::small());
    world.create(1, 512, 4 << 20);
    let noise = dice.bytes(64 << 10);
    world.write(1, 3, &noise);
    let engine = world.engine.clone();
    world.run(engine.shutdown()).expect("shut down");
    assert_eq!(world.execute(1, Op::Write { lba: 0, data: data(&[1; 512]) }).unwrap_err(), Error::NotReady);
    assert_eq!(world.read(1, 3, 128), noise, "reads go on");
    drop(engine);
    let before = world.shelf.appended_bytes();
    let mut world = world.crash(&mut dice);
    assert_eq!(world.read(1, 3, 128), noise);
    assert_eq!((before > 0, world.shelf.journal_batches()), (true, 0));
    world.check();
}

#[test]
fn a_damaged_frame_is_an_error_for_its_blocks_alone() {
    let mut dice = Dice::new(5);
    let mut world = World::open(MemShelf::small());
    world.create(1, 512, 4 << 20);
    let noise = dice.bytes(16 << 10);
    world.write(1, 0, &noise[..4096]);
    world.write(1, 64, &noise[4096..]);
    let engine = world.engine.clone();
    world.run(engine.shutdown()).expect("shut down");
    drop(engine);
    let mut world = World::open(world.shelf.crash(&mut dice));
    assert_eq!(world.shelf.corrupt(&noise[4096..4200]), 1);
    assert_eq!(world.read(1, 0, 8), noise[..4096]);
    assert_eq!(world.execute(1, Op::Read(Extent::new(60, 10))).unwrap_err(), Error::Medium { lba: 64 });
    world.write(1, 64, &noise[4096..]);
    assert_eq!(world.read(1, 64, 24), noise[4096..], "a block that is written again is whole");
}

#[test]
fn copying_costs_neither_data_nor_much_journal() {
    let mut dice = Dice::new(6);
    let mut world = World::open(MemShelf::small());
    world.create(1, 512, 50 << 30);
    world.create(2, 512, 50 << 30);
    for n in 0..32 {
        world.write(1, n * 999_983, &dice.bytes(8192));
    }
    world.settle();
    let (journal, log) = (world.shelf.appended_bytes(), world.shelf.segment_writes());
    let blocks = (16 << 20) / 512;
    for n in 0..3200 {
        let segment = block::CopySegment {
            source: DiskId(1),
            source_lba: n * blocks,
            target: DiskId(2),
            target_lba: n * blocks,
            blocks,
        };
        world.execute(1, Op::Copy(vec![segment])).expect("copied");
    }
    assert!(world.shelf.appended_bytes() - journal <= 3200 * 4096, "one page for each command at most");
    assert!(world.shelf.segment_writes() - log < 4 << 20, "metadata alone");
    for n in [0, 7, 31] {
        let (from, to) = (world.read(1, n * 999_983, 16), world.read(2, n * 999_983, 16));
        assert!(from == to);
    }
    assert_eq!(world.volume(2).space().mapped, world.volume(1).space().mapped);
    world.settle();
    world.check();
}

/// Takes a snapshot of disk 1 and changes the disk, for as long as there is space; returns how many were taken.
fn snapshots_until_full(world: &mut World, from: u128) -> u128 {
    for n in from.. {
        let engine = world.engine.clone();
        let pair = [(DiskId(1), DiskId(n))];
        match world.run(async move { engine.snapshot(&pair, &[], 0, 0).await }) {
            Ok(_) => {}
            Err(Error::NoSpace) => return n - from,
            Err(error) => panic!("snapshot {n}: {error}"),
        }
        let lba = n as u64 * 7 % 1000;
        match world.execute(1, Op::Write { lba, data: data(&n.to_le_bytes().repeat(256)) }) {
            Ok(_) | Err(Error::NoSpace) => {}
            Err(error) => panic!("write after snapshot {n}: {error}"),
        }
    }
    unreachable!()
}

#[test]
fn snapshots_are_refused_before_the_log_is_full_of_their_maps() {
    let mut dice = Dice::new(11);
    let layout = shelf::Layout { segments: 40, segment_bytes: 64 << 10, ..crate::support::small_layout() };
    let mut world = World::open(MemShelf::new(layout));
    world.create(1, 4096, 8 << 20);
    world.create(2, 4096, 8 << 20);
    for round in 0..3 {
        let taken = snapshots_until_full(&mut world, 10);
        eprintln!("{taken} {:?}", world.engine.space());
        assert!(taken > 300, "round {round}: {taken}");
        let engine = world.engine.clone();
        assert_eq!(world.run(engine.clone_volume(DiskId(1), DiskId(9), 0)).err(), Some(Error::NoSpace));
        // Operations that free space go on, and so do those that a host needs to use its disk.
        for lba in (0..2000).step_by(128) {
            world.execute(2, Op::Unmap(vec![Extent::new(lba, 3)])).expect("unmapped");
            world
                .execute(1, Op::Fill { extent: Extent::new(lba, 1), block: data(&[0; 4096]) })
                .expect("zeros");
        }
        world.execute(1, Op::SaveState(vec![round; 500].into())).expect("saved");
        if round == 1 {
            drop(engine);
            world = world.crash(&mut dice);
        }
        let engine = world.engine.clone();
        for n in 0..taken {
            world.run(engine.delete_volume(DiskId(10 + (n * 7919) % taken), 0)).expect("deleted");
        }
        drop(engine);
        world.settle();
        world.check();
        assert_eq!(world.engine.space().snapshot, 0);
        world.write(1, 5, &dice.bytes(256 << 10));
    }
}

#[test]
fn what_fits_in_the_journal_gets_its_room_whatever_is_in_use() {
    for before in 0..64 {
        for pages in (90..160).step_by(7) {
            let mut world = World::open(MemShelf::small());
            world.create(1, 4096, 4 << 20);
            (0..before).for_each(|block| world.write(1, block, &[1; 4096]));
            world.settle();
            let data = data(&Dice::new(pages).bytes(pages as usize * 4096));
            match world.execute(1, Op::Write { lba: 100, data }) {
                Ok(_) => {}
                Err(Error::Malformed(_)) if pages > 150 => {}
                other => panic!("{before} blocks, then {pages} pages: {other:?}"),
            }
        }
    }
}

/// Unmapping one block of a map page that many places share makes a page of its own: on a full array many of these use up
/// their part of the reserve. The way out stays open: what makes no pages is never refused.
#[test]
fn unmapping_that_needs_map_pages_is_refused_when_its_reserve_is_used_up_and_the_rest_goes_on() {
    let mut dice = Dice::new(9);
    let mut world = World::open(MemShelf::small());
    let leaves = 1 << 16;
    world.create(1, 4096, leaves * 512 * 4096);
    world.create(2, 4096, 64 << 20);
    let pattern = Op::Fill { extent: Extent::new(0, leaves * 512), block: data(&dice.bytes(4096)) };
    world.execute(1, pattern).expect("one block of data");
    fill(&mut world, &mut dice, 2, &mut 0);
    let before = world.engine.space_refusals();
    assert!(before.capacity > 0 && before.reserve == 0, "{before:?}");
    let some_of = |leaf: u64| {
        Op::Unmap((leaf..leaf + 32).map(|leaf| Extent::new(leaf * 512 + leaf % 512, 1)).collect())
    };
    let refused = (0..leaves).step_by(32).find(|leaf| match world.execute(1, some_of(*leaf)) {
        Ok(_) => false,
        Err(Error::NoSpace) => true,
        Err(error) => panic!("{error}"),
    });
    let refused = refused.expect("the reserve is used up");
    assert!(refused > 100 && world.engine.space_refusals().reserve == 1, "{refused}");
    world.settle();
    world.check();
    let mut world = world.crash(&mut dice);
    world.execute(1, some_of(0)).expect("its page is there");
    world.execute(1, Op::Unmap(vec![Extent::new(0, leaves * 512)])).expect("it gives pages back");
    world.settle();
    world.check();
    world.execute(2, Op::Unmap(vec![Extent::new(0, 16 << 10)])).expect("it gives space back");
    world.settle();
    world.write(1, 0, &dice.bytes(64 << 10));
    world.check();
}
