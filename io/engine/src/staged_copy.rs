//! Lists of copies that are too much for one change: they are prepared on clones that nobody sees, step by step, and
//! take effect in one change, if what they read is still what it was when the clones were made; else all over again.
//! Clones that are left behind, by an abort or a crash, are ended in the background.

use crate::background::Worker;
use crate::change::{Change, Unchanged};
use crate::copy::{Copy, perform};
use crate::core::Core;
use crate::record::{Mutation, Record};
use crate::unaligned::Parts;
use crate::volume::Handle;
use block::{DiskId, Error, Result};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Identities from here on are of clones that live as long as one operation: nobody else gets one of them.
const HIDDEN: u128 = !(u32::MAX as u128);

/// How often a list is prepared while others change what it reads.
const MAX_ATTEMPTS: usize = 16;

/// Whether the identity is of a clone that only the engine sees.
pub fn is_hidden(id: DiskId) -> bool {
    id.0 >= HIDDEN
}

/// The hidden clones that somebody works on.
#[derive(Default)]
pub struct Stages(Mutex<Live>);

#[derive(Default)]
struct Live {
    ids: BTreeSet<DiskId>,
    last: u32,
}

/// Identities of hidden clones, until this is dropped.
struct Names {
    core: Arc<Core>,
    ids: Vec<DiskId>,
}

impl Names {
    fn new(core: &Arc<Core>, count: usize) -> Self {
        let state = core.state.read();
        let live = &mut *core.stages.0.lock();
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            live.last = live.last.wrapping_add(1);
            let id = DiskId(HIDDEN | u128::from(live.last));
            if state.catalog.number(id).is_none() && live.ids.insert(id) {
                ids.push(id);
            }
        }
        Self { core: core.clone(), ids }
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        let mut live = self.core.stages.0.lock();
        live.ids.retain(|id| !self.ids.contains(id));
        drop(live);
        self.core.signal.notify();
    }
}

/// What stands for a volume while a list is prepared, by number.
#[derive(Clone, Copy)]
struct Clones {
    /// The volume as it was.
    before: u32,
    /// The volume as it will be; the same where the list does not write to it.
    after: u32,
}

/// A list that is being prepared.
struct Stage {
    clones: BTreeMap<u32, Clones>,
    _names: Names,
}

/// Performs the segments one after the other, all of them at one moment.
pub async fn copy(addressed: &Handle, copies: &[Copy]) -> Result {
    for _ in 0..MAX_ATTEMPTS {
        let stage = Stage::begin(&addressed.core, copies).await?;
        for copy in copies {
            perform(addressed, &stage.shifted_to_clones(copy)).await?;
        }
        if let Some(reply) = addressed.attempt(stage.change(copies)).await? {
            return Ok(reply);
        }
    }
    Err(Error::NotReady)
}

impl Stage {
    /// Makes the clones, all at one moment.
    async fn begin(core: &Arc<Core>, copies: &[Copy]) -> Result<Self> {
        let mut written: BTreeMap<u32, bool> = BTreeMap::new();
        for copy in copies {
            written.entry(copy.source.number).or_default();
            *written.entry(copy.target.number).or_default() = true;
        }
        let count = written.values().map(|written| 1 + usize::from(*written)).sum();
        let names = Names::new(core, count);
        loop {
            let first = core.state.read().catalog.next;
            let mut new = (first..).zip(&names.ids);
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
                Ok(Some(_)) => return Ok(Self { clones, _names: names }),
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

    /// What puts the result in force and ends the clones. Blocks that the list covers in part are taken from the
    /// clones whole, so they are expected to be what they were, like everything that the list reads.
    fn change(&self, copies: &[Copy]) -> Change {
        let mut change = Change::default();
        for copy in copies {
            change.covers.extend(copy.covers());
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

impl Worker {
    /// Ends hidden clones that nobody works on any more; false when there were none, or no room to say so.
    pub fn end_abandoned(&self) -> bool {
        let abandoned: Vec<u32> = {
            let state = self.core.state.read();
            let live = self.core.stages.0.lock();
            let hidden = state.catalog.from(DiskId(HIDDEN));
            hidden.filter(|(id, _)| !live.ids.contains(id)).map(|(_, number)| number).collect()
        };
        let end = |volume| self.core.make(&Change::of(Mutation::Delete { volume }), true).is_ok();
        // All of them are tried, whatever becomes of one.
        abandoned.into_iter().filter(|volume| end(*volume)).count() > 0
    }
}
