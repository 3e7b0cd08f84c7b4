//! The shapes of version 1. Sizes are in bytes; a field once there keeps its name and meaning.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The array as a whole.
#[derive(Debug, Serialize, ToSchema)]
pub struct Array {
    /// What people call it.
    name: String,
    /// Sixteen hex digits.
    serial: String,
    /// Version of the software.
    version: String,
    /// Whether it serves.
    state: State,
    /// Why it stopped, when it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// iSCSI name of its target.
    target_iqn: String,
    /// Where hosts log in: addresses with ports.
    #[schema(example = json!(["127.0.0.1:3260"]))]
    portals: Vec<String>,
    /// Seconds since it began to serve.
    uptime_seconds: u64,
    /// Space in bytes.
    space: Space,
    /// How many bytes a stored byte stands for.
    reduction: Reduction,
    /// Number of volumes.
    volumes: usize,
    /// Number of hosts.
    hosts: usize,
    /// Number of iSCSI sessions now.
    sessions: usize,
}

/// Whether the array serves.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It does.
    Online,
    /// It stopped to protect data; see `reason`.
    Stopped,
}

/// Space in bytes.
#[derive(Debug, Serialize, ToSchema)]
pub struct Space {
    /// Sum of the volumes' sizes.
    provisioned: u64,
    /// Mapped by hosts.
    mapped: u64,
    /// Different data among it, after zero detection and deduplication.
    unique: u64,
    /// In use on the drives, after compression.
    physical: u64,
    /// In use on the drives by maps and other data of the array's own.
    metadata: u64,
    /// Free on the drives.
    free: u64,
    /// Usable on the drives.
    total: u64,
}

/// Ratios, each `null` while nothing is stored.
#[derive(Debug, Serialize, ToSchema)]
pub struct Reduction {
    /// Mapped to physical: what deduplication and compression save.
    data: Option<f64>,
    /// Mapped to unique.
    deduplication: Option<f64>,
    /// Unique to physical.
    compression: Option<f64>,
    /// Provisioned to physical: thin provisioning included.
    total: Option<f64>,
}

/// A volume.
#[derive(Debug, Serialize, ToSchema)]
pub struct Volume {
    /// Its name.
    name: String,
    /// 32 hex digits, the same for ever.
    id: String,
    /// Size that hosts see, in bytes.
    size: u64,
    /// Logical block length in bytes: 512 or 4096.
    block_size: u32,
    /// Bytes mapped by hosts.
    mapped: u64,
    /// The name that hosts know it by (VPD page 83h).
    naa: String,
    /// When it was made.
    #[schema(format = DateTime)]
    created: String,
    /// Who sees it.
    connections: Vec<Connection>,
}

/// A host. Secrets are never shown.
#[derive(Debug, Serialize, ToSchema)]
pub struct Host {
    /// Its name.
    name: String,
    /// Its iSCSI initiator names, in lower case.
    initiators: Vec<String>,
    /// The CHAP user that it logs in as; `null` when it needs none.
    chap_user: Option<String>,
    /// The CHAP user that the array answers as; `null` when it does not.
    mutual_user: Option<String>,
    /// When it was made.
    #[schema(format = DateTime)]
    created: String,
    /// What it sees.
    connections: Vec<Connection>,
    /// Number of its iSCSI sessions now.
    sessions: usize,
}

/// A volume seen by a host.
#[derive(Debug, Serialize, ToSchema)]
pub struct Connection {
    /// The volume's name.
    volume: String,
    /// The host's name.
    host: String,
    /// The LUN under which that host sees it.
    lun: u16,
}

/// All volumes.
#[derive(Debug, Serialize, ToSchema)]
pub struct Volumes {
    /// In order of names.
    pub items: Vec<Volume>,
}

/// All hosts.
#[derive(Debug, Serialize, ToSchema)]
pub struct Hosts {
    /// In order of names.
    pub items: Vec<Host>,
}

/// All connections.
#[derive(Debug, Serialize, ToSchema)]
pub struct Connections {
    /// In order of volumes and hosts.
    pub items: Vec<Connection>,
}

/// A volume to make: empty with a `size`, or a clone of a `source`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVolume {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    pub name: String,
    /// Bytes, 1 MiB to 16 PiB, a whole number of blocks. Not with `source`.
    pub size: Option<u64>,
    /// 512 (when not given) or 4096. Not with `source`.
    pub block_size: Option<u32>,
    /// Name of a volume whose contents the new one has, sharing its space.
    pub source: Option<String>,
}

/// What to change in a volume.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeChange {
    /// The new size in bytes.
    pub size: u64,
    /// Allow a smaller size, which destroys what lies behind it.
    #[serde(default)]
    pub shrink: bool,
}

/// A host to make known.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewHost {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    pub name: String,
    /// iSCSI initiator names, 1 to 64.
    pub initiators: Vec<String>,
    /// What it must log in with.
    pub chap: Option<Chap>,
    /// What the array proves itself to it with. Only together with `chap`.
    pub mutual: Option<Chap>,
}

/// One direction of CHAP.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Chap {
    /// The CHAP name.
    pub user: String,
    /// 12 to 255 characters; never shown again.
    #[schema(format = Password)]
    pub secret: String,
}

impl std::fmt::Debug for Chap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chap({})", self.user)
    }
}

/// A connection to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewConnection {
    /// The volume's name.
    pub volume: String,
    /// The host's name.
    pub host: String,
    /// 0 to 16383; the lowest free one when not given.
    pub lun: Option<u16>,
}

impl From<array::ArrayStatus> for Array {
    fn from(status: array::ArrayStatus) -> Self {
        let reduction = status.space.reduction();
        let (state, reason) = match status.state {
            array::State::Online => (State::Online, None),
            array::State::Stopped(why) => (State::Stopped, Some(why)),
        };
        Self {
            name: status.name,
            serial: status.serial,
            version: status.version,
            state,
            reason,
            target_iqn: status.target_iqn,
            portals: status.portals.iter().map(ToString::to_string).collect(),
            uptime_seconds: status.uptime.as_secs(),
            space: status.space.into(),
            reduction: reduction.into(),
            volumes: status.volumes,
            hosts: status.hosts,
            sessions: status.sessions,
        }
    }
}

impl From<array::Space> for Space {
    fn from(space: array::Space) -> Self {
        let array::Space { provisioned, mapped, unique, physical, metadata, free, total } = space;
        Self { provisioned, mapped, unique, physical, metadata, free, total }
    }
}

impl From<array::Reduction> for Reduction {
    fn from(reduction: array::Reduction) -> Self {
        let array::Reduction { data, deduplication, compression, total } = reduction;
        Self { data, deduplication, compression, total }
    }
}

impl From<array::Volume> for Volume {
    fn from(volume: array::Volume) -> Self {
        Self {
            name: volume.name,
            id: format!("{:032x}", volume.id.0),
            size: volume.bytes,
            block_size: volume.block_bytes,
            mapped: volume.mapped,
            naa: volume.naa,
            created: utc(volume.created),
            connections: volume.connections.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<array::Host> for Host {
    fn from(host: array::Host) -> Self {
        Self {
            name: host.name,
            initiators: host.initiators,
            chap_user: host.chap_user,
            mutual_user: host.mutual_user,
            created: utc(host.created),
            connections: host.connections.into_iter().map(Into::into).collect(),
            sessions: host.sessions,
        }
    }
}

impl From<array::Connection> for Connection {
    fn from(connection: array::Connection) -> Self {
        let array::Connection { volume, host, lun } = connection;
        Self { volume, host, lun }
    }
}

impl From<Chap> for array::Chap {
    fn from(chap: Chap) -> Self {
        array::Chap::new(chap.user, chap.secret)
    }
}

/// Seconds since 1970 as RFC 3339 has it.
fn utc(seconds: u64) -> String {
    let timestamp =
        i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    timestamp.unwrap_or(jiff::Timestamp::MAX).to_string()
}
