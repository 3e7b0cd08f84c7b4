//! Weekly windows: times of the week by the clock of the array's time zone.

use serde::{Deserialize, Serialize};

/// Minutes of a day by the clock.
pub const DAY_MINUTES: u16 = 24 * 60;

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weekday {
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday.
    Sat,
    /// Sunday.
    Sun,
}

impl Weekday {
    /// All of them, as a week begins.
    pub const ALL: [Self; 7] = [Self::Mon, Self::Tue, Self::Wed, Self::Thu, Self::Fri, Self::Sat, Self::Sun];
}

/// A time of the week. It begins on each of its days, and ends on the next one if the end is not after the beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The days on which it begins.
    pub days: Vec<Weekday>,
    /// When it begins, in minutes after midnight.
    pub from: u16,
    /// When it ends, in minutes after midnight.
    pub to: u16,
}

/// A limit that applies during a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitWindow {
    /// When.
    pub window: Window,
    /// Bytes per second in the window; none if it has no limit.
    pub limit: Option<u64>,
}
