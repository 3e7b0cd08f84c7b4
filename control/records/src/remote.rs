//! Records of remote arrays, which this array is paired with.

use crate::id::{Identity, RemoteArrayId};
use crate::secret::{Sealed, SealedField};
use crate::table::Named;
use crate::window::LimitWindow;
use serde::{Deserialize, Serialize};

/// Configuration of a remote array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteArrayEntry {
    /// Identity on this array.
    pub id: RemoteArrayId,
    /// Name on this array.
    pub name: String,
    /// Time of the pairing, in seconds since 1970.
    pub created: u64,
    /// Serial number.
    pub serial: String,
    /// Host and port of its listener for other arrays; `None` if only the remote array can open connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Limit of the replication traffic to it in bytes per second; `None` if unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_limit: Option<u64>,
    /// Windows with another limit; they do not overlap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bandwidth_windows: Vec<LimitWindow>,
    /// SHA-256 of its certificate in hex digits: no other certificate is accepted.
    pub fingerprint: String,
    /// The sealed common key, derived by both arrays during pairing.
    pub secret: Sealed,
}

/// The key that identifies this array to others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkIdentityEntry {
    /// The certificate in PEM.
    #[serde(serialize_with = "crate::mark::pem")]
    pub certificate: String,
    /// The sealed key in PEM.
    pub secret: Sealed,
}

impl LinkIdentityEntry {
    /// Purpose of the sealed key.
    pub const PLACE: &str = "link-identity";
}

impl RemoteArrayEntry {
    /// Purpose of the sealed key.
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
