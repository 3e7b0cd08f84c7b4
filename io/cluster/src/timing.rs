//! Intervals of beats, leases and judgements, and the safety condition between them.

/// Intervals in nanoseconds of a member's own clock, which counts while the machine sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Interval of beats.
    pub beat_ns: u64,
    /// Duration of the lease after the sending of a beat that a majority took.
    pub lease_ns: u64,
    /// Time that a beat must be seen unchanged before its member may be marked.
    pub dead_ns: u64,
    /// Time after which an unanswered request is repeated; the first one may still take effect.
    pub patience_ns: u64,
}

/// Maximum deviation of a clock's rate.
const DRIFT_PERCENT: u64 = 10;

impl Timing {
    /// The product's intervals: four beats may be lost, and a silent member is noticed within 4 s.
    pub const PRODUCT: Self = Self {
        beat_ns: 500_000_000,
        lease_ns: 2_500_000_000,
        dead_ns: 3_500_000_000,
        patience_ns: 2_000_000_000,
    };

    /// True if a lease on the slowest clock ends before a judgement on the fastest.
    pub const fn is_safe(&self) -> bool {
        self.lease_ns * (100 + DRIFT_PERCENT) < self.dead_ns * (100 - DRIFT_PERCENT)
    }
}

const _: () = assert!(Timing::PRODUCT.is_safe());
