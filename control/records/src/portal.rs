//! Portals: records by which each target port keeps its number.
//!
//! The number of a portal is the relative identifier of its target port (SPC-5 4.6.4), by which persistent reservations,
//! statistics and sessions know it. So it must not depend on what other portals there are, nor soon be that of another one.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

/// A protocol by which hosts reach a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortalProtocol {
    /// iSCSI.
    Iscsi,
    /// NVMe/TCP.
    NvmeTcp,
    /// Fibre Channel: a port of an adapter.
    FibreChannel,
}

impl PortalProtocol {
    /// Its name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Iscsi => "iscsi",
            Self::NvmeTcp => "nvme-tcp",
            Self::FibreChannel => "fibre-channel",
        }
    }
}

impl fmt::Display for PortalProtocol {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Iscsi => "iSCSI",
            Self::NvmeTcp => "NVMe/TCP",
            Self::FibreChannel => "Fibre Channel",
        })
    }
}

/// Endpoint of a portal, by which operators know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Endpoint {
    /// By which protocol.
    pub protocol: PortalProtocol,
    /// Address and TCP port to listen on, or the WWPN.
    pub address: String,
}

impl Endpoint {
    /// Of a TCP portal.
    pub fn tcp(protocol: PortalProtocol, address: SocketAddr) -> Self {
        Self { protocol, address: address.to_string() }
    }

    /// Its address and TCP port; `None` if it has none.
    pub fn socket(&self) -> Option<SocketAddr> {
        self.address.parse().ok()
    }
}

/// A portal, or one that there was: its number is that of another one only when no other number is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortalEntry {
    /// The controller whose it is.
    pub controller: u16,
    /// Its number.
    pub number: u16,
    /// Its endpoint.
    pub endpoint: Endpoint,
    /// An option of the controller's start names it.
    #[serde(default)]
    pub by_option: bool,
    /// Whether hosts have to use TLS there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// Its address moves to the home while its controller does not serve it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moves: bool,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// When it was removed, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
}

impl PortalEntry {
    /// Its address, if that moves.
    pub fn moving_address(&self) -> Option<IpAddr> {
        self.endpoint.socket().filter(|_| self.moves).map(|socket| socket.ip())
    }
}

/// All portals of all controllers, by controller and number.
#[derive(Clone, Debug, Default)]
pub struct Portals(BTreeMap<(u16, u16), PortalEntry>);

impl Portals {
    /// Puts a portal in the place of the one with its number.
    pub fn put(&mut self, entry: PortalEntry) {
        self.0.insert((entry.controller, entry.number), entry);
    }

    /// Takes out the record of a number.
    pub fn remove(&mut self, entry: &PortalEntry) {
        self.0.remove(&(entry.controller, entry.number));
    }

    /// The portals that there are.
    pub fn iter(&self) -> impl Iterator<Item = &PortalEntry> {
        self.0.values().filter(|entry| entry.removed.is_none())
    }

    /// The portals that there are, and those that there were.
    pub fn ever(&self) -> impl Iterator<Item = &PortalEntry> {
        self.0.values()
    }

    /// The portals of a controller.
    pub fn of(&self, controller: u16) -> impl Iterator<Item = &PortalEntry> {
        self.iter().filter(move |entry| entry.controller == controller)
    }

    /// The portals of a controller, and those that it had.
    pub fn ever_of(&self, controller: u16) -> impl Iterator<Item = &PortalEntry> {
        self.0.values().filter(move |entry| entry.controller == controller)
    }

    /// The numbers for portals of a controller, among `numbers`: that of its record for one that has one; a new one for the
    /// others, which is none of `reserved`. `None` for one that gets none because there are too many.
    ///
    /// A controller without records was started by software that numbered portals by their places. They keep those numbers.
    pub fn number(
        &self,
        (controller, numbers): (u16, RangeInclusive<u16>),
        wanted: &[Endpoint],
        reserved: &BTreeSet<u16>,
    ) -> Vec<Option<u16>> {
        let known: Vec<&PortalEntry> =
            self.ever_of(controller).filter(|entry| numbers.contains(&entry.number)).collect();
        let nothing = BTreeSet::new();
        let reserved = if known.is_empty() { &nothing } else { reserved };
        let mut given = BTreeSet::new();
        // Two may have one address: that with port 0, of which the system gives each another.
        let mut found: Vec<Option<u16>> = wanted
            .iter()
            .map(|endpoint| {
                let is_it =
                    |entry: &&&PortalEntry| entry.endpoint == *endpoint && !given.contains(&entry.number);
                let rank = |entry: &&&PortalEntry| entry.removed.is_some();
                let number = known.iter().filter(is_it).min_by_key(rank).map(|entry| entry.number);
                given.extend(number);
                number
            })
            .collect();
        for number in found.iter_mut().filter(|number| number.is_none()) {
            let is_known = |number: u16| known.iter().any(|entry| entry.number == number);
            let is_free = |number: &u16| !given.contains(number) && !reserved.contains(number);
            let unused = numbers.clone().find(|number| is_free(number) && !is_known(*number));
            let removed = known.iter().filter(|entry| entry.removed.is_some() && is_free(&entry.number));
            let oldest = || removed.min_by_key(|entry| entry.removed).map(|entry| entry.number);
            *number = unused.or_else(oldest);
            given.extend(*number);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(address: &str) -> Endpoint {
        Endpoint { protocol: PortalProtocol::Iscsi, address: address.into() }
    }

    /// Numbers for addresses, recorded afterwards; what is not wanted any more is removed at this time.
    fn start(portals: &mut Portals, addresses: &[&str], reserved: &[u16], time: u64) -> Vec<Option<u16>> {
        let wanted: Vec<_> = addresses.iter().map(|it| endpoint(it)).collect();
        let numbers = portals.number((1, 1..=4), &wanted, &reserved.iter().copied().collect());
        let gone: Vec<_> = portals.of(1).filter(|it| !numbers.contains(&Some(it.number))).cloned().collect();
        gone.into_iter().for_each(|entry| portals.put(PortalEntry { removed: Some(time), ..entry }));
        for (endpoint, number) in wanted.into_iter().zip(&numbers) {
            let Some(number) = *number else { continue };
            let (by_option, created, removed) = (true, time, None);
            let (tls, moves) = (false, false);
            let entry =
                PortalEntry { controller: 1, number, endpoint, by_option, tls, moves, created, removed };
            portals.put(entry);
        }
        numbers
    }

    #[test]
    fn portals_keep_their_numbers_whatever_others_there_are() {
        let mut portals = Portals::default();
        assert_eq!(
            start(&mut portals, &["a", "b"], &[1, 2], 1),
            [Some(1), Some(2)],
            "as they were without records"
        );
        assert_eq!(start(&mut portals, &["b", "a"], &[], 2), [Some(2), Some(1)]);
        assert_eq!(start(&mut portals, &["b"], &[], 3), [Some(2)]);
        assert_eq!(
            start(&mut portals, &["c", "b"], &[], 4),
            [Some(3), Some(2)],
            "not the number of the one before"
        );
        assert_eq!(
            start(&mut portals, &["a", "b", "c"], &[], 5),
            [Some(1), Some(2), Some(3)],
            "a has its own again"
        );
    }

    #[test]
    fn a_number_is_used_again_when_no_other_is_left_and_nobody_has_it_reserved() {
        let mut portals = Portals::default();
        start(&mut portals, &["a", "b", "c", "d"], &[], 1);
        start(&mut portals, &["a", "c", "d"], &[], 2);
        start(&mut portals, &["c", "d"], &[], 3);
        assert_eq!(start(&mut portals, &["c", "d", "e"], &[2], 4)[2], Some(1));
        assert_eq!(start(&mut portals, &["c", "d", "e", "f"], &[2], 5)[3], None);
        assert_eq!(start(&mut portals, &["c", "d", "e", "f"], &[], 6)[3], Some(2));
    }

    #[test]
    fn equal_addresses_are_different_portals() {
        let mut portals = Portals::default();
        assert_eq!(start(&mut portals, &["x", "x"], &[], 1), [Some(1), Some(2)]);
        assert_eq!(start(&mut portals, &["x", "x"], &[], 2), [Some(1), Some(2)]);
        assert_eq!(start(&mut portals, &["x"], &[], 3), [Some(1)]);
    }
}
