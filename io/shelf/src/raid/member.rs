//! A drive in its slot: whether it is believed, what it has under way, and since when.
//!
//! A request that takes too long is answered with an error before the drive answers; whatever the drive says later
//! is not heard. Time is what [`Member::tick`] was last told.

use crate::{Done, Drive, Error, Wait, wait};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
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
    out: AtomicBool,
    waiting: Arc<Waiting>,
}

#[derive(Default)]
struct Waiting {
    now: AtomicU64,
    /// Requests given up that the drive still has.
    overdue: AtomicU64,
    /// Requests that it answered, and those that it had at each tick, since they were last looked at.
    answered: AtomicU64,
    standing: AtomicU64,
    /// It lags for so many windows more.
    lagging: AtomicU32,
    requests: Mutex<Requests>,
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
        Arc::new(Self { slot, id, bytes, first_label, counters, drive, out: AtomicBool::new(false), waiting })
    }

    pub fn name(&self) -> &str {
        self.drive.name()
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

    fn timed<T: Send + 'static>(&self, patience: Duration, done: Done<T>) -> Done<T> {
        let once = Arc::new(Once(Mutex::new(Some(done))));
        let id = {
            let mut requests = self.waiting.requests.lock();
            requests.next += 1;
            let id = requests.next;
            let since = self.waiting.now.load(Ordering::Relaxed);
            requests.under_way.insert(id, Request { since, patience, answer: once.clone() });
            id
        };
        // When the drive drops the request, nobody would answer it.
        let ticket = Ticket { waiting: self.waiting.clone(), id };
        let waiting = self.waiting.clone();
        Box::new(move |outcome| {
            drop(ticket);
            waiting.answered.fetch_add(1, Ordering::Relaxed);
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

    /// True while the drive owes answers that were given up, or lags: others are asked first.
    pub fn is_slow(&self) -> bool {
        self.is_overdue() || self.is_lagging()
    }

    /// True when it takes much longer than the others.
    pub fn is_lagging(&self) -> bool {
        self.waiting.lagging.load(Ordering::Relaxed) > 0
    }

    /// Notes that it lags, for so many windows; true when it did not before.
    pub fn lags(&self, windows: u32) -> bool {
        self.waiting.lagging.swap(windows, Ordering::Relaxed) == 0
    }

    /// A window has passed in which it did not lag; true when that was the last for which it was avoided.
    pub fn had_chance(&self) -> bool {
        let left = self.waiting.lagging.load(Ordering::Relaxed);
        self.waiting.lagging.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 1
    }

    /// What a request took on average, in µs, over a window of so many ticks: 0 when there was hardly ever one under
    /// way, none when it was asked for nothing. Begins the next window.
    pub fn latency(&self, ticks: u32, window: Duration) -> Option<u64> {
        let standing = self.waiting.standing.swap(0, Ordering::Relaxed);
        let answered = self.waiting.answered.swap(0, Ordering::Relaxed);
        let ticks = u64::from(ticks.max(1));
        match (standing * 2 < ticks, answered) {
            (_, 0) if standing == 0 => None,
            (true, _) => Some(0),
            (false, _) => Some(standing * window.as_micros() as u64 / ticks / answered.max(1)),
        }
    }

    pub fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        let Some(done) = self.check(done) else { return };
        self.counters.read_bytes.fetch_add(u64::from(len), Ordering::Relaxed);
        self.drive.read(offset, len, self.timed(READ_PATIENCE, done));
    }

    /// Reads with the patience of a write, where there is nobody else to ask.
    pub fn read_patiently(&self, offset: u64, len: u32) -> Wait<Bytes> {
        let (done, read) = wait();
        if let Some(done) = self.check(done) {
            self.drive.read(offset, len, self.timed(WRITE_PATIENCE, done));
        }
        read
    }

    pub fn write(&self, offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()>) {
        let Some(done) = self.check(done) else { return };
        let len: usize = pieces.iter().map(Bytes::len).sum();
        self.counters.written_bytes.fetch_add(len as u64, Ordering::Relaxed);
        self.drive.write(offset, pieces, durable, self.timed(WRITE_PATIENCE, done));
    }

    pub fn write_page(&self, at: u64, page: Bytes) -> Wait<()> {
        let (done, written) = wait();
        self.write(at, vec![page], true, done);
        written
    }

    pub fn sync(&self, done: Done<()>) {
        let Some(done) = self.check(done) else { return };
        self.drive.sync(self.timed(WRITE_PATIENCE, done));
    }

    pub fn discard(&self, offset: u64, len: u64, done: Done<()>) {
        let Some(done) = self.check(done) else { return };
        self.drive.discard(offset, len, self.timed(WRITE_PATIENCE, done));
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
        self.waiting.standing.fetch_add(requests.under_way.len() as u64, Ordering::Relaxed);
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
