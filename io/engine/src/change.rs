//! A change that has been prepared outside the locks: actions, the pages they put in the journal, and what must
//! still be true when they take effect.

use crate::entry::{BLOCK, Entry, SlotId};
use crate::frame::{self, BLOCK_MAX_LOG_BYTES};
use crate::journal::Staged;
use crate::policy::Compression;
use crate::record::{Mutation, Record};
use crate::span::Span;
use bytes::Bytes;
use smallvec::SmallVec;

/// Blocks that a volume's change was prepared from, with the entries they had.
pub type Expected = SmallVec<[(u32, u64, Entry); 2]>;

/// Blocks of a volume that must be what they are on a clone of it.
#[derive(Clone, Copy, Debug)]
pub struct Unchanged {
    /// The clone.
    pub before: u32,
    /// The volume.
    pub volume: u32,
    pub block: u64,
    pub count: u64,
}

/// Bytes that an operation reads or writes. Its volume may have been made smaller, or restored to less, since the
/// operation began; actions tell whole blocks of 4 KiB alone, and an end may lie within one.
#[derive(Clone, Copy, Debug)]
pub struct Cover {
    pub volume: u32,
    pub span: Span,
    /// They are written: the volume must take changes.
    pub written: bool,
}

/// A change of any number of volumes that takes effect whole or not at all.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// What to do. Slots name pages of `pages`: their `page`-th, in batch zero.
    pub mutations: Record,
    /// Whole blocks for the journal, on a 4096-byte border of memory.
    pub pages: Bytes,
    /// What must not have changed.
    pub expected: Expected,
    /// The volume that was asked for it, which must be there even where no action names it.
    pub addressed: Option<u32>,
    /// Logical blocks that the volume asked must have, no fewer and no more.
    pub size: Option<u64>,
    /// What volumes must have at least.
    pub covers: SmallVec<[Cover; 1]>,
    /// More that must not have changed, where it is much.
    pub unchanged: Vec<Unchanged>,
    /// The time, where the change might end something that is kept.
    pub now: u64,
    /// What the pages take in the log at most, when they have been compressed to know; only a full log asks.
    pub packed: Option<u64>,
}

/// A change that has been made.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// It is durable when this batch is.
    pub batch: u64,
    /// Progress of the flusher that its acknowledgement waits for; zero when it need not.
    pub credit: u64,
}

/// The most pages of a change.
pub const MAX_CHANGE_PAGES: usize = 1 << 16;

impl Change {
    /// A change of one action without data.
    pub fn of(mutation: Mutation) -> Self {
        Self { mutations: [mutation].into_iter().collect(), ..Self::default() }
    }

    /// The change, made at this time.
    pub fn at(self, now: u64) -> Self {
        Self { now, ..self }
    }

    /// What the pages take in the log when each is compressed alone.
    pub fn measure(&self, how: Compression) -> u64 {
        let overhead = BLOCK_MAX_LOG_BYTES - BLOCK as u64;
        let packed = |page: &[u8]| frame::compressed_len(page, how) as u64 + overhead;
        self.pages.chunks(BLOCK).map(packed).sum()
    }

    /// Number of pages.
    pub fn page_count(&self) -> usize {
        self.pages.len() / BLOCK
    }

    /// The actions with the slots that the pages got. A run of pages may have been split over several batches.
    pub fn placed(&self, staged: &[Staged]) -> Record {
        let mut placed = Record::new();
        for mutation in &self.mutations {
            match mutation {
                Mutation::Slots { volume, block, count, first } => {
                    let (from, to) = (usize::from(first.page), usize::from(first.page) + *count as usize);
                    for run in staged.iter().filter(|run| run.page < to && run.page + run.count > from) {
                        let (start, end) = (run.page.max(from), (run.page + run.count).min(to));
                        placed.push(Mutation::Slots {
                            volume: *volume,
                            block: block + (start - from) as u64,
                            count: (end - start) as u32,
                            first: run.slot.offset(start - run.page),
                        });
                    }
                }
                Mutation::Same { volume, block, count, slot } => {
                    let slot = slot_of(staged, usize::from(slot.page));
                    placed.push(Mutation::Same { volume: *volume, block: *block, count: *count, slot });
                }
                mutation => placed.push(mutation.clone()),
            }
        }
        placed
    }
}

fn slot_of(staged: &[Staged], page: usize) -> SlotId {
    let run = staged.iter().find(|run| (run.page..run.page + run.count).contains(&page));
    let run = run.expect("every page was staged");
    run.slot.offset(page - run.page)
}
