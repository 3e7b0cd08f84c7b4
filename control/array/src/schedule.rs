//! Snapshot schedules: when snapshots are taken, how many are kept, and how missed runs are made up for.
//!
//! A schedule has rules, such as "hourly, keep 24" and "daily, keep 7". Rules that are due at the same moment share
//! one snapshot (or one of every volume of the group), which is deleted when no rule keeps it any more. Snapshots and
//! the schedule's progress are committed in one step. All runs that were missed while the array was down are made up
//! for by one snapshot. Times are UTC. While the time of day is not trusted (see [`crate::clock`]), schedules run by
//! the time that has passed, and delete nothing.

use crate::array::{Array, Transaction};
use crate::caller::Caller;
use crate::verb::verbs;
use crate::view::{Schedule, Snapshot, SubjectName};
use crate::{Error, Result, check};
use croner::Cron;
use history::Severity;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use records::{DiskEntry, Edit, Record, Rule, ScheduleEntry, ScheduleId, SnapshotEntry, Subject};
use serde::Serialize;
use std::collections::BTreeSet;
use std::str::FromStr;

const MAX_RULES: usize = 16;
const MAX_KEPT: u32 = 10_000;
/// Ten years, in seconds.
const MAX_IMMUTABLE: u64 = 10 * 366 * 24 * 3600;
/// A schedule that was looked after until later than this many seconds from now was so by a clock that was wrong.
const MAX_AHEAD_SECONDS: u64 = 300;
/// After a failure a schedule is left alone for so many seconds.
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

/// The first time after a moment at which a rule is due, in seconds since 1970; `None` if there is none, as for
/// February 30.
fn next_of(rule: &Rule, after: u64) -> Option<u64> {
    let after = Timestamp::from_second(i64::try_from(after).ok()?).ok()?.to_zoned(TimeZone::UTC);
    let next = cron(rule).ok()?.find_next_occurrence(&after, false).ok()?;
    u64::try_from(next.timestamp().as_second()).ok()
}

/// When a schedule runs next, in seconds since 1970.
pub(crate) fn next_run(schedule: &ScheduleEntry) -> Option<u64> {
    let next = schedule.rules.iter().filter_map(|rule| next_of(rule, schedule.seen)).min();
    next.filter(|_| schedule.enabled)
}

/// Whether a schedule has run until a time that has not come: the clock was wrong then.
fn is_ahead(schedule: &ScheduleEntry, now: u64) -> bool {
    schedule.seen > now + MAX_AHEAD_SECONDS
}

/// The rules of a schedule that are due now.
fn due(schedule: &ScheduleEntry, now: u64) -> Vec<String> {
    let due = |rule: &&Rule| next_of(rule, schedule.seen).is_some_and(|time| time <= now);
    schedule.rules.iter().filter(due).map(|rule| rule.when.clone()).collect()
}

/// The snapshots of a schedule that no rule keeps any more. One that was taken for a rule that has been removed stays
/// until an operator deletes it.
fn expired<'a>(
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

/// Create a snapshot schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreateSchedule {
    /// Its name.
    pub name: String,
    /// What it takes snapshots of.
    pub subject: SubjectName,
    /// What to set; rules are needed.
    pub change: ScheduleChange,
}

/// All schedules, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListSchedules;

/// One schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowSchedule {
    /// Its name.
    pub name: String,
}

/// Change a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeSchedule {
    /// Its name.
    pub name: String,
    /// What to change.
    pub change: ScheduleChange,
}

/// Delete a schedule; its snapshots stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeleteSchedule {
    /// Its name.
    pub name: String,
}

/// Take the snapshots of a schedule, and let go of those that it no longer keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunSchedule {
    /// Its name.
    pub name: String,
    /// Whether it is due or not.
    pub now: bool,
}

/// What to set of a schedule; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ScheduleChange {
    /// Another name.
    pub name: Option<String>,
    /// When it takes snapshots, and how many it keeps: all rules.
    pub rules: Option<Vec<Rule>>,
    /// Nobody can delete a snapshot that is taken from now on before it is so many seconds old.
    pub immutable: Option<u64>,
    /// Whether it takes snapshots.
    pub enabled: Option<bool>,
}

verbs! {
    CreateSchedule -> Schedule, Change "create" "schedule", Operator, about name
        => |tx, it| tx.create_schedule(it.name, &it.subject, it.change).await;
    ListSchedules -> Vec<Schedule>, Read "list" "schedule", Viewer
        => |tx, _| Ok(tx.array.schedules(&tx.array.config()));
    ShowSchedule -> Schedule, Read "show" "schedule", Viewer, about name
        => |tx, it| {
            let config = tx.array.config();
            config.schedules.named(&it.name).map(|found| tx.array.schedule(&config, found))
        };
    ChangeSchedule -> Schedule, Change "change" "schedule", Operator, about name
        => |tx, it| tx.change_schedule(&it.name, it.change).await;
    DeleteSchedule -> (), Change "delete" "schedule", Operator, about name
        => |tx, it| tx.delete_schedule(&it.name).await;
    RunSchedule -> Vec<Snapshot>, Change "run" "schedule", Operator, about name
        => |tx, it| tx.run_schedule(&it.name, it.now).await;
}

impl Transaction<'_> {
    pub async fn create_schedule(
        &mut self,
        name: String,
        subject: &SubjectName,
        mut change: ScheduleChange,
    ) -> Result<Schedule> {
        check::name("schedule", &name)?;
        let subject = {
            let config = self.array.config();
            config.schedules.free(&name)?;
            match subject {
                SubjectName::Volume(name) => Subject::Volume(config.volumes.named(name)?.id),
                SubjectName::Group(name) => Subject::Group(config.groups.named(name)?.id),
            }
        };
        let (id, now) = (ScheduleId(self.id64()), self.array.schedule_now());
        let mut entry = ScheduleEntry {
            id,
            name,
            created: now,
            subject,
            rules: Vec::new(),
            immutable: 0,
            enabled: true,
            seen: now,
        };
        change.rules.get_or_insert_default();
        set(&mut entry, change, now)?;
        self.commit(vec![Edit::Put(Record::Schedule(entry.clone()))]).await?;
        self.done("schedule.created", "schedule", &entry.name, "was created");
        self.schedule_now(id)
    }

    pub async fn change_schedule(&mut self, name: &str, mut change: ScheduleChange) -> Result<Schedule> {
        let entry = self.array.config().schedules.named(name)?.clone();
        let mut new = entry.clone();
        if let Some(name) = change.name.take().filter(|name| *name != entry.name) {
            check::name("schedule", &name)?;
            self.array.config().schedules.free(&name)?;
            new.name = name;
        }
        set(&mut new, change, self.array.schedule_now())?;
        if new != entry {
            self.commit(vec![Edit::Put(Record::Schedule(new))]).await?;
            self.done("schedule.changed", "schedule", name, "was changed");
        }
        self.schedule_now(entry.id)
    }

    pub async fn delete_schedule(&mut self, name: &str) -> Result<()> {
        let entry = self.array.config().schedules.named(name)?.clone();
        self.commit(vec![Edit::Remove(Record::Schedule(entry))]).await?;
        self.done("schedule.deleted", "schedule", name, "was deleted; its snapshots stay");
        Ok(())
    }

    /// Takes what is due, or everything `now`; then lets go of what no rule keeps.
    pub async fn run_schedule(&mut self, name: &str, now: bool) -> Result<Vec<Snapshot>> {
        let mut entry = self.array.config().schedules.named(name)?.clone();
        let time = self.array.schedule_now();
        if is_ahead(&entry, time) && !now {
            // It goes on from here, instead of sleeping until then.
            entry.seen = time;
            self.commit(vec![Edit::Put(Record::Schedule(entry))]).await?;
            return Ok(Vec::new());
        }
        let rules = match now {
            true => entry.rules.iter().map(|rule| rule.when.clone()).collect(),
            false => due(&entry, time),
        };
        if rules.is_empty() {
            return Ok(Vec::new());
        }
        let sources = self.array.config().scheduled(entry.subject);
        entry.seen = time;
        let taken = match sources.is_empty() {
            true => {
                self.commit(vec![Edit::Put(Record::Schedule(entry.clone()))]).await?;
                Vec::new()
            }
            false => {
                let suffix = self.free_suffix(&sources, &format!("{name}-{}", check::stamp(time)));
                let begin = self.array.retention_begin();
                let keep_until = if entry.immutable > 0 { begin + entry.immutable } else { 0 };
                self.take(&sources, &suffix, keep_until, Some((&entry, rules))).await?
            }
        };
        self.let_go(&entry).await?;
        let config = self.array.config();
        let shown = taken.iter().filter_map(|it| config.snapshots.get(it.id));
        Ok(shown.map(|it| self.array.snapshot(&config, it)).collect())
    }

    /// Eradicates what a schedule no longer keeps, unless it is kept until a time, or some host sees it.
    async fn let_go(&mut self, schedule: &ScheduleEntry) -> Result<()> {
        if self.array.expiry_stands_still() {
            return Ok(());
        }
        let expired: Vec<SnapshotEntry> = {
            let config = self.array.config();
            let seen = |it: &&SnapshotEntry| config.connections.of_volume(it.id).next().is_some();
            expired(schedule, config.snapshots.iter()).into_iter().filter(|it| !seen(it)).cloned().collect()
        };
        for snapshot in expired {
            if self.refuse_kept(snapshot.id, &snapshot.name).is_ok() {
                self.eradicate(DiskEntry::Snapshot(snapshot)).await?;
            }
        }
        Ok(())
    }

    /// Refuses to take away what a schedule takes snapshots of.
    pub(crate) fn refuse_scheduled(&self, subject: Subject) -> Result<()> {
        let config = self.array.config();
        match config.schedules.iter().find(|schedule| schedule.subject == subject) {
            Some(schedule) => Err(Error::precondition(format!(
                "schedule {:?} takes snapshots of it: delete the schedule first",
                schedule.name
            ))),
            None => Ok(()),
        }
    }

    fn schedule_now(&self, id: ScheduleId) -> Result<Schedule> {
        let config = self.array.config();
        let entry = config.schedules.get(id).ok_or_else(|| Error::not_found("the schedule is gone"))?;
        Ok(self.array.schedule(&config, entry))
    }
}

/// Sets what a change says. A schedule that is new, or not as it was, begins with this moment.
fn set(entry: &mut ScheduleEntry, change: ScheduleChange, now: u64) -> Result<()> {
    let ScheduleChange { name: _, rules, immutable, enabled } = change;
    if let Some(rules) = rules {
        let whens: BTreeSet<_> = rules.iter().map(|rule| &rule.when).collect();
        if !(1..=MAX_RULES).contains(&rules.len()) || whens.len() < rules.len() {
            return Err(Error::invalid(format!("a schedule has 1 to {MAX_RULES} rules, each time once")));
        }
        for rule in &rules {
            cron(rule)?;
            if !(1..=MAX_KEPT).contains(&rule.keep) {
                return Err(Error::invalid(format!("a rule keeps 1 to {MAX_KEPT} snapshots")));
            }
        }
        entry.rules = rules;
        entry.seen = now;
    }
    if let Some(seconds) = immutable {
        if seconds > MAX_IMMUTABLE {
            return Err(Error::invalid("snapshots can be made immutable for ten years at most"));
        }
        entry.immutable = seconds;
    }
    if let Some(enabled) = enabled.filter(|enabled| *enabled != entry.enabled) {
        entry.enabled = enabled;
        entry.seen = now;
    }
    Ok(())
}

impl Array {
    /// Runs what is due.
    pub(crate) async fn run_schedules(&self) {
        let (now, uptime) = (self.schedule_now(), self.uptime());
        let due: Vec<(ScheduleId, String)> = {
            let (config, watched) = (self.config(), self.watched.lock());
            let rests = |id| watched.failed.get(&id).is_some_and(|since| uptime < since + RETRY_SECONDS);
            let schedules = config.schedules.iter().filter(|it| it.enabled && !rests(it.id));
            let due =
                schedules.filter(|it| is_ahead(it, now) || next_run(it).is_some_and(|time| time <= now));
            due.map(|it| (it.id, it.name.clone())).collect()
        };
        for (id, name) in due {
            let run = RunSchedule { name: name.clone(), now: false };
            match self.perform(&Caller::array(), run).await {
                Ok(_) => drop(self.watched.lock().failed.remove(&id)),
                Err(error) => {
                    self.watched.lock().failed.insert(id, uptime);
                    let message = format!("schedule {name:?} could not run: {error}; it is tried again");
                    self.log_event(Severity::Warning, "schedule.failed", Some(("schedule", &name)), message);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "schedule_test.rs"]
mod tests;
