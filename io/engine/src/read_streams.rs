//! Sequential streams: hosts that read a volume in order, and the frames that are being read ahead for them.
//!
//! A stream is found among the reads that the cache can't serve, so that hits cost nothing.

use crate::cache::Cache;
use crate::entry::BLOCK;
use crate::pages::NumberMap;
use crate::tunables::Tunables;
use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};

/// Blocks of the first window.
const FIRST_WINDOW_BLOCKS: u64 = 32;

/// A host that reads in order.
#[derive(Debug)]
struct Stream {
    volume: u32,
    /// The block after the last read that was seen.
    next: u64,
    /// The block after what was read ahead.
    ahead: u64,
    window: u64,
    reads: u32,
}

/// Streams, the one that was seen last at the end.
#[derive(Default)]
struct Streams(VecDeque<Stream>);

/// Frames that are being read ahead, with those who wait for them.
#[derive(Default)]
pub struct InFlight {
    frames: Mutex<NumberMap<u64, Vec<Waker>>>,
    bytes: AtomicUsize,
}

/// Leaves of maps in which hosts read in order what lies in many places: volume, and number of the leaf in it.
#[derive(Default)]
pub struct Disorder(Mutex<BTreeSet<(u32, u64)>>);

impl Disorder {
    /// Notes a leaf, as long as there are fewer than `most`; true if it is the first.
    pub fn note(&self, volume: u32, leaf: u64, most: usize) -> bool {
        let mut leaves = self.0.lock();
        leaves.len() < most && leaves.insert((volume, leaf)) && leaves.len() == 1
    }

    /// Whether there are leaves.
    pub fn is_noted(&self) -> bool {
        !self.0.lock().is_empty()
    }

    /// Takes a leaf.
    pub fn take(&self) -> Option<(u32, u64)> {
        self.0.lock().pop_first()
    }

    /// Forgets all leaves.
    pub fn clear(&self) {
        self.0.lock().clear();
    }
}

/// The streams of an engine and what is read ahead for them.
#[derive(Default)]
pub struct ReadStreams {
    streams: Mutex<Streams>,
    /// What is being read.
    pub in_flight: Arc<InFlight>,
    /// Where they read what lies in many places.
    pub disorder: Disorder,
}

impl Stream {
    /// Whether a read of its volume continues the stream. Reads that are under way together may be seen in another order: reads
    /// that wait for the rest of a window are seen before the first of it comes back with its mark.
    fn takes(&self, read: &Range<u64>) -> bool {
        let slack = read.end - read.start;
        let reach = slack.max(2 * self.window);
        read.start.saturating_add(reach) >= self.next && read.start <= self.ahead.saturating_add(slack)
    }
}

impl Streams {
    /// Notes a read of blocks that the cache could not serve, or that met a mark. Returns the blocks to read ahead.
    /// While there is no memory for that, a stream is followed nevertheless.
    fn note(
        &mut self,
        volume: u32,
        read: Range<u64>,
        at_mark: bool,
        window_max: u64,
        tunables: &Tunables,
    ) -> Option<Range<u64>> {
        let goes_on = |stream: &Stream| stream.volume == volume && stream.takes(&read);
        let found = self.0.iter().position(goes_on).and_then(|index| self.0.remove(index));
        let mut stream = found.unwrap_or_else(|| {
            self.make_room(tunables);
            Stream { volume, next: read.start, ahead: read.start, window: 0, reads: 0 }
        });
        let is_beyond = read.end > stream.ahead;
        stream.next = stream.next.max(read.end);
        stream.ahead = stream.ahead.max(stream.next);
        stream.reads = stream.reads.saturating_add(1);
        // A host that has overtaken its windows meets several marks at once: one window that it has not begun is enough.
        let is_near = stream.ahead - stream.next <= stream.window;
        let may_read = stream.reads >= tunables.read_ahead_min_reads && window_max > 0;
        let wanted = (may_read && (at_mark && is_near || is_beyond)).then(|| {
            stream.window = (2 * stream.window).max(FIRST_WINDOW_BLOCKS).min(window_max);
            let from = stream.ahead;
            stream.ahead = from.saturating_add(stream.window);
            from..stream.ahead
        });
        self.0.push_back(stream);
        wanted
    }

    /// Notes a read that is to be located. True if it continues a stream: then it is to be read, and that notes it again.
    fn note_located(&mut self, volume: u32, read: Range<u64>, tunables: &Tunables) -> bool {
        let found = self.0.iter_mut().find(|stream| stream.volume == volume && stream.takes(&read));
        match found {
            // The same blocks again: what the cache serves is not noted elsewhere, and would not be here.
            Some(stream) if read.end <= stream.next => false,
            Some(stream) if stream.reads.saturating_add(1) >= tunables.read_ahead_min_reads => {
                // If the cache has them, nothing else shows how far the host is.
                (stream.next, stream.ahead) = (read.end, stream.ahead.max(read.start));
                true
            }
            _ => {
                self.note(volume, read, false, 0, tunables);
                false
            }
        }
    }

    /// Of what was to be read ahead up to `end`, only what is before `reached` is.
    fn shorten(&mut self, volume: u32, end: u64, reached: u64) {
        let found = self.0.iter_mut().rev().find(|stream| stream.volume == volume && stream.ahead == end);
        if let Some(stream) = found {
            stream.ahead = reached.max(stream.next);
        }
    }

    /// Forgets streams until there is room for one. Half of the room is for streams that go on, so that random reads,
    /// each of which could be the first of one, do not displace them.
    fn make_room(&mut self, tunables: &Tunables) {
        let streams_max = tunables.read_ahead_streams;
        while self.0.len() >= streams_max {
            let is_new = |stream: &Stream| stream.reads < tunables.read_ahead_min_reads;
            let new = self.0.iter().filter(|stream| is_new(stream)).count();
            let oldest_new = self.0.iter().position(is_new).filter(|_| new >= streams_max.div_ceil(2));
            self.0.remove(oldest_new.unwrap_or(0));
        }
    }
}

impl InFlight {
    /// Adds a frame that takes `bytes` of memory; false if it is there.
    pub fn add(&self, number: u64, bytes: usize) -> bool {
        let mut frames = self.frames.lock();
        if frames.contains_key(&number) {
            return false;
        }
        frames.insert(number, Vec::new());
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// Removes frames that took `bytes` together, and wakes who waits for them.
    pub fn remove(&self, numbers: impl Iterator<Item = u64>, bytes: usize) {
        let mut woken = Vec::new();
        {
            let mut frames = self.frames.lock();
            numbers.for_each(|number| woken.extend(frames.remove(&number).unwrap_or_default()));
        }
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Waits until a frame is no longer being read ahead.
    pub fn wait_until_read(&self, number: u64) -> impl Future<Output = ()> + '_ {
        poll_fn(move |cx| match self.frames.lock().get_mut(&number) {
            Some(waiting) => {
                if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                    waiting.push(cx.waker().clone());
                }
                Poll::Pending
            }
            None => Poll::Ready(()),
        })
    }
}

impl ReadStreams {
    /// Notes a read of blocks that the cache could not serve, or that met a mark. Returns the blocks to read ahead now.
    pub fn note(
        &self,
        tunables: &Tunables,
        cache: &Cache,
        volume: u32,
        read: Range<u64>,
        at_mark: bool,
    ) -> Option<Range<u64>> {
        // Two windows of a stream are in the cache: the one that the host reads, and the next.
        let bytes = tunables.read_ahead_window_bytes.min(cache.probation_bytes() / 2);
        if bytes < BLOCK {
            return None;
        }
        let in_flight = self.in_flight.bytes.load(Ordering::Relaxed);
        let free = tunables.read_ahead_in_flight_bytes.saturating_sub(in_flight);
        let window_max = (bytes.min(free) / BLOCK) as u64;
        self.streams.lock().note(volume, read, at_mark, window_max, tunables)
    }

    /// Notes a read that is to be located. True if it is of a host that reads in order, for which is read ahead: it is to be
    /// read here.
    pub fn note_located(&self, tunables: &Tunables, volume: u32, read: Range<u64>) -> bool {
        tunables.read_ahead_window_bytes > 0 && self.streams.lock().note_located(volume, read, tunables)
    }

    /// Of what was to be read ahead up to `end`, only what is before `reached` is.
    pub fn shorten(&self, volume: u32, end: u64, reached: u64) {
        self.streams.lock().shorten(volume, end, reached);
    }
}

#[cfg(test)]
#[path = "read_streams_test.rs"]
mod tests;
