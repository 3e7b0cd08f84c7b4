//! VERIFY and WRITE AND VERIFY (SBC-4 5.33 to 5.37, 5.44 to 5.47).

use crate::commands::read_write::{check_range, checked_extent, read_blocks, write_data};
use crate::encoding::block_limits::BlockLimits;
use crate::encoding::sense::{Code, Fault, Sense};
use crate::unit::Unit;
use crate::unit::command::{Completion, Flow, Request};
use block::{Data, Extent};
use std::sync::Arc;

/// Blocks read at a time to verify.
pub(crate) const CHUNK_BYTES: u64 = 1 << 20;

/// The data to compare with.
enum Against {
    /// Nothing: the medium only has to be readable (BYTCHK 0).
    Medium,
    /// As many blocks from the initiator (BYTCHK 1).
    All(Data),
    /// One block, to which each has to be equal (BYTCHK 3).
    One(Data),
}

/// VERIFY (10), (12) and (16)
pub(crate) fn verify(request: Request<'_>) -> Result<Flow, Fault> {
    let against = against(&request)?;
    let extent = match against {
        // No data is transferred, so the transfer limit does not apply.
        Against::Medium | Against::One(_) => request.extent(),
        Against::All(_) => checked_extent(&request)?,
    };
    check_range(&request.path.unit, extent, u64::MAX)?;
    let unit = request.path.unit.clone();
    Ok(Flow::later(async move { compare(&unit, extent, &against).await }))
}

/// WRITE AND VERIFY (10), (12) and (16). Stored data is verified at each read, so the medium is not read again for
/// BYTCHK 0; otherwise it is compared.
pub(crate) fn write_and_verify(request: Request<'_>) -> Result<Flow, Fault> {
    let compares = match request.cdb.u8(1) >> 1 & 3 {
        0 => false,
        1 => true,
        _ => return Err(Fault::cdb_bit(1, 2)),
    };
    let extent = checked_extent(&request)?;
    if request.data.is_empty() {
        return Ok(Flow::good());
    }
    request.count_write(extent.blocks);
    let (unit, data, notes) = (request.path.unit.clone(), request.data, request.notes);
    // What is compared afterwards has not ended with its last write.
    let note = move |last: bool| notes.step(last && !compares);
    let mut write = write_data(&unit, extent.lba, data.clone(), note);
    if !compares {
        return Ok(write);
    }
    Ok(Flow::later(async move {
        std::future::poll_fn(|context| write.poll(context)).await?;
        let written = (data.len() / unit.block_bytes as usize) as u64;
        compare(&unit, Extent::new(extent.lba, written), &Against::All(data)).await
    }))
}

fn against(request: &Request<'_>) -> Result<Against, Fault> {
    match request.cdb.u8(1) >> 1 & 3 {
        0 => Ok(Against::Medium),
        1 => Ok(Against::All(request.data.clone())),
        3 => Ok(Against::One(request.data.clone())),
        _ => Err(Fault::cdb_bit(1, 2)),
    }
}

/// Reads the run in chunks and compares; MISCOMPARE reports the byte offset of the first difference.
async fn compare(unit: &Arc<Unit>, extent: Extent, against: &Against) -> Result<Completion, Fault> {
    let block = u64::from(unit.block_bytes);
    let step = (CHUNK_BYTES / block).min(BlockLimits::of(unit.block_bytes).transfer.into());
    let mut done = 0;
    while done < extent.blocks {
        let blocks = step.min(extent.blocks - done);
        let read = read_blocks(unit, Extent::new(extent.lba + done, blocks)).await?;
        let (from, to) = ((done * block) as usize, ((done + blocks) * block) as usize);
        let difference = match against {
            Against::Medium => None,
            Against::All(data) => read.first_difference(&data.slice(from, to)),
            Against::One(one) => difference_to_one(&read, one),
        };
        if let Some(offset) = difference {
            let information = Some((from + offset) as u64);
            return Err(Sense { code: Code::MISCOMPARE, information, field: None }.into());
        }
        done += blocks;
    }
    Ok(Completion::default())
}

fn difference_to_one(read: &Data, one: &Data) -> Option<usize> {
    let (read, one) = (read.to_bytes(), one.to_bytes());
    read.iter().zip(one.iter().cycle()).position(|(a, b)| a != b)
}
