//! The recycle bin: deleted volumes and snapshots keep their data for a configured time, unless they are eradicated.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::events::audit::Object;
use crate::noun::snapshot::Snapshot;
use crate::noun::volume::Volume;
use crate::request::verbs;
use crate::service::caller::Caller;
use crate::shape::view::some_of;
use crate::shape::{digits, shapes, time};
use crate::{Error, Result};
use block::{Disk, DiskId};
use records::{Config, DiskEntry, Edit, Role, Stage, Subject};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A volume or snapshot in the recycle bin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BinnedDisk {
    /// Permanent identifier: 32 hex digits.
    #[serde(serialize_with = "digits")]
    #[schema(value_type = String)]
    pub id: DiskId,
    /// Volume or snapshot.
    pub kind: DiskKind,
    /// Name before it was deleted.
    pub name: String,
    /// Size presented to hosts, in bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub size: u64,
    /// Mapped (written and not unmapped) bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub mapped: u64,
    /// Deletion time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub deleted: u64,
    /// Time at which its data is eradicated.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub eradicated_after: u64,
}

/// Kind of deleted item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskKind {
    /// A volume.
    Volume,
    /// A snapshot.
    Snapshot,
}

shapes! {
    BinnedDisk: "RecycleBin" "The contents of the recycle bin." "Newest last";
}

/// Options for restoring an item from the recycle bin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Restore {
    /// New name; the old name if omitted.
    pub name: Option<String>,
}

verbs! {
    #![tag = "recycle bin"]

    /// List the contents of the recycle bin
    ListRecycleBin {} -> Vec<BinnedDisk>, Read "list" "recycle bin entry", Viewer,
        at GET "/recycle-bin" says "The volumes and snapshots in it"
        => |tx, _| Ok(tx.array.bin(&tx.array.config()));
    /// Restore a volume or snapshot from the recycle bin
    RestoreFromRecycleBin {
        /// Id, or unambiguous name
        id;
        body change: Restore
    } -> Recovered, Change "recover" "recycle bin entry", Operator,
        of |it, config| Object::of(&["id"], &name_in_bin(config, &it.id)),
        at POST "/recycle-bin/{id}/restore" says "The volume or snapshot"
        => |tx, it| tx.take_from_bin(&it.id, it.change.name).await;
    /// Eradicate a volume or snapshot in the recycle bin
    EradicateFromRecycleBin {
        /// Id, or unambiguous name
        id
    } -> (), Exchange "eradicate" "recycle bin entry", Admin,
        of |it, config| Object::of(&["id"], &name_in_bin(config, &it.id)), at DELETE "/recycle-bin/{id}"
        => |tx, it| tx.eradicate_from_bin(&it.id).await;
}

/// A volume or a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Disk)]
pub enum Recovered {
    /// A snapshot; it has a `source`.
    Snapshot(Snapshot),
    /// A volume.
    Volume(Volume),
}

shapes! {
    Recovered;
}

/// The name of what has this identity in the recycle bin; the text itself if nothing has.
fn name_in_bin(config: &Config, which: &str) -> String {
    let mut found = config.binned().filter(|entry| format!("{:032x}", entry.id().0) == which);
    found.next().map_or_else(|| which.to_owned(), |entry| entry.name().to_owned())
}

impl Transaction<'_> {
    /// Deletes what no host sees: into the recycle bin, or permanently, which requires an administrator.
    pub(crate) async fn delete(&mut self, entry: DiskEntry, eradicate: bool) -> Result<()> {
        if eradicate {
            self.array.require(self.caller, Role::Admin)?;
        }
        self.refuse_used(&entry)?;
        if eradicate {
            return self.eradicate(entry).await;
        }
        let (noun, name) = (entry.noun(), entry.name().to_owned());
        let mut binned = entry.at(Stage::Binned, Some(self.array.clock.retention_begin()));
        if let DiskEntry::Volume(volume) = &mut binned {
            volume.group = None;
        }
        self.commit(vec![Edit::Put(binned.record())]).await?;
        self.done(&format!("{noun}.deleted"), noun, &name, "was moved to the recycle bin");
        Ok(())
    }

    pub async fn take_from_bin(&mut self, which: &str, name: Option<String>) -> Result<Recovered> {
        let mut entry = self.in_bin(which)?;
        if let Some(name) = name {
            match &entry {
                DiskEntry::Volume(_) => check::name("volume", &name)?,
                DiskEntry::Snapshot(_) => check::snapshot_name(&name)?,
            }
            entry.rename(name);
        }
        let (id, noun, name) = (entry.id(), entry.noun(), entry.name().to_owned());
        if self.array.config().disk_name_free(&name).is_err() {
            return Err(Error::conflict(format!(
                "another volume or snapshot is called {name:?} now: give a new name to restore this {noun} under"
            )));
        }
        let ready = entry.at(Stage::Ready, None);
        self.commit(vec![Edit::Put(ready.clone().record())]).await?;
        self.done(&format!("{noun}.restored"), noun, &name, "was restored from the recycle bin");
        match ready {
            DiskEntry::Volume(_) => self.volume_now(id).map(Recovered::Volume),
            DiskEntry::Snapshot(_) => self.snapshot_now(id).map(Recovered::Snapshot),
        }
    }

    pub async fn eradicate_from_bin(&mut self, which: &str) -> Result<()> {
        let entry = self.in_bin(which)?;
        self.eradicate(entry).await
    }

    pub(crate) async fn eradicate(&mut self, entry: DiskEntry) -> Result<()> {
        let (id, noun, name) = (entry.id(), entry.noun(), entry.name().to_owned());
        self.refuse_kept(id, &name)?;
        let apart = self.part_from_mirrors(id, "a volume of the group was deleted").await?;
        if !apart.is_empty() {
            // A witness may have been waited for, and other changes have come first.
            let stage = self.array.config().volumes.get(id).map(|it| it.stage);
            if stage != Some(entry.stage()) {
                return Err(Error::conflict(format!("{noun} {name:?} was changed: look at it again")));
            }
            self.refuse_used(&entry)?;
        }
        let remove = vec![Edit::Remove(entry.record())];
        match self.array.parts.engine.volume(id) {
            Some(_) => self
                .commit_deletion(id, remove)
                .await
                .map_err(|error| Error::refused(&format!("{noun} {name:?} can't be deleted"), error))?,
            None => self.commit(remove).await?,
        }
        self.done(&format!("{noun}.eradicated"), noun, &name, "was eradicated");
        Ok(())
    }

    /// Refuses what a host sees, or is replicated, or kept.
    fn refuse_used(&self, entry: &DiskEntry) -> Result<()> {
        let seen_by: Vec<_> = {
            let config = self.array.config();
            let seen = config.connections.of_volume(entry.id());
            seen.map(|connection| config.peer_name(connection.peer)).collect()
        };
        if !seen_by.is_empty() {
            return Err(Error::precondition(format!(
                "{} {:?} is connected to {}: disconnect it first",
                entry.noun(),
                entry.name(),
                some_of(&seen_by)
            )));
        }
        self.refuse_scheduled(Subject::Volume(entry.id()))?;
        self.refuse_kept(entry.id(), entry.name())
    }

    /// Refuses what is kept until a time that has not come.
    pub(crate) fn refuse_kept(&self, id: DiskId, name: &str) -> Result<()> {
        match self.array.parts.engine.disk(id) {
            Some(disk) if disk.kept_until > self.array.clock.retention_now() => {
                let error = block::Error::RetentionLocked { until: disk.kept_until };
                Err(Error::refused(&format!("{name:?} can't be deleted"), error))
            }
            _ => Ok(()),
        }
    }

    /// What is in the recycle bin, by identity or by a name that only one has there.
    fn in_bin(&self, which: &str) -> Result<DiskEntry> {
        let config = self.array.config();
        let mut found = config
            .binned()
            .filter(|entry| entry.name() == which || format!("{:032x}", entry.id().0) == which);
        match (found.next(), found.next()) {
            (Some(entry), None) => Ok(entry),
            (None, _) => {
                Err(Error::not_found(format!("there is no volume or snapshot {which:?} in the recycle bin")))
            }
            _ => Err(Error::conflict(format!(
                "the recycle bin has several objects named {which:?}: give the id"
            ))),
        }
    }
}

impl Array {
    /// What is in the recycle bin, the newest last.
    pub(crate) fn bin(&self, config: &Config) -> Vec<BinnedDisk> {
        let view = |entry: DiskEntry| {
            let disk = self.parts.engine.volume(entry.id());
            let deleted = entry.binned()?;
            Some(BinnedDisk {
                id: entry.id(),
                kind: match entry {
                    DiskEntry::Volume(_) => DiskKind::Volume,
                    DiskEntry::Snapshot(_) => DiskKind::Snapshot,
                },
                name: entry.name().to_owned(),
                size: disk.as_ref().map_or(0, |disk| disk.geometry().bytes()),
                mapped: disk.as_ref().map_or(0, |disk| disk.space().mapped),
                deleted,
                eradicated_after: deleted.saturating_add(config.settings.bin_seconds),
            })
        };
        let mut bin: Vec<_> = config.binned().filter_map(view).collect();
        bin.sort_by(|a, b| (a.deleted, &a.name, a.id).cmp(&(b.deleted, &b.name, b.id)));
        bin
    }

    /// Eradicates what was in the recycle bin for long enough.
    pub(crate) async fn empty_bin(&self) {
        if self.clock.expiry_stands_still() {
            return;
        }
        let now = self.clock.retention_now();
        let due: Vec<String> = {
            let config = self.config();
            let keep = config.settings.bin_seconds;
            let over = |since: u64| since.saturating_add(keep) <= now;
            let old = config.binned().filter(|entry| entry.binned().is_some_and(over));
            old.map(|entry| format!("{:032x}", entry.id().0)).collect()
        };
        for which in due {
            if let Err(error) = self.perform(&Caller::array(), EradicateFromRecycleBin { id: which }).await {
                tracing::error!(%error, "the recycle bin can't be emptied");
                return;
            }
        }
    }
}
