//! What drivers rely on: identities, labels, requests that can be repeated, attachments, sets of snapshots, restores.

use crate::rig::{Rig, Up, first_byte, ok, refused, write};
use array::{
    AttachmentPortal, Caller, ChangeGroup, ChangeHost, ChangeHostGroup, ChangeSnapshot, ChangeVolume, Chap,
    CloneVolume, CreateConnection, CreateGroup, CreateHost, CreateHostGroup, CreateSchedule,
    CreateSnapshotSet, CreateSnapshots, CreateToken, CreateUser, CreateVolume, Credential, DeleteConnection,
    DeleteSnapshot, DeleteVolume, Deletion, Ensured, EradicateFromRecycleBin, Error, GroupChange, HostChange,
    HostGroupChange, Identity, Kind, LabelsChange, ListAudit, ListHosts, ListRecycleBin, ListSnapshots,
    ListVolumes, Overwrite, PeerName, RestoreVolume, Role, Rule, Secret, ShowConnection, ShowGroup, ShowHost,
    ShowHostGroup, ShowSchedule, ShowSnapshot, ShowStatus, ShowVolume, Snapshot, SnapshotChange,
    SnapshotSource, SubjectName, Volume, VolumeChange,
};
use std::net::{IpAddr, Ipv4Addr};

const IQN: &str = "iqn.1993-08.org.debian:01:web1";
const MIB: u64 = 1 << 20;

fn labels(pairs: &[(&str, &str)]) -> LabelsChange {
    LabelsChange::setting(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
}

fn create(name: &str) -> CreateVolume {
    CreateVolume { name: name.into(), bytes: MIB, block_bytes: 512, ..CreateVolume::default() }
}

fn host(name: &str) -> CreateHost {
    CreateHost { name: name.into(), initiators: vec![IQN.into()], ..CreateHost::default() }
}

fn connect(volume: &str, host: &str) -> CreateConnection {
    let peer = PeerName::Host(host.into());
    CreateConnection { volume: volume.into(), peer, lun: None, min_lun: Some(1), read_only: false }
}

fn take(volume: &str, suffix: &str) -> CreateSnapshots {
    let (subject, suffix) = (SubjectName::Volume(volume.into()), Some(suffix.into()));
    CreateSnapshots { subject, suffix, keep_until: None, labels: LabelsChange::default() }
}

fn set(sources: &[(&str, Option<&str>)], suffix: Option<&str>) -> CreateSnapshotSet {
    let source = |(volume, name): &(&str, Option<&str>)| SnapshotSource {
        volume: (*volume).into(),
        name: name.map(str::to_owned),
        ..SnapshotSource::default()
    };
    let sources = sources.iter().map(source).collect();
    CreateSnapshotSet {
        sources,
        suffix: suffix.map(str::to_owned),
        keep_until: None,
        labels: LabelsChange::default(),
    }
}

fn differs(error: &Error) -> &'static str {
    assert_eq!(error.kind, Kind::Differs, "{error}");
    error.field.expect("it says which field differs")
}

async fn volume(up: &Up, which: &str) -> Volume {
    ok(up, ShowVolume { name: which.into() }).await
}

#[tokio::test]
async fn an_identity_is_an_address_that_no_renaming_breaks() {
    let rig = Rig::new();
    let up = rig.up().await;
    let id = ok(&up, create("db1")).await.object.id.digits();
    ok(&up, take(&id, "s")).await;
    let snapshot = ok(&up, ShowSnapshot { name: "db1.s".into() }).await.id.digits();
    let group = CreateGroup { name: "sql".into(), ..CreateGroup::default() };
    let group = ok(&up, group).await.object.id.digits();
    let web = ok(&up, host("web1")).await.object.id.digits();
    let hosts = Some(vec![web.clone()]);
    let cluster = CreateHostGroup { name: "cluster".into(), hosts, ..CreateHostGroup::default() };
    let cluster = ok(&up, cluster).await.object.id.digits();
    let rules = vec![Rule { when: "daily".into(), keep: 1 }];
    let nightly = CreateSchedule {
        name: "nightly".into(),
        group: Some(group.clone()),
        rules,
        ..CreateSchedule::default()
    };
    let schedule = ok(&up, nightly).await.id.digits();

    let renamed = |name: &str| Some(name.to_owned());
    let change =
        VolumeChange { name: renamed("db2"), group: Some(Some(group.clone())), ..VolumeChange::default() };
    assert_eq!(ok(&up, ChangeVolume { name: id.clone(), change }).await.group.as_deref(), Some("sql"));
    let change = SnapshotChange { name: Some("gold".into()), ..SnapshotChange::default() };
    ok(&up, ChangeSnapshot { name: snapshot.clone(), change }).await;
    let change = GroupChange { name: renamed("oltp"), ..GroupChange::default() };
    ok(&up, ChangeGroup { name: group.clone(), change }).await;
    let change = HostChange { name: renamed("web2"), ..HostChange::default() };
    ok(&up, ChangeHost { name: web.clone(), change }).await;
    let change = HostGroupChange { name: renamed("farm"), ..HostGroupChange::default() };
    ok(&up, ChangeHostGroup { name: cluster.clone(), change }).await;

    up.crash().await;
    let up = rig.up().await;
    let shown = volume(&up, &id).await;
    assert_eq!(
        (shown.name.as_str(), shown.group.as_deref(), shown.group_id.map(Identity::digits)),
        ("db2", Some("oltp"), Some(group.clone()))
    );
    assert_eq!(ok(&up, ShowSnapshot { name: snapshot.clone() }).await.name, "gold");
    assert_eq!(ok(&up, ShowGroup { name: group }).await.name, "oltp");
    assert_eq!(ok(&up, ShowHost { name: web.clone() }).await.name, "web2");
    assert_eq!(ok(&up, ShowHostGroup { name: cluster.clone() }).await.hosts, ["web2"]);
    assert_eq!(ok(&up, ShowSchedule { name: schedule }).await.group.as_deref(), Some("oltp"));

    let peer = PeerName::HostGroup(cluster);
    let made = CreateConnection {
        volume: id.clone(),
        peer: peer.clone(),
        lun: None,
        min_lun: None,
        read_only: false,
    };
    let seen = ok(&up, made).await.object;
    assert_eq!(
        (seen.volume.as_str(), seen.volume_id.digits(), seen.host_group.as_deref()),
        ("db2", id.clone(), Some("farm"))
    );
    ok(&up, DeleteConnection { volume: id.clone(), peer }).await;
    // The trail has the names, whatever a request said.
    let trail = ok(&up, ListAudit { limit: Some(2), ..ListAudit::default() }).await;
    assert!(trail[0].detail.contains("db2 from host group farm"), "{}", trail[0].detail);

    ok(&up, DeleteVolume { name: id.clone(), how: Deletion { eradicate: false } }).await;
    let binned = refused(&up, ShowVolume { name: id.clone() }).await;
    assert_eq!(binned.kind, Kind::NotFound, "it is in the recycle bin");
    ok(&up, EradicateFromRecycleBin { id: id.clone() }).await;
    let orphan = ok(&up, ShowSnapshot { name: snapshot }).await;
    assert_eq!((orphan.source, orphan.source_id.digits()), (None, id));
}

#[tokio::test]
async fn no_name_looks_like_an_identity() {
    let rig = Rig::new();
    let up = rig.up().await;
    for digits in ["0123456789abcdef", "2026112415300000", &"A".repeat(32)] {
        let error = refused(&up, create(digits)).await;
        assert_eq!(error.kind, Kind::Invalid, "{digits}");
        assert_eq!(refused(&up, host(digits)).await.kind, Kind::Invalid, "{digits}");
    }
    ok(&up, create("0123456789abcde")).await;
    // Of a name, a suffix is only the end.
    ok(&up, take("0123456789abcde", "2026112415300000")).await;
}

#[tokio::test]
async fn labels_are_set_changed_and_there_after_a_restart() {
    let rig = Rig::new();
    let up = rig.up().await;
    let first = labels(&[("csi/name", "pvc-1"), ("tier", "gold")]);
    ok(&up, CreateVolume { labels: first.clone(), ..create("db1") }).await;
    ok(&up, CreateHost { labels: first.clone(), ..host("web1") }).await;
    ok(&up, CreateGroup { name: "sql".into(), labels: first.clone(), ..CreateGroup::default() }).await;
    ok(&up, CreateHostGroup { name: "farm".into(), hosts: None, labels: first.clone() }).await;
    ok(&up, CreateSnapshots { labels: first.clone(), ..take("db1", "s") }).await;
    let second =
        LabelsChange([("tier".to_owned(), None), ("owner".to_owned(), Some("ada".to_owned()))].into());
    let change = VolumeChange { labels: second.clone(), ..VolumeChange::default() };
    ok(&up, ChangeVolume { name: "db1".into(), change }).await;
    let change = HostChange { labels: second.clone(), ..HostChange::default() };
    ok(&up, ChangeHost { name: "web1".into(), change }).await;
    let change = GroupChange { labels: second.clone(), ..GroupChange::default() };
    ok(&up, ChangeGroup { name: "sql".into(), change }).await;
    let change = HostGroupChange { labels: second.clone(), ..HostGroupChange::default() };
    ok(&up, ChangeHostGroup { name: "farm".into(), change }).await;
    let change = SnapshotChange { labels: Some(second.clone()), ..SnapshotChange::default() };
    ok(&up, ChangeSnapshot { name: "db1.s".into(), change }).await;
    ok(&up, CloneVolume { source: "db1".into(), name: "copy".into(), ..CloneVolume::default() }).await;

    up.crash().await;
    let up = rig.up().await;
    let all = [
        volume(&up, "db1").await.labels,
        ok(&up, ShowHost { name: "web1".into() }).await.labels,
        ok(&up, ShowGroup { name: "sql".into() }).await.labels,
        ok(&up, ShowHostGroup { name: "farm".into() }).await.labels,
        ok(&up, ShowSnapshot { name: "db1.s".into() }).await.labels,
    ];
    for labels in &all {
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("csi/name", "pvc-1"), ("owner", "ada")]);
    }
    assert!(volume(&up, "copy").await.labels.is_empty(), "a clone does not inherit them");
    let wrong = CreateVolume { labels: labels(&[("no spaces", "x")]), ..create("db2") };
    assert_eq!(refused(&up, wrong).await.kind, Kind::Invalid);
}

#[tokio::test]
async fn a_volume_that_exists_as_wanted_is_the_answer() {
    let rig = Rig::new();
    let up = rig.up().await;
    let gold = CreateVolume { labels: labels(&[("tier", "gold")]), ..create("db1") };
    let first = ok(&up, gold.clone()).await;
    assert!(first.created);
    assert_eq!(ok(&up, gold.clone()).await, Ensured { created: false, ..first.clone() });
    assert_eq!(
        ok(&up, create("db1")).await.object.id,
        first.object.id,
        "labels that are not named may be there"
    );
    ok(&up, CreateGroup { name: "sql".into(), ..CreateGroup::default() }).await;
    let (one, two) = ("db1", "copy");
    for (request, field) in [
        (CreateVolume { bytes: 2 * MIB, ..create(one) }, "size"),
        (CreateVolume { block_bytes: 4096, ..create(one) }, "block_size"),
        (CreateVolume { group: Some("sql".into()), ..create(one) }, "group"),
        (CreateVolume { labels: labels(&[("tier", "lead")]), ..create(one) }, "labels"),
    ] {
        assert_eq!(differs(&refused(&up, request).await), field);
    }
    let clone = CloneVolume { source: one.into(), name: two.into(), ..CloneVolume::default() };
    let copy = ok(&up, clone.clone()).await;
    assert!(copy.created && !ok(&up, clone.clone()).await.created);
    assert_eq!((copy.object.source.as_deref(), copy.object.source_id), (Some(one), Some(first.object.id)));
    assert_eq!(differs(&refused(&up, create(two)).await), "source");
    ok(&up, create("other")).await;
    assert_eq!(differs(&refused(&up, CloneVolume { source: "other".into(), ..clone }).await), "source");
    // What it was cloned from is known after a restart, and when that is gone.
    ok(&up, DeleteVolume { name: one.into(), how: Deletion { eradicate: true } }).await;
    up.crash().await;
    let up = rig.up().await;
    let copy = volume(&up, two).await;
    assert_eq!((copy.source, copy.source_id), (None, Some(first.object.id)));
}

#[tokio::test]
async fn hosts_and_groups_that_exist_as_wanted_are_the_answer() {
    let rig = Rig::new();
    let up = rig.up().await;
    let secret = |secret: &str| Some(Chap::new("web1", secret));
    let chap = CreateHost { chap: secret("twelve chars"), ..host("web1") };
    assert!(ok(&up, chap.clone()).await.created);
    assert!(!ok(&up, chap.clone()).await.created);
    assert!(!ok(&up, host("web1")).await.created, "CHAP that is not named may be there");
    let other = vec!["iqn.1993-08.org.debian:01:web2".to_owned()];
    for (request, field) in [
        (CreateHost { initiators: other.clone(), ..host("web1") }, "initiators"),
        (CreateHost { chap: secret("another twelve"), ..host("web1") }, "chap"),
        (CreateHost { mutual: secret("another twelve"), ..chap }, "mutual"),
    ] {
        assert_eq!(differs(&refused(&up, request).await), field);
    }
    let taken = refused(&up, host("web9")).await;
    assert_eq!((taken.kind, taken.field), (Kind::Conflict, Some("initiators")));
    let found = ok(&up, ListHosts { initiator: Some(IQN.to_uppercase()) }).await;
    assert_eq!(found.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["web1"]);
    assert!(ok(&up, ListHosts { initiator: Some(other[0].clone()) }).await.is_empty());
    assert_eq!(refused(&up, ListHosts { initiator: Some("web1".into()) }).await.kind, Kind::Invalid);

    let farm = CreateHostGroup {
        name: "farm".into(),
        hosts: Some(vec!["web1".into()]),
        ..CreateHostGroup::default()
    };
    assert!(ok(&up, farm.clone()).await.created);
    assert!(!ok(&up, farm.clone()).await.created);
    assert!(!ok(&up, CreateHostGroup { hosts: None, ..farm.clone() }).await.created);
    assert_eq!(differs(&refused(&up, CreateHostGroup { hosts: Some(Vec::new()), ..farm }).await), "hosts");
    let sql = |hard_quota| CreateGroup { name: "sql".into(), hard_quota, ..CreateGroup::default() };
    assert!(ok(&up, sql(Some(MIB))).await.created);
    assert!(!ok(&up, sql(Some(MIB))).await.created);
    assert!(!ok(&up, sql(None)).await.created);
    assert_eq!(differs(&refused(&up, sql(Some(2 * MIB))).await), "hard_quota");
}

#[tokio::test]
async fn attaching_is_one_request_that_can_be_repeated() {
    let rig = Rig::new();
    let up = rig.up().await;
    let id = ok(&up, create("db1")).await.object.id;
    ok(&up, create("db2")).await;
    ok(&up, CreateHost { chap: Some(Chap::new("web1", "twelve chars")), ..host("web1") }).await;
    let first = ok(&up, connect("db1", "web1")).await;
    assert!(first.created);
    let mut seen = first.object.clone();
    assert_eq!((seen.volume_id, seen.lun, seen.size, seen.block_size), (id, 1, MIB, 512));
    assert!(array::naa(id).ends_with(&seen.serial) && seen.serial.len() == 25, "{}", seen.serial);
    assert!(seen.target_iqn.starts_with("iqn.") && seen.chap && !seen.mutual_chap);
    assert!(seen.subsystem_nqn.is_none() && seen.nsid.is_none() && seen.nvme_portals.is_empty());
    let listening = up.server.portals();
    let portals: Vec<_> =
        seen.portals.iter().map(|it| (it.group_tag, (it.address, it.port).into())).collect();
    assert_eq!(portals, listening.iter().map(|it| (it.number, it.address)).collect::<Vec<_>>());
    // Only an address that stands for all is replaced by that at which the API was reached.
    let [reached, other] = [1, 2].map(|it| IpAddr::from([192, 0, 2, it]));
    seen.reached_at(reached);
    assert_eq!(seen, first.object);
    let any = AttachmentPortal { address: Ipv4Addr::UNSPECIFIED.into(), port: 3260, group_tag: 1 };
    seen.portals = vec![any.clone(), AttachmentPortal { address: other, ..any }];
    seen.reached_at(reached);
    assert_eq!(seen.portals.iter().map(|it| it.address).collect::<Vec<_>>(), [reached, other]);
    assert_eq!(ok(&up, connect("db1", "web1")).await, Ensured { created: false, ..first.clone() });
    let peer = || PeerName::Host("web1".into());
    assert_eq!(ok(&up, ShowConnection { volume: "db1".into(), peer: peer() }).await, first.object);
    for (request, field) in [
        (CreateConnection { lun: Some(7), min_lun: None, ..connect("db1", "web1") }, "lun"),
        (CreateConnection { min_lun: Some(7), ..connect("db1", "web1") }, "min_lun"),
        (CreateConnection { read_only: true, ..connect("db1", "web1") }, "read_only"),
    ] {
        assert_eq!(differs(&refused(&up, request).await), field);
    }
    let both = CreateConnection { lun: Some(7), ..connect("db2", "web1") };
    assert_eq!(refused(&up, both).await.kind, Kind::Invalid);
    let taken = CreateConnection { lun: Some(1), min_lun: None, ..connect("db2", "web1") };
    let taken = refused(&up, taken).await;
    assert_eq!((taken.kind, taken.field), (Kind::Conflict, Some("lun")));

    for _ in 0..2 {
        ok(&up, DeleteConnection { volume: "db1".into(), peer: peer() }).await;
        assert!(up.luns(IQN).is_empty());
    }
    assert_eq!(
        refused(&up, ShowConnection { volume: "db1".into(), peer: peer() }).await.kind,
        Kind::NotFound
    );
    assert_eq!(
        refused(&up, DeleteConnection { volume: "typo".into(), peer: peer() }).await.kind,
        Kind::NotFound
    );
    // A host that sees the volume by its group has no connection that could be ended for it.
    let hosts = Some(vec!["web1".into()]);
    ok(&up, CreateHostGroup { name: "farm".into(), hosts, ..CreateHostGroup::default() }).await;
    ok(&up, CreateConnection { peer: PeerName::HostGroup("farm".into()), ..connect("db1", "") }).await;
    let seen = refused(&up, connect("db1", "web1")).await;
    assert_eq!((seen.kind, seen.field), (Kind::Conflict, Some("host_group")));
}

async fn names(up: &Up) -> Vec<String> {
    ok(up, ListSnapshots).await.into_iter().map(|it| it.name).collect()
}

#[tokio::test]
async fn snapshots_of_named_volumes_are_of_one_moment_or_not_there() {
    let rig = Rig::new();
    let up = rig.up().await;
    for name in ["a", "b", "c"] {
        ok(&up, create(name)).await;
    }
    let both = set(&[("b", Some("of-b")), ("a", None)], Some("s"));
    let tagged = CreateSnapshotSet { labels: labels(&[("set", "1"), ("k", "all")]), ..both };
    let mut tagged = tagged;
    tagged.sources[0].labels = labels(&[("k", "own")]);
    let taken = ok(&up, tagged.clone()).await;
    assert!(taken.created);
    let [of_b, of_a] = &taken.object[..] else { panic!("{taken:?}") };
    assert_eq!((of_b.name.as_str(), of_a.name.as_str(), of_a.set), ("of-b", "a.s", of_b.set));
    assert_eq!(
        (of_b.labels.get("k"), of_a.labels.get("k"), of_a.labels.get("set")),
        (Some("own"), Some("all"), Some("1"))
    );
    assert_eq!(ok(&up, tagged.clone()).await, Ensured { created: false, ..taken.clone() });

    let before = names(&up).await;
    for (request, field) in [
        (set(&[("a", None), ("c", None)], Some("s")), "sources"),
        (set(&[("c", Some("of-b"))], None), "sources"),
    ] {
        assert_eq!(differs(&refused(&up, request).await), field);
    }
    // Both names are taken, at two moments.
    ok(&up, take("b", "s")).await;
    assert_eq!(differs(&refused(&up, set(&[("a", None), ("b", None)], Some("s"))).await), "sources");
    ok(&up, DeleteSnapshot { name: "b.s".into(), how: Deletion { eradicate: true } }).await;
    for (sources, kind) in [
        (&[][..], Kind::Invalid),
        (&[("a", None), ("a", Some("x"))], Kind::Invalid),
        (&[("a", Some("x")), ("b", Some("x"))], Kind::Invalid),
        (&[("a", Some("a"))], Kind::Conflict),
        (&[("a", Some("0123456789abcdef"))], Kind::Invalid),
        (&[("a", None), ("nothing", None)], Kind::NotFound),
    ] {
        assert_eq!(refused(&up, set(sources, Some("t"))).await.kind, kind, "{sources:?}");
    }
    assert_eq!(names(&up).await, before, "all or nothing");
    // Named by the time, each is a new one.
    let [first, second] =
        [ok(&up, set(&[("a", None)], None)).await, ok(&up, set(&[("a", None)], None)).await];
    assert!(first.created && second.created && first.object[0].name != second.object[0].name);
}

#[tokio::test]
async fn one_snapshot_can_be_asked_for_again() {
    let rig = Rig::new();
    let up = rig.up().await;
    ok(&up, create("a")).await;
    ok(&up, create("b")).await;
    let keep = up.array.now() + 1000;
    let wanted = CreateSnapshots { keep_until: Some(keep), ..take("a", "s") };
    let first = ok(&up, wanted.clone()).await;
    assert_eq!(ok(&up, wanted.clone()).await, Ensured { created: false, ..first });
    ok(&up, take("a", "s")).await;
    let longer = CreateSnapshots { keep_until: Some(keep + 1), ..wanted };
    assert_eq!(differs(&refused(&up, longer).await), "retain_until");
    ok(
        &up,
        ChangeSnapshot {
            name: "a.s".into(),
            change: SnapshotChange { labels: Some(labels(&[("k", "v")])), ..SnapshotChange::default() },
        },
    )
    .await;
    let other = CreateSnapshots { labels: labels(&[("k", "w")]), ..take("a", "s") };
    assert_eq!(differs(&refused(&up, other).await), "labels");
    let id = ok(&up, ShowSnapshot { name: "a.s".into() }).await.source_id;
    ok(
        &up,
        ChangeVolume {
            name: "a".into(),
            change: VolumeChange { name: Some("z".into()), ..VolumeChange::default() },
        },
    )
    .await;
    assert_eq!(volume(&up, "z").await.id, id);
}

#[tokio::test]
async fn a_restore_saves_what_was_there_and_says_what_is_newer() {
    let rig = Rig::new();
    let up = rig.up().await;
    let id = ok(&up, create("db1")).await.object.id;
    for (byte, suffix) in [(1, "one"), (2, "two")] {
        write(&up, id, 0, byte).await;
        ok(&up, take("db1", suffix)).await;
    }
    write(&up, id, 0, 3).await;
    let restore = |change| RestoreVolume { name: "db1".into(), change };
    let from = |source: &str| Overwrite { source: source.into(), ..Overwrite::default() };
    let to = |source: &str| restore(from(source));
    // Both are of the same second, and still one is newer.
    let latest = |source| Overwrite { only_if_latest: true, ..from(source) };
    let error = refused(&up, restore(latest("db1.one"))).await;
    assert_eq!((error.kind, error.field), (Kind::Precondition, Some("only_if_latest")));
    assert!(error.message.contains("db1.two"), "{error}");
    let safe = restore(Overwrite { safety_snapshot: Some("before".into()), ..latest("db1.two") });
    ok(&up, safe.clone()).await;
    assert_eq!(first_byte(&up, id, 0).await, 2);
    let before = ok(&up, ShowSnapshot { name: "db1.before".into() }).await;
    assert_eq!(first_byte(&up, before.id, 0).await, 3);
    // Repeated, it does not save what it restored, and its safety snapshot is no newer one.
    ok(&up, safe).await;
    assert_eq!(first_byte(&up, before.id, 0).await, 3);
    ok(&up, to("db1.one")).await;
    assert_eq!(first_byte(&up, id, 0).await, 1);
    assert_eq!(names(&up).await, ["db1.before", "db1.one", "db1.two"], "no snapshot is lost");

    ok(
        &up,
        ChangeVolume {
            name: "db1".into(),
            change: VolumeChange { size: Some(2 * MIB), ..VolumeChange::default() },
        },
    )
    .await;
    let kept = restore(Overwrite { keep_size: true, ..from("db1.two") });
    assert_eq!(ok(&up, kept).await.size, 2 * MIB);
    assert_eq!(first_byte(&up, id, 0).await, 2);
    ok(&up, CreateVolume { bytes: 4 * MIB, ..create("big") }).await;
    let larger = refused(&up, restore(Overwrite { keep_size: true, ..from("big") })).await;
    assert_eq!((larger.kind, larger.field), (Kind::Precondition, Some("keep_size")));
    // Of another volume, all of its own snapshots are newer.
    assert_eq!(refused(&up, restore(latest("big"))).await.field, Some("only_if_latest"));
    assert_eq!(ok(&up, to("big")).await.size, 4 * MIB);
}

/// A token of an operator.
async fn driver(up: &Up) -> Caller {
    let password = Secret::new("eight chars");
    ok(up, CreateUser { name: "csi".into(), role: Role::Operator, password }).await;
    let (user, role) = (Some("csi".into()), Some(Role::Operator));
    let made = ok(up, CreateToken { name: "csi".into(), user, role, expires: None, on_behalf: false }).await;
    let array::Bearer { id, user, role, .. } =
        up.array.accounts().token(made.secret.as_ref().unwrap().expose()).unwrap();
    Caller { user, origin: "10.0.0.9".into(), role, credential: Credential::Token(id) }
}

#[tokio::test]
async fn a_driver_deletes_and_does_not_eradicate() {
    let rig = Rig::new();
    let up = rig.up().await;
    up.array.first_user().await.unwrap();
    let driver = driver(&up).await;
    let perform = |eradicate| DeleteVolume { name: "db1".into(), how: Deletion { eradicate } };
    ok(&up, create("db1")).await;
    let taken: Vec<Snapshot> = up.array.perform(&driver, take("db1", "s")).await.unwrap().object;
    let snapshot = DeleteSnapshot { name: taken[0].name.clone(), how: Deletion { eradicate: true } };
    assert_eq!(up.array.perform(&driver, snapshot).await.unwrap_err().kind, Kind::Forbidden);
    assert_eq!(up.array.perform(&driver, perform(true)).await.unwrap_err().kind, Kind::Forbidden);
    up.array.perform(&driver, perform(false)).await.unwrap();
    let eradicate = EradicateFromRecycleBin { id: "db1".into() };
    assert_eq!(up.array.perform(&driver, eradicate).await.unwrap_err().kind, Kind::Forbidden);
    assert_eq!(ok(&up, ListRecycleBin).await.len(), 1);
    // The name is free at once.
    assert!(up.array.perform(&driver, create("db1")).await.unwrap().created);
    assert_eq!(ok(&up, ListVolumes).await.len(), 1);
}

#[tokio::test]
async fn the_status_counts_what_is_open() {
    let rig = Rig::new();
    let up = rig.up().await;
    up.array.tick().await;
    let before = ok(&up, ShowStatus).await;
    up.array.alerts().report("certificate.temporary", array::Severity::Critical, "trouble".into());
    up.array.tick().await;
    let after = ok(&up, ShowStatus).await;
    assert_eq!(
        (after.open_alerts, after.critical_alerts),
        (before.open_alerts + 1, before.critical_alerts + 1)
    );
    up.array.alerts().end_report("certificate.temporary");
    up.array.tick().await;
    assert_eq!(ok(&up, ShowStatus).await, before);
}
