//! The running tasks of a session: polled by the connection's own task, each only after it was woken, and dropped by
//! tag or by logical unit when they are aborted.

use crate::response::Expectation;
use parking_lot::Mutex;
use scsi::{Lun, Response};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// The future in [`scsi::Execution::Task`].
pub(crate) type Running = Pin<Box<dyn Future<Output = Option<Response>> + Send>>;

/// A set of running tasks.
#[derive(Default)]
pub(crate) struct Tasks {
    slots: Vec<Slot>,
    free: Vec<usize>,
    by_tag: BTreeMap<u32, usize>,
    shared: Arc<Shared>,
    charge: u64,
}

/// A slot for a task. Its waker outlives the task; a late wake-up only causes a spurious poll.
struct Slot {
    flag: Arc<Flag>,
    waker: Waker,
    task: Option<Task>,
}

struct Task {
    expectation: Expectation,
    lun: Lun,
    charge: u64,
    running: Running,
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
        // For later wake-ups before the next poll the parent is woken already.
        let parent = woken.parent.take();
        drop(woken);
        if let Some(parent) = parent {
            parent.wake();
        }
    }
}

impl Tasks {
    /// Adds a task, to be polled with the next [`Tasks::poll`]. `charge` is the memory it may take, in bytes.
    pub(crate) fn insert(&mut self, expectation: Expectation, lun: Lun, charge: u64, running: Running) {
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        self.by_tag.insert(expectation.itt, index);
        self.charge += charge;
        let slot = &mut self.slots[index];
        slot.task = Some(Task { expectation, lun, charge, running });
        slot.flag.wake_by_ref();
    }

    fn grow(&mut self) -> usize {
        let slot = self.slots.len();
        let flag = Arc::new(Flag { slot, queued: AtomicBool::new(false), shared: self.shared.clone() });
        self.slots.push(Slot { waker: Waker::from(flag.clone()), flag, task: None });
        slot
    }

    /// Memory that the tasks may take together, in bytes.
    pub(crate) fn charge(&self) -> u64 {
        self.charge
    }

    pub(crate) fn contains(&self, itt: u32) -> bool {
        !self.by_tag.is_empty() && self.by_tag.contains_key(&itt)
    }

    /// The logical unit of the task with this tag.
    pub(crate) fn lun(&self, itt: u32) -> Option<Lun> {
        let slot = &self.slots[*self.by_tag.get(&itt)?];
        slot.task.as_ref().map(|task| task.lun)
    }

    /// Drops the task with this tag, which aborts it.
    pub(crate) fn remove(&mut self, itt: u32) -> Option<Expectation> {
        let index = *self.by_tag.get(&itt)?;
        self.take(index)
    }

    /// Drops the tasks of a logical unit, or all of them.
    pub(crate) fn remove_lun(&mut self, lun: Option<Lun>) -> Vec<Expectation> {
        let of_lun =
            |slot: &Slot| slot.task.as_ref().is_some_and(|task| lun.is_none_or(|lun| lun == task.lun));
        let indices: Vec<usize> = (0..self.slots.len()).filter(|index| of_lun(&self.slots[*index])).collect();
        indices.into_iter().filter_map(|index| self.take(index)).collect()
    }

    fn take(&mut self, index: usize) -> Option<Expectation> {
        let task = self.slots[index].task.take()?;
        self.by_tag.remove(&task.expectation.itt);
        self.free.push(index);
        self.charge -= task.charge;
        Some(task.expectation)
    }

    /// Polls the woken tasks; returns those that ended. Pending if none was woken.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Vec<(Expectation, Option<Response>)>> {
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
                && let Some(expectation) = self.take(index)
            {
                ended.push((expectation, response));
            }
        }
        Poll::Ready(ended)
    }
}
