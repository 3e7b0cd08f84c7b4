//! Connections in the configuration: LUNs and NSIDs, and what a change makes of those that were used.

use crate::connection::{ChosenLun, ConnectionEntry, MAX_LUN, MAX_LUN_OF_ALL_SCSI_HOSTS, Peer, check_lun};
use crate::host::{HostEntry, HostGroupEntry};
use crate::id::{HostGroupId, HostId};
use crate::record::Record;
use crate::{Config, Edit, Error, Result};
use block::DiskId;
use std::collections::{BTreeMap, BTreeSet};

impl Config {
    /// The peers whose connections apply to a host: the host and its group.
    fn peers_of(&self, host: HostId) -> impl Iterator<Item = Peer> + use<> {
        let group = self.group_of(host).map(|group| Peer::HostGroup(group.id));
        std::iter::once(Peer::Host(host)).chain(group)
    }

    /// The connections of a host and of its group.
    pub fn seen_by(&self, host: HostId) -> impl Iterator<Item = &ConnectionEntry> {
        self.peers_of(host).flat_map(|peer| self.connections.of_peer(peer))
    }

    /// The connection of a host, or of its group, with this LUN.
    pub fn seen_at(&self, host: HostId, lun: u16) -> Option<&ConnectionEntry> {
        self.peers_of(host).find_map(|peer| self.connections.at(peer, lun))
    }

    /// The hosts of a peer.
    pub fn hosts_of(&self, peer: Peer) -> Vec<&HostEntry> {
        match peer {
            Peer::Host(id) => self.hosts.get(id).into_iter().collect(),
            Peer::HostGroup(id) => {
                let members = self.host_groups.get(id).into_iter().flat_map(|group| &group.hosts);
                members.filter_map(|id| self.hosts.get(*id)).collect()
            }
        }
    }

    /// Name of a peer.
    pub fn peer_name(&self, peer: Peer) -> String {
        let name = match peer {
            Peer::Host(id) => self.hosts.get(id).map(|host| format!("host {:?}", host.name)),
            Peer::HostGroup(id) => {
                self.host_groups.get(id).map(|group| format!("host group {:?}", group.name))
            }
        };
        name.unwrap_or_else(|| peer.to_string())
    }

    /// LUN of a new connection: the given one if it is free for every host of the peer, or the lowest free one from
    /// `min_lun`; for NVMe/TCP, preferably the lowest one that never named another volume. A host sees a volume at most
    /// once.
    ///
    /// # Errors
    /// If the given LUN is taken, no LUN is free, or a host already sees the volume.
    pub fn choose_lun(
        &self,
        volume: DiskId,
        peer: Peer,
        lun: Option<u16>,
        min_lun: u16,
    ) -> Result<ChosenLun> {
        // Each peer once, although all hosts of a group share the group. Groups come last.
        let hosts = self.hosts_of(peer).into_iter().flat_map(|host| self.peers_of(host.id));
        let peers: BTreeSet<Peer> = hosts.chain([peer]).collect();
        let who = self.peer_name(peer);
        let seen = peers.iter().find_map(|peer| self.connections.between(volume, *peer));
        if let Some(ConnectionEntry { lun, .. }) = seen {
            let name = self.disk_name(volume).unwrap_or_default();
            let message =
                format!("{who} sees {name:?} already, as LUN {lun}: disconnect it first to change that");
            return Err(Error::conflict(message).about("host_group"));
        }
        let is_taken = |lun: u16| peers.iter().rev().any(|peer| self.connections.at(*peer, lun).is_some());
        let retired = self.retired_below(peer);
        let lun = match lun.map(check_lun).transpose()? {
            Some(lun) if is_taken(lun) => {
                let message = format!(
                    "LUN {lun} of {who} is in use: choose another, or none to get the lowest free one"
                );
                Err(Error::conflict(message).about("lun"))
            }
            Some(lun) => Ok(lun),
            None => {
                let free = |lun: &u16| !is_taken(*lun);
                let unused = (min_lun.max(retired)..=self.max_chosen_lun(peer)).find(free);
                unused.or_else(|| (min_lun..=MAX_LUN).find(free)).ok_or_else(|| {
                    Error::precondition(format!(
                        "{who} has no free LUN from {min_lun}: disconnect a volume first"
                    ))
                })
            }
        };
        lun.map(|lun| ChosenLun { lun, reused: lun < retired })
    }

    /// LUNs of a peer below this may have named other volumes over NVMe/TCP.
    fn retired_below(&self, peer: Peer) -> u16 {
        let of_group = match peer {
            Peer::Host(id) => self.group_of(id),
            Peer::HostGroup(id) => self.host_groups.get(id),
        };
        let hosts = self.hosts_of(peer).into_iter().filter(|host| !host.nqns.is_empty());
        let of_hosts = hosts.map(|host| host.luns_retired_below);
        of_hosts.chain(of_group.map(|group| group.luns_retired_below)).max().unwrap_or(0)
    }

    /// The highest LUN that is preferred over a reused lower one.
    fn max_chosen_lun(&self, peer: Peer) -> u16 {
        let has_scsi = |host: &&HostEntry| !host.initiators.is_empty() || !host.wwpns.is_empty();
        match self.hosts_of(peer).iter().any(has_scsi) {
            true => MAX_LUN_OF_ALL_SCSI_HOSTS,
            false => MAX_LUN,
        }
    }

    /// A change together with the records of the LUNs that it frees for hosts with NVMe/TCP: a host that was away may
    /// use a namespace identifier for the volume that it knew.
    pub fn retiring_luns(&self, mut edits: Vec<Edit>) -> Vec<Edit> {
        let mut retired: BTreeMap<Peer, u16> = BTreeMap::new();
        let mut retire = |peer: Peer, below: u16| {
            let uses_nvme = self.hosts_of(peer).iter().any(|host| !host.nqns.is_empty());
            if uses_nvme && below > 0 {
                let known = retired.entry(peer).or_default();
                *known = below.max(*known);
            }
        };
        for edit in &edits {
            match edit.record() {
                (Record::Connection(entry), stays) => {
                    let before = self.connections.between(entry.volume, entry.peer);
                    if let Some(before) = before.filter(|before| !stays || before.lun != entry.lun) {
                        retire(entry.peer, before.lun + 1);
                    }
                }
                (Record::HostGroup(entry), stays) => {
                    let Some(before) = self.host_groups.get(entry.id) else { continue };
                    let last = self.connections.of_peer(Peer::HostGroup(entry.id)).last();
                    let below = last.map_or(0, |it| it.lun + 1).max(before.luns_retired_below);
                    let leave = before.hosts.iter().filter(|id| !stays || !entry.hosts.contains(id));
                    leave.for_each(|id| retire(Peer::Host(*id), below));
                }
                _ => {}
            }
        }
        for (peer, below) in retired {
            self.retire_below(peer, below, &mut edits);
        }
        self.following_nqns(edits)
    }

    /// A change together with the records of the LUNs that machines knew by NQNs which move to another host: that of a host that is
    /// deleted and created again is one.
    fn following_nqns(&self, mut edits: Vec<Edit>) -> Vec<Edit> {
        let nqns_of = |host: Option<&HostEntry>| -> BTreeSet<String> {
            host.into_iter().flat_map(|host| host.nqns.iter().cloned()).collect()
        };
        let mut former = self.former_nqns.clone();
        let mut gained: BTreeMap<HostId, BTreeSet<String>> = BTreeMap::new();
        for edit in &edits {
            let (Record::Host(host), stays) = edit.record() else { continue };
            let before = self.hosts.get(host.id);
            let (known, now) = (nqns_of(before), nqns_of(stays.then_some(host)));
            let below = before.map_or(0, |before| self.known_below(before));
            known.difference(&now).for_each(|nqn| former.put(nqn, below));
            gained.insert(host.id, now.difference(&known).cloned().collect());
        }
        for (id, nqns) in gained {
            let below = nqns.iter().map(|nqn| former.take(nqn)).max().unwrap_or(0);
            if below == 0 {
                continue;
            }
            self.retire_below(Peer::Host(id), below, &mut edits);
            let own = self.connections.of_peer(Peer::Host(id)).filter(|it| it.lun < below && !it.reused);
            let reused =
                own.map(|entry| Record::Connection(ConnectionEntry { reused: true, ..entry.clone() }));
            let is_edited = |record: &Record| edits.iter().any(|edit| edit.record().0.key() == record.key());
            let reused: Vec<Edit> = reused.filter(|record| !is_edited(record)).map(Edit::Put).collect();
            edits.extend(reused);
        }
        if former != self.former_nqns {
            edits.push(Edit::Put(Record::FormerNqns(former)));
        }
        edits
    }

    /// A host over NVMe/TCP may know volumes by LUNs below this.
    fn known_below(&self, host: &HostEntry) -> u16 {
        let last = self.seen_by(host.id).map(|entry| entry.lun + 1);
        let of_group = self.group_of(host.id).map(|group| group.luns_retired_below);
        last.chain(of_group).chain([host.luns_retired_below]).max().unwrap_or(0)
    }

    /// Records retired LUNs in the record of a peer, which may be among the edits.
    fn retire_below(&self, peer: Peer, below: u16, edits: &mut Vec<Edit>) {
        let of = |record: &Record| match (record, peer) {
            (Record::Host(host), Peer::Host(id)) => host.id == id,
            (Record::HostGroup(group), Peer::HostGroup(id)) => group.id == id,
            _ => false,
        };
        let known = match peer {
            Peer::Host(id) => self.hosts.get(id).cloned().map(Record::Host),
            Peer::HostGroup(id) => self.host_groups.get(id).cloned().map(Record::HostGroup),
        };
        if !edits.iter().any(|edit| of(edit.record().0)) {
            edits.extend(known.map(Edit::Put));
        }
        for edit in edits {
            match edit {
                Edit::Put(Record::Host(host)) if peer == Peer::Host(host.id) => {
                    host.luns_retired_below = host.luns_retired_below.max(below);
                }
                Edit::Put(Record::HostGroup(group)) if peer == Peer::HostGroup(group.id) => {
                    group.luns_retired_below = group.luns_retired_below.max(below);
                }
                _ => {}
            }
        }
    }

    /// The first host with NVMe/TCP for which a change would increase the number of volumes above `limit`, with that
    /// number.
    pub fn first_above(&self, edits: &[Edit], limit: usize) -> Option<(String, usize)> {
        let mut after = Ahead::default();
        for edit in edits {
            after.note(self, edit);
        }
        after.hosts(self).into_iter().find_map(|host| {
            let count = after.volumes_of(self, host.id);
            let known = self.hosts.get(host.id).filter(|known| !known.nqns.is_empty());
            let before = known.map_or(0, |known| self.seen_by(known.id).count());
            (count > limit && count > before).then(|| (host.name.clone(), count))
        })
    }
}

/// Hosts, groups and numbers of connections after a change.
#[derive(Default)]
struct Ahead {
    hosts: BTreeMap<HostId, Option<HostEntry>>,
    groups: BTreeMap<HostGroupId, Option<HostGroupEntry>>,
    connections: BTreeMap<Peer, BTreeMap<DiskId, bool>>,
}

impl Ahead {
    fn note(&mut self, config: &Config, edit: &Edit) {
        let (record, stays) = edit.record();
        match record {
            Record::Host(host) => drop(self.hosts.insert(host.id, stays.then(|| host.clone()))),
            Record::HostGroup(group) => {
                let before = config.host_groups.get(group.id);
                if stays && before.is_some_and(|before| before.hosts == group.hosts) {
                    return;
                }
                self.groups.insert(group.id, stays.then(|| group.clone()));
            }
            Record::Connection(entry) => {
                self.connections.entry(entry.peer).or_default().insert(entry.volume, stays);
            }
            _ => {}
        }
    }

    /// The hosts affected by the change that use NVMe/TCP.
    fn hosts<'a>(&'a self, config: &'a Config) -> Vec<&'a HostEntry> {
        let mut ids: BTreeSet<HostId> = self.hosts.keys().copied().collect();
        let gaining = self.connections.iter().filter(|(_, volumes)| volumes.values().any(|stays| *stays));
        for peer in gaining.map(|(peer, _)| *peer) {
            ids.extend(config.hosts_of(peer).iter().map(|host| host.id));
        }
        ids.extend(self.groups.values().flatten().flat_map(|group| group.hosts.iter().copied()));
        let host = |id: HostId| self.hosts.get(&id).map_or_else(|| config.hosts.get(id), Option::as_ref);
        ids.into_iter().filter_map(host).filter(|host| !host.nqns.is_empty()).collect()
    }

    fn volumes_of(&self, config: &Config, host: HostId) -> usize {
        let joined = self.groups.values().flatten().find(|group| group.hosts.contains(&host));
        let stays = || config.group_of(host).filter(|group| !self.groups.contains_key(&group.id));
        let group = joined.or_else(stays).map(|group| Peer::HostGroup(group.id));
        std::iter::once(Peer::Host(host)).chain(group).map(|peer| self.connections_of(config, peer)).sum()
    }

    fn connections_of(&self, config: &Config, peer: Peer) -> usize {
        let changed = self.connections.get(&peer);
        let unchanged = |entry: &&ConnectionEntry| changed.is_none_or(|it| !it.contains_key(&entry.volume));
        let added = changed.map_or(0, |volumes| volumes.values().filter(|stays| **stays).count());
        config.connections.of_peer(peer).filter(unchanged).count() + added
    }
}

#[cfg(test)]
#[path = "connections_test.rs"]
mod tests;
