//! Observer of host connections to the subsystem: connects, ends and refusals, for the event log of the array.

use std::fmt;
use std::net::SocketAddr;

/// Observes controllers of hosts, except those of discovery. Called from connections: implementations must not block.
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
    /// The NQN that the host sent, if it is valid; it is unauthenticated.
    pub host: Option<String>,
    /// The host's address.
    pub peer: SocketAddr,
    /// Number of the portal among those of NVMe/TCP, from 1.
    pub portal: u16,
    /// Cause of the refusal.
    pub cause: ConnectRefusal,
}

/// Why a Connect was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectRefusal {
    /// No host has the NQN.
    UnknownHost,
    /// The subsystem NQN does not exist, or not at this portal.
    UnknownSubsystem,
    /// The limit of connections or controllers is reached.
    TooManyConnections,
    /// The host has a secret, and did not authenticate.
    DhchapRequired,
    /// After several failed authentications, its address has to wait.
    TooManyAttempts,
    /// The host authenticated with another secret.
    WrongDhchapSecret,
    /// The host rejected the array's response, or asked for one although no controller secret is configured.
    DhchapControllerRefused,
    /// Its PSK or the portal requires TLS, and the host did not use it.
    TlsRequired,
    /// The TLS handshake failed, because of its key or of unsupported parameters.
    TlsHandshake,
    /// The PSK identity names another host or subsystem than Connect.
    TlsIdentity,
    /// The host violated the protocol.
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
