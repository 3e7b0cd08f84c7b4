//! Log appender: the free segments, the open streams and the writer of the log.
//!
//! Flushing, cleaning and checkpoints borrow it in turn. They share it because a segment is allocated once, and because
//! every byte that is written earns hosts credit, whatever it is written for.

use crate::backpressure::{CreditMeter, Work};
use crate::core::Core;
use crate::error::failed;
use crate::frame::ObjectKind;
use crate::log::{Segments, Stream, Writer};
use crate::log_writes::LogWrites;
use crate::space::Location;
use bytes::Bytes;
use shelf::{Room, SegmentId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The free segments, and the share of them that the current stream may take.
struct SegmentPool {
    free: BTreeSet<u32>,
    /// For each segment, the value of `clock` when it was last allocated.
    allocated_at: Vec<u64>,
    /// Segments allocated so far.
    clock: u64,
    /// Free segments that the current stream has to leave.
    reserve: usize,
    /// The current stream may take segments that reduce the redundancy of others.
    reduced_redundancy: bool,
}

impl SegmentPool {
    /// Segments that the current stream can write: free ones for which drives have room.
    fn writable(&self, room: Room) -> usize {
        self.within(if self.reduced_redundancy { room.any } else { room.protected })
    }

    /// Free segments, `room` at most.
    fn within(&self, room: u32) -> usize {
        self.free.len().min(room as usize)
    }
}

impl Segments for SegmentPool {
    fn allocate(&mut self, room: Room) -> Option<u32> {
        if self.writable(room) <= self.reserve {
            return None;
        }
        let segment = self.free.pop_first()?;
        self.clock += 1;
        self.allocated_at[segment as usize] = self.clock;
        Some(segment)
    }
}

/// The places where the log grows: objects of about the same lifetime go to the same segments.
#[derive(Default)]
struct Streams {
    /// Frames as they are flushed.
    data: Stream,
    /// Frames that cleaning or recompression wrote again: they have lived long and will live on.
    moved: Stream,
    /// Pages of maps and of the frame table.
    pages: Stream,
    /// Page indexes, catalogs and roots: the next checkpoint writes most of them again.
    roots: Stream,
}

/// The one writer of the log.
pub struct Appender {
    core: Arc<Core>,
    writer: Writer,
    streams: Streams,
    pool: SegmentPool,
    written: LogWrites,
    credit: CreditMeter,
    /// Nothing can be reclaimed: data of hosts may reduce redundancy until there is room again.
    reduced_redundancy: bool,
}

impl Appender {
    /// An appender to the segments in which nothing is live.
    pub fn new(core: Arc<Core>) -> Self {
        let state = core.state.read();
        let segments = state.maps.usage.segments();
        let free = (0..).zip(segments).filter(|(_, live)| live.total() == 0).map(|(segment, _)| segment);
        let pool = SegmentPool {
            free: free.collect(),
            allocated_at: vec![0; segments.len()],
            clock: 0,
            reserve: 0,
            reduced_redundancy: true,
        };
        drop(state);
        Self {
            writer: Writer::new(core.log.clone(), core.options.tunables.stripes_in_flight),
            streams: Streams::default(),
            pool,
            written: LogWrites::default(),
            credit: CreditMeter::default(),
            reduced_redundancy: false,
            core,
        }
    }

    /// Keeps only the free segments that another appender has free too, and discards them.
    pub fn restrict_to(&mut self, other: &Self) {
        self.pool.free.retain(|segment| other.pool.free.contains(segment));
        self.discard_unused();
    }

    /// Discards all free segments. This is due after recovery: data written to them after the last checkpoint has no
    /// references, and of the segments that this checkpoint freed the drives may or may not have discarded some.
    pub fn discard_unused(&self) {
        self.pool.free.iter().for_each(|segment| self.core.log.shelf().discard(SegmentId(*segment)));
    }

    /// Takes segments that the shelf has got since, and returns whether there are any.
    pub fn grow(&mut self, segments: u32) -> bool {
        let known = self.pool.allocated_at.len() as u32;
        self.pool.free.extend(known..segments);
        self.pool.allocated_at.resize(known.max(segments) as usize, 0);
        segments > known
    }

    /// Data of hosts, or recompressed, follow: they leave a reserve to cleaning and checkpoints.
    pub fn begin_data(&mut self) {
        (self.pool.reserve, self.pool.reduced_redundancy) =
            (self.core.reserved_from_data(), self.reduced_redundancy);
    }

    /// Cleaning follows: it leaves a reserve to checkpoints, and may reduce redundancy, as it frees segments.
    pub fn begin_cleaning(&mut self) {
        (self.pool.reserve, self.pool.reduced_redundancy) = (self.core.reserved_for_checkpoints(), true);
    }

    /// A checkpoint follows, which may use every segment.
    pub fn begin_checkpoint(&mut self) {
        (self.pool.reserve, self.pool.reduced_redundancy) = (0, true);
    }

    /// Lets data of hosts reduce redundancy, now that nothing can be reclaimed; false if that gives no more room.
    pub fn allow_reduced_redundancy(&mut self) -> bool {
        let Room { protected, any } = self.core.log.shelf().room();
        let more = !self.reduced_redundancy && self.pool.within(any) > self.pool.within(protected);
        self.reduced_redundancy |= more;
        more
    }

    /// Ends [`Appender::allow_reduced_redundancy`].
    pub fn require_full_redundancy(&mut self) {
        self.reduced_redundancy = false;
    }

    /// Appends a frame of flushed data; `None` if there is no room.
    pub async fn append_data(&mut self, object: Bytes) -> block::Result<Option<Location>> {
        let appended = self.writer.append(&mut self.streams.data, &mut self.pool, object).await;
        let location = appended.map_err(failed)?.ok();
        self.written.data += location.map_or(0, |location| u64::from(location.len));
        Ok(location)
    }

    /// Appends a frame again; `None` if there is no room.
    pub async fn append_moved(&mut self, object: Bytes) -> block::Result<Option<Location>> {
        let appended = self.writer.append(&mut self.streams.moved, &mut self.pool, object).await;
        let location = appended.map_err(failed)?.ok();
        self.written.moved += location.map_or(0, |location| u64::from(location.len));
        Ok(location)
    }

    /// Appends an object of the deduplication index; `None` if there is no room.
    pub async fn append_index(&mut self, object: Bytes) -> block::Result<Option<Location>> {
        let len = object.len() as u64;
        let appended = self.writer.append(&mut self.streams.pages, &mut self.pool, object).await;
        let location = appended.map_err(failed)?.ok();
        self.written.metadata(ObjectKind::Index, location.map_or(0, |_| len));
        Ok(location)
    }

    /// Appends an object of a checkpoint.
    ///
    /// # Errors
    /// If no segment is free: the reserve has to prevent that.
    pub async fn append_metadata(&mut self, kind: ObjectKind, object: Bytes) -> block::Result<Location> {
        let stream = match kind {
            ObjectKind::Map | ObjectKind::Table => &mut self.streams.pages,
            _ => &mut self.streams.roots,
        };
        self.written.metadata(kind, object.len() as u64);
        let appended = self.writer.append(stream, &mut self.pool, object).await;
        let full = |_| block::Error::Stopped("no segment is left for a checkpoint".into());
        appended.map_err(failed)?.map_err(full)
    }

    /// Writes all that the streams have gathered and waits for it.
    pub async fn flush(&mut self) -> block::Result<()> {
        let Streams { data, moved, pages, roots } = &mut self.streams;
        for stream in [data, moved, pages, roots] {
            self.writer.flush(stream).await.map_err(failed)?;
        }
        self.writer.finish().await.map_err(failed)
    }

    /// Segments that streams are writing to.
    pub fn open_segments(&self) -> Vec<u32> {
        let Streams { data, moved, pages, roots } = &self.streams;
        [data, moved, pages, roots].into_iter().filter_map(Writer::segment).collect()
    }

    /// Makes a segment free in which a checkpoint has left nothing live; false if it was free.
    pub fn free(&mut self, segment: u32) -> bool {
        let freed = self.pool.free.insert(segment);
        if freed {
            self.core.log.shelf().discard(SegmentId(segment));
        }
        freed
    }

    /// Segments with nothing live that are not free yet: the next checkpoint frees them, unless a stream has them open.
    pub fn emptied(&self) -> u32 {
        let empty = self.core.state.read().maps.usage.empty();
        empty.saturating_sub(self.pool.free.len() as u32)
    }

    /// Segments that are not free.
    pub fn used(&self) -> u32 {
        self.core.segments.total().saturating_sub(self.pool.free.len() as u32)
    }

    /// Whether a segment is free.
    pub fn is_free(&self, segment: u32) -> bool {
        self.pool.free.contains(&segment)
    }

    /// Bytes of free segments, whatever drives have room for, and of the ends of open ones.
    pub fn free_bytes(&self) -> u64 {
        let Streams { data, moved, pages, roots } = &self.streams;
        let ends: u64 = [data, moved, pages, roots].into_iter().map(|stream| self.writer.left(stream)).sum();
        self.pool.free.len() as u64 * u64::from(self.core.layout.segment_bytes) + ends
    }

    /// Segments that can be written without reducing the redundancy of any.
    pub fn protected_free_count(&self) -> usize {
        self.pool.within(self.core.log.shelf().room().protected)
    }

    /// Segments that the current stream can write.
    pub fn writable_count(&self) -> usize {
        self.pool.writable(self.core.log.shelf().room())
    }

    /// Number of segments with nothing live that a checkpoint would free.
    pub fn dead_count(&self) -> usize {
        let open = self.open_segments();
        let state = self.core.state.read();
        let used = (0..).zip(state.maps.usage.segments());
        used.filter(|(segment, live)| live.total() == 0 && !self.is_free(*segment) && !open.contains(segment))
            .count()
    }

    /// How many segments were allocated since this one was, itself included.
    pub fn age(&self, segment: u32) -> u64 {
        self.pool.clock - self.pool.allocated_at[segment as usize] + 1
    }

    /// Bytes of flushed data so far.
    pub fn data_bytes(&self) -> u64 {
        self.written.data
    }

    /// Bytes appended so far, without padding.
    pub fn appended_bytes(&self) -> u64 {
        self.written.total()
    }

    /// A checkpoint has ended.
    pub fn end_checkpoint(&mut self) {
        self.written.checkpoints += 1;
        let (work, _) = self.work();
        self.credit.end_cycle(work);
    }

    fn work(&self) -> (Work, u64) {
        let slots = &self.core.state.read().maps.slots;
        (Work { flushed: slots.progress(), written: self.written.total() }, slots.bytes() as u64)
    }

    /// Grants acknowledgements credit for the work done; all of them go on while little waits to be flushed, or nothing
    /// can be.
    pub fn grant_credit(&mut self) {
        let start = self.core.backpressure_start_bytes();
        let (work, waiting) = self.work();
        let tunables = &self.core.options.tunables;
        let quantum = tunables.credit_quantum_bytes.min(start / tunables.credit_quantum_divisor);
        self.core.throttle.credit.advance(self.credit.advance(work, quantum));
        self.core.throttle.credit.set_open(waiting <= start || self.core.throttle.is_full());
    }

    /// Publishes free space, credit and counters, and wakes operations that wait for room.
    pub fn publish_progress(&mut self) {
        self.core.set_free(self.pool.free.len() as u32);
        self.grant_credit();
        self.core.throttle.queue.freed();
        *self.core.log_writes.lock() = LogWrites { padding: self.writer.padding, ..self.written };
    }
}
