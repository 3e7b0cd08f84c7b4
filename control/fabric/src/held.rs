//! Addresses that move and that this machine has: for the array, and for the portals of a front end.

use address::Addresses;
use array::{MovingAddresses, PortalProtocol, Portals};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long a controller that does not reach the home serves portals that move: a takeover is over by then.
pub const GIVE_UP: Duration = Duration::from_secs(10);

/// The addresses of this machine that move, for the array.
pub struct OfMachine(pub Addresses);

impl MovingAddresses for OfMachine {
    fn hold(&self, address: IpAddr) -> io::Result<()> {
        self.0.hold(address)
    }

    fn release(&self, address: IpAddr) {
        self.0.release(address);
    }

    fn user_of(&self, address: IpAddr) -> io::Result<Option<String>> {
        self.0.user_of(address)
    }
}

/// Addresses that a front end holds, until this is dropped.
pub struct Held {
    addresses: Addresses,
    held: Mutex<BTreeSet<IpAddr>>,
}

impl Held {
    /// None yet.
    pub fn new(addresses: Addresses) -> Arc<Self> {
        Arc::new(Self { addresses, held: Mutex::default() })
    }

    /// Holds these, too. What can't be had now is logged, and tried again.
    pub fn add(&self, wanted: &BTreeSet<IpAddr>) {
        let mut held = self.held.lock();
        for address in wanted {
            if held.insert(*address) {
                _ = self.addresses.hold(*address);
            }
        }
    }

    /// Holds no others any more.
    pub fn keep_only(&self, wanted: &BTreeSet<IpAddr>) {
        let mut held = self.held.lock();
        let gone: Vec<IpAddr> = held.difference(wanted).copied().collect();
        held.retain(|address| wanted.contains(address));
        gone.into_iter().for_each(|address| self.addresses.release(address));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.keep_only(&BTreeSet::new());
    }
}

/// The addresses of a controller's iSCSI portals that move, by number.
pub fn of_controller(controller: u16, recorded: &Portals) -> BTreeMap<u16, IpAddr> {
    let iscsi = recorded.of(controller).filter(|it| it.endpoint.protocol == PortalProtocol::Iscsi);
    iscsi.filter_map(|it| Some((it.number, it.moving_address()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_held_until_nobody_needs_them() {
        let held = Held::new(Addresses::new(|| true));
        let [one, two] = ["127.0.0.8", "127.0.0.9"].map(|it| it.parse::<IpAddr>().unwrap());
        held.add(&[one].into());
        held.add(&[one, two].into());
        held.keep_only(&[two].into());
        assert_eq!(*held.held.lock(), [two].into());
    }
}
