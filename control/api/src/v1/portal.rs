//! Portals.

use super::handler::{Answer, Created, NoContent, no_content, operations, perform, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{List, PartialList, list};
use crate::problem::{Problem, Problems};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(list_portals: ListPortals, create_portal: CreatePortal))
        .routes(operations!(show_portal: ShowPortal, delete_portal: DeletePortal))
}

/// A portal: where hosts reach the array.
#[derive(Debug, Serialize, ToSchema)]
pub struct TargetPortal {
    /// Number, which it keeps: relative target port identifier and, of iSCSI, target portal group tag.
    number: u16,
    /// Number of the controller whose it is.
    controller: u16,
    /// Protocol.
    protocol: PortalProtocol,
    /// Address and TCP port, or the WWPN.
    #[schema(example = "10.0.0.1:3260")]
    address: String,
    /// Whether it is given by an option of the controller's start; such a portal can't be removed here.
    by_option: bool,
    /// Whether hosts have to use TLS.
    tls: bool,
    /// Whether its address moves to the home while its controller does not serve it.
    moves: bool,
    /// Number of the controller that serves it now: another one than its own only if it moves.
    served_by: u16,
    /// State.
    state: PortalState,
    /// Reason for which it does not listen; `null` if it does, or it is not known.
    reason: Option<String>,
    /// Hosts that use it now.
    hosts: Vec<String>,
    /// Time since which it has its number.
    #[schema(format = DateTime)]
    created: String,
}

/// Protocol of a portal.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PortalProtocol {
    /// iSCSI.
    Iscsi,
    /// NVMe/TCP.
    NvmeTcp,
    /// Fibre Channel.
    FibreChannel,
}

/// State of a portal.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PortalState {
    /// It listens.
    Listening,
    /// It can't listen; that is tried again every second.
    Down,
    /// It is another controller's.
    Elsewhere,
}

/// Portals.
#[derive(Debug, Serialize, ToSchema)]
pub struct TargetPortals {
    /// Sorted by number unless `sort` is given.
    pub items: Vec<TargetPortal>,
    /// Total count, regardless of `limit` and `offset`.
    pub total: usize,
}

/// A portal to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewPortal {
    /// Address of the controller's machine, with a TCP port unless it is that of the protocol: 3260, or 4420.
    #[schema(example = "10.0.0.1")]
    address: String,
    /// Protocol; `iscsi` by default. `fibre-channel` is refused: ports of adapters are options of the start.
    #[serde(default = "iscsi")]
    protocol: PortalProtocol,
    /// Number of the controller; the home by default.
    #[serde(default)]
    controller: Option<u16>,
    /// Require TLS 1.3 of hosts, by their PSKs; of `nvme-tcp` alone.
    #[serde(default)]
    tls: bool,
    /// Let its address move: it is that of the home while the controller does not serve it. Portals of `nvme-tcp` that move are
    /// always served by the home. The address must not be configured on a machine: its controller adds it to the interface that
    /// has an address in the same network. `ashlard` needs CAP_NET_ADMIN and CAP_NET_RAW for that.
    #[serde(default)]
    moves: bool,
    /// Add the portal even if it can't listen on the address now, such as for a network that comes later.
    #[serde(default)]
    force: bool,
}

fn iscsi() -> PortalProtocol {
    PortalProtocol::Iscsi
}

/// How a portal is removed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PortalRemoval {
    /// Remove the portal even if hosts use it; they are asked to log out.
    #[serde(default)]
    force: bool,
    /// Hosts that may lose their last path by that: names with commas between them.
    #[serde(default)]
    cut_off: String,
}

/// List portals
#[utoipa::path(get, path = "/api/v1/portals", tag = "array", params(List), responses(
    (status = 200, description = "The portals", content(
        (TargetPortals = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_portals(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<List>,
) -> Result<Response, Problem> {
    let portals = perform(operator, &context, array::ListPortals).await?;
    list(portals.into_iter().map(TargetPortal::from).collect(), part)
}

/// Get a portal
#[utoipa::path(get, path = "/api/v1/portals/{number}", tag = "array",
    params(("number" = String, Path, description = "Number, or address with the TCP port",)), responses(
    (status = 200, description = "The portal", body = TargetPortal),
    Problems,
))]
async fn show_portal(
    operator: Operator,
    State(context): State<Context>,
    Named(which): Named<String>,
) -> Answer<TargetPortal> {
    let it = perform(operator, &context, array::ShowPortal { which }).await?;
    Ok(Json(it.into()))
}

/// Add a portal
///
/// It serves hosts at once, and again after a restart, beside those that options of the start give. An address that can't be
/// listened on is refused, unless `force` is given; then it is tried again every second.
#[utoipa::path(post, path = "/api/v1/portals", tag = "array", request_body = NewPortal, responses(
    (status = 201, description = "The portal", body = TargetPortal),
    Problems,
))]
async fn create_portal(
    operator: Operator,
    State(context): State<Context>,
    Body(NewPortal { address, protocol, controller, tls, moves, force }): Body<NewPortal>,
) -> Created<TargetPortal> {
    let request = array::CreatePortal { address, protocol: protocol.into(), controller, tls, moves, force };
    let it = perform(operator, &context, request).await?;
    Ok((StatusCode::CREATED, Json(it.into())))
}

/// Remove a portal
///
/// Refused while hosts use it, unless `force` is given; they are asked to log out. A host that has no other path must be named in
/// `cut_off`. A portal that is given by an option of the start can't be removed here.
#[utoipa::path(delete, path = "/api/v1/portals/{number}", tag = "array",
    params(("number" = String, Path, description = "Number, or address with the TCP port",), PortalRemoval), responses(
    (status = 204, description = "Removed"),
    Problems,
))]
async fn delete_portal(
    operator: Operator,
    State(context): State<Context>,
    Named(which): Named<String>,
    Asked(PortalRemoval { force, cut_off }): Asked<PortalRemoval>,
) -> NoContent {
    let cut_off =
        cut_off.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    no_content(perform(operator, &context, array::DeletePortal { which, force, cut_off }).await?)
}

impl From<PortalProtocol> for array::PortalProtocol {
    fn from(it: PortalProtocol) -> Self {
        match it {
            PortalProtocol::Iscsi => Self::Iscsi,
            PortalProtocol::NvmeTcp => Self::NvmeTcp,
            PortalProtocol::FibreChannel => Self::FibreChannel,
        }
    }
}

impl From<array::PortalProtocol> for PortalProtocol {
    fn from(it: array::PortalProtocol) -> Self {
        match it {
            array::PortalProtocol::Iscsi => Self::Iscsi,
            array::PortalProtocol::NvmeTcp => Self::NvmeTcp,
            array::PortalProtocol::FibreChannel => Self::FibreChannel,
        }
    }
}

impl From<array::Portal> for TargetPortal {
    fn from(it: array::Portal) -> Self {
        let (state, reason) = match it.state {
            array::PortalState::Listening => (PortalState::Listening, None),
            array::PortalState::Down(reason) => (PortalState::Down, Some(reason)),
            array::PortalState::Elsewhere => (PortalState::Elsewhere, None),
        };
        Self {
            number: it.number,
            controller: it.controller,
            protocol: it.protocol.into(),
            address: it.address,
            by_option: it.by_option,
            tls: it.tls,
            moves: it.moves,
            served_by: it.served_by,
            state,
            reason,
            hosts: it.hosts,
            created: utc(it.created),
        }
    }
}
