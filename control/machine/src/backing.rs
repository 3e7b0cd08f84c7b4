//! What an array is stored on, for commands on a stopped array: drives, or objects in Ceph.

use anyhow::{Context, Result, anyhow, ensure};
use rados::Store;
use rados::objects::Objects;
use raid::encryption::{DataKey, Envelope};
use raid::{DriveShelf, Limits, Opening, Overlay};
use shelf::Drive;
use shelf::pool::Pool;
use std::sync::Arc;

/// Drives or objects.
pub enum OfflineStore {
    /// Drives.
    Drives(Vec<Arc<dyn Drive>>),
    /// Drives that two controllers share, whose writes stay in memory if the second is true.
    Shared(Vec<Arc<dyn Drive>>, bool),
    /// Objects in Ceph of the array with this identity.
    Rados(Arc<dyn Objects>, u128),
}

impl OfflineStore {
    /// The same, with writes that stay in memory.
    pub fn trial(&self) -> Self {
        let over = |drive: &Arc<dyn Drive>| Overlay::new(drive.clone()) as Arc<dyn Drive>;
        match self {
            Self::Drives(drives) => Self::Drives(drives.iter().map(over).collect()),
            Self::Shared(drives, _) => Self::Shared(drives.iter().map(over).collect(), true),
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
            Self::Shared(_, false) => Err(cannot_write()),
            Self::Shared(drives, true) => {
                let opened =
                    DriveShelf::open_shared(drives.clone(), Opening { salt, key }, Limits::default(), 0)
                        .await;
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
            Self::Drives(drives) | Self::Shared(drives, _) => Ok(DriveShelf::envelopes(drives).await?),
            Self::Rados(objects, array) => {
                Ok(rados::read_envelope(&**objects, *array).await?.map(|envelope| vec![envelope]))
            }
        }
    }

    /// Replaces the wrapped data key. Returns the slots of drives that are missing and keep theirs.
    pub async fn replace_envelope(&self, envelope: &Envelope) -> Result<Vec<usize>> {
        match self {
            Self::Drives(drives) => Ok(DriveShelf::replace_envelope(drives, envelope).await?),
            Self::Shared(..) => Err(cannot_write()),
            Self::Rados(objects, _) => {
                rados::replace_envelope(&**objects, envelope).await?;
                Ok(Vec::new())
            }
        }
    }
}

/// Why a command that writes is refused.
fn cannot_write() -> anyhow::Error {
    anyhow!(
        "two controllers share the drives, which are reserved for them: this command can't change them. Change keys while the \
         array is served (ashlar key)"
    )
}
