//! A clock that jumps: nothing that is kept goes, schedules neither sleep nor run all the time, and it is an alert until
//! an administrator confirms it.

use crate::rig::{Rig, Up, ok, refusal};
use array::{
    AlertState, ChangeSettings, ChangeSnapshot, ConfirmTime, CreateSchedule, CreateSnapshots, CreateVolume,
    DeleteSnapshot, DeleteVolume, Deletion, Kind, LabelsChange, ListAlerts, ListRecycleBin, ListSnapshots,
    Rule, SettingsChange, Severity, ShowSchedule, SnapshotChange, SubjectName,
};
use std::sync::atomic::Ordering;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const NOW: u64 = 1_795_000_000;

async fn create(up: &Up, name: &str) {
    let (name, group) = (name.into(), None);
    ok(up, CreateVolume { name, bytes: 1 << 20, block_bytes: 512, group, ..CreateVolume::default() }).await;
}

async fn delete(up: &Up, name: &str) {
    ok(up, DeleteVolume { name: name.into(), how: Deletion { eradicate: false } }).await;
}

async fn binned(up: &Up) -> usize {
    let all = ok(up, ListRecycleBin).await;
    all.len()
}

async fn snapshots(up: &Up) -> usize {
    let all = ok(up, ListSnapshots).await;
    all.len()
}

async fn is_alert(up: &Up) -> bool {
    let all = ok(up, ListAlerts).await;
    let mut open = all.into_iter().filter(|it| it.state != AlertState::Closed);
    open.any(|it| it.kind == "clock.jumped" && it.severity == Severity::Critical)
}

fn unlock(name: &str) -> DeleteSnapshot {
    DeleteSnapshot { name: name.into(), how: Deletion { eradicate: true } }
}

/// Time passes, and the clock shows more or less than that from now on; the array looks.
async fn pass(rig: &Rig, up: &Up, seconds: u64, jump: i64) {
    rig.clock.fetch_add(seconds, Ordering::SeqCst);
    rig.skew.fetch_add(jump, Ordering::SeqCst);
    up.array.tick().await;
}

/// A volume, a snapshot of it that is kept for a week, and a volume in the bin, which keeps for a day.
async fn prepare(up: &Up) {
    create(up, "db1").await;
    create(up, "old").await;
    let subject = SubjectName::Volume("db1".into());
    let (suffix, keep_until) = (Some("kept".into()), Some(NOW + 7 * DAY));
    ok(up, CreateSnapshots { subject, suffix, keep_until, labels: LabelsChange::default() }).await;
    let recycle_bin_seconds = Some(DAY);
    ok(up, ChangeSettings { change: SettingsChange { recycle_bin_seconds, ..SettingsChange::default() } })
        .await;
    delete(up, "old").await;
    up.array.tick().await;
}

#[tokio::test]
async fn a_jump_forward_lets_nothing_expire_until_it_is_confirmed() {
    let rig = Rig::new();
    let up = rig.up().await;
    prepare(&up).await;
    pass(&rig, &up, 60, 30 * DAY as i64).await;
    assert!(is_alert(&up).await);
    assert_eq!((binned(&up).await, snapshots(&up).await), (1, 1));
    assert_eq!(refusal(&up, unlock("db1.kept")).await, Kind::Precondition);
    let name = "db1.kept".to_owned();
    let writable = ChangeSnapshot {
        name: name.clone(),
        change: SnapshotChange { writable: Some(true), ..SnapshotChange::default() },
    };
    assert_eq!(refusal(&up, writable).await, Kind::Precondition);
    let sooner = ChangeSnapshot {
        name,
        change: SnapshotChange { retain_until: Some(NOW + 30 * DAY + 2 * HOUR), ..SnapshotChange::default() },
    };
    ok(&up, sooner).await;
    // As long as it is not confirmed, real time changes nothing either.
    pass(&rig, &up, 8 * DAY, 0).await;
    assert_eq!((binned(&up).await, snapshots(&up).await), (1, 1));
    assert_eq!(refusal(&up, unlock("db1.kept")).await, Kind::Precondition);
    // Over a restart, of the process and of the machine, it is the same.
    up.crash().await;
    for boot in 0..2 {
        rig.boot.store(boot, Ordering::SeqCst);
        let up = rig.up().await;
        up.array.tick().await;
        assert!(is_alert(&up).await && binned(&up).await == 1, "{boot}");
        assert_eq!(refusal(&up, unlock("db1.kept")).await, Kind::Precondition);
        up.down().await;
    }
    let up = rig.up().await;
    ok(&up, ConfirmTime).await;
    up.array.tick().await;
    assert!(!is_alert(&up).await);
    assert_eq!(binned(&up).await, 0);
    ok(&up, unlock("db1.kept")).await;
    assert_eq!(refusal(&up, ConfirmTime).await, Kind::Precondition, "there is nothing to confirm");
}

#[tokio::test]
async fn what_is_kept_from_a_wrong_time_on_is_not_kept_for_less() {
    let rig = Rig::new();
    let up = rig.up().await;
    prepare(&up).await;
    create(&up, "new").await;
    // The array's time was too early, and the clock is right.
    pass(&rig, &up, 60, 30 * DAY as i64).await;
    delete(&up, "new").await;
    ok(&up, ConfirmTime).await;
    up.array.tick().await;
    assert_eq!(binned(&up).await, 1, "only the one that was there for a month");
    pass(&rig, &up, DAY + 60, 0).await;
    assert_eq!(binned(&up).await, 0);
}

#[tokio::test]
async fn a_jump_back_keeps_everything_and_ends_by_itself() {
    let rig = Rig::new();
    let up = rig.up().await;
    prepare(&up).await;
    pass(&rig, &up, 60, -30 * DAY as i64).await;
    assert!(is_alert(&up).await);
    pass(&rig, &up, 2 * DAY, 0).await;
    assert_eq!(binned(&up).await, 1);
    pass(&rig, &up, 60, 30 * DAY as i64).await;
    assert!(!is_alert(&up).await, "the clock was set right");
    assert_eq!(binned(&up).await, 0, "the days that passed count");
    assert_eq!(refusal(&up, unlock("db1.kept")).await, Kind::Precondition);
    pass(&rig, &up, 5 * DAY, 0).await;
    ok(&up, unlock("db1.kept")).await;
}

#[tokio::test]
async fn a_machine_that_is_off_too_long_needs_a_word() {
    let rig = Rig::new();
    let up = rig.up().await;
    prepare(&up).await;
    up.array.flush().await;
    up.down().await;
    let start = |hours: u64, boot| {
        rig.clock.fetch_add(hours * HOUR, Ordering::SeqCst);
        rig.boot.store(boot, Ordering::SeqCst);
        rig.up()
    };
    let up = start(12, 1).await;
    up.array.tick().await;
    assert!(!is_alert(&up).await);
    up.down().await;
    let up = start(40, 2).await;
    up.array.tick().await;
    assert!(is_alert(&up).await && binned(&up).await == 1);
    ok(&up, ConfirmTime).await;
    up.array.tick().await;
    assert!(!is_alert(&up).await && binned(&up).await == 0);
}

async fn hourly(up: &Up) {
    create(up, "db1").await;
    let rules = vec![Rule { when: "hourly".into(), keep: 2 }];
    let volume = Some("db1".into());
    ok(up, CreateSchedule { name: "gold".into(), volume, rules, ..CreateSchedule::default() }).await;
    up.array.tick().await;
}

#[tokio::test]
async fn schedules_go_on_by_the_time_that_passes() {
    for jump in [30 * DAY as i64, -30 * DAY as i64] {
        let rig = Rig::new();
        let up = rig.up().await;
        hourly(&up).await;
        pass(&rig, &up, HOUR, 0).await;
        assert_eq!(snapshots(&up).await, 1);
        for round in 0..10 {
            // To and fro, within a minute.
            pass(&rig, &up, 10, jump).await;
            pass(&rig, &up, 10, -jump).await;
            assert_eq!(snapshots(&up).await, 1, "no flood: {jump} {round}");
        }
        pass(&rig, &up, 10, jump).await;
        for hours in 1..=4 {
            pass(&rig, &up, HOUR, 0).await;
            assert_eq!(snapshots(&up).await, 1 + hours, "one an hour, and none is let go: {jump}");
        }
        ok(&up, ConfirmTime).await;
        pass(&rig, &up, 10, 0).await;
        let mut taken = snapshots(&up).await;
        for _ in 0..3 {
            pass(&rig, &up, HOUR, 0).await;
            let now = snapshots(&up).await;
            assert!(now <= 3, "the newest two are kept, and what is let go goes: {jump}");
            taken = now;
        }
        assert_eq!(taken, 2, "{jump}");
        let it = ok(&up, ShowSchedule { name: "gold".into() }).await;
        let shown = rig.clock.load(Ordering::SeqCst).saturating_add_signed(jump);
        assert!(it.next.is_some_and(|next| next > shown && next <= shown + HOUR), "{jump}: {it:?}");
    }
}

#[tokio::test]
async fn a_schedule_that_ran_in_the_future_does_not_sleep_until_then() {
    let rig = Rig::new();
    let up = rig.up().await;
    hourly(&up).await;
    pass(&rig, &up, 60, 30 * DAY as i64).await;
    ok(&up, ConfirmTime).await;
    pass(&rig, &up, 60, 0).await;
    assert_eq!(snapshots(&up).await, 1, "what was missed is one");
    pass(&rig, &up, 60, -30 * DAY as i64).await;
    ok(&up, ConfirmTime).await;
    pass(&rig, &up, HOUR, 0).await;
    pass(&rig, &up, HOUR, 0).await;
    assert!(snapshots(&up).await >= 2);
}
