//! Staged copies: lists of unaligned copies that are too much data for one change. They are prepared step by step on
//! hidden clones, and take effect in one change if what they read is still what it was when the clones were made;
//! else they are prepared again. Clones that an abort or a crash leaves are deleted by the background.

use crate::change::{Change, Cover, Unchanged};
use crate::copy::{Copy, alike, are_apart, perform, piece, together};
use crate::core::Core;
use crate::handle::Handle;
use crate::hidden::FIRST_HIDDEN;
use crate::record::{Mutation, Record};
use crate::span::Parts;
use block::{DiskId, Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Identities of hidden clones, given back when this is dropped.
pub struct CloneIds {
    core: Arc<Core>,
    ids: Vec<DiskId>,
}

impl CloneIds {
    pub fn take(core: &Arc<Core>, count: usize) -> Self {
        let state = core.state.read();
        let ids = core.hidden.take(count, |id| state.catalog.number(id).is_some());
        Self { core: core.clone(), ids }
    }

    /// The identities that were taken.
    pub fn ids(&self) -> &[DiskId] {
        &self.ids
    }
}

impl Drop for CloneIds {
    fn drop(&mut self) {
        self.core.hidden.release(&self.ids);
        self.core.signal.notify();
    }
}

/// The clones that stand for a volume while a list is prepared, by number.
#[derive(Clone, Copy)]
struct Clones {
    /// The volume as it was.
    before: u32,
    /// The volume as it will be; the same clone if the list does not write to it.
    after: u32,
}

/// A list that is being prepared.
struct StagedCopy {
    clones: BTreeMap<u32, Clones>,
    _ids: CloneIds,
}

/// Performs a list in which some segment is not aligned. Segments with the same offset in their blocks that do not
/// meet share their whole blocks; the data of others is moved, by one change if it is not too much. `addressed` is
/// the volume that got the command, `covers` are the ranges that volumes must have when the list takes effect.
pub async fn copy_edges(addressed: Handle, copies: Vec<Copy>, covers: Vec<Cover>) -> Result {
    if copies.iter().all(Copy::is_alike) && are_apart(&copies) {
        return alike(&addressed, &copies, &covers).await;
    }
    if copies.iter().map(|copy| copy.to.len()).sum::<u64>() <= piece(&copies[0]) {
        return together(&addressed, &copies, &covers).await;
    }
    copy_staged(&addressed, &copies, &covers).await
}

/// Performs the segments one after the other, all of them at one moment.
async fn copy_staged(addressed: &Handle, copies: &[Copy], covers: &[Cover]) -> Result {
    for _ in 0..addressed.core.options.tunables.copy_attempts {
        let staged = StagedCopy::begin(&addressed.core, copies).await?;
        let preparing = addressed.without_note();
        for copy in copies {
            perform(&preparing, &staged.shifted_to_clones(copy)).await?;
        }
        if let Some(reply) = addressed.attempt(staged.change(copies, covers)).await? {
            return Ok(reply);
        }
    }
    Err(Error::NotReady)
}

impl StagedCopy {
    /// Makes the clones, all at one moment.
    async fn begin(core: &Arc<Core>, copies: &[Copy]) -> Result<Self> {
        let mut written: BTreeMap<u32, bool> = BTreeMap::new();
        for copy in copies {
            written.entry(copy.source.number).or_default();
            *written.entry(copy.target.number).or_default() = true;
        }
        let count = written.values().map(|written| 1 + usize::from(*written)).sum();
        let ids = CloneIds::take(core, count);
        loop {
            let first = core.state.read().catalog.next;
            let mut new = (first..).zip(&ids.ids);
            let mut mutations = Record::new();
            let mut clone = |source| {
                let (volume, id) = new.next().expect("there is a name for each clone");
                let (snapshot, created, kept_until) = (false, 0, 0);
                mutations.push(Mutation::Clone { volume, id: *id, source, created, snapshot, kept_until });
                volume
            };
            let both = |(&volume, &written): (&u32, &bool)| {
                let before = clone(volume);
                (volume, Clones { before, after: if written { clone(volume) } else { before } })
            };
            let clones = written.iter().map(both).collect();
            match core.make_when_possible(&Change { mutations, ..Change::default() }).await {
                Ok(Some(_)) => return Ok(Self { clones, _ids: ids }),
                Ok(None) => {}
                // Another volume that began at the same time took the number.
                Err(_) if core.state.read().catalog.next != first => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The same segment between the clones.
    fn shifted_to_clones(&self, copy: &Copy) -> Copy {
        let after = |of: &Handle| Handle { number: self.clones[&of.number].after, ..of.clone() };
        Copy { source: after(&copy.source), from: copy.from, target: after(&copy.target), to: copy.to }
    }

    /// The change that puts the result in force and deletes the clones. Blocks that the list covers in part are taken
    /// from the clones whole, so they are expected to be what they were, like everything that the list reads.
    fn change(&self, copies: &[Copy], covers: &[Cover]) -> Change {
        let mut change = Change { covers: covers.into(), ..Change::default() };
        for copy in copies {
            let (source, target) = (copy.source.number, copy.target.number);
            let expect = |volume: u32, block, count| Unchanged {
                before: self.clones[&volume].before,
                volume,
                block,
                count,
            };
            let (block, count) = copy.from.blocks();
            change.unchanged.push(expect(source, block, count));
            let Parts { edges, .. } = copy.to.parts();
            change.unchanged.extend(edges.iter().map(|(block, _)| expect(target, *block, 1)));
            let (to, count) = copy.to.blocks();
            change.mutations.push(Mutation::Copy {
                source: self.clones[&target].after,
                from: to,
                target,
                to,
                count,
            });
        }
        let ended = self.clones.values().flat_map(|clones| [clones.before, clones.after]);
        let ended: BTreeSet<u32> = ended.collect();
        change.mutations.extend(ended.into_iter().map(|volume| Mutation::Delete { volume }));
        change
    }
}

impl Core {
    /// Deletes hidden clones that no operation uses; false if there were none, or there was no room in the journal.
    pub fn delete_abandoned_clones(&self) -> bool {
        let abandoned = {
            let state = self.state.read();
            self.hidden.abandoned(state.catalog.from(FIRST_HIDDEN))
        };
        let delete = |volume| self.make(&Change::of(Mutation::Delete { volume }), true).is_ok();
        // All of them are tried, whatever becomes of one.
        abandoned.into_iter().filter(|volume| delete(*volume)).count() > 0
    }
}
