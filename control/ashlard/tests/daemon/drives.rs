//! Drives of a running array: add, evacuate, restart, scrub.

use crate::http::Api;
use crate::process::{check, fails, json, run, start};
use serde_json::Value;
use std::path::Path;

fn file(path: &Path, text: &[u8]) -> String {
    let file = std::fs::File::create(path).unwrap();
    file.set_len(64 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, text, 0).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn drives_are_added_and_evacuated_and_found_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = start(data, &[]).unwrap();
    json(data, "volume create db1 --size 1GiB");
    let (new, foreign) = (file(&folder.path().join("new"), b""), file(&folder.path().join("used"), b"data"));
    let own = data.join("drives/00.drive");
    let label = file(&folder.path().join("label"), b"");
    drop(start(&folder.path().join("other"), &["--drive", &label]).unwrap());
    for (words, hint) in [
        (format!("drive add {foreign}"), "unknown data at byte 0"),
        (format!("drive add {foreign} --force"), "only block devices"),
        (format!("drive replace 1 --yes --with {foreign} --force"), "only block devices"),
        (format!("drive add {label}"), "belongs to the Ashlar array"),
        (format!("drive add {label} --force"), "--take-from-array"),
        (format!("drive add {label} --force --take-from-array 7"), "32 hex digits"),
        (format!("drive add {label} --force --take-from-array {:032x}", 7), "belongs to the Ashlar array"),
        (format!("drive add {}", own.display()), "already"),
        (format!("drive add {}", folder.path().display()), "neither a file nor a block device"),
        ("drive add /nowhere/at/all".into(), "can't be found"),
        ("drive add new".into(), "begins with a slash"),
        ("drive evacuate 77".into(), "its slot"),
        ("drive evacuate 0".into(), "Nothing was done: add --yes"),
        (format!("drive replace 0 --with {new}"), "Nothing was done: add --yes"),
    ] {
        let error = fails(data, &words, 1);
        assert!(error.contains(hint), "{words}: {error}");
    }
    let added = json(data, &format!("drive add {new}"));
    assert_eq!((added["slot"].as_u64(), added["state"].as_str()), (Some(4), Some("online")));
    assert_eq!(json(data, "drive evacuate 0 --yes --wait")["state"], "done");
    assert_eq!(json(data, "drive list").as_array().unwrap().len(), 4);
    let text = fails(data, &format!("drive add {label}"), 1);
    let array = text.trim().rsplit(' ').next().unwrap();
    let replaced = json(data, &format!("drive replace 1 --yes --with {label} --take-from-array {array}"));
    assert_eq!(replaced["path"], label);
    assert_eq!(std::fs::read(&foreign).unwrap()[..5], *b"data\0", "nothing was written to it");
    daemon.kill();

    // The new drives are found without naming them again.
    let (ok, output) = check(data);
    assert!(ok, "{output}");
    let daemon = start(data, &[]).unwrap();
    let paths = json(data, "drive list").to_string();
    assert!(paths.contains(&new) && paths.contains(&label) && !paths.contains("00.drive"), "{paths}");
    assert_eq!(json(data, "volume list")[0]["name"], "db1");
    let scrub = json(data, "drive scrub --wait");
    assert_eq!((scrub["state"].as_str(), scrub["kind"].as_str()), (Some("done"), Some("scrub")));
    let status = json(data, "drive status");
    assert_eq!((status["tolerates"].as_u64(), status["scrub"]["errors"].as_u64()), (Some(2), Some(0)));
    assert!(json(data, "job list").as_array().unwrap().iter().any(|job| job["id"] == scrub["id"]));
    assert!(daemon.stop().success());
}

#[test]
fn protection_is_reduced_only_with_consent() {
    let api = Api::start_with(&["--drives", "5"]);
    let data = &api.data();
    for drive in ["0", "1"] {
        json(data, &format!("drive evacuate {drive} --yes --wait"));
    }
    let text = fails(data, "drive evacuate 2 --yes", 1);
    assert!(
        text.contains("only one more drive may fail") && text.contains("--accept-reduced-protection"),
        "{text}"
    );
    let path = "/api/v1/drives/2/evacuate";
    for body in
        [Value::Null, serde_json::json!({}), serde_json::json!({ "accept_reduced_protection": false })]
    {
        api.ask("POST", path, body).assert_problem(409, "precondition");
    }
    api.ask("POST", path, serde_json::json!({ "accept": true })).assert_problem(422, "invalid");
    let drive = api.ask("GET", "/api/v1/drives/2", Value::Null).body;
    assert!(drive["evacuation_warning"].as_str().unwrap().contains("the array promises 2"), "{drive}");
    let output = run(data, "drive evacuate 2 --accept-reduced-protection --yes --wait");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && text.contains("Protection is reduced: once the drive"), "{text}");
    let alert = loop {
        let alerts = json(data, "alert list");
        let found = alerts.as_array().unwrap().iter().find(|it| it["kind"] == "protection.degraded").cloned();
        match found {
            Some(alert) => break alert,
            None => std::thread::yield_now(),
        }
    };
    assert_eq!(alert["severity"], "critical");
    let protection = json(data, "drive status");
    assert_eq!((protection["tolerates"].as_u64(), protection["promises"].as_u64()), (Some(1), Some(2)));
    let begun = api.ask(
        "POST",
        "/api/v1/drives/3/evacuate",
        serde_json::json!({ "accept_reduced_protection": true }),
    );
    assert_eq!(begun.status, 202, "{}", begun.body);
}
