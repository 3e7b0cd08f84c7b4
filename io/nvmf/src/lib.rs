//! An NVMe/TCP target (NVM Express Base 2.0, NVM Command Set 1.0, NVMe TCP Transport 1.0): from bytes on sockets to block
//! operations and back.
//!
//! A [`Server`] listens on portals. Each connection is a [`Connection`] without sockets, driven by [`transport`]; its
//! Connect makes it a queue of a controller of the [`Subsystem`]. Volume access of hosts, limits, reservations and
//! events come from [`export`].

mod abort;
mod admin;
mod authentication;
mod command;
mod commands;
mod connection;
mod controller;
mod copy;
mod discovery;
mod encoding;
mod event;
mod execute;
mod fabrics;
#[cfg(test)]
mod fabrics_test;
mod features;
mod fused;
mod identify;
mod key_text;
mod log_pages;
mod namespaces;
mod observer;
mod path;
mod pdu;
mod psk;
mod queue;
mod read_write;
mod reservation;
mod server;
mod spec;
mod sqe;
mod status;
mod subsystem;
mod transfers;
mod wire;
mod worker;

pub use authentication::Credentials;
pub use authentication::secret::{DhchapSecret, NotASecret};
pub use connection::{Connection, ConnectionConfig};
pub use observer::{ConnectObserver, ConnectRefusal, RefusedConnect};
pub use psk::{NotATlsPsk, TlsPsk};
pub use queue::Held;
pub use server::{Random, Server};
pub use spec::{MAX_NAMESPACES, nqn};
pub use subsystem::{ControllerInfo, HostSecurity, Subsystem, SubsystemIdentity, nsid};
pub use worker::{Work, Worker, at_once};

#[cfg(test)]
mod authentication_test;
#[cfg(test)]
mod connection_test;
#[cfg(test)]
mod hostile_test;
#[cfg(test)]
mod lab_test;
#[cfg(test)]
mod malformed_test;
#[cfg(test)]
mod mixed_test;
#[cfg(test)]
mod namespaces_test;
#[cfg(test)]
mod reservation_test;
#[cfg(test)]
mod spec_test;
#[cfg(test)]
mod tls_test;
