//! Superblock writer: one superblock at a time, to every drive that is present.

use super::append::not_recovered;
use super::{DriveShelf, Member};
use crate::superblock::StoredSuperblock;
use crate::{Done, Error, Result, Superblock};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Default)]
pub struct SuperblockWriter {
    pub newest: Option<StoredSuperblock>,
    /// Superblocks that wait for the one being written.
    queue: VecDeque<(Superblock, Done<()>)>,
    writing: bool,
}

impl DriveShelf {
    pub(super) fn queue_superblock(&self, superblock: Superblock, done: Done<()>) {
        let mut writer = self.superblocks.lock();
        writer.queue.push_back((superblock, done));
        if !std::mem::replace(&mut writer.writing, true) {
            drop(writer);
            self.spawn(|shelf| shelf.store_all());
        }
    }

    async fn store_all(self: Arc<Self>) {
        loop {
            let next = {
                let mut writer = self.superblocks.lock();
                writer.writing = !writer.queue.is_empty();
                writer.queue.pop_front()
            };
            let Some((superblock, done)) = next else { return };
            done(self.store(superblock).await);
        }
    }

    async fn store(&self, superblock: Superblock) -> Result {
        self.check_fence().await?;
        if superblock.payload.len() > self.plan.layout(0).superblock_bytes as usize {
            return Err(Error::Unusable(format!(
                "a superblock of {} bytes is too long",
                superblock.payload.len()
            )));
        }
        let from = superblock.journal_from;
        let (entry, acknowledged) = {
            let journal = self.journal.lock();
            let ring = journal.ring.as_ref().ok_or_else(not_recovered)?;
            (ring.locate(from, self.epoch), journal.acknowledged)
        };
        let sequence = 1 + self.superblocks.lock().newest.as_ref().map_or(0, |stored| stored.sequence);
        let stored = StoredSuperblock {
            array: self.array,
            epoch: self.epoch,
            salt: self.salt,
            sequence,
            journal_at: entry.at,
            journal_epoch: entry.epoch,
            acknowledged,
            superblock,
        };
        // The previous one is valid in both slots.
        self.write_to_slots(&stored, 0).await?;
        self.superblocks.lock().newest = Some(stored);
        // A journal copy in progress reads from the tail.
        self.background.journal_copied().await;
        let lacked_columns = self.lacks_columns();
        if let Some(ring) = &mut self.journal.lock().ring {
            ring.trim(from, entry);
        }
        if lacked_columns {
            // A drive may have remained a member only because of the trimmed batches.
            self.background.wake();
        }
        Ok(())
    }

    /// Writes a superblock to slot 0 of all drives, then to slot 1; in the other order on the drives in `last`, whose
    /// slot 0 may be the only valid one.
    pub(super) async fn write_to_slots(&self, stored: &StoredSuperblock, last: u64) -> Result {
        self.write_slots(&stored.encode(&self.keyring), u64::MAX, last).await
    }

    /// Writes the bytes of a slot to the drives in `set`.
    pub(super) async fn write_slots(&self, slot: &Bytes, set: u64, last: u64) -> Result {
        for step in 0..2 {
            let present = self.present();
            let chosen: Vec<_> = present.iter().filter(|member| set >> member.slot & 1 == 1).collect();
            let at = |member: &Member| self.plan.superblock_at(step ^ (last >> member.slot & 1) as usize);
            let waits: Vec<_> =
                chosen.iter().map(|member| member.write_page(at(member), slot.clone())).collect();
            for (member, written) in chosen.iter().zip(waits) {
                if let Err(cause) = written.await {
                    self.fail_drive(member.slot, &cause);
                }
            }
            self.check_running()?;
        }
        Ok(())
    }
}
