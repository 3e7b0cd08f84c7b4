//! Connections: which host or host group sees which volume or snapshot, under which LUN.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::events::audit::Object;
use crate::request::verbs;
use crate::shape::ensure::{Ensured, Existing};
use crate::shape::{digits, shapes};
use crate::{Error, Result};
use block::{Disk, DiskId};
use records::{ChosenLun, Config, ConnectionEntry, Edit, HostGroupId, HostId, Peer, Record};
use serde::Serialize;
use std::net::IpAddr;
use utoipa::ToSchema;

/// The fields of a request that name both ends.
const ENDS: &[&str] = &["volume", "peer"];

/// A connection of a volume or snapshot to a host or host group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
pub struct Connection {
    /// Volume or snapshot.
    pub volume: String,
    /// Permanent identifier of the volume or snapshot.
    #[serde(serialize_with = "digits")]
    #[schema(value_type = String)]
    pub volume_id: DiskId,
    /// Identifier reported to hosts (NAA, VPD page 83h).
    pub naa: String,
    /// Host; `null` for a connection to a host group.
    pub host: Option<String>,
    /// Permanent identifier of the host.
    #[schema(value_type = Option<String>)]
    pub host_id: Option<HostId>,
    /// Host group; in the connections of a host, the group that the connection is inherited from.
    pub host_group: Option<String>,
    /// Permanent identifier of the host group.
    #[schema(value_type = Option<String>)]
    pub host_group_id: Option<HostGroupId>,
    /// Logical unit number.
    pub lun: u16,
    /// Whether writes are refused, by the connection or because the snapshot is not writable.
    pub read_only: bool,
}

/// A connection with everything that a host needs to attach the volume or snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Attachment {
    /// Volume or snapshot.
    pub volume: String,
    /// Permanent identifier of the volume or snapshot.
    #[serde(serialize_with = "digits")]
    #[schema(value_type = String)]
    pub volume_id: DiskId,
    /// Identifier reported to hosts (NAA, VPD page 83h).
    pub naa: String,
    /// Serial number reported to hosts (VPD page 80h).
    pub serial: String,
    /// Size presented to hosts, in bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub size: u64,
    /// Logical block length in bytes: 512 or 4096.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub block_size: u32,
    /// Host; `null` for a connection to a host group.
    pub host: Option<String>,
    /// Permanent identifier of the host.
    #[schema(value_type = Option<String>)]
    pub host_id: Option<HostId>,
    /// Host group; `null` for a connection to a host.
    pub host_group: Option<String>,
    /// Permanent identifier of the host group.
    #[schema(value_type = Option<String>)]
    pub host_group_id: Option<HostGroupId>,
    /// Logical unit number.
    pub lun: u16,
    /// Whether writes are refused, by the connection or because the snapshot is not writable.
    pub read_only: bool,
    /// iSCSI target name.
    pub target_iqn: String,
    /// iSCSI portals.
    pub portals: Vec<AttachmentPortal>,
    /// Whether the host, or a host of the host group, must present CHAP credentials.
    pub chap: bool,
    /// Whether the array presents CHAP credentials to the host, or to a host of the host group.
    pub mutual_chap: bool,
    /// NQN of the array's NVMe subsystem; `null` if no host of the connection has an NQN.
    pub subsystem_nqn: Option<String>,
    /// Namespace identifier over NVMe/TCP: the logical unit number + 1; `null` likewise.
    pub nsid: Option<u32>,
    /// NVMe/TCP portals, those with port 8009 for discovery only; none if no host of the connection has an NQN.
    pub nvme_portals: Vec<NvmeAddress>,
}

/// The address of an NVMe/TCP portal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct NvmeAddress {
    /// IP address, IPv6 without brackets. An array that listens on all addresses reports the one at which the API was reached.
    #[schema(value_type = String)]
    pub address: IpAddr,
    /// TCP port.
    pub port: u16,
}

/// An iSCSI portal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Portal)]
pub struct AttachmentPortal {
    /// IP address, IPv6 without brackets. An array that listens on all addresses reports the one at which the API was reached.
    #[schema(value_type = String)]
    pub address: IpAddr,
    /// TCP port.
    pub port: u16,
    /// Target portal group tag.
    pub group_tag: u16,
}

impl Attachment {
    /// Puts the address at which the API was reached in the place of an unspecified one.
    pub fn reached_at(&mut self, address: IpAddr) {
        let portals = self.portals.iter_mut().map(|it| &mut it.address);
        let all = portals.chain(self.nvme_portals.iter_mut().map(|it| &mut it.address));
        all.filter(|it| it.is_unspecified()).for_each(|it| *it = address);
    }
}

shapes! {
    Connection: "Connections" "Connections." "Sorted by volume";
}

/// A host or a host group, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerName {
    /// A host.
    Host(String),
    /// A host group.
    HostGroup(String),
}

impl PeerName {
    /// For the audit log, with its name if it was given by its identity.
    fn shown(&self, config: &Config) -> String {
        match self {
            PeerName::Host(which) => format!("host {}", config.name_for(which)),
            PeerName::HostGroup(which) => format!("host group {}", config.name_for(which)),
        }
    }
}

/// Connects a volume or a snapshot to a host or a host group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreateConnection {
    /// Name of the volume or snapshot.
    pub volume: String,
    /// The host or host group.
    pub peer: PeerName,
    /// The LUN, 0 to 16383; if none is given, the lowest free one, over NVMe/TCP that named no other volume before.
    pub lun: Option<u16>,
    /// When no LUN is given: the lowest one to choose.
    pub min_lun: Option<u16>,
    /// Refuse writes, whatever the volume takes. A snapshot that is not writable takes none in any case.
    pub read_only: bool,
}

/// Disconnects a volume or a snapshot from a host or a host group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeleteConnection {
    /// Name of the volume or snapshot.
    pub volume: String,
    /// The host or host group.
    pub peer: PeerName,
}

/// One connection, with what a host needs to attach it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowConnection {
    /// Name of the volume or snapshot.
    pub volume: String,
    /// The host or host group.
    pub peer: PeerName,
}

verbs! {
    #![tag = "connections"]

    CreateConnection -> Ensured<Attachment>, Change "connect" "volume", Operator,
        of |it, config| Object::of(ENDS, &format!("{} to {}", config.name_for(&it.volume), it.peer.shown(config)))
        => |tx, it| {
            let Ensured { object, created } = tx.connect(it).await?;
            tx.array.attachment_of(&object).map(|object| Ensured { object, created })
        };
    DeleteConnection -> (), Change "disconnect" "volume", Operator,
        of |it, config| Object::of(ENDS, &format!("{} from {}", config.name_for(&it.volume), it.peer.shown(config)))
        => |tx, it| tx.disconnect(&it.volume, &it.peer).await;
    ShowConnection -> Attachment, Read "show" "connection", Viewer,
        of |it, config| Object::of(ENDS, &format!("{} to {}", config.name_for(&it.volume), it.peer.shown(config)))
        => |tx, it| tx.array.attachment(&it.volume, &it.peer);
    /// List connections of volumes and snapshots to hosts and host groups
    ListConnections {} -> Vec<Connection>, Read "list" "connection", Viewer, at GET "/connections"
        => |tx, _| Ok(tx.array.connections(&tx.array.config()));
}

impl Transaction<'_> {
    pub async fn connect(&mut self, new: CreateConnection) -> Result<Ensured<ConnectionEntry>> {
        let CreateConnection { volume, peer, lun, min_lun, read_only } = new;
        if lun.is_some() && min_lun.is_some() {
            return Err(Error::invalid("give either a LUN, or the lowest one to choose").about("min_lun"));
        }
        [lun, min_lun].into_iter().flatten().try_for_each(|lun| records::check_lun(lun).map(drop))?;
        let (entry, who, existing) = {
            let config = self.config();
            let id = config.disk_named(&volume)?;
            let peer = peer_named(&config, &peer)?;
            let existing = config.connections.between(id, peer).cloned();
            let ChosenLun { lun, reused } = match &existing {
                Some(existing) => ChosenLun { lun: existing.lun, reused: existing.reused },
                None => config.choose_lun(id, peer, lun, min_lun.unwrap_or(0))?,
            };
            (ConnectionEntry { volume: id, peer, lun, read_only, reused }, config.peer_name(peer), existing)
        };
        if let Some(existing) = existing {
            let (_, name) = self.noun_and_name(entry.volume);
            let name = format!("{name} to {}", who.replace('"', ""));
            let same = Existing { noun: "connection", name: &name };
            same.same("lun", lun.is_none_or(|lun| lun == existing.lun))?;
            same.same("min_lun", min_lun.is_none_or(|least| existing.lun >= least))?;
            same.same("read_only", existing.read_only == read_only)?;
            return Ok(Ensured::existing(existing));
        }
        self.add_connection(&entry).await?;
        Ok(Ensured::new(entry))
    }

    /// Connects a disk as `entry` says, which is no connection yet.
    pub(crate) async fn add_connection(&mut self, entry: &ConnectionEntry) -> Result<()> {
        let (noun, name) = self.noun_and_name(entry.volume);
        if !self.is_rehearsal() {
            self.array.disk(entry.volume, &name)?;
        }
        self.commit(vec![Edit::Put(Record::Connection(entry.clone()))]).await?;
        let who = self.config().peer_name(entry.peer);
        let what = format!("was connected to {who} as LUN {}", entry.lun);
        self.done(&format!("{noun}.connected"), noun, &name, &what);
        Ok(())
    }

    /// Disconnects; nothing happens if there is no such connection.
    pub async fn disconnect(&mut self, volume: &str, peer: &PeerName) -> Result<()> {
        let (entry, who) = {
            let config = self.config();
            let id = config.disk_named(volume)?;
            let peer = peer_named(&config, peer)?;
            (config.connections.between(id, peer).cloned(), config.peer_name(peer))
        };
        let Some(entry) = entry else { return Ok(()) };
        let (noun, name) = self.noun_and_name(entry.volume);
        self.commit(vec![Edit::Remove(Record::Connection(entry))]).await?;
        self.done(&format!("{noun}.disconnected"), noun, &name, &format!("was disconnected from {who}"));
        Ok(())
    }

    fn noun_and_name(&self, id: DiskId) -> (&'static str, String) {
        let config = self.config();
        (noun_of_disk(&config, id), config.disk_name(id).unwrap_or_default().to_owned())
    }
}

impl Array {
    /// All connections, by volume.
    pub(crate) fn connections(&self, config: &Config) -> Vec<Connection> {
        let snapshots = config.snapshots.iter().map(|entry| entry.id);
        let disks = config.volumes.iter().map(|entry| entry.id).chain(snapshots);
        disks.flat_map(|id| self.connections_of(config, id)).collect()
    }

    /// A connection with the names of both ends.
    pub(crate) fn connection(&self, config: &Config, entry: &ConnectionEntry) -> Option<Connection> {
        let volume = config.disk_name(entry.volume)?.to_owned();
        let (host, host_group) = match entry.peer {
            Peer::Host(id) => (Some(config.hosts.get(id)?), None),
            Peer::HostGroup(id) => (None, Some(config.host_groups.get(id)?)),
        };
        let volume_id = entry.volume;
        let locked = || self.parts.engine.volume(entry.volume).is_some_and(|disk| disk.is_read_only());
        let read_only = entry.read_only || locked();
        Some(Connection {
            volume,
            volume_id,
            naa: scsi::naa(volume_id),
            host: host.map(|it| it.name.clone()),
            host_id: host.map(|it| it.id),
            host_group: host_group.map(|it| it.name.clone()),
            host_group_id: host_group.map(|it| it.id),
            lun: entry.lun,
            read_only,
        })
    }

    /// The connections of a volume or snapshot.
    pub(crate) fn connections_of(&self, config: &Config, id: DiskId) -> Vec<Connection> {
        let seen = config.connections.of_volume(id);
        let mut all: Vec<_> = seen.filter_map(|entry| self.connection(config, entry)).collect();
        all.sort_by(|a, b| {
            (a.host.is_none(), &a.host, &a.host_group).cmp(&(b.host.is_none(), &b.host, &b.host_group))
        });
        all
    }

    /// The connection between two, with what a host needs to attach it.
    fn attachment(&self, volume: &str, peer: &PeerName) -> Result<Attachment> {
        let entry = {
            let config = self.config();
            let (id, peer) = (config.disk_named(volume)?, peer_named(&config, peer)?);
            let found = config.connections.between(id, peer).cloned();
            found.ok_or_else(|| {
                let name = config.disk_name(id).unwrap_or_default();
                Error::not_found(format!("{name:?} is not connected to {}", config.peer_name(peer)))
            })?
        };
        self.attachment_of(&entry)
    }

    fn attachment_of(&self, entry: &ConnectionEntry) -> Result<Attachment> {
        let config = self.config();
        let gone = || Error::not_found("the connection is gone");
        let connection = self.connection(&config, entry).ok_or_else(gone)?;
        let geometry = self.disk(entry.volume, &connection.volume)?.geometry();
        let hosts = config.hosts_of(entry.peer);
        let has_nvme = hosts.iter().any(|host| !host.nqns.is_empty());
        let portal = |it: iscsi::Portal| AttachmentPortal {
            address: it.address.ip(),
            port: it.address.port(),
            group_tag: it.number,
        };
        let nvme_portals = self.parts.subsystem.portals().into_iter().filter(|_| has_nvme);
        Ok(Attachment {
            volume: connection.volume,
            volume_id: connection.volume_id,
            naa: connection.naa,
            serial: scsi::serial_number(entry.volume),
            size: geometry.bytes(),
            block_size: geometry.block_bytes,
            host: connection.host,
            host_id: connection.host_id,
            host_group: connection.host_group,
            host_group_id: connection.host_group_id,
            lun: connection.lun,
            read_only: connection.read_only,
            target_iqn: self.identity.target_iqn(),
            portals: self.parts.server.portals().into_iter().map(portal).collect(),
            chap: hosts.iter().any(|host| host.chap.is_some()),
            mutual_chap: hosts.iter().any(|host| host.mutual.is_some()),
            subsystem_nqn: has_nvme.then(|| self.identity.subsystem_nqn()),
            nsid: has_nvme.then(|| nvmf::nsid(entry.lun)),
            nvme_portals: nvme_portals
                .map(|it| NvmeAddress { address: it.address.ip(), port: it.address.port() })
                .collect(),
        })
    }
}

pub(crate) fn peer_named(config: &Config, peer: &PeerName) -> Result<Peer> {
    Ok(match peer {
        PeerName::Host(name) => Peer::Host(config.hosts.named(name)?.id),
        PeerName::HostGroup(name) => Peer::HostGroup(config.host_groups.named(name)?.id),
    })
}

/// What a volume or snapshot is called in messages.
pub(crate) fn noun_of_disk(config: &Config, id: DiskId) -> &'static str {
    if config.snapshots.get(id).is_some() { "snapshot" } else { "volume" }
}
