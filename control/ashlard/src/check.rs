//! `ashlard check`: everything on the drives of a stopped array is verified, and nothing on them is changed. The array
//! is opened as always, journal and all, but over drives whose writes stay in memory.

use crate::args::Check;
use crate::{drives, key};
use anyhow::{Context, Result, ensure};
use engine::{Engine, Options};
use shelf::device::{self, Ring};
use shelf::{Drive, DriveShelf, Opening, Overlay};
use std::io::Write;
use std::sync::Arc;

/// Prints the defects, a line each; answers with how many there are.
pub async fn run(check: &Check) -> Result<usize> {
    let defects = look(check).await?;
    let mut out = std::io::stdout().lock();
    for defect in &defects {
        writeln!(out, "{defect}")?;
    }
    match defects.len() {
        0 => writeln!(out, "no defects")?,
        count => writeln!(out, "{count} defects")?,
    }
    Ok(defects.len())
}

async fn look(check: &Check) -> Result<Vec<String>> {
    let paths = drives::paths(&check.data, &check.drive)?;
    let ring = Ring::start()?;
    let mut drives: Vec<Arc<dyn Drive>> = Vec::with_capacity(paths.len());
    for path in &paths {
        drives.push(Overlay::new(device::open_read_only(&ring, path)?));
    }
    ensure!(DriveShelf::is_formatted(&drives).await?, "the drives hold no array");
    let key = key::unlock(&check.key, &check.data, &drives).await?;
    let salt = u64::from_le_bytes(crate::random()?);
    let shelf = DriveShelf::open(drives, Opening { salt, key }).await.context("the drives can't be used")?;
    // The seed is for drives that hold no engine yet.
    let engine =
        Engine::open(shelf.clone(), Options::new([0; 32])).await.context("the array can't be recovered")?;
    let mut defects = engine.check().await?;
    engine.discard_unused();
    let report = shelf.scrub().await;
    if report.errors > 0 {
        let (errors, repaired) = (report.errors, report.repaired);
        defects.push(format!(
            "{errors} pages of the drives are not what was written; parity gives {repaired} of them back"
        ));
    }
    Ok(defects)
}
