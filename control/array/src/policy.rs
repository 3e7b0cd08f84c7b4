//! Enforcement of reduction policies, QoS limits and quotas of volumes and volume groups.

use crate::array::Array;
use crate::watch::mapped;
use crate::{Error, Result};
use block::DiskId;
use records::{Compression, Config, Edit, GroupEntry, GroupId, Limits, Policy, Record, Stage, VolumeEntry};
use std::collections::BTreeSet;
use std::sync::Arc;

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

/// A policy with the array's defaults for what it leaves open.
fn in_force(policy: Policy) -> engine::Policy {
    let usual = engine::Policy::default();
    engine::Policy {
        dedup: policy.dedup.unwrap_or(usual.dedup),
        compression: policy.compression.map_or(usual.compression, to_engine),
        verify: policy.verify.unwrap_or(usual.verify),
    }
}

/// Limits as the SCSI target enforces them.
fn rates(limits: Limits) -> export::QosLimits {
    let rate = |per_second: u64, burst: Option<u64>| export::Rate {
        per_second,
        burst: burst.unwrap_or((per_second / 10).max(1)),
    };
    export::QosLimits {
        operations: limits.iops.map(|iops| rate(iops, limits.iops_burst)),
        bytes: limits.bandwidth.map(|bytes| rate(bytes, limits.bandwidth_burst)),
    }
}

fn to_engine(compression: Compression) -> engine::Compression {
    match compression {
        Compression::Off => engine::Compression::Off,
        Compression::Fast => engine::Compression::Fast,
        Compression::High => engine::Compression::High,
        Compression::Adaptive => engine::Compression::Adaptive,
    }
}

fn of_engine(compression: engine::Compression) -> Compression {
    match compression {
        engine::Compression::Off => Compression::Off,
        engine::Compression::Fast => Compression::Fast,
        engine::Compression::High => Compression::High,
        engine::Compression::Adaptive => Compression::Adaptive,
    }
}

impl From<engine::Policy> for PolicyInForce {
    fn from(policy: engine::Policy) -> Self {
        let engine::Policy { dedup, compression, verify } = policy;
        Self { dedup, compression: of_engine(compression), verify }
    }
}

/// How the data of a volume are reduced: its own policy, then its group's, then the array's.
pub(crate) fn policy_of(config: &Config, volume: &VolumeEntry) -> engine::Policy {
    let group = volume.group.and_then(|id| config.groups.get(id)).map(|group| group.policy);
    in_force(volume.policy.or(group.unwrap_or_default()))
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
                self.parts.exports.set_limits(*id, rates(volume.limits));
                self.parts.target.set_simple_reservations(*id, volume.scsi2_reservations);
            }
        }
        affected.groups.iter().for_each(|id| self.limit_group(config, *id));
        if affected.throttle {
            self.parts.exports.set_unmap_throttle(config.settings.unmap_throttle);
        }
        self.look_at_quotas(config, true);
    }

    /// Everything that is set, when the array comes up.
    pub(crate) fn enforce_all(&self, config: &Config) {
        for volume in config.volumes.iter() {
            if !volume.limits.is_none() {
                self.parts.exports.set_limits(volume.id, rates(volume.limits));
            }
            if !volume.scsi2_reservations {
                self.parts.target.set_simple_reservations(volume.id, false);
            }
        }
        let limited = |group: &&GroupEntry| !group.limits.is_none() || group.hard_quota.is_some();
        for group in config.groups.iter().filter(limited) {
            self.limit_group(config, group.id);
        }
        self.parts.exports.set_unmap_throttle(config.settings.unmap_throttle);
        self.look_at_quotas(config, false);
    }

    fn limit_group(&self, config: &Config, id: GroupId) {
        let members: BTreeSet<DiskId> = config.members(id).map(|volume| volume.id).collect();
        let group = config.groups.get(id);
        let limits = group.map(|group| group.limits).unwrap_or_default();
        self.parts.exports.set_group_limits(u128::from(id.0), members.clone(), rates(limits));
        let (engine, disks) = (self.parts.engine.clone(), members.clone());
        let usage = Arc::new(move || mapped(&engine, disks.iter().copied()));
        let quota = group.and_then(|group| group.hard_quota);
        self.parts.exports.set_group_quota(u128::from(id.0), members, quota, usage);
    }

    /// Volumes whose policy in the engine is not the one that is configured.
    pub(crate) fn other_policies(&self) -> Vec<(DiskId, engine::Policy)> {
        let config = self.config();
        let wanted = config.volumes.iter().map(|volume| (volume.id, policy_of(&config, volume)));
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
