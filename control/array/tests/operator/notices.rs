//! Notification targets: kept across restarts, with their secrets sealed.

use crate::rig::{Rig, Up};
use array::{Action, Destination, Kind, Outcome, Secret, Severity, Target, TargetChange};

fn create(name: &str, destination: Destination, secret: Option<&str>) -> Action {
    let (name, secret) = (name.into(), secret.map(Secret::new));
    Action::CreateTarget { name, destination, secret, least: Severity::Warning, enabled: true }
}

fn snmp(port: u16) -> Destination {
    Destination::Snmp { host: "127.0.0.1".into(), port, user: None }
}

async fn target(up: &Up, action: Action) -> Target {
    match up.perform(action).await.unwrap() {
        Outcome::Target(target) => *target,
        other => panic!("{other:?}"),
    }
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
    assert_eq!(target(&up, Action::ShowTarget { name: "nms".into() }).await, made);
    let change = |change| Action::ChangeTarget { name: "nms".into(), change };
    let least = Some(Severity::Critical);
    let kept = target(&up, change(TargetChange { least, ..TargetChange::default() })).await;
    assert!(kept.has_secret && kept.least == Severity::Critical);
    let destination = Some(snmp(1162));
    let moved = target(&up, change(TargetChange { destination, ..TargetChange::default() })).await;
    assert!(!moved.has_secret, "the secret was meant for another place");
    assert_eq!(up.perform(Action::DeleteTarget { name: "nms".into() }).await.unwrap(), Outcome::Gone);
    assert_eq!(up.perform(Action::ListTargets).await.unwrap(), Outcome::Targets(Vec::new()));
    assert_eq!(up.perform(Action::TestTarget { name: "nms".into() }).await.unwrap_err().kind, Kind::NotFound);
    up.down().await;
}
