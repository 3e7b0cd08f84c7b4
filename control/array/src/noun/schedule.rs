//! Snapshot schedules: when snapshots are taken, how many are kept, and what follows a missed run.
//!
//! A schedule has rules, such as "hourly, keep 24" and "daily, keep 7". Rules that are due at the same moment share
//! one snapshot (or one of every volume of the group), which is deleted when no rule keeps it any more. Snapshots and
//! the schedule's progress are committed in one step. All runs that were missed while the array was down are made up
//! for by one snapshot. Times are those of the
//! array's time zone. While the time of day is not trusted (see [`crate::service::clock`]), schedules run by
//! the time that has passed, and delete nothing.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::noun::snapshot::Snapshot;
use crate::noun::snapshot::Wanted;
use crate::request::verbs;
use crate::service::caller::Caller;
use crate::service::schedules::{ScheduleChange, due, expired, is_ahead, next_run, set, zone_of};
use crate::shape::view::SubjectName;
use crate::shape::{shapes, some_time, time};
use crate::{Error, Result};
use history::Severity;
use records::{
    Config, DiskEntry, Edit, Labels, Record, Rule, ScheduleEntry, ScheduleId, SnapshotEntry, Subject,
    VolumeEntry,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A snapshot schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Schedule {
    /// Name.
    pub name: String,
    /// Permanent identifier: 16 hex digits.
    #[schema(value_type = String)]
    pub id: ScheduleId,
    /// Creation time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Volume to snapshot; `null` for a group.
    pub volume: Option<String>,
    /// Volume group to snapshot, consistent across its volumes; `null` for a volume.
    pub group: Option<String>,
    /// Rules. Rules that are due at the same time share one snapshot; it is eradicated when no rule retains it.
    pub rules: Vec<Rule>,
    /// Retention lock: seconds during which a snapshot cannot be deleted.
    pub immutable_seconds: u64,
    /// Whether the schedule is active.
    pub enabled: bool,
    /// Next run; `null`: never.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next: Option<u64>,
    /// Time of its newest snapshot; `null` if it has none.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last: Option<u64>,
    /// Number of its snapshots.
    pub snapshots: usize,
}

shapes! {
    Schedule: "Schedules" "Schedules." "Sorted by name";
}

/// A new schedule for a `volume` or a `group`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSchedule)]
pub struct CreateSchedule {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    pub name: String,
    /// Volume. Not allowed with `group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// Volume group. Not allowed with `volume`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Rules, 1 to 16.
    pub rules: Vec<Rule>,
    /// Retention lock: seconds during which a snapshot cannot be deleted; default 0.
    #[serde(default)]
    pub immutable_seconds: u64,
    /// Whether the schedule is active; default true.
    pub enabled: Option<bool>,
}

/// Take the snapshots of a schedule, and let go of those that it no longer keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunSchedule {
    /// Its name.
    pub name: String,
    /// Whether it is due or not.
    pub now: bool,
}

verbs! {
    #![tag = "schedules"]

    /// Create a snapshot schedule
    CreateSchedule -> Schedule, Change "create" "schedule", Operator, about name, at POST "/schedules" 201
        => |tx, it| tx.create_schedule(it).await;
    /// List snapshot schedules
    ListSchedules {} -> Vec<Schedule>, Read "list" "schedule", Viewer, at GET "/schedules"
        => |tx, _| Ok(tx.array.list_schedules(&tx.array.config()));
    /// Get a snapshot schedule
    ShowSchedule { name } -> Schedule, Read "show" "schedule", Viewer, about name, at GET "/schedules/{name}"
        => |tx, it| {
            let config = tx.array.config();
            config.schedules.named(&it.name).map(|found| tx.array.schedule(&config, found))
        };
    /// Change a snapshot schedule
    ChangeSchedule { name; body change: ScheduleChange } -> Schedule, Change "change" "schedule", Operator, about name,
        at PATCH "/schedules/{name}"
        => |tx, it| tx.change_schedule(&it.name, it.change).await;
    /// Delete a snapshot schedule
    ///
    /// Its snapshots are kept.
    DeleteSchedule { name } -> (), Change "delete" "schedule", Operator, about name, at DELETE "/schedules/{name}"
        => |tx, it| tx.delete_schedule(&it.name).await;
    RunSchedule -> Vec<Snapshot>, Change "run" "schedule", Operator, about name
        => |tx, it| tx.run_schedule(&it.name, it.now).await;
}

impl CreateSchedule {
    /// What creates a schedule like this one.
    pub(crate) fn of(config: &Config, entry: &ScheduleEntry) -> Self {
        let (volume, group) = config.subject_names(entry.subject);
        let ScheduleEntry { name, rules, immutable, enabled, .. } = entry.clone();
        Self { name, volume, group, rules, immutable_seconds: immutable, enabled: Some(enabled) }
    }

    /// What makes another schedule like the one that it creates.
    pub(crate) fn settings(self) -> ScheduleChange {
        let (rules, immutable_seconds) = (Some(self.rules), Some(self.immutable_seconds));
        ScheduleChange { name: None, rules, immutable_seconds, enabled: self.enabled.or(Some(true)) }
    }
}

impl Transaction<'_> {
    pub async fn create_schedule(&mut self, new: CreateSchedule) -> Result<Schedule> {
        let name = new.name.clone();
        check::name("schedule", &name)?;
        let subject = {
            let config = self.config();
            config.schedules.free(&name)?;
            match SubjectName::of(new.volume.clone(), new.group.clone())? {
                SubjectName::Volume(name) => Subject::Volume(config.volumes.named(&name)?.id),
                SubjectName::Group(name) => Subject::Group(config.groups.named(&name)?.id),
            }
        };
        let (id, now) = (ScheduleId(self.id64()), self.array.clock.schedule_now());
        let (created, handled_until) = (now, now);
        let (rules, immutable, enabled) = (Vec::new(), 0, true);
        let mut entry =
            ScheduleEntry { id, name, created, subject, rules, immutable, enabled, handled_until };
        set(&self.config(), &mut entry, new.settings(), now)?;
        self.commit(vec![Edit::Put(Record::Schedule(entry.clone()))]).await?;
        self.done("schedule.created", "schedule", &entry.name, "was created");
        self.schedule_now(id)
    }

    pub async fn change_schedule(&mut self, name: &str, mut change: ScheduleChange) -> Result<Schedule> {
        let entry = self.config().schedules.named(name)?.clone();
        let mut new = entry.clone();
        if let Some(name) = change.name.take().filter(|name| *name != entry.name) {
            check::name("schedule", &name)?;
            self.config().schedules.free(&name)?;
            new.name = name;
        }
        set(&self.config(), &mut new, change, self.array.clock.schedule_now())?;
        if new != entry {
            self.commit(vec![Edit::Put(Record::Schedule(new))]).await?;
            self.done("schedule.changed", "schedule", &entry.name, "was changed");
        }
        self.schedule_now(entry.id)
    }

    pub async fn delete_schedule(&mut self, name: &str) -> Result<()> {
        let entry = self.config().schedules.named(name)?.clone();
        let name = entry.name.clone();
        self.commit(vec![Edit::Remove(Record::Schedule(entry))]).await?;
        self.done("schedule.deleted", "schedule", &name, "was deleted; its snapshots stay");
        Ok(())
    }

    /// Takes what is due, or everything `now`; then lets go of what no rule keeps.
    pub async fn run_schedule(&mut self, name: &str, now: bool) -> Result<Vec<Snapshot>> {
        let mut entry = self.config().schedules.named(name)?.clone();
        let time = self.array.clock.schedule_now();
        if is_ahead(&entry, time) && !now {
            // The schedule continues from here, instead of sleeping until then.
            entry.handled_until = time;
            self.commit(vec![Edit::Put(Record::Schedule(entry))]).await?;
            return Ok(Vec::new());
        }
        let rules = match now {
            true => entry.rules.iter().map(|rule| rule.when.clone()).collect(),
            false => due(&entry, time, &zone_of(&self.config().settings)),
        };
        if rules.is_empty() {
            return Ok(Vec::new());
        }
        let sources = self.config().scheduled(entry.subject);
        entry.handled_until = time;
        let taken = match sources.is_empty() {
            true => {
                self.commit(vec![Edit::Put(Record::Schedule(entry.clone()))]).await?;
                Vec::new()
            }
            false => {
                let suffix = self.free_suffix(&sources, &format!("{}-{}", entry.name, check::stamp(time)));
                let begin = self.array.clock.retention_begin();
                let keep_until = if entry.immutable > 0 { begin + entry.immutable } else { 0 };
                let wanted = |source: VolumeEntry| {
                    let name = Some(format!("{}.{suffix}", source.name));
                    Wanted { source, name, labels: Labels::default() }
                };
                let wanted = sources.into_iter().map(wanted).collect();
                self.take(wanted, keep_until, Some((&entry, rules))).await?
            }
        };
        self.let_go(&entry).await?;
        let config = self.config();
        let shown = taken.iter().filter_map(|it| config.snapshots.get(it.id));
        Ok(shown.map(|it| self.array.snapshot(&config, it)).collect())
    }

    /// Eradicates what a schedule no longer keeps, unless it is kept until a time, or some host sees it.
    async fn let_go(&mut self, schedule: &ScheduleEntry) -> Result<()> {
        if self.array.clock.expiry_stands_still() {
            return Ok(());
        }
        let expired: Vec<SnapshotEntry> = {
            let config = self.config();
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

    /// Refuses to take away what a schedule takes snapshots of, or what is replicated.
    pub(crate) fn refuse_scheduled(&self, subject: Subject) -> Result<()> {
        let config = self.config();
        if let Some(replication) = config.replications.iter().find(|it| it.subject == Some(subject)) {
            return Err(Error::precondition(format!(
                "replication {:?} replicates it: delete the replication first",
                replication.name
            )));
        }
        match config.schedules.iter().find(|schedule| schedule.subject == subject) {
            Some(schedule) => Err(Error::precondition(format!(
                "schedule {:?} takes snapshots of it: delete the schedule first",
                schedule.name
            ))),
            None => Ok(()),
        }
    }

    fn schedule_now(&self, id: ScheduleId) -> Result<Schedule> {
        let config = self.config();
        let entry = config.schedules.get(id).ok_or_else(|| Error::not_found("the schedule is gone"))?;
        Ok(self.array.schedule(&config, entry))
    }
}

impl Array {
    /// Every schedule, by name.
    pub(crate) fn list_schedules(&self, config: &Config) -> Vec<Schedule> {
        config.schedules.iter().map(|entry| self.schedule(config, entry)).collect()
    }

    /// One schedule.
    pub(crate) fn schedule(&self, config: &Config, entry: &ScheduleEntry) -> Schedule {
        let own = || config.snapshots.iter().filter(|snapshot| snapshot.schedule == Some(entry.id));
        let (volume, group) = config.subject_names(entry.subject);
        Schedule {
            id: entry.id,
            name: entry.name.clone(),
            created: entry.created,
            volume,
            group,
            rules: entry.rules.clone(),
            immutable_seconds: entry.immutable,
            enabled: entry.enabled,
            next: next_run(entry, &zone_of(&config.settings)),
            last: own().map(|snapshot| snapshot.created).max(),
            snapshots: own().count(),
        }
    }

    /// Runs what is due.
    pub(crate) async fn run_schedules(&self) {
        let (now, uptime) = (self.clock.schedule_now(), self.env.uptime_seconds());
        let due = self.schedules.due(&self.config(), now, uptime);
        for (id, name) in due {
            let run = RunSchedule { name: name.clone(), now: false };
            let done = self.perform(&Caller::array(), run).await;
            self.schedules.note_run(id, uptime, done.is_ok());
            if let Err(error) = done {
                let message = format!("schedule {name:?} could not run: {error}; it is tried again");
                self.log_event(Severity::Warning, "schedule.failed", Some(("schedule", &name)), message);
            }
        }
    }
}
