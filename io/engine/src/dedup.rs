//! The deduplication index: which block of the log has these bytes. A hint of bounded size: what it does not know
//! is stored again, what it knows is verified in the frame table. It lives in the background alone; no read touches
//! it.

use crate::entry::BlockId;
use crate::frame::{Fingerprint, UNKNOWN};
use aegis::aegis256x4::Aegis256X4Mac;

/// Entries of a bucket, the most useful in front.
const WAYS: usize = 8;

/// Where a new entry begins in its bucket: what has been found since it came stays before it, so that data that are
/// written once push out each other and not what is found again and again.
const START: usize = WAYS / 2;

/// A fingerprint, and one more than the bits of the block; zeros for none, so that memory is taken as the index fills.
type Entry = [u64; 3];

const NONE: Entry = [0; 3];

fn entry(fingerprint: &Fingerprint, block: BlockId) -> Entry {
    let [low, high] = halves(fingerprint);
    [low, high, block.bits() + 1]
}

fn halves(fingerprint: &Fingerprint) -> [u64; 2] {
    let bits = u128::from_le_bytes(*fingerprint);
    [bits as u64, (bits >> 64) as u64]
}

/// Fingerprint → block.
pub struct Index {
    buckets: Vec<[Entry; WAYS]>,
}

/// Makes fingerprints of blocks: 128 bits of an AEGIS-256X4 message authentication code under the array's secret key.
/// Without the key nobody can make two blocks collide, and by chance it takes 2^64 distinct blocks (see
/// docs/decisions).
pub struct Fingerprinter(Aegis256X4Mac<16>);

impl Fingerprinter {
    /// For the array with this key.
    pub fn new(key: &[u8; 32]) -> Self {
        Self(Aegis256X4Mac::new(key))
    }

    /// The fingerprint of a block; never [`UNKNOWN`].
    pub fn of(&mut self, block: &[u8]) -> Fingerprint {
        self.0.update(block);
        let fingerprint = self.0.finalize_and_reset();
        if fingerprint == UNKNOWN { [1; 16] } else { fingerprint }
    }
}

impl Index {
    /// An index of up to `bytes`, at least one bucket.
    pub fn new(bytes: usize) -> Self {
        let buckets = (bytes / size_of::<[Entry; WAYS]>()).max(1);
        Self { buckets: vec![[NONE; WAYS]; buckets] }
    }

    fn bucket(&mut self, fingerprint: &Fingerprint) -> &mut [Entry; WAYS] {
        let [low, _] = halves(fingerprint);
        let index = low % self.buckets.len() as u64;
        &mut self.buckets[index as usize]
    }

    fn position(bucket: &[Entry; WAYS], fingerprint: &Fingerprint) -> Option<usize> {
        let wanted = halves(fingerprint);
        bucket.iter().position(|known| known[2] != 0 && known[..2] == wanted)
    }

    /// The block that had these bytes when it was added. It comes to the front of its bucket.
    pub fn find(&mut self, fingerprint: &Fingerprint) -> Option<BlockId> {
        let bucket = self.bucket(fingerprint);
        let at = Self::position(bucket, fingerprint)?;
        bucket[..=at].rotate_right(1);
        Some(BlockId::from_bits(bucket[0][2] - 1))
    }

    /// Adds a block, in the place of the least useful one of its bucket.
    pub fn insert(&mut self, fingerprint: Fingerprint, block: BlockId) {
        let bucket = self.bucket(&fingerprint);
        let known = Self::position(bucket, &fingerprint);
        let at = known.or_else(|| bucket.iter().position(|known| *known == NONE)).unwrap_or(WAYS - 1);
        let start = START.min(at);
        bucket[start..=at].rotate_right(1);
        bucket[start] = entry(&fingerprint, block);
    }

    /// Forgets a block that is gone.
    pub fn remove(&mut self, fingerprint: &Fingerprint) {
        let bucket = self.bucket(fingerprint);
        if let Some(at) = Self::position(bucket, fingerprint) {
            bucket[at..].rotate_left(1);
            bucket[WAYS - 1] = NONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(frame: u64) -> BlockId {
        BlockId { frame, index: 7 }
    }

    #[test]
    fn a_block_is_found_until_it_is_removed() {
        let mut index = Index::new(1 << 20);
        for n in 0..200 {
            index.insert([n; 16], block(u64::from(n)));
        }
        assert!((0..200).all(|n| index.find(&[n; 16]) == Some(block(u64::from(n)))));
        index.insert([5; 16], block(1000));
        assert_eq!(index.find(&[5; 16]), Some(block(1000)));
        index.remove(&[5; 16]);
        assert_eq!(index.find(&[5; 16]), None);
        assert_eq!(index.find(&[6; 16]), Some(block(6)));
    }

    #[test]
    fn what_was_found_outlives_any_number_of_what_was_not() {
        let mut index = Index::new(0);
        for n in 0..WAYS as u8 {
            index.insert([n; 16], block(u64::from(n)));
        }
        assert_eq!(index.find(&[0; 16]), Some(block(0)));
        for n in 100..200 {
            index.insert([n; 16], block(u64::from(n)));
        }
        assert_eq!(index.find(&[0; 16]), Some(block(0)));
        assert_eq!(index.find(&[199; 16]), Some(block(199)));
        assert_eq!(index.find(&[150; 16]), None);
    }
}
