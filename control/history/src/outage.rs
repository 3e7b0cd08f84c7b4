//! Operation while the file can't be used, because its file system is full or read-only, a drive fails, the file is
//! damaged, or another program has locked it. Events, alerts, the audit log and sessions go to memory, which starts
//! with the newest entries of the file, and are copied to the file once it can be used again. A restart in between
//! loses them. Performance samples of that time are dropped.

use crate::store::{Inner, memory, open_or_set_aside};
use rusqlite::types::Value;
use rusqlite::{Connection, Error, ErrorCode, params_from_iter};
use std::io::Write;
use std::path::Path;

/// Seconds between attempts to use the file again.
const RETRY_INTERVAL_S: u64 = 10;
/// Minimum free bytes before the file is used again; with less, the file system would soon be full again.
const MIN_FREE_BYTES: usize = 1 << 20;
/// Number of the newest events and audit entries that are copied to memory.
const MAX_COPIED_ENTRIES: i64 = 1000;

/// State while the file is not used.
pub(crate) struct Outage {
    pub why: String,
    /// The file, if it is still open.
    file: Option<Connection>,
    /// Newest entries that were copied to memory; `None` if the file was never read.
    newest: Option<Newest>,
    /// Time of the last attempt, in seconds.
    tried: u64,
}

/// Largest row numbers in the file.
#[derive(Clone, Copy)]
struct Newest {
    event: i64,
    audit: i64,
    alert: i64,
}

impl Outage {
    /// An outage from the start: the file could not be opened.
    pub fn at_start(why: String) -> Self {
        Self { why, file: None, newest: None, tried: 0 }
    }
}

fn code(error: &Error) -> Option<ErrorCode> {
    match error {
        Error::SqliteFailure(cause, _) => Some(cause.code),
        Error::SqlInputError { error, .. } => Some(error.code),
        _ => None,
    }
}

/// True if the file itself is damaged, not its environment: a retry can't help.
pub(crate) fn is_damage(error: &Error) -> bool {
    use ErrorCode::*;
    let environment = [
        PermissionDenied,
        DatabaseBusy,
        DatabaseLocked,
        OutOfMemory,
        ReadOnly,
        SystemIoFailure,
        DiskFull,
        CannotOpen,
        FileLockingProtocolFailed,
    ];
    !code(error).is_some_and(|code| environment.contains(&code) || code == ConstraintViolation)
}

impl Inner {
    /// Switches to memory after an error of the file. False for other errors, or if memory is already in use.
    pub fn falls_back(&mut self, error: &Error) -> bool {
        let is_refusal = code(error) == Some(ErrorCode::ConstraintViolation);
        if self.path.is_none() || self.outage.is_some() || is_refusal {
            return false;
        }
        tracing::error!(%error, "the history file can't be read or written; history is kept in memory");
        let file = std::mem::replace(&mut self.active, memory());
        let newest = copy_newest(&self.active, &file);
        let newest = newest.inspect_err(|error| tracing::error!(%error, "the history can't be read")).ok();
        // A damaged file is opened and renamed later.
        let file = Some(file).filter(|_| !is_damage(error));
        self.outage = Some(Outage { why: error.to_string(), file, newest, tried: 0 });
        self.outages += 1;
        true
    }

    /// Tries to use the file again if a retry is due.
    pub fn retry_file(&mut self, now: u64) {
        let (Some(path), Some(outage)) = (self.path.clone(), &mut self.outage) else { return };
        if now.abs_diff(outage.tried) < RETRY_INTERVAL_S {
            return;
        }
        outage.tried = now;
        if let Err(error) = has_room(&path) {
            outage.why = format!("the file system of {} is full: {error}", path.display());
            return;
        }
        let opened = match outage.file.take() {
            Some(file) => Ok(file),
            None => open_or_set_aside(&path, &mut self.notices),
        };
        let mut file = match opened {
            Ok(file) => file,
            Err(why) => {
                outage.why = why;
                return;
            }
        };
        match copy_to_file(&self.active, &mut file, outage.newest) {
            Ok(()) => {
                self.active = file;
                self.outage = None;
                self.outages += 1;
                self.follow();
                tracing::info!("the history file is in use again");
            }
            Err(error) => {
                outage.why = error.to_string();
                outage.file = Some(file).filter(|_| !is_damage(&error));
            }
        }
    }
}

/// Checks that [`MIN_FREE_BYTES`] can be written next to the file.
fn has_room(path: &Path) -> std::io::Result<()> {
    let probe = path.with_extension("probe");
    let written = std::fs::File::create(&probe).and_then(|mut file| {
        file.write_all(&vec![0x5a; MIN_FREE_BYTES])?;
        file.sync_all()
    });
    let removed = match std::fs::remove_file(&probe) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    written.and(removed)
}

/// Copies the newest entries of the file to memory.
fn copy_newest(memory: &Connection, file: &Connection) -> Result<Newest, Error> {
    for table in ["event", "audit"] {
        let newest = format!("WHERE id > (SELECT max(id) FROM {table}) - {MAX_COPIED_ENTRIES}");
        copy(file, memory, table, &newest, "INSERT", false)?;
    }
    copy(file, memory, "alert", "", "INSERT", false)?;
    copy(file, memory, "kept", "WHERE kind = 'session'", "INSERT", false)?;
    let newest = |table: &str| {
        let sql = format!("SELECT coalesce(max(id), 0) FROM {table}");
        memory.query_row(&sql, [], |row| row.get(0))
    };
    Ok(Newest { event: newest("event")?, audit: newest("audit")?, alert: newest("alert")? })
}

/// Copies memory to the file in one transaction. Entries of the file change only if they changed in memory.
fn copy_to_file(memory: &Connection, file: &mut Connection, newest: Option<Newest>) -> Result<(), Error> {
    let change = file.transaction()?;
    let known = newest.unwrap_or(Newest { event: 0, audit: 0, alert: 0 });
    for (table, known) in [("audit", known.audit), ("alert", known.alert)] {
        copy(memory, &change, table, &format!("WHERE id <= {known}"), "INSERT OR REPLACE", false)?;
    }
    let new = |known: i64| format!("WHERE id > {known} ORDER BY id");
    copy(memory, &change, "event", &new(known.event), "INSERT", true)?;
    copy(memory, &change, "audit", &new(known.audit), "INSERT", true)?;
    // An alert that is open in the file continues there.
    copy(memory, &change, "alert", &new(known.alert), "INSERT OR IGNORE", true)?;
    if newest.is_some() {
        // A session that has ended must not be restored.
        change.execute("DELETE FROM kept WHERE kind = 'session'", [])?;
    }
    copy(memory, &change, "kept", "", "INSERT OR REPLACE", false)?;
    copy(memory, &change, "space", "", "INSERT OR IGNORE", false)?;
    change.commit()
}

/// Copies rows of a table; `renumber` gives them new numbers.
fn copy(
    from: &Connection,
    to: &Connection,
    table: &str,
    condition: &str,
    verb: &str,
    renumber: bool,
) -> Result<(), Error> {
    let mut read = from.prepare(&format!("SELECT * FROM {table} {condition}"))?;
    let columns = read.column_count();
    let marks = vec!["?"; columns].join(", ");
    let mut write = to.prepare(&format!("{verb} INTO {table} VALUES ({marks})"))?;
    let mut rows = read.query([])?;
    while let Some(row) = rows.next()? {
        let value = |at: usize| if renumber && at == 0 { Ok(Value::Null) } else { row.get::<_, Value>(at) };
        let values: Vec<Value> = (0..columns).map(value).collect::<Result<_, _>>()?;
        write.execute(params_from_iter(values))?;
    }
    Ok(())
}
