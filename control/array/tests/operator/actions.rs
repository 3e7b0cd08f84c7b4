//! What operators may do, what hosts see of it, and what is there after a restart.

use crate::rig::{Rig, Step, Up, ok, refused, steps};
use array::{
    Caller, ChangeVolume, Chap, CloneVolume, Connection, CreateConnection, CreateGroup, CreateHost,
    CreateSnapshots, CreateVolume, DeleteConnection, DeleteHost, DeleteSnapshot, DeleteVolume, Deletion,
    Error, Host, Kind, LabelsChange, ListConnections, ListHosts, ListRecycleBin, ListSnapshots, ListVolumes,
    Overwrite, PeerName, PolicyChange, Restore, RestoreFromRecycleBin, RestoreVolume, ShowArray, ShowVolume,
    Snapshot, SubjectName, Volume, VolumeChange,
};
use block::Disk;
use std::collections::BTreeSet;

const IQN: &str = "iqn.1993-08.org.debian:01:web1";
const GIB: u64 = 1 << 30;

fn create(name: &str) -> CreateVolume {
    CreateVolume { name: name.into(), bytes: GIB, block_bytes: 512, ..CreateVolume::default() }
}

fn host(name: &str, iqn: &str) -> CreateHost {
    CreateHost {
        name: name.into(),
        initiators: vec![iqn.into()],
        chap: None,
        mutual: None,
        ..CreateHost::default()
    }
}

fn connect(volume: &str, host: &str, lun: Option<u16>) -> CreateConnection {
    CreateConnection {
        volume: volume.into(),
        peer: PeerName::Host(host.into()),
        lun,
        read_only: false,
        min_lun: None,
    }
}

fn disconnect(volume: &str, host: &str) -> DeleteConnection {
    DeleteConnection { volume: volume.into(), peer: PeerName::Host(host.into()) }
}

fn delete(name: &str) -> DeleteVolume {
    DeleteVolume { name: name.into(), how: Deletion { eradicate: true } }
}

fn resize(name: &str, bytes: u64, shrink: bool) -> ChangeVolume {
    let change = VolumeChange { size: Some(bytes), shrink, ..VolumeChange::default() };
    ChangeVolume { name: name.into(), change }
}

fn take(volume: &str) -> CreateSnapshots {
    let subject = SubjectName::Volume(volume.into());
    CreateSnapshots { subject, suffix: Some("s".into()), keep_until: None, labels: LabelsChange::default() }
}

async fn snapshots(up: &Up) -> Vec<Snapshot> {
    up.perform(ListSnapshots).await.unwrap()
}

async fn volumes(up: &Up) -> Vec<Volume> {
    up.perform(ListVolumes).await.unwrap()
}

async fn volume(up: &Up, name: &str) -> Result<Volume, Error> {
    up.perform(ShowVolume { name: name.into() }).await
}

async fn hosts(up: &Up) -> Vec<Host> {
    up.perform(ListHosts::default()).await.unwrap()
}

async fn connections(up: &Up) -> Vec<Connection> {
    up.perform(ListConnections).await.unwrap()
}

#[tokio::test]
async fn a_volume_lives_from_creation_to_deletion() {
    let rig = Rig::new();
    let up = rig.up().await;
    let made = ok(&up, create("db1")).await.object;
    assert_eq!((made.size, made.block_size, made.mapped), (GIB, 512, 0));
    assert_eq!(volume(&up, "db1").await.unwrap(), made);
    assert_eq!(refused(&up, create("a/b")).await.kind, Kind::Invalid);

    ok(&up, resize("db1", 2 * GIB, false)).await;
    assert_eq!(volume(&up, "db1").await.unwrap().size, 2 * GIB);
    let smaller = refused(&up, resize("db1", GIB, false)).await;
    assert_eq!(smaller.kind, Kind::Precondition);
    ok(&up, resize("db1", GIB, true)).await;
    assert_eq!(volume(&up, "db1").await.unwrap().size, GIB);

    ok(&up, delete("db1")).await;
    assert_eq!(volume(&up, "db1").await.unwrap_err().kind, Kind::NotFound);
    assert_eq!(refused(&up, delete("db1")).await.kind, Kind::NotFound);
    assert!(up.engine.volumes().is_empty());
}

#[tokio::test]
async fn a_host_sees_what_is_connected_and_nothing_else() {
    let rig = Rig::new();
    let up = rig.up().await;
    for name in ["a", "b", "c"] {
        ok(&up, create(name)).await;
    }
    ok(&up, host("web1", IQN)).await;
    assert!(up.luns(IQN).is_empty());
    for (volume, lun, chosen) in [("a", Some(1), 1), ("b", None, 0), ("c", None, 2)] {
        let made = ok(&up, connect(volume, "web1", lun)).await.object;
        assert_eq!((made.volume.as_str(), made.host.as_deref(), made.lun), (volume, Some("web1"), chosen));
        assert_eq!((made.host_group, made.read_only), (None, false));
    }
    assert_eq!(up.luns(IQN), [0, 1, 2]);
    assert!(up.luns("iqn.1993-08.org.debian:01:stranger").is_empty());

    assert_eq!(refused(&up, connect("a", "unknown", None)).await.kind, Kind::NotFound);
    assert_eq!(refused(&up, connect("nothing", "web1", None)).await.kind, Kind::NotFound);
    ok(&up, host("web2", "iqn.1993-08.org.debian:01:web2")).await;
    ok(&up, connect("a", "web2", Some(16_383))).await;
    assert_eq!(refused(&up, connect("b", "web2", Some(16_383))).await.kind, Kind::Conflict);
    assert_eq!(refused(&up, connect("b", "web2", Some(16_384))).await.kind, Kind::Invalid);

    ok(&up, disconnect("b", "web1")).await;
    assert_eq!(up.luns(IQN), [1, 2]);
    ok(&up, disconnect("b", "web1")).await;
    assert_eq!(refused(&up, disconnect("nothing", "web1")).await.kind, Kind::NotFound);
    let seen: Vec<_> =
        connections(&up).await.into_iter().map(|it| (it.volume, it.host.unwrap(), it.lun)).collect();
    let expected = [("a", "web1", 1), ("a", "web2", 16_383), ("c", "web1", 2)];
    assert_eq!(seen, expected.map(|(volume, host, lun)| (volume.to_owned(), host.to_owned(), lun)));
}

#[tokio::test]
async fn what_is_connected_is_not_deleted() {
    let rig = Rig::new();
    let up = rig.up().await;
    ok(&up, create("db1")).await;
    ok(&up, host("web1", IQN)).await;
    ok(&up, connect("db1", "web1", None)).await;
    let volume = refused(&up, delete("db1")).await;
    assert_eq!(volume.kind, Kind::Precondition);
    assert!(volume.message.contains("web1") && volume.message.contains("disconnect"), "{volume}");
    let host = refused(&up, DeleteHost { name: "web1".into() }).await;
    assert_eq!(host.kind, Kind::Precondition);
    assert!(host.message.contains("db1"), "{host}");
    ok(&up, disconnect("db1", "web1")).await;
    ok(&up, DeleteHost { name: "web1".into() }).await;
    ok(&up, delete("db1")).await;
    assert!(hosts(&up).await.is_empty());
}

#[tokio::test]
async fn an_initiator_belongs_to_one_host_whatever_its_case() {
    let rig = Rig::new();
    let up = rig.up().await;
    ok(&up, host("web1", IQN)).await;
    assert_eq!(refused(&up, host("web2", &IQN.to_uppercase())).await.kind, Kind::Conflict);
    assert_eq!(refused(&up, host("web1", "iqn.1993-08.org.debian:01:x")).await.kind, Kind::Differs);
    ok(&up, DeleteHost { name: "web1".into() }).await;
    ok(&up, host("web2", IQN)).await;
}

#[tokio::test]
async fn a_clone_has_the_size_of_its_source() {
    let rig = Rig::new();
    let up = rig.up().await;
    ok(&up, CreateVolume { name: "gold".into(), bytes: GIB, block_bytes: 4096, ..CreateVolume::default() })
        .await;
    ok(&up, CloneVolume { source: "gold".into(), name: "vm1".into(), ..CloneVolume::default() }).await;
    let clone = volume(&up, "vm1").await.unwrap();
    assert_eq!((clone.size, clone.block_size), (GIB, 4096));
    let missing = CloneVolume { source: "nothing".into(), name: "vm2".into(), ..CloneVolume::default() };
    assert_eq!(refused(&up, missing).await.kind, Kind::NotFound);
}

#[tokio::test]
async fn the_configuration_comes_back_from_the_drives_alone() {
    let rig = Rig::new();
    let up = rig.up().await;
    let chap = Some(Chap::new("web1", "twelve chars"));
    let mutual = Some(Chap::new("array", "another secret"));
    ok(&up, create("db1")).await;
    ok(&up, create("db2")).await;
    let initiators = vec![IQN.into(), "eui.02004567a425678d".into()];
    ok(&up, CreateHost { name: "web1".into(), initiators, chap, mutual, ..CreateHost::default() }).await;
    ok(&up, connect("db1", "web1", Some(7))).await;
    ok(&up, resize("db2", 3 * GIB, false)).await;
    let (volumes_before, hosts_before) = (volumes(&up).await, hosts(&up).await);
    let before = ok(&up, ShowArray).await;

    up.down().await;
    let up = rig.up().await;
    assert_eq!(volumes(&up).await, volumes_before);
    assert_eq!(hosts(&up).await, hosts_before);
    assert_eq!(up.luns(IQN), [7]);
    assert_eq!(up.luns("eui.02004567a425678d"), [7]);
    let after = ok(&up, ShowArray).await;
    assert_eq!((after.serial, after.target_iqn), (before.serial, before.target_iqn));

    ok(&up, delete("db2")).await;
    up.crash().await;
    let up = rig.up().await;
    assert_eq!(volumes(&up).await.len(), 1);
}

#[tokio::test]
async fn a_volume_without_configuration_is_kept_under_a_name() {
    let rig = Rig::new();
    let up = rig.up().await;
    let id = block::DiskId(0xabc);
    up.engine.create_volume(id, block::Geometry { block_bytes: 512, blocks: 4096 }, 0).await.unwrap();
    up.crash().await;
    let up = rig.up().await;
    assert_eq!(volumes(&up).await[0].name, format!("recovered-{:032x}", 0xabc));
    ok(&up, delete(&format!("recovered-{:032x}", 0xabc))).await;
    up.down().await;
    assert!(rig.up().await.engine.volumes().is_empty());
}

/// Every kind of change, with what must be there when it was answered.
fn script() -> Vec<Step> {
    steps![
        create("a"),
        create("b"),
        host("web1", IQN),
        connect("a", "web1", None),
        connect("b", "web1", Some(9)),
        resize("a", 2 * GIB, false),
        CloneVolume { source: "a".into(), name: "c".into(), ..CloneVolume::default() },
        take("a"),
        RestoreVolume {
            name: "c".into(),
            change: Overwrite { source: "a.s".into(), ..Overwrite::default() }
        },
        DeleteSnapshot { name: "a.s".into(), how: Deletion { eradicate: false } },
        RestoreFromRecycleBin { id: "a.s".into(), change: Restore { name: Some("a.t".into()) } },
        DeleteSnapshot { name: "a.t".into(), how: Deletion { eradicate: true } },
        disconnect("b", "web1"),
        delete("b"),
        host("web2", "iqn.1993-08.org.debian:01:web2"),
        DeleteHost { name: "web2".into() },
        disconnect("a", "web1"),
        delete("a"),
    ]
}

#[tokio::test]
async fn creating_cloning_and_eradicating_a_volume_is_one_journal_commit_each() {
    let rig = Rig::new();
    rig.up().await.down().await;
    let up = rig.up_with_fuse(5, false).await.unwrap();
    let policy = PolicyChange { dedup: Some(Some(false)), ..PolicyChange::default() };
    ok(&up, CreateGroup { name: "raw".into(), policy, ..CreateGroup::default() }).await;
    ok(&up, create("a")).await;
    ok(&up, CloneVolume { source: "a".into(), name: "b".into(), ..CloneVolume::default() }).await;
    let raw = CloneVolume {
        source: "a".into(),
        name: "d".into(),
        group: Some("raw".into()),
        ..CloneVolume::default()
    };
    ok(&up, raw).await;
    ok(&up, delete("a")).await;
    assert_eq!(refused(&up, create("c")).await.kind, Kind::Failed, "the sixth commit fails");
    let reduced = |id| up.engine.policy(id).unwrap().dedup;
    let before: Vec<_> = volumes(&up).await.iter().map(|it| (it.name.clone(), reduced(it.id))).collect();
    assert_eq!(before, [("b".to_owned(), true), ("d".to_owned(), false)]);
    up.crash().await;
    let up = rig.up().await;
    let left = volumes(&up).await;
    let reduced = |id| up.engine.policy(id).unwrap().dedup;
    assert_eq!(left.iter().map(|it| (it.name.clone(), reduced(it.id))).collect::<Vec<_>>(), before);
}

#[tokio::test]
async fn what_older_software_created_or_deleted_half_way_is_cleaned_up() {
    let rig = Rig::new();
    let up = rig.up().await;
    for (number, stage) in [(1, "creating"), (2, "creating"), (3, "deleting"), (4, "deleting")] {
        let id = block::DiskId(number);
        let record = format!(
            r#"{{"version":2,"id":"{number:032x}","name":"v{number}","created":7,"stage":"{stage}"}}"#
        );
        let put = vec![(format!("volume/{number:032x}"), Some(record.into_bytes().into()))];
        up.engine.put_records(put).await.unwrap();
        // Of each pair one has its contents.
        if number % 2 == 0 {
            up.engine.create_volume(id, block::Geometry { block_bytes: 512, blocks: 4096 }, 0).await.unwrap();
        }
    }
    up.crash().await;
    let up = rig.up().await;
    assert!(volumes(&up).await.is_empty() && up.engine.volumes().is_empty());
    assert!(up.engine.records("volume/").is_empty());
}

/// What an operator sees of the whole configuration.
type Picture = (Vec<Volume>, Vec<Snapshot>, Vec<Host>, Vec<Connection>);

async fn picture(up: &Up) -> Picture {
    (volumes(up).await, snapshots(up).await, hosts(up).await, connections(up).await)
}

/// The picture after each number of actions.
async fn pictures() -> Vec<Picture> {
    let rig = Rig::new();
    let up = rig.up().await;
    let mut pictures = vec![picture(&up).await];
    for action in script() {
        action.ok(&up).await;
        pictures.push(picture(&up).await);
    }
    pictures
}

#[tokio::test]
async fn a_crash_anywhere_leaves_each_action_whole_or_undone() {
    let pictures = pictures().await;
    for last_is_written in [false, true] {
        let mut complete = false;
        for appends in 0.. {
            let rig = Rig::new();
            rig.up().await.down().await;
            let up = rig.up_with_fuse(appends, last_is_written).await.expect("coming up writes nothing");
            let mut answered = 0;
            for action in script() {
                if action.perform(&up, &Caller::array()).await.is_err() {
                    break;
                }
                answered += 1;
            }
            complete = answered == script().len();
            up.crash().await;
            let up = rig.up().await;
            let now = names(&picture(&up).await);
            let old = pictures.get(answered).map(names);
            let new = pictures.get(answered + 1).map(names);
            assert!(
                Some(&now) == old.as_ref() || Some(&now) == new.as_ref(),
                "after {appends} appends, {answered} actions answered:\n{now:?}\n{old:?}\n{new:?}"
            );
            let bin = ok(&up, ListRecycleBin).await;
            let mut ids: BTreeSet<_> = volumes(&up).await.into_iter().map(|volume| volume.id).collect();
            ids.extend(snapshots(&up).await.into_iter().map(|snapshot| snapshot.id));
            ids.extend(bin.into_iter().map(|binned| binned.id));
            let there: BTreeSet<_> = up.engine.volumes().iter().map(|volume| volume.id()).collect();
            assert_eq!(there, ids, "no orphans");
            up.crash().await;
            if complete {
                break;
            }
        }
        assert!(complete);
    }
}

/// A picture without the identities, which chance made: disks, hosts, connections.
type Names = (Vec<(String, u64)>, Vec<String>, Vec<(String, Option<String>, u16)>);

fn names(picture: &Picture) -> Names {
    let (volumes, snapshots, hosts, connections) = picture;
    let volumes = volumes.iter().map(|volume| (volume.name.clone(), volume.size));
    let disks = volumes.chain(snapshots.iter().map(|snapshot| (snapshot.name.clone(), snapshot.size)));
    let hosts = hosts.iter().map(|host| host.name.clone()).collect();
    let connection = |it: &Connection| (it.volume.clone(), it.host.clone(), it.lun);
    (disks.collect(), hosts, connections.iter().map(connection).collect())
}

#[tokio::test]
async fn an_array_that_stopped_says_so_and_changes_nothing() {
    let rig = Rig::new();
    rig.up().await.down().await;
    let up = rig.up_with_fuse(0, false).await.unwrap();
    assert_eq!(refused(&up, create("a")).await.kind, Kind::Failed);
    assert!(volumes(&up).await.is_empty());
    let status = ok(&up, ShowArray).await;
    assert_eq!(status.state, array::State::Stopped);
    assert!(status.reason.unwrap().contains("power"));
}

#[tokio::test]
async fn changes_at_the_same_time_do_not_mix() {
    let rig = Rig::new();
    let up = rig.up().await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..50 {
        let array = up.array.clone();
        tasks.spawn(async move {
            let made = array.perform(&Caller::array(), create(&format!("v{}", number % 10))).await;
            made.unwrap().created
        });
    }
    let made = tasks.join_all().await.into_iter().filter(|made| *made).count();
    assert_eq!(made, 10);
    assert_eq!(volumes(&up).await.len(), 10);
}

#[tokio::test]
async fn many_volumes_are_no_burden() {
    let rig = Rig::new();
    let up = rig.up().await;
    ok(&up, host("web1", IQN)).await;
    for number in 0..1000 {
        let name = format!("v{number:04}");
        ok(&up, create(&name)).await;
        ok(&up, connect(&name, "web1", None)).await;
    }
    up.crash().await;
    let up = rig.up().await;
    assert_eq!(volumes(&up).await.len(), 1000);
    assert_eq!(up.luns(IQN), (0..1000).collect::<Vec<u16>>());
}
