//! Taps: observers of every change of some volumes where it joins the journal, in the order of the journal.
//!
//! Synchronous replication needs that order and that place: a layer above the volumes would miss the targets of
//! copies, restores and changes of size. A tap is called under the lock that orders changes, so it only takes notes.
//! What it returns delays the acknowledgement. [`Engine::apply`](crate::Engine::apply) makes the same changes on
//! another engine.

use crate::entry::BLOCK;
use crate::record::Mutation;
use block::{DiskId, Result};
use bytes::Bytes;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

/// A part of a change of a volume. Blocks are of 4 KiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Blocks get these bytes, a whole number of blocks.
    Data {
        /// The first block.
        block: u64,
        /// Their bytes.
        data: Bytes,
    },
    /// Blocks get the same bytes each.
    Same {
        /// The first block.
        block: u64,
        /// How many.
        count: u64,
        /// The bytes of one block.
        data: Bytes,
    },
    /// Blocks become zeros, mapped or not.
    Hole {
        /// The first block.
        block: u64,
        /// How many.
        count: u64,
        /// They stay mapped.
        mapped: bool,
    },
    /// Blocks get content that is not part of the change, such as that of a copy: it is to be read.
    Copied {
        /// The first block.
        block: u64,
        /// How many.
        count: u64,
    },
    /// The volume has another size, in logical blocks.
    Resized {
        /// The size.
        blocks: u64,
    },
    /// The volume has the content of another one, or has gone.
    Replaced,
    /// A clone or a snapshot has the content of the volume at this moment.
    Cloned {
        /// Its identity.
        id: DiskId,
    },
}

/// A change of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tapped {
    /// The volume.
    pub volume: DiskId,
    /// What changes.
    pub part: Part,
}

/// Condition of an acknowledgement besides its own journal.
pub type Hold = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Observer of the changes of a volume. It is called under locks: it must not wait, nor call the engine.
pub trait Tap: Send + Sync {
    /// Whether a change can be made now. It is not made after an error.
    ///
    /// # Errors
    /// What the operation fails with.
    fn admit(&self) -> Result<()>;

    /// A change was made, of which these parts are in volumes of the tap; all of them take effect at one moment. Without a part a
    /// write found what it was to write: its acknowledgement says that this is there, and waits for earlier changes.
    fn changed(&self, parts: Vec<Tapped>) -> Option<Hold>;
}

/// Taps by the numbers of volumes.
pub type Taps = BTreeMap<u32, Arc<dyn Tap>>;

/// The taps of a change with what each is to see.
pub type Seen = SmallVec<[(Arc<dyn Tap>, Vec<Tapped>); 1]>;

impl Part {
    /// True if content or size of the volume change.
    fn is_change(&self) -> bool {
        !matches!(self, Part::Cloned { .. })
    }
}

/// The parts of a change with these pages, by the tap that sees them; each tap admits it. `identity`: of a volume by its number.
pub fn seen(
    taps: &Taps,
    mutations: &[Mutation],
    pages: &Bytes,
    identity: impl Fn(u32) -> Result<DiskId>,
) -> Result<Seen> {
    let mut seen = Seen::new();
    for mutation in mutations {
        let Some((volume, part)) = part(mutation, pages) else { continue };
        let Some(tap) = taps.get(&volume) else { continue };
        if part.is_change() {
            tap.admit()?;
        }
        let tapped = Tapped { volume: identity(volume)?, part };
        match seen.iter_mut().find(|(known, _)| Arc::ptr_eq(known, tap)) {
            Some((_, parts)) => parts.push(tapped),
            None => seen.push((tap.clone(), vec![tapped])),
        }
    }
    Ok(seen)
}

/// What a mutation changes in a volume, before its pages have slots.
fn part(mutation: &Mutation, pages: &Bytes) -> Option<(u32, Part)> {
    let bytes = |page: u16, count: usize| {
        let from = usize::from(page) * BLOCK;
        pages.slice(from..from + count * BLOCK)
    };
    Some(match *mutation {
        Mutation::Slots { volume, block, count, first } => {
            (volume, Part::Data { block, data: bytes(first.page, count as usize) })
        }
        Mutation::Same { volume, block, count, slot } => {
            (volume, Part::Same { block, count, data: bytes(slot.page, 1) })
        }
        Mutation::Hole { volume, block, count, mapped } => (volume, Part::Hole { block, count, mapped }),
        Mutation::Copy { target, to, count, .. } => (target, Part::Copied { block: to, count }),
        Mutation::Resize { volume, blocks } => (volume, Part::Resized { blocks }),
        Mutation::Restore { volume, .. } | Mutation::Delete { volume } => (volume, Part::Replaced),
        Mutation::Clone { source, id, .. } => (source, Part::Cloned { id }),
        _ => return None,
    })
}
