//! Drives from the view of processes: requests are collected, and the world decides when they take effect.

use super::{Slot, lock};
use bytes::Bytes;
use raid::shared::{SharedMedium, Timer};
use shelf::{Done, Drive, Error, ReservationStep};
use std::sync::Arc;
use std::time::Duration;

/// A request in transit.
pub struct Sent {
    pub process: u64,
    pub server: u32,
    pub drive: usize,
    work: Work,
}

enum Work {
    Read(u64, u32, Done<Bytes>),
    Write(u64, Vec<Bytes>, Done<()>),
    Sync(Done<()>),
    Discard(u64, u64, Done<()>),
    Reserve(ReservationStep, Done<bool>),
}

/// Failure of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The request has no effect.
    Refused,
    /// The request takes effect without a reply.
    Unanswered,
}

/// A timer of a process.
pub struct Alarm {
    pub process: u64,
    pub after: Duration,
    pub call: Box<dyn FnOnce() + Send>,
}

/// Requests and timers of processes since the world's last look.
#[derive(Default)]
pub struct Net(Slot<Vec<Sent>>, Slot<Vec<Alarm>>);

impl Net {
    /// A drive from the view of a process on a server.
    pub fn port(
        &self,
        medium: &Arc<SharedMedium>,
        (drive, server, process): (usize, u32, u64),
    ) -> Arc<dyn Drive> {
        Arc::new(Port { medium: medium.clone(), drive, server, process, sent: self.0.clone() })
    }

    /// The clock of a process.
    pub fn timer(&self, process: u64) -> Timer {
        let alarms = self.1.clone();
        Arc::new(move |after, call| lock(&alarms).push(Alarm { process, after, call }))
    }

    pub fn take(&self) -> (Vec<Sent>, Vec<Alarm>) {
        (std::mem::take(&mut *lock(&self.0)), std::mem::take(&mut *lock(&self.1)))
    }
}

struct Port {
    medium: Arc<SharedMedium>,
    drive: usize,
    server: u32,
    process: u64,
    sent: Slot<Vec<Sent>>,
}

impl Port {
    fn send(&self, work: Work) {
        let Self { process, server, drive, .. } = *self;
        lock(&self.sent).push(Sent { process, server, drive, work });
    }
}

impl Drive for Port {
    fn name(&self) -> &str {
        Drive::name(self.medium.drive())
    }

    fn bytes(&self) -> u64 {
        self.medium.drive().bytes()
    }

    fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        self.send(Work::Read(offset, len, done));
    }

    fn write(&self, offset: u64, pieces: Vec<Bytes>, _durable: bool, done: Done<()>) {
        self.send(Work::Write(offset, pieces, done));
    }

    fn sync(&self, done: Done<()>) {
        self.send(Work::Sync(done));
    }

    fn discard(&self, offset: u64, len: u64, done: Done<()>) {
        self.send(Work::Discard(offset, len, done));
    }

    fn reserve(&self, step: ReservationStep, done: Done<bool>) {
        self.send(Work::Reserve(step, done));
    }
}

/// Completes with a result, later.
fn later<T: 'static>(done: Done<T>, outcome: shelf::Result<T>) -> Box<dyn FnOnce()> {
    Box::new(move || done(outcome))
}

fn outcome<T>(failure: Option<Failure>, effect: impl FnOnce() -> shelf::Result<T>) -> shelf::Result<T> {
    let failed = || Err(Error::Drive { what: "the drive failed".into() });
    match failure {
        None => effect(),
        Some(Failure::Refused) => failed(),
        Some(Failure::Unanswered) => {
            _ = effect();
            failed()
        }
    }
}

impl Sent {
    /// True for a change of the records of controllers.
    pub fn is_record(&self) -> bool {
        matches!(self.work, Work::Write(at, ..) if (3 * 4096..64 << 10).contains(&at))
    }

    /// Performs the request; returns its reply.
    pub fn perform(self, media: &[Arc<SharedMedium>], failure: Option<Failure>) -> Box<dyn FnOnce()> {
        let (medium, server) = (&media[self.drive], self.server);
        let port = medium.port(server);
        // The medium replies at once.
        fn now<T: Send + 'static>(request: impl FnOnce(Done<T>)) -> shelf::Result<T> {
            let (done, reply) = shelf::wait();
            request(done);
            super::immediate(reply)
        }
        match self.work {
            Work::Read(at, len, done) => {
                later(done, outcome(failure, || now(|done| port.read(at, len, done))))
            }
            Work::Write(at, pieces, done) => {
                later(done, outcome(failure, || now(|done| port.write(at, pieces, true, done))))
            }
            Work::Sync(done) => later(done, outcome(failure, || now(|done| port.sync(done)))),
            Work::Discard(at, len, done) => {
                later(done, outcome(failure, || now(|done| port.discard(at, len, done))))
            }
            Work::Reserve(step, done) => {
                later(done, outcome(failure, || now(|done| port.reserve(step, done))))
            }
        }
    }
}
