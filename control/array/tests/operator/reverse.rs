//! Reversal of a replication: differences only, the same volumes after a fail-back, and what is there after crashes.

use crate::replication::{Pair, demote, fill, pair, promote, protect, show};
use crate::rig::{Up, first_byte, ok, refused, write};
use array::{
    ChangeVolume, CreateReplication, DeleteReplication, Kind, ListReplications, ListVolumes, Replication,
    ReplicationRole, ReplicationState, ReverseReplication, VolumeChange,
};
use block::{Disk, DiskId};
use std::sync::atomic::Ordering;

/// What a volume has in data, in bytes: more than everything else that goes over the network.
const BULK_BYTES: u64 = 2 << 20;

fn reverse() -> ReverseReplication {
    ReverseReplication { name: "prod".into() }
}

async fn shown(up: &Up) -> Replication {
    ok(up, show()).await
}

/// The second array can open connections to the first as well.
fn connect_back(pair: &Pair) {
    pair.other
        .network
        .others
        .lock()
        .unwrap()
        .insert(crate::replication::BACK.into(), pair.first.array.clone());
}

/// A group that was failed over as planned: the first array is demoted, the second one promoted. Returns the volumes there.
async fn failed_over(pair: &Pair) -> Vec<DiskId> {
    connect_back(pair);
    fill(&pair.first, pair.volumes[0], BULK_BYTES / 4096).await;
    ok(&pair.first, protect()).await;
    pair.first.array.replicate_once().await;
    assert_eq!(shown(&pair.first).await.status.problem, None);
    ok(&pair.first, demote(false)).await;
    pair.first.array.replicate_once().await;
    ok(&pair.second, promote(false)).await;
    ok(&pair.second, ListVolumes).await.iter().map(|volume| volume.id).collect()
}

#[tokio::test]
async fn a_failover_is_reversed_and_failed_back_with_differences_only() {
    let pair = pair().await;
    let promoted = failed_over(&pair).await;
    let Pair { one, first, second, volumes, .. } = &pair;
    let first_sync = shown(first).await.status.network_bytes;
    assert!(first_sync > BULK_BYTES, "{first_sync}");

    let now = ok(second, reverse()).await;
    assert_eq!((now.role, now.status.point), (ReplicationRole::Source, shown(first).await.status.point));
    assert_eq!(now.group.as_deref(), Some("app"));
    let there = shown(first).await;
    assert_eq!(
        (there.role, there.status.state),
        (ReplicationRole::Target, ReplicationState::Idle),
        "{there:?}"
    );
    assert_eq!(refused(first, reverse()).await.kind, Kind::Precondition);
    let before = shown(second).await.status.network_bytes;
    write(second, promoted[0], 0, 60).await;
    second.array.replicate_once().await;
    let status = shown(second).await.status;
    assert_eq!((status.state, status.point), (ReplicationState::Idle, shown(first).await.status.point));
    assert!(status.point > now.status.point);
    let sent = status.network_bytes - before;
    assert!(sent < BULK_BYTES / 8, "{sent} bytes for one block");

    // Hosts see the old content, and change nothing, until the first array is promoted again.
    assert_eq!(first_byte(first, volumes[0], 0).await, 1);
    let writable = VolumeChange { read_only: Some(false), ..VolumeChange::default() };
    let error = refused(first, ChangeVolume { name: "data".into(), change: writable }).await;
    assert!(error.message.contains("until replication"), "{error}");
    assert!(promote_refused(first).await.contains("may still take writes"));
    // What the old direction had is gone on both arrays: two volumes, and points and staging volumes of the new one.
    first.array.replicate_once().await;
    second.array.replicate_once().await;
    assert_eq!(second.engine.disks().len(), 2 + 2, "volumes, and one point");

    // Fail back.
    write(second, promoted[1], 0, 61).await;
    ok(second, demote(false)).await;
    second.array.replicate_once().await;
    let back = ok(first, promote(false)).await;
    assert_eq!(
        (back.status.state, back.promoted_volumes),
        (ReplicationState::Promoted, vec!["data".to_owned(), "log".to_owned()])
    );
    let listed: Vec<_> = ok(first, ListVolumes).await.iter().map(|volume| volume.id).collect();
    assert_eq!(listed, volumes, "the volumes have the identities that they had");
    assert_eq!([first_byte(first, volumes[0], 0).await, first_byte(first, volumes[1], 0).await], [60, 61]);
    write(first, volumes[0], 0, 70).await;
    let before = shown(first).await.status.network_bytes;
    ok(first, reverse()).await;
    first.array.replicate_once().await;
    let status = shown(first).await.status;
    assert_eq!((status.state, status.point), (ReplicationState::Idle, shown(second).await.status.point));
    let sent = status.network_bytes - before;
    assert!(sent < BULK_BYTES / 8, "{sent} bytes for one block");

    // And once more: the second array has the same volumes again.
    one.clock.fetch_add(60, Ordering::SeqCst);
    ok(first, demote(false)).await;
    first.array.replicate_once().await;
    ok(second, promote(false)).await;
    let again: Vec<_> = ok(second, ListVolumes).await.iter().map(|volume| volume.id).collect();
    assert_eq!(again, promoted);
    assert_eq!(first_byte(second, promoted[0], 0).await, 70);
    write(second, promoted[0], 0, 71).await;
}

async fn promote_refused(up: &Up) -> String {
    refused(up, promote(false)).await.message
}

#[tokio::test]
async fn the_array_that_loses_its_changes_is_named_before_a_reversal() {
    let pair = pair().await;
    connect_back(&pair);
    let Pair { first, second, volumes, .. } = &pair;
    ok(first, protect()).await;
    first.array.replicate_once().await;
    assert!(refused(second, reverse()).await.message.contains("was not promoted"));
    write(first, volumes[0], 0, 50).await;
    ok(second, promote(true)).await;
    let made: Vec<_> = ok(second, ListVolumes).await.iter().map(|volume| volume.id).collect();
    write(second, made[0], 0, 77).await;
    assert!(refused(second, reverse()).await.message.contains("would be lost"));
    assert_eq!(shown(second).await.role, ReplicationRole::Target);

    // The first array loses 50; it was not notified of the promotion.
    ok(first, demote(true)).await;
    ok(second, reverse()).await;
    second.array.replicate_once().await;
    assert_eq!(first_byte(first, volumes[0], 0).await, 50, "until the promotion");
    ok(first, promote(true)).await;
    assert_eq!(first_byte(first, volumes[0], 0).await, 77);
    // Both were promoted: the second array learns it, and loses.
    write(first, volumes[0], 0, 78).await;
    ok(second, array::SyncReplication { name: "prod".into() }).await;
    second.array.replicate_once().await;
    for up in [first, second] {
        assert_eq!(shown(up).await.status.state, ReplicationState::Split);
    }
    assert!(refused(first, reverse()).await.message.contains("would be lost"));
    ok(second, demote(true)).await;
    ok(first, reverse()).await;
    first.array.replicate_once().await;
    let states = [shown(first).await.status.state, shown(second).await.status.state];
    assert_eq!(states, [ReplicationState::Idle; 2]);
    assert!(second.engine.volume(made[0]).unwrap().is_read_only());
    ok(second, promote(true)).await;
    assert_eq!(first_byte(second, made[0], 0).await, 78);
}

/// The other array agrees, and this one is lost before it is the source; or the response is lost.
#[tokio::test]
async fn a_reversal_that_was_interrupted_is_repeated() {
    let pair = pair().await;
    let promoted = failed_over(&pair).await;
    let records: Vec<_> = pair.second.engine.records("");
    ok(&pair.second, reverse()).await;
    // As if the second array had not stored it.
    let changed = pair.second.engine.records("");
    let gone = changed.iter().filter(|(key, _)| !records.iter().any(|(known, _)| known == key));
    let gone = gone.map(|(key, _)| (key.clone(), None));
    let back = records.iter().map(|(key, value)| (key.clone(), Some(value.clone())));
    pair.second.engine.put_records(gone.chain(back).collect()).await.unwrap();
    let Pair { one, other, first, second, volumes } = pair;
    one.network.others.lock().unwrap().clear();
    other.network.others.lock().unwrap().clear();
    first.crash().await;
    second.crash().await;
    let (first, second) = (one.up().await, other.up().await);
    let ends = [shown(&first).await, shown(&second).await];
    assert_eq!(ends.each_ref().map(|it| it.role), [ReplicationRole::Target; 2]);
    assert_eq!(ends[1].status.state, ReplicationState::Promoted);
    write(&second, promoted[0], 0, 88).await;
    assert!(refused(&second, reverse()).await.message.contains("connection refused"));

    other.network.others.lock().unwrap().insert(crate::replication::BACK.into(), first.array.clone());
    ok(&second, reverse()).await;
    second.array.replicate_once().await;
    let status = shown(&second).await.status;
    assert_eq!((status.state, status.point), (ReplicationState::Idle, shown(&first).await.status.point));
    assert!(status.network_bytes < BULK_BYTES / 8, "{status:?}");

    // All of it is there after a restart, and nothing else.
    other.network.others.lock().unwrap().clear();
    first.crash().await;
    second.crash().await;
    let (first, second) = (one.up().await, other.up().await);
    assert_eq!(ok(&first, ListVolumes).await.len(), 2);
    assert_eq!(ok(&second, ListVolumes).await.len(), 2);
    ok(&first, promote(true)).await;
    assert_eq!(first_byte(&first, volumes[0], 0).await, 88);
}

#[tokio::test]
async fn a_single_volume_is_reversed_and_keeps_its_identity() {
    let pair = pair().await;
    connect_back(&pair);
    let Pair { first, second, volumes, .. } = &pair;
    let single = CreateReplication { volume: Some("log".into()), group: None, ..protect() };
    ok(first, single).await;
    first.array.replicate_once().await;
    ok(first, demote(false)).await;
    first.array.replicate_once().await;
    ok(second, promote(false)).await;
    let made = ok(second, ListVolumes).await.remove(0).id;
    ok(second, reverse()).await;
    // It gets another size, which the original gets as well.
    let larger = VolumeChange { size: Some(16 << 20), ..VolumeChange::default() };
    ok(second, ChangeVolume { name: "log".into(), change: larger }).await;
    write(second, made, 16384, 9).await;
    ok(second, demote(false)).await;
    second.array.replicate_once().await;
    ok(first, promote(false)).await;
    assert_eq!(first.engine.volume(volumes[1]).unwrap().geometry().bytes(), 16 << 20);
    assert_eq!(first_byte(first, volumes[1], 16384).await, 9);
    assert!(!first.engine.volume(volumes[0]).unwrap().is_read_only());
    // Without the replication its volumes are as any other.
    ok(second, DeleteReplication { name: "prod".into() }).await;
    let writable = VolumeChange { read_only: Some(false), ..VolumeChange::default() };
    ok(second, ChangeVolume { name: "log".into(), change: writable }).await;
    second.array.replicate_once().await;
    assert_eq!(second.engine.disks().len(), 1);
    assert!(ok(second, ListReplications).await.is_empty());
    assert!(refused(first, reverse()).await.message.contains("was deleted there"));
}
