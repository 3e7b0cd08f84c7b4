//! Transactions: how a request reads, and how a change is committed.
//!
//! A change commits records and engine change in one journal commit where the engine allows it (see [`records::Stage`]
//! for what may be left half-way), and only then updates the configuration in memory, `scsi` and `iscsi`.

use crate::array::Array;
use crate::array::reconcile::{Affected, VIEWS_AT_ONCE, View};
use crate::configuration::{bytes_of, put_records, stored};
use crate::events::audit::Changes;
use crate::service::caller::Caller;
use crate::shape::policy::policy_of;
use crate::{Error, Result};
use block::{DiskId, Geometry};
use bytes::Bytes;
use history::Severity;
use parking_lot::RwLockReadGuard;
use records::{Config, Edit, Record, Role, Stage, VolumeEntry};
use serde::Serialize;
use std::collections::BTreeSet;
use std::ops::Deref;
use tokio::sync::MutexGuard;

/// A volume to create without contents.
#[derive(Clone, Debug)]
pub(crate) struct EmptyVolume {
    pub entry: VolumeEntry,
    pub geometry: Geometry,
}

/// A request under way. There is one change at a time.
pub struct Transaction<'a> {
    pub(crate) array: &'a Array,
    pub(crate) caller: &'a Caller,
    /// For the audit log: what was before and after.
    pub(crate) changes: Changes,
    /// Keeps other changes out. A transaction that its caller has made is within the caller's.
    turn: Option<MutexGuard<'a, ()>>,
    /// The role that it needs, once it has entered.
    needed: Option<Role>,
    /// What hosts see that does not yet agree with the configuration.
    views: Vec<View>,
    /// The configuration as it would be, if nothing is to be carried out.
    rehearsed: Option<Box<Config>>,
}

/// The configuration that a transaction reads.
pub(crate) enum Configured<'a> {
    /// That of the array.
    InForce(RwLockReadGuard<'a, Config>),
    /// That of a rehearsal.
    Rehearsed(&'a Config),
}

impl Deref for Configured<'_> {
    type Target = Config;

    fn deref(&self) -> &Config {
        match self {
            Self::InForce(config) => config,
            Self::Rehearsed(config) => config,
        }
    }
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(array: &'a Array, caller: &'a Caller) -> Self {
        Self {
            array,
            caller,
            changes: Changes::default(),
            turn: None,
            needed: None,
            views: Vec::new(),
            rehearsed: None,
        }
    }

    /// One that refuses what the array would refuse, and changes nothing but a copy of the configuration.
    pub(crate) fn rehearsal(array: &'a Array, caller: &'a Caller) -> Self {
        let mut tx = Self::new(array, caller);
        tx.rehearsed = Some(Box::new(array.config().clone()));
        tx
    }

    /// Whether nothing is carried out.
    pub(crate) fn is_rehearsal(&self) -> bool {
        self.rehearsed.is_some()
    }

    /// The configuration, with what this transaction has changed.
    pub(crate) fn config(&self) -> Configured<'_> {
        match &self.rehearsed {
            Some(config) => Configured::Rehearsed(config),
            None => Configured::InForce(self.array.config()),
        }
    }

    /// Applies edits to the copy of a rehearsal. Otherwise returns them.
    fn rehearse(&mut self, edits: Vec<Edit>) -> Option<Vec<Edit>> {
        let Some(config) = &mut self.rehearsed else { return Some(edits) };
        for edit in edits {
            config.apply(edit);
        }
        None
    }

    /// Takes its turn among the changes, for what needs a role.
    ///
    /// # Errors
    /// When the caller does not have the role any more, as an earlier change may have revoked it, or the engine has stopped.
    pub(crate) async fn enter(&mut self, needed: Role) -> Result<()> {
        (self.turn, self.needed) = (Some(self.array.configuration.change().await), Some(needed));
        self.array.require(self.caller, needed)?;
        self.array.check_running()
    }

    /// Lets other changes go on, and passes to hosts what is left of this one, a few hosts at a time: a change of a host group with
    /// hundreds of sessions does not hold up others, nor the thread that it is on.
    pub(crate) async fn leave(&mut self) {
        self.turn = None;
        while !self.views.is_empty() {
            self.show_some();
            tokio::task::yield_now().await;
        }
    }

    /// Makes a part of what hosts see agree with the configuration as it is now, which may be newer than this change.
    fn show_some(&mut self) {
        let count = self.views.len().min(VIEWS_AT_ONCE);
        let views: Vec<_> = self.views.drain(..count).collect();
        self.array.reconciler.show(&self.array.config(), &views);
    }

    /// Waits for another machine, and lets other changes go first. What was read of the configuration before may be out of date
    /// after it, and is to be read again.
    ///
    /// # Errors
    /// As those of [`Transaction::enter`]; what was waited for has taken place.
    pub(crate) async fn outside<T>(&mut self, work: impl Future<Output = T>) -> Result<T> {
        debug_assert!(self.turn.is_some(), "what keeps other changes out is held by the caller");
        self.leave().await;
        let outcome = work.await;
        if let Some(needed) = self.needed {
            self.enter(needed).await?;
        }
        Ok(outcome)
    }

    /// Commits edits in one step, then applies them in memory, for hosts and for subscribers.
    pub(crate) async fn commit(&mut self, edits: Vec<Edit>) -> Result<()> {
        self.commit_with(edits, Vec::new()).await
    }

    /// As [`Transaction::commit`], with records in the same step that are not of the configuration.
    pub(crate) async fn commit_with(
        &mut self,
        edits: Vec<Edit>,
        others: Vec<(String, Option<Bytes>)>,
    ) -> Result<()> {
        self.refuse_mixed_transports(&edits)?;
        self.refuse_invisible_namespaces(&edits)?;
        let edits = self.config().retiring_luns(edits);
        let Some(edits) = self.rehearse(edits) else { return Ok(()) };
        let mut records = self.records(&edits);
        records.extend(others.into_iter().map(|(key, value)| (key, value.map(|value| value.to_vec()))));
        put_records(&self.array.parts.engine, records).await?;
        let affected = self.apply(edits);
        self.array.reconciler.reconcile_policies(&self.array.configuration, &affected).await
    }

    /// Refuses edits by which hosts would see a volume over iSCSI and over NVMe/TCP at once.
    fn refuse_mixed_transports(&self, edits: &[Edit]) -> Result<()> {
        let concerns = |edit: &Edit| {
            let record = edit.record().0;
            matches!(
                record,
                Record::Host(_) | Record::HostGroup(_) | Record::Connection(_) | Record::Volume(_)
            )
        };
        if !edits.iter().any(concerns) {
            return Ok(());
        }
        let mut after = self.config().around(edits);
        let before = after.mixed_transports();
        edits.iter().for_each(|edit| {
            after.apply(edit.clone());
        });
        let Some(id) = after.mixed_transports().into_iter().find(|id| !before.contains(id)) else {
            return Ok(());
        };
        let name = after.disk_name(id).unwrap_or_default();
        Err(Error::conflict(format!(
            "hosts would see {name:?} over iSCSI and over NVMe/TCP at once, which clustered hosts do not support: use one \
             protocol for all of its hosts, or allow it for this volume (mixed_transports)"
        ))
        .about("mixed_transports"))
    }

    /// Refuses edits by which a host would have more volumes over NVMe/TCP than it can see.
    fn refuse_invisible_namespaces(&self, edits: &[Edit]) -> Result<()> {
        let Some((host, count)) = self.config().first_above(edits, nvmf::MAX_NAMESPACES) else {
            return Ok(());
        };
        let most = nvmf::MAX_NAMESPACES;
        Err(Error::precondition(format!(
            "host {host:?} would have {count} volumes, and a host sees at most {most} over NVMe/TCP: disconnect some from it or \
             from its host group first"
        )))
    }

    /// Writes the record of a volume and creates it with its reduction policy as a clone, in one step.
    pub(crate) async fn commit_clone(
        &mut self,
        source: DiskId,
        entry: VolumeEntry,
    ) -> std::result::Result<(), block::Error> {
        let (noted, id) = (self.changes.clone(), entry.id);
        let policy = Some(policy_of(&self.config(), &entry));
        let edits = vec![Edit::Put(Record::Volume(entry))];
        let (records, now) = (bytes_of(self.records(&edits)), self.now());
        let created = self.array.parts.engine.clone_volume_with(source, id, policy, now, &records).await;
        if let Err(error) = created {
            self.changes = noted;
            return Err(error);
        }
        self.apply(edits);
        Ok(())
    }

    /// As [`Transaction::commit_clone`], for several empty volumes in one step.
    pub(crate) async fn commit_volumes(
        &mut self,
        new: Vec<EmptyVolume>,
    ) -> std::result::Result<(), block::Error> {
        let noted = self.changes.clone();
        let volumes: Vec<engine::NewVolume> = {
            let config = self.config();
            let volume = |EmptyVolume { entry, geometry }: &EmptyVolume| engine::NewVolume {
                id: entry.id,
                geometry: *geometry,
                policy: Some(policy_of(&config, entry)),
            };
            new.iter().map(volume).collect()
        };
        let edits: Vec<_> = new.into_iter().map(|it| Edit::Put(Record::Volume(it.entry))).collect();
        let Some(edits) = self.rehearse(edits) else { return Ok(()) };
        let (records, now) = (bytes_of(self.records(&edits)), self.now());
        if let Err(error) = self.array.parts.engine.create_volumes(&volumes, now, &records).await {
            self.changes = noted;
            return Err(error);
        }
        self.apply(edits);
        Ok(())
    }

    /// Writes edits and deletes the contents of a volume or snapshot in one step.
    pub(crate) async fn commit_deletion(
        &mut self,
        id: DiskId,
        edits: Vec<Edit>,
    ) -> std::result::Result<(), block::Error> {
        let noted = self.changes.clone();
        let records = bytes_of(self.records(&edits));
        let deleted =
            self.array.parts.engine.delete_volume_with(id, self.array.clock.retention_now(), records).await;
        if let Err(error) = deleted {
            self.changes = noted;
            return Err(error);
        }
        self.apply(edits);
        Ok(())
    }

    /// As [`Transaction::commit`], with snapshots that are taken in the same step: sources, and identities to have.
    pub(crate) async fn commit_snapshots(
        &mut self,
        pairs: &[(DiskId, DiskId)],
        edits: Vec<Edit>,
        keep_until: u64,
    ) -> Result<()> {
        let records = bytes_of(self.records(&edits));
        let taken = self.array.parts.engine.snapshot(pairs, &records, self.now(), keep_until).await;
        taken.map_err(|error| Error::refused("the snapshot can't be taken", error))?;
        self.apply(edits);
        Ok(())
    }

    /// What to write; noted for the audit log.
    fn records(&mut self, edits: &[Edit]) -> Vec<(String, Option<Vec<u8>>)> {
        let mut records = Vec::with_capacity(edits.len());
        for edit in edits {
            let (record, put) = edit.record();
            let key = record.key();
            let before = stored(&self.array.parts.engine, &key);
            self.note(edit, before.as_deref());
            records.push((key, put.then(|| record.value_over(before.as_deref()))));
        }
        records
    }

    /// Applies committed edits in memory, for hosts and for subscribers.
    fn apply(&mut self, edits: Vec<Edit>) -> Affected {
        let mut config = self.array.configuration.write();
        let (mut affected, mut topics) = (Affected::default(), BTreeSet::new());
        for edit in edits {
            topics.extend(edit.topics(stage_of(&config, &edit)));
            affected.note(&config, &edit);
            config.apply(edit.clone());
            affected.note(&config, &edit);
        }
        let later = self.array.reconciler.reconcile(&config, &affected);
        drop(config);
        self.views.extend(later);
        topics.into_iter().for_each(|topic| self.array.publish_change(topic));
        affected
    }

    /// Notes the change of a record for the audit log.
    fn note(&mut self, edit: &Edit, before: Option<&[u8]>) {
        let key = edit.record().0.key();
        let before = before.and_then(|value| Record::read(&key, value).ok().flatten());
        self.changes.note(&self.array.config(), before.as_ref(), edit);
    }

    /// Notes for the audit log the state before and after, where no record holds it.
    pub(crate) fn note_change<T: Serialize>(
        &mut self,
        noun: &'static str,
        name: Option<&str>,
        [before, after]: [&T; 2],
    ) {
        self.changes.note_other(&self.array.config(), noun, name, [before, after]);
    }

    /// Logs an event about a change.
    pub(crate) fn done(&self, kind: &str, noun: &str, name: &str, what: &str) {
        if self.is_rehearsal() {
            return;
        }
        let message = format!("{noun} {name:?} {what} by {}", self.caller.user);
        self.array.log_event(Severity::Info, kind, Some((noun, name)), message);
    }

    pub(crate) fn id64(&self) -> u64 {
        (self.array.env.random)() as u64
    }

    pub(crate) fn now(&self) -> u64 {
        self.array.env.seconds()
    }
}

/// A change within that of its caller, or one whose request was given up, is complete for hosts as well.
impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        while !self.views.is_empty() {
            self.show_some();
        }
    }
}

/// How far the volume or snapshot of an edit is before it.
fn stage_of(config: &Config, edit: &Edit) -> Option<Stage> {
    let (Edit::Put(record) | Edit::Remove(record)) = edit;
    match record {
        Record::Volume(it) => config.volumes.get(it.id).map(|it| it.stage),
        Record::Snapshot(it) => config.snapshots.get(it.id).map(|it| it.stage),
        _ => None,
    }
}
