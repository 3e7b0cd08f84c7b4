//! Weekly windows as options: days and times, such as `mon-fri 08:00-18:00`.

use client::schemas::{BandwidthWindow, Weekday, WeeklyWindow};
use units::size;

/// The days as they follow each other.
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Days and times, such as `mon-fri 08:00-18:00`, `sat,sun 00:00-00:00` or `daily 22:00-06:00`.
pub fn window(text: &str) -> Result<WeeklyWindow, String> {
    let wrong = || {
        "write days and times, such as \"mon-fri 08:00-18:00\", \"sat,sun 00:00-00:00\" or \"daily 22:00-06:00\""
            .to_owned()
    };
    let parts = text.trim().split_once(' ');
    let (named, times) = parts.ok_or_else(wrong)?;
    let (from, to) = times.trim().split_once('-').ok_or_else(wrong)?;
    let days = days(&named.to_ascii_lowercase()).ok_or_else(wrong)?;
    Ok(WeeklyWindow { days, from: from.trim().into(), to: to.trim().into() })
}

/// A window with a limit, such as `mon-fri 08:00-18:00=10MiB`.
pub fn limited(text: &str) -> Result<BandwidthWindow, String> {
    let wrong = || "write days, times and a limit, such as \"mon-fri 08:00-18:00=10MiB\"".to_owned();
    let (when, most) = text.rsplit_once('=').ok_or_else(wrong)?;
    let WeeklyWindow { days, from, to } = window(when)?;
    let limit = match most.trim() {
        "none" => None,
        most => Some(size(most)?),
    };
    Ok(BandwidthWindow { days, from, to, limit })
}

fn days(text: &str) -> Option<Vec<Weekday>> {
    if text == "daily" {
        return DAYS.iter().map(|day| day.parse().ok()).collect();
    }
    let at = |day: &str| DAYS.iter().position(|known| *known == day);
    let mut found = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (at(first)?, at(last)?);
        let count = (last + DAYS.len() - first) % DAYS.len() + 1;
        found.extend((first..first + count).map(|day| DAYS[day % DAYS.len()]));
    }
    found.iter().map(|day| day.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

    use super::*;

    fn shown(text: &str) -> String {
        let WeeklyWindow { days, from, to } = window(text).unwrap();
        let days: Vec<_> = days.iter().map(ToString::to_string).collect();
        format!("{} {from} {to}", days.join(","))
    }

    #[test]
    fn days_are_ranges_and_lists() {
        assert_eq!(shown("mon-fri 08:00-18:00"), "mon,tue,wed,thu,fri 08:00 18:00");
        assert_eq!(shown("sat-mon,wed 0:00-00:00"), "sat,sun,mon,wed 0:00 00:00");
        assert_eq!(shown("Daily 22:00-06:00"), "mon,tue,wed,thu,fri,sat,sun 22:00 06:00");
        for wrong in ["", "mon", "08:00-18:00", "mon 08:00", "moon 08:00-18:00", "mon- 08:00-18:00"] {
            assert!(window(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_limit_follows_the_times() {
        assert_eq!(limited("mon 08:00-18:00=10MiB").unwrap().limit, Some(10 << 20));
        assert_eq!(limited("mon 08:00-18:00=none").unwrap().limit, None);
        assert!(limited("mon 08:00-18:00").is_err());
    }
}
