//! Registry of exports: volumes with their limits, and the mappings of hosts. Front ends read it while it is locked.

use crate::event::FrontEnd;
use crate::limits::Limits;
use crate::mapping::{Mapping, Mappings};
use crate::power::Power;
use crate::volume::Volume;
use block::DiskId;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Volumes, mappings and limits.
#[derive(Default)]
pub struct Registry {
    pub(crate) power: Power,
    pub(crate) volumes: BTreeMap<DiskId, Arc<Volume>>,
    pub(crate) mappings: Mappings,
    pub(crate) limits: Limits,
    pub(crate) front_ends: Vec<Weak<dyn FrontEnd>>,
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

    /// The mappings of a host by logical unit number, including those of volumes that are not exported.
    pub fn mappings(&self, host: &str) -> impl Iterator<Item = (u16, Mapping)> {
        self.mappings.of(host)
    }

    /// The mapping of a host for a logical unit number, even if its volume is not exported.
    pub fn mapping(&self, host: &str, number: u16) -> Option<Mapping> {
        self.mappings.at(host, number)
    }

    /// The hosts that see a volume, with their logical unit numbers.
    pub fn mapped_to(&self, id: DiskId) -> impl Iterator<Item = (&Arc<str>, u16)> {
        self.mappings.of_volume(id)
    }

    /// Names of the hosts that have mappings.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.mappings.hosts().map(|host| &**host)
    }

    pub(crate) fn front_ends(&self) -> Vec<Arc<dyn FrontEnd>> {
        self.front_ends.iter().filter_map(Weak::upgrade).collect()
    }
}
