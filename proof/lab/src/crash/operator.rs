//! Operator actions during host writes: snapshots of all units together, clones, restores, deletions. An acknowledged
//! snapshot survives; all of its volumes are of the same moment; none exists partially. A clone has the content of its
//! snapshot, even after the snapshot was deleted.

use super::model::{Model, Tick};
use super::plan::{Effect, Expected, Operation, Run};
use super::{SHAPES, World, login, read_all};
use crate::cdb;
use crate::real::make_ready;
use crate::seed::stamp_of;
use crate::target::Shape;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::process::Child;
use std::time::{Duration, Instant};

const GROUP: &str = "all";
/// Maximum number of snapshots before some are deleted.
const KEPT: usize = 8;
/// LUN for reading a snapshot.
const LUN: u16 = 99;
/// Time limit of a command after the array has died.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// Past, current and expected results of the operator's actions.
#[derive(Default)]
pub struct Operator {
    chore: Option<(Child, Chore)>,
    moments: Vec<Moment>,
    kept: Vec<Kept>,
    deleted: Vec<String>,
    restored: bool,
    taken: u64,
    cloned: u64,
    /// Clones whose command had no response: each exists completely, or not at all.
    unanswered_clones: Vec<Kept>,
}

/// A running command.
enum Chore {
    Take,
    Clone(Kept),
    Restore(Tick),
    Delete(Kept),
}

/// An unverified snapshot of all units.
struct Moment {
    suffix: String,
    from: Tick,
    until: Option<Tick>,
    answered: bool,
    models: Vec<Model>,
}

/// A snapshot or clone of one unit, with its stamps.
struct Kept {
    name: String,
    is_clone: bool,
    unit: usize,
    stamps: Vec<u64>,
}

fn volume(unit: usize) -> String {
    format!("volume{}", unit + 1)
}

impl Operator {
    /// Models of snapshots in progress, which follow the changes of their unit.
    pub fn models(&mut self, unit: usize) -> impl Iterator<Item = &mut Model> {
        self.moments.iter_mut().filter(|it| it.until.is_none()).map(move |it| &mut it.models[unit])
    }

    /// Whether a unit was restored since the array started.
    pub fn has_restored(&self) -> bool {
        self.restored
    }
}

impl World {
    /// Creates the group of all units.
    pub(super) fn found_group(&mut self) -> Result<()> {
        self.array.cli(&["group", "create", GROUP])?;
        for unit in 0..SHAPES.len() {
            self.array.cli(&["volume", "set", &volume(unit), "--group", GROUP])?;
        }
        Ok(())
    }

    /// Takes the end of the running command, or occasionally starts another.
    pub(super) fn operate(&mut self) -> Result<()> {
        if let Some((child, _)) = &mut self.operator.chore {
            let Some(status) = child.try_wait()? else { return Ok(()) };
            if !status.success() {
                let said = child.stderr.take().map(std::io::read_to_string).transpose()?.unwrap_or_default();
                bail!("while the array runs, the operator's command ended with {status}: {}", said.trim());
            }
            self.chore_answered();
            return Ok(());
        }
        match self.plan.seed().range(0, 60) {
            0 if self.operator.kept.len() < KEPT => self.take(),
            1 => self.restore(),
            2 => self.delete(),
            3 if self.operator.kept.len() < KEPT => self.clone_snapshot(),
            _ => Ok(()),
        }
    }

    fn take(&mut self) -> Result<()> {
        self.now += 1;
        self.operator.taken += 1;
        let suffix = format!("s{}", self.operator.taken);
        let models = self.units.iter().map(|unit| unit.model.remembering()).collect();
        let child = self.array.start_cli(&["snapshot", "create", "--group", GROUP, "--suffix", &suffix])?;
        self.operator.moments.push(Moment { suffix, from: self.now, until: None, answered: false, models });
        self.operator.chore = Some((child, Chore::Take));
        Ok(())
    }

    /// Overwrites a whole unit by a restore, when no read of it is in flight.
    fn restore(&mut self) -> Result<()> {
        let Some(index) = self.choose_snapshot() else { return Ok(()) };
        let Kept { name, unit, stamps, .. } = &self.operator.kept[index];
        let run = Run { unit: *unit, lba: 0, blocks: stamps.len() as u64 };
        let operation = Operation {
            name: "a restore",
            command: cdb::test_unit_ready(self.units[*unit].lun),
            effects: vec![Effect { run, stamps: stamps.clone() }],
            reads: Vec::new(),
            expected: Expected::Good(None),
        };
        if !self.in_flight.values().all(|other| other.independent(&operation)) {
            return Ok(());
        }
        let child = self.array.start_cli(&[
            "snapshot",
            "restore",
            name,
            "--volume",
            &volume(*unit),
            "--yes",
            "--no-safety-snapshot",
        ])?;
        let sent = self.sent(operation);
        self.operator.restored = true;
        self.operator.chore = Some((child, Chore::Restore(sent)));
        Ok(())
    }

    fn delete(&mut self) -> Result<()> {
        let Some(index) = self.choose() else { return Ok(()) };
        let kept = self.operator.kept.swap_remove(index);
        let noun = if kept.is_clone { "volume" } else { "snapshot" };
        let child = self.array.start_cli(&[noun, "delete", &kept.name, "--eradicate", "--yes"])?;
        self.operator.chore = Some((child, Chore::Delete(kept)));
        Ok(())
    }

    fn clone_snapshot(&mut self) -> Result<()> {
        let Some(index) = self.choose_snapshot() else { return Ok(()) };
        let Kept { name, unit, stamps, .. } = &self.operator.kept[index];
        self.operator.cloned += 1;
        let clone = format!("clone{}", self.operator.cloned);
        let child = self.array.start_cli(&["snapshot", "clone", name, &clone])?;
        let kept = Kept { name: clone, is_clone: true, unit: *unit, stamps: stamps.clone() };
        self.operator.chore = Some((child, Chore::Clone(kept)));
        Ok(())
    }

    fn choose_snapshot(&mut self) -> Option<usize> {
        self.choose().filter(|index| !self.operator.kept[*index].is_clone)
    }

    fn choose(&mut self) -> Option<usize> {
        let count = self.operator.kept.len() as u64;
        (count > 0).then(|| self.plan.seed().range(0, count) as usize)
    }

    fn chore_answered(&mut self) {
        let Some((_, chore)) = self.operator.chore.take() else { return };
        match chore {
            Chore::Take => {
                self.now += 1;
                let last = self.operator.moments.iter_mut().filter(|it| it.until.is_none());
                last.for_each(|it| (it.until, it.answered) = (Some(self.now), true));
            }
            Chore::Restore(sent) => {
                if let Some(operation) = self.in_flight.remove(&sent) {
                    self.acknowledge(sent, &operation);
                }
            }
            Chore::Clone(kept) => self.operator.kept.push(kept),
            Chore::Delete(kept) => self.operator.deleted.push(kept.name),
        }
        self.report.chores += 1;
    }

    /// The array is dead: a running command had its response before, or never gets one.
    pub(super) fn abandon(&mut self) -> Result<()> {
        if let Some((child, _)) = &mut self.operator.chore {
            let start = Instant::now();
            while child.try_wait()?.is_none() && start.elapsed() < COMMAND_TIMEOUT {
                std::thread::sleep(Duration::from_millis(5));
            }
            // No effect if the child has ended.
            child.kill()?;
            match child.wait()?.success() {
                true => self.chore_answered(),
                false => match self.operator.chore.take() {
                    Some((_, Chore::Delete(kept))) => self.operator.kept.push(kept),
                    Some((_, Chore::Clone(kept))) => self.operator.unanswered_clones.push(kept),
                    _ => {}
                },
            }
        }
        self.operator.restored = false;
        let unanswered = self.operator.moments.iter_mut().filter(|it| it.until.is_none());
        unanswered.for_each(|it| it.until = Some(self.now));
        Ok(())
    }

    /// Verifies the snapshots after a restart.
    pub(super) fn inspect(&mut self) -> Result<()> {
        let mut names: BTreeSet<_> = self.array.names("snapshot")?.into_iter().collect();
        names.extend(self.array.names("volume")?);
        if let Some(name) = self.operator.deleted.iter().find(|name| names.contains(*name)) {
            bail!("{name} was deleted and is there again");
        }
        self.operator.deleted.clear();
        // Only the one whose deletion had no response may be missing.
        let kept = self.operator.kept.len();
        self.operator.kept.retain(|it| names.contains(&it.name));
        ensure!(self.operator.kept.len() + 1 >= kept, "snapshots are lost: {names:?} are left");
        for clone in std::mem::take(&mut self.operator.unanswered_clones) {
            if names.contains(&clone.name) {
                self.compare_kept(&clone)?;
                self.operator.kept.push(clone);
            }
        }
        for moment in std::mem::take(&mut self.operator.moments) {
            let name = |unit| format!("{}.{}", volume(unit), moment.suffix);
            let there = (0..SHAPES.len()).filter(|unit| names.contains(&name(*unit))).count();
            match there {
                0 if !moment.answered => continue,
                _ => {
                    ensure!(there == SHAPES.len(), "{there} volumes of snapshot {} are there", moment.suffix)
                }
            }
            let kept = (0..SHAPES.len()).map(|unit| self.look(name(unit), unit));
            let kept: Vec<_> = kept.collect::<Result<_>>()?;
            one_moment(&moment, &kept)?;
            self.operator.kept.extend(kept);
        }
        if let Some(index) = self.choose() {
            self.compare_kept(&self.operator.kept[index])?;
        }
        Ok(())
    }

    /// Checks that a snapshot or clone is unchanged.
    fn compare_kept(&self, Kept { name, unit, stamps, .. }: &Kept) -> Result<()> {
        let now = self.look(name.clone(), *unit)?;
        let wrong = stamps.iter().zip(&now.stamps).position(|(was, is)| was != is);
        ensure!(wrong.is_none(), "{name} has changed at block {wrong:?}");
        Ok(())
    }

    /// Reads a whole snapshot.
    fn look(&self, name: String, unit: usize) -> Result<Kept> {
        self.array.connect(&name, "host0", LUN)?;
        let Shape { block_bytes, .. } = SHAPES[unit];
        let mut session = login(&self.library, &self.array, 0)?;
        make_ready(&mut session, LUN)?;
        let blocks = self.units[unit].model.blocks();
        let mut stamps = vec![None; blocks as usize];
        read_all(&mut session, LUN, block_bytes, blocks, |first, data| {
            let blocks = data.chunks(block_bytes as usize);
            stamps[first as usize..]
                .iter_mut()
                .zip(blocks)
                .for_each(|(stamp, block)| *stamp = stamp_of(block));
            Ok(())
        })
        .with_context(|| format!("reading {name}"))?;
        drop(session);
        self.array.cli(&["volume", "disconnect", &name, "--host", "host0"])?;
        let torn = stamps.iter().position(Option::is_none);
        ensure!(torn.is_none(), "{name} holds a torn block at {torn:?}");
        Ok(Kept { name, is_clone: false, unit, stamps: stamps.into_iter().flatten().collect() })
    }
}

/// Checks that all observed contents existed at one moment during the creation of the snapshot.
fn one_moment(moment: &Moment, kept: &[Kept]) -> Result<()> {
    let (mut from, mut until) = (moment.from, moment.until.unwrap_or(Tick::MAX));
    for Kept { name, unit, stamps, .. } in kept {
        for (lba, stamp) in (0..).zip(stamps) {
            let model = &moment.models[*unit];
            let Some((first, last)) = model.span(lba, *stamp) else {
                bail!("{name}, block {lba}: may hold {}, holds {stamp:#x}", model.describe(lba));
            };
            (from, until) = (from.max(first), until.min(last));
            ensure!(
                from <= until,
                "{name} shows at block {lba} ({stamp:#x}, {first:#x} to {last:#x}) another moment"
            );
        }
    }
    Ok(())
}
