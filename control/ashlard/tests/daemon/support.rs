//! Notification targets and the support bundle, and that no secret is in it.

use crate::http::Api;
use crate::process::{fails, json as cli, run};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

/// Path of a webhook.
const KEY_PATH: &str = "/hook/pathisasecret";

/// A server that responds to one request with `status`, and returns the request.
fn receiver(status: &'static str) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}{KEY_PATH}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let (mut text, mut part) = (String::new(), [0; 4096]);
        let complete = |text: &str| {
            let (head, body) = text.split_once("\r\n\r\n")?;
            let length = head
                .to_lowercase()
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            (length == Some(body.len())).then_some(())
        };
        while complete(&text).is_none() {
            let length = stream.read(&mut part).unwrap();
            text.push_str(std::str::from_utf8(&part[..length]).unwrap());
        }
        write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        text
    });
    (url, thread)
}

#[test]
fn a_notification_target_receives_tests_and_alerts() {
    // Two drives: an alert of severity info is open from the start.
    let api = Api::start_with(&["--drives", "2"]);
    let (url, received) = receiver("200 OK");
    let (hook, secret) = (json!({ "kind": "webhook", "url": url }), "hook-secret-1");
    let body = json!({ "name": "hook", "destination": hook, "secret": secret, "severity": "info" });
    let made = api.ask("POST", "/api/v1/notification-targets", body);
    assert_eq!((made.status, &made.body["has_secret"]), (201, &json!(true)), "{}", made.body);
    assert!(!made.body.to_string().contains(secret));
    // The path of an address may be a key: it is not shown, and stays if what was shown is sent back.
    let shown = made.body["destination"].clone();
    assert!(url.ends_with(KEY_PATH) && shown["url"] == url.replace(KEY_PATH, "/…"), "{shown}");
    let same = api.ask("PATCH", "/api/v1/notification-targets/hook", json!({ "destination": shown })).body;
    assert_eq!((&same["destination"], &same["has_secret"]), (&shown, &json!(true)));
    let new = json!({ "name": "other", "destination": shown });
    api.ask("POST", "/api/v1/notification-targets", new).assert_problem(400, "invalid");
    let test = api.ask("POST", "/api/v1/notification-targets/hook/test", Value::Null);
    let request = received.join().unwrap();
    assert_eq!(test.status, 204, "{}", test.body);
    assert!(
        request.contains("x-ashlar-event: test") && request.contains("x-ashlar-signature: t="),
        "{request}"
    );
    // The receiver has ended.
    let test = api.ask("POST", "/api/v1/notification-targets/hook/test", Value::Null);
    test.assert_problem(409, "precondition");

    // A new address, without the secret of the old one. The notification of the closed alert is sent there.
    let (url, received) = receiver("204 No Content");
    let change = json!({ "destination": { "kind": "webhook", "url": url } });
    let changed = api.ask("PATCH", "/api/v1/notification-targets/hook", change).body;
    assert_eq!(changed["has_secret"], false);
    let alert = loop {
        let alerts = api.ask("GET", "/api/v1/alerts", Value::Null).body;
        match alerts["items"].as_array().unwrap().first() {
            Some(alert) => break alert["id"].clone(),
            None => std::thread::yield_now(),
        }
    };
    let closed = api.ask("PATCH", &format!("/api/v1/alerts/{alert}"), json!({ "state": "closed" }));
    assert_eq!(closed.status, 200);
    let request = received.join().unwrap();
    assert!(request.contains("x-ashlar-event: alert.") && request.contains("protection.low"), "{request}");
    let wrong =
        json!({ "name": "log", "destination": { "kind": "syslog", "host": "", "port": 1, "tls": true } });
    api.ask("POST", "/api/v1/notification-targets", wrong).assert_problem(400, "invalid");
    assert_eq!(api.ask("DELETE", "/api/v1/notification-targets/hook", Value::Null).status, 204);
}

#[test]
fn a_support_bundle_has_everything_but_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let _daemon = crate::process::start(data, &[]).unwrap();
    cli(data, "volume create db1 --size 1GiB");
    let iqn = "iqn.1993-08.org.debian:01:web1";
    cli(data, &format!("host create web1 --iqn {iqn} --chap-user web1 --chap-secret chapsecret1234"));
    cli(data, "notification create log --syslog log.example.com:6514 --tls --severity critical");
    cli(data, "notification create hook --webhook https://example.com/pathisasecret --secret hooksecret1234");
    cli(data, "notification create nms --snmp 127.0.0.1:162 --secret snmpsecret1234");
    assert_eq!(cli(data, "notification test nms")["tested"], "nms");
    let error = fails(data, "notification create mail --email a@example.com", 2);
    assert!(error.contains("--server"), "{error}");
    let token = cli(data, "token create t1 --role viewer")["secret"].as_str().unwrap().to_owned();
    let password = crate::process::run_with(data, "user create bob --role operator", "bobsecret1234\n");
    assert!(password.status.success());

    let file = folder.path().join("bundle.tar.zst");
    let written = cli(data, &format!("support-bundle --file {}", file.display()));
    assert_eq!(written["bytes"].as_u64(), Some(std::fs::metadata(&file).unwrap().len()));
    let bytes = zstd::decode_all(std::fs::File::open(&file).unwrap()).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    for request in
        ["db1", "web1", iqn, "volume.created", "ashlard.log", "CreateHost", "log.example.com", "tolerates"]
    {
        assert!(text.contains(request), "{request}");
    }
    let access: Value = serde_json::from_slice(&std::fs::read(data.join("api.json")).unwrap()).unwrap();
    let own = access["token"].as_str().unwrap();
    let secrets = [
        "chapsecret",
        "hooksecret",
        "snmpsecret",
        "bobsecret",
        "pathisasecret",
        "PRIVATE KEY",
        "$argon2",
        &token,
        own,
    ];
    for secret in secrets {
        assert!(!text.contains(secret), "{secret}");
    }
    let listed = Command::new("tar")
        .args(["-tf", "-"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let mut listed = listed.unwrap();
    let mut input = listed.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let names = String::from_utf8(listed.wait_with_output().unwrap().stdout).unwrap();
    writer.join().unwrap().unwrap();
    assert!(names.contains("ashlar-support/configuration.json"), "{names}");
    assert!(!run(data, "--token nonsense support-bundle").status.success());
}
