//! A drive that may join an array shared by two controllers: it is examined unchanged, and reserved before the first
//! write.

use super::{Party, TimedDrive, Timer};
use crate::{Backing, Done, Drive, Error, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use shelf::ReservationStep;
use std::sync::{Arc, Weak};

/// A drive that was added while the home serves.
pub struct Newcomer {
    me: Weak<Self>,
    drive: Arc<dyn Drive>,
    party: Arc<Party>,
    timer: Timer,
    state: Mutex<State>,
}

/// A change that waits for the reservation.
type Change = Box<dyn FnOnce(Result) + Send>;

enum State {
    /// The drive is unchanged.
    Free,
    /// The reservation is in progress.
    Waiting(Vec<Change>),
    Reserved,
    Refused(Error),
}

impl Newcomer {
    /// The drive, added at the home of this party.
    pub fn new(drive: Arc<dyn Drive>, party: Arc<Party>, timer: Timer) -> Arc<Self> {
        Arc::new_cyclic(|me| Self { me: me.clone(), drive, party, timer, state: Mutex::new(State::Free) })
    }

    /// Performs a change once the drive is reserved.
    fn change(&self, change: Change) {
        let outcome = {
            let mut state = self.state.lock();
            match &mut *state {
                State::Reserved => Ok(()),
                State::Refused(error) => Err(error.clone()),
                State::Waiting(changes) => return changes.push(change),
                State::Free => {
                    *state = State::Waiting(vec![change]);
                    drop(state);
                    return self.begin();
                }
            }
        };
        change(outcome);
    }

    fn begin(&self) {
        let Some(me) = self.me.upgrade() else { return };
        shelf::spawn(async move {
            let outcome = async {
                let drive = TimedDrive::new(me.drive.clone(), me.timer.clone());
                me.party.take_part(&*drive).await?;
                me.party.take_over(&*drive).await
            };
            let outcome = outcome.await;
            let next = outcome.clone().map_or_else(State::Refused, |()| State::Reserved);
            let before = std::mem::replace(&mut *me.state.lock(), next);
            if let State::Waiting(changes) = before {
                changes.into_iter().for_each(|change| change(outcome.clone()));
            }
        });
    }

    fn run(&self, done: Done<()>, request: impl FnOnce(&dyn Drive, Done<()>) + Send + 'static) {
        let drive = self.drive.clone();
        self.change(Box::new(move |outcome| match outcome {
            Ok(()) => request(&*drive, done),
            Err(error) => done(Err(error)),
        }));
    }
}

impl Drive for Newcomer {
    fn name(&self) -> &str {
        self.drive.name()
    }

    fn bytes(&self) -> u64 {
        self.drive.bytes()
    }

    fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        self.drive.read(offset, len, done);
    }

    fn write(&self, offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()>) {
        self.run(done, move |drive, done| drive.write(offset, pieces, durable, done));
    }

    fn sync(&self, done: Done<()>) {
        self.drive.sync(done);
    }

    fn allocate(&self, offset: u64, len: u64, done: Done<()>) {
        self.run(done, move |drive, done| drive.allocate(offset, len, done));
    }

    fn backing(&self) -> Option<Backing> {
        self.drive.backing()
    }

    fn discard(&self, offset: u64, len: u64, done: Done<()>) {
        self.run(done, move |drive, done| drive.discard(offset, len, done));
    }

    fn reserve(&self, step: ReservationStep, done: Done<bool>) {
        self.drive.reserve(step, done);
    }
}
