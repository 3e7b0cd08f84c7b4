//! Applies offers to staging volumes: finds blocks that are already on this array, writes the others, and reads them
//! back.

use crate::disk;
use crate::fingerprint::{Digest, Fingerprint, Key};
use crate::index::Index;
use crate::known::{self, Reader};
use crate::wire::{Kind, Offer, unpack};
use crate::{Error, Result};
use block::{CopySegment, Data, Disk, DiskId, Op};
use bytes::{Bytes, BytesMut};
use engine::{Engine, Volume};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Blocks of one write to a staging volume, limited by the journal of a small array.
const MAX_WRITE_BLOCKS: u64 = 64;

/// Minimum number of consecutive blocks that are shared instead of written: writing a shorter run costs no more, and
/// finds its duplicates then.
const MIN_SHARED_BLOCKS: u64 = 8;

/// State of a block of an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// The staging volume already has the block there.
    InPlace,
    /// The block was found at this block of this disk, or was sent.
    Found(Bytes, Option<(DiskId, u64)>),
    /// The block must be sent, with this offer or an earlier one.
    Wanted,
}

/// An offer that is not applied yet.
struct Pending {
    offer: Offer,
    staging: Arc<Volume>,
    /// Content of each block with data.
    contents: Vec<Content>,
    /// Indices of the blocks requested with this offer.
    asked: Vec<usize>,
    /// Number of missing blocks.
    missing: usize,
}

/// Outstanding offers, in order.
pub struct Offers {
    key: Key,
    reader: Reader,
    index: Arc<Mutex<Index>>,
    pending: VecDeque<Pending>,
    /// Missing blocks by fingerprint, with the offers and indices that need each.
    wanted: BTreeMap<Fingerprint, Vec<(u64, usize)>>,
}

impl Offers {
    /// An empty set.
    pub fn new(key: Key, reader: Reader, index: Arc<Mutex<Index>>) -> Self {
        Self { key, reader, index, pending: VecDeque::new(), wanted: BTreeMap::new() }
    }

    /// Number of offers that are not applied yet.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Adds a checked offer; returns one bit for each of its blocks, set for wanted ones.
    pub async fn add(&mut self, engine: &Engine, staging: Arc<Volume>, offer: Offer) -> Result<Bytes> {
        let mut contents = self.in_place(&staging, &offer).await;
        self.find_elsewhere(engine, staging.geometry().block_bytes, &offer, &mut contents).await;
        let mut bits = BytesMut::zeroed(contents.len().div_ceil(8));
        let (mut asked, mut missing) = (Vec::new(), 0);
        for (index, fingerprint) in offer.fingerprints.iter().enumerate() {
            if contents[index] != Content::Wanted {
                continue;
            }
            missing += 1;
            let waiting = self.wanted.entry(*fingerprint).or_default();
            if waiting.is_empty() {
                asked.push(index);
                bits[index / 8] |= 1 << (index % 8);
            }
            waiting.push((offer.number, index));
        }
        self.pending.push_back(Pending { offer, staging, contents, asked, missing });
        Ok(bits.freeze())
    }

    /// Blocks that the staging volume already has. An unreadable block is replaced.
    async fn in_place(&self, staging: &Volume, offer: &Offer) -> Vec<Content> {
        let there = self.fingerprints(staging, offer).await.unwrap_or_default();
        let same = |index: usize, fingerprint: &Fingerprint| there.get(index) == Some(&Some(*fingerprint));
        let content = |(index, fingerprint): (usize, &Fingerprint)| {
            if same(index, fingerprint) { Content::InPlace } else { Content::Wanted }
        };
        offer.fingerprints.iter().enumerate().map(content).collect()
    }

    /// Fingerprints of a staging volume's blocks at the positions of an offer; `None` for blocks that read as zeros,
    /// since a source never offers zeros as data.
    async fn fingerprints(&self, staging: &Volume, offer: &Offer) -> Result<Vec<Option<Fingerprint>>> {
        let mut fingerprints = Vec::with_capacity(offer.fingerprints.len());
        for (first, count) in offer.data() {
            let contents = self.reader.contents(staging.id(), first, count).await?;
            fingerprints.extend(contents.into_iter().map(|content| match content {
                known::Content::Zeros => None,
                known::Content::Read(fingerprint, _) | known::Content::Known(fingerprint) => {
                    Some(fingerprint)
                }
            }));
        }
        Ok(fingerprints)
    }

    /// Reads blocks that the index knows, and keeps those with the fingerprint.
    async fn find_elsewhere(
        &self,
        engine: &Engine,
        block_bytes: u32,
        offer: &Offer,
        contents: &mut [Content],
    ) {
        let mut places: BTreeMap<DiskId, Vec<(usize, u64)>> = BTreeMap::new();
        {
            let mut known = self.index.lock();
            let missing = contents.iter().enumerate().filter(|(_, content)| **content == Content::Wanted);
            for (index, _) in missing {
                if let Some((disk, block)) = known.find(&offer.fingerprints[index]) {
                    places.entry(disk).or_default().push((index, block));
                }
            }
        }
        for (id, mut places) in places {
            let Some(disk) = engine.volume(id) else { continue };
            let geometry = disk.geometry();
            let blocks = disk::blocks(geometry);
            places.retain(|(_, block)| *block < blocks);
            let alike = geometry.block_bytes == block_bytes;
            let runs = places.iter().map(|(_, block)| (*block, 1)).collect();
            // An unreadable block is requested like a missing one.
            let found = disk::read(&*disk, runs).await.unwrap_or_default();
            for ((index, place), block) in places.iter().zip(found) {
                if self.key.fingerprint(&block) == offer.fingerprints[*index] {
                    let whole = block.len() == disk::BLOCK_BYTES;
                    contents[*index] = Content::Found(block, (alike && whole).then_some((id, *place)));
                }
            }
        }
    }

    /// Takes the requested blocks of an offer.
    ///
    /// # Errors
    /// [`Error::Malformed`] if no blocks are awaited, or if they are not the requested ones.
    pub fn take(&mut self, number: u64, method: u8, packed: &Bytes) -> Result<()> {
        let unanswered = self.pending.iter_mut().find(|pending| !pending.asked.is_empty());
        let Some(pending) = unanswered.filter(|pending| pending.offer.number == number) else {
            return Err(Error::Malformed("blocks that were not asked for"));
        };
        let geometry = pending.staging.geometry();
        let places: Vec<u64> = pending.offer.blocks().collect();
        let len = |index: &usize| disk::bytes(geometry, places[*index], 1) as usize;
        let mut unpacked = unpack(method, packed, pending.asked.iter().map(len).sum())?;
        let asked = std::mem::take(&mut pending.asked);
        let blocks: Vec<_> = asked.iter().map(|index| (*index, unpacked.split_to(len(index)))).collect();
        let fingerprints = pending.offer.fingerprints.clone();
        for (index, block) in blocks {
            let fingerprint = fingerprints[index];
            if self.key.fingerprint(&block) != fingerprint {
                return Err(Error::Malformed("a block that differs from its fingerprint"));
            }
            for (number, index) in self.wanted.remove(&fingerprint).unwrap_or_default() {
                let needs = self.pending.iter_mut().find(|pending| pending.offer.number == number);
                let needs = needs.expect("an offer that misses a block is not applied");
                needs.contents[index] = Content::Found(block.clone(), None);
                needs.missing -= 1;
            }
        }
        Ok(())
    }

    /// Applies the first offer if it has all blocks; returns it once it is durable and was read back.
    ///
    /// # Errors
    /// [`Error::Differs`] if the digest of the data read back, following `digest`, differs from that of the offer.
    pub async fn apply_first(&mut self, point: u64, digest: Digest) -> Result<Option<Offer>> {
        let Some(first) = self.pending.front().filter(|pending| pending.missing == 0) else {
            return Ok(None);
        };
        let (offer, staging) = (&first.offer, &first.staging);
        let shared = first.shared();
        if !shared.is_empty() {
            let segments = shared.iter().map(|run| run.segment(staging)).collect();
            // Blocks that can no longer be shared are written below.
            _ = disk::perform(&**staging, vec![Op::Copy(segments)]).await;
        }
        disk::perform(&**staging, first.ops(|block| !shared.iter().any(|run| run.has(block)))).await?;
        let mut there = self.fingerprints(staging, offer).await?;
        if !shared.is_empty() && !first.is_there(&there) {
            // The disk to share with has changed since it was read.
            disk::perform(&**staging, first.ops(|_| true)).await?;
            there = self.fingerprints(staging, offer).await?;
        }
        // The source never offers zeros as data: zeros have no fingerprint here, and differ.
        let fingerprints: Vec<_> = there.into_iter().map(Option::unwrap_or_default).collect();
        let written = Offer { fingerprints, extents: offer.extents.clone(), ..*offer };
        if self.key.chain(digest, &written.chained()) != offer.digest {
            return Err(Error::Differs { point, volume: offer.volume, block: offer.end() });
        }
        {
            let mut index = self.index.lock();
            for (block, fingerprint) in offer.blocks().zip(&offer.fingerprints) {
                index.insert(fingerprint, staging.id(), block);
            }
        }
        Ok(self.pending.pop_front().map(|pending| pending.offer))
    }
}

/// A run of blocks that is shared with a run of another disk.
struct Shared {
    from: DiskId,
    first: u64,
    to: u64,
    count: u64,
}

impl Shared {
    fn has(&self, block: u64) -> bool {
        (self.to..self.to + self.count).contains(&block)
    }

    fn segment(&self, staging: &Volume) -> CopySegment {
        let geometry = staging.geometry();
        let (source, target) =
            (disk::extent(geometry, self.first, 1).lba, disk::extent(geometry, self.to, self.count));
        CopySegment {
            source: self.from,
            source_lba: source,
            target: staging.id(),
            target_lba: target.lba,
            blocks: target.blocks,
        }
    }
}

impl Pending {
    /// Runs that are shared with other disks.
    fn shared(&self) -> Vec<Shared> {
        let mut runs: Vec<Shared> = Vec::new();
        for (block, content) in self.offer.blocks().zip(&self.contents) {
            let Content::Found(bytes, Some((from, place))) = content else { continue };
            if bytes.len() != disk::bytes(self.staging.geometry(), block, 1) as usize {
                continue;
            }
            match runs.last_mut() {
                Some(run)
                    if run.from == *from
                        && run.first + run.count == *place
                        && run.to + run.count == block =>
                {
                    run.count += 1;
                }
                _ => runs.push(Shared { from: *from, first: *place, to: block, count: 1 }),
            }
        }
        runs.retain(|run| run.count >= MIN_SHARED_BLOCKS);
        runs
    }

    /// Whether the staging volume has all blocks.
    fn is_there(&self, there: &[Option<Fingerprint>]) -> bool {
        there.iter().copied().eq(self.offer.fingerprints.iter().copied().map(Some))
    }

    /// Operations on the staging volume, with data for the blocks that `is_written` selects.
    fn ops(&self, is_written: impl Fn(u64) -> bool) -> Vec<Op> {
        let geometry = self.staging.geometry();
        let zero = Data::from(Bytes::from(vec![0; geometry.block_bytes as usize]));
        let (mut ops, mut holes) = (Vec::new(), Vec::new());
        for extent in &self.offer.extents {
            let run = disk::extent(geometry, extent.first, extent.count);
            match extent.kind {
                Kind::Hole => holes.push(run),
                Kind::Zero => ops.push(Op::Fill { extent: run, block: zero.clone() }),
                Kind::Data => {}
            }
        }
        if !holes.is_empty() {
            ops.push(Op::Unmap(holes));
        }
        let mut runs: Vec<(u64, u64, Data)> = Vec::new();
        for (block, content) in self.offer.blocks().zip(&self.contents) {
            let Content::Found(bytes, _) = content else { continue };
            if !is_written(block) {
                continue;
            }
            match runs.last_mut() {
                Some((first, end, data)) if *end == block && *end - *first < MAX_WRITE_BLOCKS => {
                    data.push(bytes.clone());
                    *end += 1;
                }
                _ => runs.push((block, block + 1, bytes.clone().into())),
            }
        }
        let write =
            |(first, end, data)| Op::Write { lba: disk::extent(geometry, first, end - first).lba, data };
        ops.extend(runs.into_iter().map(write));
        ops
    }
}
