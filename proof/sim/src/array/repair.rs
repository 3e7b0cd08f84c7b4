//! World `repair`: after a crash, metadata of the array become inconsistent with valid checksums. The array is opened
//! as usual, then repaired, with crashes during the repair.
//!
//! Checked: opening ends, with or without an error. After a repair, the array opens and its check finds nothing. If
//! only locations and counts of objects were changed, every block has its content, or reads as an error and is reported
//! as lost.

use super::{Incarnation, Run, ask, runs, say};
use crate::history::Action;
use block::workload::Random;
use block::{Disk, DiskId, Error, Extent, Op, Reply};
use engine::media::{TARGETS, Target, tamper};
use engine::{Engine, Loss, Repair};
use raid::DriveShelf;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whether a changed object of this kind may make blocks unreadable, but never wrong.
fn keeps_contents(target: Target) -> bool {
    matches!(target, Target::Nothing | Target::MapIndex | Target::TableIndex | Target::Table | Target::Index)
}

impl Run {
    /// Makes the metadata inconsistent and repairs them; hosts continue with the rest.
    pub(super) fn damage(&mut self) -> Result<(), String> {
        let incarnation = self.boot()?.ok_or("no crash was asked for")?;
        self.stop(incarnation)?;
        let sound = self.machine.drives.contents();
        let (target, what) = self.tamper()?;
        self.machine.drives.note(&what);
        if std::env::var_os("SIM_TRACE").is_some() {
            eprintln!("{what}");
        }
        let damaged = self.machine.drives.contents();
        let context = |cause: String| format!("{what}: {cause}");
        self.use_damaged().map_err(context)?;
        self.machine.drives.restore(damaged);
        match self.repair().map_err(context)? {
            Some(repair) => self.go_on_after(target, &repair).map_err(context)?,
            // A refused repair writes nothing.
            None => self.machine.drives.restore(sound),
        }
        Ok(())
    }

    /// Ends an unused incarnation, in order or not.
    fn stop(&mut self, incarnation: Incarnation) -> Result<(), String> {
        if self.random.chance(50) {
            let engine = incarnation.engine.clone();
            self.finished(async move { engine.shutdown().await })?.map_err(say)?;
        }
        self.abandon(incarnation);
        self.power_off();
        Ok(())
    }

    fn power_off(&mut self) {
        self.machine.crash();
        self.openings += 1;
    }

    fn opened_drives(&mut self) -> Result<Arc<DriveShelf>, String> {
        self.open_drives()?.ok_or_else(|| "no crash was asked for".into())
    }

    /// Changes one object in the newest checkpoint or the journal, or none; returns a description.
    fn tamper(&mut self) -> Result<(Target, String), String> {
        // The index is drawn apart, so that the other draws of a seed stay as they were before it was a target.
        let targets: Vec<Target> = TARGETS.into_iter().filter(|it| *it != Target::Index).collect();
        let target = targets.get(self.random.below(targets.len() as u64 + 1) as usize);
        let target = target.copied().unwrap_or(Target::Nothing);
        let shelf = self.opened_drives()?;
        let seed = self.random.next_u64();
        let of_index = Random::new(seed ^ 0x696e_6465_7800).below(TARGETS.len() as u64 + 1) == 0;
        let target = if of_index { Target::Index } else { target };
        let mut random = Random::new(seed);
        let changed = async move { tamper(shelf, target, &mut |end| random.below(end)).await };
        let changed = self.finished(changed)?;
        self.power_off();
        Ok(match changed {
            Ok(what) => (target, what),
            // The array has no checkpoint yet, or no space for another object. A batch was already appended.
            Err(cause) if target == Target::Journal => (target, format!("{target:?}: {cause}")),
            Err(cause) => (Target::Nothing, format!("nothing instead of {target:?}: {cause}")),
        })
    }

    /// Opens the damaged array as usual, and uses it if that succeeds: every operation ends, with any result.
    fn use_damaged(&mut self) -> Result<(), String> {
        let shelf = self.opened_drives()?;
        let opened = self.finished(Engine::open(shelf, self.scenario.options.clone()))?;
        if let Ok(engine) = opened {
            self.machine.start_background(engine.background());
            let checked = engine.clone();
            let _ = self.finished(async move { checked.check().await })?;
            for disk in engine.volumes() {
                let geometry = disk.geometry();
                let extent = runs(geometry).next().unwrap_or(Extent::new(0, 0));
                let data = vec![1; geometry.block_bytes as usize * 9];
                for op in [Op::Read(extent), Op::Write { lba: 1, data: data.into() }, Op::Unmap(vec![extent])]
                {
                    let _ = self.finished(ask(&engine, Action::Op(disk.id(), op)))?;
                }
            }
            let _ = self.finished(async move { engine.shutdown().await })?;
        }
        self.power_off();
        Ok(())
    }

    /// Repairs the array, despite crashes; `None` if the repair is refused.
    fn repair(&mut self) -> Result<Option<Repair>, String> {
        for crashes in 0.. {
            if crashes < 3 && self.random.chance(50) {
                let far = self.far();
                self.machine.crash_after(1 + self.random.below(far));
            }
            let repaired = self.try_repair()?;
            self.power_off();
            match repaired {
                Some(Ok(repair)) => {
                    self.report.repairs += 1;
                    return Ok(Some(repair));
                }
                Some(Err(_)) => return Ok(None),
                None => {}
            }
        }
        unreachable!("no crash comes after the third")
    }

    /// `None` if the machine must crash first.
    fn try_repair(&mut self) -> Result<Option<block::Result<Repair>>, String> {
        let Some(shelf) = self.open_drives()? else { return Ok(None) };
        let opened = Engine::open_leniently(shelf, self.scenario.options.clone());
        let (engine, found) = match self.machine.finish(opened)? {
            Some(Ok(opened)) => opened,
            Some(Err(refused)) => return Ok(Some(Err(refused))),
            None => return Ok(None),
        };
        let repaired = async move {
            let repair = engine.repair(found, &mut |_| {}).await?;
            engine.write_repair().await.map(|()| repair)
        };
        match self.machine.finish(repaired)? {
            Some(Err(cause)) => Err(format!("the repair: {cause}")),
            repaired => Ok(repaired),
        }
    }

    /// Checks the repaired array. Lost blocks are unmapped or deleted, so hosts can continue.
    fn go_on_after(&mut self, target: Target, repair: &Repair) -> Result<(), String> {
        let shelf = self.opened_drives()?;
        let engine = self.open_engine(shelf)?.ok_or("no crash was asked for")?;
        let mut incarnation = Incarnation::new(engine.clone(), 0);
        self.machine.check(&engine).map_err(|cause| format!("after the repair: {cause}"))?;
        if target == Target::Nothing && *repair != Repair::default() {
            return Err(format!("a sound array was repaired: {repair:?}"));
        }
        let lost: BTreeMap<DiskId, &Loss> = repair.lost.iter().map(|loss| (loss.disk, loss)).collect();
        self.report.losses += u64::from(!lost.is_empty());
        let sound = keeps_contents(target);
        for (id, _) in if sound { self.history.disks() } else { Vec::new() } {
            self.compare_rest(&engine, id, lost.get(&id).copied())?;
        }
        self.machine.start_background(engine.background());
        for disk in engine.volumes().into_iter().rev() {
            let id = disk.id();
            if sound && !lost.contains_key(&id) {
                continue;
            }
            let all = Extent::new(0, disk.geometry().blocks);
            let emptied = sound && !disk.is_read_only() && self.random.chance(50);
            if !emptied || self.perform(&mut incarnation, Action::Op(id, Op::Unmap(vec![all]))).is_err() {
                self.finished(ask(&engine, Action::Delete(id, u64::MAX)))?.map_err(say)?;
                self.history.forget(id);
            }
        }
        if !sound {
            self.history.disks().into_iter().for_each(|(id, _)| self.history.forget(id));
        }
        self.stop(incarnation)
    }

    /// Checks that every block of a disk has its content, or reads as an error and is reported as lost.
    fn compare_rest(&mut self, engine: &Arc<Engine>, id: DiskId, loss: Option<&Loss>) -> Result<(), String> {
        let geometry = engine.volume(id).ok_or_else(|| format!("disk {} is gone", id.0))?.geometry();
        let is_listed = |extent: &Extent| {
            loss.is_some_and(|loss| loss.extents.iter().any(|known| known.overlaps(extent)))
        };
        let each = 4096 / u64::from(geometry.block_bytes);
        let mut left: Vec<Extent> = runs(geometry).collect();
        while let Some(extent) = left.pop() {
            match self.finished(ask(engine, Action::Op(id, Op::Read(extent))))? {
                Ok(Reply::Data(data)) => {
                    let expected = self.history.model.peek(id, extent);
                    if data.first_difference(&expected).is_some() {
                        return Err(format!("disk {}: {extent:?} has another content", id.0));
                    }
                    if is_listed(&extent) {
                        return Err(format!(
                            "disk {}: {extent:?} is reported as lost, and can be read",
                            id.0
                        ));
                    }
                }
                Err(Error::Medium { .. }) if extent.blocks > each => {
                    let end = extent.lba + extent.blocks;
                    let parts = (extent.lba..end).step_by(each as usize);
                    left.extend(parts.map(|lba| Extent::new(lba, each.min(end - lba))));
                }
                Err(Error::Medium { .. }) if is_listed(&extent) || loss.is_some_and(|loss| loss.more) => {}
                answer => {
                    let answer = answer.map(|_| ());
                    return Err(format!("disk {}: {extent:?} is answered {answer:?}", id.0));
                }
            }
        }
        Ok(())
    }
}
