//! Monitoring of the drives' free space, about once a second: each threshold that is crossed is logged once.

use crate::events::bus::EventBus;
use engine::Engine;
use history::Severity;
use parking_lot::Mutex;
use std::sync::Arc;

/// Percent used of the drives' space, with severity.
const THRESHOLDS: &[(u64, Severity)] =
    &[(70, Severity::Warning), (80, Severity::Warning), (90, Severity::Critical), (95, Severity::Critical)];

/// Whether something is beyond a limit, with hysteresis: not again before one percent is freed, so that no operator
/// hears of it every second.
pub(crate) fn beyond(used: u64, limit: u64, before: bool) -> bool {
    used >= if before { limit - limit / 100 } else { limit }
}

/// Watches how full the drives are.
pub(crate) struct SpaceMonitor {
    engine: Arc<Engine>,
    bus: Arc<EventBus>,
    /// The threshold that was crossed last, in parts of a hundred.
    threshold: Mutex<u64>,
}

impl SpaceMonitor {
    pub fn new(engine: Arc<Engine>, bus: Arc<EventBus>) -> Self {
        Self { engine, bus, threshold: Mutex::default() }
    }

    /// The threshold of space that is crossed now, in parts of a hundred, and how much it matters.
    pub fn crossed(&self) -> Option<(u64, Severity)> {
        let crossed = *self.threshold.lock();
        THRESHOLDS.iter().find(|(limit, _)| *limit == crossed).copied()
    }

    /// Looks how full the drives are.
    pub fn watch(&self) {
        let space = self.engine.space();
        let used = space.total.saturating_sub(space.free);
        let before = *self.threshold.lock();
        let reached = |limit: u64| beyond(used, space.total / 100 * limit, limit <= before);
        let crossed = THRESHOLDS.iter().rev().find(|(limit, _)| space.total > 0 && reached(*limit));
        let now = crossed.map_or(0, |(limit, _)| *limit);
        *self.threshold.lock() = now;
        match crossed {
            Some((limit, severity)) if now > before => {
                let message = crossed_message(*limit, space.free);
                self.bus.log_event(*severity, "space.threshold-crossed", None, message);
            }
            _ if now < before => {
                let message = format!("less than {before} % of the drives' space is in use again");
                self.bus.log_event(Severity::Info, "space.threshold-over", None, message);
            }
            _ => {}
        }
    }
}

/// What the event says when this part of the space in a hundred is in use.
pub(crate) fn crossed_message(percent: u64, free: u64) -> String {
    format!(
        "{percent} % of the drives' space is in use: {free} bytes are free; delete or unmap what is not needed, or add drives"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_beyond_is_so_until_a_part_is_given_back() {
        assert!(!beyond(99, 100, false) && beyond(100, 100, false));
        assert!(beyond(99, 100, true) && !beyond(98, 100, true));
    }
}
