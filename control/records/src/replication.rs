//! Records of replications: groups of volumes, or single ones, of which another array gets points.

use crate::connection::Peer;
use crate::disk::GroupId;
use crate::id::identities;
use crate::remote::RemoteArrayId;
use crate::schedule::{Rule, Subject};
use crate::table::Named;
use crate::window::Window;
use block::DiskId;
use serde::{Deserialize, Serialize};

identities! {
    /// Stable identity of a replication: the same on both arrays.
    ReplicationId;
}

/// Role of an array in a replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicationRole {
    /// It has the volumes.
    Source,
    /// It gets their points.
    Target,
}

/// When a write of a replicated volume is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicationMode {
    /// When the source has it: points are transferred later.
    #[default]
    Async,
    /// When both arrays have it.
    Sync,
}

/// Policy for writes of a synchronous replication while the other array is out of reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLinkLoss {
    /// The source acknowledges them alone.
    #[default]
    Continue,
    /// They wait, and are refused after a time.
    Stop,
}

/// A volume of the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceVolume {
    /// Its identity on the source.
    #[serde(with = "crate::id::disk")]
    pub id: DiskId,
    /// Its name on the source.
    pub name: String,
}

/// A volume of the target that was made from a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaVolume {
    /// The volume on the source.
    #[serde(with = "crate::id::disk")]
    pub source: DiskId,
    /// The volume here.
    #[serde(with = "crate::id::disk")]
    pub volume: DiskId,
}

/// The volumes that a target was promoted with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promotion {
    /// The point that they were made from.
    pub point: u64,
    /// The volume group that they were put into.
    pub group: Option<GroupId>,
    /// The volumes.
    pub volumes: Vec<ReplicaVolume>,
    /// Every one of them was made.
    pub complete: bool,
}

/// The end of a session of a synchronous replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostSession {
    /// The point with which it began.
    pub session: u64,
    /// When it ended, in seconds since 1970.
    pub since: u64,
}

/// A replication as configured. Each array has one of the same identity; points and their snapshots are the engine's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicationEntry {
    /// Its identity.
    pub id: ReplicationId,
    /// Its name here.
    pub name: String,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// The other array.
    pub remote: RemoteArrayId,
    /// Role of this array.
    pub role: ReplicationRole,
    /// How often source and target have changed places.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u32,
    /// On the source: what is replicated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// On the target: name of the volume group on the source; none for a single volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// On the target: the volumes of the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<SourceVolume>,
    /// Maximum age of the newest complete point, in seconds.
    pub rpo_seconds: u64,
    /// When writes are acknowledged; the source decides.
    #[serde(default, skip_serializing_if = "is_async")]
    pub mode: ReplicationMode,
    /// Of a synchronous replication: what becomes of writes without the other array; the source decides.
    #[serde(default, skip_serializing_if = "is_continue")]
    pub on_link_loss: OnLinkLoss,
    /// On the source of a synchronous replication: the witness, a remote array that decides which array continues alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<RemoteArrayId>,
    /// On the target: the certificate of that array, as the source has said; SHA-256 in hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness_fingerprint: Option<String>,
    /// On the source of a synchronous replication: since when it acknowledged writes alone after both arrays had been
    /// the same, in seconds since 1970. It counts while the engine does not know that both are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_since: Option<u64>,
    /// On the source of a synchronous replication that waits for the other array: the session that was lost. It
    /// counts only while its point is the newest one that both arrays have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_session: Option<LostSession>,
    /// On the source: windows in which no point is taken or transferred unless an operator asks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blackouts: Vec<Window>,
    /// On the source: snapshots of all of its volumes that users and schedules take are replicated as well.
    #[serde(default, skip_serializing_if = "is_no")]
    pub replicate_snapshots: bool,
    /// On the target: points of such snapshots that are kept, besides the others.
    #[serde(default = "default_keep_snapshots", skip_serializing_if = "is_default_keep_snapshots")]
    pub keep_snapshots: u32,
    /// On the target: complete points that are kept.
    pub keep_points: u32,
    /// On the target: of older points, those that these rules keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep_rules: Vec<Rule>,
    /// On the target: retention lock of points that arrive from now on, in seconds.
    #[serde(default, skip_serializing_if = "is_none")]
    pub lock_seconds: u64,
    /// Nothing is transferred.
    #[serde(default, skip_serializing_if = "is_no")]
    pub paused: bool,
    /// On the source: the other array has it, too.
    #[serde(default, skip_serializing_if = "is_no")]
    pub accepted: bool,
    /// The volumes of the source take no writes since the point of this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demoted: Option<u64>,
    /// The volumes of both arrays take writes.
    #[serde(default, skip_serializing_if = "is_no")]
    pub split: bool,
    /// On the target: its volumes, once it was promoted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promotion: Option<Promotion>,
    /// On the target: volumes that are read-only until the next promotion gives them the content of its point, so that
    /// hosts see the same volumes again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<ReplicaVolume>,
    /// On the target: the volume group of these volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_group: Option<GroupId>,
    /// On the target: clones of a point, to test a failover.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub test: Vec<ReplicaVolume>,
    /// On the target: who sees these clones since the test began.
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

/// Points of users' snapshots that a new target keeps.
const DEFAULT_KEEP_SNAPSHOTS: u32 = 10;

fn default_keep_snapshots() -> u32 {
    DEFAULT_KEEP_SNAPSHOTS
}

fn is_default_keep_snapshots(value: &u32) -> bool {
    *value == DEFAULT_KEEP_SNAPSHOTS
}

/// Complete points that a new target keeps.
const DEFAULT_KEEP_POINTS: u32 = 2;

impl ReplicationEntry {
    /// One that has not begun.
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

    /// The number by which the engines of both arrays know it.
    pub fn number(&self) -> u128 {
        u128::from(self.id.0) << 64 | u128::from(self.generation)
    }

    /// Whether this array is to keep the other one the same, write by write.
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
