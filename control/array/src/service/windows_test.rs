#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;

fn window(days: &[Weekday], from: (u16, u16), to: (u16, u16)) -> Window {
    Window { days: days.to_vec(), from: from.0 * 60 + from.1, to: to.0 * 60 + to.1 }
}

fn seconds(text: &str) -> u64 {
    u64::try_from(text.parse::<Timestamp>().unwrap().as_second()).unwrap()
}

/// When the windows that are open at a time have closed.
fn until(windows: &[Window], now: &str, zone: &str) -> Option<String> {
    open_until(windows, seconds(now), &TimeZone::get(zone).unwrap()).map(history::utc)
}

/// Looks at every minute: when windows open, and when they close.
fn changes(windows: &[Window], zone_name: &str, [from, to]: [&str; 2]) -> Vec<(String, bool)> {
    let zone = TimeZone::get(zone_name).unwrap();
    let mut changes = Vec::new();
    let mut open = open_until(windows, seconds(from) - 60, &zone).is_some();
    for now in (seconds(from)..seconds(to)).step_by(60) {
        let end = open_until(windows, now, &zone);
        assert!(end.is_none_or(|end| end > now && open_until(windows, end, &zone).is_none()));
        if end.is_some() != open {
            open = !open;
            changes.push((history::utc(now), open));
        }
    }
    changes
}

fn expected(changes: &[(&str, bool)]) -> Vec<(String, bool)> {
    changes.iter().map(|(time, open)| ((*time).to_owned(), *open)).collect()
}

#[test]
fn a_window_is_open_on_its_days_by_the_clock_of_the_zone() {
    use Weekday::*;
    let work = [window(&[Mon, Tue, Wed, Thu, Fri], (8, 0), (18, 30))];
    // 2026-11-20 is a Friday; New York has UTC minus five hours.
    let found = changes(&work, "America/New_York", ["2026-11-20T00:00:00Z", "2026-11-24T00:00:00Z"]);
    let wanted = [
        ("2026-11-20T13:00:00Z", true),
        ("2026-11-20T23:30:00Z", false),
        ("2026-11-23T13:00:00Z", true),
        ("2026-11-23T23:30:00Z", false),
    ];
    assert_eq!(found, expected(&wanted));
}

#[test]
fn a_window_over_midnight_belongs_to_the_day_on_which_it_begins() {
    use Weekday::*;
    let night = [window(&[Sun], (22, 0), (6, 0))];
    let found = changes(&night, "UTC", ["2026-11-20T00:00:00Z", "2026-11-27T00:00:00Z"]);
    assert_eq!(found, expected(&[("2026-11-22T22:00:00Z", true), ("2026-11-23T06:00:00Z", false)]));
    assert_eq!(until(&night, "2026-11-23T05:59:59Z", "UTC").as_deref(), Some("2026-11-23T06:00:00Z"));
    // The end is not after the beginning: a whole day.
    let day = [window(&[Sat], (0, 0), (0, 0))];
    let found = changes(&day, "UTC", ["2026-11-20T00:00:00Z", "2026-11-27T00:00:00Z"]);
    assert_eq!(found, expected(&[("2026-11-21T00:00:00Z", true), ("2026-11-22T00:00:00Z", false)]));
}

#[test]
fn windows_that_follow_each_other_close_with_the_last() {
    use Weekday::*;
    let joined = [
        window(&[Fri], (18, 0), (0, 0)),
        window(&[Sat, Sun], (0, 0), (0, 0)),
        window(&[Sun], (20, 0), (7, 0)),
        window(&[Tue], (1, 0), (2, 0)),
    ];
    let end = until(&joined, "2026-11-20T18:00:00Z", "UTC");
    assert_eq!(end.as_deref(), Some("2026-11-23T07:00:00Z"));
    assert_eq!(until(&joined, "2026-11-23T07:00:00Z", "UTC"), None);
}

#[test]
fn a_time_that_the_clock_skips_is_the_moment_at_which_it_is_set() {
    use Weekday::*;
    // In Berlin the clock goes from 2:00 to 3:00 at 01:00 UTC of 2026-03-29, a Sunday.
    let day = ["2026-03-29T00:00:00Z", "2026-03-30T00:00:00Z"];
    let zone = "Europe/Berlin";
    let found = changes(&[window(&[Sun], (2, 30), (4, 0))], zone, day);
    assert_eq!(found, expected(&[("2026-03-29T01:00:00Z", true), ("2026-03-29T02:00:00Z", false)]));
    let found = changes(&[window(&[Sun], (1, 30), (2, 30))], zone, day);
    assert_eq!(found, expected(&[("2026-03-29T00:30:00Z", true), ("2026-03-29T01:00:00Z", false)]));
    assert_eq!(changes(&[window(&[Sun], (2, 10), (2, 50))], zone, day), Vec::new());
    // Over the change, a night is an hour shorter.
    let found = changes(&[window(&[Sat], (22, 0), (6, 0))], zone, ["2026-03-28T00:00:00Z", day[1]]);
    assert_eq!(found, expected(&[("2026-03-28T21:00:00Z", true), ("2026-03-29T04:00:00Z", false)]));
}

#[test]
fn of_a_time_that_the_clock_shows_twice_the_first_counts() {
    use Weekday::*;
    // In Berlin the clock goes from 3:00 to 2:00 at 01:00 UTC of 2026-10-25, a Sunday.
    let day = ["2026-10-24T23:00:00Z", "2026-10-26T00:00:00Z"];
    let zone = "Europe/Berlin";
    let found = changes(&[window(&[Sun], (2, 0), (2, 30))], zone, day);
    assert_eq!(found, expected(&[("2026-10-25T00:00:00Z", true), ("2026-10-25T00:30:00Z", false)]));
    // An hour longer than by the clock.
    let found = changes(&[window(&[Sun], (2, 30), (3, 0))], zone, day);
    assert_eq!(found, expected(&[("2026-10-25T00:30:00Z", true), ("2026-10-25T02:00:00Z", false)]));
}

#[test]
fn the_limit_of_the_open_window_applies_and_the_plain_one_the_rest_of_the_time() {
    use Weekday::*;
    let windows = |bandwidth_windows| RemoteArrayEntry {
        id: records::RemoteArrayId(1),
        name: "dr".into(),
        created: 0,
        serial: "b".into(),
        address: None,
        bandwidth_limit: Some(1_000_000),
        bandwidth_windows,
        fingerprint: String::new(),
        secret: records::Sealed::of_text("AAAA".into()),
    };
    let remote = windows(vec![
        LimitWindow { window: window(&[Mon], (22, 0), (6, 0)), limit: None },
        LimitWindow { window: window(&[Tue], (6, 0), (7, 0)), limit: Some(5) },
    ]);
    let at = |time: &str| limit_at(&remote, seconds(time), &TimeZone::UTC);
    assert_eq!(at("2026-11-23T21:59:59Z"), Some(1_000_000));
    assert_eq!(at("2026-11-24T05:59:59Z"), None);
    assert_eq!(at("2026-11-24T06:00:00Z"), Some(5));
    assert_eq!(at("2026-11-24T07:00:00Z"), Some(1_000_000));
}

#[test]
fn windows_that_make_no_sense_are_refused() {
    use Weekday::*;
    let whole = window(&Weekday::ALL, (0, 0), (0, 0));
    let night = window(&Weekday::ALL, (20, 0), (8, 0));
    let day = window(&Weekday::ALL, (8, 0), (20, 0));
    assert!(check_blackouts(&[]).is_ok());
    assert!(check_blackouts(&[night.clone(), night.clone()]).is_ok(), "blackouts may overlap");
    for wrong in [
        vec![whole],
        vec![night.clone(), day.clone()],
        vec![window(&[], (1, 0), (2, 0))],
        vec![window(&[Mon, Mon], (1, 0), (2, 0))],
        vec![window(&[Mon], (24, 0), (2, 0))],
        vec![window(&[Mon], (1, 0), (2, 0)); MAX_WINDOWS + 1],
    ] {
        assert!(check_blackouts(&wrong).is_err(), "{wrong:?}");
    }
    let limits = |windows: &[&Window]| {
        let limited = windows.iter().map(|it| LimitWindow { window: (*it).clone(), limit: None });
        limited.collect::<Vec<_>>()
    };
    assert!(check_limits(&limits(&[&night, &day])).is_ok());
    assert!(check_limits(&limits(&[&night, &window(&[Mon], (7, 0), (9, 0))])).is_err());
}
