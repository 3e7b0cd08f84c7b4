//! Throttle by host latency: keeps the latency of hosts during transfers close to that without transfers.
//!
//! While hosts are active, transfers pause for a moment every few seconds to measure the host latency without them. So
//! a changing load needs no setting and no history. If the latency during a transfer is clearly higher, the transfer
//! has less outstanding, and at the next levels also rests between its parts, until it works a sixteenth of the time.
//! It never stops, so it makes progress even if the latency has other causes. Without host I/O it runs at full speed.
//! It begins with little outstanding, since nothing is known about the hosts yet.

use crate::throttle::MAX_WAIT_NS;
use parking_lot::Mutex;

/// Measurement window in nanoseconds.
const WINDOW_NS: u64 = 500_000_000;

/// Time for outstanding parts to end before hosts are measured alone.
const SETTLING_NS: u64 = 250_000_000;

/// Time without a measurement after which windows start again: there was no transfer.
const LAPSE_NS: u64 = 4 * WINDOW_NS;

/// Number of windows with transfers between two without.
const SHARED_WINDOWS: u32 = 8;

/// Minimum number of commands for a meaningful mean.
const MIN_COMMANDS: u64 = 16;

/// Maximum number of windows that wait for this many commands.
const MAX_STRETCH: u64 = 4;

/// Ratios of latencies, with and without transfers, in percent: above the first one transfers slow down, below the
/// second one they speed up.
const SLOWER_PERCENT: u64 = 125;
const FASTER_PERCENT: u64 = 110;

/// A difference of latencies that is irrelevant to hosts, in nanoseconds.
const NEGLIGIBLE_NS: u64 = 50_000;

/// Each level halves the rate of a transfer: first its outstanding blocks, after this many levels its share of the
/// time.
const LEVELS_WITHOUT_REST: u32 = 6;
const MAX_LEVEL: u32 = LEVELS_WITHOUT_REST + 4;

/// Outstanding blocks from level [`LEVELS_WITHOUT_REST`] on, or less if limits allow no more.
const MIN_BLOCKS: usize = 64;

/// Maximum rest between two parts.
const MAX_REST_NS: u64 = 2_000_000_000;

/// Successful commands of hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Number of commands.
    pub count: u64,
    /// Sum of their latencies in nanoseconds.
    pub ns: u64,
}

/// Counters of host I/O; only differences matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostIo {
    /// Reads.
    pub reads: Commands,
    /// Writes.
    pub writes: Commands,
}

/// Throttle for all transfers of an array.
#[derive(Debug, Default)]
pub struct HostThrottle(Mutex<Inner>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Hosts and transfers share the array.
    #[default]
    Shared,
    /// Transfers begin no new part.
    Settling,
    /// No transfer runs.
    Alone,
}

#[derive(Debug, Default)]
struct Inner {
    phase: Phase,
    /// Start of the window, and the host I/O counters at that time; `None` before the first window.
    begun: Option<(u64, HostIo)>,
    looked_ns: u64,
    /// Number of windows with transfers since the last one without.
    windows: u32,
    /// Host I/O without transfers; older windows have a lower weight. Empty without host I/O.
    alone: HostIo,
    level: u32,
}

impl Commands {
    fn since(self, before: Self) -> Self {
        // A command may have ended and left the counters since.
        Self { count: self.count.saturating_sub(before.count), ns: self.ns.saturating_sub(before.ns) }
    }

    fn mean_ns(self) -> Option<u64> {
        if self.count >= MIN_COMMANDS { self.ns.checked_div(self.count) } else { None }
    }

    /// Ratio of these latencies to those without transfers, in percent.
    fn percent_of(self, alone: Self) -> Option<u64> {
        let (mean, alone) = (self.mean_ns()?, alone.mean_ns()?);
        match mean.saturating_sub(alone) < NEGLIGIBLE_NS {
            true => Some(100),
            false => Some(mean.saturating_mul(100) / alone.max(1)),
        }
    }

    fn halved(self) -> Self {
        Self { count: self.count / 2, ns: self.ns / 2 }
    }

    fn plus(self, other: Self) -> Self {
        Self { count: self.count + other.count, ns: self.ns + other.ns }
    }
}

impl HostIo {
    fn since(self, before: Self) -> Self {
        Self { reads: self.reads.since(before.reads), writes: self.writes.since(before.writes) }
    }

    fn count(self) -> u64 {
        self.reads.count + self.writes.count
    }

    fn percent_of(self, alone: Self) -> Option<u64> {
        self.reads.percent_of(alone.reads).max(self.writes.percent_of(alone.writes))
    }
}

impl HostThrottle {
    /// Maximum number of outstanding blocks of a transfer, out of its own limit.
    pub(crate) fn blocks(&self, most: usize) -> usize {
        let level = self.0.lock().level.min(LEVELS_WITHOUT_REST);
        (most >> level).max(MIN_BLOCKS.min(most))
    }

    /// Whether transfers are currently slowed down because of host I/O. Measurement pauses do not count.
    pub fn is_slowing(&self, now_ns: u64) -> bool {
        let inner = self.0.lock();
        let is_in_use = inner.begun.is_some() && now_ns.saturating_sub(inner.looked_ns) <= LAPSE_NS;
        is_in_use && inner.level > 0 && !inner.is_idle()
    }

    /// Remaining wait of a transfer before its next part, in nanoseconds; the caller must ask again after at most
    /// [`MAX_WAIT_NS`]. `waited_ns`: time waited so far. `busy_ns`: duration of its last part, zero while the part is
    /// outstanding.
    pub(crate) fn wait_ns(&self, now_ns: u64, waited_ns: u64, busy_ns: u64, io: impl Fn() -> HostIo) -> u64 {
        self.0.lock().wait_ns(now_ns, waited_ns, busy_ns, io)
    }
}

impl Inner {
    /// Remaining wait of a transfer that has waited `waited_ns`, at most until the next measurement.
    fn wait_ns(&mut self, now: u64, waited_ns: u64, busy_ns: u64, io: impl Fn() -> HostIo) -> u64 {
        self.look(now, io);
        if self.phase != Phase::Shared {
            return MAX_WAIT_NS;
        }
        let rests = (1u64 << self.level.saturating_sub(LEVELS_WITHOUT_REST)) - 1;
        busy_ns.saturating_mul(rests).min(MAX_REST_NS).saturating_sub(waited_ns)
    }

    /// Ends a window that is over.
    fn look(&mut self, now: u64, io: impl Fn() -> HostIo) {
        let lapsed = now.saturating_sub(self.looked_ns) > LAPSE_NS;
        self.looked_ns = now;
        let Some((begun, before)) = self.begun.filter(|_| !lapsed) else {
            // Hosts are measured alone as soon as possible. Until then they may be active.
            (self.phase, self.begun, self.windows) = (Phase::Shared, Some((now, io())), SHARED_WINDOWS);
            self.level = self.level.max(LEVELS_WITHOUT_REST);
            return;
        };
        let length = if self.phase == Phase::Settling { SETTLING_NS } else { WINDOW_NS };
        let time = now.saturating_sub(begun);
        if time < length {
            return;
        }
        let total = io();
        let done = total.since(before);
        // Too few commands for a mean: either hosts send no more, or all of them wait.
        let waits = |windows: u64| done.count() < MIN_COMMANDS && time < windows * WINDOW_NS;
        self.phase = match self.phase {
            Phase::Shared if !self.is_idle() && waits(MAX_STRETCH) => return,
            Phase::Shared => {
                self.windows += 1;
                self.adjust(done);
                let is_active = done.count() >= MIN_COMMANDS;
                // Hosts have started, stopped or stalled, or it is time: a window without transfers shows which.
                let is_new = is_active == self.is_idle();
                let is_due = done.count() > 0 && self.windows >= SHARED_WINDOWS;
                if is_new || is_due { Phase::Settling } else { Phase::Shared }
            }
            Phase::Settling => Phase::Alone,
            Phase::Alone if waits(2) => return,
            Phase::Alone => {
                self.note_alone(done);
                Phase::Shared
            }
        };
        self.begun = Some((now, total));
    }

    /// Whether hosts were idle in the last window without transfers, or before the first.
    fn is_idle(&self) -> bool {
        self.alone.count() == 0
    }

    fn note_alone(&mut self, done: HostIo) {
        self.windows = 0;
        if done.count() < MIN_COMMANDS {
            (self.alone, self.level) = (HostIo::default(), 0);
            return;
        }
        let HostIo { reads, writes } = self.alone;
        self.alone =
            HostIo { reads: reads.halved().plus(done.reads), writes: writes.halved().plus(done.writes) };
    }

    /// Adjusts the level after a window with transfers.
    fn adjust(&mut self, done: HostIo) {
        if done.count() == 0 && self.is_idle() {
            self.level = 0;
            return;
        }
        let percent = match done.percent_of(self.alone) {
            Some(percent) => percent,
            // No reference, or too few commands while hosts are active: they may be waiting.
            None if done.count() >= MIN_COMMANDS || self.is_idle() => return,
            None => u64::MAX,
        };
        self.level = match percent {
            ..FASTER_PERCENT => self.level.saturating_sub(1),
            FASTER_PERCENT..=SLOWER_PERCENT => self.level,
            // As many levels as needed if halving the rate halved the difference, in steps that another window can
            // correct.
            _ => (self.level + (percent / SLOWER_PERCENT).max(2).ilog2().min(3)).min(MAX_LEVEL),
        };
    }
}

#[cfg(test)]
#[path = "host_throttle_test.rs"]
mod tests;
