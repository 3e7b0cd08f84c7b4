//! Promotion of a target: which volumes a point becomes, and that they are made, also after a crash in the middle.

use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::noun::replication::put;
use crate::{Error, Result};
use block::{Disk, DiskId};
use records::{
    GroupEntry, GroupId, Labels, Limits, Policy, Promotion, ReplicaVolume, ReplicationEntry, ReplicationId,
    Stage, Topic, VolumeEntry,
};
use replication::Point;
use std::collections::BTreeSet;

impl Transaction<'_> {
    /// The volumes that a point becomes, and the group for them.
    pub(crate) fn plan_promotion(
        &self,
        entry: &ReplicationEntry,
        point: &Point,
    ) -> (Promotion, Option<GroupEntry>) {
        let created = self.now();
        let known = |id: &GroupId| entry.group.is_some() && self.array.config().groups.get(*id).is_some();
        let known = entry.replica_group.filter(known);
        let group = entry.group.as_ref().filter(|_| known.is_none()).map(|name| {
            let config = self.array.config();
            let name = free_name(name, &entry.name, |name| config.groups.free(name).is_ok());
            let (policy, limits) = (Policy::default(), Limits::default());
            let (soft_quota, hard_quota, labels) = (None, None, Labels::default());
            let id = GroupId(self.id64());
            GroupEntry { id, name, created, soft_quota, hard_quota, policy, limits, labels }
        });
        let promotion = Promotion {
            point: point.number,
            group: known.or(group.as_ref().map(|group| group.id)),
            volumes: self.plan_replicas(entry, point),
            complete: false,
        };
        (promotion, group)
    }

    /// As [`Self::plan_volumes`], with the volumes that are there already.
    fn plan_replicas(&self, entry: &ReplicationEntry, point: &Point) -> Vec<ReplicaVolume> {
        let ready: BTreeSet<_> = self.ready_volumes(&entry.replicas).into_iter().map(|it| it.id).collect();
        let known = |planned: &ReplicaVolume| {
            let same = |it: &&ReplicaVolume| it.source == planned.source && ready.contains(&it.volume);
            entry.replicas.iter().find(same).cloned()
        };
        let planned = self.plan_volumes(point).into_iter();
        planned.map(|planned| known(&planned).unwrap_or(planned)).collect()
    }

    pub(crate) fn plan_volumes(&self, point: &Point) -> Vec<ReplicaVolume> {
        let volume = |it: &replication::Volume| {
            let (source, volume) = (DiskId(it.source), DiskId((self.array.env.random)()));
            ReplicaVolume { source, volume }
        };
        point.volumes.iter().map(volume).collect()
    }

    /// Makes the volumes of a promotion that are not there yet.
    pub(crate) async fn complete_promotion(&mut self, id: ReplicationId) -> Result<()> {
        let entry = self.array.config().replications.get(id).cloned();
        let Some((entry, promotion)) = entry.and_then(|entry| Some((entry.clone(), entry.promotion?))) else {
            return Ok(());
        };
        if promotion.complete {
            return Ok(());
        }
        let points = self.array.replicas.points(&entry);
        let point = points.into_iter().find(|point| point.number == promotion.point);
        let point = point.ok_or_else(|| Error::failed("the point can't be promoted", "it is gone"))?;
        let group = promotion.group.filter(|id| self.array.config().groups.get(*id).is_some());
        self.make_replicas(&entry, &point, &promotion.volumes, group, "").await?;
        let promotion = Promotion { complete: true, ..promotion };
        self.commit(vec![put(&ReplicationEntry { promotion: Some(promotion), ..entry })]).await
    }

    /// Makes the volumes of a point that are not there yet.
    pub(crate) async fn make_replicas(
        &mut self,
        entry: &ReplicationEntry,
        point: &Point,
        planned: &[ReplicaVolume],
        group: Option<GroupId>,
        suffix: &str,
    ) -> Result<()> {
        for ReplicaVolume { source, volume } in planned {
            let snapshot = point.snapshot(*source);
            let snapshot =
                snapshot.ok_or_else(|| Error::failed("the point can't be cloned", "a volume is missing"))?;
            let known = self.array.config().volumes.get(*volume).cloned();
            if let Some(known) = known {
                self.return_volume(entry, &known, snapshot).await?;
                continue;
            }
            let name = {
                let config = self.array.config();
                let known = entry.volumes.iter().find(|it| it.id == *source).map(|it| it.name.as_str());
                let name = format!("{}{suffix}", known.unwrap_or("volume"));
                free_name(&name, &entry.name, |name| config.disk_name_free(name).is_ok())
            };
            let new = VolumeEntry::new(*volume, name, self.now(), Stage::Ready, group);
            let made = self.commit_clone(snapshot, new.clone()).await;
            made.map_err(|error| Error::refused(&format!("volume {:?} could not be made", new.name), error))?;
            self.done("volume.created", "volume", &new.name, "was created from a replicated point");
        }
        Ok(())
    }

    /// Gives a volume that was kept for the promotion the content of its point, once, and lets it take changes.
    async fn return_volume(
        &mut self,
        entry: &ReplicationEntry,
        volume: &VolumeEntry,
        snapshot: DiskId,
    ) -> Result<()> {
        let disk = self.array.disk(volume.id, &volume.name)?;
        if !disk.is_read_only() || !entry.replicas.iter().any(|it| it.volume == volume.id) {
            return Ok(());
        }
        let (before, now) = (disk.geometry(), self.array.disk(snapshot, &volume.name)?.geometry());
        let retention_now = self.array.clock.retention_now();
        let engine = &self.array.parts.engine;
        let restored = engine.restore_and_unlock(volume.id, snapshot, retention_now).await;
        restored.map_err(|error| {
            Error::refused(&format!("volume {:?} can't get the content of the point", volume.name), error)
        })?;
        self.announce(volume.id, before, now);
        self.array.publish_change(Topic::Volumes);
        self.done("volume.overwritten", "volume", &volume.name, "has the content of a replicated point");
        Ok(())
    }
}

/// A name that is free: this one, or with something after it.
fn free_name(name: &str, replication: &str, is_free: impl Fn(&str) -> bool) -> String {
    let usable = |name: &String| is_free(name) && check::name("volume", name).is_ok();
    let longer = std::iter::once(format!("{name}-{replication}"));
    let numbered = (2..).map(|number| {
        let number = number.to_string();
        let keep = check::MAX_NAME.saturating_sub(number.len() + 1);
        format!("{}-{number}", name.get(..keep).unwrap_or(name))
    });
    let mut candidates = std::iter::once(name.to_owned()).chain(longer).chain(numbered);
    candidates.find(usable).expect("one of infinitely many names is free")
}
