//! The environment of the array: time and randomness. They are injected, so that a test or a simulation decides them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A file of the support bundle: its name and its bytes.
pub type File = (String, Vec<u8>);

/// How long the machine has been up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uptime {
    /// Which start of the machine it counts from: a number that no other start has.
    pub boot: u128,
    /// How long ago that was.
    pub since: Duration,
}

/// The environment: time and randomness.
pub struct Env {
    /// Random numbers for identities that stay unique forever.
    pub random: Box<dyn Fn() -> u128 + Send + Sync>,
    /// The time of day.
    pub now: Box<dyn Fn() -> SystemTime + Send + Sync>,
    /// How long the machine is up.
    pub uptime: Box<dyn Fn() -> Uptime + Send + Sync>,
    /// What the support bundle says about the machine: files by name.
    pub system: Box<dyn Fn() -> Vec<File> + Send + Sync>,
}

impl Env {
    /// The time of day in seconds since 1970.
    pub(crate) fn seconds(&self) -> u64 {
        self.millis() / 1000
    }

    /// How long the machine is up, in seconds: for what must not depend on the time of day.
    pub(crate) fn uptime_seconds(&self) -> u64 {
        (self.uptime)().since.as_secs()
    }

    /// The time of day in milliseconds since 1970.
    pub(crate) fn millis(&self) -> u64 {
        let since = (self.now)().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}
