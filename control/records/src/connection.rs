//! Who sees which volume: connections with hosts and with host groups, and the view of one host that follows.

use crate::host::{HostEntry, HostGroupId, HostId};
use crate::{Config, Error, Result};
use block::DiskId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Highest LUN of flat space addressing (SAM-5 4.7.3).
pub const MAX_LUN: u16 = 16_383;

/// Checks a LUN that an operator chose.
///
/// # Errors
/// When it can't be addressed.
pub fn check_lun(lun: u16) -> Result<u16> {
    if lun > MAX_LUN {
        return Err(Error::invalid(format!("LUN {lun} can't be addressed: use 0 to {MAX_LUN}")));
    }
    Ok(lun)
}

/// Who a volume can be connected with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Peer {
    /// One host.
    Host(HostId),
    /// Every host of a group.
    HostGroup(HostGroupId),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Host(id) => write!(f, "host-{:016x}", id.0),
            Peer::HostGroup(id) => write!(f, "host-group-{:016x}", id.0),
        }
    }
}

/// A connection as configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionEntry {
    /// The volume.
    #[serde(with = "crate::id::disk")]
    pub volume: DiskId,
    /// Who sees it.
    pub peer: Peer,
    /// Under which LUN.
    pub lun: u16,
    /// Its writes are refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// Every connection, found from both of its ends.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    by_peer: BTreeMap<Peer, BTreeMap<u16, ConnectionEntry>>,
    by_volume: BTreeMap<DiskId, BTreeMap<Peer, u16>>,
}

impl Connections {
    /// Puts a connection in the place of the one between the same two. False when its LUN is taken.
    pub fn put(&mut self, entry: ConnectionEntry) -> bool {
        self.remove(&entry);
        let luns = self.by_peer.entry(entry.peer).or_default();
        if luns.contains_key(&entry.lun) {
            return false;
        }
        self.by_volume.entry(entry.volume).or_default().insert(entry.peer, entry.lun);
        luns.insert(entry.lun, entry);
        true
    }

    /// Takes out the connection between the same two.
    pub fn remove(&mut self, entry: &ConnectionEntry) {
        let Some(peers) = self.by_volume.get_mut(&entry.volume) else { return };
        let lun = peers.remove(&entry.peer);
        if peers.is_empty() {
            self.by_volume.remove(&entry.volume);
        }
        if let (Some(lun), Some(luns)) = (lun, self.by_peer.get_mut(&entry.peer)) {
            luns.remove(&lun);
            if luns.is_empty() {
                self.by_peer.remove(&entry.peer);
            }
        }
    }

    /// The connection between two.
    pub fn between(&self, volume: DiskId, peer: Peer) -> Option<&ConnectionEntry> {
        let lun = self.by_volume.get(&volume)?.get(&peer)?;
        self.by_peer.get(&peer)?.get(lun)
    }

    /// All connections.
    pub fn iter(&self) -> impl Iterator<Item = &ConnectionEntry> {
        self.by_peer.values().flat_map(BTreeMap::values)
    }

    /// What a peer sees, by LUN.
    pub fn of_peer(&self, peer: Peer) -> impl Iterator<Item = &ConnectionEntry> {
        self.by_peer.get(&peer).into_iter().flat_map(BTreeMap::values)
    }

    /// The connections of a volume or snapshot: hosts, then host groups.
    pub fn of_volume(&self, volume: DiskId) -> impl Iterator<Item = &ConnectionEntry> {
        let peers = self.by_volume.get(&volume).into_iter().flatten();
        peers.filter_map(|(peer, lun)| self.by_peer.get(peer)?.get(lun))
    }
}

impl Config {
    /// The connections that a host has, its own and those of its group.
    pub fn seen_by(&self, host: HostId) -> impl Iterator<Item = &ConnectionEntry> {
        let group = self.group_of(host).map(|group| Peer::HostGroup(group.id));
        let peers = std::iter::once(Peer::Host(host)).chain(group);
        peers.flat_map(|peer| self.connections.of_peer(peer))
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

    /// What a peer is called.
    pub fn peer_name(&self, peer: Peer) -> String {
        let name = match peer {
            Peer::Host(id) => self.hosts.get(id).map(|host| format!("host {:?}", host.name)),
            Peer::HostGroup(id) => {
                self.host_groups.get(id).map(|group| format!("host group {:?}", group.name))
            }
        };
        name.unwrap_or_else(|| peer.to_string())
    }

    /// The LUN for a new connection: the given one when it is free for every host of the peer, or the
    /// lowest free one from `min_lun`. A host sees a volume once only.
    pub fn choose_lun(&self, volume: DiskId, peer: Peer, lun: Option<u16>, min_lun: u16) -> Result<u16> {
        let mut taken: BTreeMap<u16, DiskId> =
            self.connections.of_peer(peer).map(|entry| (entry.lun, entry.volume)).collect();
        for host in self.hosts_of(peer) {
            taken.extend(self.seen_by(host.id).map(|entry| (entry.lun, entry.volume)));
        }
        let who = self.peer_name(peer);
        if let Some((lun, _)) = taken.iter().find(|(_, seen)| **seen == volume) {
            let name = self.disk_name(volume).unwrap_or_default();
            let message =
                format!("{who} sees {name:?} already, as LUN {lun}: disconnect it first to change that");
            return Err(Error::conflict(message).about("host_group"));
        }
        match lun.map(check_lun).transpose()? {
            Some(lun) if taken.contains_key(&lun) => {
                let message = format!(
                    "LUN {lun} of {who} is taken: choose another, or none to get the lowest free one"
                );
                Err(Error::conflict(message).about("lun"))
            }
            Some(lun) => Ok(lun),
            None => (min_lun..=MAX_LUN).find(|lun| !taken.contains_key(lun)).ok_or_else(|| {
                Error::precondition(format!(
                    "{who} has no free LUN from {min_lun}: disconnect a volume first"
                ))
            }),
        }
    }
}
