//! Drives as protected, fenced, append-only space: a journal, segments and a superblock.
//!
//! The shelf does not know volumes, maps or hosts; it keeps bytes and proves that they are the ones written.
//! Its parts: [`device`] is the only place that makes system calls; [`label`] recognises drives; [`geometry`] says
//! where everything lies; [`journal`] with its [`lanes`], [`map`] and [`superblock`] are the records on media; `sector`,
//! [`parity`] and [`seal`] make the pages of a segment; the spine `raid` lays segments, journal copies and superblocks over
//! the drives that are there.

mod drive;
mod media;
mod overlay;
mod raid;
mod sector;
mod shelf;
mod space;
mod spares;
mod task;

pub mod device;
pub mod geometry;
pub mod journal;
pub mod label;
pub mod lanes;
pub mod map;
pub mod parity;
pub mod seal;
pub mod superblock;

pub use drive::{Backing, Drive, MemDrive};
pub use geometry::Sizes;
pub use label::Standing;
pub use media::{FORMAT_VERSION, checksum};
pub use overlay::Overlay;
pub use raid::{
    Consent, Contents, DriveShelf, DriveStatus, FileSystem, FormatOptions, Opening, ScrubReport, Status,
};
pub use shelf::{
    ALIGN, AlignedBuf, Batch, Done, Error, JournalPos, Layout, Result, Room, SegmentId, Shelf, Superblock,
    Wait, wait,
};
pub use task::join;
