//! The address of the API: on trial, confirmed, given up, and after restarts.

use crate::rig::{Rig, Up, ok, refused};
use array::{
    AlertState, ApiAddress, ChangeApiAddress, ConfirmApiAddress, Kind, ListAlerts, OwnPorts, ShowApiAddress,
};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

const OLD: &str = "10.0.0.1:8443";
const NEW: &str = "10.0.1.1:9443";

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

async fn start(rig: &Rig) -> Up {
    rig.api.open.lock().unwrap().clear();
    let up = rig.up().await;
    let own = OwnPorts { controller: 1, group: 1, numbers: 1..=32, is_shared: false };
    up.array.settle_portals(own, &[]).await.unwrap();
    up
}

fn change(address: &str) -> ChangeApiAddress {
    ChangeApiAddress { address: Some(address.into()), moves: false }
}

async fn shown(up: &Up) -> ApiAddress {
    ok(up, ShowApiAddress).await
}

fn open(rig: &Rig) -> Vec<SocketAddr> {
    rig.api.open.lock().unwrap().keys().copied().collect()
}

/// An administrator has come in by an address.
fn used(rig: &Rig, address: &str) {
    rig.api.open.lock().unwrap().insert(at(address), true);
}

#[tokio::test]
async fn a_new_address_replaces_the_one_before_once_a_request_came_by_it() {
    let rig = Rig::new();
    let up = start(&rig).await;
    let tried = ok(&up, change("10.0.0.1")).await;
    assert_eq!((tried.address, tried.trial), (None, Some(at(OLD))));
    assert_eq!(open(&rig), [at(OLD)]);
    up.array.tick().await;
    assert_eq!(shown(&up).await.trial, Some(at(OLD)), "no request came by it");
    used(&rig, OLD);
    up.array.tick().await;
    let now = shown(&up).await;
    assert_eq!((now.address, now.listens, now.trial), (Some(at(OLD)), true, None));

    ok(&up, change(NEW)).await;
    assert_eq!(open(&rig), [at(OLD), at(NEW)], "both, until the new one has proven itself");
    ok(&up, ConfirmApiAddress).await;
    assert_eq!(open(&rig), [at(NEW)]);
    assert_eq!(refused(&up, ConfirmApiAddress).await.kind, Kind::Precondition);
    up.crash().await;
    let up = start(&rig).await;
    up.array.tick().await;
    assert_eq!(open(&rig), [at(NEW)], "after a restart, too");
    ok(&up, ChangeApiAddress { address: None, moves: false }).await;
    assert_eq!((open(&rig), shown(&up).await.address), (vec![], None));
    up.down().await;
}

#[tokio::test]
async fn an_address_that_nobody_reaches_is_given_up() {
    let rig = Rig::new();
    let up = start(&rig).await;
    ok(&up, change(OLD)).await;
    ok(&up, ConfirmApiAddress).await;
    ok(&up, change(NEW)).await;
    rig.clock.fetch_add(599, Ordering::SeqCst);
    up.array.tick().await;
    assert_eq!(open(&rig), [at(OLD), at(NEW)]);
    rig.clock.fetch_add(1, Ordering::SeqCst);
    up.array.tick().await;
    assert_eq!(open(&rig), [at(OLD)]);
    let now = shown(&up).await;
    assert_eq!((now.address, now.trial), (Some(at(OLD)), None));

    // A crash gives it up, too: it was not recorded.
    ok(&up, change(NEW)).await;
    up.crash().await;
    let up = start(&rig).await;
    up.array.tick().await;
    assert_eq!(open(&rig), [at(OLD)]);
    up.down().await;
}

#[tokio::test]
async fn wrong_addresses_change_nothing() {
    let rig = Rig::new();
    let up = start(&rig).await;
    rig.api.taken.lock().unwrap().insert(at(NEW));
    for (text, kind) in
        [(NEW, Kind::Precondition), ("management", Kind::Invalid), ("10.0.0.1:0", Kind::Invalid)]
    {
        let error = refused(&up, change(text)).await;
        assert_eq!((error.kind, error.field), (kind, Some("address")), "{text}");
    }
    let now = shown(&up).await;
    assert_eq!((now.address, now.trial, open(&rig)), (None, None, vec![]));
    up.down().await;
}

#[tokio::test]
async fn an_address_that_is_not_there_after_a_restart_is_an_alert_until_it_is() {
    let rig = Rig::new();
    let up = start(&rig).await;
    ok(&up, change(OLD)).await;
    ok(&up, ConfirmApiAddress).await;
    up.down().await;
    rig.api.taken.lock().unwrap().insert(at(OLD));
    let up = start(&rig).await;
    let is_alert = async || {
        // The first notices it, the second raises the alert.
        up.array.tick().await;
        up.array.tick().await;
        let alerts = ok(&up, ListAlerts).await;
        alerts.iter().any(|it| it.kind == "api.down" && it.state != AlertState::Closed)
    };
    assert!(is_alert().await);
    assert!(!shown(&up).await.listens);
    rig.api.taken.lock().unwrap().clear();
    assert!(!is_alert().await);
    assert_eq!(open(&rig), [at(OLD)]);
    up.down().await;
}
