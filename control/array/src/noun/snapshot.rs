//! Snapshots: taking them of volumes or of a whole group at one moment, changing them, and comparing
//! two. Their records are committed in the same step.

use crate::array::Array;
use crate::array::page::ListPage;
use crate::array::page::{Labelled, Listed};
use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::events::audit::Object;
use crate::noun::connection::Connection;
use crate::noun::volume::Deletion;
use crate::request::verbs;
use crate::shape::ensure::{Ensured, Existing};
use crate::shape::view::{SubjectName, some_of};
use crate::shape::{digits, rfc3339, shapes, sixteen_digits, some_time, time};
use crate::{Error, Result};
use block::{Disk, DiskId, Provisioning};
use records::{
    Config, DiskEntry, Edit, Labels, LabelsChange, Record, ScheduleEntry, SnapshotEntry, Stage, Topic,
    VolumeEntry,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

/// Extents of a comparison when no limit is asked for.
const USUAL_EXTENTS: usize = 1000;
/// Maximum number of extents of one answer to a comparison.
const MAX_EXTENTS: usize = 100_000;
/// Maximum number of volumes of one set of snapshots that is not of a group.
const MAX_SOURCES: usize = 1000;

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Snapshot {
    /// Name.
    pub name: String,
    /// Permanent identifier: 32 hex digits.
    #[serde(serialize_with = "digits")]
    #[schema(value_type = String)]
    pub id: DiskId,
    /// Source volume; `null` if it has been deleted.
    pub source: Option<String>,
    /// Permanent identifier of the source volume, even if that has been deleted.
    #[serde(serialize_with = "digits")]
    #[schema(value_type = String)]
    pub source_id: DiskId,
    /// Schedule that took it; `null` if taken manually or the schedule has been deleted.
    pub schedule: Option<String>,
    /// Snapshot set: sixteen hex digits, equal for snapshots taken at the same instant.
    #[serde(serialize_with = "sixteen_digits")]
    #[schema(value_type = String)]
    pub set: u64,
    /// Time at which it was taken.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Size presented to hosts, in bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub size: u64,
    /// Logical block length in bytes: 512 or 4096.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub block_size: u32,
    /// Mapped (written and not unmapped) bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub mapped: u64,
    /// Whether hosts can write to it.
    pub writable: bool,
    /// Retention lock: it cannot be deleted or changed before this time; `null`: not locked.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub retain_until: Option<u64>,
    /// Identifier reported to hosts (NAA, VPD page 83h).
    pub naa: String,
    /// Labels.
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// Connections to hosts and host groups.
    pub connections: Vec<Connection>,
}

/// A page of differing extents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Difference {
    /// Differing extents by offset. May include extents rewritten with equal data.
    pub items: Vec<DifferentExtent>,
    /// Start offset of the next page in bytes; `null` at the end. A page without items may be followed by others.
    pub next: Option<u64>,
}

/// A differing extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct DifferentExtent {
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Whether it is mapped; otherwise it reads as zeros.
    pub mapped: bool,
}

shapes! {
    Snapshot: "Snapshots" "Snapshots." "Sorted by name", labels;
    Difference;
}

impl Labelled for SnapshotEntry {
    fn labels(&self) -> &Labels {
        &self.labels
    }
}

/// A snapshot to be taken.
pub(crate) struct Wanted {
    pub source: VolumeEntry,
    /// Its name; none until one is chosen.
    pub name: Option<String>,
    pub labels: Labels,
}

/// Take a snapshot of a volume, or of every volume of a group at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreateSnapshots {
    /// Of what.
    pub subject: SubjectName,
    /// What follows the volume's name and a dot; the time if none is given.
    pub suffix: Option<String>,
    /// Retention lock: it can't be deleted or changed before this time, in seconds since 1970.
    pub keep_until: Option<u64>,
    /// Labels of each.
    pub labels: LabelsChange,
}

/// Take snapshots of volumes at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreateSnapshotSet {
    /// Of what, in the order of the answer.
    pub sources: Vec<SnapshotSource>,
    /// What follows the volume's name and a dot, where no name is given; the time if none is given.
    pub suffix: Option<String>,
    /// Retention lock: they can't be deleted or changed before this time, in seconds since 1970.
    pub keep_until: Option<u64>,
    /// Labels of each.
    pub labels: LabelsChange,
}

/// A volume to snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotSource {
    /// Volume.
    pub volume: String,
    /// Name of the snapshot; default: the volume name, a dot and the suffix.
    pub name: Option<String>,
    /// Labels of the snapshot besides those of all.
    #[serde(default, deserialize_with = "LabelsChange::set")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: LabelsChange,
}

/// Changes to a snapshot, one field per request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotChange {
    /// New name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether hosts can write to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writable: Option<bool>,
    /// Retention lock: it cannot be deleted or changed before this time. Must be in the future and later than the current lock.
    #[serde(
        default,
        deserialize_with = "rfc3339",
        serialize_with = "some_time",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub retain_until: Option<u64>,
    /// Labels to set, and to remove with `null`; others are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, Option<String>>>)]
    pub labels: Option<LabelsChange>,
}

/// Options of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Comparison {
    /// Older snapshot or volume; if omitted, all mapped extents are returned.
    pub base: Option<String>,
    /// Start offset in bytes: `next` of the previous response.
    pub offset: Option<u64>,
    /// Maximum number of extents, 100000 at most; default 1000.
    #[param(minimum = 1, maximum = 100_000)]
    pub limit: Option<usize>,
}

verbs! {
    #![tag = "snapshots"]

    CreateSnapshots -> Ensured<Vec<Snapshot>>, Change "create" "snapshot", Operator,
        of |it, config| Object::of(&["subject"], &it.subject.shown(config))
        => |tx, it| tx.create_snapshots(it).await;
    CreateSnapshotSet -> Ensured<Vec<Snapshot>>, Change "create" "snapshot", Operator,
        of |it, config| {
            let names: Vec<_> = it.sources.iter().map(|it| config.name_for(&it.volume).to_owned()).collect();
            Object::of(&[], &format!("of {}", some_of(&names)))
        }
        => |tx, it| tx.create_snapshot_set(it).await;
    /// List snapshots
    ListSnapshots {} -> Vec<Snapshot>, Read "list" "snapshot", Viewer, at GET "/snapshots" part snapshot_page
        => |tx, _| Ok(tx.array.snapshot_page(&ListPage::default()).items);
    /// Get a snapshot
    ShowSnapshot { name } -> Snapshot, Read "show" "snapshot", Viewer, about name, at GET "/snapshots/{name}"
        => |tx, it| {
            let config = tx.array.config();
            config.snapshots.named(&it.name).map(|found| tx.array.snapshot(&config, found))
        };
    /// Rename a snapshot, change its access, or extend its retention lock
    ChangeSnapshot { name; body change: SnapshotChange } -> Snapshot, Change "change" "snapshot", Operator, about name,
        at PATCH "/snapshots/{name}"
        => |tx, it| tx.change_snapshot(&it.name, it.change).await;
    /// Delete a snapshot
    ///
    /// It must not be connected to a host. It moves to the recycle bin, or its data is eradicated.
    DeleteSnapshot { name; query how: Deletion } -> (), Change "delete" "snapshot", Operator, about name,
        at DELETE "/snapshots/{name}"
        => |tx, it| tx.delete_snapshot(&it.name, it.how.eradicate).await;
    /// List the extents that differ between a snapshot or volume and an older snapshot
    CompareSnapshots {
        /// Snapshot or volume
        name;
        query of: Comparison
    } -> Difference, Read "compare" "volume", Viewer, about name,
        at GET "/snapshots/{name}/diff" says "The differing extents"
        => |tx, it| tx.array.compare(&it.name, it.of).await;
}

impl Transaction<'_> {
    pub async fn create_snapshots(&mut self, new: CreateSnapshots) -> Result<Ensured<Vec<Snapshot>>> {
        let CreateSnapshots { subject, suffix, keep_until, labels } = new;
        let (field, sources): (_, Vec<VolumeEntry>) = {
            let config = self.array.config();
            match &subject {
                SubjectName::Volume(which) => ("volume", vec![config.volumes.named(which)?.clone()]),
                SubjectName::Group(which) => {
                    ("group", config.members(config.groups.named(which)?.id).cloned().collect())
                }
            }
        };
        if sources.is_empty() {
            return Err(Error::precondition("the volume group is empty: put volumes into it first"));
        }
        let labels = Labels::default().with(&labels)?;
        let wanted = sources.into_iter().map(|source| Wanted { source, name: None, labels: labels.clone() });
        self.take_or_find(field, wanted.collect(), suffix, keep_until).await
    }

    pub async fn create_snapshot_set(&mut self, new: CreateSnapshotSet) -> Result<Ensured<Vec<Snapshot>>> {
        let CreateSnapshotSet { sources, suffix, keep_until, labels } = new;
        if !(1..=MAX_SOURCES).contains(&sources.len()) {
            return Err(Error::invalid(format!("name 1 to {MAX_SOURCES} volumes")).about("sources"));
        }
        let mut wanted: Vec<Wanted> = Vec::with_capacity(sources.len());
        for SnapshotSource { volume, name, labels: own } in sources {
            name.as_deref().map(check::snapshot_name).transpose()?;
            let source = self.array.config().volumes.named(&volume)?.clone();
            if wanted.iter().any(|it| it.source.id == source.id || name.is_some() && it.name == name) {
                let message =
                    format!("volume {:?}, or the name of its snapshot, is given twice", source.name);
                return Err(Error::invalid(message).about("sources"));
            }
            let labels = Labels::default().with(&labels.clone().then(own))?;
            wanted.push(Wanted { source, name, labels });
        }
        self.take_or_find("sources", wanted, suffix, keep_until).await
    }

    /// Takes snapshots at one moment, or finds those that were taken by an equal request. `field`: the one that says of
    /// what.
    async fn take_or_find(
        &mut self,
        field: &'static str,
        mut wanted: Vec<Wanted>,
        suffix: Option<String>,
        keep_until: Option<u64>,
    ) -> Result<Ensured<Vec<Snapshot>>> {
        suffix.as_deref().map(check::snapshot_suffix).transpose()?;
        let nameless: Vec<_> =
            wanted.iter().filter(|it| it.name.is_none()).map(|it| it.source.clone()).collect();
        let repeatable = suffix.is_some() || nameless.is_empty();
        let suffix = suffix.unwrap_or_else(|| self.free_suffix(&nameless, &check::stamp(self.now())));
        for it in &mut wanted {
            it.name.get_or_insert_with(|| format!("{}.{suffix}", it.source.name));
        }
        if repeatable && let Some(found) = self.find_taken(field, &wanted, keep_until)? {
            return Ok(Ensured::existing(self.shown(&found)));
        }
        self.check_lock(keep_until)?;
        let taken = self.take(wanted, keep_until.unwrap_or(0), None).await?;
        Ok(Ensured::new(self.shown(&taken)))
    }

    fn shown(&self, entries: &[SnapshotEntry]) -> Vec<Snapshot> {
        let config = self.array.config();
        let there = entries.iter().filter_map(|entry| config.snapshots.get(entry.id));
        there.map(|entry| self.array.snapshot(&config, entry)).collect()
    }

    /// The snapshots that have these names, if all of them were taken of these volumes at one moment; `None` if no name
    /// is taken.
    pub(crate) fn find_taken(
        &self,
        field: &'static str,
        wanted: &[Wanted],
        keep_until: Option<u64>,
    ) -> Result<Option<Vec<SnapshotEntry>>> {
        let config = self.array.config();
        let find = |it: &Wanted| config.snapshots.find(it.name.as_deref()?).cloned();
        let found: Vec<SnapshotEntry> = wanted.iter().filter_map(find).collect();
        let Some(first) = found.first() else {
            wanted
                .iter()
                .filter_map(|it| it.name.as_deref())
                .try_for_each(|name| config.disk_name_free(name))?;
            return Ok(None);
        };
        let existing = Existing { noun: "snapshot", name: &first.name };
        existing.same(field, found.len() == wanted.len())?;
        for (entry, wanted) in found.iter().zip(wanted) {
            let existing = Existing { noun: "snapshot", name: &entry.name };
            existing.same(field, entry.source == wanted.source.id && entry.set == first.set)?;
            existing.same(
                "labels",
                wanted.labels.iter().all(|(key, value)| entry.labels.get(key) == Some(value)),
            )?;
            // It may have been extended since.
            let kept_until = self.array.parts.engine.disk(entry.id).map_or(0, |disk| disk.kept_until);
            existing.same("retain_until", keep_until.is_none_or(|until| kept_until >= until))?;
        }
        Ok(Some(found))
    }

    /// Takes snapshots of volumes at one moment. With `run`, the schedule that it is for, as it is to be afterwards, and
    /// the rules: all in one step.
    pub(crate) async fn take(
        &mut self,
        wanted: Vec<Wanted>,
        keep_until: u64,
        run: Option<(&ScheduleEntry, Vec<String>)>,
    ) -> Result<Vec<SnapshotEntry>> {
        let (set, created) = (self.id64(), self.now());
        let (schedule, rules) = run.unzip();
        let rules = rules.unwrap_or_default();
        let order = schedule.map_or(0, |schedule| self.array.config().newest_of(schedule.id) + 1);
        let entry = |Wanted { source, name, labels }: Wanted| SnapshotEntry {
            id: DiskId((self.array.env.random)()),
            name: name.unwrap_or_default(),
            source: source.id,
            created,
            stage: Stage::Ready,
            set,
            binned: None,
            schedule: schedule.map(|schedule| schedule.id),
            rules: rules.clone(),
            order,
            labels,
        };
        let entries: Vec<_> = wanted.into_iter().map(entry).collect();
        let snapshots = entries.iter().cloned().map(Record::Snapshot);
        let records = snapshots.chain(schedule.cloned().map(Record::Schedule));
        let edits = records.map(Edit::Put).collect();
        let pairs: Vec<_> = entries.iter().map(|entry| (entry.source, entry.id)).collect();
        self.commit_snapshots(&pairs, edits, keep_until).await?;
        for entry in &entries {
            self.done("snapshot.created", "snapshot", &entry.name, "was taken");
        }
        Ok(entries)
    }

    /// A suffix that gives a snapshot of each volume a free name: this one, or with a number if such a name is taken.
    pub(crate) fn free_suffix(&self, sources: &[VolumeEntry], suffix: &str) -> String {
        let config = self.array.config();
        let free = |suffix: &String| {
            let name = |source: &VolumeEntry| format!("{}.{suffix}", source.name);
            sources.iter().all(|source| config.disk_name_free(&name(source)).is_ok())
        };
        let numbered = (2..).map(|number| format!("{suffix}-{number}"));
        let mut candidates = std::iter::once(suffix.to_owned()).chain(numbered);
        candidates.find(free).expect("one of infinitely many names is free")
    }

    /// Refuses a retention lock that has ended, or lasts longer than allowed.
    fn check_lock(&self, until: Option<u64>) -> Result<()> {
        let (Some(until), begin) = (until, self.array.clock.retention_begin()) else { return Ok(()) };
        if until <= begin {
            return Err(Error::invalid(format!(
                "the retention lock of a snapshot must end in the future; now it is {}",
                history::utc(self.now())
            )));
        }
        check::retention_lock(&self.array.config(), until - begin, "retain_until")
    }

    pub async fn change_snapshot(&mut self, name: &str, change: SnapshotChange) -> Result<Snapshot> {
        let entry = self.array.config().snapshots.named(name)?.clone();
        let name = entry.name.as_str();
        let engine = &self.array.parts.engine;
        let refused = |error| Error::refused(&format!("snapshot {name:?} can't be changed"), error);
        let what = match (change.name, change.writable, change.retain_until, change.labels) {
            (Some(new), None, None, None) if new == entry.name => return self.snapshot_now(entry.id),
            (Some(new), None, None, None) => {
                check::snapshot_name(&new)?;
                self.array.config().disk_name_free(&new)?;
                let what = format!("was renamed {new:?}");
                let renamed = SnapshotEntry { name: new, ..entry.clone() };
                self.commit(vec![Edit::Put(Record::Snapshot(renamed))]).await?;
                what
            }
            (None, None, None, Some(labels)) => {
                let labels = entry.labels.with(&labels)?;
                if labels == entry.labels {
                    return self.snapshot_now(entry.id);
                }
                let changed = SnapshotEntry { labels, ..entry.clone() };
                self.commit(vec![Edit::Put(Record::Snapshot(changed))]).await?;
                "has other labels now".into()
            }
            (None, Some(writable), None, None) => {
                let before = engine.disk(entry.id).is_some_and(|disk| !disk.read_only);
                engine
                    .set_read_only(entry.id, !writable, self.array.clock.retention_now())
                    .await
                    .map_err(refused)?;
                let [before, after] = [before, writable].map(|it| json!({ "writable": it }));
                self.note_change("snapshot", Some(name), [&before, &after]);
                if writable { "was made writable".into() } else { "was made read-only".into() }
            }
            (None, None, Some(until), None) => {
                self.check_lock(Some(until))?;
                if engine.disk(entry.id).is_some_and(|disk| !disk.read_only) {
                    return Err(Error::precondition(format!(
                        "snapshot {name:?} is writable: make it read-only before it is kept"
                    )));
                }
                let before = engine.disk(entry.id).map_or(0, |disk| disk.kept_until);
                engine
                    .keep_until(entry.id, until, self.array.clock.retention_now())
                    .await
                    .map_err(refused)?;
                let [before, after] = [before, until].map(|it| json!({ "retain_until": history::utc(it) }));
                self.note_change("snapshot", Some(name), [&before, &after]);
                format!("is kept until {}", history::utc(until))
            }
            _ => {
                return Err(Error::invalid(
                    "change one field of a snapshot per request: name, writable, retain_until or labels",
                ));
            }
        };
        self.done("snapshot.changed", "snapshot", name, &what);
        self.array.publish_change(Topic::Snapshots);
        self.snapshot_now(entry.id)
    }

    pub async fn delete_snapshot(&mut self, name: &str, eradicate: bool) -> Result<()> {
        let entry = self.array.config().snapshots.named(name)?.clone();
        self.delete(DiskEntry::Snapshot(entry), eradicate).await
    }

    pub(crate) fn snapshot_now(&self, id: DiskId) -> Result<Snapshot> {
        let config = self.array.config();
        let entry = config.snapshots.get(id).ok_or_else(|| Error::not_found("the snapshot is gone"))?;
        Ok(self.array.snapshot(&config, entry))
    }
}

impl Array {
    /// One snapshot with those that see it.
    pub(crate) fn snapshot(&self, config: &Config, entry: &SnapshotEntry) -> Snapshot {
        let disk = self.parts.engine.disk(entry.id);
        Snapshot {
            id: entry.id,
            name: entry.name.clone(),
            source: config.volumes.get(entry.source).map(|volume| volume.name.clone()),
            source_id: entry.source,
            schedule: entry.schedule.and_then(|id| Some(config.schedules.get(id)?.name.clone())),
            set: entry.set,
            created: entry.created,
            size: disk.as_ref().map_or(0, |disk| disk.geometry.bytes()),
            block_size: disk.as_ref().map_or(0, |disk| disk.geometry.block_bytes),
            mapped: disk.as_ref().map_or(0, |disk| disk.space.mapped),
            writable: disk.as_ref().is_some_and(|disk| !disk.read_only),
            retain_until: disk
                .map(|disk| disk.kept_until)
                .filter(|until| *until > self.clock.retention_now()),
            naa: scsi::naa(entry.id),
            labels: entry.labels.clone(),
            connections: self.connections_of(config, entry.id),
        }
    }

    /// Snapshots by name.
    pub(crate) fn snapshot_page(&self, page: &ListPage) -> Listed<Snapshot> {
        let config = self.config();
        let Listed { items, total } = page.of(&config.snapshots);
        Listed { items: items.into_iter().map(|entry| self.snapshot(&config, entry)).collect(), total }
    }

    /// What differs between two disks, from a byte on; as far as one answer goes.
    pub(crate) async fn compare(&self, name: &str, of: Comparison) -> Result<Difference> {
        let Comparison { base, offset, limit } = of;
        let (from, most) = (offset.unwrap_or(0), limit.unwrap_or(USUAL_EXTENTS));
        let (old, new) = {
            let config = self.config();
            (base.map(|base| config.disk_named(&base)).transpose()?, config.disk_named(name)?)
        };
        if !(1..=MAX_EXTENTS).contains(&most) {
            return Err(Error::invalid(format!("ask for 1 to {MAX_EXTENTS} extents")));
        }
        let each = u64::from(self.disk(new, name)?.geometry().block_bytes);
        let found = self.parts.engine.diff(old, new, from / each, most).await;
        let found = found.map_err(|error| Error::refused(&format!("{name:?} can't be compared"), error))?;
        let extents = found.regions.iter().map(|region| DifferentExtent {
            offset: region.extent.lba * each,
            length: region.extent.blocks * each,
            mapped: region.state == Provisioning::Mapped,
        });
        Ok(Difference { items: extents.collect(), next: found.next.map(|lba| lba * each) })
    }
}
