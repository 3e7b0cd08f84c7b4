//! Reversal in the world `replication`: the host stops, a last point is published, and both arrays change roles. The
//! host continues at the other one.
//!
//! Checked: both arrays have the last point with unchanged content, the promoted volumes have the same content, and no
//! records of the other direction remain. Either array may crash after any request, and then completes the missing
//! steps.

use super::{Check, Link, World};
use block::{Disk, DiskId};
use engine::Engine;
use replication::{Counterpart, Reversal, Written};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of turns until cut transfers have ended.
const MAX_TURNS: u64 = 1_000_000;

impl World {
    /// Both arrays change roles.
    pub(super) fn reverse(&mut self) -> Check {
        self.publish_last()?;
        self.end_transfers()?;
        self.delete_snapshots()?;
        for id in self.group.clone() {
            self.on_source(move |engine| async move { engine.set_read_only(id, true, 0).await })?
                .map_err(|cause| format!("demoting: {cause}"))?;
        }
        self.promote()?;
        let same = |id: &DiskId| Counterpart { source: *id, target: *id };
        let volumes = self.group.iter().map(same).collect();
        let reversal = Reversal { old: self.number, new: self.number + 1, volumes };
        self.change_places(&reversal)?;
        std::mem::swap(&mut self.source, &mut self.target);
        self.number = reversal.new;
        let base = *self.published.last().ok_or("a point was published")?;
        self.published.retain(|number| *number == base);
        self.points.retain(|number, _| *number == base);
        self.progress = super::Progress::default();
        self.make_sender()?;
        self.make_receiver()?;
        self.check_disks()?;
        (self.demoted, self.stopping) = (false, false);
        self.report.reversals += 1;
        Ok(())
    }

    /// Publishes a point with all operations of the host.
    fn publish_last(&mut self) -> Check {
        self.demoted = true;
        let before = self.points.keys().last().copied().unwrap_or_default();
        let mut turns = 0;
        while self.published.last().is_none_or(|newest| *newest <= before) {
            turns += 1;
            if turns == super::MAX_TURNS / 2 {
                self.heal();
            }
            if turns > super::MAX_TURNS {
                return Err(format!("no point after {before} is published"));
            }
            let none = self.points.keys().all(|number| *number <= before);
            if none && self.taking.is_none() && !self.snapshots.is_taking() && self.host.is_none() {
                let sender = self.sender.clone().ok_or("the source is up")?;
                self.begin_point(sender);
            }
            self.turn()?;
        }
        Ok(())
    }

    /// Waits for outstanding operations, without new ones.
    fn end_transfers(&mut self) -> Check {
        self.stopping = true;
        self.link.iter().for_each(Link::cut);
        self.replaced.drain(..).for_each(|link| link.cut());
        let mut turns = 0;
        while self.syncing.is_some()
            || self.deleting.is_some()
            || self.snapshots.is_deleting()
            || !self.serving.is_empty()
        {
            turns += 1;
            if turns > MAX_TURNS {
                return Err("a transfer that was cut does not end".into());
            }
            self.turn()?;
        }
        self.link = None;
        Ok(())
    }

    /// Gives the host the volumes of the last point on the target.
    fn promote(&mut self) -> Check {
        let engine = self.target.engine.clone().ok_or("the target is up")?;
        let points = replication::target_points(&engine, self.number).map_err(|cause| cause.to_string())?;
        let point = points.last().ok_or("a point was published")?;
        for id in self.group.clone() {
            let snapshot = point.snapshot(id).ok_or("the last point has all volumes")?;
            let promoted = self.on_target(move |engine| async move {
                match engine.volume(id) {
                    None => engine.clone_volume(snapshot, id, 0).await.map(drop),
                    Some(volume) if volume.is_read_only() => engine.restore_and_unlock(id, snapshot, 0).await,
                    Some(_) => Ok(()),
                }
            });
            promoted?.map_err(|cause| format!("promoting: {cause}"))?;
        }
        Ok(())
    }

    /// The source becomes the target, then the target the source; each deletes the records of the other direction.
    fn change_places(&mut self, reversal: &Reversal) -> Check {
        let engine = self.target.engine.clone().ok_or("the target is up")?;
        let (base, _) = reversal.to_source(&engine).map_err(|cause| cause.to_string())?;
        let (number, digest) = (base.number, base.digest().ok_or("a published point has a digest")?);
        let plan = reversal.clone();
        let to_target = move |engine: &Engine| plan.to_target(engine, number, digest);
        let done = self.on_source(move |engine| agree(engine, to_target.clone()))?;
        done.map_err(|cause| format!("becoming the target: {cause}"))?;
        let plan = reversal.clone();
        let to_source = move |engine: &Engine| plan.to_source(engine).map(|(_, written)| written);
        let done = self.on_target(move |engine| agree(engine, to_source.clone()))?;
        done.map_err(|cause| format!("becoming the source: {cause}"))?;
        let old = reversal.old;
        let release =
            move |engine: Arc<Engine>| async move { replication::release(&engine, old, 1 << 60).await };
        self.on_source(release)?.map_err(|cause| format!("releasing: {cause}"))?;
        self.on_target(release)?.map_err(|cause| format!("releasing: {cause}"))
    }

    /// Checks that each array has the volumes and the point.
    fn check_disks(&self) -> Check {
        let ends = [
            ("source", &self.source, replication::source_points as fn(&Engine, u128) -> _),
            ("target", &self.target, replication::target_points),
        ];
        for (end, side, points) in ends {
            let engine = side.engine.as_ref().ok_or("it is up")?;
            let found: BTreeSet<DiskId> = engine.disks().iter().map(|disk| disk.id).collect();
            let points = points(engine, self.number).map_err(|cause| cause.to_string())?;
            let [point] = points.as_slice() else {
                return Err(format!("the {end} has {} points after a reversal", points.len()));
            };
            let mut wanted: BTreeSet<DiskId> = self.group.iter().copied().collect();
            wanted.extend(point.volumes.iter().map(|volume| DiskId(volume.snapshot)));
            if found != wanted || point.digest.is_none() {
                return Err(format!("the {end} has {found:?} instead of {wanted:?} after a reversal"));
            }
        }
        Ok(())
    }

    /// Runs an operation on the source, repeated after each crash.
    pub(super) fn on_source<T: 'static, F>(&mut self, work: impl Fn(Arc<Engine>) -> F) -> Result<T, String>
    where
        F: Future<Output = T> + 'static,
    {
        loop {
            let engine = self.source.engine.clone().ok_or("the source is up")?;
            match self.source.machine.finish(work(engine))? {
                Some(done) => return Ok(done),
                None => self.crash_source()?,
            }
        }
    }

    /// Runs an operation on the target, repeated after each crash.
    fn on_target<T: 'static, F>(&mut self, work: impl Fn(Arc<Engine>) -> F) -> Result<T, String>
    where
        F: Future<Output = T> + 'static,
    {
        loop {
            let engine = self.target.engine.clone().ok_or("the target is up")?;
            match self.target.machine.finish(work(engine))? {
                Some(done) => return Ok(done),
                None => self.crash_target()?,
            }
        }
    }
}

/// Writes the records of a step unless they exist.
async fn agree(
    engine: Arc<Engine>,
    step: impl Fn(&Engine) -> replication::Result<Written>,
) -> replication::Result<()> {
    match step(&engine) {
        Ok(written) => Ok(engine.put_records(written).await?),
        Err(replication::Error::Used(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
