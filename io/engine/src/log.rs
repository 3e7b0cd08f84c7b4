//! Log: reads and writes objects in segments. Objects are packed byte by byte into stripes; an object that was
//! appended but not written yet is read from memory.

use crate::space::Location;
use bytes::Bytes;
use parking_lot::RwLock;
use shelf::{AlignedBuf, Layout, Room, SegmentId, Shelf, Wait, wait};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// The log as readers see it.
pub struct Log {
    shelf: Arc<dyn Shelf>,
    placed: RwLock<BTreeMap<(u32, u32), Bytes>>,
}

impl Log {
    /// The log of a shelf.
    pub fn new(shelf: Arc<dyn Shelf>) -> Self {
        Self { shelf, placed: RwLock::default() }
    }

    /// Reads an object. Its bytes are not verified.
    pub async fn read(&self, location: Location) -> shelf::Result<Bytes> {
        self.read_part(location, 0..location.len as usize).await
    }

    /// Reads some bytes of an object. They are not verified.
    pub async fn read_part(&self, location: Location, part: Range<usize>) -> shelf::Result<Bytes> {
        assert!(part.end <= location.len as usize, "a part of the object");
        let placed = self.placed.read().get(&(location.segment, location.offset)).cloned();
        if let Some(object) = placed.filter(|object| object.len() == location.len as usize) {
            return Ok(object.slice(part));
        }
        let (done, read) = wait();
        self.shelf.read(location.segment(), location.offset + part.start as u32, part.len() as u32, done);
        read.await
    }

    /// Whether an object is read from memory, because it is not written yet.
    pub fn is_in_memory(&self, location: Location) -> bool {
        self.placed.read().contains_key(&(location.segment, location.offset))
    }

    /// The shelf.
    pub fn shelf(&self) -> &Arc<dyn Shelf> {
        &self.shelf
    }
}

/// The log is full: no free segment is left for this stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

struct Open {
    segment: u32,
    /// Offset of the stripe that is being filled.
    base: u32,
    stripe: AlignedBuf,
    /// Objects that begin or go on in this stripe, to be read from memory until it is written.
    objects: Vec<u32>,
}

/// One of the places where the log grows. Data, moved data and metadata each have their own, because they live for
/// different times.
#[derive(Default)]
pub struct Stream {
    open: Option<Open>,
}

/// Source of free segments.
pub trait Segments {
    /// A free segment to be written from its front, unless too few are left for this stream. `room` is what drives
    /// can take.
    fn allocate(&mut self, room: Room) -> Option<u32>;
}

struct Write {
    segment: u32,
    objects: Vec<u32>,
    outcome: Wait<()>,
}

/// Writes stripes for all streams.
pub struct Writer {
    log: Arc<Log>,
    layout: Layout,
    writes: VecDeque<Write>,
    /// Stripe writes under way at the same time, of all streams together.
    in_flight: usize,
    /// Bytes that filled up stripes.
    pub padding: u64,
}

impl Writer {
    /// A writer without anything under way, which will have up to `in_flight` stripes.
    pub fn new(log: Arc<Log>, in_flight: usize) -> Self {
        let layout = log.shelf.layout();
        Self { log, layout, writes: VecDeque::new(), in_flight, padding: 0 }
    }

    /// Appends an object. It can be read at once; it is durable after [`Writer::finish`] and a sync.
    pub async fn append(
        &mut self,
        stream: &mut Stream,
        segments: &mut impl Segments,
        object: Bytes,
    ) -> shelf::Result<Result<Location, Full>> {
        let len = object.len() as u32;
        assert!(len <= self.layout.segment_bytes, "an object fits in a segment");
        if self.left(stream) < u64::from(len) {
            // The old segment stays open when there is no new one, so that smaller objects may still fit.
            let Some(segment) = segments.allocate(self.log.shelf.room()) else {
                return Ok(Err(Full));
            };
            self.flush(stream).await?;
            stream.open = Some(self.begin(segment, 0));
        }
        let open = stream.open.as_ref().expect("a segment is open");
        let location = Location { segment: open.segment, offset: open.base + open.stripe.len() as u32, len };
        self.log.placed.write().insert((location.segment, location.offset), object.clone());
        let mut rest = &object[..];
        while !rest.is_empty() {
            let open = stream.open.as_mut().expect("a segment is open");
            let room = self.layout.stripe_bytes as usize - open.stripe.len();
            let (now, later) = rest.split_at(room.min(rest.len()));
            open.stripe.push(now);
            if later.is_empty() {
                // Readers find the object in memory until its last stripe is written.
                open.objects.push(location.offset);
            }
            rest = later;
            if open.stripe.len() == self.layout.stripe_bytes as usize {
                self.flush(stream).await?;
            }
        }
        Ok(Ok(location))
    }

    fn begin(&self, segment: u32, base: u32) -> Open {
        let stripe = AlignedBuf::with_capacity(self.layout.stripe_bytes as usize);
        Open { segment, base, stripe, objects: Vec::new() }
    }

    /// Bytes that the open segment of a stream has left.
    pub fn left(&self, stream: &Stream) -> u64 {
        let left = |open: &Open| self.layout.segment_bytes - open.base - open.stripe.len() as u32;
        stream.open.as_ref().map_or(0, left).into()
    }

    /// The segment that a stream is writing to.
    pub fn segment(stream: &Stream) -> Option<u32> {
        stream.open.as_ref().map(|open| open.segment)
    }

    /// Starts the write of the open stripe of a stream, padded.
    pub async fn flush(&mut self, stream: &mut Stream) -> shelf::Result {
        let Some(open) = stream.open.take() else { return Ok(()) };
        if open.stripe.is_empty() {
            stream.open = Some(open);
            return Ok(());
        }
        let Open { segment, base, mut stripe, objects } = open;
        let used = stripe.len();
        stripe.set_len(self.layout.stripe_bytes as usize);
        stripe[used..].fill(0);
        self.padding += (stripe.len() - used) as u64;
        while self.writes.len() >= self.in_flight {
            self.settle().await?;
        }
        let (done, outcome) = wait();
        self.log.shelf.write(SegmentId(segment), base, Arc::new(stripe), done);
        self.writes.push_back(Write { segment, objects, outcome });
        let next = base + self.layout.stripe_bytes;
        stream.open = (next < self.layout.segment_bytes).then(|| self.begin(segment, next));
        Ok(())
    }

    async fn settle(&mut self) -> shelf::Result {
        let Some(write) = self.writes.pop_front() else { return Ok(()) };
        write.outcome.await?;
        let mut placed = self.log.placed.write();
        for offset in write.objects {
            placed.remove(&(write.segment, offset));
        }
        Ok(())
    }

    /// Waits until every write that was started has completed.
    pub async fn finish(&mut self) -> shelf::Result {
        while !self.writes.is_empty() {
            self.settle().await?;
        }
        Ok(())
    }
}
