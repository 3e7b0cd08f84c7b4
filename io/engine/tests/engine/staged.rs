//! Copy lists that are unaligned and too large for one change: they are atomic as well.

use crate::support::{Dice, MemShelf, World, data};
use block::{CopySegment, Disk, DiskId, Extent, Op, Pending};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

const VOLUME: u64 = 4 << 20;
/// Blocks of 512 bytes; several times what one change takes with this journal.
const LONG: u64 = 2500;

/// A source and a target that both hold something.
struct Pair {
    world: World,
    source: Vec<u8>,
    target: Vec<u8>,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut world = World::open(MemShelf::small());
        let mut dice = Dice::new(seed);
        let [source, target] = [1, 2].map(|id| {
            world.create(id, 512, VOLUME);
            let bytes = dice.bytes((LONG as usize + 50) * 512);
            bytes.chunks(100 << 10).zip(0..).for_each(|(part, n)| world.write(id, n * 200, part));
            bytes
        });
        world.settle();
        Self { world, source, target }
    }

    /// A long shifted segment, and another that reads what the first wrote.
    fn list() -> Op {
        let segment = |source, source_lba, target, target_lba, blocks| CopySegment {
            source: DiskId(source),
            source_lba,
            target: DiskId(target),
            target_lba,
            blocks,
        };
        Op::Copy(vec![segment(1, 3, 2, 4, LONG), segment(2, 10, 2, 1, 30)])
    }

    fn begin(&self) -> Pending {
        self.world.volume(2).execute(Self::list())
    }

    /// The contents of the target after the list.
    fn copied(&self, source: &[u8]) -> Vec<u8> {
        let mut out = self.target.clone();
        let bytes = |blocks: std::ops::Range<u64>| blocks.start as usize * 512..blocks.end as usize * 512;
        out[bytes(4..4 + LONG)].copy_from_slice(&source[bytes(3..3 + LONG)]);
        out.copy_within(bytes(10..40), 512);
        out
    }

    fn read_target(&mut self) -> Vec<u8> {
        self.world.read(2, 0, LONG + 50)
    }
}

fn poll(pending: &mut Pending) -> bool {
    let ready = Pin::new(pending).poll(&mut Context::from_waker(Waker::noop()));
    if let Poll::Ready(end) = &ready {
        assert!(end.is_ok(), "{end:?}");
    }
    ready.is_ready()
}

#[test]
fn a_list_takes_effect_atomically() {
    let mut pair = Pair::new(1);
    let (old, new) = (pair.target.clone(), pair.copied(&pair.source));
    pair.world.slow(1);
    let mut pending = pair.begin();
    let mut steps = 0;
    while !poll(&mut pending) {
        pair.world.turn(1);
        steps += 1;
        if steps % 50 == 0 {
            let seen = pair.read_target();
            assert!(seen == old || seen == new, "after {steps} steps");
        }
    }
    assert!(steps > 10, "it completed immediately");
    assert_eq!(pair.read_target(), new);
    assert_eq!(pair.world.engine.disks().len(), 2);
    pair.world.settle(); // in the middle of a checkpoint its root is not known yet
    pair.world.check();
}

#[test]
fn a_list_is_atomic_across_a_power_loss() {
    for seed in 0..24 {
        let mut pair = Pair::new(seed);
        let (old, new) = (pair.target.clone(), pair.copied(&pair.source));
        let mut dice = Dice::new(seed);
        pair.world.slow(seed);
        let mut pending = pair.begin();
        let mut completed = false;
        for _ in 0..dice.below(60) * (1 + seed % 8) {
            completed |= completed || poll(&mut pending);
            pair.world.turn(1);
        }
        drop(pending);
        let mut pair = Pair { world: pair.world.crash(&mut dice), ..pair };
        let seen = pair.read_target();
        assert!(seen == new || !completed && seen == old, "seed {seed}");
        assert_eq!(pair.world.read(1, 0, LONG + 50), pair.source);
        pair.world.settle();
        pair.world.check();
        assert_eq!((pair.world.engine.disks().len(), pair.world.engine.volumes().len()), (2, 2));
    }
}

#[test]
fn a_copy_has_the_source_of_one_moment() {
    let mut pair = Pair::new(3);
    pair.world.slow(3);
    let mut pending = pair.begin();
    for _ in 0..40 {
        assert!(!poll(&mut pending));
        pair.world.turn(1);
    }
    // The whole source and a part of a block at the edge of what is written, while the list is being prepared.
    let filled = [7; 512].repeat(LONG as usize + 50);
    let fill = Op::Fill { extent: Extent::new(0, LONG + 50), block: data(&[7; 512]) };
    pair.world.execute(1, fill).unwrap();
    pair.world.write(2, 0, &[9; 512]);
    pair.target[..512].fill(9);
    pair.world.run(pending).unwrap();
    let new = pair.copied(&filled);
    assert_eq!(pair.read_target(), new);
}

#[test]
fn an_abort_leaves_no_clone() {
    let mut pair = Pair::new(4);
    let before = pair.world.engine.space();
    pair.world.slow(4);
    let mut pending = pair.begin();
    for _ in 0..60 {
        assert!(!poll(&mut pending));
        pair.world.turn(1);
    }
    drop(pending);
    pair.world.settle();
    assert_eq!(pair.read_target(), pair.target);
    let after = pair.world.engine.space();
    assert_eq!((after.unique, after.mapped), (before.unique, before.mapped));
    pair.world.check();
}
