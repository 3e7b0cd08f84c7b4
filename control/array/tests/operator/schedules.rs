//! Schedules with a clock of the test's own: what they take, keep and let go, and what a restart makes of it.

use crate::rig::{Rig, Up, ok, refusal};
use array::{
    ChangeSchedule, ChangeSettings, CreateConnection, CreateGroup, CreateHost, CreateSchedule, CreateVolume,
    DeleteGroup, DeleteSchedule, DeleteSnapshot, Deletion, Kind, ListSnapshots, PeerName, Rule, RunSchedule,
    Schedule, ScheduleChange, SettingsChange, ShowSchedule, ShowSettings,
};
use std::sync::atomic::Ordering;

const HOUR: u64 = 3600;
/// The first full hour of the rig's clock.
const NOON: u64 = 1_795_000_000 - 1_795_000_000 % HOUR + HOUR;

fn rules(rules: &[(&str, u32)]) -> ScheduleChange {
    let rule = |(when, keep): &(&str, u32)| Rule { when: (*when).into(), keep: *keep };
    ScheduleChange { rules: Some(rules.iter().map(rule).collect()), ..ScheduleChange::default() }
}

/// A group with two volumes and an hourly schedule.
async fn prepare(up: &Up, change: ScheduleChange) {
    ok(up, CreateGroup { name: "sql".into(), ..CreateGroup::default() }).await;
    for name in ["data", "log"] {
        let (name, group) = (name.into(), Some("sql".into()));
        ok(up, CreateVolume { name, bytes: 1 << 20, block_bytes: 512, group, ..CreateVolume::default() })
            .await;
    }
    let ScheduleChange { rules, immutable_seconds, enabled, .. } = change;
    ok(
        up,
        CreateSchedule {
            name: "gold".into(),
            group: Some("sql".into()),
            rules: rules.unwrap_or_default(),
            immutable_seconds: immutable_seconds.unwrap_or(0),
            enabled,
            ..CreateSchedule::default()
        },
    )
    .await;
}

async fn show(up: &Up) -> Schedule {
    ok(up, ShowSchedule { name: "gold".into() }).await
}

async fn names(up: &Up) -> Vec<String> {
    let all = ok(up, ListSnapshots).await;
    all.into_iter().map(|it| it.name).collect()
}

/// The clock goes to a time, second by second as far as the array sees it: it looks when it is there.
async fn at(rig: &Rig, up: &Up, time: u64) {
    rig.clock.store(time, Ordering::SeqCst);
    up.array.tick().await;
}

#[tokio::test]
async fn a_group_is_taken_every_hour_and_the_newest_are_kept() {
    let rig = Rig::new();
    let up = rig.up().await;
    prepare(&up, rules(&[("hourly", 2), ("daily", 1)])).await;
    assert_eq!(show(&up).await.next, Some(NOON));
    at(&rig, &up, NOON - 1).await;
    assert!(names(&up).await.is_empty());
    at(&rig, &up, NOON).await;
    at(&rig, &up, NOON + 1).await;
    assert_eq!(names(&up).await, ["data.gold-20261118T120000Z", "log.gold-20261118T120000Z"]);
    for hour in 1..=12 {
        at(&rig, &up, NOON + hour * HOUR).await;
    }
    // Midnight counts for both rules; at two the daily one is the only one that keeps it.
    at(&rig, &up, NOON + 13 * HOUR).await;
    at(&rig, &up, NOON + 14 * HOUR).await;
    let kept = ["20261119T000000Z", "20261119T010000Z", "20261119T020000Z"];
    let data: Vec<_> = kept.iter().map(|time| format!("data.gold-{time}")).collect();
    assert_eq!(names(&up).await[..3], data);
    let it = show(&up).await;
    assert_eq!((it.snapshots, it.last, it.next), (6, Some(NOON + 14 * HOUR), Some(NOON + 15 * HOUR)));
    assert_eq!(up.engine.disks().len(), 8, "what is let go is gone");
}

#[tokio::test]
async fn what_was_missed_is_made_up_for_once() {
    let rig = Rig::new();
    let up = rig.up().await;
    prepare(&up, rules(&[("hourly", 24)])).await;
    at(&rig, &up, NOON).await;
    up.crash().await;
    let up = rig.up().await;
    at(&rig, &up, NOON + 5 * HOUR + 60).await;
    at(&rig, &up, NOON + 5 * HOUR + 61).await;
    assert_eq!(names(&up).await.len(), 4);
    assert_eq!(show(&up).await.next, Some(NOON + 6 * HOUR));
    // Not what was missed while it was disabled.
    let enabled = |enabled| {
        let change = ScheduleChange { enabled: Some(enabled), ..ScheduleChange::default() };
        ChangeSchedule { name: "gold".into(), change }
    };
    ok(&up, enabled(false)).await;
    at(&rig, &up, NOON + 9 * HOUR).await;
    ok(&up, enabled(true)).await;
    at(&rig, &up, NOON + 9 * HOUR + 1).await;
    assert_eq!(names(&up).await.len(), 4);
}

#[tokio::test]
async fn days_begin_in_the_time_zone_of_the_array() {
    let rig = Rig::new();
    let up = rig.up().await;
    // At noon in UTC the day in Kolkata is 17.5 hours old, in Honolulu two.
    let midnight = NOON + 12 * HOUR;
    prepare(&up, rules(&[("daily", 3)])).await;
    assert_eq!(show(&up).await.next, Some(midnight));
    let zone = |name: &str| ChangeSettings {
        change: SettingsChange { time_zone: Some(name.into()), ..SettingsChange::default() },
    };
    assert_eq!(refusal(&up, zone("Europe/Atlantis")).await, Kind::Invalid);
    assert_eq!(ok(&up, zone("asia/kolkata")).await.time_zone, "Asia/Kolkata");
    assert_eq!(show(&up).await.next, Some(midnight - 11 * HOUR / 2));
    at(&rig, &up, midnight - 11 * HOUR / 2).await;
    assert_eq!(names(&up).await.len(), 2);
    up.crash().await;
    let up = rig.up().await;
    assert_eq!(ok(&up, ShowSettings).await.time_zone, "Asia/Kolkata");
    at(&rig, &up, midnight).await;
    assert_eq!(names(&up).await.len(), 2);
    // Midnight in Honolulu was after the last run and is past: it is not made up for.
    at(&rig, &up, midnight + 11 * HOUR).await;
    ok(&up, zone("Pacific/Honolulu")).await;
    at(&rig, &up, midnight + 11 * HOUR + 1).await;
    assert_eq!(names(&up).await.len(), 2);
    assert_eq!(show(&up).await.next, Some(midnight + 34 * HOUR));
    ok(&up, zone("UTC")).await;
    assert_eq!(show(&up).await.next, Some(midnight + 24 * HOUR));
}

#[tokio::test]
async fn what_is_immutable_or_seen_by_a_host_stays() {
    let rig = Rig::new();
    let up = rig.up().await;
    let change = ScheduleChange { immutable_seconds: Some(3 * HOUR), ..rules(&[("hourly", 1)]) };
    prepare(&up, change).await;
    for hour in 0..3 {
        at(&rig, &up, NOON + hour * HOUR).await;
    }
    assert_eq!(names(&up).await.len(), 6);
    let first = "data.gold-20261118T120000Z";
    let delete = DeleteSnapshot { name: first.into(), how: Deletion { eradicate: false } };
    assert_eq!(refusal(&up, delete).await, Kind::Precondition);
    let initiators = vec!["iqn.1993-08.org.debian:01:web1".into()];
    ok(
        &up,
        CreateHost { name: "web1".into(), initiators, chap: None, mutual: None, ..CreateHost::default() },
    )
    .await;
    let peer = PeerName::Host("web1".into());
    ok(&up, CreateConnection { volume: first.into(), peer, lun: None, read_only: false, min_lun: None })
        .await;
    at(&rig, &up, NOON + 3 * HOUR).await;
    let left = names(&up).await;
    assert_eq!(left.len(), 7, "{left:?}");
    assert!(left.contains(&first.to_owned()));
}

#[tokio::test]
async fn a_schedule_is_judged_and_runs_when_asked() {
    let rig = Rig::new();
    let up = rig.up().await;
    prepare(&up, rules(&[("hourly", 1)])).await;
    let gold = |change| ChangeSchedule { name: "gold".into(), change };
    for wrong in [
        rules(&[]),
        rules(&[("hourly", 0)]),
        rules(&[("sometimes", 1)]),
        rules(&[("daily", 1), ("daily", 2)]),
        ScheduleChange { immutable_seconds: Some(u64::MAX), ..ScheduleChange::default() },
    ] {
        assert_eq!(refusal(&up, gold(wrong)).await, Kind::Invalid);
    }
    let volume = Some("data".into());
    let no_rules = CreateSchedule { name: "x".into(), volume, ..CreateSchedule::default() };
    assert_eq!(refusal(&up, no_rules).await, Kind::Invalid);
    assert_eq!(refusal(&up, DeleteGroup { name: "sql".into() }).await, Kind::Precondition);
    let run = RunSchedule { name: "gold".into(), now: true };
    let taken = ok(&up, run).await;
    assert_eq!(taken[0].schedule.as_deref(), Some("gold"));
    ok(&up, DeleteSchedule { name: "gold".into() }).await;
    ok(&up, DeleteGroup { name: "sql".into() }).await;
    assert_eq!(names(&up).await.len(), 2);
}
