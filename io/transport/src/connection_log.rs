//! Rate limits of the log: lines that others can cause are coalesced, so the log stays readable and short. The next line contains
//! the number of lines left out; refusals are also events with that number.

use crate::SystemClock;
use export::Clock;
use parking_lot::Mutex;
use std::sync::Arc;

/// The rate of lines of one kind.
#[derive(Clone, Copy, Debug)]
pub struct LogRate {
    /// Lines in a burst, at least one.
    pub burst_lines: u64,
    /// Nanoseconds until another line may follow.
    pub line_ns: u64,
}

/// The rate of lines about connections.
const CONNECTIONS: LogRate = LogRate { burst_lines: 8, line_ns: 500_000_000 };

/// Lines of one kind.
pub struct LogGate {
    clock: Arc<dyn Clock>,
    rate: LogRate,
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
    pub fn new(clock: Arc<dyn Clock>, rate: LogRate) -> Self {
        Self { clock, rate, lines: Mutex::default() }
    }

    /// Returns the number of lines left out since the last one if a line may be logged now; `None` otherwise.
    pub fn admit(&self) -> Option<u64> {
        let now = self.clock.now();
        let mut lines = self.lines.lock();
        let full = lines.full_ns.max(now);
        let LogRate { burst_lines, line_ns } = self.rate;
        if full - now > (burst_lines - 1) * line_ns {
            lines.left_out += 1;
            return None;
        }
        lines.full_ns = full + line_ns;
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
        let gate = || LogGate::new(clock.clone(), CONNECTIONS);
        Self { strangers: gate(), hosts: gate() }
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
        let gate = LogGate::new(clock.clone(), CONNECTIONS);
        let mut lines = Vec::new();
        for _ in 0..50_000 {
            lines.extend(gate.admit());
            clock.0.fetch_add(100_000, Ordering::Relaxed);
        }
        // Eight lines in the burst, and two for each of five seconds.
        assert_eq!(lines.len(), 8 + 9);
        assert!(lines[..8].iter().all(|left_out| *left_out == 0));
        clock.0.fetch_add(CONNECTIONS.line_ns, Ordering::Relaxed);
        let last = gate.admit().expect("a line may be logged again");
        assert_eq!(lines.iter().sum::<u64>() + last + lines.len() as u64, 50_000, "every line is counted");
        // After a pause there is a burst again, and no more.
        clock.0.fetch_add(1_000 * CONNECTIONS.line_ns, Ordering::Relaxed);
        assert_eq!((0..100).filter_map(|_| gate.admit()).count(), 8);
    }
}
