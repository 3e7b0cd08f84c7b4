//! What a credential may do over HTTP: nothing more than the role that it has now, and one's own password in a session only.

use crate::process::{Daemon, json, run_with, start};
use serde_json::{Value, json};
use std::path::Path;
use ureq::http::Request;

const PASSWORD: &str = "eight chars";

struct Client {
    agent: ureq::Agent,
    url: String,
}

impl Client {
    fn of(daemon: &Daemon) -> Self {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
        Self { agent, url: format!("{}/api/v1/", daemon.url()) }
    }

    /// Status, body and cookie of an answer; `by` is a header that says who asks.
    fn ask(
        &self,
        by: Option<&(&str, String)>,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (u16, Value, String) {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some((name, value)) = by {
            request = request.header(*name, value);
        }
        let request = request.header("content-type", "application/json");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut response = self.agent.run(request.body(body).unwrap()).unwrap();
        let cookie = response.headers().get("set-cookie").map(|line| line.to_str().unwrap().to_owned());
        let cookie = cookie.unwrap_or_default().split(';').next().unwrap_or_default().to_owned();
        let text = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), serde_json::from_str(&text).unwrap_or_default(), cookie)
    }

    fn status(&self, by: &(&str, String), method: &str, path: &str, body: Value) -> u16 {
        self.ask(Some(by), method, path, &body).0
    }

    fn log_in(&self, user: &str, password: &str) -> Option<(&'static str, String)> {
        let (status, _, cookie) =
            self.ask(None, "POST", "session", &json!({ "user": user, "password": password }));
        (status == 200).then_some(("cookie", cookie))
    }
}

fn token(data: &Path, name: &str, user: &str, role: &str) -> (&'static str, String) {
    let made = json(data, &format!("token create {name} --user {user} --role {role}"));
    ("authorization", format!("Bearer {}", made["secret"].as_str().unwrap()))
}

/// A daemon with a user of each role.
fn array(data: &Path) -> Daemon {
    let daemon = start(data, &[]).unwrap();
    for (name, role) in [("ada", "admin"), ("olga", "operator"), ("vera", "viewer")] {
        let made = run_with(data, &format!("user create {name} --role {role}"), &format!("{PASSWORD}\n"));
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    daemon
}

#[test]
fn a_token_never_sets_the_password_of_its_user() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = array(data);
    let client = Client::of(&daemon);
    let new = json!({ "password": "chosen by a thief" });
    let both = json!({ "password": "chosen by a thief", "current_password": PASSWORD });
    for (name, user, role) in
        [("a", "ada", "viewer"), ("b", "ada", "operator"), ("c", "olga", "viewer"), ("d", "vera", "viewer")]
    {
        let by = token(data, name, user, role);
        for body in [&new, &both] {
            assert_eq!(client.status(&by, "PATCH", &format!("users/{user}"), body.clone()), 403, "{name}");
        }
        assert!(client.log_in(user, PASSWORD).is_some(), "{user} has the password as before");
    }
}

#[test]
fn ones_own_password_needs_the_current_one_and_guesses_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = array(data);
    let client = Client::of(&daemon);
    for (user, other) in [("ada", "olga"), ("vera", "ada")] {
        let by = client.log_in(user, PASSWORD).unwrap();
        let path = format!("users/{user}");
        let new = "nine chars";
        assert_eq!(client.status(&by, "PATCH", &path, json!({ "password": new })), 403, "{user}");
        let wrong = json!({ "password": new, "current_password": "a wrong one" });
        assert_eq!(client.status(&by, "PATCH", &path, wrong), 403, "{user}");
        let others = json!({ "password": new, "current_password": PASSWORD });
        if user == "vera" {
            assert_eq!(client.status(&by, "PATCH", &format!("users/{other}"), others.clone()), 403);
            let role = json!({ "role": "admin", "current_password": PASSWORD });
            assert_eq!(client.status(&by, "PATCH", &path, role), 403);
            let both = json!({ "role": "admin", "password": new, "current_password": PASSWORD });
            assert_eq!(client.status(&by, "PATCH", &path, both), 400);
        }
        assert_eq!(client.status(&by, "PATCH", &path, others), 200, "{user}");
        assert!(client.log_in(user, PASSWORD).is_none() && client.log_in(user, new).is_some());
        assert_eq!(client.status(&by, "GET", "session", Value::Null), 401, "it began with the old one");
    }
    let by = client.log_in("olga", PASSWORD).unwrap();
    let guess = json!({ "password": "nine chars", "current_password": "a guess" });
    let tried: Vec<_> = (0..7).map(|_| client.status(&by, "PATCH", "users/olga", guess.clone())).collect();
    assert_eq!(tried.last(), Some(&429), "{tried:?}");
}

#[test]
fn a_role_that_was_taken_away_is_gone_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = array(data);
    let client = Client::of(&daemon);
    let ada = client.log_in("ada", PASSWORD).unwrap();
    let olga = client.log_in("olga", PASSWORD).unwrap();
    let by_token = token(data, "t", "olga", "operator");
    let volume = |name: &str| json!({ "name": name, "size": 1 << 30 });
    assert_eq!(client.status(&olga, "POST", "volumes", volume("a")), 201);
    assert_eq!(client.status(&by_token, "POST", "volumes", volume("b")), 201);
    assert_eq!(client.status(&ada, "PATCH", "users/olga", json!({ "role": "viewer" })), 200);
    for by in [&olga, &by_token] {
        assert_eq!(client.status(by, "POST", "volumes", volume("c")), 403);
        assert_eq!(client.status(by, "GET", "volumes", Value::Null), 200);
    }
    assert_eq!(client.status(&olga, "GET", "users/olga", Value::Null), 200, "one's own");
    assert_eq!(client.status(&by_token, "GET", "users/olga", Value::Null), 403, "a token is not a user");
    assert_eq!(client.status(&ada, "DELETE", "users/olga", Value::Null), 204);
    for by in [&olga, &by_token] {
        assert_eq!(client.status(by, "GET", "volumes", Value::Null), 401);
    }
}

/// What needs no sign-in, and what ends one's own session.
const PUBLIC: &[(&str, &str)] = &[
    ("get", "openapi.json"),
    ("post", "session"),
    ("get", "sign-in"),
    ("post", "sign-in"),
    ("post", "sign-in/{directory}"),
];

/// What a viewer may not even see.
const ADMIN_READS: &[&str] = &[
    "audit",
    "configuration",
    "directories",
    "directories/{name}",
    "drives/available",
    "support-bundle",
    "tokens",
    "users",
    "users/{name}",
];

#[test]
fn no_operation_of_the_api_is_open_to_strangers_nor_its_changes_to_a_viewers_token() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = array(data);
    let client = Client::of(&daemon);
    let viewer = token(data, "v", "ada", "viewer");
    let (_, description, _) = client.ask(None, "GET", "openapi.json", &Value::Null);
    let mut seen = 0;
    for (path, operations) in description["paths"].as_object().unwrap() {
        let Some(path) = path.strip_prefix("/api/v1/") else { continue };
        for method in operations.as_object().unwrap().keys() {
            if PUBLIC.contains(&(method.as_str(), path)) {
                continue;
            }
            seen += 1;
            let real: String =
                path.split('/').map(|it| if it.starts_with('{') { "nothing" } else { it }).fold(
                    String::new(),
                    |path, part| {
                        if path.is_empty() { part.into() } else { format!("{path}/{part}") }
                    },
                );
            let (upper, what) = (method.to_uppercase(), format!("{method} {path}"));
            let body = if matches!(method.as_str(), "get" | "delete") { Value::Null } else { json!({}) };
            assert_eq!(client.ask(None, &upper, &real, &body).0, 401, "{what} by a stranger");
            if path == "stream" {
                continue;
            }
            let (status, answer, _) = client.ask(Some(&viewer), &upper, &real, &body);
            let what = format!("{what} by a viewer's token: {status} {answer}");
            match (method.as_str(), path) {
                ("get", _) if ADMIN_READS.contains(&path) => assert_eq!(status, 403, "{what}"),
                ("get", _) => assert!(matches!(status, 200 | 400 | 404), "{what}"),
                ("delete", "session") => assert_eq!(status, 204, "{what}"),
                ("delete", _) => assert_eq!(status, 403, "{what}"),
                // A body that says nothing may be refused before it is asked who sent it.
                _ => assert!(matches!(status, 400 | 403 | 422), "{what}"),
            }
        }
    }
    assert!(seen > 80, "{seen} operations");
}

#[test]
fn answers_of_the_api_are_kept_by_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = array(data);
    let client = Client::of(&daemon);
    let vera = client.log_in("vera", PASSWORD).unwrap();
    for (path, by) in [("volumes", Some(&vera)), ("volumes", None), ("nothing", None), ("openapi.json", None)]
    {
        let mut request = Request::builder().uri(format!("{}{path}", client.url));
        if let Some((name, value)) = by {
            request = request.header(*name, value);
        }
        let response = client.agent.run(request.body(()).unwrap()).unwrap();
        let header = |name: &str| response.headers().get(name).and_then(|it| it.to_str().ok());
        assert_eq!(header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(header("strict-transport-security"), None, "without TLS it means nothing");
    }
}
