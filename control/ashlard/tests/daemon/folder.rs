//! The array serves whatever state its folder is in, replaces nothing there, and says what is wrong.

use crate::initiator::log_in;
use crate::mount::Small;
use crate::process::{Daemon, json as cli, start};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const IQN: &str = "iqn.1993-08.org.debian:01:web1";
const CHAP_IQN: &str = "iqn.1993-08.org.debian:01:web2";
/// No condition of a test takes longer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Waits for what comes by itself.
fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < TIMEOUT, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn token(data: &Path) -> Option<String> {
    let access: Value = serde_json::from_slice(&std::fs::read(data.join("api.json")).ok()?).ok()?;
    Some(access["token"].as_str()?.to_owned())
}

/// What the API says at a path.
fn get(daemon: &Daemon, token: &str, path: &str) -> Value {
    let agent: ureq::Agent = ureq::Agent::config_builder().proxy(None).build().into();
    let request = agent.get(format!("{}/api/v1/{path}", daemon.url()));
    let text = request.header("authorization", format!("Bearer {token}")).call().unwrap();
    serde_json::from_str(&text.into_body().read_to_string().unwrap()).unwrap()
}

/// Whether an alert of a kind is open.
fn alert(daemon: &Daemon, token: &str, kind: &str) -> Option<Value> {
    let alerts = get(daemon, token, "alerts");
    alerts["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["kind"] == kind && it["state"] != "closed")
        .cloned()
}

fn portal(daemon: &Daemon) -> String {
    daemon.ready["portals"][0].as_str().unwrap().to_owned()
}

/// Whether a host without CHAP can log in.
fn serves(daemon: &Daemon) -> bool {
    log_in(&portal(daemon), IQN, daemon.ready["target_iqn"].as_str().unwrap()).1 == 0
}

/// Two drives on the usual file system, for an array whose folder is elsewhere.
fn drives(folder: &Path) -> String {
    let make = |name: &str| {
        let path = folder.join(name);
        if !path.exists() {
            std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
        }
        path.to_str().unwrap().to_owned()
    };
    format!("{},{}", make("one"), make("two"))
}

/// Puts something there.
type Put = fn(&Path);

/// Everything that a file can be instead of what it was.
const STATES: [(&str, Put); 6] = [
    ("missing", |_| {}),
    ("empty", |path| std::fs::write(path, "").unwrap()),
    ("garbage", |path| std::fs::write(path, b"garbage\xff\0".repeat(1000)).unwrap()),
    ("unreadable", |path| {
        std::fs::write(path, "secret").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o000)).unwrap();
    }),
    ("folder", |path| std::fs::create_dir(path).unwrap()),
    ("pipe", |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())),
];

#[test]
fn hosts_are_served_whatever_state_a_file_of_the_folder_is_in() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = start(data, &[]).unwrap();
    cli(data, &format!("host create web1 --iqn {IQN}"));
    assert!(serves(&daemon));
    assert!(daemon.stop().success());
    for name in ["history.db", "api.json", "tls.pem", "secrets.key", "lock"] {
        for (state, put) in STATES {
            let (path, kept) = (data.join(name), folder.path().join("kept"));
            std::fs::rename(&path, &kept).unwrap();
            put(&path);
            let daemon = start(data, &[]).unwrap_or_else(|log| panic!("{name} {state}: {log}"));
            assert!(serves(&daemon), "{name} {state}");
            if let Some(token) = token(data) {
                until(&format!("{name} {state}"), || match (name, state) {
                    ("secrets.key", _) => alert(&daemon, &token, "secrets.locked").is_some(),
                    ("history.db", "folder") => alert(&daemon, &token, "history.memory").is_some(),
                    ("tls.pem", "folder") => alert(&daemon, &token, "folder.tls.pem").is_some(),
                    _ => get(&daemon, &token, "array")["state"] == "online",
                });
            }
            if name == "secrets.key" && state == "missing" {
                assert!(!path.exists(), "nothing is made");
            }
            assert!(daemon.stop().success(), "{name} {state}");
            match path.is_dir() {
                true => std::fs::remove_dir(&path).unwrap(),
                false => drop(std::fs::remove_file(&path)),
            }
            // That of another history.
            let _ = std::fs::remove_file(data.join("history.db-wal"));
            std::fs::rename(&kept, &path).unwrap();
        }
    }
    let broken = |number| std::fs::read(data.join(format!("history.db.broken-{number}"))).unwrap();
    assert_eq!(broken(1), b"garbage\xff\0".repeat(1000));
    assert_eq!(broken(2), b"secret");
}

#[test]
fn a_lost_key_of_secrets_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = start(data, &[]).unwrap();
    cli(data, &format!("host create web1 --iqn {IQN}"));
    cli(data, &format!("host create web2 --iqn {CHAP_IQN} --chap-user u --chap-secret longenough123"));
    let token = token(data).unwrap();
    let certificate = get(&daemon, &token, "certificate");
    let target = daemon.ready["target_iqn"].as_str().unwrap().to_owned();
    assert!(daemon.stop().success());
    let (path, kept) = (data.join("secrets.key"), folder.path().join("kept"));
    let shown = std::fs::read(data.join("tls.pem")).unwrap();
    std::fs::rename(&path, &kept).unwrap();
    for wrong in [None, Some(vec![]), Some(vec![1; 31]), Some(vec![1; 32]), Some(vec![1; 33])] {
        if let Some(bytes) = &wrong {
            std::fs::write(&path, bytes).unwrap();
        }
        let daemon = start(data, &[]).unwrap();
        until("the alert", || alert(&daemon, &token, "secrets.locked").is_some());
        let said = alert(&daemon, &token, "secrets.locked").unwrap();
        assert_eq!(said["severity"], "critical");
        let message = said["message"].as_str().unwrap();
        assert!(message.contains("web2") && message.contains("secrets.key"), "{message}");
        assert!(serves(&daemon));
        assert_eq!(log_in(&portal(&daemon), CHAP_IQN, &target).1, 0x0202, "refused without its secret");
        assert_eq!(std::fs::read(&path).ok(), wrong, "nothing is made, nothing is replaced");
        assert_eq!(get(&daemon, &token, "certificate"), certificate);
        assert_eq!(std::fs::read(data.join("tls.pem")).unwrap(), shown);
        assert!(daemon.stop().success());
    }
    std::fs::rename(&kept, &path).unwrap();
    let daemon = start(data, &[]).unwrap();
    until("the end of the alert", || alert(&daemon, &token, "secrets.locked").is_none());
    assert_eq!(log_in(&portal(&daemon), CHAP_IQN, &target).1, 0x0201, "its secret is asked for");
}

#[test]
fn a_full_file_system_is_an_alert_and_takes_nothing_away() {
    let Some(small) = Small::mount("8m") else { return };
    let (data, drives) = (small.path(), drives(small.beside()));
    let daemon = start(&data, &["--drive", &drives]).unwrap();
    let token = token(&data).unwrap();
    cli(&data, &format!("host create web1 --iqn {IQN}"));
    small.fill();
    let (mut count, begin) = (0, Instant::now());
    while alert(&daemon, &token, "history.memory").is_none() {
        cli(&data, &format!("volume create v{count} --size 1GiB"));
        count += 1;
        assert!(begin.elapsed() < TIMEOUT);
    }
    cli(&data, "volume create inmemory --size 1GiB");
    assert!(get(&daemon, &token, "audit?limit=1000").to_string().contains("inmemory"));
    small.empty();
    until("the file is used again", || alert(&daemon, &token, "history.memory").is_none());
    small.fill();
    daemon.kill();

    let daemon = start(&data, &["--drive", &drives]).unwrap();
    assert!(serves(&daemon));
    let trail = get(&daemon, &token, "audit?limit=1000").to_string();
    assert!(trail.contains("inmemory") && trail.contains("CreateHost"), "{trail}");
    until("a file of the folder is said", || alert(&daemon, &token, "folder.api.json").is_some());
    small.empty();
    until("the folder is complete", || alert(&daemon, &token, "folder.api.json").is_none());
    assert_eq!(cli(&data, "array status")["state"], "online");
    assert!(daemon.stop().success());

    small.make_read_only();
    let daemon = start(&data, &["--drive", &drives]).unwrap();
    assert!(serves(&daemon));
    until("the alert", || alert(&daemon, &token, "history.memory").is_some());
    let other = start(&data, &["--drive", &drives]).err().unwrap();
    assert!(other.contains("another ashlard"), "{other}");
}

#[test]
fn what_the_array_makes_is_for_its_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = start(data, &[]).unwrap();
    let mut all: Vec<PathBuf> = vec![data.clone()];
    while let Some(path) = all.pop() {
        let about = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!(about.permissions().mode() & 0o077, 0, "{}", path.display());
        if about.is_dir() {
            all.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    assert!(daemon.stop().success());
    std::fs::set_permissions(data, std::fs::Permissions::from_mode(0o777)).unwrap();
    let said = start(data, &[]).err().unwrap();
    assert!(said.contains("others can write") && said.contains("chmod 700"), "{said}");
}

#[test]
fn a_portal_that_is_taken_is_an_alert_and_listens_once_it_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = folder.path().join("a");
    let daemon = start(&data, &["--iscsi", &address]).unwrap();
    let token = token(&data).unwrap();
    cli(&data, &format!("host create web1 --iqn {IQN}"));
    assert!(serves(&daemon), "by the other portals");
    until("the alert", || alert(&daemon, &token, "portal.down").is_some());
    let message = alert(&daemon, &token, "portal.down").unwrap()["message"].to_string();
    assert!(message.contains(&address), "{message}");
    drop(taken);
    until("the end of the alert", || alert(&daemon, &token, "portal.down").is_none());
    assert_eq!(log_in(&address, IQN, daemon.ready["target_iqn"].as_str().unwrap()).1, 0);
    assert!(daemon.stop().success());
}
