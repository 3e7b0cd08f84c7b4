//! Replications: groups of volumes, or single ones, of which another array gets points.
//!
//! The source is created here, the target by the first transfer. What runs is in [`mod@crate::replication::transfer`].

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::noun::connection::Connection;
use crate::request::verbs;
use crate::service::mirrors::{check_mode, set_mode};
use crate::service::replication_env::ReplicationEnv;
use crate::service::replication_status::ReplicationStatus;
use crate::service::{point_retention, windows};
use crate::shape::view::SubjectName;
use crate::shape::window::WeeklyWindow;
use crate::shape::{digits, shapes, some_digits, time};
use crate::{Error, Result};
use block::DiskId;
use history::Severity;
use records::{
    Config, Edit, LostSession, Named, OnLinkLoss, Record, RemoteArrayEntry, ReplicaVolume, ReplicationEntry,
    ReplicationId, ReplicationMode, ReplicationRole, Rule, Stage, Subject, VolumeEntry, Window, present,
};
use replication::{Source, Target};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// Shortest and longest RPO, in seconds.
const RPO_SECONDS: std::ops::RangeInclusive<u64> = 5..=7 * 86_400;
/// Maximum number of replications.
pub const MAX_REPLICATIONS: usize = 1000;

/// A replication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Replication {
    /// Name on this array.
    pub name: String,
    /// Permanent identifier, the same on both arrays: 16 hex digits.
    #[schema(value_type = String)]
    pub id: ReplicationId,
    /// Creation time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Name of the other array.
    pub remote_array: String,
    /// Which end this array is.
    pub role: ReplicationRole,
    /// When a write is acknowledged.
    pub mode: ReplicationMode,
    /// Policy for writes while the other array is out of reach; `null` for an asynchronous replication, and on the target.
    pub on_link_loss: Option<OnLinkLoss>,
    /// Witness: the remote array that decides which of the two continues alone after a loss; on a target that is not
    /// paired with it the SHA-256 of its certificate. `null`: an operator decides.
    pub witness: Option<String>,
    /// Volume, by its name on the source; `null` for a group.
    pub volume: Option<String>,
    /// Volume group, by its name on the source; `null` for a volume.
    pub group: Option<String>,
    /// Recovery point objective: maximum age of the newest complete point.
    pub rpo_seconds: u64,
    /// Weekly windows in which no point is taken or transferred unless an operator asks for it. A setting of the source.
    pub blackouts: Vec<WeeklyWindow>,
    /// Whether snapshots of all of its volumes that users and schedules take are replicated as well; `null` on the target.
    pub replicate_snapshots: Option<bool>,
    /// Points of such snapshots that the target retains, besides the others; `null` on the source.
    pub keep_snapshots: Option<u32>,
    /// Complete points that the target retains; `null` on the source.
    pub keep_points: Option<u32>,
    /// Rules that keep older points on the target: of each period the first point, of the newest periods. Empty on the source.
    pub keep_rules: Vec<Rule>,
    /// Retention lock of points that arrive from now on: seconds during which they can't be deleted; `null` on the source.
    pub lock_seconds: Option<u64>,
    /// Progress.
    #[serde(rename = "progress")]
    pub status: ReplicationStatus,
    /// Volumes; on the target empty until the first transfer.
    pub volumes: Vec<ReplicatedVolume>,
    /// Volumes that the target was promoted with.
    pub promoted_volumes: Vec<String>,
    /// Clones of a point to test a failover.
    pub test_volumes: Vec<String>,
    /// Hosts and host groups to which these clones are connected.
    pub test_connections: Vec<TestConnection>,
}

/// A volume of a replication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ReplicatedVolume {
    /// Permanent identifier on the source: 32 hex digits.
    #[serde(serialize_with = "digits")]
    #[schema(value_type = String)]
    pub id: DiskId,
    /// Name on the source.
    pub name: String,
    /// Permanent identifier of the volume that the target was promoted with; `null` if it was not, and on the source.
    #[serde(rename = "promoted_id", serialize_with = "some_digits")]
    #[schema(value_type = Option<String>)]
    pub promoted: Option<DiskId>,
    /// Permanent identifier of the clone to test a failover; `null` if none is tested, and on the source.
    #[serde(rename = "test_id", serialize_with = "some_digits")]
    #[schema(value_type = Option<String>)]
    pub test: Option<DiskId>,
}

shapes! {
    Replication: "Replications" "Replications." "Sorted by name";
}

/// A clone that a host sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct TestConnection {
    /// The clone.
    pub volume: String,
    /// Host; `null` for a host group.
    pub host: Option<String>,
    /// Host group; `null` for a host.
    pub host_group: Option<String>,
    /// LUN; over NVMe/TCP the namespace LUN + 1.
    pub lun: u16,
}

/// A new replication of a `volume` or a `group`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewReplication)]
pub struct CreateReplication {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    pub name: String,
    /// Volume. Not allowed with `group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// Volume group. Not allowed with `volume`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Remote array.
    pub remote_array: String,
    /// Recovery point objective in seconds.
    #[schema(minimum = 5, maximum = 604_800)]
    pub rpo_seconds: u64,
    /// When a write is acknowledged; default `async`. Of a synchronous replication points are transferred only until
    /// both arrays are the same.
    #[serde(default)]
    pub mode: ReplicationMode,
    /// Policy for writes while the other array is out of reach; default `continue`. Only with the mode `sync`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_link_loss: Option<OnLinkLoss>,
    /// Witness: a third array that decides which of the two continues alone after a loss. Both must be paired with
    /// it. Default: none. Only with the mode `sync` and `on_link_loss` `stop`, which is the default then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witness: Option<String>,
    /// Weekly windows in which no point is taken or transferred unless an operator asks for it; default: none. Only with the mode
    /// `async`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blackouts: Vec<WeeklyWindow>,
}

/// Changes to a replication. Omitted fields keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplicationChange {
    /// New name on this array.
    pub name: Option<String>,
    /// Recovery point objective in seconds. On the source only.
    pub rpo_seconds: Option<u64>,
    /// When a write is acknowledged. On the source only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ReplicationMode>,
    /// Policy for writes of a synchronous replication while the other array is out of reach. On the source only.
    /// With `continue` a source whose writes are stopped continues alone at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_link_loss: Option<OnLinkLoss>,
    /// Witness: a third array that decides which of the two continues alone after a loss; `null`: an operator decides. Setting it
    /// sets `on_link_loss` to `stop`. On the source only.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub witness: Option<Option<String>>,
    /// Complete list of the weekly windows in which no point is taken or transferred unless an operator asks for it. On the
    /// source only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blackouts: Option<Vec<WeeklyWindow>>,
    /// Whether snapshots of all of its volumes that users and schedules take are replicated as well. On the source only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicate_snapshots: Option<bool>,
    /// Points of such snapshots to retain. On the target only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub keep_snapshots: Option<u32>,
    /// Complete points to retain. On the target only.
    #[schema(minimum = 1, maximum = 1000)]
    pub keep_points: Option<u32>,
    /// Complete list of the rules that keep older points. On the target only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_rules: Option<Vec<Rule>>,
    /// Retention lock of points that arrive from now on: seconds during which they can't be deleted. On the target only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock_seconds: Option<u64>,
}

/// How to promote a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplicationPromotion {
    /// Promote although the source may still take writes, which the target does not have; default false.
    #[serde(default)]
    pub force: bool,
    /// Number of the point; default: the newest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub point: Option<u64>,
}

/// How to demote a replication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplicationDemotion {
    /// Demote although the other array lacks data, which this array loses; default false.
    #[serde(default)]
    pub force: bool,
}

verbs! {
    #![tag = "replications"]

    /// List replications
    ListReplications {} -> Vec<Replication>, Read "list" "replication", Viewer, at GET "/replications"
        => |tx, _| {
            let config = tx.array.config();
            Ok(config.replications.iter().map(|found| tx.array.replication(&config, found)).collect())
        };
    /// Get a replication
    ShowReplication { name } -> Replication, Read "show" "replication", Viewer, about name, at GET "/replications/{name}"
        => |tx, it| {
            let config = tx.array.config();
            config.replications.named(&it.name).map(|found| tx.array.replication(&config, found))
        };
    /// Create a replication
    ///
    /// The remote array has it as well after the first transfer has begun.
    CreateReplication -> Replication, Change "create" "replication", Operator, about name, at POST "/replications" 201
        => |tx, it| tx.create_replication(it).await;
    /// Change a replication
    ChangeReplication { name; body change: ReplicationChange } -> Replication, Exchange "change" "replication", Operator,
        about name, at PATCH "/replications/{name}"
        => |tx, it| tx.change_replication(&it.name, it.change).await;
    /// Delete a replication
    ///
    /// Its points on this array are deleted; volumes are kept. Delete it on the other array as well.
    DeleteReplication { name } -> (), Exchange "delete" "replication", Admin, about name, at DELETE "/replications/{name}"
        => |tx, it| tx.delete_replication(&it.name).await;
    /// Transfer a point now
    ///
    /// On the source. A point is taken and transferred in the background. A synchronous replication begins again with a
    /// new point, so that the target can be tested with what is there now.
    SyncReplication { name } -> Replication, Change "sync" "replication", Operator, about name,
        at POST "/replications/{name}/sync"
        => |tx, it| tx.sync_replication(&it.name);
    /// Pause a replication
    ///
    /// On either array. An interrupted transfer is resumed where it was. The source of a synchronous replication that is paused there
    /// acknowledges writes alone until it is resumed, also with `stop`; if it is paused on the target, `on_link_loss` decides.
    PauseReplication { name } -> Replication, Exchange "pause" "replication", Operator, about name,
        at POST "/replications/{name}/pause"
        => |tx, it| tx.pause_replication(&it.name, true).await;
    /// Resume a replication
    ResumeReplication { name } -> Replication, Change "resume" "replication", Operator, about name,
        at POST "/replications/{name}/resume"
        => |tx, it| tx.pause_replication(&it.name, false).await;
    /// Promote the target of a replication
    ///
    /// Volumes with the content of the last complete point, or of another one, are created, for hosts to use; those of an
    /// earlier promotion, or of the time before a reversal, get that content and take changes again. The source gets
    /// through no more.
    PromoteReplication { name; body change: ReplicationPromotion } -> Replication, Exchange "promote" "replication", Admin,
        about name, at POST "/replications/{name}/promote"
        => |tx, it| tx.promote_replication(&it.name, it.change.force, it.change.point).await;
    /// Demote the volumes of a replication
    ///
    /// On the source, its volumes become read-only, and a last point is transferred: then the target can be promoted without loss.
    /// With `force`, on the array that loses its changes after both arrays were written to.
    DemoteReplication { name; body change: ReplicationDemotion } -> Replication, Exchange "demote" "replication", Admin,
        about name, at POST "/replications/{name}/demote"
        => |tx, it| tx.demote_replication(&it.name, it.change.force).await;
}

impl Transaction<'_> {
    pub async fn create_replication(&mut self, new: CreateReplication) -> Result<Replication> {
        let CreateReplication {
            name,
            volume,
            group,
            remote_array,
            rpo_seconds,
            mode,
            on_link_loss,
            witness,
            blackouts,
        } = new;
        check::name(ReplicationEntry::NOUN, &name)?;
        check_rpo(rpo_seconds)?;
        let subject = SubjectName::of(volume, group)?;
        let blackouts = recorded(&blackouts)?;
        let (id, created) = (ReplicationId(self.id64()), self.now());
        let entry = {
            let config = self.array.config();
            config.replications.free(&name)?;
            if config.replications.len() >= MAX_REPLICATIONS {
                return Err(Error::precondition(format!(
                    "there are {MAX_REPLICATIONS} replications already"
                )));
            }
            let subject = match &subject {
                SubjectName::Volume(name) => Subject::Volume(config.volumes.named(name)?.id),
                SubjectName::Group(name) => Subject::Group(config.groups.named(name)?.id),
            };
            if config.scheduled(subject).is_empty() {
                return Err(Error::precondition("the volume group is empty: put volumes into it first"));
            }
            let remote = config.remote_arrays.named(&remote_array)?;
            let twice = |it: &&ReplicationEntry| it.subject == Some(subject) && it.remote == remote.id;
            if let Some(other) = config.replications.iter().find(twice) {
                return Err(Error::conflict(format!(
                    "replication {:?} replicates it there already",
                    other.name
                )));
            }
            if remote.address.is_none() {
                return Err(Error::precondition(format!(
                    "the address of remote array {:?} is not known: set it, and let that array listen for others",
                    remote.name
                )));
            }
            let role = ReplicationRole::Source;
            let entry = ReplicationEntry::new(id, name, created, remote.id, role, rpo_seconds);
            let default = if witness.is_some() { OnLinkLoss::Stop } else { OnLinkLoss::default() };
            let on_link_loss = on_link_loss.unwrap_or(default);
            ReplicationEntry { subject: Some(subject), mode, on_link_loss, blackouts, ..entry }
        };
        let witness = witness.map(|name| self.witness_named(&entry, &name)).transpose()?;
        let entry = ReplicationEntry { witness: witness.map(|witness| witness.id), ..entry };
        check_mode(&entry)?;
        self.commit(vec![put(&entry)]).await?;
        self.done("replication.created", ReplicationEntry::NOUN, &entry.name, "was created");
        self.array.replicas.wake();
        self.replication_now(id)
    }

    pub async fn change_replication(&mut self, name: &str, change: ReplicationChange) -> Result<Replication> {
        let entry = self.replication_named(name)?;
        let mut new = entry.clone();
        if let Some(name) = change.name.filter(|name| *name != entry.name) {
            check::name(ReplicationEntry::NOUN, &name)?;
            self.array.config().replications.free(&name)?;
            new.name = name;
        }
        if let Some(rpo) = change.rpo_seconds {
            require(&entry, ReplicationRole::Source, "the RPO is set")?;
            check_rpo(rpo)?;
            new.rpo_seconds = rpo;
        }
        if change.mode.is_some() || change.on_link_loss.is_some() {
            require(&entry, ReplicationRole::Source, "the mode is set")?;
            set_mode(&mut new, change.mode, change.on_link_loss);
        }
        if let Some(witness) = change.witness {
            require(&entry, ReplicationRole::Source, "the witness is set")?;
            let witness = witness.map(|name| self.witness_named(&entry, &name)).transpose()?;
            new.witness = witness.map(|witness| witness.id);
            if new.witness != entry.witness && new.mode == ReplicationMode::Sync {
                // There is no witness until the next session: nothing is acknowledged alone before.
                if change.on_link_loss == Some(OnLinkLoss::Continue) {
                    let message = "set the witness first, then the policy for the loss of the link";
                    return Err(Error::invalid(message).about("on_link_loss"));
                }
                new.on_link_loss = OnLinkLoss::Stop;
            }
        }
        if let Some(blackouts) = change.blackouts {
            require(&entry, ReplicationRole::Source, "blackouts are set")?;
            new.blackouts = recorded(&blackouts)?;
        }
        if let Some(replicate) = change.replicate_snapshots {
            require(&entry, ReplicationRole::Source, "whether snapshots are replicated is set")?;
            new.replicate_snapshots = replicate;
        }
        let keeps =
            change.keep_points.is_some() || change.keep_snapshots.is_some() || change.keep_rules.is_some();
        if keeps || change.lock_seconds.is_some() {
            require(&entry, ReplicationRole::Target, "the retention of points is set")?;
            new.keep_points = change.keep_points.unwrap_or(new.keep_points);
            new.keep_snapshots = change.keep_snapshots.unwrap_or(new.keep_snapshots);
            new.keep_rules = change.keep_rules.unwrap_or(new.keep_rules);
            new.lock_seconds = change.lock_seconds.unwrap_or(new.lock_seconds);
            point_retention::check(new.keep_points, new.keep_snapshots, &new.keep_rules)?;
            if new.lock_seconds != entry.lock_seconds {
                check::retention_lock(&self.array.config(), new.lock_seconds, "lock_seconds")?;
            }
        }
        check_mode(&new)?;
        if new != entry {
            let is_same_mode = (new.mode, new.on_link_loss) == (entry.mode, entry.on_link_loss);
            match new.witness == entry.witness {
                false if entry.mirrors() && new.mirrors() => self.change_witness(&new).await?,
                true if is_same_mode => self.commit(vec![put(&new)]).await?,
                _ => self.change_mirror(&entry, new).await?,
            }
            self.done("replication.changed", ReplicationEntry::NOUN, &entry.name, "was changed");
            self.array.replicas.wake();
        }
        self.replication_now(entry.id)
    }

    pub async fn delete_replication(&mut self, name: &str) -> Result<()> {
        let entry = self.replication_named(name)?;
        if !entry.test.is_empty() {
            return Err(Error::precondition("a failover is being tested: stop the test first"));
        }
        self.refuse_locked_points(&entry)?;
        let _held = self.array.replicas.hold(entry.id).await;
        // A point may have come between.
        self.refuse_locked_points(&entry)?;
        let entry = if entry.mirrors() { self.ask_for_consent(&entry).await? } else { entry };
        let unneeded = vec![replication::unneeded_record(entry.number())];
        self.commit_with(vec![Edit::Remove(Record::Replication(entry.clone()))], unneeded).await?;
        self.array.replicas.forget(entry.id);
        self.done("replication.deleted", ReplicationEntry::NOUN, &entry.name, "was deleted");
        // The points go in the background.
        self.array.replicas.wake();
        Ok(())
    }

    pub fn sync_replication(&mut self, name: &str) -> Result<Replication> {
        let entry = self.replication_named(name)?;
        require(&entry, ReplicationRole::Source, "a point is taken")?;
        if entry.paused || entry.split || entry.demoted.is_some() {
            return Err(Error::precondition(format!(
                "replication {name:?} is paused, demoted or split: nothing is transferred now"
            )));
        }
        self.array.replicas.want(entry.id);
        if entry.mirrors() {
            // The point with which the next session begins is the new one.
            self.array.replicas.stop(entry.id);
        }
        self.replication_now(entry.id)
    }

    pub async fn pause_replication(&mut self, name: &str, paused: bool) -> Result<Replication> {
        let entry = self.replication_named(name)?;
        if entry.paused != paused || entry.split && !paused {
            // Ends the transfer under way.
            let _held = self.array.replicas.hold(entry.id).await;
            let new = |it: ReplicationEntry| ReplicationEntry { paused, split: it.split && paused, ..it };
            match paused && entry.mirrors() {
                true => {
                    let agreed = self.ask_for_consent(&entry).await?;
                    self.go_alone(&new(agreed), "an operator has paused it").await?;
                }
                false => self.commit(vec![put(&new(entry.clone()))]).await?,
            }
            let (kind, what) = match paused {
                true => ("replication.paused", "was paused"),
                false => ("replication.resumed", "was resumed"),
            };
            self.done(kind, ReplicationEntry::NOUN, &entry.name, what);
        }
        if !paused && entry.role == ReplicationRole::Source {
            let blackout = self.array.replicas.blackout_until(&self.array.config(), &entry);
            match blackout {
                Some(_) => self.array.replicas.wake(),
                None => self.array.replicas.want(entry.id),
            }
        }
        self.replication_now(entry.id)
    }

    pub async fn promote_replication(
        &mut self,
        name: &str,
        force: bool,
        point: Option<u64>,
    ) -> Result<Replication> {
        let entry = self.replication_named(name)?;
        if entry.role == ReplicationRole::Source && entry.demoted.is_some() {
            return self.promote_source(&entry, force).await;
        }
        require(&entry, ReplicationRole::Target, "a point is promoted")?;
        if entry.promotion.is_some() {
            self.complete_promotion(entry.id).await?;
            return self.replication_now(entry.id);
        }
        let _held = self.array.replicas.hold(entry.id).await;
        self.array.seal_target(&entry).await?;
        let point = self.point_of(&entry, point)?;
        let is_last = entry.demoted.is_some_and(|last| point.number >= last);
        if !is_last && !force {
            return Err(Error::precondition(format!(
                "the source of {name:?} may still take writes, which the target would not have: demote the replication \
                 there, or promote with force"
            )));
        }
        let (entry, point) = match is_last || !entry.has_witness() {
            true => (entry, point),
            false => {
                let array = self.array;
                self.outside(array.report_promotion(&entry)).await?;
                let entry = self.unchanged(&entry)?;
                let point = self.point_of(&entry, Some(point.number))?;
                (entry, point)
            }
        };
        // Each is done once it takes changes.
        let replicas = self.ready_volumes(&entry.replicas);
        self.lock_volumes(replicas, true).await?;
        let (promotion, group) = self.plan_promotion(&entry, &point);
        let new = ReplicationEntry { promotion: Some(promotion), ..entry.clone() };
        let edits = std::iter::once(put(&new)).chain(group.map(|group| Edit::Put(Record::Group(group))));
        self.commit(edits.collect()).await?;
        self.complete_promotion(entry.id).await?;
        let message = format!(
            "replication {:?} was promoted by {}: its volumes are those of point {} of {}",
            entry.name,
            self.caller.user,
            point.number,
            history::utc(point.taken)
        );
        let about = Some((ReplicationEntry::NOUN, &*entry.name));
        self.array.log_event(Severity::Warning, "replication.promoted", about, message);
        self.replication_now(entry.id)
    }

    /// Takes a source that was demoted into use again.
    async fn promote_source(&mut self, entry: &ReplicationEntry, force: bool) -> Result<Replication> {
        if !force {
            return Err(Error::precondition(format!(
                "the target of {:?} may have been promoted since the source was demoted: promote the source with force if \
                 it was not",
                entry.name
            )));
        }
        let _held = self.array.replicas.hold(entry.id).await;
        let entry = &self.ask_for_consent(entry).await?;
        self.commit(vec![put(&ReplicationEntry { demoted: None, ..entry.clone() })]).await?;
        let volumes = self.replicated(entry);
        self.lock_volumes(volumes, false).await?;
        self.done("replication.promoted", ReplicationEntry::NOUN, &entry.name, "is the source again");
        self.array.replicas.want(entry.id);
        self.replication_now(entry.id)
    }

    pub async fn demote_replication(&mut self, name: &str, force: bool) -> Result<Replication> {
        let entry = self.replication_named(name)?;
        let (entry, session) = if force { (entry, None) } else { self.settle_mirror(entry).await? };
        let _held = self.array.replicas.hold(entry.id).await;
        let new = match entry.role {
            ReplicationRole::Source => self.demote_source(&entry, force, session).await?,
            ReplicationRole::Target => self.demote_target(&entry, force).await?,
        };
        if new != entry {
            let disarmed = entry.mirrors().then(|| replication::disarm(entry.number()));
            self.commit_with(vec![put(&new)], disarmed.into_iter().collect()).await?;
            if entry.mirrors() {
                self.array.replicas.mirrors.remove(entry.id, force);
            }
            let message = format!("replication {:?} was demoted by {}", entry.name, self.caller.user);
            let about = Some((ReplicationEntry::NOUN, &*entry.name));
            self.array.log_event(Severity::Warning, "replication.demoted", about, message);
        }
        // Also for the other array to hear of it.
        if entry.role == ReplicationRole::Source {
            self.array.replicas.want(entry.id);
        }
        self.replication_now(entry.id)
    }

    /// `session`: the point with which a session began that has brought every change to the target.
    async fn demote_source(
        &mut self,
        entry: &ReplicationEntry,
        force: bool,
        session: Option<u64>,
    ) -> Result<ReplicationEntry> {
        if entry.split && !force {
            return Err(Error::precondition(format!(
                "replication {:?} is split: demote it with force on the array that loses its changes",
                entry.name
            )));
        }
        let volumes = self.replicated(entry);
        let ids: Vec<_> = volumes.iter().map(|volume| volume.id).collect();
        // First, so that the point has every write that was acknowledged.
        self.lock_volumes(volumes, true).await?;
        let demoted = match (entry.demoted, force) {
            (Some(known), _) => known,
            (None, false) => self.last_point(entry, session, ids).await?,
            (None, true) => {
                let points = self.array.replicas.points(entry);
                points.iter().rev().find(|point| point.digest.is_some()).map_or(0, |point| point.number)
            }
        };
        let armed = replication::armed_session(&self.array.parts.engine, entry.number()).ok().flatten();
        let lost =
            armed.filter(|_| entry.mirrors()).map(|session| LostSession { session, since: self.now() });
        let lost_session = lost.or(entry.lost_session);
        Ok(ReplicationEntry { demoted: Some(demoted), split: false, lost_session, ..entry.clone() })
    }

    /// The target gets points again; its volumes stay, and take no writes.
    async fn demote_target(&mut self, entry: &ReplicationEntry, force: bool) -> Result<ReplicationEntry> {
        let Some(promotion) = &entry.promotion else {
            return Err(Error::precondition(format!("the target of {:?} was not promoted", entry.name)));
        };
        if !force {
            return Err(Error::precondition(format!(
                "what was written to the promoted volumes of {:?} would not be on the source: demote it with force if \
                 it is not needed",
                entry.name
            )));
        }
        let volumes = self.ready_volumes(&promotion.volumes);
        self.lock_volumes(volumes, true).await?;
        let (replicas, replica_group) = (promotion.volumes.clone(), promotion.group);
        Ok(ReplicationEntry { promotion: None, replicas, replica_group, split: false, ..entry.clone() })
    }

    /// Those of these volumes that are there.
    pub(crate) fn ready_volumes(&self, volumes: &[ReplicaVolume]) -> Vec<VolumeEntry> {
        let config = self.array.config();
        let ready = |it: &ReplicaVolume| config.volumes.get(it.volume).filter(|it| it.stage == Stage::Ready);
        volumes.iter().filter_map(ready).cloned().collect()
    }

    pub(crate) fn replicated(&self, entry: &ReplicationEntry) -> Vec<VolumeEntry> {
        entry.subject.map(|subject| self.array.config().scheduled(subject)).unwrap_or_default()
    }

    pub(crate) async fn lock_volumes(&mut self, volumes: Vec<VolumeEntry>, read_only: bool) -> Result<()> {
        for volume in volumes {
            self.lock_volume(&volume, read_only).await?;
        }
        Ok(())
    }

    pub(crate) fn replication_named(&self, name: &str) -> Result<ReplicationEntry> {
        self.array.config().replications.named(name).cloned()
    }

    pub(crate) fn replication_now(&self, id: ReplicationId) -> Result<Replication> {
        let config = self.array.config();
        let entry = config.replications.get(id).ok_or_else(|| Error::not_found("the replication is gone"))?;
        Ok(self.array.replication(&config, entry))
    }
}

pub(crate) fn put(entry: &ReplicationEntry) -> Edit {
    Edit::Put(Record::Replication(entry.clone()))
}

/// Windows as they are recorded, if they are fit for blackouts.
fn recorded(windows: &[WeeklyWindow]) -> Result<Vec<Window>> {
    let recorded = windows.iter().map(WeeklyWindow::window).collect::<Result<Vec<_>>>()?;
    windows::check_blackouts(&recorded)?;
    Ok(recorded)
}

fn replicated_volumes(config: &Config, entry: &ReplicationEntry) -> Vec<ReplicatedVolume> {
    let volume = |id, name: &str| {
        let made = |volumes: &[ReplicaVolume]| {
            let made = volumes.iter().find(|it| it.source == id).map(|it| it.volume);
            made.filter(|volume| config.volumes.get(*volume).is_some())
        };
        let promoted = entry.promotion.as_ref().and_then(|it| made(&it.volumes));
        ReplicatedVolume { id, name: name.to_owned(), promoted, test: made(&entry.test) }
    };
    match entry.subject {
        Some(subject) => config.scheduled(subject).iter().map(|it| volume(it.id, &it.name)).collect(),
        None => entry.volumes.iter().map(|it| volume(it.id, &it.name)).collect(),
    }
}

fn check_rpo(seconds: u64) -> Result<()> {
    if RPO_SECONDS.contains(&seconds) {
        return Ok(());
    }
    Err(Error::invalid("an RPO is 5 seconds to 7 days").about("rpo_seconds"))
}

pub(crate) fn require(entry: &ReplicationEntry, role: ReplicationRole, what: &str) -> Result<()> {
    if entry.role == role {
        return Ok(());
    }
    let place = match role {
        ReplicationRole::Source => "source",
        ReplicationRole::Target => "target",
    };
    let message = format!("{what} on the {place} of {:?}, which the other array is", entry.name);
    Err(Error::precondition(message))
}

impl Array {
    pub(crate) fn replication(&self, config: &Config, entry: &ReplicationEntry) -> Replication {
        let (volume, group) = match (entry.subject, &entry.group) {
            (Some(subject), _) => config.subject_names(subject),
            (None, Some(group)) => (None, Some(group.clone())),
            (None, None) => (entry.volumes.first().map(|volume| volume.name.clone()), None),
        };
        let remote = config.remote_arrays.get(entry.remote);
        let is_target = entry.role == ReplicationRole::Target;
        let names = |volumes: &[ReplicaVolume]| {
            volumes.iter().filter_map(|it| Some(config.volumes.get(it.volume)?.name.clone())).collect()
        };
        Replication {
            name: entry.name.clone(),
            id: entry.id,
            created: entry.created,
            remote_array: remote.map(|remote| remote.name.clone()).unwrap_or_default(),
            role: entry.role,
            mode: entry.mode,
            on_link_loss: entry.mirrors().then_some(entry.on_link_loss),
            witness: self.witness_of(entry).map(|it| it.name).or_else(|| entry.witness_fingerprint.clone()),
            volume,
            group,
            rpo_seconds: entry.rpo_seconds,
            blackouts: entry.blackouts.iter().cloned().map(WeeklyWindow::from).collect(),
            replicate_snapshots: (!is_target).then_some(entry.replicate_snapshots),
            keep_snapshots: is_target.then_some(entry.keep_snapshots),
            keep_points: is_target.then_some(entry.keep_points),
            keep_rules: if is_target { entry.keep_rules.clone() } else { Vec::new() },
            lock_seconds: is_target.then_some(entry.lock_seconds),
            status: self.replicas.status(config, entry),
            volumes: replicated_volumes(config, entry),
            promoted_volumes: entry.promotion.as_ref().map(|it| names(&it.volumes)).unwrap_or_default(),
            test_volumes: names(&entry.test),
            test_connections: entry
                .test
                .iter()
                .flat_map(|it| self.connections_of(config, it.volume))
                .map(|Connection { volume, host, host_group, lun, .. }| TestConnection {
                    volume,
                    host,
                    host_group,
                    lun,
                })
                .collect(),
        }
    }

    /// The sending end to a remote array.
    pub(crate) fn replication_source(
        &self,
        remote: &RemoteArrayEntry,
    ) -> Result<Arc<Source<ReplicationEnv>>> {
        let key = self.parts.sealing.open(&remote.secret, &remote.place())?;
        Ok(self.replicas.source(&self.config(), remote, key.expose(), self.replication_number()?))
    }

    /// The receiving end of a remote array.
    pub(crate) fn replication_target(
        &self,
        remote: &RemoteArrayEntry,
    ) -> Result<Arc<Target<ReplicationEnv>>> {
        let key = self.parts.sealing.open(&remote.secret, &remote.place())?;
        Ok(self.replicas.target(remote.id, key.expose(), self.replication_number()?))
    }

    /// The number of this array in the protocol.
    fn replication_number(&self) -> Result<u128> {
        u128::from_str_radix(&self.identity.serial, 16)
            .map_err(|_| Error::failed("nothing can be replicated", "the serial number is not of hex digits"))
    }
}
