//! Exclusive space: the space that deleting disks would free, which is everything that nothing else refers to. A walk
//! from their roots finds it and ends where something is shared with others. So its duration depends on the size of
//! exclusive maps: it is short for a clone with few changes.

use crate::engine::Engine;
use crate::entry::{BLOCK, BlockId, Entry, Kind, SlotId};
use crate::map::{Maps, Need};
use crate::pages::NumberMap;
use block::{DiskId, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that only some disks hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exclusive {
    /// Distinct blocks with data.
    pub unique: u64,
    /// Their bytes in the log after compression; blocks that are not flushed yet count uncompressed.
    pub physical: u64,
    /// Maps.
    pub metadata: u64,
    /// References to map pages that were looked at, a count and no bytes: what it took to find the others.
    pub looks: u64,
}

/// References found so far, of objects with more than one.
#[derive(Default)]
struct Walk {
    /// Pages that nothing else refers to, still to be visited.
    open: Vec<u64>,
    pages: NumberMap<u64, u64>,
    blocks: NumberMap<u64, u64>,
    slots: BTreeMap<SlotId, u64>,
    found: Exclusive,
}

/// Counts one more reference; true if it was the last of all.
fn is_last(count: &mut u64, refs: u64) -> bool {
    *count += 1;
    *count == refs
}

impl Walk {
    fn count_page(&mut self, maps: &Maps, page: u64) {
        self.found.looks += 1;
        let info = maps.page_index.get(page);
        if info.refs == 1 || is_last(self.pages.entry(page).or_default(), info.refs) {
            self.found.metadata += u64::from(info.location.len);
            self.open.push(page);
        }
    }

    fn count_block(&mut self, maps: &Maps, block: BlockId) {
        let Some(frame) = maps.table.get(block.frame).ok().flatten() else { return };
        let refs = frame.refs(block.index);
        if refs == 1 || is_last(self.blocks.entry(block.bits()).or_default(), refs) {
            self.found.unique += BLOCK as u64;
            self.found.physical += frame.share(block.index);
        }
    }

    fn count_slot(&mut self, maps: &Maps, slot: SlotId) {
        let Some(found) = maps.slots.get(slot) else { return };
        if is_last(self.slots.entry(slot).or_default(), found.holders) {
            self.found.unique += BLOCK as u64;
            self.found.physical += BLOCK as u64;
        }
    }

    /// Visits the next page.
    fn step(&mut self, maps: &Maps) -> std::result::Result<(), Need> {
        let Some(page) = self.open.last().copied() else { return Ok(()) };
        let info = maps.page_index.get(page);
        if info.refs == 0 {
            // It has been released since.
            self.open.pop();
            return Ok(());
        }
        let node = maps.page(page)?.clone();
        if info.level > 0 {
            self.open.pop();
            node.iter().filter_map(|entry| entry.as_page()).for_each(|child| self.count_page(maps, child));
            return Ok(());
        }
        let resolved = || node.iter().map(|entry: &Entry| maps.resolve(*entry).kind());
        for kind in resolved() {
            if let Kind::Block(block) = kind {
                maps.table.get(block.frame)?;
            }
        }
        self.open.pop();
        for kind in resolved() {
            match kind {
                Kind::Block(block) => self.count_block(maps, block),
                Kind::Slot(slot) => self.count_slot(maps, slot),
                Kind::Unmapped | Kind::Zero => {}
            }
        }
        Ok(())
    }
}

impl Engine {
    /// The space that deleting all of these disks would free: those of a group, or a volume with its snapshots. Exact
    /// if nothing changes before that.
    ///
    /// # Errors
    /// If a map can't be read.
    pub async fn exclusive_of(&self, ids: &[DiskId]) -> Result<Exclusive> {
        let mut walk = Walk::default();
        {
            let state = self.core.state.read();
            let ids: BTreeSet<DiskId> = ids.iter().copied().collect();
            let found = ids.iter().filter_map(|id| state.volume(state.catalog.number(*id)?).ok());
            let roots: Vec<u64> = found.filter_map(|volume| volume.tree.root.as_page()).collect();
            roots.into_iter().for_each(|root| walk.count_page(&state.maps, root));
        }
        while !walk.open.is_empty() {
            let outcome = {
                let maps = &self.core.state.read().maps;
                (0..self.core.options.tunables.exclusive_pages).try_for_each(|_| walk.step(maps))
            };
            if let Err(need) = outcome {
                self.core.load(need).await?;
            }
            crate::wake::pause().await;
        }
        Ok(walk.found)
    }
}
