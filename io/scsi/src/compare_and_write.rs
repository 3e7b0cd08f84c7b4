//! COMPARE AND WRITE (SBC-4 5.2), by which clustered file systems lock.

use crate::block_limits::COMPARE_AND_WRITE_BLOCKS;
use crate::command::{Flow, Request};
use crate::read_write::check_range;
use crate::sense::Fault;
use block::Op;

/// COMPARE AND WRITE: one operation of the disk, so it is atomic against every other one.
pub(crate) fn compare_and_write(request: Request<'_>) -> Result<Flow, Fault> {
    let extent = request.extent();
    check_range(&request.path.unit, extent, u64::MAX)?;
    if extent.blocks > COMPARE_AND_WRITE_BLOCKS.into() {
        return Err(Fault::cdb_byte(13));
    }
    if extent.blocks == 0 {
        return Ok(Flow::good());
    }
    request.count_write(extent.blocks);
    let half = request.data.len() / 2;
    let (compare, write) = (request.data.slice(0, half), request.data.slice(half, 2 * half));
    Ok(Flow::Disk(request.perform(Op::CompareAndWrite { lba: extent.lba, compare, write })))
}
