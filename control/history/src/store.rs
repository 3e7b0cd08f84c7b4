//! The SQLite file: opening, schema, and access. While it can't be used, an in-memory database replaces it
//! ([`crate::outage`]).

use crate::changes::Changes;
use crate::outage::{Outage, is_damage};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A failed read or write of SQLite.
#[derive(Debug, thiserror::Error)]
#[error("the history could not be read or written: {0}")]
pub struct Error(#[from] pub(crate) rusqlite::Error);

/// Maximum wait for a lock of another program on the file.
const BUSY_TIMEOUT: Duration = Duration::from_millis(500);

/// A part of a list that is sorted newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Only entries with a smaller number.
    pub before: Option<i64>,
    /// Maximum number of entries.
    pub limit: u32,
}

/// Schema migrations in order; `user_version` of the file counts those applied.
const MIGRATIONS: &[&str] = &[EVENTS, MEASUREMENTS, ALERTS, EXPIRING, REPLICATED];

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

const EXPIRING: &str = "
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

const REPLICATED: &str = "
    CREATE TABLE replicated (
        tier INTEGER NOT NULL,
        subject TEXT NOT NULL,
        time INTEGER NOT NULL,
        seconds INTEGER NOT NULL,
        lag INTEGER,
        logical INTEGER NOT NULL,
        wire INTEGER NOT NULL,
        backlog INTEGER,
        PRIMARY KEY (tier, subject, time)
    ) WITHOUT ROWID;
    CREATE INDEX replicated_by_age ON replicated (tier, time);
";

/// The history, on disk or in memory.
pub struct Store(pub(crate) Mutex<Inner>);

pub(crate) struct Inner {
    /// Path of the file; `None` for a store that is only in memory.
    pub path: Option<PathBuf>,
    /// The database in use: the file, or memory while the file can't be used.
    pub active: Connection,
    /// Set while memory replaces the file.
    pub outage: Option<Outage>,
    /// Number of changes between file and memory: earlier row numbers are invalid.
    pub outages: u64,
    /// Messages for the operator that were not taken yet.
    pub notices: Vec<String>,
    /// Changes of the database in use, if that is the file.
    pub changes: Changes,
}

impl Store {
    /// Opens the file, or creates it. This never fails, because the array must start without its history, too: a file
    /// that is not a history is renamed to a free name, and while no file can be used, everything is in memory
    /// ([`Store::outage`] returns the reason).
    ///
    /// # Panics
    /// If memory allocation fails.
    pub fn open(path: &Path) -> Self {
        let (mut notices, changes) = (Vec::new(), Changes::default());
        let (active, outage) = match open_or_set_aside(path, &mut notices) {
            Ok(file) => (file, None),
            Err(why) => {
                tracing::error!(path = %path.display(), why, "the history is kept in memory");
                (memory(), Some(Outage::at_start(why)))
            }
        };
        let path = Some(path.to_owned());
        let mut inner = Inner { path, active, outage, outages: 0, notices, changes };
        inner.follow();
        Self(Mutex::new(inner))
    }

    /// A history in memory only.
    ///
    /// # Panics
    /// If memory allocation fails.
    pub fn in_memory() -> Self {
        let (active, notices, changes) = (memory(), Vec::new(), Changes::default());
        let mut inner = Inner { path: None, active, outage: None, outages: 0, notices, changes };
        inner.follow();
        Self(Mutex::new(inner))
    }

    /// The reason why the history is in memory instead of a file; `None` if it is in the file.
    pub fn outage(&self) -> Option<String> {
        self.0.lock().outage.as_ref().map(|outage| outage.why.clone())
    }

    /// Messages for the operator; each is returned once.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().notices)
    }

    /// Returns to the file once it can be used again; called periodically. `now` in seconds.
    pub fn retry_file(&self, now: u64) {
        self.0.lock().retry_file(now);
    }

    pub(crate) fn db(&self) -> MappedMutexGuard<'_, Connection> {
        MutexGuard::map(self.0.lock(), |inner| &mut inner.active)
    }

    /// Notes that a time series has changed.
    pub(crate) fn note_series(&self) {
        self.0.lock().changes.note_series();
    }

    /// Runs a query. If the file fails, switches to memory and runs it again there.
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

impl Inner {
    /// Follows the changes of the database in use.
    pub fn follow(&mut self) {
        // Fails only for a database of another thread.
        if let Err(error) = self.changes.clone().follow(&mut self.active) {
            tracing::error!(%error, "the history can't be copied to other controllers");
        }
    }
}

/// Opens the file; a file that is not a history is renamed first.
///
/// # Errors
/// The reason why no file can be used.
pub(crate) fn open_or_set_aside(path: &Path, notices: &mut Vec<String>) -> Result<Connection, String> {
    let error = match open_file(path) {
        Ok(file) => return Ok(file),
        Err(error) if is_damage(&error) => error,
        Err(error) => return Err(error.to_string()),
    };
    let aside = set_aside(path).map_err(|cause| format!("{error}, and it can't be renamed: {cause}"))?;
    let notice = format!(
        "the history file can't be used ({error}): it was renamed to {}, and a new one was begun",
        aside.display()
    );
    tracing::error!("{notice}");
    notices.push(notice);
    open_file(path).map_err(|error| error.to_string())
}

fn open_file(path: &Path) -> Result<Connection, rusqlite::Error> {
    let mut file = Connection::open(path)?;
    file.busy_timeout(BUSY_TIMEOUT)?;
    // No other process opens the file while the array runs. So SQLite needs no index of its log in shared memory, where a
    // full file system is the signal SIGBUS and not an error.
    file.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    file.pragma_update(None, "mmap_size", 0)?;
    // A file that is not a history is never written.
    check_tables(&file)?;
    file.pragma_update(None, "journal_mode", "WAL")?;
    // A crash of the process loses nothing; a crash of the machine may lose the last moments, but never the file.
    file.pragma_update(None, "synchronous", "NORMAL")?;
    make_tables(&mut file)?;
    Ok(file)
}

pub(crate) fn memory() -> Connection {
    let mut memory = Connection::open_in_memory().expect("memory for a history");
    make_tables(&mut memory).expect("tables in memory");
    memory
}

/// Checks the schema, and returns the number of applied migrations.
///
/// # Errors
/// If the file was written by newer software, or by other software.
fn check_tables(connection: &Connection) -> Result<usize, rusqlite::Error> {
    let taken: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: u32 = connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    let taken = taken as usize;
    match taken > MIGRATIONS.len() || (taken == 0) != (tables == 0) {
        true => Err(rusqlite::Error::InvalidQuery),
        false => Ok(taken),
    }
}

/// Applies missing migrations. Writes nothing if the schema is current: the file system may be full.
fn make_tables(connection: &mut Connection) -> Result<(), rusqlite::Error> {
    let taken = check_tables(connection)?;
    let left = MIGRATIONS.get(taken..).unwrap_or_default();
    if left.is_empty() {
        return Ok(());
    }
    let change = connection.transaction()?;
    left.iter().try_for_each(|step| change.execute_batch(step))?;
    change.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    change.commit()
}

/// Renames the file, and the additional files of SQLite, to a free name. Returns that name.
fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    const ENDS: [&str; 3] = ["-wal", "-shm", ""];
    let named = |base: &Path, end: &str| PathBuf::from(format!("{}{end}", base.display()));
    let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
    let candidates = (1..).map(|number: u64| named(path, &format!(".broken-{number}")));
    let mut free = candidates.filter(|base| !ENDS.iter().any(|end| is_there(&named(base, end))));
    let base = free.next().expect("one of the names is free");
    for end in ENDS.iter().filter(|end| is_there(&named(path, end))) {
        std::fs::rename(named(path, end), named(&base, end))?;
    }
    Ok(base)
}

#[cfg(test)]
#[path = "store_test.rs"]
mod tests;
