//! Joining: blocks that random writes have left in many places are written in the order of the volume, once a host reads
//! them in that order.
//!
//! As recompression it writes new frames beside the old ones and leaves blocks with several references alone. It runs
//! beside hosts: the blocks were read a moment ago, and the next host that reads in order finds them together.

use crate::appender::Appender;
use crate::core::Core;
use crate::entry::{BlockId, Entry, FAN, Kind};
use crate::frame::{Method, UNKNOWN};
use crate::map::Need;
use crate::pages::NumberMap;
use crate::policy::Policy;
use crate::reducer::{Blocks, Joined, Reducer, Run, WINDOW_BLOCKS, blocks_of, fits, is_small, leaf_from};
use bytes::Bytes;
use shelf::join;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Runs of neighbours in the same frame from which a window is joined: one that was written in order has two, if its frames
/// begin elsewhere than the window.
const DISORDERED_RUNS: usize = 3;

/// A leaf in which a host has read in order.
#[derive(Clone, Copy)]
struct Leaf {
    volume: u32,
    /// Its first block.
    base: u64,
    page: u64,
    policy: Policy,
    /// The first entry that has not been looked at.
    next: usize,
}

/// Joins what [`crate::read_streams::ReadStreams`] has noted.
pub struct Joining {
    core: Arc<Core>,
    leaf: Option<Leaf>,
    /// Joining continues after a checkpoint.
    wants_checkpoint: bool,
    /// The last checkpoint was for the next window.
    is_postponed: bool,
}

impl Joining {
    /// Nothing is joined yet.
    pub fn new(core: Arc<Core>) -> Self {
        Self { core, leaf: None, wants_checkpoint: false, is_postponed: false }
    }

    /// Whether there is something to join, and room for it.
    pub fn has_work(&self, appender: &Appender) -> bool {
        (self.leaf.is_some() || self.core.streams.disorder.is_noted())
            && self.core.has_room_to_move(appender.protected_free_count())
    }

    /// Whether joining continues only after a checkpoint; asking takes the request.
    pub fn take_checkpoint_request(&mut self) -> bool {
        std::mem::take(&mut self.wants_checkpoint)
    }

    /// Joins some windows; returns volume and first block of each new frame.
    pub async fn step(
        &mut self,
        reducer: &mut Reducer,
        appender: &mut Appender,
    ) -> block::Result<Vec<(u32, u64)>> {
        let mut made = Vec::new();
        for _ in 0..self.core.options.tunables.join_windows {
            if !self.has_work(appender) || self.core.shutdown.has_begun() {
                break;
            }
            let Some(leaf) = self.leaf.take() else {
                self.leaf = self.next_leaf().await;
                continue;
            };
            let Some((at, blocks)) = self.next_window(leaf).await else { continue };
            self.leaf = Some(Leaf { next: at + WINDOW_BLOCKS, ..leaf });
            if !fits(&self.core, &blocks) {
                if !std::mem::replace(&mut self.is_postponed, true) {
                    (self.leaf, self.wants_checkpoint) = (Some(Leaf { next: at, ..leaf }), true);
                    break;
                }
                continue;
            }
            self.is_postponed = false;
            match self.join_window(reducer, appender, leaf, &blocks).await? {
                Joined::Done => made.push((leaf.volume, leaf.base + at as u64)),
                Joined::Left => {}
                Joined::Full => {
                    self.leaf = None;
                    self.core.streams.disorder.clear();
                }
            }
        }
        Ok(made)
    }

    /// The next leaf that was noted, if it is still there and can be read.
    async fn next_leaf(&self) -> Option<Leaf> {
        let (volume, number) = self.core.streams.disorder.take()?;
        let base = number * FAN as u64;
        let (tree, policy) = {
            let state = self.core.state.read();
            let found = state.volume(volume).ok()?;
            (found.tree, found.policy)
        };
        let found = leaf_from(&self.core, &mut NumberMap::default(), volume, tree, base).await;
        let (_, page) = found.filter(|(found, _)| *found == base)?;
        Some(Leaf { volume, base, page, policy, next: 0 })
    }

    /// The next window of a leaf that lies in many places, and its blocks with a single reference.
    async fn next_window(&self, leaf: Leaf) -> Option<(usize, Blocks)> {
        self.core.load(Need::Map(leaf.page)).await.ok()?;
        if leaf.next == 0 {
            self.core.state.write().maps.settle_leaf(leaf.page);
        }
        let windows = (leaf.next..FAN).step_by(WINDOW_BLOCKS);
        windows.into_iter().find_map(|at| Some((at, self.disordered(leaf.page, at)?)))
    }

    fn disordered(&self, page: u64, at: usize) -> Option<Blocks> {
        let mut blocks = blocks_of(&self.core, page, at);
        let state = self.core.state.read();
        let node = state.maps.nodes.get(page).filter(|_| state.maps.page_index.get(page).level == 0)?;
        // What waits to be flushed comes to lie elsewhere once more.
        let waits = |entry: &Entry| matches!(entry.kind(), Kind::Slot(_));
        blocks.retain(|(_, block)| state.maps.refs_of(*block) == 1);
        let follows = |one: &(usize, BlockId), next: &(usize, BlockId)| one.1.frame == next.1.frame;
        let runs = blocks.chunk_by(follows).count();
        let small = |(_, block): &(usize, BlockId)| is_small(&state, *block);
        let is_disordered = runs >= DISORDERED_RUNS || runs > 1 && blocks.iter().any(small);
        let is_settled = !node[at..at + WINDOW_BLOCKS].iter().any(waits);
        (is_settled && is_disordered).then_some(blocks)
    }

    async fn join_window(
        &self,
        reducer: &mut Reducer,
        appender: &mut Appender,
        leaf: Leaf,
        blocks: &Blocks,
    ) -> block::Result<Joined> {
        let Some(bytes) = self.read(blocks).await else { return Ok(Joined::Left) };
        let mut of = |bytes: &Bytes| match leaf.policy.dedup {
            true => reducer.fingerprint_of(bytes),
            false => UNKNOWN,
        };
        let fingerprints = bytes.iter().map(&mut of).collect();
        let how = Method::of(leaf.policy.compression);
        let run = Run { page: leaf.page, blocks, bytes, fingerprints, how, deep: false };
        reducer.join(appender, run, |_| true).await
    }

    /// The bytes of blocks, most of which the cache still has; `None` if one can't be read.
    async fn read(&self, blocks: &Blocks) -> Option<Vec<Bytes>> {
        let mut wanted: BTreeMap<u64, u8> = BTreeMap::new();
        for (_, block) in blocks {
            *wanted.entry(block.frame).or_default() |= 1 << block.index;
        }
        let cached = |block: &BlockId| self.core.cache.peek(block.frame, block.index);
        wanted.retain(|frame, _| {
            blocks.iter().any(|(_, block)| block.frame == *frame && cached(block).is_none())
        });
        let read = join(wanted.iter().map(|(frame, wanted)| self.core.fetch(*frame, *wanted))).await;
        let read: Option<Vec<_>> = read.into_iter().map(|frame| frame.ok().flatten()).collect();
        let read: BTreeMap<u64, _> = wanted.into_keys().zip(read?).collect();
        let bytes = |(_, block): &(usize, BlockId)| {
            let frame = read.get(&block.frame).cloned().or_else(|| cached(block))?;
            frame.blocks(block.index, 1)
        };
        blocks.iter().map(bytes).collect()
    }
}
