//! Portals: the numbers that they keep over restarts, and portals that are added and removed while hosts are served.

use crate::logins::{closed, login};
use crate::rig::{Rig, Up, controller, ok, refused};
use array::{
    AlertState, ControllerState, CreateConnection, CreateHost, CreatePortal, CreateVolume, DeletePortal,
    Endpoint, Kind, ListAlerts, ListControllers, ListPaths, ListPortals, OwnPorts, PeerName, PortalEntry,
    PortalProtocol, PortalRemoval, PortalState, ShowHost, ShowPortal, TimeRange,
};
use iscsi::Portal;
use scsi::{Command, Direction, Execution, InitiatorPort, Lun, PortGroup, Response, Status, TaskAttribute};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

pub const IQN: &str = "iqn.1993-08.org.debian:01:web1";
const KVM: &str = "iqn.1993-08.org.debian:01:kvm1";
/// What the array is started with in tests that have sessions.
const OPTION: &str = "127.0.0.1:0";

fn iscsi(address: &str) -> Endpoint {
    Endpoint { protocol: PortalProtocol::Iscsi, address: address.into() }
}

fn own() -> OwnPorts {
    OwnPorts { controller: 1, group: 1, numbers: 1..=3, is_shared: false }
}

/// The numbers that portals get by options, in their order.
async fn settle(up: &Up, options: &[Endpoint]) -> Vec<u16> {
    let portals = up.array.settle_portals(own(), options).await.unwrap();
    portals.iter().map(|entry| entry.number).collect()
}

/// A command by a target port, after the unit attentions.
async fn command(up: &Up, port: u16, cdb: &[u8], data: &[u8]) -> Response {
    let nexus = up.target.attach(InitiatorPort::iscsi(IQN, [0; 6]), port);
    loop {
        let command = Command {
            tag: 1,
            lun: Lun([0; 8]),
            cdb: cdb.to_vec().into(),
            attribute: TaskAttribute::Simple,
            direction: if data.is_empty() { Direction::In } else { Direction::Out },
            data_out: bytes::Bytes::from(data.to_vec()).into(),
            data_in_limit: 4096,
        };
        let response = match nexus.execute(command) {
            Execution::Done(response) => response,
            Execution::Task(task) => task.await.expect("the task is not aborted"),
        };
        match response.status {
            Status::CheckCondition if response.sense[2] & 15 == 6 => {}
            _ => return response,
        }
    }
}

/// A volume that a host sees.
pub async fn volume(up: &Up) {
    ok(up, CreateVolume { name: "db".into(), bytes: 1 << 30, block_bytes: 512, ..CreateVolume::default() })
        .await;
    ok(up, CreateHost { name: "web1".into(), initiators: vec![IQN.into()], ..CreateHost::default() }).await;
    let (volume, peer) = ("db".into(), PeerName::Host("web1".into()));
    ok(up, CreateConnection { volume, peer, lun: Some(0), read_only: false, min_lun: None }).await;
}

/// PERSISTENT RESERVE OUT, REGISTER: the key that the host has, and the one that it gets; it survives a loss of power.
async fn register(up: &Up, port: u16, keys: [u8; 2]) {
    let mut list = [0; 24];
    (list[7], list[15], list[20]) = (keys[0], keys[1], 1);
    let done = command(up, port, &[0x5F, 0, 0, 0, 0, 0, 0, 0, 24, 0], &list).await;
    assert_eq!(done.status, Status::Good, "{:?}", done.sense);
}

/// The ports of the one target port group that hosts see.
async fn ports(up: &Up) -> Vec<u8> {
    let report = command(up, 1, &[0xA3, 0x0A, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]).await;
    let report = report.data_in.to_bytes();
    report[12..].chunks(4).map(|port| port[3]).collect()
}

#[tokio::test]
async fn portals_keep_their_numbers_over_restarts() {
    let rig = Rig::new();
    let up = rig.up().await;
    volume(&up).await;
    let nvme = Endpoint { protocol: PortalProtocol::NvmeTcp, address: "10.0.0.1:4420".into() };
    assert_eq!(settle(&up, &[iscsi("10.0.0.1:3260"), iscsi("10.0.1.1:3260"), nvme.clone()]).await, [1, 2, 3]);
    assert_eq!(ports(&up).await, [1, 2], "that of NVMe/TCP is no SCSI target port");
    up.crash().await;
    let up = rig.up().await;
    assert_eq!(settle(&up, &[nvme, iscsi("10.0.1.1:3260")]).await, [3, 2], "whatever their places");
    assert_eq!(ports(&up).await, [2]);
    up.down().await;
}

#[tokio::test]
async fn a_number_that_registrations_name_is_not_that_of_another_portal() {
    let rig = Rig::new();
    let up = rig.up().await;
    volume(&up).await;
    let all = ["10.0.0.1:3260", "10.0.1.1:3260", "10.0.2.1:3260"].map(iscsi);
    assert_eq!(settle(&up, &all).await, [1, 2, 3]);
    register(&up, 1, [0, 7]).await;
    up.down().await;
    let up = rig.up().await;
    assert_eq!(settle(&up, &all[2..]).await, [3]);
    up.down().await;
    let up = rig.up().await;
    let others = [iscsi("10.0.3.1:3260"), iscsi("10.0.4.1:3260")];
    let wanted = [&all[2..], &others].concat();
    assert_eq!(settle(&up, &wanted).await, [3, 2], "there is none for the third");
    register(&up, 1, [7, 0]).await;
    up.down().await;
    let up = rig.up().await;
    assert_eq!(settle(&up, &wanted).await, [3, 2, 1], "no registration names it any more");
    up.down().await;
}

/// Serves hosts as the process does after a start with [`OPTION`]; returns where.
pub async fn serve(up: &Up) -> SocketAddr {
    let own = OwnPorts { controller: 1, group: 1, numbers: 1..=64, is_shared: false };
    serve_as(up, own).await
}

pub async fn serve_as(up: &Up, own: OwnPorts) -> SocketAddr {
    let portals = up.array.settle_portals(own, &[iscsi(OPTION)]).await.unwrap();
    let of = |protocol| -> Vec<Portal> {
        let of = portals.iter().filter(|it| it.endpoint.protocol == protocol);
        let portal = |it: &PortalEntry| Portal {
            number: it.number,
            address: it.endpoint.socket().unwrap(),
            tls: it.tls,
        };
        of.map(portal).collect()
    };
    let shards = || vec![Handle::current()];
    let served = up.server.serve(&of(PortalProtocol::Iscsi), shards()).await.unwrap();
    let limits = transport::ConnectionLimits::new(64);
    up.nvme.serve(&of(PortalProtocol::NvmeTcp), shards(), limits).await.unwrap();
    up.array.share_connections();
    served[0].address
}

/// An address of this machine with a port that was free a moment ago, one for each test.
fn free(last: u8) -> SocketAddr {
    TcpListener::bind(SocketAddr::from(([127, 0, 31, last], 0))).unwrap().local_addr().unwrap()
}

pub fn add(address: impl ToString) -> CreatePortal {
    let (protocol, controller, tls, force) = (PortalProtocol::Iscsi, None, false, false);
    CreatePortal { address: address.to_string(), protocol, controller, tls, moves: false, force }
}

pub fn remove(which: impl ToString, force: bool, cut_off: &[&str]) -> DeletePortal {
    let cut_off = cut_off.iter().map(|name| (*name).to_owned()).collect();
    DeletePortal { number: which.to_string(), how: PortalRemoval { force, cut_off } }
}

#[tokio::test]
async fn an_added_portal_serves_at_once_and_after_a_crash() {
    let rig = Rig::new();
    let up = rig.up().await;
    volume(&up).await;
    serve(&up).await;
    let address = free(1);
    let portal = ok(&up, add(address)).await;
    assert_eq!((portal.number, portal.by_option, portal.state), (2, false, PortalState::Listening));
    assert_eq!(ports(&up).await, [1, 2]);
    let (status, session) = login(&up, address, IQN).await;
    assert_eq!(status, 0);
    assert_eq!(up.server.sessions()[0].portal, 2, "the session has its number");
    assert_eq!(ok(&up, ShowPortal { number: address.to_string() }).await.hosts, ["web1"]);
    up.server.close(0).await;
    drop(session);
    up.crash().await;
    let up = rig.up().await;
    serve(&up).await;
    let all = ok(&up, ListPortals).await;
    let shown: Vec<_> = all.iter().map(|it| (it.number, it.by_option, it.state)).collect();
    assert_eq!(shown, [(1, true, PortalState::Listening), (2, false, PortalState::Listening)]);
    assert_eq!(login(&up, address, IQN).await.0, 0);
    assert_eq!(ports(&up).await, [1, 2]);
    up.server.close(0).await;
    up.down().await;
}

#[tokio::test]
async fn a_portal_that_was_recorded_before_a_crash_serves_after_it() {
    let rig = Rig::new();
    let up = rig.up().await;
    volume(&up).await;
    serve(&up).await;
    up.down().await;
    // The next record reaches the drives, and the answer is lost.
    let up = rig.up_with_fuse(0, true).await.unwrap();
    serve(&up).await;
    let address = free(2);
    refused(&up, add(address)).await;
    assert!(TcpStream::connect(address).await.is_err(), "it was not opened");
    up.server.close(0).await;
    up.crash().await;
    let up = rig.up().await;
    serve(&up).await;
    assert_eq!(login(&up, address, IQN).await.0, 0);
    up.server.close(0).await;
    up.down().await;
}

#[tokio::test]
async fn wrong_addresses_change_nothing() {
    let rig = Rig::new();
    let up = rig.up().await;
    let option = serve(&up).await;
    let taken = TcpListener::bind("127.0.31.3:0").unwrap();
    let address = taken.local_addr().unwrap();
    for (text, kind, field) in [
        (address.to_string(), Kind::Precondition, "address"),
        // TEST-NET-3: no machine has it.
        ("203.0.113.1".into(), Kind::Precondition, "address"),
        (option.to_string(), Kind::Conflict, "address"),
        (format!("0.0.0.0:{}", option.port()), Kind::Conflict, "address"),
        ("storage-1".into(), Kind::Invalid, "address"),
        ("127.0.0.1:0".into(), Kind::Invalid, "address"),
        ("224.0.0.1".into(), Kind::Invalid, "address"),
    ] {
        let error = refused(&up, add(&text)).await;
        assert_eq!((error.kind, error.field), (kind, Some(field)), "{text}: {error:?}");
    }
    let fibre = CreatePortal { protocol: PortalProtocol::FibreChannel, ..add("10.0.0.1") };
    assert_eq!(refused(&up, fibre).await.field, Some("protocol"));
    assert_eq!(ok(&up, ListPortals).await.len(), 1);

    // It is wanted all the same: it serves as soon as it can.
    let portal = ok(&up, CreatePortal { force: true, ..add(address) }).await;
    assert_eq!(portal.state, PortalState::Down);
    assert!(portal.reason.as_ref().is_some_and(|why| !why.is_empty()), "{portal:?}");
    up.array.tick().await;
    let alerts = ok(&up, ListAlerts).await;
    let open = alerts.iter().filter(|it| it.state != AlertState::Closed);
    assert!(open.into_iter().any(|it| it.kind == "portal.down"));
    drop(taken);
    while ok(&up, ShowPortal { number: "2".into() }).await.state != PortalState::Listening {
        tokio::task::yield_now().await;
    }
    up.server.close(0).await;
    up.down().await;
}

#[tokio::test]
async fn a_controller_has_32_portals_at_most() {
    let rig = Rig::new();
    let up = rig.up().await;
    serve(&up).await;
    for number in 1..32 {
        ok(&up, CreatePortal { force: true, ..add(format!("203.0.113.{number}")) }).await;
    }
    let error = refused(&up, CreatePortal { force: true, ..add("203.0.113.32") }).await;
    assert_eq!(error.kind, Kind::Precondition);
    ok(&up, remove("203.0.113.7:3260", false, &[])).await;
    let portal = ok(&up, CreatePortal { force: true, ..add("203.0.113.32") }).await;
    assert_eq!(portal.number, 33, "not that of the one before");
    let again = remove("203.0.113.8:3260", false, &[]);
    ok(&up, again).await;
    let again = ok(&up, CreatePortal { force: true, ..add("203.0.113.7") }).await;
    assert_eq!(again.number, 8, "the same portal has its number again");
    up.server.close(0).await;
    up.down().await;
}

#[tokio::test]
async fn a_portal_is_not_taken_from_hosts_unless_that_is_wanted() {
    let rig = Rig::new();
    let up = rig.up().await;
    volume(&up).await;
    ok(&up, CreateHost { name: "kvm1".into(), initiators: vec![KVM.into()], ..CreateHost::default() }).await;
    let option = serve(&up).await;
    let address = free(4);
    ok(&up, add(address)).await;
    let (_, first) = login(&up, option, IQN).await;
    let (_, second) = login(&up, address, IQN).await;
    let error = refused(&up, remove(address, false, &[])).await;
    assert_eq!((error.kind, error.field), (Kind::Precondition, Some("force")));
    assert!(error.message.contains("web1"), "{error:?}");
    let (_, only) = login(&up, address, KVM).await;
    for (force, cut_off) in [(true, &[][..]), (true, &["web1"])] {
        let error = refused(&up, remove(address, force, cut_off)).await;
        assert_eq!(error.field, Some("cut_off"));
        assert!(error.message.contains("only path of kvm1"), "{error:?}");
    }
    assert_eq!(up.server.sessions().len(), 3, "nothing was done");
    let ends = async {
        tokio::join!(closed(second), closed(only));
    };
    let ((), ()) = tokio::join!(ok(&up, remove(address, true, &["kvm1"])), ends);
    assert_eq!(up.server.sessions().len(), 1);
    assert_eq!(ports(&up).await, [1]);
    assert!(TcpStream::connect(address).await.is_err());
    let error = refused(&up, remove("1", true, &["web1"])).await;
    assert!(error.message.contains("option"), "{error:?}");
    assert_eq!(refused(&up, remove(address, true, &[])).await.kind, Kind::NotFound);
    up.server.close(0).await;
    drop(first);
    up.down().await;
    let up = rig.up().await;
    serve(&up).await;
    assert_eq!(ok(&up, ListPortals).await.len(), 1);
    up.server.close(0).await;
    up.down().await;
}

#[tokio::test]
async fn nvme_portals_are_added_to_an_array_without_them() {
    let rig = Rig::new();
    let up = rig.up().await;
    serve(&up).await;
    let address = free(5);
    let portal = ok(&up, CreatePortal { protocol: PortalProtocol::NvmeTcp, ..add(address) }).await;
    assert_eq!((portal.number, portal.state), (2, PortalState::Listening));
    drop(TcpStream::connect(address).await.unwrap());
    assert_eq!(ok(&up, ListPortals).await[0].number, 1);
    ok(&up, remove(2, false, &[])).await;
    assert!(TcpStream::connect(address).await.is_err());
    up.server.close(0).await;
    up.nvme.shutdown().await;
    up.down().await;
}

/// The first bytes with which a server answers the beginning of NVMe/TCP without TLS.
async fn answer(address: SocketAddr) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut request = [0; 128];
    (request[2], request[4]) = (128, 128);
    stream.write_all(&request).await.unwrap();
    let mut answer = vec![0; 8];
    let _ended = stream.read_exact(&mut answer).await;
    answer
}

#[tokio::test]
async fn a_portal_requires_tls_from_its_beginning_and_after_a_restart() {
    const IC_RESPONSE: u8 = 1;
    let rig = Rig::new();
    let up = rig.up().await;
    serve(&up).await;
    let with_tls = |address, protocol| CreatePortal { protocol, tls: true, ..add(address) };
    let error = refused(&up, with_tls(free(6), PortalProtocol::Iscsi)).await;
    assert!(error.kind == Kind::Invalid && error.message.contains("NVMe/TCP"), "{error:?}");
    let (plain, secure) = (free(6), free(7));
    ok(&up, CreatePortal { protocol: PortalProtocol::NvmeTcp, ..add(plain) }).await;
    assert!(ok(&up, with_tls(secure, PortalProtocol::NvmeTcp)).await.tls);
    assert_eq!(answer(plain).await[0], IC_RESPONSE);
    assert_ne!(answer(secure).await[0], IC_RESPONSE);
    up.server.close(0).await;
    up.nvme.shutdown().await;
    up.down().await;
    let up = rig.up().await;
    serve(&up).await;
    let tls: Vec<_> = ok(&up, ListPortals).await.iter().map(|it| it.tls).collect();
    assert_eq!(tls, [false, false, true]);
    assert_eq!(answer(plain).await[0], IC_RESPONSE);
    assert_ne!(answer(secure).await[0], IC_RESPONSE);
    up.server.close(0).await;
    up.nvme.shutdown().await;
    up.down().await;
}

#[tokio::test]
async fn a_portal_of_another_controller_is_opened_there() {
    let rig = Rig::new();
    *rig.controllers.all.lock().unwrap() =
        vec![controller(1, ControllerState::Home), controller(2, ControllerState::Standby)];
    let up = rig.up().await;
    serve_as(&up, OwnPorts::shared(1)).await;
    let of = |controller| CreatePortal { controller: Some(controller), ..add("192.0.2.9") };
    assert_eq!(refused(&up, of(3)).await.field, Some("controller"));
    let portal = ok(&up, of(2)).await;
    assert_eq!((portal.number, portal.state), (34, PortalState::Elsewhere));
    let all: Vec<_> = ok(&up, ListPortals).await.iter().map(|it| (it.number, it.by_option)).collect();
    assert_eq!(
        all,
        [(1, true), (33, true), (34, false)],
        "the one that it has by an option keeps its number"
    );
    assert_eq!(refused(&up, of(2)).await.kind, Kind::Conflict);
    ok(&up, remove(34, false, &[])).await;
    assert_eq!(ok(&up, ListPortals).await.len(), 2);
    up.server.close(0).await;
    up.down().await;
}

/// A session at a portal of another controller is a nexus of the target like any other.
#[tokio::test]
async fn sessions_at_the_portals_of_all_controllers_count() {
    let rig = Rig::new();
    *rig.controllers.all.lock().unwrap() =
        vec![controller(1, ControllerState::Home), controller(2, ControllerState::Standby)];
    let up = rig.up().await;
    volume(&up).await;
    let address = serve_as(&up, OwnPorts::shared(1)).await;
    let (status, session) = login(&up, address, IQN).await;
    assert_eq!(status, 0);
    let has_one_path = async || {
        rig.clock.fetch_add(61, Ordering::SeqCst);
        up.array.tick().await;
        let alerts = ok(&up, ListAlerts).await;
        alerts.iter().any(|it| it.state != AlertState::Closed && it.kind == "host.one-path")
    };
    let sessions = async || -> Vec<_> {
        ok(&up, ListControllers).await.iter().map(|it| (it.number, it.sessions)).collect()
    };
    assert!(!has_one_path().await, "there is one portal");
    let mut groups = up.target.port_groups().to_vec();
    groups.push(PortGroup { id: 2, ports: vec![33], is_active: true });
    up.target.set_port_groups(groups);
    assert!(has_one_path().await, "it does not use the other controller");
    let nexus = up.target.attach(InitiatorPort::iscsi(IQN, [2; 6]), 33);
    assert!(!has_one_path().await);
    assert_eq!(sessions().await, [(1, 1), (2, 1)]);
    let host = || ShowHost { name: "web1".into() };
    assert_eq!(ok(&up, host()).await.sessions, 2);
    let paths = ok(&up, ListPaths { host: None, range: TimeRange::default() }).await;
    let paths: Vec<_> = paths.iter().map(|path| (path.portal, path.sessions)).collect();
    assert_eq!(paths, [(1, 1), (33, 1)]);
    drop(nexus);
    assert_eq!(sessions().await, [(1, 1), (2, 0)]);
    assert_eq!(ok(&up, host()).await.sessions, 1);
    up.server.close(0).await;
    drop(session);
    up.down().await;
}
