//! What actions answer: plain values, made from the configuration and the engine.

use crate::action::Array;
use crate::config::{Config, HostEntry, VolumeEntry};
use block::{Disk, DiskId};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// A volume as an operator sees it. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its identity.
    pub id: DiskId,
    /// Its name.
    pub name: String,
    /// Size that hosts see.
    pub bytes: u64,
    /// Logical block length: 512 or 4096.
    pub block_bytes: u32,
    /// Mapped by hosts.
    pub mapped: u64,
    /// The name that hosts know it by (VPD page 83h): `naa.` and 32 hex digits.
    pub naa: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Who sees it, in order of hosts.
    pub connections: Vec<Connection>,
}

/// A host as an operator sees it. Secrets are never shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its initiator names, in lower case.
    pub initiators: Vec<String>,
    /// The CHAP user that it must log in as.
    pub chap_user: Option<String>,
    /// The CHAP user that the array answers as.
    pub mutual_user: Option<String>,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// What it sees, in order of LUNs.
    pub connections: Vec<Connection>,
    /// Sessions that its initiators have now.
    pub sessions: usize,
}

/// A volume seen by a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection {
    /// The volume's name.
    pub volume: String,
    /// The host's name.
    pub host: String,
    /// The LUN under which that host sees it.
    pub lun: u16,
}

/// The array as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayStatus {
    /// What people call it.
    pub name: String,
    /// Sixteen hex digits.
    pub serial: String,
    /// Version of the software.
    pub version: String,
    /// Whether it serves.
    pub state: State,
    /// iSCSI name of its target.
    pub target_iqn: String,
    /// Where hosts log in.
    pub portals: Vec<SocketAddr>,
    /// How long it has been serving.
    pub uptime: Duration,
    /// Space.
    pub space: Space,
    /// How many volumes there are.
    pub volumes: usize,
    /// How many hosts there are.
    pub hosts: usize,
    /// How many iSCSI sessions there are now.
    pub sessions: usize,
}

/// Whether the array serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It does.
    Online,
    /// It stopped to protect data; the text says why.
    Stopped(String),
}

/// Space in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Sum of the volumes' sizes.
    pub provisioned: u64,
    /// Mapped by hosts.
    pub mapped: u64,
    /// Of that, different: what is left after zero detection and deduplication.
    pub unique: u64,
    /// In use on the drives, after compression.
    pub physical: u64,
    /// In use on the drives by maps and other data of the array's own.
    pub metadata: u64,
    /// Free on the drives.
    pub free: u64,
    /// Usable on the drives.
    pub total: u64,
}

/// How many bytes one byte on the drives stands for. None while nothing is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// Mapped to physical: what deduplication and compression save.
    pub data: Option<f64>,
    /// Mapped to unique.
    pub deduplication: Option<f64>,
    /// Unique to physical.
    pub compression: Option<f64>,
    /// Provisioned to physical: thin provisioning included.
    pub total: Option<f64>,
}

impl Space {
    /// The ratios.
    pub fn reduction(&self) -> Reduction {
        let ratio = |above: u64, below: u64| (below > 0).then(|| above as f64 / below as f64);
        Reduction {
            data: ratio(self.mapped, self.physical),
            deduplication: ratio(self.mapped, self.unique),
            compression: ratio(self.unique, self.physical),
            total: ratio(self.provisioned, self.physical),
        }
    }
}

impl Array {
    /// The array as it is now.
    pub(crate) fn status(&self, config: &Config) -> ArrayStatus {
        let space = self.parts.engine.space();
        ArrayStatus {
            name: self.identity.name.clone(),
            serial: self.identity.serial.clone(),
            version: self.version.clone(),
            state: match self.parts.engine.stopped() {
                None => State::Online,
                Some(why) => State::Stopped(why),
            },
            target_iqn: self.identity.target_iqn(),
            portals: self.parts.server.portals(),
            uptime: Duration::from_secs(self.world.seconds().saturating_sub(self.started)),
            space: Space {
                provisioned: space.provisioned,
                mapped: space.mapped,
                unique: space.unique,
                physical: space.physical,
                metadata: space.metadata,
                free: space.free,
                total: space.total,
            },
            volumes: config.volumes.len(),
            hosts: config.hosts.len(),
            sessions: self.parts.server.sessions().len(),
        }
    }

    /// Every volume, by name.
    pub(crate) fn volumes(&self, config: &Config) -> Vec<Volume> {
        let seen = config.connections();
        let of = |entry: &VolumeEntry| self.volume(entry, seen.get(&entry.id).map_or(&[], Vec::as_slice));
        config.volumes.values().map(of).collect()
    }

    /// One volume with the hosts that see it.
    pub(crate) fn volume(&self, entry: &VolumeEntry, seen: &[(&str, u16)]) -> Volume {
        let disk = self.parts.engine.volume(entry.id);
        let connection = |(host, lun): &(&str, u16)| Connection {
            volume: entry.name.clone(),
            host: (*host).into(),
            lun: *lun,
        };
        Volume {
            id: entry.id,
            name: entry.name.clone(),
            bytes: disk.as_ref().map_or(0, |disk| disk.geometry().bytes()),
            block_bytes: disk.as_ref().map_or(0, |disk| disk.geometry().block_bytes),
            mapped: disk.as_ref().map_or(0, |disk| disk.space().mapped),
            naa: scsi::naa(entry.id),
            created: entry.created,
            connections: seen.iter().map(connection).collect(),
        }
    }

    /// Every host, by name.
    pub(crate) fn hosts(&self, config: &Config) -> Vec<Host> {
        let names = volume_names(config);
        let sessions = self.parts.server.sessions();
        config.hosts.values().map(|entry| host(entry, &names, &sessions)).collect()
    }

    /// One host.
    pub(crate) fn host(&self, config: &Config, entry: &HostEntry) -> Host {
        host(entry, &volume_names(config), &self.parts.server.sessions())
    }
}

fn volume_names(config: &Config) -> BTreeMap<DiskId, &str> {
    config.volumes.values().map(|entry| (entry.id, entry.name.as_str())).collect()
}

fn host(entry: &HostEntry, names: &BTreeMap<DiskId, &str>, sessions: &[iscsi::SessionInfo]) -> Host {
    let connection = |(lun, id): (&u16, &DiskId)| {
        Some(Connection { volume: (*names.get(id)?).into(), host: entry.name.clone(), lun: *lun })
    };
    Host {
        name: entry.name.clone(),
        initiators: entry.initiators.clone(),
        chap_user: entry.chap.as_ref().map(|chap| chap.user.clone()),
        mutual_user: entry.mutual.as_ref().map(|chap| chap.user.clone()),
        created: entry.created,
        connections: entry.luns.iter().filter_map(connection).collect(),
        sessions: sessions.iter().filter(|session| entry.initiators.contains(&session.initiator)).count(),
    }
}

/// Who sees what, by volume and host.
pub(crate) fn connections(config: &Config) -> Vec<Connection> {
    let seen = config.connections();
    let of = |volume: &VolumeEntry| {
        let hosts = seen.get(&volume.id).cloned().unwrap_or_default();
        let volume = volume.name.clone();
        hosts.into_iter().map(move |(host, lun)| Connection {
            volume: volume.clone(),
            host: host.into(),
            lun,
        })
    };
    config.volumes.values().flat_map(of).collect()
}
