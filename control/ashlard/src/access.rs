//! The array's folder: locked while the array runs, and where a local `ashlar` finds address and token.

use anyhow::{Context, Result, bail};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long an older process in the same folder may take to end: one that was killed is gone a moment later.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// Makes the folder when it is not there, and locks it until the answer is dropped.
pub fn lock(data: &Path) -> Result<File> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(data);
    made.with_context(|| format!("can't make the folder {}", data.display()))?;
    let path = data.join("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.with_context(|| format!("can't open {}", path.display()))?;
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                bail!("another ashlard runs in {}: stop it first", data.display())
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("can't lock {}", path.display()));
            }
        }
    }
}

/// True when an array has been started in this folder before.
pub fn was_used(data: &Path) -> bool {
    data.join("api.json").exists()
}

/// Writes `api.json`, for the owner alone, and returns the token in it. The token of an earlier start stays valid.
pub fn publish(data: &Path, url: &str) -> Result<api::Token> {
    let path = data.join("api.json");
    let token = match old_token(&path) {
        Some(token) => token,
        None => crate::random::<32>()?.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let access = serde_json::json!({ "url": url, "token": token, "pid": std::process::id() });
    write_whole(&path, format!("{access:#}\n").as_bytes())
        .with_context(|| format!("can't write {}", path.display()))?;
    Ok(api::Token::new(&token))
}

/// The key that seals secrets on the drives, in `secrets.key`, for the owner alone; made when it is not there.
pub fn secrets_key(data: &Path) -> Result<[u8; 32]> {
    let path = data.join("secrets.key");
    match fs::read(&path) {
        Ok(bytes) => {
            let key = bytes.as_slice().try_into().ok();
            key.with_context(|| {
                format!("{} is damaged: it has {} bytes, not 32", path.display(), bytes.len())
            })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let key = crate::random()?;
            write_whole(&path, &key).with_context(|| format!("can't write {}", path.display()))?;
            Ok(key)
        }
        Err(error) => Err(error).with_context(|| format!("can't read {}", path.display())),
    }
}

fn old_token(path: &Path) -> Option<String> {
    let access: serde_json::Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    access["token"].as_str().filter(|token| token.len() >= 32).map(str::to_owned)
}

/// Replaces a file as a whole: a reader sees the old text or the new one.
pub fn write_whole(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let new = path.with_extension("new");
    // What a crash may have left; its mode is not to be trusted.
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
