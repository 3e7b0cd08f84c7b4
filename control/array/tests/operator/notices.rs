//! Notification targets: kept across restarts, with their secrets sealed.

use crate::rig::{Rig, Up};
use array::{
    ChangeNotificationTarget, CreateNotificationTarget, DeleteNotificationTarget, Destination, Kind,
    ListNotificationTargets, NotificationTarget, NotificationTargetChange, Request, Secret, Severity,
    ShowNotificationTarget, TestNotificationTarget,
};

fn create(name: &str, destination: Destination, secret: Option<&str>) -> CreateNotificationTarget {
    let (name, secret) = (name.into(), secret.map(Secret::new));
    CreateNotificationTarget { name, destination, secret, least: Severity::Warning, enabled: true }
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
    let least = Some(Severity::Critical);
    let kept =
        target(&up, change(NotificationTargetChange { least, ..NotificationTargetChange::default() })).await;
    assert!(kept.has_secret && kept.least == Severity::Critical);
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
