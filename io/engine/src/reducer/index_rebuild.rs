//! Index rebuild: warms up the deduplication index after a start.
//!
//! Where the log holds no index, or only a part of it, the frames of the log are read while the array is idle, a few at a
//! time, and their fingerprints are inserted. No I/O waits for it: a copy that the index does not know yet is stored again.

use crate::core::Core;
use crate::dedup::{Fingerprinter, Index};
use crate::entry::BlockId;
use crate::frame_table::{FRAMES, Frame};
use crate::map::Need;
use std::ops::Range;

/// How far the index has been rebuilt.
pub struct IndexRebuild {
    /// The next page of the frame table, and the end of the pages.
    next: u64,
    end: u64,
    /// Frames of the current page.
    frames: Vec<(u64, Frame)>,
}

impl IndexRebuild {
    /// From the frames of these pages of the frame table.
    pub fn of(pages: Range<u64>) -> Self {
        Self { next: pages.start, end: pages.end, frames: Vec::new() }
    }

    /// The pages whose frames have not all been read.
    pub fn unread(&self) -> Range<u64> {
        let started = u64::from(!self.frames.is_empty());
        self.next.saturating_sub(started)..self.end
    }

    /// Whether all has been read.
    pub fn is_over(&self) -> bool {
        self.next >= self.end && self.frames.is_empty()
    }

    /// Reads some frames. What can't be read is left out.
    pub async fn step(&mut self, core: &Core, fingerprinter: &mut Fingerprinter, index: &mut Index) {
        if self.frames.is_empty() {
            self.next_frames(core).await;
        }
        let rest = self.frames.len().saturating_sub(core.options.tunables.index_rebuild_frames);
        for (number, frame) in self.frames.split_off(rest) {
            let Ok(object) = core.log.read(frame.location).await else { continue };
            // The frame may have died since, and other bytes be in its place.
            let Some(fingerprints) = fingerprinter.of_frame(&object, number) else { continue };
            for (block, fingerprint) in fingerprints {
                if frame.refs(block) > 0 && index.find(&fingerprint).is_none() {
                    index.insert(fingerprint, BlockId { frame: number, index: block });
                }
            }
        }
    }

    async fn next_frames(&mut self, core: &Core) {
        let page = {
            let state = core.state.read();
            // Numbers of frames that are gone leave gaps.
            let end = self.end.min(self.next + core.options.tunables.index_rebuild_pages);
            let found = (self.next..end).find(|page| state.maps.table.page_index.get(*page).refs > 0);
            self.next = found.map_or(end, |page| page + 1);
            found
        };
        let Some(page) = page else { return };
        if core.load(Need::Table(page)).await.is_err() {
            return;
        }
        let state = core.state.read();
        if let Some(body) = state.maps.table.pages.get(page) {
            let numbered = body.iter().map(|(index, frame)| (page * FRAMES + index, frame.clone()));
            self.frames = numbered.collect();
        }
    }
}
