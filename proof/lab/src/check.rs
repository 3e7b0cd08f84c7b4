//! Block checker: several hosts use the same few blocks of a target over all paths of iSCSI and NVMe/TCP. One order of
//! their commands that respects real time must explain all results, block by block.
//!
//! The checker needs no knowledge of the target: every written value is unique, so a read identifies its write. It also
//! sends COMPARE AND WRITE to blocks that hosts compete for, writes of zeros, and reservations, which exclude other
//! hosts. On targets with an operator interface, it resizes units and takes snapshots.

mod checker;
pub mod history;
mod management;
#[cfg(test)]
mod memory;
mod nvme_port;
mod own;
mod paths;
mod plant;
mod port;
mod reserving;
mod run;
mod timeline;
mod unit;

pub use checker::{Checker, Options, Report};
pub use paths::Hosts;
pub use run::{Amount, on_foreign, on_own, on_pair, on_tgt, reopen};
pub use unit::Unit;

#[cfg(test)]
#[path = "check/checker_test.rs"]
mod tests;
