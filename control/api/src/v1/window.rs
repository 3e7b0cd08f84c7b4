//! Weekly windows, as replications and remote arrays have them.

use crate::problem::Problem;
use array::DAY_MINUTES;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A day of the week.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Weekday {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

/// A weekly window, by the clock of the array's time zone.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WeeklyWindow {
    /// Days on which it begins.
    days: Vec<Weekday>,
    /// Time at which it begins, 00:00 to 23:59.
    #[schema(example = "22:00")]
    from: String,
    /// Time at which it ends: on the next day unless it is after the beginning.
    #[schema(example = "06:00")]
    to: String,
}

/// A weekly window with a bandwidth limit of its own.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BandwidthWindow {
    /// Days on which it begins.
    days: Vec<Weekday>,
    /// Time at which it begins, 00:00 to 23:59.
    #[schema(example = "08:00")]
    from: String,
    /// Time at which it ends: on the next day unless it is after the beginning.
    #[schema(example = "18:00")]
    to: String,
    /// Limit in bytes per second, at least 65536; `null`: no limit.
    #[schema(minimum = 65_536, extensions(("x-unit" = json!("bytes/s"))))]
    limit: Option<u64>,
}

/// Minutes after midnight as a clock shows them.
fn clock(minutes: u16) -> String {
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

fn minutes(text: &str) -> Result<u16, Problem> {
    let parts = text.split_once(':').filter(|(hours, minutes)| {
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        (1..=2).contains(&hours.len()) && minutes.len() == 2 && digits(hours) && digits(minutes)
    });
    let parsed =
        parts.and_then(|(hours, minutes)| Some((hours.parse::<u16>().ok()?, minutes.parse::<u16>().ok()?)));
    let found = parsed.filter(|(_, minutes)| *minutes < 60).map(|(hours, minutes)| hours * 60 + minutes);
    found.filter(|minutes| *minutes < DAY_MINUTES).ok_or_else(|| {
        array::Error::invalid(format!("{text:?} is no time of a day: write 00:00 to 23:59")).into()
    })
}

fn window(days: Vec<Weekday>, from: &str, to: &str) -> Result<array::Window, Problem> {
    let days = days.into_iter().map(array::Weekday::from).collect();
    Ok(array::Window { days, from: minutes(from)?, to: minutes(to)? })
}

/// Windows as the array takes them.
pub fn windows(windows: Vec<WeeklyWindow>) -> Result<Vec<array::Window>, Problem> {
    windows.into_iter().map(|it| window(it.days, &it.from, &it.to)).collect()
}

/// Limits as the array takes them.
pub fn limits(limits: Vec<BandwidthWindow>) -> Result<Vec<array::LimitWindow>, Problem> {
    let limit = |it: BandwidthWindow| {
        let window = window(it.days, &it.from, &it.to)?;
        Ok(array::LimitWindow { window, limit: it.limit })
    };
    limits.into_iter().map(limit).collect()
}

impl From<array::Window> for WeeklyWindow {
    fn from(it: array::Window) -> Self {
        let days = it.days.into_iter().map(Weekday::from).collect();
        Self { days, from: clock(it.from), to: clock(it.to) }
    }
}

impl From<array::LimitWindow> for BandwidthWindow {
    fn from(it: array::LimitWindow) -> Self {
        let WeeklyWindow { days, from, to } = it.window.into();
        Self { days, from, to, limit: it.limit }
    }
}

impl From<Weekday> for array::Weekday {
    fn from(day: Weekday) -> Self {
        match day {
            Weekday::Mon => Self::Mon,
            Weekday::Tue => Self::Tue,
            Weekday::Wed => Self::Wed,
            Weekday::Thu => Self::Thu,
            Weekday::Fri => Self::Fri,
            Weekday::Sat => Self::Sat,
            Weekday::Sun => Self::Sun,
        }
    }
}

impl From<array::Weekday> for Weekday {
    fn from(day: array::Weekday) -> Self {
        match day {
            array::Weekday::Mon => Self::Mon,
            array::Weekday::Tue => Self::Tue,
            array::Weekday::Wed => Self::Wed,
            array::Weekday::Thu => Self::Thu,
            array::Weekday::Fri => Self::Fri,
            array::Weekday::Sat => Self::Sat,
            array::Weekday::Sun => Self::Sun,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

    use super::*;

    #[test]
    fn times_are_those_of_a_clock() {
        assert_eq!(minutes("00:00").unwrap(), 0);
        assert_eq!(minutes("9:05").unwrap(), 545);
        assert_eq!(clock(minutes("23:59").unwrap()), "23:59");
        for wrong in ["", "24:00", "12:60", "12", "12:5", "+1:00", "1:+1", "012:00", "12:000", "99:99"] {
            assert!(minutes(wrong).is_err(), "{wrong}");
        }
    }
}
