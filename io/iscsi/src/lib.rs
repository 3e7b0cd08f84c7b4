//! An iSCSI target (RFC 7143): from bytes on sockets to SCSI commands and back.
//!
//! A [`Server`] listens on portals; each connection is a [`Connection`] without sockets, driven by [`transport`]. This
//! crate handles PDUs, login, sessions and data transfer, but no block lengths and no CDBs.

mod access;
mod chap;
mod connection;
mod discovery;
mod keys;
mod login;
mod memory_admission;
mod observer;
mod pdu;
mod portal;
mod response;
mod server;
mod session;
mod sessions;
mod task_management;
mod text;
mod transfer;
mod wire;

#[cfg(test)]
mod connection_test;
#[cfg(test)]
mod direction_test;
#[cfg(test)]
mod lab_test;
#[cfg(test)]
mod memory_admission_test;
#[cfg(test)]
mod server_test;
#[cfg(test)]
mod task_management_test;

pub use access::{Access, AccessTable, Credentials, TargetConfig};
pub use chap::Nonce;
pub use connection::{Connection, ConnectionConfig, OpenedSession, Timeouts};
pub use keys::{Offers, Parameters};
pub use login::{LoginIdentity, LoginStatus};
pub use memory_admission::SESSION_MAX_GUARANTEED_BYTES;
pub use observer::{LoginObserver, RefusalCause, RefusedLogin};
pub use server::{NexusLost, Server, ServerConfig, TargetDevice};
pub use session::SessionLimits;
pub use sessions::{SessionInfo, SessionShares};
pub use transport::{LoginAttempts, LoginThrottle, Portal};
