//! The device server: the command table, the way of a command to its handler, nexuses and the target device.

pub(crate) mod device_server;
pub(crate) mod execute;
pub(crate) mod incorrect_lun;
pub(crate) mod nexus;
pub(crate) mod opcode;
pub(crate) mod operation_codes;
pub(crate) mod target;
pub(crate) mod task_management;
pub(crate) mod transfer_bound;
