//! UNMAP (SBC-4 5.32).

use crate::commands::read_write::check_range;
use crate::encoding::block_limits::{BlockLimits, UNMAP_DESCRIPTORS};
use crate::encoding::cdb::List;
use crate::encoding::sense::{Code, Fault};
use crate::unit::command::{Flow, Request};
use block::{Data, Extent, Op};

/// UNMAP: all runs of the list in one operation.
pub(crate) fn unmap(request: Request<'_>) -> Result<Flow, Fault> {
    if request.cdb.bit(1, 0x01) {
        return Err(Fault::cdb_bit(1, 0)); // ANC_SUP is zero
    }
    let bytes = request.data.to_bytes();
    if bytes.is_empty() {
        return Ok(Flow::good());
    }
    let list = List(&bytes);
    if list.len() < 8 {
        return Err(Code::PARAMETER_LIST_LENGTH.into());
    }
    let described = usize::from(list.u16(2));
    if list.len() < 8 + described {
        return Err(Code::PARAMETER_LIST_LENGTH.into());
    }
    // An incomplete last descriptor is ignored.
    let described = described - described % 16;
    if described / 16 > UNMAP_DESCRIPTORS as usize {
        return Err(Fault::list_byte(2));
    }
    let unit = &request.path.unit;
    let mut extents = Vec::with_capacity(described / 16);
    let mut total = 0;
    for at in (8..8 + described).step_by(16) {
        let extent = Extent::new(list.u64(at), list.u32(at + 8).into());
        check_range(unit, extent, u64::MAX)?;
        total += extent.blocks;
        if total > u64::from(BlockLimits::of(unit.block_bytes).unmap_blocks) {
            return Err(Fault::list_byte(at + 8));
        }
        if extent.blocks > 0 {
            extents.push(extent);
        }
    }
    if extents.is_empty() {
        return Ok(Flow::good());
    }
    Ok(Flow::Disk(request.perform(Op::Unmap(extents))))
}

/// Blocks that a parameter list names; errors in it are found later.
pub(crate) fn amount(data: &Data) -> u64 {
    let bytes = data.to_bytes();
    let list = List(&bytes);
    let described = usize::from(list.u16(2)).min(list.len().saturating_sub(8));
    (8..8 + described).step_by(16).map(|at| u64::from(list.u32(at + 8))).sum()
}
