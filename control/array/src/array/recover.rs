//! Start-up: the array's identity and configuration are read from the records, and changes that a crash left half-way
//! are completed or rolled back.

use crate::array::Array;
use crate::array::reconcile::Affected;
use crate::configuration::check;
use crate::configuration::{put, put_records};
use crate::parts::Parts;
use crate::parts::env::Env;
use crate::{Error, Result};
use block::DiskId;
use engine::Engine;
use records::{
    ARRAY, AUDIT_MARK, ArrayIdentity, CLOCK, Config, DiskEntry, Edit, Labels, Record, ReplicationEntry,
    SnapshotEntry, Stage, VolumeEntry,
};
use std::collections::BTreeSet;

/// What the key of the settings begins with.
const SETTINGS: &str = "settings";

/// The identity that the engine holds; one is made and stored if there is none. `now`: in seconds since 1970.
///
/// # Errors
/// When it can't be read or stored, or `name` is needed and can't be the name of an array.
pub async fn load_identity(engine: &Engine, name: &str, random: u64, now: u64) -> Result<ArrayIdentity> {
    if let Some((_, value)) = engine.records(ARRAY).into_iter().find(|(key, _)| key == ARRAY) {
        return ArrayIdentity::read(&value);
    }
    check::name("array", name)?;
    let identity = ArrayIdentity { name: name.into(), serial: format!("{random:016x}"), created: now };
    let (key, value) = identity.record();
    put_records(engine, vec![(key, Some(value))]).await?;
    Ok(identity)
}

impl Array {
    /// Reads the configuration, reconciles it with the volumes that are there, and shows hosts what they may see.
    /// Portals should listen only after this answered: until then there are no units.
    pub async fn open(parts: Parts, identity: ArrayIdentity, version: &str, env: Env) -> Result<Array> {
        let mut config = read(&parts.engine)?;
        finish_or_take_back(&parts.engine, &mut config).await?;
        adopt_strays(&parts.engine, &mut config, env.seconds()).await?;
        let array = Array::new(parts, env, identity, version.into(), config)?;
        array.replicas.mirrors.restore(&array.config());
        let everything = Affected::everything(&array.config());
        array.reconciler.reconcile_policies(&array.configuration, &everything).await?;
        let later = array.reconciler.reconcile(&array.config(), &everything);
        debug_assert!(later.is_empty(), "hosts see everything from the start on");
        array.scrubs.resume();
        if let Err(error) = array.seal_stored_destinations().await {
            tracing::warn!(%error, "the addresses of webhooks stay as an earlier release has stored them");
        }
        Ok(array)
    }
}

/// Whether anything on the drives is sealed: then the key that sealed it must be somewhere.
///
/// # Errors
/// When the configuration can't be read.
pub fn has_sealed_secrets(engine: &Engine) -> Result<bool> {
    let sealing = Record::DECLARATIONS.iter().filter(|it| it.seals);
    for (key, value) in sealing.flat_map(|it| engine.records(it.prefix)) {
        if Record::read(&key, &value)?.is_some_and(|record| !record.sealed().is_empty()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The threads for connections of hosts that are set for this start, if they are.
///
/// # Errors
/// When the configuration can't be read.
pub fn kept_threads(engine: &Engine) -> Result<Option<u16>> {
    for (key, value) in engine.records(SETTINGS) {
        if let Some(Record::Settings(settings)) = Record::read(&key, &value)? {
            return Ok(settings.threads);
        }
    }
    Ok(None)
}

/// The configuration as the records say it.
fn read(engine: &Engine) -> Result<Config> {
    let mut config = Config::default();
    for (key, value) in engine.records("") {
        let of_replication = replication::RECORD_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
        if [ARRAY, AUDIT_MARK, CLOCK].contains(&key.as_str()) || of_replication {
            continue;
        }
        let Some(record) = Record::read(&key, &value)? else {
            tracing::warn!(key, "a configuration record of newer software is kept and ignored");
            continue;
        };
        if !config.apply(Edit::Put(record)) {
            return Err(Error::failed("the configuration can't be used", format!("{key} is there twice")));
        }
    }
    Ok(config)
}

/// A volume or snapshot that older software was creating or eradicating when the array stopped is deleted: it was never reported as there.
async fn finish_or_take_back(engine: &Engine, config: &mut Config) -> Result<()> {
    let unfinished = |entry: &DiskEntry| matches!(entry.stage(), Stage::Creating | Stage::Deleting);
    let unfinished: Vec<_> = config.disks().filter(unfinished).collect();
    for entry in unfinished {
        tracing::info!(name = entry.name(), stage = ?entry.stage(), "an unfinished change is cleaned up");
        if engine.volume(entry.id()).is_some() {
            // That it may go was judged before; the clock may have been set since.
            let deleted = engine.delete_volume(entry.id(), u64::MAX).await;
            deleted.map_err(|error| Error::failed("an unfinished volume could not be deleted", error))?;
        }
        let record = entry.record();
        put_records(engine, vec![(record.key(), None)]).await?;
        config.apply(Edit::Remove(record));
    }
    for entry in config.disks().filter(|entry| engine.volume(entry.id()).is_none()) {
        tracing::error!(name = entry.name(), "a configured volume or snapshot has no data");
    }
    Ok(())
}

/// A volume or snapshot without a record can't come from this code, whose record is there as early. Its data is
/// needed: it gets a name instead of being deleted. Points and staging volumes of replications that are configured, or were
/// deleted, are known by their own records.
async fn adopt_strays(engine: &Engine, config: &mut Config, created: u64) -> Result<()> {
    let mut known: BTreeSet<DiskId> = config.disks().map(|entry| entry.id()).collect();
    let mut replications = replication::unneeded(engine);
    replications.extend(config.replications.iter().map(ReplicationEntry::number));
    let replicated = replication::disks(engine, &replications);
    known.extend(
        replicated.map_err(|error| Error::failed("the points of replications can't be read", error))?,
    );
    for disk in engine.disks().into_iter().filter(|disk| !known.contains(&disk.id)) {
        let (id, stage, name) = (disk.id, Stage::Ready, format!("recovered-{:032x}", disk.id.0));
        tracing::warn!(%name, "a volume or snapshot without configuration was found");
        let record = match disk.parent.filter(|_| disk.snapshot) {
            Some(source) => {
                let created = disk.created;
                let (set, binned, schedule, rules, order) = (0, None, None, Vec::new(), 0);
                let labels = Labels::default();
                let entry = SnapshotEntry {
                    id,
                    name,
                    source,
                    created,
                    stage,
                    set,
                    binned,
                    schedule,
                    rules,
                    order,
                    labels,
                };
                Record::Snapshot(entry)
            }
            None => Record::Volume(VolumeEntry::new(id, name, created, stage, None)),
        };
        put_records(engine, vec![put(engine, &record)]).await?;
        config.apply(Edit::Put(record));
    }
    Ok(())
}
