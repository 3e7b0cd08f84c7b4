//! Alerts: raised once, acknowledged, closed, and over when their cause is.

use crate::rig::{Rig, Up, ok};
use array::{
    Alert, AlertState, AlertStateChange, ChangeAlert, ChangeGroup, CreateGroup, CreateVolume, GroupChange,
    Kind, ListAlerts, Severity, ShowVolume,
};
use block::{Data, Disk, Op};
use bytes::Bytes;

/// Alerts; without `closed` only those that go on.
async fn alerts(up: &Up, closed: bool) -> Vec<Alert> {
    up.array.tick().await;
    let alerts = ok(up, ListAlerts).await;
    alerts.into_iter().filter(|alert| closed || alert.state != AlertState::Closed).collect()
}

/// A group whose volume has used more than its soft quota.
async fn beyond_its_quota(up: &Up) {
    ok(up, CreateGroup { name: "sql".into(), soft_quota: Some(1 << 20), ..CreateGroup::default() }).await;
    let (name, group) = ("db1".into(), Some("sql".into()));
    ok(up, CreateVolume { name, bytes: 1 << 30, block_bytes: 512, group, ..CreateVolume::default() }).await;
    let volume = ok(up, ShowVolume { name: "db1".into() }).await;
    let disk = up.engine.volume(volume.id).unwrap();
    // The journal of the small drives takes no more at once.
    for part in 0..8 {
        let data = Data::from(Bytes::from(vec![7; 256 << 10]));
        disk.execute(Op::Write { lba: part * 512, data }).await.unwrap();
    }
}

fn acknowledge(id: i64) -> ChangeAlert {
    ChangeAlert { id, change: AlertStateChange { state: AlertState::Acknowledged } }
}

fn quota(bytes: u64) -> GroupChange {
    GroupChange { soft_quota: Some(Some(bytes)), ..GroupChange::default() }
}

#[tokio::test]
async fn a_condition_is_one_alert_until_it_is_over_even_across_a_restart() {
    let rig = Rig::new();
    let up = rig.up().await;
    assert!(alerts(&up, true).await.is_empty());
    beyond_its_quota(&up).await;
    let first = alerts(&up, false).await;
    assert_eq!((first.len(), first[0].severity), (1, Severity::Warning));
    assert_eq!(first[0].name.as_deref(), Some("sql"));
    assert_eq!(alerts(&up, false).await, first);
    let acknowledged = ok(&up, acknowledge(first[0].id)).await;
    let alert = acknowledged;
    assert_eq!(alert.acknowledged_by.as_deref(), Some("ada"));
    up.down().await;

    let up = rig.up().await;
    assert_eq!(alerts(&up, false).await, [alert]);
    ok(&up, ChangeGroup { name: "sql".into(), change: quota(1 << 30) }).await;
    assert!(alerts(&up, false).await.is_empty());
    assert!(alerts(&up, true).await[0].closed.is_some());
    up.down().await;
}

#[tokio::test]
async fn an_alert_that_somebody_closed_is_silent_until_it_is_over() {
    let rig = Rig::new();
    let up = rig.up().await;
    beyond_its_quota(&up).await;
    let id = alerts(&up, false).await[0].id;
    ok(&up, ChangeAlert { id, change: AlertStateChange { state: AlertState::Closed } }).await;
    assert!(alerts(&up, false).await.is_empty());
    ok(&up, ChangeGroup { name: "sql".into(), change: quota(1 << 30) }).await;
    assert!(alerts(&up, false).await.is_empty());
    ok(&up, ChangeGroup { name: "sql".into(), change: quota(1 << 20) }).await;
    let again = alerts(&up, false).await;
    assert!(again.len() == 1 && again[0].id != id);
    assert_eq!(up.perform(acknowledge(id)).await.unwrap_err().kind, Kind::Precondition);
    assert_eq!(up.perform(acknowledge(1 << 40)).await.unwrap_err().kind, Kind::NotFound);
    up.down().await;
}

#[tokio::test]
async fn drives_that_go_are_told_of_until_they_are_replaced() {
    let rig = Rig::new();
    let up = rig.up().await;
    assert!(alerts(&up, true).await.is_empty());
    up.down().await;
    let up = rig.up_without(1).await;
    let raised = alerts(&up, false).await;
    let kinds: Vec<_> = raised.iter().map(|alert| alert.kind.as_str()).collect();
    assert!(kinds.contains(&"drive.failed") && kinds.contains(&"protection.degraded"), "{kinds:?}");
    up.down().await;
}

/// Alerts about the audit log a minute later.
async fn lost_log(rig: &Rig, up: &Up) -> Vec<Alert> {
    rig.clock.fetch_add(60, std::sync::atomic::Ordering::SeqCst);
    // The look at the log comes after that at the alerts.
    up.array.tick().await;
    let all = alerts(up, false).await;
    all.into_iter().filter(|alert| alert.kind == "audit.lost").collect()
}

#[tokio::test]
async fn a_lost_audit_log_is_an_alert_across_restarts() {
    let mut rig = Rig::new();
    let up = rig.up().await;
    ok(&up, CreateGroup { name: "sql".into(), ..CreateGroup::default() }).await;
    assert!(lost_log(&rig, &up).await.is_empty());
    up.down().await;
    let up = rig.up().await;
    assert!(lost_log(&rig, &up).await.is_empty(), "nothing is lost by a restart");
    up.down().await;

    rig.history = std::sync::Arc::new(history::Store::in_memory());
    let up = rig.up().await;
    let lost = lost_log(&rig, &up).await;
    assert!(lost.len() == 1 && lost[0].message.contains("empty"), "{lost:?}");
    // Entries that come afterwards do not make up for it.
    for number in 0..9 {
        ok(&up, CreateGroup { name: format!("g{number}"), ..CreateGroup::default() }).await;
    }
    assert_eq!(lost_log(&rig, &up).await.len(), 1);
    up.down().await;
    let up = rig.up().await;
    assert_eq!(lost_log(&rig, &up).await.len(), 1);
    up.down().await;
}
