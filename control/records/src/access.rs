//! Records of users and API tokens. Passwords and tokens are stored as hashes.

use crate::id::{TokenId, UserId};
use crate::mark;
use crate::table::Named;
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use utoipa::ToSchema;

/// Role of a user or token. Each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read-only access.
    Viewer,
    /// Manage volumes, hosts and snapshots.
    Operator,
    /// Full access, including users, tokens, settings and certificates.
    Admin,
}

impl Role {
    /// Name of the role.
    pub fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

/// The hash of a password or a token: not secret, but never shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Hashed(String);

impl Hashed {
    /// A hash as text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl Serialize for Hashed {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(mark::SECRET, &self.0)
    }
}

impl fmt::Debug for Hashed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hashed(…)")
    }
}

/// Configuration of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserEntry {
    /// Identity of the user.
    pub id: UserId,
    /// Name of the user.
    pub name: String,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// Permissions of the user.
    pub role: Role,
    /// Argon2id hash of the password, as a PHC string.
    pub hash: Hashed,
    /// Time of the last password change, in seconds since 1970.
    pub password_set: u64,
}

/// Configuration of an API token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenEntry {
    /// Identity of the token.
    pub id: TokenId,
    /// Name of the token.
    pub name: String,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// The user of the token, which is deleted with its user.
    pub user: UserId,
    /// Permissions of the token, limited by those of its user.
    pub role: Role,
    /// Expiry time, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Whether a request with this token may name the user that it acts for. The name is recorded and grants no
    /// permission.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_behalf: bool,
    /// SHA-256 of the token, in hex digits.
    pub hash: Hashed,
}

impl TokenEntry {
    /// Whether the token has not expired.
    pub fn is_valid(&self, now: u64) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

impl Named for UserEntry {
    type Id = UserId;
    const NOUN: &'static str = "user";

    fn id(&self) -> UserId {
        self.id
    }

    fn label(&self) -> &str {
        &self.name
    }
}

impl Named for TokenEntry {
    type Id = TokenId;
    const NOUN: &'static str = "token";

    fn id(&self) -> TokenId {
        self.id
    }

    fn label(&self) -> &str {
        &self.name
    }
}
