//! What the library of replication needs from the array.

use crate::parts::env::Env;
use crate::service::clock::RetentionClock;
use export::{Exports, Operation};
use replication::{Commands, HostIo, HostThrottle};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Time and identities for the library.
pub(crate) struct ReplicationEnv {
    env: Arc<Env>,
    clock: Arc<RetentionClock>,
    /// What `now_ns` counts from, by the clock that ends the waits of `sleep`: what waits for a time has to see it come.
    begun: Instant,
    exports: Arc<Exports>,
    throttle: HostThrottle,
}

impl ReplicationEnv {
    pub fn new(env: Arc<Env>, clock: Arc<RetentionClock>, exports: Arc<Exports>) -> Self {
        Self { env, clock, begun: Instant::now(), exports, throttle: HostThrottle::default() }
    }

    /// Whether transfers are slowed down now because hosts are active.
    pub fn slows_transfers(&self) -> bool {
        self.throttle.is_slowing(replication::Env::now_ns(self))
    }
}

impl replication::Env for ReplicationEnv {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn timestamp(&self) -> u64 {
        self.env.seconds()
    }

    fn retention_now(&self) -> u64 {
        self.clock.retention_now()
    }

    fn retention_begin(&self) -> u64 {
        self.clock.retention_begin()
    }

    async fn sleep(&self, ns: u64) {
        tokio::time::sleep(Duration::from_nanos(ns)).await;
    }

    fn timer(&self, ns: u64) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(Duration::from_nanos(ns))
    }

    fn host_throttle(&self) -> Option<&HostThrottle> {
        Some(&self.throttle)
    }

    fn host_io(&self) -> HostIo {
        let of = |operation| {
            let (count, ns) = self.exports.open_latencies(operation);
            Commands { count, ns }
        };
        HostIo { reads: of(Operation::Read), writes: of(Operation::Write) }
    }

    fn fresh_id(&self) -> block::DiskId {
        block::DiskId((self.env.random)())
    }
}
