//! Connections of volumes and snapshots to hosts and host groups.

use super::handler::{Created, Gone, gone, operations, perform};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{Part, PartialList, list};
use crate::problem::{Problem, Problems};
use array::PeerName;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(list_connections: ListConnections, create_connection: CreateConnection))
        .routes(operations!(delete_connection: DeleteConnection))
        .routes(operations!(delete_host_group_connection: DeleteConnection as "delete_host_group_connection"))
}

/// A connection of a volume or snapshot to a host or host group.
#[derive(Debug, Serialize, ToSchema)]
pub struct Connection {
    /// Volume or snapshot.
    volume: String,
    /// Host; `null` for a connection to a host group.
    host: Option<String>,
    /// Host group; in the connections of a host, the group that the connection is inherited from.
    host_group: Option<String>,
    /// Logical unit number.
    lun: u16,
    /// Whether writes are refused, by the connection or because the snapshot is not writable.
    read_only: bool,
}

/// Connections.
#[derive(Debug, Serialize, ToSchema)]
pub struct Connections {
    /// Sorted by volume unless `sort` is given.
    pub items: Vec<Connection>,
    /// Total count, regardless of `limit` and `offset`.
    pub total: usize,
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
    /// Logical unit number, 0 to 16383; default: the lowest free one.
    lun: Option<u16>,
    /// Refuse writes. Always true for a snapshot that is not writable.
    #[serde(default)]
    read_only: bool,
}

/// List connections of volumes and snapshots to hosts and host groups
#[utoipa::path(get, path = "/api/v1/connections", tag = "connections", params(Part), responses(
    (status = 200, description = "The connections", content(
        (Connections = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_connections(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<Part>,
) -> Result<Response, Problem> {
    let all = perform(operator, &context, array::ListConnections).await?;
    list(all.into_iter().map(Connection::from).collect(), &part)
}

/// Connect a volume or snapshot to a host or host group
#[utoipa::path(post, path = "/api/v1/connections", tag = "connections", request_body = NewConnection, responses(
    (status = 201, description = "The connection", body = Connection),
    Problems,
))]
async fn create_connection(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewConnection>,
) -> Created<Connection> {
    let NewConnection { volume, host, host_group, lun, read_only } = new;
    let peer = match (host, host_group) {
        (Some(host), None) => PeerName::Host(host),
        (None, Some(group)) => PeerName::HostGroup(group),
        _ => {
            let detail = "name either a host or a host group that is to see the volume";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
    };
    let made = perform(operator, &context, array::CreateConnection { volume, peer, lun, read_only }).await?;
    Ok((StatusCode::CREATED, Json(made.into())))
}

/// Disconnect a volume from a host
#[utoipa::path(delete, path = "/api/v1/connections/{volume}/{host}", tag = "connections",
    params(("volume" = String, Path,), ("host" = String, Path,)), responses(
    (status = 204, description = "Deleted"),
    Problems,
))]
async fn delete_connection(
    operator: Operator,
    State(context): State<Context>,
    Named((volume, host)): Named<(String, String)>,
) -> Gone {
    let peer = PeerName::Host(host);
    gone(perform(operator, &context, array::DeleteConnection { volume, peer }).await?)
}

/// Disconnect a volume from a host group
#[utoipa::path(delete, path = "/api/v1/connections/{volume}/host-groups/{host_group}", tag = "connections",
    params(("volume" = String, Path,), ("host_group" = String, Path,)), responses(
    (status = 204, description = "Deleted"),
    Problems,
))]
async fn delete_host_group_connection(
    operator: Operator,
    State(context): State<Context>,
    Named((volume, group)): Named<(String, String)>,
) -> Gone {
    let peer = PeerName::HostGroup(group);
    gone(perform(operator, &context, array::DeleteConnection { volume, peer }).await?)
}

impl From<array::Connection> for Connection {
    fn from(connection: array::Connection) -> Self {
        let array::Connection { volume, host, host_group, lun, read_only } = connection;
        Self { volume, host, host_group, lun, read_only }
    }
}
