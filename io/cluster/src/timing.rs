//! Intervals of beats, leases and judgements, and the relation between them that safety needs.

/// Intervals in nanoseconds of a member's own clock, which counts while the machine sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Interval of beats.
    pub beat_ns: u64,
    /// How long hosts may be answered after the sending of a beat that a majority took.
    pub lease_ns: u64,
    /// How long a beat has to be seen unchanged before its member may be marked.
    pub dead_ns: u64,
    /// After this a request without an answer is made again; the first one may still take effect.
    pub patience_ns: u64,
}

/// A clock runs at most this much too fast or too slow.
const DRIFT_PERCENT: u64 = 10;

impl Timing {
    /// The intervals that the product uses: four beats may be lost, and a silent member is noticed within 4 s.
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
