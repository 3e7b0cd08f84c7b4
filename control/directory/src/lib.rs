//! Directories elsewhere that know people: who somebody is, and in which groups. An array asks one when somebody logs in
//! who is no user of its own.
//!
//! A call waits for the other side: it belongs on a thread where nobody else waits. What groups may do, and how long
//! somebody stays logged in, is decided above.

mod ldap;
mod oidc;

pub use oidc::SIGN_IN;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// How long a request with its answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest name of a person or a group, in bytes.
const LONGEST_NAME: usize = 256;
/// Most groups of a person that are looked at.
const MOST_GROUPS: usize = 1000;

/// Why nobody is vouched for, in words for people. No secret is among them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The directory answered: it is not who it says to be.
    #[error("{0}")]
    Refused(String),
    /// The directory can't be asked, or its answer can't be used.
    #[error("{0}")]
    Failed(String),
}

/// The answer of this crate.
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

/// Which directory, and how it is asked. Certificates (`ca`) are PEM; those that the system trusts when there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Settings {
    /// OpenID Connect. The secret is the client's.
    Oidc(Oidc),
    /// LDAP. The secret is the password of who searches.
    Ldap(Ldap),
}

/// A server of LDAP, and where it has people and groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ldap {
    /// Its address: `ldaps://name:port`, or `ldap://name:port`.
    pub server: String,
    /// Whether TLS begins by STARTTLS.
    pub starttls: bool,
    /// The distinguished name of who searches; nobody in particular when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind_dn: Option<String>,
    /// Below which people are.
    pub base: String,
    /// The attribute that names people.
    pub user_attribute: String,
    /// Below which groups are, which have people as members and go by `cn`; when there is none, people know theirs
    /// (`memberOf`), and groups go by distinguished names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_base: Option<String>,
    /// Whom to trust.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "trust::mark::pem")]
    pub ca: Option<String>,
}

/// An OpenID provider, and what it knows the array as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Oidc {
    /// Its address, as it calls itself.
    pub issuer: String,
    /// What it calls the array.
    pub client_id: String,
    /// Where browsers reach the array: they come back there, to [`SIGN_IN`], and nowhere else.
    pub address: String,
    /// What is asked for, besides `openid`.
    pub scopes: Vec<String>,
    /// The claim that has somebody's name.
    pub user_claim: String,
    /// The claim that has somebody's groups; dots lead into claims.
    pub groups_claim: String,
    /// Whom to trust.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "trust::mark::pem")]
    pub ca: Option<String>,
}

/// Somebody whom a directory vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// What the directory calls somebody.
    pub name: String,
    /// The groups that somebody is in.
    pub groups: Vec<String>,
}

/// A way that a browser goes, and what the array remembers of it until the browser comes back.
#[derive(Clone)]
pub struct Journey {
    /// Where the browser goes.
    pub url: String,
    /// Comes back with the browser.
    pub state: String,
    /// Comes back in the ID token.
    nonce: String,
    /// Proves that who began it ends it (RFC 7636).
    verifier: String,
}

impl fmt::Debug for Journey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Journey(…)")
    }
}

/// How somebody proves who it is.
pub enum Proof<'a> {
    /// A browser came back.
    Code {
        /// The way that it went.
        journey: &'a Journey,
        /// What the directory gave it.
        code: &'a str,
        /// Who says to have given it (RFC 9207).
        issuer: Option<&'a str>,
    },
    /// Somebody gave a password.
    Password {
        /// Who it says to be.
        user: &'a str,
        /// The password.
        password: &'a str,
    },
}

/// A directory elsewhere.
pub trait Directory: Send + Sync {
    /// Asks whether it is there and takes what is set; what it said, for people.
    ///
    /// # Errors
    /// What is wrong.
    fn test(&self) -> Result<String>;

    /// Begins a way for a browser; none when people prove to the array itself who they are.
    ///
    /// # Errors
    /// When the directory can't be asked.
    fn journey(&self) -> Result<Option<Journey>>;

    /// Who it is that proves it.
    ///
    /// # Errors
    /// When it does not, or the directory can't be asked.
    fn vouch(&self, proof: &Proof) -> Result<Person>;
}

impl Settings {
    /// Refuses what nobody could be asked by. `secret`: there is one.
    ///
    /// # Errors
    /// What is wrong, in words for people.
    pub fn check(&self, secret: bool) -> Result<()> {
        match self {
            Settings::Oidc(it) => it.check(),
            Settings::Ldap(it) => it.check(secret),
        }
    }

    /// The directory.
    pub fn open(&self, secret: Option<&str>) -> Box<dyn Directory> {
        match self {
            Settings::Oidc(it) => Box::new(oidc::Provider::new(it.clone(), secret)),
            Settings::Ldap(it) => Box::new(ldap::Server::new(it.clone(), secret)),
        }
    }
}

/// A person, when the names are such that people can read them: in a list, in a log.
fn person(name: String, groups: impl IntoIterator<Item = String>) -> Result<Person> {
    if !is_readable(&name) {
        let shown: String = name.chars().filter(|it| !it.is_control()).take(64).collect();
        return Err(Error::refused(format!(
            "the directory gives {shown:?} as somebody's name: one has 1 to {LONGEST_NAME} bytes, and no control \
             characters"
        )));
    }
    Ok(Person { name, groups: groups.into_iter().filter(|it| is_readable(it)).take(MOST_GROUPS).collect() })
}

fn is_readable(name: &str) -> bool {
    !name.trim().is_empty() && name.len() <= LONGEST_NAME && !name.chars().any(char::is_control)
}

/// True for the addresses of this machine that no other one reaches.
fn is_here(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|it| it.is_loopback())
}
