//! The reading half of located reads: frames that recipes name, from a cache or from the store of another process.
//!
//! The cache knows frames by the numbers of one opening of the store: the next owner gives numbers again that an owner gave
//! after its last checkpoint. With another opening the cache begins empty.

use crate::cache::Cache;
use crate::cell::Blocks;
use crate::frame::{self, Decoded, FRAME_MAX_BYTES};
use crate::read::push_zeros;
use block::{Data, FrameBlocks, Piece, Recipe, Resolver};
use parking_lot::RwLock;
use shelf::{SegmentId, SegmentReader, Writing, join, wait};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderCounters {
    /// Recipes whose bytes were found.
    pub resolved: u64,
    /// Recipes whose bytes were not found: the home was asked for them.
    pub failed: u64,
    /// Frames that were in the cache, counted once for each piece of a recipe.
    pub hits: u64,
    /// Frames that were read from the store.
    pub fetches: u64,
}

/// Resolves recipes of whichever process owns a store.
pub struct Reader(Arc<Inner>);

struct Inner {
    store: Arc<dyn SegmentReader>,
    cache_bytes: usize,
    cache: RwLock<Option<(u64, Arc<Cache>)>>,
    resolved: AtomicU64,
    failed: AtomicU64,
    hits: AtomicU64,
    fetches: AtomicU64,
}

impl Reader {
    /// A reader of a store, with a cache of up to `cache_bytes` of decoded frames.
    pub fn new(store: Arc<dyn SegmentReader>, cache_bytes: usize) -> Self {
        let [resolved, failed, hits, fetches] = Default::default();
        let cache = RwLock::new(None);
        Self(Arc::new(Inner { store, cache_bytes, cache, resolved, failed, hits, fetches }))
    }

    /// Its counters so far.
    pub fn counters(&self) -> ReaderCounters {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Inner { resolved, failed, hits, fetches, .. } = &*self.0;
        ReaderCounters {
            resolved: count(resolved),
            failed: count(failed),
            hits: count(hits),
            fetches: count(fetches),
        }
    }
}

impl Resolver for Reader {
    fn resolve(&self, recipe: Recipe) -> Pin<Box<dyn Future<Output = Option<Data>> + Send>> {
        let inner = self.0.clone();
        Box::pin(async move {
            let data = inner.resolve(&recipe).await;
            let counter = if data.is_some() { &inner.resolved } else { &inner.failed };
            counter.fetch_add(1, Ordering::Relaxed);
            data
        })
    }
}

impl Inner {
    async fn resolve(&self, recipe: &Recipe) -> Option<Data> {
        let blocks = |piece: &Piece| match piece {
            Piece::Blocks(blocks) => Some(*blocks),
            Piece::Zeros(_) | Piece::Bytes(_) => None,
        };
        let wanted: SmallVec<[FrameBlocks; 4]> = recipe.pieces.iter().filter_map(blocks).collect();
        if !wanted.iter().all(FrameBlocks::is_valid) {
            return None;
        }
        let frames = self.frames(recipe.opening, &wanted).await?;
        let mut data = Data::new();
        for piece in &recipe.pieces {
            match piece {
                Piece::Zeros(bytes) => push_zeros(&mut data, *bytes),
                Piece::Bytes(bytes) => data.push(bytes.clone()),
                Piece::Blocks(blocks) => {
                    let frame = frames.get(&blocks.frame)?;
                    data.push(frame.blocks(blocks.first, blocks.count.into())?);
                }
            }
        }
        Some(data)
    }

    /// The frames of these blocks, from the cache or the store; `None` if one is not there any more.
    async fn frames(&self, opening: u64, wanted: &[FrameBlocks]) -> Option<BTreeMap<u64, Decoded>> {
        if wanted.is_empty() {
            // A recipe without frames names no opening either, and must not end the cache of the present one.
            return Some(BTreeMap::new());
        }
        let cache = self.cache_of(opening);
        // Pieces of one frame are read together.
        let mut missing = BTreeMap::<u64, (FrameBlocks, Blocks)>::new();
        let mut found = BTreeMap::new();
        for blocks in wanted {
            let wanted = (((1u16 << blocks.count) - 1) << blocks.first) as Blocks;
            match cache.get(blocks.frame, blocks.first).filter(|hit| hit.frame.has_all(wanted)) {
                Some(hit) => {
                    self.hits.fetch_add(1, Ordering::Relaxed);
                    found.insert(blocks.frame, hit.frame);
                }
                None => missing.entry(blocks.frame).or_insert((*blocks, 0)).1 |= wanted,
            }
        }
        let fetched =
            join(missing.values().map(|(blocks, wanted)| self.fetch(&cache, *blocks, *wanted))).await;
        for (number, frame) in missing.keys().zip(fetched) {
            found.insert(*number, frame?);
        }
        Some(found)
    }

    /// The cache of frames with the numbers of this opening, which is the newest one, but for recipes that are late.
    fn cache_of(&self, opening: u64) -> Arc<Cache> {
        if let Some((_, cache)) = self.cache.read().as_ref().filter(|(of, _)| *of == opening) {
            return cache.clone();
        }
        let mut held = self.cache.write();
        match &*held {
            Some((of, cache)) if *of == opening => cache.clone(),
            _ => held.insert((opening, Arc::new(Cache::new(self.cache_bytes)))).1.clone(),
        }
    }

    /// Reads blocks of a frame from the store; `None` if they are not there any more.
    async fn fetch(&self, cache: &Cache, blocks: FrameBlocks, wanted: Blocks) -> Option<Decoded> {
        let FrameBlocks { frame: number, stored, place, .. } = blocks;
        if u64::from(place.len) > FRAME_MAX_BYTES {
            return None;
        }
        let (generation, salt) = place.writing;
        let (done, read) = wait();
        let (segment, writing) = (SegmentId(place.segment), Writing { generation, salt });
        self.store.read(segment, writing, (place.offset, place.len), done);
        self.fetches.fetch_add(1, Ordering::Relaxed);
        let object = read.await.inspect_err(|error| tracing::debug!(number, %error, "not read here")).ok()?;
        let frame = frame::unpack(&object, number, wanted).ok().filter(|frame| frame.stored == stored)?;
        cache.insert(number, frame.clone());
        Some(frame)
    }
}
