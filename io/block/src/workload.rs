//! Random operations from a seed, chosen to find defects rather than to model a host.
//!
//! Most operations access a few hot spots, so that they overlap; lengths go from one block to many 2 MiB leaves;
//! data is unique, repeated (so that it deduplicates), compressible or zero; some operations are invalid on purpose.

use crate::{CopySegment, Data, DiskId, Extent, Geometry, Op};
use bytes::{Bytes, BytesMut};

/// A small generator of pseudo-random numbers (SplitMix64): the same seed always gives the same numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next_u64() % bound }
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A random index, with the given weights.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return index,
            }
        }
        0
    }
}

/// Weights of the kinds of operations.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// [`Op::Read`].
    pub read: u64,
    /// [`Op::Write`].
    pub write: u64,
    /// [`Op::Fill`].
    pub fill: u64,
    /// [`Op::Unmap`].
    pub unmap: u64,
    /// [`Op::CompareAndWrite`].
    pub compare_and_write: u64,
    /// [`Op::Or`].
    pub or: u64,
    /// [`Op::Copy`].
    pub copy: u64,
    /// [`Op::Status`].
    pub status: u64,
    /// [`Op::SaveState`].
    pub save_state: u64,
    /// [`Op::Flush`].
    pub flush: u64,
    /// Percent of operations that exceed the disk or have an invalid length.
    pub invalid_percent: u64,
    /// Maximum number of blocks of an operation that carries data.
    pub max_blocks: u64,
    /// Weight of data that can't be reduced, beside 60 for data that repeats, compresses or is zero.
    pub unique: u64,
}

impl Default for Mix {
    fn default() -> Self {
        Self {
            read: 20,
            write: 40,
            fill: 5,
            unmap: 8,
            compare_and_write: 6,
            or: 3,
            copy: 8,
            status: 4,
            save_state: 1,
            flush: 1,
            invalid_percent: 2,
            max_blocks: 64,
            unique: 40,
        }
    }
}

/// A seeded stream of operations on some disks.
pub struct Workload {
    random: Random,
    mix: Mix,
}

impl Workload {
    /// The operations of this seed.
    pub fn new(seed: u64, mix: Mix) -> Self {
        Self { random: Random::new(seed ^ 0x776f_726b), mix }
    }

    /// The next operation and the disk that performs it. `content` returns the current data of a run, so that a
    /// comparison can succeed.
    ///
    /// # Panics
    /// If there is no disk.
    pub fn next(
        &mut self,
        disks: &[(DiskId, Geometry)],
        content: impl FnOnce(DiskId, Extent) -> Data,
    ) -> (DiskId, Op) {
        let (id, geometry) = disks[self.random.below(disks.len() as u64) as usize];
        let mix = self.mix;
        let weights = [
            mix.read,
            mix.write,
            mix.fill,
            mix.unmap,
            mix.compare_and_write,
            mix.or,
            mix.copy,
            mix.status,
            mix.save_state,
            mix.flush,
        ];
        let op = match self.random.weighted(&weights) {
            0 => Op::Read(self.extent(geometry, mix.max_blocks)),
            1 => {
                let extent = self.extent(geometry, mix.max_blocks);
                Op::Write { lba: extent.lba, data: self.data(geometry, extent.blocks) }
            }
            2 => {
                let extent = self.extent(geometry, geometry.blocks);
                Op::Fill { extent, block: self.data(geometry, 1) }
            }
            3 => {
                let runs = 1 + self.random.below(3);
                Op::Unmap((0..runs).map(|_| self.extent(geometry, geometry.blocks)).collect())
            }
            4 => {
                let extent = self.extent(geometry, 8);
                let (write, other) = (self.data(geometry, extent.blocks), self.data(geometry, extent.blocks));
                let inside = extent.end().is_some_and(|end| end <= geometry.blocks);
                let compare = if inside && !self.random.chance(20) { content(id, extent) } else { other };
                Op::CompareAndWrite { lba: extent.lba, compare, write }
            }
            5 => {
                let extent = self.extent(geometry, 16);
                Op::Or { lba: extent.lba, data: self.data(geometry, extent.blocks) }
            }
            6 => Op::Copy(self.segments(disks, geometry.block_bytes)),
            7 => Op::Status(self.extent(geometry, geometry.blocks)),
            8 => Op::SaveState(self.bytes(40)),
            _ => Op::Flush,
        };
        (id, op)
    }

    /// A run at a hot spot or anywhere, of any length up to `max_blocks`; sometimes one that exceeds the disk.
    fn extent(&mut self, geometry: Geometry, max_blocks: u64) -> Extent {
        let random = &mut self.random;
        let (unit, leaf) =
            ((4096 / u64::from(geometry.block_bytes)).max(1), (2 << 20) / u64::from(geometry.block_bytes));
        let hot = geometry.blocks.min(64 * unit);
        let mut lba = match random.weighted(&[50, 30, 20]) {
            0 => random.below(hot),
            1 => random.below(geometry.blocks),
            _ => random.below(geometry.blocks) / leaf * leaf,
        };
        if random.chance(60) {
            lba = lba / unit * unit;
        }
        let blocks = match random.weighted(&[30, 30, 20, 15, 5]) {
            0 => unit,
            1 => 1 + random.below(2 * unit),
            2 => 1 + random.below(max_blocks),
            3 => (1 + random.below(8)) * unit,
            _ => (1 + random.below(3)) * leaf,
        };
        let blocks = blocks.min(max_blocks.max(1));
        if random.chance(self.mix.invalid_percent) {
            return [Extent::new(geometry.blocks, 1), Extent::new(lba, u64::MAX), Extent::new(lba, 0)]
                [random.below(3) as usize];
        }
        Extent::new(lba, blocks.min(geometry.blocks - lba))
    }

    fn segments(&mut self, disks: &[(DiskId, Geometry)], block_bytes: u32) -> Vec<CopySegment> {
        let fit: Vec<_> = disks.iter().filter(|(_, geometry)| geometry.block_bytes == block_bytes).collect();
        let count = 1 + self.random.below(3);
        let segment = |this: &mut Self| {
            let (source, target) = (
                fit[this.random.below(fit.len() as u64) as usize],
                fit[this.random.below(fit.len() as u64) as usize],
            );
            let (from, to) = (this.extent(source.1, source.1.blocks), this.extent(target.1, target.1.blocks));
            let (source_lba, blocks) = (from.lba, from.blocks.min(to.blocks));
            let mut target_lba = to.lba;
            if this.random.chance(20) {
                // Close to its source, where both overlap on one disk.
                target_lba = (source_lba + this.random.below(blocks.max(1)))
                    .min(target.1.blocks.saturating_sub(blocks));
            }
            CopySegment { source: source.0, source_lba, target: target.0, target_lba, blocks }
        };
        (0..count).map(|_| segment(self)).collect()
    }

    /// `blocks` blocks in one to three pieces.
    fn data(&mut self, geometry: Geometry, blocks: u64) -> Data {
        let block = geometry.block_bytes as usize;
        // An operation that exceeds the disk is refused before its bytes are read.
        let blocks = blocks.min(self.mix.max_blocks) as usize;
        let kind = self.random.weighted(&[self.mix.unique, 20, 20, 10, 10]);
        let mut bytes = BytesMut::with_capacity(blocks * block);
        while bytes.len() < blocks * block {
            match kind {
                0 => bytes.extend_from_slice(&self.bytes(block)),
                // One of a few contents, each a whole block.
                1 => bytes.extend_from_slice(&Self::repeated(self.random.below(6), block)),
                2 => {
                    let text = Self::repeated(self.random.below(1 << 20), 16);
                    (0..block / 16).for_each(|_| bytes.extend_from_slice(&text));
                }
                3 => bytes.resize(bytes.len() + block, 0),
                _ if self.random.chance(50) => bytes.resize(bytes.len() + block, 0),
                _ => bytes.extend_from_slice(&self.bytes(block)),
            }
        }
        if self.random.chance(self.mix.invalid_percent) {
            bytes.extend_from_slice(&[1; 100]);
        }
        let (bytes, mut data) = (bytes.freeze(), Data::new());
        let cut = self.random.below(bytes.len() as u64 + 1) as usize;
        let cut = if self.random.chance(50) { 0 } else { cut };
        data.push(bytes.slice(..cut));
        data.push(bytes.slice(cut..));
        data
    }

    fn bytes(&mut self, len: usize) -> Bytes {
        let words = (0..len.div_ceil(8)).flat_map(|_| self.random.next_u64().to_le_bytes());
        words.take(len).collect::<Vec<u8>>().into()
    }

    fn repeated(content: u64, len: usize) -> Bytes {
        let mut random = Random::new(content);
        let words = (0..len.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes());
        words.take(len).collect::<Vec<u8>>().into()
    }
}
