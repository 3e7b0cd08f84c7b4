//! The daemon is killed in the middle of changes, again and again: what was answered is there, and the change that was
//! not is there as a whole or not at all.

use crate::process::{Daemon, check, start};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use ureq::http::Request;

/// How often it is killed; ASHLAR_KILLS says another number.
const KILLS: usize = 6;

/// A configuration, a line for each fact.
type Facts = BTreeSet<String>;

/// A request, and what it does to the configuration when it is answered well.
struct Change {
    method: &'static str,
    path: String,
    body: Value,
    gone: Vec<String>,
    new: Vec<String>,
}

impl Change {
    fn new(method: &'static str, path: impl Into<String>, body: Value) -> Self {
        Self { method, path: path.into(), body, gone: Vec::new(), new: Vec::new() }
    }

    fn adds<const N: usize>(mut self, facts: [String; N]) -> Self {
        self.new.extend(facts);
        self
    }

    fn removes<const N: usize>(mut self, facts: [String; N]) -> Self {
        self.gone.extend(facts);
        self
    }

    fn apply(&self, facts: &mut Facts) {
        self.gone.iter().for_each(|fact| assert!(facts.remove(fact), "{fact} was there"));
        facts.extend(self.new.iter().cloned());
    }
}

fn volume(name: &str, group: &str) -> String {
    format!("volume {name} of {group}")
}

fn snapshot(name: &str) -> String {
    format!("snapshot {name}")
}

fn host(name: &str, group: &str) -> String {
    format!("host {name} in {group}")
}

fn connection(volume: &str, group: &str) -> String {
    format!("connection {volume} to {group}")
}

/// A round of changes about things of its own; most of them concern several records, or the engine and a record. What is
/// there in the end grows with each round.
fn round(number: usize) -> Vec<Change> {
    let [group, first, second, third] = ["g", "a", "b", "c"].map(|letter| format!("{letter}{number}"));
    let [one, two, cluster, user] = ["h", "i", "k", "u"].map(|letter| format!("{letter}{number}"));
    let create = |name: &str| {
        let body = json!({ "name": name, "size": 1 << 30, "group": group });
        Change::new("POST", "/volumes", body).adds([volume(name, &group)])
    };
    let host_of = |name: &str| {
        let body = json!({ "name": name, "initiators": [format!("iqn.2026-11.io.example:{name}")] });
        Change::new("POST", "/hosts", body).adds([host(name, "none")])
    };
    let at = |noun: &str, name: &str| format!("/{noun}/{name}");
    let taken = [snapshot(&format!("{first}.x")), snapshot(&format!("{second}.x"))];
    vec![
        Change::new("POST", "/groups", json!({ "name": group })).adds([format!("group {group}")]),
        create(&first),
        create(&second),
        host_of(&one),
        host_of(&two),
        Change::new("POST", "/host-groups", json!({ "name": cluster, "hosts": [one, two] }))
            .removes([host(&one, "none"), host(&two, "none")])
            .adds([host(&one, &cluster), host(&two, &cluster)]),
        Change::new("POST", "/connections", json!({ "volume": first, "host_group": cluster }))
            .adds([connection(&first, &cluster)]),
        Change::new("POST", "/snapshots", json!({ "group": group, "suffix": "x" })).adds(taken.clone()),
        Change::new("PATCH", at("volumes", &second), json!({ "name": third }))
            .removes([volume(&second, &group)])
            .adds([volume(&third, &group)]),
        Change::new("POST", "/users", json!({ "name": user, "role": "viewer", "password": "correct horse" }))
            .adds([format!("user {user}")]),
        Change::new("POST", "/tokens", json!({ "name": user, "user": user })).adds([format!("token {user}")]),
        Change::new("DELETE", at("users", &user), Value::Null)
            .removes([format!("user {user}"), format!("token {user}")]),
        Change::new("DELETE", format!("/snapshots/{second}.x?eradicate=true"), Value::Null)
            .removes([taken[1].clone()]),
        Change::new("DELETE", format!("/volumes/{third}?eradicate=true"), Value::Null)
            .removes([volume(&third, &group)]),
        Change::new("PATCH", at("host-groups", &cluster), json!({ "hosts": [one] }))
            .removes([host(&two, &cluster)])
            .adds([host(&two, "none")]),
        Change::new("DELETE", at("hosts", &two), Value::Null).removes([host(&two, "none")]),
    ]
}

/// A client of one life of the daemon.
struct Client {
    url: String,
    token: String,
    agent: ureq::Agent,
}

impl Client {
    fn of(data: &Path, daemon: &Daemon) -> Self {
        let access: Value = serde_json::from_slice(&std::fs::read(data.join("api.json")).unwrap()).unwrap();
        let token = access["token"].as_str().unwrap().to_owned();
        let agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
        Self { url: format!("{}/api/v1", daemon.url()), token, agent }
    }

    /// The response; `None` if the daemon died before it was complete.
    fn send(&self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        let request = request.header("authorization", format!("Bearer {}", self.token));
        let request = request.header("content-type", "application/json");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut response = self.agent.run(request.body(body).unwrap()).ok()?;
        let text = response.body_mut().read_to_string().ok()?;
        let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).ok()? };
        Some((response.status().as_u16(), body))
    }

    fn list(&self, noun: &str) -> Vec<Value> {
        let (status, body) = self.send("GET", &format!("/{noun}"), &Value::Null).expect("an answer");
        assert_eq!(status, 200, "{noun}: {body}");
        body["items"].as_array().unwrap().clone()
    }

    /// What is configured now.
    fn facts(&self) -> Facts {
        let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
        let name = |it: &Value| text(&it["name"]);
        let mut facts = Facts::new();
        facts.extend(self.list("groups").iter().map(|it| format!("group {}", name(it))));
        facts.extend(self.list("volumes").iter().map(|it| volume(&name(it), &text(&it["group"]))));
        facts.extend(self.list("snapshots").iter().map(|it| snapshot(&name(it))));
        facts.extend(self.list("hosts").iter().map(|it| host(&name(it), &text(&it["host_group"]))));
        let seen = self.list("connections");
        facts.extend(seen.iter().map(|it| connection(&text(&it["volume"]), &text(&it["host_group"]))));
        facts.extend(self.list("users").iter().map(|it| format!("user {}", name(it))));
        facts.extend(self.list("tokens").iter().map(|it| format!("token {}", name(it))));
        facts
    }
}

/// Asks for one change after the other until the daemon dies; how many were answered.
fn ask_until_it_dies(client: &Client, changes: &[Change], answered: &AtomicUsize) {
    for change in changes {
        let Some((status, body)) = client.send(change.method, &change.path, &change.body) else { return };
        assert!(status < 300, "{} {}: {status} {body}", change.method, change.path);
        answered.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_daemon_killed_in_the_middle_of_changes_has_none_of_them_in_part() {
    let kills = std::env::var("ASHLAR_KILLS").map_or(KILLS, |text| text.parse().expect("a number of kills"));
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let mut known = Facts::from(["user admin".to_owned()]);
    let (mut whole, mut none) = (0, 0);
    for kill in 0..kills {
        let daemon = start(data, &[]).unwrap();
        let client = Client::of(data, &daemon);
        assert_eq!(client.facts(), known, "before kill {kill}");
        let (changes, answered) = (round(kill), AtomicUsize::new(0));
        // Every change is interrupted sooner or later, and at another point of its way each time.
        let (least, later) = (kill % changes.len(), Duration::from_micros(kill as u64 * 7919 % 12_000));
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| ask_until_it_dies(&client, &changes, &answered));
            while answered.load(Ordering::SeqCst) < least && !asking.is_finished() {
                std::thread::yield_now();
            }
            std::thread::sleep(later);
            daemon.kill();
        });
        let answered = answered.load(Ordering::SeqCst);
        assert!(answered >= least, "only {answered} changes were answered");
        changes[..answered].iter().for_each(|change| change.apply(&mut known));
        let daemon = start(data, &[]).unwrap();
        let found = Client::of(data, &daemon).facts();
        if found == known {
            none += 1;
        } else {
            let change = changes.get(answered).expect("a change that was not answered");
            change.apply(&mut known);
            assert_eq!(found, known, "kill {kill}, in {} {}", change.method, change.path);
            whole += 1;
        }
        daemon.kill();
    }
    let (clean, said) = check(data);
    assert!(clean, "{said}");
    println!(
        "{kills} kills: the change under way was there as a whole {whole} times, and not at all {none} times"
    );
}
