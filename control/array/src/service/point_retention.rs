//! Retention of points on a target: which are kept, which are locked, and which go.

use crate::service::schedules;
use crate::{Error, Result};
use block::DiskId;
use engine::Engine;
use jiff::tz::TimeZone;
use records::{ReplicationEntry, ReplicationMode, Rule};
use replication::Point;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of points that the retention of a target keeps.
pub(crate) const MAX_KEEP_POINTS: u32 = 1000;
/// Points under a retention lock at a time, about: with a longer lock not every point is locked.
const MAX_LOCKED_POINTS: u64 = 500;

/// A point as the target has it, by its own clock: what the source says of times decides nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub number: u64,
    /// When it was complete, in seconds since 1970.
    pub time: u64,
    /// Retention lock: it can't be deleted before this time, in seconds since 1970; zero if it was never locked.
    pub kept_until: u64,
    /// It was taken from snapshots of users.
    pub named: bool,
}

/// A point with what the engine knows of its snapshots.
pub(crate) fn received(engine: &Engine, point: &Point) -> Received {
    let disks = || point.volumes.iter().filter_map(|volume| engine.disk(DiskId(volume.snapshot)));
    Received {
        number: point.number,
        time: disks().map(|disk| disk.created).max().unwrap_or(0),
        kept_until: disks().map(|disk| disk.kept_until).max().unwrap_or(0),
        named: !point.snapshots.is_empty(),
    }
}

/// The points that nothing keeps, the oldest first. Kept are the newest ones, and the first of each of the newest periods of
/// each rule: so that a point is kept or not from its arrival on, and is the one that was locked then.
pub(crate) fn surplus(entry: &ReplicationEntry, points: &[Received], zone: &TimeZone) -> Vec<u64> {
    // Points of snapshots have a number of their own.
    let last = |named: bool, count: u32| {
        let those = points.iter().rev().filter(move |point| point.named == named);
        those.take(count.max(1) as usize).map(|point| point.number)
    };
    // The last point is that of the target alone after a session: the one before is the base of what follows.
    let min = if entry.mode == ReplicationMode::Sync { 2 } else { 1 };
    let mut kept: BTreeSet<u64> = last(false, entry.keep_points.max(min)).collect();
    kept.extend(last(true, entry.keep_snapshots));
    kept.extend(points.last().map(|point| point.number));
    for rule in &entry.keep_rules {
        let mut periods: BTreeMap<u64, u64> = BTreeMap::new();
        for point in points.iter().filter(|point| !point.named) {
            if let Some(end) = schedules::next_of(rule, point.time, zone) {
                periods.entry(end).or_insert(point.number);
            }
        }
        kept.extend(periods.into_values().rev().take(rule.keep as usize));
    }
    points.iter().map(|point| point.number).filter(|number| !kept.contains(number)).collect()
}

/// For how long a point that arrives now is locked, in seconds; zero if it is not. Locked points have a distance by which there
/// are never more than the engine can keep.
pub(crate) fn lock_of(entry: &ReplicationEntry, points: &[Received], now: u64) -> u64 {
    let distance = entry.lock_seconds / MAX_LOCKED_POINTS;
    let recent = |point: &Received| {
        point.kept_until > 0 && now.checked_sub(point.time).is_some_and(|age| age < distance)
    };
    if points.iter().any(recent) { 0 } else { entry.lock_seconds }
}

/// Refuses a retention that keeps too many points.
pub(crate) fn check(keep_points: u32, keep_snapshots: u32, rules: &[Rule]) -> Result<()> {
    if !(1..=MAX_KEEP_POINTS).contains(&keep_snapshots) {
        let message = format!("a target keeps 1 to {MAX_KEEP_POINTS} points of snapshots");
        return Err(Error::invalid(message).about("keep_snapshots"));
    }
    if !(1..=MAX_KEEP_POINTS).contains(&keep_points) {
        let message = format!("a target keeps 1 to {MAX_KEEP_POINTS} points");
        return Err(Error::invalid(message).about("keep_points"));
    }
    schedules::check_rules(rules, 0)?;
    let all = rules.iter().fold(keep_points, |all, rule| all.saturating_add(rule.keep));
    if all > MAX_KEEP_POINTS {
        let message = format!("a target keeps at most {MAX_KEEP_POINTS} points, over all rules");
        return Err(Error::invalid(message).about("keep_rules"));
    }
    Ok(())
}

#[cfg(test)]
#[path = "point_retention_test.rs"]
mod tests;
