//! Snapshot schedules: when they run, what they keep, and which are due.

use crate::configuration::check;
use crate::{Error, Result};
use croner::Cron;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use records::{Config, Rule, ScheduleEntry, ScheduleId, Settings, SnapshotEntry};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use utoipa::ToSchema;

const MAX_RULES: usize = 16;
const MAX_KEPT: u32 = 10_000;
/// A schedule whose runs were handled until more than this many seconds after now was handled by a wrong clock.
const MAX_AHEAD_SECONDS: u64 = 300;
/// Delay after a failure before a schedule is tried again, in seconds.
const RETRY_SECONDS: u64 = 60;

/// Words that may stand for a cron expression.
const WORDS: &[(&str, &str)] = &[
    ("hourly", "0 * * * *"),
    ("daily", "0 0 * * *"),
    ("weekly", "0 0 * * 0"),
    ("monthly", "0 0 1 * *"),
    ("yearly", "0 0 1 1 *"),
];

/// The cron expression of a rule.
fn cron(rule: &Rule) -> Result<Cron> {
    let word = WORDS.iter().find(|(word, _)| *word == rule.when).map(|(_, pattern)| *pattern);
    let pattern = word.unwrap_or(&rule.when);
    let wrong = |why: String| {
        Error::invalid(format!(
            "{:?} is no time for a schedule: use hourly, daily, weekly, monthly, yearly, or a cron expression of \
                 five fields (minute, hour, day, month, day of week), such as \"0 */4 * * *\"{why}",
            rule.when
        ))
    };
    if pattern.split_whitespace().count() != 5 {
        return Err(wrong(String::new()));
    }
    Cron::from_str(pattern).map_err(|error| wrong(format!(": {error}")))
}

/// The name of a time zone as the IANA database has it.
///
/// # Errors
/// When there is no such zone.
pub(crate) fn zone(name: &str) -> Result<String> {
    let wrong = || {
        Error::invalid(format!(
            "there is no time zone {name:?}: use a name of the IANA database, such as Europe/Berlin, \
             America/New_York or UTC"
        ))
        .about("time_zone")
    };
    let zone = TimeZone::get(name).map_err(|_| wrong())?;
    zone.iana_name().map(str::to_owned).ok_or_else(wrong)
}

/// The time zone of schedules. It was found when it was set; UTC if this machine's database has lost it.
pub(crate) fn zone_of(settings: &Settings) -> TimeZone {
    TimeZone::get(&settings.time_zone).unwrap_or(TimeZone::UTC)
}

/// The first time after a moment at which a rule is due in a time zone, in seconds since 1970; `None` if there is none, as
/// for February 30. A rule with one time of day is due once a day: at the end of the gap if the clock skips that time, and at
/// the first of both if the clock shows it twice.
pub(crate) fn next_of(rule: &Rule, after: u64, zone: &TimeZone) -> Option<u64> {
    let after = Timestamp::from_second(i64::try_from(after).ok()?).ok()?.to_zoned(zone.clone());
    let next = cron(rule).ok()?.find_next_occurrence(&after, false).ok()?;
    u64::try_from(next.timestamp().as_second()).ok()
}

/// When a schedule runs next, in seconds since 1970.
pub(crate) fn next_run(schedule: &ScheduleEntry, zone: &TimeZone) -> Option<u64> {
    let next = schedule.rules.iter().filter_map(|rule| next_of(rule, schedule.handled_until, zone)).min();
    next.filter(|_| schedule.enabled)
}

/// Whether a schedule has run until a time that has not come: the clock was wrong then.
pub(crate) fn is_ahead(schedule: &ScheduleEntry, now: u64) -> bool {
    schedule.handled_until > now + MAX_AHEAD_SECONDS
}

/// The rules of a schedule that are due now.
pub(crate) fn due(schedule: &ScheduleEntry, now: u64, zone: &TimeZone) -> Vec<String> {
    let due = |rule: &&Rule| next_of(rule, schedule.handled_until, zone).is_some_and(|time| time <= now);
    schedule.rules.iter().filter(due).map(|rule| rule.when.clone()).collect()
}

/// The snapshots of a schedule that no rule keeps any more. One that was taken for a rule that has been removed stays
/// until an operator deletes it.
pub(crate) fn expired<'a>(
    schedule: &ScheduleEntry,
    snapshots: impl Iterator<Item = &'a SnapshotEntry>,
) -> Vec<&'a SnapshotEntry> {
    let mut own: Vec<_> = snapshots.filter(|it| it.schedule == Some(schedule.id)).collect();
    own.sort_by_key(|it| (std::cmp::Reverse((it.order, it.created)), it.set));
    let mut kept = BTreeSet::new();
    for rule in &schedule.rules {
        let mut sets: Vec<u64> = Vec::new();
        for set in own.iter().filter(|it| it.rules.contains(&rule.when)).map(|it| it.set) {
            if !sets.contains(&set) && sets.len() < rule.keep as usize {
                sets.push(set);
            }
        }
        kept.extend(sets);
    }
    let known = |it: &&SnapshotEntry| {
        it.rules.iter().all(|when| schedule.rules.iter().any(|rule| rule.when == *when))
    };
    own.into_iter().filter(|it| !kept.contains(&it.set)).filter(known).collect()
}

/// Refuses rules that no schedule has.
pub(crate) fn check_rules(rules: &[Rule], min: usize) -> Result<()> {
    let whens: BTreeSet<_> = rules.iter().map(|rule| &rule.when).collect();
    if !(min..=MAX_RULES).contains(&rules.len()) || whens.len() < rules.len() {
        return Err(Error::invalid(format!("there are {min} to {MAX_RULES} rules, each time once")));
    }
    for rule in rules {
        cron(rule)?;
        if !(1..=MAX_KEPT).contains(&rule.keep) {
            return Err(Error::invalid(format!("a rule keeps 1 to {MAX_KEPT} snapshots")));
        }
    }
    Ok(())
}

/// Changes to a schedule. Omitted fields keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleChange {
    /// New name.
    pub name: Option<String>,
    /// Complete list of rules. Snapshots of a removed rule are kept.
    pub rules: Option<Vec<Rule>>,
    /// Retention lock of future snapshots: seconds during which they cannot be deleted.
    pub immutable_seconds: Option<u64>,
    /// Whether the schedule is active.
    pub enabled: Option<bool>,
}

/// Sets what a change says. A schedule that is new, or not as it was, begins with this moment.
pub(crate) fn set(
    config: &Config,
    entry: &mut ScheduleEntry,
    change: ScheduleChange,
    now: u64,
) -> Result<()> {
    let ScheduleChange { name: _, rules, immutable_seconds, enabled } = change;
    if let Some(rules) = rules {
        check_rules(&rules, 1)?;
        entry.rules = rules;
        entry.handled_until = now;
    }
    // What it has may be longer than what is allowed by now.
    if let Some(seconds) = immutable_seconds.filter(|seconds| *seconds != entry.immutable) {
        check::retention_lock(config, seconds, "immutable_seconds")?;
        entry.immutable = seconds;
    }
    if let Some(enabled) = enabled.filter(|enabled| *enabled != entry.enabled) {
        entry.enabled = enabled;
        entry.handled_until = now;
    }
    Ok(())
}

/// Schedules that failed, which rest before they are tried again.
#[derive(Debug, Default)]
pub(crate) struct Schedules {
    /// When each failed last, in seconds of uptime.
    failed: Mutex<BTreeMap<ScheduleId, u64>>,
}

impl Schedules {
    /// The schedules that are due at a time, by identity and name; `uptime` in seconds.
    pub fn due(&self, config: &Config, now: u64, uptime: u64) -> Vec<(ScheduleId, String)> {
        let failed = self.failed.lock();
        let rests = |id| failed.get(&id).is_some_and(|since| uptime < since + RETRY_SECONDS);
        let schedules = config.schedules.iter().filter(|it| it.enabled && !rests(it.id));
        let zone = zone_of(&config.settings);
        let due =
            schedules.filter(|it| is_ahead(it, now) || next_run(it, &zone).is_some_and(|time| time <= now));
        due.map(|it| (it.id, it.name.clone())).collect()
    }

    /// Notes how a run ended, at an uptime in seconds.
    pub fn note_run(&self, id: ScheduleId, uptime: u64, succeeded: bool) {
        let mut failed = self.failed.lock();
        match succeeded {
            true => drop(failed.remove(&id)),
            false => drop(failed.insert(id, uptime)),
        }
    }
}

#[cfg(test)]
#[path = "schedules_test.rs"]
mod tests;
