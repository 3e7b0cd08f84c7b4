//! Write-ahead journal: group commit of change records. Records gather in the open batch until an operation waits for
//! them; then the batch is appended, and the next one gathers. Several operations share one durable write; the order
//! of records is the order of batches.

use crate::batch::{self, Blocks, Gathering, Size, made};
use crate::cell::Lz4;
use crate::entry::{BLOCK, SlotId};
use crate::record::{self, Mutation};
use crate::sharded_lock::CachePadded;
use crate::tunables::Tunables;
use crate::wake::Signal;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use shelf::{BufferPool, JournalPos, Shelf};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

struct State {
    open: Gathering,
    /// Batches that the shelf has not been given yet, with the most that each takes of the ring.
    sealed: VecDeque<(Gathering, u64)>,
    /// The most that each batch appended or sealed since the last trim would take if all blocks were raw, and their sum: in
    /// memory they are, after a start.
    sizes: VecDeque<u64>,
    held: u64,
    /// Number of the first batch in `sizes`.
    first: u64,
    /// Bytes of the ring that those in `sealed` take at most, and the one that is being submitted.
    unplaced: u64,
    submitting: bool,
    in_flight: usize,
    stopped: Option<String>,
    waiting: Vec<(u64, Waker)>,
}

/// The journal of the engine.
pub struct Journal {
    shelf: Arc<dyn Shelf>,
    state: CachePadded<Mutex<State>>,
    durable: CachePadded<AtomicU64>,
    stopped: AtomicBool,
    used: CachePadded<AtomicU64>,
    /// There was no checkpoint since the engine was opened.
    recovered: AtomicBool,
    batch_bytes: usize,
    journal_bytes: u64,
    tunables: Tunables,
    /// Of bodies that have cells.
    buffers: BufferPool,
    /// Woken when a batch is durable, and when the journal stops.
    signal: Arc<Signal>,
}

impl Journal {
    /// A journal whose next batch is `next`, after the recovered ones.
    pub fn new<'a>(
        shelf: Arc<dyn Shelf>,
        next: u64,
        recovered: impl Iterator<Item = &'a Blocks>,
        tunables: Tunables,
    ) -> Arc<Self> {
        let layout = shelf.layout();
        let held = |blocks: &Blocks| shelf.journal_cost(0, blocks.len() * BLOCK) + blocks.head_len() as u64;
        let sizes: VecDeque<u64> = recovered.map(held).collect();
        let state = State {
            open: Gathering::new(next),
            sealed: VecDeque::new(),
            first: next - sizes.len() as u64,
            submitting: false,
            in_flight: 0,
            stopped: None,
            waiting: Vec::new(),
            held: sizes.iter().sum(),
            unplaced: 0,
            sizes,
        };
        let journal = Self {
            shelf,
            durable: CachePadded::new(AtomicU64::new(next - 1)),
            stopped: false.into(),
            used: CachePadded::default(),
            recovered: true.into(),
            batch_bytes: layout.batch_bytes as usize,
            journal_bytes: layout.journal_bytes,
            tunables,
            buffers: BufferPool::new(tunables.appends_in_flight + 1),
            signal: Arc::default(),
            state: CachePadded::new(Mutex::new(state)),
        };
        journal.count(&journal.state.lock());
        Arc::new(journal)
    }

    /// The last batch that is durable; all before it are.
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Bytes of the ring under batches that have not been trimmed; more where what they hold is nearer its bound.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn count(&self, state: &State) {
        let taken = self.shelf.journal_taken(JournalPos(u64::MAX)) + state.unplaced;
        self.used.store(taken.max(self.scaled(state.held)), Ordering::Relaxed);
    }

    /// Bytes that batches may hold: striped batches take less of the ring than they are long, and recovery has to read
    /// them all.
    pub fn max_held_bytes(&self) -> u64 {
        let limit = self.limit();
        (self.tunables.journal_density_max * limit).min(self.tunables.journal_held_max).max(limit)
    }

    /// The part of the ring that corresponds to this many bytes held.
    fn scaled(&self, held: u64) -> u64 {
        (u128::from(held) * u128::from(self.limit()) / u128::from(self.max_held_bytes().max(1))) as u64
    }

    /// Bytes of the ring that may be used: some are left for batches that are not full.
    pub fn limit(&self) -> u64 {
        let spare = (2 * self.batch_bytes as u64).min(self.journal_bytes / 4);
        self.journal_bytes - spare
    }

    /// Whether a change that costs so much has no room before a checkpoint. A part is kept for changes without data,
    /// which free space where data can't be flushed for lack of it, and for the first changes after a crash that left the
    /// journal full, so that they need not wait for a checkpoint; a costly change may use that part too, as it may never
    /// fit otherwise.
    pub fn is_crowded(&self, cost: u64, has_data: bool) -> bool {
        let limit = self.limit();
        let all = !has_data || self.recovered.load(Ordering::Relaxed) || cost > limit / 2;
        self.used() + cost > if all { limit } else { limit - limit / self.tunables.journal_kept_divisor }
    }

    /// An upper bound of the bytes that a change adds.
    pub fn cost(&self, record: usize, pages: usize) -> u64 {
        let batches = self.parts(record + pages * BLOCK);
        self.shelf.journal_cost(record, pages * BLOCK) + (batches * 2 * BLOCK) as u64
    }

    /// The maximum number of batches that a change of this many bytes is split between.
    pub fn parts(&self, bytes: usize) -> usize {
        let blocks = bytes.div_ceil(BLOCK);
        bytes.div_ceil(self.batch_bytes / 2).max(blocks.div_ceil(self.tunables.batch_blocks_max)) + 1
    }

    /// The largest record.
    pub fn record_limit(&self) -> usize {
        self.batch_bytes - batch::FRONT - 2 * BLOCK
    }

    /// Locks the open batch to add a change. The caller holds the lock that orders changes.
    pub fn lock(&self) -> Writer<'_> {
        Writer { journal: self, state: self.state.lock() }
    }

    /// Why the journal stopped, if it did.
    pub fn stopped(&self) -> Option<String> {
        if !self.stopped.load(Ordering::Acquire) {
            return None;
        }
        self.state.lock().stopped.clone()
    }

    /// Stops the journal permanently: nothing is acknowledged from now on.
    pub fn stop(&self, why: String) {
        let mut state = self.state.lock();
        tracing::error!("the engine stops: {why}");
        state.stopped.get_or_insert(why);
        self.stopped.store(true, Ordering::Release);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
        self.signal.notify();
    }

    /// The signal that is given when a batch is durable, and when the journal stops.
    pub fn signal(&self) -> Arc<Signal> {
        self.signal.clone()
    }

    /// Appends the batches that have gathered, unless enough are under way. One thread at a time hands batches to the
    /// shelf, so that they arrive there in order, and no lock is held during the calls.
    pub fn pump(self: &Arc<Self>) {
        self.pump_locked(self.state.lock());
    }

    fn pump_locked<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, State>) {
        loop {
            if state.submitting
                || state.in_flight >= self.tunables.appends_in_flight
                || state.stopped.is_some()
            {
                return;
            }
            if state.sealed.is_empty() {
                self.seal(&mut state);
            }
            let Some((batch, bytes)) = state.sealed.pop_front() else { return };
            state.submitting = true;
            state.in_flight += 1;
            drop(state);
            self.submit(batch);
            state = self.state.lock();
            state.submitting = false;
            state.unplaced -= bytes;
            self.count(&state);
        }
    }

    fn submit(self: &Arc<Self>, batch: Gathering) {
        let (journal, number) = (self.clone(), batch.number);
        let done = Box::new(move |outcome| journal.appended(number, outcome));
        let (head, body) = batch.finish(self.tunables.batch_pieces, &self.buffers);
        self.shelf.append(head, body, done);
    }

    fn appended(self: &Arc<Self>, number: u64, outcome: shelf::Result<JournalPos>) {
        let outcome = match outcome {
            Ok(JournalPos(at)) if at == number => Ok(()),
            Ok(JournalPos(at)) => Err(format!("batch {number} became number {at} of the journal")),
            Err(error) => Err(format!("journal append: {error}")),
        };
        let mut state = self.state.lock();
        state.in_flight -= 1;
        if let Err(why) = outcome {
            drop(state);
            return self.stop(why);
        }
        self.durable.fetch_max(number, Ordering::Release);
        let answered = state.waiting.extract_if(.., |(until, _)| *until <= number);
        let woken: SmallVec<[Waker; 32]> = answered.map(|(_, waker)| waker).collect();
        // The next batch first: its way to the device is longer than that of the responses.
        self.pump_locked(state);
        woken.into_iter().for_each(Waker::wake);
        // What is durable can be flushed.
        self.signal.hint();
    }

    fn seal(&self, state: &mut State) {
        if state.open.is_empty() {
            return;
        }
        let next = Gathering::new(state.open.number + 1);
        let mut full = std::mem::replace(&mut state.open, next);
        let (bytes, held) = full.place(|head, body| self.shelf.journal_cost(head, body));
        state.sizes.push_back(held);
        state.held += held;
        state.unplaced += bytes;
        self.count(state);
        state.sealed.push_back((full, bytes));
    }

    /// A superblock that needs batches from `from` on is durable.
    pub fn trimmed(&self, from: u64) {
        self.recovered.store(false, Ordering::Relaxed);
        let mut state = self.state.lock();
        while state.first < from {
            let Some(bytes) = state.sizes.pop_front() else { break };
            state.held -= bytes;
            state.first += 1;
        }
        self.count(&state);
    }

    /// Whether the batches before this one take at least this many bytes of what is used, or there are no others.
    pub fn has_before(&self, batch: u64, least: u64) -> bool {
        if self.shelf.journal_taken(JournalPos(batch)) >= least {
            return true;
        }
        let state = self.state.lock();
        let count = usize::try_from(batch.saturating_sub(state.first)).unwrap_or(usize::MAX);
        let mut held = 0;
        let enough = state.sizes.iter().take(count).any(|bytes| {
            held += bytes;
            self.scaled(held) >= least
        });
        enough || count >= state.sizes.len()
    }

    /// Waits until a batch is durable. The first poll starts the append of the open batch.
    pub fn until(self: &Arc<Self>, batch: u64) -> Durable {
        Durable { journal: self.clone(), batch }
    }
}

/// The open batch, locked.
pub struct Writer<'a> {
    journal: &'a Journal,
    state: MutexGuard<'a, State>,
}

/// Consecutive slots that got pages of a change: how many, from which page of the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The first slot.
    pub slot: SlotId,
    /// Page of the change that it has.
    pub page: usize,
    /// Number of slots.
    pub count: usize,
}

impl Writer<'_> {
    /// True if nothing can be added any more.
    pub fn is_stopped(&self) -> bool {
        self.state.stopped.is_some()
    }

    /// Closes the open batch if it is not empty; returns the number of the batch that is open then.
    pub fn cut(&mut self) -> u64 {
        self.journal.seal(&mut self.state);
        self.state.open.number
    }

    /// Puts the pages of a change, a multiple of 4 KiB, into batches, as cells where `lz4` has them. The record of at
    /// most `record` bytes has to follow before the lock is released; it goes to the same batch as the last page.
    pub fn stage(&mut self, pages: &Bytes, lz4: &[Lz4], record: usize) -> SmallVec<[Staged; 1]> {
        let (capacity, blocks) = (self.journal.batch_bytes, self.journal.tunables.batch_blocks_max);
        let has_room = |open: &Gathering, more: Size| {
            open.blocks() + more.blocks <= blocks && open.len_with(more, record) <= capacity
        };
        let total = pages.len() / BLOCK;
        let size = |page| Size::of(made(lz4, page));
        let all = (0..total).fold(Size::default(), |all, page| all + size(page));
        if !has_room(&self.state.open, all) {
            self.journal.seal(&mut self.state);
        }
        let mut staged = SmallVec::new();
        let mut page = 0;
        while page < total {
            let open = &mut self.state.open;
            let (from, mut some) = (page, Size::default());
            while page < total && has_room(open, some + size(page)) {
                some = some + size(page);
                page += 1;
            }
            assert!(page > from, "an empty batch holds no page");
            let slot = SlotId { batch: open.number, page: open.blocks() as u16 };
            staged.push(Staged { slot, page: from, count: page - from });
            open.push(pages, lz4, from..page);
            if page < total {
                self.journal.seal(&mut self.state);
            }
        }
        staged
    }

    /// Adds a record to the open batch; returns the batch's number.
    pub fn record(&mut self, record: &[Mutation]) -> u64 {
        let open = &mut self.state.open;
        record::encode(record, open.number, &mut open.head);
        open.number
    }
}

/// Waits until a batch is durable: see [`Journal::until`].
pub struct Durable {
    journal: Arc<Journal>,
    batch: u64,
}

impl Future for Durable {
    type Output = block::Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<block::Result<()>> {
        let journal = &self.journal;
        if journal.durable() >= self.batch {
            return Poll::Ready(Ok(()));
        }
        let mut state = journal.state.lock();
        if let Some(why) = &state.stopped {
            return Poll::Ready(Err(block::Error::Stopped(why.clone())));
        }
        if journal.durable() >= self.batch {
            return Poll::Ready(Ok(()));
        }
        state.waiting.push((self.batch, cx.waker().clone()));
        journal.pump_locked(state);
        Poll::Pending
    }
}
