//! Hosts that log in over iSCSI: a change of access ends their sessions, and reasons of refusals are reported.

use crate::process::{Daemon, json, start};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

const WEB: &str = "iqn.1993-08.org.debian:01:web1";
const DB: &str = "iqn.1993-08.org.debian:01:db1";

/// Logs in at the first portal without CHAP, in one step: status class and detail, and the connection.
fn login(daemon: &Daemon, initiator: &str) -> (u16, TcpStream) {
    let target = daemon.ready["target_iqn"].as_str().unwrap();
    let text = format!("InitiatorName={initiator}\0TargetName={target}\0").into_bytes();
    let mut pdu = vec![0u8; 48];
    (pdu[0], pdu[1], pdu[7]) = (0x43, 0x87, text.len() as u8);
    pdu[8..14].copy_from_slice(&[0x80, 0, 0, 0, 0, 1]);
    pdu.extend_from_slice(&text);
    pdu.resize(pdu.len().next_multiple_of(4), 0);
    let mut stream = TcpStream::connect(daemon.ready["portals"][0].as_str().unwrap()).unwrap();
    stream.write_all(&pdu).unwrap();
    let mut answer = [0; 48];
    stream.read_exact(&mut answer).unwrap();
    let mut text = vec![0; usize::from(answer[7]).next_multiple_of(4)];
    stream.read_exact(&mut text).unwrap();
    (u16::from_be_bytes([answer[36], answer[37]]), stream)
}

/// Waits until the array has closed the connection.
fn closed(mut stream: TcpStream) {
    while stream.read(&mut [0; 64]).unwrap_or(0) > 0 {}
}

/// Whether the array answers a NOP-Out on the connection.
fn lives(stream: &mut TcpStream) -> bool {
    let mut nop = [0u8; 48];
    (nop[0], nop[1], nop[19]) = (0x40, 0x80, 9);
    nop[20..24].copy_from_slice(&[0xFF; 4]);
    stream.write_all(&nop).unwrap();
    let mut answer = [0; 48];
    stream.read_exact(&mut answer).is_ok() && answer[0] & 0x3F == 0x20
}

/// What `ashlar` answers, as soon as it holds.
fn once(data: &Path, words: &str, holds: impl Fn(&Value) -> bool) -> Value {
    loop {
        let answer = json(data, words);
        if holds(&answer) {
            return answer;
        }
    }
}

#[test]
fn a_host_is_logged_out_when_its_chap_changes_and_operators_learn_why_it_can_not_log_in() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = start(data, &[]).unwrap();
    closed(login(&daemon, WEB).1);
    let refused = once(data, "host refused-logins", |all| !all.as_array().unwrap().is_empty());
    let first = &refused[0];
    assert_eq!((first["initiator"].as_str(), &first["host"]), (Some(WEB), &Value::Null));
    assert_eq!(first["reason"], "no host has this initiator name");
    json(data, &format!("host create web1 --iqn {WEB}"));
    json(data, &format!("host create db1 --iqn {DB}"));
    let ((web_status, mut web), (db_status, mut db)) = (login(&daemon, WEB), login(&daemon, DB));
    assert_eq!((web_status, db_status), (0, 0));
    json(data, "host set web1 --name web2");
    assert!(lives(&mut web) && lives(&mut db));
    json(data, "host set web2 --chap-user web --chap-secret longenough123");
    closed(web);
    closed(login(&daemon, WEB).1);
    assert!(lives(&mut db), "the access of this one did not change");
    // The refusal of before is over with the log-in.
    let host = once(data, "host show web2", |host| host["refused_logins"][0]["cause"] == "chap-required");
    assert_eq!(host["refused_logins"].as_array().unwrap().len(), 1);
    let of = |event: &Value, kind: &str| event["kind"] == kind && event["name"] == "web2";
    let kinds = ["host.logged-out", "host.login-refused"];
    let events = once(data, "event list", |events| {
        let events = events.as_array().unwrap();
        kinds.iter().all(|kind| events.iter().any(|event| of(event, kind)))
    });
    assert!(events.to_string().contains("access changed"));
    assert!(!events.to_string().contains("longenough123"));
}
