//! Flush: the oldest slots of the journal become references to blocks that the log has already, or parts of new frames.
//!
//! Slots are taken oldest first, so that the journal can be trimmed, each with those that wait in the same leaf of the map, and
//! sorted by volume and block: a frame is a run of neighbours, because neighbours are read together. Workers make fingerprints and frames; what they return is
//! looked up, appended and committed in that order.

use super::Reducer;
use crate::appender::Appender;
use crate::cell::{Cells, Contents, Lz4};
use crate::dedup::Fingerprinter;
use crate::entry::{BLOCK, BlockId, SlotId};
use crate::error::failed;
use crate::frame::{self, Block, Fingerprint, Method, Packer, UNKNOWN, stored_mask};
use crate::frame_table::{Absent, FRAMES, Frame};
use crate::map::{Maps, Need};
use crate::pages::NumberMap;
use crate::policy::{Compression, Policy};
use crate::space::Location;
use crate::state::State;
use crate::wake::pause;
use bytes::Bytes;
use shelf::parts;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::ops::Range;

/// Outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something was flushed; there may be more.
    Done,
    /// There was nothing to flush.
    Idle,
    /// The log has no free segment for it.
    Full,
}

/// Result of a step.
#[derive(Debug, PartialEq, Eq)]
pub struct Flushed {
    /// Its outcome.
    pub step: Step,
    /// Volume and first block of each new frame.
    pub leaves: Vec<(u32, u64)>,
}

impl From<Step> for Flushed {
    fn from(step: Step) -> Self {
        Self { step, leaves: Vec::new() }
    }
}

/// A slot on its way to the log.
pub struct Item {
    slot: SlotId,
    pub volume: u32,
    pub block: u64,
    page: Bytes,
    lz4: Lz4,
    policy: Policy,
    /// It is looked up only if it is in the sample.
    sampled: bool,
    /// [`UNKNOWN`] if the volume is not deduplicated, or to save time.
    pub fingerprint: Fingerprint,
    /// A block of the log with the same bytes.
    pub known: Option<BlockId>,
}

impl Item {
    fn fingerprint(&mut self, fingerprinter: &mut Fingerprinter) {
        if self.policy.dedup && (!self.sampled || is_sample(&self.page)) {
            self.fingerprint = fingerprinter.of(&self.page);
        }
    }

    /// Whether its fingerprint was left out to save time.
    fn is_skipped(&self) -> bool {
        self.policy.dedup && self.fingerprint == UNKNOWN
    }
}

/// A frame to be packed.
struct Plan {
    number: u64,
    /// Its blocks among those of the job.
    items: Range<usize>,
    how: Method,
    /// Whether the outcome says something about what compression saves there.
    is_try: bool,
}

/// Frames that one job packs, and their blocks.
#[derive(Default)]
struct Batch {
    items: Vec<Item>,
    plans: Vec<Plan>,
}

impl Batch {
    /// Packs the frames. The pages are not needed any more.
    fn pack(&mut self, has_cells: bool) -> Vec<Bytes> {
        let mut packer = Packer::new(has_cells);
        let objects = self.plans.iter().map(|plan| {
            let items = &mut self.items[plan.items.clone()];
            let fingerprints: SmallVec<[_; BlockId::PER_FRAME]> =
                items.iter().map(|item| item.fingerprint).collect();
            let pages = items.iter().map(|item| Block { bytes: &item.page, lz4: &item.lz4 });
            let stored = stored_mask(items.len());
            let skipped = items.iter().any(Item::is_skipped);
            let object = packer.pack(plan.number, stored, pages, &fingerprints, plan.how, skipped);
            items.iter_mut().for_each(|item| (item.page, item.lz4) = (Bytes::new(), Lz4::Untried));
            object
        });
        objects.collect()
    }
}

/// A frame in the log that the frame table does not have yet.
struct Packed {
    number: u64,
    location: Location,
    cells: Cells,
    /// Its blocks among those that are new.
    items: Range<usize>,
}

/// The slots of a step, by what the log has of them.
#[derive(Default)]
struct Sorted {
    /// Slots with bytes that the log does not have, in order.
    new: Vec<Item>,
    /// Slots whose bytes the log has.
    known: Vec<Item>,
    /// Slots with the bytes of another slot of this step.
    twins: Vec<Item>,
}

/// Fingerprints of a step, as numbers.
type Seen<T> = NumberMap<u128, T>;

fn key(fingerprint: &Fingerprint) -> u128 {
    u128::from_le_bytes(*fingerprint)
}

impl Reducer {
    /// Flushes some slots of batches up to `due`, and what waits beside them.
    pub async fn flush(&mut self, appender: &mut Appender, due: u64) -> block::Result<Flushed> {
        let items = self.take_slots(due);
        if items.is_empty() {
            return Ok(Step::Idle.into());
        }
        let mut items = self.fingerprint(items).await?;
        self.find(&mut items).await?;
        let mut sorted = sort(items);
        for (items, found) in [(&sorted.new, false), (&sorted.known, true), (&sorted.twins, true)] {
            for item in items.iter().filter(|item| item.fingerprint != UNKNOWN) {
                self.uniqueness.note(item.volume, item.block, found);
            }
        }
        appender.begin_data();
        let (packed, step) = self.append_new(appender, &mut sorted.new).await?;
        if !self.load_table(&packed).await {
            let state = &mut *self.core.state.write();
            let table = &mut state.maps.table;
            table.next = table.next.next_multiple_of(FRAMES);
            state.maps.slots.rewind();
            return Ok(Step::Done.into());
        }
        let mut leaves = Vec::with_capacity(packed.len());
        if self.commit(&packed, &sorted, &mut leaves) || step == Step::Full {
            self.core.state.write().maps.slots.rewind();
        }
        Ok(Flushed { step, leaves })
    }

    /// Makes the fingerprints of what may repeat; where nothing did lately, those of a sample.
    async fn fingerprint(&mut self, mut items: Vec<Item>) -> block::Result<Vec<Item>> {
        for item in items.iter_mut().filter(|item| item.policy.dedup) {
            let adapts = item.policy.compression == Compression::Adaptive;
            item.sampled = adapts && !self.uniqueness.should_look_up_all(item.volume, item.block);
        }
        let key = self.core.key;
        let (count, job_blocks) = (items.len(), self.core.options.tunables.job_blocks);
        let jobs =
            self.core.options.workers.compute_all(parts(items, job_blocks), move |mut part: Vec<Item>| {
                let mut fingerprinter = Fingerprinter::new(&key);
                part.iter_mut().for_each(|item| item.fingerprint(&mut fingerprinter));
                part
            });
        let mut made = Vec::with_capacity(count);
        for job in jobs {
            made.extend(job.await.map_err(failed)?);
        }
        if made.iter().any(Item::is_skipped) {
            self.index.leave_out();
        }
        Ok(made)
    }

    fn take_slots(&self, due: u64) -> Vec<Item> {
        let durable = self.core.journal.durable();
        let mut items: Vec<Item> = {
            let state = &mut *self.core.state.write();
            let taken = state.maps.slots.take(due, durable, self.core.options.tunables.flush_slots);
            let item = |slot: SlotId| {
                let found = state.maps.slots.get(slot)?;
                let (volume, block) = (found.volume, found.block);
                let Contents { page, lz4 } = found.contents.clone();
                let policy = state.volume(volume).map_or(Policy::default(), |volume| volume.policy);
                Some(Item {
                    slot,
                    page,
                    lz4,
                    volume,
                    block,
                    policy,
                    sampled: false,
                    fingerprint: UNKNOWN,
                    known: None,
                })
            };
            taken.into_iter().filter_map(item).collect()
        };
        items.sort_unstable_by_key(|item| (item.volume, item.block, item.slot));
        items
    }

    /// Looks for live blocks with the same bytes.
    async fn find(&mut self, items: &mut [Item]) -> block::Result<()> {
        for item in items.iter_mut().filter(|item| item.fingerprint != UNKNOWN) {
            item.known = self.index.find(&item.fingerprint).or_else(|| self.locality.find(&item.fingerprint));
        }
        if self.index.is_partial() || !self.is_index_complete() {
            self.locality.extend(&self.core, &mut self.fingerprinter, items).await;
        }
        loop {
            let mut absent = BTreeSet::new();
            {
                let state = self.core.state.read();
                for item in items.iter_mut() {
                    let Some(block) = item.known else { continue };
                    match is_live(&state, block) {
                        Ok(true) => {}
                        Ok(false) => {
                            self.index.remove(&item.fingerprint);
                            self.locality.remove(&item.fingerprint);
                            item.known = None;
                        }
                        Err(Absent(page)) => _ = absent.insert(page),
                    }
                }
            }
            if absent.is_empty() {
                break;
            }
            for page in absent {
                if self.core.load(Need::Table(page)).await.is_err() {
                    // What can't be read is not shared.
                    let on_it =
                        |item: &&mut Item| item.known.is_some_and(|block| block.frame / FRAMES == page);
                    items.iter_mut().filter(on_it).for_each(|item| item.known = None);
                }
            }
        }
        for item in items.iter_mut().filter(|item| item.policy.verify) {
            if let Some(block) = item.known
                && !self.is_same(block, &item.page).await?
            {
                item.known = None;
            }
        }
        Ok(())
    }

    /// Packs new blocks and appends the frames to the log, as many as there is room for. The blocks of these are left, without
    /// their pages.
    async fn append_new(
        &mut self,
        appender: &mut Appender,
        new: &mut Vec<Item>,
    ) -> block::Result<(Vec<Packed>, Step)> {
        let batches = self.plan(appender, std::mem::take(new));
        let has_cells = self.core.format.has_cells();
        let jobs = self.core.options.workers.compute_all(batches, move |mut batch: Batch| {
            let objects = batch.pack(has_cells);
            (batch, objects)
        });
        let mut packed = Vec::new();
        for job in jobs {
            let (Batch { items, plans }, objects) = job.await.map_err(failed)?;
            let start = new.len();
            new.extend(items);
            for (plan, object) in plans.into_iter().zip(objects) {
                let items = start + plan.items.start..start + plan.items.end;
                let first = &new[items.start];
                if plan.is_try {
                    let saved = frame::is_compressed(&object, plan.items.len());
                    self.core.compressibility.note(first.volume, first.block, saved);
                }
                let cells = frame::cells_of(&object);
                let Some(location) = appender.append_data(object).await? else {
                    return Ok((packed, Step::Full));
                };
                packed.push(Packed { number: plan.number, location, cells, items });
                if packed.len().is_multiple_of(self.core.options.tunables.flush_frames) {
                    appender.grant_credit();
                    pause().await;
                }
            }
        }
        Ok((packed, Step::Done))
    }

    /// Divides new blocks into frames, which get numbers in a row, and these into jobs.
    fn plan(&mut self, appender: &Appender, new: Vec<Item>) -> Vec<Batch> {
        let runs = runs(new.iter().map(|item| (item.volume, item.block)));
        let first = self.reserve_numbers(runs.len() as u64);
        // If space is short, a write may have been admitted because its data compresses.
        let is_short = appender.protected_free_count() < self.core.clean_below();
        let mut new = new.into_iter();
        let mut batches: Vec<Batch> = Vec::new();
        for (number, run) in (first..).zip(runs) {
            let is_full = |batch: &Batch| batch.items.len() >= self.core.options.tunables.job_blocks;
            if batches.last().is_none_or(is_full) {
                batches.push(Batch::default());
            }
            let Some(Batch { items, plans }) = batches.last_mut() else { break };
            let start = items.len();
            items.extend(new.by_ref().take(run.len()));
            let first = &items[start];
            let adapts = first.policy.compression == Compression::Adaptive && !is_short;
            let is_made = first.policy.compression != Compression::High
                && items[start..].iter().all(|item| !matches!(item.lz4, Lz4::Untried));
            let leave =
                is_made || adapts && !self.core.compressibility.should_compress(first.volume, first.block);
            let how = if leave { Method::Raw } else { Method::of(first.policy.compression) };
            plans.push(Plan { number, items: start..items.len(), how, is_try: adapts && !leave });
        }
        batches
    }

    /// Loads the pages of the frame table that new frames go to; false if one can't be read, and others have to be
    /// used.
    async fn load_table(&self, packed: &[Packed]) -> bool {
        let mut pages: Vec<u64> = packed.iter().map(|frame| frame.number / FRAMES).collect();
        pages.dedup();
        for page in pages {
            let known = self.core.state.read().maps.table.page_index.get(page).refs > 0;
            if known && self.core.load(Need::Table(page)).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Points the slots to their blocks. Slots that have been overwritten since are left out. True if some slot has to be
    /// flushed again, because the block that it was to share has gone.
    fn commit(&mut self, packed: &[Packed], sorted: &Sorted, leaves: &mut Vec<(u32, u64)>) -> bool {
        let mut again = false;
        let mut fresh: Seen<BlockId> = Seen::default();
        let mut state = self.core.state.write();
        let waits = |maps: &Maps, slot| maps.slots.get(slot).is_some_and(|slot| slot.is_waiting());
        for Packed { number, location, cells, items } in packed {
            let maps = &mut state.maps;
            let mut refs = SmallVec::new();
            for (index, item) in sorted.new[items.clone()].iter().enumerate() {
                let block = BlockId { frame: *number, index: index as u8 };
                let live = waits(maps, item.slot);
                refs.push(if live { maps.slots.flushed(item.slot, block) } else { 0 });
                if live && item.fingerprint != UNKNOWN {
                    fresh.insert(key(&item.fingerprint), block);
                }
            }
            if refs.iter().any(|count| *count > 0) {
                let (location, cells, stored) = (*location, *cells, stored_mask(items.len()));
                let frame = Frame { location, stored, cells, deep: false, refs };
                maps.table.insert(*number, frame, &mut maps.usage).expect("the page was loaded");
                let first = &sorted.new[items.start];
                leaves.push((first.volume, first.block));
            }
        }
        let twins = sorted.twins.iter().map(|item| (item, fresh.get(&key(&item.fingerprint)).copied()));
        for (item, block) in sorted.known.iter().map(|item| (item, item.known)).chain(twins) {
            if !waits(&state.maps, item.slot) {
                continue;
            }
            match block.filter(|block| is_live(&state, *block) == Ok(true)) {
                Some(block) => {
                    let maps = &mut state.maps;
                    let holders = maps.slots.flushed(item.slot, block);
                    maps.table.refer(block, holders as i64, &mut maps.usage);
                }
                None => again = true,
            }
        }
        drop(state);
        for (fingerprint, block) in fresh {
            self.index.insert(fingerprint.to_le_bytes(), block);
        }
        again
    }
}

fn is_live(state: &State, block: BlockId) -> Result<bool, Absent> {
    let frame = state.maps.table.get(block.frame)?;
    Ok(frame.is_some_and(|frame| frame.refs(block.index) > 0))
}

/// Whether a block is in the sample of one in eight whose fingerprints are made where those of the rest are left out.
/// Its own bytes decide, so that copies of a sample are samples.
fn is_sample(page: &[u8]) -> bool {
    let word = |at: usize| {
        page.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    };
    let mixed = (0..8).fold(0u64, |mixed, n| {
        (mixed ^ word(n * (BLOCK / 8 + 8))).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31)
    });
    mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 61 == 0
}

/// Separates the known from the new, and the new from their twins.
fn sort(items: Vec<Item>) -> Sorted {
    let mut sorted = Sorted::default();
    let mut seen: Seen<usize> = Seen::default();
    for mut item in items {
        if item.known.is_some() {
            sorted.known.push(item);
            continue;
        }
        if item.fingerprint != UNKNOWN {
            match seen.get(&key(&item.fingerprint)) {
                Some(first) if !item.policy.verify || sorted.new[*first].page == item.page => {
                    sorted.twins.push(item);
                    continue;
                }
                // Other bytes with the same fingerprint: they are not to be found by it.
                Some(_) => item.fingerprint = UNKNOWN,
                None => _ = seen.insert(key(&item.fingerprint), sorted.new.len()),
            }
        }
        sorted.new.push(item);
    }
    sorted
}

/// Runs of neighbours that a frame can hold, of blocks by volume and number.
pub fn runs(locations: impl Iterator<Item = (u32, u64)>) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut last = None;
    for (at, (volume, block)) in locations.enumerate() {
        match runs.last_mut() {
            Some(run)
                if run.len() < BlockId::PER_FRAME
                    && last.is_some_and(|(of, n)| (of, n + 1) == (volume, block)) =>
            {
                run.end = at + 1;
            }
            _ => runs.push(at..at + 1),
        }
        last = Some((volume, block));
    }
    runs
}

#[cfg(test)]
#[path = "flush_test.rs"]
mod tests;
