//! Records of snapshot schedules.

use crate::id::{GroupId, ScheduleId};
use crate::stored::stored_list;
use crate::table::Named;
use block::DiskId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A schedule rule: when to take a snapshot, and how many to retain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// `hourly`, `daily`, `weekly`, `monthly`, `yearly`, or a cron expression of five fields: minute, hour, day, month,
    /// day of week. In the time zone of the array.
    #[schema(example = "hourly")]
    pub when: String,
    /// Number of snapshots to retain; older ones are eradicated.
    #[schema(minimum = 1, maximum = 10_000)]
    pub keep: u32,
}

/// Subject of a schedule: a volume or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// One volume.
    Volume(#[serde(with = "crate::id::disk")] DiskId),
    /// All volumes of a group, at one moment.
    Group(GroupId),
}

/// Configuration of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleEntry {
    /// Identity.
    pub id: ScheduleId,
    /// Name.
    pub name: String,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// Subject of the schedule.
    pub subject: Subject,
    /// Time rules, with the numbers of snapshots to keep.
    #[serde(deserialize_with = "stored_list")]
    pub rules: Vec<Rule>,
    /// Minimum age in seconds at which a snapshot can be deleted.
    #[serde(default)]
    pub immutable: u64,
    /// Whether the schedule takes snapshots.
    pub enabled: bool,
    /// Runs due by then have been handled, in seconds since 1970.
    #[serde(rename = "seen")]
    pub handled_until: u64,
}

impl Named for ScheduleEntry {
    type Id = ScheduleId;
    const NOUN: &'static str = "schedule";

    fn id(&self) -> ScheduleId {
        self.id
    }

    fn label(&self) -> &str {
        &self.name
    }
}
