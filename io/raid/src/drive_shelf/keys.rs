//! The wrapped data key on the drives: twice on every drive, after label A.
//!
//! Replacing the envelope changes the key that opens the array, and erasing it makes all data unreadable, without
//! writing the data again.

use super::member::Member;
use super::open::{all, clear_ends, label_at, read_candidates, write_page};
use super::{DriveShelf, read_bytes};
use crate::DriveState;
use crate::codec::ENVELOPES;
use crate::encryption::{DataKey, Envelope};
use crate::label::assemble;
use crate::{ALIGN, AlignedBuf, Drive, Error, Result};
use bytes::Bytes;
use shelf::pool::{KEY_BYTES, KeySource};
use std::sync::Arc;

/// Offsets of the two places of the envelope, before the superblocks. The newest is written to one after the other, so
/// that a torn write leaves one valid.
const PLACES: [u64; 2] = [ALIGN as u64, 2 * ALIGN as u64];

/// Parameters of an opening.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// A random number that distinguishes this owner from all others.
    pub salt: u64,
    /// The data key and its envelope, if the drives are encrypted.
    pub key: Option<(DataKey, Envelope)>,
}

impl DriveShelf {
    /// The distinct envelopes on these drives, newest first; `None` if the array is not encrypted. More than one if a
    /// change did not reach every drive.
    ///
    /// # Errors
    /// [`Error::Unusable`] when the drives hold no array; [`Error::Corrupt`] when it is encrypted and no envelope is
    /// valid.
    pub async fn envelopes(drives: &[Arc<dyn Drive>]) -> Result<Option<Vec<Envelope>>> {
        let assembly = assemble(&read_candidates(drives).await?)?;
        if !assembly.newest.sealed {
            return Ok(None);
        }
        let mut found: Vec<Envelope> = Vec::new();
        for drive in assembly.order.iter().flatten().map(|index| &drives[*index]) {
            for envelope in read_places(&**drive, assembly.newest.array).await.into_iter().flatten() {
                if !found.contains(&envelope) {
                    found.push(envelope);
                }
            }
        }
        found.sort_by_key(|envelope| std::cmp::Reverse(envelope.sequence));
        if found.is_empty() {
            for drive in drives {
                check_versions(&**drive, assembly.newest.array).await?;
            }
            let what = "the array is encrypted, and its wrapped key is damaged on every drive that is there; give \
                        all of its drives";
            return Err(Error::Corrupt { what: what.into() });
        }
        Ok(Some(found))
    }

    /// Replaces the envelope on drives of an array that is not open, and on former members among them that still hold
    /// one. The old key-encryption key is of no use for these drives afterwards. Returns the slots of members that are
    /// missing: they keep their envelope until they are opened with the others.
    ///
    /// # Errors
    /// [`Error::Drive`] when a write fails: the call must be repeated.
    pub async fn replace_envelope(drives: &[Arc<dyn Drive>], envelope: &Envelope) -> Result<Vec<usize>> {
        let assembly = assemble(&read_candidates(drives).await?)?;
        if !assembly.newest.sealed || assembly.newest.array != envelope.array {
            return Err(Error::Unusable("the envelope is not one of this array".into()));
        }
        let mut there: Vec<_> = assembly.order.iter().flatten().map(|index| drives[*index].clone()).collect();
        for drive in assembly.others.iter().map(|index| &drives[*index]) {
            if read_places(&**drive, envelope.array).await.iter().any(Option::is_some) {
                tracing::warn!(
                    drive = drive.name(),
                    "a drive that is no member any more had a wrapped key, too"
                );
                there.push(drive.clone());
            }
        }
        write_places(&there, &envelope.encode()).await?;
        let missing = assembly.order.iter().enumerate().filter(|(_, index)| index.is_none());
        let empty = |slot: &usize| assembly.newest.members.get(*slot).is_none_or(|member| member.drive == 0);
        Ok(missing.map(|(slot, _)| slot).filter(|slot| !empty(slot)).collect())
    }

    /// Checks the key against the newest envelope, and returns the places that lack it. Writes nothing.
    pub(super) async fn check_envelope(&self, used: &Envelope) -> Result<Vec<(usize, u64)>> {
        let mut newest: Option<Envelope> = None;
        let mut held = Vec::new();
        for member in self.present() {
            for at in PLACES {
                let page = member.read_with_write_timeout(at, ALIGN as u32).await;
                let envelope = page.ok().and_then(|page| Envelope::decode(&page, self.array));
                if envelope.as_ref().is_some_and(|found| {
                    newest.as_ref().is_none_or(|newest| newest.sequence < found.sequence)
                }) {
                    newest.clone_from(&envelope);
                }
                held.push(((member.slot, at), envelope));
            }
        }
        let newest = newest.ok_or_else(|| Error::Corrupt { what: "no drive has a valid envelope".into() })?;
        if newest.source == KeySource::Erased {
            return Err(Error::Unusable(ERASED.into()));
        }
        if !self.keyring.fits(&newest) || !self.keyring.fits(used) {
            return Err(Error::Unusable("the data key is not the one of this array".into()));
        }
        *self.envelope.lock() = Some(used.clone());
        if newest.sequence > used.sequence {
            // Spreading it might lock out an operator who has only the key that was given.
            tracing::warn!("the key was changed on some of the drives only: change it again");
            return Ok(Vec::new());
        }
        Ok(held
            .into_iter()
            .filter(|(_, found)| found.as_ref() != Some(used))
            .map(|(place, _)| place)
            .collect())
    }

    /// Writes the envelope to the places that lack it.
    pub(super) async fn spread_envelope(&self, lacking: &[(usize, u64)]) -> Result {
        let Some(page) = self.envelope().map(|envelope| envelope.encode()) else { return Ok(()) };
        for (slot, at) in lacking {
            if let Some(member) = self.member(*slot)
                && let Err(cause) = member.write_page(*at, page.clone()).await
            {
                self.fail_drive(*slot, &cause);
            }
        }
        self.check_running()
    }

    /// Wraps the data key with another key-encryption key, `with`, which comes from `source`, while I/O continues. `nonce`
    /// is random. A crash at any step leaves drives that the old key opens, the new key opens, or both; the next
    /// opening spreads the envelope that it was given. Returns the slots of members that could not be reached, which
    /// keep the old envelope until they are opened again; former members that could not be wiped are in
    /// [`PoolStatus::unwiped_drives`](shelf::pool::PoolStatus::unwiped_drives). One change at a time.
    ///
    /// # Errors
    /// [`Error::Unusable`] when the drives are not encrypted, or the error that stopped the shelf: which key opens the
    /// drives is unknown then.
    pub async fn rewrap(
        &self,
        source: KeySource,
        with: &[u8; KEY_BYTES],
        nonce: [u8; 12],
    ) -> Result<Vec<usize>> {
        self.check_fence().await?;
        let mut newest =
            self.envelope().ok_or_else(|| Error::Unusable("the drives are not encrypted".into()))?;
        // The new envelope must also be newer than what an interrupted change left on some drives.
        for member in self.present() {
            for at in PLACES {
                let page = member.read_with_write_timeout(at, ALIGN as u32).await;
                let found = page.ok().and_then(|page| Envelope::decode(&page, self.array));
                newest.sequence = newest.sequence.max(found.map_or(0, |found| found.sequence));
            }
        }
        let changed = self.keyring.rewrap(&newest, source, with, nonce);
        let changed = changed.ok_or_else(|| Error::Unusable("the data key is not known".into()))?;
        // Drives that are added from now on get it.
        *self.envelope.lock() = Some(changed.clone());
        let page = changed.encode();
        for at in PLACES {
            let present = self.present();
            let writes: Vec<_> = present.iter().map(|member| member.write_page(at, page.clone())).collect();
            for (member, written) in present.iter().zip(writes) {
                if let Err(cause) = written.await {
                    self.fail_drive(member.slot, &cause);
                }
            }
            self.check_running()?;
        }
        let members = self.membership.lock().members.clone();
        let absent = |slot: &usize| members[*slot].state != DriveState::Empty && self.member(*slot).is_none();
        let mut unreached = Vec::new();
        for slot in (0..members.len()).filter(absent) {
            // A failed drive may still take a page.
            let known = self.members.read().get(slot).cloned().flatten();
            let reached = match known {
                Some(member) => write_anyway(&member, &PLACES, &page).await,
                None => false,
            };
            unreached.extend((!reached).then_some(slot));
        }
        Ok(unreached)
    }

    /// Wipes a drive that is no member any more: its wrapped key, which a change of the key or a crypto-erase would
    /// not reach, and its labels, so that it may be used for anything. A failed drive may still take that; nothing
    /// waits for it.
    pub(super) fn wipe_removed(&self, slot: usize, drive: u128, member: Option<Arc<Member>>) {
        let name = member.as_ref().map_or("not there", |member| member.name());
        let keeps_key = format!("the former drive of slot {slot} ({name}, identity {drive:032x})");
        if self.keyring.is_sealed() {
            self.unwiped_drives.lock().push(keeps_key.clone());
        }
        let Some(member) = member else { return };
        member.mark_failed();
        let shelf = self.me.upgrade();
        shelf::spawn(async move {
            let key = write_anyway(&member, &PLACES, &blank()).await;
            let labels = [0, 1].map(|copy| label_at(copy, member.bytes));
            write_anyway(&member, &labels, &blank()).await;
            if let Err(cause) = clear_ends(&member).await {
                tracing::warn!(drive = member.name(), %cause, "a drive that is no member any more is not blank");
            }
            match shelf {
                Some(shelf) if key => shelf.unwiped_drives.lock().retain(|other| *other != keeps_key),
                Some(shelf) if shelf.keyring.is_sealed() => {
                    tracing::error!("{keeps_key} could not be wiped: it keeps a wrapped key of this array");
                }
                _ => {}
            }
        });
    }

    /// The current envelope; `None` if the drives are not encrypted.
    pub fn envelope(&self) -> Option<Envelope> {
        self.envelope.lock().clone()
    }

    /// Writes the envelope to a drive that becomes a member.
    pub(super) async fn write_envelope(&self, drive: &Arc<dyn Drive>) -> Result {
        let page = self.envelope().map_or_else(blank, |envelope| envelope.encode());
        write_places(std::slice::from_ref(drive), &page).await
    }
}

/// The error for an array whose key was destroyed.
const ERASED: &str =
    "the key of this array has been destroyed (crypto-erase): nothing on its drives can be read any more";

pub(super) fn blank() -> Bytes {
    Arc::new(AlignedBuf::zeroed(ALIGN)).share(0..ALIGN)
}

/// Writes a page to both places of drives, one place after the other.
pub(super) async fn write_places(drives: &[Arc<dyn Drive>], page: &Bytes) -> Result {
    for at in PLACES {
        all(drives.iter().map(|drive| write_page(&**drive, at, page.clone())).collect()).await?;
    }
    Ok(())
}

/// Writes a page to two places of a drive, even if it has failed; false if one write failed.
async fn write_anyway(member: &Member, places: &[u64; 2], page: &Bytes) -> bool {
    let mut reached = true;
    for at in places {
        reached &= member.write_page_anyway(*at, page.clone()).await.is_ok();
    }
    reached
}

async fn read_places(drive: &dyn Drive, array: u128) -> [Option<Envelope>; 2] {
    let mut found = [None, None];
    for (found, at) in found.iter_mut().zip(PLACES) {
        let page = read_bytes(drive, at, ALIGN as u32).await;
        *found = page.ok().and_then(|page| Envelope::decode(&page, array));
    }
    found
}

/// Refuses envelopes that only another release can read: they would look as if they were damaged.
async fn check_versions(drive: &dyn Drive, array: u128) -> Result {
    for at in PLACES {
        let page = read_bytes(drive, at, ALIGN as u32).await;
        if let Some(version) = page.ok().and_then(|page| Envelope::unknown_version(&page, array)) {
            return Err(ENVELOPES.refusal("the wrapped key", version));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "keys_test.rs"]
mod tests;
