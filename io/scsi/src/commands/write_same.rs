//! WRITE SAME (SBC-4 5.49, 5.50): fills a run with one block, or unmaps it.

use crate::commands::read_write::check_range;
use crate::encoding::block_limits::BlockLimits;
use crate::encoding::sense::Fault;
use crate::unit::command::{Flow, Request};
use block::{Data, Op};

/// WRITE SAME (10) and (16). With UNMAP and a block of zeros the run is unmapped, since unmapped blocks read as
/// zeros; with any other block it is written, as the standard requires.
pub(crate) fn write_same(request: Request<'_>) -> Result<Flow, Fault> {
    let cdb = request.cdb;
    let (unmap, anchor) = (cdb.bit(1, 0x08), cdb.bit(1, 0x10));
    if anchor {
        return Err(Fault::cdb_bit(1, 4)); // ANC_SUP is zero
    }
    let extent = request.extent();
    let unit = &request.path.unit;
    check_range(unit, extent, BlockLimits::of(unit.block_bytes).write_same)?;
    if extent.blocks == 0 {
        // WSNZ: zero does not mean up to the end of the medium.
        return Err(Fault::cdb_byte(if cdb.u8(0) == 0x41 { 7 } else { 10 }));
    }
    let block = if request.data.is_empty() {
        Data::from(vec![0; unit.block_bytes as usize]) // NDOB
    } else {
        request.data.clone()
    };
    request.count_write(extent.blocks);
    Ok(Flow::Disk(match unmap && block.is_zero() {
        true => request.perform(Op::Unmap(vec![extent])),
        false => request.perform(Op::Fill { extent, block }),
    }))
}
