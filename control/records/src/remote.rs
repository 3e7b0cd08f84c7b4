//! Records of other arrays that this one is paired with.

use crate::id::{Identity, identities};
use crate::secret::{Sealed, SealedField};
use crate::table::Named;
use crate::window::LimitWindow;
use serde::{Deserialize, Serialize};

identities! {
    /// Stable identity of a remote array.
    RemoteArrayId;
}

/// A remote array as configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteArrayEntry {
    /// Its identity here.
    pub id: RemoteArrayId,
    /// Its name here.
    pub name: String,
    /// When it was paired, in seconds since 1970.
    pub created: u64,
    /// Its serial number.
    pub serial: String,
    /// Host and port at which it listens for other arrays; none if only it can open connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Bytes per second that replications send to it at most; none if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_limit: Option<u64>,
    /// Windows with another limit; they do not overlap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bandwidth_windows: Vec<LimitWindow>,
    /// SHA-256 of its certificate, in hex digits: no other certificate is accepted.
    pub fingerprint: String,
    /// The sealed key that both arrays derived when they were paired.
    pub secret: Sealed,
}

/// The key by which other arrays know this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkIdentityEntry {
    /// The certificate in PEM.
    #[serde(serialize_with = "notify::mark::pem")]
    pub certificate: String,
    /// The sealed key in PEM.
    pub secret: Sealed,
}

impl LinkIdentityEntry {
    /// Purpose for which its key is sealed.
    pub const PLACE: &str = "link-identity";
}

impl RemoteArrayEntry {
    /// Purpose for which its key is sealed.
    pub fn place(&self) -> String {
        format!("remote-array/{}", self.id.digits())
    }
}

impl Named for RemoteArrayEntry {
    type Id = RemoteArrayId;
    const NOUN: &'static str = "remote array";

    fn id(&self) -> RemoteArrayId {
        self.id
    }

    fn label(&self) -> &str {
        &self.name
    }

    const SEALS: bool = true;

    fn sealed(&self) -> Vec<SealedField> {
        let (what, place) = (format!("remote array {:?}", self.name), self.place());
        vec![SealedField { what, place, sealed: self.secret.clone() }]
    }
}
