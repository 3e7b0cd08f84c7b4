//! Hosts that read in order find what they ask for in memory; nothing else changes.

use crate::support::{Dice, MemShelf, World, data, each_seed, options, poll};
use block::{Disk, DiskId, Extent, Op, Pending, Reply};
use engine::{Options, Tunables};
use std::pin::Pin;
use std::task::Poll;

const BLOCK: usize = 4096;

/// Blocks of the volume.
const BLOCKS: u64 = 1024;

fn with(tunables: Tunables) -> Options {
    Options { cache_bytes: 16 << 20, recompress: false, tunables, ..options() }
}

/// Half of each block is noise, so that frames are compressed.
fn text(seed: u64, blocks: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    (0..blocks).flat_map(|_| [dice.bytes(BLOCK / 2), vec![0; BLOCK / 2]].concat()).collect()
}

/// A volume in the log, and nothing in the cache.
fn filled(tunables: Tunables) -> World {
    filled_with(with(tunables))
}

fn filled_with(options: Options) -> World {
    let mut world = World::open_with(MemShelf::small(), options.clone());
    world.create(1, BLOCK as u32, BLOCKS * BLOCK as u64);
    for at in (0..BLOCKS).step_by(16) {
        world.write(1, at, &text(at, 16));
        world.turn(20);
    }
    let engine = world.engine.clone();
    world.run(engine.shutdown()).expect("the last checkpoint");
    drop(engine);
    let mut world = World::open_with(world.shelf, options);
    // The index is rebuilt.
    world.settle();
    world
}

/// Reads the volume in order; returns the number of reads of the shelf.
fn scan(world: &mut World) -> u64 {
    let before = world.shelf.reads();
    for at in (0..BLOCKS).step_by(16) {
        assert!(world.read(1, at, 16) == text(at, 16), "block {at}");
    }
    world.shelf.reads() - before
}

#[test]
fn a_volume_is_read_in_order_in_larger_pieces() {
    let none = Tunables { read_ahead_window_bytes: 0, ..Tunables::default() };
    let one_by_one = scan(&mut filled(none));
    assert!(one_by_one >= BLOCKS / 8, "{one_by_one}");
    let ahead = scan(&mut filled(Tunables::default()));
    assert!(ahead < one_by_one / 4, "{ahead} of {one_by_one}");
}

/// The volume after some of it was overwritten at random.
struct Disordered {
    world: World,
    overwritten: Vec<u64>,
}

impl Disordered {
    /// Of `blocks` blocks, `each` are flushed together.
    fn new(tunables: Tunables, blocks: u64, each: usize) -> Self {
        let mut world = filled(tunables);
        let overwritten: Vec<u64> = (0..blocks).map(|n| n * 397 % BLOCKS).collect();
        for group in overwritten.chunks(each) {
            group.iter().for_each(|at| world.write(1, *at, &text(BLOCKS + at, 1)));
            world.settle();
        }
        Self { world, overwritten }.open_again(tunables)
    }

    /// Nothing is in the cache afterwards.
    fn open_again(mut self, tunables: Tunables) -> Self {
        let engine = self.world.engine.clone();
        self.world.run(engine.shutdown()).expect("the last checkpoint");
        drop(engine);
        let mut world = World::open_with(self.world.shelf, with(tunables));
        world.settle();
        Self { world, ..self }
    }

    /// Reads a volume in order; returns the number of reads of the shelf.
    fn scan(&mut self, volume: u128) -> u64 {
        let before = self.world.shelf.reads();
        for at in (0..BLOCKS).step_by(16) {
            let mut expected = text(at, 16);
            for n in (at..at + 16).filter(|n| self.overwritten.contains(n)) {
                expected[(n - at) as usize * BLOCK..][..BLOCK].copy_from_slice(&text(BLOCKS + n, 1));
            }
            assert!(self.world.read(volume, at, 16) == expected, "block {at}");
        }
        self.world.shelf.reads() - before
    }

    fn moved(&self) -> u64 {
        self.world.engine.log_writes().moved
    }
}

/// Places in the small log are never far from each other.
fn far() -> Tunables {
    Tunables { read_gap_bytes: 0, ..Tunables::default() }
}

fn no_joining() -> Tunables {
    Tunables { join_leaves_max: 0, ..Tunables::default() }
}

/// Blocks that were overwritten lie elsewhere in the log, between those of other places, and together with each other.
#[test]
fn what_was_overwritten_at_random_is_read_ahead_in_few_pieces() {
    let ahead = scan(&mut filled(no_joining()));
    let mut disordered = Disordered::new(no_joining(), BLOCKS / 4, 64);
    let reads = disordered.scan(1);
    assert!(reads < 8 * ahead, "{reads}, {ahead} before anything was overwritten");
    disordered.world.settle();
    assert_eq!(disordered.moved(), 0);
}

#[test]
fn what_was_read_in_order_is_written_in_that_order() {
    let ahead = scan(&mut filled(Tunables::default()));
    for windows in [1, far().join_windows] {
        let tunables = Tunables { join_windows: windows, ..far() };
        let mut disordered = Disordered::new(tunables, BLOCKS, 4);
        let first = disordered.scan(1);
        disordered.world.settle();
        let moved = disordered.moved();
        assert!(moved > 0);
        let mut disordered = disordered.open_again(tunables);
        let second = disordered.scan(1);
        assert!(second < 2 * ahead && second < first / 2, "{first}, {second}, {ahead} before");
        disordered.world.settle();
        assert_eq!(disordered.moved(), 0, "it is in order");
    }
}

#[test]
fn a_power_loss_while_blocks_are_joined_loses_nothing() {
    for seed in 0..20 {
        let mut disordered = Disordered::new(far(), BLOCKS, 4);
        disordered.world.slow(seed);
        let mut dice = Dice::new(seed);
        disordered.scan(1);
        disordered.world.turn(dice.below(400) as usize);
        if seed % 2 == 0 {
            // A block that is being joined gets its former content once more.
            let at = disordered.overwritten.pop().expect("some");
            disordered.world.write(1, at, &text(at / 16 * 16, 16)[at as usize % 16 * BLOCK..][..BLOCK]);
            disordered.world.turn(dice.below(100) as usize);
        }
        disordered.world = disordered.world.crash_with(&mut dice, with(far()));
        disordered.world.check();
        disordered.scan(1);
        disordered.world.settle();
        disordered.world.check();
        disordered.scan(1);
    }
}

#[test]
fn shared_blocks_and_those_read_at_random_stay_where_they_are() {
    let mut disordered = Disordered::new(far(), BLOCKS, 4);
    for at in (0..BLOCKS).map(|n| n * 389 % BLOCKS) {
        drop(disordered.world.read(1, at, 1));
    }
    disordered.world.settle();
    assert_eq!(disordered.moved(), 0, "no host reads in order");
    let engine = disordered.world.engine.clone();
    disordered.world.run(engine.clone_volume(DiskId(1), DiskId(2), 0)).expect("a clone");
    for at in 0..BLOCKS / 512 {
        // Pages of the map that both had shared.
        disordered.world.write(2, at * 512 + 511, &text(7, 1));
    }
    disordered.world.settle();
    disordered.scan(1);
    disordered.world.settle();
    assert_eq!(disordered.moved(), 0);
}

/// A host with many reads under way looks for blocks that are in flight, and continues when they have arrived.
#[test]
fn what_was_read_ahead_since_the_look_up_is_not_read_again() {
    let ahead = scan(&mut filled(Tunables::default()));
    let mut world = filled(Tunables::default());
    // Metadata is in memory afterwards: reads are seen in the order in which the host sends them.
    [500, 1000].iter().for_each(|at| drop(world.read(1, *at, 1)));
    world.slow(5);
    let before = world.shelf.reads();
    let mut running: Vec<Reading> = Vec::new();
    let mut starts = (0..BLOCKS).step_by(16);
    loop {
        let free = 8 - running.len();
        running.extend(starts.by_ref().take(free).map(|at| {
            let read = world.volume(1).execute(Op::Read(Extent::new(at, 16)));
            (at, text(at, 16), read)
        }));
        if running.is_empty() {
            break;
        }
        world.turn(1);
        running.retain_mut(|(at, expected, pending)| match poll(Pin::new(pending)) {
            Poll::Pending => true,
            Poll::Ready(Ok(Reply::Data(found))) => {
                assert!(found.to_bytes() == *expected, "block {at}");
                false
            }
            Poll::Ready(other) => panic!("{other:?}"),
        });
    }
    let reads = world.shelf.reads() - before;
    assert!(reads <= ahead + 8, "{reads}, {ahead} one by one");
}

#[test]
fn reads_at_random_and_the_end_of_a_scan_read_nothing_more() {
    let mut world = filled(Tunables::default());
    let before = world.shelf.reads();
    for at in (0..40).map(|n| n * 8 * 397 % BLOCKS) {
        assert!(world.read(1, at, 1) == text(at / 16 * 16, 16)[at as usize % 16 * BLOCK..][..BLOCK]);
    }
    // Two leaves of the map, its root, and pages of the frame table.
    let reads = world.shelf.reads() - before;
    assert!((40..48).contains(&reads), "{reads}");
    let mut world = filled(Tunables::default());
    (0..10).for_each(|n| drop(world.read(1, n * 16, 16)));
    let before = world.shelf.reads();
    world.turn(1000);
    assert_eq!(world.shelf.reads(), before);
}

#[test]
fn a_scan_leaves_what_hosts_come_back_to_in_the_cache() {
    for window in [0, Tunables::default().read_ahead_window_bytes] {
        let tunables = Tunables { read_ahead_window_bytes: window, ..Tunables::default() };
        let mut world = filled_with(Options { cache_bytes: 2 << 20, ..with(tunables) });
        let hot = |world: &mut World| {
            let before = world.shelf.reads();
            (0..16).for_each(|n| drop(world.read(1, n * 23 % 128 * 8, 8)));
            world.shelf.reads() - before
        };
        (0..3).for_each(|_| _ = hot(&mut world));
        assert_eq!(hot(&mut world), 0);
        assert!(scan(&mut world) > 20);
        assert_eq!(hot(&mut world), 0, "window {window}");
    }
}

/// A read of one block reads its cell alone, and the cache puts the cells of a frame together.
#[test]
fn blocks_of_a_frame_are_read_one_by_one_and_then_found_in_the_cache() {
    let mut world = filled(Tunables { read_ahead_window_bytes: 0, ..Tunables::default() });
    world.read(1, 1000, 1);
    let before = world.shelf.reads();
    let order = [3, 2, 5, 0, 7, 6, 1, 4];
    for (count, at) in (1u64..).zip(order) {
        assert!(world.read(1, 512 + at, 1) == text(512, 16)[at as usize * BLOCK..][..BLOCK], "block {at}");
        assert_eq!(world.shelf.reads() - before, count, "block {at}");
    }
    assert!(world.read(1, 512, 8) == text(512, 16)[..8 * BLOCK]);
    assert_eq!(world.shelf.reads() - before, order.len() as u64);
}

/// A read under way: the first block, and what it has to find.
type Reading = (u64, Vec<u8>, Pending);

/// Reads of two hosts in order, several at a time, beside writes, on a shelf that answers in any order.
#[test]
fn what_is_read_ahead_is_what_was_written_last() {
    each_seed(|seed| {
        let mut dice = Dice::new(seed + 11);
        let tunables = Tunables {
            read_ahead_window_bytes: BLOCK * (1 << dice.below(9)),
            read_ahead_in_flight_bytes: BLOCK * (1 << dice.below(10)),
            read_ahead_piece_bytes: 4096 << dice.below(7),
            read_ahead_streams: 1 + dice.below(4) as usize,
            read_ahead_min_reads: 1 + dice.below(3) as u32,
            ..Tunables::default()
        };
        let mut world = filled(tunables);
        let mut model: Vec<u8> = (0..BLOCKS).step_by(16).flat_map(|at| text(at, 16)).collect();
        world.slow(seed);
        let mut hosts = [0, BLOCKS / 2];
        let mut running: Vec<Reading> = Vec::new();
        for round in 0..1500 {
            world.turn(1 + dice.below(3) as usize);
            running.retain_mut(|(at, expected, pending)| match poll(Pin::new(pending)) {
                Poll::Pending => true,
                Poll::Ready(Ok(Reply::Data(found))) => {
                    assert!(found.to_bytes() == *expected, "seed {seed}, round {round}, block {at}");
                    false
                }
                Poll::Ready(other) => panic!("{other:?}"),
            });
            if running.len() < 8 {
                let host = dice.below(2) as usize;
                let count = (1 + dice.below(24)).min(BLOCKS - hosts[host]);
                let at = hosts[host];
                let expected = model[at as usize * BLOCK..(at + count) as usize * BLOCK].to_vec();
                running.push((at, expected, world.volume(1).execute(Op::Read(Extent::new(at, count)))));
                hosts[host] = (at + count) % BLOCKS;
            }
            if dice.below(20) == 0 {
                let (at, new) = (dice.below(BLOCKS), text(round + 10_000, 1));
                // Reads under way may find either; none of them does.
                if running
                    .iter()
                    .all(|(from, what, _)| at < *from || at >= from + (what.len() / BLOCK) as u64)
                {
                    world.execute(1, Op::Write { lba: at, data: data(&new) }).expect("written");
                    model[at as usize * BLOCK..][..BLOCK].copy_from_slice(&new);
                }
            }
        }
        drop(running);
        world.check();
    });
}

#[test]
fn an_engine_ends_with_reads_in_flight() {
    let mut world = filled(Tunables::default());
    world.slow(3);
    for at in [0, 16, 32] {
        world.read(1, at, 16);
    }
    let shelf = world.shelf.clone();
    drop(world);
    let mut dice = Dice::new(1);
    (0..100).for_each(|_| shelf.answer(&mut dice));
}
