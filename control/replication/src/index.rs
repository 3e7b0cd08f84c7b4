//! Index of the target: where a block with a fingerprint was, so that it need not be sent again.
//!
//! It is a hint with a fixed size: an entry counts only after the block there was read and has the fingerprint.

use crate::fingerprint::Fingerprint;
use block::DiskId;

/// Entries with one hash, of which the oldest is replaced.
const WAYS: usize = 4;

#[derive(Clone, Copy, Default)]
struct Entry {
    /// A part of the fingerprint; zero if it is free.
    tag: u64,
    disk: u32,
    block: u64,
}

/// Places of blocks by fingerprint.
pub struct Index {
    entries: Vec<Entry>,
    disks: Vec<DiskId>,
    /// Which entry of a set is replaced next.
    turn: usize,
}

impl Index {
    /// An index of this many entries; of none it finds nothing.
    pub fn new(entries: usize) -> Self {
        Self { entries: vec![Entry::default(); entries / WAYS * WAYS], disks: Vec::new(), turn: 0 }
    }

    /// The entries that a fingerprint may be in, and its tag.
    fn set(&mut self, fingerprint: &Fingerprint) -> Option<(&mut [Entry], u64)> {
        let bits = u128::from_le_bytes(*fingerprint);
        let sets = (self.entries.len() / WAYS) as u64;
        let set = ((bits >> 64) as u64).checked_rem(sets)? as usize;
        Some((&mut self.entries[set * WAYS..][..WAYS], (bits as u64).max(1)))
    }

    /// Where a block with this fingerprint may be.
    pub fn find(&mut self, fingerprint: &Fingerprint) -> Option<(DiskId, u64)> {
        let (entries, tag) = self.set(fingerprint)?;
        let found = *entries.iter().find(|entry| entry.tag == tag)?;
        Some((*self.disks.get(found.disk as usize)?, found.block))
    }

    /// Notes where a block is.
    pub fn insert(&mut self, fingerprint: &Fingerprint, disk: DiskId, block: u64) {
        let number = self.disks.iter().rposition(|known| *known == disk).unwrap_or_else(|| {
            self.disks.push(disk);
            self.disks.len() - 1
        });
        self.turn = (self.turn + 1) % WAYS;
        let turn = self.turn;
        let Some((entries, tag)) = self.set(fingerprint) else { return };
        let known = entries.iter().position(|entry| entry.tag == tag || entry.tag == 0);
        entries[known.unwrap_or(turn)] = Entry { tag, disk: number as u32, block };
    }
}

#[cfg(test)]
#[path = "index_test.rs"]
mod tests;
