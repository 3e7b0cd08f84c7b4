//! Changes of a point since its base, cut into offers.
//!
//! Without a base, everything is offered, including unmapped runs: the staging volume gets the content of the source,
//! whatever it had, and blocks that it already has are not sent.

use crate::Result;
use crate::disk::{self, BLOCK_BYTES};
use crate::fingerprint::Fingerprint;
use crate::known::{Content, Reader};
use crate::limits::MAX_EXTENTS;
use crate::wire::{Extent, Kind};
use block::{Disk, DiskId, Provisioning};
use bytes::Bytes;
use engine::Engine;
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of runs requested from the engine at a time.
const DIFF_RUNS: usize = 256;

/// Blocks read for one offer, most of which may be zeros.
const MAX_READ_BLOCKS: u64 = 4096;

/// Blocks of one read.
const READ_BLOCKS: u64 = 256;

/// Snapshots of a volume in the point and in its base.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The snapshot of the base, if any.
    pub old: Option<DiskId>,
    /// The snapshot of the point.
    pub new: DiskId,
}

/// A changed block with data.
#[derive(Clone, Debug)]
pub enum Block {
    /// Data of the block.
    Read(Bytes),
    /// Block number in the snapshot; its fingerprint was known.
    At(u64),
}

/// A part of the changes.
#[derive(Debug)]
pub struct Part {
    /// Index of the volume.
    pub volume: u32,
    /// The snapshot of the volume.
    pub snapshot: DiskId,
    /// Runs in order.
    pub extents: Vec<Extent>,
    /// Fingerprints of the blocks with data.
    pub fingerprints: Vec<Fingerprint>,
    /// The blocks with data.
    pub blocks: Vec<Block>,
}

impl Part {
    fn new(volume: u32, snapshot: DiskId) -> Self {
        let (extents, fingerprints, blocks) = (Vec::new(), Vec::new(), Vec::new());
        Self { volume, snapshot, extents, fingerprints, blocks }
    }

    fn add(&mut self, first: u64, count: u64, kind: Kind) {
        match self.extents.last_mut() {
            Some(last) if last.kind == kind && last.end() == first => last.count += count,
            _ if count == 0 => {}
            _ => self.extents.push(Extent { first, count, kind }),
        }
    }
}

/// The changes after a position.
pub struct Changes {
    engine: Arc<Engine>,
    reader: Reader,
    volumes: Vec<Pair>,
    /// The volume in comparison.
    volume: usize,
    /// Found runs that were not offered yet: first block, number of blocks, mapped or not.
    found: VecDeque<(u64, u64, bool)>,
    /// The position up to which the volume was compared; `None` at its end.
    compared: Option<u64>,
}

impl Changes {
    /// The changes of these volumes, starting at a block of one of them.
    pub fn new(engine: Arc<Engine>, reader: Reader, volumes: Vec<Pair>, volume: u32, block: u64) -> Self {
        Self {
            engine,
            reader,
            volumes,
            volume: volume as usize,
            found: VecDeque::new(),
            compared: Some(block),
        }
    }

    /// The next part with at most `max_blocks` of data; `None` after the last.
    pub async fn next(&mut self, max_blocks: usize) -> Result<Option<Part>> {
        while let Some(pair) = self.volumes.get(self.volume).copied() {
            let mut part = Part::new(self.volume as u32, pair.new);
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
            for (block, content) in (first..).zip(self.reader.contents(pair.new, first, now).await?) {
                let (fingerprint, data) = match content {
                    Content::Zeros => {
                        part.add(block, 1, Kind::Zero);
                        continue;
                    }
                    Content::Read(fingerprint, bytes) => (fingerprint, Block::Read(bytes)),
                    Content::Known(fingerprint) => (fingerprint, Block::At(block)),
                };
                part.add(block, 1, Kind::Data);
                part.fingerprints.push(fingerprint);
                part.blocks.push(data);
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

    /// Compares a further part of the volume.
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

    /// The difference from a disk without blocks includes unmapped blocks.
    fn found_hole(&mut self, pair: Pair, from: u64, to: u64) {
        if pair.old.is_none() && from < to {
            self.found.push_back((from, to - from, false));
        }
    }
}
