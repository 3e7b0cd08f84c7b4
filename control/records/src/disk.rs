//! Records of volumes, snapshots and volume groups. The engine has sizes and contents.

use crate::id::{GroupId, ScheduleId};
use crate::label::Labels;
use crate::policy::{Limits, Policy};
use crate::stage::Stage;
use crate::table::{Key, Named};
use block::DiskId;
use serde::{Deserialize, Serialize};

/// Configuration of a volume; the engine has size and contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeEntry {
    /// Identity in the engine.
    #[serde(with = "crate::id::disk")]
    pub id: DiskId,
    /// Name.
    pub name: String,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// Life-cycle stage.
    pub stage: Stage,
    /// Volume group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupId>,
    /// Time of the move to the recycle bin, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binned: Option<u64>,
    /// Data reduction policy.
    #[serde(default, skip_serializing_if = "Policy::is_inherited")]
    pub policy: Policy,
    /// QoS limits.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// Whether the volume supports RESERVE and RELEASE of SCSI-2.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub scsi2_reservations: bool,
    /// Whether hosts may see the volume over iSCSI and over NVMe/TCP at once.
    #[serde(default, skip_serializing_if = "is_no")]
    pub mixed_transports: bool,
    /// Labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

fn yes() -> bool {
    true
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_no(value: &bool) -> bool {
    !*value
}

fn is_yes(value: &bool) -> bool {
    *value
}

impl VolumeEntry {
    /// A volume with default settings.
    pub fn new(id: DiskId, name: String, created: u64, stage: Stage, group: Option<GroupId>) -> Self {
        let (policy, limits) = (Policy::default(), Limits::default());
        let labels = Labels::default();
        Self {
            id,
            name,
            created,
            stage,
            group,
            binned: None,
            policy,
            limits,
            scsi2_reservations: true,
            mixed_transports: false,
            labels,
        }
    }
}

/// Configuration of a snapshot; the engine has its contents. The record is written in the same step in which the
/// snapshot is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotEntry {
    /// Identity in the engine.
    #[serde(with = "crate::id::disk")]
    pub id: DiskId,
    /// Name.
    pub name: String,
    /// The source volume, which may have been deleted.
    #[serde(with = "crate::id::disk")]
    pub source: DiskId,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// Life-cycle stage; never [`Stage::Creating`].
    pub stage: Stage,
    /// Number shared by the snapshots that were taken at the same time.
    #[serde(with = "crate::id::hex64")]
    pub set: u64,
    /// Time of the move to the recycle bin, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binned: Option<u64>,
    /// The schedule that took the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleId>,
    /// Rules of that schedule that caused the snapshot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Sequence number in the schedule: larger is newer, independent of the clock.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub order: u64,
    /// Labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// Configuration of a volume group; records of volumes refer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupEntry {
    /// Identity.
    pub id: GroupId,
    /// Name.
    pub name: String,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// Mapped bytes above which operators and hosts are warned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_quota: Option<u64>,
    /// Mapped bytes above which writes that map more blocks are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_quota: Option<u64>,
    /// Data reduction policy of the volumes.
    #[serde(default, skip_serializing_if = "Policy::is_inherited")]
    pub policy: Policy,
    /// QoS limits that the volumes share.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// Labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

impl Named for VolumeEntry {
    type Id = DiskId;
    const NOUN: &'static str = "volume";

    fn id(&self) -> DiskId {
        self.id
    }

    fn label(&self) -> &str {
        &self.name
    }

    fn keys(&self) -> Vec<Key> {
        self.group.map(Key::Group).into_iter().collect()
    }

    fn name(&self) -> Option<&str> {
        (self.stage == Stage::Ready).then_some(&self.name)
    }

    fn stage(&self) -> Option<Stage> {
        Some(self.stage)
    }
}

impl Named for SnapshotEntry {
    type Id = DiskId;
    const NOUN: &'static str = "snapshot";

    fn id(&self) -> DiskId {
        self.id
    }

    fn label(&self) -> &str {
        &self.name
    }

    fn keys(&self) -> Vec<Key> {
        vec![Key::Source(self.source)]
    }

    fn name(&self) -> Option<&str> {
        (self.stage == Stage::Ready).then_some(&self.name)
    }

    fn stage(&self) -> Option<Stage> {
        Some(self.stage)
    }
}

impl Named for GroupEntry {
    type Id = GroupId;
    const NOUN: &'static str = "volume group";

    fn id(&self) -> GroupId {
        self.id
    }

    fn label(&self) -> &str {
        &self.name
    }
}

/// A volume or a snapshot, each with a disk in the engine.
#[derive(Clone, Debug)]
pub enum DiskEntry {
    /// A volume.
    Volume(VolumeEntry),
    /// A snapshot.
    Snapshot(SnapshotEntry),
}

impl DiskEntry {
    /// Identity.
    pub fn id(&self) -> DiskId {
        match self {
            DiskEntry::Volume(it) => it.id,
            DiskEntry::Snapshot(it) => it.id,
        }
    }

    /// Name.
    pub fn name(&self) -> &str {
        match self {
            DiskEntry::Volume(it) => &it.name,
            DiskEntry::Snapshot(it) => &it.name,
        }
    }

    /// Noun for messages.
    pub fn noun(&self) -> &'static str {
        match self {
            DiskEntry::Volume(_) => "volume",
            DiskEntry::Snapshot(_) => "snapshot",
        }
    }

    /// Life-cycle stage.
    pub fn stage(&self) -> Stage {
        match self {
            DiskEntry::Volume(it) => it.stage,
            DiskEntry::Snapshot(it) => it.stage,
        }
    }

    /// Time of the move to the recycle bin, in seconds since 1970.
    pub fn binned(&self) -> Option<u64> {
        match self {
            DiskEntry::Volume(it) => it.binned,
            DiskEntry::Snapshot(it) => it.binned,
        }
    }

    /// The entry at another stage.
    #[must_use]
    pub fn at(mut self, stage: Stage, binned: Option<u64>) -> Self {
        match &mut self {
            DiskEntry::Volume(it) => (it.stage, it.binned) = (stage, binned),
            DiskEntry::Snapshot(it) => (it.stage, it.binned) = (stage, binned),
        }
        self
    }

    /// Changes the name.
    pub fn rename(&mut self, name: String) {
        match self {
            DiskEntry::Volume(it) => it.name = name,
            DiskEntry::Snapshot(it) => it.name = name,
        }
    }
}
