//! Format of the store: kept until an operator commits to the newest one.
//!
//! Software may be replaced by an earlier release as long as that can open the array, so opening an array never changes its
//! format. [`crate::Engine::commit_format`] raises it: the next checkpoint's superblock has the new one, in the same write by which
//! it takes the place of the checkpoint before. What needs the new format is written only after that write is durable.

use crate::root::CELL_VERSION;
use crate::wake::Watermark;
use std::sync::atomic::{AtomicU32, Ordering};

/// The format that the store has, and the one that it is to have.
pub struct Format {
    active: AtomicU32,
    wanted: AtomicU32,
    /// Reaches a format when it is durable, and its end when the background has ended.
    written: Watermark,
}

impl Format {
    /// Of a store that has this format.
    pub fn new(active: u32) -> Self {
        Self { active: active.into(), wanted: active.into(), written: Watermark::default() }
    }

    /// The format that the store durably has.
    pub fn active(&self) -> u32 {
        self.active.load(Ordering::Acquire)
    }

    /// Whether frames may have cells.
    pub fn has_cells(&self) -> bool {
        self.active() >= CELL_VERSION
    }

    /// The next superblock is to have this format, if the store has an older one. True if there is something to write.
    pub fn raise(&self, newest: u32) -> bool {
        self.wanted.fetch_max(newest, Ordering::AcqRel);
        self.is_to_be_raised()
    }

    /// The format of the next superblock.
    pub fn next(&self) -> u32 {
        self.wanted.load(Ordering::Acquire)
    }

    /// Whether a superblock is to be written for it.
    pub fn is_to_be_raised(&self) -> bool {
        self.next() > self.active()
    }

    /// A superblock of this format is durable.
    pub fn note_written(&self, format: u32) {
        self.active.fetch_max(format, Ordering::AcqRel);
        self.written.advance(format.into());
    }

    /// Waits until a superblock of this format is durable, or none is written any more.
    pub async fn written(&self, format: u32) {
        self.written.reached(format.into()).await;
    }

    /// No superblock is written any more.
    pub fn end(&self) {
        self.written.advance(u64::MAX);
    }
}
