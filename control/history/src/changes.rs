//! Log of changed rows of the history, for the copies at other controllers ([`crate::copy`]).

use parking_lot::Mutex;
use rusqlite::Connection;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of recorded changes. A copy that lacks more begins again.
const MAX_CHANGES: usize = 10_000;

/// Tables whose rows have numbers, which identify changes.
pub(crate) const NUMBERED: [&str; 4] = ["event", "audit", "alert", "kept"];

/// A row that was added, changed or deleted: index of its table in [`NUMBERED`], and its number.
pub(crate) type Changed = (usize, i64);

/// The newest changes of a database.
#[derive(Clone, Default)]
pub(crate) struct Changes(Arc<Mutex<Log>>);

#[derive(Default)]
struct Log {
    /// Number of the first entry.
    first: u64,
    entries: VecDeque<Changed>,
    /// Incremented with each change of a time series.
    series: u64,
}

impl Changes {
    /// Follows the changes made through a connection.
    pub fn follow(&self, connection: &mut Connection) -> Result<(), rusqlite::Error> {
        let log = self.0.clone();
        connection.update_hook(Some(move |_, _: &str, table: &str, row: i64| {
            if let Some(table) = NUMBERED.iter().position(|name| *name == table) {
                log.lock().add((table, row));
            }
        }))
    }

    /// Notes that rows of a time series were added. These tables have no row numbers.
    pub fn note_series(&self) {
        self.0.lock().series += 1;
    }

    /// Numbers of the next change and of the next time series change.
    pub fn numbers(&self) -> (u64, u64) {
        let log = self.0.lock();
        (log.first + log.entries.len() as u64, log.series)
    }

    /// At most `limit` changes from a number on; `None` if the first of them is no longer recorded.
    pub fn since(&self, number: u64, limit: usize) -> Option<Vec<Changed>> {
        let log = self.0.lock();
        let skipped = usize::try_from(number.checked_sub(log.first)?).ok()?;
        Some(log.entries.iter().skip(skipped).take(limit).copied().collect())
    }
}

impl Log {
    fn add(&mut self, changed: Changed) {
        if self.entries.len() == MAX_CHANGES {
            self.entries.pop_front();
            self.first += 1;
        }
        self.entries.push_back(changed);
    }
}
