//! Volume groups: volumes that share quotas, a reduction policy and QoS limits.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::request::verbs;
use crate::service::quotas::mapped;
use crate::shape::ensure::{Ensured, Existing};
use crate::shape::{shapes, time};
use crate::{Error, Result};
use block::Disk;
use records::{
    Config, Edit, GroupEntry, GroupId, Labels, LabelsChange, Limits, LimitsChange, Policy, PolicyChange,
    Record, Stage, Subject, VolumeEntry, present,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A volume group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Group {
    /// Name.
    pub name: String,
    /// Permanent identifier: 16 hex digits.
    #[schema(value_type = String)]
    pub id: GroupId,
    /// Creation time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Mapped bytes above which operators and hosts are warned; `null`: no quota.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub soft_quota: Option<u64>,
    /// Mapped bytes above which writes that need new space fail, checked once a second; `null`: no quota.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub hard_quota: Option<u64>,
    /// Volumes.
    pub volumes: Vec<String>,
    /// Provisioned bytes: sum of the volume sizes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub provisioned: u64,
    /// Mapped (written and not unmapped) bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub mapped: u64,
    /// Whether the soft quota is exceeded.
    pub soft_quota_crossed: bool,
    /// Whether the hard quota is reached, so that writes that need new space fail.
    pub hard_quota_reached: bool,
    /// Data reduction settings of its volumes, unless a volume overrides them.
    #[serde(serialize_with = "Policy::whole")]
    pub policy: Policy,
    /// QoS limits shared by its volumes.
    #[serde(serialize_with = "Limits::whole")]
    pub limits: Limits,
    /// Labels.
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
}

shapes! {
    Group: "Groups" "Volume groups." "Sorted by name", labels;
}

/// A new volume group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewGroup)]
pub struct CreateGroup {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    pub name: String,
    /// Mapped bytes above which operators and hosts are warned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft_quota: Option<u64>,
    /// Mapped bytes above which writes that need new space fail, checked once a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard_quota: Option<u64>,
    /// Data reduction settings of its volumes, unless a volume overrides them.
    #[serde(default, skip_serializing_if = "PolicyChange::is_empty")]
    pub policy: PolicyChange,
    /// QoS limits shared by its volumes.
    #[serde(default, skip_serializing_if = "LimitsChange::is_empty")]
    pub limits: LimitsChange,
    /// Labels: keys of 1 to 63 letters, digits, '-', '_', '.' or '/', values of at most 255 bytes; 64 at most.
    #[serde(default, deserialize_with = "LabelsChange::set", skip_serializing_if = "LabelsChange::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: LabelsChange,
}

/// Changes to a volume group. Omitted fields keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupChange {
    /// New name.
    pub name: Option<String>,
    /// Mapped bytes above which operators and hosts are warned; `null`: no quota.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>)]
    pub soft_quota: Option<Option<u64>>,
    /// Mapped bytes above which writes that need new space fail, checked once a second; `null`: no quota.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>)]
    pub hard_quota: Option<Option<u64>>,
    /// Data reduction settings of its volumes, unless a volume overrides them.
    #[serde(default)]
    pub policy: PolicyChange,
    /// QoS limits shared by its volumes.
    #[serde(default)]
    pub limits: LimitsChange,
    /// Labels to set, and to remove with `null`; others are kept.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub labels: LabelsChange,
}

verbs! {
    #![tag = "groups"]

    /// Create a volume group
    CreateGroup -> Ensured<Group>, Change "create" "volume group", Operator, about name, at POST "/groups"
        => |tx, it| tx.create_group(it).await;
    /// List volume groups
    ListGroups {} -> Vec<Group>, Read "list" "volume group", Viewer, at GET "/groups"
        => |tx, _| Ok(tx.array.groups(&tx.array.config()));
    /// Get a volume group
    ShowGroup { name } -> Group, Read "show" "volume group", Viewer, about name, at GET "/groups/{name}"
        => |tx, it| tx.array.config().groups.named(&it.name).map(|found| tx.array.group(&tx.array.config(), found));
    /// Change a volume group
    ChangeGroup { name; body change: GroupChange } -> Group, Change "change" "volume group", Operator, about name,
        at PATCH "/groups/{name}"
        => |tx, it| tx.change_group(&it.name, it.change).await;
    /// Delete a volume group
    ///
    /// Its volumes are kept.
    DeleteGroup { name } -> (), Change "delete" "volume group", Operator, about name, at DELETE "/groups/{name}"
        => |tx, it| tx.delete_group(&it.name).await;
}

impl CreateGroup {
    /// What creates a group like this one.
    pub(crate) fn of(entry: &GroupEntry) -> Self {
        let GroupEntry { name, soft_quota, hard_quota, policy, limits, labels, .. } = entry.clone();
        let (policy, limits, labels) = (policy.into(), limits.into(), labels.into());
        Self { name, soft_quota, hard_quota, policy, limits, labels }
    }

    /// What makes a group with these labels like the one that it creates.
    pub(crate) fn overwrite(self, now: &LabelsChange) -> GroupChange {
        GroupChange {
            name: None,
            soft_quota: Some(self.soft_quota),
            hard_quota: Some(self.hard_quota),
            policy: self.policy.whole(),
            limits: self.limits.whole(),
            labels: now.gone().then(self.labels),
        }
    }

    /// Its name, and what is set from its defaults.
    fn settings(self) -> (String, GroupChange) {
        let Self { name, soft_quota, hard_quota, policy, limits, labels } = self;
        let (soft_quota, hard_quota) = (soft_quota.map(Some), hard_quota.map(Some));
        (name, GroupChange { name: None, soft_quota, hard_quota, policy, limits, labels })
    }
}

impl Array {
    /// Every volume group, by name.
    pub(crate) fn groups(&self, config: &Config) -> Vec<Group> {
        config.groups.iter().map(|entry| self.group(config, entry)).collect()
    }

    /// One volume group.
    pub(crate) fn group(&self, config: &Config, entry: &GroupEntry) -> Group {
        let members: Vec<&VolumeEntry> = config.members(entry.id).collect();
        let disks = members.iter().filter_map(|volume| self.parts.engine.volume(volume.id));
        let (soft_quota_crossed, hard_quota_reached) = self.quotas.state(entry.id);
        Group {
            id: entry.id,
            name: entry.name.clone(),
            created: entry.created,
            soft_quota: entry.soft_quota,
            hard_quota: entry.hard_quota,
            volumes: members.iter().map(|volume| volume.name.clone()).collect(),
            provisioned: disks.map(|disk| disk.geometry().bytes()).sum(),
            mapped: mapped(&self.parts.engine, members.iter().map(|volume| volume.id)),
            soft_quota_crossed,
            hard_quota_reached,
            policy: entry.policy,
            limits: entry.limits,
            labels: entry.labels.clone(),
        }
    }
}

impl Transaction<'_> {
    pub async fn create_group(&mut self, new: CreateGroup) -> Result<Ensured<Group>> {
        check::name("volume group", &new.name)?;
        let (name, change) = new.settings();
        let existing = self.config().groups.find(&name).cloned();
        if let Some(entry) = existing {
            same(&entry, change)?;
            return self.group_now(entry.id).map(Ensured::existing);
        }
        let (id, created) = (GroupId(self.id64()), self.now());
        let (policy, limits) = (Policy::default(), Limits::default());
        let (soft_quota, hard_quota, labels) = (None, None, Labels::default());
        let mut entry = GroupEntry { id, name, created, soft_quota, hard_quota, policy, limits, labels };
        set(&mut entry, change)?;
        self.commit(vec![Edit::Put(Record::Group(entry.clone()))]).await?;
        self.done("group.created", "volume group", &entry.name, "was created");
        self.group_now(id).map(Ensured::new)
    }

    pub async fn change_group(&mut self, name: &str, mut change: GroupChange) -> Result<Group> {
        let entry = self.config().groups.named(name)?.clone();
        let mut new = entry.clone();
        if let Some(name) = change.name.take().filter(|name| *name != entry.name) {
            check::name("volume group", &name)?;
            self.config().groups.free(&name)?;
            new.name = name;
        }
        set(&mut new, change)?;
        if new != entry {
            self.commit(vec![Edit::Put(Record::Group(new))]).await?;
            self.done("group.changed", "volume group", &entry.name, "was changed");
        }
        self.group_now(entry.id)
    }

    pub async fn delete_group(&mut self, name: &str) -> Result<()> {
        let (entry, members) = {
            let config = self.config();
            let entry = config.groups.named(name)?.clone();
            let members: Vec<_> = config.members(entry.id).cloned().collect();
            (entry, members)
        };
        self.refuse_scheduled(Subject::Group(entry.id))?;
        let leave = |volume: VolumeEntry| {
            Edit::Put(Record::Volume(VolumeEntry { group: None, stage: Stage::Ready, ..volume }))
        };
        let mut edits: Vec<_> = members.into_iter().map(leave).collect();
        let name = entry.name.clone();
        edits.push(Edit::Remove(Record::Group(entry)));
        self.commit(edits).await?;
        self.done("group.deleted", "volume group", &name, "was deleted");
        Ok(())
    }

    fn group_now(&self, id: GroupId) -> Result<Group> {
        let config = self.config();
        let entry = config.groups.get(id).ok_or_else(|| Error::not_found("the volume group is gone"))?;
        Ok(self.array.group(&config, entry))
    }
}

/// Refuses a request to create a group that exists, unless it has what the request gives.
fn same(entry: &GroupEntry, change: GroupChange) -> Result<()> {
    let given = change.clone();
    let mut wanted = entry.clone();
    set(&mut wanted, change)?;
    let existing = Existing { noun: "volume group", name: &entry.name };
    existing.same("soft_quota", wanted.soft_quota == entry.soft_quota)?;
    existing.same("hard_quota", wanted.hard_quota == entry.hard_quota)?;
    existing.same("policy", wanted.policy == entry.policy)?;
    existing.same("limits", wanted.limits == entry.limits)?;
    existing.same_labels(&entry.labels, &given.labels)
}

fn set(entry: &mut GroupEntry, change: GroupChange) -> Result<()> {
    if let Some(quota) = change.soft_quota {
        entry.soft_quota = quota;
    }
    if let Some(quota) = change.hard_quota {
        entry.hard_quota = quota;
    }
    entry.policy = entry.policy.with(change.policy);
    entry.limits = entry.limits.with(change.limits)?;
    entry.labels = entry.labels.with(&change.labels)?;
    if entry.soft_quota == Some(0) || entry.hard_quota == Some(0) {
        return Err(Error::invalid("a quota has at least one byte: give none to have no quota"));
    }
    if let (Some(soft), Some(hard)) = (entry.soft_quota, entry.hard_quota)
        && soft > hard
    {
        return Err(Error::invalid(format!(
            "the soft quota ({soft} bytes) warns before the hard quota ({hard} bytes): it must not be larger"
        )));
    }
    Ok(())
}
