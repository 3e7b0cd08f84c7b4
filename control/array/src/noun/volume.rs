//! Volumes: creating, cloning, changing and deleting them.

use crate::array::Array;
use crate::array::page::ListPage;
use crate::array::page::{Labelled, Listed};
use crate::array::projection::RECENT_SECONDS;
use crate::array::transaction::{EmptyVolume, Transaction};
use crate::configuration::check;
use crate::events::audit::Object;
use crate::noun::connection::Connection;
use crate::request::verbs;
use crate::service::caller::Caller;
use crate::shape::ensure::{Ensured, Existing};
use crate::shape::policy::{PolicyInForce, policy_of};
use crate::shape::view::{MeasuredReduction, some_of};
use crate::shape::work::RecentPerformance;
use crate::shape::{digits, shapes, some_digits, time};
use crate::{Error, Result};
use block::{Disk, DiskId, Geometry};
use history::Sample;
use records::{
    Config, DiskEntry, Edit, GroupId, Labels, LabelsChange, Limits, LimitsChange, Policy, PolicyChange,
    Record, Stage, Topic, VolumeEntry, present,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;
use utoipa::{IntoParams, ToSchema};

/// Volumes that are created in one step: their records fit into one batch of the journal.
pub(crate) const VOLUMES_PER_STEP: usize = 64;

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Volume {
    /// Name.
    pub name: String,
    /// Permanent identifier: 32 hex digits.
    #[serde(serialize_with = "digits")]
    #[schema(value_type = String)]
    pub id: DiskId,
    /// Size presented to hosts, in bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub size: u64,
    /// Logical block length in bytes: 512 or 4096.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub block_size: u32,
    /// Mapped (written and not unmapped) bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub mapped: u64,
    /// Identifier reported to hosts (NAA, VPD page 83h).
    pub naa: String,
    /// Creation time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Volume group; `null` if it is in none.
    pub group: Option<String>,
    /// Permanent identifier of the volume group.
    #[schema(value_type = Option<String>)]
    pub group_id: Option<GroupId>,
    /// Volume or snapshot that it was cloned from; `null` if it is no clone, or the source has been deleted.
    pub source: Option<String>,
    /// Permanent identifier of the volume or snapshot that it was cloned from, even if that has been deleted.
    #[serde(serialize_with = "some_digits")]
    #[schema(value_type = Option<String>)]
    pub source_id: Option<DiskId>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Data reduction settings of this volume.
    #[serde(serialize_with = "Policy::whole")]
    pub policy: Policy,
    /// Effective data reduction settings for new writes.
    pub policy_in_force: PolicyInForce,
    /// QoS limits of this volume, in addition to those of its group.
    #[serde(serialize_with = "Limits::whole")]
    pub limits: Limits,
    /// Whether SCSI-2 RESERVE and RELEASE are supported.
    pub scsi2_reservations: bool,
    /// Whether hosts may see it over iSCSI and over NVMe/TCP at once.
    pub mixed_transports: bool,
    /// Labels.
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// Number of snapshots.
    pub snapshots: usize,
    /// Performance in the last five seconds.
    #[serde(serialize_with = "RecentPerformance::serialize_of")]
    #[schema(value_type = RecentPerformance)]
    pub performance: Sample,
    /// Data reduction when it was measured last, in the background: data with snapshots to the space that only it takes. `null`
    /// if it was not measured, has no data, or shares all of them.
    #[serde(serialize_with = "MeasuredReduction::serialize_ratio")]
    #[schema(value_type = Option<f64>, extensions(("x-unit" = json!("ratio"))))]
    pub reduction: Option<MeasuredReduction>,
    /// Connections to hosts and host groups.
    pub connections: Vec<Connection>,
}

shapes! {
    Volume: "Volumes" "Volumes." "Sorted by name", labels;
}

impl Labelled for VolumeEntry {
    fn labels(&self) -> &Labels {
        &self.labels
    }
}

/// Volumes that one request creates at most. The change is one record of the journal.
pub const MAX_NEW_VOLUMES: usize = 1000;

fn put(entry: &VolumeEntry, stage: Stage) -> Edit {
    Edit::Put(Record::Volume(VolumeEntry { stage, ..entry.clone() }))
}

/// Create a volume. `bytes`: 1 MiB to 16 PiB; `block_bytes`: 512 or 4096.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CreateVolume {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its logical block length in bytes.
    pub block_bytes: u32,
    /// The volume group to be in.
    pub group: Option<String>,
    /// Its labels.
    pub labels: LabelsChange,
}

/// Create volumes that differ in their names alone: all of them, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CreateVolumes {
    /// Their names, 1 to [`MAX_NEW_VOLUMES`].
    pub names: Vec<String>,
    /// The size of each in bytes.
    pub bytes: u64,
    /// The logical block length of each in bytes.
    pub block_bytes: u32,
    /// The volume group to be in.
    pub group: Option<String>,
    /// The labels of each.
    pub labels: LabelsChange,
}

/// Clone a volume or a snapshot: a new volume with its contents of now, sharing its space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CloneVolume {
    /// The volume or snapshot to copy.
    pub source: String,
    /// Name of the new one.
    pub name: String,
    /// The volume group to be in.
    pub group: Option<String>,
    /// Its labels.
    pub labels: LabelsChange,
}

/// Changes to a volume. Omitted fields keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeChange {
    /// New name.
    pub name: Option<String>,
    /// New size in bytes. Must be the only field of the request besides `shrink`.
    pub size: Option<u64>,
    /// Allow a smaller size. Data after the new end is destroyed.
    #[serde(default)]
    pub shrink: bool,
    /// New volume group; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub group: Option<Option<String>>,
    /// Effective data reduction settings for new writes.
    #[serde(default)]
    pub policy: PolicyChange,
    /// QoS limits.
    #[serde(default)]
    pub limits: LimitsChange,
    /// Whether SCSI-2 RESERVE and RELEASE are supported.
    pub scsi2_reservations: Option<bool>,
    /// Whether hosts may see it over iSCSI and over NVMe/TCP at once. Reservations and atomic writes hold across both; clusters of
    /// ESXi hosts do not support it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixed_transports: Option<bool>,
    /// Whether writes are refused. Must be the only field of the request.
    pub read_only: Option<bool>,
    /// Labels to set, and to remove with `null`; others are kept.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub labels: LabelsChange,
}

/// Options for deleting a volume or snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Deletion {
    /// Eradicate the data immediately instead of moving it to the recycle bin.
    #[serde(default)]
    pub eradicate: bool,
}

verbs! {
    #![tag = "volumes"]

    CreateVolume -> Ensured<Volume>, Change "create" "volume", Operator, about name
        => |tx, it| tx.create_volume(it).await;
    CreateVolumes -> Ensured<Vec<Volume>>, Change "create" "volume", Operator,
        of |it, _| Object::of(&[], &some_of(&it.names))
        => |tx, it| tx.create_volumes(it).await;
    CloneVolume -> Ensured<Volume>, Change "clone" "volume", Operator, about name
        => |tx, it| tx.clone_volume(it).await;
    /// List volumes
    ListVolumes {} -> Vec<Volume>, Read "list" "volume", Viewer, at GET "/volumes" part volume_page
        => |tx, _| Ok(tx.array.volume_page(&ListPage::default()).items);
    /// Get a volume
    ShowVolume { name } -> Volume, Read "show" "volume", Viewer, about name, at GET "/volumes/{name}"
        => |tx, it| {
            let config = tx.array.config();
            config.volumes.named(&it.name).map(|found| tx.array.volume(&config, found))
        };
    /// Change a volume
    ///
    /// A size change raises a unit attention condition on connected hosts.
    ChangeVolume { name; body change: VolumeChange } -> Volume, Change "change" "volume", Operator, about name,
        at PATCH "/volumes/{name}"
        => |tx, it| tx.change_volume(&it.name, it.change).await;
    /// Delete a volume
    ///
    /// It must not be connected to a host. It moves to the recycle bin, or its data is eradicated.
    DeleteVolume { name; query how: Deletion } -> (), Change "delete" "volume", Operator, about name,
        at DELETE "/volumes/{name}"
        => |tx, it| tx.delete_volume(&it.name, it.how.eradicate).await;
}

impl Array {
    /// Some volumes with those that see them. No other volume is looked at.
    pub(crate) fn volume_views(&self, config: &Config, entries: &[&VolumeEntry]) -> Vec<Volume> {
        let recent = self.metering.recent_of(RECENT_SECONDS, entries.iter().map(|entry| entry.id));
        let view = |(entry, recent): (&&VolumeEntry, Sample)| {
            self.volume_with(config, entry, (config.snapshots_of(entry.id).count(), recent))
        };
        entries.iter().zip(recent).map(view).collect()
    }

    /// One volume with those that see it.
    pub(crate) fn volume(&self, config: &Config, entry: &VolumeEntry) -> Volume {
        self.volume_views(config, &[entry]).remove(0)
    }

    fn volume_with(
        &self,
        config: &Config,
        entry: &VolumeEntry,
        (snapshots, recent): (usize, Sample),
    ) -> Volume {
        let disk = self.parts.engine.disk(entry.id);
        let source_id = disk.as_ref().and_then(|disk| disk.parent);
        Volume {
            id: entry.id,
            name: entry.name.clone(),
            size: disk.as_ref().map_or(0, |disk| disk.geometry.bytes()),
            block_size: disk.as_ref().map_or(0, |disk| disk.geometry.block_bytes),
            mapped: disk.as_ref().map_or(0, |disk| disk.space.mapped),
            naa: scsi::naa(entry.id),
            created: entry.created,
            group: entry.group.and_then(|id| Some(config.groups.get(id)?.name.clone())),
            group_id: entry.group,
            source: source_id.and_then(|id| config.disk_name(id).map(str::to_owned)),
            source_id,
            read_only: disk.is_some_and(|disk| disk.read_only),
            policy: entry.policy,
            policy_in_force: policy_of(config, entry).into(),
            limits: entry.limits,
            scsi2_reservations: entry.scsi2_reservations,
            mixed_transports: entry.mixed_transports,
            labels: entry.labels.clone(),
            snapshots,
            performance: recent,
            reduction: self.usage_meter.reduction(entry.id),
            connections: self.connections_of(config, entry.id),
        }
    }

    /// Volumes by name.
    pub(crate) fn volume_page(&self, page: &ListPage) -> Listed<Volume> {
        let config = self.config();
        let Listed { items, total } = page.of(&config.volumes);
        Listed { items: self.volume_views(&config, &items), total }
    }

    /// The volumes with these names, as far as they exist; no others are looked at.
    ///
    /// # Errors
    /// When the caller is not allowed to list volumes.
    pub fn volumes_named(&self, caller: &Caller, names: &[&str]) -> Result<Vec<Volume>> {
        self.authorize(caller, &ListVolumes)?;
        let config = self.config();
        let found: Vec<_> = names.iter().filter_map(|name| config.volumes.find(name)).collect();
        Ok(self.volume_views(&config, &found))
    }
}

impl Transaction<'_> {
    /// The volume that a request creates; `None` if an equal one exists.
    pub(crate) fn wanted(&self, new: CreateVolume) -> Result<Option<EmptyVolume>> {
        let CreateVolume { name, bytes, block_bytes, group, labels } = new;
        check::name("volume", &name)?;
        let (geometry, group) = (check::geometry(bytes, block_bytes)?, self.group_named(group)?);
        let config = self.config();
        if let Some(entry) = config.volumes.find(&name) {
            self.same_volume(entry, (None, Some(geometry)), group, &labels)?;
            return Ok(None);
        }
        config.disk_name_free(&name)?;
        let (id, labels) = (DiskId((self.array.env.random)()), Labels::default().with(&labels)?);
        let entry = VolumeEntry { labels, ..VolumeEntry::new(id, name, self.now(), Stage::Ready, group) };
        Ok(Some(EmptyVolume { entry, geometry }))
    }

    /// Creates volumes in one step.
    pub(crate) async fn create_empty(&mut self, new: &[EmptyVolume]) -> Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        let created = self.commit_volumes(new.to_vec()).await;
        created.map_err(|error| {
            let names: Vec<_> = new.iter().map(|it| it.entry.name.clone()).collect();
            Error::refused(&format!("volume {} could not be made", some_of(&names)), error)
        })?;
        new.iter().for_each(|it| self.done("volume.created", "volume", &it.entry.name, "was created"));
        Ok(())
    }

    pub async fn create_volume(&mut self, new: CreateVolume) -> Result<Ensured<Volume>> {
        let CreateVolume { name, bytes, block_bytes, group, labels } = new;
        let new = CreateVolumes { names: vec![name], bytes, block_bytes, group, labels };
        let Ensured { mut object, created } = self.create_volumes(new).await?;
        let object = object.pop().ok_or_else(|| Error::not_found("the volume is gone"))?;
        Ok(Ensured { object, created })
    }

    pub async fn create_volumes(&mut self, new: CreateVolumes) -> Result<Ensured<Vec<Volume>>> {
        let CreateVolumes { names, bytes, block_bytes, group, labels } = new;
        if !(1..=MAX_NEW_VOLUMES).contains(&names.len()) {
            return Err(Error::invalid(format!("name 1 to {MAX_NEW_VOLUMES} volumes")).about("names"));
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(Error::invalid(format!("volume {twice:?} is named twice")).about("names"));
        }
        let mut wanted = Vec::with_capacity(names.len());
        for name in names.iter().cloned() {
            let (group, labels) = (group.clone(), labels.clone());
            wanted.extend(self.wanted(CreateVolume { name, bytes, block_bytes, group, labels })?);
        }
        self.create_empty(&wanted).await?;
        let config = self.config();
        let there: Vec<_> = names.iter().filter_map(|name| config.volumes.find(name)).collect();
        let object = self.array.volume_views(&config, &there);
        Ok(Ensured { object, created: !wanted.is_empty() })
    }

    pub async fn clone_volume(&mut self, new: CloneVolume) -> Result<Ensured<Volume>> {
        let CloneVolume { source, name, group, labels } = new;
        let source = self.config().disk_named(&source)?;
        check::name("volume", &name)?;
        let group = self.group_named(group)?;
        let existing = self.config().volumes.find(&name).cloned();
        if let Some(entry) = existing {
            self.same_volume(&entry, (Some(source), None), group, &labels)?;
            return self.volume_now(entry.id).map(Ensured::existing);
        }
        self.config().disk_name_free(&name)?;
        let (id, created) = (DiskId((self.array.env.random)()), self.now());
        let labels = Labels::default().with(&labels)?;
        let entry = VolumeEntry { labels, ..VolumeEntry::new(id, name, created, Stage::Ready, group) };
        let created = self.commit_clone(source, entry.clone()).await;
        created
            .map_err(|error| Error::refused(&format!("volume {:?} could not be made", entry.name), error))?;
        self.done("volume.created", "volume", &entry.name, "was created");
        self.volume_now(entry.id).map(Ensured::new)
    }

    /// Refuses a request to make a volume that exists, unless it is as the request has it.
    fn same_volume(
        &self,
        entry: &VolumeEntry,
        (source, geometry): (Option<DiskId>, Option<Geometry>),
        group: Option<GroupId>,
        labels: &LabelsChange,
    ) -> Result<()> {
        let existing = Existing { noun: "volume", name: &entry.name };
        let parent = self.array.parts.engine.disk(entry.id).and_then(|disk| disk.parent);
        existing.same("source", parent == source)?;
        if let Some(wanted) = geometry {
            let now = self.array.disk(entry.id, &entry.name)?.geometry();
            existing.same("size", wanted.bytes() == now.bytes())?;
            existing.same("block_size", wanted.block_bytes == now.block_bytes)?;
        }
        existing.same("group", group.is_none() || group == entry.group)?;
        existing.same_labels(&entry.labels, labels)
    }

    pub async fn change_volume(&mut self, name: &str, change: VolumeChange) -> Result<Volume> {
        let entry = self.config().volumes.named(name)?.clone();
        let alone = VolumeChange {
            size: change.size,
            shrink: change.shrink,
            read_only: change.read_only,
            ..VolumeChange::default()
        };
        match (change.size, change.read_only) {
            (None, None) => {}
            (Some(bytes), None) if change == alone => {
                return self.resize_volume(&entry, bytes, change.shrink).await;
            }
            (None, Some(read_only)) if change == alone => {
                self.refuse_held(&entry, read_only)?;
                return self.lock_volume(&entry, read_only).await;
            }
            _ => {
                return Err(Error::invalid(
                    "a volume gets another size, or becomes read-only, in a request of its own: leave out the rest, \
                     and send it after",
                ));
            }
        }
        let new = self.changed(&entry, change)?;
        if new != entry {
            self.commit(vec![put(&new, Stage::Ready)]).await?;
            let what = match new.name == entry.name {
                true => "was changed".into(),
                false => format!("was renamed {:?}", new.name),
            };
            self.done("volume.changed", "volume", &entry.name, &what);
        }
        self.volume_now(entry.id)
    }

    /// The record of a volume after a change, without size and whether it takes changes.
    pub(crate) fn changed(&self, entry: &VolumeEntry, change: VolumeChange) -> Result<VolumeEntry> {
        let mut new = entry.clone();
        let VolumeChange {
            name: new_name,
            group,
            policy,
            limits,
            scsi2_reservations,
            mixed_transports,
            labels,
            ..
        } = change;
        if let Some(name) = new_name.filter(|name| *name != entry.name) {
            check::name("volume", &name)?;
            self.config().disk_name_free(&name)?;
            new.name = name;
        }
        if let Some(group) = group {
            new.group = self.group_named(group)?;
        }
        new.policy = new.policy.with(policy);
        new.limits = new.limits.with(limits)?;
        new.labels = new.labels.with(&labels)?;
        new.scsi2_reservations = scsi2_reservations.unwrap_or(new.scsi2_reservations);
        new.mixed_transports = mixed_transports.unwrap_or(new.mixed_transports);
        Ok(new)
    }

    async fn resize_volume(&mut self, entry: &VolumeEntry, bytes: u64, shrink: bool) -> Result<Volume> {
        let name = &entry.name;
        let now = self.array.disk(entry.id, name)?.geometry();
        let wanted = check::geometry(bytes, now.block_bytes)?;
        if wanted.blocks < now.blocks && !shrink {
            return Err(Error::precondition(format!(
                "volume {name:?} has {} bytes; making it smaller destroys the data after byte {bytes}: allow \
                 it with --force (in the API: `shrink`) if that is meant",
                now.bytes()
            )));
        }
        if wanted != now && !self.is_rehearsal() {
            let resized = self.array.parts.engine.resize_volume(entry.id, wanted.blocks).await;
            resized
                .map_err(|error| Error::refused(&format!("volume {name:?} could not be resized"), error))?;
            self.array.parts.exports.notify(entry.id, export::Event::CapacityChanged);
            let [before, after] = [now.bytes(), bytes].map(|bytes| json!({ "size": bytes }));
            self.note_change("volume", Some(name), [&before, &after]);
            self.array.publish_change(Topic::Volumes);
            let what = format!("was resized from {} to {bytes} bytes", now.bytes());
            self.done("volume.resized", "volume", name, &what);
        }
        self.volume_now(entry.id)
    }

    /// Refuses that a volume takes changes which the array that is in use would not have.
    pub(crate) fn refuse_held(&self, entry: &VolumeEntry, read_only: bool) -> Result<()> {
        let config = self.config();
        let held = config.replications.iter().find(|it| it.holds(entry.id, entry.group));
        match held.filter(|_| !read_only) {
            Some(replication) => Err(Error::precondition(format!(
                "volume {:?} is read-only until replication {:?} is promoted on this array",
                entry.name, replication.name
            ))),
            None => Ok(()),
        }
    }

    pub(crate) async fn lock_volume(&mut self, entry: &VolumeEntry, read_only: bool) -> Result<Volume> {
        let name = &entry.name;
        if self.array.disk(entry.id, name)?.is_read_only() != read_only {
            let set = self
                .array
                .parts
                .engine
                .set_read_only(entry.id, read_only, self.array.clock.retention_now())
                .await;
            set.map_err(|error| Error::refused(&format!("volume {name:?} can't be changed"), error))?;
            let [before, after] = [!read_only, read_only].map(|it| json!({ "read_only": it }));
            self.note_change("volume", Some(name), [&before, &after]);
            let what = if read_only { "was made read-only" } else { "takes changes again" };
            self.done("volume.changed", "volume", name, what);
            self.array.publish_change(Topic::Volumes);
        }
        self.volume_now(entry.id)
    }

    pub async fn delete_volume(&mut self, name: &str, eradicate: bool) -> Result<()> {
        let entry = self.config().volumes.named(name)?.clone();
        self.delete(DiskEntry::Volume(entry), eradicate).await
    }

    pub fn group_named(&self, name: Option<String>) -> Result<Option<GroupId>> {
        name.map(|name| Ok(self.config().groups.named(&name)?.id)).transpose()
    }

    pub(crate) fn volume_now(&self, id: DiskId) -> Result<Volume> {
        let config = self.config();
        let entry = config.volumes.get(id).ok_or_else(|| Error::not_found("the volume is gone"))?;
        Ok(self.array.volume(&config, entry))
    }
}
