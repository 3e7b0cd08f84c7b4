//! Allocation of free space: which drives and granules a segment gets.
//!
//! Pure, so that every rule can be tested without drives.

use crate::geometry::{MAX_COLUMNS, Profile};
use std::collections::BTreeMap;

/// Free granules of one drive.
#[derive(Clone, Debug, Default)]
pub struct Free {
    /// Length of each free run by its first granule.
    runs: BTreeMap<u32, u32>,
    /// Number of runs of each length.
    lengths: BTreeMap<u32, u32>,
    granules: u32,
    /// Nothing is allocated; what is freed is remembered.
    closed: bool,
    /// As if closed, for one placement.
    avoided: bool,
}

impl Free {
    /// A drive with this many free granules.
    pub fn new(granules: u32) -> Self {
        let mut free = Self::default();
        free.give(0, granules);
        free
    }

    /// Free granules, including those of a closed drive.
    pub fn left(&self) -> u32 {
        self.granules
    }

    /// Free granules that may be allocated.
    pub fn granules(&self) -> u32 {
        if self.is_closed() { 0 } else { self.granules }
    }

    /// Sets whether nothing may be allocated.
    pub fn close(&mut self, closed: bool) {
        self.closed = closed;
    }

    fn is_closed(&self) -> bool {
        self.closed || self.avoided
    }

    /// How many runs of `len` granules fit.
    fn fitting(&self, len: u32) -> u64 {
        if self.is_closed() {
            return 0;
        }
        self.lengths.iter().map(|(run, count)| u64::from(run / len) * u64::from(*count)).sum()
    }

    fn add_run(&mut self, start: u32, len: u32) {
        self.runs.insert(start, len);
        *self.lengths.entry(len).or_default() += 1;
    }

    /// The length of the run that begins there, which is no run any more.
    fn remove_run(&mut self, start: u32) -> Option<u32> {
        let len = self.runs.remove(&start)?;
        let count = self.lengths.get_mut(&len)?;
        *count -= 1;
        if *count == 0 {
            self.lengths.remove(&len);
        }
        Some(len)
    }

    /// Allocates `len` granules from the shortest run that has them (best fit).
    pub fn take(&mut self, len: u32) -> Option<u32> {
        if self.is_closed() {
            return None;
        }
        let fitting = self.runs.iter().filter(|(_, run)| **run >= len);
        let (start, _) =
            fitting.min_by_key(|(start, run)| (**run, **start)).map(|(start, run)| (*start, *run))?;
        self.take_at(start, len).then_some(start)
    }

    /// Allocates these granules; false if they are not all free.
    pub fn take_at(&mut self, start: u32, len: u32) -> bool {
        let Some((from, run)) = self.runs.range(..=start).next_back().map(|(from, run)| (*from, *run)) else {
            return false;
        };
        let (end, run_end) = (u64::from(start) + u64::from(len), u64::from(from) + u64::from(run));
        if len == 0 || end > run_end {
            return false;
        }
        self.remove_run(from);
        if start > from {
            self.add_run(from, start - from);
        }
        if run_end > end {
            self.add_run(end as u32, (run_end - end) as u32);
        }
        self.granules -= len;
        true
    }

    /// Frees granules.
    pub fn give(&mut self, start: u32, len: u32) {
        if len == 0 {
            return;
        }
        self.granules += len;
        let (mut start, mut len) = (start, len);
        if let Some((before, run)) = self.runs.range(..start).next_back().map(|(at, run)| (*at, *run)) {
            assert!(before + run <= start, "granules are given back once");
            if before + run == start {
                self.remove_run(before);
                (start, len) = (before, run + len);
            }
        }
        if let Some(run) = self.remove_run(start + len) {
            len += run;
        }
        self.add_run(start, len);
    }
}

/// Number of segments that could be placed, by the number of parity columns that all of them get.
pub type Rooms = [u32; 3];

/// Granules of a column of a segment with this many sectors of payload in a stripe.
fn column(profile: Profile, stripe_pages: u32) -> u32 {
    stripe_pages.div_ceil(u32::from(profile.data))
}

/// Free space of all drives, by slot.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// `None` where there is no drive.
    pub drives: Vec<Option<Free>>,
}

impl Space {
    fn open(&self) -> impl Iterator<Item = &Free> {
        self.drives.iter().flatten().filter(|free| !free.is_closed())
    }

    fn usable(&self) -> usize {
        self.open().count()
    }

    /// The most parity columns that the number of drives allows.
    pub fn max_parity(&self) -> u8 {
        Profile::of(self.usable()).parity
    }

    /// Number of segments of a profile that could be placed.
    fn room_for(&self, profile: Profile, stripe_pages: u32) -> u64 {
        let len = column(profile, stripe_pages);
        let fits: Vec<u64> = self.open().map(|free| free.fitting(len)).collect();
        let width = profile.width() as u64;
        if (fits.len() as u64) < width {
            return 0;
        }
        // The largest number for which every segment finds enough different drives; it only decreases.
        let mut room = fits.iter().sum::<u64>() / width;
        loop {
            let reached = fits.iter().map(|fit| (*fit).min(room)).sum::<u64>() / width;
            if reached >= room {
                return room;
            }
            room = reached;
        }
    }

    /// The profile with this many parity columns that leaves the most room.
    pub fn best(&self, parity: u8, stripe_pages: u32) -> Option<(u64, Profile)> {
        let most = self.usable().min(MAX_COLUMNS).saturating_sub(usize::from(parity)) as u8;
        let profiles = (1..=most).map(|data| Profile { data, parity });
        let rated = profiles.map(|profile| (self.room_for(profile, stripe_pages), profile));
        rated.filter(|(room, _)| *room > 0).max_by_key(|(room, profile)| (*room, profile.data))
    }

    /// Current room.
    pub fn rooms(&self, stripe_pages: u32) -> Rooms {
        // A mirror of two has one copy, not a second parity.
        let most = self.max_parity();
        [0, 1, 2].map(|parity| {
            let best = if parity <= most { self.best(parity, stripe_pages) } else { None };
            best.map_or(0, |(room, _)| u32::try_from(room).unwrap_or(u32::MAX))
        })
    }

    /// Allocates a segment with this many parity columns on the drives with most space. The slots come in the order of
    /// the columns.
    pub fn place(&mut self, parity: u8, stripe_pages: u32) -> Option<(Profile, Vec<(u8, u32)>)> {
        let (_, profile) = self.best(parity, stripe_pages)?;
        Some((profile, self.take(profile, column(profile, stripe_pages))?))
    }

    /// As [`Space::place`], without the drives in `avoided`; `None` if that would leave less parity.
    pub fn place_without(
        &mut self,
        avoided: impl Fn(usize) -> bool,
        parity: u8,
        stripe_pages: u32,
    ) -> Option<(Profile, Vec<(u8, u32)>)> {
        let set = |space: &mut Self, closed: bool| {
            let found = space.drives.iter_mut().enumerate().filter(|(slot, _)| avoided(*slot));
            found.filter_map(|(_, free)| free.as_mut()).for_each(|free| free.avoided = closed);
        };
        set(self, true);
        let placed = (self.max_parity() >= parity).then(|| self.place(parity, stripe_pages)).flatten();
        set(self, false);
        placed
    }

    fn take(&mut self, profile: Profile, len: u32) -> Option<Vec<(u8, u32)>> {
        let mut slots: Vec<(u64, u8)> = Vec::new();
        for (slot, free) in (0..).zip(&self.drives) {
            slots.extend(free.as_ref().map(|free| (free.fitting(len), slot)).filter(|(fits, _)| *fits > 0));
        }
        slots.sort_by_key(|(fits, slot)| (std::cmp::Reverse(*fits), *slot));
        slots.truncate(profile.width());
        slots.sort_by_key(|(_, slot)| *slot);
        if slots.len() < profile.width() {
            return None;
        }
        slots.iter().map(|(_, slot)| Some((*slot, self.take_on(*slot, len)?))).collect()
    }

    /// Allocates a run on one drive.
    pub fn take_on(&mut self, slot: u8, len: u32) -> Option<u32> {
        self.drives.get_mut(usize::from(slot))?.as_mut()?.take(len)
    }

    /// Frees a run; without effect on a drive that is not there.
    pub fn give(&mut self, slot: u8, start: u32, len: u32) {
        if let Some(Some(free)) = self.drives.get_mut(usize::from(slot)) {
            free.give(start, len);
        }
    }
}

#[cfg(test)]
#[path = "allocator_test.rs"]
mod tests;
