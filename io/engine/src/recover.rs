//! Recovery: opens the newest checkpoint and replays the journal from there with the same [`State::apply`] that applies
//! changes of hosts.

use crate::background::Worker;
use crate::batch::{self, Blocks};
use crate::catalog::{Catalog, VolumeState};
use crate::cell::Contents;
use crate::codec::Malformed;
use crate::core::Core;
use crate::dedup;
use crate::engine::Engine;
use crate::entry::SlotId;
use crate::error::{failed, unusable};
use crate::frame::{self, ObjectKind};
use crate::frame_table::{FRAMES, MAX_FRAMES};
use crate::inconsistency::Findings;
use crate::index_log::IndexLog;
use crate::journal::Journal;
use crate::map::{Maps, Need};
use crate::options::Options;
use crate::page_index::{CHUNK, Chunk, PageIndex, PageInfo};
use crate::record::{Mutation, Record};
use crate::root::{Aside, Payload, Root};
use crate::slots::Slot;
use crate::space::{Location, Usage};
use crate::state::{Refusal, State};
use crate::validate::{self, MAX_NEXT_PAGE, MAX_PAGES};
use block::Error;
use bytes::Bytes;
use shelf::{Batch, JournalPos, Shelf, Superblock, join, wait};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Batch numbers are below this: slots have no room for larger ones.
const MAX_BATCHES: u64 = 1 << 45;

/// Why nothing is opened where fingerprints are wrong.
const UNRELIABLE: &str = "this processor computes AES (VAES) wrongly, so that deduplication would take different blocks for equal ones: \
    if QEMU emulates it, as QEMU 7.2 does without KVM, start that with `-cpu …,-vaes`; nothing was changed";

impl Engine {
    /// Opens the engine on a shelf, or formats it if the shelf is new. Everything acknowledged is available when
    /// this returns. The duration depends on the length of the journal, not on the amount of data in the log.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the shelf fails, or its contents are damaged, inconsistent, or of another version, and on a processor that
    /// computes fingerprints wrongly.
    pub async fn open(shelf: Arc<dyn Shelf>, options: Options) -> block::Result<Arc<Self>> {
        let mut findings = Findings::default();
        let engine = Self::open_reporting(shelf, options, &mut findings).await?;
        findings.found.into_iter().for_each(|what| engine.core.inconsistencies.note(what));
        Ok(engine)
    }

    /// Opens the engine to check and repair it: inconsistent metadata is left out, and returned as findings. The
    /// engine must have no other users, and may lack data.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the shelf fails, is empty, or has no usable root.
    pub async fn open_leniently(
        shelf: Arc<dyn Shelf>,
        options: Options,
    ) -> block::Result<(Arc<Self>, Vec<String>)> {
        let mut findings = Findings { lenient: true, ..Findings::default() };
        let engine = Self::open_reporting(shelf, options, &mut findings).await?;
        Ok((engine, findings.found))
    }

    async fn open_reporting(
        shelf: Arc<dyn Shelf>,
        options: Options,
        findings: &mut Findings,
    ) -> block::Result<Arc<Self>> {
        if !dedup::is_reliable() {
            return Err(Error::Stopped(UNRELIABLE.into()));
        }
        shelf.use_workers(&options.workers);
        let superblock = match shelf.superblock() {
            Some(superblock) => superblock,
            None => format(&shelf, &options).await?,
        };
        let malformed = |why: Malformed| unusable(format_args!("{why}, of which all copies are the same"));
        let version = Payload::version(&superblock.payload).map_err(malformed)?;
        if !options.formats.contains(&version) {
            let (oldest, newest) = (options.formats.start(), options.formats.end());
            let needs = if version > *newest { "a newer" } else { "an older" };
            return Err(Error::Stopped(format!(
                "the array is in format {version}: use {needs} release of Ashlar, this one reads format \
                 {oldest} to format {newest}; nothing was changed"
            )));
        }
        let payload = Payload::decode(&superblock.payload).map_err(malformed)?;
        let (done, batches) = wait();
        shelf.recover(superblock.journal_from, done);
        let batches = batches.await.map_err(failed)?;
        let first = superblock.journal_from.0;
        let numbered = batches.iter().zip(first..);
        if numbered.clone().any(|(batch, expected)| batch.pos.0 != expected) {
            return Err(unusable(format_args!("journal: not every batch from {first} on is there")));
        }
        let next = first.saturating_add(batches.len() as u64);
        if first == 0 || next > MAX_BATCHES {
            return Err(unusable(format_args!("superblock: journal batch {first} can't be the first one")));
        }
        if !(first..=next).contains(&payload.replay_from) {
            // Where replay has to begin is unknown.
            return Err(unusable(format_args!(
                "superblock: the journal is to be applied from batch {} on, but has batches {first} to {}",
                payload.replay_from,
                next - 1
            )));
        }
        let blocks = blocks(&batches);
        let journal = Journal::new(shelf.clone(), next, blocks.values(), options.tunables);
        let written = (payload.version, payload.key);
        let core = Core::new(shelf, options, written, State::default(), journal);
        let catalog = core.load_root(&payload, &blocks, findings).await?;
        core.make_room_for_frames(findings).await;
        let worker = Worker::new(core.clone(), payload.root, catalog);
        core.replay(&batches, &blocks, payload.replay_from, findings).await?;
        if findings.lenient {
            *core.journal_blocks.lock() = blocks;
        }
        tracing::info!(batches = batches.len(), next, "engine opened");
        Ok(Engine::new(worker))
    }
}

async fn format(shelf: &Arc<dyn Shelf>, options: &Options) -> block::Result<Superblock> {
    // The shelf may be an older one, on which the engine was never formatted to the end.
    let (done, batches) = wait();
    shelf.recover(JournalPos(1), done);
    if !batches.await.map_err(failed)?.is_empty() {
        return Err(unusable("journal: there are batches, but no superblock"));
    }
    let version = *options.formats.end();
    let payload = Payload { version, key: options.seed, replay_from: 1, root: Vec::new() };
    write_superblock(shelf, JournalPos(1), &payload).await
}

async fn write_superblock(
    shelf: &Arc<dyn Shelf>,
    journal_from: JournalPos,
    payload: &Payload,
) -> block::Result<Superblock> {
    let superblock = Superblock { journal_from, payload: payload.encode().into() };
    let (done, written) = wait();
    shelf.write_superblock(superblock.clone(), done);
    written.await.map_err(failed)?;
    Ok(superblock)
}

/// Where the parts of an object lie.
fn places(parts: &[Location]) -> String {
    parts.iter().map(Location::to_string).collect::<Vec<_>>().join("; ")
}

/// The blocks of batches.
fn blocks(batches: &[Batch]) -> BTreeMap<u64, Blocks> {
    batches.iter().map(|batch| (batch.pos.0, Blocks::of(batch))).collect()
}

/// The block that has a slot.
fn block_of(blocks: &BTreeMap<u64, Blocks>, slot: SlotId) -> Option<Contents> {
    blocks.get(&slot.batch)?.get(slot.page.into())
}

impl Core {
    /// Applies every record from batch `from` on.
    async fn replay(
        &self,
        batches: &[Batch],
        blocks: &BTreeMap<u64, Blocks>,
        from: u64,
        findings: &mut Findings,
    ) -> block::Result<()> {
        let mut window = Vec::new();
        for batch in batches.iter().filter(|batch| batch.pos.0 >= from) {
            let number = batch.pos.0;
            let records = batch::open(&batch.head, number, batch.body.len());
            let records = findings
                .fatal_err(format_args!("journal batch {number}, whose changes are lost"), records)?;
            window.extend(records.into_iter().flatten().map(|record| (number, record)));
            if window.len() >= self.options.tunables.replay_records {
                self.replay_window(std::mem::take(&mut window), blocks, findings).await?;
            }
        }
        self.replay_window(window, blocks, findings).await
    }

    async fn replay_window(
        &self,
        window: Vec<(u64, Record)>,
        blocks: &BTreeMap<u64, Blocks>,
        findings: &mut Findings,
    ) -> block::Result<()> {
        self.load_ahead(&window).await;
        for (batch, record) in &window {
            if let Err(why) = self.replay_record(record, *batch, blocks).await {
                let named =
                    record.iter().map(|mutation| format!("{}, ", mutation.summary())).collect::<String>();
                findings.fatal(format_args!("journal batch {batch}: {named}can't be applied: {why}"))?;
                self.lose_targets(record).await;
            }
        }
        Ok(())
    }

    /// Loads pages that records will need, many at a time. Pages that it misses, or can't read, are loaded where they
    /// are needed.
    async fn load_ahead(&self, window: &[(u64, Record)]) {
        let mut tried = BTreeSet::new();
        for _ in 0..self.options.tunables.replay_levels {
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

    async fn replay_record(
        &self,
        record: &Record,
        batch: u64,
        blocks: &BTreeMap<u64, Blocks>,
    ) -> std::result::Result<(), String> {
        let mut named = BTreeMap::new();
        for slot in record.iter().flat_map(|mutation| mutation.slots()) {
            let block = block_of(blocks, slot).ok_or_else(|| format!("{slot} does not exist"))?;
            named.insert(slot, block);
        }
        let page = |slot: SlotId| named.get(&slot).cloned().unwrap_or_default();
        let mut loaded = BTreeSet::new();
        loop {
            let need = {
                let mut state = self.state.write();
                check_slots(&state, record)?;
                match state.probe(record) {
                    Ok(()) => {
                        state.apply(record, batch, &page);
                        return Ok(());
                    }
                    Err(Refusal::Need(need)) => need,
                    Err(Refusal::Error(error)) => return Err(error.to_string()),
                    Err(Refusal::Changed | Refusal::Backpressure) => return Err("it was refused".into()),
                }
            };
            if !loaded.insert(need) {
                return Err(format!("{need} can't be read"));
            }
            self.try_load(need).await?;
        }
    }

    /// Marks the blocks as lost that a record which can't be applied would have changed: their old content must not
    /// be returned. A page that can't be loaded is noted: a repair, which compares less of a page, could read it.
    async fn lose_targets(&self, record: &Record) {
        for (number, block, count) in record.iter().filter_map(Mutation::target) {
            let mut tried = BTreeSet::new();
            loop {
                let mut missing = self.state.read().missing_ends(number, block, count);
                missing.retain(|need| tried.insert(*need));
                if missing.is_empty() {
                    break;
                }
                for need in missing {
                    if let (Err(_), Need::Map(page) | Need::Lost(page)) = (self.try_load(need).await, need) {
                        self.unapplied.lock().insert(page);
                    }
                }
            }
            self.state.write().lose(number, block, count);
        }
    }

    /// Loads the checkpoint from its root; returns the locations of the catalog.
    async fn load_root(
        &self,
        payload: &Payload,
        blocks: &BTreeMap<u64, Blocks>,
        findings: &mut Findings,
    ) -> block::Result<Vec<Location>> {
        if payload.root.is_empty() {
            return Ok(Vec::new());
        }
        let bytes = self.read_parts(ObjectKind::Root, &payload.root).await?;
        let malformed = |why| unusable(format_args!("{why} at {}", places(&payload.root)));
        let mut root = Root::decode(&bytes).map_err(malformed)?;
        let catalog = match root.catalog.is_empty() && root.map_chunks.is_empty() {
            // Older releases wrote none while nothing had been created.
            true => Catalog::default(),
            false => {
                let bytes = self.read_parts(ObjectKind::Catalog, &root.catalog).await?;
                Catalog::decode_reporting(&bytes, places(&root.catalog), findings)?
            }
        };
        let (maps, tables) = (ObjectKind::MapIndex, ObjectKind::TableIndex);
        let map_chunks = self.read_chunks(maps, &root.map_chunks, findings).await?;
        let table_chunks = self.read_chunks(tables, &root.table_chunks, findings).await?;
        if root.segments.len() > self.layout.segments as usize {
            let (more, there) = (root.segments.len(), self.layout.segments);
            findings.fatal(format_args!("checkpoint root: it has {more} segments, the shelf {there}"))?;
            root.segments.truncate(there as usize);
        }
        let mut state = self.state.write();
        state.catalog = catalog;
        state.done = std::mem::take(&mut root.done);
        let maps = &mut state.maps;
        maps.slots_before = payload.replay_from;
        take_chunks(&mut maps.page_index, map_chunks);
        take_chunks(&mut maps.table.page_index, table_chunks);
        self.take_index(maps, root.index.take(), findings);
        self.take_usage(maps, &root, &payload.root, findings);
        take_numbers(maps, &root, findings);
        take_pending(maps, &root, findings);
        for one in &root.unflushed {
            let takes = one.holders > 0 && maps.slots.takes(one.slot);
            match block_of(blocks, one.slot).filter(|_| takes && one.slot.batch < payload.replay_from) {
                Some(contents) => {
                    let (holders, volume, block) = (one.holders, one.volume, one.block);
                    maps.slots.add(one.slot, Slot { contents, holders, flushed: None, volume, block });
                }
                None => findings.fatal(format_args!(
                    "checkpoint root: {} waits with {} references, but is not in the journal, or in use already",
                    one.slot, one.holders
                ))?,
            }
        }
        take_aside(maps, &root, payload.replay_from, findings);
        check_roots(&mut state, findings)?;
        Ok(root.catalog)
    }

    /// Takes over where the deduplication index is, without what can't be right: it is a hint.
    fn take_index(&self, maps: &mut Maps, index: Option<IndexLog>, findings: &mut Findings) {
        let all = maps.all_frame_pages();
        let Some(mut index) = index else {
            maps.index_log = IndexLog::without_objects(all);
            return;
        };
        index.unread = index.unread.start.min(all.end)..index.unread.end.min(all.end);
        let wrong = index.locations().find(|location| !self.is_inside(*location));
        if let Some(wrong) = wrong {
            findings.note(format_args!(
                "checkpoint root: a part of the deduplication index lies outside of the log: {wrong}"
            ));
            index = IndexLog::without_objects(all);
        }
        maps.index_log = index;
    }

    /// Takes over the counters of a checkpoint. Metadata is recounted, because all of it is listed.
    fn take_usage(&self, maps: &mut Maps, root: &Root, parts: &[Location], findings: &mut Findings) {
        let max = u64::from(self.layout.segment_bytes);
        let (mut live, mut unique_blocks) = (root.segments.clone(), root.unique_blocks);
        for (segment, live) in live.iter_mut().enumerate().filter(|(_, live)| live.data > max) {
            findings
                .note(format_args!("checkpoint root: segment {segment} holds {} bytes of data", live.data));
            live.data = max;
        }
        let blocks = max / 16 * u64::from(self.layout.segments);
        if unique_blocks > blocks {
            findings.note(format_args!("checkpoint root: there are {unique_blocks} distinct blocks"));
            unique_blocks = blocks;
        }
        let mut usage = Usage::of_data(live, unique_blocks, self.layout.segments);
        let pages = maps.page_index.iter().chain(maps.table.page_index.iter()).map(|(_, info)| info.location);
        let chunks =
            maps.page_index.locations.values().chain(maps.table.page_index.locations.values()).copied();
        let index: Vec<Location> = maps.index_log.locations().collect();
        pages
            .chain(chunks)
            .chain(index)
            .chain(root.catalog.iter().copied())
            .for_each(|location| usage.add_meta(location));
        for (segment, (counted, kept)) in usage.segments().iter().zip(&root.segments).enumerate() {
            if counted.meta != kept.meta {
                let (counted, kept) = (counted.meta, kept.meta);
                findings.note(format_args!(
                    "checkpoint root: segment {segment} holds {counted} bytes of metadata, not {kept}"
                ));
            }
        }
        parts.iter().for_each(|location| usage.add_meta(*location));
        maps.usage = usage;
    }

    async fn read_parts(&self, kind: ObjectKind, locations: &[Location]) -> block::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for (number, location) in (0..).zip(locations) {
            let part = self.read_metadata(kind, number, *location).await;
            bytes.extend_from_slice(
                &part.map_err(|why| unusable(format_args!("part {number} of the {kind}: {why}")))?,
            );
        }
        Ok(bytes)
    }

    /// The payload of a metadata object, or why it can't be used.
    pub async fn read_metadata(
        &self,
        kind: ObjectKind,
        number: u64,
        location: Location,
    ) -> std::result::Result<Bytes, String> {
        if !self.is_inside(location) {
            return Err(format!("it lies outside of the log: {location}"));
        }
        let object = self.log.read(location).await.map_err(|why| format!("{why} at {location}"))?;
        frame::payload(&object, kind, number).map_err(|why| format!("{why} at {location}"))
    }

    /// Reads the chunks of a page index. Pages without a location are left out.
    async fn read_chunks(
        &self,
        kind: ObjectKind,
        chunks: &[(u64, Location)],
        findings: &mut Findings,
    ) -> block::Result<Vec<ReadChunk>> {
        let mut read = Vec::with_capacity(chunks.len());
        let mut known = BTreeSet::new();
        for group in chunks.chunks(self.options.tunables.reads_in_flight) {
            let objects =
                join(group.iter().map(|(number, location)| self.read_metadata(kind, *number, *location)))
                    .await;
            for (object, (number, location)) in objects.into_iter().zip(group) {
                let chunk = object
                    .and_then(|object| Chunk::decode(&object).map_err(|why| format!("{why} at {location}")));
                let max = if kind == ObjectKind::MapIndex { MAX_PAGES } else { MAX_FRAMES / FRAMES };
                let chunk = chunk.and_then(|chunk| match known.insert(*number) && *number < max / CHUNK {
                    true => Ok(chunk),
                    false => Err("it occurs twice, or is impossible".to_owned()),
                });
                match chunk {
                    Ok(mut chunk) => {
                        let changed = self.validate_infos(kind, *number, &mut chunk, findings)?;
                        read.push(ReadChunk { number: *number, location: *location, chunk, changed });
                    }
                    Err(why) => findings.fatal(format_args!("chunk {number} of the {kind}: {why}"))?,
                }
            }
        }
        Ok(read)
    }

    /// Leaves impossible infos out of a chunk; a page of the frame table only needs a location. True if it changed
    /// the chunk.
    fn validate_infos(
        &self,
        kind: ObjectKind,
        number: u64,
        chunk: &mut Chunk,
        findings: &mut Findings,
    ) -> block::Result<bool> {
        let (segments, bytes) = (self.layout.segments, self.layout.segment_bytes);
        let listed: Vec<(u64, PageInfo)> = chunk.iter().collect();
        let mut changed = false;
        for (index, info) in listed {
            let simple = PageInfo { refs: 1, location: info.location, ..PageInfo::default() };
            let fits = kind == ObjectKind::MapIndex || info == simple;
            let is_placed = !info.location.is_none() && validate::is_inside(info.location, segments, bytes);
            if !is_placed || !fits {
                let page = number * CHUNK + index;
                findings
                    .fatal(format_args!("page {page} in the {kind}: this entry is impossible: {info}"))?;
                let placed_table = is_placed && kind == ObjectKind::TableIndex;
                chunk.set(index, if placed_table { simple } else { PageInfo::default() });
                changed = true;
            }
        }
        Ok(changed)
    }

    /// Ensures that new frames get unused numbers, in a page of the frame table that can be read.
    async fn make_room_for_frames(&self, findings: &mut Findings) {
        let next = self.state.read().maps.table.next;
        if let Err(why) = self.try_load(Need::Table(next / FRAMES)).await {
            findings.note(why);
            self.state.write().maps.table.next = next.next_multiple_of(FRAMES);
        }
    }
}

/// A chunk of a page index as it was read.
struct ReadChunk {
    number: u64,
    location: Location,
    chunk: Chunk,
    /// It differs from the chunk in the log: impossible infos were left out.
    changed: bool,
}

/// Adds chunks; the next checkpoint writes those again that were changed.
fn take_chunks(page_index: &mut PageIndex, chunks: Vec<ReadChunk>) {
    for ReadChunk { number, location, chunk, changed } in chunks {
        page_index.load(number, chunk, location);
        if changed {
            page_index.mark(number);
        }
    }
}

impl State {
    /// The part of a range that a volume has.
    fn inside(&self, number: u32, block: u64, count: u64) -> (u64, u64) {
        let blocks = self.volume(number).map_or(0, |volume| VolumeState::blocks(volume.geometry));
        (block.min(blocks), block.saturating_add(count).min(blocks))
    }

    /// The map pages at the ends of a range of a volume that are not in memory.
    fn missing_ends(&self, number: u32, block: u64, count: u64) -> Vec<Need> {
        let (from, to) = self.inside(number, block, count);
        self.volume(number)
            .map_or_else(|_| Vec::new(), |volume| self.maps.missing_ends(volume.tree, from, to))
    }

    /// Marks blocks of a volume as lost, as far as pages are in memory.
    fn lose(&mut self, number: u32, block: u64, count: u64) {
        let (from, to) = self.inside(number, block, count);
        if let Some(volume) = self.catalog.volumes.get_mut(&number) {
            self.maps.set_lost(&mut volume.tree, from, to);
            self.catalog.dirty = true;
        }
    }
}

/// Fails if a record refers to a slot that is in use already, or too old, or twice to one.
fn check_slots(state: &State, record: &Record) -> std::result::Result<(), String> {
    let mut runs: SmallVec<[(SlotId, usize); 2]> = SmallVec::new();
    for mutation in record {
        let (first, count) = match mutation {
            Mutation::Slots { count, first, .. } => (*first, *count as usize),
            Mutation::Same { slot, .. } => (*slot, 1),
            _ => continue,
        };
        let mut named = (0..count).map(|n| first.offset(n));
        if let Some(slot) = named.find(|slot| !state.maps.slots.takes(*slot)) {
            return Err(format!("{slot} is in use already, or was trimmed"));
        }
        runs.extend((count > 0).then_some((first, count)));
    }
    runs.sort_unstable();
    let overlaps = |pair: &&[(SlotId, usize)]| {
        let ((before, count), (after, _)) = (pair[0], pair[1]);
        before.batch == after.batch && usize::from(before.page) + count > usize::from(after.page)
    };
    if let Some(pair) = runs.windows(2).find(overlaps) {
        return Err(format!("{} is named twice", pair[1].0));
    }
    Ok(())
}

/// The numbers of the next page and the next frame are beyond all that are in use.
fn take_numbers(maps: &mut Maps, root: &Root, findings: &mut Findings) {
    let pages = maps.page_index.last().map_or(0, |page| page + 1);
    let is_sane = (pages..MAX_NEXT_PAGE).contains(&root.next_page);
    if !is_sane {
        findings.note(format_args!(
            "checkpoint root: the next map page is {}, {pages} are in use",
            root.next_page
        ));
    }
    maps.next_page = if is_sane { root.next_page } else { pages };
    maps.page_count = maps.page_index.iter().count() as u64;
    // A map page may be named and be missing in the index: its number is not given to another before a repair knows.
    maps.free = if findings.lenient { Vec::new() } else { maps.page_index.gaps() };
    let next = maps.next_page;
    maps.free.retain(|page| *page < next);
    let frames = maps.table.page_index.last().map_or(0, |page| page * FRAMES);
    let is_sane = (frames..MAX_FRAMES).contains(&root.next_frame);
    if !is_sane {
        let next = root.next_frame;
        findings.note(format_args!(
            "checkpoint root: the next frame is {next}, but {frames} and more are in use"
        ));
    }
    maps.table.next = if is_sane { root.next_frame } else { frames + FRAMES };
}

/// Takes over work that was pending at the cut, as far as it refers to existing pages and frames.
fn take_pending(maps: &mut Maps, root: &Root, findings: &mut Findings) {
    let mut known = BTreeSet::new();
    for page in &root.orphans {
        let info = maps.page_index.get(*page);
        if info == PageInfo::default() || info.refs > 0 || !known.insert(*page) {
            findings
                .note(format_args!("checkpoint root: map page {page} is to be released, but it has {info}"));
            continue;
        }
        maps.orphans.push_back(*page);
    }
    for (page, _) in maps.page_index.iter().filter(|(page, one)| one.refs == 0 && !known.contains(page)) {
        findings.note(format_args!("map page {page} has no references, and is not to be released"));
    }
    for (block, change) in &root.deferred {
        if maps.table.page_index.get(block.frame / FRAMES).refs == 0 {
            findings.note(format_args!(
                "checkpoint root: {block}, which does not exist, has {change} more references"
            ));
            continue;
        }
        maps.table.deferred.entry(block.frame / FRAMES).or_default().push((*block, *change));
    }
}

/// Takes over flushed slots that the checkpoint could not replace in the map pages that name them.
fn take_aside(maps: &mut Maps, root: &Root, replay_from: u64, findings: &mut Findings) {
    for Aside { slot, holders, block } in root.aside.iter().copied() {
        let exists = maps.table.page_index.get(block.frame / FRAMES).refs > 0;
        if holders == 0 || !exists || slot.batch >= replay_from || maps.slots.is_held(slot) {
            findings.note(format_args!(
                "checkpoint root: {slot} is in {block} with {holders} references, but that does not exist, or {slot} is \
                 in use already"
            ));
            continue;
        }
        maps.slots.set_aside(slot, Slot { holders, flushed: Some(block), ..Slot::default() });
    }
}

/// Every volume's map begins with a page of its height, and is high enough.
fn check_roots(state: &mut State, findings: &mut Findings) -> block::Result<()> {
    let State { catalog, maps, .. } = state;
    for (number, volume) in &mut catalog.volumes {
        if let Some(page) = volume.tree.root.as_page() {
            let info = maps.page_index.get(page);
            if info.refs == 0 {
                findings.note(format_args!(
                    "volume {number}: its map begins with page {page}, which does not exist"
                ));
            } else if info.level != volume.tree.level {
                let (level, found) = (volume.tree.level, info.level);
                findings.fatal(format_args!(
                    "volume {number}: its map begins with page {page} at level {level}, which is at level {found}"
                ))?;
            }
        }
        let (blocks, before) = (VolumeState::blocks(volume.geometry), volume.tree);
        maps.grow_height(&mut volume.tree, blocks);
        catalog.dirty |= before != volume.tree;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_names_a_slot_twice_is_refused() {
        let slots = |batch, page, count| Mutation::Slots {
            volume: 1,
            block: u64::from(page) * 1000,
            count,
            first: SlotId { batch, page },
        };
        let same = |page| Mutation::Same { volume: 1, block: 7, count: 9, slot: SlotId { batch: 5, page } };
        let check =
            |mutations: [Mutation; 3]| check_slots(&State::default(), &mutations.into_iter().collect());
        assert_eq!(check([slots(5, 4, 2), slots(5, 0, 4), same(6)]), Ok(()));
        assert_eq!(check([slots(5, 0, 4), slots(6, 0, 4), slots(5, 2, 0)]), Ok(()), "other batches, or none");
        for twice in [[slots(5, 4, 2), slots(5, 0, 5), same(9)], [slots(5, 0, 4), same(3), slots(6, 0, 1)]] {
            assert!(check(twice.clone()).is_err_and(|why| why.contains("twice")), "{twice:?}");
        }
    }
}
