//! Records of hosts and host groups.

use crate::id::{Identity, identities};
use crate::label::Labels;
use crate::secret::{SealedChap, SealedField};
use crate::table::Named;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

identities! {
    /// Stable identity of a host.
    HostId;
    /// Stable identity of a host group.
    HostGroupId;
}

/// A host as configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostEntry {
    /// Its identity.
    pub id: HostId,
    /// Its name.
    pub name: String,
    /// Its initiator names, normalised.
    pub initiators: Vec<String>,
    /// Its NVMe qualified names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nqns: Vec<String>,
    /// CHAP credentials by which the array authenticates the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap: Option<SealedChap>,
    /// CHAP credentials by which the host authenticates the array (mutual CHAP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual: Option<SealedChap>,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// A host group as configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostGroupEntry {
    /// Its identity.
    pub id: HostGroupId,
    /// Its name.
    pub name: String,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// Its hosts; a host is in one group at most.
    pub hosts: BTreeSet<HostId>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

impl HostEntry {
    /// The names by which its ports are recognized, of all protocols.
    pub fn port_names(&self) -> impl Iterator<Item = &String> {
        self.initiators.iter().chain(&self.nqns)
    }

    /// The context (additional data) with which a CHAP secret of a host is sealed. `direction`: `chap` or `mutual`.
    pub fn place(id: HostId, direction: &str) -> String {
        format!("host/{}/{direction}", id.digits())
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

    fn sealed(&self) -> Vec<SealedField> {
        let chap = [(&self.chap, "chap"), (&self.mutual, "mutual")];
        let field = |(chap, direction): (&Option<SealedChap>, &str)| {
            let sealed = chap.as_ref()?.secret.clone();
            let what = format!("CHAP of host {:?}", self.name);
            Some(SealedField { what, place: Self::place(self.id, direction), sealed })
        };
        chap.into_iter().filter_map(field).collect()
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
}
