//! Flushing: the oldest slots, by volume and block, become references to blocks that the log has already, or parts
//! of new frames. A frame is a run of neighbours, because what was written together is read together.

use crate::background::{Step, Worker};
use crate::dedup;
use crate::entry::{BLOCK, BlockId, SlotId};
use crate::frame::{self, Fingerprint};
use crate::recover::failed;
use crate::space::Place;
use crate::table::{FRAMES, Frame};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Slots flushed in one step.
const STEP: usize = 512;

/// A slot on its way to the log.
struct Item {
    slot: SlotId,
    volume: u32,
    block: u64,
    page: Bytes,
    fingerprint: Fingerprint,
}

/// Distinct new blocks that are neighbours.
#[derive(Default)]
struct Run {
    volume: u32,
    next: u64,
    items: Vec<Item>,
}

/// A frame in the log that the table does not know yet.
struct Packed {
    number: u64,
    place: Place,
    items: Vec<Item>,
}

/// What a step found out about its slots.
#[derive(Default)]
struct Sorted {
    runs: Vec<Run>,
    /// Slots whose bytes the log has.
    known: Vec<(Item, BlockId)>,
    /// Slots with the bytes of another slot of this step.
    twins: Vec<Item>,
}

impl Worker {
    /// Flushes some slots.
    pub async fn flush(&mut self) -> block::Result<Step> {
        let items = self.take_slots();
        if items.is_empty() {
            return Ok(Step::Idle);
        }
        let Sorted { runs, known, twins } = self.sort(items).await?;
        self.leave_for_cleaning();
        let mut packed = Vec::with_capacity(runs.len());
        let mut step = Step::Done;
        for run in runs {
            match self.pack(run).await? {
                Some(frame) => packed.push(frame),
                None => {
                    step = Step::Full;
                    break;
                }
            }
        }
        self.load_table(&packed).await?;
        if self.commit(packed, known, twins) || step == Step::Full {
            self.core.state.write().maps.slots.rewind();
        }
        Ok(step)
    }

    fn take_slots(&self) -> Vec<Item> {
        let durable = self.core.journal.durable();
        let mut items: Vec<Item> = {
            let slots = &mut self.core.state.write().maps.slots;
            let taken = slots.take_oldest(durable, STEP);
            let item = |slot: SlotId| {
                let found = slots.get(slot)?;
                let page = found.page.clone();
                Some(Item { slot, page, volume: found.volume, block: found.block, fingerprint: [0; 16] })
            };
            taken.into_iter().filter_map(item).collect()
        };
        items.sort_unstable_by_key(|item| (item.volume, item.block, item.slot));
        items
    }

    /// Fingerprints the blocks and tells the known from the new.
    async fn sort(&mut self, items: Vec<Item>) -> block::Result<Sorted> {
        let mut sorted = Sorted::default();
        let mut seen = BTreeMap::new();
        for mut item in items {
            item.fingerprint = dedup::fingerprint(&self.core.key, &item.page);
            if let Some(block) = self.find(&item.fingerprint).await? {
                sorted.known.push((item, block));
                continue;
            }
            if seen.insert(item.fingerprint, ()).is_some() {
                sorted.twins.push(item);
                continue;
            }
            match sorted.runs.last_mut() {
                Some(run)
                    if run.items.len() < BlockId::PER_FRAME
                        && (run.volume, run.next) == (item.volume, item.block) =>
                {
                    run.next += 1;
                    run.items.push(item);
                }
                _ => {
                    let (volume, next) = (item.volume, item.block + 1);
                    sorted.runs.push(Run { volume, next, items: vec![item] });
                }
            }
        }
        Ok(sorted)
    }

    /// A live block with these bytes, of what the index remembers.
    async fn find(&mut self, fingerprint: &Fingerprint) -> block::Result<Option<BlockId>> {
        let Some(block) = self.index.find(fingerprint) else { return Ok(None) };
        loop {
            let live = {
                let state = self.core.state.read();
                state
                    .maps
                    .table
                    .get(block.frame)
                    .map(|frame| frame.is_some_and(|one| one.refs(block.index) > 0))
            };
            match live {
                Ok(true) => return Ok(Some(block)),
                Ok(false) => {
                    self.index.remove(fingerprint);
                    return Ok(None);
                }
                Err(absent) => self.core.load(absent.into()).await?,
            }
        }
    }

    /// Compresses a run and places it in the log; none when there is no room.
    async fn pack(&mut self, run: Run) -> block::Result<Option<Packed>> {
        let number = {
            let table = &mut self.core.state.write().maps.table;
            table.next += 1;
            table.next - 1
        };
        let stored = ((1u16 << run.items.len()) - 1) as u8;
        let fingerprints: Vec<_> = run.items.iter().map(|item| item.fingerprint).collect();
        let object = match run.items.as_slice() {
            [one] => frame::pack(number, stored, &one.page, &fingerprints),
            many => {
                let mut blocks = Vec::with_capacity(many.len() * BLOCK);
                many.iter().for_each(|item| blocks.extend_from_slice(&item.page));
                frame::pack(number, stored, &blocks, &fingerprints)
            }
        };
        let placed = self.writer.place(&mut self.streams.data, &mut self.space, object).await;
        Ok(placed.map_err(failed)?.ok().map(|place| Packed { number, place, items: run.items }))
    }

    /// Has the pages of the frame table in memory that new frames go to.
    async fn load_table(&self, packed: &[Packed]) -> block::Result<()> {
        let mut pages: Vec<u64> = packed.iter().map(|frame| frame.number / FRAMES).collect();
        pages.dedup();
        for page in pages {
            self.core.load(crate::map::Need::Table(page)).await?;
        }
        Ok(())
    }

    /// Points the slots to their blocks. What was overwritten meanwhile is left out. True when some slot has to be
    /// flushed again, because the block that it was to share has gone.
    fn commit(&mut self, packed: Vec<Packed>, known: Vec<(Item, BlockId)>, twins: Vec<Item>) -> bool {
        let mut again = false;
        let mut state = self.core.state.write();
        let maps = &mut state.maps;
        let waits =
            |maps: &crate::map::Maps, slot| maps.slots.get(slot).is_some_and(|slot| slot.is_waiting());
        let mut fresh = BTreeMap::new();
        for Packed { number, place, items } in packed {
            let mut refs = smallvec::SmallVec::new();
            for (index, item) in items.iter().enumerate() {
                let block = BlockId { frame: number, index: index as u8 };
                let live = waits(maps, item.slot);
                refs.push(if live { maps.slots.flushed(item.slot, block) } else { 0 });
                if live {
                    fresh.insert(item.fingerprint, block);
                }
            }
            if refs.iter().any(|count| *count > 0) {
                let stored = ((1u16 << items.len()) - 1) as u8;
                let frame = Frame { place, stored, refs };
                maps.table.insert(number, frame, &mut maps.usage).expect("the page was loaded");
            }
        }
        let twins = twins.into_iter().map(|item| {
            let block = fresh.get(&item.fingerprint).copied();
            (item, block)
        });
        let known = known.into_iter().map(|(item, block)| (item, Some(block)));
        for (item, block) in known.chain(twins) {
            if !waits(maps, item.slot) {
                continue;
            }
            let live = |block: &BlockId| {
                let frame = maps.table.get(block.frame);
                frame.is_ok_and(|frame| frame.is_some_and(|frame| frame.refs(block.index) > 0))
            };
            match block.filter(live) {
                Some(block) => {
                    let holders = maps.slots.flushed(item.slot, block);
                    maps.table.refer(block, holders as i64, &mut maps.usage);
                }
                None => again = true,
            }
        }
        drop(state);
        for (fingerprint, block) in fresh {
            self.index.insert(fingerprint, block);
        }
        again
    }
}
