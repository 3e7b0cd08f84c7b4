//! Observer of logins, logouts and refused logins: the control plane shows why a host can't log in. Notifications never
//! contain secrets or responses to challenges.

use crate::sessions::SessionInfo;
use std::fmt;
use std::net::SocketAddr;

/// Longest displayed text from an initiator, in characters.
const MAX_SHOWN_CHARS: usize = 64;

/// Receives logins and logouts. It is called on the threads of connections and must not block.
pub trait LoginObserver: Send + Sync {
    /// A normal session began.
    fn logged_in(&self, session: &SessionInfo);
    /// A normal session ended.
    fn logged_out(&self, session: &SessionInfo, reason: &str);
    /// A login was refused or abandoned.
    fn refused(&self, refused: &RefusedLogin);
}

/// A login that was refused or abandoned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedLogin {
    /// The name that the initiator sent, if any.
    pub initiator: Option<String>,
    /// Address of the initiator.
    pub peer: SocketAddr,
    /// Portal group tag of the portal.
    pub portal: u16,
    /// The cause.
    pub cause: RefusalCause,
}

/// Why a login was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// The access table does not have the initiator.
    UnknownInitiator,
    /// The target name does not exist.
    UnknownTarget(String),
    /// The initiator must authenticate and did not offer to.
    ChapRequired,
    /// The initiator requires CHAP, and no credentials are configured for it.
    ChapNotConfigured,
    /// The initiator used this CHAP name instead of the configured one.
    WrongChapUser(String),
    /// The initiator used a wrong secret for this CHAP name.
    WrongChapSecret(String),
    /// The initiator requests mutual CHAP, for which no credentials are configured.
    MutualChapNotConfigured,
    /// After several wrong CHAP names or responses, the address has to wait.
    TooManyAttempts,
    /// The limit on connections is reached.
    TooManyConnections,
    /// The initiator's access was changed during the login.
    AccessChanged,
    /// The initiator closed the connection during login, or did not continue.
    Abandoned(String),
    /// The initiator violated the protocol.
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
            RefusalCause::TooManyAttempts => "too-many-attempts",
            RefusalCause::TooManyConnections => "too-many-connections",
            RefusalCause::AccessChanged => "access-changed",
            RefusalCause::Abandoned(_) => "broken-off",
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
            RefusalCause::TooManyAttempts => {
                f.write_str("several wrong CHAP log-ins from this address: it has to wait up to a minute")
            }
            RefusalCause::TooManyConnections => f.write_str("too many connections"),
            RefusalCause::AccessChanged => f.write_str("its access was changed during the login"),
            RefusalCause::Abandoned(why) => write!(f, "the login was abandoned: {}", shown(why)),
            RefusalCause::Protocol(why) => write!(f, "protocol error: {}", shown(why)),
        }
    }
}

/// Text from outside, truncated, with misleading characters replaced.
fn shown(text: &str) -> String {
    let cut = text::shown(text, MAX_SHOWN_CHARS, "?");
    if text.chars().nth(MAX_SHOWN_CHARS).is_some() { format!("{cut}…") } else { cut }
}
