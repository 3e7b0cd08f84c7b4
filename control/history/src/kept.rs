//! What is remembered for a while from one request to the next, over a restart, too. Keys are hashes; what the bodies
//! say, and that they are sealed, is the caller's.

use crate::store::{Error, Store};
use rusqlite::{OptionalExtension, Row, params};

/// Most of each kind that are kept; those that end first make place.
const MOST: u32 = 1000;

/// A hash that finds something again.
pub type KeptKey = [u8; 32];

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Somebody's session.
    Session,
    /// The answer to a request that may be sent again.
    Answer,
}

impl Kept {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Kept::Session => "session",
            Kept::Answer => "answer",
        }
    }
}

impl Store {
    /// Keeps something until a time, instead of what had its key before. What is over goes.
    pub fn keep(&self, what: Kept, key: &KeptKey, until: u64, body: &str, now: u64) -> Result<(), Error> {
        self.run(|db| {
            let change = db.transaction()?;
            let sql = "INSERT INTO kept (kind, key, until, body) VALUES (?, ?, ?, ?)
                       ON CONFLICT (kind, key) DO UPDATE SET until = excluded.until, body = excluded.body";
            change.prepare_cached(sql)?.execute(params![what.name(), key, until as i64, body])?;
            let sql = "DELETE FROM kept WHERE kind = ? AND until <= ?";
            change.prepare_cached(sql)?.execute(params![what.name(), now as i64])?;
            let sql = "DELETE FROM kept WHERE kind = ?1 AND key IN
                       (SELECT key FROM kept WHERE kind = ?1 ORDER BY until DESC LIMIT -1 OFFSET ?2)";
            change.prepare_cached(sql)?.execute(params![what.name(), MOST])?;
            change.commit()
        })
    }

    /// What was kept by a key and is not over.
    pub fn kept(&self, what: Kept, key: &KeptKey, now: u64) -> Result<Option<String>, Error> {
        let sql = "SELECT body FROM kept WHERE kind = ? AND key = ? AND until > ?";
        self.run(|db| {
            let mut found = db.prepare_cached(sql)?;
            found.query_row(params![what.name(), key, now as i64], |row| row.get(0)).optional()
        })
    }

    /// Everything of a kind that is not over.
    pub fn all_kept(&self, what: Kept, now: u64) -> Result<Vec<(KeptKey, String)>, Error> {
        let sql = "SELECT key, body FROM kept WHERE kind = ? AND until > ?";
        let of = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        self.run(|db| db.prepare_cached(sql)?.query_map(params![what.name(), now as i64], of)?.collect())
    }

    /// Keeps something no longer.
    pub fn drop_kept(&self, what: Kept, key: &KeptKey) -> Result<(), Error> {
        let sql = "DELETE FROM kept WHERE kind = ? AND key = ?";
        self.run(|db| db.prepare_cached(sql)?.execute(params![what.name(), key]).map(drop))
    }
}

#[cfg(test)]
#[path = "kept_test.rs"]
mod tests;
