//! Synchronous replication between two engines in memory. Crashes and broken connections are in the simulation.

use crate::support::{Array, End, REPLICATION, pair, pipe, pipe_of, poll_once, random_block, sync};
use block::{CopySegment, Disk, DiskId, Extent, Op};
use bytes::Bytes;
use engine::{Part, Tap, Tapped};
use replication::{
    Error, HEARTBEAT_NS, MAX_JOIN_NS, MAX_SILENCE_NS, MIRROR_VERSION, Mirror, MirrorState, OnLinkLoss,
    disarm, is_armed, is_mirrored,
};
use rig::block_on;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

type Ended<'a> = Pin<Box<dyn Future<Output = Error> + Send + 'a>>;

/// Both ends of a session, which run only while the test waits.
struct Running<'a> {
    source: Ended<'a>,
    target: Pin<Box<dyn Future<Output = replication::Result<Option<u64>>> + Send + 'a>>,
}

impl<'a> Running<'a> {
    fn begin(
        source: &'a Array,
        target: &'a Array,
        mirror: &'a Arc<Mirror>,
        (one, other): (End, End),
    ) -> Self {
        let group = [DiskId(1), DiskId(2)];
        let session = async move {
            let ended = source.sender.mirror(REPLICATION, &group, mirror, one).await;
            ended.expect_err("a session ends by an error")
        };
        Self { source: Box::pin(session), target: Box::pin(target.receiver.serve(REPLICATION, other)) }
    }

    /// Runs both ends until a condition is true.
    fn until(&mut self, mut is_so: impl FnMut(&mut Context<'_>) -> bool) {
        block_on(poll_fn(|cx| {
            if is_so(cx) {
                return Poll::Ready(());
            }
            assert!(self.source.as_mut().poll(cx).is_pending(), "the session ended");
            assert!(self.target.as_mut().poll(cx).is_pending(), "the session ended");
            cx.waker().wake_by_ref();
            std::thread::yield_now();
            Poll::Pending
        }));
    }

    /// Runs both ends until an operation has ended.
    fn perform(&mut self, source: &Array, id: u128, op: Op) {
        let mut operation = source.volume(id).execute(op);
        let mut result = None;
        self.until(|cx| {
            if let Poll::Ready(done) = Pin::new(&mut operation).poll(cx) {
                result = Some(done);
            }
            result.is_some()
        });
        result.unwrap().unwrap();
    }
}

fn mirrored_pair() -> (Array, Array) {
    let (source, target) = pair(b"key", b"key");
    source.create(1, 300, 4096);
    source.create(2, 100 * 8 + 3, 512);
    (source, target)
}

fn write(lba: u64, seed: u64) -> Op {
    Op::Write { lba, data: random_block(seed).into() }
}

/// Content of the newest state of a volume on the target.
fn promoted(target: &Array, id: u128, lba: u64, blocks: u64) -> Vec<u8> {
    block_on(target.receiver.seal(REPLICATION)).unwrap();
    let point = target.points().pop().unwrap();
    target.read(&target.volume(point.snapshot(DiskId(id)).unwrap().0), lba, blocks)
}

fn is_synced(mirror: &Mirror) -> bool {
    mirror.state() == MirrorState::InSync
}

#[test]
fn a_write_is_acknowledged_when_both_arrays_have_it() {
    let (source, target) = mirrored_pair();
    source.write(&source.volume(1), 0, &random_block(1));
    let mirror = Arc::new(Mirror::new(OnLinkLoss::Continue, false));
    let mut session = Running::begin(&source, &target, &mirror, pipe());
    session.until(|_| is_synced(&mirror));
    assert!(is_armed(&source.engine, REPLICATION).unwrap());
    assert!(is_mirrored(&target.engine, REPLICATION).unwrap());
    {
        let volume = source.volume(1);
        let mut held = pin!(volume.execute(write(5, 2)));
        poll_once(&mut held);
        // A read waits only for the local journal.
        assert_eq!(source.read(&volume, 5, 1), random_block(2));
        poll_once(&mut held);
        session.until(|cx| held.as_mut().poll(cx).is_ready());
    }
    drop(session);
    assert_eq!(promoted(&target, 1, 0, 1), random_block(1));
    assert_eq!(promoted(&target, 1, 5, 1), random_block(2));
}

#[test]
fn copies_fills_unmaps_parts_of_blocks_and_sizes_get_there() {
    let (source, target) = mirrored_pair();
    let outside = source.create(3, 40, 4096);
    (0..40).for_each(|block| source.write(&outside, block, &random_block(100 + block)));
    let mirror = Arc::new(Mirror::new(OnLinkLoss::Continue, false));
    let mut session = Running::begin(&source, &target, &mirror, pipe());
    session.until(|_| is_synced(&mirror));
    let segment = |source, source_lba, target_lba, blocks| CopySegment {
        source: DiskId(source),
        source_lba,
        target: DiskId(1),
        target_lba,
        blocks,
    };
    session.perform(&source, 1, Op::Copy(vec![segment(3, 0, 0, 40), segment(3, 2, 40, 3)]));
    session.perform(&source, 1, Op::Copy(vec![segment(1, 0, 250, 40)]));
    session.perform(&source, 1, Op::Fill { extent: Extent::new(60, 140), block: random_block(7).into() });
    session.perform(&source, 1, Op::Unmap(vec![Extent::new(70, 3), Extent::new(90, 1)]));
    session.perform(&source, 2, Op::Write { lba: 3, data: Bytes::from(vec![9; 512]).into() });
    session.perform(&source, 2, Op::Write { lba: 801, data: Bytes::from(vec![8; 1024]).into() });
    {
        let mut resize = pin!(source.engine.resize_volume(DiskId(2), 100 * 8 + 10));
        session.until(|cx| resize.as_mut().poll(cx).is_ready());
    }
    drop(session);
    for (id, blocks) in [(1, 300), (2, 810)] {
        let all = promoted(&target, id, 0, blocks);
        assert!(all == source.read(&source.volume(id), 0, blocks), "volume {id} differs");
        assert!(all.iter().any(|byte| *byte != 0));
    }
}

#[test]
fn a_source_that_may_goes_on_alone_and_the_target_keeps_what_both_had() {
    let (source, target) = mirrored_pair();
    let mirror = Arc::new(Mirror::new(OnLinkLoss::Continue, false));
    let mut session = Running::begin(&source, &target, &mirror, pipe());
    session.until(|_| is_synced(&mirror));
    session.perform(&source, 1, write(5, 1));
    let volume = source.volume(1);
    let mut held = pin!(volume.execute(write(5, 2)));
    poll_once(&mut held);
    drop(session);
    block_on(held).unwrap();
    assert_eq!(mirror.state(), MirrorState::CatchingUp);
    source.write(&volume, 5, &random_block(3));
    assert_eq!(promoted(&target, 1, 5, 1), random_block(1));
    assert!(!is_mirrored(&target.engine, REPLICATION).unwrap());
    // Later changes have the number after the sealed one.
    let mut session = Running::begin(&source, &target, &mirror, pipe());
    session.until(|_| is_synced(&mirror));
    drop(session);
    assert_eq!(target.points().iter().map(|point| point.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(promoted(&target, 1, 5, 1), random_block(3));
}

#[test]
fn a_source_that_may_not_waits_then_refuses_and_does_so_after_a_restart() {
    let (source, target) = mirrored_pair();
    let mirror = Arc::new(Mirror::new(OnLinkLoss::Stop, false));
    let mut session = Running::begin(&source, &target, &mirror, pipe());
    session.until(|_| is_synced(&mirror));
    drop(session);
    let volume = source.volume(1);
    let mut held = pin!(volume.execute(write(5, 2)));
    poll_once(&mut held);
    assert_eq!(source.read(&volume, 5, 1), random_block(2));
    poll_once(&mut held);
    assert_eq!(mirror.state(), MirrorState::Held);
    mirror.refuse();
    assert_eq!(block_on(held).unwrap_err(), block::Error::Unreplicated);
    assert_eq!(block_on(volume.execute(write(6, 3))).unwrap_err(), block::Error::Unreplicated);
    assert_eq!(source.read(&volume, 6, 1), vec![0; 4096]);
    // Snapshots do not change the hosts' view.
    source.snapshot(1, 77, "a snapshot");

    let restarted = Arc::new(Mirror::new(OnLinkLoss::Stop, is_armed(&source.engine, REPLICATION).unwrap()));
    let tap: Arc<dyn Tap> = restarted.clone();
    source.engine.tap(&[DiskId(1), DiskId(2)], Some(&tap));
    let mut held = pin!(volume.execute(write(6, 4)));
    poll_once(&mut held);
    assert_eq!(source.read(&volume, 6, 1), random_block(4));
    poll_once(&mut held);
    let mut session = Running::begin(&source, &target, &restarted, pipe());
    session.until(|cx| held.as_mut().poll(cx).is_ready());
    assert!(is_synced(&restarted));
    drop(session);
    assert_eq!(promoted(&target, 1, 6, 1), random_block(4));
    // An operator decides.
    block_on(source.engine.put_records(vec![disarm(REPLICATION)])).unwrap();
    restarted.set_on_link_loss(OnLinkLoss::Continue);
    source.write(&volume, 6, &random_block(5));
    assert!(!is_armed(&source.engine, REPLICATION).unwrap());
}

#[test]
fn a_restore_ends_the_session_and_waits_for_the_next_one() {
    let (source, target) = mirrored_pair();
    source.write(&source.volume(1), 5, &random_block(1));
    source.snapshot(1, 77, "a snapshot");
    let mirror = Arc::new(Mirror::new(OnLinkLoss::Stop, false));
    let mut session = Running::begin(&source, &target, &mirror, pipe());
    session.until(|_| is_synced(&mirror));
    session.perform(&source, 1, write(5, 2));
    let mut restore = pin!(source.engine.restore_volume(DiskId(1), DiskId(77)));
    poll_once(&mut restore);
    let ended = block_on(&mut session.source);
    assert!(matches!(ended, Error::Unmirrored(_)), "{ended}");
    drop(session);
    let mut session = Running::begin(&source, &target, &mirror, pipe());
    session.until(|cx| restore.as_mut().poll(cx).is_ready());
    drop(session);
    assert_eq!(promoted(&target, 1, 5, 1), random_block(1));
}

#[test]
fn a_silent_array_is_lost_and_heartbeats_measure_the_round_trip() {
    let (source, target) = mirrored_pair();
    let mirror = Arc::new(Mirror::new(OnLinkLoss::Stop, false));
    let mut session = Running::begin(&source, &target, &mirror, pipe());
    session.until(|_| is_synced(&mirror));
    assert_eq!(mirror.progress().round_trip_ns, None);
    assert!(target.receiver.is_following(REPLICATION));
    // Without changes, both ends exchange heartbeats.
    for _ in 0..10 {
        source.pass_ns(HEARTBEAT_NS);
        target.pass_ns(HEARTBEAT_NS);
        let mut turns = 0;
        session.until(|_| {
            turns += 1;
            turns > 100
        });
    }
    assert_eq!(mirror.progress().round_trip_ns, Some(0));

    // A target that no longer responds: the heartbeat, then the silence.
    let source_alone = |session: &mut Running<'_>| {
        block_on(poll_fn(|cx| match session.source.as_mut().poll(cx) {
            Poll::Ready(error) => Poll::Ready(Some(error)),
            Poll::Pending => Poll::Ready(None),
        }))
    };
    source.pass_ns(HEARTBEAT_NS);
    assert_eq!(source_alone(&mut session), None);
    source.pass_ns(MAX_SILENCE_NS - 1);
    assert_eq!(source_alone(&mut session), None);
    source.pass_ns(1);
    assert_eq!(source_alone(&mut session), Some(Error::Silent));
    drop(session);
    assert_eq!(mirror.state(), MirrorState::Held);
    assert!(!target.receiver.is_following(REPLICATION));

    // A source that no longer sends.
    let mut session = Running::begin(&source, &target, &mirror, pipe());
    session.until(|_| is_synced(&mirror));
    target.pass_ns(MAX_SILENCE_NS);
    assert_eq!(block_on(&mut session.target), Err(Error::Silent));
}

#[test]
fn hosts_wait_for_the_point_of_a_session_for_a_bounded_time() {
    let (source, target) = mirrored_pair();
    let mirror = Arc::new(Mirror::new(OnLinkLoss::Stop, false));
    let mut session = Running::begin(&source, &target, &mirror, pipe());
    session.until(|_| mirror.state() == MirrorState::Joining);
    let volume = source.volume(1);
    let mut held = pin!(volume.execute(write(5, 1)));
    poll_once(&mut held);
    source.pass_ns(MAX_JOIN_NS);
    assert_eq!(block_on(&mut session.source), Error::SlowJoin);
    drop(session);
    block_on(held).unwrap();

    // With the policy Stop, writes wait, but are refused after a time.
    let mut session = Running::begin(&source, &target, &mirror, pipe());
    session.until(|_| is_synced(&mirror));
    drop(session);
    let mut session = Running::begin(&source, &target, &mirror, pipe());
    session.until(|_| mirror.state() == MirrorState::Joining);
    let mut held = pin!(volume.execute(write(6, 2)));
    poll_once(&mut held);
    assert_eq!(source.read(&volume, 6, 1), random_block(2));
    poll_once(&mut held);
    source.pass_ns(2 * MAX_JOIN_NS);
    mirror.refuse();
    assert!(mirror.refuses());
    assert_eq!(block_on(held).unwrap_err(), block::Error::Unreplicated);
    session.until(|_| is_synced(&mirror));
    assert!(!mirror.refuses());
    session.perform(&source, 1, write(7, 3));
}

#[test]
fn a_source_without_changes_since_a_session_has_the_point_that_the_target_makes() {
    let (source, target) = mirrored_pair();
    let group = [DiskId(1), DiskId(2)];
    let mirror = Arc::new(Mirror::new(OnLinkLoss::Continue, false));
    let mut session = Running::begin(&source, &target, &mirror, pipe());
    session.until(|_| is_synced(&mirror));
    session.perform(&source, 1, write(5, 1));
    assert!(block_on(mirror.settled()));
    drop(session);
    assert!(!block_on(mirror.settled()), "it is not in sync");
    assert_eq!(block_on(source.sender.seal(REPLICATION, 7, &group)), Ok(None), "another session");
    let ours = block_on(source.sender.seal(REPLICATION, 1, &group)).unwrap().unwrap();
    let theirs = block_on(target.receiver.seal(REPLICATION)).unwrap().unwrap();
    assert_eq!((ours.number, ours.digest), (theirs.number, theirs.digest));
    assert_eq!(sync(&source, &target).unwrap().offered_blocks, 0, "both have it");
    // The point is the base of later changes.
    source.write(&source.volume(1), 6, &random_block(2));
    source.take_point(&[1, 2]);
    assert_eq!(sync(&source, &target).unwrap().offered_blocks, 1);
    assert_eq!(promoted(&target, 1, 5, 1), random_block(1));
    assert_eq!(promoted(&target, 1, 6, 1), random_block(2));
}

#[test]
fn an_operator_lets_a_source_go_on_alone_once() {
    let (source, target) = mirrored_pair();
    let mirror = Arc::new(Mirror::new(OnLinkLoss::Stop, false));
    let mut session = Running::begin(&source, &target, &mirror, pipe());
    session.until(|_| is_synced(&mirror));
    drop(session);
    let volume = source.volume(1);
    let mut held = pin!(volume.execute(write(5, 2)));
    poll_once(&mut held);
    assert!(mirror.is_armed());
    mirror.go_alone();
    block_on(held).unwrap();
    assert_eq!((mirror.state(), mirror.is_armed()), (MirrorState::CatchingUp, false));
    source.write(&volume, 6, &random_block(3));
    // The policy applies again after the next session.
    let mut session = Running::begin(&source, &target, &mirror, pipe());
    session.until(|_| is_synced(&mirror));
    drop(session);
    assert_eq!(mirror.state(), MirrorState::Held);
}

#[test]
fn an_older_target_is_refused_before_anything_waits() {
    let (source, target) = mirrored_pair();
    let mirror = Arc::new(Mirror::new(OnLinkLoss::Stop, false));
    let mut session =
        Running::begin(&source, &target, &mirror, pipe_of([MIRROR_VERSION, MIRROR_VERSION - 1]));
    let ended = block_on(poll_fn(|cx| {
        _ = session.target.as_mut().poll(cx);
        session.source.as_mut().poll(cx)
    }));
    assert_eq!(ended, Error::OldPeer);
    source.write(&source.volume(1), 0, &random_block(1));
}

#[test]
fn changes_that_a_volume_cannot_have_are_refused_and_change_nothing() {
    let (_, target) = pair(b"key", b"key");
    target.create(1, 10, 4096);
    let data = |blocks: usize| Bytes::from(vec![7; blocks * 4096]);
    let apply = |parts: Vec<(u128, Part)>| {
        let tapped = |(volume, part)| Tapped { volume: DiskId(volume), part };
        let changes: Vec<_> = parts.into_iter().map(tapped).collect();
        block_on(async { target.engine.confirm(target.engine.apply(&changes).await?).await })
    };
    let good = || (1, Part::Data { block: 0, data: data(1) });
    let beyond = Extent::new(9, 2);
    for (part, error) in [
        (
            (1, Part::Data { block: 9, data: data(2) }),
            block::Error::OutOfRange { extent: beyond, blocks: 10 },
        ),
        (
            (1, Part::Hole { block: 9, count: 2, mapped: true }),
            block::Error::OutOfRange { extent: beyond, blocks: 10 },
        ),
        ((2, Part::Hole { block: 0, count: 1, mapped: true }), block::Error::Deleted),
    ] {
        assert_eq!(apply(vec![good(), part]), Err(error));
    }
    for part in [
        Part::Data { block: u64::MAX, data: data(1) },
        Part::Hole { block: 1, count: u64::MAX, mapped: false },
        Part::Same { block: 0, count: 1, data: data(2) },
        Part::Data { block: 0, data: Bytes::from_static(&[7]) },
        Part::Copied { block: 0, count: 1 },
    ] {
        let refused = apply(vec![good(), (1, part)]);
        assert!(matches!(refused, Err(block::Error::Malformed(_))), "{refused:?}");
    }
    assert!(matches!(apply(Vec::new()), Err(block::Error::Malformed(_))));
    assert_eq!(target.read(&target.volume(1), 0, 1), vec![0; 4096]);
    apply(vec![good(), (1, Part::Resized { blocks: 12 })]).unwrap();
    assert_eq!(target.read(&target.volume(1), 0, 12)[..4097], [vec![7; 4096], vec![0]].concat());
}
