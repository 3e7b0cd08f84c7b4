//! Portals and an address of the API that move: what the home serves for others, and what its machine has for that.

use crate::logins::login;
use crate::portals::{IQN, add, remove, serve_as, volume};
use crate::rig::{Rig, Up, controller, ok, refused};
use array::{
    AlertState, ChangeApiAddress, ConfirmApiAddress, ControllerState, CreatePortal, Kind, ListAlerts,
    ListPortals, OwnPorts, Portal, PortalEntry, PortalProtocol, PortalState, ShowApiAddress, ShowPortal,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener};

/// A loopback address of a test, which no other one uses.
const MOVING: &str = "127.0.0.77";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A port of an address that is free.
fn free(address: &str) -> SocketAddr {
    TcpListener::bind((ip(address), 0)).unwrap().local_addr().unwrap()
}

/// Controller 1, which is the home, with a portal by an option, and 2.
async fn start(rig: &Rig) -> Up {
    *rig.controllers.all.lock().unwrap() =
        vec![controller(1, ControllerState::Home), controller(2, ControllerState::Standby)];
    let up = rig.up().await;
    serve_as(&up, OwnPorts::shared(1)).await;
    up
}

fn moving(address: impl ToString, controller: u16) -> CreatePortal {
    CreatePortal { moves: true, controller: Some(controller), ..add(address) }
}

fn held(rig: &Rig) -> BTreeMap<IpAddr, usize> {
    rig.addresses.held.lock().unwrap().clone()
}

async fn entry(up: &Up, number: u16) -> PortalEntry {
    up.array.portals().iter().find(|it| it.number == number).unwrap().clone()
}

async fn shown(up: &Up, number: u16) -> Portal {
    ok(up, ShowPortal { number: number.to_string() }).await
}

#[tokio::test]
async fn the_machine_holds_an_address_as_long_as_the_portal_is_here() {
    let rig = Rig::new();
    let up = start(&rig).await;
    volume(&up).await;
    let address = free(MOVING);
    let portal = ok(&up, moving(address, 1)).await;
    assert_eq!((portal.number, portal.moves, portal.served_by), (2, true, 1));
    assert_eq!(portal.state, PortalState::Listening);
    assert_eq!(held(&rig), [(ip(MOVING), 1)].into());
    assert_eq!(login(&up, address, IQN).await.0, 0);
    up.server.close(0).await;
    up.crash().await;
    rig.addresses.held.lock().unwrap().clear();
    let up = start(&rig).await;
    assert_eq!(held(&rig), [(ip(MOVING), 1)].into(), "after a restart, too");
    ok(&up, remove(2, true, &["web1"])).await;
    assert_eq!(held(&rig), BTreeMap::new());
    up.server.close(0).await;
    up.down().await;
}

#[tokio::test]
async fn an_address_that_the_machine_cant_have_changes_nothing() {
    let rig = Rig::new();
    let up = start(&rig).await;
    rig.addresses.refused.lock().unwrap().insert(ip(MOVING));
    let error = refused(&up, moving(free(MOVING), 1)).await;
    assert_eq!((error.kind, error.field), (Kind::Precondition, Some("address")));
    assert_eq!((ok(&up, ListPortals).await.len(), held(&rig)), (1, BTreeMap::new()));
    // One that it may have later is tried again.
    ok(&up, CreatePortal { force: true, ..moving(free(MOVING), 1) }).await;
    assert_eq!(held(&rig), [(ip(MOVING), 1)].into());
    up.server.close(0).await;
    up.down().await;
}

#[tokio::test]
async fn an_address_that_another_machine_has_is_left_to_it() {
    let rig = Rig::new();
    let up = start(&rig).await;
    rig.addresses.used.lock().unwrap().extend([ip("192.0.2.50"), ip("192.0.2.60")]);
    let error = refused(&up, moving("192.0.2.50", 2)).await;
    assert_eq!((error.kind, error.field), (Kind::Conflict, Some("address")));
    assert!(error.to_string().contains("02:00:00:00:00:99"), "{error}");
    let api = ChangeApiAddress { address: Some("192.0.2.60".into()), moves: true };
    assert_eq!(refused(&up, api).await.kind, Kind::Conflict);
    assert_eq!((held(&rig), ok(&up, ListPortals).await.len()), (BTreeMap::new(), 1));
    // It is that of a portal already, which another controller serves: a second portal joins it.
    ok(&up, CreatePortal { force: true, ..moving("192.0.2.50", 2) }).await;
    ok(&up, moving("192.0.2.50:3261", 2)).await;
    up.server.close(0).await;
    up.down().await;
}

#[tokio::test]
async fn the_home_serves_portals_of_others_under_their_numbers() {
    let rig = Rig::new();
    let up = start(&rig).await;
    volume(&up).await;
    let address = free(MOVING);
    let portal = ok(&up, moving(address, 2)).await;
    assert_eq!((portal.number, portal.served_by, portal.state), (34, 2, PortalState::Elsewhere));
    assert_eq!(held(&rig), BTreeMap::new(), "it is the other machine's");
    let entry = entry(&up, 34).await;
    up.array.serve_moved(std::slice::from_ref(&entry)).await;
    up.array.serve_moved(std::slice::from_ref(&entry)).await;
    let portal = shown(&up, 34).await;
    assert_eq!((portal.controller, portal.served_by, portal.state), (2, 1, PortalState::Listening));
    assert_eq!(held(&rig), [(ip(MOVING), 1)].into(), "once");
    let (status, session) = login(&up, address, IQN).await;
    assert_eq!(status, 0);
    assert_eq!(up.server.sessions()[0].portal, 34, "reservations and statistics know it by this number");
    assert_eq!(shown(&up, 34).await.hosts, ["web1"]);
    drop(session);
    // Its controller is back.
    up.array.serve_moved(&[]).await;
    let portal = shown(&up, 34).await;
    assert_eq!((portal.served_by, portal.state), (2, PortalState::Elsewhere));
    assert_eq!(held(&rig), BTreeMap::new());
    assert!(std::net::TcpStream::connect(address).is_err());
    // It is removed while the home serves it.
    up.array.serve_moved(std::slice::from_ref(&entry)).await;
    ok(&up, remove(34, false, &[])).await;
    up.array.serve_moved(&[]).await;
    assert_eq!(held(&rig), BTreeMap::new());
    up.server.close(0).await;
    up.down().await;
}

#[tokio::test]
async fn a_portal_of_nvme_moves_like_others() {
    let rig = Rig::new();
    let up = start(&rig).await;
    let address = free(MOVING);
    let portal = ok(&up, CreatePortal { protocol: PortalProtocol::NvmeTcp, ..moving(address, 2) }).await;
    let entry = entry(&up, portal.number).await;
    up.array.serve_moved(&[entry]).await;
    assert_eq!(shown(&up, portal.number).await.state, PortalState::Listening);
    std::net::TcpStream::connect(address).unwrap();
    up.array.serve_moved(&[]).await;
    assert!(std::net::TcpStream::connect(address).is_err());
    up.server.close(0).await;
    up.nvme.shutdown().await;
    up.down().await;
}

#[tokio::test]
async fn all_portals_at_an_address_move_together_or_stay() {
    let rig = Rig::new();
    let up = start(&rig).await;
    ok(&up, moving("192.0.2.50", 2)).await;
    let stays = refused(&up, CreatePortal { moves: false, ..moving("192.0.2.50:3261", 2) }).await;
    assert_eq!((stays.kind, stays.field), (Kind::Conflict, Some("address")));
    let of_other = CreatePortal { force: true, ..moving("192.0.2.50:3261", 1) };
    assert_eq!(refused(&up, of_other).await.kind, Kind::Conflict);
    ok(&up, moving("192.0.2.50:3261", 2)).await;
    // Only the home serves NVMe/TCP and the API, whichever controller it is.
    let nvme = |address, controller| CreatePortal {
        protocol: PortalProtocol::NvmeTcp,
        ..moving(address, controller)
    };
    assert_eq!(refused(&up, nvme("192.0.2.50", 2)).await.kind, Kind::Conflict);
    let api = |address: &str| ChangeApiAddress { address: Some(address.into()), moves: true };
    assert_eq!(refused(&up, api("192.0.2.50")).await.kind, Kind::Conflict);
    ok(&up, nvme("192.0.2.51", 2)).await;
    ok(&up, api("192.0.2.51")).await;
    ok(&up, ConfirmApiAddress).await;
    assert_eq!(refused(&up, moving("192.0.2.51", 2)).await.kind, Kind::Conflict);
    // That of an option of controller 2.
    assert_eq!(refused(&up, moving("192.0.2.2:3261", 2)).await.kind, Kind::Conflict);
    assert_eq!(refused(&up, moving("0.0.0.0", 2)).await.field, Some("moves"));
    up.server.close(0).await;
    up.down().await;
    // Without other controllers nothing moves.
    let rig = Rig::new();
    let up = rig.up().await;
    crate::portals::serve(&up).await;
    let error = refused(&up, CreatePortal { controller: None, ..moving("192.0.2.50", 1) }).await;
    assert_eq!((error.kind, error.field), (Kind::Precondition, Some("moves")));
    let error = refused(&up, ChangeApiAddress { address: Some("192.0.2.50".into()), moves: true }).await;
    assert_eq!((error.kind, error.field), (Kind::Precondition, Some("moves")));
    up.server.close(0).await;
    up.down().await;
}

#[tokio::test]
async fn an_address_of_the_api_moves_with_the_home() {
    let rig = Rig::new();
    let up = start(&rig).await;
    let change =
        |address: Option<&str>| ChangeApiAddress { address: address.map(str::to_owned), moves: true };
    ok(&up, change(Some("192.0.2.60"))).await;
    assert_eq!(held(&rig), [(ip("192.0.2.60"), 1)].into(), "it is on trial");
    ok(&up, ConfirmApiAddress).await;
    let now = ok(&up, ShowApiAddress).await;
    let at = "192.0.2.60:8443".parse::<SocketAddr>().unwrap();
    assert_eq!((now.address, now.moving, now.moving_listens), (None, Some(at), true));
    // Another one takes its place.
    ok(&up, change(Some("192.0.2.61"))).await;
    assert_eq!(held(&rig).len(), 2);
    ok(&up, ConfirmApiAddress).await;
    assert_eq!(held(&rig), [(ip("192.0.2.61"), 1)].into());
    up.server.close(0).await;
    up.crash().await;
    // The next home is another controller.
    rig.addresses.held.lock().unwrap().clear();
    rig.api.open.lock().unwrap().clear();
    let up = rig.up().await;
    serve_as(&up, OwnPorts::shared(2)).await;
    rig.addresses.refused.lock().unwrap().insert(ip("192.0.2.61"));
    // The first notices it, the second raises the alert.
    up.array.tick().await;
    up.array.tick().await;
    assert!(!ok(&up, ShowApiAddress).await.moving_listens);
    let alerts = ok(&up, ListAlerts).await;
    assert!(alerts.iter().any(|it| it.kind == "api.down" && it.state != AlertState::Closed));
    assert_eq!(held(&rig), BTreeMap::new());
    rig.addresses.refused.lock().unwrap().clear();
    up.array.tick().await;
    up.array.tick().await;
    assert_eq!(ok(&up, ShowApiAddress).await.moving.map(|it| it.ip()), Some(ip("192.0.2.61")));
    assert_eq!(held(&rig), [(ip("192.0.2.61"), 1)].into());
    assert!(ok(&up, ShowApiAddress).await.moving_listens);
    ok(&up, change(None)).await;
    assert_eq!(held(&rig), BTreeMap::new());
    assert_eq!(ok(&up, ShowApiAddress).await.moving, None);
    up.server.close(0).await;
    up.down().await;
}
