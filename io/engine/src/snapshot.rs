//! Snapshots and clones: a disk that begins with the content of another takes one reference to the root of its map,
//! so that each of these is one record of the journal, whatever the size. Times are the caller's: the engine reads no
//! clock and only compares.

use crate::capacity::disk_space;
use crate::catalog::VolumeState;
use crate::change::Change;
use crate::engine::Engine;
use crate::policy::Policy;
use crate::record::Mutation;
use crate::space::DiskSpace;
use crate::volume::Volume;
use block::{DiskId, Error, Geometry, Result};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A disk of the engine, as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskInfo {
    /// Its identity.
    pub id: DiskId,
    /// Larger than of every disk that was made before.
    pub number: u32,
    /// Its size.
    pub geometry: Geometry,
    /// It was made by [`Engine::snapshot`].
    pub snapshot: bool,
    /// It takes no changes.
    pub read_only: bool,
    /// The disk whose content it began with. It may be gone.
    pub parent: Option<DiskId>,
    /// The disk that the content came from first: the parent's origin, or the parent. It may be gone.
    pub origin: Option<DiskId>,
    /// The time given when it was made.
    pub created: u64,
    /// Retention lock: it can't be deleted or changed before this time; zero if there is none.
    pub kept_until: u64,
    /// What is provisioned and mapped.
    pub space: DiskSpace,
}

impl Engine {
    /// Every disk, by identity.
    pub fn disks(&self) -> Vec<DiskInfo> {
        let state = self.core.state.read();
        let volumes = state.catalog.shown();
        let shown = |(number, volume)| info(number, volume, disk_space(&state, volume));
        let mut disks: Vec<_> = volumes.map(shown).collect();
        disks.sort_unstable_by_key(|disk| disk.id);
        disks
    }

    /// The disk with this identity.
    pub fn disk(&self, id: DiskId) -> Option<DiskInfo> {
        let state = self.core.state.read();
        let number = state.catalog.number(id)?;
        let volume = state.volume(number).ok()?;
        Some(info(number, volume, disk_space(&state, volume)))
    }

    /// Space of a set of disks together, those that exist: of a group, or of a volume with its snapshots.
    pub fn space_of(&self, ids: &[DiskId]) -> DiskSpace {
        let state = self.core.state.read();
        let found = ids.iter().filter_map(|id| state.volume(state.catalog.number(*id)?).ok());
        found.map(|volume| disk_space(&state, volume)).sum()
    }

    /// Takes snapshots of all `sources` at one moment, as a consistency group: each pair is the disk and the identity
    /// of its new snapshot. If a write was acknowledged before another was submitted, and the other is in its
    /// snapshot, then so is the first, whatever the disks. A snapshot is a disk that takes no changes; with
    /// `keep_until` above `now` it is under a retention lock, and can't be deleted or made writable before that time.
    /// `records` are put, or removed if they are `None`, in the same step. Durable when this returns: after a power
    /// loss all of it is there, or nothing.
    ///
    /// # Errors
    /// [`Error::Deleted`] if a source does not exist, [`Error::Malformed`] if an identity is taken or given twice, or
    /// there are too many for a journal batch (tens of thousands); nothing was made then.
    pub async fn snapshot(
        &self,
        sources: &[(DiskId, DiskId)],
        records: &[(String, Option<Bytes>)],
        now: u64,
        keep_until: u64,
    ) -> Result<Vec<Arc<Volume>>> {
        let mut numbers = Vec::with_capacity(sources.len());
        for (source, _) in sources {
            numbers.push(self.number(*source).await?);
        }
        let ids: Vec<DiskId> = sources.iter().map(|(_, id)| *id).collect();
        if ids.iter().collect::<BTreeSet<_>>().len() < ids.len() {
            return Err(Error::Malformed("two snapshots with the same identity"));
        }
        let mutation = |volume, index: usize| Mutation::Clone {
            volume,
            id: ids[index],
            source: numbers[index],
            created: now,
            snapshot: true,
            kept_until: keep_until,
        };
        self.add_volumes(&ids, &[], mutation, records).await
    }

    /// Creates a volume at time `now` with the content and size of another disk, which both share until one of them
    /// changes. Durable when this returns.
    pub async fn clone_volume(&self, source: DiskId, id: DiskId, now: u64) -> Result<Arc<Volume>> {
        self.clone_volume_with(source, id, None, now, &[]).await
    }

    /// As [`Engine::clone_volume`]. `records` are put, or removed if they are `None`, in the same step. `policy` is set
    /// in the same journal commit; after a crash the volume may have the policy of the other disk.
    pub async fn clone_volume_with(
        &self,
        source: DiskId,
        id: DiskId,
        policy: Option<Policy>,
        now: u64,
        records: &[(String, Option<Bytes>)],
    ) -> Result<Arc<Volume>> {
        let source = self.number(source).await?;
        let mutation =
            |volume, _| Mutation::Clone { volume, id, source, created: now, snapshot: false, kept_until: 0 };
        self.add_volumes(&[id], &[policy], mutation, records).await.map(|mut made| made.remove(0))
    }

    /// Restores the content and size of another disk, most often of a snapshot, to a volume. Its identity, its saved
    /// state and what else hosts know it by stay. Durable when this returns.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if the volume takes no changes, [`Error::Malformed`] if the block lengths differ.
    pub async fn restore_volume(&self, id: DiskId, source: DiskId) -> Result<()> {
        let (volume, source) = self.restored(id, source).await?;
        self.core.change(Change::of(Mutation::Restore { volume, source })).await
    }

    /// The numbers of a volume and of the disk from which it is to be restored.
    async fn restored(&self, id: DiskId, source: DiskId) -> Result<(u32, u32)> {
        let (volume, source) = (self.number(id).await?, self.number(source).await?);
        if volume == source {
            return Err(Error::Malformed("restore of a disk from itself"));
        }
        Ok((volume, source))
    }

    /// As [`Engine::restore_volume`] for a volume that is read-only, which takes changes from now on, all in one step at time
    /// `now`: its earlier content can't be changed any more.
    ///
    /// # Errors
    /// Those of a restore, and [`Error::RetentionLocked`] under a retention lock.
    pub async fn restore_and_unlock(&self, id: DiskId, source: DiskId, now: u64) -> Result<()> {
        let (volume, source) = self.restored(id, source).await?;
        let mutations = [Mutation::Restore { volume, source }, Mutation::Access { volume, read_only: false }];
        let mutations = mutations.into_iter().collect();
        self.core.change(Change { mutations, ..Change::default() }.at(now)).await
    }

    /// Sets at time `now` whether a disk takes changes: a snapshot that does is a writable one. Durable when this
    /// returns.
    ///
    /// # Errors
    /// [`Error::RetentionLocked`] under a retention lock.
    pub async fn set_read_only(&self, id: DiskId, read_only: bool, now: u64) -> Result<()> {
        let volume = self.number(id).await?;
        self.core.change(Change::of(Mutation::Access { volume, read_only }).at(now)).await
    }

    /// Sets the retention lock of a disk that takes no changes: to a later time than before, or, if the lock had
    /// ended at time `now`, to any; zero ends it. Durable when this returns.
    ///
    /// # Errors
    /// [`Error::RetentionLocked`] for an earlier time, [`Error::Malformed`] for a disk that takes changes.
    pub async fn keep_until(&self, id: DiskId, until: u64, now: u64) -> Result<()> {
        let volume = self.number(id).await?;
        self.core.change(Change::of(Mutation::Keep { volume, until }).at(now)).await
    }

    /// The number of a disk. That there is none is durable when this returns.
    pub(crate) async fn number(&self, id: DiskId) -> Result<u32> {
        let found = self.core.state.read().catalog.number(id).ok_or(Error::Deleted);
        self.core.confirm_error(found).await
    }
}

fn info(number: u32, volume: &VolumeState, space: DiskSpace) -> DiskInfo {
    DiskInfo {
        id: volume.id,
        number,
        geometry: volume.geometry,
        snapshot: volume.provenance.snapshot,
        read_only: volume.read_only,
        parent: volume.provenance.from.map(|(parent, _)| parent),
        origin: volume.provenance.from.map(|(_, origin)| origin),
        created: volume.provenance.created,
        kept_until: volume.kept_until,
        space,
    }
}
