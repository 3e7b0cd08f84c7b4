//! Locality prefetch for deduplication: data that was written together is written together again.
//!
//! Where the index knows one block of a run, the fingerprints of the frames around that block are read from the log, and
//! the rest of the run is looked up there. So a copied run is found whole although a bounded index holds only a sample
//! of its blocks.

use super::flush::Item;
use crate::core::Core;
use crate::dedup::Fingerprinter;
use crate::entry::BlockId;
use crate::frame::{Fingerprint, UNKNOWN};
use crate::frame_table::FRAMES;
use crate::map::Need;
use crate::pages::NumberMap;
use crate::tunables::Tunables;
use shelf::join;
use std::collections::{BTreeSet, VecDeque};

/// Frames read after and before one that is known. What is written in a row has numbers in a row.
const FRAMES_AFTER: u64 = 12;
const FRAMES_BEFORE: u64 = 4;

/// How often in one step of the flusher a match may lead to more matches.
const MAX_ROUNDS: usize = 4;

/// Frames that each block found gives credit for; without matches, fewer frames are read.
const FRAMES_PER_MATCH: i64 = 4;

/// Without credit, one match in this many is followed.
const PROBE_INTERVAL: u64 = 16;

/// Fingerprints of frames that were read lately.
pub struct LocalityCache {
    blocks: NumberMap<u128, BlockId>,
    frames: VecDeque<(u64, Vec<u128>)>,
    known: BTreeSet<u64>,
    /// Frames that may be read.
    credit: i64,
    matches: u64,
    tunables: Tunables,
}

impl LocalityCache {
    /// An empty cache.
    pub fn new(tunables: Tunables) -> Self {
        Self {
            blocks: NumberMap::default(),
            frames: VecDeque::new(),
            known: BTreeSet::new(),
            credit: tunables.locality_credit_frames_max / 16,
            matches: 0,
            tunables,
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
        while self.frames.len() > self.tunables.locality_frames {
            let Some((frame, keys)) = self.frames.pop_front() else { break };
            self.known.remove(&frame);
            for key in keys {
                if self.blocks.get(&key).is_some_and(|block| block.frame == frame) {
                    self.blocks.remove(&key);
                }
            }
        }
    }

    /// Whether a match is to be followed.
    fn is_worth(&mut self) -> bool {
        self.matches += 1;
        self.credit > 0 || self.matches.is_multiple_of(PROBE_INTERVAL)
    }

    /// Finds more of the runs of which some blocks are known.
    pub async fn extend(&mut self, core: &Core, fingerprinter: &mut Fingerprinter, items: &mut [Item]) {
        for _ in 0..MAX_ROUNDS {
            let mut wanted = around(items);
            wanted.retain(|frame| !self.known.contains(frame));
            if wanted.is_empty() || !self.is_worth() {
                break;
            }
            self.credit -= wanted.len() as i64;
            self.prefetch(core, fingerprinter, wanted).await;
            let mut found = 0;
            for item in items.iter_mut().filter(|item| item.known.is_none() && item.fingerprint != UNKNOWN) {
                item.known = self.find(&item.fingerprint);
                found += i64::from(item.known.is_some());
            }
            let max = self.tunables.locality_credit_frames_max;
            self.credit = (self.credit + found * FRAMES_PER_MATCH).clamp(0, max);
            if found == 0 {
                break;
            }
        }
    }

    /// Reads frames, those that are there, and remembers their fingerprints. What can't be read is not shared.
    async fn prefetch(&mut self, core: &Core, fingerprinter: &mut Fingerprinter, numbers: BTreeSet<u64>) {
        for page in numbers.iter().map(|number| number / FRAMES).collect::<BTreeSet<_>>() {
            let _ = core.load(Need::Table(page)).await;
        }
        let locations: Vec<_> = {
            let state = core.state.read();
            let location = |number: &u64| Some((*number, state.maps.table.get(*number).ok()??.location));
            numbers.iter().filter_map(location).collect()
        };
        let objects = join(locations.iter().map(|(_, location)| core.log.read(*location))).await;
        for (object, (number, _)) in objects.into_iter().zip(&locations) {
            let fingerprints = object.ok().and_then(|object| fingerprinter.of_frame(&object, *number));
            self.add(*number, &fingerprints.unwrap_or_default());
        }
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
                wanted.extend(block.frame..=block.frame + FRAMES_AFTER);
            }
            (None, Some(block)) if beside && asks(one) => {
                wanted.extend(block.frame.saturating_sub(FRAMES_BEFORE)..=block.frame);
            }
            _ => {}
        }
    }
    wanted
}
