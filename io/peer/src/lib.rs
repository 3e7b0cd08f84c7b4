//! The link between the controllers of a cluster: frames and messages.
//!
//! A front end sends whole SCSI commands to the home controller, which returns status, sense data and data. This crate
//! defines the encoding and has no sockets: [`frame`] delimits and checks frames, [`message`] encodes their content,
//! [`Channel`] is one end of a connection. Mutual TLS authenticates both ends before a byte reaches this crate; the
//! decoders do not rely on it.

mod channel;
pub mod fields;
pub mod frame;
pub mod message;
pub mod versions;

pub use channel::{Channel, Received};

/// Reason for the end of a link's connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Bytes that do not follow the protocol, or that were damaged in transit.
    #[error("the link received {0}")]
    Malformed(&'static str),
    /// Both ends have no version in common.
    #[error(transparent)]
    Versions(#[from] versions::NoCommonVersion),
    /// The other end belongs to another array.
    #[error(
        "the other controller is of array {0:032x}: give this one the address of a controller of its own array"
    )]
    OtherArray(u128),
}

type Result<T> = std::result::Result<T, Error>;
