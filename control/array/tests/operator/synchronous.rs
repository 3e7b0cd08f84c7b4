//! Synchronous replication between two arrays: what is acknowledged is on both, whatever ends first.

use crate::cables::Cables;
use crate::replication::{BACK, Pair, demote, pair, promote, protect, show};
use crate::rig::{Rig, Up, ok, refused, write};
use array::{
    Alert, ChangeReplication, ChangeVolume, CreateReplication, CreateSchedule, CreateSnapshots, CreateVolume,
    DeleteReplication, DeleteVolume, Deletion, ListAlerts, ListReplications, ListSnapshots, ListVolumes,
    NewTestFailover, OnLinkLoss, Overwrite, PauseReplication, Replication, ReplicationChange,
    ReplicationMode, ReplicationState, RestoreVolume, ResumeReplication, ReverseReplication, Rule, Severity,
    StartTestFailover, SubjectName, SyncReplication, Update, VolumeChange, Weekday, Window,
};
use block::{Disk, DiskId, Extent, Op, Reply};
use bytes::Bytes;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use tokio::task::JoinHandle;

/// More than any wait of the array.
pub const LONG_SECONDS: u64 = 100;
/// Blocks that a writer writes in turn.
pub const WRITER_BLOCKS: u64 = 64;

/// The transfers of an array, which end with this.
pub struct Transfers(JoinHandle<()>);

impl Drop for Transfers {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub fn transfers(up: &Up) -> Transfers {
    Transfers(tokio::spawn(up.array.clone().replicate()))
}

pub fn synchronous(on_link_loss: OnLinkLoss) -> CreateReplication {
    CreateReplication { mode: ReplicationMode::Sync, on_link_loss: Some(on_link_loss), ..protect() }
}

pub fn set(change: ReplicationChange) -> ChangeReplication {
    ChangeReplication { name: "prod".into(), change }
}

fn set_policy(policy: OnLinkLoss) -> ChangeReplication {
    set(ReplicationChange { on_link_loss: Some(policy), ..ReplicationChange::default() })
}

/// Waits until a replication is in a state. Time passes on the array that waits to try again.
pub async fn until(rig: &Rig, up: &Up, state: ReplicationState) -> Replication {
    until_so(rig, up, |it| it.status.state == state).await
}

pub async fn until_so(rig: &Rig, up: &Up, is_so: impl Fn(&Replication) -> bool) -> Replication {
    let mut updates = up.array.subscribe();
    loop {
        let shown = ok(up, show()).await;
        if is_so(&shown) {
            return shown;
        }
        // What is tried again has its own time.
        rig.clock.fetch_add(1, Ordering::SeqCst);
        tokio::select! {
            _ = updates.recv() => {}
            () = tokio::time::sleep(std::time::Duration::from_millis(50)) => {}
        }
    }
}

/// A pair whose group is in sync.
async fn in_sync(policy: OnLinkLoss) -> (Pair, Transfers) {
    let pair = pair().await;
    ok(&pair.first, synchronous(policy)).await;
    let transfers = transfers(&pair.first);
    let shown = until(&pair.one, &pair.first, ReplicationState::InSync).await;
    assert_eq!((shown.status.problem, shown.status.lag_seconds), (None, Some(0)));
    (pair, transfers)
}

pub fn stamped(stamp: u64) -> Op {
    Op::Write { lba: stamp % WRITER_BLOCKS * 8, data: Bytes::from(stamp.to_le_bytes().repeat(512)).into() }
}

/// The stamps of the blocks of a volume.
pub async fn stamps(up: &Up, id: DiskId) -> Vec<u64> {
    let disk = up.engine.volume(id).unwrap();
    let read = disk.execute(Op::Read(Extent::new(0, WRITER_BLOCKS * 8))).await;
    let Ok(Reply::Data(data)) = read else { panic!("{read:?}") };
    let blocks = data.to_bytes();
    blocks.chunks(4096).map(|block| u64::from_le_bytes(block[..8].try_into().unwrap())).collect()
}

/// A host that writes one block after the other, until a write fails.
pub struct Writer {
    acknowledged: Arc<AtomicU64>,
    task: JoinHandle<block::Error>,
}

impl Writer {
    pub fn start(up: &Up, id: DiskId) -> Self {
        let (disk, acknowledged) = (up.engine.volume(id).unwrap(), Arc::new(AtomicU64::new(0)));
        let ours = acknowledged.clone();
        let task = tokio::spawn(async move {
            loop {
                let stamp = ours.load(Ordering::SeqCst) + 1;
                if let Err(error) = disk.execute(stamped(stamp)).await {
                    return error;
                }
                ours.store(stamp, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        });
        Self { acknowledged, task }
    }

    /// Waits for some more writes.
    pub async fn go_on(&self) {
        let until = self.acknowledged.load(Ordering::SeqCst) + 2 * WRITER_BLOCKS;
        while self.acknowledged.load(Ordering::SeqCst) < until {
            assert!(!self.task.is_finished(), "a write has failed");
            tokio::task::yield_now().await;
        }
    }

    /// The newest stamp that was acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Waits until a write fails.
    pub async fn failed(self) -> block::Error {
        self.task.await.unwrap()
    }

    /// Ends it like a killed host; the newest stamp that was acknowledged.
    pub async fn end(self) -> u64 {
        self.task.abort();
        _ = self.task.await;
        self.acknowledged.load(Ordering::SeqCst)
    }
}

/// Checks that blocks have everything that was acknowledged, and at most one write more.
pub fn assert_has(stamps: &[u64], acknowledged: u64) {
    for (block, found) in (0..).zip(stamps) {
        let last = (0..=acknowledged).rev().find(|stamp| *stamp > 0 && stamp % WRITER_BLOCKS == block);
        let may = [last.unwrap_or(0), acknowledged + 1];
        let is_next = *found == acknowledged + 1 && (acknowledged + 1) % WRITER_BLOCKS == block;
        assert!(*found == may[0] || is_next, "block {block} has {found}, not {may:?}");
    }
}

pub async fn alerts(up: &Up, kind: &str) -> Vec<Alert> {
    up.array.tick().await;
    let all = ok(up, ListAlerts).await.into_iter();
    all.filter(|alert| alert.kind == kind && alert.closed.is_none()).collect()
}

/// Promotes the second array; its volumes.
async fn promoted(second: &Up, force: bool) -> Vec<DiskId> {
    let shown = ok(second, promote(force)).await;
    assert_eq!(shown.status.state, ReplicationState::Promoted);
    shown.volumes.iter().map(|volume| volume.promoted.unwrap()).collect()
}

/// Whether a write is acknowledged without anything else going on.
pub async fn is_acknowledged_at_once(up: &Up, id: DiskId) -> Option<block::Result<()>> {
    let disk = up.engine.volume(id).unwrap();
    let mut write = pin!(disk.execute(stamped(7)));
    // The local journal of a volume that nothing waits for has it after a read of the block.
    let first = poll_fn(|cx| Poll::Ready(write.as_mut().poll(cx))).await;
    if let Poll::Ready(done) = first {
        return Some(done.map(drop));
    }
    _ = stamps(up, id).await;
    match poll_fn(|cx| Poll::Ready(write.as_mut().poll(cx))).await {
        Poll::Ready(done) => Some(done.map(drop)),
        Poll::Pending => None,
    }
}

fn cut(pair: &Pair) -> std::collections::BTreeMap<String, Arc<array::Array>> {
    let network: &Cables = &pair.one.network;
    network.cut()
}

#[tokio::test]
async fn everything_acknowledged_is_on_the_target_when_the_source_is_lost_under_load() {
    for policy in [OnLinkLoss::Continue, OnLinkLoss::Stop] {
        let (pair, transfers) = in_sync(policy).await;
        let Pair { one, other, first, second, volumes } = pair;
        let there = ok(&second, show()).await;
        assert_eq!((there.mode, there.status.state), (ReplicationMode::Sync, ReplicationState::InSync));
        assert_eq!(there.on_link_loss, None, "the source decides");
        let writer = Writer::start(&first, volumes[0]);
        writer.go_on().await;
        let sync = ok(&first, show()).await.status.sync.unwrap();
        assert!(sync.round_trip_us.is_some() && sync.since.is_some() && sync.cause.is_none(), "{sync:?}");
        let acknowledged = match policy {
            OnLinkLoss::Stop => {
                // The link is lost first: nothing more is acknowledged.
                one.network.cut();
                drop(transfers);
                writer.end().await
            }
            OnLinkLoss::Continue => {
                let acknowledged = writer.end().await;
                drop(transfers);
                one.network.cut();
                acknowledged
            }
        };
        first.crash().await;
        assert!(refused(&second, promote(false)).await.message.contains("may still take writes"));
        let made = promoted(&second, true).await;
        let found = stamps(&second, made[0]).await;
        assert!(acknowledged > WRITER_BLOCKS);
        assert_has(&found, acknowledged);
        drop(other);
    }
}

#[tokio::test]
async fn a_source_that_stops_refuses_writes_until_both_arrays_are_the_same_again() {
    let (pair, running) = in_sync(OnLinkLoss::Stop).await;
    let writer = Writer::start(&pair.first, pair.volumes[0]);
    writer.go_on().await;
    let others = cut(&pair);
    let Pair { one, other: _other, first, second, volumes } = pair;
    let other_volume = volumes[1];
    until_so(&one, &first, |it| it.status.sync.as_ref().is_some_and(|sync| sync.cause.is_some())).await;
    one.clock.fetch_add(LONG_SECONDS, Ordering::SeqCst);
    let shown = until(&one, &first, ReplicationState::WritesStopped).await;
    let lost = shown.status.sync.unwrap();
    assert!(lost.cause.unwrap().contains("connection"));
    // Then it is stored since when.
    until_so(&one, &first, |it| it.status.problem.is_some()).await;
    let acknowledged = writer.acknowledged.load(Ordering::SeqCst);
    assert_eq!(writer.task.await.unwrap(), block::Error::Unreplicated);
    let [alert] = alerts(&first, "replication.writes-stopped").await.try_into().unwrap();
    assert_eq!(alert.severity, Severity::Critical);
    assert_eq!(is_acknowledged_at_once(&first, volumes[0]).await, Some(Err(block::Error::Unreplicated)));
    drop(running);

    // The same after a restart, from the first write on.
    first.crash().await;
    let first = one.up().await;
    let shown = ok(&first, show()).await.status;
    assert_eq!(shown.state, ReplicationState::OutOfSync);
    let sync = shown.sync.unwrap();
    assert!(sync.since == lost.since && sync.since < Some(one.clock.load(Ordering::SeqCst)), "{sync:?}");
    assert!(sync.cause.unwrap().contains("before this array was started"));
    assert_eq!(is_acknowledged_at_once(&first, other_volume).await, None);
    let _running = transfers(&first);
    one.network.plug(others);
    until(&one, &first, ReplicationState::InSync).await;
    assert!(alerts(&first, "replication.writes-stopped").await.is_empty());
    write(&first, other_volume, 0, 66).await;
    one.network.cut();
    let made = promoted(&second, true).await;
    assert_has(&stamps(&second, made[0]).await, acknowledged);
    assert_eq!(crate::rig::first_byte(&second, made[1], 0).await, 66);
}

#[tokio::test]
async fn a_source_that_may_goes_on_alone_and_catches_up() {
    let (pair, _running) = in_sync(OnLinkLoss::Continue).await;
    let Pair { one, first, second, volumes, .. } = &pair;
    let writer = Writer::start(first, volumes[0]);
    writer.go_on().await;
    let others = cut(&pair);
    let shown = until(one, first, ReplicationState::OutOfSync).await;
    let since = shown.status.sync.unwrap().since.unwrap();
    assert!(since <= one.clock.load(Ordering::SeqCst));
    writer.go_on().await;
    assert_eq!(alerts(first, "replication.out-of-sync").await.len(), 1);
    assert_eq!(alerts(second, "replication.out-of-sync").await.len(), 1);
    assert!(ok(first, show()).await.status.lag_seconds.unwrap() < LONG_SECONDS);
    one.network.plug(others);
    until(one, first, ReplicationState::InSync).await;
    assert!(alerts(first, "replication.out-of-sync").await.is_empty());
    writer.go_on().await;

    // The target is killed instead, and comes back.
    let second_array = one.network.cut();
    until(one, first, ReplicationState::OutOfSync).await;
    writer.go_on().await;
    one.network.plug(second_array);
    until(one, first, ReplicationState::InSync).await;
    let acknowledged = writer.end().await;
    one.network.cut();
    let made = promoted(second, true).await;
    assert_has(&stamps(second, made[0]).await, acknowledged);
}

#[tokio::test]
async fn a_killed_target_is_the_same_again_after_its_start() {
    let (pair, _running) = in_sync(OnLinkLoss::Stop).await;
    let Pair { one, other, first, second, volumes } = pair;
    let writer = Writer::start(&first, volumes[0]);
    writer.go_on().await;
    let address = one.network.cut().into_keys().next().unwrap();
    second.crash().await;
    until(&one, &first, ReplicationState::OutOfSync).await;
    let second = other.up().await;
    one.network.plug([(address, second.array.clone())].into());
    until(&one, &first, ReplicationState::InSync).await;
    writer.go_on().await;
    let acknowledged = writer.end().await;
    one.network.cut();
    let made = promoted(&second, true).await;
    assert_has(&stamps(&second, made[0]).await, acknowledged);
}

#[tokio::test]
async fn an_operator_lets_a_stopped_source_go_on_alone() {
    let (pair, running) = in_sync(OnLinkLoss::Stop).await;
    let others = cut(&pair);
    let Pair { one, other: _other, first, second: _second, volumes } = pair;
    until(&one, &first, ReplicationState::OutOfSync).await;
    one.clock.fetch_add(LONG_SECONDS, Ordering::SeqCst);
    until(&one, &first, ReplicationState::WritesStopped).await;
    let mut updates = first.array.subscribe();
    ok(&first, set_policy(OnLinkLoss::Continue)).await;
    let events = std::iter::from_fn(|| updates.try_recv().ok());
    let is_alone =
        |it: &Update| matches!(it, Update::Event(event) if event.event.kind == "replication.alone");
    assert_eq!(events.filter(is_alone).count(), 1);
    write(&first, volumes[0], 0, 50).await;
    assert_eq!(ok(&first, show()).await.status.state, ReplicationState::OutOfSync);
    // It stops again only once both were the same again.
    ok(&first, set_policy(OnLinkLoss::Stop)).await;
    write(&first, volumes[0], 0, 51).await;
    drop(running);
    first.crash().await;
    let first = one.up().await;
    write(&first, volumes[0], 0, 52).await;
    let shown = ok(&first, show()).await;
    assert_eq!(shown.status.state, ReplicationState::OutOfSync);
    assert!(shown.status.sync.unwrap().since.is_some(), "it is known after a restart");
    let running = transfers(&first);
    one.network.plug(others);
    until(&one, &first, ReplicationState::InSync).await;

    // What is set while both are the same holds for this session, and after a restart.
    ok(&first, set_policy(OnLinkLoss::Continue)).await;
    ok(&first, set_policy(OnLinkLoss::Stop)).await;
    assert_eq!(ok(&first, show()).await.status.state, ReplicationState::InSync);
    let others = one.network.cut();
    until(&one, &first, ReplicationState::OutOfSync).await;
    assert_eq!(is_acknowledged_at_once(&first, volumes[0]).await, None);

    // A pause lets it go on alone as well.
    ok(&first, PauseReplication { name: "prod".into() }).await;
    write(&first, volumes[0], 0, 53).await;
    assert_eq!(ok(&first, show()).await.status.state, ReplicationState::Paused);
    drop(running);
    first.crash().await;
    let first = one.up().await;
    write(&first, volumes[0], 0, 54).await;
    let _running = transfers(&first);
    one.network.plug(others);
    ok(&first, ResumeReplication { name: "prod".into() }).await;
    until(&one, &first, ReplicationState::InSync).await;
    // Without the replication nothing waits.
    one.network.cut();
    until(&one, &first, ReplicationState::OutOfSync).await;
    let disk = first.engine.volume(volumes[0]).unwrap();
    let held = tokio::spawn(async move { disk.execute(stamped(9)).await });
    ok(&first, DeleteReplication { name: "prod".into() }).await;
    held.await.unwrap().unwrap();
    write(&first, volumes[0], 0, 55).await;
}

#[tokio::test]
async fn a_planned_failover_in_sync_needs_no_transfer_and_is_reversed_and_failed_back() {
    let (pair, running) = in_sync(OnLinkLoss::Stop).await;
    let Pair { one, other, first, second, volumes } = &pair;
    other.network.others.lock().unwrap().insert(BACK.into(), first.array.clone());
    let writer = Writer::start(first, volumes[0]);
    writer.go_on().await;
    let acknowledged = writer.end().await;
    let before = ok(first, show()).await.status.network_bytes;
    let shown = ok(first, demote(false)).await;
    assert_eq!(shown.status.state, ReplicationState::Demoted, "{shown:?}");
    until_so(other, second, |it| it.status.state == ReplicationState::Demoted).await;
    let sent = ok(first, show()).await.status.network_bytes - before;
    assert!(sent < 4096, "{sent} bytes");
    assert_eq!(is_acknowledged_at_once(first, volumes[0]).await, Some(Err(block::Error::ReadOnly)));
    let made = promoted(second, false).await;
    assert_has(&stamps(second, made[0]).await, acknowledged);

    ok(second, ReverseReplication { name: "prod".into() }).await;
    drop(running);
    let back = transfers(second);
    let shown = until(other, second, ReplicationState::InSync).await;
    assert_eq!((shown.mode, shown.on_link_loss), (ReplicationMode::Sync, Some(OnLinkLoss::Stop)));
    write(second, made[1], 0, 77).await;
    ok(second, demote(false)).await;
    until_so(one, first, |it| it.status.state == ReplicationState::Demoted).await;
    let found = promoted(first, false).await;
    assert_eq!(found, *volumes);
    assert_eq!(crate::rig::first_byte(first, volumes[1], 0).await, 77);
    drop(back);
}

#[tokio::test]
async fn what_operators_do_with_volumes_of_the_group_reaches_the_target() {
    let (pair, _running) = in_sync(OnLinkLoss::Stop).await;
    let Pair { one, other: _other, first, second, volumes } = &pair;
    let session = ok(first, show()).await.status.point;
    // Within the session.
    write(first, volumes[0], 0, 40).await;
    ok(
        first,
        CreateSnapshots {
            subject: SubjectName::Group("app".into()),
            suffix: Some("s".into()),
            keep_until: None,
            labels: array::LabelsChange::default(),
        },
    )
    .await;
    let larger = VolumeChange { size: Some(16 << 20), ..VolumeChange::default() };
    ok(first, ChangeVolume { name: "log".into(), change: larger }).await;
    write(first, volumes[1], 3000 * 8, 41).await;
    assert_eq!(ok(first, show()).await.status.point, session, "the session continues");

    // A restore ends it, and the source continues alone until the next one.
    write(first, volumes[0], 0, 42).await;
    let restored = RestoreVolume {
        name: "data".into(),
        change: Overwrite { source: "data.s".into(), ..Overwrite::default() },
    };
    ok(first, restored).await;
    until_so(one, first, |it| it.status.state == ReplicationState::InSync && it.status.point > session).await;
    let session = ok(first, show()).await.status.point;

    // A volume that joins is there after the next session began, one that leaves is written alone.
    let new = CreateVolume {
        name: "more".into(),
        bytes: 8 << 20,
        block_bytes: 512,
        group: Some("app".into()),
        ..CreateVolume::default()
    };
    let more = ok(first, new).await.object.id;
    write(first, more, 0, 43).await;
    until_so(one, first, |it| it.status.state == ReplicationState::InSync && it.status.point > session).await;
    let leaves = VolumeChange { group: Some(None), ..VolumeChange::default() };
    ok(first, ChangeVolume { name: "log".into(), change: leaves }).await;
    ok(first, DeleteVolume { name: "log".into(), how: Deletion { eradicate: true } }).await;
    until_so(one, first, |it| it.volumes.len() == 2 && it.status.state == ReplicationState::InSync).await;
    write(first, more, 8, 44).await;

    // A test of a failover has the point of the session; another one begins with a new point.
    let session = ok(first, show()).await.status.point;
    ok(first, SyncReplication { name: "prod".into() }).await;
    until_so(one, first, |it| it.status.state == ReplicationState::InSync && it.status.point > session).await;
    let test = StartTestFailover { name: "prod".into(), change: NewTestFailover::default() };
    let tested = ok(second, test).await;
    let clone = |name: &str| tested.volumes.iter().find(|it| it.name == name).unwrap().test.unwrap();
    assert_eq!(crate::rig::first_byte(second, clone("more"), 8).await, 44);
    assert_eq!(crate::rig::first_byte(second, clone("data"), 0).await, 40);
    assert_eq!(ok(first, show()).await.status.state, ReplicationState::InSync);
    write(first, more, 8, 45).await;
}

#[tokio::test]
async fn the_mode_is_changed_in_both_directions_and_what_it_has_not_is_refused() {
    let pair = pair().await;
    let Pair { one, first, second, volumes, .. } = &pair;
    let window = Window { days: vec![Weekday::Mon], from: 60, to: 120 };
    let no_policy = CreateReplication { on_link_loss: Some(OnLinkLoss::Stop), ..protect() };
    let blackout =
        CreateReplication { blackouts: vec![window.clone().into()], ..synchronous(OnLinkLoss::Stop) };
    for (wrong, word) in [(no_policy, "set the mode to sync"), (blackout, "blackout")] {
        let error = refused(first, wrong).await;
        assert!(error.kind == array::Kind::Invalid && error.message.contains(word), "{error}");
    }
    ok(first, protect()).await;
    assert!(refused(first, set_policy(OnLinkLoss::Stop)).await.message.contains("set the mode to sync"));
    let mode = |mode| set(ReplicationChange { mode: Some(mode), ..ReplicationChange::default() });
    let _running = transfers(first);
    until(one, first, ReplicationState::Idle).await;
    let shown = ok(first, mode(ReplicationMode::Sync)).await;
    assert_eq!((shown.mode, shown.on_link_loss), (ReplicationMode::Sync, Some(OnLinkLoss::Continue)));
    assert_eq!(shown.status.state, ReplicationState::Syncing);
    until(one, first, ReplicationState::InSync).await;
    for change in [
        ReplicationChange { blackouts: Some(vec![window.into()]), ..ReplicationChange::default() },
        ReplicationChange { replicate_snapshots: Some(true), ..ReplicationChange::default() },
    ] {
        assert_eq!(refused(first, set(change)).await.kind, array::Kind::Invalid);
    }
    assert!(refused(second, set_policy(OnLinkLoss::Stop)).await.message.contains("source"));
    ok(first, set_policy(OnLinkLoss::Stop)).await;
    one.network.cut();
    until(one, first, ReplicationState::OutOfSync).await;
    assert_eq!(is_acknowledged_at_once(first, volumes[0]).await, None);
    // Then nothing waits for the other array any more.
    let shown = ok(first, mode(ReplicationMode::Async)).await;
    assert_eq!((shown.mode, shown.on_link_loss, shown.status.sync), (ReplicationMode::Async, None, None));
    write(first, volumes[0], 0, 60).await;
    assert_eq!(ok(first, ListVolumes).await.len(), 2);
}

#[tokio::test]
async fn schedules_take_and_delete_snapshots_within_a_session() {
    const HOUR: u64 = 3600;
    let (pair, _running) = in_sync(OnLinkLoss::Stop).await;
    let Pair { one, other: _other, first, second, volumes } = &pair;
    let session = ok(first, show()).await.status.point;
    let rules = vec![Rule { when: "hourly".into(), keep: 2 }];
    let group = Some("app".into());
    ok(first, CreateSchedule { name: "gold".into(), group, rules, ..CreateSchedule::default() }).await;
    let writer = Writer::start(first, volumes[0]);
    let begun = one.clock.load(Ordering::SeqCst) / HOUR * HOUR;
    let mut known = Vec::new();
    for hour in 1..=4 {
        one.clock.store(begun + hour * HOUR, Ordering::SeqCst);
        first.array.tick().await;
        let taken: Vec<_> = ok(first, ListSnapshots).await.into_iter().map(|it| it.id).collect();
        assert_eq!(taken.len(), 2 * hour.min(2) as usize, "{taken:?}");
        assert_ne!(taken, known, "one is taken each hour");
        known = taken;
        writer.go_on().await;
    }
    let shown = ok(first, show()).await.status;
    assert_eq!((shown.state, shown.point), (ReplicationState::InSync, session), "the session continues");
    assert!(ok(second, ListSnapshots).await.is_empty(), "they stay on the source");
    let acknowledged = writer.end().await;
    one.network.cut();
    let made = promoted(second, true).await;
    assert_has(&stamps(second, made[0]).await, acknowledged);
}

#[tokio::test]
async fn a_deletion_on_the_target_is_the_loss_of_the_link_until_the_source_deletes_it_as_well() {
    for policy in [OnLinkLoss::Continue, OnLinkLoss::Stop] {
        let (pair, _running) = in_sync(policy).await;
        let Pair { one, other: _other, first, second, volumes } = &pair;
        write(first, volumes[0], 0, 40).await;
        let delete = || DeleteReplication { name: "prod".into() };
        ok(second, delete()).await;
        assert!(ok(second, ListReplications).await.is_empty());
        let is_told = |it: &Replication| {
            it.status.problem.as_ref().is_some_and(|why| why.contains("was deleted on the target"))
        };
        let shown = until_so(one, first, is_told).await;
        assert_eq!(shown.status.state, ReplicationState::OutOfSync);
        second.array.replicate_once().await;
        assert!(ok(second, ListVolumes).await.is_empty() && second.engine.disks().is_empty());
        let disk = first.engine.volume(volumes[0]).unwrap();
        let held = tokio::spawn(async move { disk.execute(stamped(9)).await });
        let at_once = is_acknowledged_at_once(first, volumes[1]).await;
        match policy {
            OnLinkLoss::Continue => write(first, volumes[1], 0, 41).await,
            OnLinkLoss::Stop => assert_eq!(at_once, None),
        }
        ok(first, delete()).await;
        held.await.unwrap().unwrap();
        write(first, volumes[1], 0, 42).await;
    }
}

/// A pair whose second array was promoted by force while the first one was out of reach, and wrote as well; its volumes there.
async fn split(policy: OnLinkLoss) -> (Pair, Transfers, Vec<DiskId>) {
    let (pair, running) = in_sync(policy).await;
    write(&pair.first, pair.volumes[0], 0, 30).await;
    let others = cut(&pair);
    until_so(&pair.one, &pair.first, |it| it.status.sync.as_ref().is_some_and(|sync| sync.cause.is_some()))
        .await;
    if policy == OnLinkLoss::Continue {
        write(&pair.first, pair.volumes[0], 0, 31).await;
    }
    let made = promoted(&pair.second, true).await;
    assert_eq!(crate::rig::first_byte(&pair.second, made[0], 0).await, 30);
    write(&pair.second, made[0], 0, 32).await;
    pair.one.network.plug(others);
    pair.other.network.others.lock().unwrap().insert(BACK.into(), pair.first.array.clone());
    until(&pair.one, &pair.first, ReplicationState::Split).await;
    assert_eq!(ok(&pair.second, show()).await.status.state, ReplicationState::Split);
    assert!(refused(&pair.first, demote(false)).await.message.contains("is split"));
    (pair, running, made)
}

#[tokio::test]
async fn a_source_that_loses_a_split_becomes_the_target_with_the_other_content() {
    for policy in [OnLinkLoss::Continue, OnLinkLoss::Stop] {
        let (pair, running, made) = split(policy).await;
        let Pair { one, other, first, second, volumes } = &pair;
        let disk = first.engine.volume(volumes[1]).unwrap();
        let waits = tokio::spawn(async move { disk.execute(stamped(9)).await });
        tokio::task::yield_now().await;
        let at_once = is_acknowledged_at_once(first, volumes[0]).await;
        assert!(policy == OnLinkLoss::Continue || !matches!(at_once, Some(Ok(()))), "{at_once:?}");
        ok(first, demote(true)).await;
        match (policy, waits.await.unwrap()) {
            (OnLinkLoss::Continue, done) => drop(done.unwrap()),
            (OnLinkLoss::Stop, refused) => assert_eq!(refused.err(), Some(block::Error::Unreplicated)),
        }
        assert_eq!(is_acknowledged_at_once(first, volumes[0]).await, Some(Err(block::Error::ReadOnly)));
        until(one, first, ReplicationState::Demoted).await;
        until(other, second, ReplicationState::Promoted).await;

        ok(second, ReverseReplication { name: "prod".into() }).await;
        drop(running);
        let _back = transfers(second);
        until(other, second, ReplicationState::InSync).await;
        write(second, made[1], 0, 33).await;
        ok(second, demote(false)).await;
        until_so(one, first, |it| it.status.state == ReplicationState::Demoted).await;
        assert_eq!(promoted(first, false).await, *volumes);
        for (volume, byte) in volumes.iter().zip([32, 33]) {
            assert_eq!(crate::rig::first_byte(first, *volume, 0).await, byte);
        }
    }
}

#[tokio::test]
async fn a_target_that_loses_a_split_gets_the_content_of_the_source() {
    for policy in [OnLinkLoss::Continue, OnLinkLoss::Stop] {
        let (pair, _running, made) = split(policy).await;
        let Pair { one, other: _other, first, second, volumes } = &pair;
        ok(second, demote(true)).await;
        assert!(second.engine.volume(made[0]).unwrap().is_read_only());
        ok(first, ResumeReplication { name: "prod".into() }).await;
        until(one, first, ReplicationState::InSync).await;
        write(first, volumes[1], 0, 34).await;
        one.network.cut();
        assert_eq!(promoted(second, true).await, made, "they are the same volumes");
        let kept = if policy == OnLinkLoss::Continue { 31 } else { 30 };
        for (volume, byte) in made.iter().zip([kept, 34]) {
            assert_eq!(crate::rig::first_byte(second, *volume, 0).await, byte);
        }
    }
}
