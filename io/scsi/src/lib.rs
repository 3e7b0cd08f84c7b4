//! SCSI commands to block operations, without a transport: SAM-5 task management, SPC-5 and SBC-4 commands.
//!
//! A transport turns its bytes into a [`Command`] with all its data gathered, gives it to a [`Nexus`] and sends
//! the [`Response`]. This crate does not know sockets, volumes or media.

mod transport;

pub use block::Data;
pub use transport::{
    Attribute, Command, Execution, InitiatorPort, Lun, ManagementFunction, ManagementResponse, Response,
    Status,
};
