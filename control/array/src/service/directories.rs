//! Authentication by directories (OpenID Connect, LDAP).
//!
//! A user that a directory authenticated is called a guest here: its name is the directory's name, a slash, and the name
//! there, which no user of the array can have. Its role is the highest that one of its groups is granted, and its session
//! ends when the directory's settings change.

use crate::configuration::Configuration;
use crate::events::audit::{AuditLog, Changes, Entry};
use crate::parts::sealing::SealingKey;
use crate::shape::view::some_of;
use crate::{Error, Result};
use ::directory::{AuthorizationRequest, Credentials, DirectoryUser, Error as DirectoryError};
use parking_lot::Mutex;
use records::{DirectoryEntry, DirectoryId, DirectorySettings, Role, Secret};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

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
type Clients = BTreeMap<DirectoryId, (DirectoryEntry, Arc<dyn ::directory::Directory>)>;

/// Authenticates users by directories, and asks them.
pub struct Directories {
    configuration: Arc<Configuration>,
    audit: Arc<AuditLog>,
    sealing: Arc<SealingKey>,
    clients: Mutex<Clients>,
}

impl Directories {
    pub(crate) fn new(
        configuration: Arc<Configuration>,
        audit: Arc<AuditLog>,
        sealing: Arc<SealingKey>,
    ) -> Self {
        Self { configuration, audit, sealing, clients: Mutex::default() }
    }

    /// Forgets what was asked of a directory that is deleted.
    pub(crate) fn forget(&self, id: DirectoryId) {
        self.clients.lock().remove(&id);
    }

    /// Names of the directories that browsers are sent to.
    pub fn redirecting(&self) -> Vec<String> {
        let config = self.configuration.read();
        let sends = |it: &&DirectoryEntry| it.enabled && matches!(it.settings, DirectorySettings::Oidc(_));
        config.directories.iter().filter(sends).map(|it| it.name.clone()).collect()
    }

    /// Begins to sign in a user whose browser is at `host` of the array. Waits for the directory.
    ///
    /// # Errors
    /// When there is no such directory, it can't be asked, or the browser could not come back.
    pub fn begin_sign_in(&self, name: &str, host: &str) -> Result<AuthorizationRequest> {
        let entry = self.configuration.read().directories.named(name)?.clone();
        let DirectorySettings::Oidc(settings) = &entry.settings else { return Err(takes_passwords(name)) };
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
        let request =
            self.client(&entry)?.begin_authorization().map_err(|error| unreachable_now(name, &error))?;
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
        let entry = self.configuration.read().directories.named(name)?.clone();
        if !entry.enabled {
            return Err(Error::precondition(format!("the directory {name:?} is not asked at present")));
        }
        let found = self.client(&entry)?.authenticate(&Credentials::Code { request, code, issuer });
        match found {
            Ok(person) => self.admit_guest(&entry, person, origin),
            Err(DirectoryError::Refused(why)) => Err(Error::forbidden(format!("{name:?}: {why}"))),
            Err(error) => Err(unreachable_now(name, &error)),
        }
    }

    /// Directories that authenticate by password. None for a user of the array, who never waits for a directory.
    fn password_directories(&self, user: &str) -> Vec<DirectoryEntry> {
        let config = self.configuration.read();
        if config.users.find(user).is_some() {
            return Vec::new();
        }
        let takes = |it: &&DirectoryEntry| it.enabled && matches!(it.settings, DirectorySettings::Ldap(_));
        config.directories.iter().filter(takes).cloned().collect()
    }

    /// Whether a directory has to be asked about a user's password.
    pub fn has_password_check(&self, user: &str) -> bool {
        !self.password_directories(user).is_empty()
    }

    /// The directory user with this password; `None` if there is none. `user` may begin with the
    /// name of one directory and a slash. Waits for the directories.
    ///
    /// # Errors
    /// Forbidden if the user has no role here; else, when a directory can't be asked.
    pub fn log_in(&self, user: &str, password: &Secret, origin: &str) -> Result<Option<Guest>> {
        let mut silent = None;
        for entry in self.password_directories(user) {
            let user = match user.split_once('/') {
                Some((directory, rest)) if directory == entry.name => rest,
                Some(_) => continue,
                None => user,
            };
            let proof = Credentials::Password { user, password: password.expose() };
            let asked = self.client(&entry).map_err(|error| DirectoryError::Failed(error.message));
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
    pub fn is_current(&self, directory: DirectoryId, since: u64) -> bool {
        self.configuration
            .read()
            .directories
            .get(directory)
            .is_some_and(|it| it.enabled && it.changed <= since)
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
        let entry_of_trail = self.audit.begin(&user, origin, "SignIn", &request);
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
        self.audit.end(entry_of_trail, &guest, &Changes::default());
        Ok(Guest { user, role: guest?, directory: entry.id, since: entry.changed })
    }

    /// The directory itself; the one that was asked before when it is still the same.
    fn client(&self, entry: &DirectoryEntry) -> Result<Arc<dyn ::directory::Directory>> {
        let mut asked = self.clients.lock();
        if let Some((_, known)) = asked.get(&entry.id).filter(|(then, _)| then == entry) {
            return Ok(known.clone());
        }
        let secret = entry.secret.as_ref().map(|sealed| self.sealing.open(sealed, &entry.place()));
        let secret = secret.transpose()?;
        let opened: Arc<dyn ::directory::Directory> =
            ::directory::open(&entry.settings, secret.as_ref().map(Secret::expose)).into();
        asked.insert(entry.id, (entry.clone(), opened.clone()));
        Ok(opened)
    }

    /// Tests whether a directory is reachable and accepts its settings.
    pub(crate) async fn test(&self, name: &str) -> Result<String> {
        let entry = self.configuration.read().directories.named(name)?.clone();
        let directory = self.client(&entry)?;
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
        "{name:?} can't identify you: {error}; users of the array itself can still sign in"
    ))
}
