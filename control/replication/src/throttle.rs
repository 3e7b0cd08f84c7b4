//! Bandwidth limiter: bytes are sent in the order in which they were counted, at the current rate.
//!
//! Waiting data is counted in bytes and not in time, so a changed limit applies to it as well.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const NS_PER_SECOND: u128 = 1_000_000_000;

/// Maximum time by which sending may be ahead of the rate.
const BURST_NS: u64 = 50_000_000;

/// Maximum time between two checks of the limit while data waits.
pub const MAX_WAIT_NS: u64 = 100_000_000;

/// A limit in bytes per second, which can be changed during use.
#[derive(Debug, Default)]
pub struct Throttle {
    /// Zero: unlimited.
    bytes_per_second: AtomicU64,
    schedule: Mutex<Schedule>,
}

/// Bytes since the start, each times [`NS_PER_SECOND`].
#[derive(Debug, Default)]
struct Schedule {
    /// Counted bytes.
    counted: u128,
    /// Bytes that the limit has admitted until `time_ns`.
    passed: u128,
    time_ns: u64,
}

/// A position in the order of sent bytes.
#[derive(Clone, Copy, Debug)]
pub struct Place(u128);

impl Throttle {
    /// A limit; zero is unlimited.
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: AtomicU64::new(bytes_per_second), schedule: Mutex::default() }
    }

    /// Changes the limit; zero is unlimited.
    pub fn set(&self, bytes_per_second: u64) {
        self.bytes_per_second.store(bytes_per_second, Ordering::Relaxed);
    }

    /// The limit; zero is unlimited.
    pub fn limit(&self) -> u64 {
        self.bytes_per_second.load(Ordering::Relaxed)
    }

    /// Counts bytes, to be sent once [`Throttle::wait_ns`] is zero for their place.
    pub fn count(&self, now_ns: u64, bytes: usize) -> Place {
        let limit = self.limit();
        let mut schedule = self.schedule.lock();
        schedule.pass(limit, now_ns);
        let place = Place(schedule.counted);
        if limit > 0 {
            schedule.counted += bytes as u128 * NS_PER_SECOND;
        }
        place
    }

    /// Remaining wait of counted bytes at the current limit.
    pub fn wait_ns(&self, now_ns: u64, place: Place) -> u64 {
        let limit = self.limit();
        let mut schedule = self.schedule.lock();
        schedule.pass(limit, now_ns);
        match u128::from(limit) {
            0 => 0,
            limit => {
                let wait = place.0.saturating_sub(schedule.passed).div_ceil(limit);
                u64::try_from(wait).unwrap_or(u64::MAX)
            }
        }
    }
}

impl Schedule {
    /// Admits the bytes that the limit allows until now.
    fn pass(&mut self, limit: u64, now_ns: u64) {
        let time = now_ns.saturating_sub(self.time_ns);
        self.time_ns = self.time_ns.max(now_ns);
        self.passed = match u128::from(limit) {
            0 => self.counted,
            limit => {
                let ahead = self.counted + limit * u128::from(BURST_NS);
                (self.passed + limit * u128::from(time)).min(ahead)
            }
        };
    }
}

#[cfg(test)]
#[path = "throttle_test.rs"]
mod tests;
