//! Tasks on one thread, polled in an order that a seed decides.

use block::workload::Random;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A task's number; grows with every task.
pub type TaskId = u64;

/// Tasks that may be polled, without repetition.
type Ready = Arc<Mutex<Vec<TaskId>>>;

/// The tasks of a world.
#[derive(Default)]
pub struct Executor {
    tasks: BTreeMap<TaskId, Pin<Box<dyn Future<Output = ()>>>>,
    ready: Ready,
    next: TaskId,
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

    /// Drops a task where it stands.
    pub fn cancel(&mut self, id: TaskId) {
        self.tasks.remove(&id);
    }

    /// Number of tasks that can go on.
    pub fn ready(&self) -> usize {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Polls one of the ready tasks; false when there is none.
    pub fn step(&mut self, random: &mut Random) -> bool {
        let id = {
            let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            if ready.is_empty() {
                return false;
            }
            let index = random.below(ready.len() as u64) as usize;
            ready.swap_remove(index)
        };
        if let Some(task) = self.tasks.get_mut(&id) {
            let waker = Waker::from(Arc::new(Wakes { id, ready: self.ready.clone() }));
            if let Poll::Ready(()) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.tasks.remove(&id);
            }
        }
        true
    }
}
