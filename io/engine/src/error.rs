//! Conversion of errors of the shelf and of decoders to errors of the engine.
//!
//! Each of them stops the engine permanently: after a failed write or damaged metadata it could not guarantee what it
//! acknowledges.

use crate::codec::Malformed;
use block::Error;

/// A shelf operation that failed.
pub fn failed(error: shelf::Error) -> Error {
    Error::Stopped(error.to_string())
}

/// Metadata that can't be decoded.
pub fn damaged(error: Malformed) -> Error {
    Error::Stopped(error.to_string())
}
