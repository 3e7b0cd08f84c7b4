//! A change costs what it changes, whatever else there is: counts of the records, units and logical unit numbers that are looked
//! at, the same with few volumes as with many.

use crate::rig::{Rig, Up, ok, refused};
use array::{
    ChangeGroup, CompareConfiguration, CreateConnection, CreateGroup, CreateHost, CreateHostGroup,
    CreateVolume, CreateVolumes, DeleteConnection, DeleteVolume, Deletion, GroupChange, Import, ImportAction,
    ImportConfiguration, LimitsChange, ListAudit, ListEvents, ListVolumes, PeerName, Request,
};
use block::DiskId;
use export::reservation::Change;
use export::{Event, FrontEnd, NexusName, Registry, Sleep, Touched};
use scsi::{InitiatorPort, Nexus};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;

const MIB: u64 = 1 << 20;
const FEW: usize = 100;
const MANY: usize = 2_000;

/// What a request looked at: records of the configuration; units, and numbers of nexuses.
#[derive(Debug, PartialEq, Eq)]
struct Looks {
    records: u64,
    target: u64,
}

async fn looks<R: Request>(up: &Up, request: R) -> Looks {
    let before = (records::looks(), up.target.looked_at());
    ok(up, request).await;
    Looks { records: records::looks() - before.0, target: up.target.looked_at() - before.1 }
}

fn volume(name: impl Into<String>, group: Option<&str>) -> CreateVolume {
    let group = group.map(str::to_owned);
    CreateVolume { name: name.into(), bytes: MIB, block_bytes: 512, group, ..CreateVolume::default() }
}

fn volumes(names: impl IntoIterator<Item = String>) -> CreateVolumes {
    let names = names.into_iter().collect();
    CreateVolumes { names, bytes: MIB, block_bytes: 512, ..CreateVolumes::default() }
}

fn item(name: &str, group: Option<&str>) -> Value {
    json!({ "name": name, "size": MIB, "block_size": 512, "group": group })
}

/// Imports volumes; what becomes of each.
async fn import(up: &Up, volumes: Vec<Value>) -> Vec<ImportAction> {
    let document = serde_json::from_value(json!({ "format": 1, "volumes": volumes })).unwrap();
    let import = Import { document: Box::new(document), overwrite: Default::default() };
    ok(up, ImportConfiguration(import)).await.into_iter().map(|step| step.action).collect()
}

/// Volumes v00000 and on.
async fn fill(up: &Up, count: usize) {
    let volumes = (0..count).map(|number| item(&format!("v{number:05}"), None)).collect();
    assert_eq!(import(up, volumes).await, vec![ImportAction::Create; count]);
}

fn iqn(number: usize) -> String {
    format!("iqn.1993-08.org.debian:01:h{number:03}")
}

fn connect(volume: &str, peer: &PeerName) -> CreateConnection {
    CreateConnection { volume: volume.into(), peer: peer.clone(), lun: None, min_lun: None, read_only: false }
}

fn disconnect(volume: &str, peer: &PeerName) -> DeleteConnection {
    DeleteConnection { volume: volume.into(), peer: peer.clone() }
}

async fn add_host(up: &Up, number: usize) -> PeerName {
    let name = format!("h{number:03}");
    ok(up, CreateHost { name: name.clone(), initiators: vec![iqn(number)], ..CreateHost::default() }).await;
    PeerName::Host(name)
}

fn attach(up: &Up, number: usize, port: u8) -> Nexus {
    up.target.attach(InitiatorPort::iscsi(iqn(number), [0, 2, 0x3D, 0, 0, port]), 1)
}

/// What each change looks at, beside a number of volumes.
async fn changes_beside(count: usize) -> Vec<Looks> {
    let rig = Rig::new();
    let up = rig.up().await;
    let limits = LimitsChange { iops: Some(Some(1_000)), ..LimitsChange::default() };
    let group = CreateGroup { hard_quota: Some(1 << 40), limits, ..CreateGroup::default() };
    // One group in use for every ten volumes.
    for number in 0..count / 10 {
        ok(&up, CreateGroup { name: format!("g{number:04}"), ..group.clone() }).await;
    }
    let group = |number: usize| format!("g{:04}", number % (count / 10));
    let volume_of = |number: usize| item(&format!("v{number:05}"), Some(&group(number)));
    assert_eq!(import(&up, (0..count).map(volume_of).collect()).await, vec![ImportAction::Create; count]);
    let (host, other) = (add_host(&up, 0).await, add_host(&up, 1).await);
    let (_seen, _others) = (attach(&up, 0, 1), attach(&up, 1, 1));
    for number in 0..count / 10 {
        ok(&up, connect(&format!("v{number:05}"), &other)).await;
    }
    vec![
        looks(&up, volume("new", None)).await,
        looks(&up, volume("limited", Some("g0001"))).await,
        looks(&up, volumes((0..50).map(|number| format!("many{number}")))).await,
        looks(&up, connect("new", &host)).await,
        looks(&up, disconnect("new", &host)).await,
        looks(&up, ChangeGroup { name: "g0002".into(), change: GroupChange::default() }).await,
        looks(&up, DeleteVolume { name: "new".into(), how: Deletion { eradicate: true } }).await,
    ]
}

#[tokio::test]
async fn changes_look_at_what_they_change_whatever_the_number_of_volumes() {
    let (few, many) = (changes_beside(FEW).await, changes_beside(MANY).await);
    assert_eq!(few, many);
    let most = |which: fn(&Looks) -> u64| many.iter().map(which).max();
    assert!(most(|it| it.records) > Some(0), "records are counted");
    assert!(most(|it| it.target) > Some(0), "units are counted");
}

/// What it looks at to connect a volume to a group of hosts with sessions, beside a number of LUNs and of other volumes.
async fn group_connection_beside(luns: usize) -> Looks {
    const HOSTS: usize = 8;
    const SESSIONS: u8 = 4;
    let rig = Rig::new();
    let up = rig.up().await;
    fill(&up, 4 * luns).await;
    for number in 0..HOSTS {
        add_host(&up, number).await;
    }
    let hosts = Some((0..HOSTS).map(|number| format!("h{number:03}")).collect());
    ok(&up, CreateHostGroup { name: "cluster".into(), hosts, labels: Default::default() }).await;
    let cluster = PeerName::HostGroup("cluster".into());
    let ports = || (0..HOSTS).flat_map(|host| (0..SESSIONS).map(move |port| (host, port)));
    let nexuses: Vec<_> = ports().map(|(host, port)| attach(&up, host, port)).collect();
    for number in 0..luns {
        ok(&up, connect(&format!("v{number:05}"), &cluster)).await;
    }
    let last = format!("v{luns:05}");
    let looks = looks(&up, CreateConnection { lun: Some(500), ..connect(&last, &cluster) }).await;
    assert!(nexuses.iter().all(|nexus| nexus.luns().len() == luns + 1));
    assert_eq!(looks.target, (HOSTS * usize::from(SESSIONS)) as u64, "one number of each nexus");
    looks
}

#[tokio::test]
async fn a_connection_to_a_host_group_looks_at_one_number_of_each_session() {
    assert_eq!(group_connection_beside(5).await, group_connection_beside(50).await);
}

/// Notes how many hosts each change touches that front ends are notified of.
#[derive(Default)]
struct Observer(Mutex<Vec<usize>>);

impl FrontEnd for Observer {
    fn mappings_changed(&self, _: &Registry, touched: &Touched) {
        self.0.lock().unwrap().push(touched.numbers().len());
    }

    fn limits_changed(&self, _: &Registry, _: &BTreeSet<DiskId>) {}

    fn reservations_changed(&self, _: DiskId, _: &NexusName, _: &Change) -> Sleep {
        Box::pin(std::future::ready(()))
    }

    fn notify(&self, _: DiskId, _: Event) {}
}

/// A connection to a group of many hosts is passed to a few of them at a time, and between these other changes are made.
#[tokio::test]
async fn other_changes_do_not_wait_for_the_hosts_of_a_group() {
    const HOSTS: usize = 64;
    let rig = Rig::new();
    let up = rig.up().await;
    fill(&up, 1).await;
    for number in 0..HOSTS {
        add_host(&up, number).await;
    }
    let hosts = Some((0..HOSTS).map(|number| format!("h{number:03}")).collect());
    ok(&up, CreateHostGroup { name: "cluster".into(), hosts, labels: Default::default() }).await;
    let cluster = PeerName::HostGroup("cluster".into());
    let nexuses: Vec<_> = (0..HOSTS).map(|host| attach(&up, host, 0)).collect();
    let observer = Arc::new(Observer::default());
    let front_end: Weak<Observer> = Arc::downgrade(&observer);
    up.exports.add_front_end(front_end);
    observer.0.lock().unwrap().clear();
    let mut connecting = Box::pin(up.perform(connect("v00000", &cluster)));
    while observer.0.lock().unwrap().is_empty() {
        assert!(futures_are_pending(&mut connecting).await, "it was passed to all of them at once");
    }
    // It is half done, and does not go on by itself.
    ok(&up, volume("other", None)).await;
    assert!(nexuses.iter().any(|nexus| nexus.luns().is_empty()));
    connecting.await.unwrap();
    assert!(nexuses.iter().all(|nexus| nexus.luns() == [0]));
    let touched = observer.0.lock().unwrap().clone();
    assert_eq!(touched.iter().sum::<usize>(), HOSTS);
    assert!(touched.iter().all(|hosts| *hosts <= 4), "{touched:?}");
}

/// Lets a future go on once, and others of the runtime; whether it is not at its end.
async fn futures_are_pending<F: Future + Unpin>(future: &mut F) -> bool {
    let pending =
        std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_pending())).await;
    tokio::task::yield_now().await;
    pending
}

/// A comparison says what an import would say, and changes nothing.
#[tokio::test]
async fn a_comparison_refuses_what_an_import_refuses() {
    let rig = Rig::new();
    let up = rig.up().await;
    ok(&up, volume("there", None)).await;
    let document = || {
        let volume = |name: &str, size: u64, group: Option<&str>| json!({ "name": name, "size": size, "block_size": 512, "group": group });
        let host = |name: &str, iqn: String| json!({ "name": name, "initiators": [iqn] });
        let connection =
            |volume: &str, host: &str, lun: u16| json!({ "volume": volume, "host": host, "lun": lun });
        let mut large = volume("there", 1 << 62, None);
        large["group"] = json!("g");
        serde_json::from_value(json!({
            "format": 1,
            "volume_groups": [{ "name": "g" }, { "name": "no name" }],
            "volumes": [
                volume("good", MIB, Some("g")), volume("no name", MIB, None), volume("tiny", 1, None),
                volume("lost", MIB, Some("missing")), large,
            ],
            "hosts": [host("h1", iqn(1)), host("h2", iqn(1)), host("h3", "no name".into())],
            "host_groups": [{ "name": "some", "hosts": ["h1", "h2"] }],
            "connections": [connection("good", "h1", 1), connection("there", "h1", 1), connection("good", "h3", 1)],
            "users": [{ "name": "short", "role": "viewer", "password": "x" }],
        }))
        .unwrap()
    };
    let import = || Import { document: Box::new(document()), overwrite: ["volume/there".to_owned()].into() };
    let before = up.engine.records("");
    let events = ok(&up, ListEvents { limit: Some(100), ..ListEvents::default() }).await;
    let compared = ok(&up, CompareConfiguration(import())).await;
    assert_eq!(up.engine.records(""), before);
    assert_eq!(ok(&up, ListEvents { limit: Some(100), ..ListEvents::default() }).await, events);
    assert_eq!(ok(&up, ListVolumes).await.len(), 1);
    let actions: Vec<_> = compared.iter().map(|step| (step.object.as_str(), step.action)).collect();
    let (create, failed) = (ImportAction::Create, ImportAction::Failed);
    assert_eq!(
        actions,
        [
            ("volume-group/g", create),
            ("volume-group/no name", failed),
            ("volume/good", create),
            ("volume/no name", failed),
            ("volume/tiny", failed),
            ("volume/lost", failed),
            ("volume/there", failed),
            ("host/h1", create),
            ("host/h2", failed),
            ("host/h3", failed),
            ("host-group/some", failed),
            ("connection/good/host/h1", create),
            ("connection/there/host/h1", failed),
            ("connection/good/host/h3", failed),
            ("user/short", failed),
        ]
    );
    assert_eq!(ok(&up, ImportConfiguration(import())).await, compared, "the import does the same");
}

#[tokio::test]
async fn a_volume_that_an_import_cannot_create_does_not_keep_the_others_of_its_step() {
    let rig = Rig::new();
    let up = rig.up().await;
    let volumes = || vec![item("a", None), item("b", Some("missing")), item("c", None)];
    let (create, failed) = (ImportAction::Create, ImportAction::Failed);
    assert_eq!(import(&up, volumes()).await, [create, failed, create]);
    assert_eq!(import(&up, volumes()).await, [ImportAction::Unchanged, failed, ImportAction::Unchanged]);
    up.crash().await;
    let up = rig.up().await;
    let names: Vec<_> = ok(&up, ListVolumes).await.into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["a", "c"]);
}

#[tokio::test]
async fn volumes_that_are_created_together_are_all_there_or_none_and_one_entry_of_the_audit_log_has_them() {
    let rig = Rig::new();
    let up = rig.up().await;
    ok(&up, volume("taken", None)).await;
    let names = |range: std::ops::Range<usize>| range.map(|number| format!("v{number:05}"));
    for (request, named) in [
        (volumes(names(0..50).chain(["no name".to_owned()])), "no name"),
        (volumes(names(0..50).chain(["v00007".to_owned()])), "v00007"),
        (CreateVolumes { bytes: 2 * MIB, ..volumes(names(0..50).chain(["taken".to_owned()])) }, "taken"),
        (volumes([]), "1000"),
        (volumes(names(0..1001)), "1000"),
    ] {
        let error = refused(&up, request).await;
        assert!(error.message.contains(named), "{error}");
    }
    assert_eq!(ok(&up, ListVolumes).await.len(), 1);
    let all = volumes(names(0..1000));
    let made = ok(&up, all.clone()).await;
    assert!(made.created && made.object.len() == 1000);
    let entry = ok(&up, ListAudit { limit: Some(10), ..ListAudit::default() }).await.swap_remove(0);
    assert_eq!(entry.action, "CreateVolumes");
    assert!(names(0..1000).all(|name| entry.detail.contains(&name)));
    up.crash().await;
    let up = rig.up().await;
    assert_eq!(ok(&up, ListVolumes).await.len(), 1001);
    assert!(!ok(&up, all).await.created, "a repeated request finds them");
}
