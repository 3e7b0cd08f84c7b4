//! The SCSI front end: commands to block operations, without a transport (SAM-5, SPC-5, SBC-4).
//!
//! A transport turns its bytes into a [`Command`] with all its data gathered, passes it to a [`Nexus`] and sends the
//! [`Response`]. Which host sees which volume, limits, reservations and events come from [`export`]; this crate encodes
//! them. It does not know sockets or media.

mod commands;
mod encoding;
mod server;
mod unit;

pub use block::{Collector, Data};
pub use encoding::identity::{TargetIdentity, naa, serial_number};
pub use encoding::ports::{PortGroup, PortGroups};
pub use encoding::transport::{
    Command, Direction, Execution, Lun, Management, ManagementFunction, ManagementResponse, Response, Status,
    TaskAttribute,
};
pub use encoding::volatile::Origin;
pub use export::{Clock, InitiatorPort, MAX_ISCSI_NAME_BYTES, Power, Sleep, iscsi_name};
pub use server::device_server::DeviceServer;
pub use server::nexus::Nexus;
pub use server::target::Target;
pub use server::transfer_bound::TransferBound;
pub use unit::view::Begin;
