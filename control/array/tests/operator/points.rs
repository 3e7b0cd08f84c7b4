//! Points of a target: which are kept, and that a retention lock is shortened by nothing.

use crate::replication::{BACK, Pair, demote, pair, protect, show};
use crate::rig::{Up, first_byte, ok, refused, write};
use array::{
    ChangeReplication, DeleteReplication, DeleteSnapshot, Deletion, Kind, ListReplicationPoints,
    ListSnapshots, ListVolumes, NewTestFailover, PromoteReplication, ReplicationChange, ReplicationPromotion,
    ReplicationRole, ReverseReplication, Rule, StartTestFailover, StopTestFailover, SyncReplication,
};
use block::DiskId;
use std::sync::atomic::Ordering;

/// Seconds of the retention lock of these tests.
const LOCK_SECONDS: u64 = 1000;

async fn numbers(up: &Up) -> Vec<u64> {
    let points = ok(up, ListReplicationPoints { name: "prod".into() }).await;
    points.into_iter().map(|point| point.number).collect()
}

pub fn retention(change: ReplicationChange) -> ChangeReplication {
    ChangeReplication { name: "prod".into(), change }
}

pub fn keep(points: u32) -> ReplicationChange {
    ReplicationChange { keep_points: Some(points), ..ReplicationChange::default() }
}

fn delete() -> DeleteReplication {
    DeleteReplication { name: "prod".into() }
}

impl Pair {
    /// Lets time pass on both arrays.
    fn pass(&self, seconds: u64) {
        for rig in [&self.one, &self.other] {
            rig.clock.fetch_add(seconds, Ordering::SeqCst);
        }
    }

    /// Writes a byte to the first volume, and replicates a point of it.
    async fn point(&self, byte: u8) {
        write(&self.first, self.volumes[0], 0, byte).await;
        ok(&self.first, SyncReplication { name: "prod".into() }).await;
        self.first.array.replicate_once().await;
    }
}

/// A target with three points, whose first bytes are 1, 2 and 3. Those that the lock is for are locked.
async fn locked() -> Pair {
    let pair = pair().await;
    ok(&pair.first, protect()).await;
    pair.first.array.replicate_once().await;
    let lock = ReplicationChange { lock_seconds: Some(LOCK_SECONDS), ..keep(1) };
    ok(&pair.second, retention(lock)).await;
    for byte in [2, 3] {
        pair.pass(30);
        pair.point(byte).await;
    }
    pair
}

/// What a test of a failover with a point sees.
pub async fn tested(up: &Up, point: Option<u64>) -> u8 {
    let name = || "prod".to_owned();
    ok(
        up,
        StartTestFailover { name: name(), change: NewTestFailover { point, ..NewTestFailover::default() } },
    )
    .await;
    let clone = ok(up, ListVolumes).await.into_iter().find(|it| it.name == "data-test").unwrap();
    let byte = first_byte(up, clone.id, 0).await;
    ok(up, StopTestFailover { name: name() }).await;
    byte
}

#[tokio::test]
async fn locked_points_outlast_the_retention_and_whoever_wants_them_gone() {
    let pair = locked().await;
    let Pair { first, second, other, .. } = &pair;
    let begin = 1_795_000_000;
    // The first one arrived before there was a lock.
    let points = ok(second, ListReplicationPoints { name: "prod".into() }).await;
    let shown: Vec<_> = points.iter().map(|it| (it.number, it.received, it.retain_until)).collect();
    let until = |passed| Some(begin + passed + LOCK_SECONDS);
    assert_eq!(shown, [(2, begin + 30, until(30)), (3, begin + 60, until(60))]);
    assert!(points.iter().all(|it| it.complete));

    let refusal = "locked until 2026-11-18T11:24:20Z, and the lock can't be shortened";
    assert!(refused(second, delete()).await.message.contains(refusal));
    // A shorter lock is one of points to come; the clock of the machine ends none.
    ok(second, retention(ReplicationChange { lock_seconds: Some(0), ..keep(1) })).await;
    other.skew.store(90 * 86_400, Ordering::SeqCst);
    assert!(refused(second, delete()).await.message.contains(refusal));
    pair.pass(30);
    pair.point(4).await;
    assert_eq!(numbers(second).await, [2, 3, 4]);
    other.skew.store(0, Ordering::SeqCst);

    // Neither does the source: what it deletes are its own points.
    ok(first, delete()).await;
    first.array.replicate_once().await;
    assert_eq!(numbers(second).await, [2, 3, 4]);
    assert_eq!((tested(second, Some(2)).await, tested(second, Some(3)).await), (2, 3));
    assert_eq!(tested(second, None).await, 4);
    let missing = StartTestFailover {
        name: "prod".into(),
        change: NewTestFailover { point: Some(1), ..NewTestFailover::default() },
    };
    assert_eq!(refused(second, missing).await.kind, Kind::NotFound);
    pair.pass(LOCK_SECONDS);
    ok(second, delete()).await;
    second.array.replicate_once().await;
    assert!(second.engine.disks().is_empty());
}

#[tokio::test]
async fn points_go_with_the_first_transfer_after_their_lock() {
    let pair = locked().await;
    pair.pass(LOCK_SECONDS - 30);
    pair.point(4).await;
    assert_eq!(numbers(&pair.second).await, [3, 4]);
    pair.pass(LOCK_SECONDS);
    pair.point(5).await;
    assert_eq!(numbers(&pair.second).await, [5]);
}

#[tokio::test]
async fn rules_keep_older_points() {
    let pair = pair().await;
    let Pair { first, second, .. } = &pair;
    ok(first, protect()).await;
    first.array.replicate_once().await;
    let rules = vec![Rule { when: "hourly".into(), keep: 2 }];
    let change = ReplicationChange { keep_rules: Some(rules.clone()), ..keep(1) };
    assert_eq!(ok(second, retention(change)).await.keep_rules, rules);
    // 11:06:40, then every half hour: 11:36, 12:06, 12:36, 13:06, 13:36.
    for byte in 2..=6 {
        pair.pass(1800);
        pair.point(byte).await;
    }
    assert_eq!(numbers(second).await, [3, 5, 6]);
    for wrong in [keep(0), keep(1001)] {
        assert_eq!(refused(second, retention(wrong)).await.kind, Kind::Invalid);
    }
    let forever = ReplicationChange { lock_seconds: Some(u64::MAX), ..ReplicationChange::default() };
    assert_eq!(refused(second, retention(forever)).await.kind, Kind::Invalid);
    assert_eq!(refused(first, retention(keep(3))).await.kind, Kind::Precondition);
}

#[tokio::test]
async fn after_an_attack_a_locked_point_is_promoted_and_a_reversal_keeps_the_others() {
    let pair = locked().await;
    let Pair { first, second, .. } = &pair;
    pair.other.network.others.lock().unwrap().insert(BACK.into(), first.array.clone());
    // What the source has now is not wanted.
    pair.pass(30);
    pair.point(66).await;
    ok(first, demote(false)).await;
    first.array.replicate_once().await;
    let promote = |force| PromoteReplication {
        name: "prod".into(),
        change: ReplicationPromotion { force, point: Some(3) },
    };
    assert!(refused(second, promote(false)).await.message.contains("with force"));
    ok(second, promote(true)).await;
    let volumes: Vec<DiskId> = ok(second, ListVolumes).await.iter().map(|it| it.id).collect();
    assert_eq!(first_byte(second, volumes[0], 0).await, 3);

    let reversed = ok(second, ReverseReplication { name: "prod".into() }).await;
    assert_eq!(reversed.role, ReplicationRole::Source);
    second.array.replicate_once().await;
    second.array.replicate_once().await;
    let status = ok(second, show()).await.status;
    assert_eq!(status.problem, None);
    assert_eq!(ok(first, show()).await.status.point, status.point);
    assert_eq!(tested(first, None).await, 3);

    // The locked points are snapshots of the promoted volumes, and locked as before.
    let snapshots = ok(second, ListSnapshots).await;
    let names: Vec<_> = snapshots.iter().map(|it| (it.name.as_str(), it.source.as_deref())).collect();
    let (data, log) = (Some("data"), Some("log"));
    let wanted = [
        ("data.point-2", data),
        ("data.point-3", data),
        ("data.point-4", data),
        ("log.point-2", log),
        ("log.point-3", log),
        ("log.point-4", log),
    ];
    assert_eq!(names, wanted);
    assert!(snapshots.iter().all(|it| it.retain_until.is_some() && !it.writable));
    assert_eq!(first_byte(second, snapshots[0].id, 0).await, 2);
    let eradicate = || DeleteSnapshot { name: "data.point-2".into(), how: Deletion { eradicate: true } };
    assert!(refused(second, eradicate()).await.message.contains("the lock can't be shortened"));

    // They are there after a crash, and go like other snapshots.
    let Pair { one, other, first, second, .. } = pair;
    for rig in [&one, &other] {
        rig.network.others.lock().unwrap().clear();
    }
    first.crash().await;
    second.crash().await;
    let second = other.up().await;
    assert_eq!(ok(&second, ListSnapshots).await.len(), 6);
    other.clock.fetch_add(LOCK_SECONDS, Ordering::SeqCst);
    ok(&second, eradicate()).await;
    assert_eq!(ok(&second, ListSnapshots).await.len(), 5);
}
