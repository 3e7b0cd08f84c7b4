//! Serde markers by which the audit log decides how much of a field to show. They are names of newtype structs, so that stored
//! forms do not contain them.

use serde::{Serialize, Serializer};

/// A secret, sealed, hashed or in clear text: not shown.
pub const SECRET: &str = "$secret";
/// A certificate in PEM: shown as subject and digest.
pub const PEM: &str = "$pem";
/// An address whose path may be a secret: shown as its host.
pub const URL: &str = "$url";
/// An address that has no user, password or query if it is valid: shown without these.
pub const ADDRESS: &str = "$address";

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

/// An address without user, password, query and fragment, which are no part of a valid one and may be secrets.
pub fn shown_address(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").map_or(("", address), |(scheme, rest)| (scheme, rest));
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    // A password may contain a slash that is not encoded.
    let start = rest[..end].rfind('@').unwrap_or(0);
    let separator = if address.len() > rest.len() { "://" } else { "" };
    let before = if start > 0 || rest.starts_with('@') { "…" } else { "" };
    let after = if end < rest.len() { "…" } else { "" };
    format!("{scheme}{separator}{before}{}{after}", &rest[start..end])
}

/// Serializes a field with a secret.
pub fn secret<S: Serializer, T: Serialize>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(SECRET, value)
}

/// Serializes a field with a certificate in PEM.
pub fn pem<S: Serializer, T: Serialize>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(PEM, value)
}

/// Serializes a field with an address whose path may be a secret.
pub fn url<S: Serializer, T: Serialize>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(URL, value)
}

/// Serializes a field with an address of a server that has neither user nor password.
pub fn address<S: Serializer, T: Serialize>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(ADDRESS, value)
}
