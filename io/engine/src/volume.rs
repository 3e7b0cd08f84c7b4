//! Volume: the spine of every operation. What is aligned and in memory is done before `execute` returns; what has to
//! wait for a device, for durability or for room is done by the returned future.

use crate::builder::{ChangeBuilder, each_block};
use crate::capacity::disk_space;
use crate::catalog::VolumeState;
use crate::change::{Change, MAX_CHANGE_PAGES};
use crate::core::Core;
use crate::entry::BLOCK;
use crate::handle::Handle;
use crate::map::Seen;
use crate::read::{Blocked, Fetched, Observed};
use crate::record::Mutation;
use crate::root::NOTING_VERSION;
use crate::span::Span;
use crate::staged_copy::CloneIds;
use block::{
    CopySegment, Data, Disk, DiskId, Error, Extent, Geometry, Note, Op, Pending, Provisioning, Region, Reply,
    Result, Space,
};
use bytes::Bytes;
use std::sync::Arc;

/// A volume of the engine.
pub struct Volume {
    id: DiskId,
    handle: Handle,
}

/// An image of a volume. The background deletes the clone after the last reference to this was dropped.
struct HiddenImage {
    volume: Volume,
    _ids: CloneIds,
}

/// Bytes that one operation writes at most.
const MAX_WRITE_BYTES: usize = MAX_CHANGE_PAGES * BLOCK / 2;

/// Bytes of a saved state at most.
const MAX_SAVED_STATE_BYTES: usize = 64 << 10;

impl Volume {
    pub(crate) fn new(core: Arc<Core>, number: u32, id: DiskId) -> Self {
        // A volume that is gone already refuses everything.
        let block_bytes = core.state.read().volume(number).map_or(512, |volume| volume.geometry.block_bytes);
        Self { id, handle: Handle { core, number, block_bytes, note: None } }
    }

    pub(crate) fn number(&self) -> u32 {
        self.handle.number
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    fn look_up<T>(&self, look: impl FnOnce(&VolumeState) -> T) -> Option<T> {
        self.handle.core.state.read().volume(self.handle.number).ok().map(look)
    }
}

impl Disk for Volume {
    fn id(&self) -> DiskId {
        self.id
    }

    fn geometry(&self) -> Geometry {
        let gone = Geometry { block_bytes: 512, blocks: 0 };
        self.look_up(|volume| volume.geometry).unwrap_or(gone)
    }

    fn space(&self) -> Space {
        let core = &self.handle.core;
        let state = core.state.read();
        let mapped = state.volume(self.handle.number).map_or(0, |volume| disk_space(&state, volume).mapped);
        let total = core.total_bytes();
        Space { mapped, pool_used: total - core.free_bytes(&state), pool_total: total }
    }

    fn state(&self) -> Bytes {
        self.look_up(|volume| volume.saved.clone()).unwrap_or_default()
    }

    fn is_read_only(&self) -> bool {
        self.look_up(|volume| volume.read_only).unwrap_or_default()
    }

    fn execute(&self, op: Op) -> Pending {
        self.handle.execute(op).unwrap_or_else(|error| self.handle.refuse(error))
    }

    fn execute_noted(&self, op: Op, note: Note) -> Pending {
        assert!(self.handle.core.format.active() >= NOTING_VERSION, "the format holds notes");
        let handle = Handle { note: Some(note), ..self.handle.clone() };
        handle.execute(op).unwrap_or_else(|error| handle.refuse(error))
    }
}

impl Disk for HiddenImage {
    fn id(&self) -> DiskId {
        self.volume.id
    }

    fn geometry(&self) -> Geometry {
        self.volume.geometry()
    }

    fn space(&self) -> Space {
        self.volume.space()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn state(&self) -> Bytes {
        Bytes::new()
    }

    fn execute(&self, op: Op) -> Pending {
        self.volume.execute(op)
    }
}

impl Handle {
    fn execute(&self, op: Op) -> Result<Pending> {
        let op = match op {
            Op::Write { lba, data } => match self.aligned(lba, &data) {
                Some(span) => return Ok(self.submit(self.write(span, &data))),
                None => Op::Write { lba, data },
            },
            op => op,
        };
        if op.is_change() {
            self.core.state.read().writable(self.number)?;
        }
        match op {
            Op::Read(extent) => self.read(extent),
            Op::Locate(extent) => self.locate(extent),
            Op::Status(extent) => self.status(extent),
            Op::Flush => match self.core.journal.stopped() {
                Some(why) => Err(Error::Stopped(why)),
                // Every change was durable when it was acknowledged.
                None => Ok(Pending::done()),
            },
            Op::Write { lba, data } => {
                let span = self.span_of(lba, &data)?;
                Ok(self.later(move |volume| volume.write_edges(span, data)))
            }
            Op::Fill { extent, block } => self.fill(extent, block),
            Op::Unmap(extents) => self.unmap(extents),
            Op::CompareAndWrite { lba, compare, write } => {
                if compare.len() != write.len() {
                    return Err(Error::Malformed("compare and write of different lengths"));
                }
                let span = self.span_of(lba, &compare)?;
                Ok(self.later(move |volume| volume.compare_and_write(span, compare, write)))
            }
            Op::Or { lba, data } => {
                let span = self.span_of(lba, &data)?;
                Ok(self.later(move |volume| volume.or(span, data)))
            }
            Op::Copy(segments) => self.copy(segments),
            Op::Image => Ok(self.later(|source| {
                let core = source.core.clone();
                crate::image::make(source, move |number, ids| {
                    Arc::new(HiddenImage { volume: Volume::new(core, number, ids.ids()[0]), _ids: ids })
                })
            })),
            Op::SaveState(state) if state.len() > MAX_SAVED_STATE_BYTES => {
                Err(Error::Malformed("a state of more than 64 KiB"))
            }
            Op::SaveState(state) => {
                let volume = self.number;
                Ok(self.submit(Change::of(Mutation::SaveState { volume, state })))
            }
        }
    }

    /// Where a write of whole 4 KiB blocks goes. The change checks, under the one lock that it needs, whether the
    /// volume has and takes them.
    fn aligned(&self, lba: u64, data: &Data) -> Option<Span> {
        let from = lba.checked_mul(u64::from(self.block_bytes))?;
        let span = Span { from, to: from.checked_add(data.len() as u64)? };
        (span.is_aligned() && span.len() > 0 && data.len() <= MAX_WRITE_BYTES).then_some(span)
    }

    fn span_of(&self, lba: u64, data: &Data) -> Result<Span> {
        let each = self.geometry()?.block_bytes as usize;
        if !data.len().is_multiple_of(each) {
            return Err(Error::Malformed("data is not a whole number of blocks"));
        }
        if data.len() > MAX_WRITE_BYTES {
            return Err(Error::Malformed("more than 128 MiB in one operation"));
        }
        self.span(Extent::new(lba, (data.len() / each) as u64))
    }

    fn write(&self, span: Span, data: &Data) -> Change {
        let (first, count) = span.blocks();
        let mut builder = ChangeBuilder::of(self.number, span, count as usize);
        let mut block = first;
        each_block(data, 0, data.len(), |bytes| {
            builder.block(self.number, block, bytes);
            block += 1;
        });
        builder.finish()
    }

    fn fill(&self, extent: Extent, block: Data) -> Result<Pending> {
        let span = self.span(extent)?;
        if block.len() != self.geometry()?.block_bytes as usize {
            return Err(Error::Malformed("fill takes exactly one block"));
        }
        if !span.is_aligned() {
            return Ok(self.later(move |volume| volume.fill_edges(span, block)));
        }
        let (first, count) = span.blocks();
        let mut builder = ChangeBuilder::of(self.number, span, 1);
        builder.same(self.number, first, count, &block.to_bytes().repeat(BLOCK / block.len()));
        Ok(self.submit(builder.finish()))
    }

    fn unmap(&self, extents: Vec<Extent>) -> Result<Pending> {
        let mut spans = extents.iter().map(|extent| self.span(*extent)).collect::<Result<Vec<_>>>()?;
        spans.sort_unstable_by_key(|span| span.from);
        spans.dedup_by(|next, last| {
            let joins = next.from <= last.to;
            if joins {
                last.to = last.to.max(next.to);
            }
            joins
        });
        if !spans.iter().all(|span| span.is_aligned()) {
            return Ok(self.later(move |volume| volume.unmap_edges(spans)));
        }
        let mut builder = ChangeBuilder::new(0);
        for span in spans {
            let (first, count) = span.blocks();
            builder.writes(self.number, span);
            builder.hole(self.number, first, count, false);
        }
        Ok(self.submit(builder.finish()))
    }

    fn copy(&self, segments: Vec<CopySegment>) -> Result<Pending> {
        let mut copies = Vec::with_capacity(segments.len());
        let mut covers = Vec::with_capacity(2 * segments.len());
        for segment in segments.iter() {
            let [source, target] = [segment.source, segment.target].map(|id| {
                let state = self.core.state.read();
                let number = state.catalog.number(id).ok_or(Error::Unreachable(id))?;
                let block_bytes = state.volume(number)?.geometry.block_bytes;
                Ok(Handle { core: self.core.clone(), number, block_bytes, note: None })
            });
            let (source, target) = (source?, target?);
            self.core.state.read().writable(target.number)?;
            let from = source.span(Extent::new(segment.source_lba, segment.blocks))?;
            let to = target.span(Extent::new(segment.target_lba, segment.blocks))?;
            if source.geometry()?.block_bytes != target.geometry()?.block_bytes {
                return Err(Error::Malformed("copy between different block lengths"));
            }
            let copy = crate::copy::Copy { source, from, target, to };
            // A segment of no blocks copies nothing, but it must lie within its volumes like any other when the list
            // takes effect: they may shrink until then.
            covers.extend(copy.covers());
            if segment.blocks > 0 {
                copies.push(copy);
            }
        }
        if !copies.iter().all(|copy| copy.from.is_aligned() && copy.to.is_aligned()) {
            return Ok(self.later(move |volume| crate::staged_copy::copy_edges(volume, copies, covers)));
        }
        let mut builder = ChangeBuilder::new(0);
        builder.covers.extend(covers);
        for copy in &copies {
            builder.mutation(copy.mutation(copy.from, copy.to));
        }
        Ok(self.submit(builder.finish()))
    }

    /// See [`Op::Read`].
    pub(crate) fn read(&self, extent: Extent) -> Result<Pending> {
        self.core.activity.note_read();
        let seen = self.look(extent, &Fetched::default());
        self.read_ahead(extent, &seen);
        let mut seen = match seen {
            Ok(seen) if seen.batch <= self.core.journal.durable() => {
                return Ok(Pending::ready(Ok(Reply::Data(seen.what))));
            }
            Err(Blocked::Error(error)) => return Err(error),
            seen => seen,
        };
        Ok(self.later(move |volume| async move {
            let mut fetched = Fetched::default();
            loop {
                match seen {
                    Ok(seen) => return volume.core.durable(seen).await.map(Reply::Data),
                    Err(blocked) => volume.core.unblock(blocked, &mut fetched).await.map_err(|error| {
                        volume.in_blocks(error, extent.lba * u64::from(volume.block_bytes))
                    })?,
                }
                seen = volume.look(extent, &fetched);
                volume.read_ahead(extent, &seen);
            }
        }))
    }

    /// Reads ahead of a host if what it found of these blocks says so.
    fn read_ahead<T>(&self, extent: Extent, seen: &std::result::Result<Observed<T>, Blocked>) {
        let at_mark = match seen {
            Ok(Observed { marked: true, .. }) => true,
            Err(Blocked::Frames(_, marked)) => *marked,
            _ => return,
        };
        let each = u64::from(self.block_bytes);
        let span = Span { from: extent.lba * each, to: (extent.lba + extent.blocks) * each };
        let (first, count) = span.blocks();
        self.core.read_ahead(self.number, first..first + count, at_mark);
    }

    /// The content of blocks, under one lock.
    fn look(&self, extent: Extent, fetched: &Fetched) -> std::result::Result<Observed<Data>, Blocked> {
        let state = self.core.state.read();
        let span = Span::of(state.volume(self.number)?.geometry, extent)?;
        if span.len() == 0 {
            return Ok(Observed { what: Data::new(), batch: 0, marked: false });
        }
        let seen = self.core.look_in(&state, self.number, span, fetched, None)?;
        if span.is_aligned() {
            return Ok(seen);
        }
        let skip = (span.from % BLOCK as u64) as usize;
        Ok(Observed { what: seen.what.slice(skip, skip + span.len() as usize), ..seen })
    }

    fn status(&self, extent: Extent) -> Result<Pending> {
        let span = self.span(extent)?;
        if span.len() == 0 {
            return Ok(Pending::ready(Ok(Reply::Status(Vec::new()))));
        }
        Ok(self.later(move |volume| async move {
            loop {
                match volume.regions(span) {
                    Ok(seen) => return volume.core.durable(seen).await.map(Reply::Status),
                    Err(blocked) => volume.core.unblock(blocked, &mut Fetched::default()).await?,
                }
            }
        }))
    }

    fn regions(&self, span: Span) -> std::result::Result<Observed<Vec<Region>>, Blocked> {
        let state = self.core.state.read();
        let volume = state.volume(self.number)?;
        let mut regions: Vec<Region> = Vec::new();
        let mut batch = volume.changed;
        let (first, count) = span.blocks();
        span.check(volume.geometry)?;
        let each = u64::from(volume.geometry.block_bytes);
        let mut at = span.from;
        let mut add = |mapped: bool, count: u64| {
            let end = (at / BLOCK as u64 + count).saturating_mul(BLOCK as u64).min(span.to);
            let state = if mapped { Provisioning::Mapped } else { Provisioning::Deallocated };
            let blocks = (end - at) / each;
            match regions.last_mut() {
                Some(last) if last.state == state => last.extent.blocks += blocks,
                _ => regions.push(Region { extent: Extent::new(at / each, blocks), state }),
            }
            at = end;
        };
        if count > 0 {
            state.maps.scan(volume.tree, first, first + count, &mut |seen| match seen {
                Seen::Hole(hole, count) => add(hole.is_mapped(), count),
                Seen::Blocks(entries) => entries.iter().for_each(|entry| {
                    if let crate::entry::Kind::Slot(slot) = entry.kind() {
                        batch = batch.max(slot.batch);
                    }
                    add(entry.is_mapped(), 1);
                }),
            })?;
        }
        Ok(Observed { what: regions, batch, marked: false })
    }
}
