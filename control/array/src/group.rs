//! Volume groups: volumes that belong together, with quotas, a policy and limits.

use crate::action::{GroupChange, Outcome};
use crate::array::Change;
use crate::{Error, Result, check};
use records::Subject;
use records::{Edit, GroupEntry, GroupId, Record, Stage, VolumeEntry};
use records::{Limits, Policy};

impl Change<'_> {
    pub async fn create_group(&mut self, name: String, change: GroupChange) -> Result<Outcome> {
        check::name("volume group", &name)?;
        self.array.config().groups.free(&name)?;
        let (id, created) = (GroupId(self.id64()), self.now());
        let (policy, limits) = (Policy::default(), Limits::default());
        let mut entry = GroupEntry { id, name, created, soft_quota: None, hard_quota: None, policy, limits };
        set(&mut entry, change)?;
        self.commit(vec![Edit::Put(Record::Group(entry.clone()))]).await?;
        self.done("group.created", "volume group", &entry.name, "was created");
        self.group_now(id)
    }

    pub async fn change_group(&mut self, name: &str, mut change: GroupChange) -> Result<Outcome> {
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
            self.done("group.changed", "volume group", name, "was changed");
        }
        self.group_now(entry.id)
    }

    pub async fn delete_group(&mut self, name: &str) -> Result<Outcome> {
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
        edits.push(Edit::Remove(Record::Group(entry)));
        self.commit(edits).await?;
        self.done("group.deleted", "volume group", name, "was deleted");
        Ok(Outcome::Gone)
    }

    fn group_now(&self, id: GroupId) -> Result<Outcome> {
        let config = self.array.config();
        let entry = config.groups.get(id).ok_or_else(|| Error::not_found("the volume group is gone"))?;
        Ok(Outcome::Group(self.array.group(&config, entry)))
    }
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
