//! Snapshots: taken at one moment, seen by hosts, kept, restored, compared, thrown away.

use crate::rig::{Rig, Up, first_byte, ok, refused, write};
use array::{
    ChangeSchedule, ChangeSettings, ChangeSnapshot, ChangeVolume, CloneVolume, CompareSnapshots, Comparison,
    CreateConnection, CreateGroup, CreateHost, CreateSchedule, CreateSnapshots, CreateVolume,
    DeleteConnection, DeleteSnapshot, DeleteVolume, Deletion, DiskKind, Kind, LabelsChange, ListRecycleBin,
    ListSnapshots, ListVolumes, Overwrite, PeerName, Recovered, Request, Restore, RestoreFromRecycleBin,
    RestoreVolume, Rule, ScheduleChange, SettingsChange, ShowArray, ShowGroupSpace, ShowSettings,
    ShowVolumeSpace, Snapshot, SnapshotChange, SubjectName, VolumeChange,
};
use block::DiskId;
use std::sync::atomic::Ordering;

const IQN: &str = "iqn.1993-08.org.debian:01:web1";
const MIB: u64 = 1 << 20;
const START: u64 = 1_795_000_000;

async fn create(up: &Up, name: &str, group: Option<&str>) -> DiskId {
    let group = group.map(str::to_owned);
    let made = ok(
        up,
        CreateVolume { name: name.into(), bytes: MIB, block_bytes: 512, group, ..CreateVolume::default() },
    )
    .await;
    made.object.id
}

fn take(volume: &str, suffix: &str) -> CreateSnapshots {
    let subject = SubjectName::Volume(volume.into());
    CreateSnapshots {
        subject,
        suffix: Some(suffix.into()),
        keep_until: None,
        labels: LabelsChange::default(),
    }
}

fn change(name: &str, change: SnapshotChange) -> ChangeSnapshot {
    ChangeSnapshot { name: name.into(), change }
}

fn delete(name: &str) -> DeleteSnapshot {
    DeleteSnapshot { name: name.into(), how: Deletion { eradicate: false } }
}

async fn snapshots(up: &Up) -> Vec<Snapshot> {
    ok(up, ListSnapshots).await
}

async fn names(up: &Up) -> Vec<String> {
    snapshots(up).await.into_iter().map(|it| it.name).collect()
}

/// A volume that is overwritten again and again, with a snapshot before each: what it mapped is a part of what is stored,
/// and comparing the two made a reduction of 0.3 : 1 where there is one of 1 : 1 and more.
#[tokio::test]
async fn snapshots_do_not_lower_the_reduction() {
    let rig = Rig::new();
    let up = rig.up().await;
    let id = create(&up, "data", None).await;
    for round in 0..5u8 {
        for block in 0..16u8 {
            write(&up, id, u64::from(block) * 8, 1 + round * 16 + block).await;
        }
        ok(&up, take("data", &format!("s{round}"))).await;
    }
    let status = ok(&up, ShowArray).await;
    let space = status.space;
    assert_eq!((space.mapped, space.logical), (16 << 12, (16 + 5 * 16) << 12), "{space:?}");
    let ratios = space.ratios;
    // The last snapshot shares everything with the volume: 96 blocks are logical, and 80 unique.
    assert_eq!((space.unique, ratios.deduplication), (80 << 12, Some(1.2)), "{space:?}");
    assert!(ratios.data.unwrap() >= 1.0, "{ratios:?}");
    assert!(space.physical + space.metadata + space.reclaimable <= space.total, "{space:?}");
}

#[tokio::test]
async fn a_group_is_taken_at_one_moment_and_stays_over_a_restart() {
    let rig = Rig::new();
    let up = rig.up().await;
    ok(&up, CreateGroup { name: "sql".into(), ..CreateGroup::default() }).await;
    let subject = || SubjectName::Group("sql".into());
    let empty = CreateSnapshots {
        subject: subject(),
        suffix: None,
        keep_until: None,
        labels: LabelsChange::default(),
    };
    assert_eq!(refused(&up, empty.clone()).await.kind, Kind::Precondition);
    create(&up, "data", Some("sql")).await;
    create(&up, "log", Some("sql")).await;
    let taken = ok(&up, empty.clone()).await.object;
    assert_eq!(taken.iter().map(|it| it.source.as_deref()).collect::<Vec<_>>(), [Some("data"), Some("log")]);
    assert_eq!(taken[0].set, taken[1].set);
    assert!(taken[0].name.starts_with("data.2026"), "{}", taken[0].name);
    // Another one in the same second gets another name.
    ok(&up, empty).await;
    let before = snapshots(&up).await;
    assert_eq!(before.len(), 4);
    up.crash().await;
    assert_eq!(snapshots(&rig.up().await).await, before);
}

#[tokio::test]
async fn volumes_and_snapshots_have_their_names_in_common() {
    let rig = Rig::new();
    let up = rig.up().await;
    create(&up, "db1", None).await;
    create(&up, "db1.taken", None).await;
    assert_eq!(refused(&up, take("db1", "taken")).await.kind, Kind::Conflict);
    assert_eq!(refused(&up, take("db1", "a/b")).await.kind, Kind::Invalid);
    assert_eq!(refused(&up, take("nothing", "x")).await.kind, Kind::NotFound);
    ok(&up, take("db1", "s1")).await;
    let volume =
        CreateVolume { name: "db1.s1".into(), bytes: MIB, block_bytes: 512, ..CreateVolume::default() };
    assert_eq!(refused(&up, volume).await.kind, Kind::Conflict);
    let rename = VolumeChange { name: Some("db1.s1".into()), ..VolumeChange::default() };
    let rename = ChangeVolume { name: "db1".into(), change: rename };
    assert_eq!(refused(&up, rename).await.kind, Kind::Conflict);
    ok(&up, change("db1.s1", SnapshotChange { name: Some("gold".into()), ..SnapshotChange::default() }))
        .await;
    assert_eq!(names(&up).await, ["gold"]);
}

#[tokio::test]
async fn a_volume_goes_back_to_its_snapshot_and_a_clone_has_what_was_there() {
    let rig = Rig::new();
    let up = rig.up().await;
    let id = create(&up, "db1", None).await;
    write(&up, id, 0, 1).await;
    ok(&up, take("db1", "s1")).await;
    write(&up, id, 0, 2).await;
    let grow = VolumeChange { size: Some(2 * MIB), ..VolumeChange::default() };
    ok(&up, ChangeVolume { name: "db1".into(), change: grow }).await;
    let clone = CloneVolume { source: "db1.s1".into(), name: "old".into(), ..CloneVolume::default() };
    let clone = ok(&up, clone).await.object;
    assert_eq!((clone.size, first_byte(&up, clone.id, 0).await), (MIB, 1));
    let back = RestoreVolume {
        name: "db1".into(),
        change: Overwrite { source: "db1.s1".into(), ..Overwrite::default() },
    };
    let volume = ok(&up, back).await;
    assert_eq!((volume.id, volume.size, first_byte(&up, id, 0).await), (id, MIB, 1));
    let itself = RestoreVolume {
        name: "db1".into(),
        change: Overwrite { source: "db1".into(), ..Overwrite::default() },
    };
    assert_eq!(refused(&up, itself).await.kind, Kind::Invalid);
    // The snapshot stays when its volume goes.
    ok(&up, DeleteVolume { name: "db1".into(), how: Deletion { eradicate: true } }).await;
    assert_eq!(snapshots(&up).await[0].source, None);
}

#[tokio::test]
async fn a_kept_snapshot_outlives_everybody() {
    let rig = Rig::new();
    let up = rig.up().await;
    create(&up, "db1", None).await;
    let subject = SubjectName::Volume("db1".into());
    let keep = |until| CreateSnapshots {
        subject: subject.clone(),
        suffix: Some("s1".into()),
        keep_until: Some(until),
        labels: LabelsChange::default(),
    };
    assert_eq!(refused(&up, keep(START)).await.kind, Kind::Invalid);
    ok(&up, keep(START + 100)).await;
    let error = refused(&up, delete("db1.s1")).await;
    assert_eq!(error.kind, Kind::Precondition);
    assert!(error.message.contains("2026-11-18T"), "{error}");
    let now = DeleteSnapshot { name: "db1.s1".into(), how: Deletion { eradicate: true } };
    assert_eq!(refused(&up, now).await.kind, Kind::Precondition);
    for early in [
        SnapshotChange { writable: Some(true), ..SnapshotChange::default() },
        SnapshotChange { retain_until: Some(START + 50), ..SnapshotChange::default() },
    ] {
        assert_eq!(refused(&up, change("db1.s1", early)).await.kind, Kind::Precondition);
    }
    let it = ok(
        &up,
        change("db1.s1", SnapshotChange { retain_until: Some(START + 200), ..SnapshotChange::default() }),
    )
    .await;
    assert_eq!(it.retain_until, Some(START + 200));
    rig.clock.fetch_add(200, Ordering::SeqCst);
    ok(&up, delete("db1.s1")).await;
}

#[tokio::test]
async fn retention_locks_are_as_long_as_an_administrator_allows() {
    const DAY: u64 = 24 * 3600;
    // 9999-12-31T23:59:59Z.
    const LAST: u64 = 253_402_300_799;
    let rig = Rig::new();
    let up = rig.up().await;
    create(&up, "db1", None).await;
    let keep = |suffix: &str, until| CreateSnapshots { keep_until: Some(until), ..take("db1", suffix) };
    let lock =
        |days: u64| ScheduleChange { immutable_seconds: Some(days * DAY), ..ScheduleChange::default() };
    let schedule = |days: u64| CreateSchedule {
        name: "nightly".into(),
        volume: Some("db1".into()),
        rules: vec![Rule { when: "daily".into(), keep: 1 }],
        immutable_seconds: days * DAY,
        ..CreateSchedule::default()
    };
    let allow = |days: u64| ChangeSettings {
        change: SettingsChange { max_retention_lock_seconds: Some(days * DAY), ..SettingsChange::default() },
    };
    for until in [START + 367 * DAY, LAST, u64::MAX] {
        let error = refused(&up, keep("s1", until)).await;
        assert_eq!((error.kind, error.field), (Kind::Invalid, Some("retain_until")), "{error}");
    }
    ok(&up, keep("s1", START + 366 * DAY)).await;
    assert_eq!(
        refused(
            &up,
            change("db1.s1", SnapshotChange { retain_until: Some(LAST), ..SnapshotChange::default() })
        )
        .await
        .kind,
        Kind::Invalid
    );
    assert_eq!(refused(&up, schedule(367)).await.kind, Kind::Invalid);
    assert_eq!(refused(&up, allow(100 * 366 + 1)).await.kind, Kind::Invalid);
    assert_eq!(refused(&up, allow(0)).await.kind, Kind::Invalid);

    // The role of the verb is that of an administrator.
    ok(&up, allow(3660)).await;
    ok(
        &up,
        change(
            "db1.s1",
            SnapshotChange { retain_until: Some(START + 3000 * DAY), ..SnapshotChange::default() },
        ),
    )
    .await;
    ok(&up, schedule(3000)).await;
    up.down().await;
    let up = rig.up().await;
    assert_eq!(ok(&up, ShowSettings).await.max_retention_lock_seconds, 3660 * DAY);
    let error = refused(&up, allow(365)).await;
    assert!(error.message.contains("schedule \"nightly\""), "{error}");
    ok(&up, ChangeSchedule { name: "nightly".into(), change: lock(300) }).await;
    ok(&up, allow(365)).await;
    assert_eq!(snapshots(&up).await[0].retain_until, Some(START + 3000 * DAY), "what is locked stays locked");
}

#[tokio::test]
async fn a_snapshot_goes_through_the_recycle_bin() {
    let rig = Rig::new();
    let up = rig.up().await;
    create(&up, "db1", None).await;
    ok(&up, take("db1", "s1")).await;
    ok(&up, delete("db1.s1")).await;
    assert!(names(&up).await.is_empty());
    up.crash().await;
    let up = rig.up().await;
    let bin = ok(&up, ListRecycleBin).await;
    assert_eq!((bin[0].name.as_str(), bin[0].kind), ("db1.s1", DiskKind::Snapshot));
    let back = RestoreFromRecycleBin { id: "db1.s1".into(), change: Restore { name: None } };
    assert!(matches!(ok(&up, back).await, Recovered::Snapshot(_)));
    ok(&up, delete("db1.s1")).await;
    rig.clock.fetch_add(24 * 3600, Ordering::SeqCst);
    up.array.tick().await;
    assert_eq!(up.engine.disks().len(), 1);
}

#[tokio::test]
async fn a_host_sees_a_snapshot_and_writes_only_when_it_is_writable() {
    let rig = Rig::new();
    let up = rig.up().await;
    create(&up, "db1", None).await;
    let initiators = vec![IQN.into()];
    ok(
        &up,
        CreateHost { name: "web1".into(), initiators, chap: None, mutual: None, ..CreateHost::default() },
    )
    .await;
    ok(&up, take("db1", "s1")).await;
    let connect = |volume: &str, read_only| {
        let peer = PeerName::Host("web1".into());
        CreateConnection { volume: volume.into(), peer, lun: None, read_only, min_lun: None }
    };
    let seen = ok(&up, connect("db1.s1", false)).await;
    assert!(seen.object.read_only);
    assert_eq!(up.luns(IQN), [0]);
    let connected = refused(&up, delete("db1.s1")).await;
    assert!(connected.message.contains("web1"), "{connected}");
    let it =
        ok(&up, change("db1.s1", SnapshotChange { writable: Some(true), ..SnapshotChange::default() })).await;
    assert!(it.writable && !it.connections[0].read_only);
    let seen = ok(&up, connect("db1", true)).await;
    assert!(seen.object.read_only);
    up.down().await;
    let up = rig.up().await;
    assert_eq!(up.luns(IQN), [0, 1]);
    let peer = PeerName::Host("web1".into());
    ok(&up, DeleteConnection { volume: "db1.s1".into(), peer }).await;
    assert_eq!(up.luns(IQN), [1]);
    ok(&up, delete("db1.s1")).await;
}

#[tokio::test]
async fn a_comparison_tells_what_was_written() {
    let rig = Rig::new();
    let up = rig.up().await;
    let id = create(&up, "db1", None).await;
    write(&up, id, 0, 1).await;
    ok(&up, take("db1", "s1")).await;
    write(&up, id, 16, 2).await;
    write(&up, id, 64, 3).await;
    let compare = |base: Option<&str>, from, most| CompareSnapshots {
        name: "db1".into(),
        of: Comparison { base: base.map(str::to_owned), offset: Some(from), limit: Some(most) },
    };
    let extents = async |action: CompareSnapshots| {
        let found = ok(&up, action).await;
        (found.items.iter().map(|it| (it.offset, it.length)).collect::<Vec<_>>(), found.next)
    };
    assert_eq!(extents(compare(Some("db1.s1"), 0, 10)).await, (vec![(8192, 4096), (32_768, 4096)], None));
    let (first, next) = extents(compare(Some("db1.s1"), 0, 1)).await;
    assert_eq!(first, [(8192, 4096)]);
    assert_eq!(extents(compare(Some("db1.s1"), next.unwrap(), 1)).await.0, [(32_768, 4096)]);
    assert_eq!(extents(compare(None, 0, 10)).await.0.len(), 3);
    assert_eq!(refused(&up, compare(None, 0, 0)).await.kind, Kind::Invalid);
}

async fn usage<R: Request<Answer = array::Usage>>(up: &Up, action: R) -> array::Usage {
    ok(up, action).await
}

#[tokio::test]
async fn what_a_volume_and_a_group_cost_is_what_only_they_hold() {
    let rig = Rig::new();
    let up = rig.up().await;
    ok(&up, CreateGroup { name: "sql".into(), ..CreateGroup::default() }).await;
    let one = create(&up, "one", Some("sql")).await;
    let two = create(&up, "two", Some("sql")).await;
    write(&up, one, 0, 1).await;
    write(&up, one, 8, 2).await;
    write(&up, two, 0, 2).await;
    write(&up, two, 16, 0).await;
    ok(&up, take("one", "first")).await;
    write(&up, one, 0, 3).await;
    up.engine.shutdown().await.unwrap();

    let of = |name: &str| ShowVolumeSpace { name: name.into() };
    let found = usage(&up, of("one")).await;
    assert_eq!((found.provisioned, found.mapped, found.zero), (MIB, 8192, 0));
    assert_eq!((found.snapshots, found.snapshot), (1, 8192));
    // Ones and threes are its own; twos are on both volumes, and on the snapshot.
    assert_eq!((found.unique, found.shared), (8192, 8192));
    assert!(found.physical < 8192, "{found:?}");

    let found = usage(&up, of("two")).await;
    assert_eq!((found.mapped, found.zero, found.unique, found.shared), (8192, 4096, 0, 4096));

    let found = usage(&up, ShowGroupSpace { name: "sql".into() }).await;
    assert_eq!((found.provisioned, found.mapped, found.zero), (2 * MIB, 16_384, 4096));
    assert_eq!((found.unique, found.shared), (12_288, 8192));

    assert_eq!(refused(&up, of("three")).await.kind, Kind::NotFound);
}

#[tokio::test]
async fn the_space_of_a_volume_with_many_snapshots_is_measured_again_after_a_time_or_with_another_snapshot() {
    let rig = Rig::new();
    let up = rig.up().await;
    let one = create(&up, "one", None).await;
    write(&up, one, 0, 1).await;
    for number in 0..600 {
        ok(&up, take("one", &number.to_string())).await;
    }
    let unique = async || usage(&up, ShowVolumeSpace { name: "one".into() }).await.unique;
    assert_eq!(unique().await, 4096);
    write(&up, one, 8, 2).await;
    assert_eq!(unique().await, 4096, "it was measured a moment ago");
    rig.clock.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(unique().await, 8192);
    write(&up, one, 16, 3).await;
    ok(&up, take("one", "another")).await;
    assert_eq!(unique().await, 12_288);
}

#[tokio::test]
async fn the_list_has_the_reduction_of_every_volume_as_it_was_measured_in_the_background() {
    let rig = Rig::new();
    let up = rig.up().await;
    let one = create(&up, "one", None).await;
    create(&up, "two", None).await;
    let listed = async || -> Vec<_> {
        up.array.tick().await;
        // The measurement is a task of its own.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        ok(&up, ListVolumes)
            .await
            .into_iter()
            .map(|it| it.reduction.map(|it| (it.data, it.physical)))
            .collect()
    };
    assert_eq!(listed().await, [None, None]);
    for (lba, byte) in [(0, 1), (8, 2), (16, 0), (24, 1)] {
        write(&up, one, lba, byte).await;
    }
    assert_eq!(listed().await, [None, None], "it was measured a moment ago");
    rig.clock.fetch_add(60, std::sync::atomic::Ordering::SeqCst);
    let measured = listed().await;
    let expected = ok(&up, ShowVolumeSpace { name: "one".into() }).await;
    assert_eq!(measured, [Some((expected.unique + expected.shared, expected.physical)), None]);
    assert_eq!(expected.unique + expected.shared, 3 * 4096);
}
