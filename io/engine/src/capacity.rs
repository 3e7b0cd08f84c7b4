//! Capacity: admission of changes to the log while space is short.
//!
//! A part of the log is a reserve. Changes that grow, by data or by more maps, are refused when the rest is used up.
//! Changes that free space are not, though they may write map pages of their own: they may use half of the reserve.
//! The other half belongs to cleaning and to checkpoints, so that these always complete. How much a checkpoint may
//! have to write is bounded: changes wait for it beyond twice [`Core::dirty_limit`].

use crate::catalog::VolumeState;
use crate::change::Change;
use crate::core::Core;
use crate::entry::{BLOCK, Entry, FAN};
use crate::frame::{BLOCK_MAX_LOG_BYTES, FRAME_MAX_BYTES};
use crate::map::{Maps, Tree};
use crate::record::Mutation;
use crate::space::DiskSpace;
use crate::state::{Refusal, State};
use block::Error;
use std::sync::atomic::{AtomicU64, Ordering};

/// Changes that were refused with [`Error::NoSpace`] since the engine was opened, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceRefusals {
    /// The flusher had no room in the log.
    pub log: u64,
    /// The stored data and those of the change exceed the log without its reserve.
    pub capacity: u64,
    /// The change would make more map pages than [`crate::Options::map_pages`].
    pub map_pages: u64,
    /// The change frees space, or is small, and the part of the reserve that it may use is used up.
    pub reserve: u64,
}

/// Counts refusals for lack of space.
#[derive(Debug, Default)]
pub struct RefusalCounters([AtomicU64; 4]);

/// Why a change is refused: an index of [`RefusalCounters`].
#[derive(Clone, Copy, Debug)]
enum Shortage {
    Log,
    Capacity,
    MapPages,
    Reserve,
}

impl RefusalCounters {
    fn refuse(&self, change: &Change, why: Shortage) -> Refusal {
        // Before its data have been measured, a change is tried once more.
        if change.packed.is_some() || change.pages.is_empty() {
            self.0[why as usize].fetch_add(1, Ordering::Relaxed);
        }
        Error::NoSpace.into()
    }

    /// The counts.
    pub fn counts(&self) -> SpaceRefusals {
        let [log, capacity, map_pages, reserve] = self.0.each_ref().map(|it| it.load(Ordering::Relaxed));
        SpaceRefusals { log, capacity, map_pages, reserve }
    }
}

/// The part of the log that is reserved, as a divisor.
pub const RESERVE_DIVISOR: u32 = 8;

/// Bytes of an encoded map page. 512 entries of ten bytes would be more, but their values are near each other.
const MAP_PAGE_MAX_BYTES: u64 = 4096;

/// Bytes of an encoded page of the frame table, rather more than less: half of them describe the cells of 64 frames.
const TABLE_PAGE_MAX_BYTES: u64 = 2048;

/// Bytes of an encoded index chunk, rather more than less.
const INDEX_CHUNK_MAX_BYTES: u64 = 6 << 10;

/// Bytes of a new volume in the catalog, and again in the next catalog beside it.
const VOLUME_MAX_BYTES: u64 = 256;

/// Bytes that data leaves to cleaning where segments are small, and the same as a part of the reserve, as a divisor; the
/// smaller of both counts. A checkpoint is written whenever cleaning has used them up, and should then free more than
/// it fills.
const CLEANING_RESERVE_MAX_BYTES: u64 = 16 << 20;
const CLEANING_RESERVE_DIVISOR: u64 = 8;

/// Part of the log that is free after the deduplication index was written to it, as a divisor.
const INDEX_ROOM_DIVISOR: u64 = 32;

impl Core {
    /// Bytes of objects that segments hold for sure: the end of a segment stays empty where the next object does not fit.
    fn bytes_of(&self, segments: u32) -> u64 {
        let bytes = u64::from(self.layout.segment_bytes);
        u64::from(segments) * (bytes - FRAME_MAX_BYTES.min(bytes / 2))
    }

    /// Size of the log without the reserve, in the segments for which the present drives have room.
    pub fn total_bytes(&self) -> u64 {
        self.bytes_of(self.segments.usable().saturating_sub(self.reserve_segments()))
    }

    /// Notes how many segments are free.
    pub fn set_free(&self, segments: u32) {
        self.segments.set_free(segments);
        self.update_usable_segments();
    }

    /// Updates how many segments drives have room for.
    pub fn update_usable_segments(&self) {
        self.segments.set_room(self.log.shelf().room().any);
    }

    /// Sets whether the flusher is stuck without room in the log, which [`Core::check_capacity`] should have prevented.
    pub fn set_full(&self, full: bool) {
        if self.throttle.set_full(full) && full {
            tracing::warn!("the log is full");
        }
    }

    /// Segments that are reserved for checkpoints, for cleaning, and for changes that free space: a part of those that are usable.
    /// Where files as drives may not grow to their size, what they could not hold anyway needs no reserve.
    fn reserve_segments(&self) -> u32 {
        let segments = self.segments.usable();
        (segments / RESERVE_DIVISOR).max(16).min(segments / 2)
    }

    /// Bytes of the reserved segments.
    pub fn reserve_bytes(&self) -> u64 {
        u64::from(self.reserve_segments()) * u64::from(self.layout.segment_bytes)
    }

    /// Dirty metadata in bytes at which a checkpoint is written; at twice as much, changes wait.
    pub fn dirty_limit(&self) -> u64 {
        (self.reserve_bytes() / 32).min(self.options.tunables.dirty_bytes_max)
    }

    /// Upper bound of the bytes of metadata pages that a checkpoint would write.
    pub fn dirty_bytes(&self) -> u64 {
        dirty_bytes(&self.state.read())
    }

    /// Whether idle work may change `nodes` map pages and `tables` pages of the frame table before the next
    /// checkpoint, which has room for no more than twice [`Core::dirty_limit`].
    pub fn may_change(&self, nodes: usize, tables: usize) -> bool {
        let changed = nodes as u64 * (MAP_PAGE_MAX_BYTES + INDEX_CHUNK_MAX_BYTES)
            + tables as u64 * (TABLE_PAGE_MAX_BYTES + INDEX_CHUNK_MAX_BYTES);
        self.dirty_bytes() + changed <= 2 * self.dirty_limit()
    }

    /// Whether there is room to write stored blocks a second time, with this many free segments for them.
    pub fn has_room_to_move(&self, free: usize) -> bool {
        free > self.clean_below() && self.free_bytes(&self.state.read()) > 2 * self.dirty_limit()
    }

    /// Free segments that cleaning must leave to checkpoints. A checkpoint that a power loss interrupts leaves its
    /// work to the next, beside what has changed since: twice the amount at which changes wait.
    pub fn reserved_for_checkpoints(&self) -> usize {
        let max = 4 * self.dirty_limit() + renewed_bytes(&self.state.read());
        max.div_ceil(u64::from(self.layout.segment_bytes)) as usize
            + self.options.tunables.checkpoint_spare_segments
    }

    /// Free segments that data must leave to cleaning and checkpoints.
    pub fn reserved_from_data(&self) -> usize {
        let bytes = CLEANING_RESERVE_MAX_BYTES.min(self.reserve_bytes() / CLEANING_RESERVE_DIVISOR);
        let segments = bytes / u64::from(self.layout.segment_bytes);
        self.reserved_for_checkpoints()
            + self.options.tunables.cleaning_reserve_min_segments.max(segments as usize)
    }

    /// Free segments below which cleaning begins.
    pub fn clean_below(&self) -> usize {
        let tunables = &self.options.tunables;
        let reserve = self.reserve_bytes() / u64::from(self.layout.segment_bytes);
        let extra = (reserve as usize / tunables.clean_reserve_divisor).max(tunables.clean_min_segments);
        self.reserved_from_data() + 1 + extra
    }

    /// Bytes in use or promised, as if nothing that waits to be written reduced.
    pub fn used_bytes(&self, state: &State) -> u64 {
        let waiting = (state.maps.slots.bytes() / BLOCK) as u64 * BLOCK_MAX_LOG_BYTES;
        live_bytes(state) + state.maps.index_log.bytes() + waiting + dirty_bytes(state)
    }

    /// Whether the deduplication index may take this many bytes more of the log. It leaves a part of it to hosts, and twice what an
    /// operation has waited for: otherwise that operation would have it dropped again.
    pub fn has_room_for_index(&self, bytes: u64) -> bool {
        let state = self.state.read();
        let left = (self.total_bytes() / INDEX_ROOM_DIVISOR).max(2 * self.throttle.wanted_space_bytes());
        self.free_bytes(&state) >= bytes.saturating_add(left)
    }

    /// Whether the deduplication index has to leave the log: so little is free that hosts would soon be refused.
    pub fn needs_room_of_index(&self) -> bool {
        let state = self.state.read();
        self.free_bytes(&state) < self.total_bytes() / INDEX_ROOM_DIVISOR / 2
    }

    /// Bytes of segments in use that nothing refers to. A checkpoint that is being written is not counted yet.
    pub fn reclaimable_bytes(&self, state: &State) -> u64 {
        let taken = self.bytes_of(self.segments.used());
        taken.saturating_sub(state.maps.usage.physical + state.maps.usage.metadata)
    }

    /// Bytes that can still be written.
    pub fn free_bytes(&self, state: &State) -> u64 {
        self.total_bytes().saturating_sub(self.used_bytes(state))
    }

    /// Refuses a change that might not find space in the log. Data that waits to be flushed and metadata that waits
    /// for a checkpoint are counted at their worst: if that alone is the reason, the change waits until they have
    /// been written.
    pub fn check_capacity(&self, state: &State, change: &Change) -> Result<(), Refusal> {
        let pages = (change.pages.len() / BLOCK) as u64;
        let full = self.throttle.is_full();
        let growth = growth(state, &change.mutations);
        let needed = pages * BLOCK_MAX_LOG_BYTES + growth;
        if growth > 0 {
            self.check_map_pages(state, change, growth / MAP_PAGE_MAX_BYTES)?;
        }
        if needed > 0 {
            if full {
                // The background looks whether drives have room again.
                self.signal.notify();
                return Err(self.refusals.refuse(change, Shortage::Log));
            }
            if live_bytes(state) + needed > self.total_bytes() {
                // Overwriting continues if the new data takes less than the data that it replaces.
                let shrinks = change.packed.is_some_and(|packed| packed <= reclaimed_bytes(state, change));
                // The background looks whether drives were added.
                self.signal.notify();
                return if shrinks { Ok(()) } else { Err(self.refusals.refuse(change, Shortage::Capacity)) };
            }
            if self.free_bytes(state) < needed {
                if self.throttle.want_space(needed) {
                    // The background may have looked before this was wanted, and be at rest.
                    self.signal.notify();
                }
                return Err(Refusal::Backpressure);
            }
        }
        let (dirty, limit) = (dirty_bytes(state), self.dirty_limit());
        if dirty > 2 * limit && !full && change.mutations.iter().any(Mutation::changes_a_map) {
            return Err(Refusal::Backpressure);
        }
        let transient_growth = transient_growth(state, &change.mutations);
        // Even with fewer drives: freeing space is the way out.
        let max = self.bytes_of(self.segments.total() - self.reserve_segments() / 2);
        if transient_growth > 0 && live_bytes(state) + dirty + transient_growth > max {
            self.signal.notify();
            return Err(self.refusals.refuse(change, Shortage::Reserve));
        }
        Ok(())
    }
}

impl Core {
    /// Refuses a change that would make more map pages than [`crate::Options::map_pages`]: the page index of the maps is
    /// in memory, and is read whole when the array starts. `worst` is the most that the change can make.
    fn check_map_pages(&self, state: &State, change: &Change, worst: u64) -> Result<(), Refusal> {
        let left = self.options.map_pages.saturating_sub(state.maps.page_count);
        if worst <= left
            || change.mutations.iter().map(|mutation| pages_made(state, mutation)).sum::<u64>() <= left
        {
            return Ok(());
        }
        Err(self.refusals.refuse(change, Shortage::MapPages))
    }
}

/// Map pages that a mutation of [`growth`] makes, by what is in memory; pages that are not are taken to exist.
fn pages_made(state: &State, mutation: &Mutation) -> u64 {
    let written = |volume: u32, from: u64, count: u64| {
        let tree = state.volume(volume).map(|volume| volume.tree);
        tree.map_or(0, |tree| written_pages(&state.maps, tree, from, from + count, false))
    };
    match *mutation {
        Mutation::Slots { volume, block, count, .. } => written(volume, block, u64::from(count)),
        Mutation::Same { .. } | Mutation::Copy { .. } => {
            growth(state, std::slice::from_ref(mutation)) / MAP_PAGE_MAX_BYTES
        }
        _ => 0,
    }
}

/// Map pages that are made when every block of `from..to` is written.
fn written_pages(maps: &Maps, tree: Tree, from: u64, to: u64, shared: bool) -> u64 {
    if from >= to {
        return 0;
    }
    let Some(page) = tree.root.as_page() else {
        let of_level = |level| {
            (to - 1) / crate::entry::blocks_under(level) - from / crate::entry::blocks_under(level) + 1
        };
        return (0..=tree.level).map(of_level).sum();
    };
    let shared = shared || maps.page_index.get(page).refs > 1;
    let below = maps.nodes.get(page).filter(|_| tree.level > 0).map_or(0, |node| {
        let child = |(index, from, to): (usize, u64, u64)| {
            written_pages(maps, Tree { root: node[index], level: tree.level - 1 }, from, to, shared)
        };
        crate::map::children(tree.level, from, to).map(child).sum()
    });
    u64::from(shared) + below
}

fn dirty_bytes(state: &State) -> u64 {
    let (maps, tables) = (&state.maps, &state.maps.table);
    let chunks = (maps.page_index.dirty() + tables.page_index.dirty()) as u64;
    maps.nodes.dirty() as u64 * MAP_PAGE_MAX_BYTES
        + tables.pages.dirty() as u64 * TABLE_PAGE_MAX_BYTES
        + chunks * INDEX_CHUNK_MAX_BYTES
}

/// Upper bound of the bytes that every checkpoint writes whole: the catalog, and the root with the locations of
/// chunks, the live bytes of segments, the slots that wait and the commands that took effect.
fn renewed_bytes(state: &State) -> u64 {
    let maps = &state.maps;
    let chunks = maps.page_index.locations.len() + maps.table.page_index.locations.len();
    let lists = chunks + maps.usage.segments().len() + maps.slots.bytes() / BLOCK + maps.orphans.len();
    let lists = lists + maps.index_log.objects().len();
    state.catalog.bytes() + 16 * lists as u64 + 8 * state.done.len() as u64
}

/// Bytes of the log that are referred to, and the room to write the catalog and the root beside the old ones. Not the
/// deduplication index, which makes room where it is needed.
fn live_bytes(state: &State) -> u64 {
    let Maps { usage, index_log, .. } = &state.maps;
    usage.physical + usage.metadata - index_log.bytes() + renewed_bytes(state)
}

/// Upper bound of the bytes that mutations add permanently to the metadata of an array.
fn growth(state: &State, mutations: &[Mutation]) -> u64 {
    let height = |volume: u32| state.volume(volume).map_or(0, |volume| u64::from(volume.tree.level));
    let leaves = |blocks: u64| blocks.div_ceil(FAN as u64) + 1;
    let grows = |mutation: &Mutation| match *mutation {
        Mutation::Slots { volume, count, .. } => {
            (leaves(u64::from(count)) + height(volume)) * MAP_PAGE_MAX_BYTES
        }
        // The paths to both ends, and one page of each level for what lies between.
        Mutation::Same { volume, .. } => 3 * (height(volume) + 1) * MAP_PAGE_MAX_BYTES,
        Mutation::Copy { source, from, target, to, count } => {
            // Whole pages are shared if they can be; else there is a leaf for each mapped part.
            let mapped = state.volume(source).map_or(0, |source| state.maps.tally(source.tree).mapped);
            let copied = if Maps::shareable(from, to).is_some() { 0 } else { leaves(count.min(mapped)) };
            (copied + copied / FAN as u64 + 2 * (height(target) + 1)) * MAP_PAGE_MAX_BYTES
        }
        Mutation::Create { .. } | Mutation::Clone { .. } => VOLUME_MAX_BYTES,
        Mutation::Resize { volume, blocks } => {
            let grows = state.volume(volume).is_ok_and(|volume| blocks > volume.geometry.blocks);
            if grows { 8 * MAP_PAGE_MAX_BYTES } else { 0 }
        }
        _ => 0,
    };
    mutations.iter().map(grows).sum()
}

/// Upper bound of the bytes that mutations which free space, or are too small to refuse, add to the metadata for now.
fn transient_growth(state: &State, mutations: &[Mutation]) -> u64 {
    let grows_transiently = |mutation: &Mutation| match mutation {
        Mutation::Hole { volume, block, count, mapped } => {
            let hole = if *mapped { Entry::ZERO } else { Entry::UNMAPPED };
            let tree = state.volume(*volume).map(|volume| volume.tree);
            let pages =
                tree.map_or(0, |tree| new_pages(&state.maps, tree, *block, block + count, hole, false));
            pages * MAP_PAGE_MAX_BYTES
        }
        Mutation::Resize { volume, blocks } => {
            let shrinks = state.volume(*volume).is_ok_and(|volume| *blocks < volume.geometry.blocks);
            if shrinks { 8 * MAP_PAGE_MAX_BYTES } else { 0 }
        }
        Mutation::SaveState { volume, state: new } => {
            let old = state.volume(*volume).map_or(0, |volume| volume.saved.len());
            2 * new.len().saturating_sub(old) as u64
        }
        Mutation::PutRecord { key, value } => {
            let len = |value: &bytes::Bytes| value.len() + key.len();
            let old = state.catalog.records.get(key).map_or(0, len);
            2 * value.as_ref().map_or(0, len).saturating_sub(old) as u64
        }
        _ => 0,
    };
    mutations.iter().map(grows_transiently).sum()
}

/// Pages that are made when `from..to` becomes a hole: those at its ends that are shared, or do not exist yet.
fn new_pages(maps: &Maps, tree: Tree, from: u64, to: u64, hole: Entry, shared: bool) -> u64 {
    if from >= to || from == 0 && to == crate::entry::blocks_under(tree.level) {
        return 0;
    }
    let Some(page) = tree.root.as_page() else {
        return if tree.root == hole { 0 } else { 2 * u64::from(tree.level) + 1 };
    };
    let shared = shared || maps.page_index.get(page).refs > 1;
    let own = u64::from(shared);
    if tree.level == 0 {
        return own;
    }
    let Some(node) = maps.nodes.get(page) else { return 2 * u64::from(tree.level) + 1 };
    let below = |(index, from, to): (usize, u64, u64)| {
        new_pages(maps, Tree { root: node[index], level: tree.level - 1 }, from, to, hole, shared)
    };
    let mut touched = crate::map::children(tree.level, from, to);
    own + touched.next().map_or(0, below) + touched.next_back().map_or(0, below)
}

/// Bytes of the log that a change frees at once.
fn reclaimed_bytes(state: &State, change: &Change) -> u64 {
    let overwritten = |mutation: &Mutation| match *mutation {
        Mutation::Slots { volume, block, count, .. } => Some((volume, block, u64::from(count))),
        Mutation::Same { volume, block, count, .. } => Some((volume, block, count)),
        _ => None,
    };
    let won = |(volume, block, count)| {
        let tree = state.volume(volume).ok().map(|volume| volume.tree);
        tree.map_or(0, |tree| state.maps.exclusive_bytes(tree, block, block + count))
    };
    change.mutations.iter().filter_map(overwritten).map(won).sum()
}

/// Space of a volume.
pub fn disk_space(state: &State, volume: &VolumeState) -> DiskSpace {
    DiskSpace::new(volume.geometry.bytes(), state.maps.tally(volume.tree))
}
