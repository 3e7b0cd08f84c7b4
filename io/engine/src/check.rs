//! The check: everything that is counted is counted again, from the volumes' roots down, and compared.

use crate::core::Core;
use crate::engine::Engine;
use crate::entry::{Entry, Kind};
use crate::map::Need;
use crate::space::{Live, Place};
use crate::table::Frame;
use std::collections::BTreeMap;

/// What the walk over all maps found.
#[derive(Default)]
struct Found {
    pages: BTreeMap<u64, u64>,
    levels: BTreeMap<u64, u8>,
    mapped: BTreeMap<u64, u64>,
    blocks: BTreeMap<(u64, u8), u64>,
    slots: BTreeMap<crate::entry::SlotId, u64>,
}

impl Engine {
    /// Walks every map, counts every reference, reads and verifies every frame, and answers with what differs from
    /// what the engine believes; nothing, when all is well. Nothing else may use the engine meanwhile.
    pub async fn check(&self) -> block::Result<Vec<String>> {
        let core = &self.core;
        let mut findings = Vec::new();
        let found = core.walk().await?;
        core.load_all_tables().await?;
        core.check_pages(&found, &mut findings);
        core.check_frames(&found, &mut findings);
        core.check_usage(&self.roots.lock().clone(), &mut findings);
        core.check_bytes(&mut findings).await?;
        Ok(findings)
    }
}

impl Core {
    async fn walk(&self) -> block::Result<Found> {
        let mut found = Found::default();
        let mut open: Vec<(u64, u8)> = Vec::new();
        {
            let state = self.state.read();
            for volume in state.catalog.volumes.values() {
                if let Some(page) = volume.tree.root.as_page() {
                    *found.pages.entry(page).or_default() += 1;
                    open.push((page, volume.tree.level));
                }
            }
            for page in &state.maps.orphans {
                found.pages.entry(*page).or_default();
                open.push((*page, state.maps.listings.get(*page).level));
            }
        }
        while let Some((page, level)) = open.pop() {
            if found.levels.insert(page, level).is_some() {
                continue;
            }
            self.load(Need::Map(page)).await?;
            let state = self.state.read();
            let Some(node) = state.maps.nodes.get(page) else { continue };
            for entry in node.iter() {
                match entry.as_page().filter(|_| level > 0) {
                    Some(child) => {
                        *found.pages.entry(child).or_default() += 1;
                        open.push((child, level - 1));
                    }
                    None if level == 0 => found.count(*entry),
                    None => {}
                }
            }
        }
        self.sum_mapped(&mut found);
        Ok(found)
    }

    /// Mapped blocks below each page, leaves first.
    fn sum_mapped(&self, found: &mut Found) {
        let state = self.state.read();
        let mut by_level: Vec<(u8, u64)> = found.levels.iter().map(|(page, level)| (*level, *page)).collect();
        by_level.sort_unstable();
        for (level, page) in by_level {
            let Some(node) = state.maps.nodes.get(page) else { continue };
            let below = |entry: &Entry| match entry.as_page().filter(|_| level > 0) {
                Some(child) => found.mapped.get(&child).copied().unwrap_or(0),
                None if !entry.is_mapped() => 0,
                None if level == 0 => 1,
                None => crate::map::span(level - 1),
            };
            let sum = node.iter().map(below).sum();
            found.mapped.insert(page, sum);
        }
    }

    async fn load_all_tables(&self) -> block::Result<()> {
        let pages: Vec<u64> = {
            let state = self.state.read();
            state.maps.table.directory.iter().map(|(page, _)| page).collect()
        };
        for page in pages {
            self.load(Need::Table(page)).await?;
        }
        Ok(())
    }

    fn check_pages(&self, found: &Found, findings: &mut Vec<String>) {
        let state = self.state.read();
        let listed: BTreeMap<_, _> = state.maps.listings.iter().collect();
        for (page, refs) in &found.pages {
            let listing = listed.get(page).copied().unwrap_or_default();
            let mapped = found.mapped.get(page).copied().unwrap_or(0);
            let level = found.levels.get(page).copied().unwrap_or(0);
            if (listing.refs, listing.mapped, listing.level) != (*refs, mapped, level) {
                findings.push(format!(
                    "map page {page} has {refs} references, {mapped} mapped blocks, level {level}; its listing is {listing:?}"
                ));
            }
        }
        for page in listed.keys().filter(|page| !found.pages.contains_key(page)) {
            findings.push(format!("map page {page} is listed, but nothing refers to it"));
        }
    }

    fn check_frames(&self, found: &Found, findings: &mut Vec<String>) {
        let state = self.state.read();
        let maps = &state.maps;
        let mut blocks = found.blocks.clone();
        for (slot, holders) in &found.slots {
            let known = maps.slots.get(*slot);
            if known.map(|slot| slot.holders) != Some(*holders) {
                findings.push(format!("{slot:?} has {holders} holders; it says {known:?}"));
            }
            if let Some(block) = known.and_then(|slot| slot.flushed) {
                *blocks.entry((block.frame, block.index)).or_default() += holders;
            }
        }
        for (slot, _) in maps.slots.iter().filter(|(slot, _)| !found.slots.contains_key(slot)) {
            findings.push(format!("{slot:?} is held, but no map names it"));
        }
        if maps.table.deferred() > 0 {
            findings.push("changes of references wait though every page of the table is in memory".into());
        }
        for (page, body) in maps.table.pages.iter() {
            for (index, frame) in body.iter() {
                let number = page * crate::table::FRAMES + index;
                for (index, refs) in (0..).zip(&frame.refs) {
                    let counted = blocks.remove(&(number, index)).unwrap_or(0);
                    if counted != *refs {
                        findings.push(format!(
                            "block {index} of frame {number} has {counted} references, not {refs}"
                        ));
                    }
                }
            }
        }
        blocks
            .keys()
            .for_each(|block| findings.push(format!("{block:?} is named by a map, but not in the table")));
    }

    fn check_usage(&self, roots: &[Place], findings: &mut Vec<String>) {
        let state = self.state.read();
        let maps = &state.maps;
        let mut segments = vec![Live::default(); maps.usage.segments().len()];
        let mut unique = 0;
        let frames = maps.table.pages.iter().flat_map(|(_, page)| page.iter().map(|(_, frame)| frame));
        for frame in frames {
            let live = |index: &u8| frame.refs(*index) > 0;
            unique += (0..8).filter(live).count() as u64;
            let share: u64 = (0..8).filter(live).map(|index| Frame::share(frame, index)).sum();
            segments[frame.place.segment as usize].data += share;
        }
        let listed =
            maps.listings.iter().chain(maps.table.directory.iter()).map(|(_, listing)| listing.place);
        let chunks = maps.listings.places.values().chain(maps.table.directory.places.values()).copied();
        for place in listed.chain(chunks).chain(roots.iter().copied()).filter(|place| !place.is_none()) {
            segments[place.segment as usize].meta += u64::from(place.len);
        }
        if unique != maps.usage.unique_blocks {
            findings.push(format!("{unique} distinct blocks, not {}", maps.usage.unique_blocks));
        }
        for (segment, (counted, kept)) in segments.iter().zip(maps.usage.segments()).enumerate() {
            if counted != kept {
                findings.push(format!("segment {segment} holds {counted:?}, not {kept:?}"));
            }
        }
        let sum = |part: fn(&Live) -> u64| segments.iter().map(part).sum::<u64>();
        let sums = (sum(|live| live.data), sum(|live| live.meta));
        if sums != (maps.usage.physical, maps.usage.metadata) {
            findings.push(format!("data and metadata are {sums:?} bytes, not {:?}", maps.usage));
        }
    }

    /// Reads and verifies every frame.
    async fn check_bytes(&self, findings: &mut Vec<String>) -> block::Result<()> {
        let numbers: Vec<u64> = {
            let state = self.state.read();
            let pages = state.maps.table.pages.iter();
            let number = |page| move |(index, _)| page * crate::table::FRAMES + index;
            pages.flat_map(|(page, body)| body.iter().map(number(page))).collect()
        };
        for number in numbers {
            match self.fetch_object(number).await {
                Ok(_) => {}
                Err(block::Error::Medium { .. }) => findings.push(format!("frame {number} is damaged")),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Found {
    fn count(&mut self, entry: Entry) {
        match entry.kind() {
            Kind::Slot(slot) => *self.slots.entry(slot).or_default() += 1,
            Kind::Block(block) => *self.blocks.entry((block.frame, block.index)).or_default() += 1,
            Kind::Unmapped | Kind::Zero => {}
        }
    }
}
