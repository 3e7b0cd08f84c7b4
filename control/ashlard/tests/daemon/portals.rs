//! Portals that are added and removed while the array serves hosts.

use crate::initiator::log_in;
use crate::process::{fails, json, start};
use std::net::{TcpListener, TcpStream};

const IQN: &str = "iqn.1993-08.org.debian:01:web1";

/// An address of this machine with a port that was free a moment ago.
fn free(ip: &str) -> String {
    TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap().to_string()
}

#[test]
fn an_added_portal_serves_at_once_and_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = start(data, &[]).unwrap();
    json(data, &format!("host create web1 --iqn {IQN}"));
    let target = daemon.ready["target_iqn"].as_str().unwrap().to_owned();
    let address = free("127.0.32.1");
    let portal = json(data, &format!("portal add {address}"));
    assert_eq!((&portal["state"], &portal["by_option"]), (&"listening".into(), &false.into()));
    let number = portal["number"].clone();
    assert_eq!(log_in(&address, IQN, &target).1, 0);
    let error = fails(data, &format!("portal add {address}"), 1);
    assert!(error.contains("has this address"), "{error}");
    let option = daemon.ready["portals"][0].as_str().unwrap();
    let error = fails(data, &format!("portal remove {option}"), 1);
    assert!(error.contains("option"), "{error}");

    daemon.kill();
    let daemon = start(data, &[]).unwrap();
    let (_session, status) = log_in(&address, IQN, &target);
    assert_eq!(status, 0);
    assert_eq!(json(data, &format!("portal show {address}"))["number"], number);
    let error = fails(data, &format!("portal remove {address} --force"), 1);
    assert!(error.contains("only path of web1"), "{error}");
    json(data, &format!("portal remove {address} --force --cut-off web1"));
    assert!(TcpStream::connect(&address).is_err());
    assert_eq!(json(data, "portal list").as_array().unwrap().len(), 2);
    assert!(daemon.stop().success());
}
