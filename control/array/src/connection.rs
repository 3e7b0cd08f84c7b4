//! Connections: which host or host group sees which volume or snapshot, under which LUN.

use crate::request::verbs;
use crate::transaction::Transaction;
use crate::verb::Object;
use crate::view::Connection;
use crate::{Error, Result};
use block::DiskId;
use records::{Config, ConnectionEntry, Edit, Peer, Record};
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

impl std::fmt::Display for PeerName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PeerName::Host(name) => write!(f, "host {name}"),
            PeerName::HostGroup(name) => write!(f, "host group {name}"),
        }
    }
}

/// Connect a volume or a snapshot with a host or a host group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreateConnection {
    /// Name of the volume or snapshot.
    pub volume: String,
    /// Who.
    pub peer: PeerName,
    /// The LUN, 0 to 16383; the lowest free one when none is given.
    pub lun: Option<u16>,
    /// Refuse writes, whatever the volume takes. A snapshot that is not writable takes none anyhow.
    pub read_only: bool,
}

/// Disconnect a volume or a snapshot from a host or a host group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeleteConnection {
    /// Name of the volume or snapshot.
    pub volume: String,
    /// Who.
    pub peer: PeerName,
}

/// All connections, by volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListConnections;

verbs! {
    CreateConnection -> Connection, Change "connect" "volume", Operator,
        of |it, _| Object::of(ENDS, &format!("{} to {}", it.volume, it.peer))
        => |tx, it| tx.connect(&it.volume, &it.peer, it.lun, it.read_only).await;
    DeleteConnection -> (), Change "disconnect" "volume", Operator,
        of |it, _| Object::of(ENDS, &format!("{} from {}", it.volume, it.peer))
        => |tx, it| tx.disconnect(&it.volume, &it.peer).await;
    ListConnections -> Vec<Connection>, Read "list" "connection", Viewer
        => |tx, _| Ok(tx.array.connections(&tx.array.config()));
}

impl Transaction<'_> {
    pub async fn connect(
        &mut self,
        volume: &str,
        peer: &PeerName,
        lun: Option<u16>,
        read_only: bool,
    ) -> Result<Connection> {
        lun.map(records::check_lun).transpose()?;
        let (entry, who) = {
            let config = self.array.config();
            let id = config.disk_named(volume)?;
            let peer = peer_named(&config, peer)?;
            let lun = config.choose_lun(id, peer, lun)?;
            (ConnectionEntry { volume: id, peer, lun, read_only }, config.peer_name(peer))
        };
        self.array.disk(entry.volume, volume)?;
        let noun = noun_of_disk(&self.array.config(), entry.volume);
        self.commit(vec![Edit::Put(Record::Connection(entry.clone()))]).await?;
        self.done(
            &format!("{noun}.connected"),
            noun,
            volume,
            &format!("was connected to {who} as LUN {}", entry.lun),
        );
        let config = self.array.config();
        let made = self.array.connection(&config, &entry);
        made.ok_or_else(|| Error::not_found("the connection is gone"))
    }

    pub async fn disconnect(&mut self, volume: &str, peer: &PeerName) -> Result<()> {
        let (entry, who) = {
            let config = self.array.config();
            let id = config.disk_named(volume)?;
            let peer = peer_named(&config, peer)?;
            let who = config.peer_name(peer);
            (config.connections.between(id, peer).cloned(), who)
        };
        let entry = entry.ok_or_else(|| Error::not_found(format!("{who} is not connected to {volume:?}")))?;
        let noun = noun_of_disk(&self.array.config(), entry.volume);
        self.commit(vec![Edit::Remove(Record::Connection(entry))]).await?;
        self.done(&format!("{noun}.disconnected"), noun, volume, &format!("was disconnected from {who}"));
        Ok(())
    }
}

fn peer_named(config: &Config, peer: &PeerName) -> Result<Peer> {
    Ok(match peer {
        PeerName::Host(name) => Peer::Host(config.hosts.named(name)?.id),
        PeerName::HostGroup(name) => Peer::HostGroup(config.host_groups.named(name)?.id),
    })
}

/// What a volume or snapshot is called in messages.
pub(crate) fn noun_of_disk(config: &Config, id: DiskId) -> &'static str {
    if config.snapshots.get(id).is_some() { "snapshot" } else { "volume" }
}
