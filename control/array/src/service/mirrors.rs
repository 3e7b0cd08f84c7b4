//! Mirrors of synchronous replications as they run: one for each source, and what operators are shown of it.
//!
//! A mirror is there from the start of the array on, before hosts are served: so no write is acknowledged by this
//! array alone that is not allowed to be. What both arrays have is known to the engine; nothing else here outlives a
//! restart.

use crate::parts::env::Env;
use crate::shape::some_time;
use crate::{Error, Result};
use block::DiskId;
use engine::{Engine, Tap};
use parking_lot::Mutex;
use records::{
    Config, LostSession, OnLinkLoss, ReplicationEntry, ReplicationId, ReplicationMode, ReplicationRole,
};
use replication::{Mirror, MirrorProgress, MirrorState};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

/// Time in seconds for which writes wait for the other array before they are refused. With the time after which a silent array
/// counts as lost it is less than the 30 s that hosts usually give a command.
const MAX_WAIT_SECONDS: u64 = 20;

/// How far both arrays are the same, as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncState {
    /// They were not the same yet.
    Initial,
    InSync,
    /// They were, and are not now.
    OutOfSync,
    /// The source refuses writes.
    Stopped,
}

/// Progress of a synchronous replication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = SynchronousProgress)]
pub struct SyncStatus {
    /// Time since which both arrays are the same, or are not any more, as `state` says; `null` before they were the
    /// same for the first time, and on the target.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<u64>,
    /// Reason why both arrays are not the same; `null` if they are, and on the target.
    pub cause: Option<String>,
    /// Changes that are on the source and are not acknowledged, as the target does not have them durably yet.
    #[serde(rename = "changes_under_way")]
    pub waiting: u64,
    /// Time from sending a change until the target has it durably, of the last one; `null` unless both arrays are the
    /// same, and on the target.
    #[schema(extensions(("x-unit" = json!("us"))))]
    pub round_trip_us: Option<u64>,
    /// Reason why the witness would not decide if an array were lost now, so that no failover would follow; `null` if
    /// it would, and without a witness.
    pub witness_problem: Option<String>,
}

/// The mirror of a replication.
struct Running {
    /// Of the replication, with its generation.
    number: u128,
    mirror: Arc<Mirror>,
    /// The volumes of which it is the tap.
    tapped: Vec<DiskId>,
    /// The newest point was transferred so fast that what has changed since is little.
    close: bool,
    /// A session is noted as such: both arrays are the same.
    in_sync: bool,
    was_in_sync: bool,
    since: Option<u64>,
    cause: Option<String>,
    /// Uptime in seconds since which writes wait without the other array.
    waiting: Option<u64>,
}

/// The mirrors of an array.
pub(crate) struct Mirrors {
    env: Arc<Env>,
    engine: Arc<Engine>,
    all: Mutex<BTreeMap<ReplicationId, Running>>,
}

fn policy(entry: &ReplicationEntry) -> replication::OnLinkLoss {
    match entry.on_link_loss {
        OnLinkLoss::Continue => replication::OnLinkLoss::Continue,
        OnLinkLoss::Stop => replication::OnLinkLoss::Stop,
    }
}

impl Mirrors {
    pub fn new(env: Arc<Env>, engine: Arc<Engine>) -> Self {
        Self { env, engine, all: Mutex::default() }
    }

    /// Makes the mirrors of the configuration at a start: to be called before hosts are served.
    pub fn restore(&self, config: &Config) {
        for entry in config.replications.iter().filter(|it| it.mirrors() && it.demoted.is_none()) {
            let mirror = self.of(entry);
            // What is not armed lets everything pass.
            if mirror.is_armed() {
                let volumes: Vec<_> = entry.subject.map(|it| config.scheduled(it)).unwrap_or_default();
                self.set_tap(entry.id, volumes.into_iter().map(|volume| volume.id).collect());
            }
        }
    }

    /// The mirror of a source; it is made if there is none.
    pub fn of(&self, entry: &ReplicationEntry) -> Arc<Mirror> {
        let mut all = self.all.lock();
        if let Some(running) = all.get(&entry.id).filter(|it| it.number == entry.number()) {
            return running.mirror.clone();
        }
        let session = self.session_of(entry);
        let armed = session.is_some();
        let lost = entry.lost_session.filter(|lost| session == Some(lost.session));
        let (since, cause) = match (armed, lost) {
            (false, _) => (entry.alone_since, None),
            (true, None) => (Some(self.env.seconds()), Some("this array was started")),
            (true, Some(lost)) => (Some(lost.since), Some("both were apart before this array was started")),
        };
        let mirror = Arc::new(Mirror::new(policy(entry), armed));
        let running = Running {
            number: entry.number(),
            mirror: mirror.clone(),
            tapped: Vec::new(),
            close: false,
            in_sync: false,
            was_in_sync: armed || entry.alone_since.is_some(),
            since,
            cause: cause.map(str::to_owned),
            waiting: None,
        };
        if let Some(old) = all.insert(entry.id, running) {
            self.untap(&old);
        }
        mirror
    }

    /// The session in which both arrays were the same; one that never was if that can't be read.
    fn session_of(&self, entry: &ReplicationEntry) -> Option<u64> {
        replication::armed_session(&self.engine, entry.number()).unwrap_or_else(|error| {
            tracing::error!(replication = entry.name, %error, "it counts as in sync before");
            Some(0)
        })
    }

    /// The mirror of a replication, if there is one.
    pub fn get(&self, id: ReplicationId) -> Option<Arc<Mirror>> {
        self.all.lock().get(&id).map(|running| running.mirror.clone())
    }

    /// Makes the mirror the tap of these volumes, and of no others.
    pub fn set_tap(&self, id: ReplicationId, volumes: Vec<DiskId>) {
        if let Some(running) = self.all.lock().get_mut(&id) {
            let tap: Arc<dyn Tap> = running.mirror.clone();
            // No volume is without it in between.
            self.engine.tap(&volumes, Some(&tap));
            let gone: Vec<_> = running.tapped.iter().filter(|id| !volumes.contains(id)).copied().collect();
            self.engine.tap(&gone, None);
            running.tapped = volumes;
        }
    }

    fn untap(&self, running: &Running) {
        self.engine.tap(&running.tapped, None);
    }

    /// The replications that mirror a volume.
    pub fn of_volume(&self, volume: DiskId) -> Vec<ReplicationId> {
        let all = self.all.lock();
        all.iter().filter(|(_, running)| running.tapped.contains(&volume)).map(|(id, _)| *id).collect()
    }

    /// Lets this array acknowledge writes alone until both arrays are the same again: what waits is acknowledged. That it may was
    /// made durable before.
    pub fn go_alone(&self, id: ReplicationId, cause: &str) {
        if let Some(running) = self.all.lock().get_mut(&id) {
            running.mirror.go_alone();
            self.untap(running);
            running.tapped.clear();
            running.note_apart(self.env.seconds(), cause);
        }
    }

    /// Applies the policy of a replication.
    pub fn set_policy(&self, entry: &ReplicationEntry) {
        if let Some(running) = self.all.lock().get(&entry.id) {
            running.mirror.set_on_link_loss(policy(entry));
        }
    }

    /// Ends the mirror of a replication: what waits is acknowledged, or fails if this array `loses` it.
    pub fn remove(&self, id: ReplicationId, loses: bool) {
        if let Some(running) = self.all.lock().remove(&id) {
            match loses {
                true => running.mirror.refuse(),
                false => running.mirror.go_alone(),
            }
            self.untap(&running);
        }
    }

    /// Notes that a point was transferred, so fast that a session may begin, or not.
    pub fn note_close(&self, id: ReplicationId, close: bool) {
        if let Some(running) = self.all.lock().get_mut(&id) {
            running.close = close;
        }
    }

    /// Whether a session can begin without another point.
    pub fn is_ready(&self, entry: &ReplicationEntry) -> bool {
        let armed = self.of(entry).is_armed();
        armed || self.all.lock().get(&entry.id).is_some_and(|running| running.close)
    }

    /// Notes that both arrays are the same.
    pub fn note_in_sync(&self, id: ReplicationId) {
        if let Some(running) = self.all.lock().get_mut(&id) {
            (running.in_sync, running.was_in_sync, running.close) = (true, true, false);
            (running.since, running.cause, running.waiting) = (Some(self.env.seconds()), None, None);
        }
    }

    /// Notes that a session has ended, or did not come about; true if both arrays were the same.
    pub fn note_apart(&self, id: ReplicationId, cause: &str) -> bool {
        let mut all = self.all.lock();
        all.get_mut(&id).is_some_and(|running| running.note_apart(self.env.seconds(), cause))
    }

    /// Whether this array acknowledges writes alone although the engine has the record that both are the same.
    pub fn is_to_be_disarmed(&self, entry: &ReplicationEntry) -> bool {
        let alone = self.get(entry.id).is_some_and(|mirror| mirror.state() == MirrorState::CatchingUp);
        alone && replication::is_armed(&self.engine, entry.number()).unwrap_or(true)
    }

    /// Since when both arrays are not the same any more, in seconds since 1970.
    pub fn apart_since(&self, entry: &ReplicationEntry) -> Option<u64> {
        let all = self.all.lock();
        let running = all.get(&entry.id).filter(|it| it.number == entry.number() && !it.in_sync)?;
        running.since
    }

    /// The session of which a source waits for the next one; what is stored of an older one otherwise.
    pub fn lost_session(&self, entry: &ReplicationEntry) -> Option<LostSession> {
        let is_armed = self.get(entry.id).is_some_and(|mirror| mirror.is_armed());
        let lost = self.apart_since(entry).filter(|_| is_armed).zip(self.session_of(entry));
        lost.map(|(since, session)| LostSession { session, since }).or(entry.lost_session)
    }

    /// Refuses writes that have waited for too long; of these replications.
    pub fn refuse_overdue(&self) -> Vec<ReplicationId> {
        let now = self.env.uptime_seconds();
        let mut refused = Vec::new();
        for (id, running) in self.all.lock().iter_mut() {
            let state = running.mirror.state();
            let waits =
                running.mirror.is_armed() && matches!(state, MirrorState::Held | MirrorState::Joining);
            if !waits {
                running.waiting = None;
                continue;
            }
            let since = *running.waiting.get_or_insert(now);
            if now.saturating_sub(since) >= MAX_WAIT_SECONDS && !running.mirror.refuses() {
                running.mirror.refuse();
                refused.push(*id);
            }
        }
        refused
    }

    /// How far both arrays are the same, on the source.
    pub fn status(&self, entry: &ReplicationEntry) -> (SyncState, SyncStatus) {
        let all = self.all.lock();
        let Some(running) = all.get(&entry.id).filter(|it| it.number == entry.number()) else {
            let state = if entry.alone_since.is_some() { SyncState::OutOfSync } else { SyncState::Initial };
            return (state, SyncStatus { since: entry.alone_since, ..SyncStatus::default() });
        };
        let MirrorProgress { state, waiting, round_trip_ns } = running.mirror.progress();
        let state = match state {
            MirrorState::InSync => SyncState::InSync,
            _ if running.mirror.refuses() => SyncState::Stopped,
            _ if running.was_in_sync => SyncState::OutOfSync,
            _ => SyncState::Initial,
        };
        let status = SyncStatus {
            since: running.since,
            cause: running.cause.clone().filter(|_| state != SyncState::InSync),
            waiting,
            round_trip_us: round_trip_ns.map(|ns| ns / 1000),
            witness_problem: None,
        };
        (state, status)
    }
}

impl Running {
    /// Notes why both arrays are not the same; true if they were.
    fn note_apart(&mut self, now: u64, cause: &str) -> bool {
        let was = std::mem::take(&mut self.in_sync);
        if was {
            self.since = Some(now);
        }
        (self.close, self.cause) = (false, Some(cause.to_owned()));
        was
    }
}

/// Sets mode and policy; what is none stays, and another mode begins with the default policy.
pub(crate) fn set_mode(
    entry: &mut ReplicationEntry,
    mode: Option<ReplicationMode>,
    policy: Option<OnLinkLoss>,
) {
    if let Some(mode) = mode.filter(|mode| *mode != entry.mode) {
        (entry.mode, entry.on_link_loss) = (mode, OnLinkLoss::default());
        entry.witness = None;
    }
    entry.on_link_loss = policy.unwrap_or(entry.on_link_loss);
}

/// Refuses settings that a mode does not have.
pub(crate) fn check_mode(entry: &ReplicationEntry) -> Result<()> {
    let of_source = entry.role == ReplicationRole::Source;
    match entry.mode {
        ReplicationMode::Async if of_source && entry.witness.is_some() => {
            let message = "a witness decides for synchronous replications only: set the mode to sync";
            Err(Error::invalid(message).about("witness"))
        }
        ReplicationMode::Sync
            if of_source && entry.witness.is_some() && entry.on_link_loss != OnLinkLoss::Stop =>
        {
            let message = "with a witness writes wait for its decision (stop): to go on alone without it, take the witness from the \
                           replication first";
            Err(Error::invalid(message).about("on_link_loss"))
        }
        ReplicationMode::Async if entry.on_link_loss != OnLinkLoss::default() => {
            let message =
                "the policy for the loss of the link is of synchronous replications: set the mode to sync";
            Err(Error::invalid(message).about("on_link_loss"))
        }
        ReplicationMode::Sync if of_source && !entry.blackouts.is_empty() => {
            let message = "a synchronous replication has no blackout windows: every write is to be on both arrays. Remove them";
            Err(Error::invalid(message).about("blackouts"))
        }
        ReplicationMode::Sync if of_source && entry.replicate_snapshots => {
            let message = "snapshots are replicated by asynchronous replications only: switch that off";
            Err(Error::invalid(message).about("replicate_snapshots"))
        }
        _ => Ok(()),
    }
}
