//! Confirmation of destructive commands, and input of secrets without echo.

use crate::process::{fails, json, on_terminal, run, run_with, start};
use serde_json::Value;
use std::path::Path;

fn names(data: &Path, words: &str) -> Vec<String> {
    let list = json(data, words);
    let name = |it: &Value| it["name"].as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(name).collect()
}

#[test]
fn a_restore_needs_confirmation_and_takes_a_safety_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let _daemon = start(data, &[]).unwrap();
    json(data, "volume create db1 --size 1GiB");
    json(data, "host create web1 --iqn iqn.1993-08.org.debian:01:web1");
    json(data, "volume connect db1 --host web1");
    json(data, "snapshot create db1 --suffix old");
    for words in ["snapshot restore db1.old", "volume restore db1 --from db1.old"] {
        let error = fails(data, words, 1);
        assert!(error.contains("--yes") && error.contains("web1"), "{error}");
        assert_eq!(names(data, "snapshot list"), ["db1.old"], "nothing was done");
    }
    assert_eq!(json(data, "snapshot restore db1.old --yes")["name"], "db1");
    assert_eq!(names(data, "snapshot list").len(), 2, "the safety snapshot is there");
    json(data, "volume restore db1 --from db1.old --yes");
    let kept = names(data, "snapshot list").len();
    assert_eq!(kept, 3);
    json(data, "snapshot restore db1.old --yes --no-safety-snapshot");
    assert_eq!(names(data, "snapshot list").len(), kept);
    let audit = json(data, "audit list");
    let restored = audit.as_array().unwrap().iter().find(|it| it["action"] == "RestoreVolume").unwrap();
    assert_eq!(restored["detail"], "restore volume db1 (source: db1.old)");
}

#[test]
fn eradicating_and_shrinking_need_confirmation() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let _daemon = start(data, &[]).unwrap();
    for name in ["a", "b"] {
        json(data, &format!("volume create {name} --size 1GiB"));
        json(data, &format!("snapshot create {name} --suffix s"));
    }
    json(data, "volume delete b");
    for words in [
        "volume delete a --eradicate",
        "snapshot delete a.s --eradicate",
        "recycle-bin eradicate b",
        "volume resize a --size 1MiB",
    ] {
        let error = fails(data, words, 1);
        assert!(error.contains("--yes") || error.contains("--force"), "{words}: {error}");
    }
    assert_eq!(names(data, "volume list"), ["a"]);
    assert_eq!(names(data, "snapshot list"), ["a.s", "b.s"]);
    assert_eq!(names(data, "recycle-bin list"), ["b"]);
    assert_eq!(json(data, "volume show a")["size"], 1 << 30);
    for words in [
        "volume resize a --size 1MiB --force",
        "snapshot delete a.s --eradicate --yes",
        "recycle-bin eradicate b --yes",
        "volume delete a --eradicate --yes",
    ] {
        assert!(run(data, words).status.success(), "{words}");
    }
    assert_eq!(names(data, "volume list"), Vec::<String>::new());
}

#[test]
fn a_terminal_shows_no_passwords_and_asks_for_confirmation() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let _daemon = start(data, &[]).unwrap();
    let made = run_with(data, "user create vera --role viewer", "eight chars\n");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // Typed after echo is off.
    let shown = on_terminal(
        data,
        "user password vera",
        &[("password: ", true, "nine chars"), ("Repeat: ", true, "nine chars")],
    );
    assert!(shown.contains("vera") && !shown.contains("nine"), "{shown}");
    let shown = on_terminal(
        data,
        "user password vera",
        &[("password: ", true, "ten chars!"), ("Repeat: ", true, "ten other")],
    );
    assert!(shown.contains("not the same") && !shown.contains("ten"), "{shown}");
    let secret = [("CHAP secret of web1: ", true, "twelve chars"), ("Repeat: ", true, "twelve chars")];
    let shown =
        on_terminal(data, "host create web1 --iqn iqn.1993-08.org.debian:01:web1 --chap-user web1", &secret);
    assert!(shown.contains("web1") && !shown.contains("twelve"), "{shown}");
    json(data, "volume create a --size 1GiB");
    on_terminal(data, "volume delete a --eradicate", &[("Type yes: ", false, "no")]);
    assert_eq!(names(data, "volume list"), ["a"]);
    on_terminal(data, "volume delete a --eradicate", &[("Type yes: ", false, "yes")]);
    assert_eq!(names(data, "volume list"), Vec::<String>::new());
}
