//! What an operator sets on units while they are in use, what their initiators are told of events, and what was
//! counted. None of it is waited for by a command.

use crate::clock::Clock;
use crate::provisioning;
use crate::quota::{Quota, QuotaRefusals, Usage};
use crate::rate::{QosLimits, RateLimiter, unmap_limits};
use crate::reserve::Reservations;
use crate::sense::Code;
use crate::statistics::{IoCounters, PathId};
use crate::target::Target;
use crate::unit::{Rates, Unit};
use block::{DiskId, Op};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Everything that is set on units, by disk, whether there is such a unit or not yet.
#[derive(Default)]
pub(crate) struct Policies {
    /// Units without RESERVE and RELEASE of SCSI-2.
    without_simple_reservations: BTreeSet<DiskId>,
    limits: BTreeMap<DiskId, Arc<RateLimiter>>,
    groups: BTreeMap<u128, Group<RateLimiter>>,
    quotas: BTreeMap<u128, Group<Quota>>,
    unmap: Option<Arc<RateLimiter>>,
}

/// Units with something in common that limits them.
struct Group<T> {
    members: BTreeSet<DiskId>,
    shared: Arc<T>,
}

impl Policies {
    /// Makes a unit know what is set on it.
    pub(crate) fn apply_to(&self, unit: &Unit) {
        let groups = self.groups.values().filter(|group| group.members.contains(&unit.id));
        // The unit's own limit comes last, and so is met first.
        let buckets = groups.map(|group| &group.shared).chain(self.limits.get(&unit.id)).cloned().collect();
        unit.set_rates(Rates { buckets, unmap: self.unmap.clone() });
        let quota = self.quotas.values().find(|group| group.members.contains(&unit.id));
        unit.set_quota(quota.map(|group| group.shared.clone()));
        unit.set_simple_reservations(!self.without_simple_reservations.contains(&unit.id));
    }

    /// Forgets a unit that is gone for good.
    pub(crate) fn forget(&mut self, id: DiskId) {
        self.without_simple_reservations.remove(&id);
        self.limits.remove(&id);
        for group in self.groups.values_mut() {
            group.members.remove(&id);
        }
        for group in self.quotas.values_mut() {
            group.members.remove(&id);
        }
    }
}

/// Puts limits in force where a bucket is, or may have to be: none is left where nothing is limited, but those who
/// wait at one go on.
fn put(
    bucket: Option<Arc<RateLimiter>>,
    limits: QosLimits,
    clock: &Arc<dyn Clock>,
) -> Option<Arc<RateLimiter>> {
    if let Some(bucket) = &bucket {
        bucket.set(limits);
    }
    let kept = || bucket.unwrap_or_else(|| RateLimiter::new(clock.clone(), limits));
    (!limits.is_none()).then(kept)
}

impl Target {
    fn set(&self, change: impl FnOnce(&mut Policies)) {
        let mut registry = self.registry.lock();
        change(&mut registry.policies);
        let registry = &*registry;
        registry.units.values().for_each(|unit| registry.policies.apply_to(unit));
    }

    /// Sets what one unit may do in a second, from now on and for commands that wait already.
    pub fn set_limits(&self, id: DiskId, limits: QosLimits) {
        self.set(|policies| {
            let bucket = put(policies.limits.remove(&id), limits, &self.clock);
            policies.limits.extend(bucket.map(|bucket| (id, bucket)));
        });
    }

    /// Sets what several units may do together in a second, beside what each may do by itself. `group` is any number
    /// that names the group; one without members or limits is gone.
    pub fn set_group_limits(&self, group: u128, members: BTreeSet<DiskId>, limits: QosLimits) {
        self.set(|policies| {
            let limits = if members.is_empty() { QosLimits::default() } else { limits };
            let before = policies.groups.remove(&group).map(|group| group.shared);
            let bucket = put(before, limits, &self.clock);
            policies.groups.extend(bucket.map(|shared| (group, Group { members, shared })));
        });
    }

    /// Sets how many bytes several units may have mapped together, or none for no end. What would map more fails with
    /// SPACE ALLOCATION FAILED, as it does when the array is full; mapped blocks can be written, and blocks unmapped.
    /// A unit is in one such group at most. `group` is any number that names it; one without members is gone. `usage`
    /// must not wait for a command.
    pub fn set_group_quota(&self, group: u128, members: BTreeSet<DiskId>, limit: Option<u64>, usage: Usage) {
        self.set(|policies| {
            let before = policies.quotas.remove(&group).map(|group| group.shared);
            let Some(limit) = limit.filter(|_| !members.is_empty()) else { return };
            let shared = before.unwrap_or_else(|| Quota::new(limit, usage.clone()));
            shared.set(limit, usage);
            policies.quotas.insert(group, Group { members, shared });
        });
    }

    /// OperationCounts anew what a group with a hard quota has mapped, as not everything that maps is a command, and tells what
    /// was refused for the sake of the quota since there is one.
    pub fn refresh_quota(&self, group: u128) -> QuotaRefusals {
        let quota = self.registry.lock().policies.quotas.get(&group).map(|group| group.shared.clone());
        quota.map(|quota| quota.look()).unwrap_or_default()
    }

    /// Slows down commands that unmap, of all units together: 0 not at all, 9 most. Level 9 lets 384 MiB in a second
    /// through, and each level below it twice as much; more than 9 is 9.
    pub fn set_unmap_throttle(&self, level: u8) {
        self.set(|policies| policies.unmap = put(policies.unmap.take(), unmap_limits(level), &self.clock));
    }

    /// Says whether RESERVE and RELEASE of SCSI-2 are commands of one unit; they are, unless said otherwise.
    pub fn set_simple_reservations(&self, id: DiskId, are: bool) {
        self.set(|policies| {
            policies.without_simple_reservations.remove(&id);
            policies.without_simple_reservations.extend((!are).then_some(id));
        });
    }

    fn unit(&self, id: DiskId) -> Option<Arc<Unit>> {
        self.registry.lock().units.get(&id).cloned()
    }

    /// The units whose saved state (reservations, mode pages) can't be understood. Each refuses what would change its
    /// medium or its state with RESERVATION CONFLICT.
    pub fn unreadable_states(&self) -> Vec<DiskId> {
        let units: Vec<_> = self.registry.lock().units.values().cloned().collect();
        let unreadable = |unit: &&Arc<Unit>| unit.lock().reservations.is_unreadable();
        units.iter().filter(unreadable).map(|unit| unit.id).collect()
    }

    /// Forgets the saved state of a unit that can't be understood: there are no registrations and no reservation then,
    /// mode pages are at their defaults, and hosts may write again. False when there is no such unit, or its state is
    /// understood.
    ///
    /// # Errors
    /// What the disk says when the empty state can't be saved; the unit then goes on refusing changes.
    pub async fn clear_unreadable_state(&self, id: DiskId) -> block::Result<bool> {
        let Some(unit) = self.unit(id).filter(|unit| unit.lock().reservations.is_unreadable()) else {
            return Ok(false);
        };
        unit.disk.execute(Op::SaveState(Bytes::new())).await?;
        let mut core = unit.lock();
        core.reservations = Reservations::default();
        core.refresh();
        core.raise_unit_attention(Code::RESERVATIONS_PREEMPTED, |_| true);
        Ok(true)
    }

    /// Tells the initiators of a unit that its capacity is another (2A/09).
    pub fn capacity_changed(&self, id: DiskId) {
        if let Some(unit) = self.unit(id) {
            unit.raise_unit_attention(Code::CAPACITY_CHANGED, |_| true);
        }
    }

    /// Tells the initiators of a unit that what is on it is not what they left there (28/00): it was restored.
    pub fn content_replaced(&self, id: DiskId) {
        if let Some(unit) = self.unit(id) {
            unit.raise_unit_attention(Code::MEDIUM_MAY_HAVE_CHANGED, |_| true);
        }
    }

    /// Tells the initiators of a unit that a soft threshold is crossed (38/07): one of them, or all when its mode
    /// page has it so (SITUA). Called once for each crossing.
    pub fn threshold_crossed(&self, id: DiskId) {
        if let Some(unit) = self.unit(id) {
            let core = unit.lock();
            if let Some(path) = core.paths.first() {
                provisioning::raise_threshold_crossed(&core, path);
            }
        }
    }

    /// What was counted since each unit was added, by unit and by the way that commands came.
    pub fn statistics(&self) -> BTreeMap<DiskId, BTreeMap<PathId, IoCounters>> {
        let units: Vec<_> = self.registry.lock().units.values().cloned().collect();
        units.iter().map(|unit| (unit.id, unit.statistics())).collect()
    }
}
