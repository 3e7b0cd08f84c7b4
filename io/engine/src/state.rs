//! State: everything that an operation changes, under one lock that is held for the change alone, never across a
//! device operation, hashing or compression. Hosts' operations and recovery use the same [`State::apply`].

use crate::catalog::{Catalog, MAX_BYTES, MAX_VOLUMES, Provenance, VolumeState};
use crate::cell::Contents;
use crate::entry::{BLOCK, Entry, SlotId};
use crate::map::{Maps, Need, Tree};
use crate::record::{self, Mutation};
use crate::slots::{Slot, SlotRuns};
use crate::tap::Taps;
use block::{DiskId, Error, Extent, NotedCommands};

/// Volumes and their maps.
#[derive(Default)]
pub struct State {
    /// Volumes and records.
    pub catalog: Catalog,
    /// The maps and all that they refer to.
    pub maps: Maps,
    /// Commands of front ends that took effect.
    pub done: NotedCommands,
    /// The journal batch in which one was noted last. Not on media.
    pub done_batch: u64,
    /// What sees the changes of volumes. Not on media.
    pub taps: Taps,
}

/// Why a change was not made now.
#[derive(Debug)]
pub enum Refusal {
    /// A page has to be read before.
    Need(Need),
    /// A block has changed since the change was prepared.
    Changed,
    /// The background has to make room in the journal or in memory first.
    Backpressure,
    /// It fails.
    Error(Error),
}

impl From<Need> for Refusal {
    fn from(need: Need) -> Self {
        Refusal::Need(need)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Error(error)
    }
}

impl State {
    /// The volume with this number.
    pub fn volume(&self, number: u32) -> Result<&VolumeState, Error> {
        self.catalog.volumes.get(&number).ok_or(Error::Deleted)
    }

    fn tree(&self, number: u32) -> Tree {
        self.volume(number).expect("the operation was checked").tree
    }

    fn edit(&mut self, number: u32) -> &mut VolumeState {
        self.catalog.volumes.get_mut(&number).expect("the operation was checked")
    }

    fn set_tree(&mut self, number: u32, tree: Tree, batch: Option<u64>) {
        let volume = self.edit(number);
        volume.changed = batch.unwrap_or(volume.changed);
        if volume.tree != tree {
            volume.tree = tree;
            self.catalog.dirty = true;
        }
    }

    /// The map entry of a block of 4 KiB.
    pub fn entry(&self, volume: u32, block: u64) -> Result<Entry, Refusal> {
        let tree = Self::check(self.volume(volume)?, block, 1)?;
        Ok(self.maps.get(tree, block)?)
    }

    /// The volume with this number, if it takes changes.
    pub fn writable(&self, number: u32) -> Result<&VolumeState, Error> {
        self.volume(number)
            .and_then(|volume| if volume.read_only { Err(Error::ReadOnly) } else { Ok(volume) })
    }

    /// Fails if a mutation would break a retention lock that ends after `now`.
    pub fn check_kept(&self, mutations: &[Mutation], now: u64) -> Result<(), Error> {
        mutations.iter().try_for_each(|mutation| {
            let (volume, until) = match *mutation {
                Mutation::Delete { volume } | Mutation::Access { volume, read_only: false } => (volume, 0),
                Mutation::Keep { volume, until } => (volume, until),
                _ => return Ok(()),
            };
            match self.volume(volume)?.kept_until {
                kept if kept > now && kept > until => Err(Error::RetentionLocked { until: kept }),
                _ => Ok(()),
            }
        })
    }

    /// The map of a volume, if it has these blocks: it may have been shrunk, or restored to a smaller size, since the
    /// operation began.
    pub fn check(volume: &VolumeState, block: u64, count: u64) -> Result<Tree, Error> {
        match block.checked_add(count) {
            Some(end) if end <= VolumeState::blocks(volume.geometry) => Ok(volume.tree),
            _ => {
                let each = BLOCK as u64 / u64::from(volume.geometry.block_bytes);
                let extent = Extent::new(block.saturating_mul(each), count.saturating_mul(each));
                Err(Error::OutOfRange { extent, blocks: volume.geometry.blocks })
            }
        }
    }

    /// Fails unless all mutations can be applied one after the other without reading a page.
    pub fn probe(&self, mutations: &[Mutation]) -> Result<(), Refusal> {
        // A copy that follows another may look into pages that the other shared: then these must be in memory too.
        let alone = mutations.iter().filter(|mutation| matches!(mutation, Mutation::Copy { .. })).count() < 2;
        record::steps(mutations).try_for_each(|step| self.probe_step(step, alone, mutations))
    }

    fn probe_step(&self, step: &[Mutation], alone: bool, all: &[Mutation]) -> Result<(), Refusal> {
        let change = |volume, block, count| -> Result<(), Refusal> {
            let tree = Self::check(self.writable(volume)?, block, count)?;
            self.maps.probe_change(tree, block, block + count)?;
            Ok(())
        };
        match step[0] {
            Mutation::Slots { volume, block, .. } => {
                let counts = step.iter().filter_map(Mutation::target).map(|(_, _, count)| count);
                change(volume, block, counts.sum())?;
            }
            Mutation::Same { volume, block, count, .. } => change(volume, block, count)?,
            Mutation::Hole { volume, block, count, .. } => change(volume, block, count)?,
            Mutation::Copy { source, from, target, to, count } => {
                let tree = Self::check(self.volume(source)?, from, count)?;
                let share = alone.then(|| Maps::shareable(from, to)).flatten();
                if count > 0 {
                    self.maps.probe_copy(tree, from, from + count, share)?;
                }
                change(target, to, count)?;
            }
            Mutation::Create { id, volume, geometry, .. } => {
                let fine = matches!(geometry.block_bytes, 512 | 4096)
                    && geometry.blocks <= MAX_BYTES / u64::from(geometry.block_bytes);
                if !fine {
                    return Err(
                        Error::Malformed("a volume has 512 or 4096 byte blocks and at most 64 PiB").into()
                    );
                }
                self.is_new(volume, id)?;
            }
            Mutation::Clone { id, volume, source, .. } => {
                self.volume(source)?;
                self.is_new(volume, id)?;
            }
            Mutation::Restore { volume, source } => {
                // One step makes it writable as well: no content but the new one ever takes changes.
                let unlocks = all.contains(&Mutation::Access { volume, read_only: false });
                let volume = if unlocks { self.volume(volume)? } else { self.writable(volume)? };
                let from = self.volume(source)?;
                if volume.geometry.block_bytes != from.geometry.block_bytes {
                    return Err(Error::Malformed("restore between different block lengths").into());
                }
            }
            Mutation::Keep { volume, until } => {
                if until > 0 && !self.volume(volume)?.read_only {
                    return Err(Error::Malformed("only a read-only volume can have a retention lock").into());
                }
            }
            Mutation::Resize { volume, blocks } => {
                let volume = self.writable(volume)?;
                if blocks > MAX_BYTES / u64::from(volume.geometry.block_bytes) {
                    return Err(Error::Malformed("a volume has at most 64 PiB").into());
                }
                let end = VolumeState::blocks(volume.geometry);
                let new = block::Geometry { blocks, ..volume.geometry };
                let kept = VolumeState::blocks(new).min(end);
                if kept < end {
                    self.maps.probe_change(volume.tree, kept, end)?;
                }
            }
            Mutation::Delete { volume }
            | Mutation::SaveState { volume, .. }
            | Mutation::SetPolicy { volume, .. }
            | Mutation::Access { volume, .. } => {
                self.volume(volume)?;
            }
            Mutation::PutRecord { .. } | Mutation::Note(_) | Mutation::Forget { .. } => {}
        }
        Ok(())
    }

    fn is_new(&self, number: u32, id: DiskId) -> Result<(), Error> {
        let taken = self.catalog.number(id).is_some();
        let taken = taken || number < self.catalog.next || number >= MAX_VOLUMES;
        if taken { Err(Error::Malformed("the volume exists")) } else { Ok(()) }
    }

    /// Applies mutations of batch `batch` that have been probed, in order. `page` returns the bytes of the slots that
    /// they name.
    pub fn apply(&mut self, mutations: &[Mutation], batch: u64, page: &dyn Fn(SlotId) -> Contents) {
        for step in record::steps(mutations) {
            match &step[0] {
                Mutation::Slots { volume, block, .. } => self.apply_slots(*volume, *block, step, batch, page),
                mutation => self.apply_one(mutation, batch, page),
            }
        }
    }

    /// Points blocks from `block` on to the slots of a step.
    fn apply_slots(
        &mut self,
        volume: u32,
        block: u64,
        step: &[Mutation],
        batch: u64,
        page: &dyn Fn(SlotId) -> Contents,
    ) {
        let mut runs = SlotRuns::default();
        for mutation in step {
            let Mutation::Slots { block, count, first, .. } = mutation else { continue };
            for n in 0..u64::from(*count) {
                let id = first.offset(n as usize);
                let slot = Slot { contents: page(id), holders: 1, flushed: None, volume, block: block + n };
                self.maps.slots.add(id, slot);
            }
            runs.push(*first, u64::from(*count));
        }
        let mut tree = self.tree(volume);
        self.maps.set_slots(&mut tree, block, &runs);
        self.set_tree(volume, tree, runs.get(0).and_then(|first| beyond(first, batch)));
    }

    fn apply_one(&mut self, mutation: &Mutation, batch: u64, page: &dyn Fn(SlotId) -> Contents) {
        match mutation {
            Mutation::Same { volume, block, count, slot } => {
                let (volume, block, count, id) = (*volume, *block, *count, *slot);
                if count > 0 {
                    // The one holder stands for this function, until the maps hold the slot.
                    let slot = Slot { contents: page(id), holders: 1, flushed: None, volume, block };
                    self.maps.slots.add(id, slot);
                    let mut tree = self.tree(volume);
                    self.maps.set_same(&mut tree, block, block + count, id);
                    self.maps.slots.release(id);
                    self.set_tree(volume, tree, beyond(id, batch));
                }
            }
            Mutation::Hole { volume, block, count, mapped } => {
                let hole = if *mapped { Entry::ZERO } else { Entry::UNMAPPED };
                let mut tree = self.tree(*volume);
                self.maps.set_hole(&mut tree, *block, block + count, hole);
                self.set_tree(*volume, tree, Some(batch));
            }
            Mutation::Copy { source, from, target, to, count } => {
                let mut tree = self.tree(*target);
                self.maps.copy(self.tree(*source), *from, &mut tree, *to, *count);
                // What was copied may itself be on its way to the journal, in this or an earlier batch.
                self.set_tree(*target, tree, Some(batch));
            }
            Mutation::Note(note) => {
                self.done.note(*note);
                self.done_batch = batch;
            }
            Mutation::Forget { front } => {
                self.done.forget(*front);
                self.done_batch = batch;
            }
            _ => self.apply_to_catalog(mutation, batch),
        }
    }

    fn apply_to_catalog(&mut self, mutation: &Mutation, batch: u64) {
        self.catalog.dirty = true;
        if matches!(mutation, Mutation::PutRecord { .. }) {
            self.catalog.records_batch = batch;
        }
        if !matches!(
            mutation,
            Mutation::SaveState { .. } | Mutation::SetPolicy { .. } | Mutation::PutRecord { .. }
        ) {
            self.catalog.catalog_batch = batch;
        }
        match mutation {
            Mutation::Create { volume, id, geometry, created } => {
                let new = VolumeState { changed: batch, ..VolumeState::new(*id, *geometry, *created) };
                self.catalog.add(*volume, new);
            }
            Mutation::Clone { volume, id, source, created, snapshot, kept_until } => {
                let source = self.volume(*source).expect("the operation was checked");
                let provenance = Provenance {
                    created: *created,
                    from: Some((source.id, source.provenance.from.map_or(source.id, |(_, origin)| origin))),
                    snapshot: *snapshot,
                };
                let clone = source.cloned(*id, provenance, *kept_until, batch);
                self.maps.share_tree(clone.tree.root);
                self.catalog.add(*volume, clone);
            }
            Mutation::Restore { volume, source } => {
                let source = self.volume(*source).expect("the operation was checked");
                let (tree, geometry) = (source.tree, source.geometry);
                self.maps.share_tree(tree.root);
                self.maps.drop_tree(self.tree(*volume).root);
                self.edit(*volume).geometry = geometry;
                self.set_tree(*volume, tree, Some(batch));
            }
            Mutation::Access { volume, read_only } => {
                let volume = self.edit(*volume);
                (volume.read_only, volume.changed) = (*read_only, batch);
                if !volume.read_only {
                    // The retention lock had ended, or this would have been refused.
                    volume.kept_until = 0;
                }
            }
            Mutation::Keep { volume, until } => self.edit(*volume).kept_until = *until,
            Mutation::Resize { volume, blocks } => {
                let state = self.edit(*volume);
                let (old, mut tree) = (VolumeState::blocks(state.geometry), state.tree);
                state.geometry.blocks = *blocks;
                let new = VolumeState::blocks(state.geometry);
                self.maps.grow_height(&mut tree, new);
                if new < old {
                    self.maps.set_hole(&mut tree, new, old, Entry::UNMAPPED);
                }
                self.set_tree(*volume, tree, Some(batch));
            }
            Mutation::Delete { volume } => {
                self.taps.remove(volume);
                if let Some(state) = self.catalog.remove(*volume) {
                    self.maps.drop_tree(state.tree.root);
                }
            }
            Mutation::SaveState { volume, state } => {
                self.catalog.save(*volume, state.clone());
            }
            Mutation::SetPolicy { volume, policy } => {
                self.edit(*volume).policy = *policy;
            }
            Mutation::PutRecord { key, value } => {
                self.catalog.put_record(key, value.clone());
            }
            _ => unreachable!("no change of the catalog"),
        }
    }
}

/// The batch that has to be durable before a slot is read, if it is not the slot's own: the pages of a large change
/// are in several batches, and its record, without which none of them counts, is in the last.
fn beyond(slot: SlotId, batch: u64) -> Option<u64> {
    (slot.batch < batch).then_some(batch)
}
