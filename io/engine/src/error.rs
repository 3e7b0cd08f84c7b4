//! Errors from below as errors of the engine.
//!
//! Each of them stops the engine for good: after a failed write or damaged metadata nothing that it would acknowledge
//! is certain.

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
