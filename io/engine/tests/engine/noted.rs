//! Commands of front ends are noted with their effect: after a power loss both are there, or neither.

use crate::support::{Dice, MemShelf, World, data};
use block::{CopySegment, Disk, DiskId, Error, Extent, Known, Ledger, Note, Op, Pending, Sequence};
use bytes::Bytes;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

const FRONT: u64 = 77;

fn open() -> World {
    World::open(MemShelf::small())
}

fn sequence(number: u64, lowest: u64) -> Sequence {
    Sequence { front: FRONT, number, lowest }
}

fn whole(number: u64) -> Note {
    Note { sequence: sequence(number, 0), whole: true }
}

fn known(world: &World, number: u64) -> Known {
    world.engine.look_up(sequence(number, 0))
}

fn poll(pending: &mut Pending) -> Poll<block::Result> {
    Pin::new(pending).poll(&mut Context::from_waker(Waker::noop()))
}

fn copy(source_lba: u64, target_lba: u64, blocks: u64) -> Op {
    let (source, target) = (DiskId(1), DiskId(2));
    Op::Copy(vec![CopySegment { source, source_lba, target, target_lba, blocks }])
}

fn swap(lba: u64, from: u8, to: u8) -> Op {
    Op::CompareAndWrite { lba, compare: data(&[from; 512]), write: data(&[to; 512]) }
}

/// Changes of every kind, that fit in one batch or not, aligned or not.
fn changes() -> Vec<Op> {
    vec![
        Op::Write { lba: 0, data: data(&[1; 4096]) },
        Op::Write { lba: 9, data: data(&[2; 512]) },
        Op::Write { lba: 1000, data: data(&Dice::new(3).bytes(300 << 10)) },
        Op::Fill { extent: Extent::new(16, 64), block: data(&[3; 512]) },
        Op::Fill { extent: Extent::new(81, 3), block: data(&[4; 512]) },
        Op::Unmap(vec![Extent::new(16, 8), Extent::new(40, 16)]),
        Op::Unmap(vec![Extent::new(25, 3)]),
        swap(9, 2, 5),
        Op::Or { lba: 9, data: data(&[8; 512]) },
        copy(0, 0, 64),
        copy(3, 100, 30),
        copy(1000, 2001, 600),
        Op::SaveState(Bytes::from_static(b"reservations")),
    ]
}

#[test]
fn a_change_of_every_kind_is_noted_and_survives_checkpoints_and_power_losses() {
    let mut world = open();
    [1, 2].iter().for_each(|id| drop(world.create(*id, 512, 4 << 20)));
    for (number, change) in (0..).zip(changes()) {
        assert_eq!(known(&world, number), Known::New, "{change:?}");
        let what = format!("{change:?}");
        let noted = world.volume(1).execute_noted(change, whole(number));
        world.run(noted).expect("performed");
        assert_eq!(known(&world, number), Known::Done, "{what}");
    }
    let count = changes().len() as u64;
    for round in 0..3 {
        let read = world.volume(1).execute_noted(swap(9, 5, 6), whole(count));
        assert!(matches!(world.run(read), Err(Error::Miscompare { .. })), "what fails is not noted");
        let beyond = Op::Write { lba: 1 << 20, data: data(&[1; 512]) };
        let beyond = world.volume(1).execute_noted(beyond, whole(count));
        assert!(matches!(world.run(beyond), Err(Error::OutOfRange { .. })));
        assert!((0..count).all(|number| known(&world, number) == Known::Done), "round {round}");
        assert_eq!(known(&world, count), Known::New);
        match round {
            0 => world = world.crash(&mut Dice::new(4)),
            1 => world.settle(),
            _ => {}
        }
        if round == 1 {
            world = world.crash(&mut Dice::new(5));
        }
    }
    // The front end has its answers.
    let note = Note { sequence: sequence(count, count), whole: false };
    let write = world.volume(1).execute_noted(Op::Write { lba: 0, data: data(&[9; 512]) }, note);
    world.run(write).expect("written");
    assert_eq!((known(&world, 3), known(&world, count)), (Known::Answered, Known::Part));
    assert_eq!(world.engine.fronts(), [FRONT]);
    let forget = world.engine.forget(FRONT);
    world.run(forget).expect("forgotten");
    let world = world.crash(&mut Dice::new(6));
    assert_eq!((world.engine.fronts(), known(&world, count)), (vec![], Known::New));
}

#[test]
fn what_is_noted_is_answered_for_only_when_it_is_durable() {
    let shelf = MemShelf::small();
    let mut world = World::open(shelf.clone());
    let volume = world.create(1, 512, 1 << 20);
    shelf.hold();
    let mut write = volume.execute_noted(swap(0, 0, 1), whole(0));
    assert!(poll(&mut write).is_pending());
    assert_eq!(known(&world, 0), Known::Done);
    let mut settled = world.engine.settled();
    assert!(poll(&mut settled).is_pending());
    shelf.release();
    assert!(poll(&mut settled).is_ready());
}

/// A counter that is advanced by COMPARE AND WRITE, over power losses at any moment and checkpoints: what the ledger says of a
/// command whose answer was lost is what the counter says.
#[test]
fn the_ledger_and_the_content_agree_after_every_power_loss() {
    let (mut done, mut lost) = (0, 0);
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let mut world = open();
        world.create(1, 512, 1 << 20);
        let (mut count, mut number) = (0, 0);
        for _ in 0..6 {
            world.slow(seed);
            let mut open = None;
            for _ in 0..dice.below(60) {
                let (mut step, from) = open.take().unwrap_or_else(|| {
                    // Not aligned: it is read before it is written.
                    let step = world.volume(1).execute_noted(swap(13, count, count + 1), whole(number));
                    (step, count)
                });
                match poll(&mut step) {
                    Poll::Ready(end) => {
                        end.expect("the counter has this value");
                        (count, number) = (from + 1, number + 1);
                    }
                    Poll::Pending => open = Some((step, from)),
                }
                let bytes = dice.bytes(4096);
                let mut other =
                    world.volume(1).execute(Op::Write { lba: 8 * (2 + dice.below(100)), data: data(&bytes) });
                _ = poll(&mut other);
                world.turn(1);
            }
            let is_open = open.take().is_some();
            world = world.crash(&mut dice);
            let took_effect = known(&world, number) == Known::Done;
            assert!(is_open || !took_effect, "seed {seed}");
            if took_effect {
                count += 1;
            }
            (done, lost) =
                (done + u32::from(is_open && took_effect), lost + u32::from(is_open && !took_effect));
            number += u64::from(is_open);
            assert_eq!(world.read(1, 13, 1), [count; 512], "seed {seed}");
        }
        world.settle();
        world.check();
    }
    assert!(done > 10 && lost > 10, "{done} took effect, {lost} did not");
}
