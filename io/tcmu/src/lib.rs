//! Fibre Channel through the Linux target core: volumes as devices of TCMU (target_core_user). The kernel passes their
//! commands to this process in a ring of shared memory.
//!
//! The ring does not contain the sender of a command. So there is a device for each volume, initiator port and target
//! port: it *is* the I_T nexus, and reservations, unit attentions, masking and copies stay in [`scsi`], shared with
//! iSCSI. The kernel handles Fibre Channel frames and adapter drivers.
//!
//! [`Device`] is the state machine, over a [`Ring`]; it makes no system call. [`uio`] maps the memory of a device and
//! drives it, [`Configfs`] creates and removes devices and their paths to initiators, [`PortLink`] reads the links of
//! adapters. [`Plan`] computes the required devices from the mappings of hosts.

mod adapter;
mod area;
mod configfs;
mod device;
mod left_behind;
pub mod model;
mod plan;
mod ring;
#[cfg(test)]
mod stopped_clock;
pub mod uio;

pub use adapter::PortLink;
pub use area::{Area, Outside};
pub use configfs::{Configfs, Fabric, SetupError, TargetPort};
pub use device::{Counters, Counts, Device, DeviceError, DeviceMemory};
pub use left_behind::{FoundDevice, RemovalError};
pub use plan::{DeviceName, MAX_DEVICES, Plan, Wanted};
pub use ring::{Entry, Ring, RingError, RingResponse, Vector, Vectors};
