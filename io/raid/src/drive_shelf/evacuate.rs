//! Evacuation: the data of a drive moves to the others, and then it leaves the array.
//!
//! Neither the space that the others need nor redundancy is given up for that without consent.

use super::DriveShelf;
use crate::DriveState;
use crate::allocator::{Free, Space};
use crate::geometry::Profile;
use crate::{Error, Result};

impl DriveShelf {
    /// Drive failures that the array is specified to tolerate: the most that it ever could, no matter what was removed
    /// since.
    pub fn failures_to_tolerate(&self) -> usize {
        usize::from(self.membership.lock().failures_to_tolerate)
    }

    /// Failures that are tolerated once everything is placed on these drives.
    fn max_tolerates(in_use_drives: u64) -> usize {
        usize::from(Profile::of(in_use_drives.count_ones() as usize).parity)
    }

    /// Failures that must still be tolerated after an evacuation if it is not to reduce redundancy: what is specified, or less
    /// if the drives in use can't provide that now.
    pub fn min_tolerates_after_evacuation(&self) -> usize {
        self.failures_to_tolerate().min(Self::max_tolerates(self.in_use_drives()))
    }

    /// Failures that are tolerated once the drive in this slot, and all that are evacuating, have left.
    pub fn tolerates_without(&self, slot: usize) -> usize {
        let left = self.in_use_drives() & !(1 << slot);
        if left == 0 { 0 } else { Self::max_tolerates(left) }
    }

    /// Raises the specified failures to tolerate as soon as everything tolerates more. True if it did.
    pub(super) async fn raise_failures_to_tolerate(&self) -> bool {
        let known = self.failures_to_tolerate();
        if known >= crate::striping::PARITY_COLUMNS {
            return false;
        }
        let tolerates = self.status().tolerates;
        if tolerates <= known {
            return false;
        }
        self.membership.lock().failures_to_tolerate = tolerates as u8;
        self.persist_membership().await.is_ok()
    }

    /// True if everything that has to move fits on these drives with all the parity that their number allows, and
    /// enough space is left for writers. Fragmented space is counted as if it were contiguous.
    fn has_room_on(&self, in_use_drives: u64) -> bool {
        let members: Vec<_> =
            self.present().into_iter().filter(|it| in_use_drives >> it.slot & 1 == 1).collect();
        let segments = self.segments.lock();
        let mut free: Vec<u32> = vec![0; members.iter().map(|it| it.slot + 1).max().unwrap_or(0)];
        for member in &members {
            free[member.slot] = self.plan.granules(member.bytes);
        }
        let mut moving = 0;
        for entry in segments.current() {
            if entry.lost(in_use_drives).next().is_some() {
                moving += 1;
                continue;
            }
            let len = self.plan.chunk_pages(entry.profile);
            for column in entry.columns.iter().flatten() {
                let free = &mut free[usize::from(column.slot)];
                *free = free.saturating_sub(len);
            }
        }
        let drives =
            (0..).zip(&free).map(|(slot, free)| (in_use_drives >> slot & 1 == 1).then(|| Free::new(*free)));
        let space = Space { drives: drives.collect() };
        let room = space.rooms(self.plan.stripe_pages)[Self::max_tolerates(in_use_drives)];
        room >= moving + segments.reserved() + super::PLACEMENT_RESERVE_SEGMENTS
    }

    /// Cancels an evacuation: the drive stays, with what it still holds.
    ///
    /// # Errors
    /// [`Error::Unusable`] when it is not being evacuated.
    pub async fn cancel_evacuation(&self, slot: usize) -> Result {
        self.check_running()?;
        {
            let mut membership = self.membership.lock();
            match membership.members.get_mut(slot) {
                Some(entry) if entry.state == DriveState::Evacuating => entry.state = DriveState::Online,
                _ => return Err(Error::Unusable(format!("the drive in slot {slot} is not being evacuated"))),
            }
        }
        self.segments.lock().set_closed(slot, false);
        self.count_members();
        self.persist_membership().await?;
        self.background.wake();
        Ok(())
    }

    /// Evacuates a drive: its data moves to the others, and then it is no member any more. Its state is
    /// [`DriveState::Evacuating`] until then.
    ///
    /// # Errors
    /// [`Error::Unusable`] when there is no such member, the others lack space for its data and for rebuild, or fewer
    /// than `min_tolerates` drives could fail without data loss afterwards: see [`DriveShelf::min_tolerates_after_evacuation`].
    pub async fn evacuate(&self, slot: usize, min_tolerates: usize) -> Result {
        self.check_running()?;
        let member = self.member(slot).ok_or_else(|| Error::Unusable(format!("slot {slot} has no drive")))?;
        let left = self.tolerates_without(slot);
        if left < min_tolerates {
            return Err(Error::Unusable(format!(
                "without {} {left} drives could fail without data loss, and {min_tolerates} must: add a drive first",
                member.name()
            )));
        }
        let in_use_drives = self.in_use_drives() & !(1 << slot);
        if in_use_drives == 0 || !self.has_room_on(in_use_drives) || !self.may_close(slot) {
            return Err(Error::Unusable(format!(
                "the other drives have no room for what {} holds: free space, or add a drive first",
                member.name()
            )));
        }
        let leaves = {
            let mut membership = self.membership.lock();
            let entry = membership.members.get_mut(slot).filter(|entry| entry.state == DriveState::Online);
            entry.map(|entry| entry.state = DriveState::Evacuating).is_some()
        };
        if !leaves {
            return Err(Error::Unusable(format!(
                "the drive in slot {slot} is being evacuated already, or has failed"
            )));
        }
        self.count_members();
        self.persist_membership().await?;
        self.background.wake();
        Ok(())
    }

    /// Stops placing segments on a drive, if there is room for some without it.
    fn may_close(&self, slot: usize) -> bool {
        let mut segments = self.segments.lock();
        segments.set_closed(slot, true);
        let fits = segments.room() > super::PLACEMENT_RESERVE_SEGMENTS;
        if !fits {
            segments.set_closed(slot, false);
        }
        fits
    }
}
