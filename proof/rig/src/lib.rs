//! Shared test support: third-party servers with their certificates, processes that end with the test, drives with
//! faults, and an executor. Only tests and benchmarks depend on it.

#![expect(clippy::unwrap_used, reason = "a test fails where it can't have what it needs")]

mod certificates;
mod executor;
mod process;

pub mod drive;
pub mod pykmip;
pub mod slapd;

pub use executor::block_on;
pub use process::{Running, free_port};
