//! Errors that end a transfer.

use peer::versions::NoCommonVersion;

/// Reason for a refusal of the other array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The array does not replicate this group, or no longer does.
    Unknown,
    /// Another connection of the same group is open.
    Busy,
    /// The array has no free space.
    NoSpace,
    /// Another reason, in the text.
    Other,
}

/// Reason for the end of a transfer before the point was published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The stream failed, or was closed.
    #[error(
        "the connection to the other array ended: {0}. The next connection resumes the transfer where it was"
    )]
    Stream(String),
    /// Bytes that do not follow the protocol, or that were damaged in transit.
    #[error("the other array sent {0}")]
    Malformed(&'static str),
    /// Both arrays have no common version.
    #[error(transparent)]
    Versions(#[from] NoCommonVersion),
    /// Both ends are one array.
    #[error("the other end is this array itself: an array can't replicate to itself")]
    SameArray,
    /// This array is not the target.
    #[error("replication {0:032x} has no target here: it was released, or was never accepted")]
    Unknown(u128),
    /// The other array refused to continue.
    #[error("the other array refused: {text}")]
    Refused {
        /// Reason, for programs.
        reason: Reason,
        /// Reason, for operators.
        text: String,
    },
    /// A disk of this array failed.
    #[error(transparent)]
    Disk(#[from] block::Error),
    /// The written data differ from the sent data.
    #[error(
        "volume {volume} of point {point} differs from its source near block {block}: the point is not published"
    )]
    Differs {
        /// The point.
        point: u64,
        /// Index of the volume in the group.
        volume: u32,
        /// The first 4 KiB block after the difference.
        block: u64,
    },
    /// The other array does not support synchronous replication.
    #[error("the other array can't replicate synchronously: update its software")]
    OldPeer,
    /// The arrays are no longer in sync, for a reason of this one.
    #[error("the arrays have to be synchronized again: {0}")]
    Unmirrored(&'static str),
    /// The other array is silent in a session.
    #[error("the other array did not respond for {} s", crate::limits::MAX_SILENCE_NS / 1_000_000_000)]
    Silent,
    /// The point of a session takes too long while hosts wait for it.
    #[error(
        "could not catch up within {} s while host writes were paused; will retry after another point",
        crate::limits::MAX_JOIN_NS / 1_000_000_000
    )]
    SlowJoin,
    /// There is no point to transfer.
    #[error("there is no point to transfer: take one first")]
    NoPoint,
    /// Another transfer of the same group is in progress in this process.
    #[error("another transfer of this group is under way")]
    Busy,
    /// A record of this array is unreadable.
    #[error("the record {0} can't be read: it was written by newer software, or is damaged")]
    Record(String),
    /// A replication can't get this number: records with it exist.
    #[error("there are points under number {0:032x} already")]
    Used(u128),
    /// The point is needed as the base of the next transfer.
    #[error("point {0} is the newest one: the next transfer needs it as its base")]
    Newest(u64),
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl From<peer::Error> for Error {
    fn from(error: peer::Error) -> Self {
        match error {
            peer::Error::Malformed(what) => Self::Malformed(what),
            _ => Self::Malformed("a message of another protocol"),
        }
    }
}

impl Error {
    /// The reason for the other array, if it needs one.
    pub(crate) fn reason(&self) -> Option<Reason> {
        match self {
            Self::Stream(_) | Self::Refused { .. } | Self::Versions(_) | Self::Silent => None,
            Self::Unknown(_) => Some(Reason::Unknown),
            Self::Busy => Some(Reason::Busy),
            Self::Disk(block::Error::NoSpace) => Some(Reason::NoSpace),
            _ => Some(Reason::Other),
        }
    }
}
