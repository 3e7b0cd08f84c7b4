//! Sessions that hosts take from each other: two machines with one initiator name and ISID reinstate the session in turn
//! (RFC 7143 6.3.5), forever, and neither can work. A cloned system disk is the usual cause.
//!
//! One machine also reinstates its session, after a reset or a cut network, and from another address after a change of its own.
//! So it takes several displacements of each of two addresses within a short time. Machines that share
//! an address by network address translation (NAT) need more displacements than one machine can cause.

use crate::service::condition::{self, About, Conditions};
use history::Severity;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Time that is looked back on, in seconds: initiators log in again after 1 to 10 s. Without displacements that long, it is over.
const WINDOW_SECONDS: u64 = 120;
/// How often each of two addresses must have lost the session in that time.
const MIN_DISPLACEMENTS: u64 = 3;
/// How often one address must have lost it, which is once in 6 s. A machine that has lost its connection, and leaves it open here,
/// notices that after 10 s or more (NOP-Out every 5 s, answered within 5 s); two machines displace each other every 2 s.
const MIN_DISPLACEMENTS_OF_ONE: u64 = 20;
/// Addresses of one session that are remembered; those that lost it first go first.
const MAX_ADDRESSES: usize = 16;
/// Sessions that are remembered; no others are noted until some were long ago.
const MAX_SESSIONS: usize = 4096;

/// Displacements of a session at one time.
#[derive(Debug)]
struct Loss {
    /// In seconds since 1970.
    at: u64,
    count: u64,
}

/// What each address lost, in order of time.
type Losses = BTreeMap<IpAddr, Vec<Loss>>;

/// Displacements by initiator name and ISID, and by address. Names are of hosts, as others have no sessions.
#[derive(Debug, Default)]
pub(crate) struct Displacements(BTreeMap<(String, u64), Losses>);

impl Displacements {
    /// A session of an initiator at an address, with this ISID, was reinstated by another connection, so often at this time.
    pub fn note(&mut self, (initiator, isid): (&str, u64), address: IpAddr, count: u64, now: u64) {
        let key = (initiator.to_owned(), isid);
        if self.0.len() >= MAX_SESSIONS && !self.0.contains_key(&key) {
            return;
        }
        let addresses = self.0.entry(key).or_default();
        let times = addresses.entry(address).or_default();
        match times.last_mut() {
            Some(loss) if loss.at == now => loss.count = loss.count.saturating_add(count),
            _ => times.push(Loss { at: now, count }),
        }
        if addresses.len() > MAX_ADDRESSES {
            let last = |times: &[Loss]| times.last().map(|loss| loss.at);
            let oldest = addresses.iter().min_by_key(|(_, times)| last(times)).map(|(address, _)| *address);
            oldest.and_then(|address| addresses.remove(&address));
        }
    }

    /// Forgets what was long ago.
    pub fn forget(&mut self, now: u64) {
        self.0.retain(|_, addresses| {
            addresses.retain(|_, times| {
                times.retain(|loss| now.abs_diff(loss.at) < WINDOW_SECONDS);
                !times.is_empty()
            });
            !addresses.is_empty()
        });
    }

    /// Names that several machines have, with their addresses. `host_of`: the host with an initiator name.
    pub fn conditions(&self, host_of: impl Fn(&str) -> Option<String>) -> Conditions {
        let mut found = Conditions::default();
        for ((initiator, _), addresses) in &self.0 {
            let Some(rivals) = rivals(addresses) else { continue };
            let Some(host) = host_of(initiator) else { continue };
            let about = About { noun: "host", name: &host, key: initiator };
            condition::add(&mut found, "host.duplicate-initiator", Severity::Critical, Some(about), &|| {
                format!(
                    "machines at {rivals} use the same initiator name {initiator} and ISID, and end each other's iSCSI session again \
                     and again: give each machine a name of its own (on Linux /etc/iscsi/initiatorname.iscsi), and create a \
                     host for it"
                )
            });
        }
        found
    }
}

/// The addresses of machines that displace each other, as text; `None` if there are none.
fn rivals(addresses: &Losses) -> Option<String> {
    let at_least = |least: u64| {
        let count = |times: &[Loss]| times.iter().map(|loss| loss.count).sum::<u64>();
        let often = addresses.iter().filter(|(_, times)| count(times) >= least);
        often.map(|(address, _)| address.to_string()).collect::<Vec<_>>()
    };
    let several = at_least(MIN_DISPLACEMENTS);
    if several.len() > 1 {
        return Some(several.join(" and "));
    }
    let one = at_least(MIN_DISPLACEMENTS_OF_ONE).pop()?;
    Some(format!("{one} (several machines at one address, as with NAT)"))
}

#[cfg(test)]
#[path = "displacements_test.rs"]
mod tests;
