use super::*;
use serde_json::json;

#[test]
fn volumes_are_shown_with_what_hosts_see() {
    let answer = json!([{
        "name": "db1", "size": 10u64 << 30, "block_size": 512, "mapped": 1 << 20, "naa": "naa.6",
        "connections": [{ "volume": "db1", "host": "esx1", "lun": 3 }],
    }]);
    let shown = volumes(&answer);
    for part in ["NAME", "db1", "10.0 GiB", "1.0 MiB", "esx1 (LUN 3)"] {
        assert!(shown.contains(part), "{part} in:\n{shown}");
    }
    assert_eq!(shown.lines().count(), 2);
}

#[test]
fn an_empty_list_still_has_its_header() {
    assert!(hosts(&json!([])).starts_with("NAME"));
}

#[test]
fn a_stopped_array_says_why() {
    let shown =
        array(&json!({ "state": "stopped", "reason": "drive failure", "space": {}, "reduction": {} }));
    assert!(shown.contains("stopped: drive failure"), "{shown}");
}

#[test]
fn durations_are_short() {
    assert_eq!(duration(59), "59 s");
    assert_eq!(duration(3_600), "1 h 0 min");
    assert_eq!(duration(90_000), "1 d 1 h");
}
