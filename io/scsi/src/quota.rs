//! A hard quota: units that together may not map more than so many bytes, though the array has space for them.
//!
//! What an operation may map is taken from the room that was left when it was counted last what is mapped. When that
//! is not enough, it is looked at what the operation really would map, and what is mapped is counted anew. What is under
//! way counts as mapped: the quota holds however fast hosts are, and who writes to what is mapped is never refused.

use crate::block_limits::BlockLimits;
use crate::unit::Unit;
use block::{CopySegment, Disk, Error, Extent, Op, Pending, Provisioning, Reply, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// Tells how many bytes all units of a quota have mapped.
pub type Usage = Arc<dyn Fn() -> u64 + Send + Sync>;

/// What was refused for the sake of a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaRefusals {
    /// Operations, since the quota was set first.
    pub operations: u64,
    /// Bytes that the last of them would have mapped.
    pub bytes: u64,
}

/// A hard quota, shared by its units.
pub(crate) struct Quota(Mutex<Core>);

struct Core {
    limit: u64,
    usage: Usage,
    /// Bytes that may be mapped without another count.
    room: u64,
    /// Something was taken since the last count, so that another may find more room.
    touched: bool,
    /// Bytes that operations took that did not end.
    under_way: u64,
    refused: QuotaRefusals,
}

/// What one operation took; dropped when it ends.
#[must_use]
pub(crate) struct Share {
    quota: Arc<Quota>,
    bytes: u64,
}

impl Core {
    /// What ends meanwhile may be counted twice, never not at all.
    fn count(&mut self) {
        let used = (self.usage)().saturating_add(self.under_way);
        self.room = self.limit.saturating_sub(used);
        self.touched = false;
    }
}

impl Quota {
    pub(crate) fn new(limit: u64, usage: Usage) -> Arc<Quota> {
        let core =
            Core { limit, usage, room: 0, touched: true, under_way: 0, refused: QuotaRefusals::default() };
        Arc::new(Quota(Mutex::new(core)))
    }

    /// Another limit, other units.
    pub(crate) fn set(&self, limit: u64, usage: Usage) {
        let mut core = self.0.lock();
        (core.limit, core.usage) = (limit, usage);
        core.count();
    }

    /// OperationCounts anew, and tells what was refused.
    pub(crate) fn look(&self) -> QuotaRefusals {
        let mut core = self.0.lock();
        core.count();
        core.refused
    }

    /// Takes what an operation maps at most, when there is certainly room for it.
    fn take(self: &Arc<Self>, bytes: u64) -> Option<Share> {
        let mut core = self.0.lock();
        if core.room < bytes && core.touched {
            core.count();
        }
        self.share(&mut core, bytes)
    }

    /// Takes what an operation will map.
    fn take_new(self: &Arc<Self>, bytes: u64) -> Result<Share> {
        let mut core = self.0.lock();
        if core.room < bytes {
            core.count();
        }
        if let Some(share) = self.share(&mut core, bytes) {
            return Ok(share);
        }
        core.refused = QuotaRefusals { operations: core.refused.operations + 1, bytes };
        Err(Error::NoSpace)
    }

    fn share(self: &Arc<Self>, core: &mut Core, bytes: u64) -> Option<Share> {
        core.room = core.room.checked_sub(bytes)?;
        core.under_way += bytes;
        core.touched |= bytes > 0;
        Some(Share { quota: self.clone(), bytes })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.quota.0.lock().under_way -= self.bytes;
    }
}

/// Performs an operation as far as the quota of its disk allows.
pub(crate) fn perform(quota: Arc<Quota>, disk: Arc<dyn Disk>, op: Op) -> Pending {
    let Some(extent) = written(&op, disk.geometry().block_bytes) else { return disk.execute(op) };
    let Some(share) = quota.take(footprint(&*disk, extent)) else {
        return Pending::later(async move {
            let _share = quota.take_new(unmapped(&*disk, extent, None).await?)?;
            disk.execute(op).await
        });
    };
    match disk.execute(op) {
        Pending::Later(end) => Pending::later(async move {
            let _share = share;
            end.await
        }),
        ready => ready,
    }
}

/// Takes what a copy maps on targets that have a quota.
pub(crate) async fn take_for_copy(segments: &[CopySegment], units: &[Arc<Unit>]) -> Result<Vec<Share>> {
    let mut shares = Vec::new();
    for segment in segments {
        let unit = |id| units.iter().find(|unit| unit.id == id);
        let (Some(source), Some(target)) = (unit(segment.source), unit(segment.target)) else { continue };
        let Some(quota) = target.quota() else { continue };
        let extent = Extent::new(segment.target_lba, segment.blocks);
        let share = match quota.take(footprint(&*target.disk, extent)) {
            Some(share) => share,
            None => {
                let source = Some((&*source.disk, segment.source_lba));
                quota.take_new(unmapped(&*target.disk, extent, source).await?)?
            }
        };
        shares.push(share);
    }
    Ok(shares)
}

/// The run that an operation makes mapped, when it does.
fn written(op: &Op, block_bytes: u32) -> Option<Extent> {
    let run = |lba: u64, bytes: usize| Extent::new(lba, bytes as u64 / u64::from(block_bytes));
    match op {
        Op::Write { lba, data } | Op::Or { lba, data } => Some(run(*lba, data.len())),
        Op::CompareAndWrite { lba, write, .. } => Some(run(*lba, write.len())),
        Op::Fill { extent, .. } => Some(*extent),
        Op::Read(_) | Op::Unmap(_) | Op::Copy(_) | Op::Status(_) | Op::Flush | Op::SaveState(_) => None,
    }
}

/// Bytes of the physical blocks that a run touches.
fn footprint(disk: &dyn Disk, extent: Extent) -> u64 {
    let block_bytes = disk.geometry().block_bytes;
    let granularity = u64::from(BlockLimits::of(block_bytes).granularity);
    let first = extent.lba / granularity;
    let end = extent.lba.saturating_add(extent.blocks).div_ceil(granularity);
    (end - first).saturating_mul(granularity * u64::from(block_bytes))
}

/// Bytes that a write to a run would map. `source`: it is a copy of what is mapped from that block on.
async fn unmapped(disk: &dyn Disk, extent: Extent, source: Option<(&dyn Disk, u64)>) -> Result<u64> {
    let mut bytes = 0;
    for hole in runs(disk, extent, Provisioning::Deallocated).await? {
        let Some((source, from)) = source else {
            bytes += footprint(disk, hole);
            continue;
        };
        let from = from + (hole.lba - extent.lba);
        for part in runs(source, Extent::new(from, hole.blocks), Provisioning::Mapped).await? {
            bytes += footprint(disk, Extent::new(hole.lba + (part.lba - from), part.blocks));
        }
    }
    Ok(bytes)
}

/// The parts of a run that are provisioned in one way.
async fn runs(disk: &dyn Disk, extent: Extent, wanted: Provisioning) -> Result<Vec<Extent>> {
    let (step, mut found) = (BlockLimits::STATUS_BLOCKS, Vec::new());
    for start in (0..extent.blocks).step_by(step as usize) {
        let part = Extent::new(extent.lba + start, step.min(extent.blocks - start));
        let Reply::Status(regions) = disk.execute(Op::Status(part)).await? else {
            return Err(Error::Malformed("a status was asked for"));
        };
        found.extend(regions.iter().filter(|region| region.state == wanted).map(|region| region.extent));
    }
    Ok(found)
}

#[cfg(test)]
#[path = "quota_test.rs"]
mod tests;
