//! Completions: the callback that ends an asynchronous operation, and the same as a future.
//!
//! The data path has no runtime of its own. Callbacks let a device complete from any thread; the future lets code that
//! does several steps in order read from top to bottom.

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
/// [`Error::Drive`]: nothing waits for ever on a device that went away.
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
        // With the lock released: a waker may poll at once, on this thread.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        // After an answer was taken nobody polls again, and this one is never seen.
        if self.0.lock().outcome.is_none() {
            self.complete(Err(Error::Drive { what: "the device dropped the request".into() }));
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
