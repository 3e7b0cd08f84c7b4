//! The order of the tasks of one logical unit (SAM-5 8.7): a matrix, and the queue that applies it.
//!
//! Media commands of the unit's paths run side by side and are only counted, on each path's own gate. Once a task
//! that needs the others to stand still is queued, a flag in every gate sends new commands here instead.

use crate::TaskAttribute;
use std::collections::VecDeque;
use std::task::Waker;

/// How a task stands to the others of its logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Touches no medium and no reservation: INQUIRY, MODE SENSE, LOG SENSE.
    Free,
    /// Works on the medium, with the attribute SIMPLE.
    Media,
    /// Works on the medium, with the attribute ORDERED.
    Ordered,
    /// Works on the medium, with the attribute HEAD OF QUEUE.
    Head,
    /// Changes what other commands are checked against: reservations, mode pages.
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
    /// The class of a task whose command is of class `self`, given its attribute.
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

    /// Whether others wait for this class, or it for them, so that it must be queued.
    pub(crate) fn is_barrier(self) -> bool {
        matches!(self, Ordered | Change)
    }
}

/// The tasks of a unit that are not merely counted: barriers, and everything that came while there was one.
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
    /// Adds the newest task; answers its identity.
    pub(crate) fn push(&mut self, class: Class) -> u64 {
        let id = self.next;
        self.next += 1;
        self.entries.push_back(Entry { id, class, waker: None });
        id
    }

    /// Whether the task may run, given the number of tasks that were let in before the barrier and are only counted.
    pub(crate) fn may_run(&self, id: u64, counted: u64) -> bool {
        let mut older = self.entries.iter().take_while(|entry| entry.id != id);
        let class = self.entries.iter().find(|entry| entry.id == id).map_or(Free, |entry| entry.class);
        !older.any(|entry| class.waits_for(entry.class)) && (counted == 0 || !class.waits_for(Media))
    }

    /// Remembers whom to wake when the task may be able to run.
    pub(crate) fn park(&mut self, id: u64, waker: &Waker) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id) {
            entry.waker = Some(waker.clone());
        }
    }

    /// Takes the task out.
    pub(crate) fn remove(&mut self, id: u64) {
        self.entries.retain(|entry| entry.id != id);
    }

    /// Whether a task is queued that keeps newer ones from being merely counted.
    pub(crate) fn has_barrier(&self) -> bool {
        self.entries.iter().any(|entry| entry.class.is_barrier())
    }

    /// The wakers of all parked tasks; those that still may not run park again.
    pub(crate) fn take_wakers(&mut self) -> Vec<Waker> {
        self.entries.iter_mut().filter_map(|entry| entry.waker.take()).collect()
    }
}

#[cfg(test)]
#[path = "task_set_test.rs"]
mod tests;
