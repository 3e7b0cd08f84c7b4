//! Snapshots: taking them of a volume or of a whole group at one moment, changing and restoring them, and comparing
//! two. Their records are committed in the same step.

use crate::array::Array;
use crate::request::verbs;
use crate::transaction::Transaction;
use crate::verb::Object;
use crate::view::{Difference, DifferentExtent, Snapshot, SubjectName, Volume};
use crate::{Error, Result, check};
use block::{Disk, DiskId, Provisioning};
use records::{DiskEntry, Edit, Record, ScheduleEntry, SnapshotEntry, Stage, Topic, VolumeEntry};
use serde::Serialize;
use serde_json::json;

/// Most extents of one answer to a comparison.
pub const MAX_EXTENTS: usize = 100_000;

/// Give a volume the contents and size that a snapshot, or another volume, has now. What it held is lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RestoreVolume {
    /// The volume to be overwritten.
    pub volume: String,
    /// The snapshot or volume with the contents.
    pub source: String,
}

/// Take a snapshot of a volume, or of every volume of a group at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreateSnapshots {
    /// Of what.
    pub subject: SubjectName,
    /// What follows the volume's name and a dot; the time if none is given.
    pub suffix: Option<String>,
    /// Nobody can delete or change it before this time, in seconds since 1970.
    pub keep_until: Option<u64>,
}

/// All snapshots, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListSnapshots;

/// One snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowSnapshot {
    /// Its name.
    pub name: String,
}

/// Change a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeSnapshot {
    /// Its name.
    pub name: String,
    /// What to change.
    pub change: SnapshotChange,
}

/// Delete a snapshot that no host sees: into the recycle bin, or for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeleteSnapshot {
    /// Its name.
    pub name: String,
    /// With its data and at once, instead of into the recycle bin.
    pub eradicate: bool,
}

/// What differs between two volumes or snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CompareSnapshots {
    /// The older one; nothing at all when none is given, so that everything mapped differs.
    pub base: Option<String>,
    /// The newer one.
    pub name: String,
    /// Where to begin, in bytes.
    pub from: u64,
    /// At most so many extents.
    pub most: usize,
}

/// What to change of a snapshot: one record at a time, as each is a step of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotChange {
    /// Another name.
    Name(String),
    /// Whether hosts may write to it.
    Writable(bool),
    /// Nobody can delete or change it before this time, in seconds since 1970.
    KeepUntil(u64),
}

verbs! {
    RestoreVolume -> Volume, Change "restore" "volume", Operator, about volume
        => |tx, it| tx.restore_volume(&it.volume, &it.source).await;
    CreateSnapshots -> Vec<Snapshot>, Change "create" "snapshot", Operator,
        of |it, _| Object::of(&["subject"], &it.subject.to_string())
        => |tx, it| tx.create_snapshots(&it.subject, it.suffix, it.keep_until).await;
    ListSnapshots -> Vec<Snapshot>, Read "list" "snapshot", Viewer
        => |tx, _| Ok(tx.array.snapshots(&tx.array.config()));
    ShowSnapshot -> Snapshot, Read "show" "snapshot", Viewer, about name
        => |tx, it| {
            let config = tx.array.config();
            config.snapshots.named(&it.name).map(|found| tx.array.snapshot(&config, found))
        };
    ChangeSnapshot -> Snapshot, Change "change" "snapshot", Operator, about name
        => |tx, it| tx.change_snapshot(&it.name, it.change).await;
    DeleteSnapshot -> (), Change "delete" "snapshot", Operator, about name
        => |tx, it| tx.delete_snapshot(&it.name, it.eradicate).await;
    CompareSnapshots -> Difference, Read "compare" "volume", Viewer, about name
        => |tx, it| tx.array.compare(it.base, &it.name, it.from, it.most).await;
}

impl Transaction<'_> {
    pub async fn create_snapshots(
        &mut self,
        subject: &SubjectName,
        suffix: Option<String>,
        keep_until: Option<u64>,
    ) -> Result<Vec<Snapshot>> {
        let sources: Vec<VolumeEntry> = {
            let config = self.array.config();
            match subject {
                SubjectName::Volume(name) => vec![config.volumes.named(name)?.clone()],
                SubjectName::Group(name) => config.members(config.groups.named(name)?.id).cloned().collect(),
            }
        };
        if sources.is_empty() {
            return Err(Error::precondition("the volume group is empty: put volumes into it first"));
        }
        self.refuse_past(keep_until)?;
        let suffix = self.suffix(&sources, suffix)?;
        let entries = self.take(&sources, &suffix, keep_until.unwrap_or(0), None).await?;
        let config = self.array.config();
        let taken = entries.iter().filter_map(|entry| config.snapshots.get(entry.id));
        Ok(taken.map(|entry| self.array.snapshot(&config, entry)).collect())
    }

    /// Takes snapshots of volumes at one moment; each is called as its volume, a dot and the suffix. With `run`, the
    /// schedule that it is for, as it is to be afterwards, and the rules: all in one step.
    pub(crate) async fn take(
        &mut self,
        sources: &[VolumeEntry],
        suffix: &str,
        keep_until: u64,
        run: Option<(&ScheduleEntry, Vec<String>)>,
    ) -> Result<Vec<SnapshotEntry>> {
        let (set, created) = (self.id64(), self.now());
        let (schedule, rules) = run.unzip();
        let rules = rules.unwrap_or_default();
        let order = schedule.map_or(0, |schedule| self.array.config().newest_of(schedule.id) + 1);
        let entry = |source: &VolumeEntry| SnapshotEntry {
            id: DiskId((self.array.env.random)()),
            name: format!("{}.{suffix}", source.name),
            source: source.id,
            created,
            stage: Stage::Ready,
            set,
            binned: None,
            schedule: schedule.map(|schedule| schedule.id),
            rules: rules.clone(),
            order,
        };
        let entries: Vec<_> = sources.iter().map(entry).collect();
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

    /// A suffix that gives every snapshot a free name: the given one, or one made of the time.
    fn suffix(&self, sources: &[VolumeEntry], given: Option<String>) -> Result<String> {
        let Some(suffix) = given else { return Ok(self.free_suffix(sources, &check::stamp(self.now()))) };
        check::name("snapshot", &suffix)?;
        let config = self.array.config();
        for source in sources {
            config.disk_name_free(&format!("{}.{suffix}", source.name))?;
        }
        Ok(suffix)
    }

    /// As it is, or with a number if such a name is taken.
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

    fn refuse_past(&self, until: Option<u64>) -> Result<()> {
        match until {
            Some(until) if until <= self.array.clock.retention_begin() => Err(Error::invalid(format!(
                "a snapshot can be kept until a time to come only; now it is {}",
                records::utc(self.now())
            ))),
            _ => Ok(()),
        }
    }

    pub async fn change_snapshot(&mut self, name: &str, change: SnapshotChange) -> Result<Snapshot> {
        let entry = self.array.config().snapshots.named(name)?.clone();
        let engine = &self.array.parts.engine;
        let refused = |error| Error::refused(&format!("snapshot {name:?} can't be changed"), error);
        let what = match change {
            SnapshotChange::Name(new) if new == entry.name => return self.snapshot_now(entry.id),
            SnapshotChange::Name(new) => {
                check::snapshot_name(&new)?;
                self.array.config().disk_name_free(&new)?;
                let what = format!("was renamed {new:?}");
                let renamed = SnapshotEntry { name: new, ..entry.clone() };
                self.commit(vec![Edit::Put(Record::Snapshot(renamed))]).await?;
                what
            }
            SnapshotChange::Writable(writable) => {
                let before = engine.disk(entry.id).is_some_and(|disk| !disk.read_only);
                engine
                    .set_read_only(entry.id, !writable, self.array.clock.retention_now())
                    .await
                    .map_err(refused)?;
                let [before, after] = [before, writable].map(|it| json!({ "writable": it }));
                self.note_change("snapshot", Some(name), [&before, &after]);
                if writable { "was made writable".into() } else { "was made read-only".into() }
            }
            SnapshotChange::KeepUntil(until) => {
                self.refuse_past(Some(until))?;
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
                let [before, after] = [before, until].map(|it| json!({ "keep_until": records::utc(it) }));
                self.note_change("snapshot", Some(name), [&before, &after]);
                format!("is kept until {}", records::utc(until))
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

    pub async fn restore_volume(&mut self, volume: &str, source: &str) -> Result<Volume> {
        let (id, from) = {
            let config = self.array.config();
            (config.volumes.named(volume)?.id, config.disk_named(source)?)
        };
        if id == from {
            return Err(Error::invalid("a volume is not restored from itself: name a snapshot"));
        }
        let before = self.array.disk(id, volume)?.geometry();
        let other = self.array.disk(from, source)?.geometry();
        if before.block_bytes != other.block_bytes {
            return Err(Error::invalid(format!(
                "{volume:?} has blocks of {} bytes and {source:?} of {}: clone {source:?} instead",
                before.block_bytes, other.block_bytes
            )));
        }
        let restored = self.array.parts.engine.restore_volume(id, from).await;
        restored.map_err(|error| Error::refused(&format!("volume {volume:?} can't be restored"), error))?;
        if before != other {
            self.array.parts.exports.notify(id, export::Event::CapacityChanged);
        }
        self.array.parts.exports.notify(id, export::Event::ContentReplaced);
        self.done("volume.overwritten", "volume", volume, &format!("was restored from {source:?}"));
        self.array.publish_change(Topic::Volumes);
        self.volume_now(id)
    }

    pub(crate) fn snapshot_now(&self, id: DiskId) -> Result<Snapshot> {
        let config = self.array.config();
        let entry = config.snapshots.get(id).ok_or_else(|| Error::not_found("the snapshot is gone"))?;
        Ok(self.array.snapshot(&config, entry))
    }
}

impl Array {
    /// What differs between two disks, from a byte on; as far as one answer goes.
    pub(crate) async fn compare(
        &self,
        base: Option<String>,
        name: &str,
        from: u64,
        most: usize,
    ) -> Result<Difference> {
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
            bytes: region.extent.blocks * each,
            mapped: region.state == Provisioning::Mapped,
        });
        Ok(Difference { extents: extents.collect(), next: found.next.map(|lba| lba * each) })
    }
}
