//! The recycle bin: deleted volumes and snapshots until their data is eradicated.

use super::handler::{NoContent, no_content, operations, perform, utc};
use super::snapshot::Snapshot;
use super::volume::Volume;
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{List, PartialList, list};
use crate::problem::{Problem, Problems};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(list_recycle_bin: ListRecycleBin))
        .routes(operations!(eradicate_from_recycle_bin: EradicateFromRecycleBin))
        .routes(operations!(restore_from_recycle_bin: RestoreFromRecycleBin))
}

/// A volume or snapshot in the recycle bin.
#[derive(Debug, Serialize, ToSchema)]
pub struct BinnedDisk {
    /// Permanent identifier: 32 hex digits.
    id: String,
    /// Volume or snapshot.
    kind: DiskKind,
    /// Name before it was deleted.
    name: String,
    /// Size presented to hosts, in bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    size: u64,
    /// Mapped (written and not unmapped) bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    mapped: u64,
    /// Deletion time.
    #[schema(format = DateTime)]
    deleted: String,
    /// Time at which its data is eradicated.
    #[schema(format = DateTime)]
    eradicated_after: String,
}

/// Kind of deleted item.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskKind {
    /// A volume.
    Volume,
    /// A snapshot.
    Snapshot,
}

/// The contents of the recycle bin.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecycleBin {
    /// Newest last unless `sort` is given.
    pub items: Vec<BinnedDisk>,
    /// Total count, regardless of `limit` and `offset`.
    pub total: usize,
}

/// Options for restoring an item from the recycle bin.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Restore {
    /// New name; the old name if omitted.
    name: Option<String>,
}

/// A volume or a snapshot.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Disk {
    /// A snapshot; it has a `source`.
    Snapshot(Snapshot),
    /// A volume.
    Volume(Volume),
}

/// List the contents of the recycle bin
#[utoipa::path(get, path = "/api/v1/recycle-bin", tag = "recycle bin", params(List), responses(
    (status = 200, description = "The volumes and snapshots in it", content(
        (RecycleBin = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_recycle_bin(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<List>,
) -> Result<Response, Problem> {
    let bin = perform(operator, &context, array::ListRecycleBin).await?;
    list(bin.into_iter().map(BinnedDisk::from).collect(), part)
}

/// Restore a volume or snapshot from the recycle bin
#[utoipa::path(post, path = "/api/v1/recycle-bin/{id}/restore", tag = "recycle bin",
    params(("id" = String, Path, description = "Id, or unambiguous name",)),
    request_body = Restore, responses(
    (status = 200, description = "The volume or snapshot", body = Disk),
    Problems,
))]
async fn restore_from_recycle_bin(
    operator: Operator,
    State(context): State<Context>,
    Named(which): Named<String>,
    Body(Restore { name }): Body<Restore>,
) -> Result<Json<Disk>, Problem> {
    Ok(Json(match perform(operator, &context, array::RestoreFromRecycleBin { which, name }).await? {
        array::Recovered::Volume(it) => Disk::Volume(it.into()),
        array::Recovered::Snapshot(it) => Disk::Snapshot(it.into()),
    }))
}

/// Eradicate a volume or snapshot in the recycle bin
#[utoipa::path(delete, path = "/api/v1/recycle-bin/{id}", tag = "recycle bin",
    params(("id" = String, Path, description = "Id, or unambiguous name",)), responses(
    (status = 204, description = "Deleted"),
    Problems,
))]
async fn eradicate_from_recycle_bin(
    operator: Operator,
    State(context): State<Context>,
    Named(which): Named<String>,
) -> NoContent {
    no_content(perform(operator, &context, array::EradicateFromRecycleBin { which }).await?)
}

impl From<array::BinnedDisk> for BinnedDisk {
    fn from(disk: array::BinnedDisk) -> Self {
        Self {
            id: format!("{:032x}", disk.id.0),
            kind: if disk.snapshot { DiskKind::Snapshot } else { DiskKind::Volume },
            name: disk.name,
            size: disk.bytes,
            mapped: disk.mapped,
            deleted: utc(disk.deleted),
            eradicated_after: utc(disk.until),
        }
    }
}
