//! Background worker: flush, checkpoint, segment cleaning, reference release, joining, index rebuild and recompression,
//! one step at a time on one task.
//!
//! One task does all of it so that the steps never run at the same time: each may rely on no other step moving frames,
//! ending map pages or writing to the log. Operations of hosts run between and beside them. The worker only decides
//! what is next; what a step needs to remember belongs to the part that does it.

use crate::appender::Appender;
use crate::checkpoint::Checkpointer;
use crate::cleaner::{Cleaned, Cleaner};
use crate::core::Core;
use crate::gathering::Gathering;
use crate::idle::{IdleWork, Rest};
use crate::joining::Joining;
use crate::reducer::{Reducer, Step};
use crate::space::Location;
use crate::wake::pause;
use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;

/// The background of an engine.
pub struct Worker {
    core: Arc<Core>,
    appender: Appender,
    reducer: Reducer,
    cleaner: Cleaner,
    checkpointer: Checkpointer,
    idle: IdleWork,
    gathering: Gathering,
    joining: Joining,
    /// A checkpoint is wanted once the slots of batches before this one have been flushed.
    checkpoint_after: Option<u64>,
    /// Emptied segments that the last checkpoint could not free.
    left_emptied: u32,
}

/// A checkpoint is written only to free segments if these are at least this many, which is more than streams have open, and this part of
/// those in use, as a divisor: it writes far less than what filled them.
const RETURNED_MIN_SEGMENTS: u32 = 8;
const RETURNED_DIVISOR: u32 = 16;

impl Worker {
    /// The background of an engine that has been opened, with the locations of the checkpoint's root and catalog.
    pub fn new(core: Arc<Core>, root: Vec<Location>, catalog: Vec<Location>) -> Self {
        let checkpointer = Checkpointer::new(core.clone(), root, catalog);
        Self::with(core, checkpointer)
    }

    fn with(core: Arc<Core>, checkpointer: Checkpointer) -> Self {
        let mut worker = Self {
            appender: Appender::new(core.clone()),
            reducer: Reducer::new(core.clone()),
            cleaner: Cleaner::new(core.clone()),
            idle: IdleWork::new(core.clone()),
            gathering: Gathering::new(core.clone()),
            joining: Joining::new(core.clone()),
            checkpoint_after: None,
            left_emptied: 0,
            checkpointer,
            core,
        };
        worker.appender.publish_progress();
        worker
    }

    /// Starts over with the state that a repair left. What the checkpoint on the drives refers to stays until the next
    /// one is there.
    pub fn restart(self) -> Self {
        let mut worker = Self::with(self.core.clone(), self.checkpointer.restart());
        worker.appender.restrict_to(&self.appender);
        worker
    }

    /// The engine's parts.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Where root and catalog lie, as of the last checkpoint.
    pub fn roots(&self) -> Arc<Mutex<Vec<Location>>> {
        self.checkpointer.roots()
    }

    /// See [`Appender::discard_unused`].
    pub fn discard_unused(&self) {
        self.appender.discard_unused();
    }

    /// Works until the engine is shut down or stops. It waits for the futures that `rest` returns.
    pub async fn run<R: Future<Output = ()>>(mut self, rest: impl Fn(Rest) -> R) {
        let core = self.core.clone();
        let outcome = self.work(rest).await;
        if let Err(error) = outcome {
            core.journal.stop(error.to_string());
        }
        core.shutdown.begin();
        core.throttle.credit.advance(u64::MAX);
        core.shutdown.end();
        core.format.end();
        core.throttle.queue.freed();
    }

    async fn work<R: Future<Output = ()>>(&mut self, rest: impl Fn(Rest) -> R) -> block::Result<()> {
        self.discard_unused();
        loop {
            if self.core.journal.stopped().is_some() {
                return Ok(());
            }
            let stopping = self.core.shutdown.has_begun();
            self.grow();
            let busy = self.step().await?;
            if !busy && stopping {
                self.checkpoint().await?;
                self.core.evict_pages();
                self.appender.publish_progress();
                return Ok(());
            }
            if busy {
                pause().await;
                continue;
            }
            if self.gathering.is_waiting() {
                self.gathering.rest(rest(Rest::Gather)).await;
                self.join().await?;
                continue;
            }
            if self.joining.has_work(&self.appender) {
                rest(Rest::Short).await;
                self.join().await?;
                continue;
            }
            if self.idle.has_work(&self.reducer, &self.appender) {
                let resting = rest(self.idle.next_rest(&self.reducer));
                let dirty = self.checkpointer.left_dirty_bytes();
                let disturbed = self.idle.run(resting, &mut self.reducer, &mut self.appender, dirty).await?;
                if !disturbed {
                    pause().await;
                    continue;
                }
            } else {
                self.core.signal.wait().await;
            }
            // The thread is not woken for every batch of the journal.
            rest(Rest::Short).await;
        }
    }

    /// One round of the work that hosts depend on; false if there was none.
    async fn step(&mut self) -> block::Result<bool> {
        let mut busy = self.core.delete_abandoned_clones();
        busy |= self.core.release_orphans().await?;
        if busy {
            self.cleaner.retry();
        }
        let before = self.appender.data_bytes();
        // What is flushed before the index is there may be stored a second time, so flushing waits for it while little waits.
        let loads = !self.reducer.is_index_loaded();
        if loads {
            self.reducer.load_index_step().await;
            busy = true;
        }
        let waiting = || self.core.state.read().maps.slots.bytes() as u64;
        let flushed = match loads && waiting() <= self.core.backpressure_start_bytes() {
            true => Step::Idle.into(),
            false => self.reducer.flush(&mut self.appender, self.gathering.due()).await?,
        };
        flushed.leaves.iter().for_each(|(volume, block)| self.idle.note_new_frame(*volume, *block));
        let mut full = false;
        match flushed.step {
            Step::Done => busy = true,
            Step::Idle => {}
            Step::Full => {
                let gained = self.drop_stored_index().await?
                    || self.make_space().await?
                    || self.appender.allow_reduced_redundancy();
                busy |= gained;
                full = !gained;
            }
        }
        self.core.set_full(full);
        self.appender.grant_credit();
        busy |= self.clean(self.appender.data_bytes() - before).await?;
        // Free space is known exactly when everything has been flushed and a checkpoint written.
        let settle = !busy && self.core.throttle.take_space_request();
        // What hosts have deleted is given back to the drives, also when nothing is written after it.
        let returns = !busy && self.has_much_to_free();
        let is_due = self.idle.take_checkpoint_request()
            || self.joining.take_checkpoint_request()
            || self.core.format.is_to_be_raised()
            || self.checkpointer.is_due();
        if settle {
            self.reducer.drop_stored_index();
        }
        let was_wanted = self.checkpoint_after.is_some();
        if is_due || settle || returns || (!busy && self.checkpointer.wants_trim()) {
            self.gathering.end();
            self.checkpoint_after.get_or_insert(self.gathering.due());
        }
        if self.checkpoint_after.is_some() {
            busy = true;
            if was_wanted && flushed.step != Step::Done || self.has_flushed_for_checkpoint() {
                self.checkpoint().await?;
            }
        }
        busy |= self.core.load_deferred(!busy).await?;
        self.core.evict_pages();
        self.appender.publish_progress();
        Ok(busy)
    }

    /// Joins some of what hosts have read in order.
    async fn join(&mut self) -> block::Result<()> {
        let made = self.joining.step(&mut self.reducer, &mut self.appender).await?;
        made.into_iter().for_each(|(volume, block)| self.idle.note_new_frame(volume, block));
        Ok(())
    }

    /// Notes segments that added drives have brought.
    fn grow(&mut self) {
        let segments = self.core.log.shelf().layout().segments;
        if self.appender.grow(segments) {
            self.core.state.write().maps.usage.grow(segments);
            self.core.segments.set_total(segments);
            self.cleaner.retry();
        }
    }

    /// Whether what waited when a checkpoint was wanted is in the log: the pages that name it are written once.
    fn has_flushed_for_checkpoint(&self) -> bool {
        let flushed = self.core.state.read().maps.slots.flushed_before();
        self.checkpoint_after.is_some_and(|last| flushed > last)
    }

    /// Writes a checkpoint.
    pub async fn checkpoint(&mut self) -> block::Result<()> {
        self.checkpoint_after = None;
        self.reducer.write_index(&mut self.appender).await?;
        let freed = self.checkpointer.write(&mut self.appender).await?;
        self.cleaner.end_checkpoint(&freed, self.appender.free_bytes());
        self.appender.end_checkpoint();
        self.left_emptied = self.appender.emptied();
        Ok(())
    }

    /// Drops the deduplication index from the log, which frees its segments; false if there is none.
    async fn drop_stored_index(&mut self) -> block::Result<bool> {
        let dropped = self.reducer.drop_stored_index();
        if dropped {
            self.checkpoint().await?;
        }
        Ok(dropped)
    }

    /// Whether a checkpoint would free a good part of the segments in use.
    fn has_much_to_free(&self) -> bool {
        let more = self.appender.emptied().saturating_sub(self.left_emptied);
        more >= RETURNED_MIN_SEGMENTS && more.saturating_mul(RETURNED_DIVISOR) >= self.appender.used()
    }

    /// Takes a step of cleaning, or the checkpoint that it asks for. False if nothing can be reclaimed.
    async fn make_space(&mut self) -> block::Result<bool> {
        match self.cleaner.step(&mut self.appender, self.checkpointer.catalog()).await? {
            Cleaned::Moved => Ok(true),
            Cleaned::NeedsCheckpoint => self.checkpoint().await.map(|()| true),
            Cleaned::Nothing => Ok(false),
        }
    }

    /// Cleans as much as `flushed` bytes require. False if nothing was to be done.
    async fn clean(&mut self, flushed: u64) -> block::Result<bool> {
        if !self.cleaner.plan(&self.appender, flushed) {
            self.appender.require_full_redundancy();
            return Ok(false);
        }
        // While hosts are quiet there is time.
        let mut busy = flushed == 0 && self.make_space().await?;
        while self.cleaner.is_owing(&self.appender) {
            let before = self.appender.appended_bytes();
            if !self.make_space().await? {
                self.cleaner.give_up();
                break;
            }
            busy = true;
            self.cleaner.note_moved(self.appender.appended_bytes() - before);
        }
        Ok(busy)
    }
}
