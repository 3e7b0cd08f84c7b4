//! Windows of the week: blackouts of a replication, and limits of the bandwidth to a remote array.

use crate::replication::{Pair, demote, fill, pair, protect, show};
use crate::rig::{ok, refused, write};
use array::{
    BandwidthWindow, ChangeRemoteArray, ChangeReplication, ChangeSettings, Kind, LimitWindow, ListAlerts,
    PauseReplication, RemoteArrayChange, ReplicationChange, ReplicationState, ResumeReplication,
    SettingsChange, ShowRemoteArray, SyncReplication, Weekday, Window,
};
use std::sync::atomic::Ordering;

/// A window of the day on which tests begin: Wednesday, 2026-11-18, at 11:06:40 UTC.
fn window(days: &[Weekday], from: u16, to: u16) -> Window {
    Window { days: days.to_vec(), from: from * 60, to: to * 60 }
}

/// From 12:00 to 14:00.
fn noon() -> Window {
    window(&[Weekday::Wed], 12, 14)
}

fn blackouts(blackouts: Vec<Window>) -> ChangeReplication {
    let change = ReplicationChange {
        blackouts: Some(blackouts.into_iter().map(Into::into).collect()),
        ..ReplicationChange::default()
    };
    ChangeReplication { name: "prod".into(), change }
}

fn seconds(hours: u64, minutes: u64) -> u64 {
    // Midnight of that day.
    1_794_960_000 + hours * 3600 + minutes * 60
}

#[tokio::test]
async fn in_a_blackout_points_are_taken_only_if_an_operator_asks() {
    let Pair { one, first, second, volumes, .. } = pair().await;
    ok(&first, protect()).await;
    first.array.replicate_once().await;
    assert_eq!(ok(&first, blackouts(vec![noon()])).await.status.blackout_until, None);
    let set = |time| one.clock.store(time, Ordering::SeqCst);
    let point = async || ok(&second, show()).await.status.point;

    set(seconds(11, 59) + 59);
    first.array.replicate_once().await;
    assert_eq!(point().await, Some(2));
    set(seconds(13, 0));
    write(&first, volumes[0], 0, 9).await;
    first.array.replicate_once().await;
    let here = ok(&first, show()).await.status;
    assert_eq!((here.state, here.point), (ReplicationState::Idle, Some(2)));
    assert_eq!(here.blackout_until, Some(seconds(14, 0)));
    assert_eq!(ok(&second, show()).await.status.blackout_until, None, "it is the source's");

    // The alert of the RPO says what it waits for.
    first.array.tick().await;
    let alert = ok(&first, ListAlerts).await.into_iter().find(|it| it.kind == "replication.rpo");
    let message = alert.unwrap().message;
    assert!(message.contains("waits until the blackout ends at 2026-11-18T14:00:00Z"), "{message}");

    // Neither does a resumption go on, nor a change of the schedule; a request for a point does.
    ok(&first, PauseReplication { name: "prod".into() }).await;
    ok(&first, ResumeReplication { name: "prod".into() }).await;
    first.array.replicate_once().await;
    assert_eq!(point().await, Some(2));
    let asked = ok(&first, SyncReplication { name: "prod".into() }).await.status;
    assert_eq!(asked.state, ReplicationState::Syncing);
    first.array.replicate_once().await;
    assert_eq!(point().await, Some(3));
    set(seconds(13, 30));
    first.array.replicate_once().await;
    assert_eq!(point().await, Some(3), "once");

    // It is the clock of the array's zone that counts: in Berlin it is an hour later.
    let zone = SettingsChange { time_zone: Some("Europe/Berlin".into()), ..SettingsChange::default() };
    ok(&first, ChangeSettings { change: zone }).await;
    first.array.replicate_once().await;
    assert_eq!(point().await, Some(4));
    let zone = SettingsChange { time_zone: Some("UTC".into()), ..SettingsChange::default() };
    ok(&first, ChangeSettings { change: zone }).await;

    // A planned failover does not wait.
    set(seconds(13, 59));
    first.array.replicate_once().await;
    assert_eq!(point().await, Some(4));
    ok(&first, demote(false)).await;
    first.array.replicate_once().await;
    assert_eq!(point().await, Some(5));
    assert_eq!(ok(&first, show()).await.status.state, ReplicationState::Demoted);
}

#[tokio::test]
async fn after_a_blackout_a_point_is_due_and_the_windows_are_kept() {
    let Pair { one, first, second, .. } = pair().await;
    let wanted =
        array::CreateReplication { blackouts: vec![window(&[Weekday::Wed], 11, 12).into()], ..protect() };
    ok(&first, wanted.clone()).await;
    first.array.replicate_once().await;
    assert_eq!(ok(&first, show()).await.status.point, None, "not even the first one");
    let others = one.network.others.lock().unwrap().clone();
    one.network.others.lock().unwrap().clear();
    first.crash().await;
    let first = one.up().await;
    *one.network.others.lock().unwrap() = others;
    assert_eq!(ok(&first, show()).await.blackouts, wanted.blackouts);
    first.array.replicate_once().await;
    one.clock.store(seconds(12, 0), Ordering::SeqCst);
    first.array.replicate_once().await;
    assert_eq!(ok(&second, show()).await.status.point, Some(1));

    let whole = window(&Weekday::ALL, 0, 0);
    assert_eq!(refused(&first, blackouts(vec![whole])).await.kind, Kind::Invalid);
    assert_eq!(refused(&second, blackouts(vec![noon()])).await.kind, Kind::Precondition);
    assert_eq!(ok(&first, blackouts(Vec::new())).await.blackouts, Vec::new());
}

#[tokio::test]
async fn the_beginning_of_a_blackout_ends_a_transfer_and_its_end_goes_on_with_it() {
    let Pair { one, first, second, volumes, .. } = pair().await;
    ok(&first, protect()).await;
    first.array.replicate_once().await;
    ok(&first, blackouts(vec![noon()])).await;
    // At this rate it would take minutes.
    let limit = |limit| ChangeRemoteArray {
        name: "dr".into(),
        change: RemoteArrayChange { bandwidth_limit: Some(limit), ..RemoteArrayChange::default() },
    };
    ok(&first, limit(Some(64 << 10))).await;
    fill(&first, volumes[0], 700).await;
    one.clock.store(seconds(11, 59), Ordering::SeqCst);
    let runs = tokio::spawn(first.array.clone().replicate());
    let reached = async |wanted: ReplicationState| {
        while ok(&first, show()).await.status.state != wanted {
            tokio::task::yield_now().await;
        }
    };
    reached(ReplicationState::Syncing).await;
    one.clock.store(seconds(12, 0), Ordering::SeqCst);
    // Every change is looked at at once.
    ok(&first, blackouts(vec![noon(), window(&[Weekday::Sun], 1, 2)])).await;
    reached(ReplicationState::Idle).await;
    runs.abort();
    assert!(runs.await.unwrap_err().is_cancelled());
    assert_eq!(ok(&second, show()).await.status.point, Some(1));

    ok(&first, limit(None)).await;
    first.array.replicate_once().await;
    assert_eq!(ok(&second, show()).await.status.point, Some(1));
    one.clock.store(seconds(14, 0), Ordering::SeqCst);
    first.array.replicate_once().await;
    assert_eq!(ok(&second, show()).await.status.point, Some(2));
}

#[tokio::test]
async fn the_bandwidth_limit_follows_its_windows() {
    let Pair { one, first, .. } = pair().await;
    let change = |change| ChangeRemoteArray { name: "dr".into(), change };
    let windows = |bandwidth_windows: Vec<LimitWindow>| RemoteArrayChange {
        bandwidth_windows: Some(bandwidth_windows.into_iter().map(BandwidthWindow::from).collect()),
        ..RemoteArrayChange::default()
    };
    let limited = |window, limit| LimitWindow { window, limit };
    let night = limited(window(&Weekday::ALL, 22, 6), None);
    let set = RemoteArrayChange {
        bandwidth_limit: Some(Some(10 << 20)),
        ..windows(vec![limited(noon(), Some(1 << 20)), night.clone()])
    };
    let shown = ok(&first, change(set)).await;
    assert_eq!(shown.bandwidth_windows.len(), 2);
    ok(&first, protect()).await;
    let now = async |time| {
        one.clock.store(time, Ordering::SeqCst);
        first.array.replicate_once().await;
        // A transfer has made the sending end: this is what it keeps to.
        ok(&first, ShowRemoteArray { name: "dr".into() }).await.bandwidth_limit_now
    };
    assert_eq!(now(seconds(11, 59)).await, Some(10 << 20));
    assert_eq!(now(seconds(12, 0)).await, Some(1 << 20));
    assert_eq!(now(seconds(14, 0)).await, Some(10 << 20));
    assert_eq!(now(seconds(22, 0)).await, None);
    assert_eq!(now(seconds(24 + 5, 59)).await, None);
    assert_eq!(now(seconds(24 + 6, 0)).await, Some(10 << 20));

    for wrong in [
        windows(vec![limited(noon(), Some(1000))]),
        windows(vec![night.clone(), limited(window(&[Weekday::Mon], 5, 7), None)]),
    ] {
        assert_eq!(refused(&first, change(wrong)).await.kind, Kind::Invalid);
    }
    one.network.others.lock().unwrap().clear();
    first.crash().await;
    let first = one.up().await;
    let shown = ok(&first, ShowRemoteArray { name: "dr".into() }).await;
    assert_eq!(shown.bandwidth_windows, [limited(noon(), Some(1 << 20)), night]);
    assert_eq!(ok(&first, change(windows(Vec::new()))).await.bandwidth_windows, []);
}
