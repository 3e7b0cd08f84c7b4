//! Addresses that move between controllers, as the array directs them: the process puts them on interfaces.

use parking_lot::Mutex;
use records::PortalEntry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Addresses that this machine has as long as it holds them; other controllers may have them otherwise.
pub trait MovingAddresses: Send + Sync {
    /// Holds an address, until it is released as often as it was held. One that the machine can't have now is tried again.
    ///
    /// # Errors
    /// Why the machine does not have it yet.
    fn hold(&self, address: IpAddr) -> io::Result<()>;

    /// Holds it for one user less.
    fn release(&self, address: IpAddr);
}

/// What this controller serves only as long as it is the home.
#[derive(Default)]
pub(crate) struct Moved {
    /// Addresses of the API that move, and that it holds.
    pub api: Mutex<BTreeSet<SocketAddr>>,
    /// Portals of other controllers, by number.
    pub portals: Mutex<BTreeMap<u16, PortalEntry>>,
    /// Those that it can't serve.
    pub failed: Mutex<BTreeSet<u16>>,
}
