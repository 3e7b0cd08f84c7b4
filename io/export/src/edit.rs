//! Changes of the registry: several changes become one, and front ends are notified of everything that it touches.

use crate::clock::Clock;
use crate::event::Touched;
use crate::mapping::Mapping;
use crate::qos::QosLimits;
use crate::quota::Usage;
use crate::registry::Registry;
use crate::volume::Volume;
use block::{Disk, DiskId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A change in progress.
pub struct Edit<'a> {
    registry: &'a mut Registry,
    clock: &'a Arc<dyn Clock>,
    touched: Touched,
}

impl<'a> Edit<'a> {
    pub(crate) fn new(registry: &'a mut Registry, clock: &'a Arc<dyn Clock>) -> Edit<'a> {
        Edit { registry, clock, touched: Touched::default() }
    }

    /// Applies pending limits, and returns everything that was touched.
    pub(crate) fn touched(self) -> Touched {
        let Edit { registry, touched, .. } = self;
        let volumes = touched.limits.iter().filter_map(|id| registry.volumes.get(id));
        volumes.for_each(|volume| registry.limits.apply_to(volume));
        touched
    }

    fn touch_volume(&mut self, id: DiskId) {
        self.touched.volumes.insert(id);
        for (host, number) in self.registry.mappings.of_volume(id) {
            self.touched.numbers.entry(host.clone()).or_default().insert(number);
        }
    }

    /// Exports a volume; hosts that are mapped to it see it from now on. Replaces a volume with the same identity.
    pub fn add_volume(&mut self, disk: Arc<dyn Disk>) {
        let volume = Volume::new(disk, self.registry.power);
        let id = volume.id();
        self.registry.limits.apply_to(&volume);
        self.registry.volumes.insert(id, volume);
        self.touch_volume(id);
    }

    /// Stops exporting a volume and removes its limits. Its tasks are aborted, and its hosts no longer see it.
    pub fn remove_volume(&mut self, id: DiskId) {
        self.registry.limits.remove_volume(id);
        if self.registry.volumes.remove(&id).is_some() {
            self.touch_volume(id);
        }
    }

    /// Sets the mappings of a host: volumes by logical unit number, numbers below 16384. A mapped volume that is not
    /// exported appears once it is.
    pub fn set_mappings<M: Into<Mapping>>(&mut self, host: &str, mappings: BTreeMap<u16, M>) {
        let gone: Vec<u16> = {
            let before = self.registry.mappings.of(host).map(|(number, _)| number);
            before.filter(|number| !mappings.contains_key(number)).collect()
        };
        gone.into_iter().for_each(|number| self.set_mapping(host, number, None));
        mappings
            .into_iter()
            .for_each(|(number, mapping)| self.set_mapping(host, number, Some(mapping.into())));
    }

    /// Sets the mapping of a host for one logical unit number.
    pub fn set_mapping(&mut self, host: &str, number: u16, mapping: Option<Mapping>) {
        if let Some(host) = self.registry.mappings.set(host, number, mapping) {
            self.touched.numbers.entry(host).or_default().insert(number);
        }
    }

    /// Sets the QoS limits of one volume, also for queued commands.
    pub fn set_limits(&mut self, id: DiskId, limits: QosLimits) {
        if self.registry.limits.set_own(id, limits, self.clock) {
            self.touched.limits.insert(id);
        }
    }

    /// Puts a volume into a group, whose limits and quota apply from now on, or into none. `group` is any number that
    /// identifies the group.
    pub fn set_group(&mut self, id: DiskId, group: Option<u128>) {
        if self.registry.limits.set_group(id, group) {
            self.touched.limits.insert(id);
        }
    }

    /// Sets QoS limits that the volumes of a group share, in addition to each volume's own.
    pub fn set_group_limits(&mut self, group: u128, limits: QosLimits) {
        self.touched.limits.extend(self.registry.limits.set_group_limits(group, limits, self.clock));
    }

    /// Sets the maximum number of bytes that the volumes of a group may have mapped together; `None` removes the quota.
    /// Operations that would map more fail with [`block::Error::NoSpace`], as with a full pool; mapped blocks can be
    /// overwritten, and blocks unmapped. `usage` must not wait for a command.
    pub fn set_group_quota(&mut self, group: u128, limit: Option<u64>, usage: Usage) {
        self.touched.limits.extend(self.registry.limits.set_group_quota(group, limit, usage));
    }

    /// Limits the total rate of unmapping of all volumes: level 0 is unlimited, level 9 (the maximum) is 384 MiB/s, and
    /// each level below it doubles the rate.
    pub fn set_unmap_throttle(&mut self, level: u8) {
        if self.registry.limits.set_unmap_throttle(level, self.clock) {
            self.touched.limits.extend(self.registry.volumes.keys().copied());
        }
    }
}
