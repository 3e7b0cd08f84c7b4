#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;
use records::{RemoteArrayId, ReplicationId, ReplicationRole};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// A midnight.
const BEGIN: u64 = 1_794_960_000;

fn target(keep_points: u32, rules: &[(&str, u32)], lock_seconds: u64) -> ReplicationEntry {
    let rule = |(when, keep): &(&str, u32)| Rule { when: (*when).into(), keep: *keep };
    let entry = ReplicationEntry::new(
        ReplicationId(1),
        "prod".into(),
        BEGIN,
        RemoteArrayId(1),
        ReplicationRole::Target,
        60,
    );
    let keep_rules = rules.iter().map(rule).collect();
    ReplicationEntry { keep_points, keep_rules, lock_seconds, ..entry }
}

fn point(number: u64, time: u64) -> Received {
    Received { number, time, kept_until: 0, named: false }
}

/// Receives points one after the other, and drops what is not kept; returns the times that are left.
fn received(entry: &ReplicationEntry, times: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut points = Vec::new();
    for (number, time) in (1..).zip(times) {
        let lock = lock_of(entry, &points, time);
        let kept_until = if lock > 0 { time + lock } else { 0 };
        points.push(Received { kept_until, ..point(number, time) });
        let over = surplus(entry, &points, &TimeZone::UTC);
        points.retain(|it| !over.contains(&it.number) || it.kept_until > time);
    }
    points.iter().map(|it| it.time).collect()
}

#[test]
fn the_newest_points_are_kept_and_the_first_of_each_period() {
    // A point every half hour for four days, each a minute late.
    let times = || (0..4 * 48).map(|half| BEGIN + half * HOUR / 2 + 60);
    let last = BEGIN + 4 * DAY - HOUR / 2 + 60;
    assert_eq!(received(&target(2, &[], 0), times()), [last - HOUR / 2, last]);
    let daily = received(&target(1, &[("daily", 3)], 0), times());
    assert_eq!(daily, [BEGIN + DAY + 60, BEGIN + 2 * DAY + 60, BEGIN + 3 * DAY + 60, last]);
    let both = received(&target(1, &[("daily", 2), ("hourly", 2)], 0), times());
    let hours = [last - HOUR - HOUR / 2, last - HOUR / 2, last];
    assert_eq!(both, [&[BEGIN + 2 * DAY + 60, BEGIN + 3 * DAY + 60][..], &hours].concat());
}

#[test]
fn locked_points_are_kept_and_are_not_too_many() {
    // Locks of ten days, and a point every five minutes: a lock at least each half hour, and about 500 at most.
    let entry = target(1, &[], 10 * DAY);
    let times = (0..12 * 24 * 12).map(|step| BEGIN + step * 300);
    let left = received(&entry, times);
    assert!((480..=MAX_LOCKED_POINTS as usize + 2).contains(&left.len()), "{}", left.len());
    assert!(left.windows(2).all(|pair| pair[1] - pair[0] <= HOUR / 2), "{left:?}");
    // Rare points are all locked.
    let left = received(&entry, (0..10 * 24).map(|hour| BEGIN + hour * HOUR));
    assert_eq!(left.len(), 10 * 24);
    // A clock that was ahead does not keep points from being locked.
    let ahead = Received { kept_until: 1, ..point(1, BEGIN + 100 * DAY) };
    assert_eq!(lock_of(&entry, &[ahead], BEGIN), 10 * DAY);
}

#[test]
fn a_retention_has_bounds() {
    let rules = |keep| [Rule { when: "daily".into(), keep }];
    assert!(check(1, 1, &[]).is_ok() && check(1, 1, &rules(999)).is_ok());
    assert!(check(0, 1, &[]).is_err() && check(1001, 1, &[]).is_err() && check(2, 1, &rules(999)).is_err());
    assert!(check(1, 1, &rules(0)).is_err());
    assert!(check(1, 0, &[]).is_err() && check(1, 1001, &[]).is_err());
    assert!(check(1, 1, &[Rule { when: "sometimes".into(), keep: 1 }]).is_err());
}

#[test]
fn points_of_snapshots_are_kept_besides_the_others() {
    let mut entry = target(1, &[("hourly", 2)], 0);
    entry.keep_snapshots = 2;
    let named = |number: u64| Received { named: true, ..point(number, BEGIN + number * HOUR) };
    let plain = |number: u64| point(number, BEGIN + number * HOUR);
    let points = [named(1), plain(2), named(3), plain(4), named(5), plain(6), plain(7)];
    assert_eq!(surplus(&entry, &points, &TimeZone::UTC), [1, 2, 4]);
    // The newest one is what a failover takes.
    entry.keep_snapshots = 1;
    assert_eq!(surplus(&entry, &[plain(1), named(2)], &TimeZone::UTC), Vec::<u64>::new());
}
