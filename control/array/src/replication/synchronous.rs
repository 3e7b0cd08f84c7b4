//! Synchronous replication: when a session is begun, what becomes of it, and what verbs do with it.
//!
//! While a session is up the source acknowledges nothing that the target does not have. Without one the policy
//! decides: the source continues alone, or stops. That it may continue alone is durable before the first
//! acknowledgement; what ends a session by an operator's order lets the source go on alone.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::noun::replication::put;
use crate::parts::remote_link::{LinkStream, MAX_JOIN_SILENCE};
use crate::replication::transfer::{Attempt, Refusal};
use crate::service::caller::Caller;
use crate::service::replicas::Held;
use crate::service::replication_env::ReplicationEnv;
use crate::{Error, Result};
use block::DiskId;
use engine::Engine;
use history::Severity;
use records::{Named, ReplicationEntry, ReplicationId, ReplicationMode, Stage, VolumeEntry};
use replication::{Mirror, MirrorState, Source, Target};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::time::timeout;

/// Interval at which it is looked for writes that wait for too long.
const INTERVAL: Duration = Duration::from_millis(500);
/// Time in which changes under way reach the other array before a demotion.
const MAX_SETTLE: Duration = Duration::from_secs(10);

type Ended = Pin<Box<dyn Future<Output = replication::Result<Infallible>> + Send>>;

/// A session.
fn session(
    source: Arc<Source<ReplicationEnv>>,
    (number, volumes): (u128, Vec<DiskId>),
    mirror: Arc<Mirror>,
    stream: LinkStream,
) -> Ended {
    Box::pin(async move { source.mirror(number, &volumes, &mirror, stream).await })
}

/// Makes a point of what a target has.
fn seal(
    target: Arc<Target<ReplicationEnv>>,
    number: u128,
) -> Pin<Box<dyn Future<Output = replication::Result<()>> + Send>> {
    Box::pin(async move { target.seal(number).await.map(drop) })
}

/// The record by which a source is not known to have been the same as its target.
fn disarmed(entry: &ReplicationEntry) -> Vec<(String, Option<bytes::Bytes>)> {
    vec![replication::disarm(entry.number())]
}

/// Whether the newest complete point has other volumes than the group now.
fn is_regrouped(engine: &Engine, entry: &ReplicationEntry, volumes: &BTreeSet<DiskId>) -> bool {
    let points = replication::source_points(engine, entry.number()).unwrap_or_default();
    let newest = points.iter().rev().find(|point| point.digest.is_some());
    newest.is_some_and(|point| {
        let known: BTreeSet<DiskId> = point.volumes.iter().map(|volume| DiskId(volume.source)).collect();
        known != *volumes
    })
}

impl Array {
    /// Refuses writes that have waited for the other array for too long, forever.
    pub(crate) async fn watch_mirrors(&self) {
        loop {
            self.replicas.refuse_overdue(&self.config());
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Keeps both arrays of a replication the same, write by write, until something fails.
    pub(crate) async fn keep_in_sync(
        &self,
        entry: &ReplicationEntry,
        attempt: &mut Attempt,
        wire_bytes: Arc<AtomicU64>,
    ) -> std::result::Result<Infallible, Refusal> {
        self.replicas.note_session(entry.id);
        let mirror = self.replicas.mirrors.of(entry);
        let (source, link) = self.open_transfer(entry, attempt).await?;
        let volumes = self.volumes_of(entry);
        self.replicas.mirrors.set_tap(entry.id, volumes.clone());
        let stream = LinkStream::new(link, wire_bytes, MAX_JOIN_SILENCE);
        let ended = session(source, (entry.number(), volumes.clone()), mirror.clone(), stream);
        let noted = async {
            mirror.in_sync().await;
            self.replicas.note_in_sync(entry, &volumes);
            pending::<Infallible>().await
        };
        tokio::select! {
            ended = ended => Ok(ended?),
            never = noted => Ok(never),
        }
    }

    pub(crate) fn volumes_of(&self, entry: &ReplicationEntry) -> Vec<DiskId> {
        let volumes = entry.subject.map(|it| self.config().scheduled(it)).unwrap_or_default();
        volumes.into_iter().map(|volume| volume.id).collect()
    }

    /// Makes durable what became of a source whose session has ended by itself: that it acknowledges writes alone, or
    /// since when it waits. Others must be kept out until then: another session would arm it again.
    pub(crate) async fn note_lost(&self, id: ReplicationId) {
        let _one_at_a_time = self.configuration.change().await;
        let entry = self.config().replications.get(id).filter(|it| it.mirrors()).cloned();
        let Some(entry) = entry else { return };
        let mirrors = &self.replicas.mirrors;
        let (new, records) = match mirrors.is_to_be_disarmed(&entry) {
            true => {
                let alone_since = mirrors.apart_since(&entry).or_else(|| Some(self.env.seconds()));
                (ReplicationEntry { alone_since, ..entry.clone() }, disarmed(&entry))
            }
            false => {
                let lost_session = mirrors.lost_session(&entry);
                (ReplicationEntry { lost_session, ..entry.clone() }, Vec::new())
            }
        };
        if new == entry && records.is_empty() {
            return;
        }
        let caller = Caller::array();
        let stored = Transaction::new(self, &caller).commit_with(vec![put(&new)], records).await;
        if let Err(error) = stored {
            tracing::warn!(%error, "that both arrays of a replication are not the same could not be stored");
        }
    }

    /// The sources whose volumes are not those that the target has.
    pub(crate) fn regrouped(&self) -> Vec<ReplicationEntry> {
        let config = self.config();
        let regrouped = |entry: &&ReplicationEntry| {
            let volumes = entry.subject.map(|it| config.scheduled(it)).unwrap_or_default();
            let volumes = volumes.into_iter().map(|volume| volume.id).collect();
            is_regrouped(&self.parts.engine, entry, &volumes)
        };
        let mirrored = config.replications.iter().filter(|it| it.mirrors() && it.demoted.is_none());
        mirrored.filter(|it| self.replicas.mirrors.of(it).is_armed()).filter(regrouped).cloned().collect()
    }

    /// Lets a source go on alone whose volumes are not those that the target has: a volume that joins a group may have much that
    /// is to be transferred first. No transfer begins before.
    pub(crate) async fn regroup_mirror(&self, entry: ReplicationEntry, kept_out: Held) {
        let held = self.replicas.hold(entry.id).await;
        let consent = self.consent_of_witness(&entry).await;
        let _one_at_a_time = self.configuration.change().await;
        let Some(entry) = self.unchanged(&entry) else { return };
        let volumes = self.volumes_of(&entry).into_iter().collect();
        if entry.mirrors() && is_regrouped(&self.parts.engine, &entry, &volumes) {
            let caller = Caller::array();
            let mut tx = Transaction::new(self, &caller);
            let gone = match consent {
                Ok(()) => tx.go_alone(&entry, "the volumes of the group have changed").await,
                Err(refused) => Err(refused),
            };
            match gone {
                Ok(()) => {
                    drop((held, kept_out));
                    self.replicas.wake();
                }
                Err(error) => tracing::warn!(%error, "a replication could not be continued alone"),
            }
        }
    }

    /// Makes a point of what this array, the target, has of a synchronous replication.
    pub(crate) async fn seal_target(&self, entry: &ReplicationEntry) -> Result<()> {
        if !replication::is_mirrored(&self.parts.engine, entry.number()).unwrap_or(true) {
            return Ok(());
        }
        let sealed = seal(self.replication_target(&self.remote_of(entry)?)?, entry.number()).await;
        sealed.map_err(|error| Error::failed("the newest state can't be made a point", error))
    }
}

impl Transaction<'_> {
    /// Lets a source go on alone until both arrays are the same again, for the holder of the replication, who has the consent of the
    /// witness.
    pub(crate) async fn go_alone(&mut self, entry: &ReplicationEntry, cause: &str) -> Result<()> {
        let new = ReplicationEntry { alone_since: Some(self.now()), ..entry.clone() };
        self.commit_with(vec![put(&new)], disarmed(entry)).await?;
        self.note_gone_alone(entry, cause);
        Ok(())
    }

    /// What follows once it is durable that a source may go on alone.
    fn note_gone_alone(&self, entry: &ReplicationEntry, cause: &str) {
        let was_armed = self.array.replicas.mirrors.get(entry.id).is_some_and(|mirror| mirror.is_armed());
        self.array.replicas.mirrors.go_alone(entry.id, cause);
        if was_armed {
            let message = format!(
                "replication {:?}: this array acknowledges writes alone until both arrays are the same again, because {cause}",
                entry.name
            );
            let about = Some((ReplicationEntry::NOUN, &*entry.name));
            self.array.log_event(Severity::Warning, "replication.alone", about, message);
        }
    }

    /// Before the content of a volume is replaced: lets the sources that mirror it continue alone, as hosts are not
    /// to wait until all of it was transferred. Nothing is transferred before what this returns is dropped. Other changes may have
    /// come first.
    pub(crate) async fn part_from_mirrors(&mut self, volume: DiskId, cause: &str) -> Result<Vec<Held>> {
        let mut held = Vec::new();
        for id in self.array.replicas.mirrors.of_volume(volume) {
            held.push(self.array.replicas.hold(id).await);
            let entry = self.array.config().replications.get(id).filter(|it| it.mirrors()).cloned();
            if let Some(entry) = entry {
                let agreed = self.ask_for_consent(&entry).await?;
                self.go_alone(&agreed, cause).await?;
            }
        }
        Ok(held)
    }

    /// Stores another mode or policy.
    pub(crate) async fn change_mirror(
        &mut self,
        entry: &ReplicationEntry,
        new: ReplicationEntry,
    ) -> Result<()> {
        let mirrors = &self.array.replicas.mirrors;
        let engine = &self.array.parts.engine;
        let in_sync = entry.mirrors()
            && new.mirrors()
            && mirrors.get(entry.id).is_some_and(|mirror| mirror.state() == MirrorState::InSync)
            && replication::is_armed(engine, entry.number()).unwrap_or(false);
        if in_sync {
            // It holds for the session under way, and after a restart.
            self.commit(vec![put(&new)]).await?;
            self.array.replicas.mirrors.set_policy(&new);
            return Ok(());
        }
        // Without a session none may begin until then: it would be disarmed here.
        let _held = self.array.replicas.hold(entry.id).await;
        let was_armed = mirrors.get(entry.id).is_some_and(|mirror| mirror.is_armed());
        let agreed = if was_armed { self.ask_for_consent(entry).await? } else { entry.clone() };
        let alone_since = match new.mode {
            ReplicationMode::Sync if was_armed => Some(self.now()),
            ReplicationMode::Sync => entry.alone_since,
            ReplicationMode::Async => None,
        };
        let new = ReplicationEntry { alone_since, lost_session: agreed.lost_session, ..new };
        self.commit_with(vec![put(&new)], disarmed(entry)).await?;
        if new.mirrors() {
            if was_armed {
                self.note_gone_alone(&new, "an operator has changed the policy for the loss of the link");
            }
            self.array.replicas.mirrors.set_policy(&new);
        } else {
            self.array.replicas.mirrors.remove(entry.id, false);
        }
        Ok(())
    }

    /// Makes the volumes of a source read-only while its session continues, and waits until the target has every
    /// change. Returns the replication as it is then, and the point with which the session began, if both arrays are the same.
    pub(crate) async fn settle_mirror(
        &mut self,
        entry: ReplicationEntry,
    ) -> Result<(ReplicationEntry, Option<u64>)> {
        let Some(mirror) = self.array.replicas.mirrors.get(entry.id).filter(|_| entry.mirrors()) else {
            return Ok((entry, None));
        };
        if mirror.state() != MirrorState::InSync || entry.demoted.is_some() {
            return Ok((entry, None));
        }
        let session = self.array.replicas.points(&entry).pop().map(|point| point.number);
        let is_writable = |id| self.array.parts.engine.disk(id).is_some_and(|disk| !disk.read_only);
        let locked: Vec<_> = self.replicated(&entry).into_iter().filter(|it| is_writable(it.id)).collect();
        self.lock_volumes(locked.clone(), true).await?;
        let settled = self.outside(timeout(MAX_SETTLE, mirror.settled())).await;
        match settled.and_then(|settled| Ok((self.unchanged(&entry)?, settled.unwrap_or(false)))) {
            Ok((entry, settled)) => Ok((entry, session.filter(|_| settled))),
            Err(refused) => {
                self.unlock_source(entry.id, locked).await?;
                Err(refused)
            }
        }
    }

    /// Makes volumes writable again that were locked for a demotion which does not take place.
    async fn unlock_source(&mut self, id: ReplicationId, locked: Vec<VolumeEntry>) -> Result<()> {
        let volumes: Vec<_> = {
            let config = self.array.config();
            let is_demoted = config.replications.get(id).is_some_and(|it| it.demoted.is_some());
            let is_ready = |id| config.volumes.get(id).is_some_and(|it| it.stage == Stage::Ready);
            locked.into_iter().filter(|it| !is_demoted && is_ready(it.id)).collect()
        };
        self.lock_volumes(volumes, false).await
    }

    /// Takes the last point of a source that is demoted: without a transfer if its session, which began with this point, had
    /// brought everything to the target.
    pub(crate) async fn last_point(
        &self,
        entry: &ReplicationEntry,
        session: Option<u64>,
        volumes: Vec<DiskId>,
    ) -> Result<u64> {
        if let Some(session) = session {
            let source = self.array.replication_source(&self.array.remote_of(entry)?)?;
            let sealed = seal_source(source, entry.number(), session, volumes.clone()).await;
            let sealed = sealed.map_err(|error| Error::failed("the last point can't be taken", error))?;
            if let Some(number) = sealed {
                return Ok(number);
            }
        }
        self.array.take_last_point(entry, volumes).await
    }
}

/// Makes the state of a source after a session a point of both arrays.
fn seal_source(
    source: Arc<Source<ReplicationEnv>>,
    number: u128,
    session: u64,
    volumes: Vec<DiskId>,
) -> Pin<Box<dyn Future<Output = replication::Result<Option<u64>>> + Send>> {
    Box::pin(async move {
        let point = source.seal(number, session, &volumes).await?;
        Ok(point.map(|point| point.number))
    })
}
