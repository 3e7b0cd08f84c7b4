//! Operator requests about performance and capacity.

use crate::request::verbs;
use crate::service::metering::{Busiest, By, Capacity, PathUse, Scope, TimeRange};
use history::{ReplicationPoint, Series};
use serde::Serialize;

/// Performance over a time range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowPerformance {
    /// Of the whole array, a volume, a group, a host or a controller.
    #[serde(skip)]
    pub scope: Scope,
    /// When.
    #[serde(skip)]
    pub range: TimeRange,
}

/// The busiest volumes, hosts or controllers of the last seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListBusiest {
    /// Volumes, hosts or controllers.
    #[serde(skip)]
    pub by: By,
    /// How many seconds, 20 at most.
    pub seconds: u64,
}

/// Use of each path of one host, or of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListPaths {
    /// The host.
    pub host: Option<String>,
    /// When.
    #[serde(skip)]
    pub range: TimeRange,
}

/// Lag, throughput and backlog of a replication over a time range: the last hour if none is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowReplicationHistory {
    /// The replication.
    pub name: String,
    /// When.
    #[serde(skip)]
    pub range: TimeRange,
}

/// Capacity history and forecast.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowCapacity(pub TimeRange);

verbs! {
    ShowPerformance -> Series, Read "show" "performance", Viewer
        => |tx, it| {
            if let Scope::Controller(number) = it.scope {
                tx.array.controller(&number.to_string())?;
            }
            tx.array.metering.performance(&it.scope, it.range)
        };
    ListBusiest -> Busiest, Read "list" "performance", Viewer
        => |tx, it| Ok(tx.array.metering.busiest(it.by, it.seconds));
    ListPaths -> Vec<PathUse>, Read "list" "path", Viewer
        => |tx, it| tx.array.metering.paths(it.host.as_deref(), it.range);
    ShowReplicationHistory -> Vec<ReplicationPoint>, Read "show" "replication history", Viewer, about name
        => |tx, it| tx.array.replication_meter.history(&it.name, it.range);
    ShowCapacity -> Capacity, Read "show" "capacity", Viewer
        => |tx, it| tx.array.metering.capacity(it.0);
}
