//! The array as a whole.

use super::handler::{Answer, operations, perform, present};
use crate::Context;
use crate::auth::Operator;
use crate::body::Body;
use crate::problem::Problems;
use axum::Json;
use axum::extract::State as Shared;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

/// The version in the paths.
const API_VERSION: u32 = 1;
/// Versions of the driver interface (docs/guides/automation.md) that this software supports.
const MIN_DRIVER_API: u32 = 1;
const MAX_DRIVER_API: u32 = 1;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(show_array: ShowArray))
        .routes(operations!(show_status: ShowStatus))
        .routes(operations!(show_settings: ShowSettings, change_settings: ChangeSettings))
}

/// The array as a whole.
#[derive(Debug, Serialize, ToSchema)]
pub struct Array {
    /// Display name.
    name: String,
    /// Serial number: sixteen hex digits.
    serial: String,
    /// Software version.
    version: String,
    /// State.
    state: State,
    /// Reason why it stopped; `null` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// iSCSI target name.
    target_iqn: String,
    /// iSCSI portals: addresses with ports.
    #[schema(example = json!(["127.0.0.1:3260"]))]
    portals: Vec<String>,
    /// NQN of the subsystem for NVMe/TCP.
    subsystem_nqn: String,
    /// NVMe/TCP portals: addresses with ports; empty if there are none.
    #[schema(example = json!(["127.0.0.1:4420"]))]
    nvme_portals: Vec<String>,
    /// Seconds since it started.
    uptime_seconds: u64,
    /// Capacity and space usage in bytes.
    space: Space,
    /// Data reduction ratios.
    reduction: Reduction,
    /// Number of volumes.
    volumes: usize,
    /// Number of hosts.
    hosts: usize,
    /// Current number of iSCSI sessions, at the portals of all controllers.
    sessions: usize,
    /// Current number of NVMe/TCP controllers.
    nvme_controllers: usize,
    /// Memory by which the index, the maps and the connections of hosts are sized.
    memory: Memory,
    /// Encryption of the drives and source of the key.
    encryption: Encryption,
}

/// Memory that the array may use.
#[derive(Debug, Serialize, ToSchema)]
pub struct Memory {
    /// Limit.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    limit: u64,
    /// What limits it: the memory of the machine, or the file of a control group (cgroup).
    #[schema(example = "/sys/fs/cgroup/system.slice/ashlard.service/memory.max")]
    source: String,
}

/// Encryption of the drives and source of the key.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
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

/// State of the array.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Online.
    Online,
    /// Stopped to protect data; see `reason`.
    Stopped,
}

/// Capacity and space usage in bytes.
#[derive(Debug, Serialize, ToSchema)]
pub struct Space {
    /// Provisioned: sum of the volume sizes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    provisioned: u64,
    /// Mapped by hosts.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    mapped: u64,
    /// Mapped zeros, which occupy no space.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    zero: u64,
    /// Logical data of volumes and snapshots before reduction, without zeros: `unique` plus `shared`.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    logical: u64,
    /// Mapped non-zero data of snapshots, mostly shared with volumes and other snapshots.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    snapshot: u64,
    /// Unique data after zero elimination and deduplication.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    unique: u64,
    /// Data saved by deduplication, clones and snapshots.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    shared: u64,
    /// Physical space in use after compression.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    physical: u64,
    /// Physical space in use by metadata.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    metadata: u64,
    /// Physical space of unreferenced data, reclaimed by segment cleaning as needed.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    reclaimable: u64,
    /// Free physical space.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    free: u64,
    /// Usable physical capacity.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    total: u64,
}

/// Data reduction ratios, `null` while nothing is stored. `data` is `deduplication` times `compression`; `total` is
/// `thin_provisioning` times `data`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Reduction {
    /// Data reduction: logical to physical.
    #[schema(extensions(("x-unit" = json!("ratio"))))]
    data: Option<f64>,
    /// Deduplication: logical to unique.
    #[schema(extensions(("x-unit" = json!("ratio"))))]
    deduplication: Option<f64>,
    /// Compression: unique to physical.
    #[schema(extensions(("x-unit" = json!("ratio"))))]
    compression: Option<f64>,
    /// Thin provisioning: provisioned to logical.
    #[schema(extensions(("x-unit" = json!("ratio"))))]
    thin_provisioning: Option<f64>,
    /// Total efficiency: provisioned to physical.
    #[schema(extensions(("x-unit" = json!("ratio"))))]
    total: Option<f64>,
}

/// The array in brief, for programs that ask again and again.
#[derive(Debug, Serialize, ToSchema)]
pub struct Status {
    /// Version of this API: the `1` of `/api/v1`.
    api_version: u32,
    /// Versions of the driver interface that are supported. It grows by additions; a driver refuses an array whose range
    /// does not contain its own version.
    driver_api: VersionRange,
    /// Permanent identifier: the serial number, sixteen hex digits.
    id: String,
    /// Display name.
    name: String,
    /// Software version.
    version: String,
    /// State.
    state: State,
    /// Health: the most severe open alert.
    health: ArrayHealth,
    /// Number of open alerts, acknowledged or not.
    open_alerts: usize,
    /// Number of open critical alerts.
    critical_alerts: usize,
    /// iSCSI target name.
    target_iqn: String,
    /// Capacity in bytes.
    capacity: CapacitySummary,
}

/// A range of versions.
#[derive(Debug, Serialize, ToSchema)]
pub struct VersionRange {
    /// Lowest version.
    min: u32,
    /// Highest version.
    max: u32,
}

/// Health in one word.
#[derive(Debug, Serialize, ToSchema)]
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
#[derive(Debug, Serialize, ToSchema)]
pub struct CapacitySummary {
    /// Usable physical capacity.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    total: u64,
    /// Physical space in use, by data and metadata.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    used: u64,
    /// Free physical space.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    free: u64,
    /// Provisioned: sum of the volume sizes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    provisioned: u64,
    /// Data reduction ratio; `null` while nothing is stored.
    #[schema(extensions(("x-unit" = json!("ratio"))))]
    data_reduction: Option<f64>,
}

/// Array settings.
#[derive(Debug, Serialize, ToSchema)]
pub struct Settings {
    /// Display name of the array.
    name: String,
    /// Recycle bin retention in seconds.
    recycle_bin_seconds: u64,
    /// UNMAP throttle level: 0 (off) to 9.
    #[schema(minimum = 0, maximum = 9)]
    unmap_throttle: u8,
    /// Interval between scrubs in seconds; 0: no scheduled scrubs.
    scrub_every_seconds: u64,
    /// Longest time for which a retention lock can be set, in seconds from then on. What is locked stays locked.
    max_retention_lock_seconds: u64,
    /// Time zone of snapshot schedules: a name of the IANA database.
    #[schema(example = "Europe/Berlin")]
    time_zone: String,
    /// Threads for connections of hosts that are set; `null`: one for each processor. They are started with the array.
    threads: Option<u16>,
    /// Threads that there are since the start.
    threads_now: u16,
    /// Whether an option of the start sets them, which goes before what is set here.
    threads_by_option: bool,
}

/// Changes to array settings. Omitted fields keep their values.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettingsChange {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: Option<String>,
    /// Recycle bin retention in seconds; a year at most.
    recycle_bin_seconds: Option<u64>,
    /// UNMAP throttle level: 0 (off) to 9 (384 MiB per second); each level below 9 doubles the rate.
    #[schema(minimum = 0, maximum = 9)]
    unmap_throttle: Option<u8>,
    /// Interval between scrubs in seconds, an hour to a year; 0: no scheduled scrubs.
    scrub_every_seconds: Option<u64>,
    /// Longest time for which a retention lock can be set, in seconds, an hour to a hundred years. It is no less than what schedules
    /// and replications have.
    max_retention_lock_seconds: Option<u64>,
    /// Time zone of snapshot schedules: a name of the IANA database, such as `Europe/Berlin`. Runs that were due before the
    /// change are skipped.
    time_zone: Option<String>,
    /// Threads for connections of hosts, 1 to 256, from the next start on; `null`: one for each processor.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u16>)]
    threads: Option<Option<u16>>,
}

/// Get the identity, state, portals and capacity of the array
#[utoipa::path(get, path = "/api/v1/array", tag = "array", responses(
    (status = 200, description = "The array", body = Array),
    Problems,
))]
async fn show_array(operator: Operator, Shared(context): Shared<Context>) -> Answer<Array> {
    let status = perform(operator, &context, ::array::ShowArray).await?;
    Ok(Json(status.into()))
}

/// Get the state, health and capacity of the array in brief
///
/// It costs the array little: this is the path to poll.
#[utoipa::path(get, path = "/api/v1/status", tag = "array", responses(
    (status = 200, description = "The status", body = Status),
    Problems,
))]
async fn show_status(operator: Operator, Shared(context): Shared<Context>) -> Answer<Status> {
    let it = perform(operator, &context, ::array::ShowStatus).await?;
    Ok(Json(it.into()))
}

/// Get the array settings
#[utoipa::path(get, path = "/api/v1/settings", tag = "array", responses(
    (status = 200, description = "The settings", body = Settings),
    Problems,
))]
async fn show_settings(operator: Operator, Shared(context): Shared<Context>) -> Answer<Settings> {
    let it = perform(operator, &context, ::array::ShowSettings).await?;
    Ok(Json(it.into()))
}

/// Change the array settings
#[utoipa::path(patch, path = "/api/v1/settings", tag = "array", request_body = SettingsChange, responses(
    (status = 200, description = "The settings", body = Settings),
    Problems,
))]
async fn change_settings(
    operator: Operator,
    Shared(context): Shared<Context>,
    Body(change): Body<SettingsChange>,
) -> Answer<Settings> {
    let change = ::array::SettingsChange {
        name: change.name,
        bin_seconds: change.recycle_bin_seconds,
        unmap_throttle: change.unmap_throttle,
        scrub_seconds: change.scrub_every_seconds,
        max_lock_seconds: change.max_retention_lock_seconds,
        time_zone: change.time_zone,
        threads: change.threads,
    };
    let done = perform(operator, &context, ::array::ChangeSettings(change)).await?;
    Ok(Json(done.into()))
}

impl From<::array::Settings> for Settings {
    fn from(it: ::array::Settings) -> Self {
        Self {
            name: it.name,
            recycle_bin_seconds: it.bin_seconds,
            unmap_throttle: it.unmap_throttle,
            scrub_every_seconds: it.scrub_seconds,
            max_retention_lock_seconds: it.max_lock_seconds,
            time_zone: it.time_zone,
            threads: it.threads,
            threads_now: it.threads_now,
            threads_by_option: it.threads_by_option,
        }
    }
}

impl From<::array::BriefStatus> for Status {
    fn from(it: ::array::BriefStatus) -> Self {
        let ::array::Space { total, free, provisioned, ratios, .. } = it.space;
        let (state, health) = match (it.state, it.alerts) {
            (::array::State::Stopped(_), _) => (State::Stopped, ArrayHealth::Critical),
            (_, alerts) if alerts.critical > 0 => (State::Online, ArrayHealth::Critical),
            (_, alerts) if alerts.warning > 0 => (State::Online, ArrayHealth::Warning),
            _ => (State::Online, ArrayHealth::Ok),
        };
        Self {
            api_version: API_VERSION,
            driver_api: VersionRange { min: MIN_DRIVER_API, max: MAX_DRIVER_API },
            id: it.serial,
            name: it.name,
            version: it.version,
            state,
            health,
            open_alerts: it.alerts.all,
            critical_alerts: it.alerts.critical,
            target_iqn: it.target_iqn,
            capacity: CapacitySummary {
                total,
                used: total.saturating_sub(free),
                free,
                provisioned,
                data_reduction: ratios.data,
            },
        }
    }
}

impl From<::array::ArrayStatus> for Array {
    fn from(status: ::array::ArrayStatus) -> Self {
        let reduction = status.space.ratios;
        let (state, reason) = match status.state {
            ::array::State::Online => (State::Online, None),
            ::array::State::Stopped(why) => (State::Stopped, Some(why)),
        };
        Self {
            name: status.name,
            serial: status.serial,
            version: status.version,
            state,
            reason,
            target_iqn: status.target_iqn,
            portals: status.portals.iter().map(ToString::to_string).collect(),
            subsystem_nqn: status.subsystem_nqn,
            nvme_portals: status.nvme_portals.iter().map(ToString::to_string).collect(),
            uptime_seconds: status.uptime.as_secs(),
            space: status.space.into(),
            reduction: reduction.into(),
            volumes: status.volumes,
            hosts: status.hosts,
            sessions: status.sessions,
            nvme_controllers: status.nvme_controllers,
            memory: Memory { limit: status.memory.bytes, source: status.memory.source },
            encryption: status.encryption.into(),
        }
    }
}

impl From<Option<::array::KeySourceKind>> for Encryption {
    fn from(source: Option<::array::KeySourceKind>) -> Self {
        match source {
            None => Self::None,
            Some(::array::KeySourceKind::File) => Self::File,
            Some(::array::KeySourceKind::Passphrase) => Self::Passphrase,
            Some(::array::KeySourceKind::Kmip) => Self::Kmip,
        }
    }
}

impl From<::array::Space> for Space {
    fn from(space: ::array::Space) -> Self {
        let ::array::Space { provisioned, mapped, zero, logical, snapshot, unique, shared, .. } = space;
        let ::array::Space { physical, metadata, reclaimable, free, total, .. } = space;
        Self {
            provisioned,
            mapped,
            zero,
            logical,
            snapshot,
            unique,
            shared,
            physical,
            metadata,
            reclaimable,
            free,
            total,
        }
    }
}

impl From<::array::Ratios> for Reduction {
    fn from(ratios: ::array::Ratios) -> Self {
        let ::array::Ratios { data, deduplication, compression, thin_provisioning, total } = ratios;
        Self { data, deduplication, compression, thin_provisioning, total }
    }
}
