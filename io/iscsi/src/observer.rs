//! Log-ins, log-outs and refused log-ins, for whoever tells operators why a host can't log in. Secrets and responses to
//! challenges are never part of it.

use crate::sessions::SessionInfo;
use std::fmt;
use std::net::SocketAddr;

/// Longest text from an initiator that is shown, in characters.
const MAX_SHOWN: usize = 64;

/// Hears of log-ins and log-outs. It is called on the threads of connections and must not wait.
pub trait LoginObserver: Send + Sync {
    /// A normal session began.
    fn logged_in(&self, session: &SessionInfo);
    /// A normal session ended.
    fn logged_out(&self, session: &SessionInfo, reason: &str);
    /// A login was refused, or did not come to its end.
    fn refused(&self, refused: &RefusedLogin);
}

/// A login that was refused, or did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedLogin {
    /// The name that the initiator gave, when it gave one.
    pub initiator: Option<String>,
    /// From where.
    pub peer: SocketAddr,
    /// Portal group tag of the portal that it came to.
    pub portal: u16,
    /// Why.
    pub cause: RefusalCause,
}

/// Why a login was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// The access table does not have the initiator.
    UnknownInitiator,
    /// There is no target of this name.
    UnknownTarget(String),
    /// The initiator must authenticate itself and did not offer to.
    ChapRequired,
    /// The initiator wants to authenticate itself, and there is nothing to check it with.
    ChapNotConfigured,
    /// It authenticated itself with another CHAP name than it has to; this one.
    WrongChapUser(String),
    /// It authenticated itself with another secret than it has to, for this CHAP name.
    WrongChapSecret(String),
    /// It wants the target to authenticate itself, which has no secret for that.
    MutualChapNotConfigured,
    /// There are as many connections as there may be.
    TooManyConnections,
    /// What it may do changed while it logged in.
    AccessChanged,
    /// It ended the login, or did not go on with it.
    BrokenOff(String),
    /// It broke the protocol.
    Protocol(String),
}

impl RefusalCause {
    /// A short name for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            RefusalCause::UnknownInitiator => "unknown-initiator",
            RefusalCause::UnknownTarget(_) => "unknown-target",
            RefusalCause::ChapRequired => "chap-required",
            RefusalCause::ChapNotConfigured => "chap-not-configured",
            RefusalCause::WrongChapUser(_) => "wrong-chap-user",
            RefusalCause::WrongChapSecret(_) => "wrong-chap-secret",
            RefusalCause::MutualChapNotConfigured => "mutual-chap-not-configured",
            RefusalCause::TooManyConnections => "too-many-connections",
            RefusalCause::AccessChanged => "access-changed",
            RefusalCause::BrokenOff(_) => "broken-off",
            RefusalCause::Protocol(_) => "protocol-error",
        }
    }
}

impl fmt::Display for RefusalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefusalCause::UnknownInitiator => f.write_str("no host has this initiator name"),
            RefusalCause::UnknownTarget(name) => write!(f, "there is no target named {}", shown(name)),
            RefusalCause::ChapRequired => f.write_str("CHAP is required, and the initiator does not use it"),
            RefusalCause::ChapNotConfigured => {
                f.write_str("the initiator asks for CHAP, and the host has no CHAP user and secret here")
            }
            RefusalCause::WrongChapUser(user) => write!(f, "wrong CHAP user {}", shown(user)),
            RefusalCause::WrongChapSecret(user) => write!(f, "wrong CHAP secret for user {}", shown(user)),
            RefusalCause::MutualChapNotConfigured => f.write_str(
                "the initiator asks for mutual CHAP, and the host has no mutual user and secret here",
            ),
            RefusalCause::TooManyConnections => f.write_str("too many connections"),
            RefusalCause::AccessChanged => f.write_str("its access was changed while it logged in"),
            RefusalCause::BrokenOff(why) => write!(f, "the login did not come to its end: {}", shown(why)),
            RefusalCause::Protocol(why) => write!(f, "protocol error: {}", shown(why)),
        }
    }
}

/// Text from outside, cut, and without characters that could pass for something else.
fn shown(text: &str) -> String {
    let clean = |c: char| if c.is_control() { '?' } else { c };
    let cut: String = text.chars().take(MAX_SHOWN).map(clean).collect();
    if text.chars().nth(MAX_SHOWN).is_some() { format!("{cut}…") } else { cut }
}
