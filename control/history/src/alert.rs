//! Alerts and their life cycle in the store: raised, acknowledged, closed. Raising a condition whose alert is open
//! updates that alert, so an operator sees one line for one problem.

use crate::store::{Error, Store};
use records::{AlertState, Severity};
use rusqlite::{Connection, OptionalExtension, Row, params};

/// Retention of closed alerts, in alert numbers.
const MAX_ALERTS: i64 = 1000;

/// A condition that an alert reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Kind for programs, such as `space.threshold`.
    pub kind: String,
    /// Its severity.
    pub severity: Severity,
    /// The problem and the remedy, for operators.
    pub message: String,
    /// The kind of object concerned, such as `volume group`; `None` is the array itself.
    pub noun: Option<String>,
    /// The name of that object.
    pub name: Option<String>,
}

/// An alert, open or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Number; later alerts have larger ones.
    pub id: i64,
    /// Key of the condition: its kind and the object's permanent identity.
    pub key: String,
    /// The condition as last reported.
    pub condition: Condition,
    /// Time of the first report, in seconds since 1970.
    pub opened: u64,
    /// Time of its last change, in seconds since 1970.
    pub changed: u64,
    /// The user who acknowledged the alert.
    pub acknowledged: Option<String>,
    /// Time of the closing, in seconds since 1970.
    pub closed: Option<u64>,
}

impl Alert {
    /// State of the alert.
    pub fn state(&self) -> AlertState {
        match (self.closed, &self.acknowledged) {
            (Some(_), _) => AlertState::Closed,
            (None, Some(_)) => AlertState::Acknowledged,
            (None, None) => AlertState::Open,
        }
    }
}

/// A change of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertChange {
    /// It is new.
    Opened,
    /// The severity rose; an acknowledgement no longer counts.
    Escalated,
    /// The text changed, the severity fell, or the alert was acknowledged.
    Updated,
    /// It was closed.
    Closed,
}

const FIELDS: &str = "id, key, kind, severity, message, noun, name, opened, changed, acknowledged, closed";

impl Store {
    /// Raises a condition. Returns the change of its alert; `None` if nothing changed.
    pub fn raise(&self, now: u64, key: &str, it: &Condition) -> Result<Option<(AlertChange, Alert)>, Error> {
        self.run(|db| raise(db, now, key, it))
    }

    /// Reports that a condition has ended. Returns its alert if one was open.
    pub fn close(&self, now: u64, key: &str) -> Result<Option<Alert>, Error> {
        let sql = "UPDATE alert SET closed = ?, changed = ? WHERE key = ? AND closed IS NULL RETURNING id";
        let now = now as i64;
        self.run(|db| {
            let id =
                db.prepare_cached(sql)?.query_row(params![now, now, key], |row| row.get(0)).optional()?;
            id.map_or(Ok(None), |id| alert(db, id))
        })
    }

    /// Records the user who acknowledges an alert, or withdraws the acknowledgement. Returns the alert if it exists and is
    /// not closed.
    pub fn acknowledge(&self, now: u64, id: i64, user: Option<&str>) -> Result<Option<Alert>, Error> {
        let sql = "UPDATE alert SET acknowledged = ?, changed = ? WHERE id = ? AND closed IS NULL";
        self.run(|db| match db.execute(sql, params![user, now as i64, id])? {
            0 => Ok(None),
            _ => alert(db, id),
        })
    }

    /// One alert.
    pub fn alert(&self, id: i64) -> Result<Option<Alert>, Error> {
        self.run(|db| alert(db, id))
    }

    /// Alerts, newest first; only open ones without `closed`.
    pub fn alerts(&self, closed: bool) -> Result<Vec<Alert>, Error> {
        let which = if closed { "" } else { "WHERE closed IS NULL" };
        let sql = format!("SELECT {FIELDS} FROM alert {which} ORDER BY id DESC");
        self.run(|db| db.prepare_cached(&sql)?.query_map([], read)?.collect())
    }
}

fn raise(
    db: &Connection,
    now: u64,
    key: &str,
    it: &Condition,
) -> Result<Option<(AlertChange, Alert)>, rusqlite::Error> {
    let Condition { kind, severity, message, noun, name } = it;
    let Some(old) = open(db, key)? else {
        let sql = "INSERT INTO alert (key, kind, severity, message, noun, name, opened, changed)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
        let (severity, now) = (severity.number(), now as i64);
        db.execute(sql, params![key, kind, severity, message, noun, name, now, now])?;
        let id = db.last_insert_rowid();
        db.execute("DELETE FROM alert WHERE closed IS NOT NULL AND id <= ?", params![id - MAX_ALERTS])?;
        return Ok(alert(db, id)?.map(|alert| (AlertChange::Opened, alert)));
    };
    if old.condition == *it {
        return Ok(None);
    }
    let worse = *severity > old.condition.severity;
    // An acknowledgement of the lower severity is void.
    let acknowledged = old.acknowledged.filter(|_| !worse);
    let sql = "UPDATE alert SET kind = ?, severity = ?, message = ?, noun = ?, name = ?, changed = ?,
               acknowledged = ? WHERE id = ?";
    let severity = severity.number();
    db.execute(sql, params![kind, severity, message, noun, name, now as i64, acknowledged, old.id])?;
    let change = if worse { AlertChange::Escalated } else { AlertChange::Updated };
    Ok(alert(db, old.id)?.map(|alert| (change, alert)))
}

fn alert(db: &Connection, id: i64) -> Result<Option<Alert>, rusqlite::Error> {
    let mut row = db.prepare_cached(&format!("SELECT {FIELDS} FROM alert WHERE id = ?"))?;
    row.query_row(params![id], read).optional()
}

fn open(db: &Connection, key: &str) -> Result<Option<Alert>, rusqlite::Error> {
    let mut row =
        db.prepare_cached(&format!("SELECT {FIELDS} FROM alert WHERE key = ? AND closed IS NULL"))?;
    row.query_row(params![key], read).optional()
}

fn read(row: &Row<'_>) -> Result<Alert, rusqlite::Error> {
    let condition = Condition {
        kind: row.get(2)?,
        severity: Severity::of(row.get(3)?),
        message: row.get(4)?,
        noun: row.get(5)?,
        name: row.get(6)?,
    };
    Ok(Alert {
        id: row.get(0)?,
        key: row.get(1)?,
        condition,
        opened: row.get::<_, i64>(7)? as u64,
        changed: row.get::<_, i64>(8)? as u64,
        acknowledged: row.get(9)?,
        closed: row.get::<_, Option<i64>>(10)?.map(|time| time as u64),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

    use super::*;

    fn space(severity: Severity, message: &str) -> Condition {
        Condition { kind: "space".into(), severity, message: message.into(), noun: None, name: None }
    }

    #[test]
    fn a_condition_is_one_alert_until_it_is_over() {
        let store = Store::in_memory();
        let raise = |now, severity, message| store.raise(now, "space", &space(severity, message)).unwrap();
        let (change, first) = raise(1, Severity::Warning, "70 %").unwrap();
        assert_eq!((change, first.opened, first.state()), (AlertChange::Opened, 1, AlertState::Open));
        assert_eq!(raise(2, Severity::Warning, "70 %"), None);
        let acknowledged = store.acknowledge(3, first.id, Some("ada")).unwrap().unwrap();
        assert_eq!((acknowledged.state(), acknowledged.changed), (AlertState::Acknowledged, 3));
        let (change, updated) = raise(4, Severity::Warning, "71 %").unwrap();
        assert_eq!((change, updated.acknowledged.as_deref()), (AlertChange::Updated, Some("ada")));
        let (change, worse) = raise(5, Severity::Critical, "90 %").unwrap();
        assert_eq!(
            (change, worse.id, worse.acknowledged, worse.opened),
            (AlertChange::Escalated, first.id, None, 1)
        );
        let closed = store.close(6, "space").unwrap().unwrap();
        assert_eq!((closed.closed, closed.changed, closed.state()), (Some(6), 6, AlertState::Closed));
        assert_eq!(store.close(7, "space").unwrap(), None);
        assert!(store.alerts(false).unwrap().is_empty());
        let (change, again) = raise(8, Severity::Warning, "70 %").unwrap();
        assert!(change == AlertChange::Opened && again.id != first.id);
        assert_eq!(store.alerts(true).unwrap().len(), 2);
        assert_eq!(store.acknowledge(9, first.id, Some("ada")).unwrap(), None);
    }
}
