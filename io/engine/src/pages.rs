//! Metadata pages in memory, by number, which a checkpoint can freeze at one moment while they go on changing.
//!
//! A page is clean (equal to what the log holds), dirty, or frozen: dirty at the cut of the checkpoint that is being
//! written. Freezing costs nothing per page; the first change of a frozen page keeps its old version aside.

use crate::sharded_lock::note_use;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A hasher for keys that are small dense integers: one multiplication.
#[derive(Clone, Copy, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u128(&mut self, number: u128) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// A map with small integers as keys.
pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

struct Held<T> {
    body: Arc<T>,
    dirty: bool,
    frozen: bool,
    /// Set when used, cleared by the hand of the eviction clock.
    used: AtomicBool,
}

/// The pages of one kind, by number.
pub struct Pages<T> {
    held: NumberMap<u64, Held<T>>,
    dirty: Vec<u64>,
    kept: NumberMap<u64, Arc<T>>,
    frozen: usize,
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self { held: NumberMap::default(), dirty: Vec::new(), kept: NumberMap::default(), frozen: 0 }
    }
}

impl<T: Clone> Pages<T> {
    /// The page, if it is in memory.
    pub fn get(&self, number: u64) -> Option<&Arc<T>> {
        let held = self.held.get(&number)?;
        note_use(&held.used);
        Some(&held.body)
    }

    /// Number of pages in memory.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether the page is in memory and the next freeze takes it.
    pub fn is_dirty(&self, number: u64) -> bool {
        self.held.get(&number).is_some_and(|held| held.dirty)
    }

    /// Number of pages that changed since the last freeze, plus those still to be taken of it.
    pub fn dirty(&self) -> usize {
        self.dirty.len() + self.frozen
    }

    /// Adds a page that is new: dirty.
    pub fn create(&mut self, number: u64, page: T) {
        let held = Held { body: Arc::new(page), dirty: true, frozen: false, used: true.into() };
        self.dirty.push(number);
        let before = self.held.insert(number, held);
        assert!(before.is_none(), "page {number} exists");
    }

    /// Adds a page as the log has it: clean. One that is in memory already stays.
    pub fn load(&mut self, number: u64, page: T) -> bool {
        match self.held.entry(number) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                vacant.insert(Held { body: Arc::new(page), dirty: false, frozen: false, used: true.into() });
                true
            }
        }
    }

    /// The page to change it; it is dirty from now on. The second value is true if it was clean before.
    pub fn edit(&mut self, number: u64) -> Option<(&mut T, bool)> {
        let held = self.held.get_mut(&number)?;
        if held.frozen {
            held.frozen = false;
            self.frozen -= 1;
            self.kept.insert(number, held.body.clone());
        }
        let fresh = !held.dirty;
        if fresh {
            held.dirty = true;
            self.dirty.push(number);
        }
        Some((Arc::make_mut(&mut held.body), fresh))
    }

    /// A page that is not frozen, for a change that a checkpoint need not write.
    pub fn patch(&mut self, number: u64) -> Option<&mut T> {
        let held = self.held.get_mut(&number)?;
        assert!(!held.frozen, "page {number} is frozen");
        Some(Arc::make_mut(&mut held.body))
    }

    /// Replaces the body of a page by an equivalent one, if it is still the one that `seen` is.
    pub fn amend(&mut self, number: u64, seen: &Arc<T>, page: T) -> bool {
        match self.held.get_mut(&number) {
            Some(held) if Arc::ptr_eq(&held.body, seen) && !held.frozen => {
                held.body = Arc::new(page);
                true
            }
            _ => false,
        }
    }

    /// Forgets a page that is no longer part of anything.
    pub fn remove(&mut self, number: u64) {
        if let Some(held) = self.held.remove(&number)
            && held.frozen
        {
            self.frozen -= 1;
            self.kept.insert(number, held.body);
        }
    }

    /// Makes the dirty pages of this moment a frozen set and returns their numbers. No earlier set may be open.
    pub fn freeze(&mut self) -> Vec<u64> {
        assert!(self.kept.is_empty() && self.frozen == 0, "a frozen set is open");
        let mut numbers = std::mem::take(&mut self.dirty);
        numbers.sort_unstable();
        numbers.dedup();
        numbers.retain(|number| match self.held.get_mut(number) {
            Some(held) if held.dirty => {
                held.dirty = false;
                held.frozen = true;
                true
            }
            _ => false,
        });
        self.frozen = numbers.len();
        numbers
    }

    /// A page as it was when it was frozen; it leaves the frozen set.
    pub fn thaw(&mut self, number: u64) -> Option<Arc<T>> {
        if let Some(kept) = self.kept.remove(&number) {
            return Some(kept);
        }
        let held = self.held.get_mut(&number)?;
        assert!(held.frozen, "page {number} is not frozen");
        held.frozen = false;
        self.frozen -= 1;
        Some(held.body.clone())
    }

    /// If there are more than `max` pages, drops clean ones, first those that were not used since the last call, an
    /// eighth at a time, so that the walk over all of them is rare. Gives back memory that only a checkpoint needed.
    pub fn evict(&mut self, max: usize) {
        if self.held.len() <= max {
            return;
        }
        let mut excess = self.held.len() - max / 8 * 7;
        for _ in 0..2 {
            self.held.retain(|_, held| {
                let stays = excess == 0 || held.dirty || held.frozen || std::mem::take(held.used.get_mut());
                excess -= usize::from(!stays);
                stays
            });
        }
        if self.held.len() * 4 < self.held.capacity() {
            self.held.shrink_to(self.held.len() * 2);
        }
    }

    /// Every page in memory, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Arc<T>)> {
        self.held.iter().map(|(number, held)| (*number, &held.body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frozen_page_keeps_its_old_version_while_it_changes() {
        let mut pages = Pages::default();
        pages.create(1, 'a');
        pages.create(2, 'b');
        assert_eq!(pages.freeze(), [1, 2]);
        *pages.edit(1).unwrap().0 = 'x';
        pages.remove(2);
        assert_eq!(*pages.thaw(1).unwrap(), 'a');
        assert_eq!(*pages.thaw(2).unwrap(), 'b');
        assert_eq!(**pages.get(1).unwrap(), 'x');
        assert_eq!(pages.freeze(), [1], "changed after the freeze, so dirty for the next");
    }

    #[test]
    fn a_page_taken_unchanged_is_clean() {
        let mut pages = Pages::default();
        pages.create(1, 'a');
        pages.freeze();
        assert_eq!(*pages.thaw(1).unwrap(), 'a');
        assert_eq!(pages.dirty(), 0);
        assert_eq!(pages.freeze(), []);
    }

    #[test]
    fn dirty_pages_are_never_evicted() {
        let mut pages = Pages::default();
        pages.create(1, 'a');
        pages.load(2, 'b');
        pages.evict(0);
        pages.evict(0);
        assert_eq!(pages.len(), 1);
        assert!(pages.get(1).is_some());
    }
}
