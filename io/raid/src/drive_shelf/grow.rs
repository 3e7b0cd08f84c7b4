//! Drives that come and go while the shelf runs. One that comes takes the place of one that is out by being there: what
//! is at risk is placed on it. How one goes is in `evacuate`.

use super::DriveShelf;
use super::backing::allocate_fixed;
use super::keys;
use super::member::Member;
use super::open::{all, check_consent, clear, label_at, read_candidate, write_page};
use crate::geometry::WIDEST;
use crate::label::{self};
use crate::{Consent, DriveState};
use crate::{Drive, Error, Result};
use std::sync::Arc;

impl DriveShelf {
    /// Makes a drive a member and answers with its slot. New segments are placed on it from then on, the number of
    /// segments grows, and what is at risk is rebuilt on it: so a drive that failed is replaced.
    ///
    /// # Errors
    /// [`Error::Unusable`] when it is too small, there are too many, or it holds something that there is no consent to
    /// overwrite; [`Error::Drive`] when it fails.
    pub async fn add_drive(&self, drive: Arc<dyn Drive>, consent: &Consent) -> Result<usize> {
        self.check_running()?;
        let (candidate, failure) = read_candidate(&*drive).await;
        failure.map_or(Ok(()), Err)?;
        check_consent(&candidate, consent)?;
        let bytes = drive.bytes();
        self.plan.check(bytes)?;
        allocate_fixed(&*drive, &self.plan, bytes).await?;
        // A label of another array on a member would be taken for a newer owner.
        all((0..2).map(|copy| write_page(&*drive, label_at(copy, bytes), keys::blank())).collect()).await?;
        clear(&*drive, &self.plan, false).await?;
        self.write_envelope(&drive).await?;
        let slot = self.take_slot(drive, bytes)?;
        self.count_members();
        {
            // It has nothing of the map: every page is written again.
            let mut segments = self.segments.lock();
            let pages = (segments.list.len() as u32).div_ceil(crate::segment_map::ENTRIES as u32);
            segments.dirty.extend(0..pages);
        }
        self.record().await?;
        self.commit().await?;
        let root = self.roots.lock().newest.clone();
        if let Some(root) = root {
            self.write_slots(&root.encode(&self.vault), 1 << slot, 0).await?;
        }
        if self.member(slot).is_none() {
            return Err(Error::Drive { what: format!("{} failed while it was added", candidate.name) });
        }
        self.segments.lock().bring(slot, bytes);
        self.look_below();
        self.grow().await?;
        self.strays.lock().retain(|stray| *stray != candidate.name);
        tracing::info!(slot, drive = candidate.name, "a drive is a member now");
        self.background.wake();
        Ok(slot)
    }

    fn take_slot(&self, drive: Arc<dyn Drive>, bytes: u64) -> Result<usize> {
        let mut members = self.members.write();
        let mut roster = self.roster.lock();
        let free = roster.members.iter().position(|member| member.state == DriveState::Empty);
        let slot = free.unwrap_or(roster.members.len());
        if slot >= WIDEST {
            return Err(Error::Unusable(format!("a shelf has at most {WIDEST} drives")));
        }
        // Those of formatting are below 2^8, and no two changes have the same generation.
        let id = self.array.wrapping_add(1 + slot as u128 + (u128::from(roster.generation + 1) << 8));
        let entry = label::Member { drive: id, bytes, state: DriveState::InUse, knows: 0 };
        let member = Some(Member::new(slot, id, bytes, drive));
        let count = roster.members.len().max(slot + 1);
        roster.members.resize(count, label::Member::default());
        members.resize(count, None);
        (roster.members[slot], members[slot]) = (entry, member);
        Ok(slot)
    }
}

#[cfg(test)]
#[path = "grow_test.rs"]
mod tests;
