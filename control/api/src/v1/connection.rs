//! Connections: who sees which volume.

use super::{Created, Gone, gone, perform};
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
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(list_connections, connect))
        .routes(routes!(disconnect))
        .routes(routes!(disconnect_host_group))
}

/// A volume seen by a host or a host group.
#[derive(Debug, Serialize, ToSchema)]
pub struct Connection {
    /// Name of the volume or snapshot.
    volume: String,
    /// The host's name; `null` when a host group sees it.
    host: Option<String>,
    /// The host group's name; at a host, the group because of which it sees the volume.
    host_group: Option<String>,
    /// The LUN under which it is seen.
    lun: u16,
    /// Whether its writes are refused, because of the connection or because it is a snapshot that is not writable.
    read_only: bool,
}

/// Connections.
#[derive(Debug, Serialize, ToSchema)]
pub struct Connections {
    /// In order of volumes, or as asked for.
    pub items: Vec<Connection>,
    /// How many there are without `limit` and `offset`.
    pub total: usize,
}

/// A connection to make, with a host or with a host group.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewConnection {
    /// Name of the volume or snapshot.
    volume: String,
    /// The host's name. Not with `host_group`.
    host: Option<String>,
    /// The host group's name. Not with `host`.
    host_group: Option<String>,
    /// 0 to 16383; the lowest free one when not given.
    lun: Option<u16>,
    /// Refuse writes. A snapshot that is not writable takes none anyhow.
    #[serde(default)]
    read_only: bool,
}

/// Who sees what
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

/// Let a host or a host group see a volume or a snapshot
#[utoipa::path(post, path = "/api/v1/connections", tag = "connections", request_body = NewConnection, responses(
    (status = 201, description = "The connection", body = Connection),
    Problems,
))]
async fn connect(
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
    let made = perform(operator, &context, array::Connect { volume, peer, lun, read_only }).await?;
    Ok((StatusCode::CREATED, Json(made.into())))
}

/// Let a host no longer see a volume
#[utoipa::path(delete, path = "/api/v1/connections/{volume}/{host}", tag = "connections",
    params(("volume" = String, Path,), ("host" = String, Path,)), responses(
    (status = 204, description = "It is gone"),
    Problems,
))]
async fn disconnect(
    operator: Operator,
    State(context): State<Context>,
    Named((volume, host)): Named<(String, String)>,
) -> Gone {
    let peer = PeerName::Host(host);
    gone(perform(operator, &context, array::Disconnect { volume, peer }).await?)
}

/// Let a host group no longer see a volume
#[utoipa::path(delete, path = "/api/v1/connections/{volume}/host-groups/{host_group}", tag = "connections",
    params(("volume" = String, Path,), ("host_group" = String, Path,)), responses(
    (status = 204, description = "It is gone"),
    Problems,
))]
async fn disconnect_host_group(
    operator: Operator,
    State(context): State<Context>,
    Named((volume, group)): Named<(String, String)>,
) -> Gone {
    let peer = PeerName::HostGroup(group);
    gone(perform(operator, &context, array::Disconnect { volume, peer }).await?)
}

impl From<array::Connection> for Connection {
    fn from(connection: array::Connection) -> Self {
        let array::Connection { volume, host, host_group, lun, read_only } = connection;
        Self { volume, host, host_group, lun, read_only }
    }
}
