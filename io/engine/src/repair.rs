//! Repair: brings inconsistent metadata into a state in which the check finds no defect.
//!
//! The maps are authoritative. All counters are recomputed from them. Blocks that they refer to and that do not exist are
//! marked as lost, so that hosts get an error and never zeros or other bytes; frames that no map refers to are freed.
//! Consistent metadata is not changed. Repair works in memory, on an engine that was opened leniently and has no other
//! users; one checkpoint then makes the result durable atomically.

use crate::catalog::VolumeState;
use crate::cell::indexes;
use crate::check::{Progress, ProgressSink};
use crate::core::Core;
use crate::engine::Engine;
use crate::entry::{BLOCK, BlockId, Entry, FAN, Kind, Node, SlotId, blocks_under};
use crate::frame_table::{FRAMES, Frame, TablePage};
use crate::map::{Need, Tree};
use crate::page_index::PageInfo;
use crate::pages::NumberMap;
use crate::slots::Slot;
use crate::space::{Location, Tally, Usage};
use crate::state::State;
use block::{DiskId, Error, Extent, Geometry, Result};
use shelf::join;
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;

/// Maximum number of runs of lost blocks that are listed for one volume.
const MAX_RUNS: usize = 1000;

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// The defects, a line each, with how each was repaired.
    pub defects: Vec<String>,
    /// Blocks that are lost.
    pub lost: Vec<Loss>,
}

/// The blocks that a volume or a snapshot has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The volume or snapshot.
    pub disk: DiskId,
    /// It is a snapshot.
    pub snapshot: bool,
    /// Its block length and size.
    pub geometry: Geometry,
    /// The blocks that read as errors now, those that were lost before included.
    pub extents: Vec<Extent>,
    /// True if there are more than are listed.
    pub more: bool,
}

/// A map page that was visited.
#[derive(Clone, Copy, Default)]
struct Visited {
    level: u8,
    refs: u64,
    tally: Tally,
    names_slots: bool,
    /// True if any block below it is lost.
    lossy: bool,
}

/// What the walk over the maps found.
#[derive(Default)]
struct Walk {
    frames: NumberMap<u64, u8>,
    pages: NumberMap<u64, Visited>,
    blocks: NumberMap<u64, u64>,
    slots: BTreeMap<SlotId, u64>,
    defects: Vec<String>,
}

impl Walk {
    /// Whether a valid frame has this block.
    fn is_stored(&self, block: BlockId) -> bool {
        self.frames.get(&block.frame).is_some_and(|stored| stored >> block.index & 1 == 1)
    }
}

/// A page of the frame table with its valid frames.
#[derive(Default)]
struct ValidTable {
    page: TablePage,
    /// The page on the drives has frames that do not exist.
    differs: bool,
}

/// Volume and position where a page is visited first.
#[derive(Clone, Copy)]
struct At {
    volume: u32,
    block: u64,
    level: u8,
}

impl Engine {
    /// Repairs the state in memory: the engine was opened by [`Engine::open_leniently`] and has no other users.
    /// Nothing is written before [`Engine::write_repair`].
    ///
    /// # Errors
    /// If something can't be read that may be readable when all drives are there, or memory does not hold what was
    /// opened.
    pub async fn repair(&self, found: Vec<String>, progress: ProgressSink<'_>) -> Result<Repair> {
        let core = &self.core;
        let mut walk = Walk { defects: found, ..Walk::default() };
        {
            let maps = &mut core.state.write().maps;
            maps.table.deferred.retain(|_, changes| !changes.is_empty());
            // Its entries may name what the repair frees.
            maps.drop_index_objects();
        }
        let tables = core.read_tables(&mut walk, progress).await?;
        core.walk_volumes(&mut walk, progress).await?;
        core.walk_orphans(&mut walk).await?;
        core.repair_page_index(&mut walk);
        core.repair_slots(&mut walk);
        core.repair_frame_table(tables, &mut walk);
        let roots = self.roots.lock().clone();
        core.repair_usage(&roots, &mut walk).await;
        let lost = core.losses(&walk).await?;
        core.unmap_beyond_ends(&walk).await?;
        Ok(Repair { defects: walk.defects, lost })
    }

    /// Makes the result of [`Engine::repair`] durable.
    ///
    /// # Errors
    /// If the shelf fails or has no room.
    pub async fn write_repair(&self) -> Result<()> {
        let Some(old) = self.worker.lock().take() else { return Err(Error::NotReady) };
        let mut worker = old.restart();
        self.core.state.write().catalog.dirty = true;
        let written = worker.checkpoint().await;
        *self.worker.lock() = Some(worker);
        written
    }
}

impl Core {
    /// The valid frames, as the pages of the table have them.
    async fn read_tables(
        &self,
        walk: &mut Walk,
        progress: ProgressSink<'_>,
    ) -> Result<BTreeMap<u64, ValidTable>> {
        let (pages, next): (Vec<(u64, Location)>, u64) = {
            let table = &self.state.read().maps.table;
            (table.page_index.iter().map(|(page, info)| (page, info.location)).collect(), table.next)
        };
        let mut tables = BTreeMap::new();
        let total = pages.len() as u64;
        for (done, (page, location)) in (0..).zip(pages) {
            progress(Progress { phase: "frames, by pages of the frame table,", done, total });
            let mut kept = ValidTable::default();
            let body = match self.read_table(page, location).await {
                Ok(body) => body,
                Err(why) => {
                    self.ensure_reachable(location).await?;
                    kept.differs = true;
                    walk.defects.push(format!("frame table page {page}: {why}: its frames are gone"));
                    TablePage::default()
                }
            };
            let frames: Vec<(u64, Frame)> =
                body.iter().map(|(index, frame)| (page * FRAMES + index, frame.clone())).collect();
            for group in frames.chunks(self.options.tunables.reads_in_flight) {
                let checks = group.iter().map(|(number, frame)| self.check_frame(*number, frame));
                for (outcome, (number, frame)) in join(checks).await.into_iter().zip(group) {
                    let is_inside = self.is_inside(frame.location);
                    match outcome {
                        Ok(()) => {
                            *kept.page.slot(number % FRAMES) = Some(frame.clone());
                            walk.frames.insert(*number, frame.stored);
                        }
                        Err(why) => {
                            if is_inside {
                                self.ensure_reachable(frame.location).await?;
                            }
                            kept.differs = true;
                            walk.defects
                                .push(format!("frame {number} at {}: {why}: it is gone", frame.location));
                        }
                    }
                }
            }
            let last = frames.last().map_or(0, |(number, _)| number + 1);
            if last > next {
                walk.defects.push(format!(
                    "frame {} is in the table, but its number has not been used yet",
                    last - 1
                ));
                let table = &mut self.state.write().maps.table;
                table.next = table.next.max(last);
            }
            tables.insert(page, kept);
        }
        Ok(tables)
    }

    /// Fails if bytes may be wrong only because a drive is missing.
    async fn ensure_reachable(&self, location: Location) -> Result<()> {
        match self.log.read(location).await {
            Ok(_) | Err(shelf::Error::Corrupt { .. }) => Ok(()),
            Err(why) => Err(Error::Stopped(format!(
                "{why} at {location}: nothing is given up before all drives can be read; repair again when they are there"
            ))),
        }
    }

    async fn walk_volumes(&self, walk: &mut Walk, progress: ProgressSink<'_>) -> Result<()> {
        let volumes: Vec<(u32, Tree)> = {
            let volumes = &self.state.read().catalog.volumes;
            volumes.iter().map(|(number, volume)| (*number, volume.tree)).collect()
        };
        let total = volumes.len() as u64;
        for (done, (number, tree)) in (0..).zip(volumes) {
            progress(Progress { phase: "volumes", done, total });
            let Some(page) = tree.root.as_page() else { continue };
            let at = At { volume: number, block: 0, level: tree.level };
            if self.repair_page(walk, page, at).await?.is_none() {
                walk.defects
                    .push(format!("volume {number}: its map begins with page {page}: all of it is lost"));
                let root = self.lost_tree(walk, tree.level);
                let catalog = &mut self.state.write().catalog;
                catalog.dirty = true;
                if let Some(volume) = catalog.volumes.get_mut(&number) {
                    volume.tree.root = root;
                }
            }
        }
        Ok(())
    }

    /// Visits what waits to be released, after everything that volumes refer to: it counts until then.
    async fn walk_orphans(&self, walk: &mut Walk) -> Result<()> {
        let orphans = std::mem::take(&mut self.state.write().maps.orphans);
        let mut waiting = VecDeque::with_capacity(orphans.len());
        for page in orphans {
            let at = At { volume: 0, block: 0, level: self.state.read().maps.page_index.get(page).level };
            if walk.pages.contains_key(&page) {
                walk.defects.push(format!("map page {page} was to be released, and is in use: it stays"));
            } else if self.repair_page(walk, page, at).await?.is_some() {
                walk.pages.entry(page).and_modify(|visited| visited.refs -= 1);
                waiting.push_back(page);
            } else {
                walk.defects
                    .push(format!("map page {page} was to be released, and can't be used: it is free"));
            }
        }
        waiting.retain(|page| walk.pages.get(page).is_some_and(|visited| visited.refs == 0));
        self.state.write().maps.orphans = waiting;
        Ok(())
    }

    /// A tree of lost blocks, known to the walk.
    fn lost_tree(&self, walk: &mut Walk, level: u8) -> Entry {
        let root = self.state.write().maps.lost_tree(level);
        let (mut page, mut refs) = (root.as_page(), 1);
        for level in (0..=level).rev() {
            let Some(number) = page else { break };
            let tally = Tally { mapped: blocks_under(level), zero: 0 };
            walk.pages.insert(number, Visited { level, refs, tally, names_slots: false, lossy: true });
            let state = self.state.read();
            page = state.maps.nodes.get(number).filter(|_| level > 0).and_then(|node| node[0].as_page());
            refs = FAN as u64;
        }
        root
    }

    /// Visits a page and everything below it, and marks blocks as lost that it refers to and that do not exist. `None` if the page
    /// itself can't be used at this level.
    fn repair_page<'a>(
        &'a self,
        walk: &'a mut Walk,
        page: u64,
        at: At,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Visited>>> + Send + 'a>> {
        Box::pin(async move {
            let level = at.level;
            if let Some(visited) = walk.pages.get_mut(&page) {
                if visited.level != level {
                    let other = visited.level;
                    walk.defects.push(format!("map page {page} is used at level {level} and at {other}"));
                    return Ok(None);
                }
                visited.refs += 1;
                return Ok(Some(*visited));
            }
            let info = self.state.read().maps.page_index.get(page);
            let node = match self.read_node(page).await {
                Ok((node, _)) => node,
                Err(why) => {
                    if self.is_inside(info.location) {
                        self.ensure_reachable(info.location).await?;
                    }
                    walk.defects.push(format!("map page {page}: {why}"));
                    return Ok(None);
                }
            };
            if self.unapplied.lock().contains(&page) {
                walk.defects.push(format!(
                    "map page {page} could not be used when the journal was applied: what is below it is out of date"
                ));
                return Ok(None);
            }
            if info.level != level {
                walk.defects.push(format!(
                    "map page {page} is used at level {level}; its index entry says {}",
                    info.level
                ));
                let fits = |level| self.fits(walk, level, &node);
                if !fits(level) || fits(info.level) {
                    return Ok(None);
                }
            }
            // Marks the page as visited, so that a cycle is detected.
            walk.pages.insert(page, Visited { level, ..Visited::default() });
            let (mut repaired, mut visited) = (*node, Visited { level, refs: 1, ..Visited::default() });
            for (index, entry) in node.iter().enumerate() {
                let block = if level == 0 { 1 } else { blocks_under(level - 1) };
                let at = At { block: at.block.saturating_add(index as u64 * block), ..at };
                let (entry, below) = match level {
                    0 => self.repair_entry(walk, page, *entry, at),
                    _ => self.repair_child(walk, page, *entry, at).await?,
                };
                repaired[index] = entry;
                visited.tally = visited.tally + below.tally;
                visited.lossy |= below.lossy;
                visited.names_slots |= entry.is_slot();
            }
            if repaired != *node {
                let maps = &mut self.state.write().maps;
                maps.nodes.load(page, *node);
                maps.mark(page);
                if let Some((body, _)) = maps.nodes.edit(page) {
                    *body = repaired;
                }
            }
            visited.refs = walk.pages.get(&page).map_or(1, |own| own.refs + 1);
            walk.pages.insert(page, visited);
            Ok(Some(visited))
        })
    }

    /// True if the entries of a page fit this level.
    fn fits(&self, walk: &Walk, level: u8, node: &Node) -> bool {
        let page_index = &self.state.read().maps.page_index;
        node.iter().all(|entry| match (entry.kind(), level) {
            (Kind::Slot(_), 1..) => false,
            (Kind::Block(block), 0) => block == BlockId::LOST || walk.frames.contains_key(&block.frame),
            (Kind::Block(_), 1..) => entry.as_page().is_some_and(|child| page_index.get(child).refs > 0),
            _ => true,
        })
    }

    async fn repair_child(
        &self,
        walk: &mut Walk,
        page: u64,
        entry: Entry,
        at: At,
    ) -> Result<(Entry, Visited)> {
        let level = at.level - 1;
        let child = match entry.as_page() {
            Some(child) => self.repair_page(walk, child, At { level, ..at }).await?,
            None if entry.is_slot() => None,
            None => {
                let tally = Tally::of(entry) * blocks_under(level);
                return Ok((entry, Visited { tally, ..Visited::default() }));
            }
        };
        if let Some(visited) = child {
            return Ok((entry, visited));
        }
        let named = match entry.kind() {
            Kind::Slot(slot) => format!("{slot}, which is not a page"),
            _ => format!("page {}, which can't be used", entry.as_page().unwrap_or_default()),
        };
        walk.defects.push(format!("map page {page} names {named}: {} blocks are lost", blocks_under(level)));
        let lost = self.lost_tree(walk, level);
        let tally = Tally { mapped: blocks_under(level), zero: 0 };
        Ok((lost, Visited { tally, lossy: true, ..Visited::default() }))
    }

    fn repair_entry(&self, walk: &mut Walk, page: u64, entry: Entry, at: At) -> (Entry, Visited) {
        let kept = |lossy| Visited { tally: Tally::of(entry), lossy, ..Visited::default() };
        let lost = Visited { tally: Tally::of(Entry::lost()), lossy: true, ..Visited::default() };
        match entry.kind() {
            Kind::Unmapped | Kind::Zero => (entry, kept(false)),
            Kind::Block(BlockId::LOST) => (entry, kept(true)),
            Kind::Block(block) => {
                if walk.is_stored(block) {
                    *walk.blocks.entry(block.bits()).or_default() += 1;
                    return (entry, kept(false));
                }
                walk.defects.push(format!("map page {page} names {block}, which does not exist: it is lost"));
                (Entry::lost(), lost)
            }
            Kind::Slot(slot) => {
                let flushed = self.state.read().maps.slots.get(slot).and_then(|slot| slot.flushed);
                if flushed.is_none_or(|block| walk.is_stored(block)) && self.has_slot(slot, at) {
                    *walk.slots.entry(slot).or_default() += 1;
                    return (entry, kept(false));
                }
                walk.defects.push(format!("map page {page} names {slot}, which does not exist: it is lost"));
                (Entry::lost(), lost)
            }
        }
    }

    /// True if a slot exists. A slot that is missing in memory and still in the journal is restored.
    fn has_slot(&self, slot: SlotId, at: At) -> bool {
        let maps = &mut self.state.write().maps;
        if maps.slots.is_held(slot) {
            return true;
        }
        let batches = self.journal_blocks.lock();
        let contents = batches.get(&slot.batch).and_then(|blocks| blocks.get(slot.page.into()));
        let Some(contents) = contents.filter(|_| maps.slots.takes(slot)) else { return false };
        maps.slots
            .add(slot, Slot { contents, holders: 1, flushed: None, volume: at.volume, block: at.block });
        true
    }

    /// Corrects references, levels and counts of map pages; pages without references are freed.
    fn repair_page_index(&self, walk: &mut Walk) {
        let maps = &mut self.state.write().maps;
        let listed: Vec<(u64, PageInfo)> = maps.page_index.iter().collect();
        let (mut gone, mut defects) = (0, Vec::new());
        for (page, info) in listed {
            let Some(visited) = walk.pages.get(&page) else {
                gone += 1;
                maps.page_index.edit(page, std::mem::take);
                continue;
            };
            let Visited { level, refs, tally, .. } = *visited;
            let names_slots = info.names_slots || visited.names_slots && maps.nodes.get(page).is_none();
            let repaired = PageInfo { level, refs, tally, names_slots, ..info };
            if repaired != info {
                let (was, is) = ((info.refs, info.tally), (refs, tally));
                defects.push(format!(
                    "map page {page} had {} references and {} at level {}; it has {}, {} at {level}",
                    was.0, was.1, info.level, is.0, is.1
                ));
                maps.page_index.edit(page, |info| *info = repaired);
            }
        }
        let held: Vec<u64> = maps.nodes.iter().map(|(page, _)| page).collect();
        for page in held.into_iter().filter(|page| !walk.pages.contains_key(page)) {
            maps.nodes.remove(page);
        }
        if gone > 0 {
            defects
                .push(format!("{gone} map pages without references were in the page index: they are free"));
        }
        // All pages that are in use are known: a next number that is far too large would leave none to use.
        let last = maps.page_index.last().into_iter().chain(walk.pages.keys().copied()).max();
        let next = last.map_or(0, |page| page + 1);
        maps.next_page = next;
        maps.page_count = walk.pages.len() as u64;
        maps.free = maps.page_index.gaps();
        // An empty page that waits to be released and was never written has no entry.
        maps.free.retain(|page| *page < next && !walk.pages.contains_key(page));
        walk.defects.extend(defects);
    }

    fn repair_slots(&self, walk: &mut Walk) {
        let maps = &mut self.state.write().maps;
        let defects = maps.slots.recount(&walk.slots);
        walk.defects.extend(defects);
        for (slot, holders) in &walk.slots {
            if let Some(block) = maps.slots.get(*slot).and_then(|slot| slot.flushed) {
                *walk.blocks.entry(block.bits()).or_default() += holders;
            }
        }
    }

    /// Corrects references of blocks; frames without any are freed.
    fn repair_frame_table(&self, tables: BTreeMap<u64, ValidTable>, walk: &mut Walk) {
        let maps = &mut self.state.write().maps;
        let mut deferred = std::mem::take(&mut maps.table.deferred);
        for (page, ValidTable { page: body, differs }) in tables {
            let waiting = deferred.remove(&page).unwrap_or_default();
            let mut changes: NumberMap<u64, i64> = NumberMap::default();
            for (block, change) in &waiting {
                let sum = changes.entry(block.bits()).or_default();
                *sum = sum.saturating_add(*change);
            }
            let defects = walk.defects.len();
            for (block, change) in &waiting {
                if !walk.is_stored(*block) {
                    let what = format!("{block}, which does not exist, had {change} more references");
                    walk.defects.push(what);
                }
            }
            let mut repaired = TablePage::default();
            for (index, frame) in body.iter() {
                let number = page * FRAMES + index;
                let mut frame = frame.clone();
                frame.refs.resize(8 - frame.stored.leading_zeros() as usize, 0);
                for (block, refs) in (0..).zip(&mut frame.refs) {
                    let block = BlockId { frame: number, index: block };
                    let counted = walk.blocks.get(&block.bits()).copied().unwrap_or(0);
                    let change = changes.get(&block.bits()).copied().unwrap_or(0);
                    if refs.checked_add_signed(change) != Some(counted) {
                        let waits =
                            if change == 0 { String::new() } else { format!(", and {change} waited") };
                        walk.defects.push(format!("{block} had {refs} references{waits}; it has {counted}"));
                    }
                    *refs = counted;
                }
                if frame.live() != 0 {
                    *repaired.slot(index) = Some(frame);
                }
            }
            if !differs && walk.defects.len() == defects && !waiting.is_empty() {
                maps.table.deferred.insert(page, waiting);
                continue;
            }
            let before = maps.table.pages.get(page).map(|body| (**body).clone());
            let is_same = |one: &TablePage| {
                one.iter().map(|(index, frame)| (index, frame.location, frame.stored, frame.live())).eq(
                    repaired.iter().map(|(index, frame)| (index, frame.location, frame.stored, frame.live())),
                ) && one
                    .iter()
                    .zip(repaired.iter())
                    .all(|((_, one), (_, other))| (0..8).all(|index| one.refs(index) == other.refs(index)))
            };
            if differs || !before.as_ref().map_or_else(|| is_same(&body) && !repaired.is_empty(), is_same) {
                maps.table.replace(page, repaired);
            }
        }
    }

    /// Recounts live bytes.
    async fn repair_usage(&self, roots: &[Location], walk: &mut Walk) {
        let pages: Vec<(u64, Location)> = {
            let state = self.state.read();
            state.maps.table.page_index.iter().map(|(page, info)| (page, info.location)).collect()
        };
        let mut usage = Usage::new(self.state.read().maps.usage.segments().len() as u32);
        for (page, location) in pages {
            let Ok(body) = self.read_table(page, location).await else { continue };
            for (_, frame) in body.iter() {
                let live = frame.live();
                for index in indexes(live) {
                    usage.add_block(frame.location.segment, frame.share(index));
                }
            }
        }
        let maps = &mut self.state.write().maps;
        let listed =
            maps.page_index.iter().chain(maps.table.page_index.iter()).map(|(_, info)| info.location);
        let chunks =
            maps.page_index.locations.values().chain(maps.table.page_index.locations.values()).copied();
        for location in listed.chain(chunks).chain(roots.iter().copied()) {
            usage.add_meta(location);
        }
        let differ =
            usage.segments().iter().zip(maps.usage.segments()).filter(|(one, other)| one != other).count();
        if usage != maps.usage && !walk.defects.is_empty() || differ > 0 {
            walk.defects.push(format!("{differ} segments held other amounts than was counted"));
        }
        maps.usage = usage;
    }

    /// Unmaps what is lost beyond the ends of volumes, so that they can grow: a lost tree is as large as the page that it
    /// replaces.
    async fn unmap_beyond_ends(&self, walk: &Walk) -> Result<()> {
        let is_lossy = |tree: Tree| {
            let root = tree.root.as_page().and_then(|page| walk.pages.get(&page));
            root.is_some_and(|visited| visited.lossy)
        };
        let volumes: Vec<u32> = {
            let volumes = &self.state.read().catalog.volumes;
            volumes.iter().filter(|(_, volume)| is_lossy(volume.tree)).map(|(number, _)| *number).collect()
        };
        for number in volumes {
            loop {
                // The lock must not be held while a page is read.
                let need = self.state.write().unmap_beyond_end(number);
                let Some(Need::Map(page) | Need::Lost(page)) = need else { break };
                // As the walk has read it: other loads refuse what this repair has mended.
                let (node, _) = self.read_node(page).await.map_err(Error::Stopped)?;
                self.state.write().maps.load(page, *node);
            }
        }
        Ok(())
    }

    /// The losses of all volumes and snapshots.
    async fn losses(&self, walk: &Walk) -> Result<Vec<Loss>> {
        let volumes: Vec<VolumeState> = self.state.read().catalog.volumes.values().cloned().collect();
        let mut losses = Vec::new();
        for volume in volumes {
            let mut runs: Vec<(u64, u64)> = Vec::new();
            let mut open = vec![(volume.tree.root, volume.tree.level, 0u64)];
            while let Some((root, level, base)) = open.pop() {
                let Some(page) =
                    root.as_page().filter(|page| walk.pages.get(page).is_some_and(|one| one.lossy))
                else {
                    continue;
                };
                let (node, _) = self.read_node(page).await.map_err(Error::Stopped)?;
                if level > 0 && node.iter().all(|entry| *entry == node[0]) && runs.len() <= MAX_RUNS {
                    // A tree of lost blocks is one run.
                    if self.is_lost_tree(node[0], level - 1).await? {
                        add_run(&mut runs, base, blocks_under(level));
                        continue;
                    }
                }
                for (index, entry) in node.iter().enumerate().rev().filter(|_| level > 0) {
                    let each = blocks_under(level - 1);
                    open.push((*entry, level - 1, base.saturating_add(index as u64 * each)));
                }
                for (index, entry) in node.iter().enumerate().filter(|_| level == 0) {
                    if *entry == Entry::lost() {
                        add_run(&mut runs, base + index as u64, 1);
                    }
                }
            }
            losses.extend(loss_of(&volume, &runs));
        }
        Ok(losses)
    }

    async fn is_lost_tree(&self, root: Entry, level: u8) -> Result<bool> {
        let (mut root, mut level) = (root, level);
        loop {
            let Some(page) = root.as_page() else { return Ok(false) };
            if level == 0 && root == Entry::lost() {
                return Ok(false);
            }
            let (node, _): (Arc<Node>, bool) = self.read_node(page).await.map_err(Error::Stopped)?;
            if node.iter().any(|entry| *entry != node[0]) {
                return Ok(false);
            }
            if level == 0 {
                return Ok(node[0] == Entry::lost());
            }
            (root, level) = (node[0], level - 1);
        }
    }
}

impl State {
    /// Unmaps what the map of a volume has beyond its end, or returns what is to be loaded before.
    fn unmap_beyond_end(&mut self, number: u32) -> Option<Need> {
        let volume = self.catalog.volumes.get_mut(&number)?;
        let (end, max) = (VolumeState::blocks(volume.geometry), blocks_under(volume.tree.level));
        if end < max {
            if let Err(need) = self.maps.probe_change(volume.tree, end, max) {
                return Some(need);
            }
            self.maps.set_hole(&mut volume.tree, end, max, Entry::UNMAPPED);
            self.catalog.dirty = true;
        }
        None
    }
}

fn add_run(runs: &mut Vec<(u64, u64)>, block: u64, count: u64) {
    match runs.last_mut() {
        Some((from, before)) if *from + *before == block => *before += count,
        _ => runs.push((block, count)),
    }
}

fn loss_of(volume: &VolumeState, runs: &[(u64, u64)]) -> Option<Loss> {
    let geometry = volume.geometry;
    let each = BLOCK as u64 / u64::from(geometry.block_bytes);
    let extent = |(block, count): &(u64, u64)| {
        let from = block.saturating_mul(each).min(geometry.blocks);
        let to = block.saturating_add(*count).saturating_mul(each).min(geometry.blocks);
        Extent::new(from, to - from)
    };
    let mut extents: Vec<Extent> = runs.iter().map(extent).filter(|extent| extent.blocks > 0).collect();
    let more = extents.len() > MAX_RUNS;
    extents.truncate(MAX_RUNS);
    let loss = Loss { disk: volume.id, snapshot: volume.provenance.snapshot, geometry, extents, more };
    (!loss.extents.is_empty()).then_some(loss)
}
