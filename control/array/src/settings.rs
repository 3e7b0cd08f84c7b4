//! Settings of the array as a whole, and the work that it does periodically.

use crate::request::verbs;
use crate::service::schedules;
use crate::transaction::Transaction;
use crate::view::{ArrayStatus, BriefStatus, Settings};
use crate::{Error, Result, check};
use records::{Config, Edit, Record, ScheduleEntry};
use serde::Serialize;
use std::ops::RangeInclusive;

/// Longest time that the recycle bin keeps volumes, in seconds.
const MAX_BIN_SECONDS: u64 = 366 * 24 * 3600;
/// Shortest and longest time between two scrubs, in seconds.
const SCRUB_INTERVAL_SECONDS: RangeInclusive<u64> = 3600..=366 * 24 * 3600;

/// What the longest retention lock can be set to, in seconds.
const MAX_LOCK_SECONDS: RangeInclusive<u64> = 3600..=100 * 366 * 24 * 3600;

/// Threads for connections of hosts.
const THREADS: RangeInclusive<u16> = 1..=256;

/// The array's state and space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowArray;

/// The array's state in few figures that cost little: for programs that ask again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowStatus;

/// Settings of the array as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowSettings;

/// Change the settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeSettings(pub SettingsChange);

/// What to set for the array as a whole; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SettingsChange {
    /// What people call the array.
    pub name: Option<String>,
    /// How long the recycle bin keeps a volume, in seconds.
    pub bin_seconds: Option<u64>,
    /// How much UNMAP is slowed down: 0 not at all, 9 most.
    pub unmap_throttle: Option<u8>,
    /// How long after a scrub has ended the next one begins by itself, in seconds, an hour to a year; 0: never.
    pub scrub_seconds: Option<u64>,
    /// The time zone of schedules, by its name in the IANA database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Longest time for which a retention lock can be set, in seconds, an hour to a hundred years.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lock_seconds: Option<u64>,
    /// Threads for connections of hosts, or one for each processor; from the next start on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<Option<u16>>,
}

verbs! {
    ShowArray -> ArrayStatus, Read "show" "array", Viewer
        => |tx, _| Ok(tx.array.status(&tx.array.config()));
    ShowStatus -> BriefStatus, Read "show" "status", Viewer
        => |tx, _| Ok(tx.array.brief_status(&tx.array.config()));
    ShowSettings -> Settings, Read "show" "settings", Viewer
        => |tx, _| Ok(tx.array.settings(&tx.array.config()));
    ChangeSettings -> Settings, Change "change" "settings", Admin
        => |tx, it| tx.change_settings(it.0).await;
}

/// Refuses a limit of retention locks that is none, or that what is configured exceeds.
fn check_max_lock(config: &Config, seconds: u64) -> Result<()> {
    let refused = |message: String| Err(Error::invalid(message).about("max_lock_seconds"));
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
        let old = self.array.config().settings.clone();
        let mut new = old.clone();
        if let Some(name) = change.name {
            check::name("array", &name)?;
            new.name = Some(name);
        }
        if let Some(seconds) = change.bin_seconds {
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
        if let Some(seconds) = change.scrub_seconds {
            if seconds != 0 && !SCRUB_INTERVAL_SECONDS.contains(&seconds) {
                return Err(Error::invalid(
                    "a scrub begins by itself every hour at most and every year at least, or never (0)",
                ));
            }
            new.scrub_seconds = seconds;
        }
        if let Some(seconds) = change.max_lock_seconds {
            check_max_lock(&self.array.config(), seconds)?;
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
            edits.extend(self.array.config().schedules.iter().map(begin));
        }
        if new != old {
            edits.push(Edit::Put(Record::Settings(new)));
            self.commit(edits).await?;
            let message = format!("settings were changed by {}", self.caller.user);
            self.array.log_event(history::Severity::Info, "settings.changed", None, message);
        }
        let config = self.array.config();
        Ok(self.array.settings(&config))
    }
}
