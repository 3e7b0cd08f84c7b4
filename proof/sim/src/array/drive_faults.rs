//! Drive faults in worlds of the array: rot, lost and misdirected writes, slowness, and failures.

use super::{Incarnation, Run, say};
use crate::World;
use crate::drives::{Fault, WriteFaults};
use block::workload::Random;
use raid::geometry::Geometry as Plan;
use std::time::Duration;

/// A drive that is sometimes much slower than its peers. Time advances evenly in such a world, so the store can measure
/// the latency.
pub struct SlowDrive {
    drive: usize,
    slow: bool,
    passed: u32,
    was_found: bool,
    random: Random,
}

impl SlowDrive {
    /// One array in four with several drives has one. Drawn independently, so other draws stay unchanged.
    pub fn draw(world: World, seed: u64, drives: u64) -> Option<Self> {
        let mut random = Random::new(seed ^ 0x736c_6f77);
        let has = world == World::Array && drives >= 3 && random.chance(25);
        has.then(|| {
            let drive = random.below(drives) as usize;
            let slow = random.chance(50);
            Self { drive, slow, passed: 0, was_found: false, random }
        })
    }
}

impl Run {
    /// Advances time by a tenth of a second occasionally, and switches the drive between slow and normal.
    pub(super) fn slow_down(&mut self, incarnation: &Incarnation) {
        let Some(it) = &mut self.slow_drive else { return };
        if it.random.below(20) > 0 {
            return;
        }
        it.passed += 1;
        it.slow ^= it.random.below(300) == 0;
        let latency = Duration::from_millis(if it.slow { 400 } else { 0 });
        // The store ignores a second with only one call.
        self.machine.idle_step = Duration::from_millis(100);
        self.machine.drives.set_latency(it.drive, latency);
        if it.passed.is_multiple_of(10) {
            let found = incarnation.drives().status().drives[it.drive].slow;
            self.report.slow_drives += u64::from(found && !it.was_found);
            it.was_found = found;
        }
        self.machine.pass(Duration::from_millis(100));
    }

    fn plan(&self) -> Result<Plan, String> {
        let drives = vec![self.scenario.drive_bytes; self.scenario.drives as usize];
        Plan::plan(&drives, &self.scenario.sizes).map_err(say)
    }

    /// Corrupts copies on one drive: after a recovery, all drives have everything that the shelf mirrors.
    pub(super) fn corrupt(&mut self) -> Result<(), String> {
        let journal = self.plan()?.granules_at();
        let drive = self.random.below(self.scenario.drives.min(3)) as usize;
        self.machine.drives.corrupt(drive, 0..journal);
        Ok(())
    }

    /// Makes drives lose and misdirect writes, and some of their pages rot: as many drives as parity tolerates, with
    /// one copy of the journal on another. They are the same drives in every incarnation, since their losses may be
    /// unnoticed.
    pub(super) fn inject_write_faults(&mut self) {
        let drives = self.scenario.drives;
        let faulty = self.first_faulty..self.first_faulty + (drives - 1).min(2);
        for drive in faulty.map(|drive| (drive % drives) as usize) {
            let mut often = || [0, 1, 5, 30][self.random.below(4) as usize];
            let write_faults = WriteFaults { lost: often(), misdirected: often() };
            self.machine.drives.note((drive, write_faults));
            self.machine.drives.set_write_faults(drive, write_faults);
            if self.random.chance(10) {
                self.machine.drives.corrupt(drive, 0..self.scenario.drive_bytes);
            }
        }
    }

    /// Makes a drive fail journal writes, or all requests.
    pub(super) fn fail(&mut self) {
        let Ok(plan) = self.plan() else { return };
        let drive = self.random.below(self.scenario.drives) as usize;
        let fault = match self.random.below(3) {
            0 => Fault::Dead,
            _ => Fault::Writes(plan.journal_at()..plan.journal_at() + plan.journal_bytes),
        };
        self.machine.drives.note(format!("{drive} {fault:?}"));
        self.machine.drives.set_fault(drive, fault);
    }
}
