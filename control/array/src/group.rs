//! Volume groups: volumes that share quotas, a reduction policy and QoS limits.

use crate::ensure::{Ensured, Existing};
use crate::request::verbs;
use crate::transaction::Transaction;
use crate::view::Group;
use crate::{Error, Result, check};
use records::{
    Edit, GroupEntry, GroupId, Labels, LabelsChange, Limits, LimitsChange, Policy, PolicyChange, Record,
    Stage, Subject, VolumeEntry,
};
use serde::Serialize;

/// Create a volume group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreateGroup {
    /// Its name.
    pub name: String,
    /// What to set.
    pub change: GroupChange,
}

/// All volume groups, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListGroups;

/// One volume group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowGroup {
    /// Its name.
    pub name: String,
}

/// Change a volume group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeGroup {
    /// Its name.
    pub name: String,
    /// What to change.
    pub change: GroupChange,
}

/// Delete a volume group; its volumes stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeleteGroup {
    /// Its name.
    pub name: String,
}

/// What to set of a volume group; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GroupChange {
    /// Another name.
    pub name: Option<String>,
    /// Mapped bytes beyond which operators and hosts are warned.
    pub soft_quota: Option<Option<u64>>,
    /// Mapped bytes beyond which its volumes take no new space.
    pub hard_quota: Option<Option<u64>>,
    /// How the data of its volumes are reduced from now on.
    pub policy: PolicyChange,
    /// What its volumes may do together in a second.
    pub limits: LimitsChange,
    /// Its labels.
    pub labels: LabelsChange,
}

verbs! {
    CreateGroup -> Ensured<Group>, Change "create" "volume group", Operator, about name
        => |tx, it| tx.create_group(it.name, it.change).await;
    ListGroups -> Vec<Group>, Read "list" "volume group", Viewer
        => |tx, _| Ok(tx.array.groups(&tx.array.config()));
    ShowGroup -> Group, Read "show" "volume group", Viewer, about name
        => |tx, it| tx.array.config().groups.named(&it.name).map(|found| tx.array.group(&tx.array.config(), found));
    ChangeGroup -> Group, Change "change" "volume group", Operator, about name
        => |tx, it| tx.change_group(&it.name, it.change).await;
    DeleteGroup -> (), Change "delete" "volume group", Operator, about name
        => |tx, it| tx.delete_group(&it.name).await;
}

impl Transaction<'_> {
    pub async fn create_group(&mut self, name: String, change: GroupChange) -> Result<Ensured<Group>> {
        check::name("volume group", &name)?;
        let existing = self.array.config().groups.find(&name).cloned();
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
        let entry = self.array.config().groups.named(name)?.clone();
        let mut new = entry.clone();
        if let Some(name) = change.name.take().filter(|name| *name != entry.name) {
            check::name("volume group", &name)?;
            self.array.config().groups.free(&name)?;
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
            let config = self.array.config();
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
        let config = self.array.config();
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
