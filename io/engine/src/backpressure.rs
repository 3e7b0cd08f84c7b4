//! Write back-pressure: paces acknowledgements to the rate at which background work (flush, cleaning, checkpoints)
//! completes.
//!
//! While more data waits than may wait freely, an acknowledgement needs credit, and work earns it. If flushing alone
//! earned credit, hosts would stand still while the background cleans or writes a checkpoint, and burst between; so
//! every byte of work earns what a byte of work was worth lately.

use crate::wake::{RoomQueue, Watermark};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Credit that a byte of work earns at least, as a divisor.
const MIN_WORTH_DIVISOR: u64 = 16;

/// Work done since the engine was opened, in bytes that only grow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Host data that does not wait to be flushed any more.
    pub flushed: u64,
    /// Bytes written to the log, for whatever purpose.
    pub written: u64,
}

impl Work {
    fn total(self) -> u64 {
        self.flushed + self.written
    }
}

/// Turns work into credit.
#[derive(Debug, Default)]
pub struct CreditMeter {
    /// Bytes granted so far.
    granted: u64,
    /// Earned, and not granted yet.
    owed: u64,
    /// The work that has been counted.
    seen: Work,
    /// The work at the end of the last checkpoint, and the work up to there, in which older cycles count less.
    begun: Work,
    before: Work,
}

impl CreditMeter {
    /// Counts work; returns the bytes granted so far. They grow by at least `quantum` at once, so that the next
    /// writes arrive together and share batches of the journal.
    pub fn advance(&mut self, done: Work, quantum: u64) -> u64 {
        let work = done.total() - self.seen.total();
        self.seen = done;
        let (flushed, whole) = (self.before.flushed, self.before.total().max(1));
        let worth = u128::from(work) * u128::from(flushed) / u128::from(whole);
        self.owed +=
            if self.before.total() == 0 { work } else { (worth as u64).max(work / MIN_WORTH_DIVISOR) };
        if self.owed >= quantum {
            self.granted += std::mem::take(&mut self.owed);
        }
        self.granted
    }

    /// A checkpoint has ended: the work since the one before sets what work is worth.
    pub fn end_cycle(&mut self, done: Work) {
        self.before.flushed = self.before.flushed / 2 + (done.flushed - self.begun.flushed);
        self.before.written = self.before.written / 2 + (done.written - self.begun.written);
        self.begun = done;
    }
}

/// Where operations of hosts wait for the background.
#[derive(Default)]
pub struct Throttle {
    /// Operations that wait for room in memory, in the journal or in the log.
    pub queue: RoomQueue,
    /// Credit granted to acknowledgements.
    pub credit: Watermark,
    wanted_journal_bytes: AtomicU64,
    wants_space: AtomicBool,
    /// The most bytes of the log that an operation has waited for.
    wanted_space_bytes: AtomicU64,
    full: AtomicBool,
}

impl Throttle {
    /// An operation was refused that needs `bytes` of the journal. True if no other one needed as many since a
    /// checkpoint made room.
    pub fn want_journal_bytes(&self, bytes: u64) -> bool {
        self.wanted_journal_bytes.fetch_max(bytes, Ordering::AcqRel) < bytes
    }

    /// Bytes of the journal that the largest of these operations needs; zero if there was none.
    pub fn wanted_journal_bytes(&self) -> u64 {
        self.wanted_journal_bytes.load(Ordering::Acquire)
    }

    /// A checkpoint makes room for them.
    pub fn end_journal_wants(&self) {
        self.wanted_journal_bytes.store(0, Ordering::Release);
    }

    /// An operation that needs `bytes` of the log waits until free space is known exactly. True if no other one has waited for
    /// that since it was.
    pub fn want_space(&self, bytes: u64) -> bool {
        self.wanted_space_bytes.fetch_max(bytes, Ordering::AcqRel);
        !self.wants_space.swap(true, Ordering::AcqRel)
    }

    /// The most bytes of the log that an operation has waited for since the engine was opened.
    pub fn wanted_space_bytes(&self) -> u64 {
        self.wanted_space_bytes.load(Ordering::Acquire)
    }

    /// Whether an operation waits for that.
    pub fn wants_space(&self) -> bool {
        self.wants_space.load(Ordering::Acquire)
    }

    /// Whether an operation waits for that; asking takes the request.
    pub fn take_space_request(&self) -> bool {
        self.wants_space.swap(false, Ordering::AcqRel)
    }

    /// Sets whether the flusher has no room in the log; true if that is new.
    pub fn set_full(&self, full: bool) -> bool {
        self.full.swap(full, Ordering::AcqRel) != full
    }

    /// Whether the flusher has no room in the log.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn done(flushed: u64, written: u64) -> Work {
        Work { flushed: flushed * MIB, written: written * MIB }
    }

    #[test]
    fn flushing_alone_grants_what_it_flushes() {
        let mut meter = CreditMeter::default();
        assert_eq!(meter.advance(done(3, 0), MIB), 3 * MIB);
        meter.end_cycle(done(3, 0));
        assert_eq!(meter.advance(done(5, 0), MIB), 5 * MIB);
    }

    #[test]
    fn a_cycle_grants_what_it_flushes_evenly_over_all_its_work() {
        let mut meter = CreditMeter::default();
        // Four bytes of the log for one of the host.
        meter.end_cycle(done(10, 40));
        let before = meter.advance(done(10, 40), MIB);
        let flushed = meter.advance(done(20, 50), MIB);
        assert_eq!(flushed - before, 4 * MIB, "a fifth of what was done");
        let cleaned = meter.advance(done(20, 80), MIB);
        assert_eq!(cleaned - before, 10 * MIB, "all of it, when all is done");
    }

    #[test]
    fn grants_come_in_quanta_and_nothing_is_lost() {
        let mut meter = CreditMeter::default();
        let mut granted = 0;
        for step in 1..=100 {
            let now = meter.advance(Work { flushed: step * MIB / 8, written: 0 }, MIB);
            assert!(now == granted || now - granted >= MIB);
            granted = now;
        }
        assert_eq!(granted, 12 * MIB);
    }

    #[test]
    fn work_is_always_worth_something() {
        let mut meter = CreditMeter::default();
        meter.end_cycle(done(0, 100));
        assert!(meter.advance(done(0, 132), MIB) >= 2 * MIB);
    }
}
