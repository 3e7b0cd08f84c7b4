//! Alerts and metrics. Dashboards and rules in `docs/monitoring` use only metrics that exist.

use crate::http::Api;
use crate::process::{Daemon, json as cli, start};
use crate::replication::await_state;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use ureq::http::Request;

fn metrics(api: &Api) -> String {
    metrics_as(api, "/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5").1
}

/// Media type and text of the metrics at a path for a client that accepts such types.
fn metrics_as(api: &Api, path: &str, accept: &str) -> (String, String) {
    let request = Request::get(format!("{}{path}", api.url)).header("accept", accept);
    let request = request.header("authorization", format!("Bearer {}", api.token));
    let mut answer = api.agent.run(request.body(()).unwrap()).unwrap();
    assert_eq!(answer.status(), 200);
    let media_type = answer.headers()["content-type"].to_str().unwrap().to_owned();
    (media_type, answer.body_mut().read_to_string().unwrap())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/monitoring")
}

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("ashlar_")).collect()
}

/// Metrics of drives that report health (SMART); the drives of this test are files and do not.
const HEALTH_METRICS: [&str; 2] = ["ashlar_drive_temperature_celsius", "ashlar_drive_used_percent"];

/// Two drives: an alert is open from the start, because they tolerate one failure instead of two.
fn array_with_an_alert() -> Api {
    let api = Api::start_with(&["--drives", "2"]);
    let create = |path: &str, body: Value| {
        let answer = api.ask("POST", path, body);
        assert_eq!(answer.status, 201, "{}", answer.body);
    };
    create("/api/v1/volumes", json!({ "name": "db1", "size": 1 << 30 }));
    create("/api/v1/hosts", json!({ "name": "web1", "initiators": ["iqn.1993-08.org.debian:01:web1"] }));
    create("/api/v1/connections", json!({ "volume": "db1", "host": "web1" }));
    api
}

/// Replicates the volume of an array to another one, which has a folder below this. The last change is on both.
fn replicate(api: &Api, folder: &Path) -> Daemon {
    let (here, there) = (&api.data(), &folder.join("other"));
    let target = start(there, &["--replication", "127.0.0.1:0"]).unwrap();
    let (address, key) = (target.ready["replication"].as_str().unwrap(), cli(there, "remote-array key"));
    cli(here, &format!("remote-array pair {address} --name dr --key {}", key["key"].as_str().unwrap()));
    cli(here, "replication create prod --volume db1 --to dr --rpo 1h --mode sync");
    await_state(here, "in_sync");
    let resized = api.ask("PATCH", "/api/v1/volumes/db1", json!({ "size": 2u64 << 30 }));
    assert_eq!(resized.status, 200, "{}", resized.body);
    target
}

/// Waits for the alert: conditions are evaluated shortly after the array reports that it runs.
fn alert(api: &Api) -> Value {
    loop {
        let open = api.ask("GET", "/api/v1/alerts?filter=state!=closed", Value::Null);
        if let Some(alert) = open.body["items"].as_array().unwrap().first() {
            return alert.clone();
        }
        std::thread::yield_now();
    }
}

#[test]
fn an_alert_is_acknowledged_and_closed() {
    let api = array_with_an_alert();
    let reply = alert(&api);
    assert_eq!((&reply["kind"], &reply["state"]), (&json!("protection.low"), &json!("open")));
    let path = format!("/api/v1/alerts/{}", reply["id"]);
    let seen = api.ask("PATCH", &path, json!({ "state": "acknowledged" })).body;
    assert_eq!((&seen["state"], &seen["acknowledged_by"]), (&json!("acknowledged"), &json!("admin")));
    assert_eq!(api.ask("GET", &path, Value::Null).body, seen);
    assert_eq!(api.ask("PATCH", &path, json!({ "state": "open" })).body["acknowledged_by"], Value::Null);
    assert_eq!(api.ask("PATCH", &path, json!({ "state": "closed" })).body["state"], "closed");
    api.ask("PATCH", &path, json!({ "state": "open" })).assert_problem(409, "precondition");
    api.ask("PATCH", "/api/v1/alerts/999", json!({ "state": "open" })).assert_problem(404, "not_found");
    let all = api.ask("GET", "/api/v1/alerts", Value::Null).body;
    assert_eq!((&all["total"], &all["items"][0]["state"]), (&json!(1), &json!("closed")));
}

#[test]
fn metrics_are_in_the_format_that_a_client_accepts() {
    let api = array_with_an_alert();
    for (accept, media_type) in [
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/openmetrics-text", "application/openmetrics-text; version=1.0.0; charset=utf-8"),
    ] {
        let (found, text) = metrics_as(&api, "/metrics", accept);
        assert_eq!(found, media_type);
        // In both formats only gauges have the same names.
        let kinds: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
        assert!(kinds.len() > 20 && kinds.iter().all(|line| line.ends_with(" gauge")), "{kinds:?}");
    }
}

/// What a scrape costs: how many volumes it has, and how many lines.
#[test]
fn a_scrape_of_many_volumes_has_the_busiest_unless_all_are_asked_for() {
    let api = Api::start();
    let volumes = |query: &str| {
        let text = metrics_as(&api, &format!("/metrics{query}"), "*/*").1;
        let lines = text.lines().filter(|line| line.starts_with("ashlar_volume_space_bytes{"));
        let names: BTreeSet<String> = lines.map(|line| line.split('"').nth(1).unwrap().to_owned()).collect();
        (names.len(), text.lines().count())
    };
    let create = |numbers: std::ops::Range<usize>| {
        for number in numbers {
            let volume = json!({ "name": format!("v{number:03}"), "size": 1 << 20 });
            assert_eq!(api.ask("POST", "/api/v1/volumes", volume).status, 201);
        }
    };
    create(0..100);
    let (count, lines) = volumes("");
    assert_eq!(count, 100);
    create(100..130);
    assert_eq!(volumes(""), (100, lines), "more volumes cost nothing");
    assert_eq!(volumes("?volumes=all").0, 130);
    for wrong in ["?volumes=some", "?volumes=", "?volume=all", "?volumes=all&volumes=all"] {
        api.ask("GET", &format!("/metrics{wrong}"), Value::Null).assert_problem(400, "invalid");
    }
}

#[test]
fn dashboards_and_rules_use_existing_metrics() {
    let (api, folder_of_other) = (array_with_an_alert(), tempfile::tempdir().unwrap());
    alert(&api);
    let _other = replicate(&api, folder_of_other.path());
    let reply = metrics(&api);
    assert!(reply.ends_with("# EOF\n"), "{reply}");
    for line in ["ashlar_array_online{} 1.0", "ashlar_array_alerts{severity=\"critical\"} 0.0"] {
        assert!(reply.lines().any(|it| it == line), "{line} in {reply}");
    }
    api.send("GET", "/metrics", None, "").assert_problem(401, "unauthorized");
    let mut existing = names(&reply);
    existing.extend(HEALTH_METRICS);
    for file in std::fs::read_dir(folder()).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let used = match path.extension().unwrap().to_str().unwrap() {
            // The catalogue of messages is no dashboard.
            "json" if !path.ends_with("messages.json") => {
                let board: Value = serde_json::from_str(&text).unwrap();
                let panels = board["panels"].as_array().unwrap();
                // Dashboards of logs have queries of another language.
                if panels.iter().any(|panel| panel["datasource"]["type"] == "loki") {
                    continue;
                }
                assert!(
                    panels.iter().all(|panel| panel["description"].is_string()),
                    "a panel has no description"
                );
                let queries = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
                let queries: Vec<_> = queries.map(|query| query["expr"].as_str().unwrap()).collect();
                let chosen = |query: &&&str| query.contains(r#"{job=~"$job", instance=~"$instance""#);
                assert_eq!(
                    queries.iter().filter(chosen).count(),
                    queries.len(),
                    "a query does not select arrays"
                );
                queries.join("\n")
            }
            "yml" => text.lines().filter(|line| line.trim().starts_with("expr:")).collect(),
            _ => continue,
        };
        let used = names(&used);
        assert!(!used.is_empty() && used.is_subset(&existing), "{}: {used:?}", path.display());
    }
}

/// Checks rules and metrics with promtool, where it is installed.
#[test]
fn promtool_accepts_rules_and_metrics() {
    if Command::new("promtool").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err()
    {
        eprintln!("promtool is not installed (cargo xtask setup --all)");
        return;
    }
    let rules =
        Command::new("promtool").args(["check", "rules"]).arg(folder().join("rules.yml")).output().unwrap();
    assert!(rules.status.success(), "{}", String::from_utf8_lossy(&rules.stderr));
    // It reads the older text format, which has no end mark.
    let reply = metrics(&array_with_an_alert()).replace("# EOF\n", "");
    let mut check = Command::new("promtool");
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut check = check.spawn().unwrap();
    check.stdin.take().unwrap().write_all(reply.as_bytes()).unwrap();
    let output = check.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
}
