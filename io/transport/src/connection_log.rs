//! Rate-limited log of connections: lines that hosts can cause are coalesced at the source, so the log stays readable
//! and short. The next line contains the number of lines left out; refusals are also events with that number.

use crate::SystemClock;
use export::Clock;
use parking_lot::Mutex;
use std::sync::Arc;

/// Lines in a burst, and nanoseconds until another line may follow.
const BURST_LINES: u64 = 8;
const LINE_NS: u64 = 500_000_000;

/// Lines of one kind.
pub struct LogGate {
    clock: Arc<dyn Clock>,
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    /// The time from which a whole burst may be logged again.
    full_ns: u64,
    left_out: u64,
}

impl LogGate {
    /// A gate with its whole burst.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, lines: Mutex::default() }
    }

    /// Returns the number of lines left out since the last one if a line may be logged now; `None` otherwise.
    pub fn admit(&self) -> Option<u64> {
        let now = self.clock.now();
        let mut lines = self.lines.lock();
        let full = lines.full_ns.max(now);
        if full - now > (BURST_LINES - 1) * LINE_NS {
            lines.left_out += 1;
            return None;
        }
        lines.full_ns = full + LINE_NS;
        Some(std::mem::take(&mut lines.left_out))
    }
}

/// The gates of one server: connections of unknown hosts do not use up the lines of hosts.
pub struct ConnectionLog {
    /// For connections of unknown hosts, and refusals.
    pub strangers: LogGate,
    /// For connections of hosts.
    pub hosts: LogGate,
}

impl ConnectionLog {
    /// Gates with their whole bursts.
    pub fn new(clock: &Arc<dyn Clock>) -> Self {
        Self { strangers: LogGate::new(clock.clone()), hosts: LogGate::new(clock.clone()) }
    }

    /// The gate of a connection.
    pub fn of(&self, is_host: bool) -> &LogGate {
        if is_host { &self.hosts } else { &self.strangers }
    }
}

impl Default for ConnectionLog {
    fn default() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        Self::new(&clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct TestClock(AtomicU64);

    impl Clock for TestClock {
        fn now(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn sleep_until(&self, _: u64) -> export::Sleep {
            unreachable!("nothing waits here")
        }
    }

    #[test]
    fn a_flood_is_a_few_lines_with_its_number() {
        let clock = Arc::<TestClock>::default();
        let gate = LogGate::new(clock.clone());
        let mut lines = Vec::new();
        for _ in 0..50_000 {
            lines.extend(gate.admit());
            clock.0.fetch_add(100_000, Ordering::Relaxed);
        }
        // Eight lines in the burst, and two for each of five seconds.
        assert_eq!(lines.len(), 8 + 9);
        assert!(lines[..8].iter().all(|left_out| *left_out == 0));
        clock.0.fetch_add(LINE_NS, Ordering::Relaxed);
        let last = gate.admit().expect("a line may be logged again");
        assert_eq!(lines.iter().sum::<u64>() + last + lines.len() as u64, 50_000, "every line is counted");
    }
}
