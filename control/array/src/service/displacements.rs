//! Sessions that hosts take from each other: two machines with one initiator name and ISID reinstate the session in turn
//! (RFC 7143 6.3.5), forever, and neither can work. A cloned system disk is the usual cause.
//!
//! One machine also reinstates its session, after a reset or a cut network, and from another address after a change of its own.
//! So it takes several displacements of each of two addresses within a short time.

use crate::condition::{self, About, Conditions};
use history::Severity;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Time that is looked back on, in seconds: initiators log in again after 1 to 10 s. Without displacements that long, it is over.
const WINDOW_SECONDS: u64 = 120;
/// How often each of two addresses must have lost the session in that time.
const MIN_DISPLACEMENTS: u64 = 3;
/// Addresses of one name that are remembered; those that lost a session first go first.
const MAX_ADDRESSES: usize = 16;

/// Displacements by initiator name and address, with their times in seconds since 1970. Names are of hosts, as others have no
/// sessions.
#[derive(Debug, Default)]
pub(crate) struct Displacements(BTreeMap<String, BTreeMap<IpAddr, Vec<(u64, u64)>>>);

impl Displacements {
    /// Sessions of an initiator at an address were reinstated by another connection, so often at this time.
    pub fn note(&mut self, initiator: &str, address: IpAddr, count: u64, now: u64) {
        let addresses = self.0.entry(initiator.to_owned()).or_default();
        let times = addresses.entry(address).or_default();
        match times.last_mut() {
            Some((at, known)) if *at == now => *known = known.saturating_add(count),
            _ => times.push((now, count)),
        }
        if addresses.len() > MAX_ADDRESSES {
            let last = |times: &Vec<(u64, u64)>| times.last().map(|(at, _)| *at);
            let oldest = addresses.iter().min_by_key(|(_, times)| last(times)).map(|(address, _)| *address);
            oldest.map(|address| addresses.remove(&address));
        }
    }

    /// Forgets what was long ago.
    pub fn forget(&mut self, now: u64) {
        self.0.retain(|_, addresses| {
            addresses.retain(|_, times| {
                times.retain(|(at, _)| now.abs_diff(*at) < WINDOW_SECONDS);
                !times.is_empty()
            });
            !addresses.is_empty()
        });
    }

    /// Names that several machines have, with their addresses. `host_of`: the host with an initiator name.
    pub fn conditions(&self, host_of: impl Fn(&str) -> Option<String>) -> Conditions {
        let mut found = Conditions::default();
        for (initiator, addresses) in &self.0 {
            let often =
                |times: &[(u64, u64)]| times.iter().map(|(_, count)| count).sum::<u64>() >= MIN_DISPLACEMENTS;
            let rivals: Vec<_> = addresses
                .iter()
                .filter(|(_, times)| often(times))
                .map(|(address, _)| address.to_string())
                .collect();
            let Some(host) = host_of(initiator).filter(|_| rivals.len() > 1) else { continue };
            let about = About { noun: "host", name: &host, key: initiator };
            condition::add(&mut found, "host.duplicate-initiator", Severity::Critical, Some(about), &|| {
                format!(
                    "machines at {} use the same initiator name {initiator} and ISID, and end each other's iSCSI session again and \
                     again: give each machine a name of its own (on Linux /etc/iscsi/initiatorname.iscsi), and create a host \
                     for it",
                    rivals.join(" and ")
                )
            });
        }
        found
    }
}

#[cfg(test)]
#[path = "displacements_test.rs"]
mod tests;
