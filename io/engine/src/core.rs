//! What volumes and the background share: the state behind its lock, the journal, the log, and the ways to wait.

use crate::cache::Cache;
use crate::change::{Change, Made};
use crate::engine::Options;
use crate::inconsistency::Inconsistencies;
use crate::journal::Journal;
use crate::log::Log;
use crate::log_writes::LogWrites;
use crate::sharded_lock::{CachePadded, ShardedLock};
use crate::space::Usage;
use crate::staged_copy::Stages;
use crate::state::{Refusal, State};
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
    /// Copies that are being prepared.
    pub stages: Stages,
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
            stages: Stages::default(),
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

    /// Makes a change that needs nothing prepared, and waits until it is durable.
    pub async fn change(&self, change: Change) -> Result<()> {
        loop {
            let made = self.make_when_possible(&change).await;
            if let Some(made) = self.confirm_error(made).await? {
                return self.acknowledge(made).await;
            }
        }
    }

    /// A number that changes whenever hosts have the array do something beyond its memory.
    pub fn activity(&self) -> u64 {
        self.changes.load(Ordering::Acquire) + self.fetches.load(Ordering::Acquire)
    }

    /// Waits until a change is durable, and then as long as the flusher is behind.
    pub async fn acknowledge(&self, made: Made) -> Result<()> {
        self.journal.until(made.batch).await?;
        if made.credit > 0 {
            self.credit.reached(made.credit).await;
        }
        Ok(())
    }

    /// Makes a change as soon as it can be made; none when a block that it expects has changed.
    pub async fn make_when_possible(&self, change: &Change) -> Result<Option<Made>> {
        let mut attempt = self.make(change, false);
        loop {
            match attempt {
                Ok(made) => return Ok(Some(made)),
                Err(Refusal::Error(Error::NoSpace))
                    if change.packed.is_none() && !change.pages.is_empty() =>
                {
                    return Box::pin(self.make_when_possible(&self.measured(change))).await;
                }
                Err(Refusal::Error(error)) => return Err(error),
                Err(Refusal::Changed) => return Ok(None),
                Err(Refusal::Need(need)) => {
                    self.load(need).await?;
                    attempt = self.make(change, false);
                }
                Err(Refusal::Backpressure) => {
                    let ticket = self.room_queue.ticket();
                    self.signal.notify();
                    let try_again = || match self.make(change, true) {
                        Err(Refusal::Backpressure) => None,
                        attempt => Some(attempt),
                    };
                    attempt = ticket.turn(try_again).await;
                }
            }
        }
    }

    /// Waits until an answer that a volume is not there, or is not as it would have to be, can't be undone by a power
    /// loss, whichever volume it tells of.
    pub async fn confirm_error<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.as_ref().is_err_and(depends_on_catalog) {
            self.confirm_catalog().await?;
        }
        outcome
    }

    /// Waits until a power loss can't undo which volumes there are, and what they take.
    pub async fn confirm_catalog(&self) -> Result<()> {
        let catalog_batch = self.state.read().catalog.catalog_batch;
        self.journal.until(catalog_batch).await
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

/// Whether an error follows from which volumes there are and from what is known of them.
pub fn depends_on_catalog(error: &Error) -> bool {
    match error {
        Error::Gone | Error::Foreign(_) | Error::ReadOnly | Error::Kept { .. } => true,
        Error::OutOfRange { .. } | Error::Malformed(_) => true,
        Error::Miscompare { .. } | Error::NoSpace | Error::Medium { .. } => false,
        Error::NotReady | Error::Stopped(_) => false,
    }
}
