//! State of the segments in memory: place, written rows and free space, under one lock.
//!
//! No I/O happens here, so that every decision about space is made in one consistent state.

use super::DriveShelf;
use crate::Room;
use crate::allocator::{Free, Rooms, Space};
use crate::geometry::{Geometry, Profile};
use crate::segment_map::{Column, ENTRIES_PER_PAGE, Entry, Page};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The segments of a page of the map.
type Entries = Vec<Option<Arc<Entry>>>;

pub type Deferred = Box<dyn FnOnce(&DriveShelf) + Send>;

/// Free segments that rebuild never uses, at least. The engine needs some to clean others, which returns the space
/// that rebuild lacks.
const MIN_RESERVED_SEGMENTS: u32 = 10;

/// One segment.
#[derive(Default)]
pub struct Segment {
    /// Its place; `None` if it is free.
    pub entry: Option<Arc<Entry>>,
    /// Rows for which a write was submitted: all before this.
    pub started: u32,
    /// Rows that this owner has begun to write, as a set of bits: none is ever written again.
    begun: SmallVec<[u64; 1]>,
    /// No row from here on has completed. Some before it may be missing: they are in flight, or were at a crash.
    pub completed: u32,
    pub in_flight: u32,
    /// Writes submitted, ever.
    asked: u64,
    /// Something was written that no sync has covered.
    pub unsynced: bool,
    /// Operations that wait while the segment is moved.
    pub gate: Option<Vec<Deferred>>,
    /// Operations that wait while space is reserved for it.
    pub allocating: Option<Vec<Deferred>>,
    /// It is to be discarded: see [`Segments::doom`].
    doomed: bool,
    /// Called when no write is in flight.
    pub drained: Option<crate::Done<()>>,
}

impl Segment {
    fn clear(&mut self) {
        (self.started, self.completed, self.unsynced, self.doomed) = (0, 0, false, false);
        self.begun.clear();
    }
}

pub struct Segments {
    plan: Geometry,
    pub list: Vec<Segment>,
    /// Number of segments that the labels state: no more are announced to the engine.
    pub announced: u32,
    pub space: Space,
    /// Pages of the map that have changed since they were last taken to be written.
    pub dirty: BTreeSet<u32>,
    /// Versions of each page of the map that the drives may have, which is what counts after a crash: the last one
    /// written, and those being written.
    recorded: BTreeMap<u32, Vec<Entries>>,
    /// Counter for generations and placements: higher than all before, also those of older owners.
    next_stamp: u64,
    /// Of this owner.
    salt: u64,
    used: u32,
    /// Members that there should be, and how many of them have failed.
    members: (usize, usize),
    /// Cached until something changes.
    rooms: Option<Rooms>,
    /// Slots of slow drives.
    slow: u64,
    /// Discards in flight, and the operations that wait until there are none.
    pub discarding: u32,
    pub waiting: Vec<Deferred>,
    /// Segments to be discarded when those in flight have ended. Until then they keep their place, which nothing else gets.
    doomed: VecDeque<u32>,
    /// They are being discarded now.
    pub discards_doomed: bool,
}

/// What a sync that begins now makes durable of a segment.
pub struct SyncCoverage {
    segment: u32,
    generation: u64,
    /// No row from here on had completed.
    rows: u32,
    /// The writes submitted so far if all had completed; others may reach the drives after the sync.
    whole: Option<u64>,
}

/// What the present drives can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Segments, those in use included.
    pub segments: u32,
    /// Bytes of the parity columns that they have then.
    pub parity_bytes: u64,
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
            announced: count,
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
            doomed: VecDeque::new(),
            discards_doomed: false,
        }
    }

    /// Adds the space of a drive; what the map names on it is in use.
    pub fn add_space(&mut self, slot: usize, bytes: u64) {
        let drives = &mut self.space.drives;
        if drives.len() <= slot {
            drives.resize(slot + 1, None);
        }
        let mut free = Free::new(self.plan.granules(bytes));
        for entry in self.list.iter().filter_map(|segment| segment.entry.as_ref()) {
            let len = self.plan.chunk_pages(entry.profile);
            for column in entry.columns.iter().flatten().filter(|column| usize::from(column.slot) == slot) {
                free.take_at(column.granule, len);
            }
        }
        drives[slot] = Some(free);
        self.rooms = None;
        self.set_slow(slot, false);
    }

    /// Sets whether anything more is placed on a drive.
    pub fn set_closed(&mut self, slot: usize, closed: bool) {
        if let Some(Some(free)) = self.space.drives.get_mut(slot) {
            free.close(closed);
        }
        self.rooms = None;
    }

    /// Sets whether new columns avoid a drive because it is slow. Its space counts nevertheless, and is used when
    /// there is no other way.
    pub fn set_slow(&mut self, slot: usize, avoid: bool) {
        self.slow = self.slow & !(1 << slot) | u64::from(avoid) << slot;
    }

    /// A drive has failed: columns that it may not have completely are stale.
    pub fn drop_drive(&mut self, slot: usize) {
        if let Some(free) = self.space.drives.get_mut(slot) {
            *free = None;
        }
        self.rooms = None;
        self.set_slow(slot, false);
        let rows = self.plan.rows;
        for (index, segment) in self.list.iter_mut().enumerate() {
            let incomplete = segment.unsynced || (segment.started > 0 && segment.started < rows);
            let Some(entry) = segment.entry.as_mut().filter(|_| incomplete) else { continue };
            let on_it = |column: &Column| usize::from(column.slot) == slot && !column.stale;
            if entry.columns.iter().flatten().any(on_it) {
                let columns = Arc::make_mut(entry).columns.iter_mut().flatten();
                columns.filter(|column| on_it(column)).for_each(|column| column.stale = true);
                self.dirty.insert(index as u32 / ENTRIES_PER_PAGE as u32);
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

    /// Parity columns of segments that are placed now. Space for the reserved segments comes before the second parity
    /// column: after drive failures there may not be enough for both.
    fn parity(&mut self) -> u8 {
        let (members, out) = self.members;
        let least = Profile::of(members).parity.saturating_sub(out.min(2) as u8).min(1);
        let (rooms, promised) = (self.rooms(), self.reserved().max(1));
        let most = self.space.max_parity();
        let enough = |parity: &u8| rooms[usize::from(*parity)] >= promised;
        let roomiest = || (least..=most).max_by_key(|parity| rooms[usize::from(*parity)]);
        (least..=most).rev().find(enough).or_else(roomiest).unwrap_or(most)
    }

    /// Segments that can be placed.
    pub fn room(&mut self) -> u32 {
        let parity = self.parity();
        self.rooms()[usize::from(parity)]
    }

    /// Segments that can be placed with all the parity that the present drives allow.
    pub fn room_protected(&mut self) -> u32 {
        let most = self.space.max_parity();
        self.rooms()[usize::from(most)]
    }

    /// Segments that can be placed, and how many of them without reducing redundancy: theirs, or that of segments that
    /// a rebuild needs space for. `below`: segments that the backing file systems have space for, of which the
    /// reserved ones are kept for cleaning.
    pub fn reported_room(&mut self, below: Option<u32>) -> Room {
        let (protected, free) = (self.room_protected(), self.list.len() as u32 - self.used);
        // If every free segment fits with full parity, rebuild needs no reserve.
        let kept = if protected < free { self.reserved() } else { 0 };
        // A write that has no room but theirs waits for it.
        let doomed = self.doomed.len().min(self.used as usize) as u32;
        let room = Room { protected: protected.saturating_sub(kept) + doomed, any: self.room() + doomed };
        let Some(below) = below.map(|below| below.saturating_add(doomed)) else { return room };
        let protected =
            room.protected.min(below.saturating_sub(self.reserved_of(self.used + free.min(below))));
        // A checkpoint that finds no space waits for it; one without any room stops the engine.
        Room { protected, any: room.any.min(below.max(super::PLACEMENT_RESERVE_SEGMENTS + 1)) }
    }

    /// Segments that can be placed with the parity that they get once no drive is failed: the engine must not count on
    /// more.
    pub fn lasting_room(&mut self) -> u32 {
        let parity = Profile::of(self.members.0).parity.min(self.space.max_parity());
        self.rooms()[usize::from(parity)]
    }

    /// What the present drives can hold: the segments in use as they are, and as many more as there is room for with the
    /// parity that they get now. Columns on failed drives do not count: neither does the size of those drives.
    pub fn capacity(&mut self) -> Capacity {
        let parity = self.parity();
        let (room, profile) =
            self.space.best(parity, self.plan.stripe_pages).unwrap_or((0, Profile { data: 1, parity }));
        let room = u32::try_from(room).unwrap_or(u32::MAX).min(self.announced.saturating_sub(self.used));
        let column_bytes =
            |profile: Profile| u64::from(self.plan.chunk_pages(profile)) * self.plan.granule_bytes();
        let is_present = |slot: u8| matches!(self.space.drives.get(usize::from(slot)), Some(Some(_)));
        let stored = self.current().map(|entry| {
            let columns =
                entry.columns.iter().flatten().filter(|column| is_present(column.slot)).count() as u64;
            columns.saturating_sub(entry.profile.data.into()) * column_bytes(entry.profile)
        });
        let stored: u64 = stored.sum();
        Capacity {
            segments: self.used + room,
            parity_bytes: stored + u64::from(room) * u64::from(profile.parity) * column_bytes(profile),
        }
    }

    /// Segments in use.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Free segments that are reserved for the engine; the rest of the free space is for rebuild.
    pub fn reserved(&self) -> u32 {
        self.reserved_of(self.list.len() as u32)
    }

    /// The same, of as many segments as there can be with the space below the drives.
    fn reserved_of(&self, count: u32) -> u32 {
        let free = self.list.len() as u32 - self.used;
        free.min((count / 32).max(MIN_RESERVED_SEGMENTS))
    }

    fn stamp(&mut self) -> u64 {
        self.next_stamp += 1;
        self.next_stamp
    }

    /// Places a free segment; `None` if there is no room.
    pub fn place(&mut self, segment: u32) -> Option<Arc<Entry>> {
        let (generation, salt) = (self.stamp(), self.salt);
        let entry = Arc::new(self.take(segment, (generation, salt))?);
        self.used += 1;
        self.list[segment as usize].entry = Some(entry.clone());
        self.dirty.insert(segment / ENTRIES_PER_PAGE as u32);
        Some(entry)
    }

    /// Allocates a new copy of a segment in use, if the reserved space is not needed for it.
    pub fn place_again(&mut self, segment: u32, old: &Entry) -> Option<Entry> {
        let entry = self.take(segment, (old.generation, old.salt))?;
        if self.room() < self.reserved() {
            self.give(&entry);
            return None;
        }
        Some(entry)
    }

    fn take(&mut self, segment: u32, (generation, salt): (u64, u64)) -> Option<Entry> {
        let parity = self.parity();
        let avoiding = self.place_on_prompt_drives(parity);
        let (profile, mut columns) = match avoiding {
            Some(placed) => placed,
            None => self.space.place(parity, self.plan.stripe_pages)?,
        };
        self.rooms = None;
        columns.rotate_left(segment as usize % profile.width());
        let columns = columns
            .iter()
            .map(|(slot, granule)| Some(Column { slot: *slot, granule: *granule, stale: false }));
        let columns = columns.collect();
        Some(Entry { generation, salt, placed: self.stamp(), filled: 0, profile, columns })
    }

    /// Allocates without slow drives if that costs neither parity nor room: every free segment must still fit with the
    /// same parity on all drives, including slow ones.
    fn place_on_prompt_drives(&mut self, parity: u8) -> Option<(Profile, Vec<(u8, u32)>)> {
        let stripe_pages = self.plan.stripe_pages;
        let free = (self.list.len() as u32).saturating_sub(self.used + 1);
        if self.slow == 0 || parity < self.space.max_parity() {
            return None;
        }
        let slow = self.slow;
        let avoided = |slot: usize| slot < u64::BITS as usize && slow >> slot & 1 == 1;
        let (profile, columns) = self.space.place_without(avoided, parity, stripe_pages)?;
        self.rooms = None;
        if self.rooms()[usize::from(parity)] < free {
            let len = stripe_pages.div_ceil(u32::from(profile.data));
            columns.iter().for_each(|(slot, granule)| self.space.give(*slot, *granule, len));
            self.rooms = None;
            return None;
        }
        Some((profile, columns))
    }

    /// Allocates one column of a segment on a drive that has none of it.
    pub fn take_column(&mut self, entry: &Entry) -> Option<Column> {
        let len = self.plan.chunk_pages(entry.profile);
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
                if self.room() >= self.reserved() {
                    return Some(Column { slot, granule, stale: false });
                }
                self.space.give(slot, granule, len);
                self.rooms = None;
            }
        }
        None
    }

    /// Frees the space of an entry.
    pub fn give(&mut self, entry: &Entry) {
        entry.columns.iter().flatten().for_each(|column| self.give_column(entry.profile, *column));
    }

    /// Frees the space of one column.
    pub fn give_column(&mut self, profile: Profile, column: Column) {
        self.space.give(column.slot, column.granule, self.plan.chunk_pages(profile));
        self.rooms = None;
    }

    /// Replaces the entry of a segment; false if it is not of the expected generation.
    pub fn replace(&mut self, segment: u32, expected: u64, mut entry: Entry) -> bool {
        entry.placed = self.stamp();
        let found = &mut self.list[segment as usize].entry;
        if found.as_ref().map(|entry| entry.generation) != Some(expected) {
            return false;
        }
        *found = Some(Arc::new(entry));
        self.dirty.insert(segment / ENTRIES_PER_PAGE as u32);
        true
    }

    /// A segment is to be discarded later. It keeps its place, so that nothing else is written there before; after a crash it is in
    /// use as any other one, and the engine discards it again.
    pub fn doom(&mut self, segment: u32) {
        let found = &mut self.list[segment as usize];
        if found.entry.is_some() && !std::mem::replace(&mut found.doomed, true) {
            self.doomed.push_back(segment);
        }
    }

    /// Frees a segment, and counts its discard as begun; returns the runs to discard.
    pub fn begin_discard(&mut self, segment: u32) -> Vec<Run> {
        let runs = self.free(segment);
        self.discarding += u32::from(!runs.is_empty());
        runs
    }

    /// The next segment that is to be discarded.
    pub fn next_doomed(&mut self) -> Option<u32> {
        // Those that were written again were discarded before.
        while let Some(segment) = self.doomed.pop_front() {
            if std::mem::take(&mut self.list[segment as usize].doomed) {
                return Some(segment);
            }
        }
        None
    }

    /// Whether a segment is to be discarded.
    pub fn is_doomed(&self, segment: u32) -> bool {
        self.list[segment as usize].doomed
    }

    /// Whether a new segment has to wait for space that is to be discarded: with what is free now it would have less parity.
    pub fn awaits_doomed(&mut self) -> bool {
        !self.doomed.is_empty() && self.room_protected() <= self.reserved().max(1)
    }

    fn free(&mut self, segment: u32) -> Vec<Run> {
        let found = &mut self.list[segment as usize];
        let Some(entry) = found.entry.take() else { return Vec::new() };
        found.clear();
        self.used -= 1;
        self.give(&entry);
        self.dirty.insert(segment / ENTRIES_PER_PAGE as u32);
        let bytes = u64::from(self.plan.chunk_pages(entry.profile)) * self.plan.granule_bytes();
        let at = |column: &Column| self.plan.page_at(entry.profile, column.granule, 0, 0);
        let columns = entry.columns.iter().flatten();
        columns.map(|column| Run { slot: usize::from(column.slot), at: at(column), bytes }).collect()
    }

    /// Begins a write of rows.
    ///
    /// # Panics
    /// When one of them was written before, or an older owner began the segment: a nonce would be used twice.
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
        found.in_flight += 1;
        found.asked += 1;
        found.unsynced = true;
        found.started = found.started.max(rows.1);
    }

    /// A write of rows has completed; returns what waits for the last one.
    pub fn written(&mut self, segment: u32, generation: u64, rows: (u32, u32)) -> Option<crate::Done<()>> {
        let found = &mut self.list[segment as usize];
        found.in_flight -= 1;
        if found.entry.as_ref().is_some_and(|entry| entry.generation == generation) {
            found.completed = found.completed.max(rows.1);
        }
        if found.in_flight == 0 { found.drained.take() } else { None }
    }

    /// Segments with something that no sync has covered.
    pub fn unsynced(&self) -> Vec<SyncCoverage> {
        let used = (0..).zip(&self.list).filter(|(_, segment)| segment.unsynced);
        let covered = |(index, segment): (u32, &Segment)| {
            let whole = (segment.in_flight == 0).then_some(segment.asked);
            let generation = segment.entry.as_ref()?.generation;
            Some(SyncCoverage { segment: index, generation, rows: segment.completed, whole })
        };
        used.filter_map(covered).collect()
    }

    /// A sync has completed; returns a segment that too few drives hold.
    pub fn synced(&mut self, covered: &[SyncCoverage]) -> Option<u32> {
        let mut lost = None;
        for SyncCoverage { segment: index, generation, rows, whole } in covered {
            let segment = &mut self.list[*index as usize];
            let Some(entry) = segment.entry.as_mut().filter(|entry| entry.generation == *generation) else {
                continue;
            };
            if *whole == Some(segment.asked) {
                segment.unsynced = false;
            }
            let present = entry.columns.iter().flatten().filter(|column| !column.stale).count();
            if present < usize::from(entry.profile.data) {
                lost = Some(*index);
            }
            if entry.filled != *rows {
                Arc::make_mut(entry).filled = *rows;
                self.dirty.insert(index / ENTRIES_PER_PAGE as u32);
            }
        }
        lost
    }

    /// Takes the changed pages of the map, as they are now, to be written.
    pub fn take_dirty(&mut self) -> Vec<(u32, Entries)> {
        let dirty = std::mem::take(&mut self.dirty);
        let mut pages = Vec::with_capacity(dirty.len());
        for number in dirty {
            let from = number as usize * ENTRIES_PER_PAGE;
            let entries = self.list.iter().skip(from).take(ENTRIES_PER_PAGE);
            let page: Entries = entries.map(|segment| segment.entry.clone()).collect();
            self.recorded.entry(number).or_default().push(page.clone());
            pages.push((number, page));
        }
        pages
    }

    /// These pages are durable as they were taken.
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

    /// Everything that must stay readable: the segments as they are now, and as the map on the drives has them: after
    /// a crash what was discarded or moved since is back.
    pub fn needed(&self) -> impl Iterator<Item = &Entry> {
        let recorded = self.recorded.values().flatten().flatten().flatten().map(|entry| &**entry);
        self.current().chain(recorded.filter(|entry| entry.filled > 0))
    }

    /// True if the map on the drives still refers to columns outside of these drives that no segment has any more.
    pub fn is_outdated(&self, drives: u64) -> bool {
        let pages =
            self.recorded.iter().flat_map(|(number, pages)| pages.iter().map(move |it| (*number, it)));
        let mut entries = pages.flat_map(|(number, page)| (number as usize * ENTRIES_PER_PAGE..).zip(page));
        entries.any(|(index, recorded)| {
            let (Some(recorded), Some(segment)) = (recorded, self.list.get(index)) else { return false };
            let is_now = segment.entry.as_ref().is_some_and(|now| now.placed == recorded.placed);
            !is_now && recorded.lost(drives).next().is_some()
        })
    }

    /// Loads the pages of the map. If two segments claim the same space, the one placed later has it.
    pub fn load(&mut self, pages: &[Page], drives: &[Option<u64>]) {
        let mut found: Vec<(u32, Arc<Entry>)> = Vec::new();
        for page in pages {
            self.recorded.insert(page.number, vec![page.entries.clone()]);
            let first = page.number * ENTRIES_PER_PAGE as u32;
            let entries = (first..self.list.len() as u32).zip(&page.entries);
            found.extend(entries.filter_map(|(index, entry)| Some((index, entry.clone()?))));
        }
        for (index, entry) in found.iter_mut().filter(|(_, entry)| entry.filled > self.plan.rows) {
            Arc::make_mut(entry).filled = self.plan.rows;
            self.dirty.insert(*index / ENTRIES_PER_PAGE as u32);
        }
        // A drive that is no member any more has nothing to claim.
        let known = |column: &Column| drives.get(usize::from(column.slot)).is_some_and(Option::is_some);
        for (index, entry) in &mut found {
            if entry.columns.iter().flatten().any(|column| !known(column)) {
                let columns = &mut Arc::make_mut(entry).columns;
                columns.iter_mut().for_each(|column| *column = column.filter(|column| known(column)));
                self.dirty.insert(*index / ENTRIES_PER_PAGE as u32);
            }
        }
        found.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.placed));
        let mut spaces: Vec<Option<Free>> =
            drives.iter().map(|bytes| bytes.map(|bytes| Free::new(self.plan.granules(bytes)))).collect();
        for (index, entry) in found {
            let len = self.plan.chunk_pages(entry.profile);
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
                self.dirty.insert(index / ENTRIES_PER_PAGE as u32);
                continue;
            }
            let segment = &mut self.list[index as usize];
            (segment.started, segment.completed) = (self.plan.rows, entry.filled);
            segment.entry = Some(entry);
            self.used += 1;
        }
    }
}
