//! The configuration in memory: every record by identity and by name.
//!
//! A change is a list of [`Edit`]s that is committed as one step and then applied here; a start applies what was
//! stored. Memory therefore always holds what a restart would read.

use crate::array::ArrayIdentity;
use crate::disk::{GroupId, VolumeEntry};
use crate::host::{HostGroupEntry, HostId};
pub use crate::record::Config;
use crate::record::Record;
use crate::{Error, Result};
use block::DiskId;
use std::collections::BTreeSet;

/// A step of a change.
#[derive(Clone, Debug)]
pub enum Edit {
    /// Insert a record, or replace the one with its identity.
    Put(Record),
    /// Remove it.
    Remove(Record),
}

impl Edit {
    /// The record, and whether it exists afterwards.
    pub fn record(&self) -> (&Record, bool) {
        match self {
            Edit::Put(record) => (record, true),
            Edit::Remove(record) => (record, false),
        }
    }
}

impl Config {
    /// The name of the array: from the settings, or its initial one.
    pub fn name_of_array<'a>(&'a self, identity: &'a ArrayIdentity) -> &'a str {
        self.settings.name.as_deref().unwrap_or(&identity.name)
    }

    /// The volume or snapshot with this identity or name, which is unique.
    pub fn disk_named(&self, which: &str) -> Result<DiskId> {
        let volume = self.volumes.with_digits(which).map(|entry| entry.id);
        let by_id = volume.or_else(|| self.snapshots.with_digits(which).map(|entry| entry.id));
        let volume = || self.volumes.find(which).map(|entry| entry.id);
        let found = by_id.or_else(volume).or_else(|| self.snapshots.find(which).map(|entry| entry.id));
        found.ok_or_else(|| Error::not_found(format!("there is no volume or snapshot {which:?}")))
    }

    /// The name of the object with this identity or name; the given text if no object has it.
    pub fn name_for<'a>(&'a self, which: &'a str) -> &'a str {
        self.label_of(which).unwrap_or(which)
    }

    /// The name of a volume or snapshot.
    pub fn disk_name(&self, id: DiskId) -> Option<&str> {
        let snapshot = || self.snapshots.get(id).map(|entry| entry.name.as_str());
        self.volumes.get(id).map(|entry| entry.name.as_str()).or_else(snapshot)
    }

    /// Refuses a name that a volume or a snapshot has.
    pub fn disk_name_free(&self, name: &str) -> Result<()> {
        self.volumes.free(name)?;
        self.snapshots.free(name)
    }

    /// Refuses initiator names, NQNs and WWPNs that belong to another host than `own`.
    pub fn initiators_free(&self, names: &[String], own: Option<HostId>) -> Result<()> {
        for host in self.hosts.iter().filter(|host| Some(host.id) != own) {
            if let Some(taken) = names.iter().find(|name| host.port_names().any(|known| known == *name)) {
                let message = format!(
                    "initiator {taken} belongs to host {:?}: use that host, or delete it first",
                    host.name
                );
                let field = match () {
                    () if host.nqns.contains(taken) => "nqns",
                    () if host.wwpns.contains(taken) => "wwpns",
                    () => "initiators",
                };
                return Err(Error::conflict(message).about(field));
            }
        }
        Ok(())
    }

    /// Volumes and snapshots that hosts see over SCSI (iSCSI or Fibre Channel) and over NVMe/TCP at once, without those that
    /// may be.
    pub fn mixed_transports(&self) -> BTreeSet<DiskId> {
        let (mut scsi, mut nvme) = (BTreeSet::new(), BTreeSet::new());
        for connection in self.connections.iter() {
            for host in self.hosts_of(connection.peer) {
                let has_scsi = !host.initiators.is_empty() || !host.wwpns.is_empty();
                scsi.extend(has_scsi.then_some(connection.volume));
                nvme.extend((!host.nqns.is_empty()).then_some(connection.volume));
            }
        }
        let may_be = |id: &DiskId| self.volumes.get(*id).is_some_and(|volume| volume.mixed_transports);
        scsi.intersection(&nvme).copied().filter(|id| !may_be(id)).collect()
    }

    /// The group of a host.
    pub fn group_of(&self, host: HostId) -> Option<&HostGroupEntry> {
        self.host_groups.iter().find(|group| group.hosts.contains(&host))
    }

    /// The volumes of a group, in order of names.
    pub fn members(&self, group: GroupId) -> impl Iterator<Item = &VolumeEntry> {
        self.volumes.iter().filter(move |volume| volume.group == Some(group))
    }
}
