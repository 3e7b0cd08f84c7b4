//! Acknowledged operations survive a power loss; others took effect whole or not at all.

use crate::support::{Dice, MemShelf, World, data};
use block::{CopySegment, Disk, DiskId, Error, Extent, Op, Reply};
use bytes::Bytes;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

#[test]
fn what_is_acknowledged_survives_a_power_loss() {
    let mut dice = Dice::new(1);
    let mut world = World::open(MemShelf::small());
    world.create(1, 512, 1 << 20);
    let bytes = dice.bytes(3 * 4096 + 1024);
    world.write(1, 5, &bytes);
    world.execute(1, Op::SaveState(Bytes::from_static(b"keys"))).unwrap();
    let engine = world.engine.clone();
    world.run(engine.put_record("hosts/a", Some(Bytes::from_static(b"{}")))).unwrap();
    drop(engine);
    let mut world = world.crash(&mut dice);
    let volume = world.volume(1);
    assert_eq!(world.read(1, 5, bytes.len() as u64 / 512), bytes);
    assert_eq!(world.read(1, 0, 5), vec![0; 5 * 512]);
    assert_eq!(volume.state(), "keys");
    assert_eq!(world.engine.records("hosts/"), [("hosts/a".to_owned(), Bytes::from_static(b"{}"))]);
}

#[test]
fn nobody_reads_what_is_not_durable() {
    let shelf = MemShelf::small();
    let mut world = World::open(shelf.clone());
    let volume = world.create(1, 4096, 1 << 20);
    shelf.hold();
    let mut context = Context::from_waker(Waker::noop());
    let mut write = Box::pin(volume.execute(Op::Write { lba: 3, data: data(&[9; 4096]) }));
    assert!(write.as_mut().poll(&mut context).is_pending());
    let mut read = Box::pin(volume.execute(Op::Read(Extent::new(2, 2))));
    assert!(read.as_mut().poll(&mut context).is_pending());
    let mut elsewhere = Box::pin(volume.execute(Op::Read(Extent::new(4, 2))));
    assert!(elsewhere.as_mut().poll(&mut context).is_ready());
    shelf.release();
    assert!(matches!(write.as_mut().poll(&mut context), Poll::Ready(Ok(Reply::Done))));
    let Poll::Ready(Ok(Reply::Data(read))) = read.as_mut().poll(&mut context) else {
        panic!("it is durable")
    };
    assert_eq!(read.to_bytes()[4096..], [9; 4096]);
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn no_part_of_a_large_write_is_read_before_all_of_it_is_durable() {
    let (shelf, mut dice) = (MemShelf::small(), Dice::new(8));
    let mut world = World::open(shelf.clone());
    let volume = world.create(1, 4096, 1 << 20);
    world.create(2, 4096, 1 << 20);
    shelf.hold();
    let mut write = volume.execute(Op::Write { lba: 0, data: data(&dice.bytes(160 << 10)) });
    assert!(poll(&mut write).is_pending());
    let segment =
        CopySegment { source: DiskId(1), source_lba: 0, target: DiskId(2), target_lba: 0, blocks: 4 };
    let mut copy = volume.execute(Op::Copy(vec![segment]));
    let all = || Op::Read(Extent::new(0, 4));
    let mut reads = [volume.execute(all()), volume.execute(Op::Status(Extent::new(0, 4)))];
    let mut copied = world.volume(2).execute(all());
    for batch in 0..2 {
        for read in reads.iter_mut().chain([&mut copied, &mut copy]) {
            assert!(poll(read).is_pending(), "batch {batch} of two is not durable");
        }
        shelf.answer(&mut dice);
    }
    assert!(poll(&mut write).is_ready() && reads.iter_mut().all(|read| poll(read).is_ready()));
    assert!(poll(&mut copied).is_pending(), "the copy came after the write");
    shelf.release();
    assert!(poll(&mut copied).is_ready() && poll(&mut copy).is_ready());
}

#[test]
fn a_read_completes_however_many_changes_follow_it() {
    let (shelf, mut dice) = (MemShelf::small(), Dice::new(8));
    let mut world = World::open(shelf.clone());
    let volume = world.create(1, 4096, 1 << 20);
    shelf.hold();
    let unmap = |lba| {
        let mut unmap = volume.execute(Op::Unmap(vec![Extent::new(lba, 1)]));
        assert!(poll(&mut unmap).is_pending());
    };
    unmap(0);
    let mut read = volume.execute(Op::Read(Extent::new(9, 1)));
    let mut turns = 0;
    while poll(&mut read).is_pending() {
        turns += 1;
        assert!(turns < 5, "it waits for what came later");
        unmap(turns);
        shelf.answer(&mut dice);
    }
}

#[test]
fn a_copy_that_waited_is_refused_when_the_disk_that_it_was_addressed_to_is_gone() {
    let (shelf, mut dice) = (MemShelf::small(), Dice::new(8));
    let mut world = World::open(shelf.clone());
    for id in 1..=3 {
        world.create(id, 512, 1 << 20);
    }
    world.write(1, 0, &dice.bytes(8192));
    // The blocks that it reads first are on their way to the journal when the disk goes.
    shelf.hold();
    let mut write = world.volume(1).execute(Op::Write { lba: 0, data: data(&dice.bytes(8192)) });
    assert!(poll(&mut write).is_pending());
    let segment =
        CopySegment { source: DiskId(1), source_lba: 1, target: DiskId(2), target_lba: 1, blocks: 4 };
    let mut copy = world.volume(3).execute(Op::Copy(vec![segment]));
    assert!(poll(&mut copy).is_pending());
    let engine = world.engine.clone();
    let mut delete = Box::pin(engine.delete_volume(DiskId(3), 0));
    assert!(poll(&mut delete).is_pending());
    shelf.release();
    assert!(matches!(poll(&mut delete), Poll::Ready(Ok(()))));
    assert!(matches!(world.run(copy), Err(Error::Deleted)));
    assert_eq!(world.read(2, 0, 8), [0; 4096]);
}

#[test]
fn what_waited_while_its_disk_became_smaller_is_out_of_range() {
    let (shelf, mut dice) = (MemShelf::small(), Dice::new(8));
    let mut world = World::open(shelf.clone());
    let volume = world.create(1, 512, 64 << 20);
    world.create(2, 512, 1 << 20);
    shelf.hold();
    let lba = 100_000;
    let mut write = volume.execute(Op::Write { lba, data: data(&dice.bytes(4096)) });
    assert!(poll(&mut write).is_pending());
    let mut patch = volume.execute(Op::Write { lba: lba + 1, data: data(&[1; 512]) });
    assert!(poll(&mut patch).is_pending());
    let engine = world.engine.clone();
    let mut restore = Box::pin(engine.restore_volume(DiskId(1), DiskId(2)));
    assert!(poll(&mut restore).is_pending());
    let mut late = volume.execute(Op::Read(Extent::new(lba, 8)));
    shelf.release();
    assert!(poll(&mut write).is_ready() && poll(&mut restore).is_ready());
    for outcome in [world.run(patch), world.run(&mut late)] {
        assert!(matches!(outcome, Err(Error::OutOfRange { blocks: 2048, .. })), "{outcome:?}");
    }
    world.check();
}

/// The end comes to lie within the last block of 4 KiB: what is beyond it belongs to no volume any more.
#[test]
fn what_waited_while_the_end_came_into_its_block_is_out_of_range() {
    let (whole, part) = (Extent::new(2040, 8), Extent::new(2042, 5));
    let ones = |blocks: usize| data(&vec![1; blocks * 512]);
    let copy = |[source, target]: [u128; 2], source_lba, blocks| {
        let (source, target) = (DiskId(source), DiskId(target));
        Op::Copy(vec![CopySegment { source, source_lba, target, target_lba: 2042, blocks }])
    };
    for op in [
        Op::Or { lba: whole.lba, data: ones(8) },
        Op::CompareAndWrite { lba: whole.lba, compare: ones(8), write: data(&[2; 4096]) },
        Op::Write { lba: part.lba, data: ones(5) },
        Op::Fill { extent: part, block: data(&[4; 512]) },
        Op::Unmap(vec![Extent::new(8, 8), part]),
        copy([1, 3], 2042, 5),
        copy([3, 1], 2042, 5),
        copy([3, 1], 2041, 5),
        copy([1, 3], 2041, 5),
    ] {
        let shelf = MemShelf::small();
        let mut world = World::open(shelf.clone());
        for (id, blocks) in [(1, 2048), (2, 2044), (3, 2048)] {
            world.create(id, 512, blocks * 512);
        }
        let volume = world.volume(1);
        shelf.hold();
        let mut writes = [1, 3].map(|id| world.volume(id).execute(Op::Write { lba: 2040, data: ones(8) }));
        assert!(writes.iter_mut().all(|write| poll(write).is_pending()));
        let mut late = volume.execute(op.clone());
        assert!(poll(&mut late).is_pending());
        let engine = world.engine.clone();
        let mut restore = Box::pin(engine.restore_volume(DiskId(1), DiskId(2)));
        assert!(poll(&mut restore).is_pending());
        shelf.release();
        assert!(writes.iter_mut().all(|write| poll(write).is_ready()) && poll(&mut restore).is_ready());
        let outcome = world.run(late);
        assert!(matches!(outcome, Err(Error::OutOfRange { blocks: 2044, .. })), "{op:?}: {outcome:?}");
        world.run(engine.resize_volume(DiskId(1), 2048)).unwrap();
        assert_eq!(world.read(1, 2040, 8), [0; 4096], "{op:?}");
        assert_eq!(world.read(3, 2040, 8), [1; 4096], "{op:?}");
        world.check();
    }
}

#[test]
fn an_error_waits_for_what_it_reports() {
    let shelf = MemShelf::small();
    let mut world = World::open(shelf.clone());
    for (id, bytes) in [(1, 1 << 20), (2, 1 << 20), (3, 1 << 20), (4, 1 << 19)] {
        world.create(id, 512, bytes);
    }
    let (engine, asked) = (world.engine.clone(), world.volume(1));
    let (target, whole) = (DiskId(2), Extent::new(0, 2048));
    shelf.hold();
    let mut access = Box::pin(engine.set_read_only(target, true, 0));
    let mut shrink = Box::pin(engine.restore_volume(DiskId(3), DiskId(4)));
    assert!(poll(&mut access).is_pending() && poll(&mut shrink).is_pending());
    let segment = CopySegment { source: DiskId(1), source_lba: 0, target, target_lba: 0, blocks: 8 };
    let mut copy = asked.execute(Op::Copy(vec![segment]));
    let mut unaligned = asked.execute(Op::Copy(vec![CopySegment { source_lba: 1, ..segment }]));
    let mut late = world.volume(3).execute(Op::Read(whole));
    let mut kept = Box::pin(engine.keep_until(DiskId(1), 9, 0));
    assert!(poll(&mut copy).is_pending() && poll(&mut unaligned).is_pending());
    assert!(poll(&mut late).is_pending() && poll(&mut kept).is_pending());
    shelf.release();
    assert!(poll(&mut access).is_ready() && poll(&mut shrink).is_ready());
    assert!(matches!(poll(&mut copy), Poll::Ready(Err(Error::ReadOnly))));
    assert!(matches!(poll(&mut unaligned), Poll::Ready(Err(Error::ReadOnly))));
    assert!(matches!(poll(&mut late), Poll::Ready(Err(Error::OutOfRange { .. }))));
    assert!(matches!(poll(&mut kept), Poll::Ready(Err(Error::Malformed(_)))));
}

#[test]
fn after_a_failed_append_nothing_is_acknowledged() {
    let shelf = MemShelf::small();
    let mut world = World::open(shelf.clone());
    world.create(1, 4096, 1 << 20);
    world.write(1, 0, &[1; 4096]);
    shelf.fail();
    let write = |lba| Op::Write { lba, data: data(&[2; 4096]) };
    assert!(matches!(world.execute(1, write(1)), Err(Error::Stopped(_))));
    assert!(matches!(world.execute(1, write(2)), Err(Error::Stopped(_))));
    assert_eq!(world.read(1, 0, 1), [1; 4096], "what is durable can still be read");
}

#[test]
fn an_operation_larger_than_a_batch_is_whole_or_absent() {
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let shelf = MemShelf::small();
        let mut world = World::open(shelf.clone());
        let volume = world.create(1, 4096, 1 << 20);
        let (old, new) = (dice.bytes(160 << 10), dice.bytes(160 << 10));
        world.write(1, 0, &old[..80 << 10]);
        world.write(1, 20, &old[80 << 10..]);
        shelf.hold();
        let mut write = Box::pin(volume.execute(Op::Write { lba: 0, data: data(&new) }));
        assert!(write.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let mut world = world.crash(&mut dice);
        let read = world.read(1, 0, 40);
        assert!(read == old || read == new);
        world.write(1, 39, &old[..4096]);
        assert_eq!(world.read(1, 39, 1), old[..4096]);
    }
}

#[test]
fn clones_and_deleted_volumes_survive() {
    let mut dice = Dice::new(3);
    let mut world = World::open(MemShelf::small());
    world.create(1, 512, 1 << 20);
    world.write(1, 0, &[5; 8192]);
    let engine = world.engine.clone();
    world.run(engine.clone_volume(DiskId(1), DiskId(2), 0)).unwrap();
    world.write(1, 0, &[6; 512]);
    world.run(engine.resize_volume(DiskId(2), 12)).unwrap();
    world.create(3, 512, 1 << 20);
    world.run(engine.delete_volume(DiskId(3), 0)).unwrap();
    drop(engine);
    let mut world = world.crash(&mut dice);
    assert_eq!(world.engine.volumes().len(), 2);
    assert_eq!(world.read(1, 0, 2), [[6; 512], [5; 512]].concat());
    assert_eq!(world.read(2, 0, 2), [5; 1024]);
    assert_eq!(world.volume(2).geometry().blocks, 12);
    let engine = world.engine.clone();
    world.run(engine.resize_volume(DiskId(2), 16)).unwrap();
    assert_eq!(world.read(2, 8, 8), [vec![5; 4 * 512], vec![0; 4 * 512]].concat());
}

#[test]
fn a_journal_that_a_crash_left_full_has_room_for_the_first_writes() {
    let mut world = World::open(MemShelf::small());
    world.create(1, 4096, 4 << 20);
    // More than the journal holds: there has been a checkpoint.
    (0..100).for_each(|lba| world.write(1, lba, &[1; 4096]));
    for crash in 0..3 {
        let write = |world: &World, lba| {
            let mut write = world.volume(1).execute(Op::Write { lba, data: data(&[2; 4096]) });
            (0..3).any(|_| poll(&mut write).is_ready())
        };
        // Nothing makes room while these come.
        let taken = (0..1000).take_while(|lba| write(&world, 200 + lba)).count();
        assert!(taken > 0 && taken < 200, "crash {crash}: {taken}");
        world = world.crash(&mut Dice::new(crash));
        assert!(write(&world, 200), "crash {crash}: the first write waits");
        assert!((0..taken as u64).all(|lba| world.read(1, 200 + lba, 1) == [2; 4096]));
        (0..100).for_each(|lba| world.write(1, lba, &[1; 4096]));
        world.check();
    }
}

/// A checkpoint before anything was created had no catalog, and the next opening took that for damage.
#[test]
fn an_array_that_was_shut_down_with_nothing_in_it_opens() {
    let mut world = World::open(MemShelf::small());
    let engine = world.engine.clone();
    world.run(engine.shutdown()).expect("shut down");
    drop(engine);
    let mut world = world.crash(&mut Dice::new(1));
    world.check();
    world.create(1, 512, 1 << 20);
    world.write(1, 0, &[7; 512]);
}
