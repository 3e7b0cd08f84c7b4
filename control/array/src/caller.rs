//! Who makes a request, and the credential that authenticated it.

use records::{DirectoryId, Role, TokenId, UserId};

/// Who makes a request, and with which credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user's name, for people to read: nothing is decided by it.
    pub user: String,
    /// From where: an address, or `local`.
    pub origin: String,
    /// The role when the caller was let in; what counts is the role that the credential has now.
    pub role: Role,
    /// What let the caller in.
    pub credential: Credential,
}

/// What let a caller in. It is asked again when the action is carried out.
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
    /// The array itself: schedules, the recycle bin.
    pub fn array() -> Self {
        let (user, origin, role) = ("array".into(), "local".into(), Role::Admin);
        Self { user, origin, role, credential: Credential::Machine }
    }
}
