//! Groups, the recycle bin, other names, and what the array remembers of what was done.

use crate::rig::{Rig, Up, ok, refused, steps};
use array::{
    Caller, ChangeGroup, ChangeHost, ChangeHostGroup, ChangeSettings, ChangeVolume, Chap,
    ConfigurationDocument, CreateConnection, CreateGroup, CreateHost, CreateHostGroup, CreateVolume,
    DeleteConnection, DeleteGroup, DeleteHost, DeleteHostGroup, DeleteVolume, Deletion,
    EradicateFromRecycleBin, GroupChange, HostChange, HostGroupChange, Kind, ListAudit, ListEvents,
    ListRecycleBin, PeerName, Recovered, Restore, RestoreFromRecycleBin, SettingsChange, ShowGroup,
    ShowVolume, VolumeChange,
};
use std::sync::atomic::Ordering;

const IQN: &str = "iqn.1993-08.org.debian:01:web1";
const OTHER: &str = "iqn.1993-08.org.debian:01:web2";

fn create(name: &str, group: Option<&str>) -> CreateVolume {
    let group = group.map(str::to_owned);
    CreateVolume { name: name.into(), bytes: 1 << 30, block_bytes: 512, group, ..CreateVolume::default() }
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

fn cluster(hosts: &[&str]) -> CreateHostGroup {
    let hosts = hosts.iter().map(|name| (*name).to_owned()).collect();
    CreateHostGroup { name: "cluster".into(), hosts: Some(hosts), ..CreateHostGroup::default() }
}

fn members(hosts: &[&str]) -> ChangeHostGroup {
    let hosts = Some(hosts.iter().map(|name| (*name).to_owned()).collect());
    ChangeHostGroup {
        name: "cluster".into(),
        change: HostGroupChange { hosts, ..HostGroupChange::default() },
    }
}

fn connect(volume: &str, peer: PeerName, lun: Option<u16>) -> CreateConnection {
    CreateConnection { volume: volume.into(), peer, lun, read_only: false, min_lun: None }
}

fn group() -> PeerName {
    PeerName::HostGroup("cluster".into())
}

fn delete(name: &str) -> DeleteVolume {
    DeleteVolume { name: name.into(), how: Deletion { eradicate: false } }
}

fn restore(which: &str, name: Option<&str>) -> RestoreFromRecycleBin {
    RestoreFromRecycleBin { id: which.into(), change: Restore { name: name.map(str::to_owned) } }
}

async fn bin(up: &Up) -> Vec<array::BinnedDisk> {
    ok(up, ListRecycleBin).await
}

#[tokio::test]
async fn a_deleted_volume_waits_in_the_bin_and_comes_back() {
    let rig = Rig::new();
    let up = rig.up().await;
    ok(&up, create("db1", None)).await;
    let before = ok(&up, ShowVolume { name: "db1".into() }).await;
    ok(&up, delete("db1")).await;
    assert_eq!(refused(&up, ShowVolume { name: "db1".into() }).await.kind, Kind::NotFound);
    assert_eq!(bin(&up).await[0].eradicated_after, 1_795_000_000 + 24 * 3600);
    up.down().await;
    let up = rig.up().await;
    assert_eq!(bin(&up).await.len(), 1);

    // Its name is free, and then taken.
    ok(&up, create("db1", None)).await;
    assert_eq!(refused(&up, restore("db1", None)).await.kind, Kind::Conflict);
    let Recovered::Volume(back) = ok(&up, restore("db1", Some("db1-old"))).await else { panic!("a volume") };
    assert_eq!((back.id, back.name.as_str()), (before.id, "db1-old"));
    assert!(bin(&up).await.is_empty());
    assert_eq!(refused(&up, restore("db1", None)).await.kind, Kind::NotFound);
}

#[tokio::test]
async fn the_bin_tells_volumes_of_one_name_by_identity() {
    let rig = Rig::new();
    let up = rig.up().await;
    for _ in 0..2 {
        ok(&up, create("db1", None)).await;
        ok(&up, delete("db1")).await;
    }
    assert_eq!(refused(&up, restore("db1", None)).await.kind, Kind::Conflict);
    let id = format!("{:032x}", bin(&up).await[0].id.0);
    ok(&up, EradicateFromRecycleBin { id }).await;
    ok(&up, restore("db1", None)).await;
    assert_eq!(up.engine.volumes().len(), 1);
}

#[tokio::test]
async fn the_bin_is_emptied_when_it_is_time() {
    let rig = Rig::new();
    let up = rig.up().await;
    let change = SettingsChange { recycle_bin_seconds: Some(60), ..SettingsChange::default() };
    ok(&up, ChangeSettings { change }).await;
    ok(&up, create("db1", None)).await;
    ok(&up, delete("db1")).await;
    rig.clock.fetch_add(59, Ordering::SeqCst);
    up.array.tick().await;
    assert_eq!(bin(&up).await.len(), 1);
    rig.clock.fetch_add(1, Ordering::SeqCst);
    up.array.tick().await;
    assert!(bin(&up).await.is_empty() && up.engine.volumes().is_empty());
}

#[tokio::test]
async fn a_host_sees_what_its_group_sees() {
    let rig = Rig::new();
    let up = rig.up().await;
    for action in steps![
        create("a", None),
        create("b", None),
        create("c", None),
        host("web1", IQN),
        host("web2", OTHER)
    ] {
        action.ok(&up).await;
    }
    ok(&up, connect("c", PeerName::Host("web1".into()), Some(0))).await;
    ok(&up, cluster(&["web1"])).await;
    // The lowest LUN that is free for everybody.
    let seen = ok(&up, connect("a", group(), None)).await;
    assert_eq!(seen.object.lun, 1);
    assert_eq!((up.luns(IQN), up.luns(OTHER)), (vec![0, 1], vec![]));
    ok(&up, members(&["web1", "web2"])).await;
    assert_eq!((up.luns(IQN), up.luns(OTHER)), (vec![0, 1], vec![1]));
    up.crash().await;
    let up = rig.up().await;
    assert_eq!((up.luns(IQN), up.luns(OTHER)), (vec![0, 1], vec![1]));

    assert_eq!(refused(&up, connect("b", group(), Some(0))).await.kind, Kind::Conflict);
    assert_eq!(refused(&up, connect("a", PeerName::Host("web2".into()), None)).await.kind, Kind::Conflict);
    assert_eq!(refused(&up, connect("c", group(), None)).await.kind, Kind::Conflict);
    assert_eq!(refused(&up, DeleteHostGroup { name: "cluster".into() }).await.kind, Kind::Precondition);
    ok(&up, members(&["web2"])).await;
    assert_eq!((up.luns(IQN), up.luns(OTHER)), (vec![0], vec![1]));
    ok(&up, connect("b", PeerName::Host("web1".into()), Some(1))).await;
    assert_eq!(refused(&up, members(&["web1"])).await.kind, Kind::Conflict);
    ok(&up, DeleteHost { name: "web2".into() }).await;
    ok(&up, DeleteConnection { volume: "a".into(), peer: group() }).await;
    ok(&up, DeleteHostGroup { name: "cluster".into() }).await;
}

#[tokio::test]
async fn a_host_with_other_initiators_is_seen_under_them() {
    let rig = Rig::new();
    let up = rig.up().await;
    ok(&up, create("a", None)).await;
    ok(&up, host("web1", IQN)).await;
    ok(&up, connect("a", PeerName::Host("web1".into()), None)).await;
    let change = HostChange {
        name: Some("web9".into()),
        initiators: Some(vec![OTHER.into()]),
        chap: Some(Some(Chap::new("web1", "twelve chars"))),
        ..HostChange::default()
    };
    let host = ok(&up, ChangeHost { name: "web1".into(), change }).await;
    assert_eq!((host.name.as_str(), host.chap_user.as_deref()), ("web9", Some("web1")));
    assert_eq!((up.luns(IQN), up.luns(OTHER)), (vec![], vec![0]));
    let same = Some(Some(Chap::new("array", "twelve chars")));
    let change = HostChange { mutual: same, ..HostChange::default() };
    assert_eq!(refused(&up, ChangeHost { name: "web9".into(), change }).await.kind, Kind::Invalid);
}

#[tokio::test]
async fn volumes_join_and_leave_groups() {
    let rig = Rig::new();
    let up = rig.up().await;
    let soft_quota = Some(1 << 30);
    ok(&up, CreateGroup { name: "sql".into(), soft_quota, ..CreateGroup::default() }).await;
    ok(&up, create("a", Some("sql"))).await;
    assert_eq!(refused(&up, create("b", Some("oracle"))).await.kind, Kind::NotFound);
    ok(&up, create("b", None)).await;
    let join =
        VolumeChange { group: Some(Some("sql".into())), name: Some("c".into()), ..VolumeChange::default() };
    ok(&up, ChangeVolume { name: "b".into(), change: join }).await;
    let group = ok(&up, ShowGroup { name: "sql".into() }).await;
    assert_eq!(
        (group.volumes, group.provisioned, group.soft_quota),
        (vec!["a".into(), "c".into()], 2 << 30, Some(1 << 30))
    );
    let small = GroupChange { hard_quota: Some(Some(1)), ..GroupChange::default() };
    assert_eq!(refused(&up, ChangeGroup { name: "sql".into(), change: small }).await.kind, Kind::Invalid);
    ok(&up, DeleteGroup { name: "sql".into() }).await;
    let volume = ok(&up, ShowVolume { name: "a".into() }).await;
    assert_eq!(volume.group, None);
}

#[tokio::test]
async fn who_did_what_is_remembered_without_secrets() {
    let rig = Rig::new();
    let up = rig.up().await;
    ok(&up, create("db1", None)).await;
    refused(&up, CreateVolume { block_bytes: 4096, ..create("db1", None) }).await;
    let chap = Some(Chap::new("web1", "top secret words"));
    let host = CreateHost {
        name: "web1".into(),
        initiators: vec![IQN.into()],
        chap,
        mutual: None,
        ..CreateHost::default()
    };
    ok(&up, host).await;
    let trail = ok(&up, ListAudit { limit: Some(10), ..ListAudit::default() }).await;
    let short: Vec<_> =
        trail.iter().map(|it| (it.user.as_str(), it.action.as_str(), it.outcome.as_str())).collect();
    let expected =
        [("ada", "CreateHost", "done"), ("ada", "CreateVolume", "refused"), ("ada", "CreateVolume", "done")];
    assert_eq!(short, expected);
    assert_eq!(trail[2].changes[0].after["stage"], "ready");
    assert!(!format!("{trail:?}").contains("top secret"));
    let events = ok(&up, ListEvents { limit: Some(10), ..ListEvents::default() }).await;
    assert_eq!(events[0].kind, "host.created");
    assert!(events[1].message.contains("db1"), "{events:?}");
}

#[tokio::test]
async fn listeners_hear_of_changes() {
    let rig = Rig::new();
    let up = rig.up().await;
    let mut ear = up.array.subscribe();
    up.array.perform(&Caller::array(), create("db1", None)).await.unwrap();
    assert_eq!(ear.recv().await.unwrap(), array::Update::Changed(array::Topic::Volumes));
}

#[tokio::test]
async fn records_and_fields_of_newer_software_are_kept_and_ignored() {
    let rig = Rig::new();
    let up = rig.up().await;
    ok(&up, host("web1", IQN)).await;
    let (key, value) = up.engine.records("host/").remove(0);
    let mut fields: serde_json::Value = serde_json::from_slice(&value).unwrap();
    fields["nqn"] = "nqn.2014-08.org.nvmexpress:uuid:1".into();
    let put = vec![
        (key.clone(), Some(fields.to_string().into_bytes().into())),
        ("rack/0000000000000001".to_owned(), Some(r#"{"version":9}"#.as_bytes().into())),
    ];
    up.engine.put_records(put).await.unwrap();
    up.down().await;

    let up = rig.up().await;
    let change = HostChange { name: Some("web2".into()), ..HostChange::default() };
    ok(&up, ChangeHost { name: "web1".into(), change }).await;
    let stored = up.engine.records(&key).remove(0).1;
    let fields: serde_json::Value = serde_json::from_slice(&stored).unwrap();
    assert_eq!(
        (&fields["name"], &fields["nqn"]),
        (&"web2".into(), &"nqn.2014-08.org.nvmexpress:uuid:1".into())
    );
    assert_eq!(up.engine.records("rack/").len(), 1);
}

/// A field that an import would leave out may be what the document is for.
#[test]
fn a_document_with_a_field_that_is_not_known_is_refused_wherever_it_is() {
    let volume = |more: &str| {
        format!(r#"{{"format":1,"volumes":[{{"name":"a","size":1048576,"block_size":512,{more}}}]}}"#)
    };
    let directory = |more: &str| {
        let settings =
            r#""kind":"ldap","server":"ldaps://a","starttls":false,"base":"dc=a","user_attribute":"uid""#;
        format!(
            r#"{{"format":1,"directories":[{{"name":"a","settings":{{{settings}{more}}},"grants":[],"enabled":true}}]}}"#
        )
    };
    let read = |text: &str| serde_json::from_str::<ConfigurationDocument>(text);
    let limited = read(&volume(r#""limits":{"iops":7,"iops_burst":null},"policy":{"dedup":false}"#)).unwrap();
    assert_eq!((limited.volumes[0].limits.iops, limited.volumes[0].policy.dedup), (Some(7), Some(false)));
    assert!(read(&directory("")).is_ok());
    for (document, field) in [
        (volume(r#""limits":{"iopss":7}"#), "iopss"),
        (volume(r#""limits":{"iops":7,"iops":null}"#), "iops"),
        (volume(r#""policy":{"dedupe":false}"#), "dedupe"),
        (volume(r#""labels":{"a":"1","a":"2"}"#), "a"),
        (directory(r#","grup_base":"ou=a""#), "grup_base"),
        (r#"{"format":1,"volumes":[],"volumes":[]}"#.to_owned(), "volumes"),
    ] {
        let why = read(&document).unwrap_err().to_string();
        assert!(why.contains(field), "{document}: {why}");
    }
}
