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
    ScheduleEntry { id, name, created: NOW, subject, rules, immutable: 0, enabled: true, handled_until: NOW }
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
    let next = |when: &str| next_of(&rule(when, 1), NOW, &TimeZone::UTC).map(history::utc).unwrap();
    assert_eq!(next("hourly"), "2026-11-18T12:00:00Z");
    assert_eq!(next("daily"), "2026-11-19T00:00:00Z");
    assert_eq!(next("weekly"), "2026-11-22T00:00:00Z");
    assert_eq!(next("monthly"), "2026-12-01T00:00:00Z");
    assert_eq!(next("*/10 9-17 * * 1-5"), "2026-11-18T11:10:00Z");
    assert_eq!(next_of(&rule("0 0 30 2 *", 1), NOW, &TimeZone::UTC), None);
    for wrong in ["", "sometimes", "* * * *", "* * * * * *", "61 * * * *", "@daily"] {
        assert!(cron(&rule(wrong, 1)).is_err(), "{wrong}");
    }
}

/// All runs of a rule from one moment until before another.
fn runs(when: &str, zone_name: &str, [from, until]: [&str; 2]) -> Vec<String> {
    let seconds = |text: &str| text.parse::<Timestamp>().unwrap().as_second() as u64;
    let (zone, rule) = (TimeZone::get(zone_name).unwrap(), rule(when, 1));
    let next = |after: &u64| next_of(&rule, *after, &zone).filter(|next| *next < seconds(until));
    let all: Vec<u64> = std::iter::successors(next(&seconds(from)), next).collect();
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
    all.into_iter().map(history::utc).collect()
}

#[test]
fn a_daily_rule_runs_once_on_the_days_on_which_clocks_change() {
    // Berlin: on 2026-03-29 the clock goes from 02:00 to 03:00, at 01:00Z; on 2026-10-25 from 03:00 to 02:00, also at 01:00Z.
    let spring = ["2026-03-27T12:00:00Z", "2026-03-31T12:00:00Z"];
    let autumn = ["2026-10-23T12:00:00Z", "2026-10-27T12:00:00Z"];
    assert_eq!(
        runs("30 2 * * *", "Europe/Berlin", spring),
        ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"]
    );
    assert_eq!(
        runs("30 2 * * *", "Europe/Berlin", autumn),
        ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z", "2026-10-27T01:30:00Z"]
    );
    // New York: 2026-03-08 07:00Z and 2026-11-01 06:00Z; Lord Howe Island changes by half an hour.
    assert_eq!(
        runs("30 2 * * *", "America/New_York", ["2026-03-07T12:00:00Z", "2026-03-09T12:00:00Z"]),
        ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]
    );
    assert_eq!(
        runs("30 1 * * *", "America/New_York", ["2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z"]),
        ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]
    );
    assert_eq!(
        runs("15 2 * * *", "Australia/Lord_Howe", ["2026-10-03T00:00:00Z", "2026-10-05T00:00:00Z"]),
        ["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"]
    );
    // Without a change of the clock, midnight there is another moment than in UTC.
    assert_eq!(
        runs("daily", "Asia/Kolkata", ["2026-03-29T00:00:00Z", "2026-03-30T00:00:00Z"]),
        ["2026-03-29T18:30:00Z"]
    );
}

#[test]
fn an_hourly_rule_runs_every_hour_that_passes_when_clocks_change() {
    for (from, until) in
        [("2026-03-28T22:30:00Z", "2026-03-29T03:30:00Z"), ("2026-10-24T22:30:00Z", "2026-10-25T03:30:00Z")]
    {
        let hours = runs("hourly", "Europe/Berlin", [from, until]);
        assert_eq!(hours.len(), 5, "{hours:?}");
        assert!(hours.iter().all(|it| it.ends_with(":00:00Z")), "{hours:?}");
    }
}

#[test]
fn time_zones_are_those_of_the_iana_database() {
    assert_eq!(zone("europe/berlin").unwrap(), "Europe/Berlin");
    assert_eq!(zone("UTC").unwrap(), "UTC");
    for wrong in ["", "Europe/Atlantis", "+02:00", "../../etc/passwd", "CET-1CEST", "local"] {
        assert_eq!(zone(wrong).unwrap_err().field, Some("time_zone"), "{wrong}");
    }
    let unknown = Settings { time_zone: "Europe/Atlantis".into(), ..Settings::default() };
    assert_eq!(zone_of(&unknown), TimeZone::UTC);
}

#[test]
fn a_schedule_is_due_from_its_time_on_and_late_runs_are_one() {
    let it = schedule(vec![rule("hourly", 24), rule("daily", 7)]);
    let (noon, midnight) = (NOW - NOW % HOUR + HOUR, NOW - NOW % (24 * HOUR) + 24 * HOUR);
    let due = |now| due(&it, now, &TimeZone::UTC);
    assert!(due(noon - 1).is_empty());
    assert_eq!(due(noon), ["hourly"]);
    assert_eq!(due(midnight + 5 * HOUR), ["hourly", "daily"]);
    assert_eq!(next_run(&ScheduleEntry { enabled: false, ..it.clone() }, &TimeZone::UTC), None);
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
