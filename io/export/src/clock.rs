//! Time as a dependency: the daemon passes in the system's clock, a test or simulation its own.

use std::pin::Pin;

/// A wait that completes by itself.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The source of time. Latencies are measured with it, and commands over a QoS limit wait by it.
pub trait Clock: Send + Sync {
    /// Nanoseconds since an arbitrary moment; never goes back.
    fn now(&self) -> u64;

    /// Completes when [`Clock::now`] has reached `moment`, or shortly after. Polled by the task that waits.
    fn sleep_until(&self, moment: u64) -> Sleep;
}
