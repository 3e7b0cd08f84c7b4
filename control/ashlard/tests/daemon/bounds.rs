//! Resources that unauthenticated clients of the API can use: never those that hosts need.

use crate::http::Api;
use crate::initiator::log_in;
use crate::process::{json as cli, start_within};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const IQN: &str = "iqn.1993-08.org.debian:01:web1";
/// An answer that takes longer is none.
const TIMEOUT: Duration = Duration::from_secs(60);

fn connect(url: &str) -> TcpStream {
    let address: SocketAddr = url.rsplit_once("//").unwrap().1.parse().unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// What comes until the other side ends it.
fn rest(mut stream: &TcpStream) -> String {
    let mut text = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn ask(url: &str, token: &str) -> String {
    let stream = connect(url);
    let head = format!(
        "GET /api/v1/array HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    (&stream).write_all(head.as_bytes()).unwrap();
    rest(&stream)
}

#[test]
fn idle_connections_keep_neither_hosts_nor_operators_out() {
    const IDLE: usize = 1100;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    if limit.maximum.is_some_and(|most| most < 4 * IDLE as u64) {
        return eprintln!("skipped: the test itself has too few descriptors");
    }
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = start_within(data, 1024).unwrap();
    cli(data, &format!("host create web1 --iqn {IQN}"));
    let access: Value = serde_json::from_slice(&std::fs::read(data.join("api.json")).unwrap()).unwrap();
    let token = access["token"].as_str().unwrap();
    let portal = daemon.ready["portals"][0].as_str().unwrap();
    let target = daemon.ready["target_iqn"].as_str().unwrap();
    let mut idle: Vec<_> = (0..IDLE).map(|_| connect(daemon.url())).collect();
    for (number, stream) in idle.iter_mut().enumerate() {
        // Some say nothing, some half a word of HTTP, some half a word of TLS. Those that gave way are closed.
        let _ = match number % 3 {
            0 => Ok(()),
            1 => stream.write_all(b"GET / HT"),
            _ => stream.write_all(&[22, 3, 1, 2, 0]),
        };
    }
    let sessions: Vec<_> = (0..8).map(|_| log_in(portal, IQN, target)).collect();
    assert!(sessions.iter().all(|(_, status)| *status == 0));
    assert!(ask(daemon.url(), token).starts_with("HTTP/1.1 200"));
    drop(idle);
}

#[test]
fn a_body_is_read_only_after_authentication() {
    let api = Api::start();
    for (path, token) in [("volumes", ""), ("volumes", "Authorization: Bearer wrong\r\n"), ("nothing", "")] {
        let head = format!(
            "POST /api/v1/{path} HTTP/1.1\r\nHost: a\r\n{token}Content-Type: application/json\r\n\
             Content-Length: 60000\r\n\r\n"
        );
        let stream = connect(&api.url);
        (&stream).write_all(head.as_bytes()).unwrap();
        // Nothing of the body is ever sent.
        let said = rest(&stream);
        assert!(said.starts_with("HTTP/1.1 401"), "{path}: {said}");
    }
    let big = format!(
        "POST /api/v1/session HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 40000\r\n\r\n{}",
        " ".repeat(40_000)
    );
    let stream = connect(&api.url);
    // What is not read may reset the connection before the answer is.
    let _ = (&stream).write_all(big.as_bytes());
    let said = rest(&stream);
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 413"), "{said}");
}

#[test]
fn slow_clients_are_disconnected() {
    let api = Api::start();
    let (head, body, plain) = (connect(&api.url), connect(&api.url), connect(&api.url));
    (&head).write_all(b"GET /api/v1/array HTTP/1.1\r\nHost: a\r\n").unwrap();
    let half = format!(
        "POST /api/v1/volumes HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: 100\r\n\r\n{{",
        api.token
    );
    (&body).write_all(half.as_bytes()).unwrap();
    assert!(rest(&body).starts_with("HTTP/1.1 408"));
    let said = rest(&head);
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{said}");
    assert_eq!(rest(&plain), "");
}
