//! Opening: the newest checkpoint, then the journal from there on, applied by the same code that served the hosts.

use crate::background::Worker;
use crate::catalog::Catalog;
use crate::codec::Malformed;
use crate::core::Core;
use crate::directory::Chunk;
use crate::engine::{Engine, Options};
use crate::entry::{BLOCK, SlotId};
use crate::frame::{self, ObjectKind};
use crate::journal::Journal;
use crate::map::Need;
use crate::read::AT_ONCE;
use crate::record::{self, Record};
use crate::root::{Payload, Root, VERSION};
use crate::slots::Slot;
use crate::space::{Place, Usage};
use crate::state::{Refusal, State};
use crate::table::FRAMES;
use block::Error;
use bytes::Bytes;
use shelf::{Batch, JournalPos, Shelf, Superblock, join, wait};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Records whose pages are loaded ahead.
const WINDOW: usize = 1024;

/// Pages that are loaded ahead for one record at most: those on the way down to a leaf, and a few more.
const LEVELS: usize = 8;

impl Engine {
    /// Opens the engine on a shelf, or formats it when the shelf is new. Everything that was acknowledged is there
    /// when this is answered; it takes as long as the journal is long, whatever is in the log.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the shelf fails or what it holds is damaged, or of a newer version.
    pub async fn open(shelf: Arc<dyn Shelf>, options: Options) -> block::Result<Arc<Self>> {
        let superblock = match shelf.superblock() {
            Some(superblock) => superblock,
            None => format(&shelf, &options).await?,
        };
        let version = Payload::version(&superblock.payload).map_err(damaged)?;
        if version != VERSION {
            let needs = if version > VERSION { "a newer" } else { "an older" };
            return Err(Error::Stopped(format!(
                "the drives are in format {version}, which takes {needs} program: this one knows format {VERSION} alone"
            )));
        }
        let payload = Payload::decode(&superblock.payload).map_err(damaged)?;
        let (done, batches) = wait();
        shelf.recover(superblock.journal_from, done);
        let batches = batches.await.map_err(failed)?;
        let next = batches.last().map_or(superblock.journal_from.0, |last| last.pos.0 + 1);
        let next = next.max(payload.replay_from);
        let numbered = batches.iter().zip(superblock.journal_from.0..);
        if numbered.clone().any(|(batch, expected)| batch.pos.0 != expected) {
            return Err(damaged(Malformed("journal: a batch is missing")));
        }
        let journal = Journal::new(shelf.clone(), next, &batches);
        let core = Core::new(shelf, options, payload.key, State::default(), journal);
        let catalog = core.load_root(&payload, &batches).await?;
        let worker = Worker::new(core.clone(), payload.root, catalog);
        core.replay(&batches, payload.replay_from).await?;
        tracing::info!(batches = batches.len(), next, "engine opened");
        Ok(Engine::new(worker))
    }
}

pub(crate) fn failed(error: shelf::Error) -> Error {
    Error::Stopped(error.to_string())
}

pub(crate) fn damaged(error: Malformed) -> Error {
    Error::Stopped(error.to_string())
}

async fn format(shelf: &Arc<dyn Shelf>, options: &Options) -> block::Result<Superblock> {
    // The shelf may be an older one, on which the engine was never formatted to the end.
    let (done, batches) = wait();
    shelf.recover(JournalPos(1), done);
    if !batches.await.map_err(failed)?.is_empty() {
        return Err(damaged(Malformed("journal: there are batches, but no superblock")));
    }
    let payload = Payload { key: options.seed, replay_from: 1, root: Vec::new() };
    let superblock = Superblock { journal_from: JournalPos(1), payload: payload.encode().into() };
    let (done, written) = wait();
    shelf.write_superblock(superblock.clone(), done);
    written.await.map_err(failed)?;
    Ok(superblock)
}

/// The pages of batches, by slot.
struct Bodies<'a>(BTreeMap<u64, &'a Batch>);

impl Bodies<'_> {
    fn page(&self, slot: SlotId) -> Option<Bytes> {
        let body = &self.0.get(&slot.batch)?.body;
        let at = usize::from(slot.page) * BLOCK;
        (at + BLOCK <= body.len()).then(|| body.slice(at..at + BLOCK))
    }
}

fn bodies(batches: &[Batch]) -> Bodies<'_> {
    Bodies(batches.iter().map(|batch| (batch.pos.0, batch)).collect())
}

impl Core {
    /// Applies every record from batch `from` on.
    async fn replay(&self, batches: &[Batch], from: u64) -> block::Result<()> {
        let bodies = bodies(batches);
        let mut window = Vec::new();
        for batch in batches.iter().filter(|batch| batch.pos.0 >= from) {
            let records = record::open(&batch.head, batch.pos.0, batch.body.len()).map_err(damaged)?;
            window.extend(records.into_iter().map(|record| (batch.pos.0, record)));
            if window.len() >= WINDOW {
                self.replay_window(std::mem::take(&mut window), &bodies).await?;
            }
        }
        self.replay_window(window, &bodies).await
    }

    async fn replay_window(&self, window: Vec<(u64, Record)>, bodies: &Bodies<'_>) -> block::Result<()> {
        self.load_ahead(&window).await;
        for (batch, record) in &window {
            self.replay_record(record, *batch, bodies).await?;
        }
        Ok(())
    }

    /// Loads pages that records will need, many at a time. What it misses, or can't read, is loaded where it is needed.
    async fn load_ahead(&self, window: &[(u64, Record)]) {
        let mut tried = BTreeSet::new();
        for _ in 0..LEVELS {
            let needs: BTreeSet<Need> = {
                let state = self.state.read();
                let need = |record: &Record| match state.probe(record) {
                    Err(Refusal::Need(need)) => Some(need),
                    _ => None,
                };
                window.iter().filter_map(|(_, record)| need(record)).collect()
            };
            let new: Vec<Need> = needs.difference(&tried).copied().collect();
            self.load_many(new.iter().copied()).await;
            if new.is_empty() {
                return;
            }
            tried.extend(new);
        }
    }

    async fn replay_record(&self, record: &Record, batch: u64, bodies: &Bodies<'_>) -> block::Result<()> {
        let named = record.iter().flat_map(|action| action.slots());
        for slot in named {
            if bodies.page(slot).is_none() {
                return Err(damaged(Malformed("journal: a record names a page that is not there")));
            }
        }
        let page = |slot| bodies.page(slot).unwrap_or_default();
        loop {
            let need = {
                let mut state = self.state.write();
                match state.probe(record) {
                    Ok(()) => {
                        record.iter().for_each(|action| state.apply(action, batch, &page));
                        return Ok(());
                    }
                    Err(Refusal::Need(need)) => need,
                    Err(other) => {
                        let why = format!("journal batch {batch}: {other:?} on replay of {record:?}");
                        return Err(Error::Stopped(why));
                    }
                }
            };
            self.load(need).await?;
        }
    }

    /// Loads what the checkpoint's root says; answers with the places of the catalog.
    async fn load_root(&self, payload: &Payload, batches: &[Batch]) -> block::Result<Vec<Place>> {
        if payload.root.is_empty() {
            return Ok(Vec::new());
        }
        let root = Root::decode(&self.read_parts(ObjectKind::Root, &payload.root).await?).map_err(damaged)?;
        let catalog = self.read_parts(ObjectKind::Catalog, &root.catalog).await?;
        let catalog_state = Catalog::decode(&catalog).map_err(damaged)?;
        let map_chunks = self.read_chunks(ObjectKind::MapDirectory, &root.map_chunks).await?;
        let table_chunks = self.read_chunks(ObjectKind::TableDirectory, &root.table_chunks).await?;
        if root.segments.len() > self.layout.segments as usize {
            return Err(damaged(Malformed("checkpoint root: it has more segments than the shelf")));
        }
        let mut state = self.state.write();
        state.catalog = catalog_state;
        let maps = &mut state.maps;
        maps.usage = Usage::from_root(&root, self.layout.segments);
        payload.root.iter().for_each(|place| maps.usage.move_meta(Place::default(), *place));
        for (number, place, chunk) in map_chunks {
            maps.listings.load(number, chunk, place);
        }
        for (number, place, chunk) in table_chunks {
            maps.table.directory.load(number, chunk, place);
        }
        maps.table.next = root.next_frame;
        maps.next_page = root.next_page;
        maps.orphans = root.orphans.iter().copied().collect();
        for (block, change) in &root.deferred {
            maps.table.deferred.entry(block.frame / FRAMES).or_default().push((*block, *change));
        }
        let taken: BTreeSet<u64> =
            maps.listings.iter().map(|(page, _)| page).chain(root.orphans.iter().copied()).collect();
        maps.free = (0..maps.next_page).rev().filter(|page| !taken.contains(page)).collect();
        let bodies = bodies(batches);
        for one in &root.unflushed {
            let missing = damaged(Malformed("journal: the checkpoint names a page that is not there"));
            let page = bodies.page(one.slot).ok_or(missing)?;
            let slot =
                Slot { page, holders: one.holders, flushed: None, volume: one.volume, block: one.block };
            maps.slots.add(one.slot, slot);
        }
        Ok(root.catalog)
    }

    async fn read_parts(&self, kind: ObjectKind, places: &[Place]) -> block::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for (number, place) in (0..).zip(places) {
            bytes.extend_from_slice(&self.read_metadata(kind, number, *place).await?);
        }
        Ok(bytes)
    }

    async fn read_metadata(&self, kind: ObjectKind, number: u64, place: Place) -> block::Result<Bytes> {
        let inside = place.segment < self.layout.segments
            && u64::from(place.offset) + u64::from(place.len) <= u64::from(self.layout.segment_bytes);
        if !inside {
            return Err(damaged(Malformed("checkpoint: a place outside the log")));
        }
        let object = self.log.read(place).await.map_err(failed)?;
        frame::payload(&object, kind, number).map_err(damaged)
    }

    async fn read_chunks(
        &self,
        kind: ObjectKind,
        chunks: &[(u64, Place)],
    ) -> block::Result<Vec<(u64, Place, Chunk)>> {
        let mut read = Vec::with_capacity(chunks.len());
        for group in chunks.chunks(AT_ONCE) {
            let objects =
                join(group.iter().map(|(number, place)| self.read_metadata(kind, *number, *place))).await;
            for (object, (number, place)) in objects.into_iter().zip(group) {
                read.push((*number, *place, Chunk::decode(&object?).map_err(damaged)?));
            }
        }
        Ok(read)
    }
}
