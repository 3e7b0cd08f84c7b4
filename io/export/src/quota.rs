//! Hard quotas: a limit of the mapped bytes of several volumes, even if the pool has more space.
//!
//! An operation is granted its upper bound (every physical block that it touches) from the room found by the last
//! count. Only if the bound does not fit, the blocks that the operation would map are counted exactly, and the mapped
//! bytes are recounted. Operations in flight count as mapped, so concurrent operations can't exceed the quota. A write
//! to mapped blocks is never refused.

use crate::volume::{PROVISIONING_BLOCK_BYTES, STATUS_MAX_BLOCKS, Volume};
use block::{CopySegment, Disk, DiskId, Error, Extent, Note, Op, Pending, Provisioning, Reply, Result};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Returns the mapped bytes of all volumes of a quota.
pub type Usage = Arc<dyn Fn(&BTreeSet<DiskId>) -> u64 + Send + Sync>;

/// Operations that a quota refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaRefusals {
    /// Number of operations since the quota was first set.
    pub operations: u64,
    /// Bytes that the last one would have mapped.
    pub bytes: u64,
}

/// A hard quota, shared by its volumes.
pub(crate) struct Quota(Mutex<Core>);

struct Core {
    limit_bytes: u64,
    usage: Usage,
    members: BTreeSet<DiskId>,
    /// Bytes that may be granted without another count.
    room_bytes: u64,
    /// True if bytes were granted since the last count, so a recount may find more room.
    stale: bool,
    /// Bytes granted to operations in flight.
    in_flight_bytes: u64,
    refused: QuotaRefusals,
}

/// Bytes granted to one operation, until it completes.
#[must_use]
pub struct Grant {
    quota: Arc<Quota>,
    bytes: u64,
}

impl Core {
    /// Counts the mapped bytes. An operation that completes during the count may be counted twice, but is never missed.
    fn count(&mut self) {
        let used = (self.usage)(&self.members).saturating_add(self.in_flight_bytes);
        self.room_bytes = self.limit_bytes.saturating_sub(used);
        self.stale = false;
    }
}

impl Quota {
    pub(crate) fn new(limit_bytes: u64, usage: Usage, members: BTreeSet<DiskId>) -> Arc<Quota> {
        let refused = QuotaRefusals::default();
        let core =
            Core { limit_bytes, usage, members, room_bytes: 0, stale: true, in_flight_bytes: 0, refused };
        Arc::new(Quota(Mutex::new(core)))
    }

    /// Adds or removes a counted volume. The next operation that needs room causes a recount.
    pub(crate) fn set_member(&self, id: DiskId, is_member: bool) {
        let mut core = self.0.lock();
        let changed = if is_member { core.members.insert(id) } else { core.members.remove(&id) };
        if changed {
            (core.room_bytes, core.stale) = (0, true);
        }
    }

    /// Changes the limit and the function that counts.
    pub(crate) fn set(&self, limit_bytes: u64, usage: Usage) {
        let mut core = self.0.lock();
        (core.limit_bytes, core.usage) = (limit_bytes, usage);
        core.count();
    }

    /// Counts the mapped bytes and returns the refusals.
    pub(crate) fn refresh(&self) -> QuotaRefusals {
        let mut core = self.0.lock();
        core.count();
        core.refused
    }

    /// Grants the upper bound of an operation. `None` if it may not fit: the exact amount decides then.
    fn grant_upper_bound(self: &Arc<Self>, bytes: u64) -> Option<Grant> {
        let mut core = self.0.lock();
        if core.room_bytes < bytes && core.stale {
            core.count();
        }
        self.grant(&mut core, bytes)
    }

    /// Grants the exact amount that an operation will map.
    fn grant_exact(self: &Arc<Self>, bytes: u64) -> Result<Grant> {
        let mut core = self.0.lock();
        if core.room_bytes < bytes {
            core.count();
        }
        if let Some(grant) = self.grant(&mut core, bytes) {
            return Ok(grant);
        }
        core.refused = QuotaRefusals { operations: core.refused.operations + 1, bytes };
        Err(Error::NoSpace)
    }

    fn grant(self: &Arc<Self>, core: &mut Core, bytes: u64) -> Option<Grant> {
        core.room_bytes = core.room_bytes.checked_sub(bytes)?;
        core.in_flight_bytes += bytes;
        core.stale |= bytes > 0;
        Some(Grant { quota: self.clone(), bytes })
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.quota.0.lock().in_flight_bytes -= self.bytes;
    }
}

/// Performs an operation if the quota of its disk allows it.
pub(crate) fn perform(quota: Arc<Quota>, disk: Arc<dyn Disk>, (op, note): (Op, Option<Note>)) -> Pending {
    let Some(extent) = mapped_by(&op, disk.geometry().block_bytes) else {
        return disk.execute_with(op, note);
    };
    let Some(grant) = quota.grant_upper_bound(footprint_bytes(&*disk, extent)) else {
        return Pending::later(async move {
            let _grant = quota.grant_exact(unmapped_bytes(&*disk, extent, None).await?)?;
            disk.execute_with(op, note).await
        });
    };
    match disk.execute_with(op, note) {
        Pending::Later(result) => Pending::later(async move {
            let _grant = grant;
            result.await
        }),
        ready => ready,
    }
}

/// Grants the bytes that a copy maps on destinations with a quota. `sources` and `targets` are the disks and volumes
/// that the segments name.
///
/// # Errors
/// [`Error::NoSpace`] if a quota does not allow the copy, or an error of a disk whose mapped blocks were counted.
pub async fn grant_copy(
    segments: &[CopySegment],
    sources: &[Arc<dyn Disk>],
    targets: &[Arc<Volume>],
) -> Result<Vec<Grant>> {
    let mut grants = Vec::new();
    for segment in segments {
        let source = sources.iter().find(|disk| disk.id() == segment.source);
        let target = targets.iter().find(|volume| volume.id() == segment.target);
        let (Some(source), Some(target)) = (source, target) else { continue };
        let Some(quota) = target.quota() else { continue };
        let extent = Extent::new(segment.target_lba, segment.blocks);
        let grant = match quota.grant_upper_bound(footprint_bytes(&**target.disk(), extent)) {
            Some(grant) => grant,
            None => {
                let source = Some((&**source, segment.source_lba));
                quota.grant_exact(unmapped_bytes(&**target.disk(), extent, source).await?)?
            }
        };
        grants.push(grant);
    }
    Ok(grants)
}

/// Bytes of a segment that a disk copies by sharing stored data: whole physical blocks with equally aligned source and
/// target.
pub fn copied_by_sharing(segment: &CopySegment, block_bytes: u32) -> u64 {
    let granularity = u64::from((PROVISIONING_BLOCK_BYTES / block_bytes).max(1));
    let (first, end) = (segment.target_lba, segment.target_lba.saturating_add(segment.blocks));
    let alike = segment.source_lba % granularity == first % granularity;
    let whole = end / granularity * granularity;
    let blocks = whole.saturating_sub(first.next_multiple_of(granularity));
    if alike { blocks * u64::from(block_bytes) } else { 0 }
}

/// The blocks that an operation leaves mapped, if any.
fn mapped_by(op: &Op, block_bytes: u32) -> Option<Extent> {
    let run = |lba: u64, bytes: usize| Extent::new(lba, bytes as u64 / u64::from(block_bytes));
    match op {
        Op::Write { lba, data } | Op::Or { lba, data } => Some(run(*lba, data.len())),
        Op::CompareAndWrite { lba, write, .. } => Some(run(*lba, write.len())),
        Op::Fill { extent, .. } => Some(*extent),
        Op::Read(_)
        | Op::Locate(_)
        | Op::Unmap(_)
        | Op::Copy(_)
        | Op::Status(_)
        | Op::Image
        | Op::Flush
        | Op::SaveState(_) => None,
    }
}

/// Bytes of the physical blocks that a run touches.
fn footprint_bytes(disk: &dyn Disk, extent: Extent) -> u64 {
    let block_bytes = disk.geometry().block_bytes;
    let granularity = u64::from((PROVISIONING_BLOCK_BYTES / block_bytes).max(1));
    let first = extent.lba / granularity;
    let end = extent.lba.saturating_add(extent.blocks).div_ceil(granularity);
    (end - first).saturating_mul(granularity * u64::from(block_bytes))
}

/// Bytes that a write to a run would map. With `source`, the write is a copy of the mapped blocks at that location.
async fn unmapped_bytes(disk: &dyn Disk, extent: Extent, source: Option<(&dyn Disk, u64)>) -> Result<u64> {
    let mut bytes = 0;
    for hole in runs(disk, extent, Provisioning::Deallocated).await? {
        let Some((source, from)) = source else {
            bytes += footprint_bytes(disk, hole);
            continue;
        };
        let from = from + (hole.lba - extent.lba);
        for part in runs(source, Extent::new(from, hole.blocks), Provisioning::Mapped).await? {
            bytes += footprint_bytes(disk, Extent::new(hole.lba + (part.lba - from), part.blocks));
        }
    }
    Ok(bytes)
}

/// The parts of a run with a provisioning state.
async fn runs(disk: &dyn Disk, extent: Extent, wanted: Provisioning) -> Result<Vec<Extent>> {
    let (step, mut found) = (STATUS_MAX_BLOCKS, Vec::new());
    for start in (0..extent.blocks).step_by(step as usize) {
        let part = Extent::new(extent.lba + start, step.min(extent.blocks - start));
        let Reply::Status(regions) = disk.execute(Op::Status(part)).await? else {
            return Err(Error::Malformed("the disk returned no provisioning status"));
        };
        found.extend(regions.iter().filter(|region| region.state == wanted).map(|region| region.extent));
    }
    Ok(found)
}

#[cfg(test)]
#[path = "quota_test.rs"]
mod tests;
