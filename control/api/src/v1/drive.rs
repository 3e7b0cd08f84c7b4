//! Drives, their protection, and scrubs.

use super::handler::{Answer, Created, operations, perform, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named, Optional};
use crate::list::{List, PartialList, list};
use crate::problem::{Problem, Problems};
use array::Job;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(list_drives: ListDrives, add_drive: AddDrive))
        .routes(operations!(list_available_drives: ListAvailableDrives))
        .routes(operations!(show_drive: ShowDrive))
        .routes(operations!(evacuate_drive: EvacuateDrive))
        .routes(operations!(replace_drive: ReplaceDrive))
        .routes(operations!(show_protection: ShowProtection))
}

/// A drive.
#[derive(Debug, Serialize, ToSchema)]
pub struct Drive {
    /// Slot, from 0.
    slot: usize,
    /// Path of the block device or file; `null` if it is absent.
    path: Option<String>,
    /// Identifier of the drive in this array: 32 hex digits.
    id: String,
    /// Size in bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    size: u64,
    /// Bytes in use by data and parity.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    used: u64,
    /// State.
    state: DriveState,
    /// Whether it carries a journal copy.
    journal: bool,
    /// Bytes read since the array started.
    read_bytes: u64,
    /// Bytes written since the array started.
    written_bytes: u64,
    /// Failed reads since the array started.
    read_errors: u64,
    /// Slow reads that were reconstructed from the other drives since the array started.
    slow_reads: u64,
    /// Pages with wrong contents found since the array started.
    bad_pages: u64,
    /// Whether it is much slower than the others, so that reads are reconstructed from them.
    slow: bool,
    /// Reduction in protection that an evacuation would cause; `null` if none.
    evacuation_warning: Option<String>,
    /// Self-reported health (SMART).
    health: Health,
}

/// Self-reported health of a drive, read by `smartctl` every ten minutes; `null` for values that are not reported.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// Overall health self-assessment.
    verdict: Verdict,
    /// Model.
    model: Option<String>,
    /// Serial number.
    serial: Option<String>,
    /// Firmware version.
    firmware: Option<String>,
    /// Temperature in degrees Celsius.
    temperature_celsius: Option<i64>,
    /// Percentage of the rated write endurance that is used; may exceed 100.
    used_percent: Option<u64>,
    /// Percentage of spare blocks that is left.
    spare_percent: Option<u64>,
    /// Power-on hours.
    power_on_hours: Option<u64>,
    /// Lifetime count of media errors.
    media_errors: Option<u64>,
    /// Lifetime bytes written.
    lifetime_written_bytes: Option<u64>,
    /// Lifetime bytes read.
    lifetime_read_bytes: Option<u64>,
}

/// Health self-assessment of a drive.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Healthy.
    Passed,
    /// Failing or predicted to fail.
    Failing,
    /// Not reported.
    Unknown,
}

/// State of a drive.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DriveState {
    /// Member of the array.
    Online,
    /// Being evacuated.
    Evacuating,
    /// Failed or absent; its data is rebuilt on the other drives.
    Failed,
}

/// Drives.
#[derive(Debug, Serialize, ToSchema)]
pub struct Drives {
    /// Sorted by slot unless `sort` is given.
    pub items: Vec<Drive>,
    /// Total count, regardless of `limit` and `offset`.
    pub total: usize,
}

/// A drive to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewDrive {
    /// Absolute path of a block device or file on the array's machine, preferably under `/dev/disk/by-id`.
    path: String,
    /// Overwrite a block device that is not blank. Its contents are destroyed. Never overwrites a drive with the label
    /// of an Ashlar array.
    #[serde(default)]
    force: bool,
    /// Overwrite a drive with the label of the Ashlar array with this identity (32 hex digits). That array can no longer
    /// use it.
    #[serde(default)]
    take_from_array: Option<String>,
}

/// Options for evacuating a drive.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Evacuation {
    /// Evacuate even if fewer drive failures can be tolerated afterwards; see `evacuation_warning` of the drive. Without it,
    /// such a request is refused with 409.
    #[serde(default)]
    accept_reduced_protection: bool,
}

/// Protection state of the stored data.
#[derive(Debug, Serialize, ToSchema)]
pub struct Protection {
    /// Number of arbitrary drives that can still fail without data loss.
    tolerates: usize,
    /// Number of drive failures that the array is designed to tolerate. An alert is raised
    /// while `tolerates` is less.
    promises: usize,
    /// Bytes of parity on the present drives once every segment is in use; `null` if the array has no drives. What is neither
    /// parity nor usable capacity holds labels, the journal, checkpoints and the reserve for segment cleaning.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    parity_bytes: Option<u64>,
    /// Segments in use.
    segments: u32,
    /// Segments with reduced redundancy.
    segments_at_risk: u32,
    /// Segments rebuilt since the array started.
    rebuilt: u64,
    /// Pages repaired since the array started.
    repaired: u64,
    /// Unrecoverable pages since the array started.
    lost: u64,
    /// Paths of former members of this array: drives that were replaced, or used without the others.
    /// They are not read.
    former_members: Vec<String>,
    /// The current or last scrub; `null` if there was none.
    scrub: Option<Scrub>,
    /// Time of the next scheduled scrub; `null` while one is running, and if none is scheduled.
    #[schema(format = DateTime)]
    next_scrub: Option<String>,
}

/// A scrub: all data in use is read and verified.
#[derive(Debug, Serialize, ToSchema)]
pub struct Scrub {
    /// Start time.
    #[schema(format = DateTime)]
    started: String,
    /// End time; `null` while it is running.
    #[schema(format = DateTime)]
    ended: Option<String>,
    /// Duration in seconds; `null` while it is running.
    seconds: Option<u64>,
    /// Whether it was cancelled.
    cancelled: bool,
    /// User who started it.
    user: String,
    /// Segments read.
    segments: u64,
    /// Bytes read, parity included.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    bytes: u64,
    /// Pages with wrong contents.
    errors: u64,
    /// Pages repaired.
    repaired: u64,
    /// Unrecoverable pages.
    lost: u64,
}

/// List drives
#[utoipa::path(get, path = "/api/v1/drives", tag = "drives", params(List), responses(
    (status = 200, description = "The drives", content(
        (Drives = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_drives(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<List>,
) -> Result<Response, Problem> {
    let drives = perform(operator, &context, array::ListDrives).await?;
    list(drives.into_iter().map(Drive::from).collect(), part)
}

/// A block device of the server that is not a drive of the array.
#[derive(Debug, Serialize, ToSchema)]
pub struct AvailableDrive {
    /// Path, under `/dev/disk/by-id` if there is one.
    path: String,
    /// Size in bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    size: u64,
    /// Model.
    model: Option<String>,
    /// Serial number.
    serial: Option<String>,
    /// Who uses it, such as `sda1 is mounted at /`. A drive in use is refused.
    users: Vec<String>,
    /// What is on it, such as a partition table or a file system; empty if it is blank.
    contents: Vec<String>,
    /// Why its contents are unknown; `null` if they are known.
    problem: Option<String>,
}

/// Block devices of the server that are not drives of the array.
#[derive(Debug, Serialize, ToSchema)]
pub struct AvailableDrives {
    /// Sorted by path.
    items: Vec<AvailableDrive>,
}

/// List block devices that could be added
///
/// Nothing is written to them. Loop devices, device-mapper and md devices are left out.
#[utoipa::path(get, path = "/api/v1/drives/available", tag = "drives", responses(
    (status = 200, description = "The block devices", body = AvailableDrives),
    Problems,
))]
async fn list_available_drives(
    operator: Operator,
    State(context): State<Context>,
) -> Answer<AvailableDrives> {
    let found = perform(operator, &context, array::ListAvailableDrives).await?;
    let drive = |it: array::FoundDrive| {
        let array::FoundDrive { path, bytes, model, serial, users, contents, problem } = it;
        AvailableDrive { path, size: bytes, model, serial, users, contents, problem }
    };
    Ok(Json(AvailableDrives { items: found.into_iter().map(drive).collect() }))
}

/// Add a drive to the array
#[utoipa::path(post, path = "/api/v1/drives", tag = "drives", request_body = NewDrive, responses(
    (status = 201, description = "The drive", body = Drive),
    Problems,
))]
async fn add_drive(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewDrive>,
) -> Created<Drive> {
    let added = perform(operator, &context, array::AddDrive(new.into())).await?;
    Ok((StatusCode::CREATED, Json(added.into())))
}

/// Get a drive
#[utoipa::path(get, path = "/api/v1/drives/{slot}", tag = "drives",
    params(("slot" = String, Path, description = "Slot or path",)), responses(
    (status = 200, description = "The drive", body = Drive),
    Problems,
))]
async fn show_drive(
    operator: Operator,
    State(context): State<Context>,
    Named(which): Named<String>,
) -> Answer<Drive> {
    let it = perform(operator, &context, array::ShowDrive { which }).await?;
    Ok(Json(it.into()))
}

/// Evacuate a drive
///
/// Moves its data to the other drives. Returns the job; when it completes, the drive is no longer a member of the array.
#[utoipa::path(post, path = "/api/v1/drives/{slot}/evacuate", tag = "drives",
    params(("slot" = String, Path, description = "Slot or path",)),
    request_body = Option<Evacuation>, responses(
    (status = 202, description = "The job", body = Job),
    Problems,
))]
async fn evacuate_drive(
    operator: Operator,
    State(context): State<Context>,
    Named(which): Named<String>,
    Optional(given): Optional<Evacuation>,
) -> Created<Job> {
    let Evacuation { accept_reduced_protection } = given.unwrap_or_default();
    let empty = array::EvacuateDrive { which, accept_reduced_protection };
    let begun = perform(operator, &context, empty).await?;
    Ok((StatusCode::ACCEPTED, Json(begun)))
}

/// Replace a drive
///
/// Adds a new drive and evacuates the old one. The data of a failed drive is rebuilt automatically.
#[utoipa::path(post, path = "/api/v1/drives/{slot}/replace", tag = "drives",
    params(("slot" = String, Path, description = "Slot or path of the old drive",)),
    request_body = NewDrive, responses(
    (status = 201, description = "The new drive", body = Drive),
    Problems,
))]
async fn replace_drive(
    operator: Operator,
    State(context): State<Context>,
    Named(which): Named<String>,
    Body(new): Body<NewDrive>,
) -> Created<Drive> {
    let new = new.into();
    let added = perform(operator, &context, array::ReplaceDrive { which, new }).await?;
    Ok((StatusCode::CREATED, Json(added.into())))
}

/// Get the protection state and the last scrub
#[utoipa::path(get, path = "/api/v1/protection", tag = "drives", responses(
    (status = 200, description = "The protection", body = Protection),
    Problems,
))]
async fn show_protection(operator: Operator, State(context): State<Context>) -> Answer<Protection> {
    let protection = perform(operator, &context, array::ShowProtection).await?;
    Ok(Json(protection.into()))
}

impl From<NewDrive> for array::NewDrive {
    fn from(NewDrive { path, force, take_from_array }: NewDrive) -> Self {
        Self { path, force, take_from_array }
    }
}

impl From<array::Drive> for Drive {
    fn from(array::Drive { status: drive, health, evacuation_warning }: array::Drive) -> Self {
        Self {
            slot: drive.slot,
            path: drive.name,
            id: format!("{:032x}", drive.drive),
            size: drive.bytes,
            used: drive.used_bytes,
            state: match drive.state {
                array::DriveState::Online => DriveState::Online,
                array::DriveState::Evacuating => DriveState::Evacuating,
                array::DriveState::Failed | array::DriveState::Empty => DriveState::Failed,
            },
            journal: drive.journal,
            read_bytes: drive.read_bytes,
            written_bytes: drive.written_bytes,
            read_errors: drive.read_errors,
            slow_reads: drive.slow_reads,
            bad_pages: drive.bad_pages,
            slow: drive.slow,
            evacuation_warning,
            health: health.into(),
        }
    }
}

impl From<array::Health> for Health {
    fn from(it: array::Health) -> Self {
        Self {
            verdict: match it.passed {
                Some(true) => Verdict::Passed,
                Some(false) => Verdict::Failing,
                None => Verdict::Unknown,
            },
            model: it.model,
            serial: it.serial,
            firmware: it.firmware,
            temperature_celsius: it.celsius,
            used_percent: it.used_percent,
            spare_percent: it.spare_percent,
            power_on_hours: it.power_on_hours,
            media_errors: it.media_errors,
            lifetime_written_bytes: it.written_bytes,
            lifetime_read_bytes: it.read_bytes,
        }
    }
}

impl From<array::Protection> for Protection {
    fn from(it: array::Protection) -> Self {
        let array::PoolStatus {
            tolerates,
            failures_to_tolerate,
            segments,
            degraded_segments,
            parity_bytes,
            ..
        } = it.shelf;
        let array::PoolStatus { rebuilt_segments, repaired_pages, lost_pages, former_drives, .. } = it.shelf;
        let (scrub, next_scrub) = (it.scrub.map(Into::into), it.next_scrub.map(utc));
        Self {
            tolerates,
            promises: failures_to_tolerate,
            parity_bytes,
            segments,
            segments_at_risk: degraded_segments,
            rebuilt: rebuilt_segments,
            repaired: repaired_pages,
            lost: lost_pages,
            former_members: former_drives,
            scrub,
            next_scrub,
        }
    }
}

impl From<array::Scrub> for Scrub {
    fn from(scrub: array::Scrub) -> Self {
        let array::Scrub { started, ended, cancelled, user, segments, bytes, errors, repaired, lost, .. } =
            scrub;
        let seconds = ended.map(|ended| ended.saturating_sub(started));
        let (started, ended) = (utc(started), ended.map(utc));
        Self { started, ended, seconds, cancelled, user, segments, bytes, errors, repaired, lost }
    }
}
