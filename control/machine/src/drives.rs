//! The drives of the array: finding, opening and formatting them.

use crate::store::Config as Store;
use crate::{access, key, machine, probe};
use anyhow::{Context, Result, anyhow, bail, ensure};
use array::{Words, refusal};
use raid::device::{self, Ring};
use raid::{DriveShelf, FormatOptions, Opening};
use shelf::Drive;
use shelf::pool::{Consent, DriveContents};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the command line consents to have a drive overwritten.
const WORDS: Words = Words {
    force: "`ashlard format --force` once",
    take: "`ashlard format --take-from-array`",
    force_files: true,
};

/// An array that is to be made without serving it.
pub struct Format {
    /// Its folder.
    pub data: PathBuf,
    /// Its drives; without any, they are the files in the folder.
    pub drives: Vec<PathBuf>,
    /// Whether it is encrypted.
    pub encrypt: bool,
    /// Where its key comes from.
    pub key: key::Config,
    /// What may be overwritten.
    pub consent: Consent,
}

/// Opens the array's drives; at the first start, makes it of blank ones. Drives that hold an array, or anything else, are
/// never formatted here, and the array does without some.
pub async fn open(ring: &Arc<Ring>, config: &Store) -> Result<Arc<DriveShelf>> {
    let (paths, new) =
        if config.drives.named.is_empty() { files(config)? } else { (config.drives.named.clone(), false) };
    let (present, missing) = present(paths);
    let mut drives = open_all(ring, &present)?;
    let mut contents = look(&drives).await;
    let given = arrays(&contents);
    for path in added(&config.data, &present) {
        // It was not named on the command line, so an error is not fatal: the drive counts as absent.
        let ours = async {
            let drive = device::open(ring, &path)? as Arc<dyn Drive>;
            let found = look(std::slice::from_ref(&drive)).await;
            ensure!(given.is_empty() || arrays(&found) == given, "it is not a drive of this array any more");
            anyhow::Ok((drive, found))
        };
        match ours.await {
            Ok((drive, found)) => {
                drives.push(drive);
                contents.extend(found);
            }
            Err(error) => {
                tracing::error!(drive = %path.display(), %error, "a drive that was added before can't be used");
            }
        }
    }
    if !arrays(&contents).is_empty() {
        return open_array(config, drives).await;
    }
    if let Some(path) = missing.first() {
        bail!("{} does not exist, and no array is made without it", path.display());
    }
    ensure!(!drives.is_empty(), "none of the drives of this array was found: name them with --drive");
    if !new {
        check_all(&present, &contents, &Consent::default()).await?;
        check_unused(config)?;
    }
    let options =
        New { data: &config.data, key: &config.key, encrypt: config.encrypt, consent: Consent::default() };
    let made = make_array(drives, options).await;
    if new && made.is_err() {
        // Files of a wrong size would be those of the next start, whatever it asks for.
        fs::remove_dir_all(config.data.join("drives"))
            .context("the files that were made can't be removed")?;
    }
    made
}

/// Opens the drives that the command line names, and those that were added, for this process alone.
pub fn named(ring: &Arc<Ring>, config: &Store) -> Result<Vec<Arc<dyn Drive>>> {
    let (mut paths, _) = present(config.drives.named.clone());
    paths.extend(added(&config.data, &paths));
    ensure!(!paths.is_empty(), "none of the named drives exists");
    open_all(ring, &paths)
}

async fn open_array(config: &Store, drives: Vec<Arc<dyn Drive>>) -> Result<Arc<DriveShelf>> {
    open_with_key(config, &drives, async |opening| DriveShelf::open(drives.clone(), opening).await).await
}

/// Opens the shelf on drives with the key that opens them, which is then kept where it belongs.
///
/// # Errors
/// When there is no such key, or the shelf can't be opened.
pub async fn open_with_key(
    config: &Store,
    drives: &[Arc<dyn Drive>],
    open: impl AsyncFnOnce(Opening) -> shelf::Result<Arc<DriveShelf>>,
) -> Result<Arc<DriveShelf>> {
    let opened = async {
        let key = key::unlock(&config.key, &config.data, DriveShelf::envelopes(drives).await?)?;
        let opening = Opening { salt: u64::from_le_bytes(crate::random()?), key };
        anyhow::Ok(open(opening).await?)
    };
    let shelf = opened.await.context("the drives can't be used")?;
    if let Some(Err(error)) = shelf.envelope().map(|it| key::settle(&config.key, &config.data, &it)) {
        tracing::warn!(error = format_args!("{error:#}"), "the key file is not where it belongs");
    }
    Ok(shelf)
}

/// What is on drives. One that can't be read may be one that the array does without.
async fn look(drives: &[Arc<dyn Drive>]) -> Vec<shelf::Result<DriveContents>> {
    let mut found = Vec::with_capacity(drives.len());
    for drive in drives {
        found.push(DriveShelf::contents(&**drive).await);
    }
    found
}

/// The arrays whose labels are on drives.
fn arrays(contents: &[shelf::Result<DriveContents>]) -> BTreeSet<u128> {
    let array = |contents: &shelf::Result<DriveContents>| match contents {
        Ok(DriveContents::Array { array, .. }) => Some(*array),
        _ => None,
    };
    contents.iter().filter_map(array).collect()
}

/// Opens drives for this process alone.
fn open_all(ring: &Arc<Ring>, paths: &[PathBuf]) -> Result<Vec<Arc<dyn Drive>>> {
    let open = |path: &PathBuf| {
        device::open(ring, path).map(|drive| drive as Arc<dyn Drive>).map_err(|error| {
            let users = probe::users(path);
            if users.is_empty() { error.into() } else { anyhow!("{error} ({})", users.join("; ")) }
        })
    };
    paths.iter().map(open).collect()
}

/// Refuses when one of the drives may not be overwritten, and says that of every one.
async fn check_all(
    paths: &[PathBuf],
    contents: &[shelf::Result<DriveContents>],
    consent: &Consent,
) -> Result<()> {
    let mut refusals = Vec::new();
    for (path, contents) in paths.iter().zip(contents) {
        let (name, contents) = (path.display().to_string(), contents.as_ref().map_err(Clone::clone)?);
        let examined = probe::examine(path).await.map_err(|why| anyhow!("{name}: {why}"))?;
        refusals.extend(refusal(&name, &examined, contents, consent, WORDS));
    }
    ensure!(
        refusals.is_empty(),
        "no array is made of these drives, and nothing was written: {}",
        refusals.join(". ")
    );
    Ok(())
}

/// Refuses to make an array where another one was: its drives are not these, and nothing says that they are not needed.
fn check_unused(config: &Store) -> Result<()> {
    let data = config.data.display();
    ensure!(
        !access::was_used(&config.data),
        "the folder {data} is of an array that was started before, and none of the drives has an Ashlar label: give the \
         drives of that array, or make a new array of these with `ashlard format --data {data} --drive …`"
    );
    Ok(())
}

/// Makes an array of drives, once and without serving it, and prints its identity.
pub async fn format(format: Format) -> Result<()> {
    let Format { data, drives: named, encrypt, key, consent } = format;
    let paths = if named.is_empty() { existing(&data.join("drives"))? } else { named };
    ensure!(!paths.is_empty(), "there are no drives in {}: name them with --drive", data.display());
    let ring = Ring::start()?;
    let drives = open_all(&ring, &paths)?;
    let contents = look(&drives).await;
    let there = arrays(&contents);
    if let Some(array) = consent.arrays.iter().find(|array| !there.contains(array)) {
        bail!("none of the drives belongs to array {array:032x}: nothing was written");
    }
    check_all(&paths, &contents, &consent).await?;
    let shelf = make_array(drives, New { data: &data, key: &key, encrypt, consent }).await?;
    // Those of the array that was started in this folder before.
    machine::forget(&data).context("the drives that were added before can't be forgotten")?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "array {:032x} on {} drives", shelf.array(), paths.len())
        .context("standard output can't be written")
}

/// The drives that were added while the array ran, which need not be named again.
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

/// An array that is to be made.
struct New<'a> {
    data: &'a Path,
    key: &'a key::Config,
    encrypt: bool,
    consent: Consent,
}

async fn make_array(drives: Vec<Arc<dyn Drive>>, new: New<'_>) -> Result<Arc<DriveShelf>> {
    let array = u128::from_le_bytes(crate::random()?);
    tracing::info!(drives = drives.len(), array = format_args!("{array:032x}"), "formatting");
    let key = match new.encrypt {
        true => Some(key::make(new.key, new.data, array)?),
        false if new.key.is_named() => bail!("a key was given: add --encrypt"),
        false => None,
    };
    let opening = Opening { salt: u64::from_le_bytes(crate::random()?), key };
    let options = FormatOptions { array, consent: new.consent, opening, ..FormatOptions::default() };
    DriveShelf::format(drives, options).await.context("the drives can't be formatted")
}

/// The drives that the array is started with: those on the command line, or the files in its folder.
pub fn given(config: &Store) -> Result<Vec<PathBuf>> {
    match config.drives.named.is_empty() {
        true => existing(&config.data.join("drives")),
        false => Ok(config.drives.named.clone()),
    }
}

/// The files in the array's folder, and whether they are new: they are made when there are none.
fn files(config: &Store) -> Result<(Vec<PathBuf>, bool)> {
    let folder = config.data.join("drives");
    let files = existing(&folder)?;
    if !files.is_empty() || !machine::remembered(&config.data).is_empty() {
        return Ok((files, false));
    }
    if access::was_used(&config.data) {
        bail!(
            "the array in {} was made with --drive: give its drives again (or another folder for a new array)",
            config.data.display()
        );
    }
    make(&folder, config.drives.files, config.drives.file_bytes)?;
    Ok((existing(&folder)?, true))
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
