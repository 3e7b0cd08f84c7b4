//! QoS limits and quotas by volume and by group, and the group of each volume. A change is applied to the affected
//! volumes: to one when a volume's own limits or its group change, to the members when a group gets or loses limits.

use crate::clock::Clock;
use crate::qos::{QosLimits, RateLimiter, unmap_limits};
use crate::quota::{Quota, Usage};
use crate::volume::{Limiters, Volume};
use block::DiskId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Limits of volumes, including volumes that are not exported yet.
#[derive(Default)]
pub(crate) struct Limits {
    own: BTreeMap<DiskId, Arc<RateLimiter>>,
    group_of: BTreeMap<DiskId, u128>,
    groups: BTreeMap<u128, Group>,
    unmap: Option<Arc<RateLimiter>>,
}

/// Volumes that share limits.
#[derive(Default)]
struct Group {
    members: BTreeSet<DiskId>,
    limiter: Option<Arc<RateLimiter>>,
    quota: Option<Arc<Quota>>,
}

impl Group {
    fn is_unused(&self) -> bool {
        self.members.is_empty() && self.limiter.is_none() && self.quota.is_none()
    }
}

/// Changes the limits of a limiter, or creates one. `None` if nothing is limited; commands that wait at the old one are
/// admitted.
fn replace(
    limiter: Option<Arc<RateLimiter>>,
    limits: QosLimits,
    clock: &Arc<dyn Clock>,
) -> Option<Arc<RateLimiter>> {
    if let Some(limiter) = &limiter {
        limiter.set(limits);
    }
    let current = || limiter.unwrap_or_else(|| RateLimiter::new(clock.clone(), limits));
    (!limits.is_none()).then(current)
}

impl Limits {
    pub(crate) fn apply_to(&self, volume: &Volume) {
        let group = self.group_of.get(&volume.id()).and_then(|group| self.groups.get(group));
        let own = self.own.get(&volume.id());
        // The volume's own limiter comes last, and so is passed first.
        let shared = group.and_then(|group| group.limiter.as_ref());
        let limiters = shared.into_iter().chain(own).cloned().collect();
        volume.set_limiters(Limiters { limiters, unmap: self.unmap.clone() });
        volume.set_quota(group.and_then(|group| group.quota.clone()));
    }

    pub(crate) fn quota(&self, group: u128) -> Option<Arc<Quota>> {
        self.groups.get(&group)?.quota.clone()
    }

    /// Removes a volume.
    pub(crate) fn remove_volume(&mut self, id: DiskId) {
        self.own.remove(&id);
        self.set_group(id, None);
    }

    /// Returns whether the limits have to be applied to the volume.
    pub(crate) fn set_own(&mut self, id: DiskId, limits: QosLimits, clock: &Arc<dyn Clock>) -> bool {
        let had = self.own.contains_key(&id);
        let limiter = replace(self.own.remove(&id), limits, clock);
        let has = limiter.is_some();
        self.own.extend(limiter.map(|limiter| (id, limiter)));
        had != has
    }

    /// Returns whether the limits have to be applied to the volume.
    pub(crate) fn set_group(&mut self, id: DiskId, group: Option<u128>) -> bool {
        let before = self.group_of.get(&id).copied();
        if before == group {
            return false;
        }
        for (number, is_member) in before.map(|it| (it, false)).into_iter().chain(group.map(|it| (it, true)))
        {
            self.change_group(number, |group| {
                if is_member {
                    group.members.insert(id)
                } else {
                    group.members.remove(&id)
                };
                group.quota.iter().for_each(|quota| quota.set_member(id, is_member));
            });
        }
        match group {
            Some(group) => self.group_of.insert(id, group),
            None => self.group_of.remove(&id),
        };
        true
    }

    /// Returns the volumes that the limits have to be applied to.
    pub(crate) fn set_group_limits(
        &mut self,
        group: u128,
        limits: QosLimits,
        clock: &Arc<dyn Clock>,
    ) -> BTreeSet<DiskId> {
        self.change_group(group, |group| {
            let had = group.limiter.is_some();
            group.limiter = replace(group.limiter.take(), limits, clock);
            if had == group.limiter.is_some() { BTreeSet::new() } else { group.members.clone() }
        })
    }

    /// Returns the volumes that the limits have to be applied to.
    pub(crate) fn set_group_quota(
        &mut self,
        group: u128,
        limit: Option<u64>,
        usage: Usage,
    ) -> BTreeSet<DiskId> {
        self.change_group(group, |group| {
            let before = group.quota.take();
            let had = before.is_some();
            group.quota = limit.map(|limit| {
                let members = &group.members;
                let quota = before.unwrap_or_else(|| Quota::new(limit, usage.clone(), members.clone()));
                quota.set(limit, usage);
                quota
            });
            if had == group.quota.is_some() { BTreeSet::new() } else { group.members.clone() }
        })
    }

    /// Returns whether the limits have to be applied to all volumes.
    pub(crate) fn set_unmap_throttle(&mut self, level: u8, clock: &Arc<dyn Clock>) -> bool {
        let had = self.unmap.is_some();
        self.unmap = replace(self.unmap.take(), unmap_limits(level), clock);
        had != self.unmap.is_some()
    }

    fn change_group<T>(&mut self, number: u128, change: impl FnOnce(&mut Group) -> T) -> T {
        let group = self.groups.entry(number).or_default();
        let result = change(group);
        if group.is_unused() {
            self.groups.remove(&number);
        }
        result
    }
}
