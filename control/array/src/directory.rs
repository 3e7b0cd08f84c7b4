//! Directories (OpenID Connect, LDAP) that authenticate users who are not users of the array.
//!
//! A directory is configured like everything else and is asked when such a user logs in. The user is called a guest
//! here: its name is the directory's name, a slash, and the name there, which no user of the array can have. Its role
//! is the highest that one of its groups is granted, and its session ends when the directory's settings change.

use crate::array::{Array, Transaction, some_of};
use crate::audit::{Changes, Entry};
use crate::verb::{Object, verbs};
use crate::{Error, Result, check};
use ::directory::{AuthorizationRequest, Credentials, DirectoryUser, Error as DirectoryError, Settings};
use records::{DirectoryEntry, DirectoryId, Edit, Grant, Named, Record, Role, Secret};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most directories.
const MAX_DIRECTORIES: usize = 8;
/// Most groups of a directory that have a role here.
const MAX_GRANTS: usize = 64;

/// A directory as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Its name.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Which directory, and how it is asked.
    pub settings: Settings,
    /// The roles that groups are granted.
    pub grants: Vec<Grant>,
    /// Whether it is asked.
    pub enabled: bool,
    /// There is a secret.
    pub has_secret: bool,
}

impl Directory {
    fn of(entry: &DirectoryEntry) -> Self {
        let DirectoryEntry { name, created, settings, grants, enabled, secret, .. } = entry.clone();
        Self { name, created, settings, grants, enabled, has_secret: secret.is_some() }
    }
}

/// A new directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewDirectory {
    /// Its name.
    pub name: String,
    /// Which directory, and how it is asked.
    pub settings: Settings,
    /// What it is depends on the settings.
    pub secret: Option<Secret>,
    /// The roles that groups are granted.
    pub grants: Vec<Grant>,
    /// Whether it is asked.
    pub enabled: bool,
}

/// What to change of a directory; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DirectoryChange {
    /// Another name.
    pub name: Option<String>,
    /// Other settings, all of them. The secret goes, as it was meant for the old ones.
    pub settings: Option<Settings>,
    /// Another secret, or none.
    pub secret: Option<Option<Secret>>,
    /// What groups may do, all of them.
    pub grants: Option<Vec<Grant>>,
    /// Whether it is asked.
    pub enabled: Option<bool>,
}

/// A user that a directory authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    /// The directory's name, a slash, and the name there.
    pub user: String,
    /// What the guest may do.
    pub role: Role,
    /// Which directory it was.
    pub directory: DirectoryId,
    /// Since when its settings are what they are, in seconds since 1970.
    pub since: u64,
}

/// Directories that were asked, with when they were set: they remember what they need not ask again.
pub(crate) type DirectoryClients = BTreeMap<DirectoryId, (DirectoryEntry, Arc<dyn ::directory::Directory>)>;

/// All directories, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListDirectories;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowDirectory {
    /// Its name.
    pub name: String,
}

/// Let the users of a directory log in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreateDirectory(pub Box<NewDirectory>);

/// Change a directory; sessions of its users end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeDirectory {
    /// Its name.
    pub name: String,
    /// What to change.
    pub change: Box<DirectoryChange>,
}

/// Delete a directory; sessions of its users end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeleteDirectory {
    /// Its name.
    pub name: String,
}

/// Test whether a directory is reachable and accepts its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TestDirectory {
    /// Its name.
    pub name: String,
}

verbs! {
    ListDirectories -> Vec<Directory>, Read "list" "directory", Admin
        => |tx, _| Ok(tx.array.config().directories.iter().map(Directory::of).collect());
    ShowDirectory -> Directory, Read "show" "directory", Admin, about name
        => |tx, it| tx.array.config().directories.named(&it.name).map(Directory::of);
    CreateDirectory -> Directory, Change "create" "directory", Admin,
        of |it, _| Object::of(&["name"], &it.0.name)
        => |tx, it| tx.create_directory(*it.0).await;
    ChangeDirectory -> Directory, Change "change" "directory", Admin, about name
        => |tx, it| tx.change_directory(&it.name, *it.change).await;
    DeleteDirectory -> (), Change "delete" "directory", Admin, about name
        => |tx, it| tx.delete_directory(&it.name).await;
    TestDirectory -> String, Probe "test" "directory", Admin, about name
        => |tx, it| tx.array.test_directory(&it.name).await;
}

impl Array {
    /// Names of the directories that browsers are sent to.
    pub fn sign_in_directories(&self) -> Vec<String> {
        let config = self.config();
        let sends = |it: &&DirectoryEntry| it.enabled && matches!(it.settings, Settings::Oidc(_));
        config.directories.iter().filter(sends).map(|it| it.name.clone()).collect()
    }

    /// Begins to sign in a user whose browser is at `host` of the array. Waits for the directory.
    ///
    /// # Errors
    /// When there is no such directory, it can't be asked, or the browser could not come back.
    pub fn begin_sign_in(&self, name: &str, host: &str) -> Result<AuthorizationRequest> {
        let entry = self.config().directories.named(name)?.clone();
        let Settings::Oidc(settings) = &entry.settings else { return Err(takes_passwords(name)) };
        if !entry.enabled {
            return Err(Error::precondition(format!("the directory {name:?} is not asked at present")));
        }
        let home = settings.address.split_once("://").map_or("", |(_, rest)| rest.trim_end_matches('/'));
        if !home.eq_ignore_ascii_case(host) {
            return Err(Error::precondition(format!(
                "people of {name:?} sign in at {}: open the array there",
                settings.address
            )));
        }
        let request = self
            .ask_directory(&entry)?
            .begin_authorization()
            .map_err(|error| unreachable_now(name, &error))?;
        request.ok_or_else(|| takes_passwords(name))
    }

    /// The user who comes back from the directory. Waits for the directory.
    ///
    /// # Errors
    /// Forbidden if the user has no role here; else, when the directory can't be asked.
    pub fn end_sign_in(
        &self,
        name: &str,
        request: &AuthorizationRequest,
        code: &str,
        issuer: Option<&str>,
        origin: &str,
    ) -> Result<Guest> {
        let entry = self.config().directories.named(name)?.clone();
        if !entry.enabled {
            return Err(Error::precondition(format!("the directory {name:?} is not asked at present")));
        }
        let found = self.ask_directory(&entry)?.authenticate(&Credentials::Code { request, code, issuer });
        match found {
            Ok(person) => self.admit_guest(&entry, person, origin),
            Err(DirectoryError::Refused(why)) => Err(Error::forbidden(format!("{name:?}: {why}"))),
            Err(error) => Err(unreachable_now(name, &error)),
        }
    }

    /// Directories that authenticate by password. None for a user of the array, who never waits for a directory.
    fn password_directories(&self, user: &str) -> Vec<DirectoryEntry> {
        let config = self.config();
        if config.users.find(user).is_some() {
            return Vec::new();
        }
        let takes = |it: &&DirectoryEntry| it.enabled && matches!(it.settings, Settings::Ldap(_));
        config.directories.iter().filter(takes).cloned().collect()
    }

    /// Whether a directory has to be asked about a user's password.
    pub fn has_password_directory(&self, user: &str) -> bool {
        !self.password_directories(user).is_empty()
    }

    /// The directory user with this password; `None` if there is none. `user` may begin with the
    /// name of one directory and a slash. Waits for the directories.
    ///
    /// # Errors
    /// Forbidden if the user has no role here; else, when a directory can't be asked.
    pub fn log_in_by_directory(&self, user: &str, password: &Secret, origin: &str) -> Result<Option<Guest>> {
        let mut silent = None;
        for entry in self.password_directories(user) {
            let user = match user.split_once('/') {
                Some((directory, rest)) if directory == entry.name => rest,
                Some(_) => continue,
                None => user,
            };
            let proof = Credentials::Password { user, password: password.expose() };
            let asked = self.ask_directory(&entry).map_err(|error| DirectoryError::Failed(error.message));
            // The reasons are for the log: a user who is not logged in need not know more.
            match asked.and_then(|directory| directory.authenticate(&proof)) {
                Ok(person) => return self.admit_guest(&entry, person, origin).map(Some),
                Err(DirectoryError::Refused(why)) => {
                    tracing::info!(directory = entry.name, why, "a directory refused a log-in");
                }
                Err(DirectoryError::Failed(why)) => {
                    tracing::warn!(directory = entry.name, why, "a directory can't be asked");
                    silent = Some(entry.name);
                }
            }
        }
        match silent {
            Some(name) => Err(Error::precondition(format!(
                "the directory {name:?} can't be asked at present; users of the array itself sign in as ever"
            ))),
            None => Ok(None),
        }
    }

    /// Whether what a directory said at a time still counts.
    pub fn still_guest(&self, directory: DirectoryId, since: u64) -> bool {
        self.config().directories.get(directory).is_some_and(|it| it.enabled && it.changed <= since)
    }

    /// Gives a user the role of its groups, and notes that in the audit log.
    fn admit_guest(&self, entry: &DirectoryEntry, person: DirectoryUser, origin: &str) -> Result<Guest> {
        let user = format!("{}/{}", entry.name, person.name);
        let role = entry.role_of(&person.groups);
        let said = json!({ "groups": some_of(&person.groups), "role": role });
        let request = Entry {
            verb: "sign in".into(),
            noun: "user".into(),
            object: Some(user.clone()),
            fields: said.as_object().cloned().unwrap_or_default(),
        };
        let entry_of_trail = self.begin(&user, origin, "SignIn", &request);
        let guest = role.ok_or_else(|| {
            let groups = match person.groups.as_slice() {
                [] => "it is in no group".into(),
                groups => format!("it is in the groups {}", some_of(groups)),
            };
            Error::forbidden(format!(
                "{:?} of {:?} has no role here: {groups}; an administrator of the array gives a group one (ashlar \
                 directory set {} --grant GROUP=ROLE)",
                person.name, entry.name, entry.name
            ))
        });
        self.end_entry(entry_of_trail, &guest, &Changes::default());
        Ok(Guest { user, role: guest?, directory: entry.id, since: entry.changed })
    }

    /// The directory itself; the one that was asked before when it is still the same.
    fn ask_directory(&self, entry: &DirectoryEntry) -> Result<Arc<dyn ::directory::Directory>> {
        let mut asked = self.directory_clients.lock();
        if let Some((_, known)) = asked.get(&entry.id).filter(|(then, _)| then == entry) {
            return Ok(known.clone());
        }
        let secret = entry.secret.as_ref().map(|sealed| self.parts.sealing.open(sealed, &entry.place()));
        let secret = secret.transpose()?;
        let opened: Arc<dyn ::directory::Directory> =
            entry.settings.open(secret.as_ref().map(Secret::expose)).into();
        asked.insert(entry.id, (entry.clone(), opened.clone()));
        Ok(opened)
    }

    /// Tests whether a directory is reachable and accepts its settings.
    pub(crate) async fn test_directory(&self, name: &str) -> Result<String> {
        let entry = self.config().directories.named(name)?.clone();
        let directory = self.ask_directory(&entry)?;
        match tokio::task::spawn_blocking(move || directory.test()).await {
            Ok(Ok(said)) => Ok(said),
            Ok(Err(error)) => Err(Error::precondition(format!("the test of {name:?} failed: {error}"))),
            Err(error) => Err(Error::failed("the test broke off", error)),
        }
    }
}

fn takes_passwords(name: &str) -> Error {
    Error::precondition(format!("{name:?} sends browsers nowhere: sign in with a password"))
}

fn unreachable_now(name: &str, error: &DirectoryError) -> Error {
    Error::precondition(format!(
        "{name:?} can't say who you are: {error}; users of the array itself sign in as ever"
    ))
}

impl Transaction<'_> {
    pub async fn create_directory(&mut self, new: NewDirectory) -> Result<Directory> {
        let NewDirectory { name, settings, secret, grants, enabled } = new;
        check::name(DirectoryEntry::NOUN, &name)?;
        {
            let config = self.array.config();
            config.directories.free(&name)?;
            if config.directories.len() >= MAX_DIRECTORIES {
                return Err(Error::precondition(format!(
                    "there are {MAX_DIRECTORIES} directories: delete one first"
                )));
            }
        }
        let (id, created) = (DirectoryId(self.id64()), self.now());
        let mut entry =
            DirectoryEntry { id, name, created, changed: created, settings, grants, enabled, secret: None };
        self.seal_for_directory(&mut entry, secret.as_ref())?;
        self.put_directory(entry, "created").await
    }

    pub async fn change_directory(&mut self, name: &str, change: DirectoryChange) -> Result<Directory> {
        let mut entry = self.array.config().directories.named(name)?.clone();
        if let Some(new) = change.name.filter(|new| *new != entry.name) {
            check::name(DirectoryEntry::NOUN, &new)?;
            self.array.config().directories.free(&new)?;
            entry.name = new;
        }
        if let Some(settings) = change.settings.filter(|new| *new != entry.settings) {
            entry.settings = settings;
            entry.secret = None;
        }
        if let Some(secret) = &change.secret {
            self.seal_for_directory(&mut entry, secret.as_ref())?;
        }
        entry.grants = change.grants.unwrap_or(entry.grants);
        entry.enabled = change.enabled.unwrap_or(entry.enabled);
        // Sessions of the same second end, too, and those that began since another change in it.
        entry.changed = (entry.changed + 1).max(self.now() + 1);
        self.put_directory(entry, "changed").await
    }

    pub async fn delete_directory(&mut self, name: &str) -> Result<()> {
        let entry = self.array.config().directories.named(name)?.clone();
        self.array.directory_clients.lock().remove(&entry.id);
        self.commit(vec![Edit::Remove(Record::Directory(entry))]).await?;
        self.done("directory.deleted", DirectoryEntry::NOUN, name, "was deleted");
        Ok(())
    }

    fn seal_for_directory(&self, entry: &mut DirectoryEntry, secret: Option<&Secret>) -> Result<()> {
        // LDAP servers take a name with an empty password as an anonymous bind.
        if secret.is_some_and(|secret| secret.expose().is_empty()) {
            return Err(Error::invalid("a secret is not empty: leave it out when there is none"));
        }
        let array = self.array;
        let seal = |secret| array.parts.sealing.seal(secret, &entry.place(), (array.env.random)());
        entry.secret = secret.map(seal).transpose()?;
        Ok(())
    }

    async fn put_directory(&mut self, entry: DirectoryEntry, what: &str) -> Result<Directory> {
        let wrong = |error: DirectoryError| Error::invalid(error.to_string());
        entry.settings.check(entry.secret.is_some()).map_err(wrong)?;
        check_grants(&entry.grants)?;
        self.commit(vec![Edit::Put(Record::Directory(entry.clone()))]).await?;
        self.done(&format!("directory.{what}"), DirectoryEntry::NOUN, &entry.name, &format!("was {what}"));
        Ok(Directory::of(&entry))
    }
}

fn check_grants(grants: &[Grant]) -> Result<()> {
    if grants.len() > MAX_GRANTS {
        return Err(Error::invalid(format!("{MAX_GRANTS} groups at most have a role")));
    }
    for (position, grant) in grants.iter().enumerate() {
        let group = &grant.group;
        if group.is_empty() || group.len() > 256 || group.chars().any(char::is_control) {
            return Err(Error::invalid("a group has a name of 1 to 256 bytes without control characters"));
        }
        if grants[..position].iter().any(|other| other.group == *group) {
            return Err(Error::invalid(format!("the group {group:?} has two roles: give it one")));
        }
    }
    Ok(())
}
