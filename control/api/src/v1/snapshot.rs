//! Snapshots, and what differs between two of them.

use super::connection::Connection;
use super::volume::Deletion;
use super::{Answer, Gone, gone, perform, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{Part, PartialList, list};
use crate::problem::{Problem, Problems};
use array::SubjectName;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Extents of a comparison when no limit is asked for.
const USUAL_EXTENTS: usize = 1000;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(list_snapshots, create_snapshots))
        .routes(routes!(show_snapshot, change_snapshot, delete_snapshot))
        .routes(routes!(compare))
}

/// A snapshot.
#[derive(Debug, Serialize, ToSchema)]
pub struct Snapshot {
    /// Its name.
    name: String,
    /// 32 hex digits, the same for ever.
    id: String,
    /// Name of the volume that it was taken of; `null` when that is gone.
    source: Option<String>,
    /// Name of the schedule that took it; `null` when nobody did, or it is gone.
    schedule: Option<String>,
    /// Sixteen hex digits; the same for all that were taken at one moment.
    set: String,
    /// When it was taken.
    #[schema(format = DateTime)]
    created: String,
    /// Size that hosts see, in bytes.
    size: u64,
    /// Logical block length in bytes: 512 or 4096.
    block_size: u32,
    /// Bytes mapped by hosts.
    mapped: u64,
    /// Whether hosts may write to it.
    writable: bool,
    /// Nobody can delete or change it before this time; `null`: everybody who may.
    #[schema(format = DateTime)]
    kept_until: Option<String>,
    /// The name that hosts know it by (VPD page 83h).
    naa: String,
    /// Who sees it.
    connections: Vec<Connection>,
}

/// Snapshots.
#[derive(Debug, Serialize, ToSchema)]
pub struct Snapshots {
    /// In order of names, or as asked for.
    pub items: Vec<Snapshot>,
    /// How many there are without `limit` and `offset`.
    pub total: usize,
}

/// Snapshots to take: of a `volume`, or of every volume of a `group` at one moment.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSnapshots {
    /// Name of the volume. Not with `group`.
    volume: Option<String>,
    /// Name of the volume group. Not with `volume`.
    group: Option<String>,
    /// A snapshot is called as its volume, a dot, and this; the time when not given.
    suffix: Option<String>,
    /// Nobody can delete or change it before this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    keep_until: Option<Time>,
}

/// What to change in a snapshot: one thing at a time.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotChange {
    /// Another name.
    name: Option<String>,
    /// Whether hosts may write to it.
    writable: Option<bool>,
    /// Nobody can delete or change it before this time; later than now, and than what was said before.
    #[schema(value_type = Option<String>, format = DateTime)]
    keep_until: Option<Time>,
}

/// A time as RFC 3339 has it.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Time(pub u64);

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let time: jiff::Timestamp = text.parse().map_err(|_| {
            format!("{text:?} is no time: write it as in RFC 3339, such as 2030-12-31T23:59:59Z")
        })?;
        u64::try_from(time.as_second()).map(Self).map_err(|_| format!("{text:?} is before 1970"))
    }
}

/// What to compare with, and how far.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Comparison {
    /// Name of the older snapshot or volume; when none is given, everything that is mapped differs.
    base: Option<String>,
    /// Where to begin, in bytes: `next` of the answer before.
    offset: Option<u64>,
    /// At most so many extents, 100000 at most; 1000 when not given.
    #[param(minimum = 1, maximum = 100_000)]
    limit: Option<usize>,
}

/// What differs, as far as one answer goes.
#[derive(Debug, Serialize, ToSchema)]
pub struct Difference {
    /// Extents in order. What was written with what was there before may be among them.
    items: Vec<DifferentExtent>,
    /// Where to go on, in bytes; `null` at the end. There may be more even when there are no items.
    next: Option<u64>,
}

/// A run of bytes that differs.
#[derive(Debug, Serialize, ToSchema)]
pub struct DifferentExtent {
    /// Where it begins, in bytes.
    offset: u64,
    /// How long it is, in bytes.
    length: u64,
    /// Whether it holds data now; it reads as zeros otherwise.
    mapped: bool,
}

/// All snapshots
#[utoipa::path(get, path = "/api/v1/snapshots", tag = "snapshots", params(Part), responses(
    (status = 200, description = "The snapshots", content(
        (Snapshots = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_snapshots(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<Part>,
) -> Result<Response, Problem> {
    let all = perform(operator, &context, array::ListSnapshots).await?;
    list(all.into_iter().map(Snapshot::from).collect(), &part)
}

/// Take a snapshot of a volume, or of every volume of a group at one moment
#[utoipa::path(post, path = "/api/v1/snapshots", tag = "snapshots", request_body = NewSnapshots, responses(
    (status = 201, description = "The new snapshots", body = Snapshots),
    Problems,
))]
async fn create_snapshots(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewSnapshots>,
) -> Result<(StatusCode, Json<Snapshots>), Problem> {
    let NewSnapshots { volume, group, suffix, keep_until } = new;
    let subject = subject(volume, group)?;
    let action = array::CreateSnapshots { subject, suffix, keep_until: keep_until.map(|time| time.0) };
    let taken = perform(operator, &context, action).await?;
    let items: Vec<_> = taken.into_iter().map(Snapshot::from).collect();
    Ok((StatusCode::CREATED, Json(Snapshots { total: items.len(), items })))
}

/// Either a volume or a volume group.
pub fn subject(volume: Option<String>, group: Option<String>) -> Result<SubjectName, Problem> {
    match (volume, group) {
        (Some(volume), None) => Ok(SubjectName::Volume(volume)),
        (None, Some(group)) => Ok(SubjectName::Group(group)),
        _ => Err(Problem::rejected(StatusCode::BAD_REQUEST, "name either a volume or a volume group".into())),
    }
}

/// One snapshot
#[utoipa::path(get, path = "/api/v1/snapshots/{name}", tag = "snapshots", params(("name" = String, Path,)), responses(
    (status = 200, description = "The snapshot as it is now", body = Snapshot),
    Problems,
))]
async fn show_snapshot(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Snapshot> {
    let it = perform(operator, &context, array::ShowSnapshot { name }).await?;
    Ok(Json(it.into()))
}

/// Rename a snapshot, make it writable or read-only, or keep it for longer
#[utoipa::path(patch, path = "/api/v1/snapshots/{name}", tag = "snapshots", params(("name" = String, Path,)),
    request_body = SnapshotChange, responses(
    (status = 200, description = "The snapshot as it is now", body = Snapshot),
    Problems,
))]
async fn change_snapshot(
    operator: Operator,
    State(context): State<Context>,
    Named(snapshot): Named<String>,
    Body(change): Body<SnapshotChange>,
) -> Answer<Snapshot> {
    use array::SnapshotChange as Change;
    let change = match (change.name, change.writable, change.keep_until) {
        (Some(name), None, None) => Change::Name(name),
        (None, Some(writable), None) => Change::Writable(writable),
        (None, None, Some(time)) => Change::KeepUntil(time.0),
        _ => {
            let detail = "change one thing of a snapshot at a time: its name, writable, or keep_until";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
    };
    let done = perform(operator, &context, array::ChangeSnapshot { name: snapshot, change }).await?;
    Ok(Json(done.into()))
}

/// Move a snapshot that no host sees to the recycle bin, or delete it with its data
#[utoipa::path(delete, path = "/api/v1/snapshots/{name}", tag = "snapshots",
    params(("name" = String, Path,), Deletion), responses(
    (status = 204, description = "It is gone"),
    Problems,
))]
async fn delete_snapshot(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Asked(Deletion { eradicate }): Asked<Deletion>,
) -> Gone {
    gone(perform(operator, &context, array::DeleteSnapshot { name, eradicate }).await?)
}

/// What differs on a snapshot or volume from an older one
#[utoipa::path(get, path = "/api/v1/snapshots/{name}/diff", tag = "snapshots",
    params(("name" = String, Path, description = "A snapshot or a volume",), Comparison), responses(
    (status = 200, description = "What differs", body = Difference),
    Problems,
))]
async fn compare(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Asked(Comparison { base, offset, limit }): Asked<Comparison>,
) -> Answer<Difference> {
    let most = limit.unwrap_or(USUAL_EXTENTS);
    let action = array::CompareDisks { base, name, from: offset.unwrap_or(0), most };
    let it = perform(operator, &context, action).await?;
    Ok(Json(it.into()))
}

impl From<array::Snapshot> for Snapshot {
    fn from(it: array::Snapshot) -> Self {
        Self {
            name: it.name,
            id: format!("{:032x}", it.id.0),
            source: it.source,
            schedule: it.schedule,
            set: format!("{:016x}", it.set),
            created: utc(it.created),
            size: it.bytes,
            block_size: it.block_bytes,
            mapped: it.mapped,
            writable: it.writable,
            kept_until: it.kept_until.map(utc),
            naa: it.naa,
            connections: it.connections.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<array::Difference> for Difference {
    fn from(array::Difference { extents, next }: array::Difference) -> Self {
        let item = |it: array::DifferentExtent| {
            let array::DifferentExtent { offset, bytes, mapped } = it;
            DifferentExtent { offset, length: bytes, mapped }
        };
        Self { items: extents.into_iter().map(item).collect(), next }
    }
}
