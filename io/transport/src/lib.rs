//! What the TCP transports of hosts share: portals and their connections, the memory budget, the stall rule,
//! running commands, authentication that is slowed down, the log, and the buffers of both directions.
//!
//! A protocol (`iscsi`, `nvmf`) is a [`Link`] for each connection, a state machine without sockets, and a [`Service`] that
//! makes them. So connection limits and memory are accounted for in one way, for all protocols together if they share a
//! [`Budget`].

mod address;
mod admission;
mod budget;
mod connection_limits;
mod connection_log;
mod digest;
mod login_throttle;
mod permit;
mod portal;
mod progress;
mod receive_buffer;
mod send_queue;
mod tasks;
mod tls;

pub use address::{counted_address, listen_address};
pub use admission::{Admission, Admitted, ConnectionLimits, MAX_LEAVING_CONNECTIONS};
pub use budget::{Budget, BudgetShare, ExceedsPool, Guarantee, Owner};
pub use connection_limits::{ConnectionSlot, Control};
pub use connection_log::{ConnectionLog, LogGate};
pub use digest::{digest, digest_of_parts};
pub use login_throttle::{LoginAttempts, LoginThrottle};
pub use permit::Permit;
pub use portal::shard::Shard;
pub use portal::{BoundPortal, DownPortals, Link, Peer, Portal, Portals, Service, Serving, SystemClock};
pub use progress::{Progress, STALL_SECONDS, Transferred};
pub use receive_buffer::{LARGE_BUFFER_BYTES, ReceiveBuffer, SMALL_BUFFER_BYTES};
pub use send_queue::SendQueue;
pub use tasks::{Running, Tasks};
pub use tls::{HandshakeFailure, PreSharedKey, PreSharedKeys, PskHash, TLS_BYTES};
