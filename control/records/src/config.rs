//! Configuration in memory: all records, by identity and by name.
//!
//! A change is a list of [`Edit`]s that is committed as one step and then applied here; a start applies the stored
//! records. So memory always equals the state after a restart.

use crate::array::ArrayIdentity;
use crate::connection::Peer;
use crate::disk::{DiskEntry, SnapshotEntry, VolumeEntry};
use crate::host::{HostEntry, HostGroupEntry};
use crate::id::{GroupId, HostId, ScheduleId};
mod connections;

pub use crate::record::Config;
use crate::record::Record;
use crate::schedule::Subject;
use crate::stage::Stage;
use crate::table::Key;
use crate::topic::Topic;
use crate::{Error, Result};
use block::DiskId;
use std::collections::BTreeSet;

/// A step of a change.
#[derive(Clone, Debug)]
pub enum Edit {
    /// Inserts a record, or replaces the one with the same identity.
    Put(Record),
    /// Removes a record.
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

    /// Topics of a step. `before`: the previous stage of its volume or snapshot.
    pub fn topics(&self, before: Option<Stage>) -> impl Iterator<Item = Topic> {
        let (record, put) = self.record();
        let after = record.stage().filter(|_| put);
        let binned = before == Some(Stage::Binned) || after == Some(Stage::Binned);
        std::iter::once(record.declaration().topic).chain(binned.then_some(Topic::RecycleBin))
    }
}

impl DiskEntry {
    /// Record of the entry.
    pub fn record(self) -> Record {
        match self {
            DiskEntry::Volume(it) => Record::Volume(it),
            DiskEntry::Snapshot(it) => Record::Snapshot(it),
        }
    }
}

impl Config {
    /// The name of the array: from the settings, or its initial one.
    pub fn name_of_array<'a>(&'a self, identity: &'a ArrayIdentity) -> &'a str {
        self.settings.name.as_deref().unwrap_or(&identity.name)
    }

    /// The volume or snapshot with this identity or unique name.
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

    /// Checks that no volume or snapshot has this name.
    pub fn disk_name_free(&self, name: &str) -> Result<()> {
        self.volumes.free(name)?;
        self.snapshots.free(name)
    }

    /// Checks that no host other than `own` has these initiator names, NQNs or WWPNs.
    pub fn initiators_free(&self, names: &[String], own: Option<HostId>) -> Result<()> {
        let owner = |name: &String| self.host_of_port(name).filter(|host| Some(host.id) != own);
        let Some((taken, host)) = names.iter().find_map(|name| Some((name, owner(name)?))) else {
            return Ok(());
        };
        let message =
            format!("initiator {taken} belongs to host {:?}: use that host, or delete it first", host.name);
        let field = match () {
            () if host.nqns.contains(taken) => "nqns",
            () if host.wwpns.contains(taken) => "wwpns",
            () => "initiators",
        };
        Err(Error::conflict(message).about(field))
    }

    /// The host with this initiator name, NQN or WWPN.
    pub fn host_of_port(&self, name: &str) -> Option<&HostEntry> {
        self.hosts.with_key(&Key::Port(name.to_owned())).next()
    }

    /// Volumes and snapshots that hosts see over SCSI (iSCSI or Fibre Channel) and NVMe/TCP at once, except those for
    /// which this is allowed.
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

    /// The part of the configuration that determines the hosts of the disks in these edits: these disks, their
    /// connections, and all hosts and host groups involved. The edits can be applied to it.
    pub fn around(&self, edits: &[Edit]) -> Config {
        let (mut disks, mut peers, mut changed) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for edit in edits {
            match edit.record().0 {
                Record::Volume(it) => drop(disks.insert(it.id)),
                Record::Connection(it) => {
                    disks.insert(it.volume);
                    peers.insert(it.peer);
                }
                Record::HostGroup(it) => {
                    changed.push(Peer::HostGroup(it.id));
                    peers.extend(it.hosts.iter().copied().map(Peer::Host));
                }
                Record::Host(it) => {
                    changed.push(Peer::Host(it.id));
                    changed.extend(self.group_of(it.id).map(|group| Peer::HostGroup(group.id)));
                }
                _ => {}
            }
        }
        disks.extend(changed.iter().flat_map(|peer| self.connections.of_peer(*peer)).map(|it| it.volume));
        let mut part = Config::default();
        for id in disks {
            part.volumes.extend(self.volumes.get(id).cloned());
            part.snapshots.extend(self.snapshots.get(id).cloned());
            for connection in self.connections.of_volume(id) {
                part.connections.put(connection.clone());
                peers.insert(connection.peer);
            }
        }
        for peer in peers {
            part.hosts.extend(self.hosts_of(peer).into_iter().cloned());
            if let Peer::HostGroup(id) = peer {
                part.host_groups.extend(self.host_groups.get(id).cloned());
            }
        }
        part
    }

    /// The group of a host.
    pub fn group_of(&self, host: HostId) -> Option<&HostGroupEntry> {
        self.host_groups.with_key(&Key::Member(host)).next()
    }

    /// The volumes of a group, ordered by name.
    pub fn members(&self, group: GroupId) -> impl Iterator<Item = &VolumeEntry> {
        self.volumes.with_key(&Key::Group(group))
    }

    /// The snapshots of a volume, ordered by name.
    pub fn snapshots_of(&self, volume: DiskId) -> impl Iterator<Item = &SnapshotEntry> {
        self.snapshots.with_key(&Key::Source(volume))
    }

    /// All volumes and snapshots, at any stage.
    pub fn disks(&self) -> impl Iterator<Item = DiskEntry> {
        let volumes = self.volumes.all().cloned().map(DiskEntry::Volume);
        volumes.chain(self.snapshots.all().cloned().map(DiskEntry::Snapshot))
    }

    /// The volumes and snapshots in the recycle bin.
    pub fn binned(&self) -> impl Iterator<Item = DiskEntry> {
        let volumes = self.volumes.all().filter(|entry| entry.stage == Stage::Binned);
        let snapshots = self.snapshots.all().filter(|entry| entry.stage == Stage::Binned);
        volumes.cloned().map(DiskEntry::Volume).chain(snapshots.cloned().map(DiskEntry::Snapshot))
    }

    /// Sequence number of the newest snapshot of a schedule.
    pub fn newest_of(&self, schedule: ScheduleId) -> u64 {
        let own = self.snapshots.all().filter(|it| it.schedule == Some(schedule));
        own.map(|it| it.order).max().unwrap_or(0)
    }

    /// The name of a volume, or that of a group.
    pub fn subject_names(&self, subject: Subject) -> (Option<String>, Option<String>) {
        match subject {
            Subject::Volume(id) => (Some(self.disk_name(id).unwrap_or_default().to_owned()), None),
            Subject::Group(id) => {
                (None, Some(self.groups.get(id).map(|group| group.name.clone()).unwrap_or_default()))
            }
        }
    }

    /// The volumes that a schedule takes snapshots of.
    pub fn scheduled(&self, subject: Subject) -> Vec<VolumeEntry> {
        match subject {
            Subject::Volume(id) => self.volumes.get(id).cloned().into_iter().collect(),
            Subject::Group(id) => self.members(id).cloned().collect(),
        }
    }
}
