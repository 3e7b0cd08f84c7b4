//! Reversal of a replication: the array that was promoted becomes the source, and the one that was the source its target.
//!
//! The other array agrees first, in the step in which it becomes the target; then this one becomes the source. If the second
//! step is missing, after a crash or because the response was lost, nothing is transferred in either direction, and the verb is
//! repeated: the other array agrees again. Each reversal has a generation of its own, which is part of the number by which both
//! engines know the points, so that a connection of an older one is refused.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::noun::replication::{Replication, put, require};
use crate::parts::framed::shown;
use crate::parts::hex::{from_hex, hex};
use crate::parts::remote_link::{
    Denial, DescribedCounterpart, DescribedReversal, DescribedVolume, Description, Link, Reply, Wish,
};
use crate::replication::transfer::{RESPONSE_TIMEOUT, described, propose};
use crate::request::verbs;
use crate::service::caller::Caller;
use crate::{Error, Result};
use block::DiskId;
use history::Severity;
use records::{
    GroupId, Identity, Named, Promotion, RemoteArrayEntry, ReplicaVolume, ReplicationEntry, ReplicationId,
    ReplicationRole, Subject,
};
use replication::{Counterpart, Digest, Point, Reversal, Written};
use std::collections::BTreeSet;
use tokio::time::timeout;

verbs! {
    #![tag = "replications"]

    /// Reverse a replication
    ///
    /// On the array that was promoted: it becomes the source, and the other array its target, which has to be demoted. What
    /// changes since the last common point is transferred.
    ReverseReplication { name } -> Replication, Exchange "reverse" "replication", Admin, about name,
        at POST "/replications/{name}/reverse"
        => |tx, it| tx.reverse_replication(&it.name).await;
}

/// The step by which an array becomes the source or the target.
struct Step {
    entry: ReplicationEntry,
    written: Written,
}

impl Transaction<'_> {
    pub async fn reverse_replication(&mut self, name: &str) -> Result<Replication> {
        let entry = self.replication_named(name)?;
        require(&entry, ReplicationRole::Target, "the direction is reversed after a promotion")?;
        let promotion = entry.promotion.clone().filter(|it| it.complete).ok_or_else(|| {
            Error::precondition(format!(
                "the target of {name:?} was not promoted: promote it first, its volumes become the source"
            ))
        })?;
        let remote = self.array.remote_of(&entry)?;
        let held = self.array.replicas.hold(entry.id).await;
        let (step, point) = self.become_source(&entry, &promotion)?;
        // A change that waits for the replication would hold up every other one.
        drop(held);
        let request = self.reversal(&step.entry, &point, &promotion.volumes);
        let asked = self.array.ask_to_reverse(&remote, &step.entry, &request);
        self.outside(asked).await??;
        let _held = self.array.replicas.hold(entry.id).await;
        let now = self.replication_named(name)?;
        let (step, again) = self.become_source(&now, &promotion)?;
        if now != entry || again != point {
            return Err(Error::conflict(format!(
                "replication {name:?} was changed while the other array was asked: reverse it again"
            )));
        }
        let (kept, detached) = self.keep_locked_points(&entry, point.number);
        self.note_kept_points(&entry, &kept);
        let edits = std::iter::once(put(&step.entry)).chain(kept).collect();
        self.commit_with(edits, step.written.into_iter().chain(detached).collect()).await?;
        self.array.replicas.note_reversed(entry.id);
        let message = format!(
            "replication {name:?} was reversed by {}: this array is the source, {:?} the target",
            self.caller.user, remote.name
        );
        let about = Some((ReplicationEntry::NOUN, name));
        self.array.log_event(Severity::Info, "replication.reversed", about, message);
        self.array.replicas.want(entry.id);
        self.replication_now(entry.id)
    }

    /// What makes this array the source, and the point that the other array needs as its base.
    fn become_source(&self, entry: &ReplicationEntry, promotion: &Promotion) -> Result<(Step, Point)> {
        let subject = self.promoted_subject(entry, promotion)?;
        let new = ReplicationEntry {
            role: ReplicationRole::Source,
            generation: entry.generation.saturating_add(1),
            subject: Some(subject),
            group: None,
            volumes: Vec::new(),
            paused: false,
            accepted: true,
            demoted: None,
            witness: self.array.witness_of(entry).map(|witness| witness.id),
            witness_fingerprint: None,
            alone_since: None,
            lost_session: None,
            split: false,
            promotion: None,
            replicas: Vec::new(),
            replica_group: None,
            ..entry.clone()
        };
        let counterpart = |it: &ReplicaVolume| Counterpart { source: it.volume, target: it.source };
        let volumes = promotion.volumes.iter().map(counterpart).collect();
        let reversal = Reversal { old: entry.number(), new: new.number(), volumes };
        let (point, written) = reversal.to_source(&self.array.parts.engine).map_err(unable)?;
        Ok((Step { entry: new, written }, point))
    }

    /// The group of the promoted volumes, or the only one.
    fn promoted_subject(&self, entry: &ReplicationEntry, promotion: &Promotion) -> Result<Subject> {
        let config = self.array.config();
        let group = promotion.group.filter(|id| config.groups.get(*id).is_some());
        let subject = match (group, promotion.volumes.as_slice()) {
            (Some(group), _) => Subject::Group(group),
            (None, [only]) if entry.group.is_none() => Subject::Volume(only.volume),
            _ => {
                return Err(Error::precondition(
                    "the volume group of the promoted volumes was deleted: delete the replication on both arrays, and \
                     create it again for another volume group",
                ));
            }
        };
        if config.scheduled(subject).is_empty() {
            return Err(Error::precondition(
                "the promoted volumes do not exist, or are not in their group any more",
            ));
        }
        let twice = |it: &&ReplicationEntry| it.subject == Some(subject) && it.remote == entry.remote;
        match config.replications.iter().find(twice) {
            Some(other) => {
                Err(Error::conflict(format!("replication {:?} replicates it there already", other.name)))
            }
            None => Ok(subject),
        }
    }

    /// What the other array is asked, to become the target.
    fn reversal(&self, entry: &ReplicationEntry, point: &Point, volumes: &[ReplicaVolume]) -> Description {
        let named = self.replicated(entry).into_iter();
        let named = named.map(|it| DescribedVolume { id: it.id.digits(), name: it.name }).collect();
        let counterpart = |it: &ReplicaVolume| DescribedCounterpart {
            source: it.volume.digits(),
            target: it.source.digits(),
        };
        let reversal = DescribedReversal {
            point: point.number,
            digest: hex(&point.digest.unwrap_or_default()),
            volumes: volumes.iter().map(counterpart).collect(),
        };
        Description { reversal: Some(reversal), ..self.array.describe(entry, named) }
    }

    /// Makes this array the target, as the other one wants that was promoted.
    async fn become_target(&mut self, entry: &ReplicationEntry, description: &Description) -> Result<()> {
        let wrong = || Error::invalid("the other array described the reversal in a way that can't be");
        let reversal = description.reversal.as_ref().ok_or_else(wrong)?;
        let digest = from_hex(&reversal.digest).and_then(|it| it.try_into().ok()).ok_or_else(wrong)?;
        let counterpart = |it: &DescribedCounterpart| {
            let ids = DiskId::from_digits(&it.source).zip(DiskId::from_digits(&it.target));
            ids.map(|(source, target)| Counterpart { source, target }).ok_or_else(wrong)
        };
        let mut volumes = reversal.volumes.iter().map(counterpart).collect::<Result<Vec<_>>>()?;
        // Only what is replicated here becomes read-only, and gets the content of the source: another volume, or one that has
        // left the group since, is not the other array's to name.
        let replicated = self.replicated(entry).into_iter().map(|it| it.id);
        let own: BTreeSet<_> = replicated.chain(entry.replicas.iter().map(|it| it.volume)).collect();
        volumes.retain(|it| own.contains(&it.target));
        let replicas: Vec<_> =
            volumes.iter().map(|it| ReplicaVolume { source: it.source, volume: it.target }).collect();
        let new = ReplicationEntry {
            role: ReplicationRole::Target,
            generation: description.generation,
            subject: None,
            paused: false,
            accepted: true,
            alone_since: None,
            lost_session: None,
            replica_group: self.own_group(entry),
            replicas,
            ..entry.clone()
        };
        let new = described(new, description)?;
        // All are read-only since the demotion; the promotion relies on it.
        let kept = self.ready_volumes(&new.replicas);
        self.lock_volumes(kept, true).await?;
        let carried = Reversal { old: entry.number(), new: new.number(), volumes };
        let written = carried.to_target(&self.array.parts.engine, reversal.point, Digest(digest));
        let mut written = written.map_err(unable)?;
        let (kept, detached) = self.keep_locked_points(entry, reversal.point);
        self.note_kept_points(entry, &kept);
        written.extend(detached);
        self.commit_with(std::iter::once(put(&new)).chain(kept).collect(), written).await?;
        self.array.replicas.note_reversed(entry.id);
        let message =
            format!("replication {:?} was reversed by the other array, which is the source now", new.name);
        let about = Some((ReplicationEntry::NOUN, &*new.name));
        self.array.log_event(Severity::Info, "replication.reversed", about, message);
        // Old points go in the background.
        self.array.replicas.wake();
        Ok(())
    }

    /// The group that the volumes of this array are in.
    fn own_group(&self, entry: &ReplicationEntry) -> Option<GroupId> {
        match entry.subject {
            Some(Subject::Group(id)) => Some(id),
            Some(Subject::Volume(_)) => None,
            None => entry.replica_group,
        }
    }
}

impl Array {
    /// Asks the other array to become the target.
    async fn ask_to_reverse(
        &self,
        remote: &RemoteArrayEntry,
        entry: &ReplicationEntry,
        description: &Description,
    ) -> Result<()> {
        let failed = |why: String| {
            Error::precondition(format!(
                "the replication can't be reversed: {why}; repeat it when remote array {:?} agrees",
                remote.name
            ))
        };
        let request = Wish::Reverse { id: entry.id.digits() };
        let mut link = self.connect_for(remote, request).await.map_err(failed)?;
        match propose(&mut link, description).await.map_err(failed)? {
            Reply::Ready => Ok(()),
            Reply::Denied { text, .. } | Reply::Refused { text } => Err(failed(shown(&text))),
            _ => Err(failed("it responded to another request".into())),
        }
    }

    /// Serves a link by which the other array of a replication wants to become its source.
    pub(crate) async fn serve_reversal(&self, mut link: Link, id: String) -> std::io::Result<()> {
        let Some((remote, id, description)) = self.hear_description(&mut link, &id).await? else {
            return Ok(());
        };
        let said = match self.agree_to_reverse(&remote, id, &description).await {
            Ok(()) => Reply::Ready,
            Err(error) => Reply::Denied { denial: Denial::Other, text: error.message },
        };
        timeout(RESPONSE_TIMEOUT, link.send(&said)).await??;
        // Until the other end has read it and closes.
        timeout(RESPONSE_TIMEOUT, link.receive::<Reply>()).await?.map(drop)
    }

    async fn agree_to_reverse(
        &self,
        remote: &RemoteArrayEntry,
        id: ReplicationId,
        description: &Description,
    ) -> Result<()> {
        let _one_at_a_time = self.configuration.change().await;
        let entry = self.config().replications.get(id).filter(|it| it.remote == remote.id).cloned();
        let entry = entry.ok_or_else(|| {
            Error::not_found("the replication was deleted there: delete it here as well, and create it again")
        })?;
        let _held = self.replicas.hold(id).await;
        match entry.role {
            ReplicationRole::Source if entry.demoted.is_none() || entry.split => {
                return Err(Error::precondition(
                    "its volumes take writes, which would be lost: demote the replication there first, with force if it is \
                     split",
                ));
            }
            ReplicationRole::Target if entry.promotion.is_some() => {
                return Err(Error::precondition(
                    "it was promoted as well: demote the replication with force on the array that loses its changes",
                ));
            }
            _ => {}
        }
        // It agreed before, and the response was lost.
        if entry.role == ReplicationRole::Target && entry.generation == description.generation {
            return Ok(());
        }
        if entry.generation >= description.generation {
            return Err(Error::precondition(
                "it has recorded a later reversal: promote the replication there, and reverse it there if that is intended",
            ));
        }
        let caller = Caller { user: "another array".into(), ..Caller::array() };
        Transaction::new(self, &caller).become_target(&entry, description).await
    }
}

fn unable(error: replication::Error) -> Error {
    Error::failed("the replication can't be reversed", error)
}
