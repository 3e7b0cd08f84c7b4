//! The file: opening, its tables, and what is done while it can't be used (see [`crate::outage`]).

use crate::outage::{Outage, is_damage};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Something that SQLite could not do.
#[derive(Debug, thiserror::Error)]
#[error("the history could not be read or written: {0}")]
pub struct Error(#[from] pub(crate) rusqlite::Error);

/// How long another program that reads the file is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// Which part of a list, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Only entries with a smaller number.
    pub before: Option<i64>,
    /// At most so many.
    pub limit: u32,
}

/// What makes the tables, a step for each time that they grew; how many were taken is kept in `user_version`.
const STEPS: &[&str] = &[EVENTS, MEASUREMENTS, ALERTS, KEPT];

const EVENTS: &str = "
    CREATE TABLE event (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        time INTEGER NOT NULL,
        severity INTEGER NOT NULL,
        kind TEXT NOT NULL,
        message TEXT NOT NULL,
        noun TEXT,
        name TEXT
    );
    CREATE TABLE audit (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        time INTEGER NOT NULL,
        user TEXT NOT NULL,
        origin TEXT NOT NULL,
        action TEXT NOT NULL,
        detail TEXT NOT NULL,
        outcome TEXT NOT NULL,
        message TEXT NOT NULL,
        changes TEXT NOT NULL
    );
";

const ALERTS: &str = "
    CREATE TABLE alert (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL,
        kind TEXT NOT NULL,
        severity INTEGER NOT NULL,
        message TEXT NOT NULL,
        noun TEXT,
        name TEXT,
        opened INTEGER NOT NULL,
        changed INTEGER NOT NULL,
        acknowledged TEXT,
        closed INTEGER
    );
    CREATE UNIQUE INDEX alert_open ON alert (key) WHERE closed IS NULL;
";

const KEPT: &str = "
    CREATE TABLE kept (
        kind TEXT NOT NULL,
        key BLOB NOT NULL,
        until INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (kind, key)
    );
    CREATE INDEX kept_by_end ON kept (kind, until);
";

const MEASUREMENTS: &str = "
    CREATE TABLE subject (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
    CREATE TABLE sample (
        tier INTEGER NOT NULL,
        subject INTEGER NOT NULL,
        time INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (tier, subject, time)
    ) WITHOUT ROWID;
    CREATE INDEX sample_by_age ON sample (tier, time);
    CREATE TABLE space (
        tier INTEGER NOT NULL,
        time INTEGER NOT NULL,
        provisioned INTEGER NOT NULL,
        mapped INTEGER NOT NULL,
        stored INTEGER NOT NULL,
        physical INTEGER NOT NULL,
        metadata INTEGER NOT NULL,
        total INTEGER NOT NULL,
        PRIMARY KEY (tier, time)
    ) WITHOUT ROWID;
";

/// What happened, on disk or in memory.
pub struct Store(pub(crate) Mutex<Inner>);

pub(crate) struct Inner {
    /// Where the file is; none when there is to be none.
    pub path: Option<PathBuf>,
    /// What is read and written: the file, or memory as long as the file can't be used.
    pub active: Connection,
    /// Why it is not the file.
    pub outage: Option<Outage>,
    /// How often that happened: numbers of rows in the file may be others since.
    pub outages: u64,
    /// What an operator should hear of once.
    pub notices: Vec<String>,
}

impl Store {
    /// Opens the file, and makes it when it is not there. The array does not wait for its history: a file that is no
    /// history is set aside under a name that nothing has, and while there can be no file, everything is in memory
    /// ([`Store::outage`] says why).
    ///
    /// # Panics
    /// When there is no memory.
    pub fn open(path: &Path) -> Self {
        let mut notices = Vec::new();
        let (active, outage) = match open_or_set_aside(path, &mut notices) {
            Ok(file) => (file, None),
            Err(why) => {
                tracing::error!(path = %path.display(), why, "the history is kept in memory");
                (memory(), Some(Outage::from_the_beginning(why)))
            }
        };
        Self(Mutex::new(Inner { path: Some(path.to_owned()), active, outage, outages: 0, notices }))
    }

    /// A history that is gone when it is dropped.
    ///
    /// # Panics
    /// When there is no memory.
    pub fn in_memory() -> Self {
        Self(Mutex::new(Inner {
            path: None,
            active: memory(),
            outage: None,
            outages: 0,
            notices: Vec::new(),
        }))
    }

    /// Why the history is in memory although it should be in a file; none when it is where it should be.
    pub fn outage(&self) -> Option<String> {
        self.0.lock().outage.as_ref().map(|outage| outage.why.clone())
    }

    /// What an operator should hear of, each once.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().notices)
    }

    /// Goes back to the file when that is possible again; to be called now and then. `now` in seconds.
    pub fn heal(&self, now: u64) {
        self.0.lock().heal(now);
    }

    pub(crate) fn db(&self) -> MappedMutexGuard<'_, Connection> {
        MutexGuard::map(self.0.lock(), |inner| &mut inner.active)
    }

    /// Reads or writes. When the file can't be, in memory: then it is done once more.
    pub(crate) fn run<T>(
        &self,
        mut work: impl FnMut(&mut Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, Error> {
        let mut inner = self.0.lock();
        match work(&mut inner.active) {
            Err(error) if inner.falls_back(&error) => Ok(work(&mut inner.active)?),
            done => Ok(done?),
        }
    }
}

/// The file, ready to be used, with whatever was there set aside if that is no history.
///
/// # Errors
/// Why there can't be one.
pub(crate) fn open_or_set_aside(path: &Path, notices: &mut Vec<String>) -> Result<Connection, String> {
    let error = match open_file(path) {
        Ok(file) => return Ok(file),
        Err(error) if is_damage(&error) => error,
        Err(error) => return Err(error.to_string()),
    };
    let aside = set_aside(path).map_err(|cause| format!("{error}, and it can't be set aside: {cause}"))?;
    let notice = format!(
        "the history can't be used ({error}): it was set aside as {}, and a new one began",
        aside.display()
    );
    tracing::error!("{notice}");
    notices.push(notice);
    open_file(path).map_err(|error| error.to_string())
}

fn open_file(path: &Path) -> Result<Connection, rusqlite::Error> {
    let mut file = Connection::open(path)?;
    file.busy_timeout(PATIENCE)?;
    // Nobody else has the file open while the array runs. That spares the index of the log that would be mapped
    // into memory, where a full file system is no error but the signal SIGBUS.
    file.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    file.pragma_update(None, "mmap_size", 0)?;
    // What is no history is not touched.
    check_tables(&file)?;
    file.pragma_update(None, "journal_mode", "WAL")?;
    // A crash of the process loses nothing; one of the machine may lose the last moments, never the file.
    file.pragma_update(None, "synchronous", "NORMAL")?;
    make_tables(&mut file)?;
    Ok(file)
}

pub(crate) fn memory() -> Connection {
    let mut memory = Connection::open_in_memory().expect("memory for a history");
    make_tables(&mut memory).expect("tables in memory");
    memory
}

/// How many steps were taken.
///
/// # Errors
/// When it is a file of newer software, or of other software.
fn check_tables(connection: &Connection) -> Result<usize, rusqlite::Error> {
    let taken: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: u32 = connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    let taken = taken as usize;
    match taken > STEPS.len() || (taken == 0) != (tables == 0) {
        true => Err(rusqlite::Error::InvalidQuery),
        false => Ok(taken),
    }
}

/// Writes nothing when there is nothing to be done: the file system may be full.
fn make_tables(connection: &mut Connection) -> Result<(), rusqlite::Error> {
    let taken = check_tables(connection)?;
    let left = STEPS.get(taken..).unwrap_or_default();
    if left.is_empty() {
        return Ok(());
    }
    let change = connection.transaction()?;
    left.iter().try_for_each(|step| change.execute_batch(step))?;
    change.pragma_update(None, "user_version", STEPS.len() as i64)?;
    change.commit()
}

/// Gives a file, with what belongs to it, a name that nothing has; that name.
fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    const ENDS: [&str; 3] = ["-wal", "-shm", ""];
    let named = |base: &Path, end: &str| PathBuf::from(format!("{}{end}", base.display()));
    let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
    let candidates = (1..).map(|number: u64| named(path, &format!(".broken-{number}")));
    let mut free = candidates.filter(|base| !ENDS.iter().any(|end| is_there(&named(base, end))));
    let base = free.next().expect("one of so many names is free");
    for end in ENDS.iter().filter(|end| is_there(&named(path, end))) {
        std::fs::rename(named(path, end), named(&base, end))?;
    }
    Ok(base)
}

#[cfg(test)]
#[path = "store_test.rs"]
mod tests;
