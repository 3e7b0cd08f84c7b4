//! Host mappings (LUN masking): which host sees which volume under which number, and whether it may write.

use block::DiskId;
use std::collections::{BTreeMap, BTreeSet};

/// A volume as one host sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The volume.
    pub disk: DiskId,
    /// The host may only read.
    pub read_only: bool,
    /// The number was that of another volume before, and the host may not have learned of the change.
    pub reused: bool,
}

impl From<DiskId> for Mapping {
    fn from(disk: DiskId) -> Self {
        Mapping { disk, read_only: false, reused: false }
    }
}

/// The mappings of all hosts.
#[derive(Default)]
pub(crate) struct Mappings {
    views: BTreeMap<String, BTreeMap<u16, Mapping>>,
    /// What each number of each host named last, whether it is mapped now or not: a host that was away may believe it still.
    named: BTreeMap<String, BTreeMap<u16, Named>>,
}

/// What a number names, or named last.
struct Named {
    disk: DiskId,
    /// It named another volume before.
    reused: bool,
}

impl Mappings {
    pub(crate) fn set(&mut self, host: &str, mut view: BTreeMap<u16, Mapping>) {
        let known = self.named.entry(host.to_owned()).or_default();
        for (number, mapping) in &mut view {
            let disk = mapping.disk;
            let named = known.entry(*number).or_insert(Named { disk, reused: mapping.reused });
            named.reused |= mapping.reused || named.disk != disk;
            named.disk = disk;
            mapping.reused = named.reused;
        }
        self.views.insert(host.to_owned(), view);
    }

    pub(crate) fn remove(&mut self, host: &str) {
        self.views.remove(host);
    }

    pub(crate) fn of(&self, host: &str) -> impl Iterator<Item = (u16, Mapping)> {
        self.views.get(host).into_iter().flatten().map(|(number, mapping)| (*number, *mapping))
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.views.keys().map(String::as_str)
    }

    /// The hosts that see a volume which `host` may write to; `host` itself among them, unless it can write nowhere.
    pub(crate) fn sharing_with(&self, host: &str) -> BTreeSet<String> {
        let writable = self.of(host).filter(|(_, mapping)| !mapping.read_only);
        let writable: BTreeSet<DiskId> = writable.map(|(_, mapping)| mapping.disk).collect();
        let shares =
            |view: &BTreeMap<u16, Mapping>| view.values().any(|mapping| writable.contains(&mapping.disk));
        self.views.iter().filter(|(_, view)| shares(view)).map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_named_another_volume_is_reused_also_after_a_time_without_mapping() {
        let mut mappings = Mappings::default();
        let mut set = |disk: Option<u128>| {
            mappings.set("host", disk.map(|disk| (3, Mapping::from(DiskId(disk)))).into_iter().collect());
            mappings.of("host").next().map(|(_, mapping)| mapping.reused)
        };
        assert_eq!(set(Some(1)), Some(false));
        assert_eq!((set(None), set(Some(1))), (None, Some(false)), "the same volume again");
        assert_eq!((set(None), set(Some(2))), (None, Some(true)));
        assert_eq!(set(Some(2)), Some(true), "until the process ends: a host may come back late");
        mappings.remove("host");
        mappings.set("host", BTreeMap::from([(3, DiskId(1).into()), (4, DiskId(5).into())]));
        let reused: Vec<bool> = mappings.of("host").map(|(_, mapping)| mapping.reused).collect();
        assert_eq!(reused, [true, false]);
    }
}
