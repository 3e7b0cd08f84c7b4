//! A process that shares drives with another controller: its registrations, and their takeover.

use super::arbiter::DriveArbiter;
use super::record::{MAX_WITNESSES, Sign, decode_list, encode_list};
use super::timed::{TimedDrive, Timer};
use super::witness::{self, Witness};
use super::{CONTROLLERS, LIST_AT};
use crate::drive_shelf::read_candidates;
use crate::label::{Assembly, Candidate, assemble};
use crate::{ALIGN, Drive, DriveState, Error, Result, Wait, wait};
use shelf::ReservationStep;
use shelf::arbiter::Beat;
use std::sync::Arc;

/// Minimum number of drives of a shared array: with fewer, the loss of one leaves no majority.
const MIN_DRIVES: usize = 3;

/// Maximum number of rounds in which a home removes the other controller's processes from a drive.
const MAX_ROUNDS: usize = 4;

/// Maximum number of drives that a process omits. More may not be missing when the store is opened. An omitted drive
/// may be left with a key that its records do not contain: the other controller can't take it over until this one
/// restarts.
const MAX_REFUSED: usize = 2;

/// An array whose drives two controllers share, or can share.
pub struct SharedArray {
    /// The array.
    pub array: u128,
    /// The drives that are present, with their identities.
    pub drives: Vec<(u128, Arc<TimedDrive>)>,
    /// Whether the array is already shared. If not, its first home makes it shared on opening.
    pub is_shared: bool,
    /// The newest epoch of an owner.
    pub epoch: u64,
    /// Identities of the witness drives.
    witnesses: Vec<u128>,
}

/// A process that takes part.
pub struct Party {
    array: u128,
    witnesses: Vec<u128>,
    /// Number of this controller, from 0, and the key of this process.
    own: usize,
    key: u64,
}

/// Examines drives without writing.
///
/// # Errors
/// [`Error::Unusable`] if they hold no array, or one that can't be shared; the text has the reason.
pub async fn find(drives: &[Arc<dyn Drive>], timer: &Timer) -> Result<SharedArray> {
    let drives: Vec<_> = drives.iter().map(|drive| TimedDrive::new(drive.clone(), timer.clone())).collect();
    let candidates = read_candidates(&any(&drives)).await?;
    if candidates.iter().all(Candidate::is_fresh) {
        return Err(Error::Unusable(
            "the drives hold no array yet: make it first, by `ashlard format` or by one start without --controller".into(),
        ));
    }
    let Assembly { newest, order, .. } = assemble(&candidates)?;
    let labels = candidates.iter().filter_map(|candidate| candidate.label().ok());
    let epoch = labels.map(|label| label.epoch).max().unwrap_or(0);
    let mut present = Vec::new();
    let mut missing = Vec::new();
    for (slot, (member, found)) in newest.members.iter().zip(&order).enumerate() {
        match (found, member.state) {
            (_, DriveState::Empty) => {}
            (Some(index), _) => present.push((member.drive, drives[*index].clone())),
            (None, _) => missing.push(slot),
        }
    }
    let mut list: Option<Vec<u128>> = None;
    for (_, drive) in &present {
        let (done, read) = wait();
        drive.read(LIST_AT, ALIGN as u32, done);
        // Another drive may have a readable copy of the list.
        let Ok(page) = read.await else { continue };
        let Some(found) = decode_list(&page, newest.array)? else { continue };
        match &list {
            Some(before) if *before != found => {
                return Err(Error::Corrupt { what: "drives name different witnesses".into() });
            }
            _ => list = Some(found),
        }
    }
    let witnesses = match (newest.shared, list) {
        (true, Some(list)) => list,
        (true, None) => {
            let what = "two controllers share the array, and the list of witnesses is damaged on every drive that is there";
            return Err(Error::Corrupt { what: what.into() });
        }
        (false, _) => choose(&present, &missing)?,
    };
    Ok(SharedArray { array: newest.array, drives: present, is_shared: newest.shared, epoch, witnesses })
}

/// Whether two controllers share the array on these drives. Sharing can't be undone.
///
/// # Errors
/// [`Error::Unusable`] if they hold no array.
pub async fn is_shared(drives: &[Arc<dyn Drive>]) -> Result<bool> {
    Ok(assemble(&read_candidates(drives).await?)?.newest.shared)
}

/// Chooses the witnesses of an array that will be shared.
fn choose(present: &[(u128, Arc<TimedDrive>)], missing: &[usize]) -> Result<Vec<u128>> {
    if !missing.is_empty() {
        return Err(Error::Unusable(format!(
            "the array is not shared yet, and slots {missing:?} of it are missing: two controllers can share it once all of \
             its drives are there"
        )));
    }
    if present.len() < MIN_DRIVES {
        return Err(Error::Unusable(format!(
            "the array has {} drives, and two controllers share {MIN_DRIVES} or more: with fewer the loss of one would stop \
             both",
            present.len()
        )));
    }
    let count = (present.len() - (present.len() + 1) % 2).min(MAX_WITNESSES);
    Ok(present[..count].iter().map(|(id, _)| *id).collect())
}

fn any(drives: &[Arc<TimedDrive>]) -> Vec<Arc<dyn Drive>> {
    drives.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect()
}

async fn step(drive: &dyn Drive, step: ReservationStep) -> Result<bool> {
    let (done, ended) = wait();
    drive.reserve(step, done);
    ended.await
}

impl SharedArray {
    /// Sign of controller `own`, from 0, on each drive: if it changes, another process with this number runs.
    pub async fn beats_of(&self, own: usize) -> Vec<Option<(u64, Beat)>> {
        let mut beats = Vec::new();
        for (_, drive) in &self.drives {
            let signs = witness::signs(&**drive, self.array).await.ok();
            let sign = signs.and_then(|signs| signs.into_iter().nth(own).flatten());
            beats.push(sign.map(|found| (found.record.key, found.record.beat)));
        }
        beats
    }

    /// A process of controller `own`, from 0, with a random key.
    ///
    /// # Panics
    /// If the key is zero, or the controller does not exist.
    pub fn party(&self, own: usize, key: u64) -> Party {
        assert!(own < CONTROLLERS && key != 0, "two controllers, and keys that are not zero");
        Party { array: self.array, witnesses: self.witnesses.clone(), own, key }
    }

    /// Omits the drives that `keeps` rejects.
    pub fn retain(&mut self, mut keeps: impl FnMut(&str) -> bool) {
        self.drives.retain(|(_, drive)| keeps(drive.name()));
    }
}

impl Party {
    /// Registers at all drives of the array, and omits those that fail or do not reply in time.
    ///
    /// # Errors
    /// [`Error::Unusable`] if a drive is unsuitable for two controllers; the error of a drive if more fail than may be
    /// missing, or if any fails before the array is shared.
    pub async fn take_part_in(&self, array: &mut SharedArray) -> Result {
        let mut refused = Vec::new();
        for (_, drive) in &array.drives {
            match self.take_part(&**drive).await {
                Ok(()) => {}
                // An operator must resolve the refusal of a drive. A drive that does not reply may be suitable.
                Err(error @ Error::Unusable(_)) if !drive.is_silent() => return Err(error),
                Err(error) => {
                    tracing::error!(drive = drive.name(), %error, "this controller goes without a drive");
                    refused.push(drive.name().to_owned());
                    if !array.is_shared || refused.len() > MAX_REFUSED {
                        return Err(error);
                    }
                }
            }
        }
        array.retain(|name| !refused.iter().any(|other| other == name));
        Ok(())
    }

    /// Takes over all drives of the array in parallel, and returns the successful ones. A drive that fails or does not
    /// reply in time counts as missing. The returned drives keep the limit for replies until [`TimedDrive::lift`].
    ///
    /// # Errors
    /// [`Error::Fenced`] if another process has this controller's number.
    pub async fn take_over_all(self: &Arc<Self>, array: &SharedArray) -> Result<Vec<Arc<TimedDrive>>> {
        let begin = |(_, drive): &(u128, Arc<TimedDrive>)| -> (Arc<TimedDrive>, Wait<()>) {
            let (party, drive, (done, taken)) = (self.clone(), drive.again(), wait());
            let taking = drive.clone();
            shelf::spawn(async move { done(party.take_over(&*taking).await) });
            (drive, taken)
        };
        let begun: Vec<_> = array.drives.iter().map(begin).collect();
        let mut ours = Vec::new();
        for (drive, taken) in begun {
            match taken.await {
                Ok(()) => ours.push(drive),
                Err(error @ Error::Fenced { .. }) => return Err(error),
                Err(error) => {
                    tracing::error!(drive = drive.name(), %error, "a drive can't be taken over: it counts as missing");
                }
            }
        }
        Ok(ours)
    }

    /// Registers at a drive, and removes the registration of an earlier process of this controller.
    ///
    /// # Errors
    /// [`Error::Unusable`] if the drive has no suitable reservations; the text has the reason.
    pub async fn take_part(&self, drive: &dyn Drive) -> Result {
        let name = drive.name();
        let refused = |error: Error| {
            Error::Unusable(format!(
                "two controllers can't share {name}: its persistent reservations don't work ({error}). It has to be a SCSI or \
                 NVMe drive or LUN that has them, and on NVMe each server needs a host identifier"
            ))
        };
        let other = 1 - self.own;
        for key in witness::keys(drive, self.array, other).await? {
            if step(drive, ReservationStep::Probe { key }).await.map_err(refused)? {
                return Err(Error::Unusable(format!(
                    "two controllers can't share {name}: for the drive this server is the one of controller {}. Give each \
                     server an NVMe host identifier (/etc/nvme/hostid) or an initiator name of its own; if this server was \
                     that controller before, clear the drive's reservations (blkpr or sg_persist --clear)",
                    other + 1
                )));
            }
        }
        let old = witness::keys(drive, self.array, self.own).await?;
        if !step(drive, ReservationStep::Register { key: self.key }).await.map_err(refused)? {
            return Err(refused(Error::Unusable("registration was refused".into())));
        }
        // False if another process holds the reservation, which is sufficient.
        step(drive, ReservationStep::Reserve { key: self.key }).await.map_err(refused)?;
        for victim in old.into_iter().filter(|victim| *victim != self.key) {
            step(drive, ReservationStep::PreemptAndAbort { key: self.key, victim }).await.map_err(refused)?;
        }
        // Only now, since no request of that process arrives any more.
        let found = witness::signs(drive, self.array).await?.into_iter().nth(self.own).flatten();
        let before = found.as_ref().map_or_else(Sign::default, |found| found.record.clone());
        self.write_list(drive).await?;
        let sign = Sign { key: self.key, ..before };
        let written = witness::write_sign(drive, self.array, (self.own, found.as_ref()), &sign).await;
        written.map_err(|error| match error {
            Error::Fenced { .. } => refused(Error::Unusable(
                "another host has reserved the drive in a way that keeps this one out; end its use, then clear the reservations"
                    .into(),
            )),
            error => error,
        })
    }

    async fn write_list(&self, drive: &dyn Drive) -> Result {
        let (done, read) = wait();
        drive.read(LIST_AT, ALIGN as u32, done);
        let list = encode_list(self.array, &self.witnesses);
        if read.await? == list {
            return Ok(());
        }
        let (done, written) = wait();
        drive.write(LIST_AT, vec![list], true, done);
        written.await
    }

    /// Removes the other controller's processes from a drive, as the home: none of their writes takes effect
    /// afterwards.
    ///
    /// # Errors
    /// [`Error::Drive`], or [`Error::Fenced`] if another process has this controller's number.
    pub async fn take_over(&self, drive: &dyn Drive) -> Result {
        let key = self.key;
        for _ in 0..MAX_ROUNDS {
            // The reservation comes first: from then on, the drive refuses writes of unregistered processes.
            step(drive, ReservationStep::Reserve { key }).await?;
            for victim in witness::keys(drive, self.array, 1 - self.own).await? {
                step(drive, ReservationStep::PreemptAndAbort { key, victim }).await?;
            }
            if step(drive, ReservationStep::Reserve { key }).await? {
                return Ok(());
            }
            // Another process has registered since, and holds the reservation.
        }
        Err(Error::Drive { what: format!("{}: the reservation can't be taken over", drive.name()) })
    }

    /// The arbiter, over drives at which this process is registered. It has no limit for replies: writes of a record
    /// are sequential, and a majority of drives suffices.
    ///
    /// # Errors
    /// [`Error::Drive`] if too few witnesses are among them.
    pub async fn arbiter(&self, array: &SharedArray) -> Result<Arc<DriveArbiter>> {
        let witness = |id: &u128| {
            let found = array.drives.iter().find(|(known, _)| known == id);
            let drive = found.map(|(_, drive)| drive.drive())?;
            Some(Witness::new(drive, self.array, (self.own, self.key)))
        };
        let witnesses = self.witnesses.iter().map(witness).collect();
        DriveArbiter::start(witnesses, (self.own, self.key)).await
    }
}

#[cfg(test)]
#[path = "party_test.rs"]
mod tests;
