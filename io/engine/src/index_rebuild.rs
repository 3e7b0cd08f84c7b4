//! The deduplication index is in memory alone, and empty after an opening. While the array is idle the background reads
//! the frames that are there, a few at a time, and the index learns them again. No I/O waits for it: what it does not
//! know yet is stored once more.

use crate::background::Worker;
use crate::entry::BlockId;
use crate::frame_table::{FRAMES, Frame};
use crate::map::Need;

/// How far the index has learned what was there at the opening.
pub struct IndexRebuild {
    /// The next page of the frame table, and the one behind the last.
    next: u64,
    end: u64,
    /// Frames of the page at hand.
    frames: Vec<(u64, Frame)>,
}

impl IndexRebuild {
    /// Everything in the pages of the frame table up to this one is to be learned.
    pub fn up_to(last: Option<u64>) -> Self {
        Self { next: 0, end: last.map_or(0, |page| page + 1), frames: Vec::new() }
    }

    /// True when there is nothing left to learn.
    pub fn is_over(&self) -> bool {
        self.next >= self.end && self.frames.is_empty()
    }
}

impl Worker {
    /// Learns some frames. What can't be read is left out: nobody has asked for it.
    pub async fn index_rebuild(&mut self) {
        if self.index_rebuild.frames.is_empty() {
            self.next_frames().await;
        }
        let rest =
            self.index_rebuild.frames.len().saturating_sub(self.core.options.tunables.index_rebuild_frames);
        for (number, frame) in self.index_rebuild.frames.split_off(rest) {
            let Ok(object) = self.core.log.read(frame.location).await else { continue };
            // It may have died meanwhile, and other bytes be in its place.
            let Some(fingerprints) = self.fingerprints_of(&object, number) else { continue };
            for (index, fingerprint) in fingerprints {
                if frame.refs(index) > 0 && self.index.find(&fingerprint).is_none() {
                    self.index.insert(fingerprint, BlockId { frame: number, index });
                }
            }
        }
    }

    async fn next_frames(&mut self) {
        let page = {
            let state = self.core.state.read();
            let IndexRebuild { next, end, .. } = self.index_rebuild;
            // Numbers of frames that are gone leave gaps.
            let looked = end.min(next + self.core.options.tunables.index_rebuild_pages);
            let there = |page: &u64| state.maps.table.page_index.get(*page).refs > 0;
            let found = (next..looked).find(there);
            self.index_rebuild.next = found.map_or(looked, |page| page + 1);
            found
        };
        let Some(page) = page else { return };
        if self.core.load(Need::Table(page)).await.is_err() {
            return;
        }
        let state = self.core.state.read();
        if let Some(body) = state.maps.table.pages.get(page) {
            let numbered = body.iter().map(|(index, frame)| (page * FRAMES + index, frame.clone()));
            self.index_rebuild.frames = numbered.collect();
        }
    }
}
