//! The few ways in which an action is refused.

/// What kind of refusal; what a program can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The record named does not exist.
    NotFound,
    /// The name, initiator or LUN is taken.
    Conflict,
    /// The request itself is wrong and will be wrong again.
    Invalid,
    /// Not in the present state of records; the message says what to do first.
    Precondition,
    /// Not to this caller.
    Forbidden,
    /// The array could not do it, though nothing is wrong with the request.
    Failed,
}

/// A refusal: its kind, and a sentence for people that says what was wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What kind.
    pub kind: Kind,
    /// What was wrong and what to do.
    pub message: String,
}

/// What an action ends with.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A record that is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self { kind: Kind::NotFound, message: message.into() }
    }

    /// A record that is taken.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self { kind: Kind::Conflict, message: message.into() }
    }

    /// A request that makes no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { kind: Kind::Invalid, message: message.into() }
    }

    /// A request that something else must come before.
    pub fn precondition(message: impl Into<String>) -> Self {
        Self { kind: Kind::Precondition, message: message.into() }
    }

    /// The engine refused a change: `what` can't be done, and why.
    pub fn refused(what: &str, error: block::Error) -> Self {
        match error {
            block::Error::Kept { until } => Self::precondition(format!(
                "{what}: it is kept until {}, and nobody can shorten that",
                utc(until)
            )),
            block::Error::ReadOnly => Self::precondition(format!("{what}: it is read-only")),
            block::Error::NoSpace => Self::precondition(format!(
                "{what}: no space is left; eradicate what is in the recycle bin, or delete snapshots and volumes"
            )),
            error => Self::failed(what, error),
        }
    }

    /// A request that the caller may not make.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self { kind: Kind::Forbidden, message: message.into() }
    }

    /// Something below went wrong: `what` was tried, `cause` came back.
    pub fn failed(what: &str, cause: impl std::fmt::Display) -> Self {
        Self { kind: Kind::Failed, message: format!("{what}: {cause}") }
    }
}

/// Seconds since 1970 as RFC 3339 has it.
pub fn utc(seconds: u64) -> String {
    let timestamp =
        i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    timestamp.unwrap_or(jiff::Timestamp::MAX).to_string()
}
