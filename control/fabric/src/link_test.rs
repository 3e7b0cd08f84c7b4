//! Two controllers over a model of the store, with a real link between them.

use super::Link;
use crate::board::Board;
use crate::controller::Controller;
use crate::copies::{self, HISTORY};
use crate::held::Held;
use crate::home::{Home, Parts};
use crate::identity::Own;
use crate::kept::{Forwarded, Kept, Served};
use crate::logins::PutLogins;
use crate::reading::{self, Reading};
use crate::relay::TakeApi;
use crate::shared_store::SharedStore;
use crate::token::Token;
use crate::wire::Wire;
use crate::{front, join, mutual_tls, portals, standby};
use array::{Portals, framed};
use block::mem::MemArray;
use block::{Disk, DiskId, Extent, Geometry, Ledger, Op};
use engine::{Engine, Options};
use export::Exports;
use forward::Device;
use history::{Attempt, ExpiringKind, NewEvent, Page, Severity, Store};
use iscsi::{Access, AccessTable, Server, ServerConfig, TargetDevice};
use peer::Channel;
use rados::memory::Cluster;
use rados::objects::Objects;
use rados::{FormatOptions, OpenOptions};
use scsi::{
    Command, Data, DeviceServer, Direction, Execution, InitiatorPort, Lun, Management, ManagementFunction,
    ManagementResponse, Power, Response, Status, Target, TargetIdentity, TaskAttribute,
};
use shelf::arbiter::MemberId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use transport::{Budget, Permit, SystemClock};

#[path = "logins_test.rs"]
mod logins;

const ARRAY: u128 = 7;
const HOST: &str = "iqn.2026-01.test:host";
const TARGET: &str = "iqn.2026-01.test:array";
const BLOCK: usize = 512;

fn link(id: u16, secret: &[u8]) -> Link {
    let identity = mutual_tls::new_identity(vec!["controller.ashlar.invalid".into()], "test").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let own = Arc::new(Own::new(secret, identity, (ARRAY, id)).unwrap());
    Link { own, listener: Arc::new(listener), address, tokens: Arc::default(), max_members: 16 }
}

struct Member {
    link: Link,
    controller: Controller,
    board: Arc<Board>,
}

impl Member {
    async fn join(cluster: &Cluster, link: Link) -> Self {
        Self::join_by(cluster.client(), link).await
    }

    /// By a client of its own, to be fenced.
    async fn join_by(client: Arc<dyn Objects>, link: Link) -> Self {
        let id = link.own.id;
        let service = cluster::Service { iscsi: vec![format!("192.0.2.{id}:3260")], ..Default::default() };
        let (about, board) = ((id, link.shown(), service), Board::shared(id));
        let controller = Controller::start(client, ARRAY, about, board.clone()).await.unwrap();
        Self { link, controller, board }
    }

    /// The version of the map in which it joined.
    async fn joined(&self) -> u64 {
        self.controller.joined().wait_for(Option::is_some).await.unwrap().unwrap()
    }

    /// Waits until it sees in the map that another one takes part; returns the version in which that joined.
    async fn sees(&self, other: u16) -> u64 {
        let active = |map: &Option<Arc<cluster::Map>>| map.as_ref().and_then(|it| it.active(MemberId(other)));
        let mut map = self.controller.map();
        active(&map.wait_for(|map| active(map).is_some()).await.unwrap()).unwrap()
    }
}

async fn store() -> Cluster {
    let cluster = Cluster::default();
    let open = OpenOptions { array: ARRAY, salt: 1, ..OpenOptions::default() };
    drop(rados::Store::format(cluster.client(), FormatOptions::new(64), open).await.unwrap());
    cluster
}

/// The volumes of an array: one disk.
fn volumes() -> MemArray {
    let volumes = MemArray::new();
    volumes.create(DiskId(1), Geometry { block_bytes: BLOCK as u32, blocks: 64 });
    volumes
}

/// A target with that disk, which the host sees as LUN 0.
fn target(volumes: &MemArray, power: Power) -> Arc<Target> {
    target_of(Arc::new(volumes.disk(DiskId(1)).unwrap()), power)
}

fn target_of(disk: Arc<dyn Disk>, power: Power) -> Arc<Target> {
    let exports = Exports::new(Arc::new(SystemClock::default()));
    exports.set_power(power);
    let identity = TargetIdentity {
        name: TARGET.into(),
        vendor: "ASHLAR".into(),
        product: "ALL-FLASH ARRAY".into(),
        revision: "0.1".into(),
        ports: 1.into(),
    };
    let target = Target::new(identity, exports.clone(), [7; 32]);
    exports.add_volume(disk);
    exports.set_mappings(HOST, BTreeMap::from([(0, DiskId(1))]));
    target
}

fn access() -> AccessTable {
    [(HOST.to_owned(), Access::default())].into()
}

/// The home, which answers while it is permitted. Its store notes commands. It may have been a front end before.
async fn serve(member: &Member, volumes: &MemArray, kept: Option<&Kept>) -> (Arc<Home>, Arc<AtomicBool>) {
    let (home, permitted, _) =
        serve_with(member, volumes, kept, (Arc::new(Store::in_memory()), Arc::new(|_, _| {}))).await;
    (home, permitted)
}

/// The same with a history and an API, and what takes its connections.
async fn serve_with(
    member: &Member,
    volumes: &MemArray,
    kept: Option<&Kept>,
    (history, take_api): (Arc<Store>, TakeApi),
) -> (Arc<Home>, Arc<AtomicBool>, JoinHandle<()>) {
    serve_reported(member, volumes, kept, (history, take_api, Arc::new(|_| {}))).await
}

/// What a home has that no test changes.
fn parts(member: &Member, target: Arc<Target>, ledger: Arc<dyn Ledger>) -> Parts {
    Parts {
        link: member.link.clone(),
        map: member.controller.map(),
        data: "/nonexistent".into(),
        target,
        ledger: Some(ledger),
        permit: Permit::default(),
        portals: Arc::new(Portals::default),
        history: Arc::new(Store::in_memory()),
        take_api: Arc::new(|_, _| {}),
        put_logins: Arc::new(|_| {}),
        shards: vec![Handle::current()],
    }
}

/// The same with what takes reports of log-ins.
async fn serve_reported(
    member: &Member,
    volumes: &MemArray,
    kept: Option<&Kept>,
    of_process: (Arc<Store>, TakeApi, PutLogins),
) -> (Arc<Home>, Arc<AtomicBool>, JoinHandle<()>) {
    let (history, take_api, put_logins) = of_process;
    let fresh = member.controller.home().await.unwrap().epoch;
    let power = kept.and_then(Kept::power_on).map_or(Power::Unknown { fresh }, Power::On);
    let permitted = Arc::new(AtomicBool::new(true));
    let permit = permitted.clone();
    let permit = Permit::new(move || permit.load(SeqCst));
    let target = target(volumes, power);
    let parts =
        Parts { permit, history, take_api, put_logins, ..parts(member, target, Arc::new(volumes.clone())) };
    let home = Home::new(parts, TARGET, access());
    let map = member.controller.map().borrow().clone().unwrap();
    home.keep_state(&map).await;
    let serving = tokio::spawn(home.clone().serve());
    (home, permitted, serving)
}

async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn perform(device: &mut dyn DeviceServer, cdb: &[u8], data: &[u8]) -> Response {
    begin(device, cdb, data).await.expect("a response")
}

type Task = std::pin::Pin<Box<dyn Future<Output = Option<Response>> + Send>>;

fn begin(device: &mut dyn DeviceServer, cdb: &[u8], data: &[u8]) -> Task {
    let mut cdb = cdb.to_vec();
    cdb.resize(16, 0);
    let command = Command {
        tag: 1,
        lun: Lun([0; 8]),
        cdb: cdb.into(),
        attribute: TaskAttribute::Simple,
        direction: if data.is_empty() { Direction::In } else { Direction::Out },
        data_out: Data::from(data.to_vec()),
        data_in_limit: if data.is_empty() { 1 << 20 } else { 0 },
    };
    match device.execute(command) {
        Execution::Task(task) => task,
        Execution::Done(response) => Box::pin(std::future::ready(Some(response))),
    }
}

const WRITE: [u8; 10] = [0x2A, 0, 0, 0, 0, 3, 0, 0, 1, 0];
/// COMPARE AND WRITE of the same block.
const SWAP: [u8; 16] = [0x89, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0];
const BLOCK_3: Extent = Extent { lba: 3, blocks: 1 };

/// The data of a COMPARE AND WRITE.
fn swap(from: u8, to: u8) -> Vec<u8> {
    [[from; BLOCK], [to; BLOCK]].concat()
}

const READ: [u8; 10] = [0x28, 0, 0, 0, 0, 3, 0, 0, 1, 0];

/// A nexus of the host whose first unit attention is over, once the home is there.
async fn host(running: &front::Running, lost: &Arc<AtomicUsize>) -> Device {
    let mut configuration = running.front_end.configuration();
    let known = configuration.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert_eq!(known, portals::configuration(TARGET, access(), (&Portals::default(), &BTreeSet::new())));
    let lost = lost.clone();
    let mut device = running.front_end.attach(33, [2; 6], HOST, move || _ = lost.fetch_add(1, SeqCst));
    let first = perform(&mut device, &[0; 6], &[]).await;
    assert_eq!(first.status, Status::CheckCondition, "POWER ON");
    device
}

#[tokio::test]
async fn a_standby_serves_the_volumes_of_the_home_while_that_may_answer() {
    let cluster = store().await;
    let one = Member::join(&cluster, link(1, b"shared")).await;
    let (home, permitted) = serve(&one, &volumes(), None).await;
    let two = Member::join(&cluster, link(2, b"shared")).await;
    let running = front::start(two.link.clone(), two.controller.map(), two.joined().await).unwrap();
    let lost = Arc::new(AtomicUsize::new(0));
    let mut device = host(&running, &lost).await;
    assert_eq!(home.connected(), [2]);
    assert_eq!(perform(&mut device, &WRITE, &[5; BLOCK]).await.status, Status::Good);
    assert_eq!(perform(&mut device, &READ, &[]).await.data_in.to_bytes()[..], [5; BLOCK]);
    let managed = device.manage(Lun([0; 8]), ManagementFunction::LogicalUnitReset);
    let Management::Later(managed) = managed else { panic!("it is performed at the home") };
    assert_eq!(managed.await, Some(ManagementResponse::Complete));
    let reset = perform(&mut device, &[0; 6], &[]).await;
    assert_eq!((reset.status, reset.sense[12]), (Status::CheckCondition, 0x29), "the unit was reset");

    // Without its lease the home answers nothing: neither what it has done, nor that it lives, so that the link breaks.
    permitted.store(false, SeqCst);
    let held = begin(&mut device, &READ, &[]);
    until(|| home.connected().is_empty()).await;
    permitted.store(true, SeqCst);
    // The next link brings the answer; on a machine that is too slow for it the nexus is a new one, with its unit attention.
    let status = held.await.expect("a response").status;
    assert!(matches!(status, Status::Good | Status::CheckCondition), "{status:?}");
    assert_eq!(lost.load(SeqCst), 0);
    running.stop();
    two.controller.leave().await;
    one.controller.leave().await;
}

#[tokio::test]
async fn sessions_outlive_a_home_that_ends() {
    let cluster = store().await;
    let one = Member::join(&cluster, link(1, b"shared")).await;
    let volumes = volumes();
    let (_, permitted) = serve(&one, &volumes, None).await;
    let two = Member::join(&cluster, link(2, b"shared")).await;
    let three = Member::join(&cluster, link(3, b"shared")).await;
    let running = front::start(three.link.clone(), three.controller.map(), three.joined().await).unwrap();
    let (idle_lost, open_lost) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (mut idle, mut open) = (host(&running, &idle_lost).await, host(&running, &open_lost).await);
    // The home has performed it, and can't say so.
    permitted.store(false, SeqCst);
    let task = begin(&mut open, &SWAP, &swap(0, 6));
    until(|| volumes.peek(DiskId(1), BLOCK_3).to_bytes()[0] == 6).await;
    one.controller.leave().await;
    let (home, _) = serve(&two, &volumes, None).await;
    let response = task.await.expect("a response");
    assert_eq!(
        (response.status, &response.sense[..]),
        (Status::Good, &[][..]),
        "the next home answers for it"
    );
    let after = perform(&mut idle, &[0; 6], &[]).await;
    assert_eq!(after.status, Status::Good, "the nexus continues");
    assert_eq!(perform(&mut idle, &WRITE, &[7; BLOCK]).await.status, Status::Good);
    assert_eq!(perform(&mut open, &SWAP, &swap(7, 8)).await.status, Status::Good);
    let lost = [&idle_lost, &open_lost].map(|lost| lost.load(SeqCst));
    assert_eq!((lost, home.connected()), ([0, 0], vec![3]));
    assert_eq!(volumes.fronts().len(), 1);
    running.stop();
    // Its process sends nothing again.
    three.controller.leave().await;
    let map = async |gone: u16| {
        let mut map = two.controller.map();
        let is_gone = |map: &Option<Arc<cluster::Map>>| {
            map.as_ref().is_some_and(|map| map.active(MemberId(gone)).is_none())
        };
        map.wait_for(is_gone).await.unwrap().clone().unwrap()
    };
    home.forget(&*map(3).await).await;
    assert!(volumes.fronts().is_empty());
}

#[tokio::test]
async fn sessions_of_a_front_end_that_becomes_the_home_go_on() {
    let cluster = store().await;
    let one = Member::join(&cluster, link(1, b"shared")).await;
    let volumes = volumes();
    let (_, permitted) = serve(&one, &volumes, None).await;
    let two = Member::join(&cluster, link(2, b"shared")).await;
    let running = front::start(two.link.clone(), two.controller.map(), two.joined().await).unwrap();
    let lost = Arc::new(AtomicUsize::new(0));
    let mut device = host(&running, &lost).await;
    let forwarded = Forwarded::new(running.front_end.clone());
    let budget = Arc::new(Budget::new(1 << 20));
    let server = Server::new(forwarded.clone(), ServerConfig::new(TARGET), budget.clone());
    let held = Held::new(address::Addresses::new(|| true));
    let served = Served {
        server,
        name: TARGET.into(),
        target: forwarded.clone(),
        budget,
        logins: Arc::default(),
        held,
    };
    let kept = Kept::new(served, running);

    // The former home has performed them, and can't say so.
    permitted.store(false, SeqCst);
    let (open, found) = (begin(&mut device, &SWAP, &swap(0, 6)), begin(&mut device, &READ, &[]));
    until(|| volumes.peek(DiskId(1), BLOCK_3).to_bytes()[0] == 6).await;
    one.controller.leave().await;
    let (home, _) = serve(&two, &volumes, Some(&kept)).await;
    let front_end = kept.attach_to(target(&volumes, Power::default()));
    tokio::spawn(home.serve_own(front_end));
    let response = open.await.expect("a response");
    assert_eq!((response.status, &response.sense[..]), (Status::Good, &[][..]), "this home answers for it");
    let response = found.await.expect("a response");
    assert_eq!((response.status, response.data_in.to_bytes()[0]), (Status::Good, 6), "it was sent again");
    assert_eq!(perform(&mut device, &WRITE, &[7; BLOCK]).await.status, Status::Good);
    assert_eq!(perform(&mut device, &READ, &[]).await.data_in.to_bytes()[..], [7; BLOCK]);
    let mut context = Context::from_waker(Waker::noop());
    // A command that crosses no link ends at once; the nexus is the same, without a unit attention.
    until(|| begin(&mut device, &READ, &[]).as_mut().poll(&mut context).is_ready()).await;
    assert_eq!(lost.load(SeqCst), 0);

    // A new session needs no link.
    let port = InitiatorPort::iscsi(HOST, [3; 6]);
    let mut new = TargetDevice::attach(forwarded, port, 33, Box::new(|| {}));
    assert_eq!(perform(&mut *new, &[0; 6], &[]).await.status, Status::CheckCondition, "of a nexus here");
    assert_eq!(perform(&mut *new, &READ, &[]).await.status, Status::Good);
    two.controller.leave().await;
}

/// What a controller hears that connects to the home with this link, and says this.
async fn refused(home: &Member, link: &Link, member: u16, joined: u64) -> String {
    let session = mutual_tls::connect(&home.link.address, &link.own.identity, super::PROTOCOL).await.unwrap();
    let mut wire = Wire::new(session);
    let mut channel = Channel::new(member, ARRAY, joined);
    match wire.greet(&mut channel).await {
        // The home says who it is only to those it knows, and sends messages only to the process that takes part.
        Ok(_) => wire.receive().await.expect_err("the home closes the connection").to_string(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn strangers_and_former_processes_are_refused() {
    let cluster = store().await;
    let one = Member::join(&cluster, link(1, b"shared")).await;
    let (home, _) = serve(&one, &volumes(), None).await;
    // Not in the map at all.
    refused(&one, &link(2, b"shared"), 2, 9).await;
    // In the map, by an attacker who has only the store.
    let thief = Member::join(&cluster, link(3, b"guessed")).await;
    let joined = thief.joined().await;
    one.sees(3).await;
    refused(&one, &thief.link, 3, joined).await;
    // A controller that takes part, as another process or another controller.
    let two = Member::join(&cluster, link(2, b"shared")).await;
    let joined = two.joined().await;
    one.sees(2).await;
    refused(&one, &two.link, 2, joined - 1).await;
    refused(&one, &two.link, 3, joined).await;
    assert!(home.connected().is_empty());
}

#[tokio::test]
async fn a_front_end_connects_to_the_home_of_the_map_alone() {
    let cluster = store().await;
    let one = Member::join(&cluster, link(1, b"shared")).await;
    let (_home, _) = serve(&one, &volumes(), None).await;
    let two = Member::join(&cluster, link(2, b"shared")).await;
    let joined = two.joined().await;
    one.sees(2).await;
    let known = two.controller.map().borrow().clone().unwrap();
    let home = known.member(MemberId(1)).unwrap();
    front::connect(&two.link, joined, home).await.unwrap();
    let error = async |link: &Link, home: &cluster::MapMember| {
        format!("{:#}", front::connect(link, joined, home).await.err().unwrap())
    };
    let says = error(&link(2, b"guessed"), home).await;
    assert!(says.contains("another secrets.key"), "{says}");
    // Another one listens at the address of the home, and was even admitted by a controller.
    let other = link(1, b"shared");
    let mut stolen = home.clone();
    (stolen.link.certificate, stolen.link.proof) = (other.own.fingerprint.clone(), other.own.proof.clone());
    let says = error(&two.link, &stolen).await;
    assert!(says.contains("another certificate"), "{says}");
    let mut former = home.clone();
    former.joined += 1;
    let says = error(&two.link, &former).await;
    assert!(says.contains("another process"), "{says}");
}

/// A home whose data folder is that of an array in Ceph, with its link.
async fn home_with_folder(cluster: &Cluster, folder: &Path) -> Member {
    std::fs::write(folder.join("secrets.key"), [9; 32]).unwrap();
    std::fs::write(folder.join("drives.key"), [8; 32]).unwrap();
    let location = rados::Location {
        conf: "/etc/ceph/ceph.conf".into(),
        id: "ashlar".into(),
        meta: "fast".into(),
        data: "wide".into(),
        namespace: "n".into(),
    };
    machine::ceph::remember(folder, (ARRAY, 1), &location).unwrap();
    let one = Member::join(cluster, link(1, &[9; 32])).await;
    one.controller.home().await.unwrap();
    let volumes = volumes();
    let of_volumes = parts(&one, target(&volumes, Power::default()), Arc::new(volumes));
    let home = Home::new(Parts { data: folder.to_owned(), ledger: None, ..of_volumes }, TARGET, access());
    tokio::spawn(home.serve());
    one
}

fn place(data: &Path) -> machine::store::Config {
    machine::store::Config { data: data.to_owned(), ..Default::default() }
}

#[tokio::test]
async fn a_new_controller_gets_what_it_needs_by_a_token_once() {
    let (cluster, folder) = (store().await, tempfile::tempdir().unwrap());
    let one = home_with_folder(&cluster, folder.path()).await;
    let made = one.link.admit(&[1, 2]).unwrap();
    assert_eq!(made.controller, 3);
    assert_eq!(one.link.admit(&[1, 2]).unwrap().controller, 4, "a token holds its number");
    let token = Token::parse(made.token.expose()).unwrap();
    let new = tempfile::tempdir().unwrap();
    join::join(None, &place(new.path()), &token).await.unwrap();
    for (key, bytes) in [("secrets.key", [9; 32]), ("drives.key", [8; 32])] {
        assert_eq!(std::fs::read(new.path().join(key)).unwrap(), bytes);
    }
    assert_eq!(machine::ceph::array_of(new.path()).unwrap(), Some(ARRAY));
    assert_eq!(machine::ceph::controller_of(new.path()).unwrap(), Some(3));
    let location = machine::ceph::location_of(new.path()).unwrap().unwrap();
    assert_eq!([location.meta, location.data, location.namespace], ["fast", "wide", "n"]);
    // The home and the new controller know each other by that.
    let own = Own::load(new.path(), (ARRAY, 3)).unwrap();
    let map = one.controller.map().borrow().clone().unwrap();
    assert!(own.trusts(map.member(MemberId(1)).unwrap()));
    // A later start with the same options stays as it is; another folder can't use the token again.
    join::join(None, &place(new.path()), &token).await.unwrap();
    let other = tempfile::tempdir().unwrap();
    let error = format!("{:#}", join::join(None, &place(other.path()), &token).await.unwrap_err());
    assert!(error.contains("used already"), "{error}");
    assert_eq!(machine::ceph::array_of(other.path()).unwrap(), None);
    assert!(!other.path().join("secrets.key").exists());
}

fn reading(cache_bytes: usize) -> reading::Config {
    let (data, key) = ("/nonexistent".into(), machine::key::Config::default());
    reading::Config { data, key, cache_bytes }
}

/// The drives have other paths at each server, so only their operator can name them.
#[tokio::test]
async fn a_new_controller_of_shared_drives_names_them() {
    let (cluster, folder) = (store().await, tempfile::tempdir().unwrap());
    let one = home_with_folder(&cluster, folder.path()).await;
    std::fs::remove_file(folder.path().join(machine::ceph::FILE)).unwrap();
    let token = || Token::parse(one.link.admit(&[1]).unwrap().token.expose()).unwrap();
    let new = tempfile::tempdir().unwrap();
    let first = token();
    let error = format!("{:#}", join::join(None, &place(new.path()), &first).await.unwrap_err());
    assert!(error.contains("--drive"), "{error}");
    assert!(!new.path().join("secrets.key").exists());
    let second = token();
    let mut named = place(new.path());
    named.drives.named = vec!["/dev/disk/by-id/nvme-A".into()];
    join::join(None, &named, &second).await.unwrap();
    assert_eq!(machine::sharing::remembered(new.path()).unwrap(), Some((ARRAY, 2)));
    assert_eq!(std::fs::read(new.path().join("secrets.key")).unwrap(), [9; 32]);
    // A later start with the same options stays as it is.
    join::join(None, &named, &second).await.unwrap();
    let mut limited = one.link.clone();
    limited.max_members = 2;
    assert!(limited.admit(&[1, 2]).is_err(), "two controllers share drives");
}

#[tokio::test]
async fn a_token_that_is_not_good_is_refused_with_its_reason() {
    let (cluster, folder) = (store().await, tempfile::tempdir().unwrap());
    let one = home_with_folder(&cluster, folder.path()).await;
    let own = mutual_tls::new_identity(vec!["controller.ashlar.invalid".into()], "test").unwrap();
    let ask = async |token: &Token| format!("{:#}", join::ask(token, &own).await.err().expect("refused"));
    let good = || Token::parse(one.link.admit(&[1]).unwrap().token.expose()).unwrap();
    let expired =
        one.link.tokens.create((&one.link.own.fingerprint, ARRAY), (5, &one.link.address), 0).unwrap();
    let says = ask(&expired).await;
    assert!(says.contains("expired"), "{says}");
    let says = ask(&Token { array: 8, ..good() }).await;
    assert!(says.contains("the token is of array"), "{says}");
    let says = ask(&Token { secret: [1; 16], ..good() }).await;
    assert!(says.contains("has not made the token"), "{says}");
    let says = ask(&Token { certificate: "ab".repeat(32), ..good() }).await;
    assert!(says.contains("another certificate"), "{says}");
    // What a newer release would say.
    let token = good();
    let mut session = mutual_tls::connect(&token.address, &own, join::JOIN.tls).await.unwrap();
    let mut newer = join::JOIN;
    newer.version.versions = [2, 3];
    let says = join::ask_over(&mut session, &token, newer).await.err().expect("refused").to_string();
    assert!(says.contains("versions 2 to 3") && says.contains("update the older one"), "{says}");
    // None of that has used it up.
    join::ask(&token, &own).await.unwrap();
}

fn event(message: &str) -> NewEvent {
    let (kind, message) = ("volume.created".into(), message.into());
    NewEvent { time: 1, severity: Severity::Info, kind, message, noun: None, name: None }
}

/// Messages of all events of a history in a file, the newest first. It must not be in use.
fn recorded(folder: &Path) -> Vec<String> {
    let store = Store::open(&folder.join(copies::FILE));
    assert_eq!(store.outage(), None, "nothing else has the file");
    let page = Page { before: None, limit: 1000 };
    store.events(&page, Severity::Info).unwrap().into_iter().map(|it| it.event.message).collect()
}

/// Waits until a controller has what the home recorded.
async fn copied(home: &Home, member: u16) {
    until(|| home.sends_history_to(member) && home.has_sent_history()).await;
}

#[tokio::test]
async fn a_controller_that_takes_over_has_the_history_of_the_former_home() {
    let cluster = store().await;
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let file = |at: usize| folders[at].path().join(copies::FILE);
    let one = Member::join(&cluster, link(1, b"shared")).await;
    let first = Arc::new(Store::open(&file(0)));
    first.add_event(&event("before")).unwrap();
    let (home, _, serving) = serve_with(&one, &volumes(), None, (first.clone(), Arc::new(|_, _| {}))).await;
    let two = Member::join(&cluster, link(2, b"shared")).await;
    two.joined().await;
    let copying = copies::start(two.link.clone(), two.controller.map(), folders[1].path()).unwrap();
    copied(&home, 2).await;
    first.add_event(&event("while it is copied")).unwrap();
    first.put_expiring(ExpiringKind::Session, &[1; 32], 100, "a session", 1).unwrap();
    let (user, origin, action, detail) = ("ada".into(), "local".into(), "volume.create".into(), "{}".into());
    let audit = first.begin_audit(&Attempt { time: 1, user, origin, action, detail }).unwrap();
    copied(&home, 2).await;
    first.end_audit(audit, None, "[]").unwrap();
    copied(&home, 2).await;

    // The home dies, and could not send the last of it.
    copying.stop();
    first.add_event(&event("not sent")).unwrap();
    one.controller.leave().await;
    let second = Store::open(&file(1));
    second.leave_room().unwrap();
    let session = second.expiring(ExpiringKind::Session, &[1; 32], 50).unwrap();
    assert_eq!(session.as_deref(), Some("a session"));
    let audits = second.audits(&Page { before: None, limit: 9 }).unwrap();
    assert_eq!(audits.iter().map(|it| it.outcome.as_str()).collect::<Vec<_>>(), ["done"]);
    second.add_event(&event("after")).unwrap();
    // The process of the former home has ended, with what it had open.
    serving.abort();
    drop(home);
    until(|| Arc::strong_count(&first) == 1).await;
    drop(first);

    // It comes back and brings what it could not send.
    let second = Arc::new(second);
    let (home, ..) = serve_with(&two, &volumes(), None, (second.clone(), Arc::new(|_, _| {}))).await;
    let back = Member::join(&cluster, link(3, b"shared")).await;
    back.joined().await;
    let copying = copies::start(back.link.clone(), back.controller.map(), folders[0].path()).unwrap();
    copied(&home, 3).await;
    copying.stop();
    let all = ["after", "not sent", "while it is copied", "before"];
    assert_eq!(recorded(folders[0].path()), all);
    let page = Page { before: None, limit: 1000 };
    let there = second.events(&page, Severity::Info).unwrap();
    assert_eq!(there.into_iter().map(|it| it.event.message).collect::<Vec<_>>(), all);
    back.controller.leave().await;
    two.controller.leave().await;
}

/// The history has sign-ins and everything that users did.
#[tokio::test]
async fn the_history_is_sent_to_controllers_of_the_array_alone() {
    let cluster = store().await;
    let one = Member::join(&cluster, link(1, b"shared")).await;
    let (home, _) = serve(&one, &volumes(), None).await;
    let thief = Member::join(&cluster, link(3, b"guessed")).await;
    thief.joined().await;
    one.sees(3).await;
    for link in [&link(2, b"shared"), &thief.link] {
        let mut session =
            mutual_tls::connect(&one.link.address, &link.own.identity, HISTORY.tls).await.unwrap();
        let hello = serde_json::json!({"versions": [1, 1], "position": {"newest": {}, "tail": []}});
        // The home may have closed it already.
        _ = framed::send(&mut session.stream, &hello).await;
        assert!(framed::receive::<serde_json::Value>(&mut session.stream, 1 << 20).await.is_err());
    }
    assert!(!home.sends_history_to(2) && !home.sends_history_to(3));
    one.controller.leave().await;
    thief.controller.leave().await;
}

#[tokio::test]
async fn the_history_is_not_sent_any_more_to_a_controller_that_was_removed() {
    let cluster = store().await;
    let one = Member::join(&cluster, link(1, b"shared")).await;
    let (home, _) = serve(&one, &volumes(), None).await;
    let two = Member::join(&cluster, link(2, b"shared")).await;
    two.joined().await;
    one.sees(2).await;
    let mut session =
        mutual_tls::connect(&one.link.address, &two.link.own.identity, HISTORY.tls).await.unwrap();
    let hello = serde_json::json!({"versions": [1, 1], "position": {"newest": {}, "tail": []}});
    framed::send(&mut session.stream, &hello).await.unwrap();
    framed::receive::<serde_json::Value>(&mut session.stream, 1 << 20).await.unwrap();
    until(|| home.sends_history_to(2)).await;
    two.controller.leave().await;
    let mut map = one.controller.map();
    let left = map.wait_for(|map| map.as_ref().is_some_and(|it| it.active(MemberId(2)).is_none())).await;
    home.end_copies(left.unwrap().as_ref().unwrap());
    assert!(!home.sends_history_to(2));
    // What was sent before that can be read; then the connection ends.
    while framed::receive::<serde_json::Value>(&mut session.stream, 1 << 20).await.is_ok() {}
    one.controller.leave().await;
}

/// The first request of a connection, and what a home answers.
const REQUEST: &[u8] = b"GET /api/v1/array HTTP/1.1\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhome";

#[tokio::test]
async fn connections_of_the_api_are_passed_on_to_the_home() {
    let cluster = store().await;
    let one = Member::join(&cluster, link(1, b"shared")).await;
    let (taken, mut passed) = tokio::sync::mpsc::unbounded_channel();
    let take_api: TakeApi = Arc::new(move |stream, from| _ = taken.send((stream, from)));
    serve_with(&one, &volumes(), None, (Arc::new(Store::in_memory()), take_api)).await;
    let two = Member::join(&cluster, link(2, b"shared")).await;
    two.joined().await;
    let folder = tempfile::tempdir().unwrap();
    let (data, address) = (folder.path().to_owned(), "127.0.0.1:0".parse().unwrap());
    let config = crate::listening::Config { data, array: "ashlar".into(), address, tls_only: false };
    let listener = standby::listen(&config).unwrap();
    let api = listener.local_addr().unwrap();
    one.sees(2).await;
    let mut map = two.controller.map();
    let linked = Some((two.link, two.controller.map()));
    let answers = standby::Answers::start(&config, 16, listener, (two.board, linked)).unwrap();

    let mut client = TcpStream::connect(api).await.unwrap();
    client.write_all(REQUEST).await.unwrap();
    // The standby has connected by itself before, to learn the certificate.
    let (mut stream, from) = loop {
        let (stream, from): (Box<dyn api::Stream>, api::Relayed) = passed.recv().await.unwrap();
        if from.address != api {
            break (stream, from);
        }
    };
    let mut request = vec![0; REQUEST.len()];
    stream.read_exact(&mut request).await.unwrap();
    assert_eq!(request, REQUEST);
    let ends = (from.address, from.reached, from.plain);
    assert_eq!(ends, (client.local_addr().unwrap(), api.ip(), true));
    let access: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("api.json")).unwrap()).unwrap();
    let token = api::Token::new(access["token"].as_str().unwrap());
    assert_eq!(from.token.unwrap().digest(), token.digest(), "what is local there is local here");
    stream.write_all(ANSWER).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, ANSWER);

    // Without a home it answers itself.
    one.controller.leave().await;
    map.wait_for(|map| map.as_ref().is_some_and(|map| map.active(MemberId(1)).is_none())).await.unwrap();
    let mut client = TcpStream::connect(api).await.unwrap();
    client.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("\"kind\":\"standby\""), "{answer}");
    answers.stop();
    two.controller.leave().await;
}

/// The engine over the store, as its next owner opens it.
async fn engine_on(cluster: &Cluster, salt: u64, epoch: Option<u64>) -> Arc<Engine> {
    let open = OpenOptions { array: ARRAY, salt, epoch, ..OpenOptions::default() };
    let store = rados::Store::open(cluster.client(), open).await.unwrap();
    let engine = Engine::open(store, Options::new([7; 32])).await.unwrap();
    tokio::spawn(engine.background());
    engine
}

#[tokio::test]
async fn a_front_end_that_shares_the_store_reads_it_itself() {
    const BLOCKS: u64 = 64;
    let cluster = store().await;
    let before = engine_on(&cluster, 2, None).await;
    let geometry = Geometry { block_bytes: BLOCK as u32, blocks: 8 * BLOCKS };
    let volume = before.create_volume(DiskId(1), geometry, 0).await.unwrap();
    let mut random = block::workload::Random::new(1);
    let data: Vec<u8> = (0..BLOCKS * 512).flat_map(|_| random.next_u64().to_le_bytes()).collect();
    volume.execute(Op::Write { lba: 0, data: data.clone().into() }).await.unwrap();
    before.shutdown().await.unwrap();
    drop((volume, before));

    let one = Member::join(&cluster, link(1, b"shared")).await;
    let epoch = one.controller.home().await.unwrap().epoch;
    let engine = engine_on(&cluster, 3, Some(epoch)).await;
    let target = target_of(engine.volume(DiskId(1)).unwrap(), Power::Unknown { fresh: epoch });
    let home = Home::new(parts(&one, target, engine.clone()), TARGET, access());
    let map = one.controller.map().borrow().clone().unwrap();
    home.keep_state(&map).await;
    tokio::spawn(home.serve());
    let two = Member::join(&cluster, link(2, b"shared")).await;
    let running = front::start(two.link.clone(), two.controller.map(), two.joined().await).unwrap();
    let mut device = host(&running, &Arc::default()).await;

    // Nothing is cached, so that each read needs the store.
    let client = cluster.client();
    let reading = Reading::of(reading(0), &SharedStore::Rados(client.clone(), ARRAY)).unwrap();
    let reading = reading.start(running.front_end.clone());
    until(|| reading.is_decided()).await;
    for turn in 0..4 {
        if turn == 3 {
            // It is expelled from the store, and does not know that it is.
            cluster.client().fence(&client.instance()).await.unwrap();
        }
        // Not in order, so that nothing is read ahead of it. The first turn reads what a former owner has written: that is known
        // to the home after it was read.
        for at in (0..BLOCKS).map(|at| at * 29 % BLOCKS) {
            let cdb = [&[0x28, 0][..], &(at as u32 * 8).to_be_bytes(), &[0, 0, 8, 0]].concat();
            let response = perform(&mut device, &cdb, &[]).await;
            assert_eq!(response.status, Status::Good);
            let wanted = &data[at as usize * 4096..][..4096];
            assert!(response.data_in.to_bytes()[..] == *wanted, "block {at}, turn {turn}");
        }
    }
    running.stop();
    let counters = reading.end().await;
    assert!(counters.resolved > BLOCKS && counters.failed > 0, "{counters:?}");
    two.controller.leave().await;
    one.controller.leave().await;
}

#[tokio::test]
async fn a_front_end_that_has_no_key_gets_data_from_the_home() {
    let cluster = Cluster::default();
    let key = raid::encryption::DataKey::new([7; 32]);
    let envelope =
        raid::encryption::Envelope::wrap(ARRAY, &key, shelf::pool::KeySource::File, &[8; 32], [9; 12]);
    let open = OpenOptions { array: ARRAY, salt: 1, key: Some((key, envelope)), ..OpenOptions::default() };
    drop(rados::Store::format(cluster.client(), FormatOptions::new(64), open).await.unwrap());
    let reading = Reading::of(reading(1 << 20), &SharedStore::Rados(cluster.client(), ARRAY)).unwrap();
    let reading = reading.start(forward::FrontEnd::new(0, 1, super::now));
    until(|| reading.is_decided()).await;
    assert_eq!(reading.end().await, engine::ReaderCounters::default());
}
