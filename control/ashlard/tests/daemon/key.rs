//! Encrypted drives, as an operator has them.

use crate::process::{ashlard, check_with, drives, fails, json, start};
use rig::pykmip::Server;
use std::path::Path;
use std::process::Command;

/// In a volume's name, which the engine writes to the journal, the log and its root.
const TEXT: &str = "only-the-owner-can-read-this";

fn shows(data: &Path) -> bool {
    let grep = Command::new("grep").args(["-qaF", TEXT]).args(drives(data)).status().unwrap();
    match grep.code() {
        Some(0) => true,
        Some(1) => false,
        other => panic!("grep ended with {other:?}"),
    }
}

#[test]
fn drives_are_encrypted_opened_rotated_and_erased() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = start(data, &["--encrypt"]).unwrap();
    json(data, &format!("volume create {TEXT} --size 1GiB"));
    let said = ashlard(&format!("key rotate --data {}", data.display()));
    assert!(said.contains("another"), "an array that runs keeps its key: {said}");
    daemon.kill();
    assert!(!shows(data));
    assert!(check_with(data, &[]).0);

    let (own, away) = (data.join("drives.key"), folder.path().join("away.key"));
    std::fs::rename(&own, &away).unwrap();
    let said = start(data, &[]).err().unwrap();
    assert!(said.contains("--key-file") && said.contains("drives.key"), "{said}");
    let other = folder.path().join("other.key");
    std::fs::write(&other, [5; 32]).unwrap();
    let said = start(data, &["--key-file", other.to_str().unwrap()]).err().unwrap();
    assert!(said.contains("not what its key was locked with"), "{said}");
    let away = away.to_str().unwrap();
    assert!(check_with(data, &["--key-file", away]).0);

    let words = folder.path().join("words");
    std::fs::write(&words, "correct horse battery\n").unwrap();
    let words = words.to_str().unwrap();
    ashlard(&format!("key rotate --data {} --key-file {away} --to-passphrase-file {words}", data.display()));
    let said = start(data, &["--key-file", away]).err().unwrap();
    assert!(said.contains("passphrase"), "{said}");
    let daemon = start(data, &["--passphrase-file", words]).unwrap();
    assert_eq!(json(data, "volume list")[0]["name"], TEXT);
    assert!(daemon.stop().success());
    assert!(!shows(data));

    ashlard(&format!("key rotate --data {} --passphrase-file {words}", data.display()));
    assert!(start(data, &[]).unwrap().stop().success(), "the new key is in the folder");
    let said = ashlard(&format!("key erase --data {}", data.display()));
    assert!(said.contains("--yes"), "{said}");
    ashlard(&format!("key erase --data {} --yes", data.display()));
    let said = start(data, &[]).err().unwrap();
    assert!(said.contains("crypto-erase"), "{said}");
    assert!(!own.exists());
    let array = said.trim().rsplit("--take-from-array ").next().unwrap().split('`').next().unwrap();
    ashlard(&format!("format --data {} --take-from-array {array}", data.display()));
    start(data, &[]).unwrap();
}

#[test]
fn the_key_is_changed_while_the_array_runs() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = start(data, &["--encrypt"]).unwrap();
    let (own, next) = (data.join("drives.key"), data.join("drives.key.next"));
    let copy = folder.path().join("copy.key");
    std::fs::copy(&own, &copy).unwrap();
    assert_eq!(json(data, "array status")["encryption"], "file");
    assert_eq!(json(data, "key show")["generation"], 1);
    let changed = json(data, "key rotate");
    assert_eq!((&changed["source"], &changed["generation"]), (&"file".into(), &2.into()));
    let new = std::fs::read(&own).unwrap();
    assert!(new != std::fs::read(&copy).unwrap() && !next.exists());
    daemon.kill();
    let said = start(data, &["--key-file", copy.to_str().unwrap()]).err().unwrap();
    assert!(said.contains("not what its key was locked with"), "{said}");

    // As a kill leaves it that comes before the new file takes the place of the old one.
    std::fs::rename(&own, &next).unwrap();
    std::fs::rename(&copy, &own).unwrap();
    let daemon = start(data, &[]).unwrap();
    assert_eq!(std::fs::read(&own).unwrap(), new);
    assert!(!next.exists());
    assert_eq!(json(data, "key rotate")["generation"], 3);
    assert!(daemon.stop().success());
    start(data, &[]).unwrap();
}

#[test]
fn another_key_of_a_real_key_server_is_taken_while_the_array_runs() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let Some(mut server) = Server::start(folder.path()) else { return };
    let [one, other] = server.keys.clone();
    let paths = ["cert.pem", "key.pem", "ca.pem"].map(|name| server.path(name).display().to_string());
    let [certificate, key, authority] = paths.each_ref().map(String::as_str);
    let address = server.address.clone();
    let ask = ["--kmip", &address, "--kmip-cert", certificate, "--kmip-key", key, "--kmip-ca", authority];
    let daemon = start(data, &[&["--encrypt", "--kmip-id", &one][..], &ask].concat()).unwrap();
    json(data, &format!("volume create {TEXT} --size 1GiB"));
    assert_eq!(
        (&json(data, "key show")["source"], &json(data, "key show")["kmip_id"]),
        (&"kmip".into(), &one.as_str().into())
    );

    for (id, why) in [(&*server.short, "256 bits"), ("unknown", "the server reports"), (&*one, "already")] {
        let said = fails(data, &format!("key rotate --kmip-id {id}"), 1);
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(json(data, "key show")["generation"], 1);
    let changed = json(data, &format!("key rotate --kmip-id {other}"));
    assert_eq!((&changed["generation"], &changed["kmip_id"]), (&2.into(), &other.as_str().into()));
    server.destroy(&one);
    daemon.kill();
    let daemon = start(data, &ask).unwrap();
    assert_eq!(json(data, "volume list")[0]["name"], TEXT);
    assert!(daemon.stop().success());
    assert!(!shows(data) && check_with(data, &ask).0);

    server.destroy(&other);
    let said = start(data, &ask).err().unwrap();
    assert!(said.contains(&format!("can't fetch key {other}")), "{said}");
}
