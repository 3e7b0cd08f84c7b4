//! Operator requests about directories (OpenID Connect, LDAP) that authenticate users who are not users of the array.

use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::request::verbs;
use crate::shape::{directory_settings, shapes, time};
use crate::{Error, Result};
use ::directory::Error as DirectoryError;
use records::{DirectoryEntry, DirectoryId, DirectorySettings, Edit, Grant, Named, Record, Secret, present};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Maximum number of directories.
const MAX_DIRECTORIES: usize = 8;
/// Maximum number of groups of a directory that have a role here.
const MAX_GRANTS: usize = 64;

/// An identity provider or LDAP directory whose users can log in, in addition to the local users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Directory {
    /// Name; prefix of the names of its users.
    pub name: String,
    /// Creation time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Connection settings.
    #[serde(serialize_with = "directory_settings::shown")]
    #[schema(value_type = directory_settings::DirectorySettings)]
    pub settings: DirectorySettings,
    /// Roles granted to groups.
    pub grants: Vec<Grant>,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Whether a secret is set. The secret is never returned.
    pub has_secret: bool,
}

/// Result of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct DirectoryTest {
    /// Result in words.
    pub message: String,
}

shapes! {
    Directory: "Directories" "Identity providers and LDAP directories." "Sorted by name";
    DirectoryTest;
}

impl Directory {
    fn of(entry: &DirectoryEntry) -> Self {
        let DirectoryEntry { name, created, settings, grants, enabled, secret, .. } = entry.clone();
        Self { name, created, settings, grants, enabled, has_secret: secret.is_some() }
    }
}

/// A new identity provider or LDAP directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewDirectory)]
pub struct CreateDirectory {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    pub name: String,
    /// Connection settings.
    #[serde(deserialize_with = "directory_settings::given")]
    #[schema(value_type = directory_settings::DirectorySettings)]
    pub settings: DirectorySettings,
    /// Client secret, or password of `bind_dn`; `null` or omitted: none.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = Password)]
    pub secret: Option<Secret>,
    /// Roles granted to groups.
    #[serde(default)]
    pub grants: Vec<Grant>,
    /// Whether it is enabled; default true.
    #[serde(default = "yes")]
    pub enabled: bool,
}

fn yes() -> bool {
    true
}

/// Changes to a directory. Omitted fields keep their values. Sessions of its users end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectoryChange {
    /// New name.
    pub name: Option<String>,
    /// New settings, complete. The stored secret is discarded.
    #[serde(default, deserialize_with = "directory_settings::some_given")]
    #[schema(value_type = Option<directory_settings::DirectorySettings>)]
    pub settings: Option<DirectorySettings>,
    /// New secret; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = Password)]
    pub secret: Option<Option<Secret>>,
    /// Complete list of roles granted to groups.
    pub grants: Option<Vec<Grant>>,
    /// Whether it is enabled.
    pub enabled: Option<bool>,
}

verbs! {
    #![tag = "access"]

    /// List identity providers and LDAP directories
    ListDirectories {} -> Vec<Directory>, Read "list" "directory", Admin, at GET "/directories" says "The directories"
        => |tx, _| Ok(tx.array.config().directories.iter().map(Directory::of).collect());
    /// Get an identity provider or LDAP directory
    ShowDirectory { name } -> Directory, Read "show" "directory", Admin, about name, at GET "/directories/{name}"
        => |tx, it| tx.array.config().directories.named(&it.name).map(Directory::of);
    /// Create an identity provider or LDAP directory
    CreateDirectory -> Directory, Change "create" "directory", Admin, about name,
        at POST "/directories" 201 says "The new directory"
        => |tx, it| tx.create_directory(it).await;
    /// Change an identity provider or LDAP directory
    ChangeDirectory { name; body change: DirectoryChange } -> Directory, Change "change" "directory", Admin, about name,
        at PATCH "/directories/{name}"
        => |tx, it| tx.change_directory(&it.name, it.change).await;
    /// Delete an identity provider or LDAP directory
    DeleteDirectory { name } -> (), Change "delete" "directory", Admin, about name, at DELETE "/directories/{name}"
        => |tx, it| tx.delete_directory(&it.name).await;
    /// Test the connection to an identity provider or LDAP directory
    ///
    /// The returned problem describes the failure.
    TestDirectory { name } -> DirectoryTest, Probe "test" "directory", Admin, about name,
        at POST "/directories/{name}/test" says "The test succeeded"
        => |tx, it| Ok(DirectoryTest { message: tx.array.directories.test(&it.name).await? });
}

impl Transaction<'_> {
    pub async fn create_directory(&mut self, new: CreateDirectory) -> Result<Directory> {
        let CreateDirectory { name, settings, secret, grants, enabled } = new;
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
