//! Check: reads, decodes and verifies everything, counts everything that is counted again from the volumes' roots
//! down, and compares. It changes nothing, and continues after a defect, so that all are named.
//!
//! What can't be read can't be counted: below a damaged map page only counts that are too high are defects.
//!
//! It takes as long as there are pages and frames in the log, however much they map. Frames, which are nearly all of it, are read
//! once, segment by segment, in what a scrub of the store reads anyway.

use crate::catalog::VolumeState;
use crate::core::Core;
use crate::engine::Engine;
use crate::entry::{BlockId, Entry, Kind, Node, SlotId, decode_node};
use crate::frame::ObjectKind;
use crate::map::Tree;
use crate::pages::NumberMap;
use crate::space::{Location, Tally};
use shelf::join;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

mod frames;
mod log;

pub use frames::{FrameCheck, FrameFindings};

/// How far a check or a repair has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it reads now.
    pub phase: &'static str,
    /// How many of these it has read.
    pub done: u64,
    /// How many there are.
    pub total: u64,
}

/// Receives progress.
pub type ProgressSink<'a> = &'a mut (dyn FnMut(Progress) + Send);

/// What the walk over all maps found.
#[derive(Default)]
struct Found {
    /// References of each map page.
    pages: NumberMap<u64, u64>,
    /// References of each block of a frame, by the bits of its name.
    blocks: NumberMap<u64, u64>,
    slots: BTreeMap<SlotId, u64>,
    /// Some page could not be read: there may be more references than were found.
    partial: bool,
    defects: Vec<String>,
}

impl Found {
    fn defect(&mut self, what: impl Display) {
        self.defects.push(what.to_string());
    }

    /// Whether a count differs from the stored one in a way that can't come from pages that could not be read.
    fn differs(&self, counted: u64, kept: u64) -> bool {
        if self.partial { counted > kept } else { counted != kept }
    }

    fn count(&mut self, entry: Entry) {
        match entry.kind() {
            Kind::Slot(slot) => *self.slots.entry(slot).or_default() += 1,
            Kind::Block(BlockId::LOST) => {}
            Kind::Block(block) => *self.blocks.entry(block.bits()).or_default() += 1,
            Kind::Unmapped | Kind::Zero => {}
        }
    }
}

impl Engine {
    /// Verifies every map page, frame, table page and count, and returns the defects. Nothing else may use the engine
    /// during the check, and nothing is changed.
    ///
    /// # Errors
    /// If the engine has stopped: what is in memory is not what is on the drives.
    pub async fn check(&self) -> block::Result<Vec<String>> {
        self.check_with_progress(&mut |_| {}).await
    }

    /// [`Engine::check`] with progress.
    ///
    /// # Errors
    /// If the engine has stopped: what is in memory is not what is on the drives.
    pub async fn check_with_progress(&self, progress: ProgressSink<'_>) -> block::Result<Vec<String>> {
        let (mut defects, frames) = self.begin_check(progress).await?;
        let total = frames.total();
        while let Some(done) = frames.step(None).await {
            progress(Progress { phase: "segments", done, total });
        }
        defects.extend(frames.end().defects);
        self.core.journal.stopped().map_or(Ok(defects), |why| Err(block::Error::Stopped(why)))
    }

    /// The part of [`Engine::check`] that follows maps: the defects of all metadata and counts, and the frames, which are to be
    /// checked in the order of their places, by as many threads as there are.
    ///
    /// # Errors
    /// If the engine has stopped.
    pub async fn begin_check(&self, progress: ProgressSink<'_>) -> block::Result<(Vec<String>, FrameCheck)> {
        let core = &self.core;
        let mut found = Found::default();
        core.check_catalog(&mut found);
        core.walk(&mut found, progress).await;
        core.check_pages(&mut found);
        let frames = core.check_table(&mut found).await;
        core.check_slots(&mut found);
        core.check_space(&frames, &self.roots.lock().clone(), &mut found);
        let frames = FrameCheck::new(core.clone(), frames);
        core.journal.stopped().map_or(Ok((found.defects, frames)), |why| Err(block::Error::Stopped(why)))
    }
}

impl Core {
    fn check_catalog(&self, found: &mut Found) {
        let state = self.state.read();
        let mut ids = BTreeSet::new();
        for (number, volume) in &state.catalog.volumes {
            if !ids.insert(volume.id) || state.catalog.number(volume.id) != Some(*number) {
                found.defect(format_args!(
                    "volume {number}: another volume has its identity {:032x}",
                    volume.id.0
                ));
            }
            let VolumeState { tree, geometry, kept_until, read_only, .. } = volume;
            if crate::entry::blocks_under(tree.level) < VolumeState::blocks(*geometry) {
                found.defect(format_args!(
                    "volume {number}: {} bytes are more than its map can hold",
                    geometry.bytes()
                ));
            }
            if *kept_until > 0 && !read_only && !volume.provenance.snapshot {
                found
                    .defect(format_args!("volume {number}: it is under a retention lock, but takes changes"));
            }
        }
    }

    /// Visits every map page once, from the roots and from what waits to be released.
    async fn walk(&self, found: &mut Found, progress: ProgressSink<'_>) {
        let mut open: Vec<(u64, u8)> = Vec::new();
        {
            let state = self.state.read();
            for Tree { root, level } in state.catalog.volumes.values().map(|volume| volume.tree) {
                if let Some(page) = root.as_page() {
                    *found.pages.entry(page).or_default() += 1;
                    open.push((page, level));
                }
            }
            for page in &state.maps.orphans {
                found.pages.entry(*page).or_default();
                open.push((*page, state.maps.page_index.get(*page).level));
            }
        }
        let mut seen: NumberMap<u64, u8> = NumberMap::default();
        let total = self.state.read().maps.page_index.iter().count() as u64;
        while !open.is_empty() {
            progress(Progress { phase: "map pages", done: seen.len() as u64, total });
            let mut next = Vec::new();
            while let Some((page, level)) =
                open.pop_if(|_| next.len() < self.options.tunables.reads_in_flight)
            {
                match seen.insert(page, level) {
                    None => next.push((page, level)),
                    Some(before) if before == level => {}
                    Some(before) => {
                        let what = format_args!("map page {page} is used at level {level} and at {before}");
                        found.defect(what);
                    }
                }
            }
            let nodes = join(next.iter().map(|(page, _)| self.read_node(*page))).await;
            for (read, (page, level)) in nodes.into_iter().zip(next) {
                self.visit(page, level, read, &mut open, found);
            }
        }
    }

    fn visit(
        &self,
        page: u64,
        level: u8,
        read: Result<(Arc<Node>, bool), String>,
        open: &mut Vec<(u64, u8)>,
        found: &mut Found,
    ) {
        match read {
            Ok((node, on_media)) => {
                self.check_node(page, level, &node, on_media, found);
                for child in node.iter().filter(|_| level > 0).filter_map(|entry| entry.as_page()) {
                    *found.pages.entry(child).or_default() += 1;
                    open.push((child, level - 1));
                }
            }
            Err(why) => {
                found.partial = true;
                found.defect(format_args!("map page {page}: {why}"));
            }
        }
    }

    /// A map page, and whether it is as the log has it.
    pub async fn read_node(&self, page: u64) -> Result<(Arc<Node>, bool), String> {
        let location = {
            let maps = &self.state.read().maps;
            if let Some(node) = maps.nodes.get(page) {
                return Ok((node.clone(), false));
            }
            maps.page_index.get(page).location
        };
        let payload = self.read_page(ObjectKind::Map, page, location).await?;
        let node = decode_node(&payload).map_err(|why| format!("{why} at {location}"))?;
        Ok((Arc::new(node), true))
    }

    /// The payload of a metadata object.
    async fn read_page(
        &self,
        kind: ObjectKind,
        number: u64,
        location: Location,
    ) -> Result<bytes::Bytes, String> {
        if location.is_none() {
            return Err("it has no location".into());
        }
        self.read_metadata(kind, number, location).await
    }

    fn check_node(&self, page: u64, level: u8, node: &Node, on_media: bool, found: &mut Found) {
        let maps = &self.state.read().maps;
        let info = maps.page_index.get(page);
        let tally: Tally = maps.tally_of(level, node);
        if (tally, level) != (info.tally, info.level) {
            found.defect(format_args!(
                "map page {page}: {} blocks below it at level {level}, {} of them zeros; its index entry says {}, {} of them zeros, at level {}",
                tally.mapped, tally.zero, info.tally.mapped, info.tally.zero, info.level
            ));
        }
        let slots = node.iter().any(|entry| entry.is_slot());
        if slots && level > 0 {
            found.defect(format_args!("map page {page} at level {level} names blocks of the journal"));
        }
        if slots && on_media && !info.names_slots {
            found.defect(format_args!(
                "map page {page} names blocks of the journal; its index entry says it does not"
            ));
        }
        if level == 0 {
            node.iter().for_each(|entry| found.count(*entry));
        }
    }

    fn check_pages(&self, found: &mut Found) {
        let state = self.state.read();
        let page_index = &state.maps.page_index;
        let free: BTreeSet<u64> = state.maps.free.iter().copied().collect();
        let mut pages: Vec<(u64, u64)> = found.pages.iter().map(|(page, refs)| (*page, *refs)).collect();
        pages.sort_unstable();
        for (page, refs) in pages {
            let kept = page_index.get(page).refs;
            if found.differs(refs, kept) {
                found.defect(format_args!("map page {page} has {refs} references, not {kept}"));
            }
            if free.contains(&page) || page >= state.maps.next_page {
                found.defect(format_args!("map page {page} is in use, but its number is free"));
            }
        }
        let (counted, kept) = (found.pages.len() as u64, state.maps.page_count);
        if found.differs(counted, kept) {
            found.defect(format_args!("there are {counted} map pages, not {kept}"));
        }
        if !found.partial {
            for (page, _) in
                page_index.iter().filter(|(page, _)| !found.pages.contains_key(page)).collect::<Vec<_>>()
            {
                found.defect(format_args!("map page {page} is in the page index, but nothing refers to it"));
            }
        }
    }

    /// Compares the references of slots. Those that slots hand on to blocks of frames were compared with the table
    /// before.
    fn check_slots(&self, found: &mut Found) {
        let state = self.state.read();
        let slots = &state.maps.slots;
        for (slot, holders) in std::mem::take(&mut found.slots) {
            let kept = slots.get(slot).map_or(0, |slot| slot.holders);
            if found.differs(holders, kept) {
                found.defect(format_args!("{slot} has {holders} references, not {kept}"));
            }
            found.slots.insert(slot, holders);
        }
        if !found.partial {
            for (slot, _) in
                slots.iter().filter(|(slot, _)| !found.slots.contains_key(slot)).collect::<Vec<_>>()
            {
                found.defect(format_args!("{slot} is held, but no map names it"));
            }
        }
    }

    /// Adds to the counted references of blocks those that come through flushed slots.
    fn resolve_slots(&self, found: &mut Found) {
        let state = self.state.read();
        for (slot, holders) in &found.slots {
            if let Some(block) = state.maps.slots.get(*slot).and_then(|slot| slot.flushed) {
                *found.blocks.entry(block.bits()).or_default() += holders;
            }
        }
    }
}

impl Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "segment {}, offset {}, {} bytes", self.segment, self.offset, self.len)
    }
}

impl Display for SlotId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "block {} of journal batch {}", self.page, self.batch)
    }
}

impl Display for BlockId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "block {} of frame {}", self.index, self.frame)
    }
}

#[cfg(test)]
#[path = "check_test.rs"]
mod tests;
