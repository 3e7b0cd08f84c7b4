//! Notification targets: kept across restarts, with their secrets sealed.

use crate::rig::{Rig, Up};
use array::{
    ChangeNotificationTarget, Content, CreateGroup, CreateNotificationTarget, DeleteGroup,
    DeleteNotificationTarget, Destination, Kind, ListNotificationTargets, NotificationTarget,
    NotificationTargetChange, Request, Secret, Severity, ShowNotificationTarget, TestNotificationTarget,
};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

fn create(name: &str, destination: Destination, secret: Option<&str>) -> CreateNotificationTarget {
    let (name, secret) = (name.into(), secret.map(Secret::new));
    let content = Content::default_set();
    CreateNotificationTarget {
        name,
        destination,
        secret,
        severity: Severity::Warning,
        content,
        enabled: true,
    }
}

/// A syslog receiver that passes on each message: RFC 5424 with octet counting.
fn receiver() -> (u16, UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, received) = unbounded_channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut length = Vec::new();
            while stream.read_until(b' ', &mut length).unwrap() > 0 {
                let count = String::from_utf8(std::mem::take(&mut length)).unwrap();
                let mut message = vec![0; count.trim_end().parse().unwrap()];
                stream.read_exact(&mut message).unwrap();
                if sender.send(String::from_utf8(message).unwrap()).is_err() {
                    return;
                }
            }
        }
    });
    (port, received)
}

fn snmp(port: u16) -> Destination {
    Destination::Snmp { host: "127.0.0.1".into(), port, user: None }
}

async fn target<R: Request<Answer = NotificationTarget>>(up: &Up, action: R) -> NotificationTarget {
    up.perform(action).await.unwrap()
}

#[tokio::test]
async fn targets_are_kept_changed_and_forgotten() {
    let rig = Rig::new();
    let up = rig.up().await;
    let made = target(&up, create("nms", snmp(162), Some("sesame"))).await;
    assert!(made.has_secret && made.failing.is_none());
    assert_eq!(up.perform(create("nms", snmp(162), None)).await.unwrap_err().kind, Kind::Conflict);
    assert_eq!(up.perform(create("x", snmp(0), None)).await.unwrap_err().kind, Kind::Invalid);
    for (_, value) in up.engine.records("notification/") {
        assert!(!String::from_utf8(value.to_vec()).unwrap().contains("sesame"));
    }
    up.down().await;

    let up = rig.up().await;
    assert_eq!(target(&up, ShowNotificationTarget { name: "nms".into() }).await, made);
    let change = |change| ChangeNotificationTarget { name: "nms".into(), change };
    let severity = Some(Severity::Critical);
    let kept =
        target(&up, change(NotificationTargetChange { severity, ..NotificationTargetChange::default() }))
            .await;
    assert!(kept.has_secret && kept.severity == Severity::Critical);
    let destination = Some(snmp(1162));
    let moved =
        target(&up, change(NotificationTargetChange { destination, ..NotificationTargetChange::default() }))
            .await;
    assert!(!moved.has_secret, "the secret was meant for another place");
    up.perform(DeleteNotificationTarget { name: "nms".into() }).await.unwrap();
    assert_eq!(up.perform(ListNotificationTargets).await.unwrap(), Vec::new());
    assert_eq!(
        up.perform(TestNotificationTarget { name: "nms".into() }).await.unwrap_err().kind,
        Kind::NotFound
    );
    up.down().await;
}

#[tokio::test]
async fn syslog_gets_what_the_target_names_and_other_targets_get_alerts_only() {
    let rig = Rig::new();
    let up = rig.up().await;
    let delivering = tokio::spawn(up.array.notifier().clone().deliver());
    // It listens once it was polled.
    tokio::task::yield_now().await;
    let (port, mut received) = receiver();
    let content = BTreeSet::from([Content::Events, Content::Audit]);
    let syslog = Destination::Syslog { host: "127.0.0.1".into(), port, tls: false, ca: None };
    let log = |name: &str, destination| CreateNotificationTarget {
        content: content.clone(),
        severity: Severity::Info,
        ..create(name, destination, None)
    };
    assert_eq!(up.perform(log("nms", snmp(162))).await.unwrap_err().kind, Kind::Invalid);
    let nothing = CreateNotificationTarget { content: BTreeSet::new(), ..log("none", syslog.clone()) };
    assert_eq!(up.perform(nothing).await.unwrap_err().kind, Kind::Invalid);
    let made = target(&up, log("log", syslog)).await;
    assert_eq!(made.content, content);

    // More than one connection takes, and no alert.
    let count = 200;
    let group = |name| CreateGroup { name, ..CreateGroup::default() };
    up.array.alerts().report("certificate.temporary", Severity::Critical, "trouble".into());
    up.array.tick().await;
    for number in 0..count {
        up.perform(group(format!("g{number}"))).await.unwrap();
    }
    up.perform(DeleteGroup { name: "nothing".into() }).await.unwrap_err();
    let (mut events, mut audits) = (Vec::new(), Vec::new());
    loop {
        let line = received.recv().await.unwrap();
        assert!(!line.contains("[alert@32473"), "{line}");
        match line.contains("[event@32473") {
            true => events.push(line),
            false => audits.push(line),
        }
        if audits.last().is_some_and(|line| line.contains(" audit.refused ")) {
            break;
        }
    }
    let groups = events.iter().filter(|line| line.contains(" group.created "));
    let names: Vec<_> =
        groups.map(|line| line.split_once("name=\"").unwrap().1.split('"').next().unwrap()).collect();
    assert_eq!(names, (0..count).map(|number| format!("g{number}")).collect::<Vec<_>>());
    let done =
        audits.iter().filter(|line| line.contains("action=\"CreateGroup\"") && line.contains(" audit.done "));
    assert_eq!(done.count(), count);
    let refused = audits.last().unwrap();
    assert!(
        refused.contains("delete volume group nothing") && refused.contains("outcome=\"refused\""),
        "{refused}"
    );
    // What the target is changed to counts from then on.
    let content = Some(BTreeSet::from([Content::Alerts]));
    let change = NotificationTargetChange { content, ..NotificationTargetChange::default() };
    up.perform(ChangeNotificationTarget { name: "log".into(), change }).await.unwrap();
    up.array.alerts().end_report("certificate.temporary");
    up.array.tick().await;
    while !received.recv().await.unwrap().contains("event=\"alert.closed\"") {}
    delivering.abort();
    up.down().await;
}

/// A web server that passes on the path of each request.
fn web_server() -> (u16, UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, received) = unbounded_channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut line, mut length) = (String::new(), 0);
            stream.read_line(&mut line).unwrap();
            let path = line.split(' ').nth(1).unwrap().to_owned();
            while line != "\r\n" {
                line.clear();
                stream.read_line(&mut line).unwrap();
                if let Some((_, count)) = line.split_once("ontent-length: ") {
                    length = count.trim().parse().unwrap();
                }
            }
            stream.read_exact(&mut vec![0; length]).unwrap();
            stream.get_mut().write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").unwrap();
            if sender.send(path).is_err() {
                return;
            }
        }
    });
    (port, received)
}

#[tokio::test]
async fn the_address_of_a_webhook_is_sealed_also_that_of_an_earlier_release() {
    let rig = Rig::new();
    let up = rig.up().await;
    let (port, mut asked) = web_server();
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
    let webhook = |path: &str| Destination::Webhook { url: url(path), ca: None };
    let stored = |up: &Up| {
        let records = up.engine.records("notification/").into_iter();
        records.map(|(key, value)| (key, String::from_utf8(value.to_vec()).unwrap())).collect::<Vec<_>>()
    };
    let made = target(&up, create("hook", webhook("/T0KEN?key=K3Y"), Some("sesame"))).await;
    assert_eq!(made.destination, webhook("/…"));
    let [(key, record)] = stored(&up).try_into().unwrap();
    assert!(!record.contains("T0KEN") && !record.contains("K3Y"), "{record}");
    up.perform(TestNotificationTarget { name: "hook".into() }).await.unwrap();
    assert_eq!(asked.recv().await.unwrap(), "/T0KEN?key=K3Y");
    // What is sent as it was shown is the same.
    let destination = Some(webhook("/…"));
    let change = NotificationTargetChange { destination, ..NotificationTargetChange::default() };
    let same = target(&up, ChangeNotificationTarget { name: "hook".into(), change }).await;
    assert!(same.has_secret);
    up.perform(TestNotificationTarget { name: "hook".into() }).await.unwrap();
    assert_eq!(asked.recv().await.unwrap(), "/T0KEN?key=K3Y");

    // As a release before this one has stored it.
    let mut old: serde_json::Value = serde_json::from_str(&record).unwrap();
    old.as_object_mut().unwrap().remove("url").unwrap();
    old["destination"]["url"] = url("/0LD").into();
    let engine = up.engine.clone();
    engine.put_record(&key, Some(old.to_string().into_bytes().into())).await.unwrap();
    drop(engine);
    up.crash().await;
    let up = rig.up().await;
    let [(_, record)] = stored(&up).try_into().unwrap();
    assert!(!record.contains("0LD"), "{record}");
    assert_eq!(target(&up, ShowNotificationTarget { name: "hook".into() }).await.destination, webhook("/…"));
    up.perform(TestNotificationTarget { name: "hook".into() }).await.unwrap();
    assert_eq!(asked.recv().await.unwrap(), "/0LD");
    // Another destination is another address, and its secret goes.
    let destination = Some(webhook("/n3w"));
    let change = NotificationTargetChange { destination, ..NotificationTargetChange::default() };
    let moved = target(&up, ChangeNotificationTarget { name: "hook".into(), change }).await;
    assert!(!moved.has_secret);
    up.perform(TestNotificationTarget { name: "hook".into() }).await.unwrap();
    assert_eq!(asked.recv().await.unwrap(), "/n3w");
}
