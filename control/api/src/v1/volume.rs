//! Volumes.

use super::connection::Connection;
use super::policy::{Limits, LimitsChange, Policy, PolicyChange, PolicyInForce};
use super::{Answer, Created, Gone, gone, perform, present, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{Part, PartialList, list};
use crate::problem::{Problem, Problems};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Block length of a volume when none is asked for, in bytes: what every host can use.
const BLOCK_BYTES: u32 = 512;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(list_volumes, create_volume))
        .routes(routes!(show_volume, change_volume, delete_volume))
        .routes(routes!(restore_volume))
        .routes(routes!(clear_state))
}

/// A volume.
#[derive(Debug, Serialize, ToSchema)]
pub struct Volume {
    /// Its name.
    name: String,
    /// 32 hex digits, the same for ever.
    id: String,
    /// Size that hosts see, in bytes.
    size: u64,
    /// Logical block length in bytes: 512 or 4096.
    block_size: u32,
    /// Bytes mapped by hosts.
    mapped: u64,
    /// The name that hosts know it by (VPD page 83h).
    naa: String,
    /// When it was made.
    #[schema(format = DateTime)]
    created: String,
    /// The volume group that it is in; `null` when it is in none.
    group: Option<String>,
    /// Whether it takes no changes.
    read_only: bool,
    /// What is set about its reduction.
    policy: Policy,
    /// How its data are reduced from now on.
    policy_in_force: PolicyInForce,
    /// What it may do in a second, beside what its group may.
    limits: Limits,
    /// Whether RESERVE and RELEASE of SCSI-2 are commands of it.
    scsi2_reservations: bool,
    /// Who sees it.
    connections: Vec<Connection>,
}

/// Volumes.
#[derive(Debug, Serialize, ToSchema)]
pub struct Volumes {
    /// In order of names, or as asked for.
    pub items: Vec<Volume>,
    /// How many there are without `limit` and `offset`.
    pub total: usize,
}

/// A volume to make: empty with a `size`, or a clone of a `source`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVolume {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: String,
    /// Bytes, 1 MiB to 16 PiB, a whole number of blocks. Not with `source`.
    size: Option<u64>,
    /// 512 (when not given) or 4096. Not with `source`.
    block_size: Option<u32>,
    /// Name of a volume or snapshot whose contents the new one has, sharing its space.
    source: Option<String>,
    /// Name of the volume group to be in.
    group: Option<String>,
}

/// What to change in a volume; what is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeChange {
    /// Another name.
    name: Option<String>,
    /// The new size in bytes; in a request of its own.
    size: Option<u64>,
    /// Allow a smaller size, which destroys what lies behind it.
    #[serde(default)]
    shrink: bool,
    /// Another volume group; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    group: Option<Option<String>>,
    /// How its data are reduced from now on.
    #[serde(default)]
    policy: PolicyChange,
    /// What it may do in a second.
    #[serde(default)]
    limits: LimitsChange,
    /// Whether RESERVE and RELEASE of SCSI-2 are commands of it.
    scsi2_reservations: Option<bool>,
    /// Whether it takes no changes; in a request of its own.
    read_only: Option<bool>,
}

/// What to restore a volume from.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Overwrite {
    /// Name of the snapshot, or of another volume, whose contents and size it gets.
    source: String,
}

/// How to delete a volume or a snapshot.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Deletion {
    /// Delete the data at once instead of moving it to the recycle bin.
    #[serde(default)]
    pub eradicate: bool,
}

/// All volumes
#[utoipa::path(get, path = "/api/v1/volumes", tag = "volumes", params(Part), responses(
    (status = 200, description = "The volumes", content(
        (Volumes = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_volumes(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<Part>,
) -> Result<Response, Problem> {
    let volumes = perform(operator, &context, array::ListVolumes).await?;
    list(volumes.into_iter().map(Volume::from).collect(), &part)
}

/// Make a volume, empty or a clone
#[utoipa::path(post, path = "/api/v1/volumes", tag = "volumes", request_body = NewVolume, responses(
    (status = 201, description = "The volume as it is now", body = Volume),
    Problems,
))]
async fn create_volume(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewVolume>,
) -> Created<Volume> {
    let NewVolume { name, size, block_size, source, group } = new;
    let made = match (source, size) {
        (Some(source), None) if block_size.is_none() => {
            perform(operator, &context, array::CloneVolume { source, name, group }).await?
        }
        (Some(_), _) => {
            let detail = "a clone has the size and block size of its source: leave them out";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
        (None, Some(bytes)) => {
            let block_bytes = block_size.unwrap_or(BLOCK_BYTES);
            perform(operator, &context, array::CreateVolume { name, bytes, block_bytes, group }).await?
        }
        (None, None) => {
            let detail = "a volume needs a size in bytes, or a source to clone";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
    };
    Ok((StatusCode::CREATED, Json(made.into())))
}

/// One volume
#[utoipa::path(get, path = "/api/v1/volumes/{name}", tag = "volumes", params(("name" = String, Path,)), responses(
    (status = 200, description = "The volume as it is now", body = Volume),
    Problems,
))]
async fn show_volume(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Volume> {
    let it = perform(operator, &context, array::ShowVolume { name }).await?;
    Ok(Json(it.into()))
}

/// Change a volume; hosts that see it are told of another size
#[utoipa::path(patch, path = "/api/v1/volumes/{name}", tag = "volumes", params(("name" = String, Path,)),
    request_body = VolumeChange, responses(
    (status = 200, description = "The volume as it is now", body = Volume),
    Problems,
))]
async fn change_volume(
    operator: Operator,
    State(context): State<Context>,
    Named(volume): Named<String>,
    Body(change): Body<VolumeChange>,
) -> Answer<Volume> {
    let change = array::VolumeChange {
        name: change.name,
        bytes: change.size,
        shrink: change.shrink,
        group: change.group,
        policy: change.policy.into(),
        limits: change.limits.into(),
        scsi2_reservations: change.scsi2_reservations,
        read_only: change.read_only,
    };
    let done = perform(operator, &context, array::ChangeVolume { name: volume, change }).await?;
    Ok(Json(done.into()))
}

/// Move a volume that no host sees to the recycle bin, or delete it with its data
#[utoipa::path(delete, path = "/api/v1/volumes/{name}", tag = "volumes",
    params(("name" = String, Path,), Deletion), responses(
    (status = 204, description = "It is gone"),
    Problems,
))]
async fn delete_volume(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Asked(Deletion { eradicate }): Asked<Deletion>,
) -> Gone {
    gone(perform(operator, &context, array::DeleteVolume { name, eradicate }).await?)
}

/// Give a volume the contents and size of a snapshot; what it held is lost, and its hosts are told
#[utoipa::path(post, path = "/api/v1/volumes/{name}/restore", tag = "volumes", params(("name" = String, Path,)),
    request_body = Overwrite, responses(
    (status = 200, description = "The volume as it is now", body = Volume),
    Problems,
))]
async fn restore_volume(
    operator: Operator,
    State(context): State<Context>,
    Named(volume): Named<String>,
    Body(Overwrite { source }): Body<Overwrite>,
) -> Answer<Volume> {
    let done = perform(operator, &context, array::RestoreVolume { volume, source }).await?;
    Ok(Json(done.into()))
}

/// Forget saved reservations and mode pages that can't be understood, so that hosts may write again
#[utoipa::path(post, path = "/api/v1/volumes/{name}/clear-state", tag = "volumes", params(("name" = String, Path,)),
    responses(
    (status = 204, description = "The volume or snapshot has no reservations and takes writes"),
    Problems,
))]
async fn clear_state(operator: Operator, State(context): State<Context>, Named(name): Named<String>) -> Gone {
    gone(perform(operator, &context, array::ClearUnreadableState { name }).await?)
}

impl From<array::Volume> for Volume {
    fn from(volume: array::Volume) -> Self {
        Self {
            name: volume.name,
            id: format!("{:032x}", volume.id.0),
            size: volume.bytes,
            block_size: volume.block_bytes,
            mapped: volume.mapped,
            naa: volume.naa,
            created: utc(volume.created),
            group: volume.group,
            read_only: volume.read_only,
            policy: volume.policy.into(),
            policy_in_force: volume.in_force.into(),
            limits: volume.limits.into(),
            scsi2_reservations: volume.scsi2_reservations,
            connections: volume.connections.into_iter().map(Into::into).collect(),
        }
    }
}
