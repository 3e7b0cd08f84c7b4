//! Coming up from the drives alone: the identity, then the configuration, with what a crash left half-way finished
//! or taken back.

use crate::action::{Array, Parts, World, put_record};
use crate::config::{Config, HostEntry, HostId, Identity, VolumeEntry};
use crate::record::{self, Stage};
use crate::{Error, Result};
use block::{Disk, DiskId};
use engine::Engine;
use std::collections::{BTreeMap, BTreeSet};

impl Identity {
    /// The identity that the engine holds; one is made up and stored when there is none.
    pub async fn load(engine: &Engine, name: &str, random: u64) -> Result<Identity> {
        if let Some((_, value)) =
            engine.records(record::ARRAY).into_iter().find(|(key, _)| key == record::ARRAY)
        {
            return record::read_identity(&value);
        }
        let identity = Identity { name: name.into(), serial: format!("{random:016x}") };
        let (key, value) = record::identity(&identity);
        put_record(engine, &key, Some(value)).await?;
        Ok(identity)
    }
}

impl Array {
    /// Reads the configuration, reconciles it with the volumes that are there, and shows hosts what they may see.
    /// Portals should listen only after this answered: until then there are no units.
    pub async fn open(parts: Parts, identity: Identity, version: &str, world: World) -> Result<Array> {
        let mut volumes = read_volumes(&parts.engine, world.seconds()).await?;
        adopt_strays(&parts.engine, &mut volumes, world.seconds()).await?;
        let config = Config { hosts: read_hosts(&parts.engine, &volumes)?, volumes };
        let array = Array::new(parts, world, identity, version.into(), config);
        array.show_all();
        Ok(array)
    }

    fn show_all(&self) {
        let config = self.config();
        config.volumes.values().for_each(|entry| self.serve(entry.id));
        config.hosts.values().for_each(|host| self.show_host(host));
        self.admit(&config);
    }
}

/// The volumes that are ready, by name. One that was being made or deleted when the array stopped is deleted: nobody
/// was told that it exists.
async fn read_volumes(engine: &Engine, now: u64) -> Result<BTreeMap<String, VolumeEntry>> {
    let mut volumes = BTreeMap::new();
    for (key, value) in engine.records(record::VOLUMES) {
        let (entry, stage) = record::read_volume(&key, &value)?;
        if stage != Stage::Ready {
            tracing::info!(volume = %entry.name, ?stage, "an unfinished change is cleaned up");
            if engine.volume(entry.id).is_some() {
                let deleted = engine.delete_volume(entry.id, now).await;
                deleted.map_err(|error| Error::failed("an unfinished volume could not be deleted", error))?;
            }
            put_record(engine, &key, None).await?;
            continue;
        }
        if engine.volume(entry.id).is_none() {
            tracing::error!(volume = %entry.name, id = %key, "a configured volume has no data");
        }
        if let Some(twin) = volumes.insert(entry.name.clone(), entry) {
            return Err(Error::failed(
                "the configuration can't be used",
                format!("two volumes {:?}", twin.name),
            ));
        }
    }
    Ok(volumes)
}

/// A volume without a record can't come from this code, whose record comes first. Its data is somebody's: it gets a
/// name instead of being deleted.
async fn adopt_strays(
    engine: &Engine,
    volumes: &mut BTreeMap<String, VolumeEntry>,
    created: u64,
) -> Result<()> {
    let known: BTreeSet<DiskId> = volumes.values().map(|entry| entry.id).collect();
    for id in engine.volumes().iter().map(|volume| volume.id()) {
        if !known.contains(&id) {
            let entry = VolumeEntry { id, name: format!("recovered-{:032x}", id.0), created };
            tracing::warn!(volume = %entry.name, "a volume without configuration was found");
            let (key, value) = record::volume(&entry, Stage::Ready);
            put_record(engine, &key, Some(value)).await?;
            volumes.insert(entry.name.clone(), entry);
        }
    }
    Ok(())
}

/// The hosts with what they see, by name.
fn read_hosts(
    engine: &Engine,
    volumes: &BTreeMap<String, VolumeEntry>,
) -> Result<BTreeMap<String, HostEntry>> {
    let mut by_id = BTreeMap::new();
    for (key, value) in engine.records(record::HOSTS) {
        let host = record::read_host(&key, &value)?;
        by_id.insert(host.id, host);
    }
    let known: BTreeSet<DiskId> = volumes.values().map(|entry| entry.id).collect();
    for (key, value) in engine.records(record::CONNECTIONS) {
        let (host, lun, volume): (HostId, u16, DiskId) = record::read_connection(&key, &value)?;
        match by_id.get_mut(&host) {
            Some(host) if known.contains(&volume) => {
                host.luns.insert(lun, volume);
            }
            _ => tracing::error!(connection = %key, "a connection without its host or volume is ignored"),
        }
    }
    Ok(by_id.into_values().map(|host| (host.name.clone(), host)).collect())
}
