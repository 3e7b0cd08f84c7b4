//! Replication between two arrays: what each end shows, and what is there after crashes and promotions.

use crate::rig::{Rig, Up, first_byte, ok, refused, write};
use crate::witness::exchange;
use array::{
    Caller, ChangeRemoteArray, ChangeReplication, CreateConnection, CreateGroup, CreateHost,
    CreatePairingKey, CreateReplication, CreateVolume, DeleteConnection, DeleteGroup, DeleteRemoteArray,
    DeleteReplication, DemoteReplication, Demotion, Identity, Kind, ListAlerts, ListGroups, ListReplications,
    ListSnapshots, ListVolumes, Network, NewTestFailover, PairRemoteArray, PauseReplication, PeerName,
    PromoteReplication, RemoteArrayChange, ReplicationChange, ReplicationDemotion, ReplicationPromotion,
    ReplicationRole, ReplicationState, ResumeReplication, Role, ShowRemoteArray, ShowReplication,
    StartTestFailover, StopTestFailover, SyncReplication,
};
use block::{Disk, DiskId};
use std::sync::atomic::Ordering;

const ADDRESS: &str = "192.0.2.2:8444";
/// The address of the first array, as the second one knows it.
pub const BACK: &str = "192.0.2.9:8444";

pub struct Pair {
    pub one: Rig,
    pub other: Rig,
    pub first: Up,
    pub second: Up,
    /// The volumes of the group on the first array.
    pub volumes: [DiskId; 2],
}

/// Two arrays that are paired. The first has a group of two volumes, whose first blocks are 1 and 2.
pub async fn pair() -> Pair {
    let (one, other) = (Rig::with_serial(0xa), Rig::with_serial(0xb));
    let (first, second) = (one.up().await, other.up().await);
    for rig in [&one, &other] {
        *rig.network.port.lock().unwrap() = Some(8444);
    }
    one.network.others.lock().unwrap().insert(ADDRESS.into(), second.array.clone());
    let key = ok(&second, CreatePairingKey).await.key;
    let wanted = PairRemoteArray { name: Some("dr".into()), address: ADDRESS.into(), key };
    ok(&first, wanted).await;
    ok(&first, CreateGroup { name: "app".into(), ..CreateGroup::default() }).await;
    let mut volumes = Vec::new();
    for (name, byte) in [("data", 1), ("log", 2)] {
        let new = CreateVolume {
            name: name.into(),
            bytes: 8 << 20,
            block_bytes: 512,
            group: Some("app".into()),
            ..CreateVolume::default()
        };
        let id = ok(&first, new).await.object.id;
        write(&first, id, 0, byte).await;
        volumes.push(id);
    }
    let volumes = volumes.try_into().unwrap();
    Pair { one, other, first, second, volumes }
}

/// Writes blocks to a volume that no compression makes smaller.
pub async fn fill(up: &Up, volume: DiskId, blocks: u64) {
    let disk = up.engine.volume(volume).unwrap();
    for block in 0..blocks {
        let mut state = (1 << 32 | block).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let words = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        });
        let data: Vec<u8> = words.take(512).flatten().collect();
        let lba = 4096 + block * 8;
        disk.execute(block::Op::Write { lba, data: bytes::Bytes::from(data).into() }).await.unwrap();
    }
}

pub fn protect() -> CreateReplication {
    CreateReplication {
        name: "prod".into(),
        group: Some("app".into()),
        remote_array: "dr".into(),
        rpo_seconds: 60,
        ..CreateReplication::default()
    }
}

pub fn show() -> ShowReplication {
    ShowReplication { name: "prod".into() }
}

pub fn promote(force: bool) -> PromoteReplication {
    PromoteReplication { name: "prod".into(), change: ReplicationPromotion { force, point: None } }
}

pub fn demote(force: bool) -> DemoteReplication {
    DemoteReplication { name: "prod".into(), change: ReplicationDemotion { force } }
}

#[tokio::test]
async fn a_group_is_replicated_and_both_arrays_list_it() {
    let Pair { one, first, second, volumes, .. } = pair().await;
    let made = ok(&first, protect()).await;
    assert_eq!((made.role, made.status.point), (ReplicationRole::Source, None));
    assert_eq!(refused(&first, protect()).await.kind, Kind::Conflict);
    first.array.replicate_once().await;

    let here = ok(&first, show()).await;
    assert_eq!((here.status.state, here.status.point), (ReplicationState::Idle, Some(1)), "{here:?}");
    assert!(here.status.logical_bytes >= 8192 && here.status.network_bytes > 0);
    let there = ok(&second, ListReplications).await.remove(0);
    assert_eq!((there.id, there.role, there.status.point), (here.id, ReplicationRole::Target, Some(1)));
    assert_eq!(there.group.as_deref(), Some("app"));
    assert_eq!((there.rpo_seconds, there.keep_points), (60, Some(2)));
    // Nothing of it is a volume there.
    assert!(ok(&second, ListVolumes).await.is_empty());

    // Points follow each other, and a target keeps as many as it is to.
    ok(
        &second,
        ChangeReplication {
            name: "prod".into(),
            change: ReplicationChange { keep_points: Some(1), ..ReplicationChange::default() },
        },
    )
    .await;
    for (point, byte) in [(2, 7), (3, 8)] {
        write(&first, volumes[0], 8, byte).await;
        first.array.replicate_once().await;
        assert_eq!(ok(&first, show()).await.status.point, Some(point - 1), "none is due");
        one.clock.fetch_add(30, Ordering::SeqCst);
        first.array.replicate_once().await;
        let there = ok(&second, show()).await.status;
        assert_eq!((there.point, there.points), (Some(point), 1));
    }
    // It is `syncing` from the request to the end of the point that was taken after it.
    let asked = ok(&first, SyncReplication { name: "prod".into() }).await.status;
    assert_eq!((asked.state, asked.point), (ReplicationState::Syncing, Some(3)));
    first.array.replicate_once().await;
    let done = ok(&first, show()).await.status;
    assert_eq!((done.state, done.point), (ReplicationState::Idle, Some(4)));
    assert_eq!(ok(&second, show()).await.status.point, Some(4));

    // What is in use is not taken away.
    for error in [
        refused(&first, DeleteGroup { name: "app".into() }).await,
        refused(&first, DeleteRemoteArray { name: "dr".into() }).await,
        refused(&second, SyncReplication { name: "prod".into() }).await,
        refused(
            &first,
            PromoteReplication {
                name: "prod".into(),
                change: ReplicationPromotion { force: true, point: None },
            },
        )
        .await,
    ] {
        assert_eq!(error.kind, Kind::Precondition, "{error}");
    }
}

#[tokio::test]
async fn a_target_is_promoted_with_the_last_complete_point_of_the_group() {
    let Pair { one, other, first, second, volumes } = pair().await;
    ok(&first, protect()).await;
    first.array.replicate_once().await;
    assert!(refused(&second, promote(false)).await.message.contains("may still take writes"));

    // Clones to test with, which go without a trace.
    let tested =
        ok(&second, StartTestFailover { name: "prod".into(), change: NewTestFailover::default() }).await;
    assert_eq!(tested.test_volumes, ["data-test", "log-test"]);
    let clone = ok(&second, ListVolumes).await.remove(0).id;
    let shown = |it: &array::ReplicatedVolume| (it.id, it.name.clone(), it.promoted, it.test.is_some());
    let expected = [(volumes[0], "data".to_owned(), None, true), (volumes[1], "log".to_owned(), None, true)];
    assert_eq!(tested.volumes.iter().map(shown).collect::<Vec<_>>(), expected);
    assert_eq!(tested.volumes[0].test, Some(clone));
    assert_eq!(first_byte(&second, clone, 0).await, 1);
    write(&second, clone, 0, 99).await;
    assert!(
        refused(&second, DeleteReplication { name: "prod".into() }).await.message.contains("stop the test")
    );
    ok(&second, StopTestFailover { name: "prod".into() }).await;
    assert!(ok(&second, ListVolumes).await.is_empty());

    // Written after the last point: lost with the source.
    write(&first, volumes[0], 0, 50).await;
    let promoted = ok(&second, promote(true)).await;
    assert_eq!(promoted.status.state, ReplicationState::Promoted);
    assert_eq!(promoted.promoted_volumes, ["data", "log"]);
    assert_eq!(ok(&second, ListGroups).await[0].name, "app");
    let made = ok(&second, ListVolumes).await;
    for (volume, shown) in made.iter().zip(&promoted.volumes) {
        assert_eq!((shown.promoted, shown.test), (Some(volume.id), None));
    }
    for (volume, byte) in made.iter().zip([1, 2]) {
        assert_eq!(volume.group.as_deref(), Some("app"));
        assert_eq!(first_byte(&second, volume.id, 0).await, byte);
        assert!(!volumes.contains(&volume.id), "it has an identity of its own");
    }
    write(&second, made[0].id, 0, 77).await;
    // Once more is no other promotion.
    assert_eq!(ok(&second, promote(false)).await.promoted_volumes, ["data", "log"]);

    // The source comes back: two sources are shown on both arrays, and an alert on each.
    one.clock.fetch_add(30, Ordering::SeqCst);
    first.array.replicate_once().await;
    for up in [&first, &second] {
        assert_eq!(ok(up, show()).await.status.state, ReplicationState::Split);
        up.array.tick().await;
        let alerts = ok(up, ListAlerts).await;
        assert!(alerts.iter().any(|alert| alert.kind == "replication.split"), "{alerts:?}");
    }
    assert_eq!(first_byte(&second, made[0].id, 0).await, 77);

    // All of this is there after a restart, and nothing else.
    one.network.others.lock().unwrap().clear();
    first.crash().await;
    second.crash().await;
    let (first, second) = (one.up().await, other.up().await);
    assert_eq!(ok(&first, show()).await.status.state, ReplicationState::Split);
    assert_eq!(ok(&second, show()).await.promoted_volumes, ["data", "log"]);
    assert_eq!(ok(&second, ListVolumes).await.len(), 2);
    assert_eq!(ok(&first, ListVolumes).await.len(), 2);
}

#[tokio::test]
async fn hosts_see_the_clones_of_a_test_until_it_stops() {
    let Pair { other, first, second, .. } = pair().await;
    ok(&first, protect()).await;
    first.array.replicate_once().await;
    for (name, iqn) in [("esx-dr", "iqn.2026-11.example:dr"), ("else", "iqn.2026-11.example:else")] {
        let new = CreateHost { name: name.into(), initiators: vec![iqn.into()], ..CreateHost::default() };
        ok(&second, new).await;
    }
    let start = |host: &str| StartTestFailover {
        name: "prod".into(),
        change: NewTestFailover { hosts: vec![host.into(), host.into()], ..NewTestFailover::default() },
    };
    assert_eq!(refused(&second, start("unknown")).await.kind, Kind::NotFound);
    assert!(ok(&second, ListVolumes).await.is_empty());
    let seen = |replication: &array::Replication| {
        let connections = replication.test_connections.iter();
        connections.map(|it| (it.volume.clone(), it.host.clone().unwrap(), it.lun)).collect::<Vec<_>>()
    };
    let wanted = [("data-test".into(), "esx-dr".into(), 0), ("log-test".into(), "esx-dr".into(), 1)];
    assert_eq!(seen(&ok(&second, start("esx-dr")).await), wanted);
    second.crash().await;
    let second = other.up().await;
    assert_eq!(seen(&ok(&second, show()).await), wanted);

    // A connection that an operator has made is not removed.
    let (volume, peer) = ("log-test".to_owned(), PeerName::Host("else".into()));
    let new = CreateConnection {
        volume: volume.clone(),
        peer: peer.clone(),
        lun: None,
        min_lun: None,
        read_only: false,
    };
    ok(&second, new).await;
    let stop = StopTestFailover { name: "prod".into() };
    assert!(refused(&second, stop.clone()).await.message.contains("else"));
    assert_eq!(ok(&second, ListVolumes).await.len(), 2);
    ok(&second, DeleteConnection { volume, peer }).await;
    // An operator may stop what an operator may start.
    let operator = Caller { role: Role::Operator, ..Caller::array() };
    let stopped = second.array.perform(&operator, stop).await.unwrap();
    assert!(stopped.test_volumes.is_empty() && stopped.test_connections.is_empty());
    assert!(ok(&second, ListVolumes).await.is_empty());
}

#[tokio::test]
async fn a_planned_failover_loses_nothing_and_a_split_is_resolved() {
    let Pair { one, first, second, volumes, .. } = pair().await;
    ok(&first, protect()).await;
    first.array.replicate_once().await;
    write(&first, volumes[0], 0, 50).await;
    assert!(refused(&second, demote(true)).await.message.contains("was not promoted"));
    assert_eq!(ok(&first, demote(false)).await.status.state, ReplicationState::Demoting);
    assert!(first.engine.volume(volumes[0]).unwrap().is_read_only());
    assert_eq!(refused(&second, promote(false)).await.kind, Kind::Precondition);
    first.array.replicate_once().await;
    assert_eq!(ok(&first, show()).await.status.state, ReplicationState::Demoted);
    let promoted = ok(&second, promote(false)).await;
    assert_eq!(promoted.status.state, ReplicationState::Promoted);
    let made = ok(&second, ListVolumes).await.remove(0).id;
    assert_eq!(first_byte(&second, made, 0).await, 50);

    // By force both arrays are written to.
    assert!(refused(&first, promote(false)).await.message.contains("with force"));
    ok(&first, promote(true)).await;
    first.array.replicate_once().await;
    let states = async || [ok(&first, show()).await.status.state, ok(&second, show()).await.status.state];
    assert_eq!(states().await, [ReplicationState::Split; 2]);
    assert!(refused(&first, demote(false)).await.message.contains("is split"));

    // The source loses.
    ok(&first, demote(true)).await;
    first.array.replicate_once().await;
    assert_eq!(states().await, [ReplicationState::Demoted, ReplicationState::Promoted]);

    // The target loses, and gets points again.
    ok(&first, promote(true)).await;
    first.array.replicate_once().await;
    assert_eq!(states().await, [ReplicationState::Split; 2]);
    assert_eq!(refused(&second, demote(false)).await.kind, Kind::Precondition);
    ok(&second, demote(true)).await;
    assert!(second.engine.volume(made).unwrap().is_read_only());
    write(&first, volumes[0], 0, 51).await;
    ok(&first, ResumeReplication { name: "prod".into() }).await;
    first.array.replicate_once().await;
    one.clock.fetch_add(60, Ordering::SeqCst);
    first.array.replicate_once().await;
    assert_eq!(states().await, [ReplicationState::Idle; 2]);
    ok(&second, StartTestFailover { name: "prod".into(), change: NewTestFailover::default() }).await;
    let clone = ok(&second, ListVolumes).await.into_iter().find(|it| it.name.contains("data-test")).unwrap();
    assert_eq!(first_byte(&second, clone.id, 0).await, 51);
}

/// An array that is the source from now on names the volumes here that get its content: of the replication, and no others.
#[tokio::test]
async fn a_reversal_takes_no_volume_that_is_not_replicated() {
    let Pair { other, first, second, volumes, .. } = pair().await;
    other.network.others.lock().unwrap().insert(BACK.into(), first.array.clone());
    ok(&first, protect()).await;
    first.array.replicate_once().await;
    let new =
        CreateVolume { name: "mine".into(), bytes: 8 << 20, block_bytes: 512, ..CreateVolume::default() };
    let mine = ok(&first, new).await.object.id;
    ok(&first, demote(true)).await;
    let id = ok(&first, show()).await.id.digits();
    let hello = serde_json::json!({
        "versions": [1, 1], "serial": "000000000000000b", "name": "second", "request": { "reverse": { "id": id } },
    });
    let counterpart =
        |it: &DiskId| serde_json::json!({ "source": DiskId(7 + it.0).digits(), "target": it.digits() });
    let mut described = serde_json::json!({
        "name": "prod", "group": "app", "volumes": [], "rpo_seconds": 60, "generation": 1, "is_new": false, "demoted": null,
        "witness": "x".repeat(100_000),
        "reversal": {
            "point": 1, "digest": "00".repeat(32),
            "volumes": volumes.iter().chain([&mine]).map(counterpart).collect::<Vec<_>>(),
        },
    });
    let own = second.array.link_identity().unwrap().unwrap();
    let mut link = other.network.connect(BACK.into(), own.clone()).await.unwrap();
    assert_eq!(exchange(&mut link, &hello).await, "describe");
    let said = exchange(&mut link, &described).await;
    assert!(said["denied"].is_object(), "a witness is named by a fingerprint: {said}");
    described["witness"].take();
    let mut link = other.network.connect(BACK.into(), own).await.unwrap();
    assert_eq!(exchange(&mut link, &hello).await, "describe");
    assert_eq!(exchange(&mut link, &described).await, "ready");
    assert_eq!(ok(&first, show()).await.role, ReplicationRole::Target);
    let read_only = |id: &DiskId| first.engine.volume(*id).unwrap().is_read_only();
    assert!(volumes.iter().all(read_only));
    assert!(!read_only(&mine));
}

#[tokio::test]
async fn a_demotion_is_shown_while_it_can_not_go_on_and_while_the_replication_is_paused() {
    let Pair { one, first, second, volumes, .. } = pair().await;
    ok(&first, protect()).await;
    first.array.replicate_once().await;
    assert_eq!(ok(&first, show()).await.status.demotion, None);
    let progress = async |up| {
        let status = ok(up, show()).await.status;
        (status.state, status.demotion)
    };
    let (pause, resume) =
        (PauseReplication { name: "prod".into() }, ResumeReplication { name: "prod".into() });
    write(&first, volumes[0], 0, 50).await;
    let cables = std::mem::take(&mut *one.network.others.lock().unwrap());
    ok(&first, demote(false)).await;
    first.array.replicate_once().await;
    assert_eq!(progress(&first).await, (ReplicationState::Failed, Some(Demotion::Incomplete)));
    ok(&first, pause.clone()).await;
    assert_eq!(progress(&first).await, (ReplicationState::Paused, Some(Demotion::Incomplete)));
    *one.network.others.lock().unwrap() = cables;
    ok(&first, resume).await;
    first.array.replicate_once().await;
    for up in [&first, &second] {
        assert_eq!(progress(up).await, (ReplicationState::Demoted, Some(Demotion::Complete)));
        ok(up, pause.clone()).await;
        assert_eq!(progress(up).await, (ReplicationState::Paused, Some(Demotion::Complete)));
    }
    ok(&second, promote(false)).await;
    assert_eq!(progress(&second).await, (ReplicationState::Promoted, None));
}

#[tokio::test]
async fn a_target_that_can_not_be_reached_is_tried_again() {
    let Pair { one, first, second, .. } = pair().await;
    ok(&first, protect()).await;
    let cables = std::mem::take(&mut *one.network.others.lock().unwrap());
    first.array.replicate_once().await;
    let status = ok(&first, show()).await.status;
    assert_eq!((status.state, status.point), (ReplicationState::Failed, None));
    assert!(status.problem.unwrap().contains("connection refused"));
    *one.network.others.lock().unwrap() = cables;
    first.array.replicate_once().await;
    assert_eq!(ok(&first, show()).await.status.point, None, "it waits first");

    // The RPO is missed, and then twice.
    let severity = async || {
        first.array.tick().await;
        let alerts = ok(&first, ListAlerts).await;
        alerts
            .into_iter()
            .find(|alert| alert.kind == "replication.rpo" && alert.closed.is_none())
            .map(|it| it.severity)
    };
    assert_eq!(severity().await, None);
    one.clock.fetch_add(61, Ordering::SeqCst);
    assert_eq!(severity().await, Some(array::Severity::Warning));
    one.clock.fetch_add(60, Ordering::SeqCst);
    assert_eq!(severity().await, Some(array::Severity::Critical));
    first.array.replicate_once().await;
    // The point was taken at the beginning; the next one is due at once.
    first.array.replicate_once().await;
    assert_eq!(severity().await, None);
    let status = ok(&first, show()).await.status;
    assert_eq!((status.state, status.problem, status.point), (ReplicationState::Idle, None, Some(2)));
    assert_eq!(ok(&second, show()).await.status.point, Some(2));
}

#[tokio::test]
async fn the_limit_of_a_remote_array_holds_for_transfers_and_stays() {
    let Pair { one, first, second, volumes, .. } = pair().await;
    let limit = |limit| ChangeRemoteArray {
        name: "dr".into(),
        change: RemoteArrayChange { bandwidth_limit: Some(limit), ..RemoteArrayChange::default() },
    };
    assert_eq!(refused(&first, limit(Some(1000))).await.kind, Kind::Invalid);
    ok(&first, protect()).await;
    first.array.replicate_once().await;
    // A slow machine takes longer, never shorter.
    assert_eq!(ok(&first, limit(Some(64 << 10))).await.bandwidth_limit, Some(64 << 10));
    fill(&first, volumes[0], 24).await;
    let begun = std::time::Instant::now();
    ok(&first, SyncReplication { name: "prod".into() }).await;
    first.array.replicate_once().await;
    assert_eq!(ok(&second, show()).await.status.point, Some(2));
    assert!(begun.elapsed().as_secs() >= 1, "96 KiB in {:?}", begun.elapsed());

    one.network.others.lock().unwrap().clear();
    first.crash().await;
    let first = one.up().await;
    let shown = ok(&first, ShowRemoteArray { name: "dr".into() }).await;
    assert_eq!(shown.bandwidth_limit, Some(64 << 10));
    assert_eq!(ok(&first, limit(None)).await.bandwidth_limit, None);
}

/// The points of a target may be all that is left of its source: only an operator's deletion deletes them.
#[tokio::test]
async fn points_without_a_configuration_become_volumes() {
    let Pair { other, first, second, .. } = pair().await;
    ok(&first, protect()).await;
    first.array.replicate_once().await;
    let disks = second.engine.disks().len();
    for (key, _) in second.engine.records("replication/") {
        second.engine.put_record(&key, None).await.unwrap();
    }
    second.crash().await;
    let second = other.up().await;
    second.array.replicate_once().await;
    assert_eq!(second.engine.disks().len(), disks);
    let named = ok(&second, ListVolumes).await.len() + ok(&second, ListSnapshots).await.len();
    assert!(named > 0 && named == disks, "{named} of {disks}");
}

#[tokio::test]
async fn either_array_pauses_and_deletes() {
    let Pair { one, other, first, second, .. } = pair().await;
    ok(&first, protect()).await;
    first.array.replicate_once().await;
    let (pause, resume) =
        (PauseReplication { name: "prod".into() }, ResumeReplication { name: "prod".into() });

    ok(&first, pause.clone()).await;
    one.clock.fetch_add(30, Ordering::SeqCst);
    first.array.replicate_once().await;
    assert_eq!(ok(&first, show()).await.status.state, ReplicationState::Paused);
    assert_eq!(ok(&second, show()).await.status.point, Some(1));
    ok(&first, resume.clone()).await;
    first.array.replicate_once().await;
    assert_eq!(ok(&second, show()).await.status.point, Some(2));

    ok(&second, pause).await;
    one.clock.fetch_add(30, Ordering::SeqCst);
    first.array.replicate_once().await;
    let problem = ok(&first, show()).await.status.problem.unwrap();
    assert!(problem.contains("paused on the target"), "{problem}");
    ok(&second, resume).await;
    ok(&first, SyncReplication { name: "prod".into() }).await;
    first.array.replicate_once().await;
    assert_eq!(ok(&second, show()).await.status.point, Some(3));

    // A target that was deleted does not come back by itself.
    ok(&second, DeleteReplication { name: "prod".into() }).await;
    ok(&first, SyncReplication { name: "prod".into() }).await;
    first.array.replicate_once().await;
    let problem = ok(&first, show()).await.status.problem.unwrap();
    assert!(problem.contains("was deleted on the target"), "{problem}");
    assert!(ok(&second, ListReplications).await.is_empty());
    // Nor as a new one, before what it was is gone: it would have its points.
    let id = ok(&first, show()).await.id.digits();
    let hello = serde_json::json!({
        "versions": [1, 1], "serial": "000000000000000a", "name": "first", "request": { "replicate": { "id": id } },
    });
    for generation in [0, 1] {
        let described = serde_json::json!({
            "name": "new", "group": null, "volumes": [], "rpo_seconds": 60, "generation": generation, "is_new": true,
            "demoted": null,
        });
        let own = first.array.link_identity().unwrap().unwrap();
        let mut link = one.network.connect(ADDRESS.into(), own).await.unwrap();
        assert_eq!(exchange(&mut link, &hello).await, "describe");
        let said = exchange(&mut link, &described).await;
        assert_eq!(said["denied"]["denial"], "unknown", "{said}");
        assert!(said["denied"]["text"].as_str().unwrap().contains("its points are not"), "{said}");
    }
    assert!(ok(&second, ListReplications).await.is_empty());
    second.array.replicate_once().await;
    assert!(second.engine.disks().is_empty(), "points and staging volumes are gone");

    ok(&first, DeleteReplication { name: "prod".into() }).await;
    first.array.replicate_once().await;
    assert_eq!(first.engine.disks().len(), 2, "the volumes stay");
    first.crash().await;
    second.crash().await;
    let (first, second) = (one.up().await, other.up().await);
    assert_eq!(ok(&first, ListVolumes).await.len(), 2);
    assert!(ok(&second, ListVolumes).await.is_empty());
    let none = RemoteArrayChange { address: Some(None), ..RemoteArrayChange::default() };
    ok(&first, ChangeRemoteArray { name: "dr".into(), change: none }).await;
    assert!(refused(&first, protect()).await.message.contains("address"));
    let rpo = |rpo_seconds| CreateReplication { rpo_seconds, ..protect() };
    assert_eq!(refused(&first, rpo(1)).await.kind, Kind::Invalid);
}
