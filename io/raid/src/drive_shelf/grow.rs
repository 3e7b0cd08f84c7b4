//! Adding drives while the shelf runs. A new drive replaces a failed one by being there: degraded segments are rebuilt
//! onto it. How a drive leaves is in `evacuate`.

use super::DriveShelf;
use super::backing::allocate_fixed;
use super::keys;
use super::member::Member;
use super::open::{all, check_consent, clear, label_at, read_candidate, write_page};
use crate::geometry::MAX_DRIVES;
use crate::label::{self};
use crate::{Consent, DriveState};
use crate::{Drive, Error, Result};
use std::sync::Arc;

impl DriveShelf {
    /// Adds a drive and returns its slot. New segments are placed on it from then on, the number of segments grows,
    /// and degraded segments are rebuilt onto it: this is also how a failed drive is replaced.
    ///
    /// # Errors
    /// [`Error::Unusable`] when it is too small, there are too many, or it holds something that `consent` does not
    /// allow to overwrite; [`Error::Drive`] when it fails.
    pub async fn add_drive(&self, drive: Arc<dyn Drive>, consent: &Consent) -> Result<usize> {
        self.check_running()?;
        let (candidate, failure) = read_candidate(&*drive).await;
        failure.map_or(Ok(()), Err)?;
        check_consent(&candidate, consent)?;
        let bytes = drive.bytes();
        self.plan.check(bytes)?;
        allocate_fixed(&*drive, &self.plan, bytes).await?;
        // A label of another array on a member would look like a newer owner.
        all((0..2).map(|copy| write_page(&*drive, label_at(copy, bytes), keys::blank())).collect()).await?;
        clear(&*drive, &self.plan, false).await?;
        self.write_envelope(&drive).await?;
        let slot = self.take_slot(drive, bytes)?;
        self.count_members();
        {
            // It has nothing of the map: every page is written again.
            let mut segments = self.segments.lock();
            let pages = (segments.list.len() as u32).div_ceil(crate::segment_map::ENTRIES_PER_PAGE as u32);
            segments.dirty.extend(0..pages);
        }
        self.persist_membership().await?;
        self.commit().await?;
        let stored = self.superblocks.lock().newest.clone();
        if let Some(stored) = stored {
            self.write_slots(&stored.encode(&self.keyring), 1 << slot, 0).await?;
        }
        if self.member(slot).is_none() {
            return Err(Error::Drive { what: format!("{} failed while it was added", candidate.name) });
        }
        self.segments.lock().add_space(slot, bytes);
        self.refresh_backing();
        self.grow().await?;
        self.former_drives.lock().retain(|stray| *stray != candidate.name);
        tracing::info!(slot, drive = candidate.name, "a drive is a member now");
        self.background.wake();
        Ok(slot)
    }

    fn take_slot(&self, drive: Arc<dyn Drive>, bytes: u64) -> Result<usize> {
        let mut members = self.members.write();
        let mut membership = self.membership.lock();
        let free = membership.members.iter().position(|member| member.state == DriveState::Empty);
        let slot = free.unwrap_or(membership.members.len());
        if slot >= MAX_DRIVES {
            return Err(Error::Unusable(format!("a shelf has at most {MAX_DRIVES} drives")));
        }
        // Identities from formatting are below 2^8, and no two changes have the same generation.
        let id = self.array.wrapping_add(1 + slot as u128 + (u128::from(membership.generation + 1) << 8));
        let entry = label::Member { drive: id, bytes, state: DriveState::Online, last_common_epoch: 0 };
        let member = Some(Member::new(slot, id, bytes, drive));
        let count = membership.members.len().max(slot + 1);
        membership.members.resize(count, label::Member::default());
        members.resize(count, None);
        (membership.members[slot], members[slot]) = (entry, member);
        Ok(slot)
    }
}

#[cfg(test)]
#[path = "grow_test.rs"]
mod tests;
