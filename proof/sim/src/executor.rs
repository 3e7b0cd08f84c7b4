//! Tasks on one thread, polled in an order that a seed decides.

use crate::bounds::wide;
use block::workload::Random;
use std::collections::{BTreeMap, BTreeSet};
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
    /// Tasks that the others may overtake where they wait.
    background: BTreeSet<TaskId>,
    /// How far, at most; not at all when zero.
    reach: u64,
    /// Steps that these do not take part in.
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

    /// Adds a task of the background: whenever it waits, up to `reach` steps of others may come before it goes on.
    pub fn spawn_background(&mut self, reach: u64, future: impl Future<Output = ()> + 'static) {
        let id = self.spawn(future);
        self.background.insert(id);
        self.reach = reach;
    }

    /// A step has been taken that the background had no part in.
    pub fn pass(&mut self) {
        self.held = self.held.saturating_sub(1);
    }

    /// Ends what holds the background up.
    pub fn let_go(&mut self) {
        self.held = 0;
    }

    /// Drops a task where it stands.
    pub fn cancel(&mut self, id: TaskId) {
        self.tasks.remove(&id);
    }

    /// Number of tasks that can go on now.
    pub fn ready(&self) -> usize {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.iter().filter(|id| self.may_go_on(**id)).count()
    }

    /// True when a task could go on that is held up.
    pub fn is_holding(&self) -> bool {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.iter().any(|id| !self.may_go_on(*id))
    }

    fn may_go_on(&self, id: TaskId) -> bool {
        self.held == 0 || !self.background.contains(&id)
    }

    /// Polls one of the ready tasks; false when there is none.
    pub fn step(&mut self, random: &mut Random) -> bool {
        let id = {
            let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            let free: Vec<usize> = (0..ready.len()).filter(|at| self.may_go_on(ready[*at])).collect();
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
