//! A store on drives: segments with dual parity, a replicated and striped journal, superblocks and fencing.
//!
//! This is the implementation of the `shelf` contract for local drives; it exists as a crate of its own so that the
//! engine does not depend on it. Its parts: [`device`] is the only place that makes system calls; [`label`] identifies
//! drives; [`geometry`] says where everything lies; [`journal`] with its [`striping`], [`segment_map`] and
//! [`superblock`] are the records on media; crate `media` and [`parity`] make the pages of a segment; the
//! spine `drive_shelf` places segments, journal copies and superblocks on the drives that are there.

mod allocator;
mod codec;
mod drive_shelf;
mod limits;
mod mem_drive;
mod overlay;

pub mod device;
pub mod geometry;
pub mod journal;
pub mod label;
pub mod parity;
pub mod segment_map;
pub mod shared;
pub mod striping;
pub mod superblock;

pub use ::media::encryption;
pub use codec::{ENVELOPES, FORMAT, Versions, checksum};
pub use drive_shelf::{DriveShelf, FormatOptions, Opening};
pub use geometry::Sizes;
pub use limits::Limits;
pub use mem_drive::MemDrive;
pub use overlay::Overlay;

use ::media::sector;
use ::shelf::pool::{Consent, DriveContents, DriveState, FileSystem};
use ::shelf::{
    ALIGN, AlignedBuf, Backing, Batch, BufferPool, Done, Drive, Error, JournalPos, Layout, Result, Room,
    SegmentId, Shelf, Superblock, Wait, Workers, wait,
};
