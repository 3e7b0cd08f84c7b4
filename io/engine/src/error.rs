//! Conversion of errors of the shelf and of decoders to errors of the engine.
//!
//! Each of them stops the engine permanently: after a failed write or damaged metadata it could not guarantee what it
//! acknowledges.

use block::Error;
use std::fmt::Display;

/// A shelf operation that failed.
pub fn failed(error: shelf::Error) -> Error {
    Error::Stopped(error.to_string())
}

/// Advice in error texts.
const ADVICE: &str = "the array can be neither opened nor repaired without it: if drives are missing, connect them and \
                      start again; else keep these drives as they are, and restore the volumes from a backup elsewhere";

/// Metadata of which there is no other copy can't be used; `what` names it and the place.
pub fn unusable(what: impl Display) -> Error {
    Error::Stopped(format!("{what}: {ADVICE}"))
}
