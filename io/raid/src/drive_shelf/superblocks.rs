//! Superblocks: one at a time, to every drive that is there.

use super::append::not_recovered;
use super::{DriveShelf, Member};
use crate::superblock::Root;
use crate::{Done, Error, Result, Superblock};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Default)]
pub struct Roots {
    pub newest: Option<Root>,
    /// Superblocks that wait for the one being written.
    queue: VecDeque<(Superblock, Done<()>)>,
    writing: bool,
}

impl DriveShelf {
    pub(super) fn queue_root(&self, superblock: Superblock, done: Done<()>) {
        let mut roots = self.roots.lock();
        roots.queue.push_back((superblock, done));
        if !std::mem::replace(&mut roots.writing, true) {
            drop(roots);
            self.spawn(|shelf| shelf.store_all());
        }
    }

    async fn store_all(self: Arc<Self>) {
        loop {
            let next = {
                let mut roots = self.roots.lock();
                roots.writing = !roots.queue.is_empty();
                roots.queue.pop_front()
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
        let (place, answered) = {
            let journal = self.journal.lock();
            let ring = journal.ring.as_ref().ok_or_else(not_recovered)?;
            (ring.place(from, self.epoch), journal.answered)
        };
        let sequence = 1 + self.roots.lock().newest.as_ref().map_or(0, |root| root.sequence);
        let root = Root {
            array: self.array,
            epoch: self.epoch,
            salt: self.salt,
            sequence,
            journal_at: place.at,
            journal_epoch: place.epoch,
            answered,
            superblock,
        };
        // The last one is whole in both slots.
        self.write_root(&root, 0).await?;
        self.roots.lock().newest = Some(root);
        // A copy of the journal that is being made reads what lies at the front.
        self.background.journal_copied().await;
        let lacked = self.lacks_columns();
        if let Some(ring) = &mut self.journal.lock().ring {
            ring.trim(from, place);
        }
        if lacked {
            // A drive may have been a member still for the sake of what has been trimmed.
            self.background.wake();
        }
        Ok(())
    }

    /// Writes a root to slot 0 of all drives, then to slot 1; the other way round on the drives in `last`, whose slot 0 may be
    /// the only one that is whole.
    pub(super) async fn write_root(&self, root: &Root, last: u64) -> Result {
        self.write_slots(&root.encode(&self.vault), u64::MAX, last).await
    }

    /// The same with the bytes of a slot, to the drives in `set`.
    pub(super) async fn write_slots(&self, slot: &Bytes, set: u64, last: u64) -> Result {
        for turn in 0..2 {
            let present = self.present();
            let chosen: Vec<_> = present.iter().filter(|member| set >> member.slot & 1 == 1).collect();
            let at = |member: &Member| self.plan.superblock_at(turn ^ (last >> member.slot & 1) as usize);
            let waits: Vec<_> =
                chosen.iter().map(|member| member.write_page(at(member), slot.clone())).collect();
            for (member, written) in chosen.iter().zip(waits) {
                if let Err(cause) = written.await {
                    self.put_out(member.slot, &cause);
                }
            }
            self.check_running()?;
        }
        Ok(())
    }
}
