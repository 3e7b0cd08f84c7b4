//! Engine: operations on whole volumes, the array's records, space, and the life of the background.

use crate::background::Worker;
use crate::capacity::{SpaceRefusals, disk_space};
use crate::change::{Change, Made};
use crate::core::Core;
use crate::entry::BLOCK;
use crate::idle::Rest;
use crate::log_writes::LogWrites;
use crate::policy::Policy;
use crate::record::Mutation;
use crate::sharded_lock::Held;
use crate::space::{DiskSpace, Location, SpaceReport};
use crate::volume::Volume;
use block::{Disk, DiskId, Error, Geometry, Result};
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

/// Volumes on a shelf.
pub struct Engine {
    pub(crate) core: Arc<Core>,
    /// The background, until it is driven.
    pub(crate) worker: Mutex<Option<Worker>>,
    /// For the check: where the checkpoint's root and catalog are.
    pub(crate) roots: Arc<Mutex<Vec<Location>>>,
    volumes: RwLock<BTreeMap<DiskId, Arc<Volume>>>,
}

/// An empty volume that is to be created.
#[derive(Clone, Copy, Debug)]
pub struct NewVolume {
    /// Its identity.
    pub id: DiskId,
    /// Its size and block length.
    pub geometry: Geometry,
    /// How its data are reduced; the default if there is none.
    pub policy: Option<Policy>,
}

impl Engine {
    pub(crate) fn new(worker: Worker) -> Arc<Self> {
        let (core, roots) = (worker.core().clone(), worker.roots());
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

    /// The volume with this identity. That there is none is durable when this returns.
    async fn there(&self, id: DiskId) -> Result<Arc<Volume>> {
        self.core.confirm_error(self.volume(id).ok_or(Error::Deleted)).await
    }

    /// All volumes, by identity.
    pub fn volumes(&self) -> Vec<Arc<Volume>> {
        self.volumes.read().values().cloned().collect()
    }

    /// Creates an empty volume at time `now`; durable when this returns.
    pub async fn create_volume(&self, id: DiskId, geometry: Geometry, now: u64) -> Result<Arc<Volume>> {
        self.create_volume_with(id, geometry, None, now, &[]).await
    }

    /// As [`Engine::create_volume`]. `records` are put, or removed if they are `None`, in the same step. `policy` is set
    /// in the same journal commit; after a crash the volume may have the default policy.
    pub async fn create_volume_with(
        &self,
        id: DiskId,
        geometry: Geometry,
        policy: Option<Policy>,
        now: u64,
        records: &[(String, Option<Bytes>)],
    ) -> Result<Arc<Volume>> {
        let new = NewVolume { id, geometry, policy };
        self.create_volumes(&[new], now, records).await.map(|mut made| made.remove(0))
    }

    /// As [`Engine::create_volume_with`], for several volumes in one step.
    pub async fn create_volumes(
        &self,
        new: &[NewVolume],
        now: u64,
        records: &[(String, Option<Bytes>)],
    ) -> Result<Vec<Arc<Volume>>> {
        let ids: Vec<_> = new.iter().map(|it| it.id).collect();
        let policies: Vec<_> = new.iter().map(|it| it.policy).collect();
        let mutation = |volume, index: usize| {
            let NewVolume { id, geometry, .. } = new[index];
            Mutation::Create { volume, id, geometry, created: now }
        };
        self.add_volumes(&ids, &policies, mutation, records).await
    }

    /// Adds volumes and records, all in one step. The mutation of each volume gets its number, and its index in
    /// `ids`. `policies` are those of the volumes in the same order, or none. A policy is a record of the journal of its own, as no record of older software sets the policy of a
    /// volume that it creates; no acknowledgement is awaited between them, so they share a batch.
    pub(crate) async fn add_volumes(
        &self,
        ids: &[DiskId],
        policies: &[Option<Policy>],
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
                    let mut all = vec![made];
                    for (id, policy) in ids.iter().zip(policies).filter_map(|(id, it)| Some((*id, (*it)?))) {
                        all.extend(self.make_policy(id, policy).await?);
                    }
                    for made in all {
                        self.core.acknowledge(made).await?;
                    }
                    return Ok(volumes);
                }
                Ok(None) => {}
                Err(_) if next() != first => {}
                Err(error) => return self.core.confirm_error(Err(error)).await,
            }
        }
    }

    /// Changes the size in logical blocks; the data beyond a smaller size is discarded. Durable when this returns.
    pub async fn resize_volume(&self, id: DiskId, blocks: u64) -> Result<()> {
        let volume = self.there(id).await?;
        if volume.is_read_only() {
            return self.core.confirm_error(Err(Error::ReadOnly)).await;
        }
        let resized = volume.handle().resize(blocks).await;
        self.core.confirm_error(resized.map(drop)).await
    }

    /// Sets how the data of a volume is reduced from now on; a clone begins with the policy of its source. Durable
    /// when this returns.
    pub async fn set_policy(&self, id: DiskId, policy: Policy) -> Result<()> {
        let volume = self.there(id).await?.number();
        self.core.change(Change::of(Mutation::SetPolicy { volume, policy })).await
    }

    /// Sets how the data of a new volume is reduced, to be acknowledged; `None` if it is so already, or the volume was
    /// deleted since.
    async fn make_policy(&self, id: DiskId, policy: Policy) -> Result<Option<Made>> {
        let number = self.core.state.read().catalog.number(id);
        match number.filter(|_| self.policy(id) != Some(policy)) {
            Some(volume) => {
                let set = Change::of(Mutation::SetPolicy { volume, policy });
                self.core.make_when_possible(&set).await
            }
            None => Ok(None),
        }
    }

    /// How the data of a volume is reduced; `None` if the volume does not exist.
    pub fn policy(&self, id: DiskId) -> Option<Policy> {
        let state = self.core.state.read();
        let number = state.catalog.number(id)?;
        state.catalog.volumes.get(&number).map(|volume| volume.policy)
    }

    /// Deletes a volume at time `now`; its space is freed in the background. Durable when this returns.
    ///
    /// # Errors
    /// [`Error::RetentionLocked`] while it is under a retention lock.
    pub async fn delete_volume(&self, id: DiskId, now: u64) -> Result<()> {
        self.delete_volume_with(id, now, Vec::new()).await
    }

    /// As [`Engine::delete_volume`]. `records` are put, or removed if they are `None`, in the same step.
    ///
    /// # Errors
    /// [`Error::RetentionLocked`] while it is under a retention lock.
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
        // It is gone with the change, not with its acknowledgement: the caller may be cancelled before that.
        let made = self.core.make_when_possible(&delete).await;
        let made = self.core.confirm_error(made).await?;
        self.volumes.write().remove(&id);
        match made {
            Some(made) => self.core.acknowledge(made).await,
            None => Err(Error::Deleted),
        }
    }

    /// Puts a record under a key, or removes it. Durable when this returns.
    pub async fn put_record(&self, key: &str, value: Option<Bytes>) -> Result<()> {
        self.core.change(Change::of(Mutation::PutRecord { key: key.to_owned(), value })).await
    }

    /// Puts and removes several records in one step: after a crash all of these changes are there or none. Durable
    /// when this returns.
    pub async fn put_records(&self, records: Vec<(String, Option<Bytes>)>) -> Result<()> {
        let mutations = records.into_iter().map(|(key, value)| Mutation::PutRecord { key, value }).collect();
        self.core.change(Change { mutations, ..Change::default() }).await
    }

    /// Waits until no power loss can undo the records that are there now: to be called between reading a record that
    /// another caller may be putting, and reporting its content to another machine.
    pub async fn confirm_records(&self) -> Result<()> {
        let records_batch = self.core.state.read().catalog.records_batch;
        self.core.journal.until(records_batch).await
    }

    /// The records whose keys begin with `prefix`, by key. They may not be durable yet: see [`Engine::confirm_records`].
    pub fn records(&self, prefix: &str) -> Vec<(String, Bytes)> {
        let state = self.core.state.read();
        let from = state.catalog.records.range(prefix.to_owned()..);
        from.take_while(|(key, _)| key.starts_with(prefix)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// Inconsistencies found on media since the opening: the data concerned can't be read, all other data can.
    pub fn inconsistencies(&self) -> Vec<String> {
        self.core.inconsistencies.list()
    }

    /// Why the engine stopped permanently, if it did: all changes are refused.
    pub fn stopped(&self) -> Option<String> {
        self.core.journal.stopped()
    }

    /// Checks for drives that have failed. It has to be called now and then, as an idle engine does no I/O: the
    /// journal is trimmed if drives with parts of it have gone. While writes wait for space below the drives,
    /// operations that need space are refused instead of waiting for the background.
    pub fn watch_drives(&self) {
        self.core.update_usable_segments();
        if self.core.log.shelf().is_starved() {
            self.core.set_full(true);
            self.core.throttle.credit.set_open(true);
            self.core.throttle.queue.freed();
        }
        // A full log is looked at again: there may be room by now, and no write has to be refused to find that out.
        if self.core.log.shelf().wants_trim() || self.core.throttle.is_full() {
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
            map_pages: state.maps.page_count,
            map_pages_max: self.core.options.map_pages,
        }
        .consistent()
    }

    /// Changes that were refused for lack of space since the engine was opened.
    pub fn space_refusals(&self) -> SpaceRefusals {
        self.core.refusals.counts()
    }

    /// Bytes written to the log since the engine was opened.
    pub fn log_writes(&self) -> LogWrites {
        *self.core.log_writes.lock()
    }

    /// Times, from now on, how long the lock of the state is held for writing, which blocks every operation. `now` is a clock
    /// in nanoseconds.
    pub fn time_state_lock(&self, now: fn() -> u64) {
        self.core.state.time_writers(now);
    }

    /// How long the lock of the state was held for writing, since [`Engine::time_state_lock`].
    pub fn state_lock_held(&self) -> Held {
        self.core.state.held()
    }

    /// The background work. The opener of the engine polls this future, preferably on a separate thread. It ends
    /// after [`Engine::shutdown`], or when the engine stopped. Only the first call has work to do.
    pub fn background(&self) -> impl Future<Output = ()> + Send + 'static {
        self.background_with_rest(|_| std::future::ready(()))
    }

    /// [`Engine::background`] with a clock: where it rests it waits for the future that `rest` returns.
    pub fn background_with_rest<R>(
        &self,
        rest: impl Fn(Rest) -> R + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static
    where
        R: Future<Output = ()> + Send,
    {
        let worker = self.worker.lock().take();
        async move {
            if let Some(worker) = worker {
                worker.run(rest).await;
            }
        }
    }

    /// Discards the free segments of the shelf, as the background does when it begins; does nothing from then on. Until that
    /// is done the shelf takes them to be in use, while drives may have discarded some already.
    pub fn discard_unused(&self) {
        self.worker.lock().iter().for_each(Worker::discard_unused);
    }

    /// Takes no more changes, flushes, writes a last checkpoint, and ends the background, which must be driven until then.
    /// Reads go on.
    pub async fn shutdown(&self) -> Result<()> {
        self.core.shutdown.begin();
        self.core.signal.notify();
        self.core.shutdown.ended().await;
        self.core.journal.stopped().map_or(Ok(()), |why| Err(Error::Stopped(why)))
    }
}
