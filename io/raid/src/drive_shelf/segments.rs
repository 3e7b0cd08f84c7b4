//! The segments in memory: where each is, what of it is written, and what is free. Behind one lock; no I/O.

use super::DriveShelf;
use crate::Room;
use crate::allocator::{Free, Rooms, Space};
use crate::geometry::{Form, Geometry};
use crate::segment_map::{Column, ENTRIES, Entry, Page};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The segments of a page of the map.
type Entries = Vec<Option<Arc<Entry>>>;

pub type Deferred = Box<dyn FnOnce(&DriveShelf) + Send>;

/// Free segments that the background leaves alone, at least: whoever writes the segments needs some to win back others,
/// and what is dead in them is what the background lacks room for.
const LEAST_LEFT: u32 = 10;

/// One segment.
#[derive(Default)]
pub struct Segment {
    /// Where it is; none when it is free.
    pub entry: Option<Arc<Entry>>,
    /// Rows of which a write was asked for: all in front of this.
    pub started: u32,
    /// The rows that this owner has begun to write, as a set of bits: none is ever written again.
    begun: SmallVec<[u64; 1]>,
    /// No row from here on has been answered. In front, some may be missing: they are under way, or were at a crash.
    pub answered: u32,
    pub under_way: u32,
    /// Writes asked for, ever.
    asked: u64,
    /// Something was written that no sync has covered.
    pub unsynced: bool,
    /// What waits while the segment is being moved, and for the writes under way to end.
    pub gate: Option<Vec<Deferred>>,
    /// What waits while space is allocated for it.
    pub allocating: Option<Vec<Deferred>>,
    /// Called when nothing is under way.
    pub drained: Option<crate::Done<()>>,
}

impl Segment {
    fn clear(&mut self) {
        (self.started, self.answered, self.unsynced) = (0, 0, false);
        self.begun.clear();
    }
}

pub struct Segments {
    plan: Geometry,
    pub list: Vec<Segment>,
    /// As many of them as the labels say that there are: more are not told of.
    pub told: u32,
    pub space: Space,
    /// Pages of the map that have changed since they were last taken to be written.
    pub dirty: BTreeSet<u32>,
    /// What each page of the map may be on the drives, which is what counts after a crash: as it was written last, and as
    /// it is being written.
    recorded: BTreeMap<u32, Vec<Entries>>,
    /// For generations and choices of place: higher than every one before, those of older owners too.
    next_stamp: u64,
    /// Of this owner.
    salt: u64,
    used: u32,
    /// Members that there should be, and those of them that are out.
    members: (usize, usize),
    /// As long as it is known.
    rooms: Option<Rooms>,
    /// Slots of slow drives.
    slow: u64,
    /// Discards under way, and what waits until there are none.
    pub discarding: u32,
    pub waiting: Vec<Deferred>,
}

/// What a sync of the drives that begins now makes durable of a segment.
pub struct Covered {
    segment: u32,
    generation: u64,
    /// The rows in front of which no more was answered.
    rows: u32,
    /// The writes asked for so far, when all of them have been answered: drives may take the others after the sync.
    whole: Option<u64>,
}

/// A run of granules on a drive, as bytes.
pub struct Run {
    pub slot: usize,
    pub at: u64,
    pub bytes: u64,
}

impl Segments {
    /// All free, and no drives yet.
    pub fn new(plan: Geometry, count: u32, (epoch, salt): (u64, u64)) -> Self {
        Self {
            plan,
            list: (0..count).map(|_| Segment::default()).collect(),
            told: count,
            space: Space::default(),
            dirty: BTreeSet::new(),
            recorded: BTreeMap::new(),
            next_stamp: (epoch << 32) | 1,
            salt,
            used: 0,
            members: (0, 0),
            rooms: None,
            slow: 0,
            discarding: 0,
            waiting: Vec::new(),
        }
    }

    /// A drive of so many bytes may be written; what the map names on it is taken.
    pub fn bring(&mut self, slot: usize, bytes: u64) {
        let drives = &mut self.space.drives;
        if drives.len() <= slot {
            drives.resize(slot + 1, None);
        }
        let mut free = Free::new(self.plan.granules(bytes));
        for entry in self.list.iter().filter_map(|segment| segment.entry.as_ref()) {
            let len = self.plan.chunk_pages(entry.form);
            for column in entry.columns.iter().flatten().filter(|column| usize::from(column.slot) == slot) {
                free.take_at(column.granule, len);
            }
        }
        drives[slot] = Some(free);
        self.rooms = None;
        self.avoid(slot, false);
    }

    /// Says whether nothing more is placed on a drive.
    pub fn close(&mut self, slot: usize, closed: bool) {
        if let Some(Some(free)) = self.space.drives.get_mut(slot) {
            free.close(closed);
        }
        self.rooms = None;
    }

    /// Says whether new columns avoid a drive because it is slow. Its space counts all the same, and is used when there is
    /// no other way.
    pub fn avoid(&mut self, slot: usize, avoid: bool) {
        self.slow = self.slow & !(1 << slot) | u64::from(avoid) << slot;
    }

    /// A drive is gone: what was not certainly on it is not.
    pub fn lose(&mut self, slot: usize) {
        if let Some(free) = self.space.drives.get_mut(slot) {
            *free = None;
        }
        self.rooms = None;
        self.avoid(slot, false);
        let rows = self.plan.rows;
        for (index, segment) in self.list.iter_mut().enumerate() {
            let incomplete = segment.unsynced || (segment.started > 0 && segment.started < rows);
            let Some(entry) = segment.entry.as_mut().filter(|_| incomplete) else { continue };
            let on_it = |column: &Column| usize::from(column.slot) == slot && !column.stale;
            if entry.columns.iter().flatten().any(on_it) {
                let columns = Arc::make_mut(entry).columns.iter_mut().flatten();
                columns.filter(|column| on_it(column)).for_each(|column| column.stale = true);
                self.dirty.insert(index as u32 / ENTRIES as u32);
            }
        }
    }

    pub fn set_members(&mut self, members: usize, out: usize) {
        self.members = (members, out);
        self.rooms = None;
    }

    pub fn set_count(&mut self, count: u32) {
        self.list.resize_with(self.list.len().max(count as usize), Segment::default);
    }

    fn rooms(&mut self) -> Rooms {
        *self.rooms.get_or_insert_with(|| self.space.rooms(self.plan.stripe_pages))
    }

    /// Parity columns of what is placed now. What was promised comes before the second: where drives have gone, what is
    /// left may have no room for both.
    fn parity(&mut self) -> u8 {
        let (members, out) = self.members;
        let least = Form::of(members).parity.saturating_sub(out.min(2) as u8).min(1);
        let (rooms, promised) = (self.rooms(), self.promised().max(1));
        let most = self.space.most_parity();
        let enough = |parity: &u8| rooms[usize::from(*parity)] >= promised;
        let roomiest = || (least..=most).max_by_key(|parity| rooms[usize::from(*parity)]);
        (least..=most).rev().find(enough).or_else(roomiest).unwrap_or(most)
    }

    /// Segments that can be placed.
    pub fn room(&mut self) -> u32 {
        let parity = self.parity();
        self.rooms()[usize::from(parity)]
    }

    /// Segments that can be placed with all the parity that the drives that are there can give.
    pub fn room_protected(&mut self) -> u32 {
        let most = self.space.most_parity();
        self.rooms()[usize::from(most)]
    }

    /// Segments that can be placed, and those of them for which that takes nothing of the protection, theirs or what a
    /// rebuild needs for others'. `below`: what there is space for below the drives, of which the promised segments are
    /// kept for what wins back others, too.
    pub fn room_told(&mut self, below: Option<u32>) -> Room {
        let (protected, free) = (self.room_protected(), self.list.len() as u32 - self.used);
        // Where all find room as they should, nothing needs to be left for what is less than it should be.
        let kept = if protected < free { self.promised() } else { 0 };
        let told = Room { protected: protected.saturating_sub(kept), any: self.room() };
        let Some(below) = below else { return told };
        let protected = told.protected.min(below.saturating_sub(self.promised()));
        // A checkpoint that finds none waits for space; one that is told of none ends the engine.
        Room { protected, any: told.any.min(below.max(super::AT_ONCE + 1)) }
    }

    /// Segments that can be placed with the parity that they are to have once no drive is out: more than these are not
    /// to be counted on.
    pub fn room_for_good(&mut self) -> u32 {
        let parity = Form::of(self.members.0).parity.min(self.space.most_parity());
        self.rooms()[usize::from(parity)]
    }

    /// Segments in use.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Segments that must find room whatever the background takes: the rest of the free space is for rebuilding.
    pub fn promised(&self) -> u32 {
        let count = self.list.len() as u32;
        (count - self.used).min((count / 32).max(LEAST_LEFT))
    }

    fn stamp(&mut self) -> u64 {
        self.next_stamp += 1;
        self.next_stamp
    }

    /// Places a free segment; none when there is no room.
    pub fn place(&mut self, segment: u32) -> Option<Arc<Entry>> {
        let (generation, salt) = (self.stamp(), self.salt);
        let entry = Arc::new(self.take(segment, (generation, salt))?);
        self.used += 1;
        self.list[segment as usize].entry = Some(entry.clone());
        self.dirty.insert(segment / ENTRIES as u32);
        Some(entry)
    }

    /// Takes space for a new copy of a segment that is in use, if what is promised leaves some.
    pub fn place_again(&mut self, segment: u32, old: &Entry) -> Option<Entry> {
        let entry = self.take(segment, (old.generation, old.salt))?;
        if self.room() < self.promised() {
            self.give(&entry);
            return None;
        }
        Some(entry)
    }

    fn take(&mut self, segment: u32, (generation, salt): (u64, u64)) -> Option<Entry> {
        let parity = self.parity();
        let avoiding = self.place_on_prompt_drives(parity);
        let (form, mut columns) = match avoiding {
            Some(placed) => placed,
            None => self.space.place(parity, self.plan.stripe_pages)?,
        };
        self.rooms = None;
        columns.rotate_left(segment as usize % form.width());
        let columns = columns
            .iter()
            .map(|(slot, granule)| Some(Column { slot: *slot, granule: *granule, stale: false }));
        let columns = columns.collect();
        Some(Entry { generation, salt, placed: self.stamp(), filled: 0, form, columns })
    }

    /// Takes space that avoids slow drives, if that costs neither parity nor room: every segment that is free still finds
    /// room with the same parity on all drives, slow ones among them.
    fn place_on_prompt_drives(&mut self, parity: u8) -> Option<(Form, Vec<(u8, u32)>)> {
        let stripe_pages = self.plan.stripe_pages;
        let free = (self.list.len() as u32).saturating_sub(self.used + 1);
        if self.slow == 0 || parity < self.space.most_parity() {
            return None;
        }
        let slow = self.slow;
        let avoided = |slot: usize| slot < u64::BITS as usize && slow >> slot & 1 == 1;
        let (form, columns) = self.space.place_without(avoided, parity, stripe_pages)?;
        self.rooms = None;
        if self.rooms()[usize::from(parity)] < free {
            let len = stripe_pages.div_ceil(u32::from(form.data));
            columns.iter().for_each(|(slot, granule)| self.space.give(*slot, *granule, len));
            self.rooms = None;
            return None;
        }
        Some((form, columns))
    }

    /// Takes space for one column of a segment on a drive that has none of it.
    pub fn take_column(&mut self, entry: &Entry) -> Option<Column> {
        let len = self.plan.chunk_pages(entry.form);
        let held = |slot: u8| entry.columns.iter().flatten().any(|column| column.slot == slot);
        let candidates =
            (0..).zip(&self.space.drives).filter_map(|(slot, free)| Some((slot, free.as_ref()?)));
        let mut slots: Vec<(u32, u8)> =
            candidates.filter(|(slot, _)| !held(*slot)).map(|(slot, free)| (free.granules(), slot)).collect();
        let slow = self.slow;
        slots.sort_by_key(|(granules, slot)| (slow >> slot & 1, std::cmp::Reverse(*granules), *slot));
        for (_, slot) in slots {
            if let Some(granule) = self.space.take_on(slot, len) {
                self.rooms = None;
                if self.room() >= self.promised() {
                    return Some(Column { slot, granule, stale: false });
                }
                self.space.give(slot, granule, len);
                self.rooms = None;
            }
        }
        None
    }

    /// Gives the space of an entry back.
    pub fn give(&mut self, entry: &Entry) {
        entry.columns.iter().flatten().for_each(|column| self.give_column(entry.form, *column));
    }

    /// Gives the space of one column back.
    pub fn give_column(&mut self, form: Form, column: Column) {
        self.space.give(column.slot, column.granule, self.plan.chunk_pages(form));
        self.rooms = None;
    }

    /// Puts another entry in the place of a segment's, which must be the one that is expected.
    pub fn replace(&mut self, segment: u32, expected: u64, mut entry: Entry) -> bool {
        entry.placed = self.stamp();
        let found = &mut self.list[segment as usize].entry;
        if found.as_ref().map(|entry| entry.generation) != Some(expected) {
            return false;
        }
        *found = Some(Arc::new(entry));
        self.dirty.insert(segment / ENTRIES as u32);
        true
    }

    /// Frees a segment; the answer is what of the drives is not needed any more.
    pub fn free(&mut self, segment: u32) -> Vec<Run> {
        let found = &mut self.list[segment as usize];
        let Some(entry) = found.entry.take() else { return Vec::new() };
        found.clear();
        self.used -= 1;
        self.give(&entry);
        self.dirty.insert(segment / ENTRIES as u32);
        let bytes = u64::from(self.plan.chunk_pages(entry.form)) * self.plan.granule_bytes();
        let at = |column: &Column| self.plan.page_at(entry.form, column.granule, 0, 0);
        let columns = entry.columns.iter().flatten();
        columns.map(|column| Run { slot: usize::from(column.slot), at: at(column), bytes }).collect()
    }

    /// A write of rows begins.
    ///
    /// # Panics
    /// When one of them was written before, or an older owner began the segment: what is sealed would be sealed with
    /// the same nonce again.
    pub fn begin(&mut self, segment: u32, rows: (u32, u32)) {
        let (found, own) = (&mut self.list[segment as usize], self.salt);
        assert!(
            found.entry.as_ref().is_some_and(|entry| entry.salt == own),
            "segment {segment} is an older owner's"
        );
        for row in rows.0..rows.1 {
            let (word, bit) = (row as usize / 64, 1 << (row % 64));
            if found.begun.len() <= word {
                found.begun.resize(word + 1, 0);
            }
            assert!(found.begun[word] & bit == 0, "row {row} of segment {segment} is written once");
            found.begun[word] |= bit;
        }
        found.under_way += 1;
        found.asked += 1;
        found.unsynced = true;
        found.started = found.started.max(rows.1);
    }

    /// A write of rows has ended; the answer is what waited for the last.
    pub fn written(&mut self, segment: u32, generation: u64, rows: (u32, u32)) -> Option<crate::Done<()>> {
        let found = &mut self.list[segment as usize];
        found.under_way -= 1;
        if found.entry.as_ref().is_some_and(|entry| entry.generation == generation) {
            found.answered = found.answered.max(rows.1);
        }
        if found.under_way == 0 { found.drained.take() } else { None }
    }

    /// Segments with something that no sync has covered.
    pub fn unsynced(&self) -> Vec<Covered> {
        let used = (0..).zip(&self.list).filter(|(_, segment)| segment.unsynced);
        let covered = |(index, segment): (u32, &Segment)| {
            let whole = (segment.under_way == 0).then_some(segment.asked);
            let generation = segment.entry.as_ref()?.generation;
            Some(Covered { segment: index, generation, rows: segment.answered, whole })
        };
        used.filter_map(covered).collect()
    }

    /// A sync covered these; the answer is one that too few drives hold.
    pub fn synced(&mut self, covered: &[Covered]) -> Option<u32> {
        let mut lost = None;
        for Covered { segment: index, generation, rows, whole } in covered {
            let segment = &mut self.list[*index as usize];
            let Some(entry) = segment.entry.as_mut().filter(|entry| entry.generation == *generation) else {
                continue;
            };
            if *whole == Some(segment.asked) {
                segment.unsynced = false;
            }
            let present = entry.columns.iter().flatten().filter(|column| !column.stale).count();
            if present < usize::from(entry.form.data) {
                lost = Some(*index);
            }
            if entry.filled != *rows {
                Arc::make_mut(entry).filled = *rows;
                self.dirty.insert(index / ENTRIES as u32);
            }
        }
        lost
    }

    /// The pages of the map that have changed, as they are now, to be written.
    pub fn take_dirty(&mut self) -> Vec<(u32, Entries)> {
        let dirty = std::mem::take(&mut self.dirty);
        let mut pages = Vec::with_capacity(dirty.len());
        for number in dirty {
            let from = number as usize * ENTRIES;
            let entries = self.list.iter().skip(from).take(ENTRIES);
            let page: Entries = entries.map(|segment| segment.entry.clone()).collect();
            self.recorded.entry(number).or_default().push(page.clone());
            pages.push((number, page));
        }
        pages
    }

    /// What was taken of these pages is durable.
    pub fn committed(&mut self, pages: &[u32]) {
        for number in pages {
            let Some(versions) = self.recorded.get_mut(number) else { continue };
            versions.drain(..versions.len().saturating_sub(1));
        }
    }

    /// The segments in use, as they are now.
    pub fn current(&self) -> impl Iterator<Item = &Entry> {
        self.list.iter().filter_map(|segment| segment.entry.as_deref())
    }

    /// Everything that has to stay readable: the segments as they are now, and as the map may have them after a crash,
    /// when what was discarded or placed elsewhere since is what it was.
    pub fn needed(&self) -> impl Iterator<Item = &Entry> {
        let recorded = self.recorded.values().flatten().flatten().flatten().map(|entry| &**entry);
        self.current().chain(recorded.filter(|entry| entry.filled > 0))
    }

    /// True when the map on the drives has something on another drive than these that is not a segment's any more.
    pub fn is_outdated(&self, drives: u64) -> bool {
        let pages =
            self.recorded.iter().flat_map(|(number, pages)| pages.iter().map(move |it| (*number, it)));
        let mut entries = pages.flat_map(|(number, page)| (number as usize * ENTRIES..).zip(page));
        entries.any(|(index, recorded)| {
            let (Some(recorded), Some(segment)) = (recorded, self.list.get(index)) else { return false };
            let is_now = segment.entry.as_ref().is_some_and(|now| now.placed == recorded.placed);
            !is_now && recorded.lost(drives).next().is_some()
        })
    }

    /// Takes the pages of the map as they were found. Where two segments claim the same space, the later one has it.
    pub fn load(&mut self, pages: &[Page], drives: &[Option<u64>]) {
        let mut found: Vec<(u32, Arc<Entry>)> = Vec::new();
        for page in pages {
            self.recorded.insert(page.number, vec![page.entries.clone()]);
            let first = page.number * ENTRIES as u32;
            let entries = (first..self.list.len() as u32).zip(&page.entries);
            found.extend(entries.filter_map(|(index, entry)| Some((index, entry.clone()?))));
        }
        for (index, entry) in found.iter_mut().filter(|(_, entry)| entry.filled > self.plan.rows) {
            Arc::make_mut(entry).filled = self.plan.rows;
            self.dirty.insert(*index / ENTRIES as u32);
        }
        // A drive that is not known any more has nothing to claim.
        let known = |column: &Column| drives.get(usize::from(column.slot)).is_some_and(Option::is_some);
        for (index, entry) in &mut found {
            if entry.columns.iter().flatten().any(|column| !known(column)) {
                let columns = &mut Arc::make_mut(entry).columns;
                columns.iter_mut().for_each(|column| *column = column.filter(|column| known(column)));
                self.dirty.insert(*index / ENTRIES as u32);
            }
        }
        found.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.placed));
        let mut spaces: Vec<Option<Free>> =
            drives.iter().map(|bytes| bytes.map(|bytes| Free::new(self.plan.granules(bytes)))).collect();
        for (index, entry) in found {
            let len = self.plan.chunk_pages(entry.form);
            let mut taken = Vec::new();
            let fits = entry.columns.iter().flatten().all(|column| {
                let space = spaces[usize::from(column.slot)].as_mut();
                let free = space.is_some_and(|free| free.take_at(column.granule, len));
                if free {
                    taken.push(*column);
                }
                free
            });
            if !fits {
                for column in taken {
                    if let Some(free) = &mut spaces[usize::from(column.slot)] {
                        free.give(column.granule, len);
                    }
                }
                self.dirty.insert(index / ENTRIES as u32);
                continue;
            }
            let segment = &mut self.list[index as usize];
            (segment.started, segment.answered) = (self.plan.rows, entry.filled);
            segment.entry = Some(entry);
            self.used += 1;
        }
    }
}
