//! Severity of events and alerts, and the state of an alert.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Informational.
    #[default]
    Info,
    /// Requires attention soon.
    Warning,
    /// Requires immediate action.
    Critical,
}

impl Severity {
    /// Its number in the history.
    pub fn number(self) -> i64 {
        match self {
            Severity::Info => 0,
            Severity::Warning => 1,
            Severity::Critical => 2,
        }
    }

    /// Of a number in the history; the most severe for what is none.
    pub fn of(number: i64) -> Self {
        match number {
            0 => Severity::Info,
            1 => Severity::Warning,
            _ => Severity::Critical,
        }
    }
}

/// State of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlertState {
    /// Not acknowledged.
    Open,
    /// A user has acknowledged the alert.
    Acknowledged,
    /// The condition has ended, or a user has closed the alert.
    Closed,
}
