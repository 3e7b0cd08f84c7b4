//! Failures of a store and of its drives.

/// Failures below the engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Too few drives hold the bytes, or took the write. `what` names the drive and the cause.
    #[error("drive failure: {what}")]
    Drive {
        /// Drive, operation, position and the system's message.
        what: String,
    },
    /// The bytes that were read are not the ones written, in every copy.
    #[error("corrupt: {what}")]
    Corrupt {
        /// Where, and how it was noticed.
        what: String,
    },
    /// The file system or device below a drive has no space for a write, which was not performed. The drive is intact,
    /// and the same write may succeed later.
    #[error("no space: {what}")]
    NoSpace {
        /// Drive, operation, position and the system's message.
        what: String,
    },
    /// A newer owner has taken the shelf; this one must stop permanently.
    #[error("fenced by epoch {epoch}")]
    Fenced {
        /// The epoch of the newer owner.
        epoch: u64,
    },
    /// The journal has no room until it is trimmed by a superblock.
    #[error("journal full")]
    JournalFull,
    /// The store can't be opened; the text says what to do.
    #[error("{0}")]
    Unusable(String),
}

/// Outcome of a shelf operation.
pub type Result<T = ()> = std::result::Result<T, Error>;
