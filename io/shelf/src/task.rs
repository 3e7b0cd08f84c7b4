//! A minimal executor: a future runs on the thread that completes the operation it waits for, or on workers.
//!
//! The data path has no runtime of its own, and its futures must not depend on the caller's runtime.

use crate::Workers;
use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Runs the future until it first waits; every wake-up continues it, on the waking thread.
pub fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    Task::new(future, None).wake();
}

/// Runs the future on workers: every wake-up is a job of theirs.
pub(crate) fn spawn_on(workers: Workers, future: impl Future<Output = ()> + Send + 'static) {
    Task::new(future, Some(workers)).wake();
}

struct Task {
    /// Where it runs, if not on the thread that wakes it.
    workers: Option<Workers>,
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    /// Wake-ups not yet followed by a poll. The thread that increments it from zero polls; other threads return.
    wakes: AtomicUsize,
}

impl Task {
    fn new(future: impl Future<Output = ()> + Send + 'static, workers: Option<Workers>) -> Arc<Self> {
        Arc::new(Self { workers, future: Mutex::new(Some(Box::pin(future))), wakes: AtomicUsize::new(0) })
    }

    fn run(self: Arc<Self>) {
        if self.wakes.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let waker = Waker::from(self.clone());
        loop {
            let seen = self.wakes.load(Ordering::Acquire);
            {
                let mut future = self.future.lock();
                let Some(running) = future.as_mut() else { return };
                if running.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                    *future = None;
                }
            }
            if self.wakes.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return;
            }
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        match self.workers.clone() {
            Some(workers) => workers.run(move || self.run()),
            None => self.run(),
        }
    }
}

/// Polls several futures together; returns their outputs, in their order, when all are done.
pub async fn join<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        let mut is_pending = false;
        for (future, outcome) in running.iter_mut().filter(|(_, outcome)| outcome.is_none()) {
            match future.as_mut().poll(cx) {
                Poll::Ready(done) => *outcome = Some(done),
                Poll::Pending => is_pending = true,
            }
        }
        if is_pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(|(_, outcome)| outcome).collect()
}
