//! Connections of volumes and snapshots to hosts and host groups.

use super::handler::{Answer, Created, NoContent, no_content, operations, perform};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Body, Named, ReachedAddress};
use crate::problem::{Problem, Problems};
use array::{Attachment, PeerName};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(create_connection: CreateConnection))
        .routes(operations!(show_connection: ShowConnection, delete_connection: DeleteConnection))
        .routes(operations!(show_host_group_connection: ShowConnection as "show_host_group_connection", delete_host_group_connection: DeleteConnection as "delete_host_group_connection"))
}

/// A new connection to a host or a host group.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewConnection {
    /// Volume or snapshot.
    volume: String,
    /// Host. Not allowed with `host_group`.
    host: Option<String>,
    /// Host group. Not allowed with `host`.
    host_group: Option<String>,
    /// Logical unit number, 0 to 16383; default: the lowest free one, over NVMe/TCP the lowest one that named no other volume before.
    lun: Option<u16>,
    /// Lowest logical unit number to choose if `lun` is not given; default: 0. Not allowed with `lun`.
    min_lun: Option<u16>,
    /// Refuse writes. Always true for a snapshot that is not writable.
    #[serde(default)]
    read_only: bool,
}

/// Connect a volume or snapshot to a host or host group
///
/// A connection that exists is returned with status 200 if it has the given fields.
#[utoipa::path(post, path = "/api/v1/connections", tag = "connections", request_body = NewConnection, responses(
    (status = 201, description = "The connection", body = Attachment),
    (status = 200, description = "The connection, which existed", body = Attachment),
    Problems,
))]
async fn create_connection(
    operator: Operator,
    State(context): State<Context>,
    reached: ReachedAddress,
    Body(new): Body<NewConnection>,
) -> Created<Attachment> {
    let NewConnection { volume, host, host_group, lun, min_lun, read_only } = new;
    let peer = match (host, host_group) {
        (Some(host), None) => PeerName::Host(host),
        (None, Some(group)) => PeerName::HostGroup(group),
        _ => {
            let detail = "name either a host or a host group that is to see the volume";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
    };
    let action = array::CreateConnection { volume, peer, lun, min_lun, read_only };
    let array::Ensured { object, created } = perform(operator, &context, action).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, shown(object, reached)))
}

/// Get a connection to a host, with everything to attach the volume
#[utoipa::path(get, path = "/api/v1/connections/{volume}/{host}", tag = "connections",
    params(("volume" = String, Path,), ("host" = String, Path,)), responses(
    (status = 200, description = "The connection", body = Attachment),
    Problems,
))]
async fn show_connection(
    operator: Operator,
    State(context): State<Context>,
    reached: ReachedAddress,
    Named((volume, host)): Named<(String, String)>,
) -> Answer<Attachment> {
    let wanted = array::ShowConnection { volume, peer: PeerName::Host(host) };
    Ok(shown(perform(operator, &context, wanted).await?, reached))
}

/// Get a connection to a host group, with everything to attach the volume
#[utoipa::path(get, path = "/api/v1/connections/{volume}/host-groups/{host_group}", tag = "connections",
    params(("volume" = String, Path,), ("host_group" = String, Path,)), responses(
    (status = 200, description = "The connection", body = Attachment),
    Problems,
))]
async fn show_host_group_connection(
    operator: Operator,
    State(context): State<Context>,
    reached: ReachedAddress,
    Named((volume, group)): Named<(String, String)>,
) -> Answer<Attachment> {
    let wanted = array::ShowConnection { volume, peer: PeerName::HostGroup(group) };
    Ok(shown(perform(operator, &context, wanted).await?, reached))
}

/// Disconnect a volume from a host
///
/// Nothing happens if they are not connected.
#[utoipa::path(delete, path = "/api/v1/connections/{volume}/{host}", tag = "connections",
    params(("volume" = String, Path,), ("host" = String, Path,)), responses(
    (status = 204, description = "Deleted"),
    Problems,
))]
async fn delete_connection(
    operator: Operator,
    State(context): State<Context>,
    Named((volume, host)): Named<(String, String)>,
) -> NoContent {
    let peer = PeerName::Host(host);
    no_content(perform(operator, &context, array::DeleteConnection { volume, peer }).await?)
}

/// Disconnect a volume from a host group
///
/// Nothing happens if they are not connected.
#[utoipa::path(delete, path = "/api/v1/connections/{volume}/host-groups/{host_group}", tag = "connections",
    params(("volume" = String, Path,), ("host_group" = String, Path,)), responses(
    (status = 204, description = "Deleted"),
    Problems,
))]
async fn delete_host_group_connection(
    operator: Operator,
    State(context): State<Context>,
    Named((volume, group)): Named<(String, String)>,
) -> NoContent {
    let peer = PeerName::HostGroup(group);
    no_content(perform(operator, &context, array::DeleteConnection { volume, peer }).await?)
}

/// With the address at which the API was reached in the place of an unspecified one.
fn shown(mut it: Attachment, ReachedAddress(reached): ReachedAddress) -> Json<Attachment> {
    reached.iter().for_each(|address| it.reached_at(*address));
    Json(it)
}
