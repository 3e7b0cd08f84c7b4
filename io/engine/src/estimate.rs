//! Reduction estimate: the space that data would take on an array, by policy, without an array. The reducer of the
//! data path runs over any bytes: zeros, copies and frames are found, packed and counted as a flush does it, for
//! several policies at once.

use crate::adaptivity::Compressibility;
use crate::dedup::{Fingerprinter, Index};
use crate::entry::{BLOCK, BlockId};
use crate::frame::{self, Fingerprint, Method, Packer, UNKNOWN, stored_mask};
use crate::policy::{Compression, Policy};
use crate::reducer::runs;
use block::is_zero;

/// The space that the data would take under one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The policy.
    pub policy: Policy,
    /// Bytes of blocks that are not zeros and would be stored once: all of them without deduplication.
    pub unique: u64,
    /// Bytes of the log that these would take, headers included.
    pub stored: u64,
}

/// Reduces the data that it is fed, keeps none of it, and counts. Bytes are those of whole 4 KiB blocks.
pub struct Estimator {
    bytes: u64,
    zeros: u64,
    fingerprinter: Fingerprinter,
    index: Index,
    packer: Packer,
    trials: Vec<Trial>,
    frames: u64,
}

struct Trial {
    estimate: Estimate,
    compressibility: Compressibility,
}

/// A block that is not zeros.
struct Item<'a> {
    number: u64,
    bytes: &'a [u8],
    fingerprint: Fingerprint,
    is_copy: bool,
}

/// Policies worth comparing: every way to compress, with and without deduplication.
pub const COMPARED_POLICIES: [Policy; 7] = {
    use Compression::{Adaptive, Fast, High, Off};
    const fn policy(dedup: bool, compression: Compression) -> Policy {
        Policy { dedup, compression, verify: false }
    }
    [
        policy(true, Adaptive),
        policy(true, Fast),
        policy(true, High),
        policy(true, Off),
        policy(false, Adaptive),
        policy(false, Fast),
        policy(false, High),
    ]
};

impl Estimator {
    /// For these policies, with a deduplication index of up to `index_bytes`.
    pub fn new(policies: &[Policy], index_bytes: usize) -> Self {
        let trial = |policy: &Policy| Trial {
            estimate: Estimate { policy: *policy, unique: 0, stored: 0 },
            compressibility: Compressibility::default(),
        };
        Self {
            bytes: 0,
            zeros: 0,
            // Collisions need no secret key here.
            fingerprinter: Fingerprinter::new(&[0; 32]),
            index: Index::new(index_bytes),
            packer: Packer::new(true),
            trials: policies.iter().map(trial).collect(),
            frames: 0,
        }
    }

    /// Takes neighbouring blocks of a volume, from block `first` on: a few MiB, as much as is flushed together. What
    /// is missing of the last block is zeros.
    pub fn feed(&mut self, volume: u32, first: u64, bytes: &[u8]) {
        let padded;
        let bytes = if bytes.len().is_multiple_of(BLOCK) {
            bytes
        } else {
            padded = [bytes, &vec![0; BLOCK - bytes.len() % BLOCK]].concat();
            &padded
        };
        self.bytes += bytes.len() as u64;
        let mut items = Vec::with_capacity(bytes.len() / BLOCK);
        for (number, bytes) in (first..).zip(bytes.chunks(BLOCK)) {
            if is_zero(bytes) {
                self.zeros += BLOCK as u64;
                continue;
            }
            let fingerprint = self.fingerprinter.of(bytes);
            let is_copy = self.index.find(&fingerprint).is_some();
            if !is_copy {
                self.index.insert(fingerprint, BlockId { frame: self.frames, index: 0 });
                self.frames += 1;
            }
            items.push(Item { number, bytes, fingerprint, is_copy });
        }
        for trial in &mut self.trials {
            let dedup = trial.estimate.policy.dedup;
            let new: Vec<_> = items.iter().filter(|item| !(dedup && item.is_copy)).collect();
            trial.estimate.unique += (new.len() * BLOCK) as u64;
            for run in runs(new.iter().map(|item| (volume, item.number))) {
                trial.estimate.stored += trial.pack(&mut self.packer, volume, &new[run]);
            }
        }
    }

    /// Bytes that were fed.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of zeros among them, which take nothing under any policy.
    pub fn zeros(&self) -> u64 {
        self.zeros
    }

    /// The space that all data fed so far would take, for each policy.
    pub fn estimates(&self) -> impl Iterator<Item = Estimate> + '_ {
        self.trials.iter().map(|trial| trial.estimate)
    }
}

impl Trial {
    /// Bytes of the frame that holds these blocks.
    fn pack(&mut self, packer: &mut Packer, volume: u32, items: &[&Item<'_>]) -> u64 {
        let Policy { dedup, compression, .. } = self.estimate.policy;
        let first = items[0].number;
        let adapts = compression == Compression::Adaptive;
        let leave = adapts && !self.compressibility.should_compress(volume, first);
        let how = if leave { Method::Raw } else { Method::of(compression) };
        let fingerprint = |item: &&Item<'_>| if dedup { item.fingerprint } else { UNKNOWN };
        let fingerprints: Vec<_> = items.iter().map(fingerprint).collect();
        let blocks = items.iter().map(|item| item.bytes);
        let object = packer.pack(0, stored_mask(items.len()), blocks, &fingerprints, how, false);
        if adapts && !leave {
            self.compressibility.note(volume, first, frame::is_compressed(&object, items.len()));
        }
        object.len() as u64
    }
}

#[cfg(test)]
#[path = "estimate_test.rs"]
mod tests;
