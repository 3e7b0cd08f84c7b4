//! Reproducible random choices: SplitMix64, with the same numbers for the same seed on every machine.

/// A stream of numbers that a seed determines.
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `from..to`, or `from` if that is empty.
    pub fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.bits() % to.saturating_sub(from).max(1)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.range(0, n) == 0
    }
}

/// Fills a block with bytes determined by its stamp. Stamp 0 means zeros; of the others, some compress well, some not
/// at all, and all begin with the stamp.
pub fn expand(stamp: u64, block: &mut [u8]) {
    if stamp == 0 {
        return block.fill(0);
    }
    let mut seed = Seed::new(stamp);
    let compressible = seed.one_in(2);
    let mut word = stamp;
    for (index, chunk) in block.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        if !compressible || index % 8 == 7 {
            word = seed.bits();
        }
    }
}

/// The stamp of a block, if all its bytes match.
pub fn stamp_of(block: &[u8]) -> Option<u64> {
    let stamp = u64::from_le_bytes(block.get(..8)?.try_into().ok()?);
    let mut expected = vec![0; block.len()];
    expand(stamp, &mut expected);
    (expected == block).then_some(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_tells_its_stamp_and_a_torn_one_does_not() {
        for stamp in [0, 1, 7, 1 << 40] {
            let mut block = vec![1; 512];
            expand(stamp, &mut block);
            assert_eq!(stamp_of(&block), Some(stamp));
            block[300] ^= 1;
            assert_eq!(stamp_of(&block), None);
        }
    }

    #[test]
    fn some_blocks_compress_and_some_do_not() {
        let mut kinds = [0; 2];
        for stamp in 1..100 {
            let mut block = vec![0; 64];
            expand(stamp, &mut block);
            kinds[usize::from(block[..8] == block[8..16])] += 1;
        }
        assert!(kinds.iter().all(|count| *count > 20), "{kinds:?}");
    }
}
