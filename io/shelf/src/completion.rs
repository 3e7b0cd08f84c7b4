//! Completion callbacks of asynchronous operations, and their adapter to futures.
//!
//! The data path has no runtime of its own. Callbacks let a device complete on any thread; futures let code with
//! several sequential steps be written in order.

use crate::{Error, Result};
use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Called once with the outcome, from any thread, perhaps before the method that was given it returns; must not
/// block. It is dropped uncalled if the shelf is dropped first.
pub type Done<T> = Box<dyn FnOnce(Result<T>) + Send>;

/// A callback and the future that it completes. When the callback is dropped uncalled the future ends with
/// [`Error::Drive`]: no task waits forever for a device that was removed.
pub fn wait<T: Send + 'static>() -> (Done<T>, Wait<T>) {
    let slot = Arc::new(Mutex::new(Slot { outcome: None, waker: None }));
    let promise = Promise(slot.clone());
    (Box::new(move |outcome| promise.complete(outcome)), Wait(slot))
}

/// The future of [`wait`].
pub struct Wait<T>(Arc<Mutex<Slot<T>>>);

struct Slot<T> {
    outcome: Option<Result<T>>,
    waker: Option<Waker>,
}

struct Promise<T>(Arc<Mutex<Slot<T>>>);

impl<T> Promise<T> {
    fn complete(&self, outcome: Result<T>) {
        let waker = {
            let mut slot = self.0.lock();
            slot.outcome = Some(outcome);
            slot.waker.take()
        };
        // The lock is released first: a waker may poll immediately, on this thread.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        // If the outcome was already taken, nothing polls again, and this error has no effect.
        if self.0.lock().outcome.is_none() {
            self.complete(Err(Error::Drive { what: "the request was dropped".into() }));
        }
    }
}

impl<T> Future for Wait<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let mut slot = self.0.lock();
        match slot.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                slot.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
