//! Measures replications: lag, throughput and backlog, for the history.

use crate::configuration::Configuration;
use crate::events::bus::EventBus;
use crate::parts::env::Env;
use crate::service::metering::TimeRange;
use crate::service::replicas::Replicas;
use crate::service::replication_status::ReplicationStatus;
use crate::{Error, Result};
use history::{REPLICATION_STEP_SECONDS, ReplicationPoint, Store};
use parking_lot::Mutex;
use records::{Identity, ReplicationId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How far a question looks back that does not say it, in seconds.
const DEFAULT_RANGE_SECONDS: u64 = 3600;

/// What was measured last.
struct Before {
    time: u64,
    /// Changed data of points and bytes over the network, since the array started.
    transferred: BTreeMap<ReplicationId, [u64; 2]>,
}

/// Samples replications.
pub(crate) struct ReplicationMeter {
    env: Arc<Env>,
    configuration: Arc<Configuration>,
    history: Arc<Store>,
    replicas: Arc<Replicas>,
    before: Mutex<Before>,
}

impl ReplicationMeter {
    pub fn new(
        (env, _, configuration): (Arc<Env>, Arc<EventBus>, Arc<Configuration>),
        history: Arc<Store>,
        replicas: Arc<Replicas>,
    ) -> Self {
        let before = Mutex::new(Before { time: env.seconds(), transferred: BTreeMap::new() });
        Self { env, configuration, history, replicas, before }
    }

    /// Measures if it is time: to be called about once a second, on a thread that may work for a moment.
    pub fn measure(&self) {
        let now = self.env.seconds();
        let mut before = self.before.lock();
        // A clock that was set begins again.
        let seconds = now.checked_sub(before.time).filter(|passed| *passed <= 2 * REPLICATION_STEP_SECONDS);
        if seconds.is_some_and(|passed| passed < REPLICATION_STEP_SECONDS) {
            return;
        }
        before.time = now;
        let found: Vec<(ReplicationId, ReplicationStatus)> = {
            let config = self.configuration.read();
            config.replications.iter().map(|it| (it.id, self.replicas.status(&config, it))).collect()
        };
        let last = std::mem::take(&mut before.transferred);
        let mut points = Vec::new();
        for (id, status) in found {
            let [old_logical, old_wire] = last.get(&id).copied().unwrap_or_default();
            let seconds = seconds.unwrap_or(REPLICATION_STEP_SECONDS);
            let wire = status.network_bytes.saturating_sub(old_wire);
            self.replicas.note_throughput(id, wire / seconds.max(1));
            let point = ReplicationPoint {
                time: now,
                seconds,
                lag: status.lag_seconds,
                logical: status.logical_bytes.saturating_sub(old_logical),
                wire,
                backlog: status.backlog_bytes,
            };
            points.push((id.digits(), point));
            before.transferred.insert(id, [status.logical_bytes, status.network_bytes]);
        }
        drop(before);
        if points.is_empty() {
            return;
        }
        if let Err(error) = self.history.add_replications(now, &points) {
            tracing::error!(%error, "measurements of replications are lost");
        }
    }

    /// What was measured of a replication in a time range: the last hour if no field is given.
    pub fn history(&self, name: &str, range: TimeRange) -> Result<Vec<ReplicationPoint>> {
        let id = self.configuration.read().replications.named(name)?.id;
        let now = self.env.seconds();
        let (from, to) = range.ends(now, DEFAULT_RANGE_SECONDS)?;
        let points = range.number_of_points();
        let found = self.history.replication(&id.digits(), (now, from, to), points.into());
        found.map_err(|error| Error::failed("the history can't be read", error))
    }
}
