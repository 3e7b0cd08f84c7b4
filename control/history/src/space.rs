//! Capacity history: every ten seconds for a day, every five minutes for a year.

use crate::store::{Error, Store};
use rusqlite::params;

/// Seconds between two points, and their retention in seconds.
const TIERS: [(u64, u64); 2] = [(10, 86_400), (300, 366 * 86_400)];

/// Capacity figures in bytes at one time; docs/glossary.md defines them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpacePoint {
    /// Time in seconds since 1970.
    pub time: u64,
    /// Sum of the volumes' sizes.
    pub provisioned: u64,
    /// Bytes mapped by hosts.
    pub mapped: u64,
    /// Distinct blocks of the mapped data.
    pub unique: u64,
    /// Bytes in use on the drives.
    pub physical: u64,
    /// Bytes in use by metadata.
    pub metadata: u64,
    /// Usable bytes on the drives.
    pub total: u64,
}

impl Store {
    /// Stores a point unless there is one for the same time.
    pub fn add_space(&self, point: &SpacePoint) -> Result<(), Error> {
        let SpacePoint { time, provisioned, mapped, unique, physical, metadata, total } = *point;
        let sql = "INSERT OR IGNORE INTO space
                   (tier, time, provisioned, mapped, stored, physical, metadata, total) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
        self.run(|db| {
            for (tier, (step, keep)) in (0i64..).zip(TIERS) {
                let at = (time / step * step) as i64;
                let numbers = [provisioned, mapped, unique, physical, metadata, total].map(|it| it as i64);
                let [provisioned, mapped, unique, physical, metadata, total] = numbers;
                db.prepare_cached(sql)?.execute(params![
                    tier,
                    at,
                    provisioned,
                    mapped,
                    unique,
                    physical,
                    metadata,
                    total
                ])?;
                let old = time.saturating_sub(keep) as i64;
                db.prepare_cached("DELETE FROM space WHERE tier = ? AND time < ?")?
                    .execute(params![tier, old])?;
            }
            Ok(())
        })?;
        self.note_series();
        Ok(())
    }

    /// Time of the newest point.
    pub fn latest_space(&self) -> Result<Option<u64>, Error> {
        let sql = "SELECT max(time) FROM space WHERE tier = 0";
        let latest =
            self.run(|db| db.prepare_cached(sql)?.query_row([], |row| row.get::<_, Option<i64>>(0)))?;
        Ok(latest.map(|time| time as u64))
    }

    /// About `points` points from `from` to `to`, ordered by time.
    pub fn space(&self, now: u64, from: u64, to: u64, points: u64) -> Result<Vec<SpacePoint>, Error> {
        let length = to.saturating_sub(from).max(1);
        let fine = now.saturating_sub(from) <= TIERS[0].1;
        let (tier, step) = if fine { (0i64, TIERS[0].0) } else { (1, TIERS[1].0) };
        let width = length.div_ceil(points.max(1)).next_multiple_of(step);
        // Each part is represented by its last point.
        let sql = "SELECT max(time), provisioned, mapped, stored, physical, metadata, total FROM space
                   WHERE tier = ? AND time >= ? AND time <= ? GROUP BY time / ? ORDER BY time";
        let of = |row: &rusqlite::Row<'_>| {
            let number = |at: usize| row.get::<_, i64>(at).map(|value| value as u64);
            Ok(SpacePoint {
                time: number(0)?,
                provisioned: number(1)?,
                mapped: number(2)?,
                unique: number(3)?,
                physical: number(4)?,
                metadata: number(5)?,
                total: number(6)?,
            })
        };
        self.run(|db| {
            let mut read = db.prepare_cached(sql)?;
            read.query_map(params![tier, from as i64, to as i64, width as i64], of)?.collect()
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

    use super::*;

    #[test]
    fn a_day_has_fine_points_and_longer_periods_coarse_ones() {
        let store = Store::in_memory();
        let day = 86_400;
        let begin = 20_000 * day;
        for time in (begin..begin + 2 * day).step_by(10) {
            let point = SpacePoint { time, mapped: time - begin, ..SpacePoint::default() };
            store.add_space(&point).unwrap();
        }
        let now = begin + 2 * day;
        let hour = store.space(now, now - 3600, now, 10_000).unwrap();
        assert_eq!((hour.len(), hour[0].time), (360, now - 3600));
        let all = store.space(now, 0, now, u64::MAX).unwrap();
        assert_eq!(all.len(), 2 * 288);
        let few = store.space(now, begin, now, 10).unwrap();
        assert!((10..=11).contains(&few.len()) && few.is_sorted_by_key(|point| point.mapped));
    }
}
