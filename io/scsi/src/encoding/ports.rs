//! Target port groups (SPC-5 5.16): the ports of each controller, and whether commands through them are performed.

use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The ports of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortGroup {
    /// Its number; not zero.
    pub id: u16,
    /// Relative identifiers of its ports, in ascending order.
    pub ports: Vec<u16>,
    /// Commands through these ports are performed: active/optimized. Otherwise the group is unavailable.
    pub is_active: bool,
}

/// All target port groups, as they are now. Clones are the same groups.
#[derive(Clone, Debug)]
pub struct PortGroups(Arc<Ports>);

#[derive(Debug)]
struct Ports {
    groups: RwLock<Arc<[PortGroup]>>,
    /// N_Port names of Fibre Channel ports, by relative identifier.
    n_port_names: RwLock<BTreeMap<u16, u64>>,
}

impl From<u16> for PortGroups {
    /// One group with the ports from 1 up to this.
    fn from(ports: u16) -> Self {
        Self::new(vec![PortGroup { id: 1, ports: (1..=ports).collect(), is_active: true }])
    }
}

impl PortGroups {
    /// These groups.
    pub fn new(groups: Vec<PortGroup>) -> Self {
        Self(Arc::new(Ports { groups: RwLock::new(groups.into()), n_port_names: RwLock::default() }))
    }

    /// Replaces them; false if they are the same.
    pub(crate) fn set(&self, groups: Vec<PortGroup>) -> bool {
        let mut known = self.0.groups.write();
        let changed = known[..] != groups[..];
        *known = groups.into();
        changed
    }

    /// The groups.
    pub fn all(&self) -> Arc<[PortGroup]> {
        self.0.groups.read().clone()
    }

    /// Sets the N_Port names of Fibre Channel ports, by relative identifier.
    pub(crate) fn set_n_port_names(&self, names: BTreeMap<u16, u64>) {
        *self.0.n_port_names.write() = names;
    }

    /// The N_Port name of a Fibre Channel port.
    pub(crate) fn n_port_name(&self, port: u16) -> Option<u64> {
        self.0.n_port_names.read().get(&port).copied()
    }

    /// The ports of all groups.
    pub(crate) fn ports(&self) -> Vec<u16> {
        self.all().iter().flat_map(|group| group.ports.iter().copied()).collect()
    }

    /// The group of a port; the first one for a port of none.
    pub(crate) fn group_of(&self, port: u16) -> u16 {
        let groups = self.all();
        let group = groups.iter().find(|group| group.ports.contains(&port)).or(groups.first());
        group.map_or(1, |group| group.id)
    }
}
