//! The array: how a request is carried out, and how a change is committed.
//!
//! A read is answered at once from the configuration and the parts. Changes run one after another: a change checks the
//! request, is entered in the audit log, commits records and engine change in one journal commit where the engine
//! allows it (see [`records::Stage`] for what may be left half-way), and only then updates the configuration in
//! memory, `scsi` and `iscsi`.

use crate::alert::AlertTable;
use crate::audit::Changes;
use crate::bundle::File;
use crate::caller::Caller;
use crate::clock::{self, Clock, Moment, Uptime};
use crate::condition::Conditions;
use crate::directory::DirectoryClients;
use crate::drive::{DriveStates, Machine};
use crate::health::HealthCache;
use crate::job::Jobs;
use crate::login::{self, Logins};
use crate::notification::Deliveries;
use crate::performance::Meter;
use crate::reconcile::{Affected, Units};
use crate::scrub::Scrubbing;
use crate::sealing::SealingKey;
use crate::verb::{Effect, Request};
use crate::view::Job;
use crate::volume::Contents;
use crate::watch::WatchState;
use crate::{Error, Result};
use block::DiskId;
use bytes::Bytes;
use engine::Engine;
use history::{NewEvent, Severity, Store};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use records::{ArrayIdentity, Config, Edit, Record, Stage, Topic};
use serde::Serialize;
use shelf::pool::Pool;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::broadcast;

/// Updates that a slow subscriber may lag before it misses some.
const BACKLOG: usize = 1024;

/// The parts that the array directs.
#[derive(Clone)]
pub struct Parts {
    /// Where volumes and records are.
    pub engine: Arc<Engine>,
    /// The store under the engine, to be managed.
    pub pool: Arc<dyn Pool>,
    /// The machine that it runs on.
    pub machine: Arc<dyn Machine>,
    /// The exported volumes: mappings, limits, statistics.
    pub exports: Arc<export::Exports>,
    /// The SCSI front end of the exported volumes.
    pub target: Arc<scsi::Target>,
    /// The iSCSI server that hosts log in to.
    pub server: Arc<iscsi::Server>,
    /// The history: events, alerts, measurements.
    pub history: Arc<Store>,
    /// Seals and opens secrets.
    pub sealing: Arc<SealingKey>,
}

/// The environment: time and randomness.
pub struct Env {
    /// Random numbers for identities that stay unique for ever.
    pub random: Box<dyn Fn() -> u128 + Send + Sync>,
    /// The time of day.
    pub now: Box<dyn Fn() -> SystemTime + Send + Sync>,
    /// How long the machine is up.
    pub uptime: Box<dyn Fn() -> Uptime + Send + Sync>,
    /// What the support bundle says about the machine: files by name.
    pub system: Box<dyn Fn() -> Vec<File> + Send + Sync>,
}

impl Env {
    /// The time of day in seconds since 1970.
    pub(crate) fn seconds(&self) -> u64 {
        self.millis() / 1000
    }

    /// The time of day in milliseconds since 1970.
    pub(crate) fn millis(&self) -> u64 {
        let since = (self.now)().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// An update for subscribers.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// An event.
    Event(history::Event),
    /// Objects of this kind have changed.
    Changed(Topic),
    /// The transition of an alert, and the alert as it is now.
    Alert(history::AlertChange, history::Alert),
    /// A job began, went on or ended.
    Job(Job),
    /// What the whole array did in the second that ends at a time, in seconds since 1970.
    Measured(u64, Box<history::Sample>),
}

/// The array: configuration, and the parts that carry it out.
pub struct Array {
    pub(crate) parts: Parts,
    pub(crate) env: Arc<Env>,
    pub(crate) identity: ArrayIdentity,
    pub(crate) version: String,
    pub(crate) started: u64,
    config: RwLock<Config>,
    pub(crate) clock: Mutex<Clock>,
    updates: broadcast::Sender<Update>,
    pub(crate) watched: Mutex<WatchState>,
    pub(crate) meter: Mutex<Meter>,
    pub(crate) alert_table: Mutex<AlertTable>,
    /// What the machine reported and is not over.
    pub(crate) reported: Mutex<Conditions>,
    pub(crate) seen: Mutex<DriveStates>,
    pub(crate) health_cache: Arc<Mutex<HealthCache>>,
    pub(crate) units: Units,
    pub(crate) jobs: Jobs,
    pub(crate) scrubbing: Mutex<Option<Arc<Scrubbing>>>,
    pub(crate) deliveries: Deliveries,
    pub(crate) logins: Arc<Logins>,
    pub(crate) directory_clients: Mutex<DirectoryClients>,
    /// Held by the one change under way.
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// Held while all maps of a volume are looked at.
    pub(crate) measuring: tokio::sync::Mutex<()>,
}

impl Array {
    pub(crate) fn new(
        parts: Parts,
        env: Env,
        identity: ArrayIdentity,
        version: String,
        config: Config,
    ) -> Result<Self> {
        let env = Arc::new(env);
        let started = env.seconds();
        let moment = Moment { wall: started, uptime: (env.uptime)() };
        let clock = Mutex::new(clock::load(&parts.engine, &moment)?);
        let (config, changing) = (RwLock::new(config), tokio::sync::Mutex::new(()));
        let updates = broadcast::Sender::new(BACKLOG);
        let watched = Mutex::default();
        let meter = Mutex::new(Meter::open(&parts.history, &env));
        let jobs = Jobs::new(env.clone(), updates.clone());
        let logins = login::observe(&parts.server);
        Ok(Self {
            parts,
            env,
            identity,
            version,
            started,
            config,
            clock,
            updates,
            watched,
            meter,
            alert_table: Mutex::default(),
            reported: Mutex::default(),
            seen: Mutex::default(),
            health_cache: Arc::default(),
            units: Units::default(),
            jobs,
            scrubbing: Mutex::default(),
            deliveries: Deliveries::default(),
            logins,
            directory_clients: Mutex::default(),
            changing,
            measuring: tokio::sync::Mutex::default(),
        })
    }

    /// Carries out a request. A change must be polled to its end: when the caller may go away (an HTTP request), it
    /// belongs in a task of its own. One dropped half-way is completed or rolled back by the next start.
    ///
    /// # Errors
    /// When the caller may not, or it can't be done.
    pub async fn perform<R: Request>(&self, caller: &Caller, request: R) -> Result<R::Answer> {
        self.authorize(caller, &request)?;
        let mut tx = Transaction { array: self, caller, changes: Changes::default() };
        match R::VERB.effect {
            Effect::Read => request.run(&mut tx).await,
            Effect::Probe => {
                let entry = self.begin_entry(caller, &request);
                let outcome = request.run(&mut tx).await;
                self.end_entry(entry, &outcome, &tx.changes);
                outcome
            }
            Effect::Change => {
                let _one_at_a_time = self.changing.lock().await;
                let entry = self.begin_entry(caller, &request);
                // Once more: a change before this one may have taken the caller's role away.
                let outcome = match self.authorize(caller, &request).and_then(|()| self.serves()) {
                    Ok(()) => request.run(&mut tx).await,
                    Err(refused) => Err(refused),
                };
                self.end_entry(entry, &outcome, &tx.changes);
                outcome
            }
        }
    }

    /// Refuses changes once the engine has stopped.
    fn serves(&self) -> Result<()> {
        match self.parts.engine.stopped() {
            Some(why) => Err(Error::failed("the array stopped to protect data and needs a new start", why)),
            None => Ok(()),
        }
    }

    /// Subscribes to all updates from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Update> {
        self.updates.subscribe()
    }

    /// Publishes that objects of a kind have changed.
    pub(crate) fn publish_change(&self, topic: Topic) {
        self.publish(Update::Changed(topic));
    }

    /// Stores an event and publishes it.
    pub(crate) fn log_event(
        &self,
        severity: Severity,
        kind: &str,
        subject: Option<(&str, &str)>,
        message: String,
    ) {
        let event = NewEvent {
            time: self.env.seconds(),
            severity,
            kind: kind.into(),
            message,
            noun: subject.map(|(noun, _)| noun.into()),
            name: subject.map(|(_, name)| name.into()),
        };
        match self.parts.history.add_event(&event) {
            Ok(id) => self.publish(Update::Event(history::Event { id, event })),
            Err(error) => tracing::error!(%error, ?event, "an event could not be kept"),
        }
    }

    /// Publishes an update.
    pub(crate) fn publish(&self, update: Update) {
        // There need not be a subscriber.
        let _ = self.updates.send(update);
    }

    /// The configuration. Whoever reads it may ask what reads it again: a change that waits does not come between.
    pub(crate) fn config(&self) -> RwLockReadGuard<'_, Config> {
        self.config.read_recursive()
    }

    /// Applies a committed edit in memory, where no host is concerned.
    pub(crate) fn configure(&self, edit: Edit) {
        self.config.write().apply(edit);
    }

    pub(crate) fn disk(&self, id: DiskId, name: &str) -> Result<Arc<engine::Volume>> {
        self.parts.engine.volume(id).ok_or_else(|| {
            Error::failed(&format!("volume {name:?} has no data"), "the engine does not know it")
        })
    }
}

/// A request under way. There is one change at a time.
pub struct Transaction<'a> {
    pub(crate) array: &'a Array,
    pub(crate) caller: &'a Caller,
    /// For the audit log: what was before and after.
    changes: Changes,
}

impl Transaction<'_> {
    /// Commits edits in one step, then applies them in memory, for hosts and for subscribers.
    pub(crate) async fn commit(&mut self, edits: Vec<Edit>) -> Result<()> {
        let records = self.records(&edits);
        put_records(&self.array.parts.engine, records).await?;
        let affected = self.apply(edits);
        self.array.reconcile_policies(&affected).await
    }

    /// Writes edits and creates a volume in one step.
    pub(crate) async fn commit_volume(
        &mut self,
        contents: Contents,
        edits: Vec<Edit>,
        id: DiskId,
    ) -> std::result::Result<Affected, block::Error> {
        let noted = self.changes.clone();
        let (records, now) = (bytes_of(self.records(&edits)), self.now());
        let engine = &self.array.parts.engine;
        let created = match contents {
            Contents::Empty(geometry) => engine.create_volume_with(id, geometry, now, &records).await,
            Contents::Of(source) => engine.clone_volume_with(source, id, now, &records).await,
        };
        if let Err(error) = created {
            self.changes = noted;
            return Err(error);
        }
        Ok(self.apply(edits))
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
            self.array.parts.engine.delete_volume_with(id, self.array.retention_now(), records).await;
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
    fn apply(&self, edits: Vec<Edit>) -> Affected {
        let mut config = self.array.config.write();
        let (mut affected, mut topics) = (Affected::default(), BTreeSet::new());
        for edit in edits {
            topics.extend(edit.topics(stage_of(&config, &edit)));
            affected.note(&config, &edit);
            config.apply(edit.clone());
            affected.note(&config, &edit);
        }
        self.array.reconcile(&config, &affected);
        drop(config);
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

/// How far the volume or snapshot of an edit is before it.
fn stage_of(config: &Config, edit: &Edit) -> Option<Stage> {
    let (Edit::Put(record) | Edit::Remove(record)) = edit;
    match record {
        Record::Volume(it) => config.volumes.get(it.id).map(|it| it.stage),
        Record::Snapshot(it) => config.snapshots.get(it.id).map(|it| it.stage),
        _ => None,
    }
}

fn bytes_of(records: Vec<(String, Option<Vec<u8>>)>) -> Vec<(String, Option<Bytes>)> {
    records.into_iter().map(|(key, value)| (key, value.map(Bytes::from))).collect()
}

/// The value that is stored under a key.
pub(crate) fn stored(engine: &Engine, key: &str) -> Option<Vec<u8>> {
    engine.records(key).into_iter().find(|(found, _)| found == key).map(|(_, value)| value.to_vec())
}

/// The record to be written in the place of what is stored.
pub(crate) fn put(engine: &Engine, record: &Record) -> (String, Option<Vec<u8>>) {
    let key = record.key();
    let value = record.value_over(stored(engine, &key).as_deref());
    (key, Some(value))
}

/// Writes or removes records in one step; durable when this answers.
pub(crate) async fn put_records(engine: &Engine, records: Vec<(String, Option<Vec<u8>>)>) -> Result<()> {
    let done = engine.put_records(bytes_of(records)).await;
    done.map_err(|error| Error::failed("the configuration could not be stored", error))
}

/// The first few names of a list, for a message.
pub(crate) fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 5;
    match names.len() {
        0..=SHOWN => names.join(", "),
        all => format!("{} and {} more", names[..SHOWN].join(", "), all - SHOWN),
    }
}
