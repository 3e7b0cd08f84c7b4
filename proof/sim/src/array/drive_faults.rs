//! Faults of the drives under an array: rot, lost and misdirected writes, and failures.

use super::{Run, say};
use crate::drives::{Fault, WriteFaults};
use raid::geometry::Geometry as Plan;

impl Run {
    fn plan(&self) -> Result<Plan, String> {
        let drives = vec![self.scenario.drive_bytes; self.scenario.drives as usize];
        Plan::plan(&drives, &self.scenario.sizes).map_err(say)
    }

    /// Corrupts copies on one drive: what the shelf mirrors is on all of them after a recovery.
    pub(super) fn corrupt(&mut self) -> Result<(), String> {
        let journal = self.plan()?.granules_at();
        let drive = self.random.below(self.scenario.drives.min(3)) as usize;
        self.machine.drives.corrupt(drive, 0..journal);
        Ok(())
    }

    /// Drives begin to lose and misdirect writes, and some of their pages rot: as many drives as parity tolerates, with one
    /// copy of the journal on another. They are the same in every incarnation: what they lost may not have been noticed yet.
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

    /// A drive stops taking journal writes, or anything.
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
