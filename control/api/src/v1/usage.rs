//! What volumes and volume groups cost on the drives.

use super::{Answer, perform};
use crate::Context;
use crate::auth::Operator;
use crate::body::Named;
use crate::problem::Problems;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(volume_space)).routes(routes!(group_space))
}

/// Space of volumes with their snapshots, in bytes. What others hold as well, the recycle bin and clones among them, is
/// in none of `unique`, `physical` and `metadata`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Usage {
    /// Sum of the volumes' sizes.
    provisioned: u64,
    /// Mapped by hosts on the volumes.
    mapped: u64,
    /// Of that, zeros: they are mapped and stored nowhere.
    zero: u64,
    /// How many snapshots they have.
    snapshots: usize,
    /// Mapped on the snapshots and not zeros; most of it is shared with the volumes.
    snapshot: u64,
    /// Distinct data that only they hold.
    unique: u64,
    /// What they hold beyond that: it repeats, or others hold it as well.
    shared: u64,
    /// What the distinct data take on the drives, after compression: it comes back when all of them are eradicated.
    physical: u64,
    /// What maps of theirs take on the drives, which comes back as well.
    metadata: u64,
}

/// What a volume and its snapshots cost; every map of theirs is looked at, which takes a while when they hold much
#[utoipa::path(get, path = "/api/v1/volumes/{name}/space", tag = "volumes", params(("name" = String, Path,)),
    responses((status = 200, description = "Their space now", body = Usage), Problems))]
async fn volume_space(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Usage> {
    let it = perform(operator, &context, array::ShowVolumeUsage { name }).await?;
    Ok(Json(it.into()))
}

/// What the volumes of a group and their snapshots cost together; every map of theirs is looked at
#[utoipa::path(get, path = "/api/v1/groups/{name}/space", tag = "groups", params(("name" = String, Path,)),
    responses((status = 200, description = "Their space now", body = Usage), Problems))]
async fn group_space(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Usage> {
    let it = perform(operator, &context, array::ShowGroupUsage { name }).await?;
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
