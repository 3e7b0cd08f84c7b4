//! COMPARE AND WRITE (SBC-4 5.2), the test-and-set with which clustered file systems (VMFS) implement locks.

use crate::commands::read_write::check_range;
use crate::encoding::block_limits::COMPARE_AND_WRITE_BLOCKS;
use crate::encoding::sense::Fault;
use crate::unit::command::{Flow, Request};
use block::Op;

/// COMPARE AND WRITE: a single operation of the disk, so it is atomic with respect to all others.
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
