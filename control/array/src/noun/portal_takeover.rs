//! Portals whose addresses move: the home serves those of controllers that do not, under the numbers that they have.

use crate::array::Array;
use crate::parts::moving_addresses::OF_HOME;
use crate::{Error, Result};
use iscsi::Portal as Listener;
use records::PortalEntry;
use std::io;
use std::net::{IpAddr, SocketAddr};

impl Array {
    /// Serves these portals of other controllers, and no others any more: their hosts are asked to log out.
    pub async fn serve_moved(&self, wanted: &[PortalEntry]) {
        let gone: Vec<PortalEntry> = {
            let moved = self.moved.portals.lock();
            moved.values().filter(|entry| !wanted.contains(entry)).cloned().collect()
        };
        for entry in gone {
            self.close_portal(entry.endpoint.protocol, entry.number).await;
            self.release_of(&entry);
            self.moved.portals.lock().remove(&entry.number);
            tracing::info!(
                portal = entry.number,
                controller = entry.controller,
                "the portal's controller has it again"
            );
        }
        for entry in wanted {
            if self.moved.portals.lock().contains_key(&entry.number) {
                continue;
            }
            let Some(address) = entry.endpoint.socket() else { continue };
            self.hold_of(entry);
            let listener = Listener { number: entry.number, address, tls: entry.tls };
            let opened = self.open_portal(entry.endpoint.protocol, listener, None).await;
            let mut failed = self.moved.failed.lock();
            match opened {
                Ok(()) => {
                    tracing::info!(
                        portal = entry.number,
                        controller = entry.controller,
                        "the portal is served here"
                    );
                    failed.remove(&entry.number);
                    self.moved.portals.lock().insert(entry.number, entry.clone());
                }
                Err(error) => {
                    self.release_of(entry);
                    if failed.insert(entry.number) {
                        tracing::error!(portal = entry.number, %error, "the portal of another controller can't be served");
                    }
                }
            }
        }
    }

    /// Refuses an address that moves from now on and that another machine has. Where nothing can be asked, nothing is refused.
    pub(crate) async fn check_unused(&self, address: IpAddr) -> Result<()> {
        let is_known = {
            let config = self.config();
            let portals = config.portals.iter().filter_map(PortalEntry::moving_address);
            portals.chain(config.api_addresses.get(&OF_HOME).map(SocketAddr::ip)).any(|it| it == address)
        };
        if is_known {
            return Ok(());
        }
        let addresses = self.parts.addresses.clone();
        let found = tokio::task::spawn_blocking(move || addresses.user_of(address)).await;
        match found.map_err(io::Error::other).flatten() {
            Ok(None) => Ok(()),
            Ok(Some(station)) => Err(Error::conflict(format!(
                "{address} is in use: {station} answers for it. Take it from that machine, or choose another address"
            ))
            .about("address")),
            Err(error) => {
                tracing::info!(%address, %error, "whether another machine has the address is not known");
                Ok(())
            }
        }
    }

    /// Holds the address of a portal that moves, from now on if it can't now: it is logged there.
    pub(crate) fn hold_of(&self, entry: &PortalEntry) {
        if let Some(address) = entry.moving_address() {
            _ = self.parts.addresses.hold(address);
        }
    }

    pub(crate) fn release_of(&self, entry: &PortalEntry) {
        if let Some(address) = entry.moving_address() {
            self.parts.addresses.release(address);
        }
    }
}
