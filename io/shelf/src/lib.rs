//! Drives as protected, fenced, append-only space: a journal, segments and a superblock.
//!
//! The shelf does not know volumes, maps or hosts; it keeps bytes and proves that they are the ones written.
//! Its parts: [`device`] is the only place that makes system calls; [`label`] recognises drives; the spine
//! lays segments, journal copies and superblocks over the drives that are there.

mod shelf;

pub use shelf::{
    ALIGN, AlignedBuf, Batch, Done, Error, JournalPos, Layout, Result, SegmentId, Shelf, Superblock, Wait,
    wait,
};
