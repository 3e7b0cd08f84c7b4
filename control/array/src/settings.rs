//! What is set for the array as a whole, and what it does by itself as time goes by.

use crate::action::{Outcome, SettingsChange};
use crate::array::{Array, Change};
use crate::{Error, Result, check};
use records::{Edit, Record};
use std::ops::RangeInclusive;

/// Longest time that the recycle bin keeps volumes, in seconds.
const MAX_BIN: u64 = 366 * 24 * 3600;
/// Shortest and longest time between two scrubs, in seconds.
const SCRUB_EVERY: RangeInclusive<u64> = 3600..=366 * 24 * 3600;

impl Change<'_> {
    pub async fn change_settings(&mut self, change: SettingsChange) -> Result<Outcome> {
        let old = self.array.config().settings.clone();
        let mut new = old.clone();
        if let Some(name) = change.name {
            check::name("array", &name)?;
            new.name = Some(name);
        }
        if let Some(seconds) = change.bin_seconds {
            if seconds > MAX_BIN {
                return Err(Error::invalid("the recycle bin keeps volumes for a year at most"));
            }
            new.bin_seconds = seconds;
        }
        if let Some(level) = change.unmap_throttle {
            if level > export::MAX_UNMAP_THROTTLE_LEVEL {
                return Err(Error::invalid("the UNMAP throttle goes from 0 (none) to 9 (most)"));
            }
            new.unmap_throttle = level;
        }
        if let Some(seconds) = change.scrub_seconds {
            if seconds != 0 && !SCRUB_EVERY.contains(&seconds) {
                return Err(Error::invalid(
                    "a scrub begins by itself every hour at most and every year at least, or never (0)",
                ));
            }
            new.scrub_seconds = seconds;
        }
        if new != old {
            self.commit(vec![Edit::Put(Record::Settings(new))]).await?;
            let message = format!("settings were changed by {}", self.caller.user);
            self.array.log_event(history::Severity::Info, "settings.changed", None, message);
        }
        let config = self.array.config();
        Ok(Outcome::Settings(self.array.settings(&config)))
    }
}

impl Array {
    /// Does what is due: to be called about once a second.
    pub async fn tick(&self) {
        self.watch_history();
        self.look_at_quotas(&self.config(), true);
        self.watch_space();
        self.watch_logins();
        self.watch_alerts();
        self.watch_drives();
        self.watch_health();
        self.watch_scrub().await;
        self.scrub_when_due().await;
        self.run_schedules().await;
        self.empty_bin().await;
        self.watch_clock().await;
    }
}
