//! A drive in its slot: whether it is believed, what it has under way, and since when.
//!
//! A request that takes too long is answered with an error before the drive answers; whatever the drive says later
//! is not heard. Time is what [`Member::tick`] was last told.

use crate::{Backing, Done, Drive, Error, Wait, wait};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long a read may take before the others are asked instead.
const READ_PATIENCE: Duration = Duration::from_millis(300);

/// How long a write or a sync may take before the shelf goes on without the drive: less than hosts wait, more than
/// a busy drive needs.
const WRITE_PATIENCE: Duration = Duration::from_secs(15);

/// What is counted about a drive since the opening.
#[derive(Default)]
pub struct Counters {
    pub read_bytes: AtomicU64,
    pub written_bytes: AtomicU64,
    pub read_errors: AtomicU64,
    pub slow_reads: AtomicU64,
    /// Pages that were not what had been written.
    pub bad_pages: AtomicU64,
}

pub struct Member {
    pub slot: usize,
    /// Its identity, as on its label.
    pub id: u128,
    /// Its size, as on its label.
    pub bytes: u64,
    /// Which of its labels is written first.
    pub first_label: usize,
    pub counters: Counters,
    drive: Arc<dyn Drive>,
    /// Its space comes from a file system, as it is written.
    sparse: bool,
    out: AtomicBool,
    waiting: Arc<Waiting>,
}

#[derive(Default)]
struct Waiting {
    now: AtomicU64,
    /// Requests given up that the drive still has.
    overdue: AtomicU64,
    /// By kind: requests that it answered, and those that it had at each tick, since they were last looked at.
    samples: [Counts; CLASSES],
    /// Found to take much longer than the others; and whether others are asked in its place now.
    slow: AtomicBool,
    avoided: AtomicBool,
    requests: Mutex<Requests>,
}

/// Kinds of requests whose latencies are judged apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Read,
    Write,
    /// Answered when it survives a power cut: durable writes and syncs.
    Durable,
}

/// How many there are.
pub const CLASSES: usize = 3;

#[derive(Default)]
struct Counts {
    answered: AtomicU64,
    in_flight: AtomicU64,
}

/// Requests of a kind since the last sample: found under way at the ticks, all ticks together, and answered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    pub in_flight: u64,
    pub answered: u64,
}

#[derive(Default)]
struct Requests {
    next: u64,
    under_way: BTreeMap<u64, Request>,
}

struct Request {
    /// When it was asked for, in milliseconds.
    since: u64,
    patience: Duration,
    /// None for what says nothing about the drive's speed.
    class: Option<Class>,
    answer: Arc<dyn GiveUp>,
}

/// An answer that comes from the drive or from the clock, whichever is first.
struct Once<T>(Mutex<Option<Done<T>>>);

trait GiveUp: Send + Sync {
    /// Answers with an error, and counts the drive's answer as overdue, unless that has come meanwhile.
    fn give_up(&self, error: Error, overdue: &AtomicU64);
}

impl<T> GiveUp for Once<T> {
    fn give_up(&self, error: Error, overdue: &AtomicU64) {
        let done = {
            let mut done = self.0.lock();
            // Before the drive's answer can find that it comes too late.
            overdue.fetch_add(u64::from(done.is_some()), Ordering::Relaxed);
            done.take()
        };
        if let Some(done) = done {
            done(Err(error));
        }
    }
}

impl Member {
    /// A drive whose labels are worth the same.
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
        let (counters, waiting) = (Counters::default(), Arc::default());
        let (sparse, out) = (drive.backing().is_some(), AtomicBool::new(false));
        Arc::new(Self { slot, id, bytes, first_label, counters, drive, sparse, out, waiting })
    }

    pub fn name(&self) -> &str {
        self.drive.name()
    }

    pub fn drive(&self) -> &dyn Drive {
        &*self.drive
    }

    /// True when it does not have all of its space.
    pub fn is_sparse(&self) -> bool {
        self.sparse
    }

    /// What it gets its space from, as that is now.
    pub fn backing(&self) -> Option<Backing> {
        if self.sparse { self.drive.backing() } else { None }
    }

    /// True when nothing more is asked of it.
    pub fn is_out(&self) -> bool {
        self.out.load(Ordering::Acquire)
    }

    /// Asks nothing more of it; false when that was so before.
    pub fn put_out(&self) -> bool {
        !self.out.swap(true, Ordering::AcqRel)
    }

    fn check<T>(&self, done: Done<T>) -> Option<Done<T>> {
        if self.is_out() {
            done(Err(Error::Drive { what: format!("{} is out", self.name()) }));
            return None;
        }
        Some(done)
    }

    fn timed<T: Send + 'static>(&self, class: Option<Class>, patience: Duration, done: Done<T>) -> Done<T> {
        let once = Arc::new(Once(Mutex::new(Some(done))));
        let id = {
            let mut requests = self.waiting.requests.lock();
            requests.next += 1;
            let id = requests.next;
            let since = self.waiting.now.load(Ordering::Relaxed);
            requests.under_way.insert(id, Request { since, patience, class, answer: once.clone() });
            id
        };
        // When the drive drops the request, nobody would answer it.
        let ticket = Ticket { waiting: self.waiting.clone(), id };
        let waiting = self.waiting.clone();
        Box::new(move |outcome| {
            drop(ticket);
            if let Some(class) = class {
                waiting.samples[class as usize].answered.fetch_add(1, Ordering::Relaxed);
            }
            let done = once.0.lock().take();
            match done {
                Some(done) => done(outcome),
                None => _ = waiting.overdue.fetch_sub(1, Ordering::Relaxed),
            }
        })
    }

    /// True while the drive owes answers that were given up.
    pub fn is_overdue(&self) -> bool {
        self.waiting.overdue.load(Ordering::Relaxed) > 0
    }

    /// True while others are asked first: it owes answers that were given up, or was found slow.
    pub fn is_avoided(&self) -> bool {
        self.is_overdue() || self.waiting.avoided.load(Ordering::Relaxed)
    }

    /// True while it was found slow and nothing is to be placed on it that can be elsewhere.
    pub fn is_lagging(&self) -> bool {
        self.waiting.avoided.load(Ordering::Relaxed)
    }

    /// True from when it was found slow until it is known to be prompt again.
    pub fn is_slow(&self) -> bool {
        self.waiting.slow.load(Ordering::Relaxed)
    }

    /// Notes whether it is slow, and whether it is avoided for that.
    pub fn set_slow(&self, slow: bool, avoided: bool) {
        self.waiting.slow.store(slow, Ordering::Relaxed);
        self.waiting.avoided.store(avoided, Ordering::Relaxed);
    }

    /// What it had to do since the last call, by kind.
    pub fn take_samples(&self) -> [Sample; CLASSES] {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        let samples = &self.waiting.samples;
        std::array::from_fn(|class| Sample {
            in_flight: take(&samples[class].in_flight),
            answered: take(&samples[class].answered),
        })
    }

    pub fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        let Some(done) = self.check(done) else { return };
        self.counters.read_bytes.fetch_add(u64::from(len), Ordering::Relaxed);
        self.drive.read(offset, len, self.timed(Some(Class::Read), READ_PATIENCE, done));
    }

    /// Reads with the patience of a write, where there is nobody else to ask.
    pub fn read_patiently(&self, offset: u64, len: u32) -> Wait<Bytes> {
        let (done, read) = wait();
        if let Some(done) = self.check(done) {
            self.drive.read(offset, len, self.timed(Some(Class::Read), WRITE_PATIENCE, done));
        }
        read
    }

    pub fn write(&self, offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()>) {
        let Some(done) = self.check(done) else { return };
        let len: usize = pieces.iter().map(Bytes::len).sum();
        self.counters.written_bytes.fetch_add(len as u64, Ordering::Relaxed);
        let class = if durable { Class::Durable } else { Class::Write };
        self.drive.write(offset, pieces, durable, self.timed(Some(class), WRITE_PATIENCE, done));
    }

    pub fn write_page(&self, at: u64, page: Bytes) -> Wait<()> {
        let (done, written) = wait();
        self.write(at, vec![page], true, done);
        written
    }

    /// Writes a page durably even when it is out.
    pub fn write_page_anyway(&self, at: u64, page: Bytes) -> Wait<()> {
        let (done, written) = wait();
        self.drive.write(at, vec![page], true, self.timed(None, WRITE_PATIENCE, done));
        written
    }

    pub fn sync(&self, done: Done<()>) {
        let Some(done) = self.check(done) else { return };
        self.drive.sync(self.timed(Some(Class::Durable), WRITE_PATIENCE, done));
    }

    pub fn discard(&self, offset: u64, len: u64, done: Done<()>) {
        let Some(done) = self.check(done) else { return };
        self.drive.discard(offset, len, self.timed(None, WRITE_PATIENCE, done));
    }

    pub fn allocate(&self, offset: u64, len: u64, done: Done<()>) {
        let Some(done) = self.check(done) else { return };
        self.drive.allocate(offset, len, self.timed(None, WRITE_PATIENCE, done));
    }

    /// Takes note of the time, and gives up reads that have waited too long. True when a write has.
    pub fn tick(&self, now: Duration) -> bool {
        let now = now.as_millis() as u64;
        let before = self.waiting.now.swap(now, Ordering::Relaxed);
        let mut requests = self.waiting.requests.lock();
        if before == 0 {
            // The first hour struck: nothing is known about what came before.
            requests.under_way.values_mut().for_each(|request| request.since = now);
        }
        let late = requests.take_late(now, |patience| patience == READ_PATIENCE);
        let in_flight = |class: Class, count: u64| {
            self.waiting.samples[class as usize].in_flight.fetch_add(count, Ordering::Relaxed);
        };
        // Reads that were given up are waited for no more, but the drive still has not answered them.
        in_flight(Class::Read, self.waiting.overdue.load(Ordering::Relaxed));
        requests.under_way.values().filter_map(|request| request.class).for_each(|class| in_flight(class, 1));
        let writes = requests.under_way.values().any(|request| request.is_late(now));
        drop(requests);
        self.counters.slow_reads.fetch_add(late.len() as u64, Ordering::Relaxed);
        self.give_up(late);
        writes
    }

    /// Gives up everything that has waited too long: the drive is as good as gone.
    pub fn give_up_late(&self) {
        let now = self.waiting.now.load(Ordering::Relaxed);
        let late = self.waiting.requests.lock().take_late(now, |_| true);
        self.give_up(late);
    }

    /// Gives up everything.
    pub fn give_up_all(&self) {
        let all = std::mem::take(&mut self.waiting.requests.lock().under_way);
        self.give_up(all.into_values().collect());
    }

    fn give_up(&self, late: Vec<Request>) {
        for Request { answer, .. } in late {
            answer
                .give_up(Error::Drive { what: format!("{}: no answer", self.name()) }, &self.waiting.overdue);
        }
    }
}

impl Request {
    fn is_late(&self, now: u64) -> bool {
        now.saturating_sub(self.since) > self.patience.as_millis() as u64
    }
}

impl Requests {
    fn take_late(&mut self, now: u64, of: impl Fn(Duration) -> bool) -> Vec<Request> {
        let late = self.under_way.iter().filter(|(_, request)| request.is_late(now) && of(request.patience));
        let ids: Vec<u64> = late.map(|(id, _)| *id).collect();
        ids.iter().filter_map(|id| self.under_way.remove(id)).collect()
    }
}

struct Ticket {
    waiting: Arc<Waiting>,
    id: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.waiting.requests.lock().under_way.remove(&self.id);
    }
}

#[cfg(test)]
#[path = "member_test.rs"]
mod tests;
