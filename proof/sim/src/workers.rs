//! Workers of a machine: jobs that end in an order that the seed draws.
//!
//! Jobs begin in the order in which they were handed over, as many at the same time as there are workers. Which of those
//! ends first, and after how much else, is drawn.

use crate::bounds::wide;
use block::workload::Random;
use shelf::{Job, Workers};
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Workers at most.
const MAX_WORKERS: u64 = 4;

type Queue = Mutex<VecDeque<Job>>;

/// Jobs that have not ended.
pub struct Jobs {
    queue: Arc<Queue>,
    workers: Workers,
    random: Random,
}

impl Jobs {
    /// None yet. All draws are independent of every other.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x6a6f_6273);
        let count = NonZeroUsize::new(wide(&mut random, MAX_WORKERS) as usize).unwrap_or(NonZeroUsize::MIN);
        let queue = Arc::new(Queue::default());
        let jobs = queue.clone();
        Self { queue, workers: Workers::new(count, move |job| lock(&jobs).push_back(job)), random }
    }

    /// Where jobs are handed over.
    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Computes jobs at once from now on.
    pub fn inline(&mut self) {
        self.workers = Workers::default();
    }

    /// Whether one ends now; it does if nothing else can happen.
    pub fn ends_now(&mut self, nothing_else: bool) -> bool {
        !lock(&self.queue).is_empty() && (nothing_else || self.random.chance(30))
    }

    /// Ends one of those that have begun; returns which.
    pub fn end_one(&mut self) -> usize {
        let begun = lock(&self.queue).len().min(self.workers.count());
        let which = self.random.below(begun as u64) as usize;
        let job = lock(&self.queue).remove(which);
        job.into_iter().for_each(|job| job());
        which
    }

    /// Drops all of them, also what they hand over while they are dropped.
    pub fn crash(&mut self) {
        while let Some(job) = { lock(&self.queue).pop_front() } {
            drop(job);
        }
    }
}

fn lock(queue: &Queue) -> MutexGuard<'_, VecDeque<Job>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
