//! Snapshots and comparisons between them.

use super::handler::{Answer, Created, NoContent, created, digits, no_content, operations, perform, utc};
use super::label::{selector, setting};
use super::volume::Deletion;
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{Labelled, List, PartialList, paged};
use crate::problem::{Problem, Problems};
use array::{Connection, SubjectName};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

/// Extents of a comparison when no limit is asked for.
const USUAL_EXTENTS: usize = 1000;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(list_snapshots: ListSnapshots, create_snapshots: CreateSnapshots))
        .routes(operations!(show_snapshot: ShowSnapshot, change_snapshot: ChangeSnapshot, delete_snapshot: DeleteSnapshot))
        .routes(operations!(compare_snapshots: CompareSnapshots))
}

/// A snapshot.
#[derive(Debug, Serialize, ToSchema)]
pub struct Snapshot {
    /// Name.
    name: String,
    /// Permanent identifier: 32 hex digits.
    id: String,
    /// Source volume; `null` if it has been deleted.
    source: Option<String>,
    /// Permanent identifier of the source volume, even if that has been deleted.
    source_id: String,
    /// Schedule that took it; `null` if taken manually or the schedule has been deleted.
    schedule: Option<String>,
    /// Snapshot set: sixteen hex digits, equal for snapshots taken at the same instant.
    set: String,
    /// Time at which it was taken.
    #[schema(format = DateTime)]
    created: String,
    /// Size presented to hosts, in bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    size: u64,
    /// Logical block length in bytes: 512 or 4096.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    block_size: u32,
    /// Mapped (written and not unmapped) bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    mapped: u64,
    /// Whether hosts can write to it.
    writable: bool,
    /// Retention lock: it cannot be deleted or changed before this time; `null`: not locked.
    #[schema(format = DateTime)]
    retain_until: Option<String>,
    /// Identifier reported to hosts (NAA, VPD page 83h).
    naa: String,
    /// Labels.
    labels: BTreeMap<String, String>,
    /// Connections to hosts and host groups.
    connections: Vec<Connection>,
}

/// Snapshots.
#[derive(Debug, Serialize, ToSchema)]
pub struct Snapshots {
    /// Sorted by name unless `sort` is given.
    pub items: Vec<Snapshot>,
    /// Total count, regardless of `limit` and `offset`.
    pub total: usize,
}

/// New snapshots of one of: a `volume`, all volumes of a `group` at the same instant, the volumes of `sources` at the same
/// instant.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSnapshots {
    /// Volume.
    volume: Option<String>,
    /// Volume group.
    group: Option<String>,
    /// Volumes, 1 to 1000: all snapshots are taken, or none.
    sources: Option<Vec<SnapshotSource>>,
    /// Name of the snapshot, 1 to 189 letters, digits, '-', '_' or '.', beginning with a letter or digit. Only with `volume`,
    /// and not with `suffix`.
    name: Option<String>,
    /// Suffix of the name after the volume name and a dot; default: the time. A request with names or a suffix can be
    /// repeated: snapshots that it took already are returned.
    suffix: Option<String>,
    /// Labels of each snapshot: keys of 1 to 63 letters, digits, '-', '_', '.' or '/', values of at most 255 bytes; 64 at
    /// most. The labels of the volume are not inherited.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// Retention lock: it cannot be deleted or changed before this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    retain_until: Option<Time>,
}

/// A volume to snapshot.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotSource {
    /// Volume.
    volume: String,
    /// Name of the snapshot; default: the volume name, a dot and the suffix.
    name: Option<String>,
    /// Labels of the snapshot besides those of all.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// Changes to a snapshot, one field per request.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotChange {
    /// New name.
    name: Option<String>,
    /// Whether hosts can write to it.
    writable: Option<bool>,
    /// Retention lock: it cannot be deleted or changed before this time. Must be in the future and later than the current lock.
    #[schema(value_type = Option<String>, format = DateTime)]
    retain_until: Option<Time>,
    /// Labels to set, and to remove with `null`; others are kept.
    labels: Option<BTreeMap<String, Option<String>>>,
}

/// A time as RFC 3339 has it.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Time(pub u64);

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        array::seconds(&text).map(Self).ok_or_else(|| {
            format!(
                "{text:?} is no time from 1970 to 9999: write it as in RFC 3339, such as 2030-12-31T23:59:59Z"
            )
        })
    }
}

/// Options of a comparison.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Comparison {
    /// Older snapshot or volume; if omitted, all mapped extents are returned.
    base: Option<String>,
    /// Start offset in bytes: `next` of the previous response.
    offset: Option<u64>,
    /// Maximum number of extents, 100000 at most; default 1000.
    #[param(minimum = 1, maximum = 100_000)]
    limit: Option<usize>,
}

/// A page of differing extents.
#[derive(Debug, Serialize, ToSchema)]
pub struct Difference {
    /// Differing extents by offset. May include extents rewritten with equal data.
    items: Vec<DifferentExtent>,
    /// Start offset of the next page in bytes; `null` at the end. A page without items may be followed by others.
    next: Option<u64>,
}

/// A differing extent.
#[derive(Debug, Serialize, ToSchema)]
pub struct DifferentExtent {
    /// Offset in bytes.
    offset: u64,
    /// Length in bytes.
    length: u64,
    /// Whether it is mapped; otherwise it reads as zeros.
    mapped: bool,
}

/// List snapshots
#[utoipa::path(get, path = "/api/v1/snapshots", tag = "snapshots", params(List, Labelled), responses(
    (status = 200, description = "The snapshots", content(
        (Snapshots = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_snapshots(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<List>,
    Asked(Labelled { label }): Asked<Labelled>,
) -> Result<Response, Problem> {
    let wanted = selector(label.as_deref())?;
    paged::<_, Snapshot>(operator, &context, array::ListSnapshots, (wanted, part)).await
}

/// Take a snapshot of a volume, or of all volumes of a group at the same instant
#[utoipa::path(post, path = "/api/v1/snapshots", tag = "snapshots", request_body = NewSnapshots, responses(
    (status = 201, description = "The new snapshots", body = Snapshots),
    (status = 200, description = "The snapshots, which an equal request took", body = Snapshots),
    Problems,
))]
async fn create_snapshots(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewSnapshots>,
) -> Created<Snapshots> {
    let NewSnapshots { volume, group, sources, name, suffix, labels, retain_until } = new;
    let (labels, keep_until) = (setting(labels), retain_until.map(|time| time.0));
    let sources = match (name, &volume, group.is_none() && suffix.is_none() && sources.is_none()) {
        (None, ..) => sources.map(|sources| sources.into_iter().map(Into::into).collect()),
        (Some(name), Some(volume), true) => {
            let named =
                array::SnapshotSource { volume: volume.clone(), name: Some(name), ..Default::default() };
            Some(vec![named])
        }
        _ => {
            let detail = "a name is for the snapshot of one volume, and stands alone: leave out the group, the sources \
                          and the suffix";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
    };
    let done = match sources {
        Some(_) if group.is_some() => {
            let detail = "name one of: a volume, a volume group, or sources";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
        Some(sources) => {
            let action = array::CreateSnapshotSet { sources, suffix, keep_until, labels };
            perform(operator, &context, action).await?
        }
        None => {
            let subject = subject(volume, group)?;
            let action = array::CreateSnapshots { subject, suffix, keep_until, labels };
            perform(operator, &context, action).await?
        }
    };
    created(done)
}

/// Either a volume or a volume group.
pub fn subject(volume: Option<String>, group: Option<String>) -> Result<SubjectName, Problem> {
    match (volume, group) {
        (Some(volume), None) => Ok(SubjectName::Volume(volume)),
        (None, Some(group)) => Ok(SubjectName::Group(group)),
        _ => Err(Problem::rejected(StatusCode::BAD_REQUEST, "name either a volume or a volume group".into())),
    }
}

/// Get a snapshot
#[utoipa::path(get, path = "/api/v1/snapshots/{name}", tag = "snapshots", params(("name" = String, Path,)), responses(
    (status = 200, description = "The snapshot", body = Snapshot),
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

/// Rename a snapshot, change its access, or extend its retention lock
#[utoipa::path(patch, path = "/api/v1/snapshots/{name}", tag = "snapshots", params(("name" = String, Path,)),
    request_body = SnapshotChange, responses(
    (status = 200, description = "The snapshot", body = Snapshot),
    Problems,
))]
async fn change_snapshot(
    operator: Operator,
    State(context): State<Context>,
    Named(snapshot): Named<String>,
    Body(change): Body<SnapshotChange>,
) -> Answer<Snapshot> {
    use array::SnapshotChange as Change;
    let change = match (change.name, change.writable, change.retain_until, change.labels) {
        (Some(name), None, None, None) => Change::Name(name),
        (None, Some(writable), None, None) => Change::Writable(writable),
        (None, None, Some(time), None) => Change::KeepUntil(time.0),
        (None, None, None, Some(labels)) => Change::Labels(array::LabelsChange(labels)),
        _ => {
            let detail = "change one field of a snapshot per request: name, writable, retain_until or labels";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
    };
    let done = perform(operator, &context, array::ChangeSnapshot { name: snapshot, change }).await?;
    Ok(Json(done.into()))
}

/// Delete a snapshot
///
/// It must not be connected to a host. It moves to the recycle bin, or its data is eradicated.
#[utoipa::path(delete, path = "/api/v1/snapshots/{name}", tag = "snapshots",
    params(("name" = String, Path,), Deletion), responses(
    (status = 204, description = "Deleted"),
    Problems,
))]
async fn delete_snapshot(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Asked(Deletion { eradicate }): Asked<Deletion>,
) -> NoContent {
    no_content(perform(operator, &context, array::DeleteSnapshot { name, eradicate }).await?)
}

/// List the extents that differ between a snapshot or volume and an older snapshot
#[utoipa::path(get, path = "/api/v1/snapshots/{name}/diff", tag = "snapshots",
    params(("name" = String, Path, description = "Snapshot or volume",), Comparison), responses(
    (status = 200, description = "The differing extents", body = Difference),
    Problems,
))]
async fn compare_snapshots(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Asked(Comparison { base, offset, limit }): Asked<Comparison>,
) -> Answer<Difference> {
    let most = limit.unwrap_or(USUAL_EXTENTS);
    let action = array::CompareSnapshots { base, name, from: offset.unwrap_or(0), most };
    let it = perform(operator, &context, action).await?;
    Ok(Json(it.into()))
}

impl From<array::Snapshot> for Snapshot {
    fn from(it: array::Snapshot) -> Self {
        Self {
            name: it.name,
            id: digits(it.id),
            source: it.source,
            source_id: digits(it.source_id),
            schedule: it.schedule,
            set: format!("{:016x}", it.set),
            created: utc(it.created),
            size: it.bytes,
            block_size: it.block_bytes,
            mapped: it.mapped,
            writable: it.writable,
            retain_until: it.kept_until.map(utc),
            naa: it.naa,
            labels: it.labels.into(),
            connections: it.connections,
        }
    }
}

impl From<Vec<array::Snapshot>> for Snapshots {
    fn from(all: Vec<array::Snapshot>) -> Self {
        Self { total: all.len(), items: all.into_iter().map(Into::into).collect() }
    }
}

impl From<SnapshotSource> for array::SnapshotSource {
    fn from(SnapshotSource { volume, name, labels }: SnapshotSource) -> Self {
        Self { volume, name, labels: setting(labels) }
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
