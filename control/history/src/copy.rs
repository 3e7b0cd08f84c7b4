//! Copies of the history at other controllers. The home sends its records to the other controllers in [`Batch`]es, so
//! that the controller that takes over has them.
//!
//! Rows keep their numbers. So a copy that was away requests the rows after its [`Position`]. Rows that only the copy
//! has, because its controller died before sending them, return by [`Store::absorb`]. A store opened from a copy leaves
//! numbers out for such rows ([`Store::leave_room`]).

use crate::changes::{Changes, NUMBERED};
use crate::store::{Error, Store};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params, params_from_iter};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Approximate size of a batch in bytes.
const MAX_BATCH_BYTES: usize = 64 << 10;
/// Maximum number of rows in a batch.
const MAX_BATCH_ROWS: usize = 256;
/// Newest audit entries that are sent again to a copy that was away, since their results may have been recorded later.
const AUDIT_OVERLAP: i64 = 1000;
/// Newest events and audit entries of a copy that its home may lack.
const MAX_TAIL_ROWS: i64 = 200;
/// Their approximate size in bytes.
const MAX_TAIL_BYTES: usize = 1 << 20;
/// Numbers left out for rows that a former home could not send before it died.
const ROOM: i64 = 100;

/// A field of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Field {
    Integer(i64),
    Text(String),
    Bytes { base64: String },
    Null(()),
}

impl Field {
    fn of(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null(()),
            ValueRef::Integer(number) => Self::Integer(number),
            // No column has fractions.
            ValueRef::Real(number) => Self::Integer(number as i64),
            ValueRef::Text(text) => Self::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(bytes) => Self::Bytes { base64: BASE64_STANDARD.encode(bytes) },
        }
    }

    fn value(&self) -> Result<Value, CopyError> {
        Ok(match self {
            Self::Null(()) => Value::Null,
            Self::Integer(number) => Value::Integer(*number),
            Self::Text(text) => Value::Text(text.clone()),
            Self::Bytes { base64 } => {
                Value::Blob(BASE64_STANDARD.decode(base64).map_err(|_| CopyError::Malformed("bytes"))?)
            }
        })
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Null(()) | Self::Integer(_) => 8,
            Self::Text(text) => text.len() + 2,
            Self::Bytes { base64 } => base64.len() + 14,
        }
    }
}

/// Rows of one table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Rows {
    table: String,
    /// The copy first deletes all rows of the table.
    #[serde(default)]
    replaces: bool,
    /// The copy deletes rows with smaller numbers; in a time series, older ones.
    #[serde(default)]
    from: i64,
    /// The largest number ever assigned.
    #[serde(default)]
    given: i64,
    /// Tier of a time series.
    #[serde(default)]
    tier: i64,
    columns: Vec<String>,
    rows: Vec<Vec<Field>>,
    /// Numbers of deleted rows.
    #[serde(default)]
    deleted: Vec<i64>,
}

impl Rows {
    fn of(table: &str) -> Self {
        Self { table: table.into(), ..Self::default() }
    }

    fn bytes(&self) -> usize {
        self.rows.iter().flatten().map(Field::bytes).sum()
    }
}

/// A part of the history. Unknown fields are from a newer release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    tables: Vec<Rows>,
}

impl Batch {
    /// True if the batch is only a sign of life.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }
}

/// Position of a copy in the history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// The largest number of each numbered table, and the newest time of each time series and tier.
    newest: BTreeMap<String, i64>,
    /// The newest events and audit entries, some of which the other end may lack.
    tail: Vec<Rows>,
}

/// Reason for the end of copying.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// SQLite failed.
    #[error(transparent)]
    Store(#[from] Error),
    /// The history is or was in memory because its file can't be used, or the copy lacks too much. The copy has to
    /// begin again from its position.
    #[error("the copy of the history begins again")]
    Again,
    /// The received data are not a part of a history.
    #[error("the other controller has sent {0} of the history that can't be read")]
    Malformed(&'static str),
}

impl From<rusqlite::Error> for CopyError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Tables that never reuse a number.
const AUTOMATIC: [&str; 3] = ["event", "audit", "alert"];

/// Samples of subjects other than the whole array.
const OTHERS: &str = "AND subject != coalesce((SELECT id FROM subject WHERE key = 'array'), -1)";

/// A time series.
struct Series {
    table: &'static str,
    tiers: i64,
    /// The selected columns, and their table.
    select: &'static str,
    /// Whether rows of the newest time change until that time is over.
    grows: bool,
}

const SERIES: [Series; 3] = [
    Series {
        table: "sample",
        tiers: 3,
        select: "SELECT tier, time, key, body FROM sample JOIN subject ON subject = id",
        grows: false,
    },
    Series { table: "space", tiers: 2, select: "SELECT * FROM space", grows: false },
    Series { table: "replicated", tiers: 2, select: "SELECT * FROM replicated", grows: true },
];

/// Remaining steps of the initial state.
enum Step {
    /// Rows of a numbered table after a number; `replaces`: these are all.
    Numbered { table: usize, after: i64, replaces: bool },
    /// Rows of a tier from a time on.
    Series { series: usize, tier: i64 },
}

/// Sends the history of a store to one copy.
pub struct Copier {
    /// Change log of the copied database.
    changes: Changes,
    outages: u64,
    /// The next change to send.
    next: u64,
    /// The changes of time series that were sent.
    series: u64,
    steps: VecDeque<Step>,
    /// The newest time sent, by series and tier.
    times: BTreeMap<(usize, i64), i64>,
}

impl Copier {
    /// True if there may be data to send.
    pub fn has_more(&self) -> bool {
        !self.steps.is_empty() || self.changes.numbers() != (self.next, self.series)
    }

    /// The number of changes up to which everything was returned ([`Store::changes`]); `None` before the first batch.
    pub fn sent(&self) -> Option<u64> {
        self.steps.is_empty().then_some(self.next)
    }

    /// The next batch; empty if the copy is complete.
    ///
    /// # Errors
    /// [`CopyError::Again`], or an error of the store.
    pub fn next_batch(&mut self, store: &Store) -> Result<Batch, CopyError> {
        let inner = store.0.lock();
        if inner.outages != self.outages || inner.outage.is_some() {
            return Err(CopyError::Again);
        }
        let db = &inner.active;
        let mut batch = Batch::default();
        while batch.is_empty()
            && let Some(step) = self.steps.pop_front()
        {
            self.step(db, step, &mut batch)?;
        }
        if batch.is_empty() && self.steps.is_empty() {
            self.changed(db, &mut batch)?;
        }
        Ok(batch)
    }

    fn step(&mut self, db: &Connection, step: Step, batch: &mut Batch) -> Result<(), CopyError> {
        match step {
            Step::Numbered { table, after, replaces } => {
                let name = NUMBERED[table];
                let number = number_of(name);
                let sql = format!("SELECT {} FROM {name} WHERE {number} > ? ORDER BY {number}", all_of(name));
                let (mut rows, is_all) = select(db, &sql, params![after], Rows::of(name))?;
                rows.replaces = replaces;
                let first = format!("SELECT coalesce(min({number}), 0) FROM {name}");
                rows.from = db.query_row(&first, [], |row| row.get(0))?;
                rows.given = last_given(db, name)?;
                if let (false, Some(Field::Integer(last))) =
                    (is_all, rows.rows.last().and_then(|row| row.first()))
                {
                    self.steps.push_front(Step::Numbered { table, after: *last, replaces: false });
                }
                batch.tables.push(rows);
            }
            Step::Series { series, tier } => {
                if !self.measured(db, (series, tier), batch)? {
                    self.steps.push_front(Step::Series { series, tier });
                }
            }
        }
        Ok(())
    }

    /// Adds rows of a tier after the last sent ones; true if these are all.
    fn measured(
        &mut self,
        db: &Connection,
        (series, tier): (usize, i64),
        batch: &mut Batch,
    ) -> Result<bool, CopyError> {
        let Series { table, select: from, .. } = &SERIES[series];
        let sent = self.times.entry((series, tier)).or_insert(-1);
        // All rows of one time are in the same batch.
        let newest = format!(
            "SELECT max(time) FROM (SELECT time FROM {table} WHERE tier = ?1 AND time > ?2 ORDER BY time LIMIT ?3)"
        );
        let limit = MAX_BATCH_ROWS as i64;
        let last: Option<i64> =
            db.prepare_cached(&newest)?.query_row(params![tier, *sent, limit], |row| row.get(0))?;
        let Some(last) = last else { return Ok(true) };
        let sql = format!("{from} WHERE tier = ? AND time > ? AND time <= ?");
        let mut rows = Rows { tier, from: oldest(db, table, tier)?, ..Rows::of(table) };
        read(db, &sql, params![tier, *sent, last], &mut rows, usize::MAX)?;
        *sent = last;
        batch.tables.push(rows);
        Ok(false)
    }

    /// Changes since the last batch.
    fn changed(&mut self, db: &Connection, batch: &mut Batch) -> Result<(), CopyError> {
        let (_, series) = self.changes.numbers();
        let changed = self.changes.since(self.next, MAX_BATCH_ROWS).ok_or(CopyError::Again)?;
        for (table, name) in NUMBERED.iter().enumerate() {
            let of_table = changed.iter().filter(|(of, _)| *of == table);
            let numbers: BTreeSet<i64> = of_table.map(|(_, number)| *number).collect();
            if numbers.is_empty() {
                continue;
            }
            let mut rows = Rows::of(name);
            let sql = format!("SELECT {} FROM {name} WHERE {} = ?", all_of(name), number_of(name));
            for number in numbers {
                if read(db, &sql, params![number], &mut rows, usize::MAX)? == 0 {
                    rows.deleted.push(number);
                }
            }
            batch.tables.push(rows);
        }
        self.next += changed.len() as u64;
        if batch.is_empty() && series != self.series {
            let growing = self.times.iter_mut().filter(|((series, _), _)| SERIES[*series].grows);
            growing.for_each(|(_, sent)| *sent -= 1);
            self.steps = all_series().collect();
            self.series = series;
            while let Some(step) = self.steps.pop_front() {
                self.step(db, step, batch)?;
                if batch.tables.iter().map(Rows::bytes).sum::<usize>() > MAX_BATCH_BYTES {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The oldest time in a tier; samples of the whole array are kept longer than others.
fn oldest(db: &Connection, table: &str, tier: i64) -> Result<i64, CopyError> {
    let others = if table == "sample" { OTHERS } else { "" };
    let sql = format!("SELECT time FROM {table} WHERE tier = ? {others} ORDER BY time LIMIT 1");
    let oldest = db.prepare_cached(&sql)?.query_row(params![tier], |row| row.get(0)).optional()?;
    Ok(oldest.unwrap_or(0))
}

fn all_series() -> impl Iterator<Item = Step> {
    let tiers = |series: usize| (0..SERIES[series].tiers).map(move |tier| Step::Series { series, tier });
    (0..SERIES.len()).flat_map(tiers)
}

/// The column with the number of a row.
fn number_of(table: &str) -> &'static str {
    if table == "kept" { "rowid" } else { "id" }
}

/// All columns, starting with the number.
fn all_of(table: &str) -> &'static str {
    if table == "kept" { "rowid, *" } else { "*" }
}

/// Rows up to the size of a batch; true if these are all.
fn select(
    db: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
    mut rows: Rows,
) -> Result<(Rows, bool), CopyError> {
    let sql = format!("{sql} LIMIT {}", MAX_BATCH_ROWS);
    let count = read(db, &sql, parameters, &mut rows, MAX_BATCH_BYTES)?;
    let is_all = count < MAX_BATCH_ROWS && count == rows.rows.len();
    Ok((rows, is_all))
}

/// Adds rows up to `max_bytes`. Returns the number of rows, or one more than were added.
fn read(
    db: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
    into: &mut Rows,
    max_bytes: usize,
) -> Result<usize, CopyError> {
    let mut statement = db.prepare_cached(sql)?;
    if into.columns.is_empty() {
        into.columns = statement.column_names().map(str::to_owned).collect();
    }
    let mut found = statement.query(parameters)?;
    let (mut count, mut bytes) = (0, 0);
    while let Some(row) = found.next()? {
        count += 1;
        if bytes > max_bytes {
            break;
        }
        let fields = fields(row, into.columns.len())?;
        bytes += fields.iter().map(Field::bytes).sum::<usize>();
        into.rows.push(fields);
    }
    Ok(count)
}

fn fields(row: &Row<'_>, columns: usize) -> Result<Vec<Field>, rusqlite::Error> {
    (0..columns).map(|at| row.get_ref(at).map(Field::of)).collect()
}

impl Store {
    /// Sends this history to a copy at `position`.
    ///
    /// # Errors
    /// [`CopyError::Again`] while the file can't be used.
    pub fn copier(&self, position: &Position) -> Result<Copier, CopyError> {
        let inner = self.0.lock();
        if inner.outage.is_some() {
            return Err(CopyError::Again);
        }
        let newest = |key: &str| position.newest.get(key).copied().unwrap_or(-1);
        let numbered = NUMBERED.iter().enumerate().map(|(table, name)| match *name {
            "event" => Step::Numbered { table, after: newest(name), replaces: false },
            "audit" => Step::Numbered { table, after: newest(name) - AUDIT_OVERLAP, replaces: false },
            _ => Step::Numbered { table, after: i64::MIN, replaces: true },
        });
        let mut times = BTreeMap::new();
        for (series, it) in SERIES.iter().enumerate() {
            for tier in 0..it.tiers {
                // A restarted array continues after the newest rows.
                times.insert((series, tier), newest(&format!("{}/{tier}", it.table)) - 1);
            }
        }
        let changes = inner.changes.clone();
        let (next, series) = changes.numbers();
        let steps = numbered.chain(all_series()).collect();
        Ok(Copier { changes, outages: inner.outages, next, series, steps, times })
    }

    /// Number of changes of events, the audit log, alerts and expiring entries since the store was opened.
    pub fn changes(&self) -> u64 {
        self.0.lock().changes.numbers().0
    }

    /// Position of this copy, and rows that its home may lack.
    ///
    /// # Errors
    /// [`CopyError::Again`] while the file can't be used.
    pub fn position(&self) -> Result<Position, CopyError> {
        let inner = self.0.lock();
        if inner.outage.is_some() {
            return Err(CopyError::Again);
        }
        let db = &inner.active;
        let mut position = Position::default();
        for table in ["event", "audit"] {
            let newest: Option<i64> =
                db.query_row(&format!("SELECT max(id) FROM {table}"), [], |row| row.get(0))?;
            position.newest.extend(newest.map(|newest| (table.to_owned(), newest)));
            let mut rows = Rows::of(table);
            let sql = format!("SELECT * FROM {table} WHERE id > ? ORDER BY id DESC");
            let after = newest.unwrap_or(0) - MAX_TAIL_ROWS;
            read(db, &sql, params![after], &mut rows, MAX_TAIL_BYTES / 2)?;
            position.tail.push(rows);
        }
        for series in &SERIES {
            for tier in 0..series.tiers {
                let sql = format!("SELECT max(time) FROM {} WHERE tier = ?", series.table);
                let newest: Option<i64> = db.query_row(&sql, params![tier], |row| row.get(0))?;
                position.newest.extend(newest.map(|newest| (format!("{}/{tier}", series.table), newest)));
            }
        }
        Ok(position)
    }

    /// Applies a batch to this copy.
    ///
    /// # Errors
    /// Errors of the store, and data that are not a part of a history; nothing has changed then.
    pub fn apply(&self, batch: &Batch) -> Result<(), CopyError> {
        let mut inner = self.0.lock();
        if inner.outage.is_some() {
            return Err(CopyError::Again);
        }
        let done = (|| {
            let change = inner.active.transaction()?;
            batch.tables.iter().try_for_each(|rows| apply(&change, rows, "INSERT OR REPLACE"))?;
            change.commit()?;
            Ok(())
        })();
        if let Err(CopyError::Store(Error(error))) = &done {
            // The next connection finds the file in use, or memory instead of it.
            inner.falls_back(error);
        }
        done
    }

    /// Adds events and audit entries that a former home could not send before it died. Known rows stay unchanged.
    ///
    /// # Errors
    /// Errors of the store, and unreadable data; nothing has changed then.
    pub fn absorb(&self, position: &Position) -> Result<(), CopyError> {
        let mut inner = self.0.lock();
        let change = inner.active.transaction()?;
        for rows in &position.tail {
            if !["event", "audit"].contains(&rows.table.as_str()) || rows.rows.len() > MAX_TAIL_ROWS as usize
            {
                return Err(CopyError::Malformed("rows"));
            }
            let only = Rows { replaces: false, from: 0, given: 0, deleted: Vec::new(), ..rows.clone() };
            apply(&change, &only, "INSERT OR IGNORE")?;
        }
        change.commit()?;
        Ok(())
    }

    /// Leaves numbers out, for rows that a former home could not send before it died.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn leave_room(&self) -> Result<(), Error> {
        self.run(|db| {
            let change = db.transaction()?;
            for table in AUTOMATIC {
                let newest = format!("SELECT coalesce(max(id), 0) FROM {table}");
                let newest: i64 = change.query_row(&newest, [], |row| row.get(0))?;
                continue_after(&change, table, newest.max(last_given(&change, table)?) + ROOM)?;
            }
            change.commit()
        })
    }
}

/// The largest number that a table has ever assigned; zero if none.
fn last_given(db: &Connection, table: &str) -> Result<i64, rusqlite::Error> {
    let sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?";
    db.prepare_cached(sql)?.query_row(params![table], |row| row.get(0))
}

/// Makes the next row number larger than this one.
fn continue_after(change: &Transaction<'_>, table: &str, number: i64) -> Result<(), rusqlite::Error> {
    let number = number.max(last_given(change, table)?);
    change.execute("DELETE FROM sqlite_sequence WHERE name = ?", params![table])?;
    change.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", params![table, number]).map(drop)
}

/// Applies changes to one table.
fn apply(change: &Transaction<'_>, rows: &Rows, verb: &str) -> Result<(), CopyError> {
    let table = rows.table.as_str();
    let numbered = NUMBERED.contains(&table);
    // A table of a newer release.
    if !numbered && SERIES.iter().all(|series| series.table != table) {
        return Ok(());
    }
    if numbered {
        forget(change, rows)?;
    } else {
        expire(change, rows)?;
    }
    let names: Vec<String> = change
        .prepare_cached("SELECT name FROM pragma_table_info(?1) UNION SELECT 'rowid' WHERE ?1 = 'kept'")?
        .query_map(params![table], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let is_known = |name: &str| names.iter().any(|known| known == name) || (table, name) == ("sample", "key");
    let known: Vec<usize> = (0..rows.columns.len()).filter(|at| is_known(&rows.columns[*at])).collect();
    if rows.rows.is_empty() || known.is_empty() {
        return Ok(());
    }
    let column = |at: &usize| match rows.columns[*at].as_str() {
        "key" if table == "sample" => "subject",
        name => name,
    };
    let columns: Vec<&str> = known.iter().map(column).collect();
    let (columns, marks) = (columns.join(", "), vec!["?"; known.len()].join(", "));
    let mut write = change.prepare_cached(&format!("{verb} INTO {table} ({columns}) VALUES ({marks})"))?;
    for row in &rows.rows {
        if row.len() != rows.columns.len() {
            return Err(CopyError::Malformed("a row"));
        }
        let value = |at: &usize| match (table, rows.columns[*at].as_str(), &row[*at]) {
            ("sample", "key", Field::Text(key)) => subject(change, key),
            (_, _, field) => field.value(),
        };
        let values: Vec<Value> = known.iter().map(value).collect::<Result<_, _>>()?;
        write.execute(params_from_iter(values))?;
    }
    Ok(())
}

/// Deletes the rows that the sender does not have.
fn forget(change: &Transaction<'_>, rows: &Rows) -> Result<(), CopyError> {
    let (table, number) = (&rows.table, number_of(&rows.table));
    if rows.replaces {
        change.execute(&format!("DELETE FROM {table}"), [])?;
    }
    if rows.from > 0 {
        change.execute(&format!("DELETE FROM {table} WHERE {number} < ?"), params![rows.from])?;
    }
    if rows.given > 0 && AUTOMATIC.contains(&table.as_str()) {
        continue_after(change, table, rows.given)?;
    }
    let sql = format!("DELETE FROM {table} WHERE {number} = ?");
    for number in &rows.deleted {
        change.prepare_cached(&sql)?.execute(params![number])?;
    }
    Ok(())
}

/// Deletes rows of a tier that are older than the sender's.
fn expire(change: &Transaction<'_>, rows: &Rows) -> Result<(), CopyError> {
    let Rows { table, tier, from, .. } = rows;
    let others = if table == "sample" { OTHERS } else { "" };
    let sql = format!("DELETE FROM {table} WHERE tier = ? AND time < ? {others}");
    change.prepare_cached(&sql)?.execute(params![tier, from])?;
    let kept = crate::measure::TIERS.iter().find(|kept| table == "sample" && kept.number == *tier);
    let time = rows.columns.iter().position(|column| column == "time");
    let newest = rows.rows.last().zip(time).and_then(|(row, time)| row.get(time));
    if let (Some(kept), Some(Field::Integer(newest))) = (kept, newest) {
        let old = newest.saturating_sub(kept.keep as i64);
        change
            .prepare_cached("DELETE FROM sample WHERE tier = ? AND time < ?")?
            .execute(params![tier, old])?;
    }
    Ok(())
}

/// The number of a subject of samples.
fn subject(change: &Transaction<'_>, key: &str) -> Result<Value, CopyError> {
    change.prepare_cached("INSERT OR IGNORE INTO subject (key) VALUES (?)")?.execute(params![key])?;
    let mut number = change.prepare_cached("SELECT id FROM subject WHERE key = ?")?;
    Ok(Value::Integer(number.query_row(params![key], |row| row.get(0))?))
}

#[cfg(test)]
#[path = "copy_test.rs"]
mod tests;
