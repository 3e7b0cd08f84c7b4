//! Frame table: the location of each frame in the log, and the reference count of each of its blocks. Maps name
//! frames by number, so that cleaning moves frames without touching a map.
//!
//! Pages of the table are read when needed. A reference that changes while its page is not in memory is deferred
//! until the page is read: writing and unmapping never wait for the table.

use crate::cell::{Cells, indexes};
use crate::codec::{Malformed, Put, Take};
use crate::entry::BlockId;
use crate::frame;
use crate::inconsistency::Inconsistencies;
use crate::page_index::{MAX_REFS, PageIndex};
use crate::pages::{NumberMap, Pages};
use crate::space::{Location, Usage};
use smallvec::SmallVec;

/// Frames of a page.
pub const FRAMES: u64 = 64;

/// Frame numbers are below this.
pub const MAX_FRAMES: u64 = 1 << 50;

/// A bit beside the number of a frame's blocks: see [`Frame::deep`].
const DEEP: u8 = 0x80;

/// Another one: the cells follow, see [`Frame::cells`].
const CELLS: u8 = 0x40;

/// What the table says about a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its location.
    pub location: Location,
    /// The blocks that are stored there, one bit each; cleaning leaves out the dead ones.
    pub stored: u8,
    /// Their cells, or [`Cells::NONE`] if they lie there in one piece.
    pub cells: Cells,
    /// Recompression has reduced it as far as it can.
    pub deep: bool,
    /// References of each block that was there when the frame was made.
    pub refs: SmallVec<[u64; 2]>,
}

/// Where a frame is, and in which form.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// Its location.
    pub location: Location,
    /// The blocks that are stored there.
    pub stored: u8,
    /// Their cells.
    pub cells: Cells,
}

impl Frame {
    /// Where it is.
    pub fn placed(&self) -> Placed {
        Placed { location: self.location, stored: self.stored, cells: self.cells }
    }

    /// The part of the frame's bytes that is attributed to a stored block. The parts of all stored blocks add up to
    /// the length exactly.
    pub fn share(&self, index: u8) -> u64 {
        let (len, stored) = (u64::from(self.location.len), u64::from(self.stored.count_ones()));
        let rank = u64::from((self.stored & ((1u8 << index) - 1)).count_ones());
        len * (rank + 1) / stored - len * rank / stored
    }

    /// The blocks that are referred to, one bit each.
    pub fn live(&self) -> u8 {
        (0..self.refs.len()).filter(|index| self.refs[*index] > 0).fold(0, |bits, index| bits | 1 << index)
    }

    /// References of a block; zero if it is not stored.
    pub fn refs(&self, index: u8) -> u64 {
        self.refs.get(usize::from(index)).copied().unwrap_or(0)
    }

    fn count(&self, usage: &mut Usage, alive: bool) {
        let live = self.live();
        for index in indexes(live) {
            match alive {
                true => usage.add_block(self.location.segment, self.share(index)),
                false => usage.sub_block(self.location.segment, self.share(index)),
            }
        }
    }
}

/// 64 frames with consecutive numbers.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct TablePage {
    frames: Vec<Option<Frame>>,
}

impl TablePage {
    fn get(&self, index: u64) -> Option<&Frame> {
        self.frames.get(index as usize)?.as_ref()
    }

    pub(crate) fn slot(&mut self, index: u64) -> &mut Option<Frame> {
        if self.frames.len() <= index as usize {
            self.frames.resize(index as usize + 1, None);
        }
        &mut self.frames[index as usize]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.iter().all(Option::is_none)
    }

    /// The frames of the page, with their positions.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Frame)> {
        self.frames.iter().enumerate().filter_map(|(index, frame)| Some((index as u64, frame.as_ref()?)))
    }

    /// Writes the frames that exist; a location is the difference to the end of the frame before.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut expected = (0u32, 0u32);
        for (index, frame) in self.iter() {
            let Location { segment, offset, len } = frame.location;
            out.u8(index as u8);
            out.signed(i64::from(segment) - i64::from(expected.0));
            out.signed(i64::from(offset) - i64::from(expected.1));
            out.var(u64::from(len));
            expected = (segment, offset.saturating_add(len));
            out.u8(frame.stored);
            let cells = if frame.cells.is_none() { 0 } else { CELLS };
            out.u8(frame.refs.len() as u8 | cells | if frame.deep { DEEP } else { 0 });
            frame.cells.listed().for_each(|cell| out.var(u64::from(cell)));
            frame.refs.iter().for_each(|refs| out.var(*refs));
        }
    }

    /// Reads what [`TablePage::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes, "frame table page");
        let mut page = Self::default();
        let mut expected = (0u32, 0u32);
        let step = |take: &mut Take<'_>, base: u32| {
            let value = take.signed()?.checked_add(i64::from(base)).and_then(|sum| u32::try_from(sum).ok());
            value.ok_or(take.malformed())
        };
        while !take.is_empty() {
            let index = u64::from(take.u8()?);
            take.check(index < FRAMES)?;
            let segment = step(&mut take, expected.0)?;
            let offset = step(&mut take, expected.1)?;
            let len = take.var32()?;
            expected = (segment, offset.saturating_add(len));
            let (stored, bits) = (take.u8()?, take.u8()?);
            let (blocks, deep) = (bits & !(DEEP | CELLS), bits & DEEP != 0);
            take.check(stored != 0 && usize::from(blocks) <= BlockId::PER_FRAME)?;
            let cells = match bits & CELLS {
                0 => Cells::NONE,
                _ => Cells::read(stored, || u16::try_from(take.var()?).map_err(|_| take.malformed()))?,
            };
            take.check(cells.is_none() || len as usize == frame::len_of_cells(&cells))?;
            let refs = (0..blocks).map(|_| take.var()).collect::<Result<SmallVec<_>, _>>()?;
            take.check(len > 0 && refs.iter().all(|refs| *refs <= MAX_REFS) && page.get(index).is_none())?;
            let location = Location { segment, offset, len };
            let frame = Frame { location, stored, cells, deep, refs };
            take.check(frame.live() & !stored == 0 && frame.live() != 0)?;
            *page.slot(index) = Some(frame);
        }
        Ok(page)
    }
}

/// The page of the table that must be read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absent(pub u64);

/// The frame table.
#[derive(Default)]
pub struct FrameTable {
    pub(crate) pages: Pages<TablePage>,
    pub(crate) page_index: PageIndex,
    /// Deferred reference changes, by page.
    pub(crate) deferred: NumberMap<u64, Vec<(BlockId, i64)>>,
    /// The number of the next frame.
    pub next: u64,
    pub(crate) inconsistencies: Inconsistencies,
}

impl FrameTable {
    /// The page that has to be read before anything can be said about `frame`.
    fn absent(&self, frame: u64) -> Option<Absent> {
        let page = frame / FRAMES;
        let known = self.pages.get(page).is_some() || self.page_index.get(page).refs == 0;
        (!known).then_some(Absent(page))
    }

    /// What the table says about a frame; `None` if there is no such frame.
    pub fn get(&self, frame: u64) -> Result<Option<&Frame>, Absent> {
        if let Some(page) = self.pages.get(frame / FRAMES) {
            return Ok(page.get(frame % FRAMES));
        }
        self.absent(frame).map_or(Ok(None), Err)
    }

    /// Adds a frame.
    pub fn insert(&mut self, number: u64, frame: Frame, usage: &mut Usage) -> Result<(), Absent> {
        self.absent(number).map_or(Ok(()), Err)?;
        assert!(
            frame.live() != 0 && frame.live() & !frame.stored == 0,
            "frame {number} is dead or not stored"
        );
        frame.count(usage, true);
        let page = number / FRAMES;
        if self.pages.get(page).is_none() {
            self.pages.create(page, TablePage::default());
            self.page_index.edit(page, |info| info.refs = 1);
        }
        let slot = self.edit(page).slot(number % FRAMES);
        assert!(slot.is_none(), "frame {number} exists");
        *slot = Some(frame);
        Ok(())
    }

    /// Sets the new location of a frame that was moved, and the blocks and cells that are there.
    pub fn relocate(&mut self, number: u64, moved: Placed, usage: &mut Usage) {
        let slot = self.edit(number / FRAMES).slot(number % FRAMES);
        let frame = slot.as_mut().expect("a frame that is moved is in the table");
        frame.count(usage, false);
        (frame.location, frame.stored, frame.cells) = (moved.location, moved.stored, moved.cells);
        assert!(frame.live() & !moved.stored == 0, "frame {number} lost a block");
        frame.count(usage, true);
    }

    /// Notes that recompression has reduced a frame as far as it can.
    pub fn mark_deep(&mut self, number: u64) {
        let slot = self.edit(number / FRAMES).slot(number % FRAMES);
        slot.as_mut().expect("a frame that is noted is in the table").deep = true;
    }

    /// One page, to change it.
    fn edit(&mut self, page: u64) -> &mut TablePage {
        let (body, fresh) = self.pages.edit(page).expect("the page is in memory");
        if fresh {
            self.page_index.mark(page / crate::page_index::CHUNK);
        }
        body
    }

    /// Marks a page that is in memory to be written again.
    pub fn mark(&mut self, page: u64) {
        if self.pages.get(page).is_some() {
            self.edit(page);
        }
    }

    /// Adds `change` to the references of a block, now or when its page is read.
    pub fn refer(&mut self, block: BlockId, change: i64, usage: &mut Usage) {
        if block == BlockId::LOST {
            return;
        }
        let page = block.frame / FRAMES;
        if self.pages.get(page).is_none() {
            if self.page_index.get(page).refs == 0 {
                self.inconsistencies
                    .note(format_args!("{block} is named by a map, but its frame does not exist"));
                return;
            }
            let notes = self.deferred.entry(page).or_default();
            match notes.last_mut() {
                Some((last, sum)) if *last == block => *sum = sum.saturating_add(change),
                _ => notes.push((block, change)),
            }
            return;
        }
        self.apply(block, change, usage);
    }

    fn apply(&mut self, block: BlockId, change: i64, usage: &mut Usage) {
        let page = block.frame / FRAMES;
        let known = self.pages.get(page).and_then(|body| body.get(block.frame % FRAMES));
        let before = known.map_or(0, |frame| frame.refs(block.index));
        // Which other reference was not counted is unknown: the block stays until the last one is dropped.
        let Some(after) = before.checked_add_signed(change).filter(|_| before > 0) else {
            let before = if known.is_some() { before.to_string() } else { "no frame and no".into() };
            self.inconsistencies
                .note(format_args!("{block} has {before} references, which change by {change}"));
            return;
        };
        let slot = self.edit(page).slot(block.frame % FRAMES);
        let Some(frame) = slot.as_mut() else { return };
        frame.refs[usize::from(block.index)] = after;
        if after > 0 {
            return;
        }
        usage.sub_block(frame.location.segment, frame.share(block.index));
        if frame.live() == 0 {
            *slot = None;
            self.remove_if_empty(page, usage);
        }
    }

    fn remove_if_empty(&mut self, page: u64, usage: &mut Usage) {
        // The page that new frames go to stays.
        if self.pages.get(page).is_some_and(|body| body.is_empty()) && page != self.next / FRAMES {
            self.pages.remove(page);
            let info = self.page_index.edit(page, std::mem::take);
            usage.move_meta(info.location, Location::default());
        }
    }

    /// Adds a page that was read, and applies its deferred changes.
    pub fn load(&mut self, page: u64, body: TablePage, usage: &mut Usage) {
        if !self.pages.load(page, body) {
            return;
        }
        let mut sums: NumberMap<u64, (BlockId, i64)> = NumberMap::default();
        for (block, change) in self.deferred.remove(&page).unwrap_or_default() {
            let sum = &mut sums.entry(block.bits()).or_insert((block, 0)).1;
            *sum = sum.saturating_add(change);
        }
        for (block, change) in sums.into_values().filter(|(_, change)| *change != 0) {
            self.apply(block, change, usage);
        }
    }

    /// Replaces a page; one without frames is removed.
    pub fn replace(&mut self, page: u64, body: TablePage) {
        self.pages.load(page, TablePage::default());
        *self.edit(page) = body;
        if self.pages.get(page).is_some_and(|body| body.is_empty()) {
            self.pages.remove(page);
            self.page_index.edit(page, std::mem::take);
        }
    }

    /// Number of deferred changes.
    pub fn deferred(&self) -> usize {
        self.deferred.values().map(Vec::len).sum()
    }
}

#[cfg(test)]
#[path = "frame_table_test.rs"]
mod tests;
