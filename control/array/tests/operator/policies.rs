//! Policies, limits, quotas and options: what is set is in force, and still so after a restart.

use crate::rig::{Rig, Up, ok, refusal};
use array::{
    ChangeGroup, ChangeSettings, ChangeVolume, Compression, CreateConnection, CreateGroup, CreateHost,
    CreateVolume, GroupChange, Kind, LimitsChange, ListEvents, ListGroups, PeerName, PolicyChange,
    SettingsChange, ShowGroup, ShowSettings, ShowVolume, Volume, VolumeChange,
};
use block::{Data, Disk, Op};
use bytes::Bytes;

const IQN: &str = "iqn.1993-08.org.debian:01:web1";
const MIB: u64 = 1 << 20;

async fn create(up: &Up, name: &str, group: Option<&str>) -> Volume {
    let group = group.map(str::to_owned);
    ok(up, CreateVolume { name: name.into(), bytes: MIB, block_bytes: 512, group, ..CreateVolume::default() })
        .await
        .object
}

async fn set(up: &Up, name: &str, change: VolumeChange) -> Volume {
    ok(up, ChangeVolume { name: name.into(), change }).await
}

async fn show_group(up: &Up, name: &str) -> array::Group {
    ok(up, ShowGroup { name: name.into() }).await
}

async fn set_group(up: &Up, name: &str, change: GroupChange) {
    ok(up, ChangeGroup { name: name.into(), change }).await;
}

async fn kinds(up: &Up) -> Vec<String> {
    let events = ok(up, ListEvents { limit: Some(100), ..ListEvents::default() }).await;
    events.into_iter().rev().map(|it| it.kind).filter(|kind| kind.contains("quota")).collect()
}

#[tokio::test]
async fn a_volume_has_the_policy_of_its_group_unless_it_has_one_itself() {
    let rig = Rig::new();
    let up = rig.up().await;
    let compression = Some(Some(Compression::High));
    let policy = PolicyChange { dedup: Some(Some(false)), compression, ..PolicyChange::default() };
    ok(&up, CreateGroup { name: "sql".into(), policy, ..CreateGroup::default() }).await;
    let id = create(&up, "db1", Some("sql")).await.id;
    let engine_says = |up: &Up| {
        let policy = up.engine.policy(id).unwrap();
        (policy.dedup, policy.compression)
    };
    assert_eq!(engine_says(&up), (false, engine::Compression::High));
    let policy = PolicyChange { compression: Some(Some(Compression::Off)), ..PolicyChange::default() };
    let it = set(&up, "db1", VolumeChange { policy, ..VolumeChange::default() }).await;
    assert_eq!(
        (it.policy.dedup, it.policy_in_force.dedup, it.policy_in_force.compression),
        (None, false, Compression::Off)
    );
    assert_eq!(engine_says(&up), (false, engine::Compression::Off));
    up.crash().await;
    let up = rig.up().await;
    assert_eq!(engine_says(&up), (false, engine::Compression::Off));
    // Back to what is inherited, from a group that it leaves.
    let policy = PolicyChange { compression: Some(None), ..PolicyChange::default() };
    set(&up, "db1", VolumeChange { policy, group: Some(None), ..VolumeChange::default() }).await;
    assert_eq!(engine_says(&up), (true, engine::Compression::Adaptive));
}

#[tokio::test]
async fn limits_and_options_come_back_after_a_restart() {
    let rig = Rig::new();
    let up = rig.up().await;
    create(&up, "db1", None).await;
    let limits =
        LimitsChange { iops: Some(Some(5000)), iops_burst: Some(Some(9)), ..LimitsChange::default() };
    let change = VolumeChange { limits, scsi2_reservations: Some(false), ..VolumeChange::default() };
    let before = set(&up, "db1", change).await;
    assert_eq!((before.limits.iops, before.scsi2_reservations), (Some(5000), false));
    ok(
        &up,
        ChangeSettings { change: SettingsChange { unmap_throttle: Some(9), ..SettingsChange::default() } },
    )
    .await;
    up.down().await;
    let up = rig.up().await;
    let after = ok(&up, ShowVolume { name: "db1".into() }).await;
    assert_eq!(after, before);
    let settings = ok(&up, ShowSettings).await;
    assert_eq!(settings.unmap_throttle, 9);
    for wrong in [
        LimitsChange { bandwidth: Some(Some(0)), ..LimitsChange::default() },
        LimitsChange { bandwidth_burst: Some(Some(1)), ..LimitsChange::default() },
        LimitsChange { iops: Some(None), ..LimitsChange::default() },
    ] {
        let change = VolumeChange { limits: wrong, ..VolumeChange::default() };
        assert_eq!(refusal(&up, ChangeVolume { name: "db1".into(), change }).await, Kind::Invalid);
    }
    let ten = SettingsChange { unmap_throttle: Some(10), ..SettingsChange::default() };
    assert_eq!(refusal(&up, ChangeSettings { change: ten }).await, Kind::Invalid);
}

#[tokio::test]
async fn a_volume_is_made_read_only_and_back() {
    let rig = Rig::new();
    let up = rig.up().await;
    let id = create(&up, "db1", None).await.id;
    let lock = |read_only| VolumeChange { read_only: Some(read_only), ..VolumeChange::default() };
    assert!(set(&up, "db1", lock(true)).await.read_only);
    let data = || Data::from(Bytes::from(vec![1; 512]));
    let write = || up.engine.volume(id).unwrap().execute(Op::Write { lba: 0, data: data() });
    assert_eq!(write().await.unwrap_err(), block::Error::ReadOnly);
    assert!(!set(&up, "db1", lock(false)).await.read_only);
    write().await.unwrap();
    let both = VolumeChange { name: Some("db2".into()), ..lock(true) };
    let both = ChangeVolume { name: "db1".into(), change: both };
    assert_eq!(refusal(&up, both).await, Kind::Invalid);
}

#[tokio::test]
async fn the_list_of_groups_is_each_group_as_it_is_shown() {
    let rig = Rig::new();
    let up = rig.up().await;
    for name in ["empty", "sql", "web"] {
        ok(&up, CreateGroup { name: name.into(), ..CreateGroup::default() }).await;
    }
    for (name, group) in [("data", Some("sql")), ("free", None), ("log", Some("sql")), ("page", Some("web"))]
    {
        create(&up, name, group).await;
    }
    let listed = ok(&up, ListGroups).await;
    let members: Vec<_> = listed.iter().map(|group| (&*group.name, group.volumes.join(" "))).collect();
    assert_eq!(members, [("empty", String::new()), ("sql", "data log".into()), ("web", "page".into())]);
    for group in &listed {
        assert_eq!(*group, show_group(&up, &group.name).await);
    }
}

#[tokio::test]
async fn quotas_of_a_group_warn_once_and_stop_until_there_is_room() {
    let rig = Rig::new();
    let up = rig.up().await;
    let quota = |soft, hard| GroupChange {
        soft_quota: Some(Some(soft)),
        hard_quota: Some(Some(hard)),
        ..GroupChange::default()
    };
    let (soft_quota, hard_quota) = (Some(8192), Some(16_384));
    ok(&up, CreateGroup { name: "sql".into(), soft_quota, hard_quota, ..CreateGroup::default() }).await;
    let id = create(&up, "db1", Some("sql")).await.id;
    let initiators = vec![IQN.into()];
    ok(
        &up,
        CreateHost { name: "web1".into(), initiators, chap: None, mutual: None, ..CreateHost::default() },
    )
    .await;
    let peer = PeerName::Host("web1".into());
    ok(&up, CreateConnection { volume: "db1".into(), peer, lun: None, read_only: false, min_lun: None })
        .await;
    let disk = up.engine.volume(id).unwrap();
    let write =
        |lba: u64, bytes| disk.execute(Op::Write { lba, data: Data::from(Bytes::from(vec![7; bytes])) });
    write(0, 8192).await.unwrap();
    up.array.tick().await;
    up.array.tick().await;
    assert_eq!(kinds(&up).await, ["group.soft-quota-crossed"]);
    assert!(show_group(&up, "sql").await.soft_quota_crossed);
    assert_eq!(up.write_as(IQN, 0, 16).await, None);
    write(24, 4096).await.unwrap();
    up.array.tick().await;
    assert_eq!(up.write_as(IQN, 0, 32).await, Some((7, 0x27, 7)), "space allocation failed, write protect");
    assert_eq!(up.write_as(IQN, 0, 0).await, None, "what is mapped can be written");
    assert!(show_group(&up, "sql").await.hard_quota_reached);
    // A larger quota is in force at once.
    set_group(&up, "sql", quota(8192, 32_768)).await;
    assert!(!show_group(&up, "sql").await.hard_quota_reached);
    assert_eq!(up.write_as(IQN, 0, 32).await, None);
    let both = ["group.hard-quota-reached", "group.hard-quota-over"];
    assert_eq!(kinds(&up).await[1..], both);
    set_group(&up, "sql", quota(8192, 20_480)).await;
    drop(disk);
    up.down().await;

    // It is so after a restart, which is no news.
    let up = rig.up().await;
    let group = show_group(&up, "sql").await;
    assert!(group.hard_quota_reached && group.soft_quota_crossed);
    up.array.tick().await;
    assert_eq!(kinds(&up).await.len(), 4);
    let unmap = Op::Unmap(vec![block::Extent::new(0, 40)]);
    up.engine.volume(id).unwrap().execute(unmap).await.unwrap();
    up.array.tick().await;
    let group = show_group(&up, "sql").await;
    assert!(!group.hard_quota_reached && !group.soft_quota_crossed);
    assert_eq!(kinds(&up).await[4..], ["group.soft-quota-over", "group.hard-quota-over"]);
}

#[tokio::test]
async fn a_hard_quota_holds_between_two_looks_and_is_told_when_it_refused() {
    let rig = Rig::new();
    let up = rig.up().await;
    ok(&up, CreateGroup { name: "sql".into(), hard_quota: Some(10_000), ..CreateGroup::default() }).await;
    let initiators = vec![IQN.into()];
    ok(
        &up,
        CreateHost { name: "web1".into(), initiators, chap: None, mutual: None, ..CreateHost::default() },
    )
    .await;
    for (name, group) in [("db1", Some("sql")), ("db2", Some("sql")), ("free", None)] {
        create(&up, name, group).await;
        let peer = PeerName::Host("web1".into());
        ok(&up, CreateConnection { volume: name.into(), peer, lun: None, read_only: false, min_lun: None })
            .await;
    }
    let full = Some((7, 0x27, 7));
    assert_eq!((up.write_as(IQN, 0, 0).await, up.write_as(IQN, 1, 0).await), (None, None));
    assert_eq!((up.write_as(IQN, 0, 8).await, up.write_as(IQN, 1, 8).await), (full, full));
    assert_eq!((up.write_as(IQN, 1, 0).await, up.write_as(IQN, 2, 0).await), (None, None));
    // There are bytes left, but not as many as an operation waits for.
    up.array.tick().await;
    up.array.tick().await;
    assert_eq!(kinds(&up).await, ["group.hard-quota-reached"]);
    assert!(show_group(&up, "sql").await.hard_quota_reached);
    // A volume that joins counts, and one that leaves doesn't, at once.
    set(&up, "db2", VolumeChange { group: Some(None), ..VolumeChange::default() }).await;
    assert_eq!(kinds(&up).await[1..], ["group.hard-quota-over"]);
    assert_eq!((up.write_as(IQN, 0, 8).await, up.write_as(IQN, 1, 8).await), (None, None));
    set(&up, "free", VolumeChange { group: Some(Some("sql".into())), ..VolumeChange::default() }).await;
    assert_eq!((up.write_as(IQN, 2, 8).await, up.write_as(IQN, 2, 0).await), (full, None));
    assert!(show_group(&up, "sql").await.hard_quota_reached);
}
