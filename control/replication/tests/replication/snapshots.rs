//! Points of users' snapshots, and their replication with peers of version 1.

use crate::support::{
    Array, BLOCKS, End, REPLICATION, pair, pipe_of, poll_once, random_block, sync, sync_over,
};
use block::DiskId;
use replication::{Error, Reason};
use rig::block_on;
use std::pin::pin;

/// The newest version at both ends.
const NEW: [u16; 2] = [2, 2];

/// A source with the points of a volume and of its snapshot with other data; the first point was transferred.
fn with_snapshot() -> (Array, Array) {
    let (source, target) = pair(b"key", b"key");
    let volume = source.create(1, BLOCKS, 4096);
    (0..BLOCKS).for_each(|block| source.write(&volume, block, &random_block(block)));
    source.take_point(&[1]);
    sync(&source, &target).unwrap();
    (0..BLOCKS).for_each(|block| source.write(&volume, block, &random_block(10_000 + block)));
    source.advance(50);
    let snapshot = source.snapshot(1, 70, "db.nightly");
    let taken = source.engine.disk(DiskId(70)).unwrap().created;
    source.advance(50);
    source.write(&volume, 5, &random_block(99_999));
    let point = block_on(source.sender.take_point_of(REPLICATION, &[snapshot])).unwrap();
    assert_eq!((point.number, point.taken), (2, taken));
    // The snapshot itself is no longer needed.
    block_on(source.engine.delete_volume(DiskId(70), 0)).unwrap();
    (source, target)
}

/// Names of the second point on the target, which has the data of the snapshot.
fn names(target: &Array) -> Vec<String> {
    let point = target.points().pop().unwrap();
    assert_eq!(point.number, 2);
    let copy = target.volume(point.volumes[0].snapshot);
    assert_eq!(target.read(&copy, 5, 1), random_block(10_005));
    assert_eq!(target.read(&copy, BLOCKS - 1, 1), random_block(10_000 + BLOCKS - 1));
    point.snapshots
}

/// Transfers until the target knows its position, then loses the connection.
fn begin((source, target): (&Array, &Array), (one, other): (End, End)) {
    let mut served = pin!(target.receiver.serve(REPLICATION, other));
    let mut sent = pin!(source.sender.sync(REPLICATION, one));
    while target.engine.records(&format!("replication-target/{REPLICATION:032x}/position")).is_empty() {
        poll_once(&mut sent);
        poll_once(&mut served);
    }
}

#[test]
fn a_point_of_snapshots_has_their_data_and_names() {
    let (source, target) = with_snapshot();
    sync(&source, &target).unwrap();
    assert_eq!(names(&target), ["db.nightly"]);
    // The content of the volume follows like any other point.
    source.take_point(&[1]);
    assert_eq!(sync(&source, &target).unwrap().sent_blocks, 1);
    let point = target.points().pop().unwrap();
    assert!(point.snapshots.is_empty());
    assert_eq!(target.read(&target.volume(point.volumes[0].snapshot), 5, 1), random_block(99_999));
}

#[test]
fn a_peer_of_version_1_gets_the_point_without_names() {
    // An older target; and an older source, which a current target serves like any array of its version.
    for versions in [[2, 1], [1, 1]] {
        let (source, target) = with_snapshot();
        sync_over(&source, &target, pipe_of(versions)).unwrap();
        assert!(names(&target).is_empty(), "{versions:?}");
    }
}

#[test]
fn names_are_refused_if_the_agreement_is_on_version_1() {
    let (source, target) = with_snapshot();
    // The target sees version 1, and the source version 2.
    let refused = sync_over(&source, &target, pipe_of([1, 2])).unwrap_err();
    assert!(matches!(refused, Error::Refused { reason: Reason::Other, .. }), "{refused}");
    assert!(refused.to_string().contains("newer version"), "{refused}");
    sync(&source, &target).unwrap();
    assert_eq!(names(&target), ["db.nightly"]);
}

/// One of both arrays is upgraded, or downgraded, during the transfer of a point.
#[test]
fn a_transfer_goes_on_with_another_version_and_the_names_that_it_began_with() {
    for (first, then, wanted) in [(NEW, [2, 1], vec!["db.nightly"]), ([2, 1], NEW, vec![])] {
        let (source, target) = with_snapshot();
        begin((&source, &target), pipe_of(first));
        sync_over(&source, &target, pipe_of(then)).unwrap();
        assert_eq!(names(&target), wanted, "{first:?} and {then:?}");
    }
}

#[test]
fn a_snapshot_that_is_older_than_the_last_point_is_refused() {
    let (source, target) = pair(b"key", b"key");
    source.create(1, 64, 4096);
    let old = source.snapshot(1, 70, "db.old");
    source.take_point(&[1]);
    sync(&source, &target).unwrap();
    let (newer, newest) = (source.snapshot(1, 71, "db.newer"), source.snapshot(1, 72, "db.newest"));
    let refused = |snapshot| match block_on(source.sender.take_point_of(REPLICATION, &[snapshot])) {
        Err(Error::Disk(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(old), block::Error::Malformed("a snapshot that is older than the last point"));
    // The point is created after both; its source snapshot counts.
    block_on(source.sender.take_point_of(REPLICATION, std::slice::from_ref(&newer))).unwrap();
    assert_eq!(refused(newer), block::Error::Malformed("a snapshot that is older than the last point"));
    block_on(source.sender.take_point_of(REPLICATION, &[newest])).unwrap();
    assert_eq!(source.points().len(), 3);
    block_on(source.engine.delete_volume(DiskId(71), 0)).unwrap();
    let gone = replication::UserSnapshot { volume: DiskId(1), snapshot: DiskId(71), name: "db.newer".into() };
    assert_eq!(refused(gone), block::Error::Deleted);
}
