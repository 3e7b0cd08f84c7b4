//! Secrets: given by an operator, or sealed for storage. Neither type is ever printed, logged or audited.

use crate::mark;
use crate::redact::HIDDEN;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use utoipa::ToSchema;
use zeroize::Zeroize;

/// A secret in clear. Logs and errors never contain it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself, for its one use.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(mark::SECRET, HIDDEN)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

/// A secret sealed for storage: base 64 of nonce, ciphertext and tag.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Sealed(String);

impl Serialize for Sealed {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(mark::SECRET, &self.0)
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealed(…)")
    }
}

impl Sealed {
    /// The stored text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Wraps a stored text.
    pub fn of_text(text: String) -> Self {
        Self(text)
    }
}

/// A sealed secret within a record.
#[derive(Clone, Debug)]
pub struct SealedField {
    /// Description for operators.
    pub what: String,
    /// Purpose of the secret: it can't be opened for another one.
    pub place: String,
    /// The sealed secret.
    pub sealed: Sealed,
}

/// CHAP credentials for one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Chap {
    /// CHAP user name.
    pub user: String,
    /// CHAP secret, 12 to 255 bytes. Never returned.
    #[schema(value_type = String, format = Password)]
    pub secret: Secret,
}

impl Chap {
    /// A CHAP name with its secret.
    pub fn new(user: impl Into<String>, secret: impl Into<String>) -> Self {
        Self { user: user.into(), secret: Secret::new(secret) }
    }
}

/// One direction of CHAP, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedChap {
    /// The CHAP name.
    pub user: String,
    /// The sealed secret.
    pub secret: Sealed,
}
