//! Connections of volumes and snapshots to hosts and host groups.

use super::handler::{Answer, Created, NoContent, digits, no_content, operations, perform};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Body, Named, ReachedAddress};
use crate::problem::{Problem, Problems};
use array::PeerName;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(create_connection: CreateConnection))
        .routes(operations!(show_connection: ShowConnection, delete_connection: DeleteConnection))
        .routes(operations!(show_host_group_connection: ShowConnection as "show_host_group_connection", delete_host_group_connection: DeleteConnection as "delete_host_group_connection"))
}

/// A connection with everything that a host needs to attach the volume or snapshot.
#[derive(Debug, Serialize, ToSchema)]
pub struct Attachment {
    /// Volume or snapshot.
    volume: String,
    /// Permanent identifier of the volume or snapshot.
    volume_id: String,
    /// Identifier reported to hosts (NAA, VPD page 83h).
    naa: String,
    /// Serial number reported to hosts (VPD page 80h).
    serial: String,
    /// Size presented to hosts, in bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    size: u64,
    /// Logical block length in bytes: 512 or 4096.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    block_size: u32,
    /// Host; `null` for a connection to a host group.
    host: Option<String>,
    /// Permanent identifier of the host.
    host_id: Option<String>,
    /// Host group; `null` for a connection to a host.
    host_group: Option<String>,
    /// Permanent identifier of the host group.
    host_group_id: Option<String>,
    /// Logical unit number.
    lun: u16,
    /// Whether writes are refused, by the connection or because the snapshot is not writable.
    read_only: bool,
    /// iSCSI target name.
    target_iqn: String,
    /// iSCSI portals.
    portals: Vec<Portal>,
    /// Whether the host, or a host of the host group, must present CHAP credentials.
    chap: bool,
    /// Whether the array presents CHAP credentials to the host, or to a host of the host group.
    mutual_chap: bool,
    /// NQN of the array's NVMe subsystem; `null` if no host of the connection has an NQN.
    subsystem_nqn: Option<String>,
    /// Namespace identifier over NVMe/TCP: the logical unit number + 1; `null` likewise.
    nsid: Option<u32>,
    /// NVMe/TCP portals, those with port 8009 for discovery only; none if no host of the connection has an NQN.
    nvme_portals: Vec<NvmeAddress>,
}

/// The address of an NVMe/TCP portal.
#[derive(Debug, Serialize, ToSchema)]
pub struct NvmeAddress {
    /// IP address, IPv6 without brackets. An array that listens on all addresses reports the one at which the API was reached.
    address: String,
    /// TCP port.
    port: u16,
}

/// An iSCSI portal.
#[derive(Debug, Serialize, ToSchema)]
pub struct Portal {
    /// IP address, IPv6 without brackets. An array that listens on all addresses reports the one at which the API was reached.
    address: String,
    /// TCP port.
    port: u16,
    /// Target portal group tag.
    group_tag: u16,
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
    Ok((status, Json(Attachment::of(object, reached))))
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
    Ok(Json(Attachment::of(perform(operator, &context, wanted).await?, reached)))
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
    Ok(Json(Attachment::of(perform(operator, &context, wanted).await?, reached)))
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

impl Attachment {
    /// With the address at which the API was reached in the place of an unspecified one.
    fn of(it: array::Attachment, reached: ReachedAddress) -> Self {
        let connection = it.connection;
        let address = |portal: SocketAddr| match reached.0 {
            Some(reached) if portal.ip().is_unspecified() => reached.to_string(),
            _ => portal.ip().to_string(),
        };
        let portal = |number: u16, portal: SocketAddr| Portal {
            address: address(portal),
            port: portal.port(),
            group_tag: number,
        };
        let nvme_portal =
            |portal: &SocketAddr| NvmeAddress { address: address(*portal), port: portal.port() };
        Self {
            volume: connection.volume,
            volume_id: digits(connection.volume_id),
            naa: connection.naa,
            serial: it.serial,
            size: it.bytes,
            block_size: it.block_bytes,
            host: connection.host,
            host_id: connection.host_id.map(digits),
            host_group: connection.host_group,
            host_group_id: connection.host_group_id.map(digits),
            lun: connection.lun,
            read_only: connection.read_only,
            target_iqn: it.target_iqn,
            portals: it.portals.iter().map(|it| portal(it.number, it.address)).collect(),
            chap: it.chap,
            mutual_chap: it.mutual_chap,
            nsid: it.nvme.as_ref().map(|nvme| nvme.nsid),
            nvme_portals: it.nvme.iter().flat_map(|nvme| nvme.portals.iter().map(nvme_portal)).collect(),
            subsystem_nqn: it.nvme.map(|nvme| nvme.subsystem_nqn),
        }
    }
}
