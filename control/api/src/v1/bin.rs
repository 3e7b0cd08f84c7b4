//! The recycle bin: volumes and snapshots that were deleted, until their space is given back.

use super::snapshot::Snapshot;
use super::volume::Volume;
use super::{Gone, gone, perform, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{Part, PartialList, list};
use crate::problem::{Problem, Problems};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(list_recycle_bin))
        .routes(routes!(eradicate_from_recycle_bin))
        .routes(routes!(take_from_recycle_bin))
}

/// A volume or snapshot in the recycle bin.
#[derive(Debug, Serialize, ToSchema)]
pub struct BinnedDisk {
    /// 32 hex digits, the same for ever.
    id: String,
    /// Which of both it is.
    kind: DiskKind,
    /// The name that it had.
    name: String,
    /// Size that hosts saw, in bytes.
    size: u64,
    /// Bytes mapped by hosts.
    mapped: u64,
    /// When it was deleted.
    #[schema(format = DateTime)]
    deleted: String,
    /// When it will be eradicated with its data.
    #[schema(format = DateTime)]
    eradicated_after: String,
}

/// What has a name, a size and data.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskKind {
    /// A volume.
    Volume,
    /// A snapshot.
    Snapshot,
}

/// What is in the recycle bin.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecycleBin {
    /// The newest last, or as asked for.
    pub items: Vec<BinnedDisk>,
    /// How many there are without `limit` and `offset`.
    pub total: usize,
}

/// How to take something out of the recycle bin.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Restore {
    /// The name to have; its old one when none is given.
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

/// What is in the recycle bin
#[utoipa::path(get, path = "/api/v1/recycle-bin", tag = "recycle bin", params(Part), responses(
    (status = 200, description = "The volumes and snapshots in it", content(
        (RecycleBin = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_recycle_bin(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<Part>,
) -> Result<Response, Problem> {
    let bin = perform(operator, &context, array::ListBin).await?;
    list(bin.into_iter().map(BinnedDisk::from).collect(), &part)
}

/// Take a volume or snapshot out of the recycle bin
#[utoipa::path(post, path = "/api/v1/recycle-bin/{id}/restore", tag = "recycle bin",
    params(("id" = String, Path, description = "Its id, or its name when that says which",)),
    request_body = Restore, responses(
    (status = 200, description = "The volume or snapshot as it is now", body = Disk),
    Problems,
))]
async fn take_from_recycle_bin(
    operator: Operator,
    State(context): State<Context>,
    Named(which): Named<String>,
    Body(Restore { name }): Body<Restore>,
) -> Result<Json<Disk>, Problem> {
    Ok(Json(match perform(operator, &context, array::TakeFromBin { which, name }).await? {
        array::Recovered::Volume(it) => Disk::Volume(it.into()),
        array::Recovered::Snapshot(it) => Disk::Snapshot(it.into()),
    }))
}

/// Delete a volume or snapshot in the recycle bin with its data
#[utoipa::path(delete, path = "/api/v1/recycle-bin/{id}", tag = "recycle bin",
    params(("id" = String, Path, description = "Its id, or its name when that says which",)), responses(
    (status = 204, description = "It is gone"),
    Problems,
))]
async fn eradicate_from_recycle_bin(
    operator: Operator,
    State(context): State<Context>,
    Named(which): Named<String>,
) -> Gone {
    gone(perform(operator, &context, array::EradicateFromBin { which }).await?)
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
