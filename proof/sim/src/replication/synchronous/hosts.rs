//! Host operations of the world `synchronous`, and their possible results.

use super::{BLOCK_BYTES, SIZE, Version, World};
use crate::machine::Outcome;
use crate::replication::Check;
use block::{CopySegment, Data, Disk, DiskId, Extent, Geometry, Op};
use bytes::Bytes;
use engine::Engine;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of possible values of a block while writes are refused: a host refused that often waits until it is
/// served again.
///
/// All values remain possible until a write of the block is acknowledged, and a copy has all possible values of its
/// source.
const MAX_REFUSED_VALUES: usize = 64;

/// An operation of a host.
pub(super) struct HostOp {
    pub(super) number: u64,
    pub(super) begun: u64,
    pub(super) writes: Vec<(DiskId, u64)>,
    /// Whether no other operation may be outstanding.
    pub(super) alone: bool,
    pub(super) outcome: Outcome<Result<(), block::Error>>,
}

/// An action of a host.
#[derive(Clone, Debug)]
enum Action {
    Op(DiskId, Op),
    Resize(DiskId, u64),
}

/// Values that an action leaves in blocks, and in [`SIZE`].
type Effect = Vec<(DiskId, u64, Vec<u64>)>;

/// The bytes of a block with this value.
fn block_of(value: u64, len: u64) -> Bytes {
    value.to_le_bytes().repeat(len as usize / 8).into()
}

/// The logical blocks of a run of blocks.
fn extent(geometry: Geometry, first: u64, count: u64) -> Extent {
    let per = BLOCK_BYTES / u64::from(geometry.block_bytes);
    let end = ((first + count) * per).min(geometry.blocks);
    Extent::new(first * per, end - first * per)
}

fn blocks(geometry: Geometry) -> u64 {
    geometry.bytes().div_ceil(BLOCK_BYTES)
}

async fn perform(engine: Arc<Engine>, action: Action) -> Result<(), block::Error> {
    match action {
        Action::Op(id, op) => engine.volume(id).ok_or(block::Error::Deleted)?.execute(op).await.map(drop),
        Action::Resize(id, blocks) => engine.resize_volume(id, blocks).await,
    }
}

impl World {
    pub(super) fn begin_host_op(&mut self) -> Check {
        let is_busy = self.under_way.len() >= self.most_under_way || self.under_way.iter().any(|op| op.alone);
        if self.quiet || is_busy || self.random.below(10) != 0 {
            return Ok(());
        }
        let (action, effect, alone) = self.draw();
        let must_wait = alone && !self.under_way.is_empty();
        if must_wait || self.mirror.refuses() && self.was_refused_often(&effect) {
            return Ok(());
        }
        let begun = self.now();
        self.operations += 1;
        let mut writes = Vec::with_capacity(effect.len());
        for (id, block, values) in effect {
            writes.push((id, block));
            let zeros = || vec![Version { values: vec![0], ended: Some(0), operation: 0 }];
            let known = self.versions.entry((id, block)).or_insert_with(zeros);
            known.push(Version { values, ended: None, operation: self.operations });
        }
        let engine = self.source.engine.clone().ok_or("the source is up")?;
        let outcome = self.source.machine.start(perform(engine, action)).1;
        self.under_way.push(HostOp { number: self.operations, begun, writes, alone, outcome });
        Ok(())
    }

    /// Whether a block of an operation has too many possible values, so the host gives up for now.
    fn was_refused_often(&self, effect: &Effect) -> bool {
        effect.iter().any(|(id, block, values)| {
            let known = self.versions.get(&(*id, *block)).into_iter().flatten();
            values.len() + known.map(|it| it.values.len()).sum::<usize>() > MAX_REFUSED_VALUES
        })
    }

    /// Draws the next action of a host, its effect, and whether it must be alone.
    fn draw(&mut self) -> (Action, Effect, bool) {
        let volumes: Vec<DiskId> = self.sizes.keys().copied().collect();
        let id = volumes[self.random.below(volumes.len() as u64) as usize];
        let geometry = self.sizes[&id];
        let kind = self.random.below(100);
        if kind < 2 {
            return self.draw_resize(id, geometry);
        }
        let most = [1, 4, 60][self.random.below(3) as usize];
        let count = 1 + self.random.below(most);
        let count = count.min(blocks(geometry));
        let first = self.random.below(blocks(geometry) - count + 1);
        let range = extent(geometry, first, count);
        let value = (self.operations + 1) << 16;
        let len = |block: u64| extent(geometry, block, 1).blocks * u64::from(geometry.block_bytes);
        let all = |value: u64| (first..first + count).map(|block| (id, block, vec![value])).collect();
        match kind {
            0..60 => {
                let mut data = Data::new();
                (first..first + count).for_each(|block| data.push(block_of(value + block, len(block))));
                let effect = (first..first + count).map(|block| (id, block, vec![value + block])).collect();
                (Action::Op(id, Op::Write { lba: range.lba, data }), effect, false)
            }
            60..72 => {
                let block = block_of(value, u64::from(geometry.block_bytes)).into();
                (Action::Op(id, Op::Fill { extent: range, block }), all(value), false)
            }
            72..85 => (Action::Op(id, Op::Unmap(vec![range])), all(0), false),
            _ => self.draw_copy(id, geometry, first, count),
        }
    }

    fn draw_copy(
        &mut self,
        id: DiskId,
        geometry: Geometry,
        first: u64,
        count: u64,
    ) -> (Action, Effect, bool) {
        let alike: Vec<DiskId> = self
            .sizes
            .iter()
            .filter(|(_, it)| it.block_bytes == geometry.block_bytes)
            .map(|it| *it.0)
            .collect();
        let source = alike[self.random.below(alike.len() as u64) as usize];
        let per = BLOCK_BYTES / u64::from(geometry.block_bytes);
        // Whole blocks of both volumes: a block has one value.
        let most = (geometry.blocks / per).saturating_sub(first).min(self.sizes[&source].blocks / per);
        let count = count.min(most);
        let from = self.random.below(self.sizes[&source].blocks / per - count + 1);
        let effect = (0..count).map(|at| {
            let known = self.versions.get(&(source, from + at));
            // Without duplicates: while writes are refused no value is dropped, and copies of copies would double them.
            let values: BTreeSet<u64> = match known {
                Some(all) => all.iter().flat_map(|it| it.values.iter().copied()).collect(),
                None => BTreeSet::from([0]),
            };
            (id, first + at, values.into_iter().collect())
        });
        let segment = CopySegment {
            source,
            source_lba: from * per,
            target: id,
            target_lba: first * per,
            blocks: count * per,
        };
        (Action::Op(id, Op::Copy(vec![segment])), effect.collect(), true)
    }

    fn draw_resize(&mut self, id: DiskId, geometry: Geometry) -> (Action, Effect, bool) {
        let per = BLOCK_BYTES / u64::from(geometry.block_bytes);
        // At a block boundary: a partial block would have zeros, and so would an odd end that grows.
        let new = Geometry { blocks: (8 + self.random.below(blocks(geometry) + 20)) * per, ..geometry };
        if !geometry.blocks.is_multiple_of(per) && new.blocks > geometry.blocks {
            return self.draw();
        }
        let cut = blocks(new)..blocks(geometry);
        let mut effect: Effect = cut.map(|block| (id, block, vec![0])).collect();
        effect.push((id, SIZE, vec![new.blocks]));
        (Action::Resize(id, new.blocks), effect, true)
    }

    /// Handles the end of an operation; `None` if a crash ended it.
    pub(super) fn end_host_op(&mut self, op: &HostOp, result: Option<Result<(), block::Error>>) -> Check {
        let now = self.now();
        let is_done = match result {
            Some(Ok(())) => true,
            None | Some(Err(block::Error::Unreplicated)) => false,
            Some(Err(cause)) => return Err(format!("operation {}: {cause}", op.number)),
        };
        self.report.operations += u64::from(is_done);
        for place in &op.writes {
            let known = self.versions.get_mut(place).ok_or("it has versions")?;
            for version in known.iter_mut().filter(|version| version.operation == op.number) {
                version.ended = Some(now);
            }
            if is_done {
                known.retain(|version| {
                    version.operation == op.number || version.ended.is_none_or(|ended| ended > op.begun)
                });
            }
            if place.1 == SIZE {
                let engine = self.source.engine.clone().ok_or("the source is up")?;
                let geometry = engine.volume(place.0).ok_or("the volume is there")?.geometry();
                self.sizes.insert(place.0, geometry);
            }
        }
        match is_done {
            true => self.check_promoted().map_err(|what| format!("both arrays take writes: {what}")),
            false => Ok(()),
        }
    }
}
