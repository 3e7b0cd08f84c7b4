//! The shelf over drives through its public interface. One program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

mod conformance;
mod files;
mod full;
mod media;
