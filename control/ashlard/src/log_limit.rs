//! The limit of the log: lines of one kind, which are those of one place in the source, are logged at most once a second after
//! the first ones.
//!
//! A stranger who reaches a port can cause a line with each connection and each command that is refused, and would fill the disk of
//! the log. What is left out is counted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use transport::{LogGate, LogRate, SystemClock};

/// Of lines of one kind.
const RATE: LogRate = LogRate { burst_lines: 30, line_ns: 1_000_000_000 };

/// The layer in front of the log. `note` writes how many lines of a kind were left out.
pub struct LogLimit<N> {
    clock: Arc<SystemClock>,
    kinds: Mutex<HashMap<Identifier, LogGate>>,
    note: N,
}

impl<N> LogLimit<N> {
    pub fn new(note: N) -> Self {
        Self { clock: Arc::default(), kinds: Mutex::default(), note }
    }
}

impl<S: Subscriber, N: Fn(&Metadata<'_>, u64) + 'static> Layer<S> for LogLimit<N> {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let about = event.metadata();
        // Who asks for more than the usual levels looks for something.
        if *about.level() > Level::INFO {
            return true;
        }
        let admitted = {
            let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
            let gate = || LogGate::new(self.clock.clone(), RATE);
            kinds.entry(about.callsite()).or_insert_with(gate).admit()
        };
        if let Some(omitted @ 1..) = admitted {
            (self.note)(about, omitted);
        }
        admitted.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(
            (RATE.burst_lines as usize + 1..RATE.burst_lines as usize + 60).contains(&seen.len()),
            "{}",
            seen.len()
        );
    }
}
