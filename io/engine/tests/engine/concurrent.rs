//! Operations side by side on a slow shelf, and a power loss at any moment: each operation took effect whole or not at
//! all, and what was acknowledged did.

use crate::support::{Dice, MemShelf, World, data, each_seed, options};
use block::{CopySegment, Disk, DiskId, Extent, Op, Pending};
use engine::Options;
use std::task::{Context, Poll, Waker};

/// Places of 24 KiB that operations have to themselves.
const PLACES: u64 = 120;
const BLOCKS: u64 = 48;

struct Running {
    place: u64,
    new: Vec<u8>,
    pending: Pending,
}

struct Race {
    world: World,
    dice: Dice,
    /// What each place holds.
    held: Vec<Vec<u8>>,
    running: Vec<Running>,
}

fn tight() -> Options {
    Options { slot_bytes: 256 << 10, cache_bytes: 64 << 10, page_bytes: 64 << 10, ..options() }
}

impl Race {
    fn start(&mut self) {
        let place = self.dice.below(PLACES);
        if self.running.iter().any(|one| one.place == place) {
            return;
        }
        let (lba, len) = (place * BLOCKS, (BLOCKS * 512) as usize);
        let old = self.held[place as usize].clone();
        let (op, new) = match self.dice.below(6) {
            0 => (Op::Unmap(vec![Extent::new(lba, BLOCKS)]), vec![0; len]),
            1 => {
                let block = self.dice.bytes(512);
                let fill = Op::Fill { extent: Extent::new(lba, BLOCKS), block: data(&block) };
                (fill, block.repeat(BLOCKS as usize))
            }
            2 => {
                let mut new = old.clone();
                new[512..1024].fill(self.dice.below(256) as u8);
                let (compare, write) = (data(&old[512..1024]), data(&new[512..1024]));
                (Op::CompareAndWrite { lba: lba + 1, compare, write }, new)
            }
            3 => {
                // From a place that does not change: beyond those of the race.
                let segment = CopySegment {
                    source: DiskId(1),
                    source_lba: PLACES * BLOCKS,
                    target: DiskId(1),
                    target_lba: lba,
                    blocks: BLOCKS,
                };
                (Op::Copy(vec![segment]), self.held[PLACES as usize].clone())
            }
            _ => {
                let new = self.dice.bytes(len);
                (Op::Write { lba, data: data(&new) }, new)
            }
        };
        let pending = self.world.volume(1).execute(op);
        self.running.push(Running { place, new, pending });
    }

    fn poll(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let held = &mut self.held;
        self.running.retain_mut(|one| match std::pin::Pin::new(&mut one.pending).poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(outcome) => {
                outcome.expect("it fits");
                held[one.place as usize] = std::mem::take(&mut one.new);
                false
            }
        });
        self.world.turn(1);
    }

    fn finish(&mut self) {
        for _ in 0..500_000 {
            if self.running.is_empty() {
                return;
            }
            self.poll();
        }
        panic!("{} operations wait forever", self.running.len());
    }

    fn compare(&mut self) {
        for place in 0..=PLACES {
            let read = self.world.read(1, place * BLOCKS, BLOCKS);
            assert!(read == self.held[place as usize], "place {place}");
        }
    }

    /// Loses power; what was under way is there whole, or not at all.
    fn crash(self) -> Self {
        let Race { world, mut dice, mut held, running } = self;
        let shelf = world.shelf.crash(&mut dice);
        let running: Vec<_> = running.into_iter().map(|one| (one.place, one.new)).collect();
        drop(world);
        let mut world = World::open_with(shelf, tight());
        for (place, new) in running {
            let read = world.read(1, place * BLOCKS, BLOCKS);
            assert!(read == held[place as usize] || read == new, "place {place} is torn");
            held[place as usize] = read;
        }
        Race { world, dice, held, running: Vec::new() }
    }
}

fn race(seed: u64) {
    let mut dice = Dice::new(seed);
    let mut world = World::open_with(MemShelf::small(), tight());
    world.create(1, 512, (PLACES + 1) * BLOCKS * 512);
    let mut held = vec![vec![0; (BLOCKS * 512) as usize]; PLACES as usize + 1];
    held[PLACES as usize] = dice.bytes((BLOCKS * 512) as usize);
    world.write(1, PLACES * BLOCKS, &held[PLACES as usize]);
    let mut race = Race { world, dice, held, running: Vec::new() };
    for _ in 0..3 {
        race.world.slow(race.dice.next());
        for _ in 0..150 {
            for _ in 0..race.dice.below(4) {
                race.start();
            }
            for _ in 0..race.dice.below(12) {
                race.poll();
            }
        }
        if race.dice.below(3) == 0 {
            race.finish();
        }
        race = race.crash();
        race.compare();
        race.world.check();
    }
}

#[test]
fn operations_side_by_side_are_whole_through_power_losses() {
    each_seed(race);
}
