//! What happens to hosts at the subsystem: connects, ends and refusals, for the event log of the array.

use std::fmt;
use std::net::SocketAddr;

/// Observes controllers of hosts, not those of discovery. Called from connections: it must not wait.
pub trait ConnectObserver: Send + Sync {
    /// A controller was created for a host.
    fn connected(&self, host: &str, peer: SocketAddr, portal: u16);
    /// A controller ended.
    fn disconnected(&self, host: &str, peer: SocketAddr, portal: u16, reason: &str);
    /// A Connect was refused.
    fn refused(&self, refused: &RefusedConnect);
}

/// A Connect that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedConnect {
    /// The NQN that the host gave, if it is one.
    pub host: Option<String>,
    /// The host's address.
    pub peer: SocketAddr,
    /// Number of the portal among those of NVMe/TCP, from 1.
    pub portal: u16,
    /// The cause.
    pub cause: ConnectRefusal,
}

/// Why a Connect was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectRefusal {
    /// No host has the NQN.
    UnknownHost,
    /// There is no subsystem with the NQN, or not at this portal.
    UnknownSubsystem,
    /// There is no room for another connection or controller.
    TooManyConnections,
    /// It violates the protocol.
    Protocol,
}

impl ConnectRefusal {
    /// A short name for programs; the same as for an iSCSI log-in.
    pub fn kind(self) -> &'static str {
        match self {
            ConnectRefusal::UnknownHost => "unknown-initiator",
            ConnectRefusal::UnknownSubsystem => "unknown-target",
            ConnectRefusal::TooManyConnections => "too-many-connections",
            ConnectRefusal::Protocol => "protocol-error",
        }
    }
}

impl fmt::Display for ConnectRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConnectRefusal::UnknownHost => "no host has this NQN",
            ConnectRefusal::UnknownSubsystem => "it asked for another subsystem than the portal has",
            ConnectRefusal::TooManyConnections => "too many connections",
            ConnectRefusal::Protocol => "protocol error in Connect",
        })
    }
}
