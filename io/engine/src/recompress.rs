//! Deep reduction: what was flushed in a hurry is reduced better while the array is idle. Small frames of neighbours
//! become one, frames are compressed again with more effort, and blocks whose fingerprints were left out, or whose
//! copies the index had forgotten, are shared.
//!
//! It is a kind of cleaning. New frames are written beside the old ones; then, under the lock of the state, a frame
//! gets its new place, or a map page the name of another block with the same bytes. Nothing of it is in the journal:
//! after a crash the last checkpoint, which it did not touch, counts.
//!
//! Only blocks with a single reference change their name, in the one map page that has it: pages that are shared stay
//! shared, and what was equal on two disks stays visibly so.

use crate::background::Worker;
use crate::entry::{BlockId, Entry, FAN, Kind};
use crate::error::failed;
use crate::flush::stored;
use crate::frame::{Decoded, Fingerprint, Method, UNKNOWN};
use crate::frame_table::{FRAMES, Frame};
use crate::map::{Maps, Need, Tree};
use crate::pages::NumberMap;
use crate::policy::{Compression, Policy};
use crate::space::Location;
use crate::tunables::Tunables;
use crate::wake::pause;
use bytes::Bytes;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Blocks looked at together, from a border of as many: what a frame can hold.
const WINDOW_BLOCKS: usize = BlockId::PER_FRAME;

/// A frame with as many live blocks is compressed again as it is; smaller ones are joined.
const LARGE_FRAME_BLOCKS: u32 = 4;

/// A leaf of a map that is being worked on.
#[derive(Clone, Copy)]
struct Leaf {
    page: u64,
    policy: Policy,
    /// The first entry that has not been looked at.
    next: usize,
}

/// What waits for the array to be idle.
#[derive(Default)]
pub struct Recompression {
    /// Leaves with new frames: volume, and number of the leaf in it.
    queue: BTreeSet<(u32, u64)>,
    /// A walk over all maps: volume and block that come next.
    walk: Option<(u32, u64)>,
    /// Shared pages that the walk has met, and the volume in which.
    met: NumberMap<u64, u32>,
    leaf: Option<Leaf>,
    /// There was no room; nothing is tried again before the hosts changed something.
    refused: Option<u64>,
    /// It goes on after a checkpoint.
    pub wants_checkpoint: bool,
    /// The window that the last checkpoint was for.
    postponed: Option<(u64, usize)>,
}

impl Recompression {
    /// Everything may have been left as it was written: a walk over all maps will see.
    pub fn everything() -> Self {
        Self { walk: Some((0, 0)), ..Self::default() }
    }

    /// Takes note of a new frame. Beyond `most` leaves it is forgotten which, and everything is walked.
    pub fn note(&mut self, volume: u32, block: u64, most: usize) {
        self.queue.insert((volume, block / FAN as u64));
        if self.queue.len() > most {
            (self.queue, self.walk) = (BTreeSet::new(), Some((0, 0)));
            self.met.clear();
        }
    }

    fn is_waiting(&self) -> bool {
        self.leaf.is_some() || !self.queue.is_empty() || self.walk.is_some()
    }
}

/// A frame that was read.
struct Opened {
    frame: Frame,
    decoded: Decoded,
    /// Of each block that is stored, by its index.
    fingerprints: [Fingerprint; BlockId::PER_FRAME],
}

/// Blocks of a window: index in the leaf, and name.
type Blocks = SmallVec<[(usize, BlockId); WINDOW_BLOCKS]>;

/// True when a policy leaves something to be done.
fn reduces(policy: Policy) -> bool {
    policy.dedup || policy.compression != Compression::Off
}

impl Worker {
    /// True when there is something to deepen, and room for it.
    pub fn may_recompress(&self) -> bool {
        self.core.options.recompress
            && self.recompress.is_waiting()
            && self.recompress.refused != Some(self.core.changes.load(Ordering::Acquire))
            && self.free() > self.clean_below()
            && self.core.free_bytes(&self.core.state.read()) > 2 * self.core.dirty_limit()
    }

    /// Deepens some windows. It ends early when a host asks for something.
    pub async fn recompress(&mut self) -> block::Result<()> {
        let activity = self.core.activity();
        let is_over = |worker: &Self| {
            worker.core.activity() != activity || worker.core.stopping.load(Ordering::Acquire)
        };
        let Tunables { recompress_windows, recompress_leaves, .. } = self.core.options.tunables;
        let (mut windows, mut looks) = (0, 0);
        while windows < recompress_windows && looks < recompress_leaves && !is_over(self) {
            looks += 1;
            let Some(leaf) = self.recompress.leaf else {
                if self.next_leaf().await {
                    continue;
                }
                return Ok(());
            };
            if let Some(at) = self.next_window(leaf).await {
                windows += 1;
                let fits = self.fits(leaf.page, at);
                let postponed = self.recompress.postponed.replace((leaf.page, at));
                let again = postponed == Some((leaf.page, at));
                if !fits && !again && self.core.dirty_bytes() > self.left_dirty {
                    self.recompress.wants_checkpoint = true;
                    return Ok(());
                }
                self.recompress.leaf = Some(Leaf { next: at + WINDOW_BLOCKS, ..leaf });
                if fits {
                    self.recompress_window(leaf, at).await?;
                }
            } else {
                self.recompress.leaf = None;
            }
            pause().await;
        }
        Ok(())
    }

    /// Finds the next leaf of the queue or of the walk; false when there is none.
    async fn next_leaf(&mut self) -> bool {
        let queued = self.recompress.queue.pop_first();
        let Some((volume, from)) =
            queued.map(|(volume, leaf)| (volume, leaf * FAN as u64)).or(self.recompress.walk)
        else {
            return false;
        };
        let known = {
            let state = self.core.state.read();
            let mut there = state.catalog.volumes.range(volume..);
            there.next().map(|(number, found)| (*number, found.tree, found.policy))
        };
        let Some((number, tree, policy)) = known.filter(|known| queued.is_none() || known.0 == volume) else {
            if queued.is_none() {
                (self.recompress.walk, self.recompress.met) = (None, NumberMap::default());
            }
            return true;
        };
        let from = if number == volume { from } else { 0 };
        let found = if reduces(policy) { self.leaf_from(number, tree, from).await } else { None };
        if queued.is_none() {
            let after = found.map_or((number + 1, 0), |(base, _)| (number, base + FAN as u64));
            self.recompress.walk = Some(after);
        }
        let wanted = found.filter(|(base, _)| queued.is_none() || *base == from);
        self.recompress.leaf = wanted.map(|(_, page)| Leaf { page, policy, next: 0 });
        true
    }

    /// The first leaf of a tree at or behind a block: its first block and its page. None when there is none, or it
    /// can't be read.
    async fn leaf_from(&mut self, volume: u32, tree: Tree, from: u64) -> Option<(u64, u64)> {
        loop {
            let need = {
                let state = self.core.state.read();
                match leaf_from(&state.maps, &mut self.recompress.met, volume, tree, from) {
                    Ok(found) => return found,
                    Err(need) => need,
                }
            };
            self.core.load(need).await.ok()?;
        }
    }

    /// The next window of a leaf with something to deepen. Slots that have been flushed become blocks on the way.
    async fn next_window(&mut self, leaf: Leaf) -> Option<usize> {
        let Leaf { page, next, .. } = leaf;
        self.core.load(Need::Map(page)).await.ok()?;
        if next == 0 {
            self.core.state.write().maps.settle_leaf(page);
        }
        let state = self.core.state.read();
        let maps = &state.maps;
        let node = maps.nodes.get(page).filter(|_| maps.page_index.get(page).level == 0)?;
        let is_shallow = |entry: &Entry| match entry.kind() {
            Kind::Block(block) => match maps.table.get(block.frame) {
                Ok(frame) => frame.is_some_and(|frame| !frame.deep),
                Err(_) => true,
            },
            _ => false,
        };
        (next..FAN).step_by(WINDOW_BLOCKS).find(|at| node[*at..at + WINDOW_BLOCKS].iter().any(is_shallow))
    }

    /// Whether the next checkpoint has room for what a window changes.
    fn fits(&self, page: u64, at: usize) -> bool {
        let blocks = self.blocks_of(page, at);
        let pages: BTreeSet<u64> = blocks.iter().map(|(_, block)| block.frame / FRAMES).collect();
        self.core.may_change(1, pages.len() + 1)
    }

    async fn recompress_window(&mut self, leaf: Leaf, at: usize) -> block::Result<()> {
        let blocks = self.blocks_of(leaf.page, at);
        let mut opened: NumberMap<u64, Opened> = NumberMap::default();
        for (_, block) in &blocks {
            if !opened.contains_key(&block.frame)
                && let Some(frame) = self.open_frame(block.frame).await
            {
                opened.insert(block.frame, frame);
            }
        }
        let shallow = |block: &BlockId| opened.get(&block.frame).is_some_and(|found| !found.frame.deep);
        if leaf.policy.dedup {
            for (position, block) in blocks.iter().filter(|(_, block)| shallow(block)) {
                self.share(leaf.page, *position, *block, &opened[&block.frame]).await?;
            }
        }
        // What has been shared is not there any more.
        let blocks = self.blocks_of(leaf.page, at);
        let (joined, mut alone) = (self.joined(&blocks, &opened), BTreeSet::new());
        let distinct: BTreeSet<u64> = joined.iter().map(|(_, block)| block.frame).collect();
        let join = distinct.len() > 1 && joined.iter().any(|(_, block)| shallow(block));
        if join && !self.join(leaf, &joined, &opened).await? {
            return Ok(());
        }
        let left = self.blocks_of(leaf.page, at);
        alone.extend(left.iter().filter(|(_, block)| shallow(block)).map(|(_, block)| block.frame));
        for number in alone {
            if !self.recompress_frame(number, &opened[&number], leaf.policy).await? {
                break;
            }
        }
        Ok(())
    }

    /// The blocks that a window of a leaf names.
    fn blocks_of(&self, page: u64, at: usize) -> Blocks {
        let state = self.core.state.read();
        let Some(node) = state.maps.nodes.get(page) else { return Blocks::new() };
        let named = node[at..at + WINDOW_BLOCKS].iter().enumerate();
        let block = |(n, entry): (usize, &Entry)| match entry.kind() {
            Kind::Block(block) => Some((at + n, block)),
            _ => None,
        };
        named.filter_map(block).collect()
    }

    /// Reads a frame; none when it is gone or can't be read: nobody has asked for it.
    async fn open_frame(&mut self, number: u64) -> Option<Opened> {
        self.core.load(Need::Table(number / FRAMES)).await.ok()?;
        let frame = self.core.state.read().maps.table.get(number).ok().flatten().cloned()?;
        let (object, decoded) = self.core.fetch_object(number).await.ok().flatten()?;
        let mut fingerprints = [UNKNOWN; BlockId::PER_FRAME];
        for (index, known) in self.fingerprints_of(&object, number)? {
            fingerprints[usize::from(index)] = known;
        }
        Some(Opened { frame, decoded, fingerprints })
    }

    /// Has a block share another one with the same bytes, if the index knows one; else the index learns this one.
    async fn share(
        &mut self,
        page: u64,
        position: usize,
        block: BlockId,
        opened: &Opened,
    ) -> block::Result<()> {
        let fingerprint = opened.fingerprints[usize::from(block.index)];
        let Some(bytes) = opened.decoded.blocks(block.index, 1).filter(|_| fingerprint != UNKNOWN) else {
            return Ok(());
        };
        let Some(other) = self.index.find(&fingerprint) else {
            self.index.insert(fingerprint, block);
            return Ok(());
        };
        if other == block {
            return Ok(());
        }
        if self.core.load(Need::Table(other.frame / FRAMES)).await.is_err() {
            return Ok(());
        }
        let live = |maps: &Maps| maps.refs_of(other) > 0;
        if !live(&self.core.state.read().maps) {
            self.index.remove(&fingerprint);
            self.index.insert(fingerprint, block);
        } else if self.core.may_change(1, 2) && self.is_same(other, &bytes).await? {
            let maps = &mut self.core.state.write().maps;
            if live(maps) && maps.refs_of(block) == 1 {
                maps.rename(page, position, block, other);
            }
        }
        Ok(())
    }

    /// Those of a window's blocks that can go into one frame: the only references to blocks of small frames.
    fn joined(&self, blocks: &Blocks, opened: &NumberMap<u64, Opened>) -> Blocks {
        let state = self.core.state.read();
        let is_small = |block: &BlockId| {
            let frame = state.maps.table.get(block.frame).ok().flatten();
            frame.is_some_and(|frame| {
                frame.live().count_ones() < LARGE_FRAME_BLOCKS && frame.refs(block.index) == 1
            })
        };
        let fits = |block: &BlockId| opened.contains_key(&block.frame) && is_small(block);
        blocks.iter().filter(|(_, block)| fits(block)).copied().collect()
    }

    /// Writes blocks of several frames to a new one and gives it to the leaf that names them; where that wins nothing
    /// they stay. False when there is no room.
    async fn join(
        &mut self,
        leaf: Leaf,
        blocks: &Blocks,
        opened: &NumberMap<u64, Opened>,
    ) -> block::Result<bool> {
        let whole: Option<Vec<Bytes>> =
            blocks.iter().map(|(_, block)| opened[&block.frame].decoded.blocks(block.index, 1)).collect();
        let Some(bytes) = whole else { return Ok(true) };
        let known =
            |(_, block): &(usize, BlockId)| opened[&block.frame].fingerprints[usize::from(block.index)];
        let fingerprints: SmallVec<[Fingerprint; WINDOW_BLOCKS]> = blocks.iter().map(known).collect();
        let before: u64 = {
            let state = self.core.state.read();
            let share = |block: &BlockId| {
                let frame = state.maps.table.get(block.frame).ok().flatten();
                frame.map_or(0, |frame| frame.share(block.index))
            };
            blocks.iter().map(|(_, block)| share(block)).sum()
        };
        let number = self.reserve_numbers(1);
        let pages = bytes.iter().map(|bytes| &bytes[..]);
        let all = stored(blocks.len());
        let object = self.packer.pack(number, all, pages, &fingerprints, method(leaf.policy), false);
        if !is_better(object.len(), before) {
            return Ok(true);
        }
        let Some(location) = self.place_deep(object).await? else { return Ok(false) };
        if self.core.load(Need::Table(number / FRAMES)).await.is_err() {
            return Ok(true);
        }
        let maps = &mut self.core.state.write().maps;
        let names = |maps: &Maps, (position, block): &(usize, BlockId)| {
            let node = maps.nodes.get(leaf.page);
            node.is_some_and(|node| node[*position] == Entry::block(*block)) && maps.refs_of(*block) == 1
        };
        // What was overwritten meanwhile is left out.
        let refs: SmallVec<[u64; 2]> = blocks.iter().map(|named| u64::from(names(maps, named))).collect();
        if maps.page_index.get(leaf.page).level > 0 || refs.iter().all(|refs| *refs == 0) {
            return Ok(true);
        }
        let frame = Frame { location, stored: all, deep: true, refs: refs.clone() };
        maps.table.insert(number, frame, &mut maps.usage).expect("the page was loaded");
        for (index, (position, block)) in (0..).zip(blocks).filter(|(index, _)| refs[*index] > 0) {
            let new = BlockId { frame: number, index: index as u8 };
            maps.rename_new(leaf.page, *position, *block, new);
            if fingerprints[index] != UNKNOWN {
                self.index.insert(fingerprints[index], new);
            }
        }
        Ok(true)
    }

    /// Writes a frame again if that makes it smaller, and notes that nothing more can be done. False when there is no
    /// room.
    async fn recompress_frame(
        &mut self,
        number: u64,
        opened: &Opened,
        policy: Policy,
    ) -> block::Result<bool> {
        let found = self.core.state.read().maps.table.get(number).ok().flatten().cloned();
        let Some(frame) = found.filter(|frame| frame.location == opened.frame.location) else {
            return Ok(true);
        };
        let live = frame.live();
        let indexes = || (0..8u8).filter(|index| live >> index & 1 == 1);
        let bytes: Vec<Bytes> = indexes().filter_map(|index| opened.decoded.blocks(index, 1)).collect();
        if bytes.len() != live.count_ones() as usize {
            return Ok(true);
        }
        let fingerprints: Vec<_> = indexes().map(|index| opened.fingerprints[usize::from(index)]).collect();
        let object = self.packer.pack(
            number,
            live,
            bytes.iter().map(|bytes| &bytes[..]),
            &fingerprints,
            method(policy),
            false,
        );
        let location = if is_better(object.len(), u64::from(frame.location.len)) {
            let Some(location) = self.place_deep(object).await? else { return Ok(false) };
            Some(location)
        } else {
            None
        };
        let maps = &mut self.core.state.write().maps;
        let current = maps.table.get(number).ok().flatten();
        if current.is_some_and(|current| current.location == frame.location) {
            if let Some(location) = location {
                maps.table.relocate(number, location, live, &mut maps.usage);
            }
            maps.table.mark_deep(number);
        }
        Ok(true)
    }

    async fn place_deep(&mut self, object: Bytes) -> block::Result<Option<Location>> {
        self.leave_for_cleaning();
        let placed = self.writer.location(&mut self.streams.moved, &mut self.space, object).await;
        let location = placed.map_err(failed)?.ok();
        self.log_writes.moved += location.map_or(0, |location| u64::from(location.len));
        if location.is_none() {
            self.recompress.refused = Some(self.core.changes.load(Ordering::Acquire));
        }
        Ok(location)
    }
}

/// It pays to write what was there again when a sixteenth is saved.
fn is_better(len: usize, before: u64) -> bool {
    len as u64 + before / 16 < before
}

fn method(policy: Policy) -> Method {
    if policy.compression == Compression::Off { Method::Raw } else { Method::Deep }
}

/// The first leaf of a tree at or behind block `from`: its first block and its page. What is shared and was met in
/// another volume is passed over.
fn leaf_from(
    maps: &Maps,
    met: &mut NumberMap<u64, u32>,
    volume: u32,
    tree: Tree,
    from: u64,
) -> Result<Option<(u64, u64)>, Need> {
    let Some(page) = tree.root.as_page() else { return Ok(None) };
    if maps.page_index.get(page).refs > 1 && *met.entry(page).or_insert(volume) != volume {
        return Ok(None);
    }
    if tree.level == 0 {
        return Ok((from < FAN as u64).then_some((0, page)));
    }
    let node = maps.page(page)?;
    let each = crate::entry::blocks_under(tree.level - 1);
    for index in from / each..FAN as u64 {
        let child = Tree { root: node[index as usize], level: tree.level - 1 };
        let base = index * each;
        if let Some((at, page)) = leaf_from(maps, met, volume, child, from.saturating_sub(base))? {
            return Ok(Some((base + at, page)));
        }
    }
    Ok(None)
}
