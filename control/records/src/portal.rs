//! Records of portals, which keep the number of each target port.
//!
//! The number of a portal is the relative identifier of its target port (SPC-5 4.6.4), used by persistent reservations,
//! statistics and sessions. So it must not depend on other portals, nor be reused soon.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use utoipa::ToSchema;

/// Protocol of a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
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
    /// Name for programs.
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

/// Endpoint of a portal, as operators know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Endpoint {
    /// Protocol.
    pub protocol: PortalProtocol,
    /// Address and TCP port to listen on, or the WWPN.
    pub address: String,
}

impl Endpoint {
    /// Endpoint of a TCP portal.
    pub fn tcp(protocol: PortalProtocol, address: SocketAddr) -> Self {
        Self { protocol, address: address.to_string() }
    }

    /// Address and TCP port; `None` for other protocols.
    pub fn socket(&self) -> Option<SocketAddr> {
        self.address.parse().ok()
    }
}

/// A portal, or a removed one: its number is reused only when no other number is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortalEntry {
    /// Controller of the portal.
    pub controller: u16,
    /// Number of the portal.
    pub number: u16,
    /// Endpoint of the portal.
    pub endpoint: Endpoint,
    /// Whether an option of the controller's start names the portal.
    #[serde(default)]
    pub by_option: bool,
    /// Whether hosts have to use TLS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// Whether its address moves to the home while its controller does not serve it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moves: bool,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// Removal time, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
}

impl PortalEntry {
    /// Address of the portal, if it is a moving address.
    pub fn moving_address(&self) -> Option<IpAddr> {
        self.endpoint.socket().filter(|_| self.moves).map(|socket| socket.ip())
    }
}

/// All portals of all controllers, by controller and number.
#[derive(Clone, Debug, Default)]
pub struct Portals(BTreeMap<(u16, u16), PortalEntry>);

impl Portals {
    /// Inserts a portal, or replaces the one with its number.
    pub fn put(&mut self, entry: PortalEntry) {
        self.0.insert((entry.controller, entry.number), entry);
    }

    /// Removes the record of a number.
    pub fn remove(&mut self, entry: &PortalEntry) {
        self.0.remove(&(entry.controller, entry.number));
    }

    /// Existing portals.
    pub fn iter(&self) -> impl Iterator<Item = &PortalEntry> {
        self.0.values().filter(|entry| entry.removed.is_none())
    }

    /// Existing and removed portals.
    pub fn ever(&self) -> impl Iterator<Item = &PortalEntry> {
        self.0.values()
    }

    /// Existing portals of a controller.
    pub fn of(&self, controller: u16) -> impl Iterator<Item = &PortalEntry> {
        self.iter().filter(move |entry| entry.controller == controller)
    }

    /// Existing and removed portals of a controller.
    pub fn ever_of(&self, controller: u16) -> impl Iterator<Item = &PortalEntry> {
        self.0.values().filter(move |entry| entry.controller == controller)
    }

    /// Numbers for portals of a controller, out of `numbers`: the recorded number if there is one; otherwise a new one
    /// that is not in `reserved`; `None` if no number is left.
    ///
    /// A controller without records was started by software that numbered portals by position. They keep those numbers.
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
        // Several portals may have the address with port 0, for which the system assigns different ports.
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

    /// Numbers for addresses, recorded afterwards; portals that are no longer wanted are removed at this time.
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
