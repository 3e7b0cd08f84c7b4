//! Adaptive reduction: which data is worth compressing, and worth looking up in the deduplication index.
//!
//! Both cost processor time that incompressible, unique data never returns. Outcomes are remembered for regions of
//! volumes, since one volume may hold a database beside its encrypted backups; where the last tries saved nothing,
//! only a sample is tried.

use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks of a region: 64 MiB.
const REGION_BLOCKS: u64 = 1 << 14;

/// Regions that are remembered; two with the same hash forget each other's past.
const REGIONS: usize = 4096;

/// Between two tries 2^6 − 1 frames at most are stored without one.
const MAX_SKIP_EXPONENT: u64 = 6;

/// The region of a block, mixed: the lower bits choose where it is remembered, the others tell regions there apart.
fn region_of(volume: u32, block: u64) -> u64 {
    let number = block / REGION_BLOCKS;
    (number ^ u64::from(volume) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
}

/// What compression saved, by region. Threads share it: of two updates at the same moment one is lost, which costs a try.
/// A region has the bits of its name, then eight for the tries in a row that saved nothing, and eight for the frames to be
/// stored without a try.
pub struct Compressibility(Box<[AtomicU64]>);

impl Default for Compressibility {
    fn default() -> Self {
        Self((0..REGIONS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Compressibility {
    /// Where a region is remembered, the number of tries in a row that saved nothing there, and of frames to be stored
    /// without one.
    fn region(&self, region: u64) -> (&AtomicU64, u64, u64) {
        let known = &self.0[region as usize % REGIONS];
        let bits = known.load(Ordering::Relaxed);
        if bits >> 16 == region { (known, bits >> 8 & 0xff, bits & 0xff) } else { (known, 0, 0) }
    }

    /// Whether a frame that begins with this block should be compressed. Every call counts as one frame. Until the outcome is
    /// noted, the try counts as one that saves nothing: more frames are asked about before that.
    pub fn should_compress(&self, volume: u32, block: u64) -> bool {
        let region = region_of(volume, block);
        let (known, misses, skip) = self.region(region);
        let next = if skip == 0 { (1 << misses) - 1 } else { skip - 1 };
        if next != skip {
            known.store(region << 16 | misses << 8 | next, Ordering::Relaxed);
        }
        skip == 0
    }

    /// Notes whether compressing a frame saved space.
    pub fn note(&self, volume: u32, block: u64, saved: bool) {
        let region = region_of(volume, block);
        let (known, before, skip) = self.region(region);
        let misses = if saved { 0 } else { (before + 1).min(MAX_SKIP_EXPONENT) };
        // Where all is well, threads do not take the line from each other.
        if !saved || (before, skip) != (0, 0) {
            known.store(region << 16 | misses << 8 | ((1 << misses) - 1), Ordering::Relaxed);
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Region {
    region: u64,
    /// Blocks in a row without a known copy.
    unique: u16,
}

/// Which data has copies, by region.
pub struct Uniqueness {
    regions: Box<[Region]>,
    /// Blocks in a row without a copy after which only a sample is looked up.
    unique_blocks_max: u16,
}

impl Uniqueness {
    /// Without any outcome yet.
    pub fn new(unique_blocks_max: u16) -> Self {
        Self { regions: vec![Region::default(); REGIONS].into(), unique_blocks_max }
    }

    fn unique(&mut self, volume: u32, block: u64) -> &mut u16 {
        let region = region_of(volume, block);
        let known = &mut self.regions[region as usize % REGIONS];
        if known.region != region {
            *known = Region { region, unique: 0 };
        }
        &mut known.unique
    }

    /// Whether every block from here on should be looked up in the deduplication index; else a sample is enough.
    pub fn should_look_up_all(&mut self, volume: u32, block: u64) -> bool {
        let max = self.unique_blocks_max;
        *self.unique(volume, block) < max
    }

    /// Notes whether a copy of a block was known.
    pub fn note(&mut self, volume: u32, block: u64, found: bool) {
        let unique = self.unique(volume, block);
        *unique = if found { 0 } else { unique.saturating_add(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames that are tried of `count`.
    fn tries(compressibility: &Compressibility, block: u64, count: usize, saved: bool) -> usize {
        let one = |_: &usize| {
            let should_compress = compressibility.should_compress(1, block);
            if should_compress {
                compressibility.note(1, block, saved);
            }
            should_compress
        };
        (0..count).filter(one).count()
    }

    #[test]
    fn where_nothing_repeats_a_sample_is_looked_for_until_a_copy_is_found() {
        let mut uniqueness = Uniqueness::new(1024);
        fn looks(uniqueness: &mut Uniqueness, block: u64) -> usize {
            let one = |_: &usize| {
                let looks = uniqueness.should_look_up_all(1, block);
                if looks {
                    uniqueness.note(1, block, false);
                }
                looks
            };
            (0..5000).filter(one).count()
        }
        assert_eq!(looks(&mut uniqueness, 0), 1024);
        assert!(
            uniqueness.should_look_up_all(1, REGION_BLOCKS) && uniqueness.should_look_up_all(2, 0),
            "other regions have histories of their own"
        );
        uniqueness.note(1, 0, true);
        assert_eq!(looks(&mut uniqueness, 0), 1024);
    }

    #[test]
    fn what_saves_nothing_is_tried_ever_less_and_what_saves_again_is_resumed() {
        let compressibility = Compressibility::default();
        assert_eq!(tries(&compressibility, 0, 100, true), 100);
        let fruitless = tries(&compressibility, 0, 6400, false);
        assert!((100..120).contains(&fruitless), "{fruitless}");
        assert_eq!(
            tries(&compressibility, REGION_BLOCKS, 100, true),
            100,
            "another region has a history of its own"
        );
        assert!(tries(&compressibility, 0, 164, true) >= 100, "at the latest after 63 frames");
    }

    #[test]
    fn frames_of_one_step_are_tried_no_more_often_than_one_after_the_other() {
        let compressibility = Compressibility::default();
        assert!((0..7).all(|_| tries(&compressibility, 0, 64, false) > 0));
        let asked = (0..512).filter(|_| compressibility.should_compress(1, 0)).count();
        assert!((7..=8).contains(&asked), "{asked}");
        compressibility.note(1, 0, true);
        assert!((0..10).all(|_| compressibility.should_compress(1, 0)));
    }
}
