//! Slots: pages of the journal that maps refer to. A slot's bytes stay in memory until they are flushed; then the
//! slot only says which block of a frame has them, until a checkpoint has rewritten the last map page that names it.
//!
//! While a checkpoint has frozen map pages that are not written yet, no slot is forgotten, and none is flushed
//! ([`Slots::freeze`]): a frozen page may name a slot that hosts have overwritten since, and has to find its block.

use crate::cell::Contents;
use crate::entry::{BLOCK, BlockId, FAN, SlotId};
use crate::pages::NumberMap;
use smallvec::SmallVec;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One page of a journal batch.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    /// The block; empty if it is in a frame, or not needed any more.
    pub contents: Contents,
    /// Entries of distinct map pages that name it.
    pub holders: u64,
    /// The block that has the bytes now.
    pub flushed: Option<BlockId>,
    /// Number of the volume it was written to.
    pub volume: u32,
    /// The first block it was written to.
    pub block: u64,
}

impl Slot {
    /// True if it waits to be flushed.
    pub fn is_waiting(&self) -> bool {
        self.holders > 0 && self.flushed.is_none()
    }
}

/// Runs of consecutive slots that blocks in order get.
#[derive(Clone, Debug, Default)]
pub struct SlotRuns {
    /// The first block of each run, counted from the first block of all, and its first slot.
    runs: SmallVec<[(u64, SlotId); 2]>,
    count: u64,
}

impl SlotRuns {
    /// Adds a run of `count` slots.
    pub fn push(&mut self, first: SlotId, count: u64) {
        if count > 0 {
            self.runs.push((self.count, first));
            self.count += count;
        }
    }

    /// Number of slots.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The slot of the block at `index`, if there is one.
    pub fn get(&self, index: u64) -> Option<SlotId> {
        let run = self.runs.partition_point(|(start, _)| *start <= index).checked_sub(1)?;
        let (start, first) = self.runs[run];
        (index < self.count).then(|| first.offset((index - start) as usize))
    }
}

#[derive(Default)]
struct Group {
    slots: Vec<Slot>,
    held: usize,
}

/// The slots of all batches that are still referred to.
#[derive(Default)]
pub struct Slots {
    first: u64,
    groups: VecDeque<Group>,
    cursor: Cursor,
    waiting: usize,
    /// Bytes of the cells of slots that wait.
    cell_bytes: usize,
    added: u64,
    /// Slots that wait, by volume and leaf of its map.
    leaves: NumberMap<(u32, u64), SmallVec<[SlotId; 2]>>,
    /// Slots without references stay.
    frozen: bool,
    /// Flushed slots that map pages in the log name which could not be read for a checkpoint: see
    /// [`Slots::set_aside`].
    aside: BTreeMap<SlotId, Slot>,
    /// Slots that map pages in the log name and that do not exist: see [`Slots::lose`].
    lost: BTreeSet<SlotId>,
}

/// The position from which flushing continues.
#[derive(Clone, Copy, Default)]
struct Cursor {
    batch: u64,
    page: usize,
}

/// The volume to which a slot was written, and the leaf of its map.
fn leaf(slot: &Slot) -> (u32, u64) {
    (slot.volume, slot.block / FAN as u64)
}

impl Slots {
    /// Bytes in memory that wait to be flushed.
    pub fn bytes(&self) -> usize {
        self.waiting * BLOCK + self.cell_bytes
    }

    /// Bytes of blocks that were added and do not wait any more: a count that only grows.
    pub fn progress(&self) -> u64 {
        (self.added - self.waiting as u64) * BLOCK as u64
    }

    /// The slot; `None` if nothing refers to it.
    pub fn get(&self, id: SlotId) -> Option<&Slot> {
        if let Some(slot) = self.aside.get(&id) {
            return Some(slot);
        }
        let group = self.groups.get(id.batch.checked_sub(self.first)? as usize)?;
        group.slots.get(usize::from(id.page))
    }

    fn group(&mut self, batch: u64) -> &mut Group {
        if self.groups.is_empty() {
            self.first = batch;
        }
        assert!(batch >= self.first, "batch {batch} comes after {}", self.first);
        while self.first + self.groups.len() as u64 <= batch {
            self.groups.push_back(Group::default());
        }
        &mut self.groups[(batch - self.first) as usize]
    }

    /// Adds a slot with `holders` references.
    pub fn add(&mut self, id: SlotId, slot: Slot) {
        let waiting = slot.is_waiting();
        let group = self.group(id.batch);
        let index = usize::from(id.page);
        if group.slots.len() <= index {
            group.slots.resize_with(index + 1, Slot::default);
        }
        group.held += usize::from(slot.holders > 0);
        let (leaf, cell_bytes) = (leaf(&slot), slot.contents.lz4.len());
        group.slots[index] = slot;
        if waiting {
            self.leaves.entry(leaf).or_default().push(id);
        }
        self.waiting += usize::from(waiting);
        self.cell_bytes += if waiting { cell_bytes } else { 0 };
        self.added += u64::from(waiting);
    }

    /// Whether [`Slots::add`] can take it: it is not held yet, and not older than all others.
    pub fn takes(&self, id: SlotId) -> bool {
        !self.is_held(id) && (self.groups.is_empty() || id.batch >= self.first)
    }

    /// Corrects how many entries name each slot; returns the defects. Slots that no entry names are freed.
    pub fn recount(&mut self, counted: &BTreeMap<SlotId, u64>) -> Vec<String> {
        let held: Vec<(SlotId, u64)> = self.iter().map(|(id, slot)| (id, slot.holders)).collect();
        let mut defects = Vec::new();
        for (id, holders) in held {
            let right = counted.get(&id).copied().unwrap_or(0);
            if right != holders {
                defects.push(format!("{id} had {holders} references, not {right}"));
                self.edit(id).holders = right.max(1);
                if right == 0 {
                    self.release(id);
                }
            }
        }
        defects
    }

    /// Keeps a flushed slot apart from those of the journal, which has been trimmed or will be: map pages in the log
    /// name it that can't be read now. They may be readable again at the next start, so checkpoints list it until
    /// the last of them has been written again.
    pub fn set_aside(&mut self, id: SlotId, slot: Slot) {
        assert!(slot.holders > 0 && slot.flushed.is_some(), "{id} has to be in a frame: {slot:?}");
        if let Some(group) = id.batch.checked_sub(self.first).and_then(|n| self.groups.get_mut(n as usize))
            && let Some(before) = group.slots.get_mut(usize::from(id.page))
        {
            group.held -= usize::from(std::mem::take(before).holders > 0);
            self.drop_front();
        }
        self.aside.insert(id, slot);
    }

    fn edit(&mut self, id: SlotId) -> &mut Slot {
        if let Some(slot) = self.aside.get_mut(&id) {
            return slot;
        }
        let index = id.batch.checked_sub(self.first).expect("a slot that is named exists") as usize;
        &mut self.groups[index].slots[usize::from(id.page)]
    }

    /// Whether the slot has references.
    pub fn is_held(&self, id: SlotId) -> bool {
        self.get(id).is_some_and(|slot| slot.holders > 0)
    }

    /// From now on every slot stays, with what is known of it, and none may be flushed.
    pub fn freeze(&mut self) {
        self.frozen = true;
    }

    /// Ends [`Slots::freeze`]: slots without references go.
    pub fn thaw(&mut self) {
        self.frozen = false;
        self.aside.retain(|_, slot| slot.holders > 0);
        self.drop_front();
    }

    /// Notes that a map page names a slot that does not exist. Checkpoints of earlier versions wrote such pages: the
    /// slot had been flushed and was overwritten while its page waited to be written, so its block was forgotten.
    /// Replaying the journal overwrites it again; its block keeps a reference that no page has, which the check
    /// reports. Until it is overwritten the slot can't be read. References to it are not counted.
    pub fn lose(&mut self, id: SlotId) {
        if self.lost.insert(id) {
            tracing::error!(
                batch = id.batch,
                page = id.page,
                "a map names a block of the journal that does not exist"
            );
        }
    }

    /// Whether a slot was lost.
    #[cfg(test)]
    pub fn is_lost(&self, id: SlotId) -> bool {
        !self.lost.is_empty() && self.lost.contains(&id)
    }

    /// Adds references to a slot that has some.
    pub fn hold(&mut self, id: SlotId, more: u64) {
        if !self.is_held(id) {
            return self.lose(id);
        }
        self.edit(id).holders += more;
    }

    /// Drops one reference; returns the block if the slot has been flushed.
    pub fn release(&mut self, id: SlotId) -> Option<BlockId> {
        if !self.is_held(id) {
            self.lose(id);
            return None;
        }
        let slot = self.edit(id);
        slot.holders -= 1;
        let flushed = slot.flushed;
        if slot.holders == 0 {
            let contents = std::mem::take(&mut slot.contents);
            if flushed.is_none() {
                let leaf = leaf(slot);
                self.waiting -= 1;
                self.cell_bytes -= contents.lz4.len();
                self.forget(leaf, id);
            }
            if self.aside.contains_key(&id) {
                if !self.frozen {
                    self.aside.remove(&id);
                }
                return flushed;
            }
            let group = &mut self.groups[(id.batch - self.first) as usize];
            group.held -= 1;
            self.drop_front();
        }
        flushed
    }

    fn drop_front(&mut self) {
        // The last group stays: its batch may still be filling.
        while !self.frozen && self.groups.len() > 1 && self.groups[0].held == 0 {
            self.groups.pop_front();
            self.first += 1;
        }
    }

    /// The bytes of a slot are in `block` now; returns the number of references that moved there.
    pub fn flushed(&mut self, id: SlotId, block: BlockId) -> u64 {
        assert!(!self.frozen, "nothing is flushed while frozen pages may name it");
        let slot = self.edit(id);
        assert!(slot.is_waiting(), "{id:?} does not wait to be flushed");
        slot.flushed = Some(block);
        let (contents, holders) = (std::mem::take(&mut slot.contents), slot.holders);
        self.waiting -= 1;
        self.cell_bytes -= contents.lz4.len();
        holders
    }

    /// A slot without references does not wait beside others any more.
    fn forget(&mut self, leaf: (u32, u64), id: SlotId) {
        let Entry::Occupied(mut beside) = self.leaves.entry(leaf) else { return };
        if let Some(at) = beside.get().iter().rposition(|other| *other == id) {
            beside.get_mut().swap_remove(at);
        }
        if beside.get().is_empty() {
            beside.remove();
        }
    }

    /// Waiting slots of batches up to `last`, oldest first, after those that were taken before, each with what waits in its leaf of
    /// the map and is `durable`: at least `limit` if as many wait, and no more of them than complete a leaf.
    pub fn take(&mut self, last: u64, durable: u64, limit: usize) -> Vec<SlotId> {
        let mut taken = Vec::new();
        let mut beside: NumberMap<SlotId, ()> = NumberMap::default();
        while taken.len() < limit
            && let Some(oldest) = self.next_waiting(last.min(durable))
        {
            if beside.remove(&oldest).is_some() {
                continue;
            }
            taken.push(oldest);
            let leaf = leaf(self.edit(oldest));
            let Some(waiting) = self.leaves.remove(&leaf) else { continue };
            let (now, later): (SmallVec<[_; 2]>, SmallVec<[_; 2]>) =
                waiting.into_iter().partition(|id| id.batch <= durable);
            if !later.is_empty() {
                self.leaves.insert(leaf, later);
            }
            let others = now.into_iter().filter(|id| *id != oldest && beside.insert(*id, ()).is_none());
            taken.extend(others);
        }
        taken
    }

    /// The oldest waiting slot of batches up to `last` that was not returned before.
    fn next_waiting(&mut self, last: u64) -> Option<SlotId> {
        if self.cursor.batch < self.first {
            self.cursor = Cursor { batch: self.first, page: 0 };
        }
        while self.cursor.batch <= last {
            let Cursor { batch, page } = self.cursor;
            let group = self.groups.get((batch - self.first) as usize)?;
            match group.slots.iter().skip(page).position(Slot::is_waiting) {
                Some(more) => {
                    let page = page + more;
                    self.cursor.page = page + 1;
                    return Some(SlotId { batch, page: page as u16 });
                }
                None => self.cursor = Cursor { batch: batch + 1, page: 0 },
            }
        }
        None
    }

    /// No slot of the batches before this one waits to be flushed, as far as that is known without a search.
    pub fn flushed_before(&self) -> u64 {
        if self.waiting == 0 { u64::MAX } else { self.cursor.batch }
    }

    /// Starts over at the oldest: slots that were taken have not been flushed.
    pub fn rewind(&mut self) {
        self.cursor = Cursor::default();
    }

    /// Every slot that waits, oldest first.
    pub fn waiting(&self) -> impl Iterator<Item = (SlotId, &Slot)> {
        self.in_journal().filter(|(_, slot)| slot.is_waiting())
    }

    /// Every slot that is referred to.
    pub fn iter(&self) -> impl Iterator<Item = (SlotId, &Slot)> {
        let aside = self.aside.iter().filter(|(_, slot)| slot.holders > 0).map(|(id, slot)| (*id, slot));
        aside.chain(self.in_journal())
    }

    fn in_journal(&self) -> impl Iterator<Item = (SlotId, &Slot)> {
        self.groups.iter().enumerate().flat_map(move |(n, group)| {
            let batch = self.first + n as u64;
            let held = group.slots.iter().enumerate().filter(|(_, slot)| slot.holders > 0);
            held.map(move |(page, slot)| (SlotId { batch, page: page as u16 }, slot))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Lz4;

    fn id(batch: u64, page: u16) -> SlotId {
        SlotId { batch, page }
    }

    fn slot(block: u64) -> Slot {
        let contents = Contents { page: vec![1; BLOCK].into(), lz4: Lz4::of(&[1; BLOCK]) };
        Slot { contents, holders: 1, block, ..Slot::default() }
    }

    #[test]
    fn slots_are_taken_oldest_first_and_once() {
        let mut slots = Slots::default();
        for (leaf, (batch, page)) in [(5, 0), (5, 1), (6, 0), (8, 0)].into_iter().enumerate() {
            slots.add(id(batch, page), slot((leaf * FAN) as u64));
        }
        slots.release(id(5, 1));
        assert_eq!(slots.take(6, 6, 1), [id(5, 0)]);
        assert_eq!(slots.take(6, 9, 9), [id(6, 0)]);
        assert_eq!(slots.take(6, 9, 9), []);
        assert_eq!(slots.take(9, 9, 9), [id(8, 0)]);
        slots.rewind();
        assert_eq!(slots.take(9, 9, 2), [id(5, 0), id(6, 0)]);
        assert_eq!(slots.bytes(), 3 * (BLOCK + Lz4::of(&[1; BLOCK]).len()), "blocks and cells");
    }

    #[test]
    fn what_waits_in_the_leaf_of_the_oldest_is_taken_with_it_as_far_as_it_is_durable() {
        let mut slots = Slots::default();
        let far = FAN as u64;
        for (batch, block) in [(1, 7), (2, far), (3, 5), (4, 7), (5, 6), (9, 8)] {
            slots.add(id(batch, 0), slot(block));
        }
        slots.release(id(1, 0));
        assert_eq!(slots.take(3, 5, 1), [id(2, 0)]);
        assert_eq!(slots.take(3, 5, 1), [id(3, 0), id(4, 0), id(5, 0)]);
        assert_eq!(slots.take(3, 9, 1), [], "the rest is too new to be the oldest");
        assert_eq!(slots.take(9, 9, 1), [id(4, 0), id(9, 0)]);
        slots.flushed(id(4, 0), BlockId { frame: 1, index: 0 });
        slots.rewind();
        assert_eq!(slots.take(9, 9, 9), [id(2, 0), id(3, 0), id(5, 0), id(9, 0)]);
        for (batch, _) in [(2, 0), (3, 0), (5, 0), (9, 0)] {
            slots.release(id(batch, 0));
        }
        assert!(slots.leaves.is_empty(), "nothing waits in any leaf");
    }

    #[test]
    fn while_they_are_frozen_flushed_slots_say_where_their_bytes_went_whoever_lets_go_of_them() {
        let mut slots = Slots::default();
        slots.add(id(1, 0), slot(0));
        slots.add(id(2, 0), slot(0));
        let block = BlockId { frame: 9, index: 1 };
        slots.flushed(id(1, 0), block);
        slots.freeze();
        assert_eq!(slots.release(id(1, 0)), Some(block));
        assert_eq!(slots.get(id(1, 0)).and_then(|slot| slot.flushed), Some(block));
        assert!(!slots.is_held(id(1, 0)));
        slots.thaw();
        assert!(slots.get(id(1, 0)).is_none());
    }

    #[test]
    fn a_slot_set_aside_stays_when_its_batch_has_gone_and_is_not_released_twice() {
        let mut slots = Slots::default();
        slots.add(id(1, 0), slot(0));
        slots.add(id(2, 0), slot(0));
        slots.hold(id(1, 0), 1);
        let block = BlockId { frame: 9, index: 1 };
        slots.flushed(id(1, 0), block);
        let flushed = slots.get(id(1, 0)).cloned().unwrap();
        slots.set_aside(id(1, 0), flushed);
        assert_eq!((slots.first, slots.iter().count(), slots.takes(id(1, 0))), (2, 2, false));
        assert_eq!(slots.release(id(1, 0)), Some(block));
        slots.freeze();
        assert_eq!(slots.release(id(1, 0)), Some(block));
        assert_eq!(slots.get(id(1, 0)).and_then(|slot| slot.flushed), Some(block));
        slots.thaw();
        assert!(slots.get(id(1, 0)).is_none());
    }

    #[test]
    fn a_lost_slot_counts_no_references() {
        let mut slots = Slots::default();
        slots.add(id(5, 0), slot(0));
        slots.lose(id(2, 0));
        slots.hold(id(2, 0), 1);
        assert_eq!((slots.release(id(2, 0)), slots.release(id(2, 0))), (None, None));
        assert!(slots.is_lost(id(2, 0)) && !slots.is_lost(id(5, 0)));
    }

    #[test]
    fn a_flushed_slot_says_where_its_bytes_went_until_the_last_reference_is_gone() {
        let mut slots = Slots::default();
        slots.add(id(1, 0), slot(0));
        slots.add(id(2, 0), slot(0));
        slots.hold(id(1, 0), 1);
        let block = BlockId { frame: 9, index: 1 };
        assert_eq!(slots.flushed(id(1, 0), block), 2);
        assert_eq!(slots.bytes(), BLOCK + Lz4::of(&[1; BLOCK]).len());
        assert_eq!(slots.release(id(1, 0)), Some(block));
        assert_eq!(slots.release(id(1, 0)), Some(block));
        assert!(slots.get(id(1, 0)).is_none());
        assert_eq!(slots.release(id(2, 0)), None);
        assert_eq!(slots.bytes(), 0);
    }
}
