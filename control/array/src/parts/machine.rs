//! The machine that the array runs on, as far as the array needs it: trait [`Machine`], implemented by the process.

use crate::parts::overwrite::Examined;
use crate::shape::shapes;
use crate::shape::view::Health;
use records::Secret;
use serde::Serialize;
use shelf::Drive;
use shelf::pool::{KEY_BYTES, KeySource, WrappedKey};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use utoipa::ToSchema;

/// A block device of the server that is not a drive of the array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = AvailableDrive)]
pub struct FoundDrive {
    /// Path, under `/dev/disk/by-id` if there is one.
    pub path: String,
    /// Size in bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub size: u64,
    /// Model.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Who uses it, such as `sda1 is mounted at /`. A drive in use is refused.
    pub users: Vec<String>,
    /// What is on it, such as a partition table or a file system; empty if it is blank.
    pub contents: Vec<String>,
    /// Why its contents are unknown; `null` if they are known.
    pub problem: Option<String>,
}

shapes! {
    FoundDrive: "AvailableDrives" "Block devices of the server that are not drives of the array." "Sorted by path", whole;
}

/// What the array can't do without the machine that it runs on.
pub trait Machine: Send + Sync {
    /// Opens what lies at an absolute path, and is none of the `members`, for this process alone. May take seconds.
    ///
    /// # Errors
    /// With what is wrong with the path, for people.
    fn open_drive(&self, path: &Path, members: &[String]) -> shelf::Result<Arc<dyn Drive>>;

    /// Says what a path is that is to become a drive, who uses it, and what is known to be on it. Nothing is found of a
    /// path where there is no drive.
    ///
    /// # Errors
    /// When that can't be known, for people: a drive that could not be examined is not blank.
    fn examine(
        &self,
        path: &Path,
    ) -> Pin<Box<dyn Future<Output = std::result::Result<Examined, String>> + Send>>;

    /// Drives of the machine that are none of the `members`, with what is on them. May take seconds.
    fn find_drives(&self, members: Vec<String>) -> Pin<Box<dyn Future<Output = Vec<FoundDrive>> + Send>>;

    /// The health that the drive at a path reports; empty where that can't be known. Returns within a minute.
    fn drive_health(&self, path: &str) -> Pin<Box<dyn Future<Output = Health> + Send>>;

    /// Prepares the next key of the drives, and returns their next envelope and the key. `now` is the envelope that they
    /// have; the secret that opens it keeps opening it. May take seconds.
    ///
    /// # Errors
    /// With what is to be done first, for people.
    fn next_key(
        &self,
        now: &dyn WrappedKey,
        new: &NewKey,
    ) -> std::result::Result<(KeySource, [u8; KEY_BYTES]), String>;

    /// The drives have this envelope: what [`Machine::next_key`] made ready takes the place of the key before.
    ///
    /// # Errors
    /// When that can't be stored, for people; the next start does it.
    fn keep_key(&self, now: &dyn WrappedKey) -> std::result::Result<(), String>;

    /// Remembers where the drives are, for the next start.
    ///
    /// # Errors
    /// When that can't be stored.
    fn remember_drives(&self, paths: &[String]) -> std::io::Result<()>;

    /// Runs long work in the background. It may never end, when the process does.
    fn spawn(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>);
}

/// The key that comes: of the kind that the array has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NewKey {
    /// A new key in the file.
    File,
    /// Another passphrase.
    Passphrase(Secret),
    /// The key of this Unique Identifier on the KMIP server.
    Kmip(String),
}
