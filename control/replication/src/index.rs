//! Fingerprint index of the target: possible locations of blocks, which then need not be sent.
//!
//! The index is a hint of fixed size: an entry counts only after the block was read and has the fingerprint.

use crate::fingerprint::Fingerprint;
use crate::table::Table;
use block::DiskId;

#[derive(Clone, Copy, Default)]
struct Place {
    /// Index of the disk in the list of known disks.
    disk: u32,
    block: u64,
}

/// Locations of blocks by fingerprint.
pub struct Index {
    places: Table<Place>,
    disks: Vec<DiskId>,
}

/// Hash and tag: parts of a fingerprint.
fn key(fingerprint: &Fingerprint) -> (u64, u64) {
    let bits = u128::from_le_bytes(*fingerprint);
    ((bits >> 64) as u64, (bits as u64).max(1))
}

impl Index {
    /// An index with this many entries; with zero it finds nothing.
    pub fn new(entries: usize) -> Self {
        Self { places: Table::new(entries), disks: Vec::new() }
    }

    /// Possible location of a block with this fingerprint.
    pub fn find(&mut self, fingerprint: &Fingerprint) -> Option<(DiskId, u64)> {
        let (hash, tag) = key(fingerprint);
        let found = self.places.find(hash, tag)?;
        Some((*self.disks.get(found.disk as usize)?, found.block))
    }

    /// Records the location of a block.
    pub fn insert(&mut self, fingerprint: &Fingerprint, disk: DiskId, block: u64) {
        let number = self.disks.iter().rposition(|known| *known == disk).unwrap_or_else(|| {
            self.disks.push(disk);
            self.disks.len() - 1
        });
        let (hash, tag) = key(fingerprint);
        self.places.insert(hash, tag, Place { disk: number as u32, block });
    }
}

#[cfg(test)]
#[path = "index_test.rs"]
mod tests;
