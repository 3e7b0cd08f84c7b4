//! The array as a whole: settings, state, capacity, and the source of its key.

use crate::shape::shapes;
use engine::Ratios;
use serde::Serialize;
use shelf::pool::{KeySource, WrappedKey};
use std::net::SocketAddr;
use utoipa::ToSchema;

shapes! {
    ArrayStatus;
    BriefStatus;
    Settings;
}

/// Array settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Settings {
    /// Display name of the array.
    pub name: String,
    /// Recycle bin retention in seconds.
    pub recycle_bin_seconds: u64,
    /// UNMAP throttle level: 0 (off) to 9.
    #[schema(minimum = 0, maximum = 9)]
    pub unmap_throttle: u8,
    /// Interval between scrubs in seconds; 0: no scheduled scrubs.
    pub scrub_every_seconds: u64,
    /// Longest time for which a retention lock can be set, in seconds from then on. What is locked stays locked.
    pub max_retention_lock_seconds: u64,
    /// Time zone of snapshot schedules: a name of the IANA database.
    #[schema(example = "Europe/Berlin")]
    pub time_zone: String,
    /// Threads for connections of hosts that are set; `null`: one for each processor. They are started with the array.
    pub threads: Option<u16>,
    /// Threads that there are since the start.
    pub threads_now: u16,
    /// Whether an option of the start sets them, which goes before what is set here.
    pub threads_by_option: bool,
}

/// Memory that the array may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Memory)]
pub struct MemoryLimit {
    /// Limit.
    #[serde(rename = "limit")]
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub bytes: u64,
    /// What limits it: the memory of the machine, or the file of a control group (cgroup).
    #[schema(example = "/sys/fs/cgroup/system.slice/ashlard.service/memory.max")]
    pub source: String,
}

/// The array as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Array)]
pub struct ArrayStatus {
    /// Display name.
    pub name: String,
    /// Serial number: sixteen hex digits.
    pub serial: String,
    /// Software version.
    pub version: String,
    /// State.
    pub state: State,
    /// Reason why it stopped; `null` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// iSCSI target name.
    pub target_iqn: String,
    /// iSCSI portals: addresses with ports.
    #[schema(value_type = Vec<String>, example = json!(["127.0.0.1:3260"]))]
    pub portals: Vec<SocketAddr>,
    /// NQN of the subsystem for NVMe/TCP.
    pub subsystem_nqn: String,
    /// NVMe/TCP portals: addresses with ports; empty if there are none.
    #[schema(value_type = Vec<String>, example = json!(["127.0.0.1:4420"]))]
    pub nvme_portals: Vec<SocketAddr>,
    /// Seconds since it started.
    pub uptime_seconds: u64,
    /// Capacity and space usage in bytes.
    pub space: Space,
    /// Data reduction ratios.
    pub reduction: Reduction,
    /// Number of volumes.
    pub volumes: usize,
    /// Number of hosts.
    pub hosts: usize,
    /// Current number of iSCSI sessions, at the portals of all controllers.
    pub sessions: usize,
    /// Current number of NVMe/TCP controllers.
    pub nvme_controllers: usize,
    /// Memory by which the index, the maps and the connections of hosts are sized.
    pub memory: MemoryLimit,
    /// Encryption of the drives and source of the key.
    pub encryption: Encryption,
}

/// Data reduction ratios, `null` while nothing is stored. `data` is `deduplication` times `compression`; `total` is
/// `thin_provisioning` times `data`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct Reduction {
    /// Data reduction: logical to physical.
    #[schema(extensions(("x-unit" = json!("ratio"))))]
    pub data: Option<f64>,
    /// Deduplication: logical to unique.
    #[schema(extensions(("x-unit" = json!("ratio"))))]
    pub deduplication: Option<f64>,
    /// Compression: unique to physical.
    #[schema(extensions(("x-unit" = json!("ratio"))))]
    pub compression: Option<f64>,
    /// Thin provisioning: provisioned to logical.
    #[schema(extensions(("x-unit" = json!("ratio"))))]
    pub thin_provisioning: Option<f64>,
    /// Total efficiency: provisioned to physical.
    #[schema(extensions(("x-unit" = json!("ratio"))))]
    pub total: Option<f64>,
}

impl From<Ratios> for Reduction {
    fn from(ratios: Ratios) -> Self {
        let Ratios { data, deduplication, compression, thin_provisioning, total } = ratios;
        Self { data, deduplication, compression, thin_provisioning, total }
    }
}

/// How many alerts are open, acknowledged or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenAlerts {
    /// All.
    pub all: usize,
    /// Those that are warnings.
    pub warning: usize,
    /// Those that are critical.
    pub critical: usize,
}

/// The array in brief, for programs that ask again and again.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Status)]
pub struct BriefStatus {
    /// Version of this API: the `1` of `/api/v1`.
    pub api_version: u32,
    /// Versions of the driver interface that are supported. It grows by additions; a driver refuses an array whose range
    /// does not contain its own version.
    pub driver_api: VersionRange,
    /// Permanent identifier: the serial number, sixteen hex digits.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Software version.
    pub version: String,
    /// State.
    pub state: State,
    /// Health: the most severe open alert.
    pub health: ArrayHealth,
    /// Number of open alerts, acknowledged or not.
    pub open_alerts: usize,
    /// Number of open critical alerts.
    pub critical_alerts: usize,
    /// iSCSI target name.
    pub target_iqn: String,
    /// Capacity in bytes.
    pub capacity: CapacitySummary,
}

/// A range of versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct VersionRange {
    /// Lowest version.
    pub min: u32,
    /// Highest version.
    pub max: u32,
}

/// Health in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArrayHealth {
    /// No open alert is a warning or critical.
    Ok,
    /// An open alert is a warning.
    Warning,
    /// An open alert is critical, or the array stopped.
    Critical,
}

/// Capacity in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct CapacitySummary {
    /// Usable physical capacity.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub total: u64,
    /// Physical space in use, by data and metadata.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub used: u64,
    /// Free physical space.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub free: u64,
    /// Provisioned: sum of the volume sizes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub provisioned: u64,
    /// Data reduction ratio; `null` while nothing is stored.
    #[schema(extensions(("x-unit" = json!("ratio"))))]
    pub data_reduction: Option<f64>,
}

/// Encryption of the drives and source of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encryption {
    /// Not encrypted.
    None,
    /// Key file.
    File,
    /// Passphrase.
    Passphrase,
    /// KMIP server.
    Kmip,
}

impl Encryption {
    /// Of what an envelope says; none if its key has been destroyed.
    pub(crate) fn of(key: Option<&dyn WrappedKey>) -> Self {
        match key.map(WrappedKey::source) {
            None | Some(KeySource::Erased) => Self::None,
            Some(KeySource::File) => Self::File,
            Some(KeySource::Passphrase { .. }) => Self::Passphrase,
            Some(KeySource::Kmip { .. }) => Self::Kmip,
        }
    }
}

/// State of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Online.
    Online,
    /// Stopped to protect data; see `reason`.
    Stopped,
}

/// Capacity and space usage in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct Space {
    /// Provisioned: sum of the volume sizes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub provisioned: u64,
    /// Mapped by hosts.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub mapped: u64,
    /// Mapped zeros, which occupy no space.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub zero: u64,
    /// Logical data of volumes and snapshots before reduction, without zeros: `unique` plus `shared`.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub logical: u64,
    /// Mapped non-zero data of snapshots, mostly shared with volumes and other snapshots.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub snapshot: u64,
    /// Unique data after zero elimination and deduplication.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub unique: u64,
    /// Data saved by deduplication, clones and snapshots.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub shared: u64,
    /// Physical space in use after compression.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub physical: u64,
    /// Physical space in use by metadata.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub metadata: u64,
    /// Physical space of unreferenced data, reclaimed by segment cleaning as needed.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub reclaimable: u64,
    /// Free physical space.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub free: u64,
    /// Usable physical capacity.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub total: u64,
    /// The ratios between them.
    #[serde(skip)]
    pub ratios: Ratios,
}
