//! Single-threaded executor that polls tasks in an order drawn from the seed.

use crate::bounds::wide;
use block::workload::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Number of a task, increasing.
pub type TaskId = u64;

/// Ready tasks, without duplicates.
type Ready = Arc<Mutex<Vec<TaskId>>>;

/// The tasks of a world.
#[derive(Default)]
pub struct Executor {
    tasks: BTreeMap<TaskId, Pin<Box<dyn Future<Output = ()>>>>,
    ready: Ready,
    next: TaskId,
    /// Background tasks, which others may overtake while they wait.
    background: BTreeSet<TaskId>,
    /// Maximum number of overtaking steps; zero for none.
    reach: u64,
    /// Remaining steps in which background tasks are not polled.
    held: u64,
}

struct Wakes {
    id: TaskId,
    ready: Ready,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        push(&self.ready, self.id);
    }
}

fn push(ready: &Ready, id: TaskId) {
    let mut ready = ready.lock().unwrap_or_else(PoisonError::into_inner);
    if !ready.contains(&id) {
        ready.push(id);
    }
}

impl Executor {
    /// Adds a task.
    pub fn spawn(&mut self, future: impl Future<Output = ()> + 'static) -> TaskId {
        let id = self.next;
        self.next += 1;
        self.tasks.insert(id, Box::pin(future));
        push(&self.ready, id);
        id
    }

    /// Adds a background task: whenever it waits, up to `reach` steps of others may run before it continues.
    pub fn spawn_background(&mut self, reach: u64, future: impl Future<Output = ()> + 'static) {
        let id = self.spawn(future);
        self.background.insert(id);
        self.reach = reach;
    }

    /// Counts a step in which the background was not polled.
    pub fn pass(&mut self) {
        self.held = self.held.saturating_sub(1);
    }

    /// Lets the background continue.
    pub fn release_background(&mut self) {
        self.held = 0;
    }

    /// Drops a task.
    pub fn cancel(&mut self, id: TaskId) {
        self.tasks.remove(&id);
    }

    /// Number of tasks that can be polled now.
    pub fn ready(&self) -> usize {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.iter().filter(|id| self.may_poll(**id)).count()
    }

    /// True if a ready task is delayed.
    pub fn is_holding(&self) -> bool {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.iter().any(|id| !self.may_poll(*id))
    }

    fn may_poll(&self, id: TaskId) -> bool {
        self.held == 0 || !self.background.contains(&id)
    }

    /// Polls one of the ready tasks; false if there is none.
    pub fn step(&mut self, random: &mut Random) -> bool {
        let id = {
            let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            let free: Vec<usize> = (0..ready.len()).filter(|at| self.may_poll(ready[*at])).collect();
            if free.is_empty() {
                return false;
            }
            let index = free[random.below(free.len() as u64) as usize];
            ready.swap_remove(index)
        };
        self.pass();
        if let Some(task) = self.tasks.get_mut(&id) {
            let waker = Waker::from(Arc::new(Wakes { id, ready: self.ready.clone() }));
            if let Poll::Ready(()) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.tasks.remove(&id);
            }
        }
        if self.reach > 0 && self.background.contains(&id) && random.chance(50) {
            self.held = wide(random, self.reach);
        }
        true
    }
}
