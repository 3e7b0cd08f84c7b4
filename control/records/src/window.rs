//! Weekly windows: times of the week by the clock of the array's time zone.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Minutes of a day.
pub const DAY_MINUTES: u16 = 24 * 60;

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
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
    /// All days, from Monday.
    pub const ALL: [Self; 7] = [Self::Mon, Self::Tue, Self::Wed, Self::Thu, Self::Fri, Self::Sat, Self::Sun];
}

/// A weekly time window. It begins on each of its days, and ends on the next day if the end is not after the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Days on which the window begins.
    pub days: Vec<Weekday>,
    /// Start, in minutes after midnight.
    pub from: u16,
    /// End, in minutes after midnight.
    pub to: u16,
}

/// A limit that applies during a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitWindow {
    /// The window.
    pub window: Window,
    /// Limit in the window in bytes per second; `None` if unlimited.
    pub limit: Option<u64>,
}
