//! Portals and addresses of the API that come and go while the array is served.

use crate::http::Api;
use crate::initiator::log_in;
use crate::process::{fails, json, start};
use serde_json::{Value, json as value};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

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

#[test]
fn another_address_of_the_api_is_kept_once_it_was_used() {
    let api = Api::start();
    let (first, second) = (free("127.0.33.1"), free("127.0.33.2"));
    let shown = || api.ask("GET", "/api/v1/api-address", Value::Null).body;
    let status = |address: &str| {
        let request = api.agent.get(format!("http://{address}/api/v1/array"));
        let answer = request.header("authorization", format!("Bearer {}", api.token)).call();
        answer.map(|answer| answer.status().as_u16()).ok()
    };
    let kept = |address: &str| {
        let begin = Instant::now();
        while shown()["address"] != address {
            assert!(begin.elapsed() < Duration::from_secs(120), "{address} is kept");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let answer = api.ask("PUT", "/api/v1/api-address", value!({ "address": first }));
    assert_eq!((answer.status, &answer.body["trial"]), (200, &first.as_str().into()));
    assert_eq!(shown()["address"], Value::Null, "requests by another address prove nothing");
    assert_eq!(status(&first), Some(200));
    kept(&first);

    // What was kept serves until the new one has proven itself.
    let taken = TcpListener::bind(&second).unwrap();
    let change = value!({ "address": second });
    api.ask("PUT", "/api/v1/api-address", change.clone()).assert_problem(409, "precondition");
    drop(taken);
    assert_eq!(api.ask("PUT", "/api/v1/api-address", change).status, 200);
    assert_eq!((status(&first), status(&second)), (Some(200), Some(200)));
    kept(&second);
    // The former listener is closed after that.
    let begin = Instant::now();
    while TcpStream::connect(&first).is_ok() {
        assert!(begin.elapsed() < Duration::from_secs(120), "{first} is still listened on");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(status(&second), Some(200));
}
