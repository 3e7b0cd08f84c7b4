//! Two arrays that are paired over loopback, with TLS.

use crate::process::{Daemon, fails, json as cli, start};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

fn listening(data: &Path) -> (Daemon, String) {
    let daemon = start(data, &["--replication", "127.0.0.1:0"]).unwrap();
    let address = daemon.ready["replication"].as_str().unwrap().to_owned();
    (daemon, address)
}

/// Waits until a remote array is in a state.
fn await_state(data: &Path, name: &str, state: &str) -> Value {
    loop {
        let shown = cli(data, &format!("remote-array show {name}"));
        if shown["link"]["state"] == state {
            return shown;
        }
    }
}

#[test]
fn two_arrays_are_paired_and_know_each_other_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (&folder.path().join("one"), &folder.path().join("other"));
    let (first, _) = listening(one);
    let (second, address) = listening(other);
    cli(other, "array set --name dr");

    // A connection without the key of an array is refused.
    let mut stranger = TcpStream::connect(&address).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut said = Vec::new();
    _ = stranger.read_to_end(&mut said);
    assert!(!said.starts_with(b"HTTP"), "{said:?}");

    let key = cli(other, "remote-array key");
    let text = key["key"].as_str().unwrap();
    assert_eq!(
        u64::from(address.rsplit(':').next().unwrap().parse::<u16>().unwrap()),
        key["port"].as_u64().unwrap()
    );
    let wrong = "00000000-00000000-00000000-00000000";
    let error = fails(one, &format!("remote-array pair {address} --key {wrong}"), 1);
    assert!(error.contains("wrong, was used, or has expired"), "{error}");
    let paired = cli(one, &format!("remote-array pair {address} --key {text}"));
    assert_eq!((&paired["name"], &paired["link"]["state"]), (&"dr".into(), &"connected".into()));
    let back = cli(other, "remote-array list")[0].clone();
    assert_eq!(back["name"], "ashlar");
    assert_eq!(back["address"].as_str().unwrap(), first.ready["replication"].as_str().unwrap());
    assert_ne!(back["fingerprint"], paired["fingerprint"]);
    let error = fails(one, &format!("remote-array pair {address} --key {text}"), 1);
    assert!(error.contains("was used"), "{error}");

    // Both keep it over a restart, and the first finds the second at its new address.
    first.kill();
    second.kill();
    let _first = start(one, &[]).unwrap();
    let (_second, address) = listening(other);
    let refused = fails(one, "remote-array key", 1);
    assert!(refused.contains("does not listen"), "{refused}");
    cli(one, &format!("remote-array set dr --address {address}"));
    let shown = await_state(one, "dr", "connected");
    assert!(shown["link"]["rtt_us"].is_u64(), "{shown}");
    cli(other, "remote-array delete ashlar");
    let shown = await_state(one, "dr", "disconnected");
    assert!(
        shown["link"]["problem"].as_str().unwrap().contains("not paired with this array any more"),
        "{shown}"
    );
    cli(one, "remote-array rename dr gone");
    assert_eq!(cli(one, "remote-array delete gone")["deleted"], "gone");
}
