//! Shared parts of the TCP transports: portals and their connections, the memory budget, the stall rule, running
//! commands, the login throttle, the log, and the buffers of both directions.
//!
//! A protocol (`iscsi`, `nvmf`) implements [`Link`], the state machine of one connection without sockets, and
//! [`Service`], which creates links. So connections and memory have one accounting, for all protocols together if they
//! share a [`Budget`].

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
pub use connection_log::{ConnectionLog, LogGate, LogRate};
pub use digest::{digest, digest_of_parts};
pub use login_throttle::{LoginAttempts, LoginThrottle};
pub use permit::Permit;
pub use portal::shard::Shard;
pub use portal::{
    BoundPortal, DownPortals, Link, MAX_TURN_PDUS, Peer, Portal, Portals, Service, Serving, SystemClock,
};
pub use progress::{Progress, STALL_SECONDS, Transferred};
pub use receive_buffer::{LARGE_BUFFER_BYTES, ReceiveBuffer, SMALL_BUFFER_BYTES};
pub use send_queue::SendQueue;
pub use tasks::{Running, Tasks};
pub use tls::{HandshakeFailure, PreSharedKey, PreSharedKeys, PskHash, TLS_BYTES};
