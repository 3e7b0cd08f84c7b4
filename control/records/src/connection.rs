//! Connections of volumes with hosts and host groups, and the resulting view of each host.

use crate::id::{HostGroupId, HostId};
use crate::{Error, Result, work};
use block::DiskId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Highest LUN of flat space addressing (SAM-5 4.7.3).
pub const MAX_LUN: u16 = 16_383;
/// Highest LUN that every SCSI host can address, limited by Windows.
pub(crate) const MAX_LUN_OF_ALL_SCSI_HOSTS: u16 = 254;

/// Checks a LUN from an operator.
///
/// # Errors
/// If the LUN can't be addressed.
pub fn check_lun(lun: u16) -> Result<u16> {
    if lun > MAX_LUN {
        return Err(Error::invalid(format!("LUN {lun} can't be addressed: use 0 to {MAX_LUN}")));
    }
    Ok(lun)
}

/// Peer of a connection: a host or a host group.
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

/// Configuration of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionEntry {
    /// The volume.
    #[serde(with = "crate::id::disk")]
    pub volume: DiskId,
    /// Peer of the connection.
    pub peer: Peer,
    /// LUN of the volume.
    pub lun: u16,
    /// Whether writes are refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Whether the LUN may have named another volume for an NVMe/TCP host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reused: bool,
}

/// A LUN for a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenLun {
    /// The LUN.
    pub lun: u16,
    /// See [`ConnectionEntry::reused`].
    pub reused: bool,
}

/// For serialization: the default is omitted.
pub(crate) fn is_zero(number: &u16) -> bool {
    *number == 0
}

/// All connections, indexed by both ends.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    by_peer: BTreeMap<Peer, BTreeMap<u16, ConnectionEntry>>,
    by_volume: BTreeMap<DiskId, BTreeMap<Peer, u16>>,
}

impl Connections {
    /// Puts a connection in place of the one between the same ends. False if its LUN is taken.
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

    /// Removes the connection between the same ends.
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

    /// The connection between a volume and a peer.
    pub fn between(&self, volume: DiskId, peer: Peer) -> Option<&ConnectionEntry> {
        let lun = self.by_volume.get(&volume)?.get(&peer)?;
        self.at(peer, *lun)
    }

    /// The connection of a peer with this LUN.
    pub fn at(&self, peer: Peer, lun: u16) -> Option<&ConnectionEntry> {
        work::look();
        self.by_peer.get(&peer)?.get(&lun)
    }

    /// All connections.
    pub fn iter(&self) -> impl Iterator<Item = &ConnectionEntry> {
        self.by_peer.values().flat_map(BTreeMap::values).inspect(|_| work::look())
    }

    /// Connections of a peer, by LUN.
    pub fn of_peer(&self, peer: Peer) -> impl Iterator<Item = &ConnectionEntry> {
        self.by_peer.get(&peer).into_iter().flat_map(BTreeMap::values).inspect(|_| work::look())
    }

    /// The connections of a volume or snapshot: hosts, then host groups.
    pub fn of_volume(&self, volume: DiskId) -> impl Iterator<Item = &ConnectionEntry> {
        let peers = self.by_volume.get(&volume).into_iter().flatten();
        peers.filter_map(|(peer, lun)| self.at(*peer, *lun))
    }
}
