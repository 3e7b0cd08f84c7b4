//! Upkeep of metadata in memory: releases the references of dropped maps, applies deferred reference counts, and evicts
//! clean pages.

use crate::core::Core;
use crate::entry::{BLOCK, Node};
use crate::frame_table::{FRAMES, Frame};
use crate::map::Need;

/// About the memory of a page of the frame table.
const TABLE_PAGE_BYTES: usize = FRAMES as usize * size_of::<Option<Frame>>();

impl Core {
    /// Releases some of what dropped trees referred to; false if there was nothing.
    pub async fn release_orphans(&self) -> block::Result<bool> {
        let (mut busy, mut left) = (false, self.options.tunables.released_pages);
        while left > 0 {
            let outcome = self.state.write().maps.release_orphan();
            match outcome {
                Ok(true) => (busy, left) = (true, left - 1),
                Ok(false) => break,
                // The page that was read is released next. It may not count: a step that only read a page would end
                // as if there was nothing to release, and no signal would begin another.
                Err(need) if self.load(need).await.is_ok() => {}
                // What can't be read can't be released; others can.
                Err(_) => {
                    self.state.write().maps.orphans.rotate_left(1);
                    left -= 1;
                }
            }
        }
        Ok(busy)
    }

    /// Reads the pages of the frame table that reference changes wait for, if these are many. When the background would
    /// `rest`, also if they may free more space than there is: nothing else would give it back. False if that applied
    /// none.
    pub async fn load_deferred(&self, rest: bool) -> block::Result<bool> {
        let (before, pages): (usize, Vec<u64>) = {
            let state = self.state.read();
            let table = &state.maps.table;
            let deferred = table.deferred();
            let holds_space = || (deferred * BLOCK) as u64 > self.free_bytes(&state);
            if deferred <= self.options.tunables.deferred_changes_max && !(rest && holds_space()) {
                return Ok(false);
            }
            (deferred, table.deferred.keys().copied().collect())
        };
        for page in pages {
            if self.load(Need::Table(page)).await.is_err() {
                self.check_running()?;
            }
        }
        // What can't be read stays.
        Ok(self.state.read().maps.table.deferred() < before)
    }

    /// Evicts clean pages beyond [`crate::Options::page_bytes`]: half of it is for maps, half for the frame table.
    pub fn evict_pages(&self) {
        let limit = self.options.page_bytes / 2;
        let state = &mut *self.state.write();
        state.maps.nodes.evict(limit / size_of::<Node>());
        state.maps.table.pages.evict(limit / TABLE_PAGE_BYTES);
    }
}
