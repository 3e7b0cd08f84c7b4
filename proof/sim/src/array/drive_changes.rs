//! World `drive-changes`: drives are added, evacuated, replaced and lost while hosts write to an array that is nearly
//! full.
//!
//! Drives fail no more often than the store reports to tolerate, at all times since it was opened. A failed drive may
//! stay away, or return at an opening with its content.

use super::{Incarnation, Run};
use crate::World;
use crate::drives::Fault;
use crate::machine::Outcome;
use shelf::pool::{Consent, DriveState};
use std::collections::BTreeSet;

/// State of a world's drives.
pub struct Roster {
    /// Members, and drives that may have become members.
    given: BTreeSet<usize>,
    /// Drives among these that are missing at the next opening.
    away: BTreeSet<usize>,
    /// Blank drives.
    spare: BTreeSet<usize>,
}

/// A change of the drives in progress.
pub enum Change {
    /// Adds a drive.
    Add(Outcome<shelf::Result<usize>>),
    /// Begins or cancels the evacuation of a drive.
    Evacuate(Outcome<shelf::Result>),
}

impl Roster {
    /// The first `members` of `count` drives are given at the creation of the array.
    pub fn new(members: usize, count: usize) -> Self {
        Self { given: (0..members).collect(), away: BTreeSet::new(), spare: (members..count).collect() }
    }

    /// Removes a drive before the next opening.
    pub fn lose(&mut self, drive: usize) {
        self.away.insert(drive);
    }

    /// Drives given to an opening.
    pub fn given(&self) -> impl Iterator<Item = usize> {
        self.given.difference(&self.away).copied()
    }
}

/// The number in a drive's name.
fn number(name: &str) -> Option<usize> {
    name.trim_start_matches("drive").parse().ok()
}

impl Run {
    /// Returns missing drives while the power is off.
    pub(super) fn change_roster(&mut self) {
        let random = &mut self.random;
        let back: Vec<usize> = self.roster.away.iter().copied().filter(|_| random.chance(30)).collect();
        for drive in back {
            self.machine.drives.note(drive);
            self.roster.away.remove(&drive);
        }
    }

    /// Drives that were given at the opening and are not members were evacuated, or never became members: they are
    /// blank spares from now on.
    pub(super) fn retire_strays(&mut self, incarnation: &Incarnation) {
        if self.scenario.world != World::DriveChanges {
            return;
        }
        let status = incarnation.drives().status();
        let members = status.drives.iter().filter_map(|drive| number(drive.name.as_deref()?));
        let members: BTreeSet<usize> = members.collect();
        let strays: Vec<usize> = self.roster.given().filter(|drive| !members.contains(drive)).collect();
        for drive in strays {
            self.machine.drives.wipe(drive);
            self.roster.given.remove(&drive);
            self.roster.spare.insert(drive);
        }
    }

    /// Begins occasional changes of the drives, one at a time.
    pub(super) fn change_drives(&mut self, incarnation: &mut Incarnation) -> Result<(), String> {
        self.end_change(incarnation)?;
        if self.random.below(1500) > 0 {
            return Ok(());
        }
        let status = incarnation.drives().status();
        incarnation.tolerates = incarnation.tolerates.min(status.tolerates);
        let shelf = incarnation.drives().clone();
        let one = self.random.below(status.drives.len() as u64) as usize;
        let (slot, state) = (status.drives[one].slot, status.drives[one].state);
        let kind = self.random.below(8);
        let evacuating = status.drives.iter().find(|drive| drive.state == DriveState::Evacuating);
        // Only a running evacuation can be cancelled.
        let (slot, state) = match evacuating {
            Some(drive) if kind == 5 => (drive.slot, drive.state),
            _ => (slot, state),
        };
        self.machine.drives.note((kind, slot));
        match kind {
            _ if incarnation.change.is_some() => {}
            0..3 => {
                let Some(drive) = self.roster.spare.pop_first() else { return Ok(()) };
                self.roster.given.insert(drive);
                let handle = self.machine.drives.handles()[drive].clone();
                let add = async move { shelf.add_drive(handle, &Consent::default()).await };
                incarnation.change = Some(Change::Add(self.machine.start(add).1));
            }
            3..5 if state == DriveState::Online => {
                let evacuate =
                    async move { shelf.evacuate(slot, shelf.min_tolerates_after_evacuation()).await };
                incarnation.change = Some(Change::Evacuate(self.machine.start(evacuate).1));
            }
            5 if state == DriveState::Evacuating => {
                let cancel = async move { shelf.cancel_evacuation(slot).await };
                incarnation.change = Some(Change::Evacuate(self.machine.start(cancel).1));
            }
            6 if incarnation.tolerates > 0 && status.drives.len() > 1 => {
                if let Some(drive) = status.drives[one].name.as_deref().and_then(number) {
                    incarnation.tolerates -= 1;
                    self.report.drives_failed += 1;
                    self.machine.drives.set_fault(drive, Fault::Dead);
                    if self.random.chance(60) {
                        self.roster.lose(drive);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn end_change(&mut self, incarnation: &mut Incarnation) -> Result<(), String> {
        match &incarnation.change {
            Some(Change::Add(outcome)) => match outcome.take() {
                None => return Ok(()),
                Some(Ok(_)) => self.report.drives_added += 1,
                Some(Err(cause)) => return Err(format!("adding a drive: {cause}")),
            },
            Some(Change::Evacuate(outcome)) => match outcome.take() {
                None => return Ok(()),
                Some(Ok(())) => self.report.evacuations += 1,
                // There is no room for the evacuation, or it has ended.
                Some(Err(shelf::Error::Unusable(_))) => {}
                Some(Err(cause)) => return Err(format!("evacuating a drive: {cause}")),
            },
            None => {}
        }
        incarnation.change = None;
        Ok(())
    }
}
