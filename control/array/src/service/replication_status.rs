//! What is known of a replication beyond its configuration, as every view shows it.

use crate::service::mirrors::SyncStatus;
use crate::shape::some_time;
use serde::Serialize;
use utoipa::ToSchema;

/// State of a replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplicationState {
    /// Nothing is to be transferred now.
    Idle,
    /// A point is being transferred, or an operator has asked for one that is to be taken.
    Syncing,
    /// Paused by an operator.
    Paused,
    /// The last attempt failed; it is repeated.
    Failed,
    /// The target has no space; the transfer continues when there is some.
    NoSpace,
    /// The source takes no writes any more; its last point is not complete yet.
    Demoting,
    /// The source takes no writes, and the target has all of them.
    Demoted,
    /// The volumes of the target are being created.
    Promoting,
    /// The target has volumes of its own, and gets no points.
    Promoted,
    /// The volumes of both arrays take writes.
    Split,
    /// Of a synchronous replication: everything that is acknowledged is on both arrays.
    InSync,
    /// Of a synchronous replication: both arrays were the same, and are not now. What is missing is transferred when
    /// the other array can be reached.
    OutOfSync,
    /// Of a synchronous replication: the source refuses writes until both arrays are the same again.
    WritesStopped,
}

impl ReplicationState {
    /// Its name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Syncing => "syncing",
            Self::Paused => "paused",
            Self::Failed => "failed",
            Self::NoSpace => "no_space",
            Self::Demoting => "demoting",
            Self::Demoted => "demoted",
            Self::Promoting => "promoting",
            Self::Promoted => "promoted",
            Self::Split => "split",
            Self::InSync => "in_sync",
            Self::OutOfSync => "out_of_sync",
            Self::WritesStopped => "writes_stopped",
        }
    }
}

/// Progress of the demotion of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DemotionState)]
pub enum Demotion {
    /// The source takes no writes any more; its last point is not complete yet.
    Incomplete,
    /// The source takes no writes, and the target has all of them.
    Complete,
}

/// Progress of a replication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ReplicationProgress)]
pub struct ReplicationStatus {
    /// State.
    pub state: ReplicationState,
    /// Progress of the demotion, also while `state` is another one, such as `failed`, `no_space` or `paused`; `null`
    /// if the source was not demoted, and while the target has volumes of its own.
    pub demotion: Option<Demotion>,
    /// Reason why the last attempt failed; `null` if it did not.
    pub problem: Option<String>,
    /// Number of the newest complete point, the same on both arrays; `null` if there is none.
    #[serde(rename = "last_point")]
    pub point: Option<u64>,
    /// Time at which the newest complete point was taken, by the clock of the source.
    #[serde(rename = "last_point_taken", serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub taken: Option<u64>,
    /// Complete points on this array.
    pub points: usize,
    /// Time at which the blackout ends in which no point is taken or transferred; `null` if there is none now.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub blackout_until: Option<u64>,
    /// Seconds since the newest complete point was taken; `null` where none is to follow it.
    pub lag_seconds: Option<u64>,
    /// Bytes that hosts have written since the newest complete point was taken, or since the array started; `null` on
    /// the target and where no point is to follow.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub backlog_bytes: Option<u64>,
    /// Bytes over the network per second, over the last half minute.
    #[schema(extensions(("x-unit" = json!("bytes/s"))))]
    pub network_bytes_per_second: u64,
    /// Whether the transfer under way is slowed down now because hosts are active; `false` on the target.
    pub throttled: bool,
    /// Changed data of the points that were completed, since the array started; 0 on the target.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub logical_bytes: u64,
    /// Bytes that went over the network in both directions, since the array started.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub network_bytes: u64,
    /// Progress of a synchronous replication; `null` for an asynchronous one.
    pub sync: Option<SyncStatus>,
}
