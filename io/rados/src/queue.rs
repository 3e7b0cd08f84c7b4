//! A queue that runs the operations on one object one after the other.
//!
//! Creation, writes and removal must keep their order. Concurrency would not gain anything: a compound operation with a
//! comparison is exclusive on its object, so that further ones would only wait in the cluster.

use parking_lot::Mutex;
use shelf::pool::BoxFuture;
use std::collections::VecDeque;
use std::sync::Arc;

type Job = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

/// Jobs in the order in which they were pushed, one at a time.
#[derive(Clone, Default)]
pub struct Queue(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    running: bool,
    waiting: VecDeque<Job>,
}

impl Queue {
    /// Runs a job after those before it.
    pub fn push(&self, job: impl FnOnce() -> BoxFuture<'static, ()> + Send + 'static) {
        {
            let mut state = self.0.lock();
            state.waiting.push_back(Box::new(job));
            if std::mem::replace(&mut state.running, true) {
                return;
            }
        }
        let queue = self.clone();
        shelf::spawn(async move {
            while let Some(job) = queue.next() {
                job().await;
            }
        });
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.0.lock();
        let job = state.waiting.pop_front();
        state.running = job.is_some();
        job
    }
}
