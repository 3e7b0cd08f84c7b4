//! The task set of a logical unit (SAM-5 8.7): which task waits for which, and the queue that applies it.
//!
//! Simple tasks run side by side and are only counted, in each path's gate ([`crate::unit::gate`]). While a barrier is
//! queued, a flag in every gate sends new tasks to this queue instead.

use crate::TaskAttribute;
use std::collections::VecDeque;
use std::task::Waker;

/// Classes of tasks by what they wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Uses no medium and no reservation: INQUIRY, MODE SENSE, LOG SENSE.
    Free,
    /// Uses the medium; task attribute SIMPLE.
    Media,
    /// Uses the medium; task attribute ORDERED.
    Ordered,
    /// Uses the medium; task attribute HEAD OF QUEUE.
    Head,
    /// Changes state that other commands are checked against: reservations, mode pages.
    Change,
}

use Class::{Change, Free, Head, Media, Ordered};

/// `WAITS[newer][older]`: whether the newer task waits for the end of the older one.
#[rustfmt::skip]
const WAITS: [[bool; 5]; 5] = [
    // older:  Free   Media  Ordered Head   Change       newer:
    [          false, false, false,  false, false], // Free
    [          false, false, true,   false, true ], // Media
    [          false, true,  true,   true,  true ], // Ordered
    [          false, false, false,  false, true ], // Head
    [          false, true,  true,   true,  true ], // Change
];

impl Class {
    /// The class of a task, given the class of its command and its task attribute.
    pub(crate) fn with(self, attribute: TaskAttribute) -> Class {
        match (self, attribute) {
            (Media, TaskAttribute::Ordered) => Ordered,
            (Media, TaskAttribute::HeadOfQueue) => Head,
            (class, _) => class,
        }
    }

    /// Whether a task of this class waits for the end of an older one of class `older`.
    pub(crate) fn waits_for(self, older: Class) -> bool {
        WAITS[self as usize][older as usize]
    }

    /// Whether the task is a barrier: simple tasks wait for it, or it for them, so it must be queued.
    pub(crate) fn is_barrier(self) -> bool {
        matches!(self, Ordered | Change)
    }
}

/// The queued tasks of a unit: barriers, and tasks that came while a barrier was queued.
#[derive(Default)]
pub(crate) struct Queue {
    entries: VecDeque<Entry>,
    next: u64,
}

struct Entry {
    id: u64,
    class: Class,
    waker: Option<Waker>,
}

impl Queue {
    /// Adds a task; returns its identifier.
    pub(crate) fn push(&mut self, class: Class) -> u64 {
        let id = self.next;
        self.next += 1;
        self.entries.push_back(Entry { id, class, waker: None });
        id
    }

    /// Whether the task may run, given the number of simple tasks that entered before the barrier.
    pub(crate) fn may_run(&self, id: u64, counted: u64) -> bool {
        let mut older = self.entries.iter().take_while(|entry| entry.id != id);
        let class = self.entries.iter().find(|entry| entry.id == id).map_or(Free, |entry| entry.class);
        !older.any(|entry| class.waits_for(entry.class)) && (counted == 0 || !class.waits_for(Media))
    }

    /// Stores the waker of a task that may not run yet.
    pub(crate) fn park(&mut self, id: u64, waker: &Waker) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id) {
            entry.waker = Some(waker.clone());
        }
    }

    /// Removes the task.
    pub(crate) fn remove(&mut self, id: u64) {
        self.entries.retain(|entry| entry.id != id);
    }

    /// Whether a barrier is queued.
    pub(crate) fn has_barrier(&self) -> bool {
        self.entries.iter().any(|entry| entry.class.is_barrier())
    }

    /// The wakers of all parked tasks; a task that still may not run parks again.
    pub(crate) fn take_wakers(&mut self) -> Vec<Waker> {
        self.entries.iter_mut().filter_map(|entry| entry.waker.take()).collect()
    }
}

#[cfg(test)]
#[path = "task_set_test.rs"]
mod tests;
