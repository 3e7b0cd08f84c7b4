//! Users with roles, and API tokens for programs. Passwords and tokens are stored as hashes.
//!
//! Passwords are chosen by people, so they are hashed slowly (Argon2id); tokens are long and random, so a digest is
//! enough.

use crate::array::{Array, Transaction};
use crate::caller::{Caller, Credential};
use crate::verb::verbs;
use crate::verb::{Object, Request, Verb, declare};
use crate::{Error, Result, check};
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::digest::{SHA256, digest};
use history::Severity;
use records::{Config, Edit, Hashed, Record, Role, Secret, TokenEntry, TokenId, UserEntry, UserId};
use serde::Serialize;

/// Name of the user that an array begins with.
pub const FIRST_USER: &str = "admin";

/// What tokens begin with, so that programs that look for lost secrets know them.
const TOKEN_MARK: &str = "ashlar-";

const PASSWORD_LENGTHS: std::ops::RangeInclusive<usize> = 8..=256;

/// The longest life of a token, in seconds from now.
const MAX_TOKEN_LIFE_SECONDS: u64 = 100 * 366 * 86_400;

/// A user as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// When its password was set, in seconds since 1970.
    pub password_set: u64,
}

/// A user of the array who gave the right password. Only [`Array::log_in`] makes one.
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

/// A token as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// What may be done with it.
    pub role: Role,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// When it stops to be good, in seconds since 1970.
    pub expires: Option<u64>,
}

/// Create a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreateUser {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Its password, 8 to 256 characters.
    pub password: Secret,
}

/// All users, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListUsers;

/// One user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowUser {
    /// Its name.
    pub name: String,
}

/// Change a user; what is none stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeUser {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Option<Role>,
    /// Its password, 8 to 256 characters.
    pub password: Option<Secret>,
}

/// Delete a user, with its tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeleteUser {
    /// Its name.
    pub name: String,
}

/// The user of the caller's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowOwnUser;

/// Set the password of the user of the caller's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeOwnPassword {
    /// Proof that the current password was given.
    #[serde(skip)]
    pub verified: Member,
    /// The new one, 8 to 256 characters.
    pub password: Secret,
}

/// Create an API token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreateToken {
    /// Its name.
    pub name: String,
    /// Whose it is; the caller's when none is given.
    pub user: Option<String>,
    /// What may be done with it; what its user may when none is given, and never more.
    pub role: Option<Role>,
    /// When it stops to be good, in seconds since 1970; never when none is given.
    pub expires: Option<u64>,
}

/// All tokens, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListTokens;

/// Delete a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeleteToken {
    /// Its name.
    pub name: String,
}

verbs! {
    [ChangeUser, ShowOwnUser, ChangeOwnPassword]
    CreateUser -> User, Change "create" "user", Admin, about name
        => |tx, it| tx.create_user(it.name, it.role, &it.password).await;
    ListUsers -> Vec<User>, Read "list" "user", Admin
        => |tx, _| Ok(tx.array.config().users.iter().map(User::of).collect());
    ShowUser -> User, Read "show" "user", Admin, about name
        => |tx, it| tx.array.config().users.named(&it.name).map(User::of);
    DeleteUser -> (), Change "delete" "user", Admin, about name
        => |tx, it| tx.delete_user(&it.name).await;
    CreateToken -> NewToken, Change "create" "token", Admin, about name
        => |tx, it| tx.create_token(it.name, it.user, it.role, it.expires).await;
    ListTokens -> Vec<Token>, Read "list" "token", Admin
        => |tx, _| Ok(tx.array.tokens(&tx.array.config()));
    DeleteToken -> (), Change "delete" "token", Admin, about name
        => |tx, it| tx.delete_token(&it.name).await;
}

impl Array {
    /// The role that a caller has now; `None` if its credential is no longer valid.
    pub fn role_now(&self, caller: &Caller) -> Option<Role> {
        match caller.credential {
            Credential::Machine => Some(caller.role),
            Credential::Token(id) => {
                let (now, config) = (self.env.seconds(), self.config());
                let token = config.tokens.get(id)?;
                let user = config.users.get(token.user)?;
                token.is_good(now).then_some(token.role.min(user.role))
            }
            Credential::Session(user, password_set) => self.still_in(user, password_set),
            Credential::Guest(directory, since) => self.still_guest(directory, since).then_some(caller.role),
        }
    }

    /// Whether a caller is the user of this name, signed in with the password. A token acts for a user and is not it,
    /// nor is a directory's user of the same name.
    pub fn is_own(&self, caller: &Caller, name: &str) -> bool {
        let Credential::Session(id, _) = caller.credential else { return false };
        self.config().users.find(name).is_some_and(|user| user.id == id)
    }

    fn own_user(&self, caller: &Caller) -> Result<User> {
        match caller.credential {
            Credential::Session(id, _) => match self.config().users.get(id) {
                Some(user) => Ok(User::of(user)),
                None => Err(Error::not_found("the user of this session is gone")),
            },
            _ => Err(Error::not_found("only a user who signed in with a password is a user of the array")),
        }
    }

    fn tokens(&self, config: &Config) -> Vec<Token> {
        let view = |it| Some(Token::of(it, &config.users.get(it.user)?.name));
        config.tokens.iter().filter_map(view).collect()
    }

    /// One's own password is set in a session that its current one began, with the current one given again.
    fn permit_own_password(&self, caller: &Caller, verified: &Member) -> Result<()> {
        let Credential::Session(id, password_set) = caller.credential else {
            return Err(Error::forbidden(
                "a token or a directory's user has no password here: sign in as the user with the password",
            ));
        };
        match verified.id == id && verified.password_set == password_set {
            true => Ok(()),
            false => Err(Error::forbidden("the password was set anew meanwhile: sign in again")),
        }
    }
}

/// 19 MiB and two passes, as OWASP advises.
fn hasher() -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::default())
}

fn hash_password(password: &Secret, random: u128) -> Result<Hashed> {
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

fn hash_token(secret: &str) -> Hashed {
    Hashed::new(
        digest(&SHA256, secret.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect(),
    )
}

impl Array {
    /// Random letters and digits with 256 bits of entropy.
    pub fn secret(&self) -> String {
        format!("{:032x}{:032x}", (self.env.random)(), (self.env.random)())
    }

    /// Makes the first user when there is none; its password, to be shown once.
    ///
    /// # Errors
    /// When the configuration can't be stored.
    pub async fn first_user(&self) -> Result<Option<Secret>> {
        if !self.config().users.is_empty() {
            return Ok(None);
        }
        let password = Secret::new(self.secret().chars().take(20).collect::<String>());
        let (name, role) = (FIRST_USER.into(), Role::Admin);
        let create = CreateUser { name, role, password: password.clone() };
        self.perform(&Caller::array(), create).await?;
        Ok(Some(password))
    }

    /// The user whose password this is. It takes a moment, so that guessing takes long: to be asked where nobody else
    /// waits.
    pub fn log_in(&self, user: &str, password: &Secret) -> Option<Member> {
        let found = self.config().users.find(user).cloned();
        // A name that is not there takes as long as one that is.
        const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA\
                              $AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let hash = found.as_ref().map_or(NOBODY, |entry| entry.hash.text());
        let member = |UserEntry { id, name, role, password_set, .. }| Member { id, name, role, password_set };
        is_password(password, hash).then_some(found).flatten().map(member)
    }

    /// The role of a user who logged in with the password of a time; `None` if the user or that password is gone. One of the
    /// same name is another user.
    pub fn still_in(&self, user: UserId, password_set: u64) -> Option<Role> {
        let config = self.config();
        config.users.get(user).filter(|entry| entry.password_set == password_set).map(|entry| entry.role)
    }

    /// The token with this secret, the name of its user, and what may be done with it.
    pub fn token(&self, secret: &str) -> Option<(TokenId, String, Role)> {
        if !secret.starts_with(TOKEN_MARK) {
            return None;
        }
        // Digests are compared: how long that takes reveals nothing about the token.
        let (hash, now, config) = (hash_token(secret), self.env.seconds(), self.config());
        let token = config.tokens.iter().find(|entry| entry.hash == hash)?;
        let user = config.users.get(token.user)?;
        token.is_good(now).then(|| (token.id, user.name.clone(), token.role.min(user.role)))
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
        self.log_event(severity, kind, None, message);
    }

    /// The time of day, in seconds since 1970.
    pub fn now(&self) -> u64 {
        self.env.seconds()
    }
}

/// A new token, with the secret that is shown once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// The token.
    pub token: Token,
    /// Its secret.
    pub secret: Secret,
}

impl Request for ShowOwnUser {
    const VERB: Verb = declare!(ShowOwnUser, Read "show own" "user", Viewer);
    type Answer = User;

    fn object(&self, _: &Config, caller: &Caller) -> Object {
        Object::of(&[], &caller.user)
    }

    async fn run(self, tx: &mut Transaction<'_>) -> Result<User> {
        tx.array.own_user(tx.caller)
    }
}

impl Request for ChangeUser {
    const VERB: Verb = declare!(ChangeUser, Change "change" "user", Admin);
    type Answer = User;

    fn object(&self, _: &Config, _: &Caller) -> Object {
        Object::of(&["name"], &self.name)
    }

    fn authorize(&self, array: &Array, caller: &Caller) -> Result<()> {
        match self.password.is_some() && array.is_own(caller, &self.name) {
            true => Err(Error::forbidden("to set your own password, give the current one as well")),
            false => Ok(()),
        }
    }

    async fn run(self, tx: &mut Transaction<'_>) -> Result<User> {
        tx.change_user(&self.name, self.role, self.password.as_ref()).await
    }
}

impl Request for ChangeOwnPassword {
    const VERB: Verb = declare!(ChangeOwnPassword, Change "set own password of" "user", Viewer);
    type Answer = User;

    fn object(&self, _: &Config, _: &Caller) -> Object {
        Object::of(&[], &self.verified.name)
    }

    fn authorize(&self, array: &Array, caller: &Caller) -> Result<()> {
        array.permit_own_password(caller, &self.verified)
    }

    async fn run(self, tx: &mut Transaction<'_>) -> Result<User> {
        tx.change_own_password(&self.verified, &self.password).await
    }
}

impl User {
    fn of(entry: &UserEntry) -> Self {
        let UserEntry { name, role, created, password_set, .. } = entry.clone();
        Self { name, role, created, password_set }
    }
}

impl Token {
    fn of(entry: &TokenEntry, user: &str) -> Self {
        let TokenEntry { name, role, created, expires, .. } = entry.clone();
        Self { name, user: user.into(), role, created, expires }
    }
}

impl Transaction<'_> {
    pub async fn create_user(&mut self, name: String, role: Role, password: &Secret) -> Result<User> {
        check::name("user", &name)?;
        self.array.config().users.free(&name)?;
        let hash = hash_password(password, (self.array.env.random)())?;
        let (id, now) = (UserId(self.id64()), self.now());
        let entry = UserEntry { id, name, created: now, role, hash, password_set: now };
        self.commit(vec![Edit::Put(Record::User(entry.clone()))]).await?;
        self.done("user.created", "user", &entry.name, "was created");
        Ok(User::of(&entry))
    }

    pub async fn change_user(
        &mut self,
        name: &str,
        role: Option<Role>,
        password: Option<&Secret>,
    ) -> Result<User> {
        let mut entry = self.array.config().users.named(name)?.clone();
        if let Some(role) = role {
            if entry.role == Role::Admin && role != Role::Admin {
                self.keep_an_admin(&entry)?;
            }
            entry.role = role;
        }
        if let Some(password) = password {
            entry.hash = hash_password(password, (self.array.env.random)())?;
            // Sessions know their password by its time: no two of a user have the same one.
            entry.password_set = self.now().max(entry.password_set + 1);
        }
        self.commit(vec![Edit::Put(Record::User(entry.clone()))]).await?;
        self.done("user.changed", "user", name, "was changed");
        Ok(User::of(&entry))
    }

    /// Sets the password of the caller; that it may was looked at under the lock of changes.
    pub async fn change_own_password(&mut self, verified: &Member, password: &Secret) -> Result<User> {
        let name = {
            let config = self.array.config();
            let user = config.users.get(verified.id);
            user.ok_or_else(|| Error::not_found("the user of this session is gone"))?.name.clone()
        };
        self.change_user(&name, None, Some(password)).await
    }

    pub async fn delete_user(&mut self, name: &str) -> Result<()> {
        let (user, tokens) = {
            let config = self.array.config();
            let user = config.users.named(name)?.clone();
            let tokens: Vec<_> =
                config.tokens.iter().filter(|token| token.user == user.id).cloned().collect();
            (user, tokens)
        };
        if user.role == Role::Admin {
            self.keep_an_admin(&user)?;
        }
        let mut edits: Vec<_> = tokens.into_iter().map(|token| Edit::Remove(Record::Token(token))).collect();
        edits.push(Edit::Remove(Record::User(user)));
        self.commit(edits).await?;
        self.done("user.deleted", "user", name, "was deleted");
        Ok(())
    }

    fn keep_an_admin(&self, leaving: &UserEntry) -> Result<()> {
        let config = self.array.config();
        match config.users.iter().any(|user| user.role == Role::Admin && user.id != leaving.id) {
            true => Ok(()),
            false => Err(Error::precondition(format!(
                "{:?} is the last user with the role admin: give that role to another one first",
                leaving.name
            ))),
        }
    }

    pub async fn create_token(
        &mut self,
        name: String,
        user: Option<String>,
        role: Option<Role>,
        expires: Option<u64>,
    ) -> Result<NewToken> {
        check::name("token", &name)?;
        let now = self.now();
        if expires.is_some_and(|expires| expires <= now || expires - now > MAX_TOKEN_LIFE_SECONDS) {
            return Err(Error::invalid("a token expires in the future, within a hundred years"));
        }
        let user = {
            let config = self.array.config();
            config.tokens.free(&name)?;
            let (whose, found) = match (user.as_deref(), self.caller.credential) {
                (Some(name), _) => (name, config.users.find(name)),
                // The caller itself, not another user who got its name.
                (None, Credential::Session(id, _)) => (self.caller.user.as_str(), config.users.get(id)),
                (None, Credential::Token(id)) => {
                    let user = config.tokens.get(id).and_then(|token| config.users.get(token.user));
                    (self.caller.user.as_str(), user)
                }
                (None, Credential::Machine) => (FIRST_USER, config.users.find(FIRST_USER)),
                (None, Credential::Guest(..)) => (self.caller.user.as_str(), None),
            };
            let found = found.ok_or_else(|| {
                Error::not_found(format!(
                    "there is no user {whose:?} of the array itself, and only such have tokens: say whose it is"
                ))
            });
            found?.clone()
        };
        let secret = format!("{TOKEN_MARK}{}", self.array.secret());
        let role = role.unwrap_or(user.role).min(user.role);
        let (id, hash) = (TokenId(self.id64()), hash_token(&secret));
        let entry = TokenEntry { id, name, created: now, user: user.id, role, expires, hash };
        self.commit(vec![Edit::Put(Record::Token(entry.clone()))]).await?;
        self.done("token.created", "token", &entry.name, "was created");
        Ok(NewToken { token: Token::of(&entry, &user.name), secret: Secret::new(secret) })
    }

    pub async fn delete_token(&mut self, name: &str) -> Result<()> {
        let entry = self.array.config().tokens.named(name)?.clone();
        self.commit(vec![Edit::Remove(Record::Token(entry))]).await?;
        self.done("token.deleted", "token", name, "was deleted");
        Ok(())
    }
}
