//! Completion of an operation that consists of several requests.

use crate::{Done, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// Counts the requests of an operation and completes it with the last.
pub(super) struct Gather<T>(Mutex<Option<Gathering<T>>>);

struct Gathering<T> {
    left: usize,
    whole: Result<T>,
    done: Done<T>,
}

impl<T: Send + 'static> Gather<T> {
    pub(super) fn new(parts: usize, whole: T, done: Done<T>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(Gathering { left: parts, whole: Ok(whole), done }))))
    }

    /// One request has completed: `add` merges its result.
    pub(super) fn part<P>(&self, outcome: Result<P>, add: impl FnOnce(&mut T, P)) {
        let mut slot = self.0.lock();
        let Some(gathering) = slot.as_mut() else { return };
        match (outcome, &mut gathering.whole) {
            (Ok(part), Ok(whole)) => add(whole, part),
            (Err(cause), Ok(_)) => gathering.whole = Err(cause),
            (_, Err(_)) => {}
        }
        gathering.left -= 1;
        if gathering.left == 0
            && let Some(Gathering { whole, done, .. }) = slot.take()
        {
            drop(slot);
            done(whole);
        }
    }
}
