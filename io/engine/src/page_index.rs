//! Page index: where each numbered metadata page is in the log, how many refer to it, and how much it maps. It is
//! wholly in memory: 40 bytes for a page that maps 2 MiB, 12 for a page of the frame table. Checkpoints write it in
//! chunks.

use crate::codec::{Malformed, Put, Take};
use crate::pages::{NumberMap, Pages};
use crate::space::{Location, Tally, Usage};
use std::fmt;
use std::sync::Arc;

/// Pages of a chunk.
pub const CHUNK: u64 = 256;

/// A count of references above this is taken for damage.
pub const MAX_REFS: u64 = 1 << 48;

/// What the index says about a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageInfo {
    /// Where the last checkpoint put it; `None` if it has not been written yet.
    pub location: Location,
    /// Parents and roots that refer to it.
    pub refs: u64,
    /// What is mapped below it.
    pub tally: Tally,
    /// Height above the blocks: 0 is a leaf.
    pub level: u8,
    /// The page in the log names slots, so it has to be rewritten before their journal batches go.
    pub names_slots: bool,
}

impl fmt::Display for PageInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { location, refs, tally, level, names_slots } = self;
        let slots = if *names_slots { " with slots" } else { "" };
        write!(f, "{refs} references, level {level}{slots}, {tally} at {location}")
    }
}

/// The infos of 256 pages. Those of the frame table say no more than where a page is, and take a third of the memory
/// of those of maps.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// Each page has one reference and nothing below it.
    Locations(Box<[Location; CHUNK as usize]>),
    /// Everything.
    Infos(Box<[PageInfo; CHUNK as usize]>),
}

/// Stands for a page that exists and has not been written yet.
const UNWRITTEN: Location = Location { segment: u32::MAX, offset: 0, len: 0 };

impl Chunk {
    fn empty() -> Self {
        Self::Locations(Box::new([Location::default(); CHUNK as usize]))
    }

    /// The info at a position.
    pub fn get(&self, index: u64) -> PageInfo {
        match self {
            Self::Infos(page_index) => page_index[index as usize],
            Self::Locations(locations) => match locations[index as usize] {
                location if location == Location::default() => PageInfo::default(),
                location if location == UNWRITTEN => PageInfo { refs: 1, ..PageInfo::default() },
                location => PageInfo { location, refs: 1, ..PageInfo::default() },
            },
        }
    }

    /// Replaces the info at a position.
    pub fn set(&mut self, index: u64, info: PageInfo) {
        let simple = PageInfo { location: info.location, refs: 1, ..PageInfo::default() };
        if let Self::Locations(locations) = self {
            let location = &mut locations[index as usize];
            if info == PageInfo::default() {
                *location = Location::default();
                return;
            }
            if info == simple {
                *location = if info.location.is_none() { UNWRITTEN } else { info.location };
                return;
            }
            let all = std::array::from_fn(|index| self.get(index as u64));
            *self = Self::Infos(Box::new(all));
        }
        if let Self::Infos(page_index) = self {
            page_index[index as usize] = info;
        }
    }

    /// The infos that are not empty, with their positions.
    pub fn iter(&self) -> impl Iterator<Item = (u64, PageInfo)> {
        (0..CHUNK).map(|index| (index, self.get(index))).filter(|(_, one)| *one != PageInfo::default())
    }

    /// Whether no page exists.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Writes the infos that are not empty.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for (index, info) in self.iter() {
            out.u8(index as u8);
            info.location.put(out);
            out.var(info.refs);
            out.var(info.tally.mapped);
            out.var(info.tally.zero);
            out.u8(info.level << 1 | u8::from(info.names_slots));
        }
    }

    /// Reads what [`Chunk::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes, "page index chunk");
        let mut chunk = Self::empty();
        while !take.is_empty() {
            let index = u64::from(take.u8()?);
            let (location, refs) = (Location::take(&mut take)?, take.var()?);
            let (tally, bits) = (Tally { mapped: take.var()?, zero: take.var()? }, take.u8()?);
            let level = bits >> 1;
            take.check(level <= crate::entry::MAX_LEVEL && tally.zero <= tally.mapped)?;
            take.check(tally.mapped <= crate::entry::blocks_under(level) && refs <= MAX_REFS)?;
            take.check(chunk.get(index) == PageInfo::default())?;
            chunk
                .set(index, PageInfo { location, refs, tally, level: bits >> 1, names_slots: bits & 1 == 1 });
        }
        Ok(chunk)
    }
}

/// The infos of one kind of page.
#[derive(Default)]
pub struct PageIndex {
    chunks: Pages<Chunk>,
    /// Where the last checkpoint put each chunk.
    pub locations: NumberMap<u64, Location>,
}

impl PageIndex {
    /// The info of a page; an empty one if the page does not exist.
    pub fn get(&self, page: u64) -> PageInfo {
        self.chunks.get(page / CHUNK).map(|chunk| chunk.get(page % CHUNK)).unwrap_or_default()
    }

    /// Changes the info of a page.
    pub fn edit<R>(&mut self, page: u64, change: impl FnOnce(&mut PageInfo) -> R) -> R {
        let number = page / CHUNK;
        if self.chunks.get(number).is_none() {
            self.chunks.create(number, Chunk::empty());
        }
        let (chunk, _) = self.chunks.edit(number).expect("the chunk is in memory");
        let mut info = chunk.get(page % CHUNK);
        let result = change(&mut info);
        chunk.set(page % CHUNK, info);
        result
    }

    /// Adds a chunk as a checkpoint wrote it.
    pub fn load(&mut self, number: u64, chunk: Chunk, location: Location) {
        self.chunks.load(number, chunk);
        self.locations.insert(number, location);
    }

    /// The highest page that exists.
    pub fn last(&self) -> Option<u64> {
        let chunks = self.chunks.iter().filter(|(_, chunk)| !chunk.is_empty());
        let (number, chunk) = chunks.max_by_key(|(number, _)| *number)?;
        chunk.iter().last().map(|(index, _)| number * CHUNK + index)
    }

    /// Numbers that no page has in existing chunks, the highest first.
    pub fn gaps(&self) -> Vec<u64> {
        let gaps = self.chunks.iter().flat_map(|(number, chunk)| {
            let free = (0..CHUNK).filter(|index| chunk.get(*index) == PageInfo::default());
            free.map(move |index| number * CHUNK + index)
        });
        let mut gaps: Vec<u64> = gaps.collect();
        gaps.sort_unstable_by(|one, other| other.cmp(one));
        gaps
    }

    /// Marks a chunk to be written again by the next checkpoint.
    pub fn mark(&mut self, number: u64) {
        self.chunks.edit(number);
    }

    /// See [`Pages::dirty`].
    pub fn dirty(&self) -> usize {
        self.chunks.dirty()
    }

    /// See [`Pages::freeze`].
    pub fn freeze(&mut self) -> Vec<u64> {
        self.chunks.freeze()
    }

    /// See [`Pages::thaw`].
    pub fn thaw(&mut self, number: u64) -> Option<Arc<Chunk>> {
        self.chunks.thaw(number)
    }

    /// Notes where a checkpoint put pages of a chunk that has been thawed: page, old location, new location and
    /// whether it names slots. With `drops` a page without references has been dropped since and stays so.
    pub fn moved(
        &mut self,
        number: u64,
        moved: &[(u64, Location, Location, bool)],
        usage: &mut Usage,
        drops: bool,
    ) {
        let Some(chunk) = self.chunks.patch(number) else { return };
        for (page, old, new, names_slots) in moved {
            let mut info = chunk.get(page % CHUNK);
            if drops && info.refs == 0 {
                continue;
            }
            assert!(info.location == *old, "page {page} was written by the checkpoint alone");
            usage.move_meta(*old, *new);
            (info.location, info.names_slots) = (*new, *names_slots);
            chunk.set(page % CHUNK, info);
        }
    }

    /// Every page that exists.
    pub fn iter(&self) -> impl Iterator<Item = (u64, PageInfo)> {
        self.chunks
            .iter()
            .flat_map(|(number, chunk)| chunk.iter().map(move |(index, one)| (number * CHUNK + index, one)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_back() {
        let mut page_index = PageIndex::default();
        let info = PageInfo {
            location: Location { segment: 7, offset: 1 << 20, len: 4000 },
            refs: 3,
            tally: Tally { mapped: 1 << 40, zero: 9 },
            level: 4,
            names_slots: true,
        };
        page_index.edit(300, |one| *one = info);
        page_index.edit(511, |one| one.refs = 1);
        assert_eq!(page_index.freeze(), [1]);
        let mut bytes = Vec::new();
        page_index.thaw(1).unwrap().encode(&mut bytes);
        let mut other = PageIndex::default();
        other.load(1, Chunk::decode(&bytes).unwrap(), Location::default());
        assert_eq!(other.get(300), info);
        assert_eq!(other.iter().count(), 2);
        assert_eq!(other.get(0), PageInfo::default());
    }

    #[test]
    fn a_chunk_of_places_alone_takes_more_when_it_must() {
        let mut chunk = Chunk::empty();
        let location = Location { segment: 7, offset: 1 << 20, len: 4000 };
        let simple = [
            PageInfo { refs: 1, ..PageInfo::default() },
            PageInfo { refs: 1, location, ..PageInfo::default() },
        ];
        chunk.set(3, simple[0]);
        chunk.set(4, simple[1]);
        chunk.set(5, simple[1]);
        chunk.set(5, PageInfo::default());
        assert!(matches!(chunk, Chunk::Locations(_)));
        assert_eq!([chunk.get(3), chunk.get(4), chunk.get(5)], [simple[0], simple[1], PageInfo::default()]);
        let more = PageInfo { refs: 2, ..simple[1] };
        chunk.set(6, more);
        assert!(matches!(chunk, Chunk::Infos(_)));
        assert_eq!(chunk.iter().collect::<Vec<_>>(), [(3, simple[0]), (4, simple[1]), (6, more)]);
    }
}
