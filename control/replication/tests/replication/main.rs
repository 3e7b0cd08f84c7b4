//! Replication between two engines in memory. Crashes and broken connections are in the simulation.

#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

mod host_throttle;
mod mirror;
mod snapshots;
mod support;

use block::{Disk, DiskId, Extent, Geometry, Op, Provisioning, Reply};
use replication::{Digest, Error, Message, Position, Reason, SourceVolume, VERSIONS};
use rig::block_on;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use support::{Array, BLOCKS, REPLICATION, pair, pipe, poll_once, random_block, sync};

#[test]
fn a_point_has_the_content_size_and_provisioning_of_its_source() {
    let (source, target) = pair(b"key", b"key");
    let volume = source.create(1, 100 * 8 + 3, 512);
    source.write(&volume, 0, &random_block(1).repeat(3));
    source.write(&volume, 40 * 8, &[0; 8192]);
    source.do_it(&volume, Op::Unmap(vec![Extent::new(8, 8)]));
    let point = source.take_point(&[1]);
    // Writes after the point are not part of it.
    source.write(&volume, 0, &random_block(9));
    sync(&source, &target).unwrap();
    let published = target.points().pop().unwrap();
    assert_eq!((published.number, published.taken), (point.number, point.taken));
    let copy = target.volume(published.volumes[0].snapshot);
    assert!(copy.is_read_only());
    assert_eq!(copy.geometry(), volume.geometry());
    assert_eq!(target.read(&copy, 0, 8), random_block(1));
    assert_eq!(target.read(&copy, 8, 8), vec![0; 4096]);
    assert_eq!(target.read(&copy, 16, 8), random_block(1));
    let Ok(Reply::Status(regions)) = block_on(copy.execute(Op::Status(Extent::new(0, 803)))) else {
        panic!("no status")
    };
    let mapped: Vec<_> = regions.iter().filter(|region| region.state == Provisioning::Mapped).collect();
    let extents: Vec<_> = mapped.iter().map(|region| (region.extent.lba, region.extent.blocks)).collect();
    assert_eq!(extents, [(0, 8), (16, 8), (320, 16)]);
}

#[test]
fn a_first_transfer_of_clones_moves_their_image_once() {
    let (source, target) = pair(b"key", b"key");
    let image = source.create(1, BLOCKS, 4096);
    (0..BLOCKS).for_each(|block| source.write(&image, block, &random_block(block)));
    for id in 2..5 {
        block_on(source.engine.clone_volume(DiskId(1), DiskId(id), 0)).unwrap();
    }
    source.take_point(&[1, 2, 3, 4]);
    let synced = sync(&source, &target).unwrap();
    assert_eq!((synced.offered_blocks, synced.sent_blocks), (4 * BLOCKS, BLOCKS));
    let point = target.points().pop().unwrap();
    for volume in &point.volumes {
        let copy = target.volume(volume.snapshot);
        assert_eq!(target.read(&copy, 77, 1), random_block(77));
    }
}

/// A clone has the blocks of its image in the log, regardless of later writes and moves.
#[test]
fn blocks_that_clones_share_are_read_once() {
    let (source, target) = pair(b"key", b"key");
    let image = source.create(1, BLOCKS, 4096);
    (0..BLOCKS).for_each(|block| source.write(&image, block, &random_block(block)));
    for id in 2..6 {
        block_on(source.engine.clone_volume(DiskId(1), DiskId(id), 0)).unwrap();
        source.write(&source.volume(id), u64::try_from(id).unwrap(), &random_block(id as u64 + 9_999));
    }
    source.until_stored(&[1, 2, 3, 4, 5]);
    source.take_point(&[1, 2, 3, 4, 5]);
    let synced = sync(&source, &target).unwrap();
    assert_eq!((synced.offered_blocks, synced.sent_blocks), (5 * BLOCKS, BLOCKS + 4));
    assert_eq!(synced.read_blocks, BLOCKS + 4);

    // A block with a known fingerprint is sent if the target wants it nevertheless.
    let (_, other) = pair(b"key", b"key");
    source.take_point(&[1, 2]);
    let synced = sync(&source, &other).unwrap();
    assert_eq!((synced.offered_blocks, synced.sent_blocks), (2 * BLOCKS, BLOCKS + 1));
    assert_eq!(synced.read_blocks, BLOCKS + 1);
    let point = other.points().pop().unwrap();
    for (volume, own) in point.volumes.iter().zip([None, Some(2)]) {
        let copy = other.volume(volume.snapshot);
        for block in 0..BLOCKS {
            let own = own.filter(|own| *own == block).map(|own| own + 9_999);
            assert_eq!(other.read(&copy, block, 1), random_block(own.unwrap_or(block)), "block {block}");
        }
    }
}

/// The same stored block is complete in the image, and truncated at the end of the clone.
#[test]
fn a_volume_may_end_within_a_block_that_another_has_whole() {
    let (source, target) = pair(b"key", b"key");
    let image = source.create(1, 64 * 8, 512);
    (0..64).for_each(|block| source.write(&image, block * 8, &random_block(block)));
    source.until_stored(&[1]);
    block_on(source.engine.clone_volume(DiskId(1), DiskId(2), 0)).unwrap();
    block_on(source.engine.resize_volume(DiskId(2), 60 * 8 + 3)).unwrap();
    source.take_point(&[1, 2]);
    assert_eq!(sync(&source, &target).unwrap().sent_blocks, 65);
    let point = target.points().pop().unwrap();
    let copy = target.volume(point.volumes[1].snapshot);
    assert_eq!(target.read(&copy, 60 * 8, 3), random_block(60)[..3 * 512]);
    assert_eq!(target.read(&copy, 0, 8), random_block(0));
}

/// Offers found elsewhere wait for one that is not, which changes the blocks that they were found in.
#[test]
fn blocks_that_move_within_a_volume_are_shared_or_written() {
    let (source, target) = pair(b"key", b"key");
    let volume = source.create(1, BLOCKS, 4096);
    (0..BLOCKS).for_each(|block| source.write(&volume, block, &random_block(block)));
    source.take_point(&[1]);
    sync(&source, &target).unwrap();
    const BY: u64 = 600;
    let now = |block: u64| random_block(block.checked_sub(BY).unwrap_or(block + 7777));
    (0..BLOCKS).for_each(|block| source.write(&volume, block, &now(block)));
    source.take_point(&[1]);
    let synced = sync(&source, &target).unwrap();
    assert_eq!((synced.offered_blocks, synced.sent_blocks), (BLOCKS, BY));
    let copy = target.volume(target.points().pop().unwrap().volumes[0].snapshot);
    (0..BLOCKS).for_each(|block| assert_eq!(target.read(&copy, block, 1), now(block), "block {block}"));
    // And back, over blocks that are already consecutive.
    (0..BLOCKS).for_each(|block| source.write(&volume, block, &now((block + BY).min(BLOCKS - 1))));
    source.take_point(&[1]);
    assert_eq!(sync(&source, &target).unwrap().sent_blocks, 0);
    let copy = target.volume(target.points().pop().unwrap().volumes[0].snapshot);
    let back = |block: u64| now((block + BY).min(BLOCKS - 1));
    (0..BLOCKS).for_each(|block| assert_eq!(target.read(&copy, block, 1), back(block), "block {block}"));
}

#[test]
fn a_transfer_keeps_to_its_limit_within_five_percent() {
    for limit in [64 << 10, 1_000_000, 20_000_000] {
        let (source, target) = pair(b"key", b"key");
        let volume = source.create(1, BLOCKS, 4096);
        (0..BLOCKS).for_each(|block| source.write(&volume, block, &random_block(block)));
        source.take_point(&[1]);
        source.sender.throttle().set(limit);
        let sent = sync(&source, &target).unwrap().sent_bytes;
        assert!(sent > BLOCKS * 4096);
        let (took, wanted) = (source.clock_ns(), sent * 1_000_000_000 / limit);
        // A transfer may be ahead of its limit by 50 ms, once.
        assert!(took.abs_diff(wanted) <= wanted / 20 + 50_000_000, "{took} ns of {wanted} at {limit} B/s");
    }
}

#[test]
fn what_did_not_change_costs_less_than_a_hundredth() {
    let (source, target) = pair(b"key", b"key");
    let volume = source.create(1, BLOCKS, 4096);
    (0..BLOCKS).for_each(|block| source.write(&volume, block, &random_block(block)));
    source.take_point(&[1]);
    sync(&source, &target).unwrap();
    // A point without changes costs only its messages.
    source.take_point(&[1]);
    let synced = sync(&source, &target).unwrap();
    assert_eq!((synced.point, synced.offered_blocks, synced.sent_blocks), (2, 0, 0));
    // Everything is rewritten with the same data.
    (0..BLOCKS).for_each(|block| source.write(&volume, block, &random_block(block)));
    source.take_point(&[1]);
    let synced = sync(&source, &target).unwrap();
    // Blocks that the source has deduplicated by then are not offered at all.
    assert!(synced.offered_blocks <= BLOCKS && synced.sent_blocks == 0, "{synced:?}");
    assert!(synced.sent_bytes * 100 <= BLOCKS * 4096, "{synced:?}");
    // Two blocks change: one to data that the target has elsewhere, one to new data.
    source.write(&volume, 5, &random_block(6));
    source.write(&volume, 6, &random_block(999_999));
    source.take_point(&[1]);
    assert_eq!(sync(&source, &target).unwrap().sent_blocks, 1);
    assert_eq!(source.points().len(), 1, "the source keeps the base of the next transfer alone");
    assert_eq!(target.points().len(), 4);
}

/// The base was deleted on the source: everything is compared, and differences are repaired.
#[test]
fn without_a_common_base_only_what_differs_is_sent() {
    let (source, target) = pair(b"key", b"key");
    let volume = source.create(1, BLOCKS, 4096);
    (0..BLOCKS).for_each(|block| source.write(&volume, block, &random_block(block)));
    source.take_point(&[1]);
    sync(&source, &target).unwrap();
    source.write(&volume, 3, &random_block(777_777));
    source.do_it(&volume, Op::Unmap(vec![Extent::new(9, 2)]));
    source.take_point(&[1]);
    let base = source.points().remove(0);
    let key = format!("replication-source/{REPLICATION:032x}/point/{:016x}", base.number);
    block_on(source.engine.put_record(&key, None)).unwrap();
    let synced = sync(&source, &target).unwrap();
    assert_eq!((synced.offered_blocks, synced.sent_blocks), (BLOCKS - 2, 1));
    assert!(synced.sent_bytes * 100 <= BLOCKS * 4096, "{synced:?}");
    let copy = target.volume(target.points().pop().unwrap().volumes[0].snapshot);
    assert_eq!(target.read(&copy, 3, 1), random_block(777_777));
    assert_eq!(target.read(&copy, 9, 2), vec![0; 8192]);
}

#[test]
fn another_key_publishes_nothing() {
    let (source, target) = pair(b"key", b"other key");
    let volume = source.create(1, 64, 4096);
    source.write(&volume, 0, &random_block(1));
    source.take_point(&[1]);
    let refused = sync(&source, &target).unwrap_err();
    assert!(matches!(refused, Error::Refused { reason: Reason::Other, .. }), "{refused}");
    assert!(target.points().is_empty());
    assert_eq!(source.points()[0].digest(), None);
}

#[test]
fn a_target_says_what_it_refuses() {
    let (source, target) = pair(b"key", b"key");
    source.create(1, 64, 4096);
    assert_eq!(sync(&source, &target), Err(Error::NoPoint));
    source.take_point(&[1]);
    let key = format!("replication-target/{REPLICATION:032x}/group");
    block_on(target.engine.put_record(&key, None)).unwrap();
    let refused = sync(&source, &target).unwrap_err();
    assert!(matches!(refused, Error::Refused { reason: Reason::Unknown, .. }), "{refused}");
    assert!(refused.to_string().contains("released"), "{refused}");
    assert_eq!(sync(&source, &Array::new(source.array, b"key")), Err(Error::SameArray));
}

#[test]
fn both_versions_are_named_if_none_is_common() {
    let (source, _) = pair(b"key", b"key");
    let (one, mut other) = pipe();
    let (least, most) = (VERSIONS.end() + 7, VERSIONS.end() + 8);
    other.push(&Message::Hello { least, most, array: 99 });
    let refused = block_on(source.sender.sync(REPLICATION, one)).unwrap_err().to_string();
    let (own_least, own_most) = (VERSIONS.start(), VERSIONS.end());
    assert!(refused.contains(&format!("versions {least} to {most}")), "{refused}");
    assert!(refused.contains(&format!("this one {own_least} to {own_most}")), "{refused}");
}

/// A source is admitted for one replication. The number of another one, which may be that of another array, opens nothing.
#[test]
fn a_source_opens_only_the_replication_that_it_was_admitted_for() {
    let (source, target) = pair(b"key", b"key");
    let other_number = REPLICATION + 1;
    block_on(target.receiver.accept(other_number, 0)).unwrap();
    let volume = source.create(1, 64, 4096);
    source.write(&volume, 0, &random_block(1));
    source.take_point(&[1]);
    let (one, other) = pipe();
    let mut sent = pin!(source.sender.sync(REPLICATION, one));
    let mut served = pin!(target.receiver.serve(other_number, other));
    let ended = loop {
        let _ = sent.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(ended) = served.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            break ended;
        }
        std::thread::yield_now();
    };
    assert_eq!(ended, Err(Error::Unknown(REPLICATION)));
    assert!(target.points().is_empty() && target.engine.disks().is_empty());
}

/// The number of the next point, of this array after a failover, comes after it.
#[test]
fn a_point_leaves_numbers_for_later_ones() {
    let (_, target) = pair(b"key", b"key");
    let (mut one, other) = pipe();
    let (least, most) = (*VERSIONS.start(), *VERSIONS.end());
    one.push(&Message::Hello { least, most, array: 1 });
    one.push(&Message::Open { replication: REPLICATION });
    let geometry = Geometry { block_bytes: 4096, blocks: 64 };
    let volumes = vec![SourceVolume { id: DiskId(1), geometry }];
    one.push(&Message::Begin { point: u64::MAX, taken: 0, base: 0, resume: false, volumes });
    drop(one);
    let refused = block_on(target.receiver.serve(REPLICATION, other)).unwrap_err();
    assert!(matches!(refused, Error::Malformed(why) if why.contains("later")), "{refused}");
    assert!(target.engine.disks().is_empty());
}

/// A target resumes where numbers for the other offers are left; otherwise the transfer begins again.
#[test]
fn a_position_leaves_numbers_for_later_offers() {
    let (source, _) = pair(b"key", b"key");
    let volume = source.create(1, 64, 4096);
    source.write(&volume, 0, &random_block(1));
    source.take_point(&[1]);
    let (one, mut other) = pipe();
    let (least, most) = (*VERSIONS.start(), *VERSIONS.end());
    other.push(&Message::Hello { least, most, array: 2 });
    let position =
        Position { point: 1, base: 0, next: u64::MAX, volume: 0, block: 0, digest: Digest::default() };
    other.push(&Message::State { points: Vec::new(), position: Some(position) });
    other.push(&Message::Ready);
    other.push(&Message::Want { number: 0, wanted: vec![0].into() });
    other.push(&Message::Applied { number: 0 });
    other.push(&Message::Published);
    drop(other);
    assert_eq!(block_on(source.sender.sync(REPLICATION, one)).unwrap().point, 1);
}

#[test]
fn retention_is_independent_on_the_target() {
    let (source, target) = pair(b"key", b"key");
    block_on(target.receiver.accept(REPLICATION, 1000)).unwrap();
    source.create(1, 64, 4096);
    for _ in 0..2 {
        source.take_point(&[1]);
        sync(&source, &target).unwrap();
    }
    let locked = block_on(target.receiver.delete_point(REPLICATION, 1)).unwrap_err();
    assert!(matches!(locked, Error::Disk(block::Error::RetentionLocked { .. })), "{locked}");
    assert_eq!(block_on(target.receiver.delete_point(REPLICATION, 2)), Err(Error::Newest(2)));
    target.advance(2000);
    block_on(target.receiver.delete_point(REPLICATION, 1)).unwrap();
    assert_eq!(target.points().iter().map(|point| point.number).collect::<Vec<_>>(), [2]);
    assert_eq!(target.engine.disks().len(), 2, "a staging volume and a snapshot");
}

/// An unfinished transfer does not prevent the deletion of other points.
#[test]
fn a_point_is_deleted_while_a_later_one_is_transferred() {
    let (source, target) = pair(b"key", b"key");
    let volume = source.create(1, BLOCKS, 4096);
    for number in 1..=3 {
        (0..600).for_each(|block| source.write(&volume, block, &random_block(number * 10_000 + block)));
        source.take_point(&[1]);
        if number < 3 {
            sync(&source, &target).unwrap();
        }
    }
    let (one, other) = pipe();
    let mut served = pin!(target.receiver.serve(REPLICATION, other));
    let mut sent = pin!(source.sender.sync(REPLICATION, one));
    // Until the target knows the base of the transfer.
    while target.engine.records(&format!("replication-target/{REPLICATION:032x}/position")).is_empty() {
        poll_once(&mut sent);
        poll_once(&mut served);
    }
    assert_eq!(block_on(target.receiver.delete_point(REPLICATION, 2)), Err(Error::Busy));
    block_on(target.receiver.delete_point(REPLICATION, 1)).unwrap();
    assert_eq!(target.points().iter().map(|point| point.number).collect::<Vec<_>>(), [2]);
}

/// The target keeps the received data, reports the reason for stopping, and resumes when there is space.
#[test]
fn a_full_target_pauses_and_goes_on_where_it_was() {
    let (source, target) = pair(b"key", b"key");
    let filler = target.create(99, 1 << 20, 4096);
    let (mut lba, room) = (0, 5 << 20);
    while target.engine.space().free > room {
        let data: Vec<u8> = (0..16).flat_map(|block| random_block(1_000_000 + lba + block)).collect();
        target.write(&filler, lba, &data);
        lba += 16;
    }
    let volume = source.create(1, 2 * BLOCKS, 4096);
    (0..2 * BLOCKS).for_each(|block| source.write(&volume, block, &random_block(block)));
    source.take_point(&[1]);
    let refused = sync(&source, &target).unwrap_err();
    assert!(matches!(refused, Error::Refused { reason: Reason::NoSpace, .. }), "{refused}");
    assert!(refused.to_string().contains("space"), "{refused}");
    assert!(target.points().is_empty());
    let again = sync(&source, &target).unwrap_err();
    assert!(matches!(again, Error::Refused { reason: Reason::NoSpace, .. }), "{again}");
    block_on(target.engine.delete_volume(DiskId(99), 0)).unwrap();
    let synced = loop {
        match sync(&source, &target) {
            Ok(synced) => break synced,
            // Space is reclaimed in the background.
            Err(Error::Refused { reason: Reason::NoSpace, .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert!(synced.offered_blocks < 2 * BLOCKS, "it began again: {synced:?}");
    let copy = target.volume(target.points().pop().unwrap().volumes[0].snapshot);
    assert_eq!(target.read(&copy, 2 * BLOCKS - 1, 1), random_block(2 * BLOCKS - 1));
}
