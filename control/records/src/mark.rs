//! Serde markers by which the audit log decides how much of a field to show. They are names of newtype structs, so that stored
//! forms do not contain them.

use serde::{Serialize, Serializer};

/// A secret, sealed, hashed or in clear text: not shown.
pub const SECRET: &str = "$secret";
/// A certificate in PEM: shown as subject and digest.
pub const PEM: &str = "$pem";
/// An address whose path may be a secret: shown as its host.
pub const URL: &str = "$url";

/// What stands for what can't be shown at all.
pub const HIDDEN: &str = "(hidden)";
/// What stands for the path and the query of an address.
pub const REST: &str = "/…";

/// An address up to its host: user, password, path and query are often secrets.
pub fn shown_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return HIDDEN.into() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let more = if rest.len() > host.len() { REST } else { "" };
    format!("{scheme}://{host}{more}")
}

/// Serializes a field with a secret.
pub fn secret<S: Serializer, T: Serialize>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(SECRET, value)
}

/// Serializes a field with a certificate in PEM.
pub fn pem<S: Serializer, T: Serialize>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(PEM, value)
}

/// Serializes a field with an address.
pub fn url<S: Serializer, T: Serialize>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(URL, value)
}
