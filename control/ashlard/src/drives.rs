//! Which drives the array is made of, and whether they hold it already.

use crate::args::Args;
use crate::{access, key, machine};
use anyhow::{Context, Result, bail, ensure};
use shelf::device::{self, Ring};
use shelf::{Drive, DriveShelf, FormatOptions, Opening};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens the array's drives. Blank ones are formatted; ones that hold an array never are, and it does without some.
pub async fn open(ring: &Arc<Ring>, args: &Args) -> Result<Arc<DriveShelf>> {
    let paths = if args.drive.is_empty() { files(args)? } else { args.drive.clone() };
    let (present, missing) = present(paths);
    let mut drives: Vec<Arc<dyn Drive>> =
        present.iter().map(|path| device::open(ring, path)).collect::<Result<_, _>>()?;
    let added = added(args.data(), &present);
    let blank = match drives.is_empty() {
        true => added.is_empty(),
        false => !DriveShelf::is_formatted(&drives).await?,
    };
    if blank {
        if let Some(path) = missing.first() {
            bail!("{} does not exist, and no array is made without it", path.display());
        }
        return format(args, drives, false).await;
    }
    let given = drives.clone();
    for path in added {
        match device::open(ring, &path) {
            Ok(drive) => drives.push(drive),
            // Nobody asked for it now: as good as one that is not there.
            Err(error) => tracing::error!(%error, "a drive that was added before can't be used"),
        }
    }
    let opened = async {
        let key = key::unlock(&args.key, args.data(), &drives).await?;
        let opening = Opening { salt: u64::from_le_bytes(crate::random()?), key };
        anyhow::Ok(DriveShelf::open(drives.clone(), opening).await?)
    };
    match opened.await {
        Ok(shelf) => {
            if let Some(Err(error)) = shelf.envelope().map(|it| key::settle(&args.key, args.data(), &it)) {
                tracing::warn!(error = format_args!("{error:#}"), "the key file is not where it belongs");
            }
            Ok(shelf)
        }
        Err(error) if args.format_force => {
            tracing::warn!(%error, "formatting all the same, as asked");
            format(args, given, true).await
        }
        Err(error) => Err(error.context("the drives can't be used")),
    }
}

/// The drives that were added while the array ran, which nobody needs to name again.
pub fn added(data: &Path, given: &[PathBuf]) -> Vec<PathBuf> {
    let real = |path: &PathBuf| path.canonicalize().ok();
    let known: Vec<_> = given.iter().filter_map(real).collect();
    let (there, _) = present(machine::remembered(data));
    there.into_iter().filter(|path| real(path).is_some_and(|path| !known.contains(&path))).collect()
}

/// The paths at which there is something, and those at which there is not.
pub fn present(paths: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (present, missing): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.exists());
    missing
        .iter()
        .for_each(|path| tracing::error!(drive = %path.display(), "there is no drive at this path"));
    (present, missing)
}

/// The paths of the drives of an array that is not running.
pub fn paths(data: &Path, named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let paths = match named.is_empty() {
        true => existing(&data.join("drives"))?,
        false => named.to_vec(),
    };
    let (mut paths, _) = present(paths);
    paths.extend(added(data, &paths));
    ensure!(!paths.is_empty(), "there are no drives in {}: name them with --drive", data.display());
    Ok(paths)
}

/// The drives of an array that is not running.
pub fn stopped(data: &Path, named: &[PathBuf]) -> Result<Vec<Arc<dyn Drive>>> {
    let ring = Ring::start()?;
    let open = |path: &PathBuf| Ok(device::open(&ring, path)? as Arc<dyn Drive>);
    paths(data, named)?.iter().map(open).collect()
}

async fn format(args: &Args, drives: Vec<Arc<dyn Drive>>, force: bool) -> Result<Arc<DriveShelf>> {
    let array = u128::from_le_bytes(crate::random()?);
    tracing::info!(drives = drives.len(), array = format_args!("{array:032x}"), "formatting");
    let key = match args.encrypt {
        true => Some(key::make(&args.key, args.data(), array)?),
        false if args.key.is_named() => bail!("a key was given: say --encrypt, too"),
        false => None,
    };
    let opening = Opening { salt: u64::from_le_bytes(crate::random()?), key };
    let options = FormatOptions { array, force, opening, ..FormatOptions::default() };
    DriveShelf::format(drives, options).await.context("the drives can't be formatted")
}

/// The drives that the array is started with: those on the command line, or the files in its folder.
pub fn given(args: &Args) -> Result<Vec<PathBuf>> {
    match args.drive.is_empty() {
        true => existing(&args.data().join("drives")),
        false => Ok(args.drive.clone()),
    }
}

/// The files in the array's folder; made when there are none.
fn files(args: &Args) -> Result<Vec<PathBuf>> {
    let folder = args.data().join("drives");
    let mut files = existing(&folder)?;
    if !files.is_empty() {
        return Ok(files);
    }
    if !machine::remembered(args.data()).is_empty() {
        return Ok(files);
    }
    if access::was_used(args.data()) {
        bail!(
            "the array in {} was made with --drive: give its drives again (or another folder for a new array)",
            args.data().display()
        );
    }
    make(&folder, args.drives, args.drive_size)?;
    files = existing(&folder)?;
    Ok(files)
}

/// The files that are drives.
pub fn existing(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("can't list {}", folder.display())),
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "drive"));
    files.sort();
    Ok(files)
}

/// Makes all files in a folder of another name first: there are all of them or none.
fn make(folder: &Path, count: u16, bytes: u64) -> Result<()> {
    let new = folder.with_extension("new");
    let made = (|| {
        if new.exists() {
            fs::remove_dir_all(&new)?;
        }
        fs::create_dir_all(&new)
    })();
    made.with_context(|| format!("can't make the folder {}", new.display()))?;
    for number in 0..count {
        device::create(&new.join(format!("{number:02}.drive")), bytes)?;
    }
    fs::rename(&new, folder).with_context(|| format!("can't make the folder {}", folder.display()))
}
