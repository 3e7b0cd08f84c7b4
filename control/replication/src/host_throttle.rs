//! Throttle by the latency of hosts: beside transfers it stays about the same as without.
//!
//! While hosts are active, transfers pause for a moment every few seconds: what hosts wait then is the latency to
//! compare with. So a load that changes needs no setting, and no memory of better days. A transfer beside which hosts
//! wait clearly longer has less under way, then also rests between its parts, at most until it works a sixteenth of
//! the time. It never stops, also where hosts wait for other reasons. Beside hosts that do nothing it goes at full
//! speed. It begins with little under way, as nothing is known of them yet.

use crate::throttle::MAX_WAIT_NS;
use parking_lot::Mutex;

/// Time over which latencies are compared, in nanoseconds.
const WINDOW_NS: u64 = 500_000_000;

/// Time in which what was under way comes to its end before hosts are alone.
const SETTLING_NS: u64 = 250_000_000;

/// Time without a look after which windows begin again: there was no transfer.
const LAPSE_NS: u64 = 4 * WINDOW_NS;

/// Windows beside transfers between two of hosts alone.
const SHARED_WINDOWS: u32 = 8;

/// Commands of which a mean says something.
const MIN_COMMANDS: u64 = 16;

/// Windows that wait for these commands, at most.
const MAX_STRETCH: u64 = 4;

/// Ratios of latencies, beside transfers and alone, in percent: above the first transfers slow down, below the second
/// they go faster.
const SLOWER_PERCENT: u64 = 125;
const FASTER_PERCENT: u64 = 110;

/// A difference of latencies that no host notices, in nanoseconds.
const NEGLIGIBLE_NS: u64 = 50_000;

/// Each level halves what a transfer does: first what it has under way, after as many levels the part of the time in
/// which it works.
const LEVELS_WITHOUT_REST: u32 = 6;
const MAX_LEVEL: u32 = LEVELS_WITHOUT_REST + 4;

/// Blocks under way at the levels from [`LEVELS_WITHOUT_REST`] on, or less where limits allow no more.
const MIN_BLOCKS: usize = 64;

/// The longest rest between two parts.
const MAX_REST_NS: u64 = 2_000_000_000;

/// Commands of hosts that succeeded, and the sum of their latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Their number.
    pub count: u64,
    /// The sum of their latencies in nanoseconds.
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

/// How fast the transfers of an array may go beside its hosts.
#[derive(Debug, Default)]
pub struct HostThrottle(Mutex<Inner>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Hosts share the array with transfers.
    #[default]
    Shared,
    /// Transfers begin nothing more.
    Settling,
    /// Hosts are alone.
    Alone,
}

#[derive(Debug, Default)]
struct Inner {
    phase: Phase,
    /// When the window began, and what hosts had done by then; `None` before the first.
    begun: Option<(u64, HostIo)>,
    looked_ns: u64,
    /// Windows beside transfers since hosts were alone.
    windows: u32,
    /// Host I/O without transfers, older windows counting less. Empty without host I/O.
    alone: HostIo,
    level: u32,
}

impl Commands {
    fn since(self, before: Self) -> Self {
        // Commands that have ended since are not counted any more.
        Self { count: self.count.saturating_sub(before.count), ns: self.ns.saturating_sub(before.ns) }
    }

    fn mean_ns(self) -> Option<u64> {
        if self.count >= MIN_COMMANDS { self.ns.checked_div(self.count) } else { None }
    }

    /// How much longer these took than those of hosts alone, in percent of the latter.
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
    /// Blocks that a transfer may have under way, of those that its limits allow.
    pub(crate) fn blocks(&self, most: usize) -> usize {
        let level = self.0.lock().level.min(LEVELS_WITHOUT_REST);
        (most >> level).max(MIN_BLOCKS.min(most))
    }

    /// Whether transfers are slowed down at this time because hosts are active. The short pauses in which hosts are
    /// compared do not count.
    pub fn is_slowing(&self, now_ns: u64) -> bool {
        let inner = self.0.lock();
        let is_in_use = inner.begun.is_some() && now_ns.saturating_sub(inner.looked_ns) <= LAPSE_NS;
        is_in_use && inner.level > 0 && !inner.is_idle()
    }

    /// How long a transfer has still to wait before it begins another part, in nanoseconds; it is to ask again after
    /// [`MAX_WAIT_NS`] at most. `waited_ns`: how long it has waited. `busy_ns`: how long its last part took, zero
    /// while that is under way.
    pub(crate) fn wait_ns(&self, now_ns: u64, waited_ns: u64, busy_ns: u64, io: impl Fn() -> HostIo) -> u64 {
        self.0.lock().wait_ns(now_ns, waited_ns, busy_ns, io)
    }
}

impl Inner {
    /// How long a transfer has still to wait that has waited `waited_ns`; until the next look at most.
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
            // Hosts are alone as soon as something is known of this load. Until then they may be active.
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
        // Too few for a mean: it may be that hosts do no more, or that all wait.
        let waits = |windows: u64| done.count() < MIN_COMMANDS && time < windows * WINDOW_NS;
        self.phase = match self.phase {
            Phase::Shared if !self.is_idle() && waits(MAX_STRETCH) => return,
            Phase::Shared => {
                self.windows += 1;
                self.adjust(done);
                let is_active = done.count() >= MIN_COMMANDS;
                // Hosts have begun, or have stopped or wait, or it is time: alone they show it.
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

    /// Hosts did nothing when they were last alone, or were not yet.
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

    /// Goes slower or faster after a window beside transfers.
    fn adjust(&mut self, done: HostIo) {
        if done.count() == 0 && self.is_idle() {
            self.level = 0;
            return;
        }
        let percent = match done.percent_of(self.alone) {
            Some(percent) => percent,
            // Nothing to compare with, or too few commands while hosts are active: they may be waiting.
            None if done.count() >= MIN_COMMANDS || self.is_idle() => return,
            None => u64::MAX,
        };
        self.level = match percent {
            ..FASTER_PERCENT => self.level.saturating_sub(1),
            FASTER_PERCENT..=SLOWER_PERCENT => self.level,
            // As far as halving what it does would halve the difference, in steps that another window can correct.
            _ => (self.level + (percent / SLOWER_PERCENT).max(2).ilog2().min(3)).min(MAX_LEVEL),
        };
    }
}

#[cfg(test)]
#[path = "host_throttle_test.rs"]
mod tests;
