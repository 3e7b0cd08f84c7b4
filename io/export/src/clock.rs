//! Time as a dependency: the daemon passes the system's clock, tests and simulations their own.

use std::pin::Pin;

/// A wait that completes by itself.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Source of time, for latencies and for the waits of QoS limits.
pub trait Clock: Send + Sync {
    /// Nanoseconds since an arbitrary moment; monotonic.
    fn now(&self) -> u64;

    /// Completes when [`Clock::now`] has reached `moment`, or shortly after. Polled by the waiting task.
    fn sleep_until(&self, moment: u64) -> Sleep;
}
