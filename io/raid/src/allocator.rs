//! Free space on the drives, and the choice of drives for a segment. Pure.

use crate::geometry::{Form, MOST_COLUMNS};
use std::collections::BTreeMap;

/// Free granules of one drive.
#[derive(Clone, Debug, Default)]
pub struct Free {
    /// Length of each free run by its first granule.
    runs: BTreeMap<u32, u32>,
    granules: u32,
    /// Nothing is taken; what is given back is kept in mind.
    closed: bool,
    /// For one choice of place, as if it were closed.
    avoided: bool,
}

impl Free {
    /// All of so many granules.
    pub fn new(granules: u32) -> Self {
        let mut free = Self::default();
        free.give(0, granules);
        free
    }

    /// Free granules, whether or not they may be taken.
    pub fn left(&self) -> u32 {
        self.granules
    }

    /// Free granules that may be taken.
    pub fn granules(&self) -> u32 {
        if self.is_closed() { 0 } else { self.granules }
    }

    /// Says whether something may be taken.
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
        self.runs.values().map(|run| u64::from(run / len)).sum()
    }

    /// Takes `len` granules out of the shortest run that has them.
    pub fn take(&mut self, len: u32) -> Option<u32> {
        if self.is_closed() {
            return None;
        }
        let fitting = self.runs.iter().filter(|(_, run)| **run >= len);
        let (start, _) =
            fitting.min_by_key(|(start, run)| (**run, **start)).map(|(start, run)| (*start, *run))?;
        self.take_at(start, len).then_some(start)
    }

    /// Takes these granules; false when they are not all free.
    pub fn take_at(&mut self, start: u32, len: u32) -> bool {
        let Some((from, run)) = self.runs.range(..=start).next_back().map(|(from, run)| (*from, *run)) else {
            return false;
        };
        let (end, run_end) = (u64::from(start) + u64::from(len), u64::from(from) + u64::from(run));
        if len == 0 || end > run_end {
            return false;
        }
        self.runs.remove(&from);
        if start > from {
            self.runs.insert(from, start - from);
        }
        if run_end > end {
            self.runs.insert(end as u32, (run_end - end) as u32);
        }
        self.granules -= len;
        true
    }

    /// Gives granules back.
    pub fn give(&mut self, start: u32, len: u32) {
        if len == 0 {
            return;
        }
        self.granules += len;
        let (mut start, mut len) = (start, len);
        if let Some((before, run)) = self.runs.range(..start).next_back().map(|(at, run)| (*at, *run)) {
            assert!(before + run <= start, "granules are given back once");
            if before + run == start {
                self.runs.remove(&before);
                (start, len) = (before, run + len);
            }
        }
        if let Some(run) = self.runs.remove(&(start + len)) {
            len += run;
        }
        self.runs.insert(start, len);
    }
}

/// How many segments could be placed, by the number of parity columns that all of them are to have.
pub type Rooms = [u32; 3];

/// Granules of a column of a segment with so many sectors of payload in a stripe.
fn column(form: Form, stripe_pages: u32) -> u32 {
    stripe_pages.div_ceil(u32::from(form.data))
}

/// Free space of all drives that may be written, by slot.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// None where there is no drive.
    pub drives: Vec<Option<Free>>,
}

impl Space {
    fn open(&self) -> impl Iterator<Item = &Free> {
        self.drives.iter().flatten().filter(|free| !free.is_closed())
    }

    fn usable(&self) -> usize {
        self.open().count()
    }

    /// The most parity columns that there are drives for.
    pub fn most_parity(&self) -> u8 {
        Form::of(self.usable()).parity
    }

    /// Segments of a form that could be placed.
    fn room_for(&self, form: Form, stripe_pages: u32) -> u64 {
        let len = column(form, stripe_pages);
        let fits: Vec<u64> = self.open().map(|free| free.fitting(len)).collect();
        let width = form.width() as u64;
        if (fits.len() as u64) < width {
            return 0;
        }
        // The most for which every segment finds enough different drives; it only falls.
        let mut room = fits.iter().sum::<u64>() / width;
        loop {
            let reached = fits.iter().map(|fit| (*fit).min(room)).sum::<u64>() / width;
            if reached >= room {
                return room;
            }
            room = reached;
        }
    }

    /// The form with so many parity columns that leaves most room.
    fn best(&self, parity: u8, stripe_pages: u32) -> Option<(u64, Form)> {
        let most = self.usable().min(MOST_COLUMNS).saturating_sub(usize::from(parity)) as u8;
        let forms = (1..=most).map(|data| Form { data, parity });
        let rated = forms.map(|form| (self.room_for(form, stripe_pages), form));
        rated.filter(|(room, _)| *room > 0).max_by_key(|(room, form)| (*room, form.data))
    }

    /// What there is room for now.
    pub fn rooms(&self, stripe_pages: u32) -> Rooms {
        // A mirror of two carries one copy, not a parity that nobody needs.
        let most = self.most_parity();
        [0, 1, 2].map(|parity| {
            let best = if parity <= most { self.best(parity, stripe_pages) } else { None };
            best.map_or(0, |(room, _)| u32::try_from(room).unwrap_or(u32::MAX))
        })
    }

    /// Takes space for a segment with so many parity columns, on the drives that have most. The slots come in the order
    /// of the columns.
    pub fn place(&mut self, parity: u8, stripe_pages: u32) -> Option<(Form, Vec<(u8, u32)>)> {
        let (_, form) = self.best(parity, stripe_pages)?;
        Some((form, self.take(form, column(form, stripe_pages))?))
    }

    /// As [`Space::place`], on other drives than those in `avoided`; none when that would leave less parity.
    pub fn place_without(
        &mut self,
        avoided: impl Fn(usize) -> bool,
        parity: u8,
        stripe_pages: u32,
    ) -> Option<(Form, Vec<(u8, u32)>)> {
        let set = |space: &mut Self, closed: bool| {
            let found = space.drives.iter_mut().enumerate().filter(|(slot, _)| avoided(*slot));
            found.filter_map(|(_, free)| free.as_mut()).for_each(|free| free.avoided = closed);
        };
        set(self, true);
        let placed = (self.most_parity() >= parity).then(|| self.place(parity, stripe_pages)).flatten();
        set(self, false);
        placed
    }

    fn take(&mut self, form: Form, len: u32) -> Option<Vec<(u8, u32)>> {
        let mut slots: Vec<(u64, u8)> = Vec::new();
        for (slot, free) in (0..).zip(&self.drives) {
            slots.extend(free.as_ref().map(|free| (free.fitting(len), slot)).filter(|(fits, _)| *fits > 0));
        }
        slots.sort_by_key(|(fits, slot)| (std::cmp::Reverse(*fits), *slot));
        slots.truncate(form.width());
        slots.sort_by_key(|(_, slot)| *slot);
        if slots.len() < form.width() {
            return None;
        }
        slots.iter().map(|(_, slot)| Some((*slot, self.take_on(*slot, len)?))).collect()
    }

    /// Takes a run on one drive.
    pub fn take_on(&mut self, slot: u8, len: u32) -> Option<u32> {
        self.drives.get_mut(usize::from(slot))?.as_mut()?.take(len)
    }

    /// Gives a run back; on a drive that is not there, nothing happens.
    pub fn give(&mut self, slot: u8, start: u32, len: u32) {
        if let Some(Some(free)) = self.drives.get_mut(usize::from(slot)) {
            free.give(start, len);
        }
    }
}

#[cfg(test)]
#[path = "allocator_test.rs"]
mod tests;
