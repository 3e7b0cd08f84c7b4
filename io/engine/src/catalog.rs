//! The volumes and the array's small records: what a checkpoint writes whole when it changed.

use crate::codec::{Malformed, Put, Take};
use crate::entry::Entry;
use crate::map::Tree;
use crate::policy::Policy;
use block::{DiskId, Geometry};
use bytes::Bytes;
use std::collections::BTreeMap;

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeState {
    /// Its identity.
    pub id: DiskId,
    /// Its size.
    pub geometry: Geometry,
    /// Its map.
    pub tree: Tree,
    /// How its data are reduced.
    pub policy: Policy,
    /// What the layer above keeps with it.
    pub saved: Bytes,
    /// The journal batch of the last change that did not go through slots. Not kept on media: what is in a
    /// checkpoint is durable.
    pub changed: u64,
}

impl VolumeState {
    /// Blocks of 4 KiB, the last one perhaps used in part.
    pub fn blocks(geometry: Geometry) -> u64 {
        geometry.bytes().div_ceil(crate::entry::BLOCK as u64)
    }
}

/// Volumes and records.
#[derive(Clone, Default, Debug)]
pub struct Catalog {
    /// Volumes by number. Numbers are not used again.
    pub volumes: BTreeMap<u32, VolumeState>,
    numbers: BTreeMap<DiskId, u32>,
    /// Records by key.
    pub records: BTreeMap<String, Bytes>,
    /// The number of the next volume.
    pub next: u32,
    /// Something changed since the last checkpoint.
    pub dirty: bool,
}

impl Catalog {
    /// The number of the volume with this identity.
    pub fn number(&self, id: DiskId) -> Option<u32> {
        self.numbers.get(&id).copied()
    }

    /// Adds a volume.
    pub fn add(&mut self, number: u32, volume: VolumeState) {
        self.numbers.insert(volume.id, number);
        self.volumes.insert(number, volume);
        self.next = self.next.max(number + 1);
    }

    /// Removes a volume.
    pub fn remove(&mut self, number: u32) -> Option<VolumeState> {
        let volume = self.volumes.remove(&number)?;
        self.numbers.remove(&volume.id);
        Some(volume)
    }

    /// Writes everything.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.var(u64::from(self.next));
        out.var(self.volumes.len() as u64);
        for (number, volume) in &self.volumes {
            out.var(u64::from(*number));
            out.u128(volume.id.0);
            out.var(u64::from(volume.geometry.block_bytes));
            out.var(volume.geometry.blocks);
            out.u8(volume.tree.level);
            volume.tree.root.put(out);
            out.u8(volume.policy.to_byte());
            out.blob(&volume.saved);
        }
        out.var(self.records.len() as u64);
        for (key, value) in &self.records {
            out.blob(key.as_bytes());
            out.blob(value);
        }
    }

    /// Reads what [`Catalog::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes, "catalog");
        let mut catalog = Self { next: take.var32()?, ..Self::default() };
        for _ in 0..take.count()? {
            let number = take.var32()?;
            let id = DiskId(take.u128()?);
            let geometry = Geometry { block_bytes: take.var32()?, blocks: take.var()? };
            let tree = Tree { level: take.u8()?, root: Entry::take(&mut take)? };
            take.check(matches!(geometry.block_bytes, 512 | 4096) && tree.level < 7 && !tree.root.is_slot())?;
            let bytes = geometry.blocks.checked_mul(u64::from(geometry.block_bytes));
            take.check(bytes.is_some() && VolumeState::blocks(geometry) <= crate::map::span(tree.level))?;
            let policy = Policy::from_byte(take.u8()?).ok_or(take.malformed())?;
            let saved = Bytes::copy_from_slice(take.blob()?);
            catalog.add(number, VolumeState { id, geometry, tree, policy, saved, changed: 0 });
        }
        for _ in 0..take.count()? {
            let key = String::from_utf8(take.blob()?.to_vec()).map_err(|_| take.malformed())?;
            catalog.records.insert(key, Bytes::copy_from_slice(take.blob()?));
        }
        take.check(take.is_empty())?;
        Ok(catalog)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalog_comes_back() {
        let mut catalog = Catalog { next: 9, ..Catalog::default() };
        let geometry = Geometry { block_bytes: 512, blocks: 12345 };
        let tree = Tree { root: Entry::page(77), level: 2 };
        let saved = Bytes::from_static(b"reservations");
        let policy = Policy { verify: true, ..Policy::default() };
        catalog.add(4, VolumeState { id: DiskId(1 << 100), geometry, tree, policy, saved, changed: 0 });
        catalog.records.insert("hosts/a".into(), Bytes::from_static(b"{}"));
        let mut bytes = Vec::new();
        catalog.encode(&mut bytes);
        let again = Catalog::decode(&bytes).unwrap();
        assert_eq!((again.next, &again.volumes, &again.records), (9, &catalog.volumes, &catalog.records));
        for len in 0..bytes.len() {
            assert!(Catalog::decode(&bytes[..len]).is_err());
        }
    }
}
