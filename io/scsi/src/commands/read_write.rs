//! Commands that read and write runs of blocks (SBC-4 clause 5), and those that report capacity and readiness.

use crate::commands::provisioning;
use crate::encoding::block_limits::BlockLimits;
use crate::encoding::sense::{Code, Fault};
use crate::unit::Unit;
use crate::unit::command::{Completion, Flow, Request};
use block::{Data, Error, Extent, Note, Op, Pending, Reply};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// TEST UNIT READY (SPC-5 6.51). Hosts send it from time to time, so thresholds are
/// checked here, too.
pub(crate) fn test_unit_ready(request: Request<'_>) -> Result<Flow, Fault> {
    provisioning::check_thresholds(request.path);
    match request.path.take_unit_attention() {
        Some(sense) => Err(sense.into()),
        None => Ok(Flow::good()),
    }
}

/// Checks a run against the capacity and the transfer limit. An empty run may begin at the end of the medium.
pub(crate) fn check_range(unit: &Unit, extent: Extent, most: u64) -> Result<(), Fault> {
    let blocks = unit.geometry().blocks;
    if extent.end().is_none_or(|end| end > blocks) {
        return Err(Code::LBA_OUT_OF_RANGE.into());
    }
    if extent.blocks > most {
        return Err(Code::INVALID_FIELD_IN_CDB.into());
    }
    Ok(())
}

/// The run of a media command, checked.
pub(crate) fn checked_extent(request: &Request<'_>) -> Result<Extent, Fault> {
    let extent = request.extent();
    let unit = &request.path.unit;
    check_range(unit, extent, BlockLimits::of(unit.block_bytes).transfer.into())?;
    Ok(extent)
}

/// READ (6), (10), (12) and (16) (SBC-4 5.13 to 5.16)
pub(crate) fn read(request: Request<'_>) -> Result<Flow, Fault> {
    let extent = checked_extent(&request)?;
    if extent.blocks == 0 {
        return Ok(Flow::good());
    }
    let unit = &request.path.unit;
    let most = BlockLimits::of(unit.block_bytes).operation;
    if extent.blocks <= most {
        let bytes = extent.blocks * u64::from(unit.block_bytes);
        let op = if bytes <= request.located_bytes { Op::Locate(extent) } else { Op::Read(extent) };
        return Ok(Flow::Disk(unit.volume.disk().execute(op)));
    }
    let unit = unit.clone();
    Ok(Flow::later(async move {
        let mut data = Data::new();
        for part in parts(extent, most) {
            data.append(read_blocks(&unit, part).await?);
        }
        Ok(data.into())
    }))
}

/// Reads a run of at most one operation.
pub(crate) async fn read_blocks(unit: &Unit, extent: Extent) -> Result<Data, Fault> {
    match unit.volume.disk().execute(Op::Read(extent)).await? {
        Reply::Data(data) => Ok(data),
        Reply::Done | Reply::Located(_) | Reply::Status(_) | Reply::Image(_) => {
            Err(Code::INTERNAL_TARGET_FAILURE.into())
        }
    }
}

/// A run cut into runs of at most `most` blocks.
fn parts(extent: Extent, most: u64) -> impl Iterator<Item = Extent> {
    (0..extent.blocks.div_ceil(most)).map(move |index| {
        let start = index * most;
        Extent::new(extent.lba + start, most.min(extent.blocks - start))
    })
}

/// WRITE (6), (10), (12) and (16) (SBC-4 5.39 to 5.47). Every completed write is durable, so FUA adds nothing.
pub(crate) fn write(request: Request<'_>) -> Result<Flow, Fault> {
    let extent = checked_extent(&request)?;
    if request.data.is_empty() {
        return Ok(Flow::good());
    }
    request.count_write(extent.blocks);
    let notes = request.notes;
    Ok(write_data(&request.path.unit, extent.lba, request.data, move |last| notes.step(last)))
}

/// Writes Data-Out from `lba` on, as one operation if it fits in one, which is the common case. `note` is given whether an
/// operation is the last one.
pub(crate) fn write_data(
    unit: &Arc<Unit>,
    lba: u64,
    data: Data,
    note: impl Fn(bool) -> Option<Note> + Send + 'static,
) -> Flow {
    let block = unit.block_bytes as usize;
    let most = BlockLimits::of(unit.block_bytes).operation as usize * block;
    if data.len() <= most && data.len().is_multiple_of(block) {
        return Flow::Disk(unit.volume.perform_with(Op::Write { lba, data }, note(true)));
    }
    let unit = unit.clone();
    Flow::later(async move {
        let whole = data.len() - data.len() % block;
        for from in (0..whole).step_by(most) {
            let part = data.slice(from, whole.min(from + most));
            let last = from + part.len() == data.len();
            let write = Op::Write { lba: lba + (from / block) as u64, data: part };
            unit.volume.perform_with(write, note(last)).await?;
        }
        if whole < data.len() {
            let head = data.slice(whole, data.len());
            write_part(&unit, lba + (whole / block) as u64, head, note(true)).await?;
        }
        Ok(Completion::default())
    })
}

/// Replaces the first bytes of a block: the initiator announced less data than its CDB asks for.
async fn write_part(unit: &Unit, lba: u64, head: Data, note: Option<Note>) -> Result<(), Fault> {
    loop {
        let compare = read_blocks(unit, Extent::new(lba, 1)).await?;
        let mut write = head.clone();
        write.append(compare.slice(head.len(), compare.len()));
        match unit.volume.perform_with(Op::CompareAndWrite { lba, compare, write }, note).await {
            Err(Error::Miscompare { .. }) => continue, // another write came in between
            end => return end.map(|_| ()).map_err(Fault::from),
        }
    }
}

/// WRITE ATOMIC (16) (SBC-4 5.48): one operation of the disk, so it takes effect whole or not at all.
pub(crate) fn write_atomic(request: Request<'_>) -> Result<Flow, Fault> {
    let limits = BlockLimits::of(request.path.unit.block_bytes);
    let extent = request.extent();
    check_range(&request.path.unit, extent, limits.atomic_transfer.into())?;
    if extent.blocks == 0 {
        return Ok(Flow::good());
    }
    request.count_write(extent.blocks);
    let write = Op::Write { lba: extent.lba, data: request.data.clone() };
    Ok(Flow::Disk(request.perform(write)))
}

/// ORWRITE (16) (SBC-4 5.10)
pub(crate) fn or_write(request: Request<'_>) -> Result<Flow, Fault> {
    let extent = checked_extent(&request)?;
    if extent.blocks == 0 {
        return Ok(Flow::good());
    }
    request.count_write(extent.blocks);
    let most = BlockLimits::of(request.path.unit.block_bytes).operation;
    if extent.blocks <= most {
        let data = request.data.clone();
        return Ok(Flow::Disk(request.perform(Op::Or { lba: extent.lba, data })));
    }
    let (unit, data, notes) = (request.path.unit.clone(), request.data, request.notes);
    Ok(Flow::later(async move {
        let block = unit.block_bytes as usize;
        for part in parts(extent, most) {
            let from = (part.lba - extent.lba) as usize * block;
            let data = data.slice(from, from + part.blocks as usize * block);
            let last = part.end() == extent.end();
            unit.volume.perform_with(Op::Or { lba: part.lba, data }, notes.step(last)).await?;
        }
        Ok(Completion::default())
    }))
}

/// SYNCHRONIZE CACHE (10) and (16) (SBC-4 5.29, 5.30). Zero blocks means to the end of the medium.
pub(crate) fn synchronize_cache(request: Request<'_>) -> Result<Flow, Fault> {
    check_range(&request.path.unit, request.extent(), u64::MAX)?;
    Ok(Flow::Disk(request.path.unit.volume.disk().execute(Op::Flush)))
}

/// PRE-FETCH (10) and (16) (SBC-4 5.11, 5.12). Everything fits in the cache, which CONDITION MET reports; nothing
/// is fetched, since a host's guess is worth less than the bandwidth.
pub(crate) fn pre_fetch(request: Request<'_>) -> Result<Flow, Fault> {
    checked_extent(&request)?;
    Ok(Flow::Done(Completion { condition_met: true, ..Default::default() }))
}

/// READ CAPACITY (10) (SBC-4 5.20)
pub(crate) fn read_capacity_10(request: Request<'_>) -> Result<Flow, Fault> {
    let geometry = request.path.unit.geometry();
    let last = u32::try_from(geometry.blocks.saturating_sub(1)).unwrap_or(u32::MAX);
    let mut out = last.to_be_bytes().to_vec();
    out.extend_from_slice(&geometry.block_bytes.to_be_bytes());
    Ok(Flow::data(out))
}

/// READ CAPACITY (16) (SBC-4 5.21)
pub(crate) fn read_capacity_16(request: Request<'_>) -> Result<Flow, Fault> {
    let geometry = request.path.unit.geometry();
    let mut out = vec![0; 32];
    out[..8].copy_from_slice(&geometry.blocks.saturating_sub(1).to_be_bytes());
    out[8..12].copy_from_slice(&geometry.block_bytes.to_be_bytes());
    // Space is allocated in 4 KiB: smaller logical blocks share a physical block.
    out[13] = BlockLimits::of(geometry.block_bytes).granularity.trailing_zeros() as u8;
    out[14] = 0xC0; // LBPME, LBPRZ; lowest aligned block 0
    Ok(Flow::data(out))
}

/// READ DEFECT DATA (10) and (12) (SBC-4 5.22, 5.23): there is no list, in any format.
pub(crate) fn read_defect_data(request: Request<'_>) -> Result<Flow, Fault> {
    let long = request.cdb.u8(0) == 0xB7;
    let asked = if long { request.cdb.u8(1) } else { request.cdb.u8(2) };
    let mut out = vec![0; if long { 8 } else { 4 }];
    out[1] = asked & 0x1F;
    Ok(Flow::data(out))
}

impl Request<'_> {
    /// Counts written blocks, and checks the thresholds once per threshold unit.
    pub(crate) fn count_write(&self, blocks: u64) {
        let before = self.path.blocks_written.fetch_add(blocks, Ordering::Relaxed);
        if before >> provisioning::THRESHOLD_EXPONENT != (before + blocks) >> provisioning::THRESHOLD_EXPONENT
        {
            provisioning::check_thresholds(self.path);
        }
    }

    /// Performs the one operation of the command on the unit's disk.
    pub(crate) fn perform(&self, op: Op) -> Pending {
        self.path.unit.volume.perform_with(op, self.notes.whole())
    }
}
