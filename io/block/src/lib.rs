//! The block interface between front ends and stores: the operations [`Op`], the trait [`Disk`], and an executable model
//! of a disk.
//!
//! Front ends translate commands to [`Op`]; the engine, the model in [`mem`] and every test double perform it. This
//! crate knows neither SCSI nor media, and makes no system call.

mod collector;
mod data;
mod disk;
mod done;
mod ledger;
mod op;
mod recipe;

pub mod mem;
pub mod suite;
pub mod workload;

pub use collector::Collector;
pub use data::{Data, is_zero};
pub use disk::{Disk, DiskId, Geometry, Pending, Space};
pub use done::{Known, MAX_WINDOW, Note, NotedCommands, Sequence};
pub use ledger::Ledger;
pub use op::{CopySegment, Error, Extent, Image, Op, Provisioning, Region, Reply, Result};
pub use recipe::{FRAME_BLOCK_BYTES, FrameBlocks, MAX_FRAME_BLOCKS, Piece, Place, Recipe, Resolver};
