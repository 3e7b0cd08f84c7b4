//! The lease of a controller: the time until which it may answer hosts.
//!
//! Every turn of every connection reads the lease, so it is one atomic number.

use std::sync::atomic::{AtomicU64, Ordering};

/// End of the lease, on the clock of the member's driver.
///
/// An answer is valid if the lease held at any moment after its look-up, however late it is sent: the command is
/// outstanding during all that time.
#[derive(Debug, Default)]
pub struct Lease {
    until_ns: AtomicU64,
}

impl Lease {
    /// True if hosts may be answered at `now`.
    pub fn holds(&self, now: u64) -> bool {
        now < self.until_ns.load(Ordering::Acquire)
    }

    pub(crate) fn extend(&self, until: u64) {
        self.until_ns.fetch_max(until, Ordering::Release);
    }

    pub(crate) fn end(&self) {
        self.until_ns.store(0, Ordering::Release);
    }
}
