//! Records of replications: volume groups, or single volumes, that are replicated to another array.

use crate::connection::Peer;
use crate::id::{GroupId, RemoteArrayId, ReplicationId};
use crate::schedule::{Rule, Subject};
use crate::stored::stored_list;
use crate::table::Named;
use crate::window::Window;
use block::DiskId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which end of a replication this array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplicationRole {
    /// It has the volumes.
    Source,
    /// It gets their points.
    Target,
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplicationMode {
    /// When the source has it: points are transferred later.
    #[default]
    Async,
    /// When both arrays have it.
    Sync,
}

/// Policy for writes of a synchronous replication while the other array is out of reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnLinkLoss {
    /// The source acknowledges them alone; they are lost if it is lost before both arrays are the same again.
    #[default]
    Continue,
    /// They wait, and are refused after 20 seconds until both arrays are the same again.
    Stop,
}

/// A volume of the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceVolume {
    /// Identity on the source.
    #[serde(with = "crate::id::disk")]
    pub id: DiskId,
    /// Name on the source.
    pub name: String,
}

/// A volume of the target that was created from a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaVolume {
    /// The volume on the source.
    #[serde(with = "crate::id::disk")]
    pub source: DiskId,
    /// The volume here.
    #[serde(with = "crate::id::disk")]
    pub volume: DiskId,
}

/// Volumes created by promoting a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promotion {
    /// The source point of the volumes.
    pub point: u64,
    /// The volume group of the volumes.
    pub group: Option<GroupId>,
    /// The volumes.
    pub volumes: Vec<ReplicaVolume>,
    /// Whether all of them were created.
    pub complete: bool,
}

/// A lost session of a synchronous replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostSession {
    /// The point with which the session began.
    pub session: u64,
    /// End of the session, in seconds since 1970.
    pub since: u64,
}

/// Configuration of a replication. Both arrays have one with the same identity; the engine has points and their
/// snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicationEntry {
    /// Identity.
    pub id: ReplicationId,
    /// Name on this array.
    pub name: String,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// The remote array.
    pub remote: RemoteArrayId,
    /// Role of this array.
    pub role: ReplicationRole,
    /// Number of role changes of source and target.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u32,
    /// On the source: the replicated volume or group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// On the target: name of the volume group on the source; `None` for a single volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// On the target: the volumes of the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<SourceVolume>,
    /// Maximum age of the newest complete point, in seconds.
    pub rpo_seconds: u64,
    /// Acknowledgement mode of writes, set by the source.
    #[serde(default, skip_serializing_if = "is_async")]
    pub mode: ReplicationMode,
    /// For a synchronous replication: policy for writes without the other array, set by the source.
    #[serde(default, skip_serializing_if = "is_continue")]
    pub on_link_loss: OnLinkLoss,
    /// On the source of a synchronous replication: the witness, a remote array that decides which array continues
    /// alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<RemoteArrayId>,
    /// On the target: certificate of the witness, as reported by the source; SHA-256 in hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness_fingerprint: Option<String>,
    /// On the source of a synchronous replication: time since which it has acknowledged writes alone after both arrays
    /// were in sync, in seconds since 1970. Valid while the engine does not know that both are in sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_since: Option<u64>,
    /// On the source of a synchronous replication that waits for the other array: the lost session. Valid only while
    /// its point is the newest common one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_session: Option<LostSession>,
    /// On the source: windows in which no point is taken or transferred unless an operator requests it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blackouts: Vec<Window>,
    /// On the source: whether snapshots of all its volumes, taken by users and schedules, are replicated as well.
    #[serde(default, skip_serializing_if = "is_no")]
    pub replicate_snapshots: bool,
    /// On the target: number of points of such snapshots to keep, in addition to the others.
    #[serde(default = "default_keep_snapshots", skip_serializing_if = "is_default_keep_snapshots")]
    pub keep_snapshots: u32,
    /// On the target: number of complete points to keep.
    pub keep_points: u32,
    /// On the target: rules for keeping older points.
    #[serde(default, deserialize_with = "stored_list", skip_serializing_if = "Vec::is_empty")]
    pub keep_rules: Vec<Rule>,
    /// On the target: retention lock of new points, in seconds.
    #[serde(default, skip_serializing_if = "is_none")]
    pub lock_seconds: u64,
    /// Whether transfers are paused.
    #[serde(default, skip_serializing_if = "is_no")]
    pub paused: bool,
    /// On the source: whether the other array has the replication, too.
    #[serde(default, skip_serializing_if = "is_no")]
    pub accepted: bool,
    /// The point since which the volumes of the source take no writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demoted: Option<u64>,
    /// Whether the volumes of both arrays take writes.
    #[serde(default, skip_serializing_if = "is_no")]
    pub split: bool,
    /// On the target: its volumes after a promotion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promotion: Option<Promotion>,
    /// On the target: volumes that are read-only until the next promotion gives them the content of its point, so hosts
    /// see the same volumes again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<ReplicaVolume>,
    /// On the target: the volume group of these volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_group: Option<GroupId>,
    /// On the target: clones of a point for a failover test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub test: Vec<ReplicaVolume>,
    /// On the target: peers that see these clones during the test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub test_peers: Vec<Peer>,
}

fn is_async(value: &ReplicationMode) -> bool {
    *value == ReplicationMode::Async
}

fn is_continue(value: &OnLinkLoss) -> bool {
    *value == OnLinkLoss::Continue
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

fn is_none(value: &u64) -> bool {
    *value == 0
}

fn is_no(value: &bool) -> bool {
    !*value
}

/// Default number of points of users' snapshots on a new target.
const DEFAULT_KEEP_SNAPSHOTS: u32 = 10;

fn default_keep_snapshots() -> u32 {
    DEFAULT_KEEP_SNAPSHOTS
}

fn is_default_keep_snapshots(value: &u32) -> bool {
    *value == DEFAULT_KEEP_SNAPSHOTS
}

/// Default number of complete points on a new target.
const DEFAULT_KEEP_POINTS: u32 = 2;

impl ReplicationEntry {
    /// A replication that has not begun.
    pub fn new(
        id: ReplicationId,
        name: String,
        created: u64,
        remote: RemoteArrayId,
        role: ReplicationRole,
        rpo_seconds: u64,
    ) -> Self {
        Self {
            id,
            name,
            created,
            remote,
            role,
            generation: 0,
            subject: None,
            group: None,
            volumes: Vec::new(),
            rpo_seconds,
            mode: ReplicationMode::default(),
            on_link_loss: OnLinkLoss::default(),
            witness: None,
            witness_fingerprint: None,
            alone_since: None,
            lost_session: None,
            blackouts: Vec::new(),
            replicate_snapshots: false,
            keep_snapshots: DEFAULT_KEEP_SNAPSHOTS,
            keep_points: DEFAULT_KEEP_POINTS,
            keep_rules: Vec::new(),
            lock_seconds: 0,
            paused: false,
            accepted: false,
            demoted: None,
            split: false,
            promotion: None,
            replicas: Vec::new(),
            replica_group: None,
            test: Vec::new(),
            test_peers: Vec::new(),
        }
    }

    /// Number of the replication in the engines of both arrays.
    pub fn number(&self) -> u128 {
        u128::from(self.id.0) << 64 | u128::from(self.generation)
    }

    /// Whether this array must mirror every write to the other one.
    pub fn mirrors(&self) -> bool {
        self.mode == ReplicationMode::Sync && self.role == ReplicationRole::Source
    }

    /// Whether a witness decides which array continues alone.
    pub fn has_witness(&self) -> bool {
        let known = self.witness.is_some() || self.witness_fingerprint.is_some();
        self.mode == ReplicationMode::Sync && known
    }

    /// Whether a volume of this array, in this group, is read-only until the replication is promoted here.
    pub fn holds(&self, volume: DiskId, group: Option<GroupId>) -> bool {
        let in_list = |volumes: &[ReplicaVolume]| volumes.iter().any(|it| it.volume == volume);
        match (self.role, &self.promotion) {
            (ReplicationRole::Source, _) => {
                let subjects = [Some(Subject::Volume(volume)), group.map(Subject::Group)];
                self.demoted.is_some() && self.subject.is_some() && subjects.contains(&self.subject)
            }
            (ReplicationRole::Target, None) => in_list(&self.replicas),
            (ReplicationRole::Target, Some(promotion)) => !promotion.complete && in_list(&promotion.volumes),
        }
    }
}

impl Named for ReplicationEntry {
    type Id = ReplicationId;
    const NOUN: &'static str = "replication";

    fn id(&self) -> ReplicationId {
        self.id
    }

    fn label(&self) -> &str {
        &self.name
    }
}
