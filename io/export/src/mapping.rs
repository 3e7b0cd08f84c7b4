//! Host mappings (LUN masking): the volume of each logical unit number of a host, and its write permission.

use block::DiskId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A volume in the view of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The volume.
    pub disk: DiskId,
    /// The host may only read.
    pub read_only: bool,
    /// Whether the number named another volume before, and the host may not know of the change.
    pub reused: bool,
}

impl From<DiskId> for Mapping {
    fn from(disk: DiskId) -> Self {
        Mapping { disk, read_only: false, reused: false }
    }
}

/// The mappings of all hosts, indexed by host and by volume.
#[derive(Default)]
pub(crate) struct Mappings {
    by_host: BTreeMap<Arc<str>, BTreeMap<u16, Mapping>>,
    by_volume: BTreeMap<DiskId, BTreeSet<(Arc<str>, u16)>>,
    /// Last volume of each number of each host, whether or not it is still mapped: a host that was away may still use
    /// it.
    named: BTreeMap<Arc<str>, BTreeMap<u16, Named>>,
}

/// The current or last volume of a number.
struct Named {
    disk: DiskId,
    /// Whether the number named another volume before.
    reused: bool,
}

impl Mappings {
    /// Sets or removes one mapping; it also becomes `reused` if the number ever named another volume here. Returns the
    /// host's name if the mapping changed.
    pub(crate) fn set(&mut self, host: &str, number: u16, mapping: Option<Mapping>) -> Option<Arc<str>> {
        let before = self.at(host, number);
        if before.is_none() && mapping.is_none() {
            return None;
        }
        let name = self.named.get_key_value(host).map_or_else(|| host.into(), |(name, _)| name.clone());
        let mapping = mapping.map(|mapping| self.name(&name, number, mapping));
        if before == mapping {
            return None;
        }
        if let Some(Mapping { disk, .. }) = before
            && let Some(hosts) = self.by_volume.get_mut(&disk)
        {
            hosts.remove(&(name.clone(), number));
            if hosts.is_empty() {
                self.by_volume.remove(&disk);
            }
        }
        let view = self.by_host.entry(name.clone()).or_default();
        match mapping {
            Some(mapping) => {
                view.insert(number, mapping);
                self.by_volume.entry(mapping.disk).or_default().insert((name.clone(), number));
            }
            None => {
                view.remove(&number);
                if view.is_empty() {
                    self.by_host.remove(&name);
                }
            }
        }
        Some(name)
    }

    /// Records the volume of a number, and returns the mapping with its `reused` flag.
    fn name(&mut self, host: &Arc<str>, number: u16, mapping: Mapping) -> Mapping {
        let Mapping { disk, reused, .. } = mapping;
        let numbers = self.named.entry(host.clone()).or_default();
        let named = numbers.entry(number).or_insert(Named { disk, reused });
        named.reused |= reused || named.disk != disk;
        named.disk = disk;
        Mapping { reused: named.reused, ..mapping }
    }

    pub(crate) fn at(&self, host: &str, number: u16) -> Option<Mapping> {
        self.by_host.get(host)?.get(&number).copied()
    }

    pub(crate) fn of(&self, host: &str) -> impl Iterator<Item = (u16, Mapping)> {
        self.by_host.get(host).into_iter().flatten().map(|(number, mapping)| (*number, *mapping))
    }

    pub(crate) fn of_volume(&self, id: DiskId) -> impl Iterator<Item = (&Arc<str>, u16)> {
        self.by_volume.get(&id).into_iter().flatten().map(|(host, number)| (host, *number))
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_host.keys()
    }

    /// Hosts that see a volume which `host` may write to. `host` itself is included, unless it can write to no volume.
    pub(crate) fn sharing_with(&self, host: &str) -> BTreeSet<String> {
        let writable = self.of(host).filter(|(_, mapping)| !mapping.read_only);
        writable
            .flat_map(|(_, mapping)| self.of_volume(mapping.disk))
            .map(|(name, _)| (**name).into())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_named_another_volume_is_reused_also_after_a_time_without_mapping() {
        let mut mappings = Mappings::default();
        let mut set = |disk: Option<u128>| {
            mappings.set("host", 3, disk.map(|disk| Mapping::from(DiskId(disk))));
            mappings.at("host", 3).map(|mapping| mapping.reused)
        };
        assert_eq!(set(Some(1)), Some(false));
        assert_eq!((set(None), set(Some(1))), (None, Some(false)), "the same volume again");
        assert_eq!((set(None), set(Some(2))), (None, Some(true)));
        assert_eq!(set(Some(2)), Some(true), "until the process ends: a host may come back late");
        mappings.set("host", 3, None);
        assert_eq!(mappings.hosts().count(), 0);
        mappings.set("host", 3, Some(DiskId(1).into()));
        mappings.set("host", 4, Some(DiskId(5).into()));
        let reused: Vec<bool> = mappings.of("host").map(|(_, mapping)| mapping.reused).collect();
        assert_eq!(reused, [true, false]);
    }

    #[test]
    fn only_what_differs_from_the_mapping_in_force_is_a_change() {
        let mut mappings = Mappings::default();
        let mut set = |mapping: Option<Mapping>| mappings.set("host", 3, mapping).is_some();
        let (one, two) = (Mapping::from(DiskId(1)), Mapping::from(DiskId(2)));
        assert!(!set(None), "it was never mapped");
        assert!(set(Some(one)) && !set(Some(one)));
        assert!(set(Some(Mapping { reused: true, ..one })), "it is known to be reused now");
        assert!(!set(Some(one)), "it stays reused");
        assert!(set(Some(two)) && !set(Some(two)));
        assert!(set(None) && !set(None));
        assert_eq!(mappings.of_volume(DiskId(1)).count() + mappings.of_volume(DiskId(2)).count(), 0);
    }
}
