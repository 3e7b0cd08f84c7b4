//! Replication history: lag, transferred bytes and backlog of each replication, every half minute for a day, every half hour
//! for a year.

use crate::store::{Error, Store};
use rusqlite::params;

/// Seconds between two points, and their retention in seconds.
const TIERS: [(u64, u64); 2] = [(30, 86_400), (1800, 366 * 86_400)];
/// Maximum number of rows of a tier: with many replications the retention is shorter.
const MAX_ROWS: u64 = 3_000_000;

/// Measurements of a replication since the previous point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicationPoint {
    /// In seconds since 1970.
    pub time: u64,
    /// Number of covered seconds.
    pub seconds: u64,
    /// Maximum seconds since the newest complete point was taken; `None` if no next point is due.
    pub lag: Option<u64>,
    /// Bytes of changed data that were transferred.
    pub logical: u64,
    /// Bytes over the network.
    pub wire: u64,
    /// Maximum bytes that hosts wrote since the newest complete point was taken; `None` on the target.
    pub backlog: Option<u64>,
}

/// Interval of stored points, in seconds.
pub const REPLICATION_STEP_SECONDS: u64 = TIERS[0].0;

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Store {
    /// Adds measurements of replications, by identity, for the seconds until `time`.
    pub fn add_replications(&self, time: u64, points: &[(String, ReplicationPoint)]) -> Result<(), Error> {
        let sql = "INSERT INTO replicated (tier, subject, time, seconds, lag, logical, wire, backlog)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
                   seconds = seconds + excluded.seconds,
                   lag = coalesce(max(lag, excluded.lag), lag, excluded.lag),
                   logical = logical + excluded.logical, wire = wire + excluded.wire,
                   backlog = coalesce(max(backlog, excluded.backlog), backlog, excluded.backlog)";
        self.run(|db| {
            for (tier, (step, keep)) in (0i64..).zip(TIERS) {
                for (subject, it) in points {
                    db.prepare_cached(sql)?.execute(params![
                        tier,
                        subject,
                        number(time / step * step),
                        number(it.seconds),
                        it.lag.map(number),
                        number(it.logical),
                        number(it.wire),
                        it.backlog.map(number)
                    ])?;
                }
                let keep = keep.min(MAX_ROWS / (points.len() as u64).max(1) * step);
                db.prepare_cached("DELETE FROM replicated WHERE tier = ? AND time < ?")?
                    .execute(params![tier, number(time.saturating_sub(keep))])?;
            }
            Ok(())
        })?;
        self.note_series();
        Ok(())
    }

    /// About `points` points of a replication from `from` to `to`, ordered by time.
    pub fn replication(
        &self,
        subject: &str,
        (now, from, to): (u64, u64, u64),
        points: u64,
    ) -> Result<Vec<ReplicationPoint>, Error> {
        let length = to.saturating_sub(from).max(1);
        let fine = now.saturating_sub(from) <= TIERS[0].1;
        let (tier, step) = if fine { (0i64, TIERS[0].0) } else { (1, TIERS[1].0) };
        let width = length.div_ceil(points.max(1)).next_multiple_of(step);
        let sql = "SELECT min(time), sum(seconds), max(lag), sum(logical), sum(wire), max(backlog) FROM replicated
                   WHERE tier = ? AND subject = ? AND time >= ? AND time <= ? GROUP BY time / ? ORDER BY time";
        let of = |row: &rusqlite::Row<'_>| {
            let number = |at: usize| row.get::<_, i64>(at).map(|value| value.unsigned_abs());
            let perhaps = |at: usize| row.get::<_, Option<i64>>(at).map(|it| it.map(i64::unsigned_abs));
            Ok(ReplicationPoint {
                time: number(0)?,
                seconds: number(1)?,
                lag: perhaps(2)?,
                logical: number(3)?,
                wire: number(4)?,
                backlog: perhaps(5)?,
            })
        };
        self.run(|db| {
            let mut read = db.prepare_cached(sql)?;
            let (from, to, width) = (number(from), number(to), number(width));
            read.query_map(params![tier, subject, from, to, width], of)?.collect()
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

    use super::*;

    #[test]
    fn parts_have_the_worst_lag_and_the_sum_of_what_was_transferred() {
        let store = Store::in_memory();
        let begin = 20_000 * 86_400;
        for (step, time) in (begin..begin + 2 * 86_400).step_by(30).enumerate() {
            let lag = Some(step as u64 % 60);
            let point = ReplicationPoint {
                seconds: 30,
                lag,
                logical: 10,
                wire: 5,
                backlog: lag,
                ..Default::default()
            };
            let target = ReplicationPoint { lag: None, backlog: None, ..point };
            store.add_replications(time, &[("a".into(), point), ("b".into(), target)]).unwrap();
        }
        let now = begin + 2 * 86_400;
        let hour = store.replication("a", (now, now - 3600, now), 10_000).unwrap();
        assert_eq!((hour.len(), hour[0].time, hour[0].seconds), (120, now - 3600, 30));
        let parts = store.replication("a", (now, now - 7200, now), 4).unwrap();
        let part = ReplicationPoint {
            time: now - 7200,
            seconds: 1800,
            lag: Some(59),
            logical: 600,
            wire: 300,
            backlog: Some(59),
        };
        assert_eq!((parts.len(), parts[0]), (4, part));
        // Older times have half-hour points.
        let all = store.replication("a", (now, begin, now), 10_000).unwrap();
        assert_eq!((all.len(), all[0].seconds), (96, 1800));
        let target = store.replication("b", (now, begin, now), 1).unwrap();
        assert_eq!((target[0].lag, target[0].backlog), (None, None));
        assert_eq!(target[0].wire, 2 * 2880 * 5);
        assert!(store.replication("c", (now, begin, now), 1).unwrap().is_empty());
    }
}
