//! Checkpoints: write what changed in the maps, the frame table and the catalog to the log beside the old version;
//! then one superblock makes all of it valid, and the journal and segments that only the old version needed free.
//!
//! Everything is written as it was at one moment, the cut, between two journal batches. The cut takes as long as
//! swapping some lists; a page that changes before it is written keeps its old version for that.
//!
//! Hosts go on between the cut and the superblock. Whatever they do, these hold:
//!
//! - Each entry of a written map page is what it was at the cut: a slot that waited then, which the root lists with
//!   as many holders, or the block that had its bytes then. The frozen frame table counts that block, with the
//!   deferred changes that the root lists. So replay, which begins with the state of the cut, finds what it
//!   overwrites. A page that names slots is resolved when it is written, not at the cut: until the last one has been
//!   written, no slot is forgotten, though hosts have overwritten it, and none is flushed
//!   ([`crate::slots::Slots::freeze`]).
//! - A page that names slots and can't be read is not written. The root lists the flushed slots that it names, so that
//!   it has its data when its drives are back ([`crate::slots::Slots::set_aside`]).
//! - The frozen table says which blocks exist: a frame that dies during the checkpoint keeps its entry there, and its segment
//!   stays until a later checkpoint, whose cut finds nothing live in it. Only this task moves frames, so none moves
//!   between the cut and the superblock.
//! - The same task flushes, cleans and releases, one thing at a time: it alone ends map pages, uses frame numbers,
//!   and evicts pages from memory. Hosts drop references; a page of the table that they leave empty is written as it
//!   was and counted for the checkpoint, not for what is in memory.

use crate::appender::Appender;
use crate::core::Core;
use crate::entry::{Kind, Node, SlotId, encode_node};
use crate::error::failed;
use crate::frame::{self, ObjectKind};
use crate::frame_table::TablePage;
use crate::map::{Maps, Need};
use crate::page_index::{CHUNK, PageIndex};
use crate::pages::NumberMap;
use crate::root::{Aside, INDEX_VERSION, Payload, Root, Unflushed, chunks_of};
use crate::space::{Location, Usage};
use crate::wake::pause;
use bytes::Bytes;
use parking_lot::Mutex;
use shelf::{JournalPos, Superblock, Wait, parts, wait};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Blocks that take a worker as long as a page of a map.
const BLOCKS_PER_PAGE: usize = 8;

/// The state at one moment, as far as it is not in frozen pages.
struct Cut {
    replay_from: u64,
    nodes: Vec<u64>,
    tables: Vec<u64>,
    map_chunks: Vec<u64>,
    table_chunks: Vec<u64>,
    catalog: Option<Vec<u8>>,
    usage: Usage,
    root: Root,
}

/// Where the checkpoint put pages of one kind, and whether they name slots.
type Moves = NumberMap<u64, (Location, bool)>;

/// Writes checkpoints, and remembers where the last one is.
pub struct Checkpointer {
    core: Arc<Core>,
    /// Location of the root of the last checkpoint.
    root: Vec<Location>,
    /// Last location of the catalog.
    catalog: Vec<Location>,
    /// Root and catalog, for the check.
    roots: Arc<Mutex<Vec<Location>>>,
    /// Pages in the log that name slots and are not dirty in memory.
    stale: Vec<u64>,
    /// Dirty metadata in bytes that the last checkpoint left: pages with blocks that had not been flushed.
    left_dirty_bytes: u64,
    /// The newest batch when the journal was last trimmed because the shelf wanted it.
    trimmed_batch: u64,
}

impl Checkpointer {
    /// A checkpointer after the checkpoint whose root and catalog lie there.
    pub fn new(core: Arc<Core>, root: Vec<Location>, catalog: Vec<Location>) -> Self {
        let state = core.state.read();
        let pages = state.maps.page_index.iter();
        let stale = pages.filter(|(_, info)| info.names_slots).map(|(page, _)| page).collect();
        drop(state);
        let checkpointer = Self {
            core,
            root,
            catalog,
            roots: Arc::default(),
            stale,
            left_dirty_bytes: 0,
            trimmed_batch: u64::MAX,
        };
        checkpointer.note_roots();
        checkpointer
    }

    /// Starts over with the state that a repair left.
    pub fn restart(&self) -> Self {
        let new = Self::new(self.core.clone(), self.root.clone(), self.catalog.clone());
        Self { roots: self.roots.clone(), ..new }
    }

    /// Where the catalog lies.
    pub fn catalog(&self) -> &[Location] {
        &self.catalog
    }

    /// Where root and catalog lie, as of the last checkpoint.
    pub fn roots(&self) -> Arc<Mutex<Vec<Location>>> {
        self.roots.clone()
    }

    /// Dirty metadata in bytes that the last checkpoint left.
    pub fn left_dirty_bytes(&self) -> u64 {
        self.left_dirty_bytes
    }

    /// Whether a checkpoint is due: for room in the journal, or because too much metadata is dirty.
    pub fn is_due(&self) -> bool {
        let (journal, tunables) = (&self.core.journal, &self.core.options.tunables);
        let wanted = self.core.throttle.wanted_journal_bytes();
        let limit = journal.limit();
        let (used, worth) = (journal.used(), limit / tunables.trim_divisor);
        let short = wanted > 0 && used > limit / 4 || journal.is_crowded(wanted, true);
        let min = tunables.trim_min_bytes.min(limit / tunables.trim_min_divisor);
        if used > limit / 2 && self.trims(worth) || short && self.trims(min) {
            self.core.throttle.end_journal_wants();
            return true;
        }
        let limit = self.core.dirty_limit();
        self.core.dirty_bytes() > (limit + self.left_dirty_bytes).min(2 * limit)
    }

    /// Whether a checkpoint would free this many bytes of the journal now, or everything that can be flushed has been.
    /// A checkpoint that frees nothing writes nearly as much as others: while flushing waits for cleaning, it would
    /// fill the segments that cleaning gains.
    fn trims(&self, bytes: u64) -> bool {
        let flushed = self.core.state.read().maps.slots.flushed_before();
        self.core.journal.has_before(flushed, bytes)
    }

    /// Whether the shelf wants the journal trimmed, and that was not tried since something was written.
    pub fn wants_trim(&mut self) -> bool {
        let durable = self.core.journal.durable();
        self.core.log.shelf().wants_trim() && std::mem::replace(&mut self.trimmed_batch, durable) != durable
    }

    /// Writes a checkpoint; returns the segments that it freed.
    pub async fn write(&mut self, appender: &mut Appender) -> block::Result<Vec<u32>> {
        self.load_stale().await;
        appender.begin_checkpoint();
        let mut cut = self.cut();
        self.core.journal.pump();
        let nodes = std::mem::take(&mut cut.nodes);
        let moves = self.write_nodes(appender, nodes).await?;
        let chunks = std::mem::take(&mut cut.map_chunks);
        self.write_chunks(appender, ObjectKind::MapIndex, chunks, &moves, &mut cut.usage).await?;
        let tables = std::mem::take(&mut cut.tables);
        let moves = self.write_tables(appender, tables).await?;
        let chunks = std::mem::take(&mut cut.table_chunks);
        self.write_chunks(appender, ObjectKind::TableIndex, chunks, &moves, &mut cut.usage).await?;
        self.write_catalog(appender, &mut cut).await?;
        let root = self.write_root(appender, &mut cut).await?;
        self.publish(appender, cut, root).await
    }

    /// After recovery the log has pages that name slots: they are written again, without them if they have been
    /// flushed.
    async fn load_stale(&mut self) {
        for page in std::mem::take(&mut self.stale) {
            if self.core.load(Need::Map(page)).await.is_ok() {
                self.core.state.write().maps.mark(page);
            } else {
                // It stays as it is in the log: its drives may be back at the next start, or before.
                self.stale.push(page);
            }
        }
    }

    fn cut(&mut self) -> Cut {
        let mut state = self.core.state.write();
        let replay_from = self.core.journal.lock().cut();
        let state = &mut *state;
        // Every checkpoint has a catalog, also the first one of an array in which nothing was created yet.
        let changed = std::mem::take(&mut state.catalog.dirty) || self.catalog.is_empty();
        let catalog = changed.then(|| {
            let mut bytes = Vec::new();
            state.catalog.encode(&mut bytes);
            bytes
        });
        let maps = &mut state.maps;
        let aside = set_aside(maps, &mut self.stale);
        let unflushed = maps.slots.waiting().map(|(slot, found)| Unflushed {
            slot,
            holders: found.holders,
            volume: found.volume,
            block: found.block,
        });
        let deferred = maps.table.deferred.values().flatten().copied().filter(|(_, change)| *change != 0);
        let root = Root {
            next_frame: maps.table.next,
            next_page: maps.next_page,
            unique_blocks: maps.usage.unique_blocks,
            orphans: maps.orphans.iter().copied().collect(),
            deferred: deferred.collect(),
            unflushed: unflushed.collect(),
            aside,
            done: state.done.clone(),
            index: (self.core.format.active() >= INDEX_VERSION).then(|| maps.index_log.clone()),
            ..Root::default()
        };
        maps.slots.freeze();
        maps.slots_before = replay_from;
        Cut {
            replay_from,
            nodes: maps.nodes.freeze(),
            tables: maps.table.pages.freeze(),
            map_chunks: maps.page_index.freeze(),
            table_chunks: maps.table.page_index.freeze(),
            catalog,
            usage: maps.usage.clone(),
            root,
        }
    }

    async fn write_nodes(&mut self, appender: &mut Appender, numbers: Vec<u64>) -> block::Result<Moves> {
        let mut moves = Moves::default();
        for batch in numbers.chunks(self.core.options.tunables.checkpoint_pages) {
            let thawed: Vec<_> = {
                let mut state = self.core.state.write();
                batch.iter().filter_map(|number| thaw_node(&mut state.maps, *number)).collect()
            };
            for job in self.encode(thawed, encode_page) {
                for (page, names_slots, object) in job.await.map_err(failed)? {
                    let (number, body, resolved) = page;
                    let location = appender.append_metadata(ObjectKind::Map, object).await?;
                    moves.insert(number, (location, names_slots));
                    let maps = &mut self.core.state.write().maps;
                    if let Some(resolved) = &resolved {
                        maps.settle(number, &body, resolved);
                    }
                    if names_slots {
                        maps.mark(number);
                    }
                }
            }
            appender.grant_credit();
            pause().await;
        }
        self.core.state.write().maps.slots.thaw();
        Ok(moves)
    }

    /// Lets workers encode pages; returns what to wait for, in order.
    fn encode<P: Send + 'static, O: Send + 'static>(
        &self,
        pages: Vec<P>,
        encode: impl Fn(P) -> O + Clone + Send + 'static,
    ) -> Vec<Wait<Vec<O>>> {
        let each = self.core.options.tunables.job_blocks.div_ceil(BLOCKS_PER_PAGE);
        let job = move |part: Vec<P>| part.into_iter().map(&encode).collect();
        self.core.options.workers.compute_all(parts(pages, each), job)
    }

    async fn write_tables(&mut self, appender: &mut Appender, numbers: Vec<u64>) -> block::Result<Moves> {
        let mut moves = Moves::default();
        for batch in numbers.chunks(self.core.options.tunables.checkpoint_pages) {
            let thawed: Vec<_> = {
                let pages = &mut self.core.state.write().maps.table.pages;
                batch.iter().filter_map(|number| Some((*number, pages.thaw(*number)?))).collect()
            };
            let encode = |(number, body): (u64, Arc<TablePage>)| {
                (number, frame::metadata(ObjectKind::Table, number, |out| body.encode(out)))
            };
            for job in self.encode(thawed, encode) {
                for (number, object) in job.await.map_err(failed)? {
                    moves.insert(number, (appender.append_metadata(ObjectKind::Table, object).await?, false));
                }
            }
            appender.grant_credit();
            pause().await;
        }
        Ok(moves)
    }

    /// Writes the index chunks of the cut with the new locations of pages, and updates these in memory.
    async fn write_chunks(
        &mut self,
        appender: &mut Appender,
        kind: ObjectKind,
        numbers: Vec<u64>,
        moves: &Moves,
        usage: &mut Usage,
    ) -> block::Result<()> {
        for number in numbers {
            let Some(frozen) = page_index(kind, &mut self.core.state.write().maps).thaw(number) else {
                continue;
            };
            let mut chunk = (*frozen).clone();
            let mut moved = Vec::new();
            for index in 0..CHUNK {
                let page = number * CHUNK + index;
                if let Some((location, names_slots)) = moves.get(&page) {
                    let mut info = chunk.get(index);
                    moved.push((page, info.location, *location, *names_slots));
                    (info.location, info.names_slots) = (*location, *names_slots);
                    chunk.set(index, info);
                }
            }
            let location = match chunk.is_empty() {
                true => Location::default(),
                false => {
                    appender
                        .append_metadata(kind, frame::metadata(kind, number, |out| chunk.encode(out)))
                        .await?
                }
            };
            let mut state = self.core.state.write();
            let maps = &mut state.maps;
            for (_, old, new, _) in &moved {
                usage.move_meta(*old, *new);
            }
            let current = &mut maps.usage;
            let page_index = match kind {
                ObjectKind::MapIndex => &mut maps.page_index,
                _ => &mut maps.table.page_index,
            };
            page_index.moved(number, &moved, current, kind == ObjectKind::TableIndex);
            let before = match location.is_none() {
                true => page_index.locations.remove(&number),
                false => page_index.locations.insert(number, location),
            };
            for counted in [current, usage] {
                counted.move_meta(before.unwrap_or_default(), location);
            }
        }
        Ok(())
    }

    /// Writes bytes of any length in parts.
    async fn write_parts(
        &mut self,
        appender: &mut Appender,
        kind: ObjectKind,
        bytes: &[u8],
    ) -> block::Result<Vec<Location>> {
        let part =
            self.core.options.tunables.object_part_bytes.min(self.core.layout.segment_bytes as usize / 4);
        let mut locations = Vec::new();
        for (number, part) in bytes.chunks(part).enumerate() {
            let object = frame::metadata(kind, number as u64, |out| out.extend_from_slice(part));
            locations.push(appender.append_metadata(kind, object).await?);
        }
        Ok(locations)
    }

    async fn write_catalog(&mut self, appender: &mut Appender, cut: &mut Cut) -> block::Result<()> {
        if let Some(bytes) = cut.catalog.take() {
            let locations = self.write_parts(appender, ObjectKind::Catalog, &bytes).await?;
            let before = std::mem::replace(&mut self.catalog, locations);
            let current = &mut self.core.state.write().maps.usage;
            for counted in [current, &mut cut.usage] {
                before.iter().for_each(|location| counted.move_meta(*location, Location::default()));
                self.catalog.iter().for_each(|location| counted.move_meta(Location::default(), *location));
            }
        }
        Ok(())
    }

    async fn write_root(&mut self, appender: &mut Appender, cut: &mut Cut) -> block::Result<Vec<Location>> {
        let before = std::mem::take(&mut self.root);
        {
            let maps = &mut self.core.state.write().maps;
            for counted in [&mut maps.usage, &mut cut.usage] {
                before.iter().for_each(|location| counted.move_meta(*location, Location::default()));
            }
            cut.root.map_chunks = chunks_of(&maps.page_index.locations);
            cut.root.table_chunks = chunks_of(&maps.table.page_index.locations);
        }
        cut.root.catalog = self.catalog.clone();
        cut.root.segments = cut.usage.segments().to_vec();
        let root = self.write_parts(appender, ObjectKind::Root, &cut.root.encode()).await?;
        let current = &mut self.core.state.write().maps.usage;
        for counted in [current, &mut cut.usage] {
            root.iter().for_each(|location| counted.move_meta(Location::default(), *location));
        }
        Ok(root)
    }

    /// Makes everything durable, then valid; then frees what only the checkpoint before needed.
    async fn publish(
        &mut self,
        appender: &mut Appender,
        cut: Cut,
        root: Vec<Location>,
    ) -> block::Result<Vec<u32>> {
        appender.flush().await?;
        let (done, synced) = wait();
        self.core.log.shelf().sync(done);
        synced.await.map_err(failed)?;
        self.core.journal.until(cut.replay_from - 1).await?;
        let oldest = cut.root.unflushed.first().map_or(cut.replay_from, |one| one.slot.batch);
        let journal_from = oldest.min(cut.replay_from);
        let (version, key) = (self.core.format.next(), self.core.key);
        let payload = Payload { version, key, replay_from: cut.replay_from, root: root.clone() };
        let superblock =
            Superblock { journal_from: JournalPos(journal_from), payload: payload.encode().into() };
        let (done, written) = wait();
        self.core.log.shelf().write_superblock(superblock, done);
        written.await.map_err(failed)?;
        self.core.format.note_written(version);
        self.core.journal.trimmed(journal_from);
        self.root = root;
        self.left_dirty_bytes = self.core.dirty_bytes();
        self.note_roots();
        let open = appender.open_segments();
        let empty = (0..).zip(cut.usage.segments()).filter(|(_, live)| live.total() == 0);
        let unused = empty.map(|(segment, _)| segment).filter(|segment| !open.contains(segment));
        Ok(unused.filter(|segment| appender.free(*segment)).collect())
    }

    fn note_roots(&self) {
        *self.roots.lock() = self.root.iter().chain(&self.catalog).copied().collect();
    }
}

/// The page index whose chunks are of this kind.
pub fn page_index(kind: ObjectKind, maps: &mut Maps) -> &mut PageIndex {
    match kind {
        ObjectKind::MapIndex => &mut maps.page_index,
        _ => &mut maps.table.page_index,
    }
}

/// The flushed slots that map pages name which could not be read, and are not in memory to be written again; `unread` is
/// reduced to these pages. The slots are set aside: without them nothing would say where the bytes of such pages are
/// when they can be read again.
fn set_aside(maps: &mut Maps, unread: &mut Vec<u64>) -> Vec<Aside> {
    unread.retain(|page| maps.page_index.get(*page).names_slots && !maps.nodes.is_dirty(*page));
    if unread.is_empty() {
        return Vec::new();
    }
    let mut named: BTreeMap<SlotId, u64> = BTreeMap::new();
    for (_, node) in maps.nodes.iter().filter(|(page, _)| maps.nodes.is_dirty(*page)) {
        for entry in node.iter() {
            if let Kind::Slot(slot) = entry.kind() {
                *named.entry(slot).or_default() += 1;
            }
        }
    }
    let in_unread =
        |slot: SlotId, holders: u64| holders.saturating_sub(named.get(&slot).copied().unwrap_or(0));
    let aside: Vec<Aside> = maps
        .slots
        .iter()
        .filter_map(|(slot, found)| {
            Some(Aside { slot, holders: in_unread(slot, found.holders), block: found.flushed? })
        })
        .filter(|one| one.holders > 0)
        .collect();
    for one in &aside {
        if let Some(found) = maps.slots.get(one.slot).cloned() {
            maps.slots.set_aside(one.slot, found);
        }
    }
    aside
}

type Thawed = (u64, Arc<Node>, Option<Box<Node>>);

/// Encodes a map page; also returns whether it names slots.
fn encode_page(page: Thawed) -> (Thawed, bool, Bytes) {
    let (number, body, resolved) = &page;
    let node = resolved.as_ref().map_or(&**body, |resolved| &**resolved);
    let names_slots = node.iter().any(|entry| entry.is_slot());
    let object = frame::metadata(ObjectKind::Map, *number, |out| encode_node(node, out));
    (page, names_slots, object)
}

/// A page of the cut, with flushed slots replaced by their blocks if it names any.
fn thaw_node(maps: &mut Maps, number: u64) -> Option<Thawed> {
    let body = maps.nodes.thaw(number)?;
    for entry in body.iter() {
        if let Kind::Slot(slot) = entry.kind()
            && maps.slots.get(slot).is_none()
        {
            maps.slots.lose(slot);
        }
    }
    let flushed = body.iter().any(|entry| entry.is_slot() && maps.resolve(*entry) != *entry);
    let resolved = flushed.then(|| Box::new(body.map(|entry| maps.resolve(entry))));
    Some((number, body, resolved))
}
