//! What the API gives to clients that hold connections, streams and log-ins, and when it stops to.

use crate::http::Api;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{TryRecvError, channel};

/// A request that is written by hand, on a connection of its own.
fn begin(api: &Api, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(api.url.strip_prefix("http://").unwrap()).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

/// An event stream, and the status of its response.
fn subscribe(api: &Api, credentials: &str) -> (u16, BufReader<TcpStream>) {
    let text = format!("GET /api/v1/stream HTTP/1.1\r\nhost: a\r\n{credentials}\r\n\r\n");
    let mut stream = BufReader::new(begin(api, &text));
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    (line.split(' ').nth(1).unwrap().parse().unwrap(), stream)
}

fn bearer(secret: &Value) -> String {
    format!("authorization: Bearer {}", secret.as_str().unwrap())
}

fn token(api: &Api, name: &str) -> String {
    let made = api.ask("POST", "/api/v1/tokens", json!({ "name": name, "role": "viewer" }));
    assert_eq!(made.status, 201, "{}", made.body);
    bearer(&made.body["secret"])
}

fn health(api: &Api) -> u16 {
    let mut answer = BufReader::new(begin(api, "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n"));
    let mut line = String::new();
    answer.read_line(&mut line).unwrap();
    line.split(' ').nth(1).map_or(0, |status| status.parse().unwrap())
}

#[test]
fn streams_of_a_token_have_a_limit_and_keep_no_other_client_of_their_address_out() {
    let api = Api::start();
    let mut all = Vec::new();
    for name in ["one", "two", "three", "four", "five"] {
        let credentials = token(&api, name);
        let streams: Vec<_> = (0..20).map(|_| subscribe(&api, &credentials)).collect();
        let refused = streams.iter().filter(|(status, _)| *status == 429).count();
        assert_eq!(refused, 4, "{name}");
        assert_eq!(health(&api), 200);
        assert_eq!(api.ask("GET", "/api/v1/array", Value::Null).status, 200);
        all.extend(streams);
    }
    // One of each token that was admitted first still has its events.
    drop(all.split_off(1));
    let mut line = String::new();
    while !line.starts_with("event: ") {
        line.clear();
        assert!(all[0].1.read_line(&mut line).unwrap() > 0, "the stream has ended");
    }
}

#[test]
fn log_ins_whose_body_never_comes_keep_no_client_out() {
    let api = Api::start();
    let text = "POST /api/v1/session HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{";
    let waiting: Vec<_> = (0..300).map(|_| begin(&api, text)).collect();
    assert_eq!(health(&api), 200);
    assert_eq!(api.ask("GET", "/api/v1/array", Value::Null).status, 200);
    drop(waiting);
}

/// Reads a stream until it ends, which it has to before it names this.
fn ends_before(mut stream: BufReader<TcpStream>, name: &str) {
    let mut line = String::new();
    while stream.read_line(&mut line).unwrap_or(0) > 0 {
        assert!(!line.contains(name), "the stream is still open: {line}");
        line.clear();
    }
}

fn create_volume(api: &Api, name: &str) {
    let made = api.ask("POST", "/api/v1/volumes", json!({ "name": name, "size": 1 << 20 }));
    assert_eq!(made.status, 201, "{}", made.body);
}

#[test]
fn a_stream_ends_with_what_authenticated_it() {
    let api = Api::start();
    let user = |name: &str, role: &str| {
        let body = json!({ "name": name, "role": role, "password": "eight chars" });
        assert_eq!(api.ask("POST", "/api/v1/users", body).status, 201);
    };
    let log_in = |name: &str| {
        let body = json!({ "user": name, "password": "eight chars" }).to_string();
        let length = body.len();
        let text = format!(
            "POST /api/v1/session HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        let mut said = String::new();
        begin(&api, &text).read_to_string(&mut said).unwrap();
        let cookie = said.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a session");
        format!("cookie: {}", cookie.split(';').next().unwrap())
    };
    for name in ["gone", "other", "out", "demoted", "password"] {
        user(name, "operator");
    }
    let credentials =
        [token(&api, "deleted"), log_in("gone"), log_in("out"), log_in("demoted"), log_in("password")];
    let streams = credentials.iter().map(|credentials| {
        let (status, stream) = subscribe(&api, credentials);
        assert_eq!(status, 200);
        stream
    });
    let streams: Vec<_> = streams.collect();
    let (_, mut other) = subscribe(&api, &log_in("other"));
    assert_eq!(api.ask("DELETE", "/api/v1/tokens/deleted", Value::Null).status, 204);
    assert_eq!(api.ask("DELETE", "/api/v1/users/gone", Value::Null).status, 204);
    let leave = format!(
        "DELETE /api/v1/session HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{}\r\n\r\n",
        credentials[2]
    );
    let mut said = String::new();
    begin(&api, &leave).read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 204"), "{said}");
    let role = json!({ "role": "viewer" });
    assert_eq!(api.ask("PATCH", "/api/v1/users/demoted", role).status, 200);
    let password = json!({ "password": "nine chars" });
    assert_eq!(api.ask("PATCH", "/api/v1/users/password", password).status, 200);
    create_volume(&api, "seen-by-none");
    for stream in streams {
        ends_before(stream, "seen-by-none");
    }
    let mut line = String::new();
    while !line.contains("seen-by-none") {
        line.clear();
        assert!(other.read_line(&mut line).unwrap() > 0, "the stream of another user has ended");
    }
}

#[test]
fn a_log_in_that_waits_for_a_directory_delays_no_change() {
    let api = Api::start();
    // A server that accepts, and says nothing until the test ends.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let (connected, accepted) = channel();
    let address = server.local_addr().unwrap();
    std::thread::spawn(move || server.incoming().flatten().try_for_each(|stream| connected.send(stream)));
    let settings = json!({ "kind": "ldap", "server": format!("ldap://{address}"), "starttls": true, "base": "ou=people,dc=example" });
    let made = api.ask("POST", "/api/v1/directories", json!({ "name": "corp", "settings": settings }));
    assert_eq!(made.status, 201, "{}", made.body);
    create_volume(&api, "v");
    let body = json!({ "user": "corp/ada", "password": "eight chars" }).to_string();
    let length = body.len();
    // Neither header has a meaning for a log-in: what takes a lock must not be for strangers.
    let headers = "host: a\r\ncontent-type: application/json\r\nif-match: *\r\nidempotency-key: 1";
    let text =
        format!("POST /api/v1/session HTTP/1.1\r\n{headers}\r\ncontent-length: {length}\r\n\r\n{body}");
    let mut log_in = begin(&api, &text);
    let _held = accepted.recv().expect("the directory is asked");
    let (answered, ends) = channel();
    std::thread::spawn(move || {
        let mut first = [0];
        _ = log_in.read_exact(&mut first);
        answered.send(())
    });
    let change =
        "PATCH /api/v1/volumes/v HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\nconnection: close";
    let body = r#"{"size":2097152}"#;
    let text = format!(
        "{change}\r\nif-match: *\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n{body}",
        api.token,
        body.len()
    );
    let mut said = String::new();
    begin(&api, &text).read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    create_volume(&api, "w");
    assert_eq!(ends.try_recv(), Err(TryRecvError::Empty), "the changes waited for the log-in");
}
