//! The limit of the log: lines of one kind, which are those of one place in the source, are logged at most once a second after
//! the first ones.
//!
//! A stranger who reaches a port can cause a line with each connection and each command that is refused, and would fill the disk of
//! the log. What is left out is counted.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Lines of one kind that are logged at once.
const BURST: u32 = 30;
/// Interval at which another one is logged after these.
const INTERVAL: Duration = Duration::from_secs(1);

/// The layer in front of the log. `note` writes how many lines of a kind were left out.
pub struct LogLimit<N> {
    kinds: Mutex<HashMap<Identifier, Kind>>,
    note: N,
}

/// Lines of one kind.
struct Kind {
    /// How many may be logged now.
    left: u32,
    /// When the last one of these was added.
    since: Instant,
    omitted: u64,
}

/// Whether a line is logged.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It is, after this many that were not.
    Logged(u64),
    Omitted,
}

impl<N> LogLimit<N> {
    pub fn new(note: N) -> Self {
        Self { kinds: Mutex::default(), note }
    }
}

impl Kind {
    fn new(now: Instant) -> Self {
        Self { left: BURST, since: now, omitted: 0 }
    }

    fn take(&mut self, now: Instant) -> Verdict {
        let passed = now.saturating_duration_since(self.since).as_nanos() / INTERVAL.as_nanos();
        if passed > 0 {
            self.left = self.left.saturating_add(u32::try_from(passed).unwrap_or(BURST)).min(BURST);
            self.since = now;
        }
        if self.left == 0 {
            self.omitted += 1;
            return Verdict::Omitted;
        }
        self.left -= 1;
        Verdict::Logged(std::mem::take(&mut self.omitted))
    }
}

impl<S: Subscriber, N: Fn(&Metadata<'_>, u64) + 'static> Layer<S> for LogLimit<N> {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let (about, now) = (event.metadata(), Instant::now());
        // Who asks for more than the usual levels looks for something.
        if *about.level() > Level::INFO {
            return true;
        }
        let verdict = {
            let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
            kinds.entry(about.callsite()).or_insert_with(|| Kind::new(now)).take(now)
        };
        match verdict {
            Verdict::Omitted => return false,
            Verdict::Logged(0) => {}
            Verdict::Logged(omitted) => (self.note)(about, omitted),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_kind_are_few_and_what_is_left_out_is_counted() {
        let begin = Instant::now();
        let mut kind = Kind::new(begin);
        let logged = (0..10_000).filter(|_| kind.take(begin) == Verdict::Logged(0)).count();
        assert_eq!(logged, BURST as usize);
        assert_eq!(kind.take(begin + INTERVAL), Verdict::Logged(10_000 - u64::from(BURST)));
        assert_eq!(kind.take(begin + INTERVAL), Verdict::Omitted);
        // After a pause there is a burst again, and no more.
        let later = begin + 1000 * INTERVAL;
        let logged = (0..100).filter(|_| kind.take(later) != Verdict::Omitted).count();
        assert_eq!(logged, BURST as usize);
    }

    #[test]
    fn a_minute_of_refusals_is_a_line_a_second() {
        let begin = Instant::now();
        let mut kind = Kind::new(begin);
        let lines = (0..60_000).map(|number| begin + Duration::from_millis(number));
        let logged = lines.map(|now| kind.take(now)).filter(|it| *it != Verdict::Omitted).count();
        assert!((BURST as usize + 50..=BURST as usize + 60).contains(&logged), "{logged}");
    }

    #[test]
    fn each_place_in_the_source_has_its_own_limit() {
        use tracing_subscriber::layer::SubscriberExt;
        let seen = std::sync::Arc::<Mutex<Vec<u32>>>::default();
        struct Lines(std::sync::Arc<Mutex<Vec<u32>>>);
        impl<S: Subscriber> Layer<S> for Lines {
            fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
                self.0.lock().unwrap().push(event.metadata().line().unwrap());
            }
        }
        let subscriber = tracing_subscriber::registry()
            .with(LogLimit::new(|_: &Metadata<'_>, _| {}))
            .with(Lines(seen.clone()));
        tracing::subscriber::with_default(subscriber, || {
            (0..1000).for_each(|number| tracing::info!(number, "refused"));
            tracing::info!("something else");
        });
        let seen = seen.lock().unwrap();
        let last = *seen.last().unwrap();
        assert_eq!(seen.iter().filter(|line| **line == last).count(), 1);
        assert!((BURST as usize + 1..BURST as usize + 60).contains(&seen.len()), "{}", seen.len());
    }
}
