//! The array as a whole.

use super::{Answer, Gone, gone, perform};
use crate::Context;
use crate::auth::Operator;
use crate::body::Body;
use crate::problem::Problems;
use axum::Json;
use axum::extract::State as Shared;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(show_array))
        .routes(routes!(show_settings, change_settings))
        .routes(routes!(confirm_time))
}

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
    /// What the key of what is on the drives is locked with.
    encryption: Encryption,
}

/// What the key of encrypted drives is locked with.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encryption {
    /// They are not encrypted.
    None,
    /// A file.
    File,
    /// A passphrase.
    Passphrase,
    /// A key on a KMIP server.
    Kmip,
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
    /// Of that, zeros: they are stored nowhere.
    zero: u64,
    /// Logical data: what volumes and snapshots hold, each by itself, without zeros. Unique and shared are its parts.
    logical: u64,
    /// Mapped on snapshots and not zeros; most of it is shared with volumes and other snapshots.
    snapshot: u64,
    /// Different data of volumes and snapshots, after zero detection and deduplication.
    unique: u64,
    /// What they hold beyond that: what deduplication, clones and snapshots save.
    shared: u64,
    /// In use on the drives, after compression.
    physical: u64,
    /// In use on the drives by maps and other data of the array's own.
    metadata: u64,
    /// In use on the drives by what nothing refers to any more; cleaning wins it back as it is needed.
    reclaimable: u64,
    /// Free on the drives.
    free: u64,
    /// Usable on the drives.
    total: u64,
}

/// Ratios, each `null` while nothing is stored. `data` is `deduplication` times `compression`, and `total` is
/// `thin_provisioning` times `data`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Reduction {
    /// Logical to physical: what deduplication, clones, snapshots and compression save.
    data: Option<f64>,
    /// Logical to unique.
    deduplication: Option<f64>,
    /// Unique to physical.
    compression: Option<f64>,
    /// Provisioned to logical, where snapshots count with the data that they hold.
    thin_provisioning: Option<f64>,
    /// Provisioned to physical: total efficiency.
    total: Option<f64>,
}

/// What is set for the array as a whole.
#[derive(Debug, Serialize, ToSchema)]
pub struct Settings {
    /// What people call the array.
    name: String,
    /// How long the recycle bin keeps a volume, in seconds.
    recycle_bin_seconds: u64,
    /// How much UNMAP is slowed down: 0 not at all, 9 most.
    #[schema(minimum = 0, maximum = 9)]
    unmap_throttle: u8,
    /// How long after a scrub has ended the next one begins by itself, in seconds; 0: never.
    scrub_every_seconds: u64,
}

/// What to set; what is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettingsChange {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: Option<String>,
    /// How long the recycle bin keeps a volume, in seconds; a year at most.
    recycle_bin_seconds: Option<u64>,
    /// How much UNMAP is slowed down: 0 not at all; 9 most, to 384 MiB in a second; twice as much with each level below.
    #[schema(minimum = 0, maximum = 9)]
    unmap_throttle: Option<u8>,
    /// How long after a scrub has ended the next one begins by itself, in seconds, an hour to a year; 0: never.
    scrub_every_seconds: Option<u64>,
}

/// The array: identity, state, portals, space
#[utoipa::path(get, path = "/api/v1/array", tag = "array", responses(
    (status = 200, description = "The array", body = Array),
    Problems,
))]
async fn show_array(operator: Operator, Shared(context): Shared<Context>) -> Answer<Array> {
    let status = perform(operator, &context, ::array::ShowArray).await?;
    Ok(Json(status.into()))
}

/// What is set for the array as a whole
#[utoipa::path(get, path = "/api/v1/settings", tag = "array", responses(
    (status = 200, description = "The settings", body = Settings),
    Problems,
))]
async fn show_settings(operator: Operator, Shared(context): Shared<Context>) -> Answer<Settings> {
    let it = perform(operator, &context, ::array::ShowSettings).await?;
    Ok(Json(it.into()))
}

/// Set it
#[utoipa::path(patch, path = "/api/v1/settings", tag = "array", request_body = SettingsChange, responses(
    (status = 200, description = "The settings as they are now", body = Settings),
    Problems,
))]
async fn change_settings(
    operator: Operator,
    Shared(context): Shared<Context>,
    Body(change): Body<SettingsChange>,
) -> Answer<Settings> {
    let SettingsChange { name, recycle_bin_seconds, unmap_throttle, scrub_every_seconds } = change;
    let (bin_seconds, scrub_seconds) = (recycle_bin_seconds, scrub_every_seconds);
    let change = ::array::SettingsChange { name, bin_seconds, unmap_throttle, scrub_seconds };
    let done = perform(operator, &context, ::array::ChangeSettings(change)).await?;
    Ok(Json(done.into()))
}

impl From<::array::Settings> for Settings {
    fn from(it: ::array::Settings) -> Self {
        let ::array::Settings { name, bin_seconds, unmap_throttle, scrub_seconds } = it;
        Self { name, recycle_bin_seconds: bin_seconds, unmap_throttle, scrub_every_seconds: scrub_seconds }
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
            uptime_seconds: status.uptime.as_secs(),
            space: status.space.into(),
            reduction: reduction.into(),
            volumes: status.volumes,
            hosts: status.hosts,
            sessions: status.sessions,
            encryption: status.encryption.into(),
        }
    }
}

impl From<Option<::array::LockKind>> for Encryption {
    fn from(lock: Option<::array::LockKind>) -> Self {
        match lock {
            None => Self::None,
            Some(::array::LockKind::File) => Self::File,
            Some(::array::LockKind::Passphrase) => Self::Passphrase,
            Some(::array::LockKind::Kmip) => Self::Kmip,
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

/// Say that the time of day is right
///
/// When the clock of the machine jumped, nothing expires until this is said, or the clock is as before. The recycle bin,
/// retention locks and the retention of schedules go by the clock again from then on.
#[utoipa::path(post, path = "/api/v1/array/confirm-time", tag = "array", responses(
    (status = 204, description = "It is"),
    Problems,
))]
async fn confirm_time(operator: Operator, Shared(context): Shared<Context>) -> Gone {
    gone(perform(operator, &context, ::array::ConfirmTime).await?)
}
