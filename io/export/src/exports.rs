//! The registry of exported volumes, host mappings and limits: set by operators, read by front ends.
//!
//! Changes take effect immediately and are passed to the front ends while the registry is locked, so that every front
//! end sees them in the same order. No command waits for them.

use crate::clock::Clock;
use crate::event::{Event, FrontEnd};
use crate::initiator::NexusName;
use crate::mapping::{Mapping, Mappings};
use crate::power::Power;
use crate::qos::{QosLimits, RateLimiter, unmap_limits};
use crate::quota::{Quota, QuotaRefusals, Usage};
use crate::reservation::Change;
use crate::statistics::{IoCounters, Operation, PathId};
use crate::volume::{Limiters, Volume};
use block::{Disk, DiskId, Op};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

/// All exported volumes.
pub struct Exports {
    clock: Arc<dyn Clock>,
    registry: Mutex<Registry>,
}

/// Volumes, mappings and limits.
#[derive(Default)]
pub struct Registry {
    power: Power,
    volumes: BTreeMap<DiskId, Arc<Volume>>,
    mappings: Mappings,
    policies: Policies,
    front_ends: Vec<Weak<dyn FrontEnd>>,
}

/// Limits by volume, whether the volume is exported yet or not.
#[derive(Default)]
struct Policies {
    limits: BTreeMap<DiskId, Arc<RateLimiter>>,
    groups: BTreeMap<u128, Group<RateLimiter>>,
    quotas: BTreeMap<u128, Group<Quota>>,
    unmap: Option<Arc<RateLimiter>>,
}

/// Volumes that share a limit.
struct Group<T> {
    members: BTreeSet<DiskId>,
    shared: Arc<T>,
}

impl Policies {
    fn apply_to(&self, volume: &Volume) {
        let groups = self.groups.values().filter(|group| group.members.contains(&volume.id()));
        let own = self.limits.get(&volume.id());
        // The volume's own limiter comes last, and so is passed first.
        let limiters = groups.map(|group| &group.shared).chain(own).cloned().collect();
        volume.set_limiters(Limiters { limiters, unmap: self.unmap.clone() });
        let quota = self.quotas.values().find(|group| group.members.contains(&volume.id()));
        volume.set_quota(quota.map(|group| group.shared.clone()));
    }

    fn remove_volume(&mut self, id: DiskId) {
        self.limits.remove(&id);
        for group in self.groups.values_mut() {
            group.members.remove(&id);
        }
        for group in self.quotas.values_mut() {
            group.members.remove(&id);
        }
    }
}

/// Changes the limits of a limiter, or makes one. `None` if nothing is limited; commands that wait at the old one are
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

impl Registry {
    /// The exported volumes.
    pub fn volumes(&self) -> impl Iterator<Item = &Arc<Volume>> {
        self.volumes.values()
    }

    /// An exported volume.
    pub fn volume(&self, id: DiskId) -> Option<&Arc<Volume>> {
        self.volumes.get(&id)
    }

    /// The mappings of a host by logical unit number, whether the volume is exported or not.
    pub fn mappings(&self, host: &str) -> impl Iterator<Item = (u16, Mapping)> {
        self.mappings.of(host)
    }

    /// The hosts that have mappings, by the names that those were set with.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.mappings.hosts()
    }

    fn front_ends(&self) -> Vec<Arc<dyn FrontEnd>> {
        self.front_ends.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Exports {
    /// A registry without volumes.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Exports> {
        Arc::new(Exports { clock, registry: Mutex::default() })
    }

    /// The clock for rate limits and latencies.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Sets what is known of the target's power. No volume was added yet.
    ///
    /// # Panics
    /// If one was.
    pub fn set_power(&self, power: Power) {
        let mut registry = self.registry.lock();
        assert!(registry.volumes.is_empty(), "the state of volumes depends on it");
        registry.power = power;
    }

    /// What is known of the target's power.
    pub fn power(&self) -> Power {
        self.registry.lock().power
    }

    /// Another controller has the target under power-on `known`; or none has, and its power was lost. Does nothing if that was
    /// known already.
    pub fn resolve_power(&self, known: Option<u64>) {
        let (ended, front_ends) = {
            let mut registry = self.registry.lock();
            let Power::Unknown { fresh } = registry.power else { return };
            registry.power = Power::On(known.unwrap_or(fresh));
            let volumes = registry.volumes.values();
            let ended = volumes.filter(|volume| volume.resolve_power(known, fresh)).map(|volume| volume.id());
            (ended.collect::<Vec<_>>(), registry.front_ends())
        };
        for volume in ended {
            front_ends.iter().for_each(|front_end| front_end.notify(volume, Event::PowerLost));
        }
    }

    /// Adds a front end; it is called with the current mappings.
    pub fn add_front_end(&self, front_end: Weak<dyn FrontEnd>) {
        let mut registry = self.registry.lock();
        registry.front_ends.retain(|other| other.strong_count() > 0);
        registry.front_ends.push(front_end.clone());
        if let Some(front_end) = front_end.upgrade() {
            front_end.mappings_changed(&registry);
        }
    }

    /// Calls `read` with the registry locked, so that it sees a consistent state.
    pub fn read<T>(&self, read: impl FnOnce(&Registry) -> T) -> T {
        read(&self.registry.lock())
    }

    fn change_mappings(&self, change: impl FnOnce(&mut Registry)) {
        let mut registry = self.registry.lock();
        change(&mut registry);
        registry.front_ends().iter().for_each(|front_end| front_end.mappings_changed(&registry));
    }

    fn change_limits(&self, change: impl FnOnce(&mut Policies)) {
        let mut registry = self.registry.lock();
        change(&mut registry.policies);
        registry.volumes.values().for_each(|volume| registry.policies.apply_to(volume));
        registry.front_ends().iter().for_each(|front_end| front_end.limits_changed(&registry));
    }

    /// Exports a volume; hosts that are mapped to it see it from now on. Replaces a volume of the same identity.
    pub fn add_volume(&self, disk: Arc<dyn Disk>) {
        self.change_mappings(|registry| {
            let volume = Volume::new(disk, registry.power);
            registry.policies.apply_to(&volume);
            registry.volumes.insert(volume.id(), volume);
        });
    }

    /// Stops exporting a volume and removes its limits. Its tasks are aborted, and its hosts no longer see it.
    pub fn remove_volume(&self, id: DiskId) {
        self.change_mappings(|registry| {
            registry.volumes.remove(&id);
            registry.policies.remove_volume(id);
        });
    }

    /// Sets the mappings of a host: volumes by logical unit number, numbers below 16384. A mapped volume that is not
    /// exported appears once it is.
    pub fn set_mappings<M: Into<Mapping>>(&self, host: &str, mappings: BTreeMap<u16, M>) {
        let mappings = mappings.into_iter().map(|(number, mapping)| (number, mapping.into())).collect();
        self.change_mappings(|registry| registry.mappings.set(host, mappings));
    }

    /// Removes all mappings of a host.
    pub fn remove_mappings(&self, host: &str) {
        self.change_mappings(|registry| registry.mappings.remove(host));
    }

    /// Hosts that see any volume that `host` may write to. Includes `host` unless it has no writable volume.
    pub fn hosts_sharing_with(&self, host: &str) -> BTreeSet<String> {
        self.registry.lock().mappings.sharing_with(host)
    }

    /// Sets the QoS limits of one volume. They apply to commands that are already queued, too.
    pub fn set_limits(&self, id: DiskId, limits: QosLimits) {
        self.change_limits(|policies| {
            let limiter = replace(policies.limits.remove(&id), limits, &self.clock);
            policies.limits.extend(limiter.map(|limiter| (id, limiter)));
        });
    }

    /// Sets QoS limits that several volumes share, in addition to each volume's own. `group` is any number that
    /// identifies the group; a group without members or limits is removed.
    pub fn set_group_limits(&self, group: u128, members: BTreeSet<DiskId>, limits: QosLimits) {
        self.change_limits(|policies| {
            let limits = if members.is_empty() { QosLimits::default() } else { limits };
            let before = policies.groups.remove(&group).map(|group| group.shared);
            let limiter = replace(before, limits, &self.clock);
            policies.groups.extend(limiter.map(|shared| (group, Group { members, shared })));
        });
    }

    /// Sets how many bytes several volumes may have mapped together; `None` removes the quota. Operations that would
    /// map more fail with [`block::Error::NoSpace`], as they do when the pool is full; mapped blocks can be written,
    /// and blocks unmapped. A volume belongs to at most one such group. `group` is any number that identifies it; a group
    /// without members is removed. `usage` must not wait for a command.
    pub fn set_group_quota(&self, group: u128, members: BTreeSet<DiskId>, limit: Option<u64>, usage: Usage) {
        self.change_limits(|policies| {
            let before = policies.quotas.remove(&group).map(|group| group.shared);
            let Some(limit) = limit.filter(|_| !members.is_empty()) else { return };
            let shared = before.unwrap_or_else(|| Quota::new(limit, usage.clone()));
            shared.set(limit, usage);
            policies.quotas.insert(group, Group { members, shared });
        });
    }

    /// Recounts the mapped bytes of a group with a quota, and returns what the quota has refused. The recount is needed
    /// because blocks are mapped not only by commands.
    pub fn refresh_quota(&self, group: u128) -> QuotaRefusals {
        let quota = self.registry.lock().policies.quotas.get(&group).map(|group| group.shared.clone());
        quota.map(|quota| quota.refresh()).unwrap_or_default()
    }

    /// Limits the rate of commands that unmap, of all volumes together: level 0 is unlimited, level 9 (the maximum) is
    /// 384 MiB/s, and each level below it doubles the rate.
    pub fn set_unmap_throttle(&self, level: u8) {
        self.change_limits(|policies| {
            policies.unmap = replace(policies.unmap.take(), unmap_limits(level), &self.clock);
        });
    }

    /// The volumes whose saved state can't be decoded. Each refuses commands that would change its medium or its state.
    pub fn unreadable_states(&self) -> Vec<DiskId> {
        let registry = self.registry.lock();
        registry.volumes().filter(|volume| volume.state().is_fenced()).map(|volume| volume.id()).collect()
    }

    /// The target ports that registrations name.
    pub fn registered_ports(&self) -> BTreeSet<u16> {
        let registry = self.registry.lock();
        let of = |volume: &Arc<Volume>| {
            let state = volume.state();
            let registrants = state.registrations.registrants().iter();
            registrants.map(|registrant| registrant.nexus.target_port).collect::<Vec<_>>()
        };
        registry.volumes().flat_map(of).collect()
    }

    /// Clears the saved state of a volume that can't be decoded: there are no registrations and no reservation then,
    /// SCSI mode pages are at their defaults, and hosts may write again. Returns false if there is no such volume, or
    /// if its state can be decoded.
    ///
    /// # Errors
    /// The disk's error if the empty state can't be saved; the volume then keeps refusing changes.
    pub async fn clear_unreadable_state(&self, id: DiskId) -> block::Result<bool> {
        let volume = self.registry.lock().volume(id).cloned();
        let Some(volume) = volume.filter(|volume| volume.state().is_fenced()) else { return Ok(false) };
        volume.disk().execute(Op::SaveState(Bytes::new())).await?;
        volume.clear_state();
        self.notify(id, Event::StateCleared);
        Ok(true)
    }

    /// `sender` changed the registrations of a volume, and the change is in force: every front end notifies its hosts.
    /// Completes when commands have ended that began before and that the reservation refuses now.
    pub async fn reservations_changed(&self, id: DiskId, sender: &NexusName, change: &Change) {
        let front_ends = self.registry.lock().front_ends();
        let ended: Vec<_> =
            front_ends.iter().map(|front_end| front_end.reservations_changed(id, sender, change)).collect();
        for ended in ended {
            ended.await;
        }
    }

    /// Notifies the hosts of a volume of an event. Called once for each event.
    pub fn notify(&self, id: DiskId, event: Event) {
        let front_ends = self.registry.lock().front_ends();
        front_ends.iter().for_each(|front_end| front_end.notify(id, event));
    }

    /// Commands of a kind that succeeded on the paths that are open, and the sum of their latencies in nanoseconds.
    /// Both go back when a path is closed.
    pub fn open_latencies(&self, operation: Operation) -> (u64, u64) {
        let volumes: Vec<_> = self.registry.lock().volumes().cloned().collect();
        let latencies = volumes.iter().map(|volume| volume.open_latencies(operation));
        latencies.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
    }

    /// Counters since each volume was added, by volume and by path.
    pub fn statistics(&self) -> BTreeMap<DiskId, BTreeMap<PathId, IoCounters>> {
        let volumes: Vec<_> = self.registry.lock().volumes().cloned().collect();
        volumes.iter().map(|volume| (volume.id(), volume.statistics())).collect()
    }
}
