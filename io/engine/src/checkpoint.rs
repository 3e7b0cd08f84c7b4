//! Checkpoints: what has changed in the maps, the frame table and the catalog goes to the log beside what was there
//! before; then one superblock makes all of it valid, and journal and segments that are not needed any more free.
//!
//! Everything is written as it was at one moment, the cut, between two journal batches. The cut takes as long as
//! swapping some lists; pages that change before they are written keep their old version for it.
//!
//! Hosts go on between the cut and the superblock. What holds whatever they do meanwhile:
//!
//! - Each entry of a map page in the log is what it was at the cut: a slot that waited then, which the root lists with
//!   as many holders, or the block that had its bytes then, which the table counts as it was frozen, with the changes
//!   that the root notes for pages that were not in memory. So replay, which begins with the state of the cut, finds
//!   what it overwrites. A page that names slots is resolved when it is written, not at the cut: until the last one has
//!   been, no slot is forgotten, though hosts have overwritten it, and none is flushed ([`crate::slots::Slots::freeze`]).
//! - Which blocks there are is what the frozen table says: a frame that dies meanwhile keeps its entry there, and its
//!   segment stays until a later checkpoint, whose cut finds nothing live in it. Only this task moves frames, so none
//!   moves between the cut and the superblock.
//! - The same task flushes, cleans and releases, one thing at a time: it alone ends map pages, uses numbers of frames,
//!   and drops pages from memory. Hosts drop references; a page of the table that they leave empty is written as it was
//!   and counted for the checkpoint, not for what is in memory.

use crate::background::{Streams, Worker};
use crate::entry::{Kind, Node, encode_node};
use crate::error::failed;
use crate::frame::{self, ObjectKind};
use crate::map::{Maps, Need};
use crate::page_index::{CHUNK, PageIndex};
use crate::pages::NumberMap;
use crate::root::{Payload, Root, Unflushed, chunks_of};
use crate::space::{Location, Usage};
use crate::wake::pause;
use bytes::Bytes;
use shelf::{JournalPos, SegmentId, Superblock, wait};
use std::sync::Arc;

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

impl Worker {
    /// Writes a checkpoint.
    pub async fn checkpoint(&mut self) -> block::Result<()> {
        self.load_stale().await?;
        (self.space.leave, self.space.reduced_redundancy) = (0, true);
        let mut cut = self.cut();
        self.core.journal.pump();
        let nodes = std::mem::take(&mut cut.nodes);
        let moves = self.write_nodes(nodes).await?;
        let chunks = std::mem::take(&mut cut.map_chunks);
        self.write_chunks(ObjectKind::MapIndex, chunks, &moves, &mut cut.usage).await?;
        let tables = std::mem::take(&mut cut.tables);
        let moves = self.write_tables(tables).await?;
        let chunks = std::mem::take(&mut cut.table_chunks);
        self.write_chunks(ObjectKind::TableIndex, chunks, &moves, &mut cut.usage).await?;
        self.write_catalog(&mut cut).await?;
        let root = self.write_root(&mut cut).await?;
        self.publish(cut, root).await
    }

    /// After recovery the log has pages that name slots: they are written again, without them if they have been
    /// flushed.
    async fn load_stale(&mut self) -> block::Result<()> {
        for page in std::mem::take(&mut self.stale) {
            // One that can't be read stays as it is: whoever needs it is told.
            if self.core.load(Need::Map(page)).await.is_ok() {
                self.core.state.write().maps.mark(page);
            }
        }
        Ok(())
    }

    fn cut(&mut self) -> Cut {
        let mut state = self.core.state.write();
        let replay_from = self.core.journal.lock().cut();
        let state = &mut *state;
        let catalog = std::mem::take(&mut state.catalog.dirty).then(|| {
            let mut bytes = Vec::new();
            state.catalog.encode(&mut bytes);
            bytes
        });
        let maps = &mut state.maps;
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

    async fn location(&mut self, kind: ObjectKind, object: Bytes) -> block::Result<Location> {
        let stream = match kind {
            ObjectKind::Map | ObjectKind::Table => &mut self.streams.pages,
            _ => &mut self.streams.roots,
        };
        self.log_writes.metadata(kind, object.len() as u64);
        let placed = self.writer.location(stream, &mut self.space, object).await;
        let full = |_| block::Error::Stopped("no segment is left for a checkpoint".into());
        placed.map_err(failed)?.map_err(full)
    }

    async fn write_nodes(&mut self, numbers: Vec<u64>) -> block::Result<Moves> {
        let mut moves = Moves::default();
        for batch in numbers.chunks(self.core.options.tunables.checkpoint_pages) {
            let thawed: Vec<_> = {
                let mut state = self.core.state.write();
                batch.iter().filter_map(|number| thaw_node(&mut state.maps, *number)).collect()
            };
            for (number, body, resolved) in thawed {
                let node = resolved.as_ref().map_or(&*body, |resolved| &**resolved);
                let names_slots = node.iter().any(|entry| entry.is_slot());
                let object = frame::metadata(ObjectKind::Map, number, |out| encode_node(node, out));
                moves.insert(number, (self.location(ObjectKind::Map, object).await?, names_slots));
                let maps = &mut self.core.state.write().maps;
                if let Some(resolved) = &resolved {
                    maps.settle(number, &body, resolved);
                }
                if names_slots {
                    maps.mark(number);
                }
            }
            self.grant_credit();
            pause().await;
        }
        self.core.state.write().maps.slots.thaw();
        Ok(moves)
    }

    async fn write_tables(&mut self, numbers: Vec<u64>) -> block::Result<Moves> {
        let mut moves = Moves::default();
        for batch in numbers.chunks(self.core.options.tunables.checkpoint_pages) {
            let thawed: Vec<_> = {
                let pages = &mut self.core.state.write().maps.table.pages;
                batch.iter().filter_map(|number| Some((*number, pages.thaw(*number)?))).collect()
            };
            for (number, body) in thawed {
                let object = frame::metadata(ObjectKind::Table, number, |out| body.encode(out));
                moves.insert(number, (self.location(ObjectKind::Table, object).await?, false));
            }
            self.grant_credit();
            pause().await;
        }
        Ok(moves)
    }

    /// Writes the directory chunks of the cut with the new places of pages, and notes these in memory.
    async fn write_chunks(
        &mut self,
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
                false => self.location(kind, frame::metadata(kind, number, |out| chunk.encode(out))).await?,
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
    async fn write_parts(&mut self, kind: ObjectKind, bytes: &[u8]) -> block::Result<Vec<Location>> {
        let part =
            self.core.options.tunables.object_part_bytes.min(self.core.layout.segment_bytes as usize / 4);
        let mut locations = Vec::new();
        for (number, part) in bytes.chunks(part).enumerate() {
            let object = frame::metadata(kind, number as u64, |out| out.extend_from_slice(part));
            locations.push(self.location(kind, object).await?);
        }
        Ok(locations)
    }

    async fn write_catalog(&mut self, cut: &mut Cut) -> block::Result<()> {
        if let Some(bytes) = cut.catalog.take() {
            let locations = self.write_parts(ObjectKind::Catalog, &bytes).await?;
            let before = std::mem::replace(&mut self.catalog, locations);
            let current = &mut self.core.state.write().maps.usage;
            for counted in [current, &mut cut.usage] {
                before.iter().for_each(|location| counted.move_meta(*location, Location::default()));
                self.catalog.iter().for_each(|location| counted.move_meta(Location::default(), *location));
            }
        }
        Ok(())
    }

    async fn write_root(&mut self, cut: &mut Cut) -> block::Result<Vec<Location>> {
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
        let root = self.write_parts(ObjectKind::Root, &cut.root.encode()).await?;
        let current = &mut self.core.state.write().maps.usage;
        for counted in [current, &mut cut.usage] {
            root.iter().for_each(|location| counted.move_meta(Location::default(), *location));
        }
        Ok(root)
    }

    /// Makes everything durable, then valid; then frees what only the checkpoint before needed.
    async fn publish(&mut self, cut: Cut, root: Vec<Location>) -> block::Result<()> {
        let Streams { data, moved, pages, roots } = &mut self.streams;
        for stream in [data, moved, pages, roots] {
            self.writer.flush(stream).await.map_err(failed)?;
        }
        self.writer.finish().await.map_err(failed)?;
        let (done, synced) = wait();
        self.core.log.shelf().sync(done);
        synced.await.map_err(failed)?;
        self.core.journal.until(cut.replay_from - 1).await?;
        let oldest = cut.root.unflushed.first().map_or(cut.replay_from, |one| one.slot.batch);
        let journal_from = oldest.min(cut.replay_from);
        let payload = Payload { key: self.core.key, replay_from: cut.replay_from, root: root.clone() };
        let superblock =
            Superblock { journal_from: JournalPos(journal_from), payload: payload.encode().into() };
        let (done, written) = wait();
        self.core.log.shelf().write_superblock(superblock, done);
        written.await.map_err(failed)?;
        self.core.journal.trimmed(journal_from);
        self.root = root;
        let cleaned = std::mem::take(&mut self.cleaned) > 0;
        self.log_writes.checkpoints += 1;
        self.left_dirty = self.core.dirty_bytes();
        self.marked.clear();
        self.note_roots();
        let open = self.open_segments();
        for (segment, live) in (0..).zip(cut.usage.segments()) {
            if live.total() == 0 && !open.contains(&segment) {
                if self.space.free.insert(segment) {
                    self.core.log.shelf().discard(SegmentId(segment));
                }
                self.stuck.remove(&segment);
            }
        }
        if cleaned {
            self.end_round();
        }
        self.end_cycle();
        Ok(())
    }

    /// Tells the check where root and catalog are.
    pub fn note_roots(&self) {
        *self.roots.lock() = self.root.iter().chain(&self.catalog).copied().collect();
    }

    /// The segments that streams are writing to.
    pub fn open_segments(&self) -> Vec<u32> {
        let Streams { data, moved, pages, roots } = &self.streams;
        [data, moved, pages, roots].into_iter().filter_map(crate::log::Writer::segment).collect()
    }

    /// Number of segments with nothing live that a checkpoint would free.
    pub fn dead_segments(&self) -> usize {
        let open = self.open_segments();
        let state = self.core.state.read();
        let used = (0..).zip(state.maps.usage.segments());
        used.filter(|(segment, live)| {
            live.data == 0 && live.meta == 0 && !self.space.free.contains(segment) && !open.contains(segment)
        })
        .count()
    }
}

/// The directory whose chunks are of this kind.
pub fn page_index(kind: ObjectKind, maps: &mut Maps) -> &mut PageIndex {
    match kind {
        ObjectKind::MapIndex => &mut maps.page_index,
        _ => &mut maps.table.page_index,
    }
}

type Thawed = (u64, Arc<Node>, Option<Box<Node>>);

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
