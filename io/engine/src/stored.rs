//! Identities of stored blocks, by which a reader recognizes blocks that it has read before.
//!
//! Volumes share blocks, of clones and duplicates. Who reads many volumes whole, as replication does, need not read a block
//! that it has read as one of another volume.

use crate::catalog::VolumeState;
use crate::core::Core;
use crate::engine::Engine;
use crate::entry::{BlockId, Kind};
use crate::map::Seen;
use crate::read::{Blocked, Fetched, Observed};
use block::{DiskId, Error, Extent, Result};

/// Stored form of a block of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// As nothing: it reads as zeros.
    Zeros,
    /// In the log, under this identity. Blocks with the same identity have the same content, of whichever disks and
    /// whenever they were looked up while this engine is open: the numbers of frames are never used again, and a
    /// frame that is moved keeps its own.
    Block(u64),
    /// In memory until it is flushed, or lost: it has to be read.
    Unknown,
}

impl Engine {
    /// What 4 KiB blocks of a disk are stored as, from block `first` on. Nothing of them is read.
    ///
    /// # Errors
    /// [`Error::Deleted`] if there is no such disk, [`Error::OutOfRange`] if it ends before, and if its map can't be read.
    pub async fn stored(&self, id: DiskId, first: u64, count: u64) -> Result<Vec<Stored>> {
        let number = self.number(id).await?;
        loop {
            match self.core.stored_in(number, first, count) {
                Ok(seen) => return self.core.durable(seen).await,
                Err(Blocked::Error(error)) => return Err(error),
                Err(blocked) => self.core.unblock(blocked, &mut Fetched::default()).await?,
            }
        }
    }
}

impl Core {
    fn stored_in(
        &self,
        volume: u32,
        first: u64,
        count: u64,
    ) -> std::result::Result<Observed<Vec<Stored>>, Blocked> {
        let state = self.state.read();
        let found = state.volume(volume)?;
        let (blocks, end) = (VolumeState::blocks(found.geometry), first.saturating_add(count));
        if end > blocks {
            return Err(Error::OutOfRange { extent: Extent::new(first, count), blocks }.into());
        }
        let (mut what, mut batch) = (Vec::with_capacity(count as usize), found.changed);
        state.maps.scan(found.tree, first, end, &mut |seen| match seen {
            Seen::Hole(_, count) => what.extend(std::iter::repeat_n(Stored::Zeros, count as usize)),
            Seen::Blocks(entries) => {
                what.extend(entries.iter().map(|entry| match state.maps.resolve(*entry).kind() {
                    Kind::Unmapped | Kind::Zero => Stored::Zeros,
                    Kind::Block(block) if block != BlockId::LOST => Stored::Block(block.bits()),
                    Kind::Block(_) => Stored::Unknown,
                    Kind::Slot(slot) => {
                        batch = batch.max(slot.batch);
                        Stored::Unknown
                    }
                }))
            }
        })?;
        Ok(Observed { what, batch, marked: false })
    }
}
