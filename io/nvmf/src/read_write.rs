//! Commands that read, write, compare and deallocate blocks (NVM Command Set 3.2).

use crate::command::{Request, Work};
use crate::sqe::{Outcome, Sqe};
use crate::status::Status;
use block::{Data, Extent, Op, Reply};

/// Bytes read at a time to verify.
pub(crate) const VERIFY_CHUNK_BYTES: u64 = 1 << 20;
/// DEAC of Write Zeroes (3.2.8), and AD of Dataset Management (3.2.3).
const DEALLOCATE: u32 = 1 << 25;
const ATTRIBUTE_DEALLOCATE: u32 = 1 << 2;
/// Bytes of a range of Dataset Management (NVM Command Set figure 39).
const RANGE_BYTES: usize = 16;

/// Flush: writes are already durable when they complete.
pub(crate) fn flush(request: Request) -> Result<Work, Status> {
    request.perform(Op::Flush)
}

/// Read
pub(crate) fn read(request: Request) -> Result<Work, Status> {
    let extent = request.extent();
    request.check_range(extent)?;
    request.perform(Op::Read(extent))
}

/// Write. FUA has no effect, since there is no volatile write cache.
pub(crate) fn write(mut request: Request) -> Result<Work, Status> {
    request.check_range(request.extent())?;
    let data = std::mem::take(&mut request.data);
    request.perform(Op::Write { lba: request.sqe.slba(), data })
}

/// Compare
pub(crate) fn compare(request: Request) -> Result<Work, Status> {
    let extent = request.extent();
    request.check_range(extent)?;
    Ok(Work::later(async move {
        let stored = read_blocks(&request, extent).await?;
        match stored.first_difference(&request.data) {
            None => Ok(Outcome::success()),
            Some(_) => Err(Status::COMPARE_FAILURE),
        }
    }))
}

async fn read_blocks(request: &Request, extent: Extent) -> Result<Data, Status> {
    match request.path.volume.perform(Op::Read(extent)).await? {
        Reply::Data(data) => Ok(data),
        Reply::Done | Reply::Located(_) | Reply::Status(_) | Reply::Image(_) => Err(Status::INTERNAL_ERROR),
    }
}

/// Whether a Write Zeroes command deallocates.
pub(crate) fn deallocates(sqe: &Sqe) -> bool {
    sqe.dword(12) & DEALLOCATE != 0
}

/// Write Zeroes. Deallocated blocks read as zeros, so DEAC deallocates the run.
pub(crate) fn write_zeroes(request: Request) -> Result<Work, Status> {
    let extent = request.extent();
    request.check_range(extent)?;
    match deallocates(&request.sqe) {
        true => request.perform(Op::Unmap(vec![extent])),
        false => {
            let block = request.path.zero_block();
            request.perform(Op::Fill { extent, block })
        }
    }
}

/// The ranges of a Dataset Management command.
fn ranges(sqe: &Sqe, data: &Data) -> Vec<Extent> {
    let count = (sqe.dword(10) & 0xFF) as usize + 1;
    let bytes = data.to_bytes();
    let range = |raw: &[u8]| {
        let dword = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&raw[at..at + 4]);
            u64::from(u32::from_le_bytes(bytes))
        };
        Extent::new(dword(8) | dword(12) << 32, dword(4))
    };
    bytes.chunks_exact(RANGE_BYTES).take(count).map(range).collect()
}

/// Blocks that a Dataset Management command deallocates. Errors in the ranges are found later.
pub(crate) fn deallocated_blocks(sqe: &Sqe, data: &Data) -> u64 {
    if sqe.dword(11) & ATTRIBUTE_DEALLOCATE == 0 {
        return 0;
    }
    ranges(sqe, data).iter().fold(0, |sum, extent| extent.blocks.saturating_add(sum))
}

/// Dataset Management. Attributes other than deallocation are hints that are not used.
pub(crate) fn dataset_management(request: Request) -> Result<Work, Status> {
    let extents = ranges(&request.sqe, &request.data);
    extents.iter().try_for_each(|extent| request.check_range(*extent))?;
    if request.sqe.dword(11) & ATTRIBUTE_DEALLOCATE == 0 {
        return Ok(Work::Done(Outcome::success()));
    }
    let extents: Vec<Extent> = extents.into_iter().filter(|extent| extent.blocks > 0).collect();
    if extents.is_empty() {
        return Ok(Work::Done(Outcome::success()));
    }
    request.perform(Op::Unmap(extents))
}

/// Verify: reads the blocks, since every read verifies the stored data.
pub(crate) fn verify(request: Request) -> Result<Work, Status> {
    let extent = request.extent();
    request.check_range(extent)?;
    Ok(Work::later(async move {
        let step = VERIFY_CHUNK_BYTES / u64::from(request.path.volume.block_bytes());
        let mut done = 0;
        while done < extent.blocks {
            let blocks = step.min(extent.blocks - done);
            read_blocks(&request, Extent::new(extent.lba + done, blocks)).await?;
            done += blocks;
        }
        Ok(Outcome::success())
    }))
}
