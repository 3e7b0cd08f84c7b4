//! Deduplication index: which block of the log has these bytes.
//!
//! It is a hint of bounded size: what it does not know is stored again, what it knows is verified in the frame table.
//! Only the background uses it; no read touches it.

use crate::cell;
use crate::codec::{Malformed, Put, Take};
use crate::entry::BlockId;
use crate::frame::{self, Fingerprint, ObjectKind, UNKNOWN};
use aegis::aegis256x4::Aegis256X4Mac;
use bytes::Bytes;
use std::sync::LazyLock;

/// Entries of a bucket.
const WAYS: usize = 8;

/// Entries of a bucket that are kept by rank; the others hold what came last.
const RANKED_WAYS: usize = 6;

/// Insertions for each entry of the full-grown index after which what was never found loses one rank.
const GENERATION_INSERTS_PER_ENTRY: u64 = 16;

/// Entries for each bucket above which the index grows by a bucket, up to its limit.
const MAX_ENTRIES_PER_BUCKET: usize = 1;

/// A fingerprint, and its block: the bits of the block plus one, then how often it was found and the generation of
/// that. All zeros if unused.
pub type Entry = [u64; 3];

/// Bytes of an entry, in memory and in the log.
pub const ENTRY_BYTES: usize = size_of::<Entry>();

const NONE: Entry = [0; 3];

/// Writes entries for the log.
pub fn encode_entries(entries: &[Entry], out: &mut Vec<u8>) {
    entries.iter().flatten().for_each(|word| out.u64(*word));
}

/// Reads what [`encode_entries`] wrote.
pub fn decode_entries(bytes: &[u8]) -> Result<Vec<Entry>, Malformed> {
    let mut take = Take::new(bytes, "index entries");
    take.check(bytes.len().is_multiple_of(ENTRY_BYTES))?;
    (0..bytes.len() / ENTRY_BYTES).map(|_| Ok([take.u64()?, take.u64()?, take.u64()?])).collect()
}

/// Bits of a block's name.
const BLOCK_BITS: u32 = 54;
/// The bits of an entry's last word that hold the name.
const BLOCK_MASK: u64 = (1 << BLOCK_BITS) - 1;

/// Ranks that each hit adds; each rank doubles the chance to stay.
const RANKS_PER_HIT: i64 = 8;
/// Maximum number of hits that are counted.
const MAX_HITS: u64 = 3;

fn halves(fingerprint: &Fingerprint) -> [u64; 2] {
    let bits = u128::from_le_bytes(*fingerprint);
    [bits as u64, (bits >> 64) as u64]
}

/// Number of hits, and the generation of the last.
fn hits_and_generation(entry: &Entry) -> (u64, u8) {
    (entry[2] >> BLOCK_BITS & MAX_HITS, (entry[2] >> (BLOCK_BITS + 2)) as u8)
}

/// An entry found `found` times, the last time in this generation.
fn entry(fingerprint: [u64; 2], block: u64, found: u64, now: u8) -> Entry {
    let hits_and_generation = found.min(MAX_HITS) | u64::from(now) << 2;
    [fingerprint[0], fingerprint[1], block | hits_and_generation << BLOCK_BITS]
}

/// The rank of an entry: of two that compete for a place, the higher one has it. Among entries that were never found
/// the bits of the fingerprint decide, so that an even sample of all that was written stays; each generation halves
/// what stays of it.
fn rank(entry: &Entry, now: u8) -> i64 {
    let (found, then) = hits_and_generation(entry);
    i64::from(entry[1].trailing_zeros().min(32)) + found as i64 * RANKS_PER_HIT
        - i64::from(now.wrapping_sub(then))
}

/// Fingerprint → block. Beyond its size it keeps what is found again and again, a sample of the rest, and what came
/// last; locality prefetch finds copied runs with that.
///
/// It grows by one bucket at a time, which takes its entries from an existing one (linear hashing): memory is touched
/// as it is needed, in order, and no step is longer than others. A table of its full size from the start would touch
/// a page of its own for each of the first million fingerprints.
pub struct Index {
    buckets: Vec<[Entry; WAYS]>,
    /// Buckets at most.
    limit: usize,
    /// Entries in use.
    taken: usize,
    inserted: u64,
    /// Some block of the log that could be shared is not in it.
    partial: bool,
    /// Insertions since they were taken last, in order; see [`Index::record`].
    recorded: Option<Vec<Entry>>,
}

/// Fingerprint under the key of sevens of [`known_block`], as libaegis computes it without instructions for AES.
const KNOWN: Fingerprint = 0x9af8ff72946308ae064ce7b011971833_u128.to_be_bytes();

fn known_block() -> Vec<u8> {
    (0..4096u32).map(|at| ((at * 131) ^ (at >> 7)) as u8).collect()
}

/// Whether fingerprints are right on this processor. QEMU 7.2, as Debian 12 has it, emulates the wide instructions for AES (VAES)
/// wrongly: blocks that differ then may have the same fingerprint, and the later one is lost.
pub fn is_reliable() -> bool {
    static RIGHT: LazyLock<bool> = LazyLock::new(|| Fingerprinter::new(&[7; 32]).of(&known_block()) == KNOWN);
    *RIGHT
}

/// Makes fingerprints of blocks: 128 bits of an AEGIS-256X4 message authentication code under the array's secret key.
/// Without the key an attacker can't make two blocks collide, and by chance it takes 2^64 distinct blocks (see
/// docs/decisions).
pub struct Fingerprinter(Aegis256X4Mac<16>);

impl Fingerprinter {
    /// Fingerprints of the array with this key.
    pub fn new(key: &[u8; 32]) -> Self {
        Self(Aegis256X4Mac::new(key))
    }

    /// The fingerprint of a block; never [`UNKNOWN`].
    pub fn of(&mut self, block: &[u8]) -> Fingerprint {
        self.0.update(block);
        let fingerprint = self.0.finalize_and_reset();
        if fingerprint == UNKNOWN { [1; 16] } else { fingerprint }
    }

    /// The fingerprints of the blocks that a frame stores, by index; those that were left out are made. `None` if the object
    /// is not this frame.
    pub fn of_frame(&mut self, object: &Bytes, number: u64) -> Option<Vec<(u8, Fingerprint)>> {
        let header = frame::verify(object).ok()?;
        if (header.kind, header.number) != (ObjectKind::Frame, number) {
            return None;
        }
        let mut known: Vec<_> =
            cell::indexes(header.stored).zip(frame::fingerprints(object, &header).ok()?).collect();
        if header.skipped {
            let decoded = frame::unpack(object, number, cell::ALL).ok()?;
            for (index, fingerprint) in known.iter_mut().filter(|(_, known)| *known == UNKNOWN) {
                *fingerprint = self.of(&decoded.blocks(*index, 1)?);
            }
        }
        known.retain(|(_, fingerprint)| *fingerprint != UNKNOWN);
        Some(known)
    }
}

impl Index {
    /// An index of up to `bytes`, at least one bucket.
    pub fn new(bytes: usize) -> Self {
        let limit = (bytes / size_of::<[Entry; WAYS]>()).max(1);
        // All the address space at once, so that growing never copies; memory is taken at the first touch.
        let mut buckets = Vec::with_capacity(limit);
        buckets.push([NONE; WAYS]);
        Self { buckets, limit, taken: 0, inserted: 0, partial: false, recorded: None }
    }

    /// Whether the log may have blocks to share that are not in the index.
    pub fn is_partial(&self) -> bool {
        self.partial
    }

    /// Notes that a block was left out.
    pub fn leave_out(&mut self) {
        self.partial = true;
    }

    /// Entries in use.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Insertions so far: the clock by which entries age.
    pub fn insertions(&self) -> u64 {
        self.inserted
    }

    /// Continues a clock.
    pub fn set_insertions(&mut self, insertions: u64) {
        self.inserted = insertions;
    }

    /// Records insertions from now on, if it does not yet. Returns whether it did before.
    pub fn record(&mut self) -> bool {
        let before = self.recorded.is_some();
        self.recorded.get_or_insert_default();
        before
    }

    /// The insertions that were recorded since this was called last; `None` if there were too many to be kept.
    pub fn take_recorded(&mut self) -> Option<Vec<Entry>> {
        let max = self.max_recorded();
        let recorded = self.recorded.as_mut().map(std::mem::take).unwrap_or_default();
        (recorded.len() <= max).then_some(recorded)
    }

    /// Insertions beyond which as many entries of a full index would have been replaced.
    fn max_recorded(&self) -> usize {
        WAYS * self.limit
    }

    fn note_inserted(&mut self, entry: Entry) {
        let max = self.max_recorded();
        if let Some(recorded) = self.recorded.as_mut().filter(|recorded| recorded.len() <= max) {
            recorded.push(entry);
        }
    }

    /// Buckets in use. Those that are added take entries from earlier ones only, so that who reads bucket after bucket misses none.
    pub fn bucket_count(&self) -> usize {
        self.buckets.len()
    }

    /// The entries of a bucket.
    pub fn entries_of(&self, bucket: usize) -> impl Iterator<Item = Entry> {
        self.buckets[bucket].iter().copied().filter(|entry| entry[2] & BLOCK_MASK != 0)
    }

    /// Takes an entry of an earlier start, unless there is one with this fingerprint, which is newer.
    pub fn restore(&mut self, old: Entry) {
        let wanted = [old[0], old[1]];
        let now = self.now();
        let bucket = self.bucket(wanted);
        if old[2] & BLOCK_MASK == 0 || Self::position(bucket, wanted).is_some() {
            return;
        }
        if let Some(free) = bucket.iter_mut().find(|known| **known == NONE) {
            *free = old;
            self.taken += 1;
            self.grow();
            return;
        }
        let weakest = weakest(bucket, now);
        if rank(&old, now) > rank(&bucket[weakest], now) {
            bucket[weakest] = old;
        }
        self.partial = true;
    }

    fn now(&self) -> u8 {
        (self.inserted / (GENERATION_INSERTS_PER_ENTRY * WAYS as u64 * self.limit as u64)) as u8
    }

    /// The bucket of a fingerprint: of a full-grown index evenly one of all, before that by as many low bits of that
    /// number as there are buckets for.
    fn place(&self, fingerprint: [u64; 2]) -> usize {
        let place = ((u128::from(fingerprint[0]) * self.limit as u128) >> 64) as usize;
        let round = self.buckets.len().next_power_of_two();
        let place = place & (round - 1);
        if place < self.buckets.len() { place } else { place - round / 2 }
    }

    fn bucket(&mut self, fingerprint: [u64; 2]) -> &mut [Entry; WAYS] {
        let place = self.place(fingerprint);
        &mut self.buckets[place]
    }

    /// Adds a bucket if there are entries for it, and moves those that belong there.
    fn grow(&mut self) {
        let new = self.buckets.len();
        if new == self.limit || self.taken <= new * MAX_ENTRIES_PER_BUCKET {
            return;
        }
        self.buckets.push([NONE; WAYS]);
        let old = new - (1 << new.ilog2());
        for at in 0..WAYS {
            let entry = self.buckets[old][at];
            if entry != NONE && self.place([entry[0], entry[1]]) == new {
                self.buckets[new][at] = entry;
                self.buckets[old][at] = NONE;
            }
        }
    }

    fn position(bucket: &[Entry; WAYS], wanted: [u64; 2]) -> Option<usize> {
        bucket.iter().position(|known| known[2] != 0 && known[..2] == wanted)
    }

    /// The block that had these bytes when it was added.
    pub fn find(&mut self, fingerprint: &Fingerprint) -> Option<BlockId> {
        let (wanted, now) = (halves(fingerprint), self.now());
        let bucket = self.bucket(wanted);
        let at = Self::position(bucket, wanted)?;
        let block = bucket[at][2] & BLOCK_MASK;
        bucket[at] = entry(wanted, block, hits_and_generation(&bucket[at]).0 + 1, now);
        if at >= RANKED_WAYS {
            let weakest = weakest(bucket, now);
            bucket.swap(at, weakest);
        }
        Some(BlockId::from_bits(block - 1))
    }

    /// Adds a block, in place of the entry of its bucket with the lowest rank.
    pub fn insert(&mut self, fingerprint: Fingerprint, block: BlockId) {
        self.inserted += 1;
        let (wanted, now, bits) = (halves(&fingerprint), self.now(), block.bits() + 1);
        assert!(bits <= BLOCK_MASK, "a block's name has {BLOCK_BITS} bits");
        self.note_inserted(entry(wanted, bits, 0, now));
        let bucket = self.bucket(wanted);
        if let Some(at) = Self::position(bucket, wanted) {
            bucket[at] = entry(wanted, bits, hits_and_generation(&bucket[at]).0, now);
            return;
        }
        if let Some(free) = bucket.iter_mut().find(|known| **known == NONE) {
            *free = entry(wanted, bits, 0, now);
            self.taken += 1;
            self.grow();
            return;
        }
        let pushed = bucket[WAYS - 1];
        bucket[RANKED_WAYS..].rotate_right(1);
        bucket[RANKED_WAYS] = entry(wanted, bits, 0, now);
        let weakest = weakest(bucket, now);
        if rank(&pushed, now) >= rank(&bucket[weakest], now) {
            bucket[weakest] = pushed;
        }
        self.partial = true;
    }

    /// Forgets a block that is gone.
    pub fn remove(&mut self, fingerprint: &Fingerprint) {
        let wanted = halves(fingerprint);
        let bucket = self.bucket(wanted);
        if let Some(at) = Self::position(bucket, wanted) {
            bucket[at] = NONE;
            self.taken -= 1;
        }
    }
}

/// The position of the lowest ranked entry.
fn weakest(bucket: &[Entry; WAYS], now: u8) -> usize {
    (0..RANKED_WAYS).min_by_key(|at| rank(&bucket[*at], now)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(frame: u64) -> BlockId {
        BlockId { frame, index: 7 }
    }

    #[test]
    fn fingerprints_are_those_of_the_reference() {
        assert!(is_reliable());
        let mut other = known_block();
        other[4095] ^= 1;
        assert_ne!(Fingerprinter::new(&[7; 32]).of(&other), KNOWN);
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
    fn entries_come_back_by_what_was_recorded_or_by_all_buckets_and_newer_ones_stay() {
        let mut fingerprinter = Fingerprinter::new(&[7; 32]);
        let fingerprints: Vec<_> = (0..500u64).map(|n| fingerprinter.of(&n.to_le_bytes())).collect();
        let mut index = Index::new(1 << 20);
        assert!(!index.record() && index.record());
        let insert = |index: &mut Index, numbers: std::ops::Range<usize>| {
            numbers.for_each(|n| index.insert(fingerprints[n], block(n as u64)));
        };
        insert(&mut index, 0..300);
        let mut stored = index.take_recorded().expect("few");
        assert_eq!((stored.len(), index.take_recorded()), (300, Some(Vec::new())));
        // Buckets that are added while all are read lie after those that were read.
        stored.clear();
        let mut at = 0;
        while at < index.bucket_count() {
            stored.extend(index.entries_of(at));
            at += 1;
            if at == 100 {
                insert(&mut index, 300..500);
            }
        }
        stored.extend(index.take_recorded().expect("few"));
        let mut bytes = Vec::new();
        encode_entries(&stored, &mut bytes);
        assert!(decode_entries(&bytes[1..]).is_err());
        let mut other = Index::new(1 << 20);
        other.insert(fingerprints[5], block(9999));
        decode_entries(&bytes).expect("whole").into_iter().rev().for_each(|entry| other.restore(entry));
        other.restore([1, 2, 0]);
        assert_eq!(other.find(&fingerprints[5]), Some(block(9999)));
        assert!((6..500).all(|n| other.find(&fingerprints[n]) == Some(block(n as u64))));
        assert_eq!(other.taken(), 500);
    }

    #[test]
    fn more_than_the_index_holds_is_not_recorded() {
        let mut index = Index::new(0);
        index.record();
        (0..=WAYS as u8).for_each(|n| index.insert([n; 16], block(u64::from(n))));
        assert_eq!(index.take_recorded(), None);
        index.insert([7; 16], block(7));
        assert_eq!(index.take_recorded().map(|recorded| recorded.len()), Some(1));
    }

    #[test]
    fn it_grows_with_what_it_knows_up_to_its_bound_and_loses_nothing_on_the_way() {
        let mut fingerprinter = Fingerprinter::new(&[7; 32]);
        let mut fingerprint = |n: u64| fingerprinter.of(&n.to_le_bytes());
        let limit = 3000;
        let mut index = Index::new(limit * size_of::<[Entry; WAYS]>());
        for n in 0..2 * limit as u64 {
            index.insert(fingerprint(n), block(n));
            assert!(index.buckets.len() <= (n as usize + 1).min(limit));
            if n == 1500 || n == 2500 {
                assert!((0..=n).all(|n| index.find(&fingerprint(n)) == Some(block(n))));
            }
        }
        assert_eq!(index.buckets.len(), limit);
        assert!(index.is_partial() || index.taken == 2 * limit);
        let used = index.buckets.iter().flatten().filter(|entry| **entry != NONE).count();
        assert_eq!(index.taken, used);
        (0..2 * limit as u64).for_each(|n| index.remove(&fingerprint(n)));
        assert_eq!(index.taken, 0);
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
        assert!(index.is_partial());
    }

    #[test]
    fn of_what_was_never_found_an_even_sample_stays() {
        let mut index = Index::new(1000 * size_of::<[Entry; WAYS]>());
        let fingerprint = |n: u64| {
            let mixed = |salt: u64| (n ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
            let again = |n: u64| (n ^ n >> 31).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(32);
            (u128::from(again(mixed(1))) << 64 | u128::from(again(mixed(2)))).to_le_bytes()
        };
        let count = 16 * 8000;
        (0..count).for_each(|n| index.insert(fingerprint(n), block(n)));
        let mut found = |range: std::ops::Range<u64>| {
            range.filter(|n| index.find(&fingerprint(*n)) == Some(block(*n))).count()
        };
        let (early, late) = (found(0..count / 2), found(count / 2..count));
        assert!(early > 1500 && late > 1500, "{early} of the first half, {late} of the second");
    }
}
