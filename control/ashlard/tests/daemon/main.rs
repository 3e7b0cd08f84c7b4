//! The daemon and the command line as a user has them: real processes, real sockets, real files.

#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

mod access;
mod blank;
mod bounds;
mod configuration;
mod directory;
mod drives;
mod folder;
mod http;
mod initiator;
mod key;
mod limits;
mod logins;
mod monitoring;
mod mount;
mod mutations;
mod portals;
mod process;
mod questions;
mod remote;
mod repair;
mod replication;
mod roles;
mod service;
mod sharing;
mod strangers;
mod support;
mod understood;
mod upgrade;

use process::{ASHLARD, ashlard, check, drives, fails, json, run, start, wait_for};
use std::os::unix::fs::PermissionsExt;

const IQN: &str = "iqn.1993-08.org.debian:01:web1";

#[test]
fn an_array_is_operated_killed_and_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = start(data, &[]).unwrap();
    let status = json(data, "array status");
    assert_eq!(status["state"], "online");
    assert_eq!(status["target_iqn"], daemon.ready["target_iqn"]);
    assert_eq!(status["portals"], daemon.ready["portals"]);
    assert_eq!(status["portals"].as_array().unwrap().len(), 2);
    for field in ["provisioned", "mapped", "unique", "physical", "free", "total"] {
        assert!(status["space"][field].is_u64(), "{field}");
    }

    let volume = json(data, "volume create db1 --size 10GiB");
    assert_eq!((volume["size"].as_u64(), volume["block_size"].as_u64()), (Some(10 << 30), Some(512)));
    json(data, "volume create db2 --size 1TB --block-size 4096");
    json(data, "volume clone db1 db1-copy");
    let host = format!("host create web1 --iqn {IQN} --chap-user web1 --chap-secret longenough123");
    assert_eq!(json(data, &host)["chap_user"], "web1");
    assert_eq!(json(data, "volume connect db1 --host web1")["lun"], 0);
    assert_eq!(json(data, "volume connect db2 --host web1 --lun 300")["lun"], 300);
    assert_eq!(json(data, "volume resize db1 --size 20GiB")["size"].as_u64(), Some(20 << 30));
    let before = (json(data, "volume list"), json(data, "host list"), json(data, "connection list"));
    assert_eq!(before.2.as_array().unwrap().len(), 2);

    daemon.kill();
    let error = fails(data, "array status", 1);
    assert!(error.contains("is it running"), "{error}");
    let daemon = start(data, &[]).unwrap();
    assert_eq!(daemon.ready["target_iqn"], status["target_iqn"]);
    let after = (json(data, "volume list"), json(data, "host list"), json(data, "connection list"));
    assert_eq!(after, before);

    assert!(daemon.stop().success());
    let daemon = start(data, &[]).unwrap();
    assert_eq!(json(data, "volume list"), before.0);
    assert_eq!(json(data, "volume disconnect db1 --host web1")["disconnected"]["volume"], "db1");
    assert_eq!(json(data, "volume delete db1")["deleted"], "db1");
    assert_eq!(json(data, "volume list").as_array().unwrap().len(), 2);
    assert_eq!(json(data, "recycle-bin list")[0]["name"], "db1");
    assert_eq!(json(data, "recycle-bin restore db1 --name db3")["size"].as_u64(), Some(20 << 30));
    assert_eq!(json(data, "volume delete db3 --eradicate --yes")["deleted"], "db3");
    assert_eq!(json(data, "volume delete db1-copy")["recycle_bin"], true);
    assert_eq!(json(data, "recycle-bin eradicate db1-copy --yes")["deleted"], "db1-copy");
    assert_eq!(json(data, "recycle-bin list").as_array().unwrap().len(), 0);
    drop(daemon);
}

#[test]
fn the_description_of_the_api_may_be_read_in_part() {
    let (status, log) = process::openapi_to_a_reader_that_leaves();
    assert!(status.success() && log.is_empty(), "{status}: {log}");
}

#[test]
fn a_first_start_that_is_refused_leaves_nothing_that_a_later_one_trips_over() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    for (wrong, reason) in [
        (["--drive-size", "2MiB"], "smallest drive"),
        (["--drive-size", "0"], "drive"),
        (["--index-memory", "1EiB"], "give less"),
        (["--read-memory", "100TiB"], "give less"),
        (["--name", "a b"], "not a name for the array"),
        (["--name", ""], "not a name for the array"),
    ] {
        let refused = start(data, &wrong).err().expect("it is refused");
        assert!(refused.contains(reason), "{wrong:?}: {refused}");
    }
    let daemon = start(data, &["--name", "lab"]).unwrap();
    assert_eq!(json(data, "array status")["name"], "lab");
    assert!(daemon.stop().success());
    // Once the array has a name, the option has no meaning.
    assert!(start(data, &["--name", ""]).unwrap().stop().success());
}

#[test]
fn a_check_finds_damage_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = start(data, &[]).unwrap();
    json(data, "volume create db1 --size 10GiB");
    let (fine, said) = check(data);
    assert!(!fine && said.contains("is in use: open in another process"), "{said}");
    daemon.kill();
    let written = || -> Vec<_> {
        drives(data).iter().map(|path| std::fs::metadata(path).unwrap().modified().unwrap()).collect()
    };
    let before = written();
    let (fine, said) = check(data);
    assert!(fine && said.starts_with("no defects\n"), "{said}");
    assert_eq!(written(), before);
    let gone = drives(data)[0].clone();
    std::fs::rename(&gone, gone.with_extension("away")).unwrap();
    let (fine, said) = check(data);
    assert!(!fine && said.contains("reduced redundancy: 1 more"), "{said}");
    std::fs::rename(gone.with_extension("away"), &gone).unwrap();
    assert!(start(data, &[]).unwrap().stop().success());
    assert!(check(data).0);
    for path in drives(data) {
        let mut bytes = std::fs::read(&path).unwrap();
        let objects: Vec<_> = (0..bytes.len() - 4).filter(|at| bytes[*at..].starts_with(b"ALO1")).collect();
        objects.iter().for_each(|at| bytes[at + 8] ^= 0x40);
        std::fs::write(&path, bytes).unwrap();
    }
    let (fine, said) = check(data);
    assert!(!fine && !said.contains("no defects"), "{said}");
}

#[test]
fn two_drives_of_eight_may_go() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let eight = &["--drives", "8"];
    let daemon = start(data, eight).unwrap();
    for number in 0..20 {
        json(data, &format!("volume create db{number} --size 10GiB"));
    }
    daemon.kill();
    let mut files = drives(data);
    files.sort();
    assert_eq!(files.len(), 8);
    std::fs::remove_file(&files[0]).unwrap();
    std::fs::write(&files[1], vec![0; 64 << 20]).unwrap();
    let (fine, said) = check(data);
    assert!(!fine && said.contains("reduced redundancy: 0 more") && said.contains("slots 0, 1"), "{said}");
    assert!(said.contains("\n1 defects"), "{said}");
    let daemon = start(data, eight).unwrap();
    assert_eq!(json(data, "volume list").as_array().unwrap().len(), 20);
    json(data, "volume delete db3 --eradicate --yes");
    assert!(daemon.stop().success());
    // The rebuild may have ended by now.
    let (fine, said) = check(data);
    assert!(fine || said.contains("reduced redundancy") && said.contains("\n1 defects"), "{said}");
    let _daemon = start(data, eight).unwrap();
    assert_eq!(json(data, "volume list").as_array().unwrap().len(), 19);
}

#[test]
fn refusals_say_what_to_do_and_end_with_1_and_wrong_usage_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let error = fails(data, "array status", 1);
    assert!(error.contains("ashlard --data"), "{error}");
    let _daemon = start(data, &[]).unwrap();
    json(data, "volume create db1 --size 1GiB");
    json(data, &format!("host create web1 --iqn {IQN}"));
    json(data, "volume connect db1 --host web1");
    for (words, hint) in [
        ("volume create db1 --size 2GiB", "another size"),
        ("volume create a/b --size 1GiB", "letters"),
        ("volume create ü --size 1GiB", "letters"),
        ("volume create db2 --size 1KiB", "1 MiB"),
        ("volume create db2 --size 17PiB", "16 PiB"),
        ("volume create db2 --size 1GiB --block-size 520", "512 or 4096"),
        ("volume show a/b", "no volume"),
        ("volume show ../array", "no volume"),
        ("volume delete db1", "disconnect"),
        ("volume resize db1 --size 512MiB", "force"),
        ("volume connect db1 --host web1 --lun 7", "another lun"),
        ("volume connect db1 --host web2", "no host"),
        ("volume connect db1 --host web1 --lun 16384", "16383"),
        ("host delete web1", "disconnect"),
        ("host create web2 --iqn not-an-iqn", "iqn.YYYY-MM"),
        ("host create web2 --iqn iqn.1993-08.org.debian:01:web1", "belongs to host"),
        ("host create web2 --iqn iqn.1993-08.org.x:1 --chap-user u --chap-secret short", "12 to 255"),
    ] {
        let error = fails(data, words, 1);
        assert!(error.contains(hint), "{words}: {error}");
    }
    for words in
        ["", "volume", "volume create x", "volume create x --size ten", "frobnicate", "host create h"]
    {
        fails(data, words, 2);
    }
    assert_eq!(json(data, "volume resize db1 --size 512MiB --force")["size"].as_u64(), Some(512 << 20));
}

#[test]
fn tables_are_for_people() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let _daemon = start(data, &[]).unwrap();
    let text = |words: &str| String::from_utf8(run(data, words).stdout).unwrap();
    assert!(text("array status").contains("online"));
    assert!(text("volume create db1 --size 1.5GiB").contains("1.5 GiB"));
    assert!(text("volume list").lines().nth(1).unwrap().starts_with("db1 "));
    assert!(text(&format!("host create web1 --iqn {IQN}")).contains(IQN));
    assert!(text("volume connect db1 --host web1 --lun 3").contains("LUN"));
    assert!(text("volume list").contains("web1 (LUN 3)"));
    assert!(text("connection list").contains("web1"));
    assert!(text("volume disconnect db1 --host web1").contains("disconnected from web1"));
    assert!(text("volume delete db1").contains("recycle bin"));
}

#[test]
fn the_doctor_examines_array_and_server() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let _daemon = start(data, &["--drives", "2"]).unwrap();
    let found = json(data, "doctor");
    let of = |about: &str| {
        found["findings"].as_array().unwrap().iter().filter(|it| it["about"] == about).collect::<Vec<_>>()
    };
    assert_eq!(of("array")[0]["state"], "ok");
    assert_eq!(of("protection")[0]["text"], "any drive may fail");
    assert_eq!(of("drives")[0]["text"], "2 of 2 are files");
    assert_eq!((of("limits").len(), of("memory").len()), (1, 2), "{found}");
    let text = String::from_utf8(run(data, "doctor").stdout).unwrap();
    assert!(text.contains("for more than a trial use block devices"), "{text}");
}

#[test]
fn secrets_stay_secret() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = start(data, &[]).unwrap();
    let create = format!(
        "host create web1 --iqn {IQN} --chap-user u --chap-secret topsecret-one --mutual-user v \
         --mutual-secret topsecret-two"
    );
    let shown = format!("{}{}{}", json(data, &create), json(data, "host show web1"), json(data, "host list"));
    assert!(!shown.contains("topsecret"), "{shown}");
    let mode = std::fs::metadata(data.join("api.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(daemon.stop().success());
    let log = std::fs::read_to_string(data.with_extension("log")).unwrap();
    assert!(log.contains("CreateHost") && !log.contains("topsecret"), "{log}");
}

#[test]
fn one_daemon_to_a_folder_and_to_a_drive() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let _daemon = start(data, &[]).unwrap();
    let error = start(data, &[]).err().unwrap();
    assert!(error.contains("another ashlard"), "{error}");
    let drive = data.join("drives/00.drive");
    let error = start(&folder.path().join("other"), &["--drive", drive.to_str().unwrap()]).err().unwrap();
    assert!(error.contains("another process"), "{error}");
}

#[test]
fn drives_that_hold_something_are_not_formatted() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(64 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, text, 0).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (blank, foreign) = (make("blank", b""), make("foreign", b"a foreign file system"));
    let data = &folder.path().join("array");
    let error = start(data, &["--drive", &foreign, "--drive", &blank]).err().unwrap();
    assert!(error.contains("foreign is not blank") && error.contains("ashlard format --force"), "{error}");
    let both = &["--drive", &blank, "--drive", &foreign];
    let error = start(data, &[&both[..], &["--format-force"]].concat()).err().unwrap();
    assert!(error.contains("run once: ashlard format"), "{error}");
    let said = ashlard(&format!("format --data {} --drive {blank} --drive {foreign}", data.display()));
    assert!(said.contains("nothing was written"), "{said}");
    ashlard(&format!("format --data {} --drive {blank} --drive {foreign} --force", data.display()));
    let daemon = start(data, both).unwrap();
    json(data, "volume create db1 --size 1GiB");
    daemon.kill();

    // An array is there now: it is opened, never formatted, whatever is asked for.
    let elsewhere = &folder.path().join("elsewhere");
    let said = ashlard(&format!("format --data {} --drive {foreign},{blank} --force", elsewhere.display()));
    assert!(said.contains("belongs to the Ashlar array"), "{said}");
    let daemon = start(elsewhere, &["--drive", &foreign, "--drive", &blank]).unwrap();
    assert_eq!(json(elsewhere, "volume list")[0]["name"], "db1");
    assert!(daemon.stop().success());
    // One half of a mirror is enough to come up with.
    let daemon = start(data, &["--drive", &blank]).unwrap();
    assert_eq!(json(data, "volume list")[0]["name"], "db1");
    assert!(daemon.stop().success());
    let error = start(data, &[]).err().unwrap();
    assert!(error.contains("--drive"), "{error}");
}

#[test]
fn an_api_port_that_is_taken_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = folder.path().join("a");
    let mut command = std::process::Command::new(ASHLARD);
    command.arg("--data").arg(&data).args(["--iscsi", "127.0.0.1:0", "--api", &address]);
    command.args(["--threads", "1", "--drives", "4", "--drive-size", "64MiB"]);
    let error = wait_for(command, &data).err().unwrap();
    assert!(error.contains(&address), "{error}");
}
