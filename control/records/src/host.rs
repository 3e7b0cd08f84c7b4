//! Records of hosts and host groups.

use crate::id::{HostGroupId, HostId, Identity};
use crate::label::Labels;
use crate::secret::{Sealed, SealedChap, SealedField};
use crate::table::{Key, Named};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Configuration of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostEntry {
    /// Identity.
    pub id: HostId,
    /// Name.
    pub name: String,
    /// Initiator names, normalised.
    pub initiators: Vec<String>,
    /// NVMe qualified names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nqns: Vec<String>,
    /// N_Port names (WWPNs) of Fibre Channel, as pairs of digits with colons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wwpns: Vec<String>,
    /// CHAP credentials of the host for the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap: Option<SealedChap>,
    /// CHAP credentials of the array for the host (mutual CHAP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual: Option<SealedChap>,
    /// DH-HMAC-CHAP secret of the host over NVMe/TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhchap: Option<Sealed>,
    /// DH-HMAC-CHAP secret of the array, if the host asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhchap_controller: Option<Sealed>,
    /// PSK of TLS over NVMe/TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_psk: Option<Sealed>,
    /// LUNs below this may have named other volumes over NVMe/TCP, and are not chosen for another volume.
    #[serde(default, skip_serializing_if = "crate::connection::is_zero")]
    pub luns_retired_below: u16,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// Labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// The most NQNs that are remembered after no host has them any more.
pub(crate) const MAX_FORMER_NQNS: usize = 256;

/// NQNs that no host has any more: a machine with one may still use the LUNs that it knew over NVMe/TCP, when a host gets the NQN
/// again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerNqns {
    /// The last one comes last.
    nqns: Vec<FormerNqn>,
}

/// An NQN that no host has any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FormerNqn {
    nqn: String,
    /// As [`HostEntry::luns_retired_below`].
    luns_retired_below: u16,
}

impl FormerNqns {
    /// Remembers an NQN, and in a full record forgets the oldest one.
    pub(crate) fn put(&mut self, nqn: &str, luns_retired_below: u16) {
        let below = self.take(nqn).max(luns_retired_below);
        if below > 0 {
            self.nqns.push(FormerNqn { nqn: nqn.to_owned(), luns_retired_below: below });
            self.nqns.drain(..self.nqns.len().saturating_sub(MAX_FORMER_NQNS));
        }
    }

    /// Forgets an NQN. Returns below which LUN it knew volumes.
    pub(crate) fn take(&mut self, nqn: &str) -> u16 {
        let found = self.nqns.iter().position(|known| known.nqn == nqn);
        found.map_or(0, |index| self.nqns.remove(index).luns_retired_below)
    }
}

/// Configuration of a host group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostGroupEntry {
    /// Identity.
    pub id: HostGroupId,
    /// Name.
    pub name: String,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// Hosts of the group; a host is in at most one group.
    pub hosts: BTreeSet<HostId>,
    /// As for a host, for the group's connections.
    #[serde(default, skip_serializing_if = "crate::connection::is_zero")]
    pub luns_retired_below: u16,
    /// Labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

impl HostEntry {
    /// Port names of all protocols.
    pub fn port_names(&self) -> impl Iterator<Item = &String> {
        self.initiators.iter().chain(&self.nqns).chain(&self.wwpns)
    }

    /// Context (additional data) of a host's sealed secret. `field`: `chap`, `mutual`, `dhchap`, `dhchap_controller` or
    /// `tls_psk`.
    pub fn place(id: HostId, field: &str) -> String {
        format!("host/{}/{field}", id.digits())
    }
}

impl Named for HostEntry {
    type Id = HostId;
    const NOUN: &'static str = "host";

    fn id(&self) -> HostId {
        self.id
    }

    fn label(&self) -> &str {
        &self.name
    }

    fn keys(&self) -> Vec<Key> {
        self.port_names().cloned().map(Key::Port).collect()
    }

    const SEALS: bool = true;

    fn sealed(&self) -> Vec<SealedField> {
        let of_chap = |chap: &Option<SealedChap>| chap.as_ref().map(|chap| chap.secret.clone());
        let secrets = [
            ("CHAP", "chap", of_chap(&self.chap)),
            ("CHAP", "mutual", of_chap(&self.mutual)),
            ("DH-HMAC-CHAP", "dhchap", self.dhchap.clone()),
            ("DH-HMAC-CHAP", "dhchap_controller", self.dhchap_controller.clone()),
            ("TLS", "tls_psk", self.tls_psk.clone()),
        ];
        let field = |(kind, field, sealed): (&str, &str, Option<Sealed>)| {
            let what = format!("{kind} of host {:?}", self.name);
            Some(SealedField { what, place: Self::place(self.id, field), sealed: sealed? })
        };
        secrets.into_iter().filter_map(field).collect()
    }
}

impl Named for HostGroupEntry {
    type Id = HostGroupId;
    const NOUN: &'static str = "host group";

    fn id(&self) -> HostGroupId {
        self.id
    }

    fn label(&self) -> &str {
        &self.name
    }

    fn keys(&self) -> Vec<Key> {
        self.hosts.iter().copied().map(Key::Member).collect()
    }
}
