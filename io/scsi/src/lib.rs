//! The SCSI front end: commands to block operations, without a transport (SAM-5, SPC-5, SBC-4).
//!
//! A transport turns its bytes into a [`Command`] with all its data gathered, passes it to a [`Nexus`] and sends the
//! [`Response`]. Which host sees which volume, limits, reservations and events come from [`export`]; this crate encodes
//! them. It does not know sockets or media.

mod block_limits;
mod cdb;
mod command;
mod compare_and_write;
mod copy;
mod device_server;
mod execute;
mod gate;
mod identity;
mod incorrect_lun;
mod inquiry;
mod log_pages;
mod mode_pages;
mod nexus;
mod opcode;
mod operations;
mod pages;
mod path;
mod persistent_reserve;
mod ports;
mod provisioning;
mod read_write;
mod report;
mod reservation;
mod reserve;
mod response;
mod rod;
mod rods;
mod row;
mod sense;
mod target;
mod task;
mod task_management;
mod task_set;
mod token;
mod transfer_bound;
mod transport;
mod transport_id;
mod unit;
mod unmap;
mod verify;
mod view;
mod volatile;
mod write_same;

pub use block::{Collector, Data};
pub use device_server::DeviceServer;
pub use export::{Clock, InitiatorPort, MAX_ISCSI_NAME_BYTES, Power, Sleep, iscsi_name};
pub use identity::{TargetIdentity, naa, serial_number};
pub use nexus::Nexus;
pub use ports::{PortGroup, PortGroups};
pub use target::Target;
pub use transfer_bound::TransferBound;
pub use transport::{
    Command, Direction, Execution, Lun, Management, ManagementFunction, ManagementResponse, Response, Status,
    TaskAttribute,
};
pub use view::Begin;
pub use volatile::Origin;
