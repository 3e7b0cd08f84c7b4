//! Users, sessions, tokens and TLS, from the view of programs and browsers.

use crate::process::{json, run_with, start};
use rcgen::{BasicConstraints, CertificateParams, IsCa};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use ureq::http::{Request, Response};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

/// A program that trusts the certificate in the array's folder.
fn agent(data: &Path) -> ureq::Agent {
    let text = std::fs::read(data.join("tls.pem")).unwrap();
    let roots = parse_pem(&text).map(|item| match item.unwrap() {
        PemItem::Certificate(certificate) => certificate.to_owned(),
        _ => panic!("a certificate"),
    });
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots.collect())))
        .unversioned_rustls_crypto_provider(provider)
        .build();
    ureq::Agent::config_builder().http_status_as_error(false).proxy(None).tls_config(tls).build().into()
}

struct Client {
    agent: ureq::Agent,
    url: String,
}

impl Client {
    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Response<ureq::Body> {
        let mut request = Request::builder().method(method).uri(format!("{}/api/v1/{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        match body {
            Value::Null => self.agent.run(request.body(String::new()).unwrap()).unwrap(),
            body => {
                let request = request.header("content-type", "application/json");
                self.agent.run(request.body(body.to_string()).unwrap()).unwrap()
            }
        }
    }

    fn status(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> u16 {
        self.send(method, path, headers, body).status().as_u16()
    }
}

fn cookie(response: &Response<ureq::Body>) -> String {
    let line = response.headers()["set-cookie"].to_str().unwrap();
    assert!(line.contains("HttpOnly") && line.contains("SameSite=Strict"), "{line}");
    line.split(';').next().unwrap().to_owned()
}

#[test]
fn tls_is_on_by_default_and_exclusive_with_tls_only() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = start(data, &[]).unwrap();
    assert!(daemon.url().starts_with("http://127.0.0.1:"), "plain HTTP on loopback, for scripts");
    let url = daemon.url().replace("http:", "https:");
    let client = Client { agent: agent(data), url };
    let described = client.send("GET", "openapi.json", &[], &Value::Null);
    assert_eq!(described.status().as_u16(), 200);
    assert_eq!(described.headers()["strict-transport-security"], "max-age=31536000");
    let made = std::fs::read(data.join("tls.pem")).unwrap();
    daemon.kill();

    let daemon = start(data, &["--tls-only"]).unwrap();
    assert!(daemon.url().starts_with("https://"));
    assert_eq!(std::fs::read(data.join("tls.pem")).unwrap(), made, "the certificate is kept");
    assert_eq!(json(data, "array status")["state"], "online");
    let plain = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build();
    let address = daemon.url().replace("https:", "http:");
    let refused = ureq::Agent::from(plain).get(format!("{address}/api/v1/openapi.json")).call().unwrap();
    assert_eq!(refused.status().as_u16(), 426);
}

#[test]
fn a_certificate_is_replaced_while_the_array_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (data, other) = (&folder.path().join("array"), &folder.path().join("other"));
    let daemon = start(data, &["--tls-only"]).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let made = rcgen::CertificateParams::new(vec!["127.0.0.1".into()]).unwrap().self_signed(&key).unwrap();
    std::fs::create_dir(other).unwrap();
    let (chain, file) = (other.join("chain.pem"), other.join("key.pem"));
    std::fs::write(&chain, made.pem()).unwrap();
    std::fs::write(&file, key.serialize_pem()).unwrap();
    let words = format!("certificate replace --chain {} --key {}", chain.display(), file.display());
    // A command that follows at once reads either certificate, and trusts what it meets.
    for _ in 0..8 {
        let another = rcgen::CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
        std::fs::write(&chain, another.self_signed(&key).unwrap().pem()).unwrap();
        json(data, &words);
        json(data, "certificate show");
    }
    std::fs::write(&chain, made.pem()).unwrap();
    assert_eq!(json(data, &words)["chain"], made.pem());
    assert_eq!(json(data, "certificate show")["chain"], made.pem());
    let wrong = rcgen::KeyPair::generate().unwrap().serialize_pem();
    std::fs::write(&file, wrong).unwrap();
    let refused = crate::process::fails(data, &words, 1);
    assert!(refused.contains("belongs to none of the certificates"), "{refused}");
    daemon.kill();
    let _daemon = start(data, &["--tls-only"]).unwrap();
    assert_eq!(std::fs::read_to_string(data.join("tls.pem")).unwrap(), made.pem());
    assert_eq!(json(data, "array status")["state"], "online");
}

#[test]
fn a_command_on_this_machine_trusts_the_certificate_of_the_array_whatever_it_states() {
    let folder = tempfile::tempdir().unwrap();
    let (data, other) = (&folder.path().join("array"), &folder.path().join("other"));
    let daemon = start(data, &["--tls-only"]).unwrap();
    std::fs::create_dir(other).unwrap();
    let (chain, file) = (other.join("chain.pem"), other.join("key.pem"));
    let words = format!("certificate replace --chain {} --key {}", chain.display(), file.display());
    let names = |names: &[&str]| {
        CertificateParams::new(names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()).unwrap()
    };
    let mut authority = names(&["127.0.0.1"]);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let mut expired = names(&["127.0.0.1"]);
    expired.not_after = rcgen::date_time_ymd(2001, 1, 1);
    for (what, params) in [
        ("an authority, as openssl req -x509 makes it", authority),
        ("the name of the server alone", names(&["array.example.com"])),
        ("no name", names(&[])),
    ] {
        let key = rcgen::KeyPair::generate().unwrap();
        let made = params.self_signed(&key).unwrap().pem();
        std::fs::write(&chain, &made).unwrap();
        std::fs::write(&file, key.serialize_pem()).unwrap();
        assert_eq!(json(data, &words)["chain"], *made, "{what}");
        assert_eq!(json(data, "certificate show")["chain"], *made, "{what}");
        assert_eq!(std::fs::read_to_string(data.join("tls.pem")).unwrap(), made, "{what}");
    }
    let key = rcgen::KeyPair::generate().unwrap();
    std::fs::write(&chain, expired.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(&file, key.serialize_pem()).unwrap();
    let refused = crate::process::fails(data, &words, 1);
    assert!(refused.contains("has expired"), "{refused}");
    // Another certificate, of the same names, is another server.
    let key = rcgen::KeyPair::generate().unwrap();
    std::fs::write(data.join("tls.pem"), names(&["127.0.0.1"]).self_signed(&key).unwrap().pem()).unwrap();
    let refused = crate::process::fails(data, "array status", 1);
    assert!(refused.contains("does not have the certificate in"), "{refused}");
    daemon.kill();
    let _daemon = start(data, &["--tls-only"]).unwrap();
    assert_eq!(json(data, "array status")["state"], "online", "a start writes the certificate again");
}

#[test]
fn the_first_user_logs_in_and_others_have_their_roles() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = start(data, &[]).unwrap();
    let log = std::fs::read_to_string(data.with_extension("log")).unwrap();
    let line = log.lines().find(|line| line.starts_with("The first user is")).unwrap();
    let password = line.rsplit(' ').next().unwrap().to_owned();
    let client = Client { agent: agent(data), url: daemon.url().to_owned() };

    let log_in = |user: &str, password: &str| {
        client.send("POST", "session", &[], &json!({ "user": user, "password": password }))
    };
    let mut session = log_in("admin", &password);
    assert_eq!(session.status().as_u16(), 200);
    let admin = cookie(&session);
    let body: Value = serde_json::from_str(&session.body_mut().read_to_string().unwrap()).unwrap();
    assert_eq!((body["user"].as_str(), body["role"].as_str()), (Some("admin"), Some("admin")));
    let with = |cookie: &str| [("cookie", cookie.to_owned())];
    let ask = |method: &str, path: &str, cookie: &str, body: Value| {
        let headers = with(cookie);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        client.status(method, path, &headers, &body)
    };
    assert_eq!(ask("GET", "session", &admin, Value::Null), 200);
    assert_eq!(ask("POST", "volumes", &admin, json!({ "name": "db1", "size": 1 << 30 })), 201);
    let other_origin = [("cookie", admin.as_str()), ("origin", "https://evil.example")];
    assert_eq!(client.status("DELETE", "volumes/db1", &other_origin, &Value::Null), 403);

    for (name, role) in [("olga", "operator"), ("vera", "viewer")] {
        let made = run_with(data, &format!("user create {name} --role {role}"), "eight chars\n");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    assert_eq!(json(data, "user list").as_array().unwrap().len(), 3);
    let (olga, vera) = (cookie(&log_in("olga", "eight chars")), cookie(&log_in("vera", "eight chars")));
    assert_eq!(ask("GET", "volumes", &vera, Value::Null), 200);
    assert_eq!(ask("DELETE", "volumes/db1", &vera, Value::Null), 403);
    assert_eq!(ask("GET", "audit", &olga, Value::Null), 403);
    assert_eq!(ask("PATCH", "users/vera", &olga, json!({ "role": "admin" })), 403);
    assert_eq!(ask("DELETE", "volumes/db1", &olga, Value::Null), 204);
    // Users set their own passwords: existing sessions end, and the new password works immediately.
    let new = json!({ "password": "nine chars", "current_password": "eight chars" });
    assert_eq!(ask("PATCH", "users/vera", &vera, new), 200);
    assert_eq!(ask("GET", "session", &vera, Value::Null), 401);
    let vera = cookie(&log_in("vera", "nine chars"));
    assert_eq!(ask("GET", "session", &vera, Value::Null), 200);
    // A new user with the name of a deleted one does not inherit its sessions, even within the same second.
    assert_eq!(ask("DELETE", "users/vera", &admin, Value::Null), 204);
    let again = json!({ "name": "vera", "role": "operator", "password": "ten chars!" });
    assert_eq!(ask("POST", "users", &admin, again), 201);
    assert_eq!(ask("GET", "session", &vera, Value::Null), 401);
    assert_eq!(ask("DELETE", "session", &olga, Value::Null), 204);
    assert_eq!(ask("GET", "session", &olga, Value::Null), 401);
    let last = crate::process::fails(data, "user delete admin", 1);
    assert!(last.contains("last user"), "{last}");

    let audit = client.agent.get(format!("{}/api/v1/audit", client.url)).header("cookie", &admin).call();
    let audit: Value = serde_json::from_str(&audit.unwrap().body_mut().read_to_string().unwrap()).unwrap();
    let deleted =
        audit["items"].as_array().unwrap().iter().find(|it| it["action"] == "DeleteVolume").unwrap();
    assert_eq!((deleted["user"].as_str(), deleted["origin"].as_str()), (Some("olga"), Some("127.0.0.1")));
    assert_eq!(deleted["detail"], "delete volume db1 (eradicate: no)");
    assert_eq!((deleted["verb"].as_str(), deleted["object"].as_str()), (Some("delete"), Some("db1")));
    assert!(!audit.to_string().contains("eight chars"));
    let own =
        audit["items"].as_array().unwrap().iter().find(|it| it["action"] == "ChangeOwnPassword").unwrap();
    assert_eq!(own["detail"], "set own password of user vera (password: (hidden))");
    let hidden = json!({ "field": "hash", "before": "(hidden)", "after": "(hidden)" });
    assert!(own["changes"][0]["fields"].as_array().unwrap().contains(&hidden), "{own}");
}

#[test]
fn sessions_and_replies_survive_a_restart_and_no_secret_is_stored_in_clear() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = start(data, &[]).unwrap();
    for (name, role) in [("ada", "admin"), ("olga", "operator"), ("vera", "viewer")] {
        let made = run_with(data, &format!("user create {name} --role {role}"), "eight chars\n");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    let mut client = Client { agent: agent(data), url: daemon.url().to_owned() };
    let [ada, olga, vera] = ["ada", "olga", "vera"].map(|user| {
        cookie(&client.send("POST", "session", &[], &json!({ "user": user, "password": "eight chars" })))
    });
    let here = |client: &Client, cookie: &str| {
        client.status("GET", "session", &[("cookie", cookie)], &Value::Null) == 200
    };
    let once = |client: &Client, name: &str| {
        let headers = [("cookie", ada.as_str()), ("idempotency-key", "one")];
        let mut answer = client.send("POST", "tokens", &headers, &json!({ "name": name, "role": "viewer" }));
        let again = answer.headers().get("idempotent-replayed").is_some();
        (answer.status().as_u16(), again, answer.body_mut().read_to_string().unwrap())
    };
    let (status, again, reply) = once(&client, "wall");
    assert!(status == 201 && !again, "{reply}");
    assert_eq!(client.status("DELETE", "session", &[("cookie", &olga)], &Value::Null), 204);
    daemon.kill();

    let token: Value = serde_json::from_str(&reply).unwrap();
    let secrets = [token["secret"].as_str().unwrap(), ada.split_once('=').unwrap().1];
    for file in ["history.db", "history.db-wal"] {
        let bytes = std::fs::read(data.join(file)).unwrap();
        for secret in secrets {
            assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{file}");
        }
    }

    let daemon = start(data, &[]).unwrap();
    client.url = daemon.url().to_owned();
    assert!(here(&client, &ada) && here(&client, &vera) && !here(&client, &olga));
    assert_eq!(once(&client, "wall"), (201, true, reply.clone()));
    assert_eq!(once(&client, "other").0, 422);
    assert_eq!(json(data, "token list").as_array().unwrap().len(), 1);
    // Ended sessions stay ended.
    assert!(run_with(data, "user password vera", "nine chars\n").status.success());
    assert!(!here(&client, &vera));
    assert_eq!(client.status("DELETE", "session", &[("cookie", &ada)], &Value::Null), 204);
    daemon.kill();
    let daemon = start(data, &[]).unwrap();
    client.url = daemon.url().to_owned();
    assert!(!here(&client, &vera) && !here(&client, &ada));
    assert_eq!(once(&client, "wall").0, 401, "replies are returned only to authorized users");
}

#[test]
fn password_guesses_are_rate_limited() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = start(data, &[]).unwrap();
    let client = Client { agent: agent(data), url: daemon.url().to_owned() };
    let guess = json!({ "user": "admin", "password": "not this one" });
    let tried: Vec<_> = (0..6).map(|_| client.status("POST", "session", &[], &guess)).collect();
    assert_eq!(tried, [401, 401, 401, 401, 401, 429]);
}

#[test]
fn tokens_have_roles_and_expire() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let daemon = start(data, &[]).unwrap();
    let client = Client { agent: agent(data), url: daemon.url().to_owned() };
    let token = json(data, "token create monitor --role viewer --expires 2100-01-01T00:00:00Z");
    let bearer = format!("Bearer {}", token["secret"].as_str().unwrap());
    let headers = [("authorization", bearer.as_str())];
    assert_eq!(client.status("GET", "volumes", &headers, &Value::Null), 200);
    assert_eq!(client.status("DELETE", "volumes/x", &headers, &Value::Null), 403);
    assert!(json(data, "token list")[0].get("secret").is_none());
    daemon.kill();
    let daemon = start(data, &[]).unwrap();
    let client = Client { agent: agent(data), url: daemon.url().to_owned() };
    assert_eq!(client.status("GET", "volumes", &headers, &Value::Null), 200);
    json(data, "token delete monitor");
    assert_eq!(client.status("GET", "volumes", &headers, &Value::Null), 401);
    let late = crate::process::fails(data, "token create old --expires 2000-01-01T00:00:00Z", 1);
    assert!(late.contains("future"), "{late}");
}
