//! Two arrays, of which one replicates a volume group to the other, both killed in the middle of a transfer.

use crate::initiator::Session;
use crate::process::{Daemon, fails, json as cli, start};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};

const BLOCK_BYTES: usize = 4096;
const WRITE_BYTES: usize = 8192;
/// What is written to each volume.
const VOLUME_BYTES: usize = 4 << 20;
/// What goes through before an array is killed: more than one offer, less than all.
const ALLOWED_BYTES: u64 = 3 << 20;
/// Blocks that a host writes in turn.
const WRITTEN_BLOCKS: u64 = 64;

/// A network between both arrays that lets through a number of bytes, and then reports that it holds the rest back.
struct Network {
    address: String,
    left: Arc<(Mutex<u64>, Condvar)>,
    stalled: Receiver<()>,
}

impl Network {
    fn to(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let left = Arc::new((Mutex::new(u64::MAX), Condvar::new()));
        let ((report, stalled), there, ours) = (channel(), target.to_owned(), left.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(from), Ok(to)) = (stream, TcpStream::connect(&there)) else { continue };
                let (left, report) = (ours.clone(), report.clone());
                let (back, forth) = (to.try_clone().unwrap(), from.try_clone().unwrap());
                std::thread::spawn(move || carry(from, to, Some((left, report))));
                std::thread::spawn(move || carry(back, forth, None));
            }
        });
        Self { address, left, stalled }
    }

    /// Lets through so much from now on.
    fn allow(&self, bytes: u64) {
        while self.stalled.try_recv().is_ok() {}
        *self.left.0.lock().unwrap() = bytes;
        self.left.1.notify_all();
    }

    /// Waits until it holds something back.
    fn await_stall(&self) {
        self.stalled.recv().unwrap();
    }
}

type Limit = (Arc<(Mutex<u64>, Condvar)>, Sender<()>);

fn carry(mut from: TcpStream, mut to: TcpStream, limit: Option<Limit>) {
    let mut part = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut part) {
        if let Some((left, report)) = &limit {
            let mut now = left.0.lock().unwrap();
            while *now < count as u64 {
                _ = report.send(());
                now = left.1.wait(now).unwrap();
            }
            *now -= count as u64;
        }
        if to.write_all(&part[..count]).is_err() {
            break;
        }
    }
    _ = from.shutdown(std::net::Shutdown::Both);
    _ = to.shutdown(std::net::Shutdown::Both);
}

/// Bytes that no compression makes smaller.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(word).take(VOLUME_BYTES / 8).flatten().collect()
}

/// The host of a volume, which it sees as LUN 0.
fn host(daemon: &Daemon, volume: &str) -> Session {
    let portal = daemon.ready["portals"][0].as_str().unwrap();
    Session::open(portal, &iqn(volume), daemon.ready["target_iqn"].as_str().unwrap())
}

fn iqn(volume: &str) -> String {
    format!("iqn.2026-11.example:{volume}")
}

fn connect(data: &Path, volume: &str) {
    cli(data, &format!("host create {volume} --iqn {}", iqn(volume)));
    cli(data, &format!("volume connect {volume} --host {volume} --lun 0"));
}

fn write(daemon: &Daemon, volume: &str, content: &[u8]) {
    let mut session = host(daemon, volume);
    for (number, part) in content.chunks(WRITE_BYTES).enumerate() {
        session.write((number * WRITE_BYTES / BLOCK_BYTES) as u64, BLOCK_BYTES, part);
    }
}

fn await_replication(data: &Path, done: impl Fn(&Value) -> bool) -> Value {
    loop {
        let shown = cli(data, "replication show prod");
        if done(&shown["progress"]) {
            return shown;
        }
    }
}

#[test]
fn a_group_is_promoted_with_its_last_point_though_both_arrays_were_killed() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (&folder.path().join("one"), &folder.path().join("other"));
    let mut source = start(one, &[]).unwrap();
    let mut target = start(other, &["--replication", "127.0.0.1:0"]).unwrap();
    let address = target.ready["replication"].as_str().unwrap().to_owned();
    let network = Network::to(&address);
    let key = cli(other, "remote-array key")["key"].as_str().unwrap().to_owned();
    cli(one, &format!("remote-array pair {} --name dr --key {key}", network.address));
    cli(one, "group create app");
    let volumes = ["data", "log"];
    let before: Vec<_> = (1..=2).map(noise).collect();
    for (volume, content) in volumes.iter().zip(&before) {
        cli(one, &format!("volume create {volume} --size 16MiB --block-size 4096 --group app"));
        connect(one, volume);
        write(&source, volume, content);
    }

    // The target is killed in the middle of the first transfer, and then the source.
    network.allow(ALLOWED_BYTES);
    cli(one, "replication create prod --group app --to dr --rpo 1h");
    network.await_stall();
    target.kill();
    network.allow(ALLOWED_BYTES);
    target = start(other, &["--replication", &address]).unwrap();
    network.await_stall();
    source.kill();
    network.allow(u64::MAX);
    source = start(one, &[]).unwrap();
    let shown = await_replication(one, |progress| progress["last_point"].as_u64() >= Some(1));
    let sent = shown["progress"]["network_bytes"].as_u64().unwrap();
    let all = (volumes.len() * VOLUME_BYTES) as u64;
    assert!(sent < all, "{sent} bytes were sent although the target had some of {all}");
    // No staging volume or snapshot of a point is taken for one that was lost.
    assert!(cli(other, "volume list").as_array().unwrap().is_empty());
    assert!(cli(other, "snapshot list").as_array().unwrap().is_empty());

    // Another point: all of it or nothing.
    let after: Vec<_> = (3..=4).map(noise).collect();
    for (volume, content) in volumes.iter().zip(&after) {
        write(&source, volume, content);
    }
    let last = cli(one, "replication sync prod")["progress"]["last_point"].as_u64().unwrap();
    let here = await_replication(one, |progress| {
        progress["last_point"].as_u64() > Some(last) && progress["state"] == "idle"
    });
    let there = cli(other, "replication show prod");
    assert_eq!((&there["id"], &there["role"]), (&here["id"], &"target".into()));
    assert_eq!(there["progress"]["last_point"], here["progress"]["last_point"]);
    assert_eq!(there["group"], "app");

    // A test leaves nothing; a failover has the volumes of the last point.
    let tested = cli(other, "replication test-failover start prod");
    assert_eq!(tested["test_volumes"], serde_json::json!(["data-test", "log-test"]));
    cli(other, "replication test-failover stop prod");
    source.kill();
    let error = fails(other, "replication promote prod", 1);
    assert!(error.contains("may still take writes"), "{error}");
    let promoted = cli(other, "replication promote prod --force");
    assert_eq!(promoted["promoted_volumes"], serde_json::json!(volumes));
    target.kill();
    target = start(other, &["--replication", &address]).unwrap();
    for (volume, content) in volumes.iter().zip(&after) {
        connect(other, volume);
        let mut session = host(&target, volume);
        assert!(session.read(0, BLOCK_BYTES, VOLUME_BYTES) == *content, "{volume} differs");
    }

    // The source comes back, and both arrays show that there are two.
    let _source = start(one, &[]).unwrap();
    await_replication(one, |progress| progress["state"] == "split");
    await_replication(other, |progress| progress["state"] == "split");
}

pub fn await_state(data: &Path, state: &str) -> Value {
    await_replication(data, |progress| progress["state"] == state)
}

/// Writes to a volume of one array, and returns what went over the network until the other one has it.
fn transferred(daemon: &Daemon, data: &Path, volume: &str, part: &[u8]) -> u64 {
    let before = cli(data, "replication show prod")["progress"].clone();
    write(daemon, volume, part);
    cli(data, "replication sync prod");
    let after = await_replication(data, |progress| {
        progress["last_point"].as_u64() > before["last_point"].as_u64() && progress["state"] == "idle"
    });
    let bytes = |progress: &Value| progress["network_bytes"].as_u64().unwrap();
    bytes(&after["progress"]) - bytes(&before)
}

#[test]
fn a_planned_failover_is_reversed_and_failed_back_with_differences_only() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (&folder.path().join("one"), &folder.path().join("other"));
    let listen = ["--replication", "127.0.0.1:0"];
    let (mut first, mut second) = (start(one, &listen).unwrap(), start(other, &listen).unwrap());
    let address = second.ready["replication"].as_str().unwrap().to_owned();
    let back = first.ready["replication"].as_str().unwrap().to_owned();
    let key = cli(other, "remote-array key")["key"].as_str().unwrap().to_owned();
    cli(one, &format!("remote-array pair {address} --name dr --key {key}"));
    cli(one, "group create app");
    let volumes = ["data", "log"];
    let mut contents: Vec<_> = (1..=2).map(noise).collect();
    for (volume, content) in volumes.iter().zip(&contents) {
        cli(one, &format!("volume create {volume} --size 16MiB --block-size 4096 --group app"));
        connect(one, volume);
        write(&first, volume, content);
    }
    let identities = volumes.map(|volume| cli(one, &format!("volume show {volume}"))["naa"].clone());
    assert!(identities.iter().all(Value::is_string), "{identities:?}");
    cli(one, "replication create prod --group app --to dr --rpo 1h");
    await_replication(one, |progress| progress["state"] == "idle" && progress["last_point"].is_u64());

    // Planned failover, and the other direction.
    cli(one, "replication demote prod");
    await_state(one, "demoted");
    let promoted = cli(other, "replication promote prod");
    assert_eq!(promoted["promoted_volumes"], serde_json::json!(volumes));
    volumes.iter().for_each(|volume| connect(other, volume));
    assert_eq!(cli(other, "replication reverse prod")["role"], "source");
    assert_eq!(cli(one, "replication show prod")["role"], "target");
    await_replication(other, |progress| progress["state"] == "idle");
    let part = &noise(3)[..WRITE_BYTES];
    let sent = transferred(&second, other, "log", part);
    assert!(sent < VOLUME_BYTES as u64 / 8, "{sent} bytes for a write of {WRITE_BYTES}");
    contents[1][..WRITE_BYTES].copy_from_slice(part);

    // Both are killed; the direction stays.
    second.kill();
    first.kill();
    first = start(one, &["--replication", &back]).unwrap();
    second = start(other, &["--replication", &address]).unwrap();
    let part = &noise(4)[..WRITE_BYTES];
    let sent = transferred(&second, other, "data", part);
    assert!(sent < VOLUME_BYTES as u64 / 8, "{sent} bytes for a write of {WRITE_BYTES}");
    contents[0][..WRITE_BYTES].copy_from_slice(part);

    // Fail back: hosts find the volumes that they had, with the new data.
    cli(other, "replication demote prod");
    await_state(other, "demoted");
    assert_eq!(cli(one, "replication promote prod")["promoted_volumes"], serde_json::json!(volumes));
    for (volume, content) in volumes.iter().zip(&contents) {
        let mut session = host(&first, volume);
        assert!(session.read(0, BLOCK_BYTES, VOLUME_BYTES) == *content, "{volume} differs");
    }
    let now = volumes.map(|volume| cli(one, &format!("volume show {volume}"))["naa"].clone());
    assert_eq!(now, identities);
    cli(one, "replication reverse prod");
    await_replication(one, |progress| progress["state"] == "idle");
    let sent = transferred(&first, one, "log", &noise(5)[..WRITE_BYTES]);
    assert!(sent < VOLUME_BYTES as u64 / 8, "{sent} bytes for a write of {WRITE_BYTES}");
}

/// A block that only this write has.
fn stamped(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(BLOCK_BYTES / 8)
}

/// Kills a source while a host writes and the network holds changes back; the number of writes that were acknowledged.
fn killed_under_load(source: Daemon, network: &Network) -> u64 {
    let acknowledged = Arc::new(AtomicU64::new(0));
    let (count, mut session) = (acknowledged.clone(), host(&source, "data"));
    network.allow(ALLOWED_BYTES);
    let writer = std::thread::spawn(move || {
        for number in 1.. {
            session.write(number % WRITTEN_BLOCKS, BLOCK_BYTES, &stamped(number));
            count.store(number, Ordering::SeqCst);
        }
    });
    network.await_stall();
    source.kill();
    assert!(writer.join().is_err(), "its connection ended");
    let acknowledged = acknowledged.load(Ordering::SeqCst);
    assert!(acknowledged > WRITTEN_BLOCKS, "{acknowledged} writes");
    acknowledged
}

/// Checks that the promoted volume has every write.
fn assert_has(target: &Daemon, data: &Path, acknowledged: u64) {
    connect(data, "data");
    let mut session = host(target, "data");
    for block in 0..WRITTEN_BLOCKS {
        let last = (1..=acknowledged).rev().find(|number| number % WRITTEN_BLOCKS == block).unwrap();
        let next = last + WRITTEN_BLOCKS;
        let found = session.read(block, BLOCK_BYTES, BLOCK_BYTES);
        let is_next = next == acknowledged + 1 && found == stamped(next);
        assert!(found == stamped(last) || is_next, "block {block} does not have write {last}");
    }
}

#[test]
fn every_acknowledged_write_is_on_the_promoted_target_after_the_source_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (&folder.path().join("one"), &folder.path().join("other"));
    let source = start(one, &[]).unwrap();
    let target = start(other, &["--replication", "127.0.0.1:0"]).unwrap();
    let network = Network::to(target.ready["replication"].as_str().unwrap());
    let key = cli(other, "remote-array key")["key"].as_str().unwrap().to_owned();
    cli(one, &format!("remote-array pair {} --name dr --key {key}", network.address));
    cli(one, "volume create data --size 16MiB --block-size 4096");
    connect(one, "data");
    write(&source, "data", &noise(1));
    cli(one, "replication create prod --volume data --to dr --rpo 1h --mode sync --on-link-loss stop");
    let shown = await_state(one, "in_sync");
    assert_eq!((&shown["mode"], &shown["on_link_loss"]), (&"sync".into(), &"stop".into()));
    await_state(other, "in_sync");

    let acknowledged = killed_under_load(source, &network);
    let promoted = cli(other, "replication promote prod --force");
    assert_eq!(promoted["promoted_volumes"], serde_json::json!(["data"]));
    assert_has(&target, other, acknowledged);
    network.allow(u64::MAX);
}

#[test]
fn a_target_goes_on_by_itself_after_its_source_was_killed_if_the_witness_agrees() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other, third] = &["one", "other", "third"].map(|name| folder.path().join(name));
    let listen = ["--replication", "127.0.0.1:0"];
    let source = start(one, &[]).unwrap();
    let (target, witness) = (start(other, &listen).unwrap(), start(third, &listen).unwrap());
    let network = Network::to(target.ready["replication"].as_str().unwrap());
    let pair = |data: &Path, name: &str, with: &Path, address: &str| {
        let key = cli(with, "remote-array key")["key"].as_str().unwrap().to_owned();
        cli(data, &format!("remote-array pair {address} --name {name} --key {key}"));
    };
    pair(one, "dr", other, &network.address);
    let address = witness.ready["replication"].as_str().unwrap().to_owned();
    pair(one, "site-c", third, &address);
    pair(other, "site-c", third, &address);
    cli(one, "volume create data --size 16MiB --block-size 4096");
    connect(one, "data");
    write(&source, "data", &noise(1));
    cli(one, "replication create prod --volume data --to dr --rpo 1h --mode sync --witness site-c");
    let shown = await_replication(one, |progress| {
        progress["state"] == "in_sync" && progress["sync"]["witness_problem"].is_null()
    });
    assert_eq!((&shown["witness"], &shown["on_link_loss"]), (&"site-c".into(), &"stop".into()));

    // Its decision is as durable as it says: the witness is killed as well, and started again.
    witness.kill();
    let acknowledged = killed_under_load(source, &network);
    let _witness = start(third, &["--replication", &address]).unwrap();
    let promoted = await_state(other, "promoted");
    assert_eq!(promoted["promoted_volumes"], serde_json::json!(["data"]));
    assert_has(&target, other, acknowledged);
    network.allow(u64::MAX);

    // The source comes back, hears of it, and takes no writes.
    let _source = start(one, &[]).unwrap();
    await_state(one, "demoted");
    assert_eq!(cli(one, "volume show data")["read_only"], true);
}
