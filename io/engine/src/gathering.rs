//! Gathering: how long blocks wait in the journal for neighbours and for a newer version of themselves.
//!
//! The journal is durable, so waiting costs memory and journal space only. It ends when a block is old enough, when as much
//! waits as may, or when an operation, a checkpoint or the end of the engine needs what waits to be in the log.

use crate::core::Core;
use crate::wake::either;
use std::future::Future;
use std::sync::Arc;

/// Which batches of the journal are to be flushed now.
pub struct Gathering {
    core: Arc<Core>,
    /// Slots of batches up to this one wait no longer.
    ripe: u64,
    /// The newest durable batch at the end of the last rest.
    seen: u64,
    /// What hosts had done until then.
    activity: u64,
}

impl Gathering {
    /// What a start has recovered is flushed at once.
    pub fn new(core: Arc<Core>) -> Self {
        let ripe = core.journal.durable();
        Self { core, ripe, seen: ripe, activity: 0 }
    }

    /// The newest batch whose slots are to be flushed.
    pub fn due(&self) -> u64 {
        if self.core.is_gathering() { self.ripe } else { self.core.journal.durable() }
    }

    /// Lets nothing wait that is durable now.
    pub fn end(&mut self) {
        self.ripe = self.core.journal.durable();
    }

    /// Whether durable slots wait that may wait longer.
    pub fn is_waiting(&self) -> bool {
        self.core.is_gathering()
            && self.core.state.read().maps.slots.flushed_before() <= self.core.journal.durable()
    }

    /// Rests while hosts write, which does not wake the background until as much waits as may. After a whole rest, slots are
    /// ripe that waited during all of it, and all of them if hosts did nothing.
    pub async fn rest(&mut self, rest: impl Future<Output = ()>) {
        self.core.signal.doze();
        // What was written before the doze began did not end it.
        let woken = !self.core.is_gathering() || either(self.core.signal.wait(), rest).await;
        self.core.signal.end_doze();
        if !woken {
            let (durable, activity) = (self.core.journal.durable(), self.core.activity.total());
            self.ripe = if activity == self.activity { durable } else { self.seen };
            (self.seen, self.activity) = (durable, activity);
        }
    }
}

impl Core {
    /// Whether slots may wait for others.
    fn is_gathering(&self) -> bool {
        let waiting = self.state.read().maps.slots.bytes() as u64;
        let wanted =
            self.throttle.queue.is_queued() || self.throttle.wants_space() || self.throttle.is_full();
        !wanted && !self.shutdown.has_begun() && !self.gathers_enough(waiting)
    }

    /// Whether as much waits as may: a part of what may wait before back-pressure begins, or half of the journal is in use,
    /// which is when a checkpoint trims it.
    pub fn gathers_enough(&self, waiting: u64) -> bool {
        let divisor = self.options.tunables.gather_divisor;
        waiting >= self.backpressure_start_bytes() / divisor || self.journal.used() > self.journal.limit() / 2
    }
}
