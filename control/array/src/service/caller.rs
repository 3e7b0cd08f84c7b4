//! The caller of a request, and the credential that authenticated it.

use records::{DirectoryId, Role, TokenId, UserId};

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user's name, for display only; authorization does not depend on it.
    pub user: String,
    /// Origin: an address, or `local`.
    pub origin: String,
    /// The role at authentication. Authorization uses the current role of the credential.
    pub role: Role,
    /// The credential.
    pub credential: Credential,
}

/// What authenticated a caller. It is checked again when the request is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The array itself, or the token in the array's folder on its machine.
    Machine,
    /// An API token.
    Token(TokenId),
    /// A session that began with the password of a user, set at a time in seconds since 1970.
    Session(UserId, u64),
    /// A session of a user that a directory authenticated, at a time in seconds since 1970.
    Guest(DirectoryId, u64),
}

impl Caller {
    /// What authenticated it, as a text that no other token or user has. A token may act for several users.
    pub fn credential_key(&self) -> String {
        match self.credential {
            Credential::Machine => "machine".to_owned(),
            Credential::Token(id) => format!("token {:016x} {}", id.0, self.user),
            Credential::Session(user, _) => format!("user {:016x}", user.0),
            Credential::Guest(directory, _) => format!("guest {:016x} {}", directory.0, self.user),
        }
    }

    /// The array itself: schedules, the recycle bin.
    pub fn array() -> Self {
        let (user, origin, role) = ("array".into(), "local".into(), Role::Admin);
        Self { user, origin, role, credential: Credential::Machine }
    }
}
