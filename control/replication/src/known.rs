//! Cache of fingerprints of stored blocks: a block shared by many volumes is read and hashed once.
//!
//! The key is the engine's identity of a block, which stands for its content ([`engine::Stored`]), so no entry has to
//! be invalidated when blocks are moved or overwritten. The size is fixed.

use crate::disk::{self, BLOCK_BYTES};
use crate::fingerprint::{Fingerprint, Key};
use crate::table::Table;
use crate::{Error, Result};
use block::{Disk, DiskId};
use bytes::Bytes;
use engine::{Engine, Stored};
use parking_lot::Mutex;
use std::sync::Arc;

/// Multiplier that spreads identities, most of which are consecutive.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Fingerprints by identity, for one engine and key.
pub struct Known(Table<Fingerprint>);

/// Hash and tag of an identity.
fn key(identity: u64) -> Option<(u64, u64)> {
    Some((identity.wrapping_mul(SPREAD) >> 16, identity.checked_add(1)?))
}

/// A block of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The block reads as zeros.
    Zeros,
    /// The block was read now.
    Read(Fingerprint, Bytes),
    /// The stored block was read before.
    Known(Fingerprint),
}

impl Known {
    /// A cache with this many entries; with zero it finds nothing.
    pub fn new(entries: usize) -> Self {
        Self(Table::new(entries))
    }

    /// Fingerprint of the block with this identity.
    pub fn find(&mut self, identity: u64) -> Option<Fingerprint> {
        let (hash, tag) = key(identity)?;
        self.0.find(hash, tag)
    }

    /// Records the fingerprint of the block with this identity.
    pub fn insert(&mut self, identity: u64, fingerprint: Fingerprint) {
        if let Some((hash, tag)) = key(identity) {
            self.0.insert(hash, tag, fingerprint);
        }
    }
}

/// Reader of an engine's disks that caches fingerprints.
#[derive(Clone)]
pub struct Reader {
    engine: Arc<Engine>,
    key: Key,
    known: Arc<Mutex<Known>>,
}

impl Reader {
    /// A reader with room for this many fingerprints.
    pub fn new(engine: Arc<Engine>, key: Key, entries: usize) -> Self {
        Self { engine, key, known: Arc::new(Mutex::new(Known::new(entries))) }
    }

    /// Contents of a run of blocks, in order. The disk must not change during the call.
    pub async fn contents(&self, id: DiskId, first: u64, count: u64) -> Result<Vec<Content>> {
        let disk = disk::find(&self.engine, id)?;
        let geometry = disk.geometry();
        let stored = self.engine.stored(id, first, count).await?;
        // A disk may end within a block that is complete in another one.
        let whole = |block| disk::bytes(geometry, block, 1) == BLOCK_BYTES as u64;
        let mut found: Vec<Option<Content>> = Vec::with_capacity(stored.len());
        {
            let mut known = self.known.lock();
            for (block, stored) in (first..).zip(&stored) {
                found.push(match stored {
                    Stored::Zeros => Some(Content::Zeros),
                    Stored::Block(identity) if whole(block) => known.find(*identity).map(Content::Known),
                    Stored::Block(_) | Stored::Unknown => None,
                });
            }
        }
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (block, _) in (first..).zip(&found).filter(|(_, content)| content.is_none()) {
            disk::extend(&mut runs, block);
        }
        let mut read = disk::read(&*disk, runs).await?.into_iter();
        let mut known = self.known.lock();
        let mut contents = Vec::with_capacity(found.len());
        for ((block, stored), content) in (first..).zip(stored).zip(found) {
            contents.push(match content {
                Some(content) => content,
                None => {
                    let bytes = read.next().ok_or(Error::Malformed("a read of another length"))?;
                    if block::is_zero(&bytes) {
                        Content::Zeros
                    } else {
                        let fingerprint = self.key.fingerprint(&bytes);
                        if let Stored::Block(identity) = stored
                            && whole(block)
                        {
                            known.insert(identity, fingerprint);
                        }
                        Content::Read(fingerprint, bytes)
                    }
                }
            });
        }
        Ok(contents)
    }
}

#[cfg(test)]
#[path = "known_test.rs"]
mod tests;
