//! The machine under the array: its drives or its pool in Ceph, the keys that open them, the data folder, memory, and threads.
//!
//! Commands on a stopped array and a process that serves it find and open the store in the same way, and so this is apart from
//! both.

pub mod access;
pub mod backing;
pub mod ceph;
pub mod drives;
pub mod fatal;
mod find;
pub mod key;
mod kmip;
mod machine;
pub mod memory;
mod probe;
pub mod sharing;
pub mod smart;
pub mod stopped;
pub mod store;
pub mod threads;

pub use machine::{Machine, uptime};

use anyhow::{Context, Result};

/// Bytes from the system's generator.
///
/// # Errors
/// If it has none.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).context("the system has no random numbers")?;
    Ok(bytes)
}
