//! Connections: which host or host group sees which volume or snapshot, under which LUN.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::events::audit::Object;
use crate::request::verbs;
use crate::shape::ensure::{Ensured, Existing};
use crate::shape::view::{Attachment, Connection, NvmeAttachment};
use crate::{Error, Result};
use block::{Disk, DiskId};
use records::{ChosenLun, Config, ConnectionEntry, Edit, Peer, Record};
use serde::Serialize;

/// The fields of a request that name both ends.
const ENDS: &[&str] = &["volume", "peer"];

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
        Ok(Attachment {
            connection,
            serial: scsi::serial_number(entry.volume),
            bytes: geometry.bytes(),
            block_bytes: geometry.block_bytes,
            target_iqn: self.identity.target_iqn(),
            portals: self.parts.server.portals(),
            chap: hosts.iter().any(|host| host.chap.is_some()),
            mutual_chap: hosts.iter().any(|host| host.mutual.is_some()),
            nvme: hosts.iter().any(|host| !host.nqns.is_empty()).then(|| NvmeAttachment {
                subsystem_nqn: self.identity.subsystem_nqn(),
                nsid: nvmf::nsid(entry.lun),
                portals: self.parts.subsystem.portals().iter().map(|portal| portal.address).collect(),
            }),
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
