//! What an array that is not running is stored on: the drives that are named, or what its folder says.

use crate::backing::OfflineStore;
use crate::{ceph, drives};
use anyhow::{Result, bail};
use cluster::Timing;
use raid::Overlay;
use raid::device::{self, Ring};
use raid::shared::{find as find_shared, is_shared};
use shelf::Drive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Finds it.
///
/// # Errors
/// If it is not there.
pub async fn find(data: &Path, named: &[PathBuf]) -> Result<OfflineStore> {
    match objects(data, named).await? {
        Some(objects) => Ok(objects),
        None => on_drives(drives::stopped(data, named)?, false).await,
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
    on_drives(opened, true).await
}

/// An array on drives, which may be those of two controllers.
async fn on_drives(drives: Vec<Arc<dyn Drive>>, in_memory: bool) -> Result<OfflineStore> {
    Ok(match check_stopped(&drives).await? {
        true => OfflineStore::Shared(drives, in_memory),
        false => OfflineStore::Drives(drives),
    })
}

async fn objects(data: &Path, named: &[PathBuf]) -> Result<Option<OfflineStore>> {
    if !named.is_empty() {
        return Ok(None);
    }
    Ok(ceph::stopped(data).await?.map(|(objects, array)| OfflineStore::Rados(objects, array)))
}

/// Whether drives are shared; an array that is not running only because another server serves it is refused.
///
/// # Errors
/// When a controller runs, or the drives hold no array.
async fn check_stopped(drives: &[Arc<dyn Drive>]) -> Result<bool> {
    // What holds no array is reported by who opens it.
    if !is_shared(drives).await.unwrap_or(false) {
        return Ok(false);
    }
    let array = find_shared(drives, &crate::sharing::timer()).await?;
    let beats = async || [array.beats_of(0).await, array.beats_of(1).await];
    let before = beats().await;
    tokio::time::sleep(Duration::from_nanos(Timing::PRODUCT.dead_ns)).await;
    if before != beats().await {
        bail!("a controller of this array is running: stop both controllers, then repeat the command");
    }
    Ok(true)
}
