//! Data reduction of the background: deduplication and compression of data as it is flushed, and again of stored
//! data.
//!
//! It owns everything that only reduction needs: the deduplication index with its rebuild and its locality cache,
//! fingerprints, adaptivity and the packer of frames. Losing any of it costs space, never data, and no read touches
//! it.

mod flush;
mod index_rebuild;
mod locality;
mod recompress;
mod stored_index;

pub use flush::Step;
pub use flush::runs;
pub use recompress::{
    Blocks, Joined, Recompression, Run, WINDOW_BLOCKS, blocks_of, fits, is_small, leaf_from,
};

use crate::adaptivity::Uniqueness;
use crate::appender::Appender;
use crate::core::Core;
use crate::dedup::{Fingerprinter, Index};
use crate::entry::BlockId;
use crate::frame::{Fingerprint, Packer};
use crate::root::INDEX_VERSION;
use bytes::Bytes;
use index_rebuild::IndexRebuild;
use locality::LocalityCache;
use std::sync::Arc;
use stored_index::StoredIndex;

/// The reducer.
pub struct Reducer {
    core: Arc<Core>,
    index: Index,
    index_rebuild: IndexRebuild,
    stored: StoredIndex,
    locality: LocalityCache,
    fingerprinter: Fingerprinter,
    uniqueness: Uniqueness,
    packer: Packer,
}

impl Reducer {
    /// A reducer with an empty index. [`Reducer::load_index_step`] reads what the last checkpoint wrote of it,
    /// [`Reducer::rebuild_index_step`] the frames that are missing there.
    pub fn new(core: Arc<Core>) -> Self {
        let mut index = Index::new(core.options.index_bytes);
        let stored = StoredIndex::new(core.clone());
        let log = core.state.read().maps.index_log.clone();
        index.set_insertions(log.insertions);
        if log.partial {
            index.leave_out();
        }
        if core.format.active() >= INDEX_VERSION {
            index.record();
        }
        Self {
            index,
            index_rebuild: IndexRebuild::of(log.unread),
            stored,
            locality: LocalityCache::new(core.options.tunables),
            fingerprinter: Fingerprinter::new(&core.key),
            uniqueness: Uniqueness::new(core.options.tunables.unique_blocks_max),
            packer: Packer::new(core.format.has_cells()),
            core,
        }
    }

    /// Whether the rebuild of the index has ended.
    pub fn is_index_complete(&self) -> bool {
        self.index_rebuild.is_over()
    }

    /// Whether the index of the last checkpoint is in memory.
    pub fn is_index_loaded(&self) -> bool {
        self.stored.is_loaded()
    }

    /// Reads some of the index of the last checkpoint.
    pub async fn load_index_step(&mut self) {
        self.stored.load_step(&mut self.index, &mut self.index_rebuild).await;
    }

    /// Drops the index from the log; returns whether there was one.
    pub fn drop_stored_index(&mut self) -> bool {
        self.stored.discard(&mut self.index_rebuild)
    }

    /// Appends what the next checkpoint is to say about the index. Nothing may be flushed between this and its cut.
    pub async fn write_index(&mut self, appender: &mut Appender) -> block::Result<()> {
        self.stored.write(appender, &mut self.index, &mut self.index_rebuild).await
    }

    /// Takes a step of the rebuild.
    pub async fn rebuild_index_step(&mut self) {
        self.index_rebuild.step(&self.core, &mut self.fingerprinter, &mut self.index).await;
    }

    /// Takes numbers for new frames; returns the first.
    fn reserve_numbers(&self, count: u64) -> u64 {
        let table = &mut self.core.state.write().maps.table;
        table.next += count;
        table.next - count
    }

    /// The fingerprint of a block.
    pub fn fingerprint_of(&mut self, page: &Bytes) -> Fingerprint {
        self.fingerprinter.of(page)
    }

    /// Compares a block of the log with the bytes that its fingerprint stands for.
    async fn is_same(&self, block: BlockId, page: &Bytes) -> block::Result<bool> {
        let frame = match self.core.cache.peek(block.frame, block.index) {
            Some(frame) => frame,
            // What can't be read is not shared.
            None => match self.core.fetch(block.frame, 1 << block.index).await {
                Ok(Some(frame)) => frame,
                Ok(None) | Err(block::Error::Medium { .. }) => return Ok(false),
                Err(error) => return Err(error),
            },
        };
        Ok(frame.blocks(block.index, 1).is_some_and(|bytes| bytes == *page))
    }
}
