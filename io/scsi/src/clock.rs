//! Time, as an argument: whoever runs a target gives it a clock, and a simulation gives it its own.

use std::pin::Pin;

/// A wait that ends by itself.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where a target has its time from. Latencies are measured with it, and commands beyond a limit wait by it.
pub trait Clock: Send + Sync {
    /// Nanoseconds since some moment; never goes back.
    fn now(&self) -> u64;

    /// Ends when [`Clock::now`] has reached `moment`, or shortly after. Polled by whoever polls the tasks.
    fn sleep_until(&self, moment: u64) -> Sleep;
}
