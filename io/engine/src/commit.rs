//! Commit of changes: admission, the one step that applies a change and puts it in the journal, and the wait for
//! durability and credit.
//!
//! A change is validated, applied to the maps and added to the open journal batch under one lock of the state, so that
//! journal order is apply order.

use crate::cell::Lz4;
use crate::change::{Change, Cover, MAX_CHANGE_PAGES, Made, Unchanged};
use crate::core::Core;
use crate::entry::{BLOCK, BlockId};
use crate::policy::Compression;
use crate::record::{self, Mutation};
use crate::state::{Refusal, State};
use crate::tap::{self, Tap};
use crate::wake::Ticket;
use block::{Error, Result};
use std::borrow::Cow;
use std::sync::Arc;

impl Core {
    /// Makes a change that needs nothing prepared, and waits until it is durable.
    pub async fn change(&self, change: Change) -> Result<()> {
        loop {
            let made = self.make_when_possible(&change).await;
            if let Some(made) = self.confirm_error(made).await? {
                return self.acknowledge(made).await;
            }
        }
    }

    /// Waits until a change is durable, and then for the credit and the taps that it needs.
    pub async fn acknowledge(&self, made: Made) -> Result<()> {
        self.journal.until(made.batch).await?;
        if made.credit > 0 {
            self.throttle.credit.reached(made.credit).await;
        }
        for hold in made.holds {
            hold.await?;
        }
        Ok(())
    }

    /// Makes a change as soon as it can be made; `None` if a block that it expects has changed.
    pub async fn make_when_possible(&self, change: &Change) -> Result<Option<Made>> {
        let mut change = Cow::Borrowed(change);
        // Once at the head of the queue it stays there until it is done. If it queued up again after a page was read,
        // others could have that page evicted before its next turn, and it theirs, forever.
        let mut turn: Option<Ticket<'_>> = None;
        let mut attempt = self.make(&change, false);
        loop {
            match attempt {
                Ok(made) => return Ok(Some(made)),
                Err(Refusal::Error(Error::NoSpace))
                    if change.packed.is_none() && !change.pages.is_empty() =>
                {
                    change = Cow::Owned(self.measured(&change));
                    attempt = self.make(&change, turn.is_some());
                }
                Err(Refusal::Error(error)) => return Err(error),
                Err(Refusal::Changed) => return Ok(None),
                Err(Refusal::Need(need)) => {
                    self.load(need).await?;
                    attempt = self.make(&change, turn.is_some());
                }
                Err(Refusal::Backpressure) => {
                    let ticket = turn.get_or_insert_with(|| self.throttle.queue.ticket());
                    self.signal.notify();
                    let try_again = || match self.make(&change, true) {
                        Err(Refusal::Backpressure) => None,
                        attempt => Some(attempt),
                    };
                    attempt = ticket.turn(try_again).await;
                }
            }
        }
    }

    /// Delays an error that says that a volume does not exist, or is not as it would have to be, until no power loss
    /// can undo that.
    pub async fn confirm_error<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.as_ref().is_err_and(depends_on_catalog) {
            self.confirm_catalog().await?;
        }
        outcome
    }

    /// Waits until no power loss can undo which volumes there are, and what changes they take.
    pub async fn confirm_catalog(&self) -> Result<()> {
        let catalog_batch = self.state.read().catalog.catalog_batch;
        self.journal.until(catalog_batch).await
    }

    /// Confirms a write that found what it was to write. That it succeeds says that the volume exists, and that this
    /// is there: also for taps, which may not have it yet.
    pub async fn confirm_unchanged(&self, change: &Change) -> Result<()> {
        self.confirm_catalog().await?;
        let taps: Vec<Arc<dyn Tap>> = {
            let state = self.state.read();
            let written = change.covers.iter().filter(|cover| cover.written);
            written.filter_map(|cover| state.taps.get(&cover.volume).cloned()).collect()
        };
        for tap in taps {
            tap.admit()?;
            if let Some(hold) = tap.changed(Vec::new()) {
                hold.await?;
            }
        }
        Ok(())
    }

    /// Makes a change: validates it, applies it to the maps and puts it in the open journal batch, in one step.
    /// `first` is true for the operation at the head of the queue for room.
    pub fn make(&self, change: &Change, first: bool) -> std::result::Result<Made, Refusal> {
        if change.page_count() > MAX_CHANGE_PAGES {
            return Err(Error::Malformed("more than 256 MiB in one operation").into());
        }
        let parts = self.journal.parts(change.pages.len()) + 1;
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
        let seen = if state.taps.is_empty() { tap::Seen::new() } else { Self::seen(&state, change)? };
        let mut journal = self.journal.lock();
        if journal.is_stopped() {
            drop(journal);
            return Err(self.why_stopped().into());
        }
        let staged = journal.stage(&change.pages, &change.lz4, bound);
        let record = change.placed(&staged);
        let batch = journal.record(&record);
        drop(journal);
        state.apply(&record, batch, &|slot| change.contents(&staged, slot));
        let holds = seen.into_iter().filter_map(|(tap, parts)| tap.changed(parts)).collect();
        let credit = if change.pages.is_empty() { 0 } else { self.credit_needed(&state) };
        let waiting = state.maps.slots.bytes() as u64;
        drop(state);
        if self.signal.dozes() && self.gathers_enough(waiting) {
            self.signal.notify();
        }
        self.activity.note_change();
        Ok(Made { batch, credit, holds })
    }

    /// Compresses the pages of a change where that saved space lately. It takes the lock of the state only to look.
    pub fn make_cells(&self, change: &mut Change) {
        if change.pages.is_empty() || !self.format.has_cells() {
            return;
        }
        change.lz4 = vec![Lz4::Untried; change.page_count()];
        for mutation in &change.mutations {
            let (volume, block, page, count) = match *mutation {
                Mutation::Slots { volume, block, count, first } => {
                    (volume, block, first.page, count as usize)
                }
                Mutation::Same { volume, block, slot, .. } => (volume, block, slot.page, 1),
                _ => continue,
            };
            let compression = self.state.read().volume(volume).map(|volume| volume.policy.compression);
            let Ok(Compression::Adaptive | Compression::Fast) = compression else { continue };
            let adapts = compression == Ok(Compression::Adaptive);
            let pages = usize::from(page)..usize::from(page) + count;
            let frames = change.lz4[pages.clone()].chunks_mut(BlockId::PER_FRAME);
            let bytes =
                change.pages[pages.start * BLOCK..pages.end * BLOCK].chunks(BlockId::PER_FRAME * BLOCK);
            for (n, (frame, bytes)) in frames.zip(bytes).enumerate() {
                let first = block + (n * BlockId::PER_FRAME) as u64;
                if adapts && !self.compressibility.should_compress(volume, first) {
                    continue;
                }
                frame.iter_mut().zip(bytes.chunks(BLOCK)).for_each(|(lz4, bytes)| *lz4 = Lz4::of(bytes));
                if adapts {
                    let saved = frame.iter().any(|lz4| lz4.len() > 0);
                    self.compressibility.note(volume, first, saved);
                }
            }
        }
    }

    /// The parts of a change that taps see.
    fn seen(state: &State, change: &Change) -> Result<tap::Seen> {
        let identity = |volume| state.volume(volume).map(|volume| volume.id);
        tap::seen(&state.taps, &change.mutations, &change.pages, identity)
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

    /// Refuses a change for which there is no room in the journal, in memory or in the log.
    fn admit(
        &self,
        state: &State,
        change: &Change,
        record: usize,
        first: bool,
    ) -> std::result::Result<(), Refusal> {
        self.check_running()?;
        let cost = self.journal.cost(record, change.page_count());
        if record > self.journal.record_limit() || cost > self.journal.limit() {
            return Err(Error::Malformed("larger than the journal").into());
        }
        self.check_capacity(state, change)?;
        let bytes = state.maps.slots.bytes();
        let has_data = !change.pages.is_empty();
        let full = has_data && bytes > 0 && bytes + change.bytes() > self.options.slot_bytes;
        let crowded = self.journal.is_crowded(cost, has_data);
        if full || crowded || !first && self.throttle.queue.is_queued() {
            // The background may have looked before this was wanted, and be at rest: now a checkpoint is due.
            if self.throttle.want_journal_bytes(cost) && crowded {
                self.signal.notify();
            }
            return Err(Refusal::Backpressure);
        }
        Ok(())
    }

    /// Back-pressure: an acknowledgement needs an eighth of the bytes that wait beyond the start of back-pressure as
    /// new credit. Latency then grows with the backlog, and writes settle at the speed of the background.
    fn credit_needed(&self, state: &State) -> u64 {
        match (state.maps.slots.bytes() as u64).saturating_sub(self.backpressure_start_bytes()) / 8 {
            0 => 0,
            debt => self.throttle.credit.now().saturating_add(debt),
        }
    }

    /// Bytes that may wait to be flushed before back-pressure begins: half of [`crate::Options::slot_bytes`], and no
    /// more than leaves room in the journal for what was flushed and waits for a checkpoint.
    pub fn backpressure_start_bytes(&self) -> u64 {
        (self.options.slot_bytes as u64 / 2)
            .min(self.journal.max_held_bytes() / self.options.tunables.backpressure_divisor)
    }
}

/// Whether an error reports which volumes there are, or their properties.
pub fn depends_on_catalog(error: &Error) -> bool {
    match error {
        Error::Deleted | Error::Unreachable(_) | Error::ReadOnly | Error::RetentionLocked { .. } => true,
        Error::OutOfRange { .. } | Error::Malformed(_) => true,
        Error::Miscompare { .. } | Error::NoSpace | Error::Medium { .. } => false,
        Error::NotReady | Error::Stopped(_) | Error::Unreplicated => false,
    }
}
