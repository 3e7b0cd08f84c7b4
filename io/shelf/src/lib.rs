//! The contract of a store: redundant, fenced, append-only space for the engine.
//!
//! A shelf does not know volumes, maps or hosts; it keeps bytes and proves that they are the ones written. This crate
//! has the traits, and the memory that goes through them, so that the engine and the control plane depend on no particular store: [`Shelf`] is the data
//! path, [`pool`] is management, and by an [`arbiter`] the controllers that share a store find out who is alive. Crate `raid`
//! implements the first two on drives, crate `rados` all three. [`model`] is the executable definition of the contract of a
//! shelf, and [`conformance`] tests implementations of it.

mod buffer;
mod buffer_pool;
mod completion;
mod drive;
mod error;
mod shelf;
mod task;
mod workers;

pub mod arbiter;
pub mod conformance;
pub mod model;
pub mod pool;

pub use buffer::{ALIGN, AlignedBuf};
pub use buffer_pool::BufferPool;
pub use completion::{Done, Wait, wait};
pub use drive::{Backing, Drive, ReservationStep};
pub use error::{Error, Result};
pub use shelf::{
    Batch, JournalPos, Layout, Room, SegmentId, SegmentReader, Shelf, Source, Superblock, Writing,
};
pub use task::{join, spawn};
pub use workers::{Job, Workers, parts};
