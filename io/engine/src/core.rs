//! What volumes and the background share: the state behind its lock, the journal, the log, and the ways to wait.

use crate::cache::Cache;
use crate::hidden::HiddenIds;
use crate::inconsistency::Inconsistencies;
use crate::journal::Journal;
use crate::log::Log;
use crate::log_writes::LogWrites;
use crate::options::Options;
use crate::sharded_lock::{CachePadded, ShardedLock};
use crate::space::Usage;
use crate::state::State;
use crate::wake::{RoomQueue, Signal, Watermark};
use block::{Error, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use shelf::{Layout, Shelf};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The parts of an engine.
pub struct Core {
    pub options: Options,
    /// Sizes; the number of segments is the one at the opening, see `segments`.
    pub layout: Layout,
    /// Segments that the background knows of.
    pub segments: AtomicU32,
    /// Of these, the ones with nothing in them.
    pub free_segments: AtomicU32,
    /// Those that are in use, and the free ones that drives have room for.
    pub usable_segments: AtomicU32,
    pub state: ShardedLock<State>,
    pub journal: Arc<Journal>,
    pub log: Arc<Log>,
    pub cache: Cache,
    /// Wakes the background.
    pub signal: Arc<Signal>,
    /// Operations that wait for room.
    pub room_queue: RoomQueue,
    /// The most media bytes of the journal that one of those needs which were refused since the background looked; zero
    /// when nobody was.
    pub wants_room: AtomicU64,
    /// Somebody waits until it is known what space there really is.
    pub wants_space: AtomicBool,
    /// Acknowledgements that wait for the flusher.
    pub credit: Watermark,
    pub stopping: AtomicBool,
    /// Reaches one when the background has ended.
    pub finished: Watermark,
    /// Identities of hidden clones in use.
    pub hidden: HiddenIds,
    /// The flusher has no room in the log.
    pub full: AtomicBool,
    /// Number of changes made.
    pub changes: CachePadded<AtomicU64>,
    /// Times that hosts have had frames read.
    pub fetches: AtomicU64,
    /// What the background wrote to the log.
    pub log_writes: Mutex<LogWrites>,
    /// Key of the fingerprints.
    pub key: [u8; 32],
    /// What media say that can't be.
    pub inconsistencies: Inconsistencies,
    /// For a repair: the pages of the journal, by batch.
    pub journal_pages: Mutex<BTreeMap<u64, Bytes>>,
}

impl Core {
    pub fn new(
        shelf: Arc<dyn Shelf>,
        options: Options,
        key: [u8; 32],
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
            segments: AtomicU32::new(shelf.layout().segments),
            free_segments: AtomicU32::new(0),
            usable_segments: AtomicU32::new(shelf.layout().segments),
            cache: Cache::new(options.cache_bytes),
            options,
            signal: journal.signal(),
            journal,
            log: Arc::new(Log::new(shelf)),
            room_queue: RoomQueue::default(),
            wants_room: AtomicU64::new(0),
            wants_space: AtomicBool::new(false),
            credit: Watermark::default(),
            stopping: AtomicBool::new(false),
            finished: Watermark::default(),
            hidden: HiddenIds::default(),
            full: AtomicBool::new(false),
            changes: CachePadded::default(),
            fetches: AtomicU64::new(0),
            log_writes: Mutex::default(),
            key,
            inconsistencies,
            journal_pages: Mutex::default(),
            state: ShardedLock::new(state),
        })
    }

    /// A number that changes whenever hosts have the array do something beyond its memory.
    pub fn activity(&self) -> u64 {
        self.changes.load(Ordering::Acquire) + self.fetches.load(Ordering::Acquire)
    }

    pub fn check_running(&self) -> Result<()> {
        match self.journal.stopped() {
            Some(why) => Err(Error::Stopped(why)),
            None if self.stopping.load(Ordering::Acquire) => Err(Error::NotReady),
            None => Ok(()),
        }
    }

    pub fn why_stopped(&self) -> Error {
        Error::Stopped(self.journal.stopped().unwrap_or_default())
    }
}
