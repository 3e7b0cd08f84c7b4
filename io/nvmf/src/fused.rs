//! Fused operations (NVM Express Base 2.0 clause 3.4.2): Compare and Write as one operation.
//!
//! The halves are paired in order of arrival ([`crate::commands`]). Hosts send other commands between them, although
//! the standard wants them adjacent; the first half waits for the next second half.

use crate::execute::{COMPARE, WRITE};
use crate::sqe::{Command, Sqe};
use crate::status::Status;
use block::Data;

/// Two halves with their data, or the status that each failed with.
pub(crate) struct Pair {
    pub(crate) first: Command,
    pub(crate) second: Command,
    pub(crate) compare: Result<Data, Status>,
    pub(crate) write: Result<Data, Status>,
}

impl Pair {
    /// Whether two halves belong together: they name the same blocks of the same namespace.
    pub(crate) fn matches(first: &Sqe, second: &Sqe) -> bool {
        let of = |half: &Sqe| (half.nsid(), half.slba(), half.blocks());
        first.opcode() == COMPARE && second.opcode() == WRITE && of(first) == of(second)
    }

    /// The data of both halves, or the status of each.
    pub(crate) fn data(&self) -> Result<(Data, Data), (Status, Status)> {
        match (&self.compare, &self.write) {
            (Ok(compare), Ok(write)) => Ok((compare.clone(), write.clone())),
            (Err(status), _) => Err((*status, Status::FAILED_FUSED)),
            (_, Err(status)) => Err((Status::FAILED_FUSED, *status)),
        }
    }
}
