//! Operator requests about directories (OpenID Connect, LDAP) that authenticate users who are not users of the array.

use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::events::audit::Object;
use crate::request::verbs;
use crate::{Error, Result};
use ::directory::Error as DirectoryError;
use records::{DirectoryEntry, DirectoryId, DirectorySettings, Edit, Grant, Named, Record, Secret};
use serde::Serialize;

/// Maximum number of directories.
const MAX_DIRECTORIES: usize = 8;
/// Maximum number of groups of a directory that have a role here.
const MAX_GRANTS: usize = 64;

/// A directory as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Its name.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Which directory, and how it is asked.
    pub settings: DirectorySettings,
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
    pub settings: DirectorySettings,
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
    pub settings: Option<DirectorySettings>,
    /// Another secret, or none.
    pub secret: Option<Option<Secret>>,
    /// What groups may do, all of them.
    pub grants: Option<Vec<Grant>>,
    /// Whether it is asked.
    pub enabled: Option<bool>,
}

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
        => |tx, it| tx.array.directories.test(&it.name).await;
}

impl Transaction<'_> {
    pub async fn create_directory(&mut self, new: NewDirectory) -> Result<Directory> {
        let NewDirectory { name, settings, secret, grants, enabled } = new;
        check::name(DirectoryEntry::NOUN, &name)?;
        {
            let config = self.config();
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
        let mut entry = self.config().directories.named(name)?.clone();
        if let Some(new) = change.name.filter(|new| *new != entry.name) {
            check::name(DirectoryEntry::NOUN, &new)?;
            self.config().directories.free(&new)?;
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
        let entry = self.config().directories.named(name)?.clone();
        self.array.directories.forget(entry.id);
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
        // What is in use may be wrong by now, such as a certificate that has expired: it can be renamed and disabled all the same.
        let is_same =
            |known: &DirectoryEntry| (&known.settings, &known.secret) == (&entry.settings, &entry.secret);
        if !self.config().directories.get(entry.id).is_some_and(is_same) {
            ::directory::check(&entry.settings, entry.secret.is_some()).map_err(wrong)?;
        }
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
        if group.is_empty() || group.len() > 256 || !group.chars().all(text::is_visible) {
            return Err(Error::invalid("a group has a name of 1 to 256 bytes of visible characters"));
        }
        if grants[..position].iter().any(|other| other.group == *group) {
            return Err(Error::invalid(format!("the group {group:?} has two roles: give it one")));
        }
    }
    Ok(())
}
