//! Drives, and how they protect what is stored.

use super::job::Job;
use super::{Answer, Created, perform, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named, Optional};
use crate::list::{Part, PartialList, list};
use crate::problem::{Problem, Problems};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(list_drives, add_drive))
        .routes(routes!(show_drive))
        .routes(routes!(evacuate_drive))
        .routes(routes!(replace_drive))
        .routes(routes!(show_protection))
        .routes(routes!(start_scrub))
}

/// A drive.
#[derive(Debug, Serialize, ToSchema)]
pub struct Drive {
    /// Its slot, from 0.
    slot: usize,
    /// The path of the block device or file; `null` when it is not there.
    path: Option<String>,
    /// 32 hex digits, of this drive in this array.
    id: String,
    /// Its size in bytes.
    size: u64,
    /// Bytes of it that hold data and parity.
    used: u64,
    /// What it is to the array.
    standing: Standing,
    /// It carries a copy of the journal.
    journal: bool,
    /// Bytes read from it since the start.
    read_bytes: u64,
    /// Bytes written to it since the start: what wears it out.
    written_bytes: u64,
    /// Reads that failed since the start.
    read_errors: u64,
    /// Reads since the start that were answered from the others, because they took too long.
    slow_reads: u64,
    /// Pages since the start that were not what had been written to it.
    bad_pages: u64,
    /// It takes much longer than the others, which are read in its place.
    slow: bool,
    /// What emptying it costs in protection; `null` when it costs nothing.
    evacuation_warning: Option<String>,
    /// What it tells of itself (SMART).
    health: Health,
}

/// What a drive tells of itself by `smartctl`, asked every ten minutes; `null` where it says nothing, as files do.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// Its own verdict.
    verdict: Verdict,
    /// What its maker calls it.
    model: Option<String>,
    /// Its number.
    serial: Option<String>,
    /// The version of its software.
    firmware: Option<String>,
    /// How warm it is.
    temperature_celsius: Option<i64>,
    /// Parts of a hundred of the writes that it was made for; may be more than a hundred.
    used_percent: Option<u64>,
    /// Parts of a hundred of its spare space that are left.
    spare_percent: Option<u64>,
    /// Hours that it was on in its life.
    power_on_hours: Option<u64>,
    /// Times in its life that it could not give back what it had been given.
    media_errors: Option<u64>,
    /// Bytes written to it in its life.
    lifetime_written_bytes: Option<u64>,
    /// Bytes read from it in its life.
    lifetime_read_bytes: Option<u64>,
}

/// What a drive says of itself.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is well.
    Passed,
    /// It fails, or expects to.
    Failing,
    /// It says nothing.
    Unknown,
}

/// What a drive is to the array.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Part of it.
    InUse,
    /// Being emptied.
    Leaving,
    /// It failed or did not come: what it held is rebuilt on the others.
    Out,
}

/// Drives.
#[derive(Debug, Serialize, ToSchema)]
pub struct Drives {
    /// In order of slots, or as asked for.
    pub items: Vec<Drive>,
    /// How many there are without `limit` and `offset`.
    pub total: usize,
}

/// A drive to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewDrive {
    /// Absolute path of a block device or a file on the array's machine; names under `/dev/disk/by-id` stay what they are.
    path: String,
    /// Overwrite it even if it is not blank: what it holds is destroyed. Only block devices, and never a drive with the
    /// label of an Ashlar array.
    #[serde(default)]
    force: bool,
    /// Overwrite it although it has the label of the Ashlar array with this identity (32 hex digits): that array can't
    /// use it any more.
    #[serde(default)]
    take_from_array: Option<String>,
}

/// How a drive is emptied.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Evacuation {
    /// Empty it even if fewer drives may fail without loss after that: see `evacuation_warning` of the drive. Without it,
    /// such a request is refused with 409.
    #[serde(default)]
    accept_reduced_protection: bool,
}

/// How what is stored is protected.
#[derive(Debug, Serialize, ToSchema)]
pub struct Protection {
    /// Drives that may still fail, whichever they are, without loss.
    tolerates: usize,
    /// Drives that the array promises to do without: what it could lose at best since it was made. An alert is raised
    /// while `tolerates` is less.
    promises: usize,
    /// Segments in use.
    segments: u32,
    /// Segments of which a part is to be placed elsewhere.
    segments_at_risk: u32,
    /// Segments placed elsewhere since the start.
    healed: u64,
    /// Pages that were wrong and were written again, since the start.
    repaired: u64,
    /// Pages that could not be given back, since the start.
    lost: u64,
    /// Paths of drives that were of this array and are not members: they were replaced, or used without the others.
    /// Nothing of them is read.
    strays: Vec<String>,
    /// The scrub under way, or the last one; `null` when there never was one.
    scrub: Option<Scrub>,
    /// When the next one begins by itself; `null` while one is under way, and when none will.
    #[schema(format = DateTime)]
    next_scrub: Option<String>,
}

/// Everything in use read and verified.
#[derive(Debug, Serialize, ToSchema)]
pub struct Scrub {
    /// When it began.
    #[schema(format = DateTime)]
    started: String,
    /// When it ended; `null` while it is under way.
    #[schema(format = DateTime)]
    ended: Option<String>,
    /// How long it took, in seconds; `null` while it is under way.
    seconds: Option<u64>,
    /// Somebody ended it before it was through.
    cancelled: bool,
    /// Who asked for it.
    user: String,
    /// Segments read.
    segments: u64,
    /// Bytes read, parity included.
    bytes: u64,
    /// Pages that were not what had been written.
    errors: u64,
    /// Of these, written again.
    repaired: u64,
    /// Pages that could not be given back.
    lost: u64,
}

/// All drives
#[utoipa::path(get, path = "/api/v1/drives", tag = "drives", params(Part), responses(
    (status = 200, description = "The drives", content(
        (Drives = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_drives(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<Part>,
) -> Result<Response, Problem> {
    let drives = perform(operator, &context, array::ListDrives).await?;
    list(drives.into_iter().map(Drive::from).collect(), &part)
}

/// Make a drive a part of the array
#[utoipa::path(post, path = "/api/v1/drives", tag = "drives", request_body = NewDrive, responses(
    (status = 201, description = "The drive as it is now", body = Drive),
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

/// One drive
#[utoipa::path(get, path = "/api/v1/drives/{slot}", tag = "drives",
    params(("slot" = String, Path, description = "Its slot, or its path",)), responses(
    (status = 200, description = "The drive as it is now", body = Drive),
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

/// Place what a drive holds on the others, so that it can be taken away
///
/// Answers with the job that does it. The drive is no part of the array any more when that is done.
#[utoipa::path(post, path = "/api/v1/drives/{slot}/evacuate", tag = "drives",
    params(("slot" = String, Path, description = "Its slot, or its path",)),
    request_body = Option<Evacuation>, responses(
    (status = 202, description = "The job", body = Job),
    Problems,
))]
async fn evacuate_drive(
    operator: Operator,
    State(context): State<Context>,
    Named(which): Named<String>,
    Optional(Evacuation { accept_reduced_protection }): Optional<Evacuation>,
) -> Created<Job> {
    let empty = array::EvacuateDrive { which, accept_reduced_protection };
    let begun = perform(operator, &context, empty).await?;
    Ok((StatusCode::ACCEPTED, Json(begun.into())))
}

/// Add a drive in the place of another one, which is emptied
///
/// What was on one that is out is rebuilt by itself.
#[utoipa::path(post, path = "/api/v1/drives/{slot}/replace", tag = "drives",
    params(("slot" = String, Path, description = "The slot or path of the other one",)),
    request_body = NewDrive, responses(
    (status = 201, description = "The new drive as it is now", body = Drive),
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

/// How what is stored is protected, and the last scrub
#[utoipa::path(get, path = "/api/v1/protection", tag = "drives", responses(
    (status = 200, description = "The protection", body = Protection),
    Problems,
))]
async fn show_protection(operator: Operator, State(context): State<Context>) -> Answer<Protection> {
    let protection = perform(operator, &context, array::ShowProtection).await?;
    Ok(Json(protection.into()))
}

/// Read and verify everything on the drives, and write again what is wrong
#[utoipa::path(post, path = "/api/v1/scrub", tag = "drives", responses(
    (status = 202, description = "The job that does it", body = Job),
    Problems,
))]
async fn start_scrub(operator: Operator, State(context): State<Context>) -> Created<Job> {
    let begun = perform(operator, &context, array::StartScrub).await?;
    Ok((StatusCode::ACCEPTED, Json(begun.into())))
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
            standing: match drive.state {
                array::DriveState::InUse => Standing::InUse,
                array::DriveState::Draining => Standing::Leaving,
                array::DriveState::Failed | array::DriveState::Empty => Standing::Out,
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
            drives: _, tolerates, failures_to_tolerate, segments, degraded_segments, ..
        } = it.shelf;
        let array::PoolStatus { rebuilt_segments, repaired_pages, lost_pages, former_drives, .. } = it.shelf;
        let (scrub, next_scrub) = (it.scrub.map(Into::into), it.next_scrub.map(utc));
        Self {
            tolerates,
            promises: failures_to_tolerate,
            segments,
            segments_at_risk: degraded_segments,
            healed: rebuilt_segments,
            repaired: repaired_pages,
            lost: lost_pages,
            strays: former_drives,
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
