//! Where each numbered page is in the log, how many refer to it, and how much it maps. Wholly in memory: about 40
//! bytes for a page that maps 2 MiB. Written in chunks by checkpoints.

use crate::codec::{Malformed, Put, Take};
use crate::pages::{NumberMap, Pages};
use crate::space::{Place, Tally, Usage};
use std::sync::Arc;

/// Pages of a chunk.
pub const CHUNK: u64 = 256;

/// What the directory says about a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Where the last checkpoint put it; none when it has not been written yet.
    pub place: Place,
    /// Parents and roots that refer to it.
    pub refs: u64,
    /// What is mapped below it.
    pub tally: Tally,
    /// Height above the blocks: 0 is a leaf.
    pub level: u8,
    /// The page in the log names slots, so it has to be rewritten before their journal batches go.
    pub names_slots: bool,
}

/// 256 listings.
#[derive(Clone, PartialEq, Eq)]
pub struct Chunk(pub Box<[Listing; CHUNK as usize]>);

impl Chunk {
    fn empty() -> Self {
        Self(Box::new([Listing::default(); CHUNK as usize]))
    }

    /// True when no page is listed.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|listing| *listing == Listing::default())
    }

    /// Writes the listings that are not empty.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for (index, listing) in self.0.iter().enumerate().filter(|(_, one)| **one != Listing::default()) {
            out.u8(index as u8);
            listing.place.put(out);
            out.var(listing.refs);
            out.var(listing.tally.mapped);
            out.var(listing.tally.zero);
            out.u8(listing.level << 1 | u8::from(listing.names_slots));
        }
    }

    /// Reads what [`Chunk::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes, "directory chunk");
        let mut chunk = Self::empty();
        while !take.is_empty() {
            let index = usize::from(take.u8()?);
            let (place, refs) = (Place::take(&mut take)?, take.var()?);
            let (tally, bits) = (Tally { mapped: take.var()?, zero: take.var()? }, take.u8()?);
            take.check(bits >> 1 < 8 && tally.zero <= tally.mapped)?;
            chunk.0[index] = Listing { place, refs, tally, level: bits >> 1, names_slots: bits & 1 == 1 };
        }
        Ok(chunk)
    }
}

/// The listings of one kind of page.
#[derive(Default)]
pub struct Directory {
    chunks: Pages<Chunk>,
    /// Where the last checkpoint put each chunk.
    pub places: NumberMap<u64, Place>,
}

impl Directory {
    /// The listing of a page; an empty one when it is not listed.
    pub fn get(&self, page: u64) -> Listing {
        self.chunks.get(page / CHUNK).map(|chunk| chunk.0[(page % CHUNK) as usize]).unwrap_or_default()
    }

    /// The listing of a page, to change it.
    pub fn edit(&mut self, page: u64) -> &mut Listing {
        let number = page / CHUNK;
        if self.chunks.get(number).is_none() {
            self.chunks.create(number, Chunk::empty());
        }
        let (chunk, _) = self.chunks.edit(number).expect("the chunk is in memory");
        &mut chunk.0[(page % CHUNK) as usize]
    }

    /// Adds a chunk as a checkpoint wrote it.
    pub fn load(&mut self, number: u64, chunk: Chunk, place: Place) {
        self.chunks.load(number, chunk);
        self.places.insert(number, place);
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

    /// Notes where a checkpoint put pages of a chunk that has been thawed: page, old place, new place and whether
    /// it names slots. With `drops` a page without references has been dropped meanwhile and stays so.
    pub fn moved(
        &mut self,
        number: u64,
        moved: &[(u64, Place, Place, bool)],
        usage: &mut Usage,
        drops: bool,
    ) {
        let Some(chunk) = self.chunks.patch(number) else { return };
        for (page, old, new, names_slots) in moved {
            let listing = &mut chunk.0[(page % CHUNK) as usize];
            if drops && listing.refs == 0 {
                continue;
            }
            assert!(listing.place == *old, "page {page} was written by nobody else");
            usage.move_meta(*old, *new);
            (listing.place, listing.names_slots) = (*new, *names_slots);
        }
    }

    /// Every page that is listed.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Listing)> {
        self.chunks.iter().flat_map(|(number, chunk)| {
            let listed = chunk.0.iter().enumerate().filter(|(_, one)| **one != Listing::default());
            listed.map(move |(index, one)| (number * CHUNK + index as u64, *one)).collect::<Vec<_>>()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_back() {
        let mut directory = Directory::default();
        let listing = Listing {
            place: Place { segment: 7, offset: 1 << 20, len: 4000 },
            refs: 3,
            tally: Tally { mapped: 1 << 40, zero: 9 },
            level: 4,
            names_slots: true,
        };
        *directory.edit(300) = listing;
        *directory.edit(511) = Listing { refs: 1, ..Listing::default() };
        assert_eq!(directory.freeze(), [1]);
        let mut bytes = Vec::new();
        directory.thaw(1).unwrap().encode(&mut bytes);
        let mut other = Directory::default();
        other.load(1, Chunk::decode(&bytes).unwrap(), Place::default());
        assert_eq!(other.get(300), listing);
        assert_eq!(other.iter().count(), 2);
        assert_eq!(other.get(0), Listing::default());
    }
}
