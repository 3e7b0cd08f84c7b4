//! SCSI commands to block operations, without a transport: SAM-5 task management, SPC-5 and SBC-4 commands.
//!
//! A transport turns its bytes into a [`Command`] with all its data gathered, gives it to a [`Nexus`] and sends
//! the [`Response`]. This crate does not know sockets, volumes or media.

mod block_limits;
mod cdb;
mod clock;
mod command;
mod compare_and_write;
mod copy;
mod incorrect_lun;
mod inquiry;
mod log_pages;
mod mode_pages;
mod name;
mod opcode;
mod operator;
mod provisioning;
mod quota;
mod rate;
mod read_write;
mod report;
mod reserve;
mod sense;
mod state;
mod statistics;
mod target;
mod task;
mod task_set;
mod transfer_bound;
mod transport;
mod unit;
mod unmap;
mod verify;
mod write_same;

pub use block::Data;
pub use clock::{Clock, Sleep};
pub use inquiry::naa;
pub use name::{MAX_ISCSI_NAME_BYTES, iscsi_name};
pub use quota::{QuotaRefusals, Usage};
pub use rate::{MAX_UNMAP_THROTTLE_LEVEL, QosLimits, Rate};
pub use statistics::{Histogram, IoCounters, Operation, OperationCounts, PathId, SizeClass};
pub use target::{Mapping, Nexus, Target, TargetIdentity, UnitConfig};
pub use transfer_bound::TransferBound;
pub use transport::{
    Command, Direction, Execution, InitiatorPort, Lun, ManagementFunction, ManagementResponse, Response,
    Status, TaskAttribute,
};
