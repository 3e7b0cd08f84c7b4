//! The interface between transports and the device server (SAM-5 clause 5, SCSI transport protocol services).

use block::{Data, Recipe};
use bytes::Bytes;
use std::fmt;

/// The eight bytes of a LUN as received (SAM-5 4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lun(pub [u8; 8]);

/// Task attribute of a command (SAM-5 8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TaskAttribute {
    /// May be reordered.
    #[default]
    Simple,
    /// After everything older, before everything younger.
    Ordered,
    /// Before everything that has not begun.
    HeadOfQueue,
    /// ACA tasks need an ACA condition, which this target never establishes.
    Aca,
}

/// The direction of a command's data as its initiator announced it (in iSCSI the bits R and W of RFC 7143 11.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    /// No data.
    #[default]
    None,
    /// Data-In: the initiator reads.
    In,
    /// Data-Out: the initiator writes.
    Out,
}

/// A command with its data. The transport has gathered what the initiator announced, within its own limits.
#[derive(Clone, Debug)]
pub struct Command {
    /// The initiator's task tag, unique among the nexus's outstanding commands.
    pub tag: u64,
    /// The logical unit that it is addressed to.
    pub lun: Lun,
    /// The CDB with any additional part, as received; short CDBs may be padded to 16 bytes.
    pub cdb: Bytes,
    /// Ordering among the tasks of the logical unit.
    pub attribute: TaskAttribute,
    /// The direction of the data that the initiator announced.
    pub direction: Direction,
    /// Data-Out that arrived; may be shorter or longer than the CDB asks for.
    pub data_out: Data,
    /// Data-In bytes that the initiator is ready to take. The device server may return more; the transport then
    /// sends this many and reports an overflow.
    pub data_in_limit: u64,
}

/// Status codes (SAM-5 5.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// GOOD
    Good = 0x00,
    /// CHECK CONDITION; sense data is with it.
    CheckCondition = 0x02,
    /// CONDITION MET
    ConditionMet = 0x04,
    /// BUSY
    Busy = 0x08,
    /// RESERVATION CONFLICT
    ReservationConflict = 0x18,
    /// TASK SET FULL
    TaskSetFull = 0x28,
    /// TASK ABORTED
    TaskAborted = 0x40,
}

/// The response to a command.
#[derive(Clone, Debug)]
pub struct Response {
    /// Its status.
    pub status: Status,
    /// Sense data in the format that D_SENSE selects; empty unless the status is CHECK CONDITION.
    pub sense: Bytes,
    /// Data-In, already cut to the CDB's allocation length.
    pub data_in: Data,
    /// Where the Data-In is, instead of it: only of a command that was begun with
    /// [`Nexus::execute_forwarded`](crate::Nexus::execute_forwarded), by a front end that reads it itself.
    pub located: Option<Recipe>,
    /// Data-Out bytes that the command asked for by its CDB, for the residual count. Zero for commands without.
    pub data_out_wanted: u64,
}

/// The result of [`Nexus::execute`](crate::Nexus::execute).
pub enum Execution {
    /// The command has completed; the common case if no device is involved.
    Done(Response),
    /// The command continues; dropping the task aborts it: it has then taken effect whole or never will.
    Task(std::pin::Pin<Box<dyn Future<Output = Option<Response>> + Send>>),
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Execution::Done(response) => f.debug_tuple("Done").field(response).finish(),
            Execution::Task(_) => f.write_str("Task"),
        }
    }
}

/// The result of a task management function.
pub enum Management {
    /// It has ended.
    Done(ManagementResponse),
    /// It is performed elsewhere; without a response if the nexus was lost.
    Later(std::pin::Pin<Box<dyn Future<Output = Option<ManagementResponse>> + Send>>),
}

impl From<ManagementResponse> for Management {
    fn from(response: ManagementResponse) -> Self {
        Management::Done(response)
    }
}

impl fmt::Debug for Management {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Management::Done(response) => f.debug_tuple("Done").field(response).finish(),
            Management::Later(_) => f.write_str("Later"),
        }
    }
}

/// Task management functions (SAM-5 clause 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagementFunction {
    /// ABORT TASK, of the nexus and logical unit it came by.
    AbortTask {
        /// Tag of the task to abort.
        tag: u64,
    },
    /// ABORT TASK SET: every task of this nexus in the logical unit.
    AbortTaskSet,
    /// CLEAR TASK SET: every task in the logical unit's task set.
    ClearTaskSet,
    /// LOGICAL UNIT RESET
    LogicalUnitReset,
    /// Reset of every logical unit that the initiator sees (iSCSI TARGET WARM RESET).
    TargetReset,
}

/// Responses to task management functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagementResponse {
    /// FUNCTION COMPLETE; also for ABORT TASK of a task that has ended (VMware resets the unit otherwise).
    Complete,
    /// INCORRECT LOGICAL UNIT NUMBER
    IncorrectLun,
    /// FUNCTION REJECTED
    Rejected,
}

impl Lun {
    /// The single-level logical unit number of a peripheral or flat address; `None` for any other address.
    ///
    /// A peripheral address of another bus than 0 counts as a number above 255: there are no buses here, and initiators that
    /// write the number into the field as it is (libiscsi, QEMU) mean that.
    pub fn number(self) -> Option<u16> {
        let [first, second, rest @ ..] = self.0;
        let number = match first >> 6 {
            // Peripheral device addressing.
            0b00 => u16::from_be_bytes([first, second]),
            // Flat space addressing.
            0b01 => u16::from_be_bytes([first & 0x3F, second]),
            _ => return None,
        };
        (rest == [0; 6]).then_some(number)
    }

    /// The address of a logical unit number: peripheral up to 255, flat above (SAM-5 4.7.7).
    pub(crate) fn of(number: u16) -> Lun {
        let [high, low] = number.to_be_bytes();
        let first = if number < 256 { 0 } else { 0x40 | high };
        Lun([first, low, 0, 0, 0, 0, 0, 0])
    }
}
