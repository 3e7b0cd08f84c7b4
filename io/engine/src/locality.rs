//! What was written together is written together again: where the index knows one block of a run, the fingerprints of
//! the frames around it are read from the log, and the rest of the run is found there. So a run is found as a whole
//! though the index has only a sample of it.

use crate::background::Worker;
use crate::entry::BlockId;
use crate::flush::Item;
use crate::frame::{self, Fingerprint, ObjectKind, UNKNOWN};
use crate::frame_table::FRAMES;
use crate::map::Need;
use crate::pages::NumberMap;
use bytes::Bytes;
use shelf::join;
use std::collections::{BTreeSet, VecDeque};

/// Frames read behind and before one that is known. What is written in a row has numbers in a row.
const FRAMES_AFTER: u64 = 12;
const FRAMES_BEFORE: u64 = 4;

/// How often what was found may lead on in one step of the flusher.
const MAX_ROUNDS: usize = 4;

/// Blocks found make up for as many frames read; while less is found, fewer are read.
const WORTH: i64 = 4;
const MAX_CREDIT_FRAMES: i64 = 4096;

/// With no credit left one hit in this many is followed.
const PROBE_INTERVAL: u64 = 16;

/// Fingerprints of frames that were read lately.
pub struct LocalityCache {
    blocks: NumberMap<u128, BlockId>,
    frames: VecDeque<(u64, Vec<u128>)>,
    known: BTreeSet<u64>,
    credit: i64,
    tries: u64,
    /// Frames whose fingerprints are remembered.
    most: usize,
}

impl LocalityCache {
    /// Knows nothing; remembers the fingerprints of up to so many frames.
    pub fn new(most: usize) -> Self {
        Self {
            blocks: NumberMap::default(),
            frames: VecDeque::new(),
            known: BTreeSet::new(),
            credit: MAX_CREDIT_FRAMES / 16,
            tries: 0,
            most,
        }
    }

    /// The block with this fingerprint.
    pub fn find(&self, fingerprint: &Fingerprint) -> Option<BlockId> {
        self.blocks.get(&u128::from_le_bytes(*fingerprint)).copied()
    }

    /// Forgets a block that is gone.
    pub fn remove(&mut self, fingerprint: &Fingerprint) {
        self.blocks.remove(&u128::from_le_bytes(*fingerprint));
    }

    fn add(&mut self, frame: u64, fingerprints: &[(u8, Fingerprint)]) {
        if !self.known.insert(frame) {
            return;
        }
        let keys: Vec<u128> = fingerprints.iter().map(|(_, one)| u128::from_le_bytes(*one)).collect();
        for (key, (index, _)) in keys.iter().zip(fingerprints) {
            self.blocks.insert(*key, BlockId { frame, index: *index });
        }
        self.frames.push_back((frame, keys));
        while self.frames.len() > self.most {
            let Some((frame, keys)) = self.frames.pop_front() else { break };
            self.known.remove(&frame);
            for key in keys {
                if self.blocks.get(&key).is_some_and(|block| block.frame == frame) {
                    self.blocks.remove(&key);
                }
            }
        }
    }

    /// True when a hit is to be followed.
    fn is_worth(&mut self) -> bool {
        self.tries += 1;
        self.credit > 0 || self.tries.is_multiple_of(PROBE_INTERVAL)
    }
}

/// Frames around the known blocks of a run that have unknown ones beside them.
fn around(items: &[Item]) -> BTreeSet<u64> {
    let mut wanted = BTreeSet::new();
    for pair in items.windows(2) {
        let [one, next] = pair else { continue };
        let beside = one.volume == next.volume && one.block + 1 == next.block;
        let asks = |item: &Item| item.known.is_none() && item.fingerprint != UNKNOWN;
        match (one.known, next.known) {
            (Some(block), None) if beside && asks(next) => {
                wanted.extend(block.frame..=block.frame + FRAMES_AFTER)
            }
            (None, Some(block)) if beside && asks(one) => {
                wanted.extend(block.frame.saturating_sub(FRAMES_BEFORE)..=block.frame);
            }
            _ => {}
        }
    }
    wanted
}

impl Worker {
    /// Finds more of the runs of which some blocks are known.
    pub async fn follow(&mut self, items: &mut [Item]) -> block::Result<()> {
        if !self.index.is_partial() && self.index_rebuild.is_over() {
            return Ok(());
        }
        for _ in 0..MAX_ROUNDS {
            let mut wanted = around(items);
            wanted.retain(|frame| !self.locality.known.contains(frame));
            if wanted.is_empty() || !self.locality.is_worth() {
                break;
            }
            self.locality.credit -= wanted.len() as i64;
            self.learn_frames(wanted).await?;
            let mut found = 0;
            for item in items.iter_mut().filter(|item| item.known.is_none() && item.fingerprint != UNKNOWN) {
                item.known = self.locality.find(&item.fingerprint);
                found += i64::from(item.known.is_some());
            }
            self.locality.credit = (self.locality.credit + found * WORTH).clamp(0, MAX_CREDIT_FRAMES);
            if found == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Reads frames, those that are there, and remembers their fingerprints.
    async fn learn_frames(&mut self, numbers: BTreeSet<u64>) -> block::Result<()> {
        for page in numbers.iter().map(|number| number / FRAMES).collect::<BTreeSet<_>>() {
            // What can't be read is not shared.
            let _ = self.core.load(Need::Table(page)).await;
        }
        let locations: Vec<_> = {
            let state = self.core.state.read();
            let location = |number: &u64| Some((*number, state.maps.table.get(*number).ok()??.location));
            numbers.iter().filter_map(location).collect()
        };
        let core = self.core.clone();
        let objects = join(locations.iter().map(|(_, location)| core.log.read(*location))).await;
        for (object, (number, _)) in objects.into_iter().zip(&locations) {
            // What can't be read is not shared, and nobody has asked for it.
            let fingerprints = object.ok().and_then(|object| self.fingerprints_of(&object, *number));
            self.locality.add(*number, &fingerprints.unwrap_or_default());
        }
        Ok(())
    }

    /// The fingerprints of the blocks that a frame stores, by index; those that were left out are made. None when it is
    /// not this frame.
    pub fn fingerprints_of(&mut self, object: &Bytes, number: u64) -> Option<Vec<(u8, Fingerprint)>> {
        let header = frame::verify(object).ok()?;
        if (header.kind, header.number) != (ObjectKind::Frame, number) {
            return None;
        }
        let indexes = (0..8u8).filter(|index| header.stored >> index & 1 == 1);
        let mut known: Vec<_> = indexes.zip(frame::fingerprints(object, &header).ok()?).collect();
        if header.skipped {
            let decoded = frame::unpack(object, number).ok()?;
            for (index, fingerprint) in known.iter_mut().filter(|(_, known)| *known == UNKNOWN) {
                *fingerprint = self.fingerprinter.of(&decoded.blocks(*index, 1)?);
            }
        }
        known.retain(|(_, fingerprint)| *fingerprint != UNKNOWN);
        Some(known)
    }
}
