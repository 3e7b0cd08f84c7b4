//! Third-party copy (SPC-5 5.18): EXTENDED COPY (LID1) and (LID4), COPY OPERATION ABORT, and the commands that report
//! about copies. Copies by tokens are in `rod`.
//!
//! A list becomes one operation of the disk, however many segments it has. Disks are looked up only among the units
//! that the sender sees: a copy can't reach a unit that its initiator can't.

mod list;
mod page;

pub(crate) use page::third_party_copy_page;

use crate::Status;
use crate::commands::read_write::read_blocks;
use crate::encoding::sense::{Code, Fault};
use crate::encoding::task_set::Class;
use crate::unit::Unit;
use crate::unit::command::{Flow, Notes, Request};
use crate::unit::gate::TaskSetEntry;
use crate::unit::operations::{Done, MAX_SEGMENTS, Operations, Transferred};
use crate::unit::path::Path;
use crate::unit::row::Effect;
use block::{CopySegment, Data, Error, Extent, Op};
use list::{Cscd, Description, Segment};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Copy source and copy destination descriptors in one list.
const MAX_CSCDS: usize = 128;

/// Bytes of all descriptors of one list.
const MAX_DESCRIPTOR_BYTES: usize = MAX_CSCDS * 32 + MAX_SEGMENTS * 28;

/// Bytes in one segment.
const MAX_SEGMENT_BYTES: u64 = 256 << 20;

/// Copies in progress: as many as there are list identifiers.
const MAX_COPIES: u8 = 255;

/// Bytes moved at a time where a disk can't copy from another by itself.
const CHUNK_BYTES: u64 = 1 << 20;

/// A copy whose descriptors are decoded and checked.
struct Plan {
    segments: Vec<CopySegment>,
    /// The source and destination units, in the order in which they were named.
    units: Vec<Arc<Unit>>,
    /// Entries in the task sets of the units: their reservations can't change during the copy.
    entries: Vec<TaskSetEntry>,
    bytes: u64,
}

/// EXTENDED COPY (LID1) and (LID4)
pub(crate) fn extended_copy(request: Request<'_>) -> Result<Flow, Fault> {
    let bytes = request.data.to_bytes();
    if bytes.is_empty() {
        return Ok(Flow::good());
    }
    let description = Description::parse(format(request.row.action), &bytes)?;
    let operation = Operations::begin(request.path, description.list_id, request.row.action)?;
    let plan = match Plan::make(&request, &description) {
        Ok(plan) => plan,
        Err(fault) if description.immediate => {
            operation.refuse(fault);
            return Ok(Flow::good());
        }
        Err(fault) => return Err(operation.refuse(fault)),
    };
    let (path, notes) = (request.path.clone(), request.notes);
    let work = async move {
        let (segments, bytes) = (plan.segments.len(), plan.bytes);
        let end = plan.run(&path.unit, notes).await.map(|shared| {
            path.recorder.copied(shared, bytes - shared);
            Done { segments, transferred: Transferred::Bytes(bytes), ..Done::default() }
        });
        (end, Transferred::default())
    };
    Ok(operation.run(work, description.immediate))
}

fn format(action: Option<u8>) -> list::Format {
    if action == Some(0x01) { list::Format::Lid4 } else { list::Format::Lid1 }
}

/// Bytes that a parameter list names; errors in it are found later.
pub(crate) fn amount(action: Option<u8>, data: &Data, block_bytes: u32) -> u64 {
    let description = Description::parse(format(action), &data.to_bytes());
    let segments = description.iter().flat_map(|description| &description.segments);
    segments.map(|segment| segment.bytes(block_bytes.into())).sum()
}

/// RECEIVE COPY RESULTS (copy status, operating parameters, failed segment details) and RECEIVE COPY STATUS (LID4)
pub(crate) fn receive_copy_results(request: Request<'_>) -> Result<Flow, Fault> {
    let (operations, list_id) = (&request.path.copies, request.cdb.u8(2));
    match request.row.action {
        Some(0x03) => Ok(Flow::data(operating_parameters())),
        Some(0x00) => operations.status(list_id).map(Flow::data),
        Some(0x05) => operations.long_status(request.cdb.u32(2), false).map(Flow::data),
        _ => operations.failed_segment(list_id).map(Flow::data),
    }
}

/// COPY OPERATION ABORT
pub(crate) fn abort(request: Request<'_>) -> Result<Flow, Fault> {
    request.path.copies.abort(request.cdb.u32(2)).map(|()| Flow::good())
}

impl Plan {
    /// Finds the disks of all segments and checks them, their runs and their reservations.
    fn make(request: &Request<'_>, description: &Description) -> Result<Plan, Fault> {
        let cscds: Vec<Option<Arc<Path>>> =
            description.cscds.iter().map(|cscd| resolve(cscd, request)).collect();
        let find = |id: u16| match id {
            list::RECEIVER => Some(request.path),
            id => cscds.get(usize::from(id)).and_then(Option::as_ref),
        };
        let mut plan = Plan { segments: Vec::new(), units: Vec::new(), entries: Vec::new(), bytes: 0 };
        let mut roles = BTreeMap::new();
        for (number, segment) in description.segments.iter().enumerate() {
            let unreachable = |byte| Fault::in_segment(Code::COPY_CSCD_UNREACHABLE, number, byte);
            let source = find(segment.source).ok_or(unreachable(4))?;
            let target = find(segment.target).ok_or(unreachable(6))?;
            let copy = plan.segment(number, segment, source, target)?;
            roles.entry(copy.source).or_insert((source, false));
            roles.entry(copy.target).and_modify(|role| role.1 = true).or_insert((target, true));
            plan.units.extend([source.unit.clone(), target.unit.clone()]);
            plan.segments.push(copy);
        }
        for (path, written) in roles.into_values() {
            plan.entries.push(admit(path, written)?);
        }
        Ok(plan)
    }

    /// One segment in terms of disks.
    fn segment(
        &mut self,
        number: usize,
        segment: &Segment,
        source: &Path,
        target: &Path,
    ) -> Result<CopySegment, Fault> {
        let wrong = |byte| Fault::in_segment(Code::COPY_ABORTED, number, byte);
        let block = u64::from(source.unit.block_bytes);
        if source.unit.block_bytes != target.unit.block_bytes {
            return Err(Fault::in_segment(Code::COPY_DEVICE_TYPE, number, 6));
        }
        let bytes = segment.bytes(block);
        if bytes > MAX_SEGMENT_BYTES {
            return Err(wrong(8));
        }
        let blocks = segment.blocks(block).ok_or(wrong(8))?;
        let fits = |path: &Path, lba| {
            Extent::new(lba, blocks).end().is_some_and(|end| end <= path.unit.geometry().blocks)
        };
        if !fits(source, segment.source_lba) {
            return Err(wrong(12));
        }
        if !fits(target, segment.target_lba) {
            return Err(wrong(20));
        }
        self.bytes += bytes;
        Ok(CopySegment {
            source: source.unit.id,
            source_lba: segment.source_lba,
            target: target.unit.id,
            target_lba: segment.target_lba,
            blocks,
        })
    }

    /// Copies: as one operation of the disk, or by reading and writing if the disk does not reach the other one.
    /// Returns the number of bytes that were copied by sharing stored data.
    async fn run(self, unit: &Unit, notes: Notes) -> Result<u64, Fault> {
        if self.segments.is_empty() {
            return Ok(0);
        }
        let volumes: Vec<_> = self.units.iter().map(|unit| unit.volume.clone()).collect();
        let disks: Vec<_> = volumes.iter().map(|volume| volume.disk().clone()).collect();
        let grants = export::grant_copy(&self.segments, &disks, &volumes).await?;
        let copy = Op::Copy(self.segments.clone());
        match unit.volume.disk().execute_with(copy, notes.whole()).await {
            Ok(_) => Ok(self.shared()),
            Err(Error::Unreachable(_)) => {
                drop(grants); // each write is granted its own
                self.move_data(notes).await.map(|()| 0)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Bytes that are copied by sharing.
    fn shared(&self) -> u64 {
        let shared = |segment: &CopySegment| {
            let unit = self.units.iter().find(|unit| unit.id == segment.target)?;
            Some(export::copied_by_sharing(segment, unit.block_bytes))
        };
        self.segments.iter().filter_map(shared).sum()
    }

    /// Reads and writes in chunks, segment after segment.
    async fn move_data(&self, notes: Notes) -> Result<(), Fault> {
        for (number, segment) in self.segments.iter().enumerate() {
            let unit = |id| self.units.iter().find(|unit| unit.id == id);
            let (Some(source), Some(target)) = (unit(segment.source), unit(segment.target)) else {
                return Err(Code::COPY_DEVICE_UNREACHABLE.into());
            };
            let step = CHUNK_BYTES / u64::from(source.block_bytes);
            // An overlap is copied backwards, with the effect of reading the whole source first.
            let backwards = segment.source == segment.target && segment.source_lba < segment.target_lba;
            let mut done = 0;
            while done < segment.blocks {
                let blocks = step.min(segment.blocks - done);
                let at = if backwards { segment.blocks - done - blocks } else { done };
                let data = read_blocks(source, Extent::new(segment.source_lba + at, blocks)).await?;
                done += blocks;
                let last = number + 1 == self.segments.len() && done == segment.blocks;
                let write = Op::Write { lba: segment.target_lba + at, data };
                target.volume.perform_with(write, notes.step(last)).await?;
            }
        }
        Ok(())
    }
}

/// The path that a descriptor names, among those of the sender.
fn resolve(cscd: &Cscd, request: &Request<'_>) -> Option<Arc<Path>> {
    let name = cscd.naa?;
    request.peers.values().find(|path| crate::encoding::identity::naa_bytes(path.unit.id) == name).cloned()
}

/// Enters the task set of a source or destination unit, if its reservations and its write protection allow it.
fn admit(path: &Arc<Path>, written: bool) -> Result<TaskSetEntry, Fault> {
    let (entry, flags) = path.enter_task_set(Class::Media);
    // Waiting here for one unit while in the task set of another could deadlock.
    if !entry.may_dispatch() {
        return Err(Fault::Status(Status::Busy));
    }
    if flags.reserved() && path.unit.lock().reservations.refuses_use(path, written) {
        return Err(Code::COPY_DEVICE_FAILED.into());
    }
    match (flags.protected() && written).then(|| path.protection(Effect::Medium)).flatten() {
        Some(code) => Err(code.into()),
        None => Ok(entry),
    }
}

/// RECEIVE COPY RESULTS, OPERATING PARAMETERS (SPC-4 6.24.4)
fn operating_parameters() -> Vec<u8> {
    let mut out = vec![0; 44];
    out[4] = 0x01; // SNLID: a list needs no identifier
    out[8..10].copy_from_slice(&(MAX_CSCDS as u16).to_be_bytes());
    out[10..12].copy_from_slice(&(MAX_SEGMENTS as u16).to_be_bytes());
    out[12..16].copy_from_slice(&(MAX_DESCRIPTOR_BYTES as u32).to_be_bytes());
    out[16..20].copy_from_slice(&(MAX_SEGMENT_BYTES as u32).to_be_bytes());
    out[34..36].copy_from_slice(&u16::from(MAX_COPIES).to_be_bytes());
    out[36] = MAX_COPIES;
    out[37] = GRANULARITY;
    out[43] = list::DESCRIPTORS.len() as u8;
    out.extend_from_slice(&list::DESCRIPTORS);
    let available = out.len() as u32 - 4;
    out[..4].copy_from_slice(&available.to_be_bytes());
    out
}

/// Segments are multiples of 2^9 bytes.
const GRANULARITY: u8 = 9;
