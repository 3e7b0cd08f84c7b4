//! An iSCSI target (RFC 7143): from bytes on sockets to SCSI commands and back.
//!
//! A [`Server`] listens on portals; each connection is a [`Connection`] without sockets, driven by the portal. This
//! crate knows PDUs, login, sessions and data transfer, but no block lengths and no CDBs.

mod access;
mod admission;
mod answer;
mod budget;
mod chap;
mod connection;
mod discovery;
mod keys;
mod login;
mod manage;
mod observer;
mod pdu;
mod places;
mod portal;
mod server;
mod session;
mod sessions;
mod tasks;
mod text;
mod transfer;
mod wire;

#[cfg(test)]
mod admission_test;
#[cfg(test)]
mod connection_test;
#[cfg(test)]
mod direction_test;
#[cfg(test)]
mod lab_test;
#[cfg(test)]
mod manage_test;
#[cfg(test)]
mod server_test;

pub use access::{Access, AccessTable, Credentials, Directory, Portal};
pub use budget::Budget;
pub use chap::Nonce;
pub use connection::{Connection, Opened, Patience, Setup};
pub use keys::{Offers, Parameters};
pub use login::{Identity, LoginStatus};
pub use observer::{Cause, Observer, Refused};
pub use places::PlaceLimits;
pub use portal::{Shard, SystemClock};
pub use server::{Server, Settings};
pub use session::{Device, SessionLimits};
pub use sessions::SessionInfo;
