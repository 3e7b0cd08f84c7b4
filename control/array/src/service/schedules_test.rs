#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;
use block::DiskId;
use records::{Stage, Subject};

/// 2026-11-18 11:06:40 UTC, a Wednesday.
const NOW: u64 = 1_795_000_000;
const HOUR: u64 = 3600;

fn rule(when: &str, keep: u32) -> Rule {
    Rule { when: when.into(), keep }
}

fn schedule(rules: Vec<Rule>) -> ScheduleEntry {
    let (id, name, subject) = (ScheduleId(1), "gold".into(), Subject::Volume(DiskId(1)));
    ScheduleEntry { id, name, created: NOW, subject, rules, immutable: 0, enabled: true, seen: NOW }
}

fn snapshot(number: u64, rules: &[&str]) -> SnapshotEntry {
    SnapshotEntry {
        id: DiskId(number.into()),
        name: format!("db1.{number}"),
        source: DiskId(1),
        created: NOW + number * HOUR,
        stage: Stage::Ready,
        set: number,
        binned: None,
        schedule: Some(ScheduleId(1)),
        rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
        order: 0,
        labels: records::Labels::default(),
    }
}

#[test]
fn words_and_cron_expressions_say_when() {
    let next = |when: &str| next_of(&rule(when, 1), NOW).map(records::utc).unwrap();
    assert_eq!(next("hourly"), "2026-11-18T12:00:00Z");
    assert_eq!(next("daily"), "2026-11-19T00:00:00Z");
    assert_eq!(next("weekly"), "2026-11-22T00:00:00Z");
    assert_eq!(next("monthly"), "2026-12-01T00:00:00Z");
    assert_eq!(next("*/10 9-17 * * 1-5"), "2026-11-18T11:10:00Z");
    assert_eq!(next_of(&rule("0 0 30 2 *", 1), NOW), None);
    for wrong in ["", "sometimes", "* * * *", "* * * * * *", "61 * * * *", "@daily"] {
        assert!(cron(&rule(wrong, 1)).is_err(), "{wrong}");
    }
}

#[test]
fn a_schedule_is_due_from_its_time_on_and_late_runs_are_one() {
    let it = schedule(vec![rule("hourly", 24), rule("daily", 7)]);
    let (noon, midnight) = (NOW - NOW % HOUR + HOUR, NOW - NOW % (24 * HOUR) + 24 * HOUR);
    assert!(due(&it, noon - 1).is_empty());
    assert_eq!(due(&it, noon), ["hourly"]);
    assert_eq!(due(&it, midnight + 5 * HOUR), ["hourly", "daily"]);
    assert_eq!(next_run(&ScheduleEntry { enabled: false, ..it }), None);
}

#[test]
fn a_snapshot_goes_when_no_rule_keeps_it() {
    let it = schedule(vec![rule("hourly", 2), rule("daily", 1)]);
    let all = [
        snapshot(1, &["hourly", "daily"]),
        snapshot(2, &["hourly"]),
        snapshot(3, &["hourly"]),
        snapshot(4, &["hourly"]),
        snapshot(0, &["every full moon"]),
        SnapshotEntry { schedule: None, ..snapshot(6, &[]) },
    ];
    let sets =
        |entry: &ScheduleEntry| expired(entry, all.iter()).into_iter().map(|it| it.set).collect::<Vec<_>>();
    assert_eq!(sets(&it), [2]);
    assert_eq!(sets(&schedule(vec![rule("hourly", 1), rule("daily", 1)])), [3, 2]);
    // What was taken for a rule that is gone stays.
    assert_eq!(sets(&schedule(vec![rule("hourly", 1)])), [3, 2]);
}
