//! Error of a refused action: a kind for programs, and a text for operators.

/// Kind of a refusal, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The record named does not exist.
    NotFound,
    /// The name, initiator or LUN is taken.
    Conflict,
    /// The record exists, but differs from the request in [`Error::field`].
    Differs,
    /// The request itself is invalid; a repetition would fail, too.
    Invalid,
    /// The current state of records does not allow it; the message says what to do first.
    Precondition,
    /// The caller lacks the permission.
    Forbidden,
    /// The array failed to perform a valid request.
    Failed,
}

/// A refusal: its kind, and a sentence with the problem and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Kind of the refusal.
    pub kind: Kind,
    /// The problem, and the remedy.
    pub message: String,
    /// The field of the request that caused the refusal, for programs.
    pub field: Option<&'static str>,
}

/// Result of an action.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    fn new(kind: Kind, message: String) -> Self {
        Self { kind, message, field: None }
    }

    /// Adds the field of the request that caused the error.
    #[must_use]
    pub fn about(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }

    /// A record that does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message.into())
    }

    /// A name, initiator or LUN that is taken.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, message.into())
    }

    /// A record that exists, but differs from the request in this field.
    pub fn differs(field: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::Differs, message.into()).about(field)
    }

    /// An invalid request.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message.into())
    }

    /// A request that requires another action first.
    pub fn precondition(message: impl Into<String>) -> Self {
        Self::new(Kind::Precondition, message.into())
    }

    /// A refusal of the engine: `what` failed, and the cause.
    pub fn refused(what: &str, error: block::Error) -> Self {
        match error {
            block::Error::RetentionLocked { until } => Self::precondition(format!(
                "{what}: it is locked until {}, and the lock can't be shortened",
                crate::utc(until)
            )),
            block::Error::ReadOnly => Self::precondition(format!("{what}: it is read-only")),
            block::Error::NoSpace => Self::precondition(format!(
                "{what}: no space is left; delete volumes and snapshots and eradicate them, add drives, or make room on the file \
                 system of drives that are files"
            )),
            error => Self::failed(what, error),
        }
    }

    /// A request without the necessary permission.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(Kind::Forbidden, message.into())
    }

    /// A failure of a lower layer: `what` was tried, `cause` was the error.
    pub fn failed(what: &str, cause: impl std::fmt::Display) -> Self {
        Self::new(Kind::Failed, format!("{what}: {cause}"))
    }
}
