//! Weekly windows as operators see them: with the time of a clock, where records have minutes.

use crate::{Error, Result};
use records::{DAY_MINUTES, LimitWindow, Weekday, Window};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

/// A weekly window, by the clock of the array's time zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WeeklyWindow {
    /// Days on which it begins.
    pub days: Vec<Weekday>,
    /// Time at which it begins, 00:00 to 23:59.
    #[schema(example = "22:00")]
    pub from: String,
    /// Time at which it ends: on the next day unless it is after the beginning.
    #[schema(example = "06:00")]
    pub to: String,
}

/// A weekly window with a bandwidth limit of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BandwidthWindow {
    /// Days on which it begins.
    pub days: Vec<Weekday>,
    /// Time at which it begins, 00:00 to 23:59.
    #[schema(example = "08:00")]
    pub from: String,
    /// Time at which it ends: on the next day unless it is after the beginning.
    #[schema(example = "18:00")]
    pub to: String,
    /// Limit in bytes per second, at least 65536; `null`: no limit.
    #[schema(minimum = 65_536, extensions(("x-unit" = json!("bytes/s"))))]
    pub limit: Option<u64>,
}

/// Minutes after midnight as a clock shows them.
fn clock(minutes: u16) -> String {
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

fn minutes(text: &str) -> Result<u16> {
    let parts = text.split_once(':').filter(|(hours, minutes)| {
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        (1..=2).contains(&hours.len()) && minutes.len() == 2 && digits(hours) && digits(minutes)
    });
    let parsed =
        parts.and_then(|(hours, minutes)| Some((hours.parse::<u16>().ok()?, minutes.parse::<u16>().ok()?)));
    let found = parsed.filter(|(_, minutes)| *minutes < 60).map(|(hours, minutes)| hours * 60 + minutes);
    found
        .filter(|minutes| *minutes < DAY_MINUTES)
        .ok_or_else(|| Error::invalid(format!("{text:?} is no time of a day: write 00:00 to 23:59")))
}

impl WeeklyWindow {
    /// As it is recorded.
    ///
    /// # Errors
    /// When a time is none of a day.
    pub fn window(&self) -> Result<Window> {
        Ok(Window { days: self.days.clone(), from: minutes(&self.from)?, to: minutes(&self.to)? })
    }
}

impl BandwidthWindow {
    /// As it is recorded.
    ///
    /// # Errors
    /// When a time is none of a day.
    pub fn limit(&self) -> Result<LimitWindow> {
        let window = Window { days: self.days.clone(), from: minutes(&self.from)?, to: minutes(&self.to)? };
        Ok(LimitWindow { window, limit: self.limit })
    }
}

/// Serializes recorded limits.
pub(crate) fn limits<S: Serializer>(
    limits: &[LimitWindow],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_seq(limits.iter().cloned().map(BandwidthWindow::from))
}

impl From<Window> for WeeklyWindow {
    fn from(it: Window) -> Self {
        Self { days: it.days, from: clock(it.from), to: clock(it.to) }
    }
}

impl From<LimitWindow> for BandwidthWindow {
    fn from(it: LimitWindow) -> Self {
        let WeeklyWindow { days, from, to } = it.window.into();
        Self { days, from, to, limit: it.limit }
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
