//! What happens to hosts at the subsystem: connects, ends and refusals, for the event log of the array.

use std::fmt;
use std::net::SocketAddr;

/// Observes controllers of hosts, not those of discovery. Called from connections: it must not wait.
pub trait ConnectObserver: Send + Sync {
    /// A controller was created for a host.
    fn connected(&self, host: &str, peer: SocketAddr, portal: u16);
    /// A controller ended.
    fn disconnected(&self, host: &str, peer: SocketAddr, portal: u16, reason: &str);
    /// A Connect was refused, or an authentication or a TLS handshake failed.
    fn refused(&self, refused: &RefusedConnect);
}

/// A Connect that was refused, or an authentication or TLS handshake that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedConnect {
    /// The NQN that the host gave, if it is one; nothing proves it.
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
    /// The host has a secret, and did not authenticate.
    DhchapRequired,
    /// After several failed authentications its address has to wait.
    TooManyAttempts,
    /// It authenticated with another secret.
    WrongDhchapSecret,
    /// It refused the response of the array, or asked for one without there being a secret for it.
    DhchapControllerRefused,
    /// It has to use TLS, because of its PSK or of the portal, and did not.
    TlsRequired,
    /// The TLS handshake failed: its key, or what it supports.
    TlsHandshake,
    /// It proved by TLS to be another host, or to want another subsystem, than Connect says.
    TlsIdentity,
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
            ConnectRefusal::TooManyAttempts => "too-many-attempts",
            ConnectRefusal::DhchapRequired => "dhchap-required",
            ConnectRefusal::WrongDhchapSecret => "wrong-dhchap-secret",
            ConnectRefusal::DhchapControllerRefused => "dhchap-controller-refused",
            ConnectRefusal::TlsRequired => "tls-required",
            ConnectRefusal::TlsHandshake => "tls-handshake",
            ConnectRefusal::TlsIdentity => "tls-identity",
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
            ConnectRefusal::TooManyAttempts => {
                "several failed DH-HMAC-CHAP authentications from this address: it has to wait up to a minute"
            }
            ConnectRefusal::DhchapRequired => "DH-HMAC-CHAP is required, and the host did not authenticate",
            ConnectRefusal::WrongDhchapSecret => "the DH-HMAC-CHAP secret of the host is wrong",
            ConnectRefusal::DhchapControllerRefused => {
                "the host wants DH-HMAC-CHAP of the array as well, whose secret differs or is not configured"
            }
            ConnectRefusal::TlsRequired => "TLS is required, and the host did not use it",
            ConnectRefusal::TlsHandshake => {
                "the TLS handshake failed: the host has another PSK, or none for this array"
            }
            ConnectRefusal::TlsIdentity => {
                "the PSK of TLS is that of another host or subsystem than Connect names"
            }
            ConnectRefusal::Protocol => "protocol error",
        })
    }
}
