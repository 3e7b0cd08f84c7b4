//! The data folder: private, locked while the array runs, with address and token for a local `ashlar`.
//!
//! It serves operators only. Hosts are served whatever its state: a file that can't be read or written is logged, raises an
//! alert, and is retried.

use anyhow::{Context, Result, bail, ensure};
use array::{Array, Severity};
use rustix::fs::{Mode, OFlags};
use rustix::process::{DumpableBehavior, geteuid, set_dumpable_behavior, umask};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long to wait for an older process in the same folder to end, such as one that was just killed.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// Interval of attempts to write a file that could not be written.
const WRITE_RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The address of the API and its token.
pub const ACCESS: &str = "api.json";
/// The key that seals secrets on the drives.
pub const SECRETS: &str = "secrets.key";
const SECRETS_BYTES: usize = 32;
/// Maximum size of a file in the folder that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Files that show that an array was started in the folder.
const ARRAY_FILES: [&str; 7] =
    [ACCESS, SECRETS, "history.db", "tls.pem", "drives.json", "drives.key", "rados.json"];

/// Mode bits that let others write, and all mode bits for others.
const OTHERS_WRITE: u32 = 0o022;
const OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;

/// Makes new files private to the user, and keeps other processes from reading the memory, where keys are.
pub fn keep_private() {
    umask(Mode::RWXG | Mode::RWXO);
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "other processes of this user can read the memory of this one");
    }
}

/// Creates the folder if necessary, and locks it until the returned files are dropped.
pub fn lock(data: &Path) -> Result<Vec<File>> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(data);
    made.with_context(|| format!("can't make the folder {}", data.display()))?;
    refuse_open(data)?;
    // Locks the folder itself, which works even if nothing can be written, and the file that older software locks.
    let path = data.join("lock");
    // Does not wait for a pipe of that name.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
    let mut locked = Vec::new();
    let mut failed = None;
    for opened in [File::open(data), options.open(&path)] {
        match opened.and_then(try_lock) {
            Ok(file) => locked.push(
                file.with_context(|| format!("another ashlard runs in {}: stop it first", data.display()))?,
            ),
            Err(error) => failed = Some(error),
        }
    }
    match (locked.is_empty(), failed) {
        (true, Some(error)) => {
            Err(error).with_context(|| format!("can't lock the folder {}", data.display()))
        }
        (_, Some(error)) => {
            tracing::warn!(%error, folder = %data.display(), "only a part of the folder can be locked");
            Ok(locked)
        }
        (_, None) => Ok(locked),
    }
}

/// Whether an `ashlard` runs in a folder.
pub fn is_locked(data: &Path) -> bool {
    File::open(data).is_ok_and(|folder| matches!(folder.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Locks a file; `None` if another process has locked it.
fn try_lock(file: File) -> io::Result<Option<File>> {
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if start.elapsed() < LOCK_TIMEOUT => {
                std::thread::sleep(LOCK_RETRY_INTERVAL)
            }
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Refuses a folder that others can write to: they could place files there that the array would trust. A new file system
/// that belongs to us alone is made private instead.
fn refuse_open(data: &Path) -> Result<()> {
    let shown = data.display();
    let about = fs::metadata(data).with_context(|| format!("can't look at the folder {shown}"))?;
    let (owner, us) = (about.uid(), geteuid().as_raw());
    ensure!(
        owner == us || owner == 0,
        "the folder {shown} belongs to another user (uid {owner}), who could change the files of the array: give it \
         to the user that ashlard runs as (chown)"
    );
    if about.mode() & OTHERS_WRITE != 0 {
        let ours = |entry: io::Result<fs::DirEntry>| {
            let about = entry.and_then(|entry| entry.path().symlink_metadata());
            about.is_ok_and(|about| about.uid() == us)
        };
        let is_new = about.mode() & STICKY != 0 && fs::read_dir(data).is_ok_and(|mut all| all.all(ours));
        let closed = is_new && fs::set_permissions(data, Permissions::from_mode(0o700)).is_ok();
        if !closed {
            bail!(
                "others can write to the folder {shown} (mode {:o}), and change the files of the array: check its content, \
                 then chmod 700",
                about.mode() & 0o7777
            );
        }
        tracing::warn!(folder = %shown, "others could write to this folder: its mode was changed to 700");
    } else if about.mode() & OTHERS != 0 {
        tracing::warn!(folder = %shown, "others can read this folder: chmod 700 is recommended");
    }
    Ok(())
}

/// True if an array has been started in this folder before.
pub fn was_used(data: &Path) -> bool {
    ARRAY_FILES.iter().any(|name| data.join(name).symlink_metadata().is_ok())
}

/// Reads a file of the folder. Refuses special files, which could block.
pub fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a regular file, if it can be read and is one.
pub fn read_text(path: &Path) -> Option<String> {
    String::from_utf8(read_whole(path).ok()?).ok()
}

/// The key in `secrets.key` that seals secrets on the drives. Created only if nothing is sealed yet: a new key would make
/// sealed secrets permanently unusable.
///
/// # Errors
/// Why there is no key.
pub fn secrets_key(data: &Path, sealed: bool) -> Result<[u8; SECRETS_BYTES], String> {
    let path = data.join(SECRETS);
    let shown = path.display();
    match read_whole(&path) {
        Ok(bytes) => bytes
            .as_slice()
            .try_into()
            .map_err(|_| format!("{shown} is damaged: it has {} bytes, not {SECRETS_BYTES}", bytes.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound && sealed => Err(format!("{shown} is missing")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = crate::random().map_err(|error| format!("{error:#}"))?;
            write_whole(&path, &key).map_err(|error| format!("{shown} can't be written: {error}"))?;
            Ok(key)
        }
        Err(error) => Err(format!("{shown} can't be read: {error}")),
    }
}

/// The token of an earlier start, which remains valid, or a new one.
pub fn token(data: &Path) -> Result<String> {
    let old = |bytes: Vec<u8>| {
        let access: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
        access["token"].as_str().filter(|token| token.len() >= 32).map(str::to_owned)
    };
    match read_whole(&data.join(ACCESS)).ok().and_then(old) {
        Some(token) => Ok(token),
        None => secret::<32>(),
    }
}

/// Random bytes as hex digits.
pub fn secret<const N: usize>() -> Result<String> {
    Ok(crate::random::<N>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn access_text(url: &str, token: &str) -> Vec<u8> {
    let access = serde_json::json!({ "url": url, "token": token, "pid": std::process::id() });
    format!("{access:#}\n").into_bytes()
}

/// Writes `api.json` for a controller that does not serve the array.
pub fn show_standby(data: &Path, url: &str, token: &str) {
    if let Err(error) = write_whole(&data.join(ACCESS), &access_text(url, token)) {
        tracing::warn!(%error, file = ACCESS, "programs on this machine may not find the API");
    }
}

/// Files that the array publishes in its folder. A failed write raises an alert and is retried.
pub struct Folder {
    data: PathBuf,
    array: Arc<Array>,
    waiting: Mutex<BTreeMap<&'static str, Vec<u8>>>,
}

impl Folder {
    /// The folder of an array.
    pub fn new(data: &Path, array: Arc<Array>) -> Self {
        Self { data: data.to_owned(), array, waiting: Mutex::default() }
    }

    /// Writes `api.json`.
    pub fn show_access(&self, url: &str, token: &str) {
        self.show(ACCESS, access_text(url, token));
    }

    /// Writes a file now, or as soon as that is possible.
    pub fn show(&self, name: &'static str, text: Vec<u8>) {
        let path = self.data.join(name);
        let kind = format!("folder.{name}");
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let same = || read_whole(&path).is_ok_and(|old| old == text);
        match write_whole(&path, &text) {
            Err(error) if !same() => {
                if waiting.insert(name, text).is_none() {
                    let message = format!(
                        "{} can't be written: {error}. Programs on this machine may not find the API, or not \
                         trust it; hosts are served. Free some space or repair the file system; it is retried",
                        path.display()
                    );
                    self.array.alerts().report(&kind, Severity::Warning, message);
                }
            }
            _ => {
                waiting.remove(name);
                self.array.alerts().end_report(&kind);
            }
        }
    }

    /// Retries failed writes. Never returns.
    pub async fn keep_trying(self: Arc<Self>) {
        let mut every = tokio::time::interval(WRITE_RETRY_INTERVAL);
        loop {
            every.tick().await;
            let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clone();
            waiting.into_iter().for_each(|(name, text)| self.show(name, text));
        }
    }
}

/// Replaces a file atomically.
pub fn write_whole(path: &Path, text: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    // A crash may have left one, with another mode.
    let _ = fs::remove_file(&new);
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&new, path)
    })();
    if written.is_err() {
        // A partial file only takes space.
        let _ = fs::remove_file(&new);
    }
    written?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
#[path = "access_test.rs"]
mod tests;
