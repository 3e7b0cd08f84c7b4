//! A lock that many read: whoever reads writes to a cache line of its thread alone, so that threads which read at the
//! same time do not slow each other down. Whoever writes looks at all of those lines, which is cheap while nobody reads
//! and dearer than with one count otherwise.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counts of readers; threads beyond share them.
const LANES: usize = 16;

/// Looks before a thread sleeps: most reads and changes take less than the microsecond or two that these take, and
/// falling asleep and being woken takes several.
const SPINS: usize = 200;

/// A cache line of its own, and the one that the processor fetches with it.
#[derive(Default)]
#[repr(align(128))]
pub struct CachePadded<T>(T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Notes that something was used. A line that is not written stays with all who read it.
pub fn note_use(used: &AtomicBool) {
    if !used.load(Ordering::Relaxed) {
        used.store(true, Ordering::Relaxed);
    }
}

/// What it guards is read by many or changed by one.
pub struct ShardedLock<T> {
    lanes: [CachePadded<AtomicUsize>; LANES],
    gate: CachePadded<Gate>,
    value: CachePadded<UnsafeCell<T>>,
}

#[derive(Default)]
struct Gate {
    /// One writes, or waits until those that read have ended; others do not begin.
    writing: AtomicBool,
    /// Held by the one that writes.
    turn: Mutex<()>,
    /// For the one that writes, while it waits for readers.
    asleep: Mutex<()>,
    left: Condvar,
}

// SAFETY: the value moves with the lock, and a writer on any thread has it alone.
unsafe impl<T: Send> Send for ShardedLock<T> {}
// SAFETY: threads get `&T` at the same time, hence `Sync`, or one gets `&mut T`, hence `Send`.
unsafe impl<T: Send + Sync> Sync for ShardedLock<T> {}

/// The value, to read it.
pub struct ReadGuard<'a, T> {
    shared: &'a ShardedLock<T>,
    lane: &'a AtomicUsize,
    /// Stays on its thread, as other guards do.
    here: PhantomData<*const ()>,
}

/// The value, to change it.
pub struct WriteGuard<'a, T> {
    shared: &'a ShardedLock<T>,
    _turn: MutexGuard<'a, ()>,
}

fn lane() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static LANE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % LANES;
    }
    LANE.with(|lane| *lane)
}

impl Gate {
    fn turn(&self) -> MutexGuard<'_, ()> {
        for _ in 0..SPINS {
            if !self.turn.is_locked()
                && let Some(turn) = self.turn.try_lock()
            {
                return turn;
            }
            std::hint::spin_loop();
        }
        self.turn.lock()
    }
}

impl<T> ShardedLock<T> {
    pub fn new(value: T) -> Self {
        Self {
            lanes: Default::default(),
            gate: CachePadded::default(),
            value: CachePadded(UnsafeCell::new(value)),
        }
    }

    /// Waits while somebody writes. A thread that reads does not read again before it has ended: a writer between would
    /// wait for the first, and the second for the writer.
    pub fn read(&self) -> ReadGuard<'_, T> {
        let lane: &AtomicUsize = &self.lanes[lane()];
        // In one order for all: either the writer sees the count, or this sees the writer.
        lane.fetch_add(1, Ordering::SeqCst);
        if self.gate.writing.load(Ordering::SeqCst) {
            self.leave(lane);
            // Who has the turn is the only one that can write.
            let turn = self.gate.turn();
            lane.fetch_add(1, Ordering::SeqCst);
            drop(turn);
        }
        ReadGuard { shared: self, lane, here: PhantomData }
    }

    fn leave(&self, lane: &AtomicUsize) {
        // In one order for all: either the writer sees it gone, or this sees the writer and wakes it.
        if lane.fetch_sub(1, Ordering::SeqCst) == 1 && self.gate.writing.load(Ordering::SeqCst) {
            drop(self.gate.asleep.lock());
            self.gate.left.notify_one();
        }
    }

    fn is_read(&self) -> bool {
        self.lanes.iter().any(|lane| lane.load(Ordering::SeqCst) > 0)
    }

    /// Waits until nobody reads or writes.
    pub fn write(&self) -> WriteGuard<'_, T> {
        let turn = self.gate.turn();
        self.gate.writing.store(true, Ordering::SeqCst);
        let mut looks = 0;
        while self.is_read() {
            looks += 1;
            if looks < SPINS {
                std::hint::spin_loop();
                continue;
            }
            let mut asleep = self.gate.asleep.lock();
            while self.is_read() {
                self.gate.left.wait(&mut asleep);
            }
        }
        WriteGuard { shared: self, _turn: turn }
    }
}

impl<T> CachePadded<T> {
    pub fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T: Default> Default for ShardedLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: nobody writes while the lane counts this.
        unsafe { &*self.shared.value.get() }
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    fn drop(&mut self) {
        self.shared.leave(self.lane);
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the turn is this one's alone, and nobody has read since it saw all lanes empty: readers that come
        // see that somebody writes, and leave.
        unsafe { &*self.shared.value.get() }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the guard is borrowed mutably.
        unsafe { &mut *self.shared.value.get() }
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        // Before the turn is given back: who has it finds that nobody writes.
        self.shared.gate.writing.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
#[path = "sharded_lock_test.rs"]
mod tests;
