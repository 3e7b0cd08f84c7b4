//! What an array is stored on, for commands on a stopped array: drives, or objects in Ceph.

use anyhow::{Context, Result, ensure};
use rados::Store;
use rados::objects::Objects;
use raid::encryption::{DataKey, Envelope};
use raid::{DriveShelf, Opening, Overlay};
use shelf::Drive;
use shelf::pool::Pool;
use std::sync::Arc;

/// Drives or objects.
pub enum OfflineStore {
    /// Drives.
    Drives(Vec<Arc<dyn Drive>>),
    /// Objects in Ceph of the array with this identity.
    Rados(Arc<dyn Objects>, u128),
}

impl OfflineStore {
    /// The same, with writes that stay in memory.
    pub fn trial(&self) -> Self {
        match self {
            Self::Drives(drives) => {
                let over = |drive: &Arc<dyn Drive>| Overlay::new(drive.clone()) as Arc<dyn Drive>;
                Self::Drives(drives.iter().map(over).collect())
            }
            Self::Rados(objects, array) => Self::Rados(rados::Overlay::new(objects.clone()), *array),
        }
    }

    /// Opens the store as its new owner.
    pub async fn open(&self, key: Option<(DataKey, Envelope)>) -> Result<Arc<dyn Pool>> {
        let salt = u64::from_le_bytes(crate::random()?);
        match self {
            Self::Drives(drives) => {
                ensure!(DriveShelf::is_formatted(drives).await?, "the drives hold no array");
                let opened = DriveShelf::open(drives.clone(), Opening { salt, key }).await;
                Ok(opened.context("the drives can't be used")?)
            }
            Self::Rados(objects, array) => {
                let opening =
                    rados::OpenOptions { array: *array, salt, key, ..rados::OpenOptions::default() };
                Ok(Store::open(objects.clone(), opening)
                    .await
                    .context("the array in Ceph can't be opened")?)
            }
        }
    }

    /// The wrapped data keys that there are, newest first; `None` if the array is not encrypted.
    pub async fn envelopes(&self) -> Result<Option<Vec<Envelope>>> {
        match self {
            Self::Drives(drives) => Ok(DriveShelf::envelopes(drives).await?),
            Self::Rados(objects, array) => {
                Ok(rados::read_envelope(&**objects, *array).await?.map(|envelope| vec![envelope]))
            }
        }
    }

    /// Replaces the wrapped data key. Returns the slots of drives that are missing and keep theirs.
    pub async fn replace_envelope(&self, envelope: &Envelope) -> Result<Vec<usize>> {
        match self {
            Self::Drives(drives) => Ok(DriveShelf::replace_envelope(drives, envelope).await?),
            Self::Rados(objects, _) => {
                rados::replace_envelope(&**objects, envelope).await?;
                Ok(Vec::new())
            }
        }
    }
}
