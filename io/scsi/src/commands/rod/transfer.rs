//! The transfer of WRITE USING TOKEN: from the ranges of a ROD to those of a unit, in operations of the disk.
//!
//! Where source and target have the same offset in their physical blocks, stored data is shared. Elsewhere it is moved, and
//! so much of it only that the command ends in time: the host gets to know how much was written, and asks for the rest.

use crate::encoding::block_limits::BlockLimits;
use crate::encoding::rods::{Found, Rod};
use crate::encoding::sense::{Code, Fault};
use crate::unit::command::Notes;
use crate::unit::path::Path;
use block::{CopySegment, Data, Disk, Error, Extent, Note, Op, Reply};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes that one operation shares: many where whole pages of the maps are shared, fewer where each block is entered.
const SHARED_BYTES: u64 = 256 << 20;
const SHARED_PAGES_BYTES: u64 = 4 << 30;

/// The distance at which pages of the maps begin.
const PAGE_BYTES: u64 = 2 << 20;

/// Bytes that one operation moves.
const MOVED_BYTES: u64 = 1 << 20;

/// Bytes that one command moves.
const MAX_MOVED_BYTES: u64 = 64 << 20;

/// How long one command may go on, in nanoseconds. Windows gives it four seconds.
const MAX_TIME_NS: u64 = 2_000_000_000;

/// What is to be written.
pub(super) struct Transfer {
    path: Arc<Path>,
    notes: Notes,
    /// Its source; zeros without one.
    image: Option<Arc<dyn Disk>>,
    /// What is left, in order.
    segments: VecDeque<CopySegment>,
    /// Blocks that were written, and of them those by sharing.
    done: u64,
    shared: u64,
    /// Blocks that may still be moved.
    movable: u64,
    /// The disk of the unit can copy from the image by itself.
    reaches: bool,
}

impl Transfer {
    pub(super) fn new(
        (path, notes): (Arc<Path>, Notes),
        found: &Found,
        offset: u64,
        ranges: &[Extent],
    ) -> Result<Transfer, Fault> {
        let unit = &path.unit;
        let segments = match found {
            Found::BlockZero => ranges.iter().map(|range| zeros(unit.id, *range)).collect(),
            Found::Rod(_, rod) => {
                if rod.image.geometry().block_bytes != unit.block_bytes {
                    return Err(Code::COPY_DEVICE_TYPE.into());
                }
                segments(rod, offset, unit.id, ranges)?
            }
        };
        let image = match found {
            Found::BlockZero => None,
            Found::Rod(_, rod) => Some(rod.image.clone()),
        };
        let movable = MAX_MOVED_BYTES / u64::from(unit.block_bytes);
        Ok(Transfer { path, notes, image, segments, done: 0, shared: 0, movable, reaches: true })
    }

    /// Writes. Returns whether less was written than asked for, and the number of blocks that were.
    pub(super) async fn run(mut self) -> (Result<bool, Fault>, u64) {
        let began = self.path.unit.clock.now();
        let end = loop {
            let late = self.path.unit.clock.now().saturating_sub(began) > MAX_TIME_NS;
            match self.segments.pop_front() {
                None => break Ok(false),
                Some(_) if late => break Ok(true),
                Some(segment) if segment.blocks == 0 => {}
                Some(segment) => match self.write(segment).await {
                    Ok(true) => {}
                    Ok(false) => break Ok(true),
                    Err(fault) => break Err(fault),
                },
            }
        };
        if self.image.is_some() {
            let bytes = |blocks: u64| blocks * u64::from(self.path.unit.block_bytes);
            self.path.recorder.copied(bytes(self.shared), bytes(self.done - self.shared));
        }
        (end, self.done)
    }

    /// Writes the beginning of a segment and puts the rest back; false if the command may not move any more.
    async fn write(&mut self, segment: CopySegment) -> Result<bool, Fault> {
        let Some(image) = self.image.clone() else {
            let extent = Extent::new(segment.target_lba, segment.blocks);
            let block = Data::from(vec![0; self.path.unit.block_bytes as usize]);
            let note = self.notes.step(self.segments.is_empty());
            self.path.unit.volume.perform_with(Op::Fill { extent, block }, note).await?;
            self.done += segment.blocks;
            return Ok(true);
        };
        let shares = self.reaches && self.is_shared(&segment);
        let most = if shares { self.shared_blocks(&segment) } else { self.moved_blocks() };
        if most == 0 {
            return Ok(false);
        }
        let first = CopySegment { blocks: segment.blocks.min(most), ..segment };
        let note = self.notes.step(self.segments.is_empty() && first.blocks == segment.blocks);
        let copied = match self.reaches {
            true => self.copy(&image, first, note).await,
            false => self.read_and_write(&image, first, note).await,
        };
        match copied {
            Err(Error::Unreachable(_)) if self.reaches => {
                self.reaches = false;
                self.segments.push_front(segment);
                return Ok(true);
            }
            end => end?,
        }
        self.done += first.blocks;
        match shares {
            true => self.shared += first.blocks,
            false => self.movable -= first.blocks,
        }
        let (source_lba, target_lba) = (segment.source_lba + first.blocks, segment.target_lba + first.blocks);
        let blocks = segment.blocks - first.blocks;
        self.segments.push_front(CopySegment { source_lba, target_lba, blocks, ..segment });
        Ok(true)
    }

    async fn copy(
        &self,
        image: &Arc<dyn Disk>,
        segment: CopySegment,
        note: Option<Note>,
    ) -> Result<(), Error> {
        let volume = &self.path.unit.volume;
        let (sources, targets) = (std::slice::from_ref(image), std::slice::from_ref(volume));
        let _grants = export::grant_copy(&[segment], sources, targets).await?;
        volume.disk().execute_with(Op::Copy(vec![segment]), note).await.map(drop)
    }

    async fn read_and_write(
        &self,
        image: &Arc<dyn Disk>,
        segment: CopySegment,
        note: Option<Note>,
    ) -> Result<(), Error> {
        let read = image.execute(Op::Read(Extent::new(segment.source_lba, segment.blocks))).await?;
        let Reply::Data(data) = read else { return Err(Error::Malformed("a read returned no data")) };
        let write = Op::Write { lba: segment.target_lba, data };
        self.path.unit.volume.perform_with(write, note).await.map(drop)
    }

    /// Whether most of a segment is shared.
    fn is_shared(&self, segment: &CopySegment) -> bool {
        let granularity = u64::from(BlockLimits::of(self.path.unit.block_bytes).granularity);
        segment.source_lba % granularity == segment.target_lba % granularity
    }

    fn shared_blocks(&self, segment: &CopySegment) -> u64 {
        let (page, block) = (PAGE_BYTES, u64::from(self.path.unit.block_bytes));
        let alike = segment.source_lba % (page / block) == segment.target_lba % (page / block);
        (if alike { SHARED_PAGES_BYTES } else { SHARED_BYTES }) / block
    }

    fn moved_blocks(&self) -> u64 {
        (MOVED_BYTES / u64::from(self.path.unit.block_bytes)).min(self.movable)
    }
}

fn zeros(target: block::DiskId, range: Extent) -> CopySegment {
    CopySegment { source: target, source_lba: 0, target, target_lba: range.lba, blocks: range.blocks }
}

/// The segments from a ROD, from `offset` blocks on, to ranges of a disk.
fn segments(
    rod: &Rod,
    offset: u64,
    target: block::DiskId,
    ranges: &[Extent],
) -> Result<VecDeque<CopySegment>, Fault> {
    let wanted: u64 = ranges.iter().map(|range| range.blocks).sum();
    // More than the token stands for: nothing is written.
    if offset.checked_add(wanted).is_none_or(|end| end > rod.blocks()) {
        return Err(Fault::list_byte(8));
    }
    let mut segments = VecDeque::new();
    let mut sources = rod.ranges.iter().copied().collect::<VecDeque<_>>();
    skip(&mut sources, offset);
    for range in ranges {
        let mut done = 0;
        while done < range.blocks {
            let Some(source) = sources.front().copied() else { return Err(Fault::list_byte(8)) };
            let blocks = source.blocks.min(range.blocks - done);
            segments.push_back(CopySegment {
                source: rod.image.id(),
                source_lba: source.lba,
                target,
                target_lba: range.lba + done,
                blocks,
            });
            skip(&mut sources, blocks);
            done += blocks;
        }
    }
    Ok(segments)
}

/// Removes the first `blocks` blocks of ranges, and empty ones after them.
fn skip(ranges: &mut VecDeque<Extent>, mut blocks: u64) {
    while let Some(first) = ranges.front_mut() {
        let part = first.blocks.min(blocks);
        (first.lba, first.blocks, blocks) = (first.lba + part, first.blocks - part, blocks - part);
        if first.blocks > 0 {
            return;
        }
        ranges.pop_front();
    }
}
