//! The stall rule: a connection that holds pool memory while others wait for it is closed unless it makes progress.

use crate::BudgetShare;

/// Seconds without progress after which a connection is closed.
pub const STALL_SECONDS: u32 = 30;
/// Bytes per second that count as progress.
const MIN_PROGRESS_BYTES: u64 = 64 << 10;

/// Transfer counters of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transferred {
    /// Whether data requested from the host are outstanding.
    pub awaits_data: bool,
    /// Bytes of data received since the connection began.
    pub received: u64,
    /// Bytes that wait to be sent.
    pub unsent: u64,
    /// Bytes sent since the connection began.
    pub sent: u64,
}

/// The progress of one connection.
#[derive(Debug, Default)]
pub struct Progress {
    /// Counters as of the last second.
    received: u64,
    sent: u64,
    /// Seconds without progress.
    stalled: u32,
}

impl Progress {
    /// Called once a second, after unneeded draws were returned. True if the connection blocks others: it holds memory
    /// that they wait for, waits for its host, and has moved almost nothing for `limit_seconds`. If the host owes data,
    /// only received data count as progress.
    pub fn is_stalled(&mut self, now: Transferred, share: &BudgetShare, limit_seconds: u32) -> bool {
        let Transferred { awaits_data, received, unsent, sent } = now;
        let moved = if awaits_data { received - self.received } else { sent - self.sent };
        let stalls = (awaits_data || unsent > 0) && moved < MIN_PROGRESS_BYTES;
        (self.received, self.sent) = (received, sent);
        self.stalled = if stalls && share.blocks_others() { self.stalled + 1 } else { 0 };
        self.stalled >= limit_seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, Guarantee, Owner};
    use std::sync::Arc;

    #[test]
    fn a_host_that_owes_data_makes_no_progress_by_reading() {
        let budget = Arc::new(Budget::new(8 << 20));
        let guarantee = Guarantee { total_bytes: 64 << 10, covered_bytes: 64 << 10 };
        let [mut hog, mut other] = ["hog", "other"].map(|name| {
            let mut share = BudgetShare::unknown_host(budget.clone(), 0);
            assert!(share.open(&Owner::proved(name), guarantee));
            share
        });
        assert!(hog.cover(4 << 20));
        let mut progress = Progress::default();
        let owes =
            |seconds: u64| Transferred { awaits_data: true, sent: seconds << 20, ..Transferred::default() };
        assert!(!progress.is_stalled(owes(0), &hog, 1), "no other draw waits");
        other.wait_for(6 << 20).unwrap();
        assert!((1..STALL_SECONDS).all(|second| !progress.is_stalled(
            owes(second.into()),
            &hog,
            STALL_SECONDS
        )));
        assert!(progress.is_stalled(owes(30), &hog, STALL_SECONDS));
        // Requested data that come are progress.
        let sends = Transferred { received: 64 << 10, ..owes(31) };
        assert!(!progress.is_stalled(sends, &hog, STALL_SECONDS));
        let reads_nothing = Transferred { awaits_data: false, unsent: 1, ..sends };
        assert!((1..STALL_SECONDS).all(|_| !progress.is_stalled(reads_nothing, &hog, STALL_SECONDS)));
        assert!(progress.is_stalled(reads_nothing, &hog, STALL_SECONDS));
    }
}
