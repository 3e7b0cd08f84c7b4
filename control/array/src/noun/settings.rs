//! Settings of the array as a whole, and the work that it does periodically.

use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::request::verbs;
use crate::service::schedules;
use crate::shape::status::{ArrayStatus, BriefStatus, Settings};
use crate::{Error, Result};
use records::{Config, Edit, Record, ScheduleEntry, present};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use utoipa::ToSchema;

/// Longest time that the recycle bin keeps volumes, in seconds.
const MAX_BIN_SECONDS: u64 = 366 * 24 * 3600;
/// Shortest and longest time between two scrubs, in seconds.
const SCRUB_INTERVAL_SECONDS: RangeInclusive<u64> = 3600..=366 * 24 * 3600;

/// What the longest retention lock can be set to, in seconds.
const MAX_LOCK_SECONDS: RangeInclusive<u64> = 3600..=100 * 366 * 24 * 3600;

/// Threads for connections of hosts.
const THREADS: RangeInclusive<u16> = 1..=256;

/// Changes to array settings. Omitted fields keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettingsChange {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    pub name: Option<String>,
    /// Recycle bin retention in seconds; a year at most.
    pub recycle_bin_seconds: Option<u64>,
    /// UNMAP throttle level: 0 (off) to 9 (384 MiB per second); each level below 9 doubles the rate.
    #[schema(minimum = 0, maximum = 9)]
    pub unmap_throttle: Option<u8>,
    /// Interval between scrubs in seconds, an hour to a year; 0: no scheduled scrubs.
    pub scrub_every_seconds: Option<u64>,
    /// Longest time for which a retention lock can be set, in seconds, an hour to a hundred years. It is no less than what schedules
    /// and replications have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retention_lock_seconds: Option<u64>,
    /// Time zone of snapshot schedules: a name of the IANA database, such as `Europe/Berlin`. Runs that were due before the
    /// change are skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Threads for connections of hosts, 1 to 256, from the next start on; `null`: one for each processor.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u16>)]
    pub threads: Option<Option<u16>>,
}

verbs! {
    #![tag = "array"]

    /// Get the identity, state, portals and capacity of the array
    ShowArray {} -> ArrayStatus, Read "show" "array", Viewer, at GET "/array"
        => |tx, _| Ok(tx.array.status(&tx.array.config()));
    /// Get the state, health and capacity of the array in brief
    ///
    /// It costs the array little: this is the path to poll.
    ShowStatus {} -> BriefStatus, Read "show" "status", Viewer, at GET "/status"
        => |tx, _| Ok(tx.array.brief_status(&tx.array.config()));
    /// Get the array settings
    ShowSettings {} -> Settings, Read "show" "settings", Viewer, at GET "/settings"
        => |tx, _| Ok(tx.array.settings(&tx.array.config()));
    /// Change the array settings
    ChangeSettings { ; body change: SettingsChange } -> Settings, Change "change" "settings", Admin, at PATCH "/settings"
        => |tx, it| tx.change_settings(it.change).await;
}

/// Refuses a limit of retention locks that is none, or that what is configured exceeds.
fn check_max_lock(config: &Config, seconds: u64) -> Result<()> {
    let refused = |message: String| Err(Error::invalid(message).about("max_retention_lock_seconds"));
    if !MAX_LOCK_SECONDS.contains(&seconds) {
        return refused("the longest retention lock is an hour to a hundred years".into());
    }
    if let Some(schedule) = config.schedules.iter().find(|it| it.immutable > seconds) {
        return refused(format!(
            "schedule {:?} locks its snapshots for longer: change that first",
            schedule.name
        ));
    }
    if let Some(replication) = config.replications.iter().find(|it| it.lock_seconds > seconds) {
        return refused(format!(
            "replication {:?} locks its points for longer: change that first",
            replication.name
        ));
    }
    Ok(())
}

impl Transaction<'_> {
    pub async fn change_settings(&mut self, change: SettingsChange) -> Result<Settings> {
        let old = self.config().settings.clone();
        let mut new = old.clone();
        if let Some(name) = change.name {
            check::name("array", &name)?;
            new.name = Some(name);
        }
        if let Some(seconds) = change.recycle_bin_seconds {
            if seconds > MAX_BIN_SECONDS {
                return Err(Error::invalid("the recycle bin keeps volumes for a year at most"));
            }
            new.bin_seconds = seconds;
        }
        if let Some(level) = change.unmap_throttle {
            if level > export::MAX_UNMAP_THROTTLE_LEVEL {
                return Err(Error::invalid("the UNMAP throttle is a number from 0 (none) to 9 (most)"));
            }
            new.unmap_throttle = level;
        }
        if let Some(seconds) = change.scrub_every_seconds {
            if seconds != 0 && !SCRUB_INTERVAL_SECONDS.contains(&seconds) {
                return Err(Error::invalid(
                    "a scrub begins by itself every hour at most and every year at least, or never (0)",
                ));
            }
            new.scrub_seconds = seconds;
        }
        if let Some(seconds) = change.max_retention_lock_seconds {
            check_max_lock(&self.config(), seconds)?;
            new.max_lock_seconds = seconds;
        }
        if let Some(threads) = change.threads {
            if threads.is_some_and(|threads| !THREADS.contains(&threads)) {
                let message = format!("there are {} to {} threads", THREADS.start(), THREADS.end());
                return Err(Error::invalid(message).about("threads"));
            }
            new.threads = threads;
        }
        let mut edits = Vec::new();
        if let Some(name) = change.time_zone.filter(|name| *name != old.time_zone) {
            new.time_zone = schedules::zone(&name)?;
            // Runs in the old zone are over, and none in the new one was missed.
            let now = self.array.clock.schedule_now();
            let begin = |entry: &ScheduleEntry| {
                Edit::Put(Record::Schedule(ScheduleEntry {
                    handled_until: now.max(entry.handled_until),
                    ..entry.clone()
                }))
            };
            edits.extend(self.config().schedules.iter().map(begin));
        }
        if new != old {
            edits.push(Edit::Put(Record::Settings(new)));
            self.commit(edits).await?;
            if !self.is_rehearsal() {
                let message = format!("settings were changed by {}", self.caller.user);
                self.array.log_event(history::Severity::Info, "settings.changed", None, message);
            }
        }
        let config = self.config();
        Ok(self.array.settings(&config))
    }
}
