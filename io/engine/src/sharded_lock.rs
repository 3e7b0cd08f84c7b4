//! Sharded reader-writer lock: a reader writes to a cache line of its thread alone, so that threads which read at the
//! same time do not slow each other down. A writer looks at all of those lines, which is cheap while there are no readers,
//! and costs more than one count otherwise.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Sub};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Reader counts; more threads than these share them.
const LANES: usize = 16;

/// Spins before a thread sleeps: most reads and changes take less than the microsecond or two that these take, and
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

/// Notes a use. A flag that is set is not written again, so that its cache line stays with all readers.
pub fn note_use(used: &AtomicBool) {
    if !used.load(Ordering::Relaxed) {
        used.store(true, Ordering::Relaxed);
    }
}

/// A value that many read or one writes.
pub struct ShardedLock<T> {
    lanes: [CachePadded<AtomicUsize>; LANES],
    gate: CachePadded<Gate>,
    value: CachePadded<UnsafeCell<T>>,
}

/// How long writers held a lock, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// How often it was locked for writing.
    pub times: u64,
    /// Nanoseconds, from the last reader's end to the end of the guard.
    pub ns: u64,
}

impl Sub for Held {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { times: self.times - before.times, ns: self.ns - before.ns }
    }
}

#[derive(Default)]
struct Gate {
    /// A writer writes, or waits until the readers have ended; no reader begins.
    writing: AtomicBool,
    /// Held by the writer.
    turn: Mutex<()>,
    /// For the writer, while it waits for readers.
    asleep: Mutex<()>,
    left: Condvar,
    /// Times writers, in nanoseconds.
    clock: OnceLock<fn() -> u64>,
    times: AtomicU64,
    held_ns: AtomicU64,
}

// SAFETY: the value moves with the lock, and a writer on any thread has it alone.
unsafe impl<T: Send> Send for ShardedLock<T> {}
// SAFETY: threads get `&T` at the same time, hence `Sync`, or one gets `&mut T`, hence `Send`.
unsafe impl<T: Send + Sync> Sync for ShardedLock<T> {}

/// A read guard.
pub struct ReadGuard<'a, T> {
    shared: &'a ShardedLock<T>,
    lane: &'a AtomicUsize,
    /// Stays on its thread, as other guards do.
    here: PhantomData<*const ()>,
}

/// A write guard.
pub struct WriteGuard<'a, T> {
    shared: &'a ShardedLock<T>,
    _turn: MutexGuard<'a, ()>,
    /// When it was locked, if that is timed.
    since: Option<u64>,
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

    /// Locks for reading; waits for a writer. A thread must not lock again while it reads: a writer between would
    /// wait for the first guard, and the second for the writer.
    pub fn read(&self) -> ReadGuard<'_, T> {
        let lane: &AtomicUsize = &self.lanes[lane()];
        // In one order for all: either the writer sees the count, or this sees the writer.
        lane.fetch_add(1, Ordering::SeqCst);
        if self.gate.writing.load(Ordering::SeqCst) {
            self.leave(lane);
            // Only the holder of the turn can write.
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

    /// Locks for writing.
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
        let since = self.gate.clock.get().map(|now| now());
        WriteGuard { shared: self, _turn: turn, since }
    }

    /// Times writers from now on. `now` is a clock in nanoseconds; the first one that is given counts.
    pub fn time_writers(&self, now: fn() -> u64) {
        // They are timed already.
        _ = self.gate.clock.set(now);
    }

    /// How long writers have held it since they are timed.
    pub fn held(&self) -> Held {
        let gate = &*self.gate;
        Held { times: gate.times.load(Ordering::Relaxed), ns: gate.held_ns.load(Ordering::Relaxed) }
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
        // SAFETY: there is no writer while the lane counts this reader.
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
        // SAFETY: the turn is exclusive, and no reader has begun since all counts were zero: readers that come see
        // the writer, and leave.
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
        let gate = &*self.shared.gate;
        if let (Some(since), Some(now)) = (self.since, gate.clock.get()) {
            gate.times.fetch_add(1, Ordering::Relaxed);
            gate.held_ns.fetch_add(now().saturating_sub(since), Ordering::Relaxed);
        }
        // Before the turn is released, so that its next holder finds no writer.
        gate.writing.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
#[path = "sharded_lock_test.rs"]
mod tests;
