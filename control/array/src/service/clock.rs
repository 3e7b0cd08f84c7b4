//! The retention clock, by which retention locks, the recycle bin and scheduled snapshots expire.
//!
//! Anybody who can set the time of day, or who speaks NTP to this machine, could otherwise make locked snapshots
//! expire. The retention clock advances by the machine's uptime, which can't be set, and is stored on the drives. Over
//! a restart of the process, uptime says how much time has passed. Over a restart of the machine only the time of day
//! does: it is trusted up to an allowance, a day at first, which is regained as measured time passes. If the time of
//! day differs from the retention clock, it jumped, or the array was off for longer than the allowance: nothing
//! expires until the time of day is right again, or an administrator confirms it.

use crate::configuration::put_records;
use crate::parts::env::{Env, Uptime};
use crate::service::condition::{self, Conditions};
use crate::{Error, Result};
use engine::Engine;
use history::Severity;
use parking_lot::Mutex;
use records::{CLOCK, ClockEntry};
use std::sync::Arc;

/// How far the time of day may be from the retention clock, in seconds: clocks are set right by little all the time.
const MAX_DRIFT_SECONDS: u64 = 300;
/// Maximum time that may be taken from the time of day over restarts of the machine, in seconds.
const MAX_ALLOWANCE_SECONDS: u64 = 24 * 3600;
/// How often the retention clock is stored, in seconds.
const STORE_INTERVAL_SECONDS: u64 = 3600;

/// The retention clock.
#[derive(Debug)]
pub(crate) struct Clock {
    /// The time from which it continues.
    from: ClockEntry,
    /// What it showed when the time of day was last seen to be right: it stands there until it is again.
    held: Option<u64>,
    /// How long the machine was up when it was stored last, in seconds.
    stored: Option<u64>,
}

/// What the time of day is to be judged by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The time of day, in seconds since 1970.
    pub wall: u64,
    pub uptime: Uptime,
}

impl Moment {
    fn of(env: &Env) -> Self {
        Self { wall: env.seconds(), uptime: (env.uptime)() }
    }

    fn seconds(&self) -> u64 {
        self.uptime.since.as_secs()
    }

    fn boot(&self) -> String {
        format!("{:032x}", self.uptime.boot)
    }
}

impl Clock {
    /// Continues from the stored time.
    pub fn resume(stored: Option<ClockEntry>, now: &Moment) -> Self {
        let (boot, uptime, wall) = (now.boot(), now.seconds(), now.wall);
        let from = match stored {
            None => ClockEntry { retention: wall, wall, boot, uptime, allowance: MAX_ALLOWANCE_SECONDS },
            Some(old) if old.boot == boot && old.uptime <= uptime => old,
            Some(old) => {
                let passed = wall.saturating_sub(old.wall);
                let trusted = if passed <= old.allowance { passed } else { 0 };
                let allowance = old.allowance - trusted;
                ClockEntry { retention: old.retention.saturating_add(trusted), wall, boot, uptime, allowance }
            }
        };
        let mut clock = Self { from, held: None, stored: None };
        clock.look(now);
        clock
    }

    /// What has passed by the machine's uptime.
    fn measured(&self, now: &Moment) -> u64 {
        self.from.retention.saturating_add(now.seconds().saturating_sub(self.from.uptime))
    }

    /// Compares the time of day with the time measured. True when whether it is trusted has changed.
    pub fn look(&mut self, now: &Moment) -> bool {
        let measured = self.measured(now);
        let held = match now.wall.abs_diff(measured) <= MAX_DRIFT_SECONDS {
            true => None,
            false => self.held.or(Some(measured)),
        };
        let news = held.is_some() != self.held.is_some();
        if news {
            // To be stored at once.
            self.stored = None;
        }
        self.held = held;
        news
    }

    /// What it shows, in seconds since 1970.
    pub fn retention(&self, now: &Moment) -> u64 {
        self.held.unwrap_or_else(|| self.measured(now))
    }

    /// How far the time of day is ahead of what has passed, in seconds, when it is not trusted.
    pub fn ahead(&self, now: &Moment) -> Option<i64> {
        self.held?;
        Some((i128::from(now.wall) - i128::from(self.measured(now))) as i64)
    }

    /// The time that schedules go by: the time of day, or, as long as that is not trusted, what has passed.
    pub fn schedule(&self, now: &Moment) -> u64 {
        if self.held.is_some() { self.measured(now) } else { now.wall }
    }

    /// The time of day is right.
    fn confirm(&mut self, now: &Moment) {
        let (retention, wall) = (now.wall, now.wall);
        let (boot, uptime) = (now.boot(), now.seconds());
        self.from = ClockEntry { retention, wall, boot, uptime, allowance: MAX_ALLOWANCE_SECONDS };
        (self.held, self.stored) = (None, None);
    }

    /// What is to be stored now.
    fn entry(&self, now: &Moment) -> ClockEntry {
        let passed = now.seconds().saturating_sub(self.from.uptime);
        let allowance = self.from.allowance.saturating_add(passed).min(MAX_ALLOWANCE_SECONDS);
        let (retention, wall) = (self.measured(now), now.wall);
        ClockEntry { retention, wall, boot: now.boot(), uptime: now.seconds(), allowance }
    }
}

/// The retention clock of an array, stored in its engine.
pub(crate) struct RetentionClock {
    env: Arc<Env>,
    engine: Arc<Engine>,
    clock: Mutex<Clock>,
}

impl RetentionClock {
    /// The retention clock that the engine holds, or a new one.
    ///
    /// # Errors
    /// When the stored one can't be read.
    pub fn load(env: Arc<Env>, engine: Arc<Engine>) -> Result<Self> {
        let found = engine.records(CLOCK).into_iter().find(|(key, _)| key == CLOCK);
        let stored = found.map(|(_, value)| ClockEntry::read(&value)).transpose()?;
        let clock = Mutex::new(Clock::resume(stored, &Moment::of(&env)));
        Ok(Self { env, engine, clock })
    }

    fn moment(&self) -> Moment {
        Moment::of(&self.env)
    }

    /// What the retention clock shows, in seconds since 1970: whatever is kept until a later time is kept.
    pub fn retention_now(&self) -> u64 {
        let (now, mut clock) = (self.moment(), self.clock.lock());
        clock.look(&now);
        clock.retention(&now)
    }

    /// The time from which something is kept that begins now, in seconds since 1970: later is safer.
    pub fn retention_begin(&self) -> u64 {
        self.retention_now().max(self.env.seconds())
    }

    /// The time that schedules go by, in seconds since 1970.
    pub fn schedule_now(&self) -> u64 {
        let (now, mut clock) = (self.moment(), self.clock.lock());
        clock.look(&now);
        clock.schedule(&now)
    }

    /// Whether nothing expires because the time of day is not trusted.
    pub fn expiry_stands_still(&self) -> bool {
        let (now, mut clock) = (self.moment(), self.clock.lock());
        clock.look(&now);
        clock.ahead(&now).is_some()
    }

    /// Compares the time of day with the retention clock, and stores the retention clock when that is due.
    pub async fn watch(&self) {
        let now = self.moment();
        let due = {
            let mut clock = self.clock.lock();
            clock.look(&now);
            let old = |at: u64| now.seconds().saturating_sub(at) >= STORE_INTERVAL_SECONDS;
            clock.stored.is_none_or(old)
        };
        if due {
            self.store().await;
        }
    }

    /// Stores the retention clock. To be called before a stop as well.
    pub async fn store(&self) {
        let (now, mut entry) = (self.moment(), None);
        {
            let mut clock = self.clock.lock();
            if self.engine.stopped().is_none() {
                entry = Some(clock.entry(&now));
                clock.stored = Some(now.seconds());
            }
        }
        let Some(entry) = entry else { return };
        let (key, value) = entry.record();
        if let Err(error) = put_records(&self.engine, vec![(key, Some(value))]).await {
            tracing::error!(%error, "the retention clock can't be stored; this is tried again");
            self.clock.lock().stored = None;
        }
    }

    /// The condition of a time of day that is not trusted.
    pub fn conditions(&self) -> Conditions {
        let (now, mut found) = (self.moment(), Conditions::default());
        let ahead = {
            let mut clock = self.clock.lock();
            clock.look(&now);
            clock.ahead(&now)
        };
        if let Some(ahead) = ahead {
            let side = if ahead > 0 { "ahead of" } else { "behind" };
            condition::add(&mut found, "clock.jumped", Severity::Critical, None, &|| {
                format!(
                    "the clock of this machine is {} {side} the time that has passed by the array's measure: it was set, or \
                     the array was off for longer than a day. Until that is settled nothing expires: the recycle bin, \
                     retention locks and the snapshots of schedules stay as they are. Check its synchronisation (chrony, \
                     ntpd); when the clock is right, confirm it: ashlar array confirm-time",
                    rough(ahead.unsigned_abs())
                )
            });
        }
        found
    }

    /// Takes the time of day for right. Returns how far it was ahead of the retention clock, in seconds, and roughly that
    /// for people.
    ///
    /// # Errors
    /// When there is nothing to be confirmed, or it can't be stored.
    pub async fn confirm(&self) -> Result<(i64, String)> {
        let now = self.moment();
        let (entry, ahead) = {
            let mut clock = self.clock.lock();
            clock.look(&now);
            let ahead = clock.ahead(&now).ok_or_else(|| {
                Error::precondition("the clock is as it should be: there is nothing to be confirmed")
            })?;
            let mut confirmed = Clock { from: clock.from.clone(), held: None, stored: None };
            confirmed.confirm(&now);
            (confirmed.entry(&now), ahead)
        };
        let (key, value) = entry.record();
        put_records(&self.engine, vec![(key, Some(value))]).await?;
        self.clock.lock().confirm(&now);
        Ok((ahead, rough(ahead.unsigned_abs())))
    }
}

/// A time as people say it, so that it does not change all the time.
fn rough(seconds: u64) -> String {
    match seconds {
        0..5400 => format!("{} minutes", (seconds + 30) / 60),
        5400..172_800 => format!("{} hours", (seconds + 1800) / 3600),
        _ => format!("{} days", (seconds + 43_200) / 86_400),
    }
}

#[cfg(test)]
#[path = "clock_test.rs"]
mod tests;
