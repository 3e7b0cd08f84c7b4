//! Fibre Channel sessions: which initiator port uses which target port, by which devices, and what the link of the target port
//! lost.

use crate::Result;
use crate::array::Array;
use crate::parts::fibre_channel::{FibreChannelDevice, FibreChannelNexus};
use crate::request::verbs;
use serde::Serialize;

/// A Fibre Channel session as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FibreChannelSession {
    /// The host that has the initiator port; `None` while the devices of a port that no host has any more are removed.
    pub host: Option<String>,
    /// The nexus.
    pub nexus: FibreChannelNexus,
    /// Names of the volumes or snapshots of its devices, in their order.
    pub volumes: Vec<Option<String>>,
}

/// Fibre Channel sessions of one host, or of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListFibreChannelSessions {
    /// The host.
    pub host: Option<String>,
}

verbs! {
    ListFibreChannelSessions -> Vec<FibreChannelSession>, Read "list" "Fibre Channel session", Viewer
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
            let volume = |device: &FibreChannelDevice| config.disk_name(device.disk).map(str::to_owned);
            let volumes = nexus.devices.iter().map(volume).collect();
            sessions.push(FibreChannelSession { host: host.map(|host| host.name.clone()), nexus, volumes });
        }
        Ok(sessions)
    }
}
