//! Ledger: what a store knows of the commands that it noted.

use crate::disk::Pending;
use crate::done::{Known, Sequence};

/// The commands that the disks of a store noted ([`Disk::execute_noted`](crate::Disk::execute_noted)), over any number
/// of processes that served it.
pub trait Ledger: Send + Sync {
    /// The entry of a command that is not in progress. It may not be durable yet.
    fn look_up(&self, sequence: Sequence) -> Known;

    /// Completes when everything that is noted by now is durable.
    fn settled(&self) -> Pending;

    /// The front ends that have commands here.
    fn fronts(&self) -> Vec<u64>;

    /// Forgets a front end: its process is gone, and sends nothing again. Completes when that is durable.
    fn forget(&self, front: u64) -> Pending;
}
