//! Names of newtype structs that say how much of a value an audit trail may show. Stored forms do not contain them.

use serde::{Serialize, Serializer};

/// A secret, sealed or hashed or in clear: nothing of it is shown.
pub const SECRET: &str = "$secret";
/// A certificate in PEM: its subject and a digest are shown.
pub const PEM: &str = "$pem";
/// An address whose path may be a secret: its host is shown.
pub const URL: &str = "$url";

/// A field with a secret.
pub fn secret<S: Serializer, T: Serialize>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(SECRET, value)
}

/// A field with a certificate in PEM.
pub fn pem<S: Serializer, T: Serialize>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(PEM, value)
}

/// A field with an address.
pub fn url<S: Serializer, T: Serialize>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(URL, value)
}
