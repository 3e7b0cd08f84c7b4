//! Checkpoint root and the superblock's payload: where recovery begins.

use crate::codec::{Malformed, Put, Take};
use crate::entry::{BlockId, SlotId};
use crate::index_log::IndexLog;
use crate::page_index::MAX_REFS;
use crate::pages::NumberMap;
use crate::record::checksum;
use crate::space::{Live, Location};
use block::NotedCommands;
use std::ops::RangeInclusive;

const MAGIC: u32 = u32::from_le_bytes(*b"ALE1");

/// Formats of the store that this release reads and writes. Another one is refused before anything is written. An array keeps
/// the format that it has until an operator commits to the newest, so that an earlier release can open it until then.
pub const FORMATS: RangeInclusive<u32> = 6..=INDEX_VERSION;

/// The first format in which commands of front ends are noted.
pub const NOTING_VERSION: u32 = 7;

/// The first format in which checkpoints write the deduplication index.
pub const INDEX_VERSION: u32 = 8;

/// From this format on frames may have cells.
pub const CELL_VERSION: u32 = 8;

/// What the superblock says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// The version.
    pub version: u32,
    /// Key of the fingerprints: secret, one for each array.
    pub key: [u8; 32],
    /// The first journal batch that is replayed. Earlier ones only hold slots that the root names.
    pub replay_from: u64,
    /// The parts of the root; empty for an array that has just been formatted.
    pub root: Vec<Location>,
}

impl Payload {
    /// Writes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.u32(MAGIC);
        out.u32(0);
        out.u32(self.version);
        out.extend_from_slice(&self.key);
        out.u64(self.replay_from);
        out.var(self.root.len() as u64);
        self.root.iter().for_each(|location| location.put(&mut out));
        Self::sealed(out)
    }

    /// The bytes of a payload with their checksum.
    pub fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let sum = checksum(&bytes[8..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The version that wrote these bytes: readable in all versions.
    pub fn version(bytes: &[u8]) -> Result<u32, Malformed> {
        let mut take = Take::new(bytes, "superblock");
        take.expect(MAGIC)?;
        take.u32()?;
        take.u32()
    }

    /// Reads what [`Payload::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes, "superblock");
        take.expect(MAGIC)?;
        let sum = take.u32()?;
        take.check(sum == checksum(&bytes[8..]))?;
        let version = take.u32()?;
        take.check(FORMATS.contains(&version))?;
        let mut key = [0; 32];
        key.copy_from_slice(take.bytes(32)?);
        let replay_from = take.u64()?;
        let root = (0..take.count()?).map(|_| Location::take(&mut take)).collect::<Result<_, _>>()?;
        take.check(take.is_empty())?;
        Ok(Self { version, key, replay_from, root })
    }
}

/// A slot that was not flushed when the checkpoint was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unflushed {
    /// The slot.
    pub slot: SlotId,
    /// Entries that name it.
    pub holders: u64,
    /// The volume it was written to.
    pub volume: u32,
    /// The first block it was written to.
    pub block: u64,
}

/// A slot that was flushed before the checkpoint was made, and that map pages name which the checkpoint could not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aside {
    /// The slot.
    pub slot: SlotId,
    /// Entries of these pages that name it.
    pub holders: u64,
    /// The block that has its bytes.
    pub block: BlockId,
}

/// The root of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// The number of the next frame.
    pub next_frame: u64,
    /// The lowest map page number never used.
    pub next_page: u64,
    /// Live bytes of each segment, without the root itself.
    pub segments: Vec<Live>,
    /// Blocks in frames with at least one reference.
    pub unique_blocks: u64,
    /// The parts of the catalog.
    pub catalog: Vec<Location>,
    /// The chunks of the page index of the maps.
    pub map_chunks: Vec<(u64, Location)>,
    /// The chunks of the page index of the frame table.
    pub table_chunks: Vec<(u64, Location)>,
    /// Map pages that wait to be released.
    pub orphans: Vec<u64>,
    /// Deferred reference changes.
    pub deferred: Vec<(BlockId, i64)>,
    /// Slots that wait to be flushed.
    pub unflushed: Vec<Unflushed>,
    /// Flushed slots that unreadable map pages name. Absent from the bytes if there are none, as in roots that were
    /// written before there was this list.
    pub aside: Vec<Aside>,
    /// Commands of front ends that took effect. Absent from the bytes if there are none.
    pub done: NotedCommands,
    /// The deduplication index. Absent from the bytes before format [`INDEX_VERSION`].
    pub index: Option<IndexLog>,
}

fn put_slot(out: &mut Vec<u8>, slot: SlotId, holders: u64) {
    out.var(slot.batch);
    out.var(u64::from(slot.page));
    out.var(holders);
}

fn take_slot(take: &mut Take<'_>) -> Result<(SlotId, u64), Malformed> {
    let (batch, page, holders) = (take.var()?, take.var()?, take.var()?);
    take.check(holders <= MAX_REFS)?;
    Ok((SlotId { batch, page: u16::try_from(page).map_err(|_| take.malformed())? }, holders))
}

fn put_block(out: &mut Vec<u8>, block: BlockId) {
    out.var(block.frame);
    out.u8(block.index);
}

fn take_block(take: &mut Take<'_>) -> Result<BlockId, Malformed> {
    let block = BlockId { frame: take.var()?, index: take.u8()? };
    take.check(usize::from(block.index) < BlockId::PER_FRAME)?;
    Ok(block)
}

fn put_chunks(out: &mut Vec<u8>, chunks: &[(u64, Location)]) {
    out.var(chunks.len() as u64);
    for (number, location) in chunks {
        out.var(*number);
        location.put(out);
    }
}

fn take_chunks(take: &mut Take<'_>) -> Result<Vec<(u64, Location)>, Malformed> {
    (0..take.count()?).map(|_| Ok((take.var()?, Location::take(take)?))).collect()
}

impl Root {
    /// Writes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.var(self.next_frame);
        out.var(self.next_page);
        out.var(self.unique_blocks);
        out.var(self.segments.len() as u64);
        for live in &self.segments {
            out.var(live.data);
            out.var(live.meta);
        }
        out.var(self.catalog.len() as u64);
        self.catalog.iter().for_each(|location| location.put(&mut out));
        put_chunks(&mut out, &self.map_chunks);
        put_chunks(&mut out, &self.table_chunks);
        out.var(self.orphans.len() as u64);
        self.orphans.iter().for_each(|page| out.var(*page));
        out.var(self.deferred.len() as u64);
        for (block, change) in &self.deferred {
            put_block(&mut out, *block);
            out.signed(*change);
        }
        out.var(self.unflushed.len() as u64);
        for one in &self.unflushed {
            put_slot(&mut out, one.slot, one.holders);
            out.var(u64::from(one.volume));
            out.var(one.block);
        }
        let (done, index) = (!self.done.is_empty(), self.index.as_ref());
        if !self.aside.is_empty() || done || index.is_some() {
            out.var(self.aside.len() as u64);
            for one in &self.aside {
                put_slot(&mut out, one.slot, one.holders);
                put_block(&mut out, one.block);
            }
        }
        if done || index.is_some() {
            out.blob(&self.done.encode());
        }
        if let Some(index) = index {
            index.encode(&mut out);
        }
        out
    }

    /// Reads what [`Root::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes, "checkpoint root");
        let (next_frame, next_page, unique_blocks) = (take.var()?, take.var()?, take.var()?);
        let segments = (0..take.count()?)
            .map(|_| Ok(Live { data: take.var()?, meta: take.var()? }))
            .collect::<Result<_, Malformed>>()?;
        let catalog = (0..take.count()?).map(|_| Location::take(&mut take)).collect::<Result<_, _>>()?;
        let (map_chunks, table_chunks) = (take_chunks(&mut take)?, take_chunks(&mut take)?);
        let orphans = (0..take.count()?).map(|_| take.var()).collect::<Result<_, _>>()?;
        let deferred = (0..take.count()?)
            .map(|_| {
                let block = take_block(&mut take)?;
                let change = take.signed()?;
                take.check(change.unsigned_abs() <= MAX_REFS)?;
                Ok((block, change))
            })
            .collect::<Result<_, Malformed>>()?;
        let unflushed = (0..take.count()?)
            .map(|_| {
                let (slot, holders) = take_slot(&mut take)?;
                Ok(Unflushed { slot, holders, volume: take.var32()?, block: take.var()? })
            })
            .collect::<Result<_, Malformed>>()?;
        let aside = if take.is_empty() { 0 } else { take.count()? };
        let aside = (0..aside)
            .map(|_| {
                let (slot, holders) = take_slot(&mut take)?;
                Ok(Aside { slot, holders, block: take_block(&mut take)? })
            })
            .collect::<Result<_, Malformed>>()?;
        let done = match take.is_empty() {
            true => NotedCommands::default(),
            false => NotedCommands::decode(take.blob()?).ok_or(take.malformed())?,
        };
        let index = if take.is_empty() { None } else { Some(IndexLog::decode(&mut take)?) };
        take.check(take.is_empty())?;
        Ok(Self {
            next_frame,
            next_page,
            segments,
            unique_blocks,
            catalog,
            map_chunks,
            table_chunks,
            orphans,
            deferred,
            unflushed,
            aside,
            done,
            index,
        })
    }
}

/// Chunks of a page index by number.
pub fn chunks_of(locations: &NumberMap<u64, Location>) -> Vec<(u64, Location)> {
    let mut chunks: Vec<_> = locations.iter().map(|(number, location)| (*number, *location)).collect();
    chunks.sort_unstable();
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{Note, Sequence};

    #[test]
    fn the_superblock_and_the_root_come_back() {
        let location = Location { segment: 3, offset: 4096, len: 500 };
        let payload = Payload { version: 7, key: [7; 32], replay_from: 12, root: vec![location, location] };
        let bytes = payload.encode();
        assert_eq!(Payload::decode(&bytes), Ok(payload));
        assert!(Payload::decode(&bytes[..bytes.len() - 1]).is_err());
        let root = Root {
            next_frame: 1 << 40,
            next_page: 9,
            segments: vec![Live { data: 5, meta: 6 }; 3],
            unique_blocks: 77,
            catalog: vec![location],
            map_chunks: vec![(0, location), (1 << 33, location)],
            table_chunks: vec![],
            orphans: vec![1, 2],
            deferred: vec![(BlockId { frame: 8, index: 7 }, -3)],
            unflushed: vec![Unflushed {
                slot: SlotId { batch: 11, page: 2 },
                holders: 1,
                volume: 4,
                block: 1 << 41,
            }],
            aside: Vec::new(),
            done: NotedCommands::default(),
            index: None,
        };
        let short = root.encode();
        assert_eq!(Root::decode(&short), Ok(root.clone()));
        let one =
            Aside { slot: SlotId { batch: 3, page: 1 }, holders: 2, block: BlockId { frame: 8, index: 7 } };
        let root = Root { aside: vec![one], ..root };
        let bytes = root.encode();
        assert!(bytes.starts_with(&short));
        assert_eq!(Root::decode(&bytes), Ok(root.clone()));
        assert!(Root::decode(&bytes[..bytes.len() - 1]).is_err());
        let mut done = NotedCommands::default();
        done.note(Note { sequence: Sequence { front: 5, number: 9, lowest: 8 }, whole: true });
        for aside in [Vec::new(), vec![one]] {
            let root = Root { aside, done: done.clone(), ..root.clone() };
            let bytes = root.encode();
            assert_eq!(Root::decode(&bytes), Ok(root.clone()));
            assert!(Root::decode(&bytes[..bytes.len() - 1]).is_err());
            let root = Root { index: Some(IndexLog::without_objects(3..5)), ..root };
            let bytes = root.encode();
            assert_eq!(Root::decode(&bytes), Ok(root));
            assert!(Root::decode(&bytes[..bytes.len() - 1]).is_err());
        }
    }
}
