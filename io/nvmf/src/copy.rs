//! Copy (NVM Command Set 3.2.2): source ranges of one namespace to consecutive blocks of the same one, as one operation of
//! the disk.

use crate::command::{Request, Work};
use crate::spec::{MAX_COPY_BYTES, MAX_COPY_RANGE_BLOCKS, MAX_COPY_RANGES};
use crate::sqe::{Outcome, Sqe};
use crate::status::Status;
use block::{CopySegment, Data, Extent, Op};

/// Bytes of a source range of descriptor format 0 (NVM Command Set figure 34).
const RANGE_BYTES: usize = 32;

/// The source ranges received so far.
fn ranges(sqe: &Sqe, data: &Data) -> Vec<Extent> {
    let count = (sqe.dword(12) & 0xFF) as usize + 1;
    let bytes = data.to_bytes();
    let range = |raw: &[u8]| {
        let mut lba = [0; 8];
        lba.copy_from_slice(&raw[8..16]);
        let blocks = u16::from_le_bytes([raw[16], raw[17]]);
        Extent::new(u64::from_le_bytes(lba), u64::from(blocks) + 1)
    };
    bytes.chunks_exact(RANGE_BYTES).take(count).map(range).collect()
}

/// Blocks that a command copies. Errors in the ranges are found later.
pub(crate) fn copied_blocks(sqe: &Sqe, data: &Data) -> u64 {
    ranges(sqe, data).iter().map(|extent| extent.blocks).sum()
}

/// Copy. Protection information and storage tags, which no namespace supports, are refused.
pub(crate) fn copy(request: Request) -> Result<Work, Status> {
    let sqe = &request.sqe;
    let format = sqe.dword(12) >> 8 & 0xF;
    if format != 0 || sqe.dword(12) & 0x3C00_F000 != 0 {
        return Err(Status::INVALID_FIELD);
    }
    let sources = ranges(sqe, &request.data);
    let block_bytes = request.path.volume.block_bytes();
    let total: u64 = sources.iter().map(|extent| extent.blocks).sum();
    let too_long = |extent: &Extent| extent.blocks > u64::from(MAX_COPY_RANGE_BLOCKS);
    if sources.len() > MAX_COPY_RANGES
        || sources.iter().any(too_long)
        || total > MAX_COPY_BYTES / u64::from(block_bytes)
    {
        return Err(Status::COMMAND_SIZE_LIMIT);
    }
    // A copy also reads, which the reservation must allow. A host that may write may also read.
    request.check_range(Extent::new(sqe.slba(), total))?;
    let (id, mut target_lba, mut segments) = (request.path.volume.id(), sqe.slba(), Vec::new());
    for source in sources {
        request.check_range(source)?;
        let (source_lba, blocks) = (source.lba, source.blocks);
        segments.push(CopySegment { source: id, source_lba, target: id, target_lba, blocks });
        target_lba += blocks;
    }
    Ok(Work::later(async move {
        let volume = &request.path.volume;
        let _grants =
            export::grant_copy(&segments, &[volume.disk().clone()], std::slice::from_ref(volume)).await?;
        let shared: u64 =
            segments.iter().map(|segment| export::copied_by_sharing(segment, volume.block_bytes())).sum();
        volume.disk().execute(Op::Copy(segments)).await?;
        let bytes = total * u64::from(volume.block_bytes());
        request.path.recorder.copied(shared, bytes - shared);
        Ok(Outcome::success())
    }))
}
