//! Transfers of replicated groups: a source takes points when they are due, and sends them over a link; a target serves links of
//! the source.
//!
//! Both run beside the verbs: no transfer holds the lock of changes. What one end learns of the other is committed
//! before or after a transfer, never by a future that may be dropped.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::parts::framed::shown;
use crate::parts::hex::is_fingerprint;
use crate::parts::remote_link::{
    Denial, DescribedVolume, Description, Link, LinkStream, MAX_SILENCE, Reply, Wish,
};
use crate::replication::begun::Begun;
use crate::service::caller::Caller;
use crate::service::outgoing;
use crate::service::point_retention::{lock_of, received, surplus};
use crate::service::replicas::{Active, Failure};
use crate::service::replication_env::ReplicationEnv;
use crate::service::schedules::zone_of;
use crate::{Error, Result};
use block::DiskId;
use engine::Engine;
use history::Severity;
use jiff::tz::TimeZone;
use records::{
    Edit, Identity, Named, Record, RemoteArrayEntry, ReplicationEntry, ReplicationId, ReplicationRole,
    SourceVolume,
};
use replication::{Source, Synced, Target, UserSnapshot};
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Interval at which it is looked for what is due.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time in which the other array has to respond.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// A session begins after a point that was taken and transferred within this time: what has changed since is
/// transferred while writes wait.
const CLOSE: Duration = Duration::from_secs(2);
/// Volumes of a replicated group.
pub const MAX_VOLUMES: usize = 1024;

/// Why a point was not transferred.
pub(crate) enum Refusal {
    /// The other array does not take points now.
    Denied(Denial, String),
    Failed(Failure),
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self::Failed(Failure { text, no_space: false })
    }
}

impl From<replication::Error> for Refusal {
    fn from(error: replication::Error) -> Self {
        use replication::{Error, Reason};
        let no_space = match &error {
            Error::Refused { reason, .. } => *reason == Reason::NoSpace,
            Error::Disk(error) => *error == block::Error::NoSpace,
            _ => false,
        };
        Self::Failed(Failure { text: shown(&error.to_string()), no_space })
    }
}

/// What an attempt has come to.
#[derive(Default)]
pub(crate) struct Attempt {
    /// The other array has the replication.
    pub accepted: bool,
    /// The point was taken at its beginning.
    taken: bool,
    /// Blocks with data that had changed, of a point that is complete now.
    completed: Option<u64>,
}

impl Array {
    /// Replicates, forever: to be run on a thread that may work for a moment.
    pub async fn replicate(self: Arc<Self>) {
        tokio::join!(self.clone().transfer_all(), self.watch_mirrors(), self.clone().watch_witnesses());
    }

    async fn transfer_all(self: Arc<Self>) {
        let mut regrouping = Begun::new();
        loop {
            self.replicas.apply_windows(&self.config());
            self.complete_replications().await;
            for entry in self.regrouped() {
                let (array, held) = (self.clone(), self.replicas.keep_out(entry.id));
                regrouping.begin(entry.id, || async move { array.regroup_mirror(entry, held).await });
            }
            for (id, active) in self.due_transfers() {
                let array = self.clone();
                tokio::spawn(async move { array.transfer(id, active).await });
            }
            self.replicas.wait(INTERVAL).await;
        }
    }

    /// Does once what is due, one transfer after the other. A session of a synchronous replication ends only by what others do.
    pub async fn replicate_once(&self) {
        self.replicas.apply_windows(&self.config());
        self.complete_replications().await;
        for entry in self.regrouped() {
            let held = self.replicas.keep_out(entry.id);
            self.regroup_mirror(entry, held).await;
        }
        for (id, active) in self.due_transfers() {
            self.transfer(id, active).await;
        }
    }

    fn due_transfers(&self) -> Vec<(ReplicationId, Active)> {
        let due = self.replicas.due(&self.config()).into_iter();
        due.filter_map(|id| Some((id, self.replicas.begin(id)?))).collect()
    }

    /// Completes what a crash has interrupted: promotions, and deletions.
    async fn complete_replications(&self) {
        let incomplete = |entry: &&ReplicationEntry| entry.promotion.as_ref().is_some_and(|it| !it.complete);
        let found: Vec<_> =
            self.config().replications.iter().filter(incomplete).map(|entry| entry.id).collect();
        let caller = Caller::array();
        for id in found {
            let _one_at_a_time = self.configuration.change().await;
            if let Err(error) = Transaction::new(self, &caller).complete_promotion(id).await {
                tracing::warn!(%error, "a promotion is not complete yet");
            }
        }
        let known =
            || self.config().replications.iter().map(ReplicationEntry::number).collect::<BTreeSet<_>>();
        if !replication::unneeded(&self.parts.engine).is_subset(&known()) {
            // One that is being deleted is configured still.
            let _one_at_a_time = self.configuration.change().await;
            let known = known();
            self.replicas.release_deleted(&known).await;
        }
    }

    /// Transfers what is due of a replication, and notes what became of it.
    async fn transfer(&self, id: ReplicationId, mut active: Active) {
        let Some(entry) = self.config().replications.get(id).cloned() else { return };
        let (mut attempt, begun) = (Attempt::default(), tokio::time::Instant::now());
        let wire_bytes = active.wire_bytes.clone();
        let outcome = tokio::select! {
            outcome = self.try_transfer(&entry, &mut attempt, wire_bytes) => Some(outcome),
            () = active.stopped() => None,
        };
        // No session may begin before it is noted what became of this one.
        let kept_out = entry.mirrors().then(|| self.replicas.keep_out(id));
        let cause = match &outcome {
            Some(Ok(())) => None,
            Some(Err(Refusal::Failed(Failure { text, .. }) | Refusal::Denied(_, text))) => {
                Some(text.as_str())
            }
            None => Some("the connection was ended by a change of the replication on this array"),
        };
        match cause {
            Some(cause) => {
                // Its policy may be another one since it began.
                let now = self.config().replications.get(id).cloned().unwrap_or_else(|| entry.clone());
                self.replicas.note_apart(&now, &self.volumes_of(&now), cause);
            }
            None => self.replicas.mirrors.note_close(id, attempt.taken && begun.elapsed() <= CLOSE),
        }
        drop(active);
        if kept_out.is_some() {
            self.note_lost(id).await;
        }
        let mut split = false;
        match outcome {
            Some(Ok(())) => self.replicas.note_success(&entry, attempt.completed),
            Some(Err(Refusal::Failed(failure))) => self.replicas.note_failure(&entry, failure),
            // Now the target knows that this array is not written to any more.
            Some(Err(Refusal::Denied(Denial::Promoted, _))) if entry.demoted.is_some() => {
                self.replicas.note_end(id);
            }
            Some(Err(Refusal::Denied(denial, text))) => {
                // A source that has acknowledged nothing alone hears from its witness what becomes of it.
                let is_decided = entry.witness.is_some()
                    && self.replicas.mirrors.get(id).is_some_and(|mirror| mirror.is_armed());
                split = denial == Denial::Promoted && !is_decided;
                self.replicas.note_failure(&entry, Failure { text, no_space: false });
            }
            None => self.replicas.note_stopped(),
        }
        let learned = (attempt.accepted && !entry.accepted) || split;
        if learned && let Err(error) = self.note_learned(id, attempt.accepted, split).await {
            tracing::warn!(%error, "the state that the other array reported could not be stored");
        }
        if kept_out.is_some() {
            drop(kept_out);
            self.replicas.wake();
        }
    }

    /// Stores what the other array said.
    async fn note_learned(&self, id: ReplicationId, accepted: bool, split: bool) -> Result<()> {
        let _one_at_a_time = self.configuration.change().await;
        let Some(entry) = self.config().replications.get(id).cloned() else { return Ok(()) };
        if entry.role != ReplicationRole::Source {
            return Ok(());
        }
        let new = ReplicationEntry {
            accepted: entry.accepted || accepted,
            split: entry.split || (split && entry.demoted.is_none()),
            ..entry
        };
        self.store_replication(new).await
    }

    /// Stores a replication, for the holder of the lock of changes.
    async fn store_replication(&self, new: ReplicationEntry) -> Result<()> {
        let before = self.config().replications.get(new.id).cloned();
        if before.as_ref() == Some(&new) {
            return Ok(());
        }
        if new.split && before.is_some_and(|before| !before.split) {
            let message =
                format!("replication {:?} is split: the volumes of both arrays take writes", new.name);
            let about = Some((ReplicationEntry::NOUN, &*new.name));
            self.log_event(Severity::Critical, "replication.split", about, message);
        }
        let caller = Caller::array();
        Transaction::new(self, &caller).commit(vec![Edit::Put(Record::Replication(new))]).await
    }

    async fn try_transfer(
        &self,
        entry: &ReplicationEntry,
        attempt: &mut Attempt,
        wire_bytes: Arc<std::sync::atomic::AtomicU64>,
    ) -> std::result::Result<(), Refusal> {
        let volumes = self.volumes_of(entry);
        let points = self.replicas.points(entry);
        let mirrors = entry.mirrors() && entry.demoted.is_none() && self.replicas.mirrors.is_ready(entry);
        let takes = entry.demoted.is_none() && points.last().is_none_or(|point| point.digest.is_some());
        if (mirrors || takes) && volumes.is_empty() {
            let why = "there is no volume to replicate: put volumes into the volume group";
            return Err(why.to_owned().into());
        }
        if mirrors {
            match self.keep_in_sync(entry, attempt, wire_bytes).await? {}
        }
        if takes {
            let remote = self.remote_of(entry).map_err(|error| error.message)?;
            let source = self.replication_source(&remote).map_err(|error| error.message)?;
            self.take_due_point(entry, source, volumes).await?;
            attempt.taken = true;
        }
        let (source, link) = self.open_transfer(entry, attempt).await?;
        let stream = LinkStream::new(link, wire_bytes, MAX_SILENCE);
        let synced = sync(source, entry.number(), stream, entry.mirrors()).await?;
        attempt.completed = (synced.sent_bytes > 0).then_some(synced.offered_blocks);
        Ok(())
    }

    /// The other array of a replication.
    pub(crate) fn remote_of(&self, entry: &ReplicationEntry) -> Result<RemoteArrayEntry> {
        let remote = self.config().remote_arrays.get(entry.remote).cloned();
        remote.ok_or_else(|| Error::not_found("the remote array was deleted"))
    }

    /// A link on which the other array awaits messages of a replication.
    pub(crate) async fn open_transfer(
        &self,
        entry: &ReplicationEntry,
        attempt: &mut Attempt,
    ) -> std::result::Result<(Arc<Source<ReplicationEnv>>, Link), Refusal> {
        let remote = self.remote_of(entry).map_err(|error| error.message)?;
        let source = self.replication_source(&remote).map_err(|error| error.message)?;
        let volumes = entry.subject.map(|it| self.config().scheduled(it)).unwrap_or_default();
        let volumes = volumes.into_iter().map(|it| DescribedVolume { id: it.id.digits(), name: it.name });
        let description = self.describe(entry, volumes.collect());
        let mut link = self.connect_for(&remote, Wish::Replicate { id: entry.id.digits() }).await?;
        match propose(&mut link, &description).await? {
            Reply::Ready => {}
            Reply::Denied { denial, text } => return Err(Refusal::Denied(denial, shown(&text))),
            Reply::Refused { text } => {
                return Err(format!("the other array refused: {}", shown(&text)).into());
            }
            _ => return Err("the other array responded to another request".to_owned().into()),
        }
        attempt.accepted = true;
        Ok((source, link))
    }

    /// Takes the point that is due: of the oldest snapshots that are still to be transferred, or else of the volumes.
    async fn take_due_point(
        &self,
        entry: &ReplicationEntry,
        source: Arc<Source<ReplicationEnv>>,
        volumes: Vec<DiskId>,
    ) -> std::result::Result<(), Refusal> {
        // No snapshot may come between the look for snapshots and the point: it would be older than the point.
        let _one_at_a_time = self.configuration.change().await;
        let snapshots = outgoing::next(&self.config(), &self.parts.engine, entry);
        match snapshots {
            Some(snapshots) => {
                take_point_of(source, entry.number(), snapshots).await?;
            }
            None => {
                self.replicas.note_taken(entry.id, &volumes);
                take_point(source, entry.number(), volumes).await?;
            }
        }
        Ok(())
    }

    /// Takes a point of a replication that is held; returns its number.
    pub(crate) async fn take_last_point(
        &self,
        entry: &ReplicationEntry,
        volumes: Vec<DiskId>,
    ) -> Result<u64> {
        let source = self.replication_source(&self.remote_of(entry)?)?;
        take_point(source, entry.number(), volumes).await.map_err(|refusal| match refusal {
            Refusal::Denied(_, text) | Refusal::Failed(Failure { text, .. }) => {
                Error::failed("the last point can't be taken", text)
            }
        })
    }

    /// A link to the other array of a replication, which awaits its description.
    pub(crate) async fn connect_for(
        &self,
        remote: &RemoteArrayEntry,
        request: Wish,
    ) -> std::result::Result<Link, String> {
        match self.connect_with(remote, request, RESPONSE_TIMEOUT).await? {
            (link, Reply::Describe) => Ok(link),
            _ => Err("it responded to another request".into()),
        }
    }

    pub(crate) fn describe(&self, entry: &ReplicationEntry, volumes: Vec<DescribedVolume>) -> Description {
        let config = self.config();
        let group = match entry.subject {
            Some(records::Subject::Group(id)) => config.groups.get(id).map(|group| group.name.clone()),
            _ => None,
        };
        Description {
            name: entry.name.clone(),
            group,
            volumes,
            rpo_seconds: entry.rpo_seconds,
            mode: entry.mode,
            on_link_loss: entry.on_link_loss,
            witness: self.witness_of(entry).map(|witness| witness.fingerprint),
            generation: entry.generation,
            is_new: !entry.accepted,
            demoted: entry.demoted,
            reversal: None,
        }
    }

    /// Which replication a link is about, and what the other end says of it; `None` after a refusal.
    pub(crate) async fn hear_description(
        &self,
        link: &mut Link,
        id: &str,
    ) -> std::io::Result<Option<(RemoteArrayEntry, ReplicationId, Description)>> {
        let fingerprint = link.fingerprint();
        let remote = self.config().remote_arrays.iter().find(|it| it.fingerprint == fingerprint).cloned();
        let (Some(remote), Some(id)) = (remote, ReplicationId::from_digits(id)) else {
            let text = "it is not paired with this array any more: delete it there, and pair it again".into();
            timeout(RESPONSE_TIMEOUT, link.send(&Reply::Refused { text })).await??;
            return Ok(None);
        };
        self.links.note_heard(&remote, None);
        let description = timeout(RESPONSE_TIMEOUT, async {
            link.send(&Reply::Describe).await?;
            link.receive_long::<Description>().await
        });
        Ok(Some((remote, id, description.await??)))
    }

    /// Serves a link by which a source wants to transfer a point.
    pub(crate) async fn serve_source(&self, mut link: Link, id: String) -> std::io::Result<()> {
        let Some((remote, id, description)) = self.hear_description(&mut link, &id).await? else {
            return Ok(());
        };
        let (entry, mut active) = match self.admit(&remote, id, description).await {
            Ok(admitted) => admitted,
            Err((denial, text)) => {
                return timeout(RESPONSE_TIMEOUT, link.send(&Reply::Denied { denial, text })).await?;
            }
        };
        let wire_bytes = active.wire_bytes.clone();
        let outcome = match self.prepare_target(&mut link, &remote, &entry).await {
            Ok(target) => tokio::select! {
                served = serve(
                    target,
                    LinkStream::new(link, wire_bytes, MAX_SILENCE),
                    self.retention(&entry),
                ) => Some(served),
                () = active.stopped() => None,
            },
            Err(refusal) => Some(Err(refusal)),
        };
        drop(active);
        match outcome {
            Some(Ok(Some(_))) => self.replicas.note_success(&entry, Some(0)),
            Some(Err(Refusal::Failed(failure))) => self.replicas.note_failure(&entry, failure),
            _ => self.replicas.note_end(entry.id),
        }
        Ok(())
    }

    /// The receiving end, once the source knows that it is ready.
    async fn prepare_target(
        &self,
        link: &mut Link,
        remote: &RemoteArrayEntry,
        entry: &ReplicationEntry,
    ) -> std::result::Result<Arc<Target<ReplicationEnv>>, Refusal> {
        if entry.demoted.is_some() {
            // The source may have transferred everything before, change by change.
            self.seal_target(entry).await.map_err(|error| error.message)?;
        }
        let target = self.replication_target(remote).map_err(|error| error.message)?;
        let points = target.points(entry.number())?;
        let points: Vec<_> = points.iter().map(|it| received(&self.parts.engine, it)).collect();
        target.accept(entry.number(), lock_of(entry, &points, self.env.seconds())).await?;
        link.send(&Reply::Ready).await.map_err(|error| error.to_string())?;
        Ok(target)
    }

    fn retention(&self, entry: &ReplicationEntry) -> Retention {
        let zone = zone_of(&self.config().settings);
        Retention { engine: self.parts.engine.clone(), entry: entry.clone(), zone }
    }

    /// Decides whether a source may transfer a point now; notes its description.
    async fn admit(
        &self,
        remote: &RemoteArrayEntry,
        id: ReplicationId,
        description: Description,
    ) -> std::result::Result<(ReplicationEntry, Active), (Denial, String)> {
        let failed = |error: Error| (Denial::Other, error.message);
        {
            let _one_at_a_time = self.configuration.change().await;
            let known = self.config().replications.get(id).cloned();
            let entry = match known {
                None => self.new_target(remote, id, &description)?,
                Some(entry) => checked(remote, entry, &description)?,
            };
            let promoted = entry.promotion.is_some();
            let entry = described(entry, &description).map_err(failed)?;
            self.store_replication(entry).await.map_err(failed)?;
            if promoted {
                return Err((Denial::Promoted, "the target was promoted: its volumes are used there".into()));
            }
        }
        let busy = || (Denial::Busy, "the target is being changed".to_owned());
        let active = self.replicas.replace(id).await.ok_or_else(busy)?;
        // A verb may have come between.
        let entry = self.config().replications.get(id).cloned();
        let takes =
            |entry: &ReplicationEntry| entry.promotion.is_none() && entry.role == ReplicationRole::Target;
        let entry = entry.filter(takes).ok_or_else(busy)?;
        if entry.paused {
            return Err((Denial::Paused, "the replication is paused on the target".into()));
        }
        Ok((entry, active))
    }

    /// The target's end of a replication that a source has created.
    fn new_target(
        &self,
        remote: &RemoteArrayEntry,
        id: ReplicationId,
        description: &Description,
    ) -> std::result::Result<ReplicationEntry, (Denial, String)> {
        if !description.is_new {
            return Err((
                Denial::Unknown,
                "the replication was deleted on the target: delete it here as well, and create it again"
                    .into(),
            ));
        }
        // What is left of a replication that was deleted is not part of another one that has its identity.
        let is_left = |number: u128| number >> 64 == u128::from(id.0);
        if replication::unneeded(&self.parts.engine).into_iter().any(is_left) {
            return Err((
                Denial::Unknown,
                "a replication with this identity was deleted on the target, and its points are not: delete it here as well, \
                 and create it again"
                    .into(),
            ));
        }
        let config = self.config();
        let usable = |name: &str| {
            check::name(ReplicationEntry::NOUN, name).is_ok() && config.replications.free(name).is_ok()
        };
        let name = if usable(&description.name) {
            description.name.clone()
        } else {
            format!("from-{}", id.digits())
        };
        let about = Some((ReplicationEntry::NOUN, &*name));
        let message = format!("replication {name:?} was created by remote array {:?}", remote.name);
        self.log_event(Severity::Info, "replication.created", about, message);
        let (created, rpo) = (self.env.seconds(), description.rpo_seconds);
        let entry = ReplicationEntry::new(id, name, created, remote.id, ReplicationRole::Target, rpo);
        Ok(ReplicationEntry { generation: description.generation, accepted: true, ..entry })
    }
}

/// Describes a replication on a link that awaits it; what the other end says to that.
pub(crate) async fn propose(
    link: &mut Link,
    description: &Description,
) -> std::result::Result<Reply, String> {
    let said = timeout(RESPONSE_TIMEOUT, async {
        link.send(description).await?;
        link.receive::<Reply>().await
    });
    let said = said.await.map_err(|_| "the other array did not respond in time".to_owned())?;
    said.map_err(|error| format!("the connection ended: {error}"))
}

/// What a target keeps, for the end of a transfer.
struct Retention {
    engine: Arc<Engine>,
    entry: ReplicationEntry,
    zone: TimeZone,
}

type Served<T> = Pin<Box<dyn Future<Output = std::result::Result<T, Refusal>> + Send>>;

/// Serves one connection of a source, and deletes the points that are not kept any more. Returns whether a point was completed.
fn serve(
    target: Arc<Target<ReplicationEnv>>,
    stream: LinkStream,
    retention: Retention,
) -> Served<Option<u64>> {
    Box::pin(async move {
        // A session has no end after which its point is counted.
        delete_surplus(&target, &retention).await?;
        let served = match target.serve(retention.entry.number(), stream).await {
            // The source has ended it: it says there why.
            Err(replication::Error::Stream(_)) => return Ok(None),
            served => served?,
        };
        delete_surplus(&target, &retention).await?;
        Ok(served)
    })
}

/// Deletes the points that are not kept any more.
async fn delete_surplus(
    target: &Target<ReplicationEnv>,
    Retention { engine, entry, zone }: &Retention,
) -> std::result::Result<(), Refusal> {
    let points = target.points(entry.number())?;
    let points: Vec<_> = points.iter().map(|it| received(engine, it)).collect();
    for number in surplus(entry, &points, zone) {
        match target.delete_point(entry.number(), number).await {
            // It goes after a later point.
            Err(replication::Error::Busy) => {}
            Err(replication::Error::Disk(block::Error::RetentionLocked { .. })) => {}
            deleted => deleted?,
        }
    }
    Ok(())
}

/// Takes a point of these volumes.
fn take_point(source: Arc<Source<ReplicationEnv>>, number: u128, volumes: Vec<DiskId>) -> Served<u64> {
    Box::pin(async move { Ok(source.take_point(number, &volumes).await?.number) })
}

/// Takes a point of these snapshots.
fn take_point_of(
    source: Arc<Source<ReplicationEnv>>,
    number: u128,
    snapshots: Vec<UserSnapshot>,
) -> Served<u64> {
    Box::pin(async move { Ok(source.take_point_of(number, &snapshots).await?.number) })
}

/// Transfers a point.
fn sync(
    source: Arc<Source<ReplicationEnv>>,
    number: u128,
    stream: LinkStream,
    catches_up: bool,
) -> Served<Synced> {
    Box::pin(async move {
        Ok(if catches_up {
            source.catch_up(number, stream).await?
        } else {
            source.sync(number, stream).await?
        })
    })
}

/// Refuses a source that this array does not know as such.
fn checked(
    remote: &RemoteArrayEntry,
    entry: ReplicationEntry,
    description: &Description,
) -> std::result::Result<ReplicationEntry, (Denial, String)> {
    if entry.remote != remote.id {
        return Err((Denial::Unknown, "another array is the source of this replication".into()));
    }
    if entry.role != ReplicationRole::Target || entry.generation != description.generation {
        return Err((Denial::Other, "both arrays are the source of this replication".into()));
    }
    Ok(entry)
}

/// The target's end with what the source says.
pub(crate) fn described(entry: ReplicationEntry, description: &Description) -> Result<ReplicationEntry> {
    let wrong = || Error::invalid("the source described the replication in a way that can't be");
    let volume = |volume: &DescribedVolume| {
        let id = DiskId::from_digits(&volume.id).ok_or_else(wrong)?;
        check::name("volume", &volume.name)?;
        Ok(SourceVolume { id, name: volume.name.clone() })
    };
    let names_witness = description.witness.as_deref().is_none_or(is_fingerprint);
    if description.volumes.len() > MAX_VOLUMES || description.rpo_seconds == 0 || !names_witness {
        return Err(wrong());
    }
    description.group.as_deref().map_or(Ok(()), |group| check::name("volume group", group))?;
    Ok(ReplicationEntry {
        group: description.group.clone(),
        volumes: description.volumes.iter().map(volume).collect::<Result<_>>()?,
        rpo_seconds: description.rpo_seconds,
        mode: description.mode,
        on_link_loss: description.on_link_loss,
        witness: None,
        witness_fingerprint: description.witness.clone(),
        demoted: description.demoted,
        split: entry.promotion.is_some() && description.demoted.is_none(),
        ..entry
    })
}
