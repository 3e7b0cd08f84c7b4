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
}

impl From<DiskId> for Mapping {
    fn from(disk: DiskId) -> Self {
        Mapping { disk, read_only: false }
    }
}

/// The mappings of all hosts.
#[derive(Default)]
pub(crate) struct Mappings(BTreeMap<String, BTreeMap<u16, Mapping>>);

impl Mappings {
    pub(crate) fn set(&mut self, host: &str, view: BTreeMap<u16, Mapping>) {
        self.0.insert(host.to_owned(), view);
    }

    pub(crate) fn remove(&mut self, host: &str) {
        self.0.remove(host);
    }

    pub(crate) fn of(&self, host: &str) -> impl Iterator<Item = (u16, Mapping)> {
        self.0.get(host).into_iter().flatten().map(|(number, mapping)| (*number, *mapping))
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The hosts that see a volume which `host` may write to; `host` itself among them, unless it can write nowhere.
    pub(crate) fn sharing_with(&self, host: &str) -> BTreeSet<String> {
        let writable = self.of(host).filter(|(_, mapping)| !mapping.read_only);
        let writable: BTreeSet<DiskId> = writable.map(|(_, mapping)| mapping.disk).collect();
        let shares =
            |view: &BTreeMap<u16, Mapping>| view.values().any(|mapping| writable.contains(&mapping.disk));
        self.0.iter().filter(|(_, view)| shares(view)).map(|(name, _)| name.clone()).collect()
    }
}
