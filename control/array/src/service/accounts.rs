//! Users and API tokens: who a credential belongs to, and which role it has now.
//!
//! Passwords are chosen by people, so they are hashed slowly (Argon2id); tokens are long and random, so a digest is
//! enough.

use crate::configuration::Configuration;
use crate::events::bus::EventBus;
use crate::parts::env::Env;
use crate::parts::hex::hex;
use crate::service::caller::{Caller, Credential};
use crate::service::directories::Directories;
use crate::shape::{shapes, some_exposed, some_time, time};
use crate::{Error, Result};
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::digest::{SHA256, digest};
use history::Severity;
use records::{Config, Hashed, Role, Secret, TokenEntry, TokenId, UserEntry, UserId};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// What tokens begin with, so that programs that look for lost secrets know them.
pub(crate) const TOKEN_MARK: &str = "ashlar-";

const PASSWORD_LENGTHS: std::ops::RangeInclusive<usize> = 8..=256;

/// A user of the array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct User {
    /// Name.
    pub name: String,
    /// Role.
    pub role: Role,
    /// Creation time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Time of the last password change.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub password_set: u64,
}

shapes! {
    User: "Users" "Users." "Sorted by name";
    Token: "ApiTokens" "API tokens." "Sorted by name";
}

/// A user of the array who gave the right password. Only [`Accounts::log_in`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// Its identity.
    pub id: UserId,
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When that password was set, in seconds since 1970; another password of the user has another time.
    pub password_set: u64,
}

/// An API token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ApiToken)]
pub struct Token {
    /// Name.
    pub name: String,
    /// Owner.
    pub user: String,
    /// Role; never more than the owner's.
    pub role: Role,
    /// Creation time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Expiry time; `null`: never.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires: Option<u64>,
    /// Requests may name the user they are made for, in the header `Ashlar-On-Behalf-Of`. The audit log and events
    /// record the name; permissions stay those of the token.
    pub on_behalf: bool,
    /// The secret; only returned on creation.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_exposed")]
    #[schema(value_type = Option<String>)]
    pub secret: Option<Secret>,
}

/// What a token's secret authenticates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bearer {
    /// The token.
    pub id: TokenId,
    /// The name of its user.
    pub user: String,
    /// What may be done with it.
    pub role: Role,
    /// Whether a request with it may name the user that it acts for.
    pub on_behalf: bool,
}

impl User {
    pub(crate) fn of(entry: &UserEntry) -> Self {
        let UserEntry { name, role, created, password_set, .. } = entry.clone();
        Self { name, role, created, password_set }
    }
}

impl Token {
    pub(crate) fn of(entry: &TokenEntry, user: &str) -> Self {
        let TokenEntry { name, role, created, expires, on_behalf, .. } = entry.clone();
        Self { name, user: user.into(), role, created, expires, on_behalf, secret: None }
    }
}

/// Authenticates users of the array and API tokens.
pub struct Accounts {
    env: Arc<Env>,
    bus: Arc<EventBus>,
    configuration: Arc<Configuration>,
    directories: Arc<Directories>,
}

impl Accounts {
    pub(crate) fn new(
        (env, bus, configuration): (Arc<Env>, Arc<EventBus>, Arc<Configuration>),
        directories: Arc<Directories>,
    ) -> Self {
        Self { env, bus, configuration, directories }
    }

    /// The role that a caller has now; `None` if its credential is no longer valid.
    pub fn role_now(&self, caller: &Caller) -> Option<Role> {
        match caller.credential {
            Credential::Machine => Some(caller.role),
            Credential::Token(id) => {
                let (now, config) = (self.env.seconds(), self.configuration.read());
                let token = config.tokens.get(id)?;
                let user = config.users.get(token.user)?;
                token.is_valid(now).then_some(token.role.min(user.role))
            }
            Credential::Session(user, password_set) => self.still_in(user, password_set),
            Credential::Guest(directory, since) => {
                self.directories.is_current(directory, since).then_some(caller.role)
            }
        }
    }

    /// Whether a caller is the user of this name, signed in with the password. A token acts for a user and is not it,
    /// nor is a directory's user of the same name.
    pub fn is_own(&self, caller: &Caller, name: &str) -> bool {
        let Credential::Session(id, _) = caller.credential else { return false };
        self.configuration.read().users.find(name).is_some_and(|user| user.id == id)
    }

    pub(crate) fn own_user(&self, caller: &Caller) -> Result<User> {
        match caller.credential {
            Credential::Session(id, _) => match self.configuration.read().users.get(id) {
                Some(user) => Ok(User::of(user)),
                None => Err(Error::not_found("the user of this session is gone")),
            },
            _ => Err(Error::not_found("a user of a directory is not a user of the array")),
        }
    }

    pub(crate) fn tokens(&self, config: &Config) -> Vec<Token> {
        let view = |it| Some(Token::of(it, &config.users.get(it.user)?.name));
        config.tokens.iter().filter_map(view).collect()
    }

    /// One's own password is set in a session that its current one began, with the current one given again.
    pub(crate) fn permit_own_password(&self, caller: &Caller, verified: &Member) -> Result<()> {
        let Credential::Session(id, password_set) = caller.credential else {
            return Err(Error::forbidden(
                "a token or a directory's user has no password here: sign in as the user with the password",
            ));
        };
        match verified.id == id && verified.password_set == password_set {
            true => Ok(()),
            false => Err(Error::forbidden("the password has been changed: sign in again")),
        }
    }

    /// Random letters and digits with 256 bits of entropy.
    pub fn secret(&self) -> String {
        format!("{:032x}{:032x}", (self.env.random)(), (self.env.random)())
    }

    /// The user whose password this is. It takes a moment, so that guessing takes long: to be called where no other request
    /// waits.
    pub fn log_in(&self, user: &str, password: &Secret) -> Option<Member> {
        let found = self.configuration.read().users.find(user).cloned();
        // A name that is not there takes as long as one that is.
        const NO_USER: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA\
                              $AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let hash = found.as_ref().map_or(NO_USER, |entry| entry.hash.text());
        let member = |UserEntry { id, name, role, password_set, .. }| Member { id, name, role, password_set };
        is_password(password, hash).then_some(found).flatten().map(member)
    }

    /// The role of a user who logged in with the password of a time; `None` if the user or that password is gone. One of the
    /// same name is another user.
    pub fn still_in(&self, user: UserId, password_set: u64) -> Option<Role> {
        let config = self.configuration.read();
        config.users.get(user).filter(|entry| entry.password_set == password_set).map(|entry| entry.role)
    }

    /// What this secret authenticates, unless its token is gone or has expired.
    pub fn token(&self, secret: &str) -> Option<Bearer> {
        if !secret.starts_with(TOKEN_MARK) {
            return None;
        }
        // Digests are compared: how long that takes reveals nothing about the token.
        let (hash, now, config) = (hash_token(secret), self.env.seconds(), self.configuration.read());
        let token = config.tokens.iter().find(|entry| entry.hash == hash)?;
        let user = config.users.get(token.user)?;
        token.is_valid(now).then(|| Bearer {
            id: token.id,
            user: user.name.clone(),
            role: token.role.min(user.role),
            on_behalf: token.on_behalf,
        })
    }

    /// Logs an event about a log-in, or a refused one.
    pub fn log_login(&self, user: &str, origin: &str, done: bool) {
        let shown: String = user.chars().take(64).collect();
        let (severity, kind, message) = match done {
            true => (Severity::Info, "session.begun", format!("user {shown:?} logged in from {origin}")),
            false => (
                Severity::Warning,
                "session.refused",
                format!("a log-in as {shown:?} from {origin} was refused"),
            ),
        };
        self.bus.log_event(severity, kind, None, message);
    }
}

/// 19 MiB and two passes, as OWASP advises.
fn hasher() -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::default())
}

pub(crate) fn hash_password(password: &Secret, random: u128) -> Result<Hashed> {
    if !PASSWORD_LENGTHS.contains(&password.expose().chars().count()) {
        return Err(Error::invalid("a password has 8 to 256 characters"));
    }
    let salt = SaltString::encode_b64(&random.to_le_bytes());
    let hashed =
        salt.and_then(|salt| Ok(hasher().hash_password(password.expose().as_bytes(), &salt)?.to_string()));
    hashed.map(Hashed::new).map_err(|error| Error::failed("the password can't be hashed", error))
}

fn is_password(password: &Secret, hash: &str) -> bool {
    let Ok(hash) = PasswordHash::new(hash) else { return false };
    hasher().verify_password(password.expose().as_bytes(), &hash).is_ok()
}

pub(crate) fn hash_token(secret: &str) -> Hashed {
    Hashed::new(hex(digest(&SHA256, secret.as_bytes()).as_ref()))
}
