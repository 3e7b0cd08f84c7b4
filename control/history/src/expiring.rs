//! Entries with an expiry time that survive restarts: sessions, and replies to idempotent requests. Keys are hashes;
//! the caller defines and seals the bodies.

use crate::store::{Error, Store};
use rusqlite::{OptionalExtension, Row, params};

/// Maximum number of entries of each kind; those with the earliest expiry are deleted first.
const MAX_ENTRIES: u32 = 1000;

/// Hash that identifies an entry.
pub type ExpiringKey = [u8; 32];

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiringKind {
    /// A session of a user.
    Session,
    /// The reply to a request that may be repeated (`Idempotency-Key`).
    Reply,
}

impl ExpiringKind {
    /// Name in the file.
    pub fn name(self) -> &'static str {
        match self {
            ExpiringKind::Session => "session",
            ExpiringKind::Reply => "answer",
        }
    }
}

impl Store {
    /// Stores an entry until its expiry, replacing one with the same key. Deletes expired entries.
    pub fn put_expiring(
        &self,
        kind: ExpiringKind,
        key: &ExpiringKey,
        until: u64,
        body: &str,
        now: u64,
    ) -> Result<(), Error> {
        self.run(|db| {
            let change = db.transaction()?;
            let sql = "INSERT INTO kept (kind, key, until, body) VALUES (?, ?, ?, ?)
                       ON CONFLICT (kind, key) DO UPDATE SET until = excluded.until, body = excluded.body";
            change.prepare_cached(sql)?.execute(params![kind.name(), key, until as i64, body])?;
            let sql = "DELETE FROM kept WHERE kind = ? AND until <= ?";
            change.prepare_cached(sql)?.execute(params![kind.name(), now as i64])?;
            let sql = "DELETE FROM kept WHERE kind = ?1 AND key IN
                       (SELECT key FROM kept WHERE kind = ?1 ORDER BY until DESC LIMIT -1 OFFSET ?2)";
            change.prepare_cached(sql)?.execute(params![kind.name(), MAX_ENTRIES])?;
            change.commit()
        })
    }

    /// The body of an unexpired entry.
    pub fn expiring(&self, kind: ExpiringKind, key: &ExpiringKey, now: u64) -> Result<Option<String>, Error> {
        let sql = "SELECT body FROM kept WHERE kind = ? AND key = ? AND until > ?";
        self.run(|db| {
            let mut found = db.prepare_cached(sql)?;
            found.query_row(params![kind.name(), key, now as i64], |row| row.get(0)).optional()
        })
    }

    /// All unexpired entries of a kind.
    pub fn all_expiring(&self, kind: ExpiringKind, now: u64) -> Result<Vec<(ExpiringKey, String)>, Error> {
        let sql = "SELECT key, body FROM kept WHERE kind = ? AND until > ?";
        let of = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        self.run(|db| db.prepare_cached(sql)?.query_map(params![kind.name(), now as i64], of)?.collect())
    }

    /// Deletes an entry.
    pub fn remove_expiring(&self, kind: ExpiringKind, key: &ExpiringKey) -> Result<(), Error> {
        let sql = "DELETE FROM kept WHERE kind = ? AND key = ?";
        self.run(|db| db.prepare_cached(sql)?.execute(params![kind.name(), key]).map(drop))
    }
}

#[cfg(test)]
#[path = "expiring_test.rs"]
mod tests;
