//! Each kind of destination with a real receiver: the received message, and the error for an unreachable receiver.

#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use history::{Alert, AlertChange, Condition, Event, NewEvent, Severity};
use notify::{AuditMessage, Deliver, Destination, LogClass, LogMessage, Notification, Protection};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

const NOW: u64 = 1_795_000_000;

fn notification(change: Option<AlertChange>) -> Notification {
    let condition = Condition {
        kind: "space.threshold".into(),
        severity: Severity::Critical,
        message: "90 % of the drives' space is in use: \"add\" drives".into(),
        noun: Some("volume group".into()),
        name: Some("sql]1".into()),
    };
    let (key, acknowledged, closed) = ("space.threshold".into(), None, None);
    let alert = Alert { id: 7, key, condition, opened: NOW, changed: NOW + 60, acknowledged, closed };
    Notification { array: "lab 1".into(), serial: "00000000005e71a1".into(), uptime: 4711, change, alert }
}

/// A port whose first connection is handled by `talk`.
fn listen<T: Send + 'static>(talk: impl FnOnce(TcpStream) -> T + Send + 'static) -> (u16, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (port, spawn(move || talk(listener.accept().unwrap().0)))
}

/// A port that refuses connections.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Receives a request, responds with the status, and returns headers and body.
fn http(mut stream: TcpStream, status: &str) -> (Vec<String>, String) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim_end().to_lowercase();
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 4\r\nconnection: close\r\n\r\nwhat").unwrap();
    (lines, String::from_utf8(body).unwrap())
}

#[test]
fn a_webhook_gets_json_with_a_signature() {
    let (port, received) = listen(|stream| http(stream, "204 No Content\r\nx: y"));
    let hook = Destination::Webhook { url: format!("http://127.0.0.1:{port}/hook?a=b"), ca: None };
    // The response is unusual on purpose: only its status matters.
    let _ = hook.send(Some("key"), &notification(Some(AlertChange::Opened)), NOW);
    let (headers, body) = received.join().unwrap();
    assert_eq!(headers[0], "post /hook?a=b http/1.1");
    assert!(headers.contains(&"x-ashlar-event: alert.opened".into()), "{headers:?}");
    let signature = headers.iter().find_map(|line| line.strip_prefix("x-ashlar-signature: ")).unwrap();
    let signed = signature.strip_prefix(&format!("t={NOW},v1=")).unwrap();
    let mut openssl = Command::new("openssl");
    let openssl =
        openssl.args(["dgst", "-sha256", "-hmac", "key"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Ok(mut openssl) = openssl.spawn() {
        write!(openssl.stdin.take().unwrap(), "{NOW}.{body}").unwrap();
        let output = String::from_utf8(openssl.wait_with_output().unwrap().stdout).unwrap();
        assert!(output.trim_end().ends_with(signed), "{output} {signed}");
    }
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["alert"]["severity"], "critical");
    assert_eq!(body["alert"]["changed"], "2026-11-18T11:07:40Z");
    assert_eq!(body["array"]["serial"], "00000000005e71a1");
}

#[test]
fn a_webhook_that_refuses_or_is_unreachable_is_an_error() {
    let (port, _) = listen(|stream| http(stream, "500 Internal Server Error"));
    let hook = |port| Destination::Webhook { url: format!("http://127.0.0.1:{port}/"), ca: None };
    let error = hook(port).send(None, &notification(None), NOW).unwrap_err().to_string();
    assert!(
        error.contains("500") && !error.contains("what"),
        "the response of the receiver is not shown: {error}"
    );
    let error = hook(closed_port()).send(Some("hush"), &notification(None), NOW).unwrap_err().to_string();
    assert!(error.contains("can't be reached") && !error.contains("hush"), "{error}");
}

const SYSLOG: &str = "<26>1 2026-11-18T11:07:40Z lab1 ashlar - space.threshold \
                      [ashlar@32473 class=\"alert\" serial=\"00000000005e71a1\"][alert@32473 id=\"7\" event=\"alert.opened\" kind=\"space.threshold\" severity=\"critical\" serial=\"00000000005e71a1\" noun=\"volume group\" \
                      name=\"sql\\]1\"] 90 % of the drives' space is in use: \"add\" drives";

#[test]
fn syslog_gets_a_message_with_its_length() {
    let (port, received) = listen(|mut stream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    let syslog = Destination::Syslog { host: "127.0.0.1".into(), port, tls: false, ca: None };
    syslog.send(None, &notification(Some(AlertChange::Opened)), NOW).unwrap();
    assert_eq!(received.join().unwrap(), format!("{} {SYSLOG}", SYSLOG.len()));
    let syslog = Destination::Syslog { host: "127.0.0.1".into(), port: closed_port(), tls: false, ca: None };
    assert!(
        syslog.send(None, &notification(None), NOW).unwrap_err().to_string().contains("can't be reached")
    );
}

/// An event, and audit log entries with names that imitate other syntax.
fn log() -> Vec<LogMessage> {
    let array = ("lab 1", "00000000005e71a1");
    let event = NewEvent {
        time: NOW,
        severity: Severity::Warning,
        kind: "group.soft-quota-crossed".into(),
        message: "volume group \"größe\" crossed".into(),
        noun: Some("volume group".into()),
        name: Some("größe".into()),
    };
    let done = AuditMessage {
        id: 4,
        time: NOW,
        user: "admin for VSPHERE.LOCAL\\Ada".into(),
        origin: "10.0.0.9".into(),
        action: "CreateVolume".into(),
        noun: "volume".into(),
        object: Some("a\"]\n<26>1".into()),
        request: "create volume a\n<26>1 b".into(),
        refusal: None,
    };
    let refusal = Some("there is no space".to_owned());
    let refused = AuditMessage { object: None, request: "empty recycle bin".into(), refusal, ..done.clone() };
    let values = vec![("total_bytes", 7), ("free_bytes", 0)];
    vec![
        LogMessage::of_event(array, &Event { id: 9, event }),
        LogMessage::of_audit(array, &done),
        LogMessage::of_audit(array, &refused),
        LogMessage::of_values(array, (LogClass::Capacity, "capacity.array", NOW), values, "full".into()),
    ]
}

#[test]
fn log_messages_go_in_their_order_over_one_connection() {
    let (port, received) = listen(|mut stream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    let syslog = Destination::Syslog { host: "127.0.0.1".into(), port, tls: false, ca: None };
    syslog.send_log(&log()).unwrap();
    let head = |priority: u8, id: &str, class: &str| {
        format!(
            "<{priority}>1 2026-11-18T11:06:40Z lab1 ashlar - {id} \
             [ashlar@32473 class=\"{class}\" serial=\"00000000005e71a1\"][{class}@32473 "
        )
    };
    let user = r#"user="admin for VSPHERE.LOCAL\\Ada" origin="10.0.0.9" action="CreateVolume" noun="volume""#;
    let expected = [
        head(28, "group.soft-quota-crossed", "event")
            + "id=\"9\" kind=\"group.soft-quota-crossed\" severity=\"warning\" noun=\"volume group\" name=\"größe\"] \
               \u{feff}volume group \"größe\" crossed",
        head(109, "audit.done", "audit")
            + &format!(r#"id="4" outcome="done" {user} name="a\"\] <26>1"] create volume a <26>1 b"#),
        head(108, "audit.refused", "audit")
            + &format!(r#"id="4" outcome="refused" {user}] empty recycle bin: there is no space"#),
        head(30, "capacity.array", "capacity") + r#"total_bytes="7" free_bytes="0"] full"#,
    ];
    let expected = expected.map(|line| format!("{} {line}", line.len())).concat();
    assert_eq!(received.join().unwrap(), expected);
    let snmp = Destination::Snmp { host: "127.0.0.1".into(), port: 162, user: None };
    assert!(snmp.send_log(&log()).unwrap_err().to_string().contains("snmp"));
}

#[test]
fn syslog_over_tls_goes_only_to_the_host_in_the_certificate() {
    let key = rcgen::KeyPair::generate().unwrap();
    let own = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
    let (chain, pem) = (vec![own.der().clone()], own.pem());
    let receive = move || {
        let (chain, key) =
            (chain.clone(), rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap();
        listen(move |stream| {
            let connection = rustls::ServerConnection::new(Arc::new(config)).unwrap();
            let mut text = String::new();
            rustls::StreamOwned::new(connection, stream).read_to_string(&mut text).map(|_| text)
        })
    };
    let syslog = |host: &str, port, ca| Destination::Syslog { host: host.into(), port, tls: true, ca };
    let (port, received) = receive();
    syslog("localhost", port, Some(pem.clone()))
        .send(None, &notification(Some(AlertChange::Opened)), NOW)
        .unwrap();
    assert_eq!(received.join().unwrap().unwrap(), format!("{} {SYSLOG}", SYSLOG.len()));
    let (port, received) = receive();
    syslog("127.0.0.1", port, Some(pem)).send(None, &notification(None), NOW).unwrap_err();
    assert!(received.join().unwrap().is_err(), "another name");
    let (port, received) = receive();
    let key = rcgen::KeyPair::generate().unwrap();
    let other = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
    syslog("localhost", port, Some(other.pem())).send(None, &notification(None), NOW).unwrap_err();
    assert!(received.join().unwrap().is_err(), "another certificate");
}

/// A mail server that accepts everything. Returns the commands and the mail.
fn smtp(mut stream: TcpStream) -> (Vec<String>, String) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut commands, mut mail) = (Vec::new(), String::new());
    let mut line = String::new();
    let mut respond = |text: &str| write!(stream, "{text}\r\n").unwrap();
    respond("220 here");
    while reader.read_line(&mut line).unwrap_or(0) > 0 {
        commands.push(line.trim_end().to_owned());
        match line.get(..4).unwrap_or_default() {
            "EHLO" => respond("250 here"),
            "DATA" => {
                respond("354 go on");
                let mut line = String::new();
                while reader.read_line(&mut line).unwrap() > 0 && line != ".\r\n" {
                    mail.push_str(&line);
                    line.clear();
                }
                respond("250 taken");
            }
            "QUIT" => respond("221 bye"),
            _ => respond("250 yes"),
        }
        line.clear();
    }
    (commands, mail)
}

fn email(port: u16, protection: Protection) -> Destination {
    Destination::Email {
        host: "127.0.0.1".into(),
        port,
        protection,
        user: None,
        from: "array@example.com".into(),
        to: vec!["ada@example.com".into(), "Bob <bob@example.com>".into()],
        ca: None,
    }
}

#[test]
fn a_mail_is_sent_to_all_recipients() {
    let (port, received) = listen(smtp);
    email(port, Protection::None).send(None, &notification(Some(AlertChange::Closed)), NOW).unwrap();
    let (commands, mail) = received.join().unwrap();
    for line in ["MAIL FROM:<array@example.com>", "RCPT TO:<ada@example.com>", "RCPT TO:<bob@example.com>"] {
        assert!(commands.iter().any(|it| it.starts_with(line)), "{line} in {commands:?}");
    }
    for part in [
        "Subject: [lab 1] closed: space.threshold (volume group sql]1)",
        "90 % of the drives' space is in use",
    ] {
        assert!(mail.contains(part), "{part} in {mail}");
    }
}

#[test]
fn mail_is_not_sent_if_a_required_starttls_is_unavailable() {
    let (port, received) = listen(smtp);
    email(port, Protection::Starttls).send(None, &notification(None), NOW).unwrap_err();
    let (commands, mail) = received.join().unwrap();
    assert!(mail.is_empty() && !commands.iter().any(|line| line.starts_with("MAIL")), "{commands:?}");
}

#[test]
fn a_trap_conforms_to_the_mib() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let snmp = Destination::Snmp { host: "127.0.0.1".into(), port, user: None };
    snmp.send(Some("sesame"), &notification(Some(AlertChange::Escalated)), NOW).unwrap();
    let mut bytes = [0; 2048];
    let length = socket.recv(&mut bytes).unwrap();
    // Version 2c, the community, a trap.
    assert_eq!(&bytes[..1], [0x30]);
    let trap = &bytes[..length];
    let has = |part: &[u8]| trap.windows(part.len()).any(|window| window == part);
    assert!(has(b"\x02\x01\x01\x04\x06sesame\xa7"));
    // sysUpTime.0 of 471100 ticks.
    assert!(has(&[0x06, 8, 43, 6, 1, 2, 1, 1, 3, 0, 0x43, 3, 0x07, 0x30, 0x3c]));
    // snmpTrapOID.0 is ashlarAlertWorse.
    assert!(has(&[
        0x06, 10, 43, 6, 1, 6, 3, 1, 1, 4, 1, 0, 0x06, 11, 43, 6, 1, 4, 1, 0x81, 0xfd, 0x59, 1, 0, 2
    ]));
    assert!(has(b"space.threshold") && has(b"sql]1"));
}

/// An snmptrapd process of Net-SNMP, killed on drop. It prints received traps to its standard output.
struct TrapReceiver(Child);

impl Drop for TrapReceiver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn snmptrapd(folder: &Path, config: &str) -> (u16, TrapReceiver) {
    std::fs::write(folder.join("snmptrapd.conf"), config).unwrap();
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let child = Command::new("/usr/sbin/snmptrapd")
        .args(["-f", "-C", "-n", "-On", "-Lo", "-m", "", "-c"])
        .arg(folder.join("snmptrapd.conf"))
        .arg(format!("udp:127.0.0.1:{port}"))
        .env("SNMP_PERSISTENT_DIR", folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("snmptrapd; `cargo xtask setup` installs it");
    (port, TrapReceiver(child))
}

#[test]
fn a_version_3_trap_is_accepted_only_with_the_right_passphrase() {
    let folder = tempfile::tempdir().unwrap();
    let config = "createUser -e 0x80007ed90500000000005e71a1 array SHA-256 opensesame AES opensesame\n\
                  authUser log array priv\n";
    let (port, mut receiver) = snmptrapd(folder.path(), config);
    let snmp = Destination::Snmp { host: "127.0.0.1".into(), port, user: Some("array".into()) };
    let send = |words: &str, passphrase| {
        let mut notification = notification(Some(AlertChange::Opened));
        notification.alert.condition.message = words.into();
        snmp.send(Some(passphrase), &notification, NOW).unwrap();
    };
    let (sender, lines) = channel();
    let output = BufReader::new(receiver.0.stdout.take().unwrap());
    spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    // The receiver loses traps until it listens, so this one is repeated.
    let first = (0..600).find_map(|_| {
        send("are you there", "opensesame");
        lines.recv_timeout(Duration::from_millis(100)).ok().filter(|line| line.contains("are you there"))
    });
    let first = first.expect("it accepts traps of the user");
    // ashlarAlertOpened, and the kind.
    assert!(first.contains(".1.3.6.1.4.1.32473.1.0.1") && first.contains("\"space.threshold\""), "{first}");
    send("forged", "another sesame");
    send("the end", "opensesame");
    let rest: Vec<String> = lines.iter().take_while(|line| !line.contains("the end")).collect();
    assert!(rest.iter().all(|line| !line.contains("forged")), "{rest:?}");
    assert!(snmp.check_secret("sesame1").is_err() && snmp.check_secret("sesame12").is_ok());
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let syslog = |host: &str, tls, ca: Option<&str>| Destination::Syslog {
        host: host.into(),
        port: 1,
        tls,
        ca: ca.map(Into::into),
    };
    assert!(syslog("log.example.com", true, None).check(false).is_ok());
    for (wrong, secret) in [
        (syslog("a b", true, None), false),
        (syslog("log", true, Some("no certificate")), false),
        (syslog("log", false, Some("no certificate")), false),
        (syslog("log", true, None), true),
        (Destination::Snmp { host: "nms".into(), port: 0, user: None }, false),
        (Destination::Snmp { host: "nms".into(), port: 162, user: Some("array".into()) }, false),
        (Destination::Snmp { host: "nms".into(), port: 162, user: Some("a".repeat(33)) }, true),
        (Destination::Webhook { url: "example.com".into(), ca: None }, false),
        (email(25, Protection::None), true),
    ] {
        assert!(wrong.check(secret).is_err(), "{wrong:?}");
    }
    let Destination::Email { host, port, from, to, ca, .. } = email(25, Protection::None) else {
        unreachable!()
    };
    let user = Some("array".into());
    let open = Destination::Email { host, port, protection: Protection::None, user, from, to, ca };
    assert!(open.check(true).unwrap_err().to_string().contains("TLS"));
}
