//! Notifications of logins, logouts and refused logins, by which the control plane shows why a host can't log in. They
//! never contain secrets or responses to challenges.

use crate::sessions::SessionInfo;
use std::fmt;
use std::net::SocketAddr;

/// Longest text from an initiator that is shown, in characters.
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
    /// The name that the initiator gave, if any.
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
    /// There is no target of this name.
    UnknownTarget(String),
    /// The initiator must authenticate and did not offer to.
    ChapRequired,
    /// The initiator requires CHAP, and no credentials are configured for it.
    ChapNotConfigured,
    /// It used this CHAP name, which is not the configured one.
    WrongChapUser(String),
    /// It used a wrong secret for this CHAP name.
    WrongChapSecret(String),
    /// It requests mutual CHAP, and no credentials are configured for that.
    MutualChapNotConfigured,
    /// After several wrong CHAP names or responses it has to wait.
    TooManyAttempts,
    /// The limit on connections is reached.
    TooManyConnections,
    /// Its access was changed during the login.
    AccessChanged,
    /// It closed the connection during login, or did not continue.
    Abandoned(String),
    /// It violated the protocol.
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

/// Text from outside, cut, and without characters that could pass for something else.
fn shown(text: &str) -> String {
    let cut = text::shown(text, MAX_SHOWN_CHARS, "?");
    if text.chars().nth(MAX_SHOWN_CHARS).is_some() { format!("{cut}…") } else { cut }
}
