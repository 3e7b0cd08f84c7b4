//! SCSI commands to block operations, without a transport: SAM-5 task management, SPC-5 and SBC-4 commands.
//!
//! A transport turns its bytes into a [`Command`] with all its data gathered, gives it to a [`Nexus`] and sends
//! the [`Response`]. This crate does not know sockets, volumes or media.

mod absent;
mod ats;
mod cdb;
mod clock;
mod command;
mod copy;
mod demand;
mod inquiry;
mod limits;
mod log;
mod mode;
mod name;
mod opcode;
mod operator;
mod order;
mod quota;
mod rate;
mod report;
mod reserve;
mod rw;
mod sense;
mod state;
mod statistics;
mod target;
mod task;
mod thin;
mod transport;
mod unit;
mod unmap;
mod verify;
mod zero;

pub use block::Data;
pub use clock::{Clock, Sleep};
pub use demand::Demand;
pub use inquiry::naa;
pub use name::{MAX_ISCSI_NAME_BYTES, iscsi_name};
pub use quota::{Refused, Usage};
pub use rate::{Limits, MOST_UNMAP_THROTTLE, Rate};
pub use statistics::{Counts, Histogram, Operation, Size, Table, Way};
pub use target::{Identity, Mapping, Nexus, Target, UnitConfig};
pub use transport::{
    Attribute, Command, Direction, Execution, InitiatorPort, Lun, ManagementFunction, ManagementResponse,
    Response, Status,
};
