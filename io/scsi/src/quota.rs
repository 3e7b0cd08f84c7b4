//! A hard quota: the unit may not map more blocks, though the array has space for them.

use crate::limits::Limits;
use crate::unit::Unit;
use block::{CopySegment, Disk, Error, Extent, Op, Pending, Provisioning, Reply, Result};
use std::sync::Arc;

/// Performs an operation when no block has to be mapped for it. Whether that is so is looked at before; what changes
/// meanwhile is too little to matter.
pub(crate) fn perform(disk: Arc<dyn Disk>, op: Op) -> Pending {
    let Some(extent) = written(&op, disk.geometry().block_bytes) else { return disk.execute(op) };
    Pending::later(async move {
        check(&*disk, extent).await?;
        disk.execute(op).await
    })
}

/// Checks the targets of a copy that may not map blocks.
pub(crate) async fn check_copy(segments: &[CopySegment], units: &[Arc<Unit>]) -> Result<()> {
    for segment in segments {
        let stopped = |unit: &&Arc<Unit>| unit.id == segment.target && unit.is_allocation_stopped();
        if let Some(unit) = units.iter().find(stopped) {
            check(&*unit.disk, Extent::new(segment.target_lba, segment.blocks)).await?;
        }
    }
    Ok(())
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

async fn check(disk: &dyn Disk, extent: Extent) -> Result<()> {
    let step = Limits::STATUS_BLOCKS;
    for start in (0..extent.blocks).step_by(step as usize) {
        let part = Extent::new(extent.lba + start, step.min(extent.blocks - start));
        let Reply::Status(regions) = disk.execute(Op::Status(part)).await? else {
            return Err(Error::Malformed("a status was asked for"));
        };
        if regions.iter().any(|region| region.state == Provisioning::Deallocated) {
            return Err(Error::NoSpace);
        }
    }
    Ok(())
}
