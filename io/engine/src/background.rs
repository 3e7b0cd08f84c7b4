//! What goes on behind the acknowledgements, one step at a time: flush, checkpoint, clean, release, relearn, deepen. One task
//! does it all, so that the steps never meet each other; foreground operations go on between and beside them.

use crate::adaptivity::Adaptivity;
use crate::backpressure::{CreditMeter, Done};
use crate::core::Core;
use crate::dedup::{Fingerprinter, Index};
use crate::engine::Engine;
use crate::frame::Packer;
use crate::index_rebuild::IndexRebuild;
use crate::locality::LocalityCache;
use crate::log::{Segments, Stream, Writer};
use crate::log_writes::LogWrites;
use crate::recompress::Recompression;
use crate::space::Location;
use crate::wake::pause;
use parking_lot::Mutex;
use shelf::{Room, SegmentId};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

/// The segments as the background sees them.
pub struct Space {
    /// Segments that can be written.
    pub free: BTreeSet<u32>,
    /// When each segment was last taken: a count of segments taken.
    pub taken: Vec<u64>,
    clock: u64,
    /// Free segments that the stream at hand must leave.
    pub leave: usize,
    /// Protection yields to the stream at hand. To what wins space back it always does.
    pub reduced_redundancy: bool,
}

impl Segments for Space {
    fn allocate(&mut self, room: Room) -> Option<u32> {
        if self.writable(room) <= self.leave {
            return None;
        }
        let segment = self.free.pop_first()?;
        self.clock += 1;
        self.taken[segment as usize] = self.clock;
        Some(segment)
    }
}

/// The places where the log grows.
#[derive(Default)]
pub struct Streams {
    /// Frames as they are flushed.
    pub data: Stream,
    /// Frames that cleaning moved: they have lived long and will live on.
    pub moved: Stream,
    /// Pages of maps and of the frame table.
    pub pages: Stream,
    /// Directories, catalogs and roots: the next checkpoint writes most of them again.
    pub roots: Stream,
}

/// How long the background rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// A few milliseconds: what is written soon after something else is then done together with it, and hosts get
    /// their turn between the steps of what is done while they are quiet.
    Short,
    /// About a second: an array that nobody asked for anything in that time is idle.
    Long,
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something was done; there may be more.
    Done,
    /// There was nothing to do.
    Idle,
    /// It needs free segments.
    Full,
}

/// The background of an engine.
pub struct Worker {
    pub core: Arc<Core>,
    pub writer: Writer,
    pub streams: Streams,
    pub space: Space,
    pub index: Index,
    pub locality: LocalityCache,
    pub fingerprinter: Fingerprinter,
    pub adaptivity: Adaptivity,
    pub packer: Packer,
    pub log_writes: LogWrites,
    pub index_rebuild: IndexRebuild,
    pub recompress: Recompression,
    /// The hosts' activity when it was last looked at, and whether it was the same a long rest before.
    activity: u64,
    cool: bool,
    /// Where the root of the last checkpoint is.
    pub root: Vec<Location>,
    /// Where the catalog was put last.
    pub catalog: Vec<Location>,
    /// Pages in the log that name slots and are not dirty in memory.
    pub stale: Vec<u64>,
    /// Segments that cleaning could not empty, with the live bytes that they had.
    pub stuck: std::collections::BTreeMap<u32, u64>,
    /// Segments whose metadata has been marked for the next checkpoint.
    pub marked: BTreeSet<u32>,
    /// For the check: see [`Worker::note_roots`].
    pub roots: Arc<Mutex<Vec<Location>>>,
    /// Segments cleaned since the last checkpoint.
    pub cleaned: usize,
    /// Changed metadata that the last checkpoint left behind: pages with blocks that have not been flushed.
    pub left_dirty: u64,
    /// The last try to make room, at so many changes and such room on the drives, changed nothing: wait until something
    /// does.
    pub exhausted: Option<(u64, Room)>,
    /// The newest batch when the journal was last trimmed because the shelf wanted it.
    trimmed: u64,
    /// What acknowledgements keep pace with.
    meter: CreditMeter,
    /// Bytes that cleaning should move before more is flushed.
    to_move: u64,
    /// What the last rounds of cleaning brought.
    pub rounds: Rounds,
    /// Nothing could be won back, and hosts go on at the cost of protection until there is room again.
    reduced_redundancy: bool,
}

/// Rounds of cleaning, each ended by a checkpoint, with no change of the hosts between them.
#[derive(Default)]
pub struct Rounds {
    changes: u64,
    /// The most segments that were free.
    free: usize,
    /// Rounds in a row that won no segment.
    fruitless: u32,
}

impl Space {
    /// Segments that can be written now by the stream at hand: those that are free, and that drives have room for.
    fn writable(&self, room: Room) -> usize {
        self.within(if self.reduced_redundancy { room.any } else { room.protected })
    }

    /// Free segments, no more than so many.
    fn within(&self, room: u32) -> usize {
        self.free.len().min(room as usize)
    }

    /// Takes segments that the shelf has got since, and answers whether there are any.
    fn grow(&mut self, segments: u32) -> bool {
        let known = self.taken.len() as u32;
        self.free.extend(known..segments);
        self.taken.resize(known.max(segments) as usize, 0);
        segments > known
    }
}

impl Worker {
    /// The background of an engine that has been opened.
    pub fn new(core: Arc<Core>, root: Vec<Location>, catalog: Vec<Location>) -> Self {
        let state = core.state.read();
        let segments = state.maps.usage.segments();
        let free: BTreeSet<u32> =
            (0..segments.len() as u32).filter(|one| segments[*one as usize].total() == 0).collect();
        let taken = vec![0; segments.len()];
        let page_index = state.maps.page_index.iter();
        let stale = page_index.filter(|(_, info)| info.names_slots).map(|(page, _)| page).collect();
        let index_rebuild = IndexRebuild::up_to(state.maps.table.page_index.last());
        drop(state);
        let mut worker = Self {
            writer: Writer::new(core.log.clone(), core.options.tunables.stripes_in_flight),
            streams: Streams::default(),
            space: Space { free, taken, clock: 0, leave: 0, reduced_redundancy: true },
            index: Index::new(core.options.index_bytes),
            locality: LocalityCache::new(core.options.tunables.locality_frames),
            fingerprinter: Fingerprinter::new(&core.key),
            adaptivity: Adaptivity::new(core.options.tunables.unique_blocks_max),
            packer: Packer::default(),
            log_writes: LogWrites::default(),
            index_rebuild,
            recompress: Recompression::everything(),
            activity: 0,
            cool: false,
            root,
            catalog,
            stale,
            stuck: Default::default(),
            marked: BTreeSet::new(),
            roots: Arc::default(),
            cleaned: 0,
            left_dirty: 0,
            exhausted: None,
            trimmed: u64::MAX,
            meter: CreditMeter::default(),
            to_move: 0,
            rounds: Rounds::default(),
            reduced_redundancy: false,
            core,
        };
        worker.note_roots();
        worker.publish_progress();
        worker
    }

    /// Right after recovery: what was written to free segments behind the last checkpoint is not referred to, and what
    /// that freed the drives may or may not have discarded.
    fn discard_unused(&self) {
        self.space.free.iter().for_each(|segment| self.core.log.shelf().discard(SegmentId(*segment)));
    }

    /// Works until the engine is shut down or stops.
    async fn run<R: Future<Output = ()>>(mut self, gather: impl Fn(Rest) -> R) {
        let core = self.core.clone();
        let outcome = self.work(gather).await;
        if let Err(error) = outcome {
            core.journal.stop(error.to_string());
        }
        core.stopping.store(true, Ordering::Release);
        core.credit.advance(u64::MAX);
        core.finished.advance(1);
        core.room_queue.freed();
    }

    async fn work<R: Future<Output = ()>>(&mut self, gather: impl Fn(Rest) -> R) -> block::Result<()> {
        self.discard_unused();
        loop {
            if self.core.journal.stopped().is_some() {
                return Ok(());
            }
            let stopping = self.core.stopping.load(Ordering::Acquire);
            self.grow();
            let mut full = false;
            let mut busy = self.core.delete_abandoned_clones();
            busy |= self.release().await?;
            if busy {
                self.exhausted = None;
            }
            let before = self.log_writes.data;
            match self.flush().await? {
                Step::Done => busy = true,
                Step::Idle => {}
                Step::Full => {
                    let won = self.make_space().await? || self.allow_reduced_redundancy();
                    busy |= won;
                    full = !won;
                }
            }
            self.core.set_full(full);
            self.grant_credit();
            busy |= self.clean_as_needed(self.log_writes.data - before).await?;
            // Space is known when everything has been flushed and written.
            let settle = !busy && self.core.wants_space.swap(false, Ordering::AcqRel);
            if self.is_checkpoint_due() || settle || (!busy && self.wants_trim()) {
                self.checkpoint().await?;
                busy = true;
            }
            self.load_deferred().await?;
            self.evict();
            self.publish_progress();
            if !busy && stopping {
                self.checkpoint().await?;
                self.evict();
                self.publish_progress();
                return Ok(());
            }
            if busy {
                pause().await;
            } else if !self.index_rebuild.is_over() || self.may_recompress() {
                let rest = gather(self.next_rest());
                self.work_idly(rest).await?;
                pause().await;
            } else {
                self.core.signal.wait().await;
                // What is written soon after is taken along: neighbours meet in a frame, overwritten blocks are
                // spared, and the thread is not woken for every batch of the journal.
                gather(Rest::Short).await;
            }
        }
    }

    /// How long to wait before what is done while the hosts are quiet. What makes much work begins after a long rest.
    fn next_rest(&mut self) -> Rest {
        let activity = self.core.activity();
        self.cool &= std::mem::replace(&mut self.activity, activity) == activity;
        if self.cool || !self.index_rebuild.is_over() { Rest::Short } else { Rest::Long }
    }

    /// Waits, and uses the time when the hosts leave some.
    async fn work_idly(&mut self, rest: impl Future<Output = ()>) -> block::Result<()> {
        let before = self.activity;
        let disturbed = {
            let (mut rest, mut woken) = (pin!(rest), pin!(self.core.signal.wait()));
            std::future::poll_fn(|cx| match woken.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending => rest.as_mut().poll(cx).map(|()| false),
            })
            .await
        };
        self.activity = self.core.activity();
        if disturbed || self.activity != before {
            self.cool = false;
        } else if !self.index_rebuild.is_over() {
            self.index_rebuild().await;
        } else {
            self.cool = true;
            self.recompress().await?;
        }
        Ok(())
    }

    /// Takes note of segments that drives have brought which were added since.
    fn grow(&mut self) {
        let segments = self.core.log.shelf().layout().segments;
        if self.space.grow(segments) {
            self.core.state.write().maps.usage.grow(segments);
            self.core.segments.store(segments, Ordering::Release);
            self.exhausted = None;
        }
    }

    fn publish_progress(&mut self) {
        self.core.set_free(self.space.free.len() as u32);
        self.grant_credit();
        self.core.room_queue.freed();
        *self.core.log_writes.lock() = LogWrites { padding: self.writer.padding, ..self.log_writes };
    }

    fn done(&self) -> (Done, u64) {
        let slots = &self.core.state.read().maps.slots;
        (Done { flushed: slots.progress(), written: self.log_writes.total() }, slots.bytes() as u64)
    }

    /// Lets acknowledgements go on as far as work has got on; all of them where little waits to be flushed, or nothing can be.
    pub fn grant_credit(&mut self) {
        let start = self.core.backpressure_start_bytes();
        let (done, waiting) = self.done();
        let tunables = &self.core.options.tunables;
        let quantum = tunables.credit_quantum_bytes.min(start / tunables.credit_quantum_divisor);
        self.core.credit.advance(self.meter.advance(done, quantum));
        self.core.credit.set_open(waiting <= start || self.core.full.load(Ordering::Acquire));
    }

    /// A checkpoint has ended.
    pub fn end_cycle(&mut self) {
        let (done, _) = self.done();
        self.meter.end_cycle(done);
    }

    /// Releases what dropped trees referred to.
    async fn release(&mut self) -> block::Result<bool> {
        let mut busy = false;
        for _ in 0..self.core.options.tunables.released_pages {
            let outcome = self.core.state.write().maps.release_orphan();
            match outcome {
                Ok(true) => busy = true,
                Ok(false) => break,
                Err(need) if self.core.load(need).await.is_ok() => {}
                // What can't be read can't be released; others can.
                Err(_) => self.core.state.write().maps.orphans.rotate_left(1),
            }
        }
        Ok(busy)
    }

    /// Reads pages of the frame table that many changes wait for.
    async fn load_deferred(&mut self) -> block::Result<()> {
        let pages: Vec<u64> = {
            let state = self.core.state.read();
            if state.maps.table.deferred() <= self.core.options.tunables.deferred_changes_max {
                return Ok(());
            }
            state.maps.table.deferred.keys().copied().collect()
        };
        for page in pages {
            if self.core.load(crate::map::Need::Table(page)).await.is_err() {
                self.core.check_running()?;
            }
        }
        Ok(())
    }

    fn evict(&self) {
        let limit = self.core.options.page_bytes;
        let state = &mut *self.core.state.write();
        let most = limit / 2 / size_of::<crate::entry::Node>();
        state.maps.nodes.evict(most);
        state.maps.table.pages.evict(limit / 2 / TABLE_PAGE_BYTES);
    }

    fn is_checkpoint_due(&mut self) -> bool {
        if std::mem::take(&mut self.recompress.wants_checkpoint) {
            return true;
        }
        let (journal, tunables) = (&self.core.journal, &self.core.options.tunables);
        let wanted = self.core.wants_room.load(Ordering::Acquire);
        let limit = journal.limit();
        let (used, worth) = (journal.used(), limit / tunables.trim_divisor);
        let short = wanted > 0 && used > limit / 4 || journal.is_crowded(wanted);
        let least = tunables.trim_min_bytes.min(limit / tunables.trim_min_divisor);
        if used > limit / 2 && self.trims(worth) || short && self.trims(least) {
            self.core.wants_room.store(0, Ordering::Release);
            return true;
        }
        let limit = self.core.dirty_limit();
        self.core.dirty_bytes() > (limit + self.left_dirty).min(2 * limit)
    }

    /// Whether a checkpoint would free so many bytes of the journal now, or all that can be flushed has been. One that frees
    /// nothing writes nearly as much as others: where flushing waits for cleaning, it would fill what cleaning wins.
    fn trims(&self, bytes: u64) -> bool {
        let flushed = self.core.state.read().maps.slots.flushed_before();
        self.core.journal.has_before(flushed, bytes)
    }

    /// True when the journal is to be trimmed for the shelf's sake, and that was not tried since something was written.
    fn wants_trim(&mut self) -> bool {
        let durable = self.core.journal.durable();
        self.core.log.shelf().wants_trim() && std::mem::replace(&mut self.trimmed, durable) != durable
    }

    /// Segments that can be written now without anything being protected less for it.
    pub fn free(&self) -> usize {
        self.space.within(self.core.log.shelf().room().protected)
    }

    /// Has protection yield to what hosts write, now that nothing can be won back; false when that gives no more room.
    fn allow_reduced_redundancy(&mut self) -> bool {
        let Room { protected, any } = self.core.log.shelf().room();
        let more = !self.reduced_redundancy && self.space.within(any) > self.space.within(protected);
        self.reduced_redundancy |= more;
        more
    }

    /// Free segments below which cleaning begins.
    pub fn clean_below(&self) -> usize {
        let tunables = &self.core.options.tunables;
        let reserve = self.core.reserve_bytes() / u64::from(self.core.layout.segment_bytes);
        self.core.kept_from_data()
            + 1
            + (reserve as usize / tunables.clean_reserve_divisor).max(tunables.clean_min_segments)
    }

    /// Cleans when there is little room: the more data have been flushed, and the less room there is, the more, so that hosts
    /// find the same array at every moment. False when there was nothing to do.
    async fn clean_as_needed(&mut self, flushed: u64) -> block::Result<bool> {
        let (least, enough) = (self.core.kept_from_data(), self.clean_below());
        // What has been cleaned becomes free with the next checkpoint.
        let free = self.free() + self.cleaned;
        if self.free() >= enough {
            (self.reduced_redundancy, self.to_move) = (false, 0);
            return Ok(false);
        }
        let (missing, all) = (enough.saturating_sub(free), enough - least);
        self.to_move +=
            flushed * self.core.options.tunables.moved_per_flushed_byte_max * missing.min(all) as u64
                / all as u64;
        // While hosts are quiet there is time.
        let mut busy = flushed == 0 && self.make_space().await?;
        while self.to_move > 0 && self.free() < enough {
            let before = self.log_writes.total();
            if !self.make_space().await? {
                self.to_move = 0;
                break;
            }
            busy = true;
            let moved = self.log_writes.total() - before;
            self.to_move = self.to_move.saturating_sub(moved.max(u64::from(self.core.layout.stripe_bytes)));
        }
        Ok(busy)
    }

    /// Wins back segments: moves what is live out of segments as long as there is room to move it to, then frees
    /// them by a checkpoint. False when there is nothing to win before something changes.
    async fn make_space(&mut self) -> block::Result<bool> {
        let changes = self.core.changes.load(Ordering::Acquire);
        let now = (changes, self.core.log.shelf().room());
        if self.exhausted == Some(now) {
            return Ok(false);
        }
        if self.rounds.changes != changes {
            self.rounds = Rounds { changes, free: self.space.free.len(), fruitless: 0 };
        }
        if self.rounds.fruitless >= self.core.options.tunables.fruitless_rounds_max {
            self.exhausted = Some(now);
            return Ok(false);
        }
        let kept = self.core.kept_for_checkpoints();
        (self.space.leave, self.space.reduced_redundancy) = (kept, true);
        let dead = self.dead_segments();
        let winnable = self.cleaned > 0 || dead > 0;
        let soon = self.space.writable(now.1) <= kept || dead >= self.clean_below();
        if !(winnable && soon) && self.clean().await? {
            return Ok(true);
        }
        if winnable {
            self.mark_metadata().await?;
            self.checkpoint().await?;
            return Ok(true);
        }
        self.exhausted = Some(now);
        Ok(false)
    }

    /// A checkpoint has freed what cleaning had moved things out of: a round is over.
    pub fn end_round(&mut self) {
        let free = self.space.free.len();
        self.rounds.fruitless = if free > self.rounds.free { 0 } else { self.rounds.fruitless + 1 };
        self.rounds.free = free.max(self.rounds.free);
    }

    /// The stream of flushed data must leave these segments alone.
    pub fn leave_for_cleaning(&mut self) {
        (self.space.leave, self.space.reduced_redundancy) =
            (self.core.kept_from_data(), self.reduced_redundancy);
    }
}

/// About what a page of the frame table takes in memory.
const TABLE_PAGE_BYTES: usize = 64 * size_of::<Option<crate::frame_table::Frame>>();

impl Engine {
    /// The background work. Whoever opened the engine drives this future, on a thread of its own if there is one;
    /// it ends after [`Engine::shutdown`], or when the engine stopped. Only the first call has work to do.
    pub fn background(&self) -> impl Future<Output = ()> + Send + 'static {
        self.background_with_rest(|_| std::future::ready(()))
    }

    /// [`Engine::background`] with a clock: it waits for what `gather` gives where it says how long to rest.
    pub fn background_with_rest<R>(
        &self,
        gather: impl Fn(Rest) -> R + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static
    where
        R: Future<Output = ()> + Send,
    {
        let worker = self.worker.lock().take();
        async move {
            if let Some(worker) = worker {
                worker.run(gather).await;
            }
        }
    }

    /// Gives the shelf back what is not in use, as the background does when it begins; nothing from then on. Until it is
    /// done the shelf takes that to be in use, while the drives may have discarded some of it already.
    pub fn discard_unused(&self) {
        self.worker.lock().iter().for_each(Worker::discard_unused);
    }

    /// Stops taking changes, flushes, writes a last checkpoint, and ends the background, which must be driven
    /// meanwhile. Reads go on.
    pub async fn shutdown(&self) -> block::Result<()> {
        self.core.stopping.store(true, Ordering::Release);
        self.core.signal.notify();
        self.core.finished.reached(1).await;
        self.core.journal.stopped().map_or(Ok(()), |why| Err(block::Error::Stopped(why)))
    }
}
