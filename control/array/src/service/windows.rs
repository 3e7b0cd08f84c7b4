//! Weekly windows: whether one is open, and until when, by the clock of a time zone.
//!
//! A window opens and closes when the clock shows its times for the first time on a day. A time that the clock skips when it is
//! set forward is the moment at which it is set. So a window is one interval, whatever the clock does during it.

use crate::{Error, Result};
use jiff::civil::{Date, Time, Weekday as Day};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};
use records::{DAY_MINUTES, LimitWindow, RemoteArrayEntry, Weekday, Window};

/// Maximum number of windows of one object.
const MAX_WINDOWS: usize = 16;
const WEEK_MINUTES: usize = 7 * DAY_MINUTES as usize;
/// Windows that follow each other without a pause are looked through no further: they leave a pause in each week.
const MAX_JOINED: usize = 8 * MAX_WINDOWS;

/// When a window on a day opens and closes. Both are one moment if the clock skips all of it.
fn interval(window: &Window, day: Date, zone: &TimeZone) -> Option<(u64, u64)> {
    let last = match window.to > window.from {
        true => day,
        false => day.checked_add(1.day()).ok()?,
    };
    let (opens, closes) = (moment(day, window.from, zone)?, moment(last, window.to, zone)?);
    Some((opens, closes.max(opens)))
}

/// When the clock shows a time of a day first, in seconds since 1970.
fn moment(day: Date, minutes: u16, zone: &TimeZone) -> Option<u64> {
    let time = Time::new((minutes / 60).try_into().ok()?, (minutes % 60).try_into().ok()?, 0, 0).ok()?;
    let shown = zone.to_ambiguous_timestamp(day.to_datetime(time));
    let first = match shown.offset() {
        AmbiguousOffset::Gap { .. } => zone.following(shown.earlier().ok()?).next()?.timestamp(),
        _ => shown.earlier().ok()?,
    };
    u64::try_from(first.as_second()).ok()
}

fn day_of(day: Day) -> Weekday {
    Weekday::ALL[day.to_monday_zero_offset().unsigned_abs() as usize]
}

/// When a window that is open at a time closes, in seconds since 1970; `None` if it is not open.
fn closes(window: &Window, now: u64, zone: &TimeZone) -> Option<u64> {
    let today = Timestamp::from_second(i64::try_from(now).ok()?).ok()?.to_zoned(zone.clone()).date();
    let days = [today.checked_sub(1.day()).ok(), Some(today)].into_iter().flatten();
    let days = days.filter(|day| window.days.contains(&day_of(day.weekday())));
    let intervals = days.filter_map(|day| interval(window, day, zone));
    intervals.filter(|(opens, closes)| (*opens..*closes).contains(&now)).map(|(_, closes)| closes).max()
}

/// When the windows that are open at a time, and those that follow without a pause, have closed; `None` if none is open.
pub(crate) fn open_until(windows: &[Window], now: u64, zone: &TimeZone) -> Option<u64> {
    let next = |time: &u64| windows.iter().filter_map(|window| closes(window, *time, zone)).max();
    std::iter::successors(next(&now), next).take(MAX_JOINED).last()
}

/// The limit of what is sent to a remote array at a time, in bytes per second; `None` if there is none.
pub(crate) fn limit_at(remote: &RemoteArrayEntry, now: u64, zone: &TimeZone) -> Option<u64> {
    let open = remote.bandwidth_windows.iter().find(|it| closes(&it.window, now, zone).is_some());
    open.map_or(remote.bandwidth_limit, |it| it.limit)
}

/// Minutes of the week that each window covers, by the clock.
fn covered(windows: &[Window]) -> [u8; WEEK_MINUTES] {
    let mut week = [0_u8; WEEK_MINUTES];
    for window in windows {
        let length = match window.to > window.from {
            true => window.to - window.from,
            false => DAY_MINUTES + window.to - window.from,
        };
        for day in &window.days {
            let from = *day as usize * DAY_MINUTES as usize + usize::from(window.from);
            for minute in from..from + usize::from(length) {
                let count = &mut week[minute % WEEK_MINUTES];
                *count = count.saturating_add(1);
            }
        }
    }
    week
}

fn check_each(windows: &[Window], field: &'static str) -> Result<()> {
    if windows.len() > MAX_WINDOWS {
        return Err(Error::invalid(format!("there are at most {MAX_WINDOWS} windows")).about(field));
    }
    for window in windows {
        let twice = window.days.iter().enumerate().any(|(at, day)| window.days[..at].contains(day));
        if window.days.is_empty() || twice || window.from >= DAY_MINUTES || window.to >= DAY_MINUTES {
            return Err(Error::invalid(
                "a window has one or more days, each once, and begins and ends between 00:00 and 23:59",
            )
            .about(field));
        }
    }
    Ok(())
}

/// Refuses windows that leave no time.
pub(crate) fn check_blackouts(windows: &[Window]) -> Result<()> {
    check_each(windows, "blackouts")?;
    match covered(windows).contains(&0) {
        true => Ok(()),
        false => Err(Error::invalid(
            "the windows cover the whole week, so that nothing would be transferred: leave some time, or pause the \
             replication",
        )
        .about("blackouts")),
    }
}

/// Refuses windows that overlap: which limit applies would not be clear.
pub(crate) fn check_limits(limits: &[LimitWindow]) -> Result<()> {
    let windows: Vec<_> = limits.iter().map(|it| it.window.clone()).collect();
    check_each(&windows, "bandwidth_windows")?;
    match covered(&windows).iter().all(|count| *count <= 1) {
        true => Ok(()),
        false => {
            Err(Error::invalid("the windows overlap: one limit applies at a time").about("bandwidth_windows"))
        }
    }
}

#[cfg(test)]
#[path = "windows_test.rs"]
mod tests;
