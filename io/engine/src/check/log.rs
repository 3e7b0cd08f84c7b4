//! Check of the log: frames, the frame table, and where everything lies.

use super::Found;
use crate::cell;
use crate::core::Core;
use crate::dedup::Fingerprinter;
use crate::entry::{BLOCK, BlockId};
use crate::frame::{self, ObjectKind, UNKNOWN};
use crate::frame_table::{FRAMES, Frame, TablePage};
use crate::pages::NumberMap;
use crate::space::{Live, Location};
use bytes::Bytes;

impl Core {
    /// Compares every frame's references with those found; returns all frames.
    pub(super) async fn check_table(&self, found: &mut Found) -> Vec<(u64, Frame)> {
        self.resolve_slots(found);
        let pages: Vec<(u64, Location)> = {
            let state = self.state.read();
            state.maps.table.page_index.iter().map(|(page, info)| (page, info.location)).collect()
        };
        let mut frames = Vec::new();
        let mut damaged = false;
        for (page, location) in pages {
            match self.read_table(page, location).await {
                Ok(body) => {
                    let numbered = body.iter().map(|(index, frame)| (page * FRAMES + index, frame.clone()));
                    frames.extend(numbered);
                }
                Err(why) => {
                    damaged = true;
                    found.defect(format_args!("frame table page {page}: {why}"));
                }
            }
        }
        frames.sort_unstable_by_key(|(number, _)| *number);
        let mut waiting = self.deferred();
        let (next, mut named) = (self.state.read().maps.table.next, std::mem::take(&mut found.blocks));
        for (number, frame) in &mut frames {
            if *number >= next {
                found.defect(format_args!(
                    "frame {number} is in the table, but its number has not been used yet"
                ));
            }
            for (index, refs) in (0..).zip(&mut frame.refs) {
                let block = BlockId { frame: *number, index };
                let counted = named.remove(&block.bits()).unwrap_or(0);
                let change = waiting.remove(&block.bits()).unwrap_or(0);
                // From here on the frame is as it is when what waits has been applied.
                match refs.checked_add_signed(change) {
                    Some(after) => *refs = after,
                    None => found.defect(format_args!("{block} has {refs} references, and {change} wait")),
                }
                if found.differs(counted, *refs) {
                    found.defect(format_args!("{block} has {counted} references, not {refs}"));
                }
            }
        }
        if !damaged {
            let mut strangers: Vec<u64> = named.into_keys().collect();
            strangers.extend(waiting.into_iter().filter(|(_, change)| *change != 0).map(|(block, _)| block));
            strangers.sort_unstable();
            strangers.dedup();
            for block in strangers.into_iter().map(BlockId::from_bits) {
                found.defect(format_args!("{block} is referred to, but not in the table"));
            }
        }
        frames
    }

    pub async fn read_table(&self, page: u64, location: Location) -> Result<TablePage, String> {
        if let Some(body) = self.state.read().maps.table.pages.get(page) {
            return Ok((**body).clone());
        }
        let payload = self.read_page(ObjectKind::Table, page, location).await?;
        TablePage::decode(&payload).map_err(|why| format!("{why} at {location}"))
    }

    /// Deferred reference changes, by block.
    fn deferred(&self) -> NumberMap<u64, i64> {
        let state = self.state.read();
        let mut sums = NumberMap::default();
        for (block, change) in state.maps.table.deferred.values().flatten() {
            *sums.entry(block.bits()).or_default() += change;
        }
        sums
    }

    /// Counts the live bytes of each segment, and compares with the stored counts.
    pub(super) fn check_space(&self, frames: &[(u64, Frame)], roots: &[Location], found: &mut Found) {
        let waiting = self.deferred();
        let state = self.state.read();
        let maps = &state.maps;
        let mut segments = vec![Live::default(); maps.usage.segments().len()];
        let mut locations: Vec<Location> = Vec::new();
        let mut unique = 0;
        for (number, frame) in frames {
            locations.push(frame.location);
            for index in cell::indexes(frame.stored) {
                // The stored counts do not include deferred changes.
                let change = waiting.get(&BlockId { frame: *number, index }.bits()).copied().unwrap_or(0);
                let before = frame.refs(index).saturating_add_signed(-change);
                if before > 0 {
                    unique += 1;
                    if let Some(live) = segments.get_mut(frame.location.segment as usize) {
                        live.data += frame.share(index);
                    }
                }
            }
        }
        let listed =
            maps.page_index.iter().chain(maps.table.page_index.iter()).map(|(_, info)| info.location);
        let chunks =
            maps.page_index.locations.values().chain(maps.table.page_index.locations.values()).copied();
        for location in listed
            .chain(chunks)
            .chain(maps.index_log.locations())
            .chain(roots.iter().copied())
            .filter(|location| !location.is_none())
        {
            locations.push(location);
            if let Some(live) = segments.get_mut(location.segment as usize) {
                live.meta += u64::from(location.len);
            }
        }
        if unique != maps.usage.unique_blocks {
            found
                .defect(format_args!("there are {unique} distinct blocks, not {}", maps.usage.unique_blocks));
        }
        for (segment, (counted, kept)) in segments.iter().zip(maps.usage.segments()).enumerate() {
            if counted != kept {
                found.defect(format_args!(
                    "segment {segment} holds {} bytes of data and {} of metadata, not {} and {}",
                    counted.data, counted.meta, kept.data, kept.meta
                ));
            }
        }
        let sum = |part: fn(&Live) -> u64| segments.iter().map(part).sum::<u64>();
        let sums = (sum(|live| live.data), sum(|live| live.meta));
        if sums != (maps.usage.physical, maps.usage.metadata) {
            let kept = (maps.usage.physical, maps.usage.metadata);
            found.defect(format_args!(
                "data and metadata take {} and {} bytes, not {} and {}",
                sums.0, sums.1, kept.0, kept.1
            ));
        }
        self.check_places(locations, segments.len(), found);
    }

    /// Verifies that no two objects share a byte, and that none lies outside of the log.
    fn check_places(&self, mut locations: Vec<Location>, segments: usize, found: &mut Found) {
        locations.sort_unstable();
        let end = |location: &Location| u64::from(location.offset) + u64::from(location.len);
        for location in &locations {
            if location.segment as usize >= segments || end(location) > u64::from(self.layout.segment_bytes) {
                found.defect(format_args!("an object lies outside of the log: {location}"));
            }
        }
        for pair in locations.windows(2) {
            let [one, other] = pair else { continue };
            if one.segment == other.segment && end(one) > u64::from(other.offset) {
                found.defect(format_args!("two objects overlap: {one}; {other}"));
            }
        }
    }

    pub async fn check_frame(&self, number: u64, frame: &Frame) -> Result<(), String> {
        if !self.is_inside(frame.location) {
            return Err("it lies outside of the log".into());
        }
        let object = self.log.read(frame.location).await.map_err(|why| why.to_string())?;
        self.check_object(number, frame, &object)
    }

    /// Verifies the checksum of a frame that was read, its contents and the fingerprints of its blocks.
    pub(super) fn check_object(&self, number: u64, frame: &Frame, object: &Bytes) -> Result<(), String> {
        let header = frame::verify(object).map_err(|why| why.to_string())?;
        let decoded = frame::unpack(object, number, cell::ALL).map_err(|why| why.to_string())?;
        if header.stored != frame.stored {
            return Err(format!("it holds blocks {:#b}, not {:#b}", header.stored, frame.stored));
        }
        if header.cells(object).map_err(|why| why.to_string())? != frame.cells {
            return Err("its cells are not those that the frame table says".into());
        }
        let fingerprints = frame::fingerprints(object, &header).map_err(|why| why.to_string())?;
        let mut fingerprinter = Fingerprinter::new(&self.key);
        for (index, fingerprint) in
            cell::indexes(header.stored).zip(fingerprints).filter(|(_, known)| *known != UNKNOWN)
        {
            let bytes = decoded.blocks(index, 1).filter(|bytes| bytes.len() == BLOCK);
            if bytes.is_none_or(|bytes| fingerprinter.of(&bytes) != fingerprint) {
                return Err(format!("block {index} is not what its fingerprint says"));
            }
        }
        Ok(())
    }
}
