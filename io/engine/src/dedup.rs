//! The deduplication index: which block of the log has these bytes. A hint of bounded size: what it does not know
//! is stored again, what it knows is verified in the frame table. It lives in the background alone; no read touches
//! it.

use crate::entry::BlockId;
use crate::frame::{Fingerprint, UNKNOWN};
use aegis::aegis256x4::Aegis256X4Mac;

/// Fingerprints of a bucket, the one used last in front.
const WAYS: usize = 8;

#[derive(Clone, Copy)]
struct Known {
    fingerprint: Fingerprint,
    block: BlockId,
}

/// Fingerprint → block.
pub struct Index {
    buckets: Vec<[Option<Known>; WAYS]>,
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
        let buckets = (bytes / size_of::<[Option<Known>; WAYS]>()).max(1);
        Self { buckets: vec![[None; WAYS]; buckets] }
    }

    fn bucket(&mut self, fingerprint: &Fingerprint) -> &mut [Option<Known>; WAYS] {
        let (front, _) = fingerprint.split_first_chunk().expect("a fingerprint has 16 bytes");
        let index = u64::from_le_bytes(*front) % self.buckets.len() as u64;
        &mut self.buckets[index as usize]
    }

    /// The block that had these bytes when it was added. It comes to the front of its bucket.
    pub fn find(&mut self, fingerprint: &Fingerprint) -> Option<BlockId> {
        let bucket = self.bucket(fingerprint);
        let at =
            bucket.iter().position(|known| known.is_some_and(|known| known.fingerprint == *fingerprint))?;
        bucket[..=at].rotate_right(1);
        bucket[0].map(|known| known.block)
    }

    /// Adds a block, in the place of the one in its bucket that was not used for longest.
    pub fn insert(&mut self, fingerprint: Fingerprint, block: BlockId) {
        let bucket = self.bucket(&fingerprint);
        let same = |known: &Option<Known>| known.is_none_or(|known| known.fingerprint == fingerprint);
        let at = bucket.iter().position(same).unwrap_or(WAYS - 1);
        bucket[..=at].rotate_right(1);
        bucket[0] = Some(Known { fingerprint, block });
    }

    /// Forgets a block that is gone.
    pub fn remove(&mut self, fingerprint: &Fingerprint) {
        let bucket = self.bucket(fingerprint);
        if let Some(at) = bucket.iter().position(|one| one.is_some_and(|one| one.fingerprint == *fingerprint))
        {
            bucket[at..].rotate_left(1);
            bucket[WAYS - 1] = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_bucket_forgets_what_was_not_used() {
        let mut index = Index::new(0);
        let block = |frame| BlockId { frame, index: 0 };
        for n in 0..WAYS as u8 {
            index.insert([n; 16], block(u64::from(n)));
        }
        assert_eq!(index.find(&[0; 16]), Some(block(0)));
        index.insert([99; 16], block(99));
        assert_eq!(index.find(&[0; 16]), Some(block(0)));
        assert_eq!(index.find(&[1; 16]), None);
        index.remove(&[0; 16]);
        assert_eq!(index.find(&[0; 16]), None);
        assert_eq!(index.find(&[99; 16]), Some(block(99)));
    }
}
