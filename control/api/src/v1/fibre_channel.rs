//! Fibre Channel sessions.

use super::handler::{Answer, operations, perform};
use crate::Context;
use crate::auth::Operator;
use crate::body::Asked;
use crate::problem::Problems;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(operations!(list_fibre_channel_sessions: ListFibreChannelSessions))
}

/// A Fibre Channel session: an initiator port and a target port, with the devices in the kernel that stand for them.
#[derive(Debug, Serialize, ToSchema)]
pub struct FibreChannelSession {
    /// Host; `null` while the devices of a port that no host has any more are removed.
    host: Option<String>,
    /// WWPN of the initiator port.
    initiator: String,
    /// WWPN of the target port.
    target_port: String,
    /// Portal number of the target port.
    portal: u16,
    /// Fabric of the target port in the kernel: `qla2xxx`, `efct`, `fc` or `loopback`.
    fabric: String,
    /// Whether the initiator port is logged in, as the kernel knows it.
    logged_in: bool,
    /// Devices, by LUN.
    devices: Vec<FibreChannelDevice>,
    /// Link of the target port; `null` if it has none.
    link: Option<FibreChannelLink>,
}

/// A volume for one initiator port at one target port.
#[derive(Debug, Serialize, ToSchema)]
pub struct FibreChannelDevice {
    /// LUN.
    lun: u16,
    /// Volume or snapshot; `null` while the device of a deleted one is removed.
    volume: Option<String>,
    /// Whether the array responds to its commands.
    served: bool,
    /// Number of commands since the array serves it.
    commands: u64,
    /// Number of commands that the host aborted, such as those that took longer than it waits.
    aborted: u64,
    /// Number of commands answered with TASK SET FULL for want of memory.
    refused: u64,
}

/// Link of a target port. Losses are counted from the start of the adapter's driver; `null` if the adapter does not count them.
#[derive(Debug, Serialize, ToSchema)]
pub struct FibreChannelLink {
    /// State in the words of the kernel, such as `Online` or `Linkdown`.
    state: String,
    /// Speed in the words of the kernel; `null` without a link.
    #[schema(example = "16 Gbit")]
    speed: Option<String>,
    /// Number of link failures.
    link_failures: Option<u64>,
    /// Number of losses of synchronization.
    sync_losses: Option<u64>,
    /// Number of losses of signal.
    signal_losses: Option<u64>,
    /// Number of frames with a wrong CRC.
    invalid_crcs: Option<u64>,
}

/// Fibre Channel sessions.
#[derive(Debug, Serialize, ToSchema)]
pub struct FibreChannelSessions {
    /// Sorted by initiator and target port.
    pub items: Vec<FibreChannelSession>,
}

/// Host of a query for Fibre Channel sessions.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WhichSessions {
    /// Only this host.
    host: Option<String>,
}

/// List Fibre Channel sessions, with their devices and the losses of their links
#[utoipa::path(get, path = "/api/v1/fibre-channel-sessions", tag = "hosts", params(WhichSessions), responses(
    (status = 200, description = "The sessions; none if the array was started without target ports",
        body = FibreChannelSessions),
    Problems,
))]
async fn list_fibre_channel_sessions(
    operator: Operator,
    State(context): State<Context>,
    Asked(WhichSessions { host }): Asked<WhichSessions>,
) -> Answer<FibreChannelSessions> {
    let sessions = perform(operator, &context, array::ListFibreChannelSessions { host }).await?;
    Ok(Json(FibreChannelSessions { items: sessions.into_iter().map(Into::into).collect() }))
}

impl From<array::FibreChannelSession> for FibreChannelSession {
    fn from(session: array::FibreChannelSession) -> Self {
        let array::FibreChannelSession { host, nexus, volumes } = session;
        let device = |(it, volume): (array::FibreChannelDevice, Option<String>)| FibreChannelDevice {
            lun: it.lun,
            volume,
            served: it.is_served,
            commands: it.commands,
            aborted: it.aborted,
            refused: it.refused,
        };
        Self {
            host,
            initiator: nexus.initiator,
            target_port: nexus.target_port,
            portal: nexus.portal,
            fabric: nexus.fabric,
            logged_in: nexus.is_logged_in,
            devices: nexus.devices.into_iter().zip(volumes).map(device).collect(),
            link: nexus.link.map(Into::into),
        }
    }
}

impl From<array::FibreChannelLink> for FibreChannelLink {
    fn from(link: array::FibreChannelLink) -> Self {
        let array::FibreChannelLink { state, speed, link_failures, sync_losses, signal_losses, invalid_crcs } =
            link;
        Self { state, speed, link_failures, sync_losses, signal_losses, invalid_crcs }
    }
}
