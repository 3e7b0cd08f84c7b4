//! What is measured of a replication: lag, throughput and backlog, with commands that hosts really send.

use crate::measured::{IQN, send};
use crate::replication::{Pair, pair, protect, show};
use crate::rig::{Up, ok, refused};
use array::{
    CreateConnection, CreateHost, Kind, PeerName, ReplicationState, ShowReplicationHistory, TimeRange,
};
use std::sync::atomic::Ordering;

const WRITE_16: u8 = 0x8A;
const READ_16: u8 = 0x88;
const COMMAND_BYTES: u64 = 4096;
/// How often replications are measured.
const STEP_SECONDS: u64 = 30;

fn history() -> ShowReplicationHistory {
    ShowReplicationHistory { name: "prod".into(), range: TimeRange::default() }
}

/// Connects volume `data` of the group to a host.
async fn connect(up: &Up) {
    let host = CreateHost { name: "web1".into(), initiators: vec![IQN.into()], ..CreateHost::default() };
    ok(up, host).await;
    let connection = CreateConnection {
        volume: "data".into(),
        peer: PeerName::Host("web1".into()),
        lun: Some(0),
        read_only: false,
        min_lun: None,
    };
    ok(up, connection).await;
    assert_eq!(up.luns(IQN), [0]);
}

async fn backlog(up: &Up) -> Option<u64> {
    ok(up, show()).await.status.backlog_bytes
}

#[tokio::test]
async fn the_backlog_is_what_hosts_wrote_since_the_newest_complete_point_was_taken() {
    let Pair { one, first, second, .. } = pair().await;
    connect(&first).await;
    ok(&first, protect()).await;
    send(&first, WRITE_16).await;
    assert_eq!(backlog(&first).await, Some(COMMAND_BYTES), "there is no point yet");
    first.array.replicate_once().await;
    assert_eq!((backlog(&first).await, backlog(&second).await), (Some(0), None));

    // Reads are none, and neither is what other volumes get.
    send(&first, WRITE_16).await;
    send(&first, READ_16).await;
    send(&first, WRITE_16).await;
    assert_eq!(backlog(&first).await, Some(2 * COMMAND_BYTES));

    // A point that is taken and does not arrive changes nothing; when it does, what came after it is left.
    one.clock.fetch_add(STEP_SECONDS, Ordering::SeqCst);
    let others = std::mem::take(&mut *one.network.others.lock().unwrap());
    first.array.replicate_once().await;
    assert_eq!(ok(&first, show()).await.status.state, ReplicationState::Failed);
    send(&first, WRITE_16).await;
    assert_eq!(backlog(&first).await, Some(3 * COMMAND_BYTES));
    *one.network.others.lock().unwrap() = others;
    one.clock.fetch_add(5, Ordering::SeqCst);
    first.array.replicate_once().await;
    assert_eq!(ok(&first, show()).await.status.point, Some(2));
    assert_eq!(backlog(&first).await, Some(COMMAND_BYTES));
    one.clock.fetch_add(STEP_SECONDS, Ordering::SeqCst);
    first.array.replicate_once().await;
    assert_eq!(backlog(&first).await, Some(0));
}

#[tokio::test]
async fn lag_throughput_and_backlog_are_kept_over_a_restart() {
    let Pair { one, other, first, second, .. } = pair().await;
    connect(&first).await;
    let missing = ShowReplicationHistory { name: "other".into(), range: TimeRange::default() };
    assert_eq!(refused(&first, missing).await.kind, Kind::NotFound);
    ok(&first, protect()).await;
    first.array.replicate_once().await;
    assert!(ok(&first, history()).await.is_empty());
    let wire = ok(&first, show()).await.status.network_bytes;

    // The second array has its own clock.
    let measure = || {
        for rig in [&one, &other] {
            rig.clock.fetch_add(STEP_SECONDS, Ordering::SeqCst);
        }
        first.array.measure();
        second.array.measure();
    };
    send(&first, WRITE_16).await;
    measure();
    // Less than a step later nothing is measured.
    one.clock.fetch_add(1, Ordering::SeqCst);
    first.array.measure();
    let found = ok(&first, history()).await;
    let [measured] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((measured.lag, measured.backlog), (Some(STEP_SECONDS), Some(COMMAND_BYTES)));
    assert_eq!((measured.seconds, measured.wire), (STEP_SECONDS, wire));
    assert_eq!(measured.logical, ok(&first, show()).await.status.logical_bytes);
    assert_eq!(ok(&first, show()).await.status.network_bytes_per_second, wire / STEP_SECONDS);

    // Nothing is transferred in the next half minute.
    measure();
    let found = ok(&first, history()).await;
    assert_eq!(found.len(), 2);
    assert_eq!((found[1].lag, found[1].wire), (Some(2 * STEP_SECONDS + 1), 0));
    assert_eq!(ok(&first, show()).await.status.network_bytes_per_second, 0);
    let theirs = ok(&second, history()).await;
    assert_eq!((theirs.len(), theirs[0].backlog, theirs[0].wire > 0), (2, None, true));

    one.network.others.lock().unwrap().clear();
    first.array.flush().await;
    first.down().await;
    let again = one.up().await;
    assert_eq!(ok(&again, history()).await, found);
    let backwards = TimeRange { from: Some(2000), to: Some(1000), points: None };
    let backwards = ShowReplicationHistory { range: backwards, ..history() };
    assert_eq!(refused(&again, backwards).await.kind, Kind::Invalid);
}
