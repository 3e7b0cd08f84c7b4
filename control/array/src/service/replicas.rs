//! Replications as they run: which transfers are under way, which are due, and what became of the last ones.
//!
//! A transfer of a replication is an [`Active`]: there is one at a time on each array. What needs that there is none holds the
//! replication, which ends the one under way. Nothing here outlives a restart but what the engine has: points.

use crate::events::bus::EventBus;
use crate::parts::env::Env;
use crate::service::clock::RetentionClock;
use crate::service::mirrors::{Mirrors, SyncState, SyncStatus};
use crate::service::replication_env::ReplicationEnv;
use crate::service::replication_status::{Demotion, ReplicationState, ReplicationStatus};
use crate::service::witnesses::Witnesses;
use crate::service::{outgoing, schedules, windows};
use block::DiskId;
use engine::Engine;
use export::{Exports, Operation};
use history::Severity;
use parking_lot::Mutex;
use records::{
    Config, Named, OnLinkLoss, RemoteArrayEntry, RemoteArrayId, ReplicationEntry, ReplicationId,
    ReplicationMode, ReplicationRole, Topic,
};
use replication::{Point, Source, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// A source takes a point after this part of the RPO, so that its transfer may take as long.
const RPO_DIVISOR: u64 = 2;
/// Wait after the first failure, in seconds; it doubles with each further one.
const MIN_RETRY_SECONDS: u64 = 2;
/// Longest wait after a failure, in seconds.
const MAX_RETRY_SECONDS: u64 = 60;
/// Transfers to other arrays at a time; others wait for their turn.
const MAX_TRANSFERS: usize = 8;
/// Blocks that a target remembers, to find duplicates: 24 MiB of memory for each remote array.
const INDEX_ENTRIES: usize = 1 << 20;
const BLOCK_BYTES: u64 = 4096;

/// Longest wait after a failure while writes wait for the other array, in seconds.
const MAX_URGENT_RETRY_SECONDS: u64 = 4;

/// Why a transfer has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub text: String,
    pub no_space: bool,
}

/// Both ends of the replications with one remote array.
#[derive(Default)]
struct Ends {
    source: Option<Arc<Source<ReplicationEnv>>>,
    target: Option<Arc<Target<ReplicationEnv>>>,
}

/// What runs of one replication.
#[derive(Default)]
struct Running {
    /// Ends the transfer under way; its receiver is dropped with it.
    stop: Option<Arc<watch::Sender<bool>>>,
    /// It is a session of a synchronous replication, which has no end.
    session: bool,
    /// How many need that there is none.
    holders: u32,
    /// An operator has asked for a point now.
    wanted: bool,
    /// That point is not complete yet: blackouts do not hold it up.
    asked: bool,
    /// Uptime in seconds when the last point was taken.
    taken: Option<u64>,
    failure: Option<Failure>,
    failures: u32,
    /// Uptime in seconds before which nothing is tried.
    retry: u64,
    /// Changed data of completed points since the array started, in bytes.
    logical_bytes: u64,
    /// Points that were completed since then.
    completed_points: u64,
    wire_bytes: Arc<AtomicU64>,
    throughput: u64,
    /// What hosts had written since the array started when the newest complete point was taken, in bytes.
    written: u64,
    /// The same of a point that is not complete yet.
    written_next: Option<u64>,
}

type States = Arc<Mutex<BTreeMap<ReplicationId, Running>>>;

/// A transfer under way.
pub(crate) struct Active {
    stop: watch::Receiver<bool>,
    /// Bytes over the network are counted here.
    pub wire_bytes: Arc<AtomicU64>,
}

/// While this is there, nothing is transferred.
pub(crate) struct Held {
    states: States,
    id: ReplicationId,
}

/// Replications as they run.
pub(crate) struct Replicas {
    pub(super) env: Arc<Env>,
    bus: Arc<EventBus>,
    engine: Arc<Engine>,
    exports: Arc<Exports>,
    clock: Arc<RetentionClock>,
    pub mirrors: Mirrors,
    pub witnesses: Witnesses,
    /// One for all, so that all transfers are throttled together.
    library: Arc<ReplicationEnv>,
    ends: Mutex<BTreeMap<RemoteArrayId, Ends>>,
    states: States,
    kept: Mutex<Kept>,
    wake: Notify,
}

impl Active {
    /// Returns when the transfer has to end.
    pub async fn stopped(&mut self) {
        // The sender is there as long as its replication is; without it no transfer is needed.
        _ = self.stop.wait_for(|stop| *stop).await;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(running) = self.states.lock().get_mut(&self.id) {
            running.holders -= 1;
        }
    }
}

impl Running {
    fn is_active(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| !stop.is_closed())
    }

    fn begin(&mut self) -> Option<Active> {
        if self.is_active() || self.holders > 0 {
            return None;
        }
        let (stop, stopped) = watch::channel(false);
        (self.stop, self.session) = (Some(Arc::new(stop)), false);
        Some(Active { stop: stopped, wire_bytes: self.wire_bytes.clone() })
    }
}

impl Replicas {
    pub fn new(
        env: Arc<Env>,
        bus: Arc<EventBus>,
        (engine, exports): (Arc<Engine>, Arc<Exports>),
        clock: Arc<RetentionClock>,
    ) -> Self {
        let (ends, states, kept) = (Mutex::default(), States::default(), Mutex::default());
        let mirrors = Mirrors::new(env.clone(), engine.clone());
        let (witnesses, wake) = (Witnesses::default(), Notify::new());
        let library = Arc::new(ReplicationEnv::new(env.clone(), clock.clone(), exports.clone()));
        Self { env, bus, engine, exports, clock, mirrors, witnesses, library, ends, states, kept, wake }
    }

    /// The sending end to a remote array. `key` is the secret of the pairing, `array` the number of this array.
    pub fn source(
        &self,
        config: &Config,
        remote: &RemoteArrayEntry,
        key: &str,
        array: u128,
    ) -> Arc<Source<ReplicationEnv>> {
        let mut ends = self.ends.lock();
        let made = || {
            let (env, key) = (self.library.clone(), replication::Key::new(key.as_bytes()));
            let limits = replication::Limits::default();
            let source = Source::new(self.engine.clone(), env, key, array, limits);
            source.throttle().set(self.limit_now(config, remote).unwrap_or_default());
            Arc::new(source)
        };
        ends.entry(remote.id).or_default().source.get_or_insert_with(made).clone()
    }

    /// Applies what holds at this time: the limits of what is sent to remote arrays, also to transfers under way, and blackouts,
    /// which end transfers that were not requested.
    pub fn apply_windows(&self, config: &Config) {
        for remote in config.remote_arrays.iter() {
            let ends = self.ends.lock();
            if let Some(source) = ends.get(&remote.id).and_then(|ends| ends.source.as_ref()) {
                source.throttle().set(self.limit_now(config, remote).unwrap_or_default());
            }
        }
        for entry in config.replications.iter().filter(|it| self.blackout_until(config, it).is_some()) {
            let states = self.states.lock();
            let held_up = states.get(&entry.id).filter(|running| !running.asked);
            if let Some(stop) = held_up.and_then(|running| running.stop.as_ref()) {
                stop.send_replace(true);
            }
        }
    }

    /// The limit of what is sent to a remote array now, in bytes per second.
    pub fn limit_now(&self, config: &Config, remote: &RemoteArrayEntry) -> Option<u64> {
        windows::limit_at(remote, self.clock.schedule_now(), &schedules::zone_of(&config.settings))
    }

    /// What transfers to a remote array keep to now, if there was one since the array started.
    pub fn applied_limit(&self, remote: RemoteArrayId) -> Option<Option<u64>> {
        let ends = self.ends.lock();
        let source = ends.get(&remote)?.source.as_ref()?;
        Some(Some(source.throttle().limit()).filter(|limit| *limit > 0))
    }

    /// When the blackout of a source ends, in seconds since 1970; `None` if there is none now. The last point of a source that
    /// was demoted is not held up.
    pub fn blackout_until(&self, config: &Config, entry: &ReplicationEntry) -> Option<u64> {
        let sends = entry.role == ReplicationRole::Source && entry.demoted.is_none();
        // It may have some as the target of an asynchronous one.
        if !sends || entry.mirrors() || entry.blackouts.is_empty() {
            return None;
        }
        let zone = schedules::zone_of(&config.settings);
        windows::open_until(&entry.blackouts, self.clock.schedule_now(), &zone)
    }

    /// The receiving end of a remote array.
    pub fn target(&self, remote: RemoteArrayId, key: &str, array: u128) -> Arc<Target<ReplicationEnv>> {
        let mut ends = self.ends.lock();
        let made = || {
            let (env, key) = (self.library.clone(), replication::Key::new(key.as_bytes()));
            let limits = replication::Limits { index_entries: INDEX_ENTRIES, ..Default::default() };
            Arc::new(Target::new(self.engine.clone(), env, key, array, limits))
        };
        ends.entry(remote).or_default().target.get_or_insert_with(made).clone()
    }

    /// Forgets both ends of a remote array that was deleted.
    pub fn forget_remote(&self, remote: RemoteArrayId) {
        self.ends.lock().remove(&remote);
    }

    /// Forgets a replication that was deleted.
    pub fn forget(&self, id: ReplicationId) {
        self.mirrors.remove(id, false);
        self.witnesses.forget(id);
        self.states.lock().remove(&id);
    }

    /// Notes that source and target have changed places: what was known of attempts is of the other direction.
    pub fn note_reversed(&self, id: ReplicationId) {
        self.mirrors.remove(id, false);
        self.witnesses.forget(id);
        if let Some(running) = self.states.lock().get_mut(&id) {
            (running.wanted, running.asked, running.taken) = (false, false, None);
            (running.failure, running.failures, running.retry) = (None, 0, 0);
            (running.written, running.written_next) = (0, None);
        }
        self.bus.publish_change(Topic::Replications);
    }

    /// Begins a transfer, unless one is under way, or the replication is held.
    pub fn begin(&self, id: ReplicationId) -> Option<Active> {
        let active = self.states.lock().entry(id).or_default().begin();
        if active.is_some() {
            self.bus.publish_change(Topic::Replications);
        }
        active
    }

    /// Begins a transfer in the place of one under way, unless the replication is held.
    pub async fn replace(&self, id: ReplicationId) -> Option<Active> {
        loop {
            let under_way = {
                let mut states = self.states.lock();
                let running = states.entry(id).or_default();
                match running.begin() {
                    Some(active) => return Some(active),
                    None if running.holders > 0 => return None,
                    None => running.stop.clone(),
                }
            };
            end(under_way).await;
        }
    }

    /// Ends the transfer under way, and lets none begin until what this returns is dropped.
    pub async fn hold(&self, id: ReplicationId) -> Held {
        let held = self.keep_out(id);
        let under_way = self.states.lock().get(&id).and_then(|running| running.stop.clone());
        end(under_way).await;
        held
    }

    /// Lets no transfer begin until the returned guard is dropped; one under way continues.
    pub fn keep_out(&self, id: ReplicationId) -> Held {
        self.states.lock().entry(id).or_default().holders += 1;
        Held { states: self.states.clone(), id }
    }

    /// Whether a transfer is under way.
    pub fn is_active(&self, id: ReplicationId) -> bool {
        self.states.lock().get(&id).is_some_and(Running::is_active)
    }

    /// Ends the transfer under way, if there is one.
    pub fn stop(&self, id: ReplicationId) {
        if let Some(stop) = self.states.lock().get(&id).and_then(|running| running.stop.as_ref()) {
            stop.send_replace(true);
        }
    }

    /// Notes that the transfer under way is a session: it takes no place of others.
    pub fn note_session(&self, id: ReplicationId) {
        if let Some(running) = self.states.lock().get_mut(&id) {
            running.session = true;
        }
    }

    /// Asks for a point now, also after failures.
    pub fn want(&self, id: ReplicationId) {
        {
            let mut states = self.states.lock();
            let running = states.entry(id).or_default();
            (running.wanted, running.asked, running.retry) = (true, true, 0);
        }
        self.wake.notify_one();
    }

    /// Looks for what is due at once.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Returns after this time, or when something may be due.
    pub async fn wait(&self, time: Duration) {
        _ = tokio::time::timeout(time, self.wake.notified()).await;
    }

    /// The sources that have something to transfer.
    pub fn due(&self, config: &Config) -> Vec<ReplicationId> {
        let now = self.env.uptime_seconds();
        let mut states = self.states.lock();
        let active = states.values().filter(|running| running.is_active() && !running.session).count();
        let mut due = Vec::new();
        for entry in config.replications.iter() {
            let running = states.entry(entry.id).or_default();
            let sends = entry.role == ReplicationRole::Source && !entry.paused && !entry.split;
            if !sends || running.is_active() || running.holders > 0 || now < running.retry {
                continue;
            }
            if !running.asked && self.blackout_until(config, entry).is_some() {
                continue;
            }
            let interval = (entry.rpo_seconds / RPO_DIVISOR).max(1);
            // After a start as well: so a source finds at once that its target was promoted.
            let in_time = running.taken.is_some_and(|taken| now < taken.saturating_add(interval));
            let takes = entry.demoted.is_none() && !in_time;
            let outgoing = || outgoing::next(config, &self.engine, entry).is_some();
            let mirrors = entry.mirrors() && entry.demoted.is_none();
            if running.wanted || takes || mirrors || self.is_unfinished(entry) || outgoing() {
                due.push(entry.id);
            }
        }
        due.truncate(MAX_TRANSFERS.saturating_sub(active));
        due
    }

    fn is_unfinished(&self, entry: &ReplicationEntry) -> bool {
        self.points(entry).last().is_some_and(|point| point.digest.is_none())
    }

    /// The points of a replication on this array, the oldest first.
    pub fn points(&self, entry: &ReplicationEntry) -> Vec<Point> {
        let found = match entry.role {
            ReplicationRole::Source => replication::source_points(&self.engine, entry.number()),
            ReplicationRole::Target => replication::target_points(&self.engine, entry.number()),
        };
        found.unwrap_or_else(|error| {
            tracing::error!(replication = entry.name, %error, "points can't be read");
            Vec::new()
        })
    }

    /// Notes that a point is taken now: the next one is due later.
    pub fn note_taken(&self, id: ReplicationId, volumes: &[DiskId]) {
        let written = self.written(volumes);
        let mut states = self.states.lock();
        let running = states.entry(id).or_default();
        running.written_next = Some(written);
        (running.wanted, running.taken) = (false, Some(self.env.uptime_seconds()));
    }

    /// Bytes that hosts have written to volumes since the array started.
    fn written(&self, volumes: &[DiskId]) -> u64 {
        let found: Vec<_> = self
            .exports
            .read(|registry| volumes.iter().filter_map(|id| registry.volume(*id).cloned()).collect());
        let changes = |operation: Operation| {
            !matches!(operation, Operation::Read | Operation::Unmap | Operation::Other)
        };
        let counts = found.iter().flat_map(|volume| volume.statistics().into_values());
        let bytes = counts.flat_map(|counters| counters.counts.into_iter());
        bytes.filter(|((operation, _), _)| changes(*operation)).map(|(_, count)| count.bytes).sum()
    }

    /// Notes how much goes over the network, in bytes per second.
    pub fn note_throughput(&self, id: ReplicationId, throughput: u64) {
        if let Some(running) = self.states.lock().get_mut(&id) {
            running.throughput = throughput;
        }
    }

    /// Notes that a transfer has ended, and why does not matter.
    pub fn note_end(&self, id: ReplicationId) {
        if let Some(running) = self.states.lock().get_mut(&id) {
            (running.wanted, running.asked) = (false, false);
        }
        self.bus.publish_change(Topic::Replications);
    }

    /// Notes that a transfer was stopped: what was asked for is still to be done.
    pub fn note_stopped(&self) {
        self.bus.publish_change(Topic::Replications);
    }

    /// Notes that a transfer has ended well. `completed`: blocks with data that had changed, if a point is complete now.
    pub fn note_success(&self, entry: &ReplicationEntry, completed: Option<u64>) {
        let failed = {
            let mut states = self.states.lock();
            let running = states.entry(entry.id).or_default();
            running.logical_bytes += completed.unwrap_or_default() * BLOCK_BYTES;
            running.completed_points += u64::from(completed.is_some());
            if completed.is_some()
                && let Some(written) = running.written_next.take()
            {
                running.written = written;
            }
            (running.failures, running.retry) = (0, 0);
            // A source that is demoted takes no further point.
            running.wanted &= entry.demoted.is_none();
            running.asked &= running.wanted;
            running.failure.take().is_some()
        };
        if failed {
            let message = format!("replication {:?} works again", entry.name);
            self.log_event(Severity::Info, "replication.restored", &entry.name, message);
        }
        self.bus.publish_change(Topic::Replications);
    }

    /// Notes that an attempt has failed: the next one follows later.
    pub fn note_failure(&self, entry: &ReplicationEntry, failure: Failure) {
        let is_new = {
            let mut states = self.states.lock();
            let running = states.entry(entry.id).or_default();
            let wait = MIN_RETRY_SECONDS << running.failures.min(8);
            let urgent = self.mirrors.get(entry.id).is_some_and(|mirror| mirror.is_armed());
            let max = if urgent { MAX_URGENT_RETRY_SECONDS } else { MAX_RETRY_SECONDS };
            running.retry = self.env.uptime_seconds() + wait.min(max);
            running.failures = running.failures.saturating_add(1);
            running.failure.replace(failure.clone()).is_none()
        };
        if is_new {
            let message = format!("replication {:?} failed: {}; it is tried again", entry.name, failure.text);
            self.log_event(Severity::Warning, "replication.failed", &entry.name, message);
        }
        self.bus.publish_change(Topic::Replications);
    }

    /// Notes that both arrays of a replication are the same, write by write.
    pub fn note_in_sync(&self, entry: &ReplicationEntry, volumes: &[DiskId]) {
        let written = self.written(volumes);
        {
            let mut states = self.states.lock();
            let running = states.entry(entry.id).or_default();
            (running.failures, running.retry, running.failure) = (0, 0, None);
            (running.wanted, running.asked) = (false, false);
            (running.written, running.written_next) = (written, None);
        }
        self.mirrors.note_in_sync(entry.id);
        let message =
            format!("replication {:?} is in sync: acknowledged writes are on both arrays", entry.name);
        self.log_event(Severity::Info, "replication.in-sync", &entry.name, message);
        self.bus.publish_change(Topic::Replications);
    }

    /// Notes why both arrays of a replication are not the same.
    pub fn note_apart(&self, entry: &ReplicationEntry, volumes: &[DiskId], cause: &str) {
        if !self.mirrors.note_apart(entry.id, cause) {
            return;
        }
        let written = self.written(volumes);
        if let Some(running) = self.states.lock().get_mut(&entry.id) {
            running.written = written;
        }
        let what = match entry.on_link_loss {
            OnLinkLoss::Continue => "writes are acknowledged by this array alone",
            OnLinkLoss::Stop => "writes wait until both arrays are the same again",
        };
        let message = format!("replication {:?} is out of sync: {cause}; {what}", entry.name);
        self.log_event(Severity::Warning, "replication.out-of-sync", &entry.name, message);
        self.bus.publish_change(Topic::Replications);
    }

    /// Refuses writes that have waited for the other array for too long.
    pub fn refuse_overdue(&self, config: &Config) {
        for id in self.mirrors.refuse_overdue() {
            let name = config.replications.get(id).map(|entry| entry.name.clone()).unwrap_or_default();
            let message = format!("replication {name:?} refuses writes until both arrays are the same again");
            self.log_event(Severity::Critical, "replication.writes-stopped", &name, message);
            self.bus.publish_change(Topic::Replications);
        }
    }

    /// How far both arrays are the same, of a synchronous replication.
    fn sync_status(&self, entry: &ReplicationEntry) -> Option<(SyncState, SyncStatus)> {
        if entry.mode != ReplicationMode::Sync {
            return None;
        }
        let witness_problem = self.witnesses.problem(entry.id).filter(|_| entry.has_witness());
        if entry.mirrors() {
            let (state, status) = self.mirrors.status(entry);
            let is_new = || {
                let session = replication::armed_session(&self.engine, entry.number()).ok().flatten();
                let is_known = session.is_some_and(|session| self.witnesses.knows(entry.id, session));
                entry.witness.is_some() && state == SyncState::InSync && !is_known
            };
            let problem =
                || is_new().then(|| "it has not recorded yet that both arrays are in sync".to_owned());
            let witness_problem = witness_problem.or_else(problem);
            return Some((state, SyncStatus { witness_problem, ..status }));
        }
        let target = self.ends.lock().get(&entry.remote).and_then(|ends| ends.target.clone());
        let state = match target.is_some_and(|target| target.is_following(entry.number())) {
            true => SyncState::InSync,
            false if replication::is_mirrored(&self.engine, entry.number()).unwrap_or(false) => {
                SyncState::OutOfSync
            }
            false => SyncState::Initial,
        };
        Some((state, SyncStatus { witness_problem, ..SyncStatus::default() }))
    }

    fn log_event(&self, severity: Severity, kind: &str, name: &str, message: String) {
        self.bus.log_event(severity, kind, Some((ReplicationEntry::NOUN, name)), message);
    }

    /// What is known of a replication.
    pub fn status(&self, config: &Config, entry: &ReplicationEntry) -> ReplicationStatus {
        let points = self.points(entry);
        let complete: Vec<_> = points.iter().filter(|point| point.digest.is_some()).collect();
        let newest = complete.last();
        let (active, transfers, failure, (logical_bytes, network_bytes), throughput, written) = {
            let states = self.states.lock();
            states.get(&entry.id).map_or_else(Default::default, |running| {
                let transferred = (running.logical_bytes, running.wire_bytes.load(Ordering::Relaxed));
                let active = running.is_active() || running.wanted;
                let transfers = running.is_active() && !running.session;
                let failure = running.failure.clone();
                (active, transfers, failure, transferred, running.throughput, running.written)
            })
        };
        let number = newest.map(|point| point.number);
        let (sync, sync_status) = self.sync_status(entry).unzip();
        let state = state(entry, number, active, failure.as_ref(), sync);
        let follows = !matches!(
            state,
            ReplicationState::Demoted | ReplicationState::Promoted | ReplicationState::Promoting
        );
        let is_same = sync == Some(SyncState::InSync) && follows;
        let same_until = sync_status.as_ref().and_then(|status| status.since).unwrap_or(0);
        let since = newest.map_or(entry.created, |point| point.taken).max(same_until);
        let subject =
            entry.subject.map(|it| config.scheduled(it).iter().map(|volume| volume.id).collect::<Vec<_>>());
        ReplicationStatus {
            state,
            demotion: demotion(entry, number),
            problem: failure.map(|failure| failure.text),
            point: number,
            taken: newest.map(|point| point.taken),
            points: complete.len(),
            blackout_until: self.blackout_until(config, entry),
            backlog_bytes: subject.filter(|_| follows).map(|all| match is_same {
                true => 0,
                false => self.written(&all).saturating_sub(written),
            }),
            network_bytes_per_second: throughput,
            throttled: transfers && gives_way(entry, number) && self.library.slows_transfers(),
            lag_seconds: follows.then(|| if is_same { 0 } else { self.env.seconds().saturating_sub(since) }),
            logical_bytes,
            network_bytes,
            sync: sync_status,
        }
    }

    /// Deletes what the engine holds of replications that were deleted.
    pub async fn release_deleted(&self, known: &BTreeSet<u128>) {
        let unneeded = replication::unneeded(&self.engine);
        let deleted: BTreeSet<u128> = unneeded.difference(known).copied().collect();
        for number in &deleted {
            let released = replication::release(&self.engine, *number, self.clock.retention_now()).await;
            // It is tried every second, and a retention lock may last for years.
            if let Err(error) = released
                && self.kept.lock().is_news(*number, error.to_string())
            {
                tracing::warn!(%error, "points of a replication that was deleted are still there");
            }
        }
        self.kept.lock().0.retain(|number, _| deleted.contains(number));
    }
}

/// Why points of replications that were deleted are still there, as it was logged.
#[derive(Default)]
struct Kept(BTreeMap<u128, String>);

impl Kept {
    /// True if this is not what was logged last of a replication.
    fn is_news(&mut self, number: u128, why: String) -> bool {
        let known = self.0.insert(number, why);
        known.as_ref() != self.0.get(&number)
    }
}

/// Ends a transfer, and waits for that.
async fn end(under_way: Option<Arc<watch::Sender<bool>>>) {
    if let Some(stop) = under_way {
        stop.send_replace(true);
        stop.closed().await;
    }
}

/// Whether its transfers give way to hosts: those of sources, but of a synchronous one only that of the first point.
fn gives_way(entry: &ReplicationEntry, newest: Option<u64>) -> bool {
    entry.role == ReplicationRole::Source && !(entry.mirrors() && newest.is_some())
}

fn demotion(entry: &ReplicationEntry, newest: Option<u64>) -> Option<Demotion> {
    let last = entry.demoted.filter(|_| !entry.split && entry.promotion.is_none())?;
    Some(if newest >= Some(last) { Demotion::Complete } else { Demotion::Incomplete })
}

fn state(
    entry: &ReplicationEntry,
    newest: Option<u64>,
    active: bool,
    failure: Option<&Failure>,
    sync: Option<SyncState>,
) -> ReplicationState {
    // The target hears of it with the last point.
    let (demoted, demotion) = (entry.demoted, demotion(entry, newest));
    match (&entry.promotion, failure) {
        _ if entry.split => ReplicationState::Split,
        (Some(promotion), _) if promotion.complete => ReplicationState::Promoted,
        (Some(_), _) => ReplicationState::Promoting,
        _ if entry.paused => ReplicationState::Paused,
        _ if demotion == Some(Demotion::Complete) => ReplicationState::Demoted,
        _ if demoted.is_none() && sync == Some(SyncState::InSync) => ReplicationState::InSync,
        _ if demoted.is_none() && sync == Some(SyncState::Stopped) => ReplicationState::WritesStopped,
        _ if demoted.is_none() && sync == Some(SyncState::OutOfSync) => ReplicationState::OutOfSync,
        (_, Some(failure)) if failure.no_space => ReplicationState::NoSpace,
        (_, Some(_)) => ReplicationState::Failed,
        _ if demoted.is_some() => ReplicationState::Demoting,
        _ if active || sync == Some(SyncState::Initial) => ReplicationState::Syncing,
        _ => ReplicationState::Idle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_give_way_to_hosts_but_for_later_points_of_mirrored_volumes() {
        let entry =
            |role| ReplicationEntry::new(ReplicationId(1), "prod".into(), 0, RemoteArrayId(2), role, 60);
        let source = entry(ReplicationRole::Source);
        assert!(gives_way(&source, None) && gives_way(&source, Some(7)));
        let mirrored = ReplicationEntry { mode: ReplicationMode::Sync, ..source };
        assert!(gives_way(&mirrored, None) && !gives_way(&mirrored, Some(7)));
        assert!(!gives_way(&entry(ReplicationRole::Target), Some(7)));
    }

    #[test]
    fn a_reason_is_logged_once_until_it_is_another_one() {
        let mut kept = Kept::default();
        assert!(kept.is_news(1, "locked".into()) && kept.is_news(2, "locked".into()));
        assert!(!kept.is_news(1, "locked".into()));
        assert!(kept.is_news(1, "another drive error".into()) && kept.is_news(1, "locked".into()));
        assert!(!kept.is_news(2, "locked".into()));
    }
}
