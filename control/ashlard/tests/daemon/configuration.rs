//! Export of the configuration, and import on another array and on the same.

use crate::process::{Daemon, fails, json, run, run_with, start};
use serde_json::{Value, json as value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const SECRETS: [&str; 5] =
    ["hostsecret123", "arraysecret123", "hook-secret-1", "eight chars", "path-secret-1"];

fn array(folder: &Path, name: &str) -> (PathBuf, Daemon) {
    let data = folder.join(name);
    let daemon = start(&data, &[]).unwrap();
    (data, daemon)
}

/// An array with an object of each kind.
fn configured(folder: &Path) -> (PathBuf, Daemon) {
    let (data, daemon) = array(folder, "one");
    for words in [
        "array set --name prod --recycle-bin 3d",
        "group create gold --hard-quota 1TiB --compression high --label tier=1",
        "volume create db1 --size 10GiB --group gold --label app=db",
        "volume create db2 --size 1GiB --block-size 4096",
        "volume set db2 --iops 500",
        "volume set db2 --read-only on",
        "host create web1 --iqn IQN.1993-08.org.debian:01:web1 --chap-user web1 --chap-secret hostsecret123 \
         --mutual-user prod --mutual-secret arraysecret123",
        "host create web2 --iqn iqn.1993-08.org.debian:01:web2",
        "host-group create web --host web2",
        "volume connect db1 --host web1 --lun 7",
        "volume connect db2 --host-group web --read-only",
        "snapshot create db1 --suffix old",
        "schedule create nightly --group gold --rule daily=7 --immutable 1d",
        "token create ci --role viewer",
        "notification create hook --webhook http://me:path-secret-1@127.0.0.1:1/hook?key=path-secret-1 --secret hook-secret-1",
    ] {
        json(&data, words);
    }
    let made = run_with(&data, "user create vera --role viewer", "eight chars\n");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (data, daemon)
}

fn read(file: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn write(file: &Path, document: &Value) {
    std::fs::write(file, document.to_string()).unwrap();
}

/// What becomes of each object.
fn steps(data: &Path, words: &str) -> BTreeMap<String, (String, String)> {
    let steps = json(data, words);
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let step = |it: &Value| (text(&it["object"]), (text(&it["action"]), text(&it["detail"])));
    steps.as_array().unwrap().iter().map(step).collect()
}

fn export(data: &Path, file: &Path) -> Value {
    json(data, &format!("config export {} --force", file.display()));
    read(file)
}

#[test]
fn a_configuration_moves_to_another_array_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let (one, _first) = configured(folder.path());
    let file = folder.path().join("prod.json");
    let named = file.display();
    let document = export(&one, &file);
    assert!(SECRETS.iter().all(|secret| !document.to_string().contains(secret)), "{document}");
    let left = document["left_out"].as_array().unwrap();
    for what in [
        "chap_secret of host/web1",
        "mutual_secret of host/web1",
        "secret of notification-target/hook",
        "destination.url of notification-target/hook",
        "password of user/vera",
        "API token ci: create it again",
    ] {
        assert!(left.contains(&value!(what)), "{what}: {left:?}");
    }
    let refused = fails(&one, &format!("config export {named}"), 1);
    assert!(refused.contains("--force"), "{refused}");
    // At home nothing is to be done.
    let at_home = steps(&one, &format!("config import {named} --apply"));
    assert!(at_home.values().all(|(action, _)| action == "unchanged"), "{at_home:?}");
    assert!(at_home.len() >= 12, "{at_home:?}");

    let (two, _second) = array(folder.path(), "two");
    let plan = steps(&two, &format!("config import {named}"));
    assert!(json(&two, "volume list").as_array().unwrap().is_empty(), "a comparison changes nothing");
    let action = |name: &str| plan[name].0.as_str();
    for name in
        ["volume-group/gold", "volume/db1", "volume/db2", "host/web2", "host-group/web", "schedule/nightly"]
    {
        assert_eq!(action(name), "create", "{name}");
    }
    for (name, secret) in [
        ("host/web1", "chap_secret"),
        ("notification-target/hook", "destination.url"),
        ("user/vera", "password"),
    ] {
        assert_eq!(plan[name], ("needs_secret".into(), secret.into()), "{name}");
    }
    assert_eq!(
        (action("settings"), action("portals"), action("user/admin")),
        ("differs", "by_hand", "unchanged")
    );

    // Without its secret the host is not created, instead of one that needs none; what needs the host says so.
    let failed = fails(&two, &format!("config import {named} --apply"), 1);
    assert!(failed.contains("connection/db1/host/web1: there is no host \"web1\""), "{failed}");
    assert_eq!(json(&two, "host list").as_array().unwrap().len(), 1);

    let mut with_secrets = document.clone();
    with_secrets["hosts"][0]["chap_secret"] = value!(SECRETS[0]);
    with_secrets["hosts"][0]["mutual_secret"] = value!(SECRETS[1]);
    with_secrets["notification_targets"][0]["secret"] = value!(SECRETS[2]);
    with_secrets["notification_targets"][0]["destination"]["url"] =
        value!("http://me:path-secret-1@127.0.0.1:1/hook?key=path-secret-1");
    let users = with_secrets["users"].as_array_mut().unwrap();
    users.iter_mut().for_each(|user| user["password"] = value!(SECRETS[3]));
    write(&file, &with_secrets);
    let done = steps(&two, &format!("config import {named} --apply --overwrite settings"));
    assert_eq!((done["host/web1"].0.as_str(), done["volume/db1"].0.as_str()), ("create", "unchanged"));
    assert_eq!(done["settings"], ("overwrite".into(), "name, recycle_bin_seconds".into()));
    let again = steps(&two, &format!("config import {named} --apply --overwrite settings"));
    let mut others = again.iter().filter(|(_, (action, _))| action != "unchanged");
    assert_eq!((others.next().map(|it| it.0.as_str()), others.next()), (Some("portals"), None));

    // Both are configured in the same way now.
    let file = folder.path().join("two.json");
    let (mut moved, mut document) = (export(&two, &file), document);
    for document in [&mut moved, &mut document] {
        let fields = document.as_object_mut().unwrap();
        ["origin", "portals", "left_out"].iter().for_each(|name| drop(fields.remove(*name)));
    }
    assert_eq!(moved, document);
    let audit = json(&two, "audit list").to_string();
    assert!(audit.contains("ImportConfiguration"), "{audit}");
    assert!(SECRETS.iter().all(|secret| !audit.contains(secret)), "{audit}");
}

#[test]
fn an_import_changes_only_what_is_named_and_deletes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (data, _daemon) = configured(folder.path());
    let file = folder.path().join("prod.json");
    let named = file.display();
    let document = export(&data, &file);
    let mut other = document.clone();
    other["volumes"][0]["size"] = value!(20u64 << 30);
    other["volumes"][1]["size"] = value!(1 << 20);
    other["hosts"][0].as_object_mut().unwrap().remove("chap_user");
    other["hosts"][0].as_object_mut().unwrap().remove("mutual_user");
    other["connections"][0]["lun"] = value!(9);
    other["schedules"][0]["volume"] = value!("db1");
    other["volume_groups"][0]["labels"] = value!({ "tier": "2", "new": "yes" });
    write(&file, &other);
    let plan = steps(&data, &format!("config import {named} --apply"));
    assert_eq!(plan["volume/db1"], ("differs".into(), "size".into()));
    assert_eq!(plan["host/web1"], ("differs".into(), "chap_user, mutual_user".into()));
    assert_eq!(export(&data, &folder.path().join("b.json"))["volumes"], document["volumes"]);

    let words = "volume/db1 --overwrite volume/db2 --overwrite volume-group/gold --overwrite connection/db1/host/web1 \
                 --overwrite schedule/nightly";
    let done = steps(&data, &format!("config import {named} --apply --overwrite {words}"));
    let action = |name: &str| done[name].0.as_str();
    assert_eq!((action("volume/db1"), action("volume-group/gold")), ("overwrite", "overwrite"));
    for name in ["volume/db2", "connection/db1/host/web1", "schedule/nightly"] {
        assert_eq!(action(name), "by_hand", "{name}");
    }
    assert_eq!(json(&data, "volume show db1")["size"].as_u64(), Some(20 << 30));
    assert_eq!(json(&data, "volume show db2")["size"].as_u64(), Some(1 << 30));
    assert_eq!(json(&data, "group show gold")["labels"], value!({ "tier": "2", "new": "yes" }));
    assert_eq!(json(&data, "host show web1")["chap_user"], "web1", "it was not named");
    // What a document does not have stays.
    write(&file, &value!({ "format": 1 }));
    assert!(steps(&data, &format!("config import {named} --apply")).is_empty());
    assert_eq!(json(&data, "volume list").as_array().unwrap().len(), 2);

    for (document, said) in [
        (
            value!({ "format": 2, "origin": { "version": "9.1" } }),
            "has format 2, written by version 9.1, and this array reads format 1",
        ),
        (value!({ "volumes": [] }), "no configuration document"),
        (value!({ "format": 1, "volumes": [{ "name": "x" }] }), "missing field `size`"),
        (value!({ "format": 1, "volume": [] }), "unknown field `volume`"),
        (
            value!({ "format": 1, "users": [{ "name": "a", "role": "viewer" }, { "name": "a", "role": "admin" }] }),
            "user/a twice",
        ),
    ] {
        write(&file, &document);
        let refused = fails(&data, &format!("config import {named} --apply"), 1);
        assert!(refused.contains(said), "{said}: {refused}");
    }
    write(&file, &document);
    let refused = fails(&data, &format!("config import {named} --apply --overwrite volume/db9"), 1);
    assert!(refused.contains("no object \"volume/db9\""), "{refused}");
    let printed = run(&data, "config export -");
    assert_eq!(serde_json::from_slice::<Value>(&printed.stdout).unwrap()["format"], 1);
}

/// A document of more than the 1 MiB that other requests may have, whose volumes are created in many steps.
#[test]
fn a_long_document_is_imported() {
    const VOLUMES: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    let (data, _daemon) = array(folder.path(), "one");
    let file = folder.path().join("long.json");
    // Labels make it long, so that few volumes do.
    let labels = |number: usize| {
        let label = |at: usize| (format!("key-{at}"), value!(format!("{number:04}{}", "x".repeat(240))));
        (0..16).map(label).collect::<serde_json::Map<_, _>>()
    };
    let volume = |number: usize| {
        let (name, labels) = (format!("v{number:04}"), labels(number));
        value!({ "name": name, "size": 1 << 20, "block_size": 512, "labels": labels, "read_only": number == 7 })
    };
    let mut volumes: Vec<_> = (0..VOLUMES).map(volume).collect();
    // One that can't be does not keep the others of its step.
    volumes[100]["group"] = value!("missing");
    write(&file, &value!({ "format": 1, "volumes": volumes }));
    assert!(std::fs::metadata(&file).unwrap().len() > 1 << 20);
    let words = format!("config import {} --apply", file.display());
    let failed = fails(&data, &words, 1);
    assert!(failed.contains("1 of 300 objects") && failed.contains("volume/v0100"), "{failed}");
    let made = json(&data, "volume show v0007");
    assert_eq!(
        (&made["read_only"], &made["labels"]["key-3"]),
        (&value!(true), &volumes[7]["labels"]["key-3"])
    );
    assert_eq!(json(&data, "volume list").as_array().unwrap().len(), VOLUMES - 1);
    volumes.remove(100);
    write(&file, &value!({ "format": 1, "volumes": volumes }));
    assert!(steps(&data, &words).values().all(|(action, _)| action == "unchanged"));
}
