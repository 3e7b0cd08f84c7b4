//! Space usage of volumes and volume groups.

use super::handler::{Answer, operations, perform};
use crate::Context;
use crate::auth::Operator;
use crate::body::Named;
use crate::problem::Problems;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(show_volume_space: ShowVolumeSpace))
        .routes(operations!(show_group_space: ShowGroupSpace))
}

/// Space usage of volumes with their snapshots, in bytes. Data shared with other volumes, clones or the recycle bin is not
/// counted in `unique`, `physical` and `metadata`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Usage {
    /// Provisioned: sum of the volume sizes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    provisioned: u64,
    /// Mapped bytes of the volumes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    mapped: u64,
    /// Mapped zero bytes, which occupy no space.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    zero: u64,
    /// Number of snapshots.
    snapshots: usize,
    /// Mapped non-zero bytes of the snapshots, mostly shared with the volumes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    snapshot: u64,
    /// Unique bytes held only by them.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    unique: u64,
    /// Bytes that are deduplicated or shared with others.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    shared: u64,
    /// Physical bytes of the unique data after compression, freed when all of them are eradicated.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    physical: u64,
    /// Physical bytes of their maps, freed likewise.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    metadata: u64,
}

/// Get the space usage of a volume and its snapshots
///
/// Scans all of their maps. What took long is not repeated at once: the answer may be as old as about fifty times what it took.
#[utoipa::path(get, path = "/api/v1/volumes/{name}/space", tag = "volumes", params(("name" = String, Path,)),
    responses((status = 200, description = "The space usage", body = Usage), Problems))]
async fn show_volume_space(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Usage> {
    let it = perform(operator, &context, array::ShowVolumeSpace { name }).await?;
    Ok(Json(it.into()))
}

/// Get the space usage of the volumes of a group and their snapshots
///
/// Scans all of their maps. What took long is not repeated at once: the answer may be as old as about fifty times what it took.
#[utoipa::path(get, path = "/api/v1/groups/{name}/space", tag = "groups", params(("name" = String, Path,)),
    responses((status = 200, description = "The space usage", body = Usage), Problems))]
async fn show_group_space(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Usage> {
    let it = perform(operator, &context, array::ShowGroupSpace { name }).await?;
    Ok(Json(it.into()))
}

impl From<array::Usage> for Usage {
    fn from(it: array::Usage) -> Self {
        let array::Usage {
            provisioned,
            mapped,
            zero,
            snapshots,
            snapshot,
            unique,
            shared,
            physical,
            metadata,
        } = it;
        Self { provisioned, mapped, zero, snapshots, snapshot, unique, shared, physical, metadata }
    }
}
