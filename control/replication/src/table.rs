//! Table of a fixed size: values by hash and tag; newer values evict older ones.

/// Entries for one hash, of which the oldest is replaced.
const WAYS: usize = 4;

#[derive(Clone, Copy, Default)]
struct Entry<V> {
    /// Zero in a free entry.
    tag: u64,
    value: V,
}

/// A cache of values, found until newer ones evict them.
pub struct Table<V> {
    entries: Vec<Entry<V>>,
    /// The entry of a set that is replaced next.
    turn: usize,
}

impl<V: Copy + Default> Table<V> {
    /// A table with this many entries; with zero it finds nothing.
    pub fn new(entries: usize) -> Self {
        Self { entries: vec![Entry::default(); entries / WAYS * WAYS], turn: 0 }
    }

    /// The entries for a hash.
    fn set(&mut self, hash: u64) -> Option<&mut [Entry<V>]> {
        let sets = (self.entries.len() / WAYS) as u64;
        let set = hash.checked_rem(sets)? as usize;
        Some(&mut self.entries[set * WAYS..][..WAYS])
    }

    /// The newest value with this hash and non-zero tag.
    pub fn find(&mut self, hash: u64, tag: u64) -> Option<V> {
        Some(self.set(hash)?.iter().find(|entry| entry.tag == tag)?.value)
    }

    /// Inserts a value, replacing an older one with the same hash and non-zero tag.
    pub fn insert(&mut self, hash: u64, tag: u64, value: V) {
        self.turn = (self.turn + 1) % WAYS;
        let turn = self.turn;
        let Some(entries) = self.set(hash) else { return };
        let known = entries.iter().position(|entry| entry.tag == tag || entry.tag == 0);
        entries[known.unwrap_or(turn)] = Entry { tag, value };
    }
}
