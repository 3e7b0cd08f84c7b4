//! Changes: what an operation wants to do, prepared outside the locks. A change has mutations, the pages that they
//! put in the journal, and conditions that must still hold when it is made.

use crate::batch::made;
use crate::cell::{Contents, Lz4};
use crate::entry::{BLOCK, Entry, SlotId};
use crate::frame::{self, BLOCK_MAX_LOG_BYTES};
use crate::journal::Staged;
use crate::policy::Compression;
use crate::record::{Mutation, Record};
use crate::span::Span;
use crate::tap::Hold;
use bytes::Bytes;
use smallvec::SmallVec;

/// Blocks that a change was prepared from: volume, block, and the entry it had.
pub type Expected = SmallVec<[(u32, u64, Entry); 2]>;

/// Blocks of a volume that must still be what they are on a clone of it.
#[derive(Clone, Copy, Debug)]
pub struct Unchanged {
    /// The clone.
    pub before: u32,
    /// The volume.
    pub volume: u32,
    pub block: u64,
    pub count: u64,
}

/// A byte range that an operation reads or writes. Its volume may have been shrunk, or restored to a smaller size,
/// since the operation began; mutations name whole 4 KiB blocks alone, but a range may end within one.
#[derive(Clone, Copy, Debug)]
pub struct Cover {
    pub volume: u32,
    pub span: Span,
    /// It is written: the volume must take changes.
    pub written: bool,
}

/// A change of any number of volumes that takes effect whole or not at all.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The mutations. A slot names a page of `pages` by its index, in batch zero.
    pub mutations: Record,
    /// Whole blocks for the journal, aligned to 4096 bytes in memory.
    pub pages: Bytes,
    /// What LZ4 made of the pages, in order; empty if it was not tried.
    pub lz4: Vec<Lz4>,
    /// Blocks that must not have changed.
    pub expected: Expected,
    /// The volume that the operation was addressed to. It must exist even if no mutation names it.
    pub addressed: Option<u32>,
    /// The exact size in logical blocks that this volume must have.
    pub size: Option<u64>,
    /// Ranges that volumes must have.
    pub covers: SmallVec<[Cover; 1]>,
    /// Longer runs of blocks that must not have changed.
    pub unchanged: Vec<Unchanged>,
    /// The current time, for changes that a retention lock may forbid.
    pub now: u64,
    /// The most that the pages take in the log, if they were compressed to find out; only a full log asks.
    pub packed: Option<u64>,
}

/// A change that has been made.
pub struct Made {
    /// It is durable as soon as this batch is.
    pub batch: u64,
    /// Credit that its acknowledgement waits for; zero if it need not wait.
    pub credit: u64,
    /// What its acknowledgement waits for as well.
    pub holds: SmallVec<[Hold; 1]>,
}

/// Pages of a change at most.
pub const MAX_CHANGE_PAGES: usize = 1 << 16;

impl Change {
    /// A change of one mutation without data.
    pub fn of(mutation: Mutation) -> Self {
        Self { mutations: [mutation].into_iter().collect(), ..Self::default() }
    }

    /// The change, made at this time.
    pub fn at(self, now: u64) -> Self {
        Self { now, ..self }
    }

    /// Space of the pages in the log when each is compressed alone.
    pub fn measure(&self, how: Compression) -> u64 {
        let overhead = BLOCK_MAX_LOG_BYTES - BLOCK as u64;
        let packed = |(n, page)| match made(&self.lz4, n) {
            Lz4::Untried => frame::compressed_len(page, how),
            Lz4::Useless => BLOCK,
            Lz4::Cell(cell) => cell.len(),
        };
        self.pages.chunks(BLOCK).enumerate().map(|one| packed(one) as u64 + overhead).sum()
    }

    /// Memory that the pages take while they wait.
    pub fn bytes(&self) -> usize {
        self.pages.len() + self.lz4.iter().map(Lz4::len).sum::<usize>()
    }

    /// The page that got a slot.
    pub fn contents(&self, staged: &[Staged], slot: SlotId) -> Contents {
        let run = staged.iter().find(|run| {
            run.slot.batch == slot.batch
                && (usize::from(run.slot.page)..usize::from(run.slot.page) + run.count)
                    .contains(&slot.page.into())
        });
        let run = run.expect("every slot was staged");
        let page = run.page + usize::from(slot.page - run.slot.page);
        Contents {
            page: self.pages.slice(page * BLOCK..(page + 1) * BLOCK),
            lz4: made(&self.lz4, page).clone(),
        }
    }

    /// Number of pages.
    pub fn page_count(&self) -> usize {
        self.pages.len() / BLOCK
    }

    /// The mutations with the slots that the pages got. A run of pages may have been split over several batches.
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
