//! Block checker: several hosts over all paths of iSCSI and NVMe/TCP work on the same few blocks of a target, and everything that they
//! saw must be explained by one order of their commands that respects real time, block by block.
//!
//! It knows nothing of the target: every write has values that are written once, so a read says which write it saw. Besides reads
//! and writes it sends COMPARE AND WRITE, whose blocks are registers that hosts compete for, writes of zeros, and reservations, which
//! exclude other hosts; an operator resizes units and takes snapshots, where the target has one who can.

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
