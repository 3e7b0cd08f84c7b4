//! How volumes are affected: reduction policies and limits, set on a volume or on its whole group, and how they are put
//! in force.

use crate::array::Array;
use crate::config::{Config, Edit, GroupEntry, GroupId, Stage, VolumeEntry};
use crate::record::Record;
use crate::watch::mapped;
use crate::{Error, Result};
use block::DiskId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How data are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    Off,
    /// Quickly.
    Fast,
    /// As small as it gets, at more processor time.
    High,
    /// Quickly, as long as it pays.
    Adaptive,
}

/// How the data of a volume, or of the volumes of a group, are reduced from now on; what is none is inherited: by a
/// volume from its group, by a group from the array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Blocks that the array has already are not stored again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup: Option<bool>,
    /// How blocks are compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
    /// Blocks with the same fingerprint are compared byte by byte before one stands for both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
}

/// A policy with nothing left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyInForce {
    /// Blocks that the array has already are not stored again.
    pub dedup: bool,
    /// How blocks are compressed.
    pub compression: Compression,
    /// Blocks with the same fingerprint are compared byte by byte before one stands for both.
    pub verify: bool,
}

/// What to set of a policy; what is none stays, and some none is inherited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PolicyChange {
    /// Whether blocks that the array has already are not stored again.
    pub dedup: Option<Option<bool>>,
    /// How blocks are compressed.
    pub compression: Option<Option<Compression>>,
    /// Whether blocks with the same fingerprint are compared.
    pub verify: Option<Option<bool>>,
}

/// What a volume, or the volumes of a group together, may do in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Reads, writes and offloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// How many of them may come at once after a pause; a tenth of a second's when none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops_burst: Option<u64>,
    /// Bytes that they carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<u64>,
    /// How many of them may come at once after a pause; a tenth of a second's when none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_burst: Option<u64>,
}

/// What to set of limits; what is none stays, and some none is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LimitsChange {
    /// Reads, writes and offloads in a second.
    pub iops: Option<Option<u64>>,
    /// How many of them at once.
    pub iops_burst: Option<Option<u64>>,
    /// Bytes in a second.
    pub bandwidth: Option<Option<u64>>,
    /// How many of them at once.
    pub bandwidth_burst: Option<Option<u64>>,
}

impl Policy {
    /// True when everything is inherited.
    pub fn is_inherited(&self) -> bool {
        *self == Self::default()
    }

    /// With a change.
    #[must_use]
    pub fn with(self, change: PolicyChange) -> Self {
        let PolicyChange { dedup, compression, verify } = change;
        Self {
            dedup: dedup.unwrap_or(self.dedup),
            compression: compression.unwrap_or(self.compression),
            verify: verify.unwrap_or(self.verify),
        }
    }

    /// With what is inherited from another one.
    fn or(self, other: Self) -> Self {
        Self {
            dedup: self.dedup.or(other.dedup),
            compression: self.compression.or(other.compression),
            verify: self.verify.or(other.verify),
        }
    }

    /// With what the array does when nobody says anything.
    fn in_force(self) -> engine::Policy {
        let usual = engine::Policy::default();
        engine::Policy {
            dedup: self.dedup.unwrap_or(usual.dedup),
            compression: self.compression.map_or(usual.compression, Into::into),
            verify: self.verify.unwrap_or(usual.verify),
        }
    }
}

impl Limits {
    /// True when nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// With a change.
    ///
    /// # Errors
    /// When nothing would get through, or a burst has no limit.
    pub fn with(self, change: LimitsChange) -> Result<Self> {
        let LimitsChange { iops, iops_burst, bandwidth, bandwidth_burst } = change;
        let new = Self {
            iops: iops.unwrap_or(self.iops),
            iops_burst: iops_burst.unwrap_or(self.iops_burst),
            bandwidth: bandwidth.unwrap_or(self.bandwidth),
            bandwidth_burst: bandwidth_burst.unwrap_or(self.bandwidth_burst),
        };
        if [new.iops, new.iops_burst, new.bandwidth, new.bandwidth_burst].contains(&Some(0)) {
            return Err(Error::invalid("a limit of zero would stop everything: give at least 1, or none"));
        }
        if new.iops.is_none() && new.iops_burst.is_some()
            || new.bandwidth.is_none() && new.bandwidth_burst.is_some()
        {
            return Err(Error::invalid("a burst goes with a limit: give the limit as well, or no burst"));
        }
        Ok(new)
    }

    fn rates(self) -> scsi::QosLimits {
        let rate = |per_second: u64, burst: Option<u64>| scsi::Rate {
            per_second,
            burst: burst.unwrap_or((per_second / 10).max(1)),
        };
        scsi::QosLimits {
            operations: self.iops.map(|iops| rate(iops, self.iops_burst)),
            bytes: self.bandwidth.map(|bytes| rate(bytes, self.bandwidth_burst)),
        }
    }
}

impl From<Compression> for engine::Compression {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::Off => engine::Compression::Off,
            Compression::Fast => engine::Compression::Fast,
            Compression::High => engine::Compression::High,
            Compression::Adaptive => engine::Compression::Adaptive,
        }
    }
}

impl From<engine::Policy> for PolicyInForce {
    fn from(policy: engine::Policy) -> Self {
        let engine::Policy { dedup, compression, verify } = policy;
        Self { dedup, compression: compression.into(), verify }
    }
}

impl From<engine::Compression> for Compression {
    fn from(compression: engine::Compression) -> Self {
        match compression {
            engine::Compression::Off => Compression::Off,
            engine::Compression::Fast => Compression::Fast,
            engine::Compression::High => Compression::High,
            engine::Compression::Adaptive => Compression::Adaptive,
        }
    }
}

impl Config {
    /// How the data of a volume are to be reduced.
    pub(crate) fn policy_of(&self, volume: &VolumeEntry) -> engine::Policy {
        let group = volume.group.and_then(|id| self.groups.get(id)).map(|group| group.policy);
        volume.policy.or(group.unwrap_or_default()).in_force()
    }
}

/// The volumes and groups whose treatment some edits may change.
#[derive(Debug, Default)]
pub(crate) struct Affected {
    volumes: BTreeSet<DiskId>,
    groups: BTreeSet<GroupId>,
    throttle: bool,
}

impl Affected {
    /// Notes what an edit is about; called before and after it is applied.
    pub fn note(&mut self, config: &Config, edit: &Edit) {
        let (Edit::Put(record) | Edit::Remove(record)) = edit;
        match record {
            Record::Volume(volume) => {
                self.volumes.insert(volume.id);
                self.groups.extend(config.volumes.get(volume.id).and_then(|before| before.group));
            }
            Record::Group(group) => {
                self.groups.insert(group.id);
                self.volumes.extend(config.members(group.id).map(|volume| volume.id));
            }
            Record::Settings(_) => self.throttle = true,
            _ => {}
        }
    }
}

impl Array {
    /// Puts limits and options in force.
    pub(crate) fn enforce(&self, config: &Config, affected: &Affected) {
        for id in &affected.volumes {
            if let Some(volume) = config.volumes.get(*id).filter(|volume| volume.stage == Stage::Ready) {
                self.parts.target.set_limits(*id, volume.limits.rates());
                self.parts.target.set_simple_reservations(*id, volume.scsi2_reservations);
            }
        }
        affected.groups.iter().for_each(|id| self.limit_group(config, *id));
        if affected.throttle {
            self.parts.target.set_unmap_throttle(config.settings.unmap_throttle);
        }
        self.look_at_quotas(config, true);
    }

    /// Everything that is set, when the array comes up.
    pub(crate) fn enforce_all(&self, config: &Config) {
        for volume in config.volumes.iter() {
            if !volume.limits.is_none() {
                self.parts.target.set_limits(volume.id, volume.limits.rates());
            }
            if !volume.scsi2_reservations {
                self.parts.target.set_simple_reservations(volume.id, false);
            }
        }
        let limited = |group: &&GroupEntry| !group.limits.is_none() || group.hard_quota.is_some();
        for group in config.groups.iter().filter(limited) {
            self.limit_group(config, group.id);
        }
        self.parts.target.set_unmap_throttle(config.settings.unmap_throttle);
        self.look_at_quotas(config, false);
    }

    fn limit_group(&self, config: &Config, id: GroupId) {
        let members: BTreeSet<DiskId> = config.members(id).map(|volume| volume.id).collect();
        let group = config.groups.get(id);
        let limits = group.map(|group| group.limits).unwrap_or_default();
        self.parts.target.set_group_limits(u128::from(id.0), members.clone(), limits.rates());
        let (engine, disks) = (self.parts.engine.clone(), members.clone());
        let usage = Arc::new(move || mapped(&engine, disks.iter().copied()));
        let quota = group.and_then(|group| group.hard_quota);
        self.parts.target.set_group_quota(u128::from(id.0), members, quota, usage);
    }

    /// Volumes whose policy in the engine is not the one that is configured.
    pub(crate) fn other_policies(&self) -> Vec<(DiskId, engine::Policy)> {
        let config = self.config();
        let wanted = config.volumes.iter().map(|volume| (volume.id, config.policy_of(volume)));
        let differs =
            |(id, policy): &(DiskId, _)| self.parts.engine.policy(*id).is_some_and(|now| now != *policy);
        wanted.filter(differs).collect()
    }

    /// Makes the engine reduce as is configured. The configuration comes first: a start after a crash does the rest.
    pub(crate) async fn reduce(&self) -> Result<()> {
        for (id, policy) in self.other_policies() {
            let set = self.parts.engine.set_policy(id, policy).await;
            set.map_err(|error| Error::refused("the reduction policy can't be set", error))?;
        }
        Ok(())
    }
}
