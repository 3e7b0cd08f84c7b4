//! The machine as the array sees it: drives by path, their health, keys, the uptime, and a thread for long work.

use crate::access::{read_whole, write_whole};
use crate::{find, key, probe, smart};
use array::{Examined, FoundDrive, Health, KEY_BYTES, KeySource, NewKey, Uptime, WrappedKey};
use raid::device::{self, Ring};
use raid::shared::{Newcomer, Party, Timer};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use shelf::{Drive, Error};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// The file in the array's folder with the paths of drives that were added while it ran.
const FILE: &str = "drives.json";

#[derive(Serialize, Deserialize)]
struct Remembered {
    drives: Vec<PathBuf>,
}

/// The machine that this process runs on.
pub struct Machine {
    ring: Arc<Ring>,
    data: PathBuf,
    /// The drives that are found without it.
    given: Vec<PathBuf>,
    /// Runtime of long work.
    keeper: Handle,
    /// Where the key comes from.
    key: key::Config,
    /// By what this process is registered at the drives, if two controllers share them.
    party: Option<(Arc<Party>, Timer)>,
}

impl Machine {
    /// For the array in a folder, which is started with the drives `given`.
    pub fn new(ring: Arc<Ring>, data: &Path, given: Vec<PathBuf>, keeper: Handle, key: key::Config) -> Self {
        Self { ring, data: data.to_owned(), given, keeper, key, party: None }
    }

    /// The same, for drives that two controllers share if there is a party.
    pub fn sharing(self, party: Option<(Arc<Party>, Timer)>) -> Self {
        Self { party, ..self }
    }
}

impl array::Machine for Machine {
    fn open_drive(&self, path: &Path, members: &[String]) -> Result<Arc<dyn Drive>, Error> {
        // What is open here already would look as if another process had it.
        let there = path.canonicalize().ok();
        let same = |known: &&String| there.is_some() && Path::new(known).canonicalize().ok() == there;
        if let Some(known) = members.iter().find(same) {
            return Err(Error::Unusable(format!("it is a drive of this array already: {known}")));
        }
        let drive = device::open(&self.ring, path)?;
        Ok(match &self.party {
            Some((party, timer)) => Newcomer::new(drive, party.clone(), timer.clone()),
            None => drive,
        })
    }

    fn examine(&self, path: &Path) -> Pin<Box<dyn Future<Output = Result<Examined, String>> + Send>> {
        let path = path.to_owned();
        Box::pin(async move { probe::examine(&path).await })
    }

    fn find_drives(&self, members: Vec<String>) -> Pin<Box<dyn Future<Output = Vec<FoundDrive>> + Send>> {
        Box::pin(async move { find::drives(&members).await })
    }

    fn drive_health(&self, path: &str) -> Pin<Box<dyn Future<Output = Health> + Send>> {
        let path = path.to_owned();
        Box::pin(async move { smart::health(&path).await })
    }

    fn next_key(&self, now: &dyn WrappedKey, new: &NewKey) -> Result<(KeySource, [u8; KEY_BYTES]), String> {
        key::next_key(&self.key, &self.data, now, new).map_err(|error| format!("{error:#}"))
    }

    fn keep_key(&self, now: &dyn WrappedKey) -> Result<(), String> {
        key::settle(&self.key, &self.data, now).map_err(|error| format!("{error:#}"))
    }

    fn remember_drives(&self, paths: &[String]) -> io::Result<()> {
        let added = paths.iter().map(PathBuf::from).filter(|path| !self.given.contains(path));
        let drives: Vec<_> = added.collect();
        if drives == remembered(&self.data) {
            return Ok(());
        }
        let text = serde_json::to_vec_pretty(&Remembered { drives })?;
        write_whole(&self.data.join(FILE), &text)
    }

    fn spawn(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.keeper.spawn(work);
    }
}

/// Forgets the drives that were added in a folder.
pub fn forget(data: &Path) -> io::Result<()> {
    match std::fs::remove_file(data.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The machine's uptime including sleep, by a system call, so that no library can fake it. `other` identifies the boot if
/// the system does not report a boot ID.
pub fn uptime(other: [u8; 16]) -> impl Fn() -> Uptime {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let digits = boot_id.map(|text| text.trim().replace('-', ""));
    let boot = digits.and_then(|digits| u128::from_str_radix(&digits, 16).ok());
    let boot = boot.unwrap_or(u128::from_le_bytes(other));
    move || {
        let time = clock_gettime(ClockId::Boottime);
        let (seconds, nanos) = (time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0));
        Uptime { boot, since: Duration::new(seconds, nanos) }
    }
}

/// Where the drives were that had been added when the array in a folder was last up.
pub fn remembered(data: &Path) -> Vec<PathBuf> {
    let path = data.join(FILE);
    let read = read_whole(&path).and_then(|text| Ok(serde_json::from_slice::<Remembered>(&text)?));
    match read {
        Ok(it) => it.drives,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "drives that were added may be missing: name them with --drive");
            Vec::new()
        }
    }
}
