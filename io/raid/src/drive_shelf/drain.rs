//! Evacuation: a drive is emptied onto the others and leaves. Neither their room nor the protection that the array
//! promises is given up for that without consent.

use super::DriveShelf;
use crate::DriveState;
use crate::allocator::{Free, Space};
use crate::geometry::Form;
use crate::{Error, Result};

impl DriveShelf {
    /// Drives that the array promises to do without: as many as it could ever lose without loss of data, whatever was
    /// taken away since.
    pub fn failures_to_tolerate(&self) -> usize {
        usize::from(self.roster.lock().failures_to_tolerate)
    }

    /// Drives that may fail without loss, when so many stay and everything is placed on them.
    fn tolerable(staying: u64) -> usize {
        usize::from(Form::of(staying.count_ones() as usize).parity)
    }

    /// What an evacuation has to leave so that nothing is lost of the protection: what is promised, or less when the
    /// drives that stay can't give that now.
    pub fn min_tolerates_after_drain(&self) -> usize {
        self.failures_to_tolerate().min(Self::tolerable(self.staying()))
    }

    /// Drives that may still fail without loss when the drive in this slot, and all that are leaving, are gone.
    pub fn tolerates_without(&self, slot: usize) -> usize {
        let left = self.staying() & !(1 << slot);
        if left == 0 { 0 } else { Self::tolerable(left) }
    }

    /// From the moment on at which everything stands more failures than the array failures_to_tolerate, it promises them. True when
    /// it does now.
    pub(super) async fn promise_more(&self) -> bool {
        let known = self.failures_to_tolerate();
        if known >= crate::striping::PARITY {
            return false;
        }
        let tolerates = self.status().tolerates;
        if tolerates <= known {
            return false;
        }
        self.roster.lock().failures_to_tolerate = tolerates as u8;
        self.record().await.is_ok()
    }

    /// True when everything that is to be placed elsewhere finds room on these drives, with all the protection that
    /// their number allows, and enough is left for whoever writes. Space in pieces is counted as if it were in one.
    fn has_room_on(&self, staying: u64) -> bool {
        let members: Vec<_> = self.present().into_iter().filter(|it| staying >> it.slot & 1 == 1).collect();
        let segments = self.segments.lock();
        let mut free: Vec<u32> = vec![0; members.iter().map(|it| it.slot + 1).max().unwrap_or(0)];
        for member in &members {
            free[member.slot] = self.plan.granules(member.bytes);
        }
        let mut moving = 0;
        for entry in segments.current() {
            if entry.lost(staying).next().is_some() {
                moving += 1;
                continue;
            }
            let len = self.plan.chunk_pages(entry.form);
            for column in entry.columns.iter().flatten() {
                let free = &mut free[usize::from(column.slot)];
                *free = free.saturating_sub(len);
            }
        }
        let drives =
            (0..).zip(&free).map(|(slot, free)| (staying >> slot & 1 == 1).then(|| Free::new(*free)));
        let space = Space { drives: drives.collect() };
        let room = space.rooms(self.plan.stripe_pages)[Self::tolerable(staying)];
        room >= moving + segments.promised() + super::AT_ONCE
    }

    /// Takes an evacuation back: the drive stays, with what it still holds.
    ///
    /// # Errors
    /// [`Error::Unusable`] when nothing there is being emptied.
    pub async fn cancel_drain(&self, slot: usize) -> Result {
        self.check_running()?;
        {
            let mut roster = self.roster.lock();
            match roster.members.get_mut(slot) {
                Some(entry) if entry.state == DriveState::Draining => entry.state = DriveState::InUse,
                _ => return Err(Error::Unusable(format!("the drive in slot {slot} is not being emptied"))),
            }
        }
        self.segments.lock().close(slot, false);
        self.count_members();
        self.record().await?;
        self.background.wake();
        Ok(())
    }

    /// Empties a drive: what it holds is placed on the others, and then it is no member any more. Its state is
    /// [`DriveState::Draining`] until then.
    ///
    /// # Errors
    /// [`Error::Unusable`] when there is no such member, the others have no room for what it holds and for what is to be
    /// rebuilt, or fewer than `least` drives could fail without loss once it is gone: see
    /// [`DriveShelf::min_tolerates_after_drain`].
    pub async fn drain(&self, slot: usize, least: usize) -> Result {
        self.check_running()?;
        let member = self.member(slot).ok_or_else(|| Error::Unusable(format!("slot {slot} has no drive")))?;
        let left = self.tolerates_without(slot);
        if left < least {
            return Err(Error::Unusable(format!(
                "without {} {left} drives could fail without loss, and {least} are to: add a drive first",
                member.name()
            )));
        }
        let staying = self.staying() & !(1 << slot);
        if staying == 0 || !self.has_room_on(staying) || !self.may_close(slot) {
            return Err(Error::Unusable(format!(
                "the other drives have no room for what {} holds: give space back, or add a drive first",
                member.name()
            )));
        }
        let leaves = {
            let mut roster = self.roster.lock();
            let entry = roster.members.get_mut(slot).filter(|entry| entry.state == DriveState::InUse);
            entry.map(|entry| entry.state = DriveState::Draining).is_some()
        };
        if !leaves {
            return Err(Error::Unusable(format!("the drive in slot {slot} is leaving already, or out")));
        }
        self.count_members();
        self.record().await?;
        self.background.wake();
        Ok(())
    }

    /// Places nothing more on a drive, if there is room for some segments without it.
    fn may_close(&self, slot: usize) -> bool {
        let mut segments = self.segments.lock();
        segments.close(slot, true);
        let fits = segments.room() > super::AT_ONCE;
        if !fits {
            segments.close(slot, false);
        }
        fits
    }
}
