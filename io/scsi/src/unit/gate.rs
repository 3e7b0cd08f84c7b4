//! Admission into the task set of a unit (SAM-5 8.6): the gate of each path, and the entry that a task holds.
//!
//! The gate is one atomic word: flags that say what has to be checked before a command begins, and a count of the
//! simple tasks in progress. A command on a path without flags enters and leaves without a lock. Only while a barrier
//! is queued do all commands go through the unit's queue ([`crate::encoding::task_set`]).

use crate::encoding::task_set::Class;
use crate::unit::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// A unit attention condition is pending on this path.
pub(crate) const UNIT_ATTENTION: u64 = 1 << 32;
/// A reservation exists that this path has to be checked against.
pub(crate) const RESERVED: u64 = 1 << 33;
/// A barrier is queued: tasks must be queued after it.
pub(crate) const BARRIER: u64 = 1 << 34;
/// The unit is write protected by SWP of the control mode page, or for this path.
pub(crate) const PROTECTED: u64 = 1 << 35;
/// The path is closed: its initiator does not see the unit any more.
pub(crate) const CLOSED: u64 = 1 << 36;
/// A QoS limit applies.
pub(crate) const LIMITED: u64 = 1 << 37;
/// The number of the unit was another unit's for this nexus, and the initiator has not read since which one it
/// is.
pub(crate) const REPLACED: u64 = 1 << 38;
/// The number of tasks inside.
const COUNT: u64 = UNIT_ATTENTION - 1;

/// The gate of a path.
#[derive(Default)]
pub(crate) struct Gate(AtomicU64);

/// The flags of a gate when a task enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(u64);

impl Flags {
    /// True if nothing has to be checked before the command begins.
    pub(crate) fn plain(self) -> bool {
        self.0 & !LIMITED == 0
    }

    pub(crate) fn unit_attention(self) -> bool {
        self.0 & UNIT_ATTENTION != 0
    }

    pub(crate) fn reserved(self) -> bool {
        self.0 & RESERVED != 0
    }

    pub(crate) fn protected(self) -> bool {
        self.0 & PROTECTED != 0
    }

    pub(crate) fn replaced(self) -> bool {
        self.0 & REPLACED != 0
    }

    pub(crate) fn limited(self) -> bool {
        self.0 & LIMITED != 0
    }
}

impl Gate {
    pub(crate) fn set(&self, flag: u64, on: bool) {
        if on {
            self.0.fetch_or(flag, Ordering::SeqCst);
        } else {
            self.0.fetch_and(!flag, Ordering::SeqCst);
        }
    }

    pub(crate) fn flags(&self) -> Flags {
        Flags(self.0.load(Ordering::SeqCst) & !(COUNT | BARRIER))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Ordering::SeqCst) & CLOSED != 0
    }

    pub(crate) fn is_replaced(&self) -> bool {
        self.0.load(Ordering::SeqCst) & REPLACED != 0
    }

    /// Tasks inside.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst) & COUNT
    }

    /// Counts a task in; returns the flags, or `None` (and counts nothing) if a barrier is queued.
    fn enter(&self, path: &Path) -> Option<Flags> {
        let before = self.0.fetch_add(1, Ordering::SeqCst) & !COUNT;
        if before & BARRIER == 0 {
            return Some(Flags(before));
        }
        self.leave(path);
        None
    }

    /// Counts a task out; wakes queued tasks if there is a barrier, which may have waited for it.
    fn leave(&self, path: &Path) {
        let before = self.0.fetch_sub(1, Ordering::SeqCst);
        debug_assert_ne!(before & COUNT, 0, "a task leaves once");
        if before & BARRIER != 0 {
            path.unit.wake_queued();
        }
    }
}

/// A task's entry in the task set of its unit. Dropping it lets tasks go on that waited for it.
pub(crate) struct TaskSetEntry {
    path: Arc<Path>,
    position: Position,
}

/// How a task takes part in the ordering of the task set.
#[derive(Clone, Copy)]
enum Position {
    /// Not at all.
    Unordered,
    /// Counted in the path's gate.
    Counted,
    /// An entry of the unit's queue.
    Queued(u64),
}

impl TaskSetEntry {
    /// Ready once the task may be dispatched.
    pub(crate) fn poll_dispatch(&self, context: &mut Context<'_>) -> Poll<()> {
        let Position::Queued(entry) = self.position else { return Poll::Ready(()) };
        let mut core = self.path.unit.lock();
        if core.queue.may_run(entry, core.counted()) {
            return Poll::Ready(());
        }
        // A counted task that leaves from now on sees the barrier, and wakes us once it gets this lock.
        core.queue.park(entry, context.waker());
        Poll::Pending
    }

    /// Whether the task may be dispatched now.
    pub(crate) fn may_dispatch(&self) -> bool {
        self.poll_dispatch(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// What has to be checked before the task begins.
    pub(crate) fn flags(&self) -> Flags {
        self.path.gate.flags()
    }
}

impl Drop for TaskSetEntry {
    fn drop(&mut self) {
        match self.position {
            Position::Unordered => (),
            Position::Counted => self.path.gate.leave(&self.path),
            Position::Queued(entry) => {
                let mut core = self.path.unit.lock();
                core.queue.remove(entry);
                core.refresh_barrier();
                drop(core);
                self.path.unit.wake_queued();
            }
        }
    }
}

impl Path {
    /// Enters the task set of the unit. The task may have to wait until it may be dispatched.
    pub(crate) fn enter_task_set(self: &Arc<Path>, class: Class) -> (TaskSetEntry, Flags) {
        let entry = |position| TaskSetEntry { path: self.clone(), position };
        if class == Class::Free {
            return (entry(Position::Unordered), self.gate.flags());
        }
        if !class.is_barrier()
            && let Some(flags) = self.gate.enter(self)
        {
            return (entry(Position::Counted), flags);
        }
        let mut core = self.unit.lock();
        let queued = core.queue.push(class);
        core.refresh_barrier();
        drop(core);
        (entry(Position::Queued(queued)), self.gate.flags())
    }
}
