//! Response encoder: status, sense data and Data-In of a command that completed, and its statistics.

use crate::encoding::sense::{Code, Fault, Sense};
use crate::unit::command::{CommandResult, Completion};
use crate::unit::path::Path;
use crate::{Response, Status};
use block::Data;
use bytes::Bytes;
use export::Operation;
use std::sync::atomic::Ordering;

/// What is needed of a command for its response and its statistics.
#[derive(Clone, Copy)]
pub(crate) struct CommandInfo {
    pub(crate) operation: Operation,
    /// Bytes that it reads, writes, unmaps or copies.
    pub(crate) bytes: u64,
    /// When it came, by the clock of its unit.
    pub(crate) began: u64,
    /// Bytes of Data-Out that its CDB asks for.
    pub(crate) data_out_wanted: u64,
    /// The allocation length, which truncates its Data-In.
    pub(crate) allocation: Option<u64>,
}

impl Response {
    /// A response without sense data and Data-In, to a command that asks for no Data-Out.
    pub fn with_status(status: Status) -> Self {
        Self { status, sense: Bytes::new(), data_in: Data::new(), located: None, data_out_wanted: 0 }
    }

    /// ABORTED COMMAND, COMMANDS CLEARED BY DEVICE SERVER: the command has ended, and whether it took effect is not known. The
    /// initiator may send it again (SPC-5 4.4.8).
    pub fn cleared_by_server() -> Self {
        let sense = Sense::from(Code::CLEARED_BY_SERVER).encode(false);
        Self { sense, ..Self::with_status(Status::CheckCondition) }
    }
}

impl Path {
    /// The response to a command, with Data-In truncated to the allocation length. Counts the command.
    pub(crate) fn respond(&self, result: CommandResult, info: &CommandInfo) -> Response {
        let latency = result.is_ok().then(|| self.unit.clock.now().saturating_sub(info.began));
        self.recorder.record(info.operation, info.bytes, latency);
        let data_out_wanted = info.data_out_wanted;
        let response = match result {
            Ok(Completion { mut data_in, located, condition_met }) => {
                if let Some(allocation) = info.allocation {
                    data_in.truncate(usize::try_from(allocation).unwrap_or(usize::MAX));
                }
                let status = if condition_met { Status::ConditionMet } else { Status::Good };
                Response { data_in, located, ..Response::with_status(status) }
            }
            Err(Fault::Check(sense)) => {
                let sense = sense.encode(self.unit.descriptor_sense.load(Ordering::Relaxed));
                Response { sense, ..Response::with_status(Status::CheckCondition) }
            }
            Err(Fault::Status(status)) => Response::with_status(status),
        };
        Response { data_out_wanted, ..response }
    }

    /// The response to a command that is not in the command table, or that can't be a task.
    pub(crate) fn refuse(&self, fault: Fault, began: u64) -> Response {
        let operation = Operation::Other;
        self.respond(
            Err(fault),
            &CommandInfo { operation, bytes: 0, began, data_out_wanted: 0, allocation: None },
        )
    }

    /// Counts a command that was aborted.
    pub(crate) fn count_abort(&self, info: &CommandInfo) {
        self.recorder.record(info.operation, info.bytes, None);
    }
}
