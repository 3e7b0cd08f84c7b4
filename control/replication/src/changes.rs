//! What changed in a point since its base, cut into offers.
//!
//! Where there is no base everything is offered, also what is not mapped: whatever the staging volume holds, it gets the
//! content of the source, and what it has already is not sent.

use crate::disk::{self, BLOCK_BYTES};
use crate::fingerprint::{Fingerprint, Key};
use crate::limits::MAX_EXTENTS;
use crate::wire::{Extent, Kind};
use crate::{Error, Result};
use block::{Disk, DiskId, Provisioning};
use bytes::Bytes;
use engine::Engine;
use std::collections::VecDeque;
use std::sync::Arc;

/// Runs that are asked of the engine at a time.
const DIFF_RUNS: usize = 256;

/// Blocks that are read for one offer, most of which may be zeros.
const MAX_READ_BLOCKS: u64 = 4096;

/// Blocks of one read.
const READ_BLOCKS: u64 = 256;

/// A volume of the point, and its base.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The snapshot of the base, if the base has one.
    pub old: Option<DiskId>,
    /// The snapshot of the point.
    pub new: DiskId,
}

/// A part of what changed.
#[derive(Debug, Default)]
pub struct Part {
    /// Index of the volume.
    pub volume: u32,
    /// Runs in order.
    pub extents: Vec<Extent>,
    /// Of the blocks with data.
    pub fingerprints: Vec<Fingerprint>,
    /// The blocks with data.
    pub blocks: Vec<Bytes>,
}

impl Part {
    fn add(&mut self, first: u64, count: u64, kind: Kind) {
        match self.extents.last_mut() {
            Some(last) if last.kind == kind && last.end() == first => last.count += count,
            _ if count == 0 => {}
            _ => self.extents.push(Extent { first, count, kind }),
        }
    }
}

/// The changes from one place on.
pub struct Changes {
    engine: Arc<Engine>,
    key: Key,
    volumes: Vec<Pair>,
    /// The volume that is compared.
    volume: usize,
    /// Runs that were found and not offered yet: first block, number, whether they are mapped.
    found: VecDeque<(u64, u64, bool)>,
    /// Everything before this block was compared; `None` at the end of the volume.
    compared: Option<u64>,
}

impl Changes {
    /// The changes of these volumes, from a block of one of them on.
    pub fn new(engine: Arc<Engine>, key: Key, volumes: Vec<Pair>, volume: u32, block: u64) -> Self {
        Self { engine, key, volumes, volume: volume as usize, found: VecDeque::new(), compared: Some(block) }
    }

    /// The next part with at most `max_blocks` of data; `None` after the last.
    pub async fn next(&mut self, max_blocks: usize) -> Result<Option<Part>> {
        while let Some(pair) = self.volumes.get(self.volume).copied() {
            let mut part = Part { volume: self.volume as u32, ..Part::default() };
            let ended = self.fill(pair, &mut part, max_blocks).await?;
            if ended {
                (self.volume, self.compared) = (self.volume + 1, Some(0));
            }
            if !part.extents.is_empty() {
                return Ok(Some(part));
            }
        }
        Ok(None)
    }

    /// Adds runs until the part is full; true at the end of the volume.
    async fn fill(&mut self, pair: Pair, part: &mut Part, max_blocks: usize) -> Result<bool> {
        let disk = disk::find(&self.engine, pair.new)?;
        let mut left = MAX_READ_BLOCKS;
        while part.blocks.len() < max_blocks && left > 0 && part.extents.len() < MAX_EXTENTS / 2 {
            let Some((first, count, mapped)) = self.next_run(pair).await? else { return Ok(true) };
            if !mapped {
                part.add(first, count, Kind::Hole);
                continue;
            }
            let most = ((max_blocks - part.blocks.len()) as u64).min(left).min(READ_BLOCKS);
            let now = count.min(most);
            if now < count {
                self.found.push_front((first + now, count - now, true));
            }
            left -= now;
            let blocks = disk::read(&*disk, vec![(first, now)]).await?;
            if blocks.len() as u64 != now {
                return Err(Error::Malformed("a read of another length"));
            }
            for (block, bytes) in (first..).zip(blocks) {
                if block::is_zero(&bytes) {
                    part.add(block, 1, Kind::Zero);
                } else {
                    part.add(block, 1, Kind::Data);
                    part.fingerprints.push(self.key.fingerprint(&bytes));
                    part.blocks.push(bytes);
                }
            }
        }
        Ok(false)
    }

    async fn next_run(&mut self, pair: Pair) -> Result<Option<(u64, u64, bool)>> {
        loop {
            if let Some(run) = self.found.pop_front() {
                return Ok(Some(run));
            }
            let Some(from) = self.compared else { return Ok(None) };
            self.compare(pair, from).await?;
        }
    }

    /// Compares some more of the volume.
    async fn compare(&mut self, pair: Pair, from: u64) -> Result<()> {
        let geometry = disk::find(&self.engine, pair.new)?.geometry();
        let per_block = BLOCK_BYTES as u64 / u64::from(geometry.block_bytes);
        let blocks = disk::blocks(geometry);
        if from >= blocks {
            self.compared = None;
            return Ok(());
        }
        let part = self.engine.diff(pair.old, pair.new, from * per_block, DIFF_RUNS).await?;
        self.compared = part.next.map(|next| next / per_block);
        let to = self.compared.unwrap_or(blocks);
        let mut at = from;
        for region in part.regions {
            let first = region.extent.lba / per_block;
            let count = region.extent.blocks.div_ceil(per_block);
            self.found_hole(pair, at, first);
            self.found.push_back((first, count, region.state == Provisioning::Mapped));
            at = first + count;
        }
        self.found_hole(pair, at, to);
        Ok(())
    }

    /// What differs from a disk of no blocks includes what is not mapped.
    fn found_hole(&mut self, pair: Pair, from: u64, to: u64) {
        if pair.old.is_none() && from < to {
            self.found.push_back((from, to - from, false));
        }
    }
}
