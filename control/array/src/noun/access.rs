//! Operator requests about users with roles and API tokens for programs. Passwords and tokens are stored as hashes.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::events::audit::Object;
use crate::request::verb::Verb;
use crate::request::{Request, declare, verbs};
use crate::service::accounts::{Member, TOKEN_MARK, Token, User, hash_password, hash_token};
use crate::service::caller::{Caller, Credential};
use crate::shape::{rfc3339, some_time};
use crate::{Error, Result};
use records::{Config, Edit, Record, Role, Secret, TokenEntry, TokenId, UserEntry, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Name of the user that an array begins with.
pub const FIRST_USER: &str = "admin";

/// A new user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewUser)]
pub struct CreateUser {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    pub name: String,
    /// Role.
    pub role: Role,
    /// Password, 8 to 256 characters.
    #[schema(value_type = String, format = Password)]
    pub password: Secret,
}

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

/// A new API token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewToken)]
pub struct CreateToken {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    pub name: String,
    /// Owner; the caller if omitted.
    pub user: Option<String>,
    /// Role; the owner's role if omitted.
    pub role: Option<Role>,
    /// Expiry time; `null` or omitted: never.
    #[serde(default, serialize_with = "some_time", deserialize_with = "rfc3339")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires: Option<u64>,
    /// Allow the header `Ashlar-On-Behalf-Of`; `false` if omitted.
    #[serde(default)]
    pub on_behalf: bool,
}

verbs! {
    #![tag = "access"]
    [ChangeUser, ShowOwnUser, ChangeOwnPassword]

    /// Create a user
    CreateUser -> User, Change "create" "user", Admin, about name, at POST "/users" 201 says "The new user"
        => |tx, it| tx.create_user(it.name, it.role, &it.password).await;
    /// List users
    ListUsers {} -> Vec<User>, Read "list" "user", Admin, at GET "/users"
        => |tx, _| Ok(tx.array.config().users.iter().map(User::of).collect());
    ShowUser -> User, Read "show" "user", Admin, about name
        => |tx, it| tx.array.config().users.named(&it.name).map(User::of);
    /// Delete a user and its tokens
    DeleteUser { name } -> (), Change "delete" "user", Admin, about name, at DELETE "/users/{name}"
        => |tx, it| tx.delete_user(&it.name).await;
    /// Create an API token
    ///
    /// The secret is only returned in this response.
    CreateToken -> Token, Change "create" "token", Admin, about name,
        at POST "/tokens" 201 says "The new token, with its secret"
        => |tx, it| tx.create_token(it).await;
    /// List API tokens
    ListTokens {} -> Vec<Token>, Read "list" "token", Admin, at GET "/tokens"
        => |tx, _| Ok(tx.array.accounts.tokens(&tx.array.config()));
    /// Delete an API token
    DeleteToken { name } -> (), Change "delete" "token", Admin, about name, at DELETE "/tokens/{name}"
        => |tx, it| tx.delete_token(&it.name).await;
}

impl Array {
    /// Makes the first user when there is none; its password, to be shown once.
    ///
    /// # Errors
    /// When the configuration can't be stored.
    pub async fn first_user(&self) -> Result<Option<Secret>> {
        if !self.config().users.is_empty() {
            return Ok(None);
        }
        let password = Secret::new(self.accounts.secret().chars().take(20).collect::<String>());
        let (name, role) = (FIRST_USER.into(), Role::Admin);
        let create = CreateUser { name, role, password: password.clone() };
        self.perform(&Caller::array(), create).await?;
        Ok(Some(password))
    }
}

impl Request for ShowOwnUser {
    const VERB: Verb = declare!(ShowOwnUser, Read "show own" "user", Viewer);
    type Answer = User;

    fn object(&self, _: &Config, caller: &Caller) -> Object {
        Object::of(&[], &caller.user)
    }

    async fn run(self, tx: &mut Transaction<'_>) -> Result<User> {
        tx.array.accounts.own_user(tx.caller)
    }
}

impl Request for ChangeUser {
    const VERB: Verb = declare!(ChangeUser, Change "change" "user", Admin);
    type Answer = User;

    fn object(&self, _: &Config, _: &Caller) -> Object {
        Object::of(&["name"], &self.name)
    }

    fn authorize(&self, array: &Array, caller: &Caller) -> Result<()> {
        match self.password.is_some() && array.accounts.is_own(caller, &self.name) {
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
        array.accounts.permit_own_password(caller, &self.verified)
    }

    async fn run(self, tx: &mut Transaction<'_>) -> Result<User> {
        tx.change_own_password(&self.verified, &self.password).await
    }
}

impl Transaction<'_> {
    pub async fn create_user(&mut self, name: String, role: Role, password: &Secret) -> Result<User> {
        check::name("user", &name)?;
        self.config().users.free(&name)?;
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
        let mut entry = self.config().users.named(name)?.clone();
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
            let config = self.config();
            let user = config.users.get(verified.id);
            user.ok_or_else(|| Error::not_found("the user of this session is gone"))?.name.clone()
        };
        self.change_user(&name, None, Some(password)).await
    }

    pub async fn delete_user(&mut self, name: &str) -> Result<()> {
        let (user, tokens) = {
            let config = self.config();
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
        let config = self.config();
        match config.users.iter().any(|user| user.role == Role::Admin && user.id != leaving.id) {
            true => Ok(()),
            false => Err(Error::precondition(format!(
                "{:?} is the last user with the role admin: give that role to another one first",
                leaving.name
            ))),
        }
    }

    pub async fn create_token(&mut self, asked: CreateToken) -> Result<Token> {
        let CreateToken { name, user, role, expires, on_behalf } = asked;
        check::name("token", &name)?;
        let now = self.now();
        // One without a time never expires, so no time is too late.
        if expires.is_some_and(|expires| expires <= now) {
            return Err(Error::invalid("a token expires in the future"));
        }
        let user = {
            let config = self.config();
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
                    "there is no user {whose:?} of the array itself, and only those have tokens: name the owner"
                ))
            });
            found?.clone()
        };
        let secret = format!("{TOKEN_MARK}{}", self.array.accounts.secret());
        let role = role.unwrap_or(user.role).min(user.role);
        let (id, hash) = (TokenId(self.id64()), hash_token(&secret));
        let entry = TokenEntry { id, name, created: now, user: user.id, role, expires, on_behalf, hash };
        self.commit(vec![Edit::Put(Record::Token(entry.clone()))]).await?;
        self.done("token.created", "token", &entry.name, "was created");
        Ok(Token { secret: Some(Secret::new(secret)), ..Token::of(&entry, &user.name) })
    }

    pub async fn delete_token(&mut self, name: &str) -> Result<()> {
        let entry = self.config().tokens.named(name)?.clone();
        self.commit(vec![Edit::Remove(Record::Token(entry))]).await?;
        self.done("token.deleted", "token", name, "was deleted");
        Ok(())
    }
}
