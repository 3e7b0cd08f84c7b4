//! A change that has been prepared outside the locks: actions, the pages they put in the journal, and what must
//! still be true when they take effect.

use crate::capacity::BLOCK_MAX_LOG_BYTES;
use crate::core::Core;
use crate::entry::{BLOCK, Entry, SlotId};
use crate::frame;
use crate::journal::Staged;
use crate::policy::Compression;
use crate::record::{self, Mutation, Record};
use crate::state::{Refusal, State};
use crate::volume::Span;
use block::Error;
use bytes::Bytes;
use smallvec::SmallVec;
use std::sync::atomic::Ordering;

/// Blocks that a volume's change was prepared from, with the entries they had.
pub type Expected = SmallVec<[(u32, u64, Entry); 2]>;

/// Blocks of a volume that must be what they are on a clone of it.
#[derive(Clone, Copy, Debug)]
pub struct Unchanged {
    /// The clone.
    pub before: u32,
    /// The volume.
    pub volume: u32,
    pub block: u64,
    pub count: u64,
}

/// Bytes that an operation reads or writes. Its volume may have been made smaller, or restored to less, since the
/// operation began; actions tell whole blocks of 4 KiB alone, and an end may lie within one.
#[derive(Clone, Copy, Debug)]
pub struct Cover {
    pub volume: u32,
    pub span: Span,
    /// They are written: the volume must take changes.
    pub written: bool,
}

/// A change of any number of volumes that takes effect whole or not at all.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// What to do. Slots name pages of `pages`: their `page`-th, in batch zero.
    pub mutations: Record,
    /// Whole blocks for the journal, on a 4096-byte border of memory.
    pub pages: Bytes,
    /// What must not have changed.
    pub expected: Expected,
    /// The volume that was asked for it, which must be there even where no action names it.
    pub addressed: Option<u32>,
    /// Logical blocks that the volume asked must have, no fewer and no more.
    pub size: Option<u64>,
    /// What volumes must have at least.
    pub covers: SmallVec<[Cover; 1]>,
    /// More that must not have changed, where it is much.
    pub unchanged: Vec<Unchanged>,
    /// The time, where the change might end something that is kept.
    pub now: u64,
    /// What the pages take in the log at most, when they have been compressed to know; only a full log asks.
    pub packed: Option<u64>,
}

/// A change that has been made.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// It is durable when this batch is.
    pub batch: u64,
    /// Progress of the flusher that its acknowledgement waits for; zero when it need not.
    pub credit: u64,
}

/// The most pages of a change.
pub const MAX_CHANGE_PAGES: usize = 1 << 16;

impl Change {
    /// A change of one action without data.
    pub fn of(mutation: Mutation) -> Self {
        Self { mutations: [mutation].into_iter().collect(), ..Self::default() }
    }

    /// The change, made at this time.
    pub fn at(self, now: u64) -> Self {
        Self { now, ..self }
    }

    /// What the pages take in the log when each is compressed alone.
    fn measure(&self, how: Compression) -> u64 {
        let overhead = BLOCK_MAX_LOG_BYTES - BLOCK as u64;
        let packed = |page: &[u8]| frame::compressed_len(page, how) as u64 + overhead;
        self.pages.chunks(BLOCK).map(packed).sum()
    }

    fn pages(&self) -> usize {
        self.pages.len() / BLOCK
    }

    /// The actions with the slots that the pages got. A run of pages may have been split over several batches.
    fn placed(&self, staged: &[Staged]) -> Record {
        let mut placed = Record::new();
        for mutation in &self.mutations {
            match mutation {
                Mutation::Slots { volume, block, count, first } => {
                    let (from, to) = (usize::from(first.page), usize::from(first.page) + *count as usize);
                    for run in staged.iter().filter(|run| run.page < to && run.page + run.count > from) {
                        let (start, end) = (run.page.max(from), (run.page + run.count).min(to));
                        placed.push(Mutation::Slots {
                            volume: *volume,
                            block: block + (start - from) as u64,
                            count: (end - start) as u32,
                            first: run.slot.offset(start - run.page),
                        });
                    }
                }
                Mutation::Same { volume, block, count, slot } => {
                    let slot = slot_of(staged, usize::from(slot.page));
                    placed.push(Mutation::Same { volume: *volume, block: *block, count: *count, slot });
                }
                mutation => placed.push(mutation.clone()),
            }
        }
        placed
    }
}

fn slot_of(staged: &[Staged], page: usize) -> SlotId {
    let run = staged.iter().find(|run| (run.page..run.page + run.count).contains(&page));
    let run = run.expect("every page was staged");
    run.slot.offset(page - run.page)
}

impl Core {
    /// Makes a change: validates it, applies it to the maps and puts it in the open journal batch, in one step.
    /// `first` is true for the operation at the head of the queue for room.
    pub fn make(&self, change: &Change, first: bool) -> Result<Made, Refusal> {
        if change.pages() > MAX_CHANGE_PAGES {
            return Err(Error::Malformed("more than 256 MiB in one operation").into());
        }
        let parts = change.pages.len() / (self.layout.batch_bytes as usize / 2) + 2;
        let bound = record::bound(&change.mutations) + 56 * parts;
        let mut state = self.state.write();
        let addressed = change.addressed.map(|addressed| state.volume(addressed)).transpose()?;
        if let (Some(addressed), Some(size)) = (addressed, change.size)
            && addressed.geometry.blocks != size
        {
            return Err(Refusal::Changed);
        }
        for Cover { volume, span, written } in change.covers.iter().copied() {
            let volume = if written { state.writable(volume)? } else { state.volume(volume)? };
            span.check(volume.geometry)?;
        }
        self.admit(&state, change, bound, first)?;
        for (volume, block, entry) in &change.expected {
            if state.entry(*volume, *block)? != *entry {
                return Err(Refusal::Changed);
            }
        }
        for Unchanged { before, volume, block, count } in change.unchanged.iter().copied() {
            if !state.are_equal([before, volume], block, count)? {
                return Err(Refusal::Changed);
            }
        }
        state.check_kept(&change.mutations, change.now)?;
        state.probe(&change.mutations)?;
        let mut journal = self.journal.lock();
        if journal.is_stopped() {
            drop(journal);
            return Err(self.why_stopped().into());
        }
        let staged = journal.stage(&change.pages, bound);
        let record = change.placed(&staged);
        let batch = journal.record(&record);
        drop(journal);
        let page = |slot: SlotId| {
            let run = staged.iter().find(|run| {
                run.slot.batch == slot.batch
                    && (run.slot.page..run.slot.page + run.count as u16).contains(&slot.page)
            });
            let run = run.expect("every slot was staged");
            let at = (run.page + usize::from(slot.page - run.slot.page)) * BLOCK;
            change.pages.slice(at..at + BLOCK)
        };
        record.iter().for_each(|mutation| state.apply(mutation, batch, &page));
        let credit = if change.pages.is_empty() { 0 } else { self.credit_needed(&state) };
        drop(state);
        self.changes.fetch_add(1, Ordering::Relaxed);
        Ok(Made { batch, credit })
    }

    /// The change with what its pages take in the log.
    pub fn measured(&self, change: &Change) -> Change {
        let compresses = |mutation: &Mutation| {
            let (Mutation::Slots { volume, .. } | Mutation::Same { volume, .. }) = mutation else {
                return true;
            };
            let state = self.state.read();
            state.volume(*volume).is_ok_and(|volume| volume.policy.compression != Compression::Off)
        };
        let all = change.mutations.iter().all(compresses);
        let how = if all { Compression::Fast } else { Compression::Off };
        Change { packed: Some(change.measure(how)), ..change.clone() }
    }

    /// Refuses what has no room in the journal, in memory or in the log.
    fn admit(&self, state: &State, change: &Change, record: usize, first: bool) -> Result<(), Refusal> {
        self.check_running()?;
        let cost = self.journal.cost(record, change.pages());
        if record > self.journal.record_limit() || cost > self.journal.limit() {
            return Err(Error::Malformed("larger than the journal").into());
        }
        self.check_capacity(state, change)?;
        let bytes = state.maps.slots.bytes();
        let full = bytes > 0 && bytes + change.pages.len() > self.options.slot_bytes;
        let crowded = self.journal.is_crowded(cost);
        if full || crowded || !first && self.room_queue.is_queued() {
            // The background may be at rest since it looked at what was wanted before; a checkpoint is due now.
            if self.wants_room.fetch_max(cost, Ordering::AcqRel) < cost && crowded {
                self.signal.notify();
            }
            return Err(Refusal::Backpressure);
        }
        Ok(())
    }

    /// An acknowledgement waits for an eighth of what memory holds beyond what needs no pace: latency grows with the
    /// amount, and what comes in settles at what the background can do.
    fn credit_needed(&self, state: &State) -> u64 {
        match (state.maps.slots.bytes() as u64).saturating_sub(self.backpressure_start_bytes()) / 8 {
            0 => 0,
            debt => self.credit.now().saturating_add(debt),
        }
    }

    /// Bytes that may wait to be flushed before acknowledgements wait for the flusher: half of what memory may hold, and no
    /// more than leaves room in the journal for what has been flushed and waits for a checkpoint.
    pub fn backpressure_start_bytes(&self) -> u64 {
        (self.options.slot_bytes as u64 / 2)
            .min(self.journal.max_held_bytes() / self.options.tunables.backpressure_divisor)
    }
}
