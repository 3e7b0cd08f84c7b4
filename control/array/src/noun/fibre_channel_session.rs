//! Fibre Channel sessions: which initiator port uses which target port, by which devices, and what the link of the target port
//! lost.

use crate::Result;
use crate::array::Array;
use crate::parts::fibre_channel::{FibreChannelDevice, FibreChannelLink};
use crate::request::verbs;
use crate::shape::shapes;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A Fibre Channel session: an initiator port and a target port, with the devices in the kernel that stand for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FibreChannelSession {
    /// Host; `null` while the devices of a port that no host has any more are removed.
    pub host: Option<String>,
    /// WWPN of the initiator port.
    pub initiator: String,
    /// WWPN of the target port.
    pub target_port: String,
    /// Portal number of the target port.
    pub portal: u16,
    /// Fabric of the target port in the kernel: `qla2xxx`, `efct`, `fc` or `loopback`.
    pub fabric: String,
    /// Whether the initiator port is logged in, as the kernel knows it.
    pub logged_in: bool,
    /// Devices, by LUN.
    pub devices: Vec<SessionDevice>,
    /// Link of the target port; `null` if it has none.
    pub link: Option<FibreChannelLink>,
}

/// A volume for one initiator port at one target port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = FibreChannelDevice)]
pub struct SessionDevice {
    /// LUN.
    pub lun: u16,
    /// Volume or snapshot; `null` while the device of a deleted one is removed.
    pub volume: Option<String>,
    /// Whether the array responds to its commands.
    pub served: bool,
    /// Number of commands since the array serves it.
    pub commands: u64,
    /// Number of commands that the host aborted, such as those that took longer than it waits.
    pub aborted: u64,
    /// Number of commands answered with TASK SET FULL for want of memory.
    pub refused: u64,
}

shapes! {
    FibreChannelSession: "FibreChannelSessions" "Fibre Channel sessions." "Sorted by initiator and target port", whole;
}

/// Host of a query for Fibre Channel sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListFibreChannelSessions {
    /// Only this host.
    pub host: Option<String>,
}

verbs! {
    #![tag = "hosts"]

    /// List Fibre Channel sessions, with their devices and the losses of their links
    ListFibreChannelSessions -> Vec<FibreChannelSession>, Read "list" "Fibre Channel session", Viewer,
        at GET "/fibre-channel-sessions" says "The sessions; none if the array was started without target ports"
        => |tx, it| tx.array.fibre_channel_sessions(it.host.as_deref());
}

impl Array {
    fn fibre_channel_sessions(&self, host: Option<&str>) -> Result<Vec<FibreChannelSession>> {
        let config = self.config();
        let wanted = host.map(|name| config.hosts.named(name)).transpose()?;
        let mut sessions = Vec::new();
        for nexus in self.parts.fibre_channel.nexuses() {
            let host = config.hosts.iter().find(|host| host.wwpns.contains(&nexus.initiator));
            if wanted.is_some_and(|wanted| host.is_none_or(|host| host.id != wanted.id)) {
                continue;
            }
            let device = |it: FibreChannelDevice| SessionDevice {
                lun: it.lun,
                volume: config.disk_name(it.disk).map(str::to_owned),
                served: it.is_served,
                commands: it.commands,
                aborted: it.aborted,
                refused: it.refused,
            };
            sessions.push(FibreChannelSession {
                host: host.map(|host| host.name.clone()),
                initiator: nexus.initiator,
                target_port: nexus.target_port,
                portal: nexus.portal,
                fabric: nexus.fabric,
                logged_in: nexus.is_logged_in,
                devices: nexus.devices.into_iter().map(device).collect(),
                link: nexus.link,
            });
        }
        Ok(sessions)
    }
}
