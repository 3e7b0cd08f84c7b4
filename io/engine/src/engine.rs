//! The engine: opening, operations on whole volumes, the array's records, space.

use crate::background::Worker;
use crate::capacity::disk_space;
use crate::change::Change;
use crate::core::Core;
use crate::entry::BLOCK;
use crate::policy::Policy;
use crate::record::Mutation;
use crate::space::{DiskSpace, Location, SpaceReport};
use crate::volume::Volume;
use block::{Disk, DiskId, Error, Geometry, Result};
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Volumes over a shelf.
pub struct Engine {
    pub(crate) core: Arc<Core>,
    /// The background, until somebody drives it.
    pub(crate) worker: Mutex<Option<Worker>>,
    /// For the check: where the checkpoint's root and catalog are.
    pub(crate) roots: Arc<Mutex<Vec<Location>>>,
    volumes: RwLock<BTreeMap<DiskId, Arc<Volume>>>,
}

impl Engine {
    pub(crate) fn new(worker: Worker) -> Arc<Self> {
        let (core, roots) = (worker.core.clone(), worker.roots.clone());
        let known =
            core.state.read().catalog.shown().map(|(number, volume)| (number, volume.id)).collect::<Vec<_>>();
        let engine = Self { core, worker: Mutex::new(Some(worker)), roots, volumes: RwLock::default() };
        for (number, id) in known {
            engine.register(number, id);
        }
        Arc::new(engine)
    }

    fn register(&self, number: u32, id: DiskId) -> Arc<Volume> {
        let volume = Arc::new(Volume::new(self.core.clone(), number, id));
        self.volumes.write().insert(id, volume.clone());
        volume
    }

    /// The volume with this identity.
    pub fn volume(&self, id: DiskId) -> Option<Arc<Volume>> {
        self.volumes.read().get(&id).cloned()
    }

    /// The volume with this identity. That there is none is certain when it is answered.
    async fn there(&self, id: DiskId) -> Result<Arc<Volume>> {
        self.core.confirm_error(self.volume(id).ok_or(Error::Gone)).await
    }

    /// All volumes, by identity.
    pub fn volumes(&self) -> Vec<Arc<Volume>> {
        self.volumes.read().values().cloned().collect()
    }

    /// Creates an empty volume at time `now`; durable when answered.
    pub async fn create_volume(&self, id: DiskId, geometry: Geometry, now: u64) -> Result<Arc<Volume>> {
        self.create_volume_with(id, geometry, now, &[]).await
    }

    /// As [`Engine::create_volume`]. `records` are put, or removed if they are `None`, in the same step.
    pub async fn create_volume_with(
        &self,
        id: DiskId,
        geometry: Geometry,
        now: u64,
        records: &[(String, Option<Bytes>)],
    ) -> Result<Arc<Volume>> {
        let mutation = |volume, _| Mutation::Create { volume, id, geometry, created: now };
        self.add_volumes(&[id], mutation, records).await.map(|mut made| made.remove(0))
    }

    /// Adds volumes and records, all in one step. The action of each volume gets its number, and its index in `ids`.
    pub(crate) async fn add_volumes(
        &self,
        ids: &[DiskId],
        mutation: impl Fn(u32, usize) -> Mutation,
        records: &[(String, Option<Bytes>)],
    ) -> Result<Vec<Arc<Volume>>> {
        let next = || self.core.state.read().catalog.next;
        loop {
            // Two that begin at the same time may choose the same numbers; then one of them tries again.
            let first = next();
            let numbered = || (first..).zip(ids).enumerate();
            let volumes = numbered().map(|(index, (number, _))| mutation(number, index));
            let put = |(key, value): &(String, Option<Bytes>)| Mutation::PutRecord {
                key: key.clone(),
                value: value.clone(),
            };
            let mutations = volumes.chain(records.iter().map(put)).collect();
            match self.core.make_when_possible(&Change { mutations, ..Change::default() }).await {
                Ok(Some(made)) => {
                    let volumes = numbered().map(|(_, (number, id))| self.register(number, *id)).collect();
                    self.core.acknowledge(made).await?;
                    return Ok(volumes);
                }
                Ok(None) => {}
                Err(_) if next() != first => {}
                Err(error) => return self.core.confirm_error(Err(error)).await,
            }
        }
    }

    /// Changes the size in logical blocks; what is beyond a smaller size is lost. Durable when answered.
    pub async fn resize_volume(&self, id: DiskId, blocks: u64) -> Result<()> {
        let volume = self.there(id).await?;
        if volume.is_read_only() {
            return self.core.confirm_error(Err(Error::ReadOnly)).await;
        }
        let resized = volume.handle().resize(blocks).await;
        self.core.confirm_error(resized.map(drop)).await
    }

    /// Says how the data of a volume are reduced from now on; a clone begins with the policy of its source. Durable
    /// when answered.
    pub async fn set_policy(&self, id: DiskId, policy: Policy) -> Result<()> {
        let volume = self.there(id).await?.number();
        self.core.change(Change::of(Mutation::SetPolicy { volume, policy })).await
    }

    /// How the data of a volume are reduced; none when it is gone.
    pub fn policy(&self, id: DiskId) -> Option<Policy> {
        let state = self.core.state.read();
        let number = state.catalog.number(id)?;
        state.catalog.volumes.get(&number).map(|volume| volume.policy)
    }

    /// Deletes a volume at time `now`; its space comes back in the background. Durable when answered.
    ///
    /// # Errors
    /// [`Error::Kept`] when it is kept for longer.
    pub async fn delete_volume(&self, id: DiskId, now: u64) -> Result<()> {
        self.delete_volume_with(id, now, Vec::new()).await
    }

    /// As [`Engine::delete_volume`]. `records` are put, or removed if they are `None`, in the same step.
    ///
    /// # Errors
    /// [`Error::Kept`] when it is kept for longer.
    pub async fn delete_volume_with(
        &self,
        id: DiskId,
        now: u64,
        records: Vec<(String, Option<Bytes>)>,
    ) -> Result<()> {
        let volume = self.there(id).await?;
        let mut delete = Change::of(Mutation::Delete { volume: volume.number() }).at(now);
        let put = |(key, value)| Mutation::PutRecord { key, value };
        delete.mutations.extend(records.into_iter().map(put));
        // Gone with the change, not with its answer: nobody may be there any more to wait for that.
        let made = self.core.make_when_possible(&delete).await;
        let made = self.core.confirm_error(made).await?;
        self.volumes.write().remove(&id);
        match made {
            Some(made) => self.core.acknowledge(made).await,
            None => Err(Error::Gone),
        }
    }

    /// Keeps a small record under a key, or removes it. Durable when answered.
    pub async fn put_record(&self, key: &str, value: Option<Bytes>) -> Result<()> {
        self.core.change(Change::of(Mutation::PutRecord { key: key.to_owned(), value })).await
    }

    /// Keeps and removes several records in one step: after a crash there are all of these changes or none. Durable
    /// when answered.
    pub async fn put_records(&self, records: Vec<(String, Option<Bytes>)>) -> Result<()> {
        let mutations = records.into_iter().map(|(key, value)| Mutation::PutRecord { key, value }).collect();
        self.core.change(Change { mutations, ..Change::default() }).await
    }

    /// The records whose keys begin with `prefix`, by key.
    pub fn records(&self, prefix: &str) -> Vec<(String, Bytes)> {
        let state = self.core.state.read();
        let from = state.catalog.records.range(prefix.to_owned()..);
        from.take_while(|(key, _)| key.starts_with(prefix)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// What media were found to say that can't be, since the opening: what it concerns can't be read, everything else can.
    pub fn inconsistencies(&self) -> Vec<String> {
        self.core.inconsistencies.list()
    }

    /// Why the engine stopped for good, if it did: nothing is changed any more.
    pub fn stopped(&self) -> Option<String> {
        self.core.journal.stopped()
    }

    /// Has the background look whether drives have gone that had parts of the journal: to be called now and then, as an
    /// idle engine asks nothing of its drives. While the background waits for space below the drives, hosts are refused
    /// what takes space, and nobody waits for the background.
    pub fn watch_drives(&self) {
        self.core.update_usable_segments();
        if self.core.log.shelf().is_starved() {
            self.core.set_full(true);
            self.core.credit.set_open(true);
            self.core.room_queue.freed();
        }
        if self.core.log.shelf().wants_trim() {
            self.core.signal.notify();
        }
    }

    /// Space of the whole array.
    pub fn space(&self) -> SpaceReport {
        self.core.update_usable_segments();
        let state = self.core.state.read();
        let sum = |snapshots: bool| -> DiskSpace {
            let volumes = state.catalog.shown().filter(|(_, volume)| volume.provenance.snapshot == snapshots);
            volumes.map(|(_, volume)| disk_space(&state, volume)).sum()
        };
        let (volumes, snapshots) = (sum(false), sum(true));
        let (waiting, usage) = (state.maps.slots.bytes() as u64, &state.maps.usage);
        let unique = usage.unique_blocks * BLOCK as u64 + waiting;
        SpaceReport {
            provisioned: volumes.provisioned,
            mapped: volumes.mapped,
            zero: volumes.zero,
            snapshot: snapshots.data(),
            unique,
            shared: (volumes.data() + snapshots.data()).saturating_sub(unique),
            physical: usage.physical + waiting,
            metadata: usage.metadata,
            reclaimable: self.core.reclaimable_bytes(&state),
            free: self.core.free_bytes(&state),
            total: self.core.total_bytes(),
            map_pages: state.maps.page_count(),
            map_pages_max: self.core.options.map_pages,
        }
        .consistent()
    }
}
