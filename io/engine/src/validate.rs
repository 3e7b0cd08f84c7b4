//! Validation of metadata pages as they are read. The checksum has been verified before; here the content is compared
//! with what else is known, so that pages in memory are consistent. What can't be compared without reading more, such
//! as reference counts, is noticed later.

use crate::core::Core;
use crate::entry::{BlockId, Entry, Kind, Node, blocks_under};
use crate::frame_table::{FRAMES, FrameTable, TablePage};
use crate::inconsistency::Inconsistencies;
use crate::map::Maps;
use crate::space::{Location, Tally, Usage};

/// Map page numbers are below this.
pub const MAX_PAGES: u64 = 1 << 48;

/// A number that media give for the next map page is below this: as many again are left.
pub const MAX_NEXT_PAGE: u64 = MAX_PAGES / 2;

/// Whether an object can lie there.
pub fn is_inside(location: Location, segments: u32, segment_bytes: u32) -> bool {
    location.segment < segments
        && u64::from(location.offset) + u64::from(location.len) <= u64::from(segment_bytes)
}

impl Core {
    /// Whether an object can lie there, in the segments that the shelf has now.
    pub fn is_inside(&self, location: Location) -> bool {
        is_inside(location, self.log.shelf().layout().segments, self.layout.segment_bytes)
    }
}

impl Maps {
    /// The counts of a page of this level with these entries, by the infos of its children.
    pub fn tally_of(&self, level: u8, node: &Node) -> Tally {
        let below = |entry: &Entry| match entry.as_page().filter(|_| level > 0) {
            Some(child) => self.page_index.get(child).tally,
            None if level == 0 => Tally::of(*entry),
            None => Tally::of(*entry) * blocks_under(level - 1),
        };
        node.iter().map(below).sum()
    }

    /// Why a page can't be the one that its index entry describes; `None` if it can.
    pub fn node_defect(&self, page: u64, node: &Node) -> Option<String> {
        let level = self.page_index.get(page).level;
        let defect = |entry: &Entry| match (entry.kind(), level) {
            (Kind::Slot(slot), 1..) => Some(format!("map page {page} names {slot} at level {level}")),
            (Kind::Slot(slot), 0) if slot.batch >= self.slots_before => {
                Some(format!("map page {page} names {slot}, which was written after it"))
            }
            (Kind::Block(block), 0) if block != BlockId::LOST && block.frame >= self.table.next => {
                Some(format!("map page {page} names {block}, but no frame has such a number yet"))
            }
            (Kind::Block(_), 1..) => {
                let child = entry.as_page().unwrap_or_default();
                let below = self.page_index.get(child);
                (below.refs > 0 && below.level != level - 1).then(|| {
                    format!(
                        "map page {page} at level {level} names map page {child} at level {}",
                        below.level
                    )
                })
            }
            _ => None,
        };
        node.iter().find_map(defect)
    }

    /// Adds a page that was read.
    ///
    /// # Errors
    /// Why it can't be the page that is listed.
    pub fn load_validated(&mut self, page: u64, node: Node) -> Result<(), String> {
        if let Some(defect) = self.node_defect(page, &node) {
            return Err(defect);
        }
        let info = self.page_index.get(page);
        for child in node.iter().filter(|_| info.level > 0).filter_map(|entry| entry.as_page()) {
            if self.page_index.get(child).refs == 0 {
                let what = format_args!("map page {page} names map page {child}, which does not exist");
                self.inconsistencies.note(what);
                // No new page may get the number while an entry names it.
                self.free.retain(|free| *free != child);
                if child < MAX_NEXT_PAGE {
                    self.next_page = self.next_page.max(child + 1);
                }
            }
        }
        let tally = self.tally_of(info.level, &node);
        if tally != info.tally {
            let (counted, listed) = (tally, info.tally);
            self.inconsistencies
                .note(format_args!("map page {page} maps {counted}, not {listed} as its index entry says"));
            self.page_index.edit(page, |info| info.tally = tally);
        }
        self.load(page, node);
        Ok(())
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} blocks, {} of them zeros,", self.mapped, self.zero)
    }
}

impl FrameTable {
    /// Adds a page that was read, for a log of segments of `segment_bytes`.
    ///
    /// # Errors
    /// Why it can't be the page that is listed.
    pub fn load_validated(
        &mut self,
        page: u64,
        body: TablePage,
        usage: &mut Usage,
        segment_bytes: u32,
    ) -> Result<(), String> {
        validate_frames(page, &body, self.next, usage.segments().len() as u32, segment_bytes)?;
        self.load(page, body, usage);
        Ok(())
    }
}

/// Fails if a page of the frame table has a frame that can't be.
///
/// # Errors
/// Says which, and why.
pub fn validate_frames(
    page: u64,
    body: &TablePage,
    next: u64,
    segments: u32,
    segment_bytes: u32,
) -> Result<(), String> {
    for (index, frame) in body.iter() {
        let number = page * FRAMES + index;
        if number >= next {
            return Err(format!("frame {number} is in the table, but its number has not been used yet"));
        }
        if !is_inside(frame.location, segments, segment_bytes) {
            return Err(format!("frame {number} lies outside of the log: {}", frame.location));
        }
    }
    Ok(())
}

/// Notes a block that a read found missing.
pub fn note_lost(inconsistencies: &Inconsistencies, block: BlockId) {
    if block != BlockId::LOST {
        inconsistencies.note(format_args!("{block} is named by a map, but does not exist"));
    }
}
