//! Serde markers by which the audit log decides how much of a field to show. They are names of newtype structs, so that stored
//! forms do not contain them.

use serde::{Serialize, Serializer};

/// A secret, sealed, hashed or in clear text: not shown.
pub const SECRET: &str = "$secret";
/// A certificate in PEM: shown as subject and digest.
pub const PEM: &str = "$pem";
/// An address whose path may be a secret: shown as its host.
pub const URL: &str = "$url";

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
