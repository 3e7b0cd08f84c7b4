//! Core: what volumes and the background share. The state with its lock, the journal, the log, and the ways to wait.

use crate::adaptivity::Compressibility;
use crate::backpressure::Throttle;
use crate::batch::Blocks;
use crate::cache::Cache;
use crate::capacity::RefusalCounters;
use crate::format::Format;
use crate::hidden::{HiddenIds, Images};
use crate::inconsistency::Inconsistencies;
use crate::journal::Journal;
use crate::log::Log;
use crate::log_writes::LogWrites;
use crate::options::Options;
use crate::read_streams::ReadStreams;
use crate::sharded_lock::{CachePadded, ShardedLock, note_use};
use crate::space::{SegmentCounts, Usage};
use crate::state::State;
use crate::wake::{Signal, Watermark};
use block::{Error, Result};
use parking_lot::Mutex;
use shelf::{Layout, Shelf};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What hosts do.
#[derive(Default)]
pub struct Activity {
    changes: CachePadded<AtomicU64>,
    /// Reads that memory alone could not serve, and times that `read` was found set.
    reads: AtomicU64,
    /// A host read since it was looked at last. Reads do not count themselves, so that threads that read do not slow each
    /// other down.
    read: CachePadded<AtomicBool>,
}

impl Activity {
    /// A change was made.
    pub fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Frames were read for a host.
    pub fn note_fetch(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// A host reads.
    pub fn note_read(&self) {
        note_use(&self.read);
    }

    /// Number of changes.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// A number that grows whenever hosts do something between two calls.
    pub fn total(&self) -> u64 {
        if self.read.load(Ordering::Relaxed) && self.read.swap(false, Ordering::AcqRel) {
            self.reads.fetch_add(1, Ordering::Relaxed);
        }
        self.changes() + self.reads.load(Ordering::Acquire)
    }
}

/// The end of an engine.
#[derive(Default)]
pub struct Shutdown {
    begun: AtomicBool,
    /// Reaches one when the background has ended.
    ended: Watermark,
}

impl Shutdown {
    /// No more changes are taken.
    pub fn begin(&self) {
        self.begun.store(true, Ordering::Release);
    }

    /// Whether that was said.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// The background has ended.
    pub fn end(&self) {
        self.begin();
        self.ended.advance(1);
    }

    /// Waits until the background has ended.
    pub async fn ended(&self) {
        self.ended.reached(1).await;
    }
}

/// The parts of an engine.
pub struct Core {
    pub options: Options,
    /// Sizes. The number of segments is the one at the opening, see `segments`.
    pub layout: Layout,
    /// Segments that the background knows of.
    pub segments: SegmentCounts,
    pub state: ShardedLock<State>,
    pub journal: Arc<Journal>,
    pub log: Arc<Log>,
    pub cache: Cache,
    /// What hosts read in order.
    pub streams: ReadStreams,
    /// Wakes the background.
    pub signal: Arc<Signal>,
    /// Where operations wait for the background.
    pub throttle: Throttle,
    /// Changes refused for lack of space.
    pub refusals: RefusalCounters,
    pub shutdown: Shutdown,
    /// Identities of hidden clones in use.
    pub hidden: HiddenIds,
    /// Images in use.
    pub images: Images,
    /// Operations of hosts.
    pub activity: Activity,
    /// Bytes written to the log.
    pub log_writes: Mutex<LogWrites>,
    /// Key of the fingerprints.
    pub key: [u8; 32],
    /// The format of the store.
    pub format: Format,
    /// Where compression saves space.
    pub compressibility: Compressibility,
    /// Inconsistencies found on media.
    pub inconsistencies: Inconsistencies,
    /// For a repair: the blocks of the journal, by batch.
    pub journal_blocks: Mutex<BTreeMap<u64, Blocks>>,
    /// For a repair: map pages without which a record of the journal could not be applied. What the record wrote below them is not
    /// known, so that nothing below them may be read, however much of it a repair can read.
    pub unapplied: Mutex<BTreeSet<u64>>,
}

impl Core {
    pub fn new(
        shelf: Arc<dyn Shelf>,
        options: Options,
        (version, key): (u32, [u8; 32]),
        mut state: State,
        journal: Arc<Journal>,
    ) -> Arc<Self> {
        options.tunables.assert();
        state.maps.usage = Usage::new(shelf.layout().segments);
        let inconsistencies = Inconsistencies::default();
        state.maps.inconsistencies = inconsistencies.clone();
        state.maps.table.inconsistencies = inconsistencies.clone();
        Arc::new(Self {
            layout: shelf.layout(),
            segments: SegmentCounts::new(shelf.layout().segments),
            cache: Cache::new(options.cache_bytes),
            streams: ReadStreams::default(),
            options,
            signal: journal.signal(),
            journal,
            log: Arc::new(Log::new(shelf)),
            throttle: Throttle::default(),
            refusals: RefusalCounters::default(),
            shutdown: Shutdown::default(),
            hidden: HiddenIds::default(),
            images: Images::default(),
            activity: Activity::default(),
            log_writes: Mutex::default(),
            key,
            format: Format::new(version),
            compressibility: Compressibility::default(),
            inconsistencies,
            journal_blocks: Mutex::default(),
            unapplied: Mutex::default(),
            state: ShardedLock::new(state),
        })
    }

    pub fn check_running(&self) -> Result<()> {
        match self.journal.stopped() {
            Some(why) => Err(Error::Stopped(why)),
            None if self.shutdown.has_begun() => Err(Error::NotReady),
            None => Ok(()),
        }
    }

    pub fn why_stopped(&self) -> Error {
        Error::Stopped(self.journal.stopped().unwrap_or_default())
    }
}
