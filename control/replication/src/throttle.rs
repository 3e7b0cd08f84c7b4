//! Bandwidth limit: a virtual schedule (GCRA) of the bytes that are sent.

use std::sync::atomic::{AtomicU64, Ordering};

const NS_PER_SECOND: u128 = 1_000_000_000;

/// Time by which sending may be ahead of its schedule.
const BURST_NS: u64 = 50_000_000;

/// A limit of bytes per second. It can be changed while it is in use.
#[derive(Debug, Default)]
pub struct Throttle {
    /// None if zero.
    bytes_per_second: AtomicU64,
    /// When everything that was sent would have been sent at the limit.
    sent_ns: AtomicU64,
}

impl Throttle {
    /// A limit; none if it is zero.
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: AtomicU64::new(bytes_per_second), sent_ns: AtomicU64::new(0) }
    }

    /// Changes the limit; none if it is zero.
    pub fn set(&self, bytes_per_second: u64) {
        self.bytes_per_second.store(bytes_per_second, Ordering::Relaxed);
    }

    /// The limit; none if it is zero.
    pub fn limit(&self) -> u64 {
        self.bytes_per_second.load(Ordering::Relaxed)
    }

    /// Counts bytes that are sent after a wait, and returns how long that is.
    pub fn wait_ns(&self, now_ns: u64, bytes: usize) -> u64 {
        let limit = u128::from(self.limit());
        if limit == 0 {
            return 0;
        }
        let takes = u64::try_from(bytes as u128 * NS_PER_SECOND / limit).unwrap_or(u64::MAX);
        let schedule = |sent: u64| Some(sent.max(now_ns.saturating_sub(BURST_NS)).saturating_add(takes));
        let sent = self.sent_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, schedule);
        let sent = sent.unwrap_or_else(|sent| sent);
        sent.saturating_sub(now_ns)
    }
}

#[cfg(test)]
#[path = "throttle_test.rs"]
mod tests;
