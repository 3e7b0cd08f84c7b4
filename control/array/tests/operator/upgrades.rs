//! Another release is installed: the array keeps its format until an administrator commits the upgrade.

use crate::rig::{Rig, Up, controller, ok};
use array::{
    AlertState, CommitUpgrade, ControllerState, CreateVolume, FormatPart, Kind, ListAlerts, ListAudit,
    ListVolumes, ShowUpgrade, Topic, Update, Upgrade,
};

fn engine_format(upgrade: &Upgrade) -> (Option<u32>, u32, u32) {
    let found = upgrade.formats.iter().find(|it| it.part == FormatPart::Engine).unwrap();
    (found.active, found.oldest, found.newest)
}

async fn is_alerted(up: &Up) -> bool {
    up.array.tick().await;
    let alerts = ok(up, ListAlerts).await;
    alerts.iter().any(|it| it.kind == "upgrade.uncommitted" && it.state != AlertState::Closed)
}

/// An array that an earlier release made, with this release started on it.
async fn upgraded() -> (Rig, Up) {
    let mut rig = Rig::new();
    rig.formats = 6..=6;
    let up = rig.up().await;
    ok(&up, CreateVolume { name: "old".into(), bytes: 1 << 30, block_bytes: 512, ..CreateVolume::default() })
        .await;
    assert!(ok(&up, ShowUpgrade).await.committed && !is_alerted(&up).await);
    up.down().await;
    rig.formats = engine::FORMATS;
    let up = rig.up().await;
    (rig, up)
}

#[tokio::test]
async fn a_new_array_has_nothing_to_commit() {
    let rig = Rig::new();
    let up = rig.up().await;
    let shown = ok(&up, ShowUpgrade).await;
    assert!(shown.committed && shown.enables.is_empty() && shown.blocked.is_none());
    assert_eq!(engine_format(&shown), (Some(8), 6, 8));
    assert_eq!(ok(&up, CommitUpgrade).await, shown);
    assert!(!is_alerted(&up).await);
}

#[tokio::test]
async fn the_release_before_is_installed_again_as_long_as_nothing_was_committed() {
    let (mut rig, up) = upgraded().await;
    let shown = ok(&up, ShowUpgrade).await;
    assert_eq!((shown.committed, engine_format(&shown)), (false, (Some(6), 6, 8)));
    assert_eq!(shown.enables.len(), 3);
    assert!(is_alerted(&up).await);
    let made =
        CreateVolume { name: "new".into(), bytes: 1 << 30, block_bytes: 512, ..CreateVolume::default() };
    ok(&up, made).await;
    up.crash().await;
    rig.formats = 6..=6;
    let up = rig.up().await;
    let names: Vec<String> = ok(&up, ListVolumes).await.into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["new", "old"]);
}

#[tokio::test]
async fn a_commit_is_audited_survives_a_crash_and_ends_the_alert_and_the_way_back() {
    let (mut rig, up) = upgraded().await;
    assert!(is_alerted(&up).await);
    let mut updates = up.array.subscribe();
    let shown = ok(&up, CommitUpgrade).await;
    assert_eq!((shown.committed, engine_format(&shown)), (true, (Some(8), 6, 8)));
    assert!(shown.enables.is_empty());
    assert!(std::iter::from_fn(|| updates.try_recv().ok()).any(|it| it == Update::Changed(Topic::Upgrade)));
    rig.clock.fetch_add(10, std::sync::atomic::Ordering::SeqCst);
    assert!(!is_alerted(&up).await);
    let audit = ok(&up, ListAudit { limit: Some(1), ..ListAudit::default() }).await;
    let text = format!("{:?}", audit[0]);
    assert!(text.contains("CommitUpgrade") && text.contains("formats"), "{text}");
    up.crash().await;
    rig.formats = 6..=6;
    let refused = rig.up_with_fuse(i64::MAX, false).await.err().expect("refused").to_string();
    assert!(refused.contains("format 8") && refused.contains("newer"), "{refused}");
    rig.formats = engine::FORMATS;
    let up = rig.up().await;
    assert_eq!(ok(&up, ShowUpgrade).await, shown);
}

#[tokio::test]
async fn a_controller_of_the_release_before_prevents_a_commit_while_it_takes_part() {
    let (rig, up) = upgraded().await;
    let set = |reads, state| {
        let standby = array::Controller { reads, ..controller(2, state) };
        *rig.controllers.all.lock().unwrap() = vec![controller(1, ControllerState::Home), standby];
    };
    for reads in [None, Some(6)] {
        set(reads, ControllerState::Standby);
        assert!(ok(&up, ShowUpgrade).await.blocked.unwrap().contains("controller 2"));
        let refused = up.perform(CommitUpgrade).await.unwrap_err();
        assert_eq!(refused.kind, Kind::Precondition);
        assert!(refused.message.contains("update it first"), "{refused}");
    }
    set(Some(6), ControllerState::Stopped);
    assert!(ok(&up, CommitUpgrade).await.committed);
}
