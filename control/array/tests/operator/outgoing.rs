//! Snapshots of users and schedules that reach the target as points.

use crate::points::{keep, retention, tested};
use crate::replication::{Pair, pair, protect, show};
use crate::rig::{Up, ok, refused, write};
use array::{
    ChangeReplication, CreateSchedule, CreateSnapshots, DeleteSnapshot, Deletion, Kind, LabelsChange,
    ListReplicationPoints, ListSnapshots, ReplicationChange, Rule, RunSchedule, SubjectName, SyncReplication,
};
use std::sync::atomic::Ordering;

fn policy(replicate: bool) -> ChangeReplication {
    let change = ReplicationChange { replicate_snapshots: Some(replicate), ..ReplicationChange::default() };
    retention(change)
}

fn snapshot(subject: SubjectName, suffix: &str) -> CreateSnapshots {
    CreateSnapshots {
        subject,
        suffix: Some(suffix.into()),
        keep_until: None,
        labels: LabelsChange::default(),
    }
}

fn of_group(suffix: &str) -> CreateSnapshots {
    snapshot(SubjectName::Group("app".into()), suffix)
}

/// Points with the names of the snapshots that they were taken from.
async fn points(up: &Up) -> Vec<(u64, Vec<String>)> {
    let points = ok(up, ListReplicationPoints { name: "prod".into() }).await;
    points.into_iter().map(|it| (it.number, it.snapshots)).collect()
}

fn names(suffix: &str) -> Vec<String> {
    vec![format!("data.{suffix}"), format!("log.{suffix}")]
}

#[tokio::test]
async fn snapshots_of_the_group_become_points_in_their_order() {
    let Pair { one, first, second, volumes, .. } = pair().await;
    ok(&first, protect()).await;
    first.array.replicate_once().await;
    // Not by default.
    ok(&first, of_group("zero")).await;
    first.array.replicate_once().await;
    assert_eq!(points(&second).await, [(1, vec![])]);
    assert_eq!(refused(&second, policy(true)).await.kind, Kind::Precondition);
    one.clock.fetch_add(30, Ordering::SeqCst);
    first.array.replicate_once().await;
    assert_eq!(ok(&first, policy(true)).await.replicate_snapshots, Some(true));
    first.array.replicate_once().await;
    assert_eq!(points(&second).await, [(1, vec![]), (2, vec![])], "it is older than the last point");

    // Two snapshots, and what was written after each; a snapshot of one volume is none of the group.
    write(&first, volumes[0], 0, 21).await;
    ok(&first, of_group("one")).await;
    write(&first, volumes[0], 0, 22).await;
    ok(&first, snapshot(SubjectName::Volume("data".into()), "alone")).await;
    ok(&first, of_group("two")).await;
    write(&first, volumes[0], 0, 23).await;
    ok(&first, SyncReplication { name: "prod".into() }).await;
    for _ in 0..3 {
        first.array.replicate_once().await;
    }
    let status = ok(&first, show()).await.status;
    assert_eq!((status.state, status.point), (array::ReplicationState::Idle, Some(5)), "{status:?}");
    let wanted = [(3, names("one")), (4, names("two")), (5, vec![])];
    assert_eq!(points(&second).await[1..], wanted);
    first.array.replicate_once().await;
    assert_eq!(ok(&second, show()).await.status.point, Some(5), "each once");

    // They can be cloned, and outlive the source's.
    for suffix in ["one", "two"] {
        for name in names(suffix) {
            ok(&first, DeleteSnapshot { name, how: Deletion { eradicate: true } }).await;
        }
    }
    for (point, byte) in [(3, 21), (4, 22), (5, 23)] {
        assert_eq!(tested(&second, Some(point)).await, byte);
    }
    ok(&second, retention(ReplicationChange { keep_snapshots: Some(1), ..keep(1) })).await;
    one.clock.fetch_add(30, Ordering::SeqCst);
    first.array.replicate_once().await;
    assert_eq!(points(&second).await, [(4, names("two")), (6, vec![])]);
}

#[tokio::test]
async fn a_schedule_replicates_over_crashes_and_interruptions() {
    let Pair { one, other, first, second, volumes } = pair().await;
    ok(&first, protect()).await;
    first.array.replicate_once().await;
    ok(&first, policy(true)).await;
    let rules = vec![Rule { when: "hourly".into(), keep: 2 }];
    let group = Some("app".into());
    ok(&first, CreateSchedule { name: "often".into(), group, rules, ..CreateSchedule::default() }).await;
    write(&first, volumes[0], 0, 31).await;
    ok(&first, RunSchedule { name: "often".into(), now: true }).await;
    write(&first, volumes[0], 0, 32).await;
    let taken: Vec<String> = ok(&first, ListSnapshots).await.into_iter().map(|it| it.name).collect();
    assert_eq!(taken.len(), 2);

    // The point is taken, and does not get there; then the source crashes, and the snapshots go.
    let others = std::mem::take(&mut *one.network.others.lock().unwrap());
    first.array.replicate_once().await;
    assert_eq!(points(&first).await.last().unwrap(), &(2, taken.clone()));
    for name in taken.clone() {
        ok(&first, DeleteSnapshot { name, how: Deletion { eradicate: true } }).await;
    }
    first.crash().await;
    let first = one.up().await;
    *one.network.others.lock().unwrap() = others;
    first.array.replicate_once().await;
    first.array.replicate_once().await;
    let found = points(&second).await;
    assert_eq!(found[1], (2, taken.clone()));
    assert_eq!(found[2], (3, vec![]));
    assert_eq!((tested(&second, Some(2)).await, tested(&second, Some(3)).await), (31, 32));
    assert_eq!(ok(&first, show()).await.replicate_snapshots, Some(true));
    one.network.others.lock().unwrap().clear();
    second.crash().await;
    assert_eq!(points(&other.up().await).await[1], (2, taken));
}
