//! The link between the controllers of a cluster: frames and messages.
//!
//! A front end sends whole SCSI commands to the home controller and gets status, sense data and data back. This crate has
//! the bytes of that and nothing that moves them: [`frame`] delimits and checks, [`message`] gives frames a meaning,
//! [`Channel`] is one end of a connection without its socket. Both ends are authenticated by mutual TLS before a byte reaches
//! this crate, and nothing here relies on it.

mod channel;
pub mod fields;
pub mod frame;
pub mod message;

pub use channel::{Channel, Received};

/// Why a connection of a link ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Bytes that are not of this protocol, or were changed on the way.
    #[error("the link received {0}")]
    Malformed(&'static str),
    /// Both ends have no version in common.
    #[error(
        "the other controller speaks versions {oldest} to {newest} of the link, this one {own_oldest} to {own_newest}: \
             update the older one"
    )]
    Versions {
        /// The oldest that the other speaks.
        oldest: u16,
        /// The newest that it speaks.
        newest: u16,
        /// The oldest of this end.
        own_oldest: u16,
        /// The newest of this end.
        own_newest: u16,
    },
    /// The other end is of another array.
    #[error(
        "the other controller is of array {0:032x}: give this one the address of a controller of its own array"
    )]
    OtherArray(u128),
}

type Result<T> = std::result::Result<T, Error>;
