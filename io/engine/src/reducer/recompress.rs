//! Recompression: what was flushed in a hurry is reduced better while the array is idle.
//!
//! Small frames of neighbours become one, frames are compressed again with more effort, and blocks whose fingerprints
//! were left out, or whose copies the index had forgotten, are shared.
//!
//! It is a kind of cleaning. New frames are written beside the old ones; then, under the lock of the state, a frame
//! gets its new location, or a map page the name of another block with the same bytes. None of it is in the journal:
//! after a crash the last checkpoint, which it did not touch, is in force.
//!
//! Only blocks with a single reference change their name, in the one map page that has it: pages that are shared stay
//! shared, and [`crate::Engine::diff`] still sees that two disks are equal.

use super::Reducer;
use crate::appender::Appender;
use crate::cell::indexes;
use crate::core::Core;
use crate::entry::{BlockId, Entry, FAN, Kind, blocks_under};
use crate::frame::{self, Decoded, Fingerprint, Method, UNKNOWN, stored_mask};
use crate::frame_table::{FRAMES, Frame, Placed};
use crate::map::{Maps, Need, Tree};
use crate::pages::NumberMap;
use crate::policy::{Compression, Policy};
use crate::space::Location;
use crate::state::State;
use crate::tunables::Tunables;
use crate::wake::pause;
use bytes::Bytes;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Blocks looked at together, from a border of as many: what a frame can hold.
pub const WINDOW_BLOCKS: usize = BlockId::PER_FRAME;

/// A frame with as many live blocks is compressed again as it is; smaller ones are joined.
const LARGE_FRAME_BLOCKS: u32 = 4;

/// A leaf of a map that is being recompressed.
#[derive(Clone, Copy)]
struct Leaf {
    page: u64,
    policy: Policy,
    /// The first entry that has not been looked at.
    next: usize,
}

/// What waits to be recompressed.
pub struct Recompression {
    core: Arc<Core>,
    /// Leaves with new frames: volume, and number of the leaf in it.
    queue: BTreeSet<(u32, u64)>,
    /// A walk over all maps: volume and block that come next.
    walk: Option<(u32, u64)>,
    /// Shared pages that the walk has met, and the volume in which.
    met: NumberMap<u64, u32>,
    leaf: Option<Leaf>,
    /// Number of changes by hosts when there was no room: nothing is tried again before there are more.
    refused: Option<u64>,
    /// Recompression continues after a checkpoint.
    wants_checkpoint: bool,
    /// The window that the last checkpoint was for.
    postponed: Option<(u64, usize)>,
    /// The hosts' activity when the step began.
    activity: u64,
}

/// A frame that was read.
struct Opened {
    frame: Frame,
    decoded: Decoded,
    /// Of each block that is stored, by its index.
    fingerprints: [Fingerprint; BlockId::PER_FRAME],
}

/// Blocks of a window: index in the leaf, and name.
pub type Blocks = SmallVec<[(usize, BlockId); WINDOW_BLOCKS]>;

/// Whether a policy reduces data at all.
fn reduces(policy: Policy) -> bool {
    policy.dedup || policy.compression != Compression::Off
}

impl Recompression {
    /// Everything may have been left as it was written: a walk over all maps finds what was.
    pub fn everything(core: Arc<Core>) -> Self {
        Self {
            core,
            queue: BTreeSet::new(),
            walk: Some((0, 0)),
            met: NumberMap::default(),
            leaf: None,
            refused: None,
            wants_checkpoint: false,
            postponed: None,
            activity: 0,
        }
    }

    /// Notes a new frame. If that makes too many leaves, all maps are walked instead.
    pub fn note(&mut self, volume: u32, block: u64) {
        self.queue.insert((volume, block / FAN as u64));
        if self.queue.len() > self.core.options.tunables.recompress_queue_max {
            (self.queue, self.walk) = (BTreeSet::new(), Some((0, 0)));
            self.met.clear();
        }
    }

    /// Whether recompression continues only after a checkpoint; asking takes the request.
    pub fn take_checkpoint_request(&mut self) -> bool {
        std::mem::take(&mut self.wants_checkpoint)
    }

    /// Whether there is something to recompress, and room for it.
    pub fn may_run(&self, appender: &Appender) -> bool {
        let is_waiting = self.leaf.is_some() || !self.queue.is_empty() || self.walk.is_some();
        self.core.options.recompress
            && is_waiting
            && self.refused != Some(self.core.activity.changes())
            && self.core.has_room_to_move(appender.protected_free_count())
    }

    /// Whether hosts have asked for something since the step began, or the engine ends.
    fn is_disturbed(&self) -> bool {
        self.core.activity.total() != self.activity || self.core.shutdown.has_begun()
    }

    /// Recompresses some windows. It ends early when a host asks for something. `left_dirty` is the dirty metadata in bytes
    /// that the last checkpoint left.
    pub async fn step(
        &mut self,
        reducer: &mut Reducer,
        appender: &mut Appender,
        left_dirty: u64,
    ) -> block::Result<()> {
        self.activity = self.core.activity.total();
        reducer.packer.has_cells = self.core.format.has_cells();
        let Tunables { recompress_windows, recompress_leaves, .. } = self.core.options.tunables;
        let (mut windows, mut looks) = (0, 0);
        while windows < recompress_windows && looks < recompress_leaves && !self.is_disturbed() {
            looks += 1;
            let Some(leaf) = self.leaf else {
                if self.next_leaf().await {
                    continue;
                }
                return Ok(());
            };
            if let Some(at) = self.next_window(leaf).await {
                windows += 1;
                let fits = fits(&self.core, &blocks_of(&self.core, leaf.page, at));
                let postponed = self.postponed.replace((leaf.page, at));
                let again = postponed == Some((leaf.page, at));
                if !fits && !again && self.core.dirty_bytes() > left_dirty {
                    self.wants_checkpoint = true;
                    return Ok(());
                }
                self.leaf = Some(Leaf { next: at + WINDOW_BLOCKS, ..leaf });
                if fits {
                    self.recompress_window(reducer, appender, leaf, at).await?;
                }
            } else {
                self.leaf = None;
            }
            pause().await;
        }
        Ok(())
    }

    /// Finds the next leaf of the queue or of the walk; false if there is none.
    async fn next_leaf(&mut self) -> bool {
        let queued = self.queue.pop_first();
        let Some((volume, from)) = queued.map(|(volume, leaf)| (volume, leaf * FAN as u64)).or(self.walk)
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
                (self.walk, self.met) = (None, NumberMap::default());
            }
            return true;
        };
        let from = if number == volume { from } else { 0 };
        let found = if reduces(policy) {
            leaf_from(&self.core, &mut self.met, number, tree, from).await
        } else {
            None
        };
        if queued.is_none() {
            let after = found.map_or((number + 1, 0), |(base, _)| (number, base + FAN as u64));
            self.walk = Some(after);
        }
        let wanted = found.filter(|(base, _)| queued.is_none() || *base == from);
        self.leaf = wanted.map(|(_, page)| Leaf { page, policy, next: 0 });
        true
    }

    /// The next window of a leaf that can be recompressed. Slots that have been flushed become blocks on the way.
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

    async fn recompress_window(
        &mut self,
        reducer: &mut Reducer,
        appender: &mut Appender,
        leaf: Leaf,
        at: usize,
    ) -> block::Result<()> {
        let blocks = blocks_of(&self.core, leaf.page, at);
        let mut opened: NumberMap<u64, Opened> = NumberMap::default();
        for (_, block) in &blocks {
            if !opened.contains_key(&block.frame)
                && let Some(frame) = self.open_frame(reducer, block.frame).await
            {
                opened.insert(block.frame, frame);
            }
        }
        let shallow = |block: &BlockId| opened.get(&block.frame).is_some_and(|found| !found.frame.deep);
        if leaf.policy.dedup {
            for (position, block) in blocks.iter().filter(|(_, block)| shallow(block)) {
                self.share(reducer, leaf.page, *position, *block, &opened[&block.frame]).await?;
            }
        }
        // Blocks that have been shared are not there any more.
        let blocks = blocks_of(&self.core, leaf.page, at);
        let (joined, mut alone) = (self.joined(&blocks, &opened), BTreeSet::new());
        let distinct: BTreeSet<u64> = joined.iter().map(|(_, block)| block.frame).collect();
        let join = distinct.len() > 1 && joined.iter().any(|(_, block)| shallow(block));
        if join && !self.join(reducer, appender, leaf, &joined, &opened).await? {
            return Ok(());
        }
        let left = blocks_of(&self.core, leaf.page, at);
        alone.extend(left.iter().filter(|(_, block)| shallow(block)).map(|(_, block)| block.frame));
        for number in alone {
            if self.is_disturbed() {
                // The window comes again; what was done of it is passed over then.
                self.leaf = Some(Leaf { next: at, ..leaf });
                break;
            }
            if !self.recompress_frame(reducer, appender, number, &opened[&number], leaf.policy).await? {
                break;
            }
        }
        Ok(())
    }

    /// Reads a frame; `None` if it is gone or can't be read: no host has asked for it.
    async fn open_frame(&self, reducer: &mut Reducer, number: u64) -> Option<Opened> {
        self.core.load(Need::Table(number / FRAMES)).await.ok()?;
        let frame = self.core.state.read().maps.table.get(number).ok().flatten().cloned()?;
        let (object, decoded) = self.core.fetch_object(number).await.ok().flatten()?;
        let mut fingerprints = [UNKNOWN; BlockId::PER_FRAME];
        for (index, known) in reducer.fingerprinter.of_frame(&object, number)? {
            fingerprints[usize::from(index)] = known;
        }
        Some(Opened { frame, decoded, fingerprints })
    }

    /// Lets a block share another one with the same bytes, if the index knows one; else adds it to the index.
    async fn share(
        &self,
        reducer: &mut Reducer,
        page: u64,
        position: usize,
        block: BlockId,
        opened: &Opened,
    ) -> block::Result<()> {
        let fingerprint = opened.fingerprints[usize::from(block.index)];
        let Some(bytes) = opened.decoded.blocks(block.index, 1).filter(|_| fingerprint != UNKNOWN) else {
            return Ok(());
        };
        let Some(other) = reducer.index.find(&fingerprint) else {
            reducer.index.insert(fingerprint, block);
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
            reducer.index.remove(&fingerprint);
            reducer.index.insert(fingerprint, block);
        } else if self.core.may_change(1, 2) && reducer.is_same(other, &bytes).await? {
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
        let fits = |block: &BlockId| {
            opened.contains_key(&block.frame) && is_small(&state, *block) && state.maps.refs_of(*block) == 1
        };
        blocks.iter().filter(|(_, block)| fits(block)).copied().collect()
    }

    /// Writes blocks of several frames to a new one and lets the leaf name that; if that saves nothing they stay.
    /// False if there is no room.
    async fn join(
        &mut self,
        reducer: &mut Reducer,
        appender: &mut Appender,
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
        let (page, how) = (leaf.page, method(leaf.policy));
        let run = Run { page, blocks, bytes, fingerprints, how, deep: true };
        let joined = reducer.join(appender, run, |len| is_better(len, before)).await?;
        if joined == Joined::Full {
            self.refused = Some(self.core.activity.changes());
        }
        Ok(joined != Joined::Full)
    }

    /// Writes a frame again if that makes it smaller, and notes that it can't be reduced further. False if there is
    /// no room.
    async fn recompress_frame(
        &mut self,
        reducer: &mut Reducer,
        appender: &mut Appender,
        number: u64,
        opened: &Opened,
        policy: Policy,
    ) -> block::Result<bool> {
        let found = self.core.state.read().maps.table.get(number).ok().flatten().cloned();
        let Some(frame) = found.filter(|frame| frame.location == opened.frame.location) else {
            return Ok(true);
        };
        let live = frame.live();
        let bytes: Vec<Bytes> = indexes(live).filter_map(|index| opened.decoded.blocks(index, 1)).collect();
        if bytes.len() != live.count_ones() as usize {
            return Ok(true);
        }
        let fingerprints: Vec<_> =
            indexes(live).map(|index| opened.fingerprints[usize::from(index)]).collect();
        let object = reducer.packer.pack(
            number,
            live,
            bytes.iter().map(|bytes| &bytes[..]),
            &fingerprints,
            method(policy),
            false,
        );
        let moved = if is_better(object.len(), u64::from(frame.location.len)) {
            let cells = frame::cells_of(&object);
            let Some(location) = self.append(appender, object).await? else { return Ok(false) };
            Some(Placed { location, stored: live, cells })
        } else {
            None
        };
        let maps = &mut self.core.state.write().maps;
        let current = maps.table.get(number).ok().flatten();
        if current.is_some_and(|current| current.location == frame.location) {
            if let Some(moved) = moved {
                maps.table.relocate(number, moved, &mut maps.usage);
            }
            maps.table.mark_deep(number);
        }
        Ok(true)
    }

    async fn append(&mut self, appender: &mut Appender, object: Bytes) -> block::Result<Option<Location>> {
        appender.begin_data();
        let location = appender.append_moved(object).await?;
        if location.is_none() {
            self.refused = Some(self.core.activity.changes());
        }
        Ok(location)
    }
}

/// Whether few blocks of the block's frame are left.
pub fn is_small(state: &State, block: BlockId) -> bool {
    let frame = state.maps.table.get(block.frame).ok().flatten();
    frame.is_some_and(|frame| frame.live().count_ones() < LARGE_FRAME_BLOCKS)
}

/// The blocks that a window of a leaf names.
pub fn blocks_of(core: &Core, page: u64, at: usize) -> Blocks {
    let state = core.state.read();
    let Some(node) = state.maps.nodes.get(page) else { return Blocks::new() };
    let named = node[at..at + WINDOW_BLOCKS].iter().enumerate();
    let block = |(n, entry): (usize, &Entry)| match entry.kind() {
        Kind::Block(block) => Some((at + n, block)),
        _ => None,
    };
    named.filter_map(block).collect()
}

/// Neighbours in a leaf that go into one frame.
pub struct Run<'a> {
    /// The leaf.
    pub page: u64,
    pub blocks: &'a Blocks,
    /// The bytes of each block.
    pub bytes: Vec<Bytes>,
    pub fingerprints: SmallVec<[Fingerprint; WINDOW_BLOCKS]>,
    pub how: Method,
    /// See [`Frame::deep`].
    pub deep: bool,
}

/// What became of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// It has a frame.
    Done,
    /// Its blocks stay where they are.
    Left,
    /// There is no room for it.
    Full,
}

impl Reducer {
    /// Writes a run to a new frame and lets its leaf name that, if a frame of this length `is_worth` it.
    pub async fn join(
        &mut self,
        appender: &mut Appender,
        run: Run<'_>,
        is_worth: impl FnOnce(usize) -> bool,
    ) -> block::Result<Joined> {
        let Run { page, blocks, bytes, fingerprints, how, deep } = run;
        let number = self.reserve_numbers(1);
        let (all, pages) = (stored_mask(blocks.len()), bytes.iter().map(|bytes| &bytes[..]));
        self.packer.has_cells = self.core.format.has_cells();
        let object = self.packer.pack(number, all, pages, &fingerprints, how, false);
        if !is_worth(object.len()) {
            return Ok(Joined::Left);
        }
        let cells = frame::cells_of(&object);
        appender.begin_data();
        let Some(location) = appender.append_moved(object).await? else { return Ok(Joined::Full) };
        if self.core.load(Need::Table(number / FRAMES)).await.is_err() {
            return Ok(Joined::Left);
        }
        let maps = &mut self.core.state.write().maps;
        let names = |maps: &Maps, (position, block): &(usize, BlockId)| {
            let node = maps.nodes.get(page);
            node.is_some_and(|node| node[*position] == Entry::block(*block)) && maps.refs_of(*block) == 1
        };
        // Blocks that have been overwritten since are left out.
        let refs: SmallVec<[u64; 2]> = blocks.iter().map(|named| u64::from(names(maps, named))).collect();
        if maps.page_index.get(page).level > 0 || refs.iter().all(|refs| *refs == 0) {
            return Ok(Joined::Left);
        }
        let frame = Frame { location, stored: all, cells, deep, refs: refs.clone() };
        maps.table.insert(number, frame, &mut maps.usage).expect("the page was loaded");
        for (index, (position, block)) in (0..).zip(blocks).filter(|(index, _)| refs[*index] > 0) {
            let new = BlockId { frame: number, index: index as u8 };
            maps.rename_new(page, *position, *block, new);
            if fingerprints[index] != UNKNOWN {
                self.index.insert(fingerprints[index], new);
            }
        }
        Ok(Joined::Done)
    }
}

/// Whether writing stored data again saves enough, a sixteenth.
fn is_better(len: usize, before: u64) -> bool {
    len as u64 + before / 16 < before
}

fn method(policy: Policy) -> Method {
    if policy.compression == Compression::Off { Method::Raw } else { Method::Deep }
}

/// Whether the next checkpoint has room for what a window of these blocks changes.
pub fn fits(core: &Core, blocks: &Blocks) -> bool {
    let pages: BTreeSet<u64> = blocks.iter().map(|(_, block)| block.frame / FRAMES).collect();
    core.may_change(1, pages.len() + 1)
}

/// The first leaf of a tree at or after a block: its first block and its page. `None` if there is none, or it can't be
/// read.
pub async fn leaf_from(
    core: &Core,
    met: &mut NumberMap<u64, u32>,
    volume: u32,
    tree: Tree,
    from: u64,
) -> Option<(u64, u64)> {
    loop {
        let found = leaf_in(&core.state.read().maps, met, volume, tree, from);
        match found {
            Ok(found) => return found,
            Err(need) => core.load(need).await.ok()?,
        }
    }
}

/// The first leaf of a tree at or after block `from`: its first block and its page. Shared pages that were met in
/// another volume are passed over.
fn leaf_in(
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
    let each = blocks_under(tree.level - 1);
    for index in from / each..FAN as u64 {
        let child = Tree { root: node[index as usize], level: tree.level - 1 };
        let base = index * each;
        if let Some((at, page)) = leaf_in(maps, met, volume, child, from.saturating_sub(base))? {
            return Ok(Some((base + at, page)));
        }
    }
    Ok(None)
}
