//! How fast acknowledgements may come while memory is more than half full: as fast as the background gets on, with all
//! that it has to do for what hosts write, and not only with flushing it. Else hosts would stand still while it cleans or
//! writes a checkpoint, and run between.

/// Part of a granted byte that a byte of work is worth at least, as a divisor.
const MIN_WORTH_DIVISOR: u64 = 16;

/// How much has been done since the engine was opened: counts of bytes that never go back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// What hosts wrote and does not wait to be flushed any more.
    pub flushed: u64,
    /// What was written to the log for that, of whatever kind.
    pub written: u64,
}

impl Done {
    fn work(self) -> u64 {
        self.flushed + self.written
    }
}

/// Turns work into bytes that hosts may be told to be written.
#[derive(Debug, Default)]
pub struct CreditMeter {
    /// Bytes granted so far.
    granted: u64,
    /// Worth of work that has not been granted yet.
    owed: u64,
    /// When that was last looked at.
    seen: Done,
    /// When the last checkpoint ended, and what was done up to there, what is long ago counting less.
    begun: Done,
    before: Done,
}

impl CreditMeter {
    /// Takes note of what has been done; answers with the bytes granted so far. They grow by `quantum` at least, so that
    /// what hosts write next comes together and shares batches of the journal.
    pub fn advance(&mut self, done: Done, quantum: u64) -> u64 {
        let work = done.work() - self.seen.work();
        self.seen = done;
        let (flushed, whole) = (self.before.flushed, self.before.work().max(1));
        let worth = u128::from(work) * u128::from(flushed) / u128::from(whole);
        self.owed +=
            if self.before.work() == 0 { work } else { (worth as u64).max(work / MIN_WORTH_DIVISOR) };
        if self.owed >= quantum {
            self.granted += std::mem::take(&mut self.owed);
        }
        self.granted
    }

    /// A checkpoint has ended: what was done since the one before tells what work is worth.
    pub fn end_cycle(&mut self, done: Done) {
        self.before.flushed = self.before.flushed / 2 + (done.flushed - self.begun.flushed);
        self.before.written = self.before.written / 2 + (done.written - self.begun.written);
        self.begun = done;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn done(flushed: u64, written: u64) -> Done {
        Done { flushed: flushed * MIB, written: written * MIB }
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
            let now = meter.advance(Done { flushed: step * MIB / 8, written: 0 }, MIB);
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
