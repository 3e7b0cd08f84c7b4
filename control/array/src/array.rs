//! The spine: how an action is carried out.
//!
//! A question is answered from the configuration and the parts at once. A change goes after the one before it: it
//! judges the request, is noted in the audit trail, changes the engine and the records in an order that a crash can
//! stop anywhere (see [`records::Stage`]), and only then the configuration in memory, `scsi` and `iscsi`.

use crate::action::{Action, Caller, Outcome};
use crate::alert::AlertTable;
use crate::audit::Changes;
use crate::bundle::File;
use crate::clock::{self, Clock, Moment, Uptime};
use crate::condition::Conditions;
use crate::directory::DirectoryClients;
use crate::drive::{DriveStates, Machine};
use crate::health::HealthCache;
use crate::job::{Job, Jobs};
use crate::login::{self, Logins};
use crate::notification::DeliveryQueues;
use crate::performance::Meter;
use crate::policy::Affected;
use crate::scrub::Scrubbing;
use crate::sealing::SealingKey;
use crate::verb::Effect;
use crate::volume::Contents;
use crate::watch::WatchState;
use crate::{Error, Result};
use block::DiskId;
use bytes::Bytes;
use engine::Engine;
use history::{NewEvent, Severity, Store};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use records::{ArrayIdentity, Config, ConnectionEntry, Edit, HostId, Peer, Record, Stage, Topic};
use serde::Serialize;
use shelf::pool::Pool;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::broadcast;

/// Happenings that a slow listener may be behind before it misses some.
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
    /// Who lets hosts in.
    pub server: Arc<iscsi::Server>,
    /// Who remembers what happened.
    pub history: Arc<Store>,
    /// What seals secrets.
    pub sealing: Arc<SealingKey>,
}

/// What is not the array's own: chance and time.
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

/// Something that listeners hear of at once.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// An event.
    Event(history::Event),
    /// Things of this kind are not what they were.
    Changed(Topic),
    /// What became of an alert, and the alert as it is now.
    Alert(history::AlertChange, history::Alert),
    /// A job began, went on or ended.
    Job(Job),
    /// What the whole array did in the second that ends at a time, in seconds since 1970.
    Measured(u64, Box<history::Sample>),
}

/// The array: configuration, and the parts that carry it out.
pub struct Array {
    pub(crate) parts: Parts,
    pub(crate) env: Env,
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
    pub(crate) jobs: Mutex<Jobs>,
    pub(crate) scrubbing: Mutex<Option<Arc<Scrubbing>>>,
    pub(crate) queues: Mutex<DeliveryQueues>,
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
        let started = env.seconds();
        let moment = Moment { wall: started, uptime: (env.uptime)() };
        let clock = Mutex::new(clock::load(&parts.engine, &moment)?);
        let (config, changing) = (RwLock::new(config), tokio::sync::Mutex::new(()));
        let updates = broadcast::Sender::new(BACKLOG);
        let watched = Mutex::default();
        let meter = Mutex::new(Meter::open(&parts.history, &env));
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
            jobs: Mutex::default(),
            scrubbing: Mutex::default(),
            queues: Mutex::default(),
            logins,
            directory_clients: Mutex::default(),
            changing,
            measuring: tokio::sync::Mutex::default(),
        })
    }

    /// Carries out an action. A change must be polled to its end: when the caller may go away (an HTTP request),
    /// it belongs in a task of its own. One dropped half-way is finished or taken back by the next start.
    pub async fn perform(&self, caller: &Caller, action: Action) -> Result<Outcome> {
        self.permit(caller, &action)?;
        match action.verb().declaration().effect {
            Effect::Read => self.answer(caller, action).await,
            Effect::Probe => self.probe(caller, action).await,
            Effect::Change => self.change(caller, action).await,
        }
    }

    /// Answers a question.
    async fn answer(&self, caller: &Caller, action: Action) -> Result<Outcome> {
        match action {
            Action::CompareDisks { base, name, from, most } => {
                Ok(Outcome::Difference(self.compare(base, &name, from, most).await?))
            }
            Action::ShowVolumeUsage { name } => self.volume_usage(&name).await,
            Action::ShowGroupUsage { name } => self.group_usage(&name).await,
            question => self.answer_at_once(caller, question),
        }
    }

    /// Asks somebody elsewhere.
    async fn probe(&self, caller: &Caller, action: Action) -> Result<Outcome> {
        let entry = self.begin_entry(caller, &action);
        let outcome = match action {
            Action::TestTarget { name } => self.test_target(&name).await,
            Action::TestDirectory { name } => self.test_directory(&name).await,
            other => Err(undeclared(&other)),
        };
        self.end_entry(entry, &outcome, &Changes::default());
        outcome
    }

    async fn change(&self, caller: &Caller, action: Action) -> Result<Outcome> {
        let _one_at_a_time = self.changing.lock().await;
        let entry = self.begin_entry(caller, &action);
        let mut change = Change { array: self, caller, changes: Changes::default() };
        // Once more: a change before this one may have taken the caller's role away.
        let outcome = match self.permit(caller, &action) {
            Ok(()) => change.carry_out(action).await,
            Err(refused) => Err(refused),
        };
        let changes = change.changes;
        self.end_entry(entry, &outcome, &changes);
        outcome
    }

    /// Hears of everything that happens from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Update> {
        self.updates.subscribe()
    }

    /// Tells listeners that records of a kind are not what they were.
    pub(crate) fn publish_change(&self, topic: Topic) {
        self.publish(Update::Changed(topic));
    }

    /// Keeps an event and tells listeners.
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

    /// Tells listeners.
    pub(crate) fn publish(&self, update: Update) {
        // Nobody need listen.
        let _ = self.updates.send(update);
    }

    /// The configuration. Whoever reads it may ask what reads it again: a change that waits does not come between.
    pub(crate) fn config(&self) -> RwLockReadGuard<'_, Config> {
        self.config.read_recursive()
    }

    /// Makes what was written true in memory, where no host is concerned.
    pub(crate) fn configure(&self, edit: Edit) {
        self.config.write().apply(edit);
    }

    fn answer_at_once(&self, caller: &Caller, action: Action) -> Result<Outcome> {
        if let Some(told) = self
            .tell_performance(&action)
            .or_else(|| self.tell_access(caller, &action))
            .or_else(|| self.tell_alerts(&action))
            .or_else(|| self.tell_targets(&action))
            .or_else(|| self.tell_directories(&action))
        {
            return told;
        }
        let config = self.config();
        Ok(match action {
            Action::ShowArray => Outcome::Array(Box::new(self.status(&config))),
            Action::ShowSettings => Outcome::Settings(self.settings(&config)),
            Action::ShowProtection => Outcome::Protection(Box::new(self.protection(&config))),
            Action::ListDrives => {
                Outcome::Drives(self.drives().into_iter().map(|drive| self.with_health(drive)).collect())
            }
            Action::ShowDrive { which } => self.show_drive(&which)?,
            Action::ShowKey => Outcome::Key(self.key()),
            Action::ListJobs => Outcome::Jobs(self.list_jobs()),
            Action::ShowJob { id } => Outcome::Job(self.job(&id)?),
            Action::ListVolumes => Outcome::Volumes(self.volumes(&config)),
            Action::ShowVolume { name } => {
                Outcome::Volume(self.volume(&config, config.volumes.named(&name)?))
            }
            Action::ListBin => Outcome::Bin(self.bin(&config)),
            Action::ListSnapshots => Outcome::Snapshots(self.snapshots(&config)),
            Action::ShowSnapshot { name } => {
                Outcome::Snapshot(self.snapshot(&config, config.snapshots.named(&name)?))
            }
            Action::ListSchedules => Outcome::Schedules(self.schedules(&config)),
            Action::ShowSchedule { name } => {
                Outcome::Schedule(self.schedule(&config, config.schedules.named(&name)?))
            }
            Action::ListGroups => Outcome::Groups(self.groups(&config)),
            Action::ShowGroup { name } => Outcome::Group(self.group(&config, config.groups.named(&name)?)),
            Action::ListHosts => Outcome::Hosts(self.hosts(&config)),
            Action::ShowHost { name } => Outcome::Host(self.host(&config, config.hosts.named(&name)?)),
            Action::ListRefusedLogins => Outcome::RefusedLogins(self.refused_logins(&config, None)),
            Action::ListHostGroups => Outcome::HostGroups(self.host_groups(&config)),
            Action::ShowHostGroup { name } => {
                Outcome::HostGroup(self.host_group(&config, config.host_groups.named(&name)?))
            }
            Action::ListConnections => Outcome::Connections(self.connections(&config)),
            Action::ListEvents { page, least } => {
                Outcome::Events(self.parts.history.events(&page, least).map_err(history_failed)?)
            }
            Action::ListAudit { page } => {
                Outcome::Audit(self.parts.history.audits(&page).map_err(history_failed)?)
            }
            Action::ShowSupportBundle => {
                drop(config);
                self.support_bundle()?
            }
            other => return Err(undeclared(&other)),
        })
    }

    /// Shows an initiator what it may see.
    pub(crate) fn show_host(&self, config: &Config, host: HostId) {
        if let Some(entry) = config.hosts.get(host) {
            let view = view_of(config, host);
            entry.initiators.iter().for_each(|name| self.parts.exports.set_mappings(name, view.clone()));
        }
    }

    /// Tells `iscsi` who may log in, and how. A host whose secret can't be opened may not.
    pub(crate) fn admit(&self, config: &Config) {
        let mut table = Vec::new();
        for host in config.hosts.iter() {
            match self.access(host) {
                Ok(access) => {
                    table.extend(host.initiators.iter().map(|name| (name.clone(), access.clone())));
                }
                Err(error) => tracing::error!(host = host.name, %error, "a host can't log in"),
            }
        }
        self.parts.server.set_access(table.into_iter().collect());
    }

    /// Tells `scsi` about a volume.
    pub(crate) fn serve(&self, id: DiskId) {
        if let Some(disk) = self.parts.engine.volume(id) {
            self.parts.exports.add_volume(disk);
        }
    }

    pub(crate) fn disk(&self, id: DiskId, name: &str) -> Result<Arc<engine::Volume>> {
        self.parts.engine.volume(id).ok_or_else(|| {
            Error::failed(&format!("volume {name:?} has no data"), "the engine does not know it")
        })
    }
}

/// An action that is declared with another effect than the one that it was taken for.
fn undeclared(action: &Action) -> Error {
    Error::failed("the array can't do that", format!("nothing carries out {}", action.verb().name()))
}

fn history_failed(error: history::Error) -> Error {
    Error::failed("what happened can't be told", error)
}

/// A change under way: there is one at a time.
pub(crate) struct Change<'a> {
    pub array: &'a Array,
    pub caller: &'a Caller,
    /// For the audit trail: what was before and after.
    changes: Changes,
}

impl Change<'_> {
    async fn carry_out(&mut self, action: Action) -> Result<Outcome> {
        use Action::*;
        if let Some(why) = self.array.parts.engine.stopped() {
            return Err(Error::failed("the array stopped to protect data and needs a new start", why));
        }
        match action {
            ChangeSettings(change) => self.change_settings(change).await,
            ConfirmTime => self.confirm_time().await,
            AddDrive(new) => self.add_drive(new).await,
            EvacuateDrive { which, accept_reduced_protection } => {
                self.evacuate_drive(&which, accept_reduced_protection).await
            }
            ReplaceDrive { which, new } => self.replace_drive(&which, new).await,
            StartScrub => self.start_scrub().await,
            RotateKey(new) => self.rotate_key(new).await,
            CancelJob { id } => self.cancel_job(&id).await,
            CreateVolume { name, bytes, block_bytes, group } => {
                self.create_volume(name, bytes, block_bytes, group).await
            }
            CloneVolume { source, name, group } => self.clone_volume(&source, name, group).await,
            ChangeVolume { name, change } => self.change_volume(&name, change).await,
            ClearUnreadableState { name } => self.clear_unreadable_state(&name).await,
            DeleteVolume { name, eradicate } => self.delete_volume(&name, eradicate).await,
            TakeFromBin { which, name } => self.take_from_bin(&which, name).await,
            EradicateFromBin { which } => self.eradicate_from_bin(&which).await,
            RestoreVolume { volume, source } => self.restore_volume(&volume, &source).await,
            CreateSnapshots { subject, suffix, keep_until } => {
                self.create_snapshots(&subject, suffix, keep_until).await
            }
            ChangeSnapshot { name, change } => self.change_snapshot(&name, change).await,
            DeleteSnapshot { name, eradicate } => self.delete_snapshot(&name, eradicate).await,
            CreateSchedule { name, subject, change } => self.create_schedule(name, &subject, change).await,
            ChangeSchedule { name, change } => self.change_schedule(&name, change).await,
            DeleteSchedule { name } => self.delete_schedule(&name).await,
            RunSchedule { name, now } => self.run_schedule(&name, now).await,
            CreateGroup { name, change } => self.create_group(name, change).await,
            ChangeGroup { name, change } => self.change_group(&name, change).await,
            DeleteGroup { name } => self.delete_group(&name).await,
            CreateHost { name, initiators, chap, mutual } => {
                self.create_host(name, &initiators, chap, mutual).await
            }
            ChangeHost { name, change } => self.change_host(&name, change).await,
            DeleteHost { name } => self.delete_host(&name).await,
            CreateHostGroup { name, hosts } => self.create_host_group(name, &hosts).await,
            ChangeHostGroup { name, change } => self.change_host_group(&name, change).await,
            DeleteHostGroup { name } => self.delete_host_group(&name).await,
            Connect { volume, peer, lun, read_only } => self.connect(&volume, &peer, lun, read_only).await,
            Disconnect { volume, peer } => self.disconnect(&volume, &peer).await,
            CreateTarget { name, destination, secret, least, enabled } => {
                self.create_target(name, destination, secret.as_ref(), least, enabled).await
            }
            ChangeTarget { name, change } => self.change_target(&name, change).await,
            DeleteTarget { name } => self.delete_target(&name).await,
            CreateDirectory(new) => self.create_directory(*new).await,
            ChangeDirectory { name, change } => self.change_directory(&name, *change).await,
            DeleteDirectory { name } => self.delete_directory(&name).await,
            ChangeAlert { id, state } => self.change_alert(id, state),
            ReplaceCertificate { chain, key } => self.replace_certificate(chain, &key).await,
            CreateUser { name, role, password } => self.create_user(name, role, &password).await,
            ChangeUser { name, role, password } => self.change_user(&name, role, password.as_ref()).await,
            ChangeOwnPassword { verified, password } => self.change_own_password(&verified, &password).await,
            DeleteUser { name } => self.delete_user(&name).await,
            CreateToken { name, user, role, expires } => self.create_token(name, user, role, expires).await,
            DeleteToken { name } => self.delete_token(&name).await,
            other => Err(undeclared(&other)),
        }
    }

    /// Makes edits durable in one step, then true in memory, for hosts and for listeners.
    pub async fn commit(&mut self, edits: Vec<Edit>) -> Result<()> {
        let records = self.records(&edits);
        put_records(&self.array.parts.engine, records).await?;
        self.apply(edits);
        self.array.reduce().await
    }

    /// Writes edits and creates a volume in one step.
    pub async fn commit_volume(
        &mut self,
        contents: Contents,
        edits: Vec<Edit>,
        id: DiskId,
    ) -> std::result::Result<(), block::Error> {
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
        self.array.serve(id);
        self.apply(edits);
        Ok(())
    }

    /// Writes edits and deletes the contents of a volume or snapshot in one step.
    pub async fn commit_deletion(
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

    /// As [`Change::commit`], with snapshots that are taken in the same step: sources, and identities to have.
    pub async fn commit_snapshots(
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

    /// Makes what was written true in memory, for hosts and for listeners.
    fn apply(&self, edits: Vec<Edit>) {
        let mut config = self.array.config.write();
        let mut changed = BTreeSet::new();
        let mut hosts = BTreeSet::new();
        let mut affected = Affected::default();
        for edit in edits {
            changed.extend(edit.topics(stage_of(&config, &edit)));
            hosts.extend(concerned(&config, &edit));
            affected.note(&config, &edit);
            self.forget_initiators(&config, &edit);
            config.apply(edit.clone());
            affected.note(&config, &edit);
            hosts.extend(concerned(&config, &edit));
        }
        self.array.enforce(&config, &affected);
        hosts.iter().for_each(|host| self.array.show_host(&config, *host));
        if changed.contains(&Topic::Hosts) {
            self.array.admit(&config);
        }
        drop(config);
        changed.into_iter().for_each(|topic| self.array.publish_change(topic));
    }

    /// An initiator that no longer belongs to a host sees nothing.
    fn forget_initiators(&self, config: &Config, edit: &Edit) {
        let (Edit::Put(Record::Host(now)) | Edit::Remove(Record::Host(now))) = edit else { return };
        let gone = matches!(edit, Edit::Remove(_));
        let before = config.hosts.get(now.id).into_iter().flat_map(|host| &host.initiators);
        for name in before.filter(|name| gone || !now.initiators.contains(name)) {
            self.array.parts.exports.remove_mappings(name);
        }
    }

    /// Notes the change of a record for the audit log.
    fn note(&mut self, edit: &Edit, before: Option<&[u8]>) {
        let key = edit.record().0.key();
        let before = before.and_then(|value| Record::read(&key, value).ok().flatten());
        self.changes.note(&self.array.config(), before.as_ref(), edit);
    }

    /// Notes for the audit trail what was before, and is after, where no record tells.
    pub fn note_change<T: Serialize>(
        &mut self,
        noun: &'static str,
        name: Option<&str>,
        [before, after]: [&T; 2],
    ) {
        self.changes.note_other(&self.array.config(), noun, name, [before, after]);
    }

    /// Keeps an event about what was done.
    pub fn done(&self, kind: &str, noun: &str, name: &str, what: &str) {
        let message = format!("{noun} {name:?} {what} by {}", self.caller.user);
        self.array.log_event(Severity::Info, kind, Some((noun, name)), message);
    }

    pub fn id64(&self) -> u64 {
        (self.array.env.random)() as u64
    }

    pub fn now(&self) -> u64 {
        self.array.env.seconds()
    }
}

/// What a host sees by LUN: its own connections and those of its group.
fn view_of(config: &Config, host: HostId) -> BTreeMap<u16, export::Mapping> {
    let mapping =
        |entry: &ConnectionEntry| export::Mapping { disk: entry.volume, read_only: entry.read_only };
    config.seen_by(host).map(|entry| (entry.lun, mapping(entry))).collect()
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

/// The hosts whose view an edit may change.
fn concerned(config: &Config, edit: &Edit) -> Vec<HostId> {
    let (Edit::Put(record) | Edit::Remove(record)) = edit;
    match record {
        Record::Host(host) => vec![host.id],
        Record::HostGroup(group) => {
            config.hosts_of(Peer::HostGroup(group.id)).iter().map(|host| host.id).collect()
        }
        Record::Connection(entry) => config.hosts_of(entry.peer).iter().map(|host| host.id).collect(),
        _ => Vec::new(),
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
