//! The handlers: one action each.

use crate::Context;
use crate::auth::Operator;
use crate::body::{Body, Named};
use crate::problem::{Problem, Problems};
use crate::wire::{
    Array, Connection, Connections, Host, Hosts, NewConnection, NewHost, NewVolume, Volume, VolumeChange,
    Volumes,
};
use array::{Action, Outcome};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Block length of a volume when none is asked for, in bytes: what every host can use.
const BLOCK_BYTES: u32 = 512;

type Answer<T> = Result<Json<T>, Problem>;
type Created<T> = Result<(StatusCode, Json<T>), Problem>;

/// Every path of version 1.
pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(show_array))
        .routes(routes!(list_volumes, create_volume))
        .routes(routes!(show_volume, change_volume, delete_volume))
        .routes(routes!(list_hosts, create_host))
        .routes(routes!(show_host, delete_host))
        .routes(routes!(list_connections, connect))
        .routes(routes!(disconnect))
        .routes(routes!(describe))
}

/// Carries out an action in a task of its own: a client that hangs up must not stop a change half-way.
async fn perform(context: &Context, action: Action) -> Result<Outcome, Problem> {
    let array = context.array.clone();
    match tokio::spawn(async move { array.perform(action).await }).await {
        Ok(outcome) => Ok(outcome?),
        Err(error) => Err(Problem::internal(format!("the action broke off: {error}"))),
    }
}

fn unexpected<T>(outcome: Outcome) -> Result<T, Problem> {
    Err(Problem::internal(format!("the array gave an answer of another kind: {outcome:?}")))
}

/// The array: identity, state, portals, space
#[utoipa::path(get, path = "/api/v1/array", tag = "array", responses(
    (status = 200, description = "The array", body = Array),
    Problems,
))]
async fn show_array(_: Operator, State(context): State<Context>) -> Answer<Array> {
    match perform(&context, Action::ShowArray).await? {
        Outcome::Array(status) => Ok(Json((*status).into())),
        other => unexpected(other),
    }
}

/// All volumes
#[utoipa::path(get, path = "/api/v1/volumes", tag = "volumes", responses(
    (status = 200, description = "The volumes, by name", body = Volumes),
    Problems,
))]
async fn list_volumes(_: Operator, State(context): State<Context>) -> Answer<Volumes> {
    match perform(&context, Action::ListVolumes).await? {
        Outcome::Volumes(volumes) => {
            Ok(Json(Volumes { items: volumes.into_iter().map(Into::into).collect() }))
        }
        other => unexpected(other),
    }
}

/// Make a volume, empty or a clone
#[utoipa::path(post, path = "/api/v1/volumes", tag = "volumes", request_body = NewVolume, responses(
    (status = 201, description = "The volume as it is now", body = Volume),
    Problems,
))]
async fn create_volume(
    _: Operator,
    State(context): State<Context>,
    Body(new): Body<NewVolume>,
) -> Created<Volume> {
    let NewVolume { name, size, block_size, source } = new;
    let action = match (source, size) {
        (Some(source), None) if block_size.is_none() => Action::CloneVolume { source, name },
        (Some(_), _) => {
            let detail = "a clone has the size and block size of its source: leave them out";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
        (None, Some(bytes)) => {
            Action::CreateVolume { name, bytes, block_bytes: block_size.unwrap_or(BLOCK_BYTES) }
        }
        (None, None) => {
            let detail = "a volume needs a size in bytes, or a source to clone";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
    };
    volume(perform(&context, action).await?).map(|volume| (StatusCode::CREATED, volume))
}

/// One volume
#[utoipa::path(get, path = "/api/v1/volumes/{name}", tag = "volumes", params(("name" = String, Path,)), responses(
    (status = 200, description = "The volume as it is now", body = Volume),
    Problems,
))]
async fn show_volume(
    _: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Volume> {
    volume(perform(&context, Action::ShowVolume { name }).await?)
}

/// Resize a volume; hosts that see it are told
#[utoipa::path(patch, path = "/api/v1/volumes/{name}", tag = "volumes", params(("name" = String, Path,)),
    request_body = VolumeChange, responses(
    (status = 200, description = "The volume as it is now", body = Volume),
    Problems,
))]
async fn change_volume(
    _: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Body(change): Body<VolumeChange>,
) -> Answer<Volume> {
    let VolumeChange { size, shrink } = change;
    volume(perform(&context, Action::ResizeVolume { name, bytes: size, shrink }).await?)
}

/// Delete a volume that no host sees, with its data
#[utoipa::path(delete, path = "/api/v1/volumes/{name}", tag = "volumes", params(("name" = String, Path,)),
    responses(
    (status = 204, description = "It is gone"),
    Problems,
))]
async fn delete_volume(
    _: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Result<StatusCode, Problem> {
    gone(perform(&context, Action::DeleteVolume { name }).await?)
}

/// All hosts
#[utoipa::path(get, path = "/api/v1/hosts", tag = "hosts", responses(
    (status = 200, description = "The hosts, by name", body = Hosts),
    Problems,
))]
async fn list_hosts(_: Operator, State(context): State<Context>) -> Answer<Hosts> {
    match perform(&context, Action::ListHosts).await? {
        Outcome::Hosts(hosts) => Ok(Json(Hosts { items: hosts.into_iter().map(Into::into).collect() })),
        other => unexpected(other),
    }
}

/// Make a host known, so that it may log in
#[utoipa::path(post, path = "/api/v1/hosts", tag = "hosts", request_body = NewHost, responses(
    (status = 201, description = "The host as it is now", body = Host),
    Problems,
))]
async fn create_host(_: Operator, State(context): State<Context>, Body(new): Body<NewHost>) -> Created<Host> {
    let NewHost { name, initiators, chap, mutual } = new;
    let (chap, mutual) = (chap.map(Into::into), mutual.map(Into::into));
    let action = Action::CreateHost { name, initiators, chap, mutual };
    host(perform(&context, action).await?).map(|host| (StatusCode::CREATED, host))
}

/// One host
#[utoipa::path(get, path = "/api/v1/hosts/{name}", tag = "hosts", params(("name" = String, Path,)), responses(
    (status = 200, description = "The host as it is now", body = Host),
    Problems,
))]
async fn show_host(_: Operator, State(context): State<Context>, Named(name): Named<String>) -> Answer<Host> {
    host(perform(&context, Action::ShowHost { name }).await?)
}

/// Forget a host that sees no volume
#[utoipa::path(delete, path = "/api/v1/hosts/{name}", tag = "hosts", params(("name" = String, Path,)), responses(
    (status = 204, description = "It is gone"),
    Problems,
))]
async fn delete_host(
    _: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Result<StatusCode, Problem> {
    gone(perform(&context, Action::DeleteHost { name }).await?)
}

/// Who sees what
#[utoipa::path(get, path = "/api/v1/connections", tag = "connections", responses(
    (status = 200, description = "The connections, by volume and host", body = Connections),
    Problems,
))]
async fn list_connections(_: Operator, State(context): State<Context>) -> Answer<Connections> {
    match perform(&context, Action::ListConnections).await? {
        Outcome::Connections(all) => {
            Ok(Json(Connections { items: all.into_iter().map(Into::into).collect() }))
        }
        other => unexpected(other),
    }
}

/// Let a host see a volume
#[utoipa::path(post, path = "/api/v1/connections", tag = "connections", request_body = NewConnection, responses(
    (status = 201, description = "The connection", body = Connection),
    Problems,
))]
async fn connect(
    _: Operator,
    State(context): State<Context>,
    Body(new): Body<NewConnection>,
) -> Created<Connection> {
    let NewConnection { volume, host, lun } = new;
    match perform(&context, Action::Connect { volume, host, lun }).await? {
        Outcome::Connection(connection) => Ok((StatusCode::CREATED, Json(connection.into()))),
        other => unexpected(other),
    }
}

/// Let a host no longer see a volume
#[utoipa::path(delete, path = "/api/v1/connections/{volume}/{host}", tag = "connections",
    params(("volume" = String, Path,), ("host" = String, Path,)), responses(
    (status = 204, description = "It is gone"),
    Problems,
))]
async fn disconnect(
    _: Operator,
    State(context): State<Context>,
    Named((volume, host)): Named<(String, String)>,
) -> Result<StatusCode, Problem> {
    gone(perform(&context, Action::Disconnect { volume, host }).await?)
}

/// This description
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "array", security(()), responses(
    (status = 200, description = "OpenAPI 3.1", body = Object),
))]
async fn describe() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], crate::openapi())
}

fn volume(outcome: Outcome) -> Answer<Volume> {
    match outcome {
        Outcome::Volume(volume) => Ok(Json(volume.into())),
        other => unexpected(other),
    }
}

fn host(outcome: Outcome) -> Answer<Host> {
    match outcome {
        Outcome::Host(host) => Ok(Json(host.into())),
        other => unexpected(other),
    }
}

fn gone(outcome: Outcome) -> Result<StatusCode, Problem> {
    match outcome {
        Outcome::Gone => Ok(StatusCode::NO_CONTENT),
        other => unexpected(other),
    }
}
