//! The file: opening, its tables, and its bounds.

use parking_lot::{Mutex, MutexGuard};
use rusqlite::Connection;
use std::path::Path;

/// Something that SQLite could not do.
#[derive(Debug, thiserror::Error)]
#[error("the history could not be read or written: {0}")]
pub struct Error(#[from] rusqlite::Error);

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
pub struct Store(Mutex<Connection>);

impl Store {
    /// Opens the file, and makes it when it is not there. One that can't be used is set aside: the array does not
    /// wait for its history.
    ///
    /// # Errors
    /// When a new file can't be made either.
    pub fn open(path: &Path) -> Result<Self, Error> {
        match Self::try_open(path) {
            Ok(store) => Ok(store),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "the history can't be used and is set aside");
                for end in ["", "-wal", "-shm"] {
                    let old = format!("{}{end}", path.display());
                    // What is not there need not go.
                    let _ = std::fs::rename(&old, format!("{}.broken{end}", path.display()));
                }
                Self::try_open(path)
            }
        }
    }

    fn try_open(path: &Path) -> Result<Self, Error> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // A crash of the process loses nothing; one of the machine may lose the last moments, never the file.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        Self::with(connection)
    }

    /// A history that is gone when it is dropped.
    ///
    /// # Panics
    /// When there is no memory.
    pub fn in_memory() -> Self {
        let connection = Connection::open_in_memory().expect("memory for a history");
        Self::with(connection).expect("tables in memory")
    }

    fn with(mut connection: Connection) -> Result<Self, Error> {
        let taken: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        // A file of newer software can't be used.
        let left = STEPS.get(taken as usize..).ok_or(Error(rusqlite::Error::InvalidQuery))?;
        let change = connection.transaction()?;
        left.iter().try_for_each(|step| change.execute_batch(step))?;
        change.pragma_update(None, "user_version", STEPS.len() as i64)?;
        change.commit()?;
        Ok(Self(Mutex::new(connection)))
    }

    pub(crate) fn db(&self) -> MutexGuard<'_, Connection> {
        self.0.lock()
    }
}
