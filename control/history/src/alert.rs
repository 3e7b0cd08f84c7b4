//! Alerts: what needs somebody's attention until it is over. A condition that is reported again is the same alert.

use crate::event::Severity;
use crate::store::{Error, Store};
use rusqlite::{Connection, OptionalExtension, Row, params};

/// Most alerts that are closed and still told of.
const KEPT: i64 = 1000;

/// Something that is the matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What it is, for programs: `space.threshold`.
    pub kind: String,
    /// How much it matters.
    pub severity: Severity,
    /// What is the matter and what to do, for people.
    pub message: String,
    /// What kind of thing it is about, such as `volume group`; none: the array.
    pub noun: Option<String>,
    /// Which one.
    pub name: Option<String>,
}

/// How far an alert is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertState {
    /// Nobody looks after it yet.
    Open,
    /// Somebody does.
    Acknowledged,
    /// It is over.
    Closed,
}

/// Something that needs, or needed, attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Its number; later ones are larger.
    pub id: i64,
    /// The condition, the same as long as it goes on: its kind and what it is about, by what never changes.
    pub key: String,
    /// What is, or was, the matter.
    pub condition: Condition,
    /// When it began, in seconds since 1970.
    pub opened: u64,
    /// When something of it was not what it had been, in seconds since 1970.
    pub changed: u64,
    /// Who looks after it.
    pub acknowledged: Option<String>,
    /// When it was over, in seconds since 1970.
    pub closed: Option<u64>,
}

impl Alert {
    /// How far it is.
    pub fn state(&self) -> AlertState {
        match (self.closed, &self.acknowledged) {
            (Some(_), _) => AlertState::Closed,
            (None, Some(_)) => AlertState::Acknowledged,
            (None, None) => AlertState::Open,
        }
    }
}

/// What became of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is new.
    Opened,
    /// It matters more than before; whoever looked after it should look again.
    Worse,
    /// It is told in other words, matters less, or somebody looks after it.
    Changed,
    /// It is over.
    Closed,
}

const FIELDS: &str = "id, key, kind, severity, message, noun, name, opened, changed, acknowledged, closed";

impl Store {
    /// Reports a condition. What became of its alert; none when it goes on as before.
    pub fn raise(&self, now: u64, key: &str, it: &Condition) -> Result<Option<(Turn, Alert)>, Error> {
        self.run(|db| raise(db, now, key, it))
    }

    /// Reports that a condition is over. The alert when there was one.
    pub fn close(&self, now: u64, key: &str) -> Result<Option<Alert>, Error> {
        let sql = "UPDATE alert SET closed = ?, changed = ? WHERE key = ? AND closed IS NULL RETURNING id";
        let now = now as i64;
        self.run(|db| {
            let id =
                db.prepare_cached(sql)?.query_row(params![now, now, key], |row| row.get(0)).optional()?;
            id.map_or(Ok(None), |id| alert(db, id))
        })
    }

    /// Notes who looks after an alert, or that nobody does any more. The alert, if there is one of that number that is
    /// not over.
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

    /// Alerts, newest first; without `closed` only those that go on.
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
) -> Result<Option<(Turn, Alert)>, rusqlite::Error> {
    let Condition { kind, severity, message, noun, name } = it;
    let Some(old) = open(db, key)? else {
        let sql = "INSERT INTO alert (key, kind, severity, message, noun, name, opened, changed)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
        let (severity, now) = (severity.number(), now as i64);
        db.execute(sql, params![key, kind, severity, message, noun, name, now, now])?;
        let id = db.last_insert_rowid();
        db.execute("DELETE FROM alert WHERE closed IS NOT NULL AND id <= ?", params![id - KEPT])?;
        return Ok(alert(db, id)?.map(|alert| (Turn::Opened, alert)));
    };
    if old.condition == *it {
        return Ok(None);
    }
    let worse = *severity > old.condition.severity;
    // What matters more now is not looked after yet.
    let acknowledged = old.acknowledged.filter(|_| !worse);
    let sql = "UPDATE alert SET kind = ?, severity = ?, message = ?, noun = ?, name = ?, changed = ?,
               acknowledged = ? WHERE id = ?";
    let severity = severity.number();
    db.execute(sql, params![kind, severity, message, noun, name, now as i64, acknowledged, old.id])?;
    let turn = if worse { Turn::Worse } else { Turn::Changed };
    Ok(alert(db, old.id)?.map(|alert| (turn, alert)))
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
        let (turn, first) = raise(1, Severity::Warning, "70 %").unwrap();
        assert_eq!((turn, first.opened, first.state()), (Turn::Opened, 1, AlertState::Open));
        assert_eq!(raise(2, Severity::Warning, "70 %"), None);
        let seen = store.acknowledge(3, first.id, Some("ada")).unwrap().unwrap();
        assert_eq!((seen.state(), seen.changed), (AlertState::Acknowledged, 3));
        let (turn, told) = raise(4, Severity::Warning, "71 %").unwrap();
        assert_eq!((turn, told.acknowledged.as_deref()), (Turn::Changed, Some("ada")));
        let (turn, worse) = raise(5, Severity::Critical, "90 %").unwrap();
        assert_eq!((turn, worse.id, worse.acknowledged, worse.opened), (Turn::Worse, first.id, None, 1));
        let closed = store.close(6, "space").unwrap().unwrap();
        assert_eq!((closed.closed, closed.changed, closed.state()), (Some(6), 6, AlertState::Closed));
        assert_eq!(store.close(7, "space").unwrap(), None);
        assert!(store.alerts(false).unwrap().is_empty());
        let (turn, again) = raise(8, Severity::Warning, "70 %").unwrap();
        assert!(turn == Turn::Opened && again.id != first.id);
        assert_eq!(store.alerts(true).unwrap().len(), 2);
        assert_eq!(store.acknowledge(9, first.id, Some("ada")).unwrap(), None);
    }
}
