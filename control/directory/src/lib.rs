//! Identity providers: authentication of users and their groups by OpenID Connect or LDAP, for users that are not local
//! users of the array.
//!
//! Calls block until the server has responded, so they need separate threads. The caller maps groups to roles and keeps
//! sessions.

mod ldap;
mod oidc;

pub use oidc::SIGN_IN;

use records::DirectorySettings;
use std::fmt;
use std::time::Duration;

/// Time-out of a request with its response.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a user or group name.
const MAX_NAME_BYTES: usize = 256;
/// Maximum number of groups of a user; others are ignored.
const MAX_GROUPS: usize = 1000;

/// Reason why a user was not authenticated, as text for operators, without secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The directory rejected the credentials.
    #[error("{0}")]
    Refused(String),
    /// The directory is unreachable, or its response is unusable.
    #[error("{0}")]
    Failed(String),
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    fn refused(what: impl fmt::Display) -> Self {
        Self::Refused(what.to_string())
    }

    fn failed(what: impl fmt::Display) -> Self {
        Self::Failed(what.to_string())
    }
}

impl From<trust::Error> for Error {
    fn from(error: trust::Error) -> Self {
        Self::failed(error)
    }
}

/// A user that a directory authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryUser {
    /// Name in the directory.
    pub name: String,
    /// Group memberships.
    pub groups: Vec<String>,
}

/// An authorization request: the URL for the browser, and the secrets for the check of the response.
#[derive(Clone)]
pub struct AuthorizationRequest {
    /// URL for the redirect of the browser.
    pub url: String,
    /// Returned in the redirect to the array.
    pub state: String,
    /// Returned in the ID token.
    nonce: String,
    /// PKCE code verifier (RFC 7636).
    verifier: String,
}

impl fmt::Debug for AuthorizationRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuthorizationRequest(…)")
    }
}

/// Credentials of a user.
pub enum Credentials<'a> {
    /// An authorization code from the redirect to the array.
    Code {
        /// The request that the code belongs to.
        request: &'a AuthorizationRequest,
        /// The authorization code.
        code: &'a str,
        /// The `iss` parameter (RFC 9207).
        issuer: Option<&'a str>,
    },
    /// User name and password.
    Password {
        /// The user name.
        user: &'a str,
        /// The password.
        password: &'a str,
    },
}

/// An identity provider.
pub trait Directory: Send + Sync {
    /// Tests the settings against the server. Returns a text for operators.
    ///
    /// # Errors
    /// The problem.
    fn test(&self) -> Result<String>;

    /// Begins an authorization request; `None` if users enter their password at the array.
    ///
    /// # Errors
    /// If the directory can't be reached.
    fn begin_authorization(&self) -> Result<Option<AuthorizationRequest>>;

    /// Authenticates a user.
    ///
    /// # Errors
    /// If the credentials are wrong, or the directory can't be reached.
    fn authenticate(&self, credentials: &Credentials) -> Result<DirectoryUser>;
}

/// Refuses invalid settings. `secret`: whether there is one.
///
/// # Errors
/// The problem, as text for operators.
pub fn check(settings: &DirectorySettings, secret: bool) -> Result<()> {
    match settings {
        DirectorySettings::Oidc(it) => oidc::check(it),
        DirectorySettings::Ldap(it) => ldap::check(it, secret),
    }
}

/// Opens a directory.
pub fn open(settings: &DirectorySettings, secret: Option<&str>) -> Box<dyn Directory> {
    match settings {
        DirectorySettings::Oidc(it) => Box::new(oidc::Provider::new(it.clone(), secret)),
        DirectorySettings::Ldap(it) => Box::new(ldap::Server::new(it.clone(), secret)),
    }
}

/// Checks that the names are displayable in lists and logs.
fn directory_user(name: String, groups: impl IntoIterator<Item = String>) -> Result<DirectoryUser> {
    if !is_readable(&name) {
        let shown = text::shown(&name, 64, "");
        return Err(Error::refused(format!(
            "the directory returned the user name {shown:?}: a name has 1 to {MAX_NAME_BYTES} bytes of visible \
             characters"
        )));
    }
    Ok(DirectoryUser {
        name,
        groups: groups.into_iter().filter(|it| is_readable(it)).take(MAX_GROUPS).collect(),
    })
}

fn is_readable(name: &str) -> bool {
    !name.trim().is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(text::is_visible)
}

/// True for loopback addresses.
fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|it| it.is_loopback())
}
