//! A drive with a time limit for requests: a drive that does not reply counts as missing.
//!
//! A controller that starts or takes over sends many requests to each drive before it knows that the drive works.
//! Without a limit, one silent drive would keep the array from a new home. The limit ends the wait, not the request,
//! which takes effect late or never. [`shared`](super) proves that this is safe.

use crate::{Backing, Done, Drive, Error};
use bytes::Bytes;
use parking_lot::Mutex;
use shelf::ReservationStep;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time limit of a request. A busy drive needs less. If a drive is silent during a takeover, hosts wait longer by this
/// time: with the detection of the lost home, less than 10 s.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Calls back after a time.
pub type Timer = Arc<dyn Fn(Duration, Box<dyn FnOnce() + Send>) + Send + Sync>;

/// A drive with this limit.
pub struct TimedDrive {
    drive: Arc<dyn Drive>,
    timer: Timer,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Whether the limit is lifted.
    is_unlimited: AtomicBool,
    /// Whether the drive has exceeded the limit: it gets no more requests.
    is_silent: AtomicBool,
}

impl TimedDrive {
    /// The drive, with the limit.
    pub fn new(drive: Arc<dyn Drive>, timer: Timer) -> Arc<Self> {
        Arc::new(Self { drive, timer, state: Arc::default() })
    }

    /// The drive without the limit.
    pub fn drive(&self) -> Arc<dyn Drive> {
        self.drive.clone()
    }

    /// The same drive with a new limit.
    pub fn again(&self) -> Arc<Self> {
        Self::new(self.drive.clone(), self.timer.clone())
    }

    /// Lifts the limit: the next user of the drive has limits of its own. A drive that was silent stays silent.
    pub fn lift(&self) {
        self.state.is_unlimited.store(true, Ordering::Relaxed);
    }

    /// Whether the drive has exceeded the limit.
    pub fn is_silent(&self) -> bool {
        self.state.is_silent.load(Ordering::Relaxed)
    }

    fn request<T: Send + 'static>(&self, done: Done<T>, submit: impl FnOnce(&dyn Drive, Done<T>)) {
        let silent = |name: &str| Error::Drive {
            what: format!("{name} has not replied within {} s", REPLY_TIMEOUT.as_secs()),
        };
        if self.is_silent() {
            return done(Err(silent(self.name())));
        }
        if self.state.is_unlimited.load(Ordering::Relaxed) {
            return submit(&*self.drive, done);
        }
        let waiting = Arc::new(Mutex::new(Some(done)));
        let (late, state, name) = (waiting.clone(), self.state.clone(), self.name().to_owned());
        (self.timer)(
            REPLY_TIMEOUT,
            Box::new(move || {
                let done = late.lock().take();
                if let Some(done) = done {
                    state.is_silent.store(true, Ordering::Relaxed);
                    done(Err(silent(&name)));
                }
            }),
        );
        let reply = move |outcome| {
            let done = waiting.lock().take();
            if let Some(done) = done {
                done(outcome);
            }
        };
        submit(&*self.drive, Box::new(reply));
    }
}

impl Drive for TimedDrive {
    fn name(&self) -> &str {
        self.drive.name()
    }

    fn bytes(&self) -> u64 {
        self.drive.bytes()
    }

    fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        self.request(done, |drive, done| drive.read(offset, len, done));
    }

    fn write(&self, offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()>) {
        self.request(done, |drive, done| drive.write(offset, pieces, durable, done));
    }

    fn sync(&self, done: Done<()>) {
        self.request(done, |drive, done| drive.sync(done));
    }

    fn allocate(&self, offset: u64, len: u64, done: Done<()>) {
        self.request(done, |drive, done| drive.allocate(offset, len, done));
    }

    fn backing(&self) -> Option<Backing> {
        self.drive.backing()
    }

    fn discard(&self, offset: u64, len: u64, done: Done<()>) {
        self.request(done, |drive, done| drive.discard(offset, len, done));
    }

    fn reserve(&self, step: ReservationStep, done: Done<bool>) {
        self.request(done, |drive, done| drive.reserve(step, done));
    }
}

#[cfg(test)]
#[path = "timed_test.rs"]
mod tests;
