//! Catalog: the volumes and the records of the layer above. A checkpoint writes it whole if it changed.

use crate::codec::{Malformed, Put, Take};
use crate::entry::Entry;
use crate::entry::MAX_LEVEL;
use crate::hidden::is_hidden;
use crate::inconsistency::Findings;
use crate::map::Tree;
use crate::policy::Policy;
use block::{DiskId, Geometry};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt::Display;

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeState {
    /// Its identity.
    pub id: DiskId,
    /// Its size.
    pub geometry: Geometry,
    /// Its map.
    pub tree: Tree,
    /// Its data reduction policy.
    pub policy: Policy,
    /// State that the layer above saves with it.
    pub saved: Bytes,
    /// Its origin.
    pub provenance: Provenance,
    /// True if it is read-only.
    pub read_only: bool,
    /// Retention lock: until this time it can neither be deleted nor changed.
    pub kept_until: u64,
    /// The journal batch of the last change that no slot stands for: one without data, or one whose data lies in
    /// earlier batches. Not on media: a checkpoint is durable.
    pub changed: u64,
}

/// The origin of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Time of creation, as the layer above counts time.
    pub created: u64,
    /// The volume whose content it began with, and the first of that line of clones.
    pub from: Option<(DiskId, DiskId)>,
    /// True if it is a snapshot.
    pub snapshot: bool,
}

impl VolumeState {
    /// A volume that begins empty.
    pub fn new(id: DiskId, geometry: Geometry, created: u64) -> Self {
        Self {
            id,
            geometry,
            tree: Tree::empty(Self::blocks(geometry)),
            policy: Policy::default(),
            saved: Bytes::new(),
            provenance: Provenance { created, ..Provenance::default() },
            read_only: false,
            kept_until: 0,
            changed: 0,
        }
    }

    /// A volume or snapshot that begins with the content of this one; the change is in a batch of this number.
    pub fn cloned(&self, id: DiskId, provenance: Provenance, kept_until: u64, batch: u64) -> Self {
        Self {
            tree: self.tree,
            policy: self.policy,
            provenance,
            read_only: provenance.snapshot,
            kept_until,
            changed: batch,
            ..Self::new(id, self.geometry, provenance.created)
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.u128(self.id.0);
        out.var(u64::from(self.geometry.block_bytes));
        out.var(self.geometry.blocks);
        out.u8(self.tree.level);
        self.tree.root.put(out);
        out.u8(self.policy.to_byte());
        out.blob(&self.saved);
        let Provenance { created, from, snapshot } = self.provenance;
        out.u8(u8::from(snapshot) | u8::from(self.read_only) << 1 | u8::from(from.is_some()) << 2);
        out.var(created);
        out.var(self.kept_until);
        if let Some((parent, origin)) = from {
            out.u128(parent.0);
            out.u128(origin.0);
        }
    }

    /// Reads what [`VolumeState::encode`] wrote. Impossible values are noted and replaced by possible ones.
    fn decode(take: &mut Take<'_>, number: u32, notes: &mut Vec<String>) -> Result<Self, Malformed> {
        let mut note = |what: String| notes.push(format!("volume {number} in the catalog: {what}"));
        let id = DiskId(take.u128()?);
        let mut geometry = Geometry { block_bytes: take.var32()?, blocks: take.var()? };
        let mut tree = Tree { level: take.u8()?, root: Entry::take(take)? };
        if !matches!(geometry.block_bytes, 512 | 4096) {
            note(format!("its blocks have {} bytes: 512 are assumed", geometry.block_bytes));
            geometry.block_bytes = 512;
        }
        if geometry.blocks > MAX_BYTES / u64::from(geometry.block_bytes) {
            note(format!("it has {} blocks", geometry.blocks));
            geometry.blocks = MAX_BYTES / u64::from(geometry.block_bytes);
        }
        if tree.level > MAX_LEVEL || Self::blocks(geometry) > crate::entry::blocks_under(tree.level) {
            note(format!("a map of level {} can't hold {} blocks", tree.level, geometry.blocks));
            tree.level = tree.level.min(MAX_LEVEL);
        }
        if tree.root.is_slot() || !tree.root.is_valid() {
            note("its map does not begin with a page".into());
            tree.root = Entry::lost();
        }
        let policy = take.u8()?;
        let policy = Policy::from_byte(policy).unwrap_or_else(|| {
            note(format!("it has the unknown policy {policy}"));
            Policy::default()
        });
        let saved = Bytes::copy_from_slice(take.blob()?);
        let (bits, created, kept_until) = (take.u8()?, take.var()?, take.var()?);
        if bits >= 8 {
            note(format!("it has the unknown properties {bits:#b}"));
        }
        let from = match bits & 4 {
            0 => None,
            _ => Some((DiskId(take.u128()?), DiskId(take.u128()?))),
        };
        let provenance = Provenance { created, from, snapshot: bits & 1 != 0 };
        let mut read_only = bits & 2 != 0;
        if kept_until > 0 && !read_only && !provenance.snapshot {
            note("it is under a retention lock, but takes changes".into());
            read_only = true;
        }
        Ok(Self { id, geometry, tree, policy, saved, provenance, read_only, kept_until, changed: 0 })
    }

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
    /// The journal batch of the last change of the set of volumes, their sizes, access or retention: errors report
    /// these, so they wait until it is durable. Not on media.
    pub catalog_batch: u64,
    /// The journal batch of the last change of a record. Not on media.
    pub records_batch: u64,
    /// True if anything changed since the last checkpoint.
    pub dirty: bool,
    /// Upper bound of what [`Catalog::encode`] writes.
    bytes: usize,
}

/// The largest volume.
pub const MAX_BYTES: u64 = 64 << 50;

/// Volume numbers are below this.
pub const MAX_VOLUMES: u32 = 1 << 31;

/// Upper bounds of the encoded lengths of a volume without its saved state, and of a record without key and value.
const VOLUME_BYTES: usize = 128;
const RECORD_BYTES: usize = 16;

impl Catalog {
    /// The number of the volume with this identity.
    pub fn number(&self, id: DiskId) -> Option<u32> {
        self.numbers.get(&id).copied()
    }

    /// The volumes that are not hidden, by number.
    pub fn shown(&self) -> impl Iterator<Item = (u32, &VolumeState)> {
        let volumes = self.volumes.iter().filter(|(_, volume)| !is_hidden(volume.id));
        volumes.map(|(number, volume)| (*number, volume))
    }

    /// The volumes with this identity or a greater one.
    pub fn from(&self, id: DiskId) -> impl Iterator<Item = (DiskId, u32)> {
        self.numbers.range(id..).map(|(id, number)| (*id, *number))
    }

    /// Upper bound of the bytes that a checkpoint writes of it.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Adds a volume.
    pub fn add(&mut self, number: u32, volume: VolumeState) {
        self.bytes += VOLUME_BYTES + volume.saved.len();
        self.numbers.insert(volume.id, number);
        self.volumes.insert(number, volume);
        self.next = self.next.max(number + 1);
    }

    /// Removes a volume.
    pub fn remove(&mut self, number: u32) -> Option<VolumeState> {
        let volume = self.volumes.remove(&number)?;
        self.numbers.remove(&volume.id);
        self.bytes -= VOLUME_BYTES + volume.saved.len();
        Some(volume)
    }

    /// Saves the state of a volume, if there is such a volume.
    pub fn save(&mut self, number: u32, state: Bytes) {
        if let Some(volume) = self.volumes.get_mut(&number) {
            self.bytes = self.bytes + state.len() - volume.saved.len();
            volume.saved = state;
        }
    }

    /// Puts a record, or removes it.
    pub fn put_record(&mut self, key: &str, value: Option<Bytes>) {
        let bytes = |value: &Bytes| RECORD_BYTES + key.len() + value.len();
        self.bytes += value.as_ref().map_or(0, bytes);
        let before = match value {
            Some(value) => self.records.insert(key.to_owned(), value),
            None => self.records.remove(key),
        };
        self.bytes -= before.as_ref().map_or(0, bytes);
    }

    /// Writes everything.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.var(u64::from(self.next));
        out.var(self.volumes.len() as u64);
        for (number, volume) in &self.volumes {
            out.var(u64::from(*number));
            volume.encode(out);
        }
        out.var(self.records.len() as u64);
        for (key, value) in &self.records {
            out.blob(key.as_bytes());
            out.blob(value);
        }
    }

    /// Reads what [`Catalog::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut notes = Vec::new();
        let catalog = Self::decode_with_notes(bytes, &mut notes)?;
        if notes.is_empty() { Ok(catalog) } else { Err(Malformed("catalog")) }
    }

    /// The same, for an opening: impossible values are findings, and are replaced by possible ones.
    pub fn decode_reporting(
        bytes: &[u8],
        place: impl Display,
        findings: &mut Findings,
    ) -> block::Result<Self> {
        let mut notes = Vec::new();
        let catalog = Self::decode_with_notes(bytes, &mut notes)
            .map_err(|why| crate::error::unusable(format_args!("{why} at {place}")))?;
        notes.into_iter().try_for_each(|note| findings.fatal(note))?;
        Ok(catalog)
    }

    fn decode_with_notes(bytes: &[u8], notes: &mut Vec<String>) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes, "catalog");
        let mut catalog = Self::default();
        let (next, mut renumbered) = (take.var()?, Vec::new());
        if next > u64::from(MAX_VOLUMES) {
            notes.push(format!("catalog: the next volume number {next} is impossible"));
        }
        for _ in 0..take.count()? {
            let number = take.var32()?;
            let mut volume = VolumeState::decode(&mut take, number, notes)?;
            if let Some(known) = catalog.numbers.get(&volume.id) {
                let mut id = volume.id;
                while catalog.numbers.contains_key(&id) || is_hidden(id) {
                    id = DiskId(id.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                }
                let (before, id) = (std::mem::replace(&mut volume.id, id), id);
                notes.push(format!(
                    "volume {number} in the catalog: volume {known} has its identity {:032x} too: it gets {:032x}",
                    before.0, id.0
                ));
            }
            if u64::from(number) >= next.min(MAX_VOLUMES.into()) || catalog.volumes.contains_key(&number) {
                catalog.numbers.insert(volume.id, number);
                renumbered.push((number, volume));
            } else {
                catalog.add(number, volume);
            }
        }
        if next <= u64::from(MAX_VOLUMES) {
            catalog.next = catalog.next.max(next as u32);
        }
        for (number, volume) in renumbered {
            let other = catalog.next;
            notes.push(format!(
                "volume {number} in the catalog: its number is taken or impossible: it is {other} now"
            ));
            catalog.add(other, volume);
        }
        for _ in 0..take.count()? {
            let key = std::str::from_utf8(take.blob()?).map_err(|_| take.malformed())?;
            catalog.put_record(key, Some(Bytes::copy_from_slice(take.blob()?)));
        }
        take.check(take.is_empty())?;
        Ok(catalog)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalog_is_decoded_as_encoded() {
        let mut catalog = Catalog { next: 9, ..Catalog::default() };
        let geometry = Geometry { block_bytes: 512, blocks: 12345 };
        let tree = Tree { root: Entry::page(77), level: 2 };
        let saved = Bytes::from_static(b"reservations");
        let policy = Policy { verify: true, ..Policy::default() };
        let new = VolumeState::new(DiskId(1 << 100), geometry, 1 << 33);
        let volume = VolumeState { tree, policy, saved, ..new };
        let provenance =
            Provenance { created: 5, from: Some((DiskId(1 << 100), DiskId(u128::MAX))), snapshot: true };
        catalog.add(4, volume.clone());
        catalog.add(5, VolumeState { id: DiskId(7), provenance, read_only: true, kept_until: 9, ..volume });
        catalog.put_record("hosts/a", Some(Bytes::from_static(b"{}")));
        let mut bytes = Vec::new();
        catalog.encode(&mut bytes);
        assert!(bytes.len() as u64 <= catalog.bytes() + 20);
        let again = Catalog::decode(&bytes).unwrap();
        assert_eq!(again.bytes(), catalog.bytes());
        assert_eq!((again.next, &again.volumes, &again.records), (9, &catalog.volumes, &catalog.records));
        for len in 0..bytes.len() {
            assert!(Catalog::decode(&bytes[..len]).is_err());
        }
    }
}
