//! The portals that the options of a start name, and where hosts connect.

use crate::threads::Shards;
use anyhow::{Context, Result};
use array::{Endpoint, OwnPorts, PortalEntry, PortalProtocol};
use export::shown_wwpn;
use fabric::link::Link;
use iscsi::Portal;
use std::net::SocketAddr;
use std::sync::Arc;
use transport::ConnectionLimits;

/// The most target ports of an array that shares no numbers with other controllers.
const MAX_NUMBER: u16 = 256;

/// Where hosts connect.
#[derive(Clone, Default)]
pub struct Config {
    /// Portals for iSCSI.
    pub iscsi: Vec<SocketAddr>,
    /// Portals for NVMe/TCP.
    pub nvme: Vec<SocketAddr>,
    /// Target ports for Fibre Channel.
    pub fc: Vec<tcmu::TargetPort>,
}

impl Config {
    /// How many of them are sockets.
    pub fn sockets(&self) -> usize {
        self.iscsi.len() + self.nvme.len()
    }
}

/// The portals that options name. A portal that has no number yet gets one in this order.
pub fn endpoints(config: &Config) -> Vec<Endpoint> {
    let tcp = |protocol, portals: &[SocketAddr]| -> Vec<Endpoint> {
        portals.iter().map(|address| Endpoint::tcp(protocol, *address)).collect()
    };
    let mut all = tcp(PortalProtocol::Iscsi, &config.iscsi);
    all.extend(config.fc.iter().map(|port| of_adapter(port.wwpn)));
    all.extend(tcp(PortalProtocol::NvmeTcp, &config.nvme));
    all
}

fn of_adapter(wwpn: u64) -> Endpoint {
    Endpoint { protocol: PortalProtocol::FibreChannel, address: shown_wwpn(wwpn) }
}

/// The target ports of this controller.
pub fn own_ports(controller: Option<u16>, link: Option<&Link>) -> OwnPorts {
    let alone = || {
        let controller = controller.unwrap_or(1);
        OwnPorts { controller, group: 1, numbers: 1..=MAX_NUMBER, is_shared: false }
    };
    link.map_or_else(alone, |link| OwnPorts::shared(link.own.id))
}

/// Those of a protocol that have an address.
pub fn of_protocol(portals: &[PortalEntry], protocol: PortalProtocol) -> Vec<Portal> {
    let of = portals.iter().filter(|entry| entry.endpoint.protocol == protocol);
    let portal = |entry: &PortalEntry| {
        let PortalEntry { number, ref endpoint, tls, .. } = *entry;
        Some(Portal { number, address: endpoint.socket()?, tls })
    };
    of.filter_map(portal).collect()
}

/// The numbers of the Fibre Channel ports, in the order of the options.
pub fn fibre_channel_numbers(config: &Config, portals: &[PortalEntry]) -> Vec<u16> {
    let number = |wwpn| {
        let endpoint = of_adapter(wwpn);
        portals.iter().find(|entry| entry.endpoint == endpoint).map(|entry| entry.number)
    };
    config.fc.iter().filter_map(|port| number(port.wwpn)).collect()
}

/// Listens for iSCSI. A process that was a front end does already (`kept`); there it opens and closes what differs.
pub async fn serve_iscsi(
    server: &Arc<iscsi::Server>,
    portals: &[PortalEntry],
    (shards, kept): (&Shards, bool),
) -> Result<Vec<SocketAddr>> {
    let wanted = of_protocol(portals, PortalProtocol::Iscsi);
    if kept {
        for (portal, error) in server.set_portals(&wanted).await {
            tracing::error!(address = %portal.address, %error, "hosts can't log in at this portal");
        }
        return Ok(addresses(&server.portals()));
    }
    let portals = server.serve(&wanted, shards.handles()).await;
    Ok(addresses(&portals.with_context(|| cannot_listen("iSCSI", &wanted))?))
}

/// Listens for NVMe/TCP, if there are portals for it.
pub async fn serve_nvme(
    server: &Arc<nvmf::Server>,
    portals: &[PortalEntry],
    (shards, limits): (&Shards, ConnectionLimits),
) -> Result<Vec<SocketAddr>> {
    let wanted = of_protocol(portals, PortalProtocol::NvmeTcp);
    let portals = server.serve(&wanted, shards.handles(), limits).await;
    Ok(addresses(&portals.with_context(|| cannot_listen("NVMe/TCP", &wanted))?))
}

fn addresses(portals: &[Portal]) -> Vec<SocketAddr> {
    portals.iter().map(|portal| portal.address).collect()
}

fn cannot_listen(protocol: &str, portals: &[Portal]) -> String {
    let portals: Vec<_> = portals.iter().map(|portal| portal.address.to_string()).collect();
    format!("can't listen for {protocol} on {}", portals.join(", "))
}
