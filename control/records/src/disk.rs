//! Records of volumes, snapshots and volume groups. Sizes and contents are the engine's.

use crate::Config;
use crate::id::identities;
use crate::label::Labels;
use crate::policy::{Limits, Policy};
use crate::record::Record;
use crate::schedule::ScheduleId;
use crate::table::{Key, Named};
use block::DiskId;
use serde::{Deserialize, Serialize};

identities! {
    /// Stable identity of a volume group.
    GroupId;
}

/// Life-cycle stage of a volume or snapshot. Creating and deleting one takes several steps, so the record says what
/// a restart after a crash must finish or roll back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Being created; a restart rolls it back.
    Creating,
    /// In use.
    Ready,
    /// In the recycle bin.
    Binned,
    /// Being eradicated; a restart finishes it.
    Deleting,
}

/// A volume as configured; size and contents are the engine's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeEntry {
    /// Its identity in the engine.
    #[serde(with = "crate::id::disk")]
    pub id: DiskId,
    /// Its name.
    pub name: String,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// Its life-cycle stage.
    pub stage: Stage,
    /// Its volume group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupId>,
    /// When it went to the recycle bin, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binned: Option<u64>,
    /// Its data reduction policy.
    #[serde(default, skip_serializing_if = "Policy::is_inherited")]
    pub policy: Policy,
    /// Its QoS limits.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// True if it supports RESERVE and RELEASE of SCSI-2.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub scsi2_reservations: bool,
    /// True if hosts may see it over iSCSI and over NVMe/TCP at once.
    #[serde(default, skip_serializing_if = "is_no")]
    pub mixed_transports: bool,
    /// Its labels.
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

/// A snapshot as configured; its contents are the engine's. Its record is written in the same step as it is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotEntry {
    /// Its identity in the engine.
    #[serde(with = "crate::id::disk")]
    pub id: DiskId,
    /// Its name.
    pub name: String,
    /// The volume that it was taken of; it may have been deleted.
    #[serde(with = "crate::id::disk")]
    pub source: DiskId,
    /// When it was taken, in seconds since 1970.
    pub created: u64,
    /// Its life-cycle stage; never [`Stage::Creating`].
    pub stage: Stage,
    /// Snapshots that were taken at the same time have the same number.
    #[serde(with = "crate::id::hex64")]
    pub set: u64,
    /// When it went to the recycle bin, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binned: Option<u64>,
    /// The schedule that took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleId>,
    /// The rules of that schedule that it was taken for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Its sequence number in the schedule: larger is newer, independent of the clock.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub order: u64,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// A volume group as configured; the records of volumes refer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupEntry {
    /// Its identity.
    pub id: GroupId,
    /// Its name.
    pub name: String,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// Mapped bytes beyond which operators and hosts are warned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_quota: Option<u64>,
    /// Mapped bytes beyond which writes that map more blocks are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_quota: Option<u64>,
    /// The data reduction policy of its volumes.
    #[serde(default, skip_serializing_if = "Policy::is_inherited")]
    pub policy: Policy,
    /// The QoS limits that its volumes share.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// Its labels.
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

/// A volume or a snapshot, which each have a disk in the engine.
#[derive(Clone, Debug)]
pub enum DiskEntry {
    /// A volume.
    Volume(VolumeEntry),
    /// A snapshot.
    Snapshot(SnapshotEntry),
}

impl DiskEntry {
    /// Its identity.
    pub fn id(&self) -> DiskId {
        match self {
            DiskEntry::Volume(it) => it.id,
            DiskEntry::Snapshot(it) => it.id,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            DiskEntry::Volume(it) => &it.name,
            DiskEntry::Snapshot(it) => &it.name,
        }
    }

    /// The noun for it in messages.
    pub fn noun(&self) -> &'static str {
        match self {
            DiskEntry::Volume(_) => "volume",
            DiskEntry::Snapshot(_) => "snapshot",
        }
    }

    /// Its life-cycle stage.
    pub fn stage(&self) -> Stage {
        match self {
            DiskEntry::Volume(it) => it.stage,
            DiskEntry::Snapshot(it) => it.stage,
        }
    }

    /// When it went to the recycle bin, in seconds since 1970.
    pub fn binned(&self) -> Option<u64> {
        match self {
            DiskEntry::Volume(it) => it.binned,
            DiskEntry::Snapshot(it) => it.binned,
        }
    }

    /// Its record.
    pub fn record(self) -> Record {
        match self {
            DiskEntry::Volume(it) => Record::Volume(it),
            DiskEntry::Snapshot(it) => Record::Snapshot(it),
        }
    }

    /// The same at another stage.
    #[must_use]
    pub fn at(mut self, stage: Stage, binned: Option<u64>) -> Self {
        match &mut self {
            DiskEntry::Volume(it) => (it.stage, it.binned) = (stage, binned),
            DiskEntry::Snapshot(it) => (it.stage, it.binned) = (stage, binned),
        }
        self
    }

    /// Renames it.
    pub fn rename(&mut self, name: String) {
        match self {
            DiskEntry::Volume(it) => it.name = name,
            DiskEntry::Snapshot(it) => it.name = name,
        }
    }
}

impl Config {
    /// All volumes and snapshots, at any stage.
    pub fn disks(&self) -> impl Iterator<Item = DiskEntry> {
        let volumes = self.volumes.all().cloned().map(DiskEntry::Volume);
        volumes.chain(self.snapshots.all().cloned().map(DiskEntry::Snapshot))
    }

    /// The volumes and snapshots in the recycle bin.
    pub fn binned(&self) -> impl Iterator<Item = DiskEntry> {
        let volumes = self.volumes.all().filter(|entry| entry.stage == Stage::Binned);
        let snapshots = self.snapshots.all().filter(|entry| entry.stage == Stage::Binned);
        volumes.cloned().map(DiskEntry::Volume).chain(snapshots.cloned().map(DiskEntry::Snapshot))
    }
}
