//! The HTTP interface by itself: who may ask, and what is answered to what is wrong.

use crate::process::{Daemon, start};
use serde_json::{Value, json};
use ureq::http::{Request, Response};

pub struct Api {
    _daemon: Daemon,
    _folder: tempfile::TempDir,
    pub url: String,
    pub token: String,
    pub agent: ureq::Agent,
}

impl Api {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("array");
        let daemon = start(&data, more).unwrap();
        let access: Value = serde_json::from_slice(&std::fs::read(data.join("api.json")).unwrap()).unwrap();
        let (url, token) = (daemon.url().to_owned(), access["token"].as_str().unwrap().to_owned());
        let agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
        Self { _daemon: daemon, _folder: folder, url, token, agent }
    }

    /// The folder of the array.
    pub fn data(&self) -> std::path::PathBuf {
        self._folder.path().join("array")
    }

    pub fn send(&self, method: &str, path: &str, token: Option<&str>, body: &str) -> Answer {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        Answer::of(self.agent.run(request.body(body.to_owned()).unwrap()).unwrap())
    }

    pub fn ask(&self, method: &str, path: &str, body: Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(method, path, Some(&format!("Bearer {}", self.token)), &body)
    }
}

pub struct Answer {
    pub status: u16,
    kind: String,
    pub body: Value,
}

impl Answer {
    fn of(mut response: Response<ureq::Body>) -> Self {
        let header = response.headers().get("content-type").map(|value| value.to_str().unwrap().to_owned());
        let text = response.body_mut().read_to_string().unwrap();
        let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() };
        Self { status: response.status().as_u16(), kind: header.unwrap_or_default(), body }
    }

    pub fn assert_problem(&self, status: u16, kind: &str) {
        assert_eq!((self.status, self.body["kind"].as_str()), (status, Some(kind)), "{}", self.body);
        assert_eq!(self.kind, "application/problem+json");
        assert_eq!(self.body["status"], status);
        assert_eq!(self.body["type"], format!("urn:ashlar:problem:{kind}"));
        assert!(!self.body["detail"].as_str().unwrap().is_empty());
    }
}

#[test]
fn nobody_asks_without_the_token() {
    let api = Api::start();
    for token in [None, Some("Bearer "), Some("Bearer wrong"), Some("Basic YTpi"), Some(api.token.as_str())] {
        for (method, path) in
            [("GET", "/api/v1/array"), ("POST", "/api/v1/volumes"), ("DELETE", "/api/v1/hosts/h")]
        {
            api.send(method, path, token, "").assert_problem(401, "unauthorized");
        }
    }
    assert_eq!(api.ask("GET", "/api/v1/array", Value::Null).status, 200);
    let description = api.send("GET", "/api/v1/openapi.json", None, "");
    assert_eq!(description.body["openapi"], "3.1.0");
}

#[test]
fn what_is_wrong_is_answered_with_a_problem() {
    let api = Api::start();
    api.ask("POST", "/", Value::Null).assert_problem(405, "invalid");
    api.ask("GET", "/api/v1/nothing", Value::Null).assert_problem(404, "not_found");
    api.ask("PUT", "/api/v1/array", Value::Null).assert_problem(405, "invalid");
    api.ask("GET", "/api/v1/volumes/none", Value::Null).assert_problem(404, "not_found");
    api.ask("GET", "/api/v1/volumes/%2e%2e%2f", Value::Null).assert_problem(404, "not_found");
    api.ask("GET", "/api/v1/volumes/%ff", Value::Null).assert_problem(400, "invalid");
    let token = format!("Bearer {}", api.token);
    api.send("POST", "/api/v1/volumes", Some(&token), "{").assert_problem(400, "invalid");
    api.send("POST", "/api/v1/volumes", Some(&token), "").assert_problem(415, "invalid");
    for body in [
        json!([]),
        json!({}),
        json!({ "name": "a" }),
        json!({ "name": "a", "size": -1 }),
        json!({ "name": "a", "size": "1GiB" }),
        json!({ "name": "a", "size": 1 << 30, "colour": "red" }),
    ] {
        let answer = api.ask("POST", "/api/v1/volumes", body);
        assert!(matches!(answer.status, 400 | 422), "{}", answer.body);
        answer.assert_problem(answer.status, "invalid");
    }
    let huge = json!({ "name": "x".repeat(1 << 20), "size": 1 << 30 });
    api.ask("POST", "/api/v1/volumes", huge).assert_problem(413, "invalid");
    assert_eq!(api.ask("GET", "/api/v1/volumes", Value::Null).body, json!({ "items": [], "total": 0 }));
}

#[test]
fn monitors_learn_the_state_without_credentials_and_nothing_else() {
    let api = Api::start();
    for path in ["/healthz", "/readyz"] {
        let mut answer = api.agent.get(format!("{}{path}", api.url)).call().unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(answer.headers()["content-type"], "text/plain; charset=utf-8");
        assert_eq!(answer.headers()["cache-control"], "no-store");
        assert_eq!(answer.body_mut().read_to_string().unwrap(), "ok\n");
        api.ask("POST", path, json!({})).assert_problem(405, "invalid");
    }
    for path in ["/api", "/api/v1", "/api/v1/nothing", "/api/v2/volumes"] {
        api.ask("GET", path, Value::Null).assert_problem(404, "not_found");
    }
}

#[test]
fn volumes_hosts_and_connections_come_and_go() {
    let api = Api::start();
    let made = api.ask("POST", "/api/v1/volumes", json!({ "name": "db1", "size": 1 << 30 }));
    assert_eq!((made.status, made.kind.as_str()), (201, "application/json"));
    assert_eq!(api.ask("GET", "/api/v1/volumes/db1", Value::Null).body, made.body);
    let again = api.ask("POST", "/api/v1/volumes", json!({ "name": "db1", "size": 1 << 30 }));
    assert_eq!((again.status, &again.body), (200, &made.body), "it is there as wanted");
    let other = api.ask("POST", "/api/v1/volumes", json!({ "name": "db1", "size": 2_u64 << 30 }));
    other.assert_problem(409, "differs");
    assert_eq!(other.body["field"], "size");
    let clone = api.ask("POST", "/api/v1/volumes", json!({ "name": "db2", "source": "db1" }));
    assert_eq!(clone.body["size"], 1 << 30);
    let host = json!({ "name": "h", "initiators": ["iqn.1993-08.org.debian:01:h"] });
    assert_eq!(api.ask("POST", "/api/v1/hosts", host).status, 201);
    let connection = json!({ "volume": "db1", "host": "h", "lun": 5 });
    let seen = api.ask("POST", "/api/v1/connections", connection.clone());
    assert_eq!((seen.status, &seen.body["lun"], &seen.body["volume_id"]), (201, &json!(5), &made.body["id"]));
    assert_eq!(seen.body["portals"][0]["group_tag"], 1);
    assert_eq!(api.ask("POST", "/api/v1/connections", connection).status, 200);
    assert_eq!(api.ask("GET", "/api/v1/connections/db1/h", Value::Null).body, seen.body);
    let list = api.ask("GET", "/api/v1/connections", Value::Null).body;
    assert_eq!((&list["total"], &list["items"][0]["naa"]), (&json!(1), &seen.body["naa"]));
    let grown = api.ask("PATCH", "/api/v1/volumes/db1", json!({ "size": 2u64 << 30 }));
    assert_eq!((grown.status, grown.body["size"].as_u64()), (200, Some(2 << 30)));
    api.ask("DELETE", "/api/v1/volumes/db1", Value::Null).assert_problem(409, "precondition");
    assert_eq!(api.ask("DELETE", "/api/v1/connections/db1/h", Value::Null).status, 204);
    assert_eq!(api.ask("DELETE", "/api/v1/connections/db1/h", Value::Null).status, 204, "it can be repeated");
    api.ask("GET", "/api/v1/connections/db1/h", Value::Null).assert_problem(404, "not_found");
    assert_eq!(api.ask("DELETE", "/api/v1/volumes/db1", Value::Null).status, 204);
    assert_eq!(api.ask("DELETE", "/api/v1/hosts/h", Value::Null).status, 204);
}

#[test]
fn many_clients_at_once_get_one_answer_each() {
    let api = Api::start();
    let made = std::thread::scope(|scope| {
        let one = |number: usize| {
            let api = &api;
            move || {
                let name = format!("v{}", number % 5);
                api.ask("POST", "/api/v1/volumes", json!({ "name": name, "size": 1 << 30 })).status
            }
        };
        let threads: Vec<_> = (0..20).map(|number| scope.spawn(one(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).filter(|status| *status == 201).count()
    });
    assert_eq!(made, 5);
    assert_eq!(api.ask("GET", "/api/v1/volumes", Value::Null).body["items"].as_array().unwrap().len(), 5);
}

#[test]
fn performance_is_told_and_streamed() {
    let api = Api::start();
    api.ask("POST", "/api/v1/volumes", json!({ "name": "db1", "size": 1 << 30 }));
    let token = format!("Bearer {}", api.token);
    let request = Request::get(format!("{}/api/v1/stream", api.url)).header("authorization", &token);
    let mut response = api.agent.run(request.body(()).unwrap()).unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let lines = std::io::BufRead::lines(std::io::BufReader::new(response.body_mut().as_reader()));
    // The first point says that a second has been measured.
    let mut data = lines.map(Result::unwrap).skip_while(|line| line != "event: performance").skip(1);
    let point: Value = serde_json::from_str(data.next().unwrap().strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(point["write"]["iops"], 0.0);

    let to = point["time"].as_u64().unwrap() + 1;
    let reply = api.ask("GET", &format!("/api/v1/performance?to={to}&from={}", to - 1), Value::Null);
    assert_eq!((reply.status, &reply.body["times"]), (200, &json!([to - 1])), "{}", reply.body);
    assert_eq!(reply.body["read"]["iops"], json!([0.0]));
    assert_eq!(reply.body["read"]["latency_us"]["p99"], json!([null]));
    for path in ["", "/sizes", "/latency", "/offload"] {
        let path = format!("/api/v1/performance{path}");
        for which in ["", "?volume=db1", "?points=10"] {
            assert_eq!(api.ask("GET", &format!("{path}{which}"), Value::Null).status, 200);
        }
        api.ask("GET", &format!("{path}?volume=none"), Value::Null).assert_problem(404, "not_found");
        api.ask("GET", &format!("{path}?volume=a&host=b"), Value::Null).assert_problem(400, "invalid");
        api.ask("GET", &format!("{path}?from=9&to=8"), Value::Null).assert_problem(400, "invalid");
    }
    for path in ["/performance/top", "/performance/top?by=host&seconds=9", "/performance/paths", "/capacity"]
    {
        assert_eq!(api.ask("GET", &format!("/api/v1{path}"), Value::Null).status, 200, "{path}");
    }
    let request = Request::get(format!("{}/api/v1/performance?format=csv", api.url));
    let mut table = api.agent.run(request.header("authorization", &token).body(()).unwrap()).unwrap();
    assert!(table.body_mut().read_to_string().unwrap().starts_with("time,read_iops,"));
}

#[test]
fn a_request_sent_again_is_done_once_and_a_stale_one_not_at_all() {
    let api = Api::start();
    let send = |method: &str, path: &str, header: (&str, &str), body: Value| {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}/api/v1/{path}", api.url))
            .header("authorization", format!("Bearer {}", api.token))
            .header("content-type", "application/json")
            .header(header.0, header.1);
        api.agent.run(request.body(body.to_string()).unwrap()).unwrap()
    };
    let new = json!({ "name": "db1", "size": 1 << 20 });
    let key = ("idempotency-key", "one");
    let first = Answer::of(send("POST", "volumes", key, new.clone()));
    let again = Answer::of(send("POST", "volumes", key, new.clone()));
    assert_eq!((first.status, again.status, &again.body), (201, 201, &first.body));
    Answer::of(send("POST", "volumes", key, json!({ "name": "db2", "size": 1 << 20 })))
        .assert_problem(422, "invalid");
    let other = json!({ "name": "db1", "size": 2 << 20 });
    Answer::of(send("POST", "volumes", ("idempotency-key", "two"), other)).assert_problem(409, "differs");
    assert_eq!(
        send("POST", "volumes", ("idempotency-key", "three"), new).status(),
        200,
        "it is there as wanted"
    );

    let seen = send("GET", "volumes/db1", ("accept", "*/*"), Value::Null);
    let tag = seen.headers().get("etag").unwrap().to_str().unwrap().to_owned();
    let limit = |iops: u64| json!({ "limits": { "iops": iops } });
    assert_eq!(send("PATCH", "volumes/db1", ("if-match", &tag), limit(5)).status(), 200);
    Answer::of(send("PATCH", "volumes/db1", ("if-match", &tag), limit(6))).assert_problem(412, "stale");
    assert_eq!(send("DELETE", "volumes/db1", ("if-match", "*"), Value::Null).status(), 204);
    Answer::of(send("DELETE", "volumes/db1", ("if-match", "*"), Value::Null))
        .assert_problem(404, "not_found");
}
