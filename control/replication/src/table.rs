//! Table of a fixed size: values by hash and tag; newer values evict older ones.

/// Entries with one hash, of which the oldest is replaced.
const WAYS: usize = 4;

#[derive(Clone, Copy, Default)]
struct Entry<V> {
    /// Zero if it is free.
    tag: u64,
    value: V,
}

/// Values that are found again as long as newer ones leave them their place.
pub struct Table<V> {
    entries: Vec<Entry<V>>,
    /// The entry of a set that is replaced next.
    turn: usize,
}

impl<V: Copy + Default> Table<V> {
    /// A table of this many entries; of none it finds nothing.
    pub fn new(entries: usize) -> Self {
        Self { entries: vec![Entry::default(); entries / WAYS * WAYS], turn: 0 }
    }

    /// The entries that a hash may be in.
    fn set(&mut self, hash: u64) -> Option<&mut [Entry<V>]> {
        let sets = (self.entries.len() / WAYS) as u64;
        let set = hash.checked_rem(sets)? as usize;
        Some(&mut self.entries[set * WAYS..][..WAYS])
    }

    /// The newest value with this hash and tag, which is not zero.
    pub fn find(&mut self, hash: u64, tag: u64) -> Option<V> {
        Some(self.set(hash)?.iter().find(|entry| entry.tag == tag)?.value)
    }

    /// Notes a value in the place of an older one with this hash and tag, which is not zero.
    pub fn insert(&mut self, hash: u64, tag: u64, value: V) {
        self.turn = (self.turn + 1) % WAYS;
        let turn = self.turn;
        let Some(entries) = self.set(hash) else { return };
        let known = entries.iter().position(|entry| entry.tag == tag || entry.tag == 0);
        entries[known.unwrap_or(turn)] = Entry { tag, value };
    }
}
