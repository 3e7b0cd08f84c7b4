//! A drive in its slot: whether it has failed, and its requests in flight with their timeouts.
//!
//! A request that times out is completed with an error before the drive completes it; the drive's own result is
//! ignored later. The clock is the time of the last call of [`Member::tick`].

use crate::{Backing, Done, Drive, Error, Wait, wait};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Timeout of a read: after it the other drives are read instead.
const READ_TIMEOUT: Duration = Duration::from_millis(300);

/// Timeout of a write or a sync: after it the shelf continues without the drive. Less than hosts wait, more than a
/// busy drive needs.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);

/// Statistics of a drive since the store was opened.
#[derive(Default)]
pub struct Counters {
    pub read_bytes: AtomicU64,
    pub written_bytes: AtomicU64,
    pub read_errors: AtomicU64,
    pub slow_reads: AtomicU64,
    /// Pages whose contents differed from what was written.
    pub bad_pages: AtomicU64,
}

pub struct Member {
    pub slot: usize,
    /// Its identity, as on its label.
    pub id: u128,
    /// Its size, as on its label.
    pub bytes: u64,
    /// The label that is written first.
    pub first_label: usize,
    pub counters: Counters,
    drive: Arc<dyn Drive>,
    /// True if it is thin-provisioned.
    sparse: bool,
    failed: AtomicBool,
    tracker: Arc<Tracker>,
}

#[derive(Default)]
struct Tracker {
    now: AtomicU64,
    /// Requests that timed out and that the drive still has.
    overdue: AtomicU64,
    /// By kind: completed requests, and requests in flight summed over the ticks, since the last sample.
    samples: [Counts; CLASSES],
    /// Whether it is slow, and whether it is avoided now.
    slow: AtomicBool,
    avoided: AtomicBool,
    requests: Mutex<Requests>,
}

/// Classes of requests whose latencies are evaluated separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Read,
    Write,
    /// Completed when it survives a power cut: durable writes and syncs.
    Durable,
}

/// Number of kinds.
pub const CLASSES: usize = 3;

#[derive(Default)]
struct Counts {
    completed: AtomicU64,
    in_flight: AtomicU64,
}

/// Requests of a kind since the last sample: in flight, summed over the ticks, and completed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    pub in_flight: u64,
    pub completed: u64,
}

#[derive(Default)]
struct Requests {
    next: u64,
    in_flight: BTreeMap<u64, Request>,
}

struct Request {
    /// When it was submitted, in milliseconds.
    since: u64,
    timeout: Duration,
    /// `None` for requests that are not part of latency statistics.
    class: Option<Class>,
    completion: Arc<dyn Abort>,
}

/// A completion that is called once: by the drive or by a timeout, whichever is first.
struct Once<T>(Mutex<Option<Done<T>>>);

trait Abort: Send + Sync {
    /// Completes with an error and counts the request as overdue, unless the drive has completed it.
    fn abort(&self, error: Error, overdue: &AtomicU64);
}

impl<T> Abort for Once<T> {
    fn abort(&self, error: Error, overdue: &AtomicU64) {
        let done = {
            let mut done = self.0.lock();
            // Counted before the drive's completion can find that it is overdue.
            overdue.fetch_add(u64::from(done.is_some()), Ordering::Relaxed);
            done.take()
        };
        if let Some(done) = done {
            done(Err(error));
        }
    }
}

impl Member {
    /// A drive with equivalent labels.
    pub fn new(slot: usize, id: u128, bytes: u64, drive: Arc<dyn Drive>) -> Arc<Self> {
        Self::with_labels(slot, id, bytes, drive, 0)
    }

    /// A drive of which this label is to be written first.
    pub fn with_labels(
        slot: usize,
        id: u128,
        bytes: u64,
        drive: Arc<dyn Drive>,
        first_label: usize,
    ) -> Arc<Self> {
        let (counters, tracker) = (Counters::default(), Arc::default());
        let (sparse, failed) = (drive.backing().is_some(), AtomicBool::new(false));
        Arc::new(Self { slot, id, bytes, first_label, counters, drive, sparse, failed, tracker })
    }

    pub fn name(&self) -> &str {
        self.drive.name()
    }

    pub fn drive(&self) -> &dyn Drive {
        &*self.drive
    }

    /// True if it is thin-provisioned.
    pub fn is_sparse(&self) -> bool {
        self.sparse
    }

    /// The file system that it allocates from, as it is now.
    pub fn backing(&self) -> Option<Backing> {
        if self.sparse { self.drive.backing() } else { None }
    }

    /// True if it has failed: no more requests are sent to it.
    pub fn is_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Marks it as failed; false if it was before.
    pub fn mark_failed(&self) -> bool {
        !self.failed.swap(true, Ordering::AcqRel)
    }

    fn check<T>(&self, done: Done<T>) -> Option<Done<T>> {
        if self.is_failed() {
            done(Err(Error::Drive { what: format!("{} has failed", self.name()) }));
            return None;
        }
        Some(done)
    }

    fn timed<T: Send + 'static>(&self, class: Option<Class>, timeout: Duration, done: Done<T>) -> Done<T> {
        let once = Arc::new(Once(Mutex::new(Some(done))));
        let id = {
            let mut requests = self.tracker.requests.lock();
            requests.next += 1;
            let id = requests.next;
            let since = self.tracker.now.load(Ordering::Relaxed);
            requests.in_flight.insert(id, Request { since, timeout, class, completion: once.clone() });
            id
        };
        // Removes the request also when the drive drops it without completing it.
        let ticket = Ticket { tracker: self.tracker.clone(), id };
        let tracker = self.tracker.clone();
        Box::new(move |outcome| {
            drop(ticket);
            if let Some(class) = class {
                tracker.samples[class as usize].completed.fetch_add(1, Ordering::Relaxed);
            }
            let done = once.0.lock().take();
            match done {
                Some(done) => done(outcome),
                None => _ = tracker.overdue.fetch_sub(1, Ordering::Relaxed),
            }
        })
    }

    /// True while requests that timed out are still at the drive.
    pub fn is_overdue(&self) -> bool {
        self.tracker.overdue.load(Ordering::Relaxed) > 0
    }

    /// True while other drives are read instead: it has overdue requests, or is slow.
    pub fn is_read_avoided(&self) -> bool {
        self.is_overdue() || self.tracker.avoided.load(Ordering::Relaxed)
    }

    /// True while it is slow and data is placed on other drives where possible.
    pub fn is_placement_avoided(&self) -> bool {
        self.tracker.avoided.load(Ordering::Relaxed)
    }

    /// True from the detection that it is slow until its latency is normal again.
    pub fn is_slow(&self) -> bool {
        self.tracker.slow.load(Ordering::Relaxed)
    }

    /// Sets whether it is slow, and whether it is avoided because of that.
    pub fn set_slow(&self, slow: bool, avoided: bool) {
        self.tracker.slow.store(slow, Ordering::Relaxed);
        self.tracker.avoided.store(avoided, Ordering::Relaxed);
    }

    /// The work since the last call, by kind.
    pub fn take_samples(&self) -> [Sample; CLASSES] {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        let samples = &self.tracker.samples;
        std::array::from_fn(|class| Sample {
            in_flight: take(&samples[class].in_flight),
            completed: take(&samples[class].completed),
        })
    }

    pub fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        let Some(done) = self.check(done) else { return };
        self.counters.read_bytes.fetch_add(u64::from(len), Ordering::Relaxed);
        self.drive.read(offset, len, self.timed(Some(Class::Read), READ_TIMEOUT, done));
    }

    /// Reads with the timeout of a write, where no other drive can be read instead.
    pub fn read_with_write_timeout(&self, offset: u64, len: u32) -> Wait<Bytes> {
        let (done, read) = wait();
        if let Some(done) = self.check(done) {
            self.drive.read(offset, len, self.timed(Some(Class::Read), WRITE_TIMEOUT, done));
        }
        read
    }

    pub fn write(&self, offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()>) {
        let Some(done) = self.check(done) else { return };
        let len: usize = pieces.iter().map(Bytes::len).sum();
        self.counters.written_bytes.fetch_add(len as u64, Ordering::Relaxed);
        let class = if durable { Class::Durable } else { Class::Write };
        self.drive.write(offset, pieces, durable, self.timed(Some(class), WRITE_TIMEOUT, done));
    }

    pub fn write_page(&self, at: u64, page: Bytes) -> Wait<()> {
        let (done, written) = wait();
        self.write(at, vec![page], true, done);
        written
    }

    /// Writes a page durably even if it has failed.
    pub fn write_page_anyway(&self, at: u64, page: Bytes) -> Wait<()> {
        let (done, written) = wait();
        self.drive.write(at, vec![page], true, self.timed(None, WRITE_TIMEOUT, done));
        written
    }

    pub fn sync(&self, done: Done<()>) {
        let Some(done) = self.check(done) else { return };
        self.drive.sync(self.timed(Some(Class::Durable), WRITE_TIMEOUT, done));
    }

    pub fn discard(&self, offset: u64, len: u64, done: Done<()>) {
        let Some(done) = self.check(done) else { return };
        self.drive.discard(offset, len, self.timed(None, WRITE_TIMEOUT, done));
    }

    pub fn allocate(&self, offset: u64, len: u64, done: Done<()>) {
        let Some(done) = self.check(done) else { return };
        self.drive.allocate(offset, len, self.timed(None, WRITE_TIMEOUT, done));
    }

    /// Advances the clock, and aborts reads that timed out. True if a write has timed out.
    pub fn tick(&self, now: Duration) -> bool {
        let now = now.as_millis() as u64;
        let before = self.tracker.now.swap(now, Ordering::Relaxed);
        let mut requests = self.tracker.requests.lock();
        if before == 0 {
            // The first tick: nothing is known about the time before.
            requests.in_flight.values_mut().for_each(|request| request.since = now);
        }
        let late = requests.take_late(now, |timeout| timeout == READ_TIMEOUT);
        let in_flight = |class: Class, count: u64| {
            self.tracker.samples[class as usize].in_flight.fetch_add(count, Ordering::Relaxed);
        };
        // Reads that timed out have been completed with an error, but the drive still has them.
        in_flight(Class::Read, self.tracker.overdue.load(Ordering::Relaxed));
        requests.in_flight.values().filter_map(|request| request.class).for_each(|class| in_flight(class, 1));
        let writes = requests.in_flight.values().any(|request| request.is_late(now));
        drop(requests);
        self.counters.slow_reads.fetch_add(late.len() as u64, Ordering::Relaxed);
        self.abort(late);
        writes
    }

    /// Aborts everything that timed out.
    pub fn abort_overdue(&self) {
        let now = self.tracker.now.load(Ordering::Relaxed);
        let late = self.tracker.requests.lock().take_late(now, |_| true);
        self.abort(late);
    }

    /// Aborts everything.
    pub fn abort_all(&self) {
        let all = std::mem::take(&mut self.tracker.requests.lock().in_flight);
        self.abort(all.into_values().collect());
    }

    fn abort(&self, late: Vec<Request>) {
        for Request { completion, .. } in late {
            completion
                .abort(Error::Drive { what: format!("{}: timed out", self.name()) }, &self.tracker.overdue);
        }
    }
}

impl Request {
    fn is_late(&self, now: u64) -> bool {
        now.saturating_sub(self.since) > self.timeout.as_millis() as u64
    }
}

impl Requests {
    fn take_late(&mut self, now: u64, selects: impl Fn(Duration) -> bool) -> Vec<Request> {
        let late =
            self.in_flight.iter().filter(|(_, request)| request.is_late(now) && selects(request.timeout));
        let ids: Vec<u64> = late.map(|(id, _)| *id).collect();
        ids.iter().filter_map(|id| self.in_flight.remove(id)).collect()
    }
}

struct Ticket {
    tracker: Arc<Tracker>,
    id: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.tracker.requests.lock().in_flight.remove(&self.id);
    }
}

#[cfg(test)]
#[path = "member_test.rs"]
mod tests;
