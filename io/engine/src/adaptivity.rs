//! Adaptive reduction: which data is worth compressing, and worth looking up in the deduplication index.
//!
//! Both cost processor time that incompressible, unique data never returns. Outcomes are remembered for regions of
//! volumes, since one volume may hold a database beside its encrypted backups; where the last tries saved nothing,
//! only a sample is tried.

/// Blocks of a region: 64 MiB.
const REGION_BLOCKS: u64 = 1 << 14;

/// Regions that are remembered; two with the same hash forget each other's past.
const REGIONS: usize = 4096;

/// Between two tries 2^6 − 1 frames at most are stored without one.
const MAX_SKIP_EXPONENT: u8 = 6;

#[derive(Clone, Copy, Default)]
struct Region {
    volume: u32,
    number: u64,
    /// Tries in a row that saved nothing.
    misses: u8,
    /// Frames to be stored without a try.
    skip: u8,
    /// Blocks in a row without a known copy.
    unique: u16,
}

/// The outcomes, by region.
pub struct Adaptivity {
    regions: Box<[Region]>,
    /// Blocks in a row without a copy after which only a sample is looked up.
    unique_blocks_max: u16,
}

impl Adaptivity {
    /// Without any outcome yet.
    pub fn new(unique_blocks_max: u16) -> Self {
        Self { regions: vec![Region::default(); REGIONS].into(), unique_blocks_max }
    }

    fn region(&mut self, volume: u32, block: u64) -> &mut Region {
        let number = block / REGION_BLOCKS;
        let mixed = (number ^ u64::from(volume) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let region = &mut self.regions[(mixed >> 40) as usize % REGIONS];
        if (region.volume, region.number) != (volume, number) {
            *region = Region { volume, number, ..Region::default() };
        }
        region
    }

    /// Whether a frame that begins with this block should be compressed. Every call counts as one frame. Until the outcome is
    /// noted, the try counts as one that saves nothing: more frames are asked about before that.
    pub fn should_compress(&mut self, volume: u32, block: u64) -> bool {
        let region = self.region(volume, block);
        let should_compress = region.skip == 0;
        region.skip = if should_compress { (1 << region.misses) - 1 } else { region.skip - 1 };
        should_compress
    }

    /// Whether every block from here on should be looked up in the deduplication index; else a sample is enough.
    pub fn should_look_up_all(&mut self, volume: u32, block: u64) -> bool {
        let max = self.unique_blocks_max;
        self.region(volume, block).unique < max
    }

    /// Notes whether a copy of a block was known.
    pub fn note_lookup(&mut self, volume: u32, block: u64, found: bool) {
        let region = self.region(volume, block);
        region.unique = if found { 0 } else { region.unique.saturating_add(1) };
    }

    /// Notes whether compressing a frame saved space.
    pub fn note_compression(&mut self, volume: u32, block: u64, saved: bool) {
        let region = self.region(volume, block);
        region.misses = if saved { 0 } else { (region.misses + 1).min(MAX_SKIP_EXPONENT) };
        region.skip = (1 << region.misses) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames that are tried of `count`.
    fn tries(adaptivity: &mut Adaptivity, block: u64, count: usize, saved: bool) -> usize {
        let one = |_: &usize| {
            let should_compress = adaptivity.should_compress(1, block);
            if should_compress {
                adaptivity.note_compression(1, block, saved);
            }
            should_compress
        };
        (0..count).filter(one).count()
    }

    #[test]
    fn where_nothing_repeats_a_sample_is_looked_for_until_a_copy_is_found() {
        let mut adaptivity = Adaptivity::new(1024);
        fn looks(adaptivity: &mut Adaptivity, block: u64) -> usize {
            let one = |_: &usize| {
                let looks = adaptivity.should_look_up_all(1, block);
                if looks {
                    adaptivity.note_lookup(1, block, false);
                }
                looks
            };
            (0..5000).filter(one).count()
        }
        assert_eq!(looks(&mut adaptivity, 0), 1024);
        assert!(
            adaptivity.should_look_up_all(1, REGION_BLOCKS) && adaptivity.should_look_up_all(2, 0),
            "other regions have histories of their own"
        );
        adaptivity.note_lookup(1, 0, true);
        assert_eq!(looks(&mut adaptivity, 0), 1024);
    }

    #[test]
    fn what_saves_nothing_is_tried_ever_less_and_what_saves_again_is_resumed() {
        let mut adaptivity = Adaptivity::new(1024);
        assert_eq!(tries(&mut adaptivity, 0, 100, true), 100);
        let fruitless = tries(&mut adaptivity, 0, 6400, false);
        assert!((100..120).contains(&fruitless), "{fruitless}");
        assert_eq!(
            tries(&mut adaptivity, REGION_BLOCKS, 100, true),
            100,
            "another region has a history of its own"
        );
        assert!(tries(&mut adaptivity, 0, 164, true) >= 100, "at the latest after 63 frames");
    }

    #[test]
    fn frames_of_one_step_are_tried_no_more_often_than_one_after_the_other() {
        let mut adaptivity = Adaptivity::new(1024);
        assert!((0..7).all(|_| tries(&mut adaptivity, 0, 64, false) > 0));
        let asked = (0..512).filter(|_| adaptivity.should_compress(1, 0)).count();
        assert!((7..=8).contains(&asked), "{asked}");
        adaptivity.note_compression(1, 0, true);
        assert!((0..10).all(|_| adaptivity.should_compress(1, 0)));
    }
}
