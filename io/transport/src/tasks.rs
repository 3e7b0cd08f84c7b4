//! Running commands of a connection. The connection's own task polls each one only after it was woken; dropping a
//! command aborts it.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// The future of a command.
pub type Running<R> = Pin<Box<dyn Future<Output = R> + Send>>;

/// A set of running tasks with results `R`. Each has a unique tag, and a value `T` that its owner needs when the task
/// ends.
pub struct Tasks<T, R> {
    slots: Vec<Slot<T, R>>,
    free: Vec<usize>,
    by_tag: BTreeMap<u32, usize>,
    shared: Arc<Shared>,
    charge: u64,
}

/// A slot for a task. Its waker outlives the task; a late wake-up only causes a spurious poll.
struct Slot<T, R> {
    flag: Arc<Flag>,
    waker: Waker,
    task: Option<Task<T, R>>,
}

struct Task<T, R> {
    tag: u32,
    about: T,
    charge: u64,
    running: Running<R>,
}

impl<T, R> Default for Tasks<T, R> {
    fn default() -> Self {
        let (slots, free, by_tag, shared) = Default::default();
        Self { slots, free, by_tag, shared, charge: 0 }
    }
}

/// The woken slots, and the waker of the connection.
#[derive(Default)]
struct Shared(Mutex<Woken>);

#[derive(Default)]
struct Woken {
    slots: Vec<usize>,
    parent: Option<Waker>,
}

struct Flag {
    slot: usize,
    queued: AtomicBool,
    shared: Arc<Shared>,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut woken = self.shared.0.lock();
        woken.slots.push(self.slot);
        // The parent is already woken for later wake-ups before the next poll.
        let parent = woken.parent.take();
        drop(woken);
        if let Some(parent) = parent {
            parent.wake();
        }
    }
}

impl<T, R> Tasks<T, R> {
    /// Adds a task, polled by the next [`Tasks::poll`]. `charge` is the memory that it may take, in bytes.
    pub fn insert(&mut self, tag: u32, about: T, charge: u64, running: Running<R>) {
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        self.by_tag.insert(tag, index);
        self.charge += charge;
        let slot = &mut self.slots[index];
        slot.task = Some(Task { tag, about, charge, running });
        slot.flag.wake_by_ref();
    }

    fn grow(&mut self) -> usize {
        let slot = self.slots.len();
        let flag = Arc::new(Flag { slot, queued: AtomicBool::new(false), shared: self.shared.clone() });
        self.slots.push(Slot { waker: Waker::from(flag.clone()), flag, task: None });
        slot
    }

    /// Memory that all tasks may take, in bytes.
    pub fn charge(&self) -> u64 {
        self.charge
    }

    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.by_tag.len()
    }

    /// True if there is no task.
    pub fn is_empty(&self) -> bool {
        self.by_tag.is_empty()
    }

    /// True if a task has this tag.
    pub fn contains(&self, tag: u32) -> bool {
        !self.by_tag.is_empty() && self.by_tag.contains_key(&tag)
    }

    /// The owner's value for the task with this tag.
    pub fn about(&self, tag: u32) -> Option<&T> {
        self.slots[*self.by_tag.get(&tag)?].task.as_ref().map(|task| &task.about)
    }

    /// Drops the task with this tag, which aborts it.
    pub fn remove(&mut self, tag: u32) -> Option<T> {
        let index = *self.by_tag.get(&tag)?;
        self.take(index)
    }

    /// Drops the tasks that `choose` selects.
    pub fn remove_where(&mut self, choose: impl Fn(&T) -> bool) -> Vec<T> {
        let chosen = |slot: &Slot<T, R>| slot.task.as_ref().is_some_and(|task| choose(&task.about));
        let indices: Vec<usize> = (0..self.slots.len()).filter(|index| chosen(&self.slots[*index])).collect();
        indices.into_iter().filter_map(|index| self.take(index)).collect()
    }

    fn take(&mut self, index: usize) -> Option<T> {
        let task = self.slots[index].task.take()?;
        self.by_tag.remove(&task.tag);
        self.free.push(index);
        self.charge -= task.charge;
        Some(task.about)
    }

    /// Polls the woken tasks; returns those that ended. Pending if none was woken.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Vec<(T, R)>> {
        let woken = {
            let mut shared = self.shared.0.lock();
            if !shared.parent.as_ref().is_some_and(|parent| parent.will_wake(cx.waker())) {
                shared.parent = Some(cx.waker().clone());
            }
            std::mem::take(&mut shared.slots)
        };
        if woken.is_empty() {
            return Poll::Pending;
        }
        let mut ended = Vec::with_capacity(woken.len());
        for &index in &woken {
            let slot = &mut self.slots[index];
            slot.flag.queued.store(false, Ordering::Release);
            let Some(task) = &mut slot.task else { continue };
            if let Poll::Ready(response) = task.running.as_mut().poll(&mut Context::from_waker(&slot.waker))
                && let Some(about) = self.take(index)
            {
                ended.push((about, response));
            }
        }
        Poll::Ready(ended)
    }
}
