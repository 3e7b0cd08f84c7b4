//! Waiting without clocks: a signal for the background, a queue for operations that need room, and a watermark for
//! acknowledgements that need credit.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Poll, Waker};

/// Wakes one waiter; a call without a waiter is remembered.
#[derive(Default)]
pub struct Signal {
    state: Mutex<(bool, Option<Waker>)>,
    dozes: AtomicBool,
}

impl Signal {
    /// Wakes the waiter, or the next one at once.
    pub fn notify(&self) {
        let waker = {
            let mut state = self.state.lock();
            state.0 = true;
            state.1.take()
        };
        self.end_doze();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Wakes the waiter unless it dozes.
    pub fn hint(&self) {
        if !self.dozes() {
            self.notify();
        }
    }

    /// From now on the waiter ignores hints until it is notified.
    pub fn doze(&self) {
        self.dozes.store(true, Ordering::SeqCst);
    }

    /// Ends [`Signal::doze`].
    pub fn end_doze(&self) {
        self.dozes.store(false, Ordering::SeqCst);
    }

    /// Whether the waiter ignores hints.
    pub fn dozes(&self) -> bool {
        self.dozes.load(Ordering::SeqCst)
    }

    /// Waits for the next [`Signal::notify`].
    pub fn wait(&self) -> impl Future<Output = ()> + '_ {
        std::future::poll_fn(|cx| {
            let mut state = self.state.lock();
            if std::mem::take(&mut state.0) {
                return Poll::Ready(());
            }
            state.1 = Some(cx.waker().clone());
            Poll::Pending
        })
    }
}

/// Waits for one of two; true if the first is over.
pub async fn either(first: impl Future<Output = ()>, second: impl Future<Output = ()>) -> bool {
    let (mut first, mut second) = (pin!(first), pin!(second));
    std::future::poll_fn(|cx| match first.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(true),
        Poll::Pending => second.as_mut().poll(cx).map(|()| false),
    })
    .await
}

/// Yields to other tasks of the executor once.
pub fn pause() -> impl Future<Output = ()> {
    let mut paused = false;
    std::future::poll_fn(move |cx| {
        if paused {
            return Poll::Ready(());
        }
        paused = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

/// Waiters in the order of their tickets.
#[derive(Default)]
struct Queue {
    next: u64,
    waiting: BTreeMap<(u64, u64), Option<Waker>>,
}

/// Operations that wait until the background has made room, first come, first served.
#[derive(Default)]
pub struct RoomQueue {
    queue: Mutex<Queue>,
    waiting: AtomicUsize,
}

impl RoomQueue {
    /// Whether an operation waits: a newcomer has to queue up.
    pub fn is_queued(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Queues up.
    pub fn ticket(&self) -> Ticket<'_> {
        let mut queue = self.queue.lock();
        let number = queue.next;
        queue.next += 1;
        queue.waiting.insert((number, 0), None);
        self.waiting.fetch_add(1, Ordering::Release);
        Ticket { room: self, number }
    }

    /// Wakes the first in the queue: the background made room.
    pub fn freed(&self) {
        let waker = {
            let mut queue = self.queue.lock();
            queue.waiting.first_entry().and_then(|mut first| first.get_mut().take())
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A position in the queue; dropped when the operation got its room, or was cancelled.
pub struct Ticket<'a> {
    room: &'a RoomQueue,
    number: u64,
}

impl Ticket<'_> {
    /// Waits until this is the first in the queue and `try_again` succeeds; it is tried again whenever room is made.
    pub async fn turn<T>(&self, mut try_again: impl FnMut() -> Option<T>) -> T {
        std::future::poll_fn(|cx| {
            let first = {
                let mut queue = self.room.queue.lock();
                let first = queue.waiting.first_key_value().is_some_and(|(key, _)| key.0 == self.number);
                if let Some(waker) = queue.waiting.get_mut(&(self.number, 0)) {
                    *waker = Some(cx.waker().clone());
                }
                first
            };
            match first.then(&mut try_again).flatten() {
                Some(got) => Poll::Ready(got),
                None => Poll::Pending,
            }
        })
        .await
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.room.queue.lock().waiting.remove(&(self.number, 0));
        self.room.waiting.fetch_sub(1, Ordering::Release);
        self.room.freed();
    }
}

/// A count that only grows, and waiters for values of it.
#[derive(Default)]
pub struct Watermark {
    progress: AtomicU64,
    open: AtomicBool,
    queue: Mutex<Queue>,
}

impl Watermark {
    /// Raises the count to `progress`.
    pub fn advance(&self, progress: u64) {
        if self.progress.fetch_max(progress, Ordering::AcqRel) >= progress {
            return;
        }
        let ready = {
            let mut queue = self.queue.lock();
            let later = queue.waiting.split_off(&(progress, u64::MAX));
            std::mem::replace(&mut queue.waiting, later)
        };
        ready.into_values().flatten().for_each(Waker::wake);
    }

    /// The count.
    pub fn now(&self) -> u64 {
        self.progress.load(Ordering::Acquire)
    }

    /// While it is open, callers do not wait.
    pub fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Release);
        if open {
            let ready = std::mem::take(&mut self.queue.lock().waiting);
            ready.into_values().flatten().for_each(Waker::wake);
        }
    }

    /// Waits until the count has reached `target`.
    pub async fn reached(&self, target: u64) {
        std::future::poll_fn(|cx| {
            let mut queue = self.queue.lock();
            if self.progress.load(Ordering::Acquire) >= target || self.open.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
            let number = queue.next;
            queue.next += 1;
            queue.waiting.insert((target, number), Some(cx.waker().clone()));
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Context;

    fn is_woken(signal: &Signal) -> bool {
        pin!(signal.wait()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn hints_do_not_end_a_doze_and_notices_do() {
        let signal = Signal::default();
        signal.hint();
        assert!(is_woken(&signal) && !is_woken(&signal));
        signal.doze();
        signal.hint();
        assert!(!is_woken(&signal) && signal.dozes());
        signal.notify();
        assert!(is_woken(&signal) && !signal.dozes());
        signal.hint();
        assert!(is_woken(&signal), "it is awake");
    }
}
