//! Workers: where background work computes.
//!
//! A task that keeps an order hands out what may be computed beside it (compression, checksums, parity), and takes the
//! results in its own order. Threads are an argument: the process gives those that it has, the simulator runs jobs in an
//! order that it draws.

use crate::task::spawn_on;
use crate::{Wait, wait};
use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Something to compute. It must not wait for another job. One that is dropped uncalled fails the work that waits for it.
pub type Job = Box<dyn FnOnce() + Send>;

/// A handle to the workers; clones share them.
#[derive(Clone)]
pub struct Workers {
    count: NonZeroUsize,
    run: Arc<dyn Fn(Job) + Send + Sync>,
}

impl Workers {
    /// Workers that compute `count` jobs at the same time. `run` is given each job; it may call it later, on any thread, and
    /// in any order.
    pub fn new(count: NonZeroUsize, run: impl Fn(Job) + Send + Sync + 'static) -> Self {
        Self { count, run: Arc::new(run) }
    }

    /// Jobs that are computed at the same time.
    pub fn count(&self) -> usize {
        self.count.get()
    }

    /// Lets a worker compute something.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        (self.run)(Box::new(job));
    }

    /// The same, with a result.
    pub fn compute<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Wait<T> {
        let (done, computed) = wait();
        self.run(move || done(Ok(job())));
        computed
    }

    /// Computes `job` for each part; returns what to wait for, in the order of the parts. A single part is computed at once, by
    /// the caller: to hand it over would only cost more.
    pub fn compute_all<I: Send + 'static, O: Send + 'static>(
        &self,
        parts: Vec<I>,
        job: impl Fn(I) -> O + Clone + Send + 'static,
    ) -> Vec<Wait<O>> {
        let workers = if parts.len() > 1 { self.clone() } else { Self::default() };
        let begin = |part: I| {
            let job = job.clone();
            workers.compute(move || job(part))
        };
        parts.into_iter().map(begin).collect()
    }

    /// Runs a future on the workers: each wake-up is a job. It runs to its end, whether its result is waited for or not.
    pub fn spawn<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Wait<T> {
        let (done, ended) = wait();
        spawn_on(self.clone(), async move { done(Ok(future.await)) });
        ended
    }
}

/// Divides items into parts of this many, in order.
pub fn parts<T>(items: Vec<T>, each: usize) -> Vec<Vec<T>> {
    let count = items.len().div_ceil(each);
    let mut items = items.into_iter();
    (0..count).map(|_| items.by_ref().take(each).collect()).collect()
}

impl Default for Workers {
    /// None of its own: each job is computed at once, by the thread that has it.
    fn default() -> Self {
        Self::new(NonZeroUsize::MIN, |job| job())
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} workers", self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// Workers whose jobs are kept.
    fn kept() -> (Workers, Arc<Mutex<Vec<Job>>>) {
        let jobs = Arc::new(Mutex::new(Vec::new()));
        let queue = jobs.clone();
        (Workers::new(NonZeroUsize::MIN, move |job| queue.lock().push(job)), jobs)
    }

    fn poll<F: Future>(future: F) -> Poll<F::Output> {
        pin!(future).as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn take(jobs: &Mutex<Vec<Job>>) -> Job {
        jobs.lock().pop().expect("there is a job")
    }

    #[test]
    fn a_result_is_there_once_its_job_was_computed_and_an_error_if_it_was_dropped() {
        let (workers, jobs) = kept();
        let (mut first, second) = (workers.compute(|| 1), workers.compute(|| 2));
        assert!(poll(&mut first).is_pending());
        take(&jobs)();
        assert!(poll(&mut first).is_pending() && poll(second) == Poll::Ready(Ok(2)));
        drop(take(&jobs));
        assert!(matches!(poll(first), Poll::Ready(Err(_))));
        assert!(poll(Workers::default().compute(|| 3)) == Poll::Ready(Ok(3)));
    }

    #[test]
    fn a_future_runs_on_the_workers_alone() {
        let (workers, jobs) = kept();
        let (done, awaited) = wait();
        let mut ended = workers.spawn(async move { awaited.await.map(|number: u32| number + 1) });
        assert_eq!(jobs.lock().len(), 1, "it does not begin here");
        take(&jobs)();
        done(Ok(1));
        assert!(poll(&mut ended).is_pending(), "it continues on a worker");
        take(&jobs)();
        assert!(poll(ended) == Poll::Ready(Ok(Ok(2))));
        assert!(jobs.lock().is_empty());
    }
}
