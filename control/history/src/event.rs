//! Events and the audit log. An audit entry is written before the change, so a crash in between leaves it as
//! `interrupted`.

use crate::store::{Error, Page, Store};
use records::Severity;
use rusqlite::{Row, params};

/// Maximum number of events, and of audit entries; older ones are deleted.
const MAX_ENTRIES: i64 = 100_000;

/// A new event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// Time, in seconds since 1970.
    pub time: u64,
    /// Its severity.
    pub severity: Severity,
    /// Kind for programs, such as `volume.created`.
    pub kind: String,
    /// Text for operators.
    pub message: String,
    /// The kind of object concerned, such as `volume`.
    pub noun: Option<String>,
    /// The name of that object.
    pub name: Option<String>,
}

/// A recorded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Number; later events have larger ones.
    pub id: i64,
    /// The event.
    pub event: NewEvent,
}

/// Number of an audit entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditId(i64);

impl AuditId {
    /// The number, as in [`Audit::id`].
    pub fn number(self) -> i64 {
        self.0
    }
}

/// A change that a user is about to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Time, in seconds since 1970.
    pub time: u64,
    /// The user.
    pub user: String,
    /// Origin of the request: an address, or `local`.
    pub origin: String,
    /// The action.
    pub action: String,
    /// The whole request, without secrets.
    pub detail: String,
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Number; later entries have larger ones.
    pub id: i64,
    /// User, origin and request.
    pub attempt: Attempt,
    /// `done`, `refused`, or `interrupted` if the array stopped before the result was recorded.
    pub outcome: String,
    /// Reason of a refusal.
    pub message: String,
    /// JSON: the key of each changed record, with its value before and after.
    pub changes: String,
}

const OUTCOME_PENDING: &str = "interrupted";

impl Store {
    /// Records an event and returns its number.
    pub fn add_event(&self, event: &NewEvent) -> Result<i64, Error> {
        let sql = "INSERT INTO event (time, severity, kind, message, noun, name) VALUES (?, ?, ?, ?, ?, ?)";
        let NewEvent { time, severity, kind, message, noun, name } = event;
        let (time, severity) = (*time as i64, severity.number());
        self.run(|db| {
            db.prepare_cached(sql)?.execute(params![time, severity, kind, message, noun, name])?;
            let id = db.last_insert_rowid();
            expire(db, "event", id)?;
            Ok(id)
        })
    }

    /// Events of at least this severity, newest first.
    pub fn events(&self, page: &Page, minimum: Severity) -> Result<Vec<Event>, Error> {
        let sql = "SELECT id, time, severity, kind, message, noun, name FROM event
                   WHERE id < ? AND severity >= ? ORDER BY id DESC LIMIT ?";
        let of = |row: &Row<'_>| {
            let event = NewEvent {
                time: row.get::<_, i64>(1)? as u64,
                severity: Severity::of(row.get(2)?),
                kind: row.get(3)?,
                message: row.get(4)?,
                noun: row.get(5)?,
                name: row.get(6)?,
            };
            Ok(Event { id: row.get(0)?, event })
        };
        let before = page.before.unwrap_or(i64::MAX);
        self.run(|db| {
            let mut rows = db.prepare_cached(sql)?;
            rows.query_map(params![before, minimum.number(), page.limit], of)?.collect()
        })
    }

    /// Records a change before it is made.
    pub fn begin_audit(&self, attempt: &Attempt) -> Result<AuditId, Error> {
        let sql = "INSERT INTO audit (time, user, origin, action, detail, outcome, message, changes)
                   VALUES (?, ?, ?, ?, ?, ?, '', '[]')";
        let Attempt { time, user, origin, action, detail } = attempt;
        self.run(|db| {
            db.prepare_cached(sql)?.execute(params![
                *time as i64,
                user,
                origin,
                action,
                detail,
                OUTCOME_PENDING
            ])?;
            let id = db.last_insert_rowid();
            expire(db, "audit", id)?;
            Ok(AuditId(id))
        })
    }

    /// Records the result of a change. `refused`: the reason of a refusal; `changes`: JSON.
    pub fn end_audit(&self, id: AuditId, refused: Option<&str>, changes: &str) -> Result<(), Error> {
        let outcome = if refused.is_some() { "refused" } else { "done" };
        let sql = "UPDATE audit SET outcome = ?, message = ?, changes = ? WHERE id = ?";
        self.run(|db| {
            db.prepare_cached(sql)?.execute(params![outcome, refused.unwrap_or(""), changes, id.0])?;
            Ok(())
        })
    }

    /// Makes all entries durable: the write-ahead log of the file is not synced with each entry.
    pub fn make_durable(&self) -> Result<(), Error> {
        self.run(|db| db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())))
    }

    /// The number of the newest entry of the audit log; 0 if there is none.
    pub fn newest_audit(&self) -> Result<i64, Error> {
        self.run(|db| {
            db.prepare_cached("SELECT COALESCE(MAX(id), 0) FROM audit")?.query_row([], |row| row.get(0))
        })
    }

    /// The audit log, newest first.
    pub fn audits(&self, page: &Page) -> Result<Vec<Audit>, Error> {
        let sql = "SELECT id, time, user, origin, action, detail, outcome, message, changes FROM audit
                   WHERE id < ? ORDER BY id DESC LIMIT ?";
        let of = |row: &Row<'_>| {
            let attempt = Attempt {
                time: row.get::<_, i64>(1)? as u64,
                user: row.get(2)?,
                origin: row.get(3)?,
                action: row.get(4)?,
                detail: row.get(5)?,
            };
            Ok(Audit {
                id: row.get(0)?,
                attempt,
                outcome: row.get(6)?,
                message: row.get(7)?,
                changes: row.get(8)?,
            })
        };
        self.run(|db| {
            let mut rows = db.prepare_cached(sql)?;
            rows.query_map(params![page.before.unwrap_or(i64::MAX), page.limit], of)?.collect()
        })
    }
}

/// Deletes the oldest entries, once for every thousand new ones.
fn expire(db: &rusqlite::Connection, table: &str, newest: i64) -> Result<(), rusqlite::Error> {
    if newest % 1000 == 0 {
        db.execute(&format!("DELETE FROM {table} WHERE id <= ?"), params![newest - MAX_ENTRIES])?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "event_test.rs"]
mod tests;
