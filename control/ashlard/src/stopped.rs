//! What an array that is not running is stored on: the drives that are named, or what its folder says.

use crate::backing::OfflineStore;
use crate::{ceph, drives};
use anyhow::Result;
use raid::Overlay;
use raid::device::{self, Ring};
use shelf::Drive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Finds it.
///
/// # Errors
/// If it is not there.
pub async fn find(data: &Path, named: &[PathBuf]) -> Result<OfflineStore> {
    match objects(data, named).await? {
        Some(objects) => Ok(objects),
        None => Ok(OfflineStore::Drives(drives::stopped(data, named)?)),
    }
}

/// Finds it and opens it for reading: writes stay in memory.
///
/// # Errors
/// As [`find`].
pub async fn find_read_only(data: &Path, named: &[PathBuf]) -> Result<OfflineStore> {
    if let Some(objects) = objects(data, named).await? {
        return Ok(objects.trial());
    }
    let ring = Ring::start()?;
    let mut opened: Vec<Arc<dyn Drive>> = Vec::new();
    for path in &drives::paths(data, named)? {
        opened.push(Overlay::new(device::open_read_only(&ring, path)?));
    }
    Ok(OfflineStore::Drives(opened))
}

async fn objects(data: &Path, named: &[PathBuf]) -> Result<Option<OfflineStore>> {
    if !named.is_empty() {
        return Ok(None);
    }
    Ok(ceph::stopped(data).await?.map(|(objects, array)| OfflineStore::Rados(objects, array)))
}
