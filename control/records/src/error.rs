//! The error of a refused action: its kind, for programs, and its text, for operators.

/// Kind of a refusal, on which a program can act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The record named does not exist.
    NotFound,
    /// The name, initiator or LUN is taken.
    Conflict,
    /// It exists, and not as the request wants it: [`Error::field`] says what differs.
    Differs,
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
    /// Its kind.
    pub kind: Kind,
    /// The problem, and the remedy.
    pub message: String,
    /// The field of the request that it is about, for programs.
    pub field: Option<&'static str>,
}

/// Result of an action.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    fn new(kind: Kind, message: String) -> Self {
        Self { kind, message, field: None }
    }

    /// The same, about a field of the request.
    #[must_use]
    pub fn about(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }

    /// A record that is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message.into())
    }

    /// A record that is taken.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, message.into())
    }

    /// A record that exists otherwise than the request has it, in this field.
    pub fn differs(field: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::Differs, message.into()).about(field)
    }

    /// A request that makes no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message.into())
    }

    /// A request that something else must come before.
    pub fn precondition(message: impl Into<String>) -> Self {
        Self::new(Kind::Precondition, message.into())
    }

    /// The engine refused a change: `what` can't be done, and why.
    pub fn refused(what: &str, error: block::Error) -> Self {
        match error {
            block::Error::RetentionLocked { until } => Self::precondition(format!(
                "{what}: it is locked until {}, and the lock can't be shortened",
                history::utc(until)
            )),
            block::Error::ReadOnly => Self::precondition(format!("{what}: it is read-only")),
            block::Error::NoSpace => Self::precondition(format!(
                "{what}: no space is left; delete volumes and snapshots and eradicate them, add drives, or make room on the file \
                 system of drives that are files"
            )),
            error => Self::failed(what, error),
        }
    }

    /// A request that the caller may not make.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(Kind::Forbidden, message.into())
    }

    /// Something below went wrong: `what` was tried, `cause` came back.
    pub fn failed(what: &str, cause: impl std::fmt::Display) -> Self {
        Self::new(Kind::Failed, format!("{what}: {cause}"))
    }
}
