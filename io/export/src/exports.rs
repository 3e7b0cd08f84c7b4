//! The registry of exported volumes, host mappings and limits: set by operators, read by front ends.
//!
//! Changes take effect immediately and are passed to the front ends while the registry is locked, so every front end
//! sees them in the same order. No command waits for them. A front end is notified of the touched objects and examines
//! no others; several related changes can be one ([`Exports::edit`]).

use crate::clock::Clock;
use crate::edit::Edit;
use crate::event::{Event, FrontEnd, Touched};
use crate::initiator::NexusName;
use crate::mapping::Mapping;
use crate::power::Power;
use crate::qos::QosLimits;
use crate::quota::{QuotaRefusals, Usage};
use crate::registry::Registry;
use crate::reservation::Change;
use crate::statistics::{IoCounters, Operation, PathId};
use crate::volume::Volume;
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

impl Exports {
    /// A registry without volumes.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Exports> {
        Arc::new(Exports { clock, registry: Mutex::default() })
    }

    /// The clock for rate limits and latencies.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Sets the known state of the target's power, before any volume is added.
    ///
    /// # Panics
    /// If a volume was added.
    pub fn set_power(&self, power: Power) {
        let mut registry = self.registry.lock();
        assert!(registry.volumes.is_empty(), "the state of volumes depends on it");
        registry.power = power;
    }

    /// The known state of the target's power.
    pub fn power(&self) -> Power {
        self.registry.lock().power
    }

    /// Resolves an unknown power state: another controller has the target under power-on `known`, or none has, and its
    /// power was lost. No effect if it was known already.
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

    /// Adds a front end, and calls it with the current mappings.
    pub fn add_front_end(&self, front_end: Weak<dyn FrontEnd>) {
        let mut registry = self.registry.lock();
        registry.front_ends.retain(|other| other.strong_count() > 0);
        registry.front_ends.push(front_end.clone());
        if let Some(front_end) = front_end.upgrade() {
            front_end.mappings_changed(&registry, &Touched::all(&registry));
        }
    }

    /// Calls `read` with the registry locked, so it sees a consistent state.
    pub fn read<T>(&self, read: impl FnOnce(&Registry) -> T) -> T {
        read(&self.registry.lock())
    }

    /// Makes several changes that front ends see as one.
    pub fn edit<T>(&self, change: impl FnOnce(&mut Edit<'_>) -> T) -> T {
        let mut registry = self.registry.lock();
        let mut edit = Edit::new(&mut registry, &self.clock);
        let result = change(&mut edit);
        let touched = edit.touched();
        let front_ends = registry.front_ends();
        if touched.has_mappings() {
            front_ends.iter().for_each(|front_end| front_end.mappings_changed(&registry, &touched));
        }
        if !touched.limits().is_empty() {
            front_ends.iter().for_each(|front_end| front_end.limits_changed(&registry, touched.limits()));
        }
        result
    }

    /// [`Edit::add_volume`] as a single change.
    pub fn add_volume(&self, disk: Arc<dyn Disk>) {
        self.edit(|edit| edit.add_volume(disk));
    }

    /// [`Edit::remove_volume`] as a single change.
    pub fn remove_volume(&self, id: DiskId) {
        self.edit(|edit| edit.remove_volume(id));
    }

    /// [`Edit::set_mappings`] as a single change.
    pub fn set_mappings<M: Into<Mapping>>(&self, host: &str, mappings: BTreeMap<u16, M>) {
        self.edit(|edit| edit.set_mappings(host, mappings));
    }

    /// Removes all mappings of a host.
    pub fn remove_mappings(&self, host: &str) {
        self.edit(|edit| edit.set_mappings::<Mapping>(host, BTreeMap::new()));
    }

    /// Hosts that see any volume that `host` may write to. Includes `host` unless it has no writable volume.
    pub fn hosts_sharing_with(&self, host: &str) -> BTreeSet<String> {
        self.registry.lock().mappings.sharing_with(host)
    }

    /// [`Edit::set_limits`] as a single change.
    pub fn set_limits(&self, id: DiskId, limits: QosLimits) {
        self.edit(|edit| edit.set_limits(id, limits));
    }

    /// [`Edit::set_group`] as a single change.
    pub fn set_group(&self, id: DiskId, group: Option<u128>) {
        self.edit(|edit| edit.set_group(id, group));
    }

    /// [`Edit::set_group_limits`] as a single change.
    pub fn set_group_limits(&self, group: u128, limits: QosLimits) {
        self.edit(|edit| edit.set_group_limits(group, limits));
    }

    /// [`Edit::set_group_quota`] as a single change.
    pub fn set_group_quota(&self, group: u128, limit: Option<u64>, usage: Usage) {
        self.edit(|edit| edit.set_group_quota(group, limit, usage));
    }

    /// Recounts the mapped bytes of a group with a quota, and returns the refusals of the quota. The recount is needed
    /// because commands are not the only operations that map blocks.
    pub fn refresh_quota(&self, group: u128) -> QuotaRefusals {
        let quota = self.registry.lock().limits.quota(group);
        quota.map(|quota| quota.refresh()).unwrap_or_default()
    }

    /// [`Edit::set_unmap_throttle`] as a single change.
    pub fn set_unmap_throttle(&self, level: u8) {
        self.edit(|edit| edit.set_unmap_throttle(level));
    }

    /// Volumes whose saved state can't be decoded. Each refuses commands that would change its medium or its state.
    pub fn unreadable_states(&self) -> Vec<DiskId> {
        let registry = self.registry.lock();
        registry.volumes().filter(|volume| volume.state().is_fenced()).map(|volume| volume.id()).collect()
    }

    /// Target ports in registrations.
    pub fn registered_ports(&self) -> BTreeSet<u16> {
        let registry = self.registry.lock();
        let of = |volume: &Arc<Volume>| {
            let state = volume.state();
            let registrants = state.registrations.registrants().iter();
            registrants.map(|registrant| registrant.nexus.target_port).collect::<Vec<_>>()
        };
        registry.volumes().flat_map(of).collect()
    }

    /// Clears the saved state of a volume if it can't be decoded: registrations and the reservation are removed, SCSI
    /// mode pages get their defaults, and hosts may write again. Returns false if the volume does not exist, or if its
    /// state can be decoded.
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
    /// Completes when earlier commands that the reservation now refuses have ended.
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

    /// Number of successful commands of a kind on the open paths, and the sum of their latencies in nanoseconds. Both
    /// decrease when a path is closed.
    pub fn open_latencies(&self, operation: Operation) -> (u64, u64) {
        let volumes: Vec<_> = self.registry.lock().volumes().cloned().collect();
        let latencies = volumes.iter().map(|volume| volume.open_latencies(operation));
        latencies.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
    }

    /// Counters of each volume since it was added, by path.
    pub fn statistics(&self) -> BTreeMap<DiskId, BTreeMap<PathId, IoCounters>> {
        let volumes: Vec<_> = self.registry.lock().volumes().cloned().collect();
        volumes.iter().map(|volume| (volume.id(), volume.statistics())).collect()
    }
}
