//! The io_uring of a process, and the thread that waits for it.

use super::local;
use super::request::{Next, Request};
use crate::Error;
use io_uring::{EnterFlags, IoUring, opcode};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

/// Entries of the submission queue: most requests submitted in one system call.
pub(super) const SUBMISSIONS: u32 = 256;

/// Requests in the kernel at once. The completion queue has this many entries, so it can't overflow; further requests
/// wait in memory.
pub(super) const MAX_IN_FLIGHT: u32 = 4096;

/// The user data of the entry that only wakes the reaper; no request has address zero.
const WAKE: u64 = 0;

/// A ring and its reaper thread. Dropping it waits for requests in flight and ends the thread.
pub struct Ring {
    shared: Arc<Shared>,
    reaper: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    uring: IoUring,
    /// Requests that are not in the submission queue yet.
    waiting: Mutex<VecDeque<Box<Request>>>,
    /// Held by the one thread that fills the submission queue and calls the kernel.
    submission: Mutex<()>,
    in_flight: AtomicUsize,
    ending: AtomicBool,
}

impl Ring {
    /// Makes a ring and starts its reaper.
    ///
    /// # Errors
    /// [`Error::Unusable`] when the system refuses: io_uring disabled, or too little locked memory allowed.
    pub fn start() -> Result<Arc<Self>, Error> {
        let refused = |cause: io::Error| {
            Error::Unusable(format!(
                "io_uring is not available: {cause}; see /proc/sys/kernel/io_uring_disabled, ulimit -l and, in a container, \
                 the seccomp profile of its engine"
            ))
        };
        let uring = IoUring::builder().setup_cqsize(MAX_IN_FLIGHT).build(SUBMISSIONS).map_err(refused)?;
        let shared = Arc::new(Shared {
            uring,
            waiting: Mutex::default(),
            submission: Mutex::new(()),
            in_flight: AtomicUsize::new(0),
            ending: AtomicBool::new(false),
        });
        let for_reaper = shared.clone();
        let reaper =
            thread::Builder::new().name("drives".into()).spawn(move || for_reaper.reap()).map_err(refused)?;
        Ok(Arc::new(Self { shared, reaper: Mutex::new(Some(reaper)) }))
    }

    /// Submits a request: through the ring of this thread if it has one, see [`LocalRing`](super::LocalRing).
    pub(super) fn submit(&self, request: Box<Request>) {
        let Err(request) = local::submit(request) else { return };
        self.shared.waiting.lock().push_back(request);
        self.shared.pump();
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        self.shared.wake();
        let reaper = self.reaper.lock().take();
        // The last user may be a callback, which runs on the reaper: it ends by itself after that.
        if let Some(reaper) = reaper.filter(|reaper| reaper.thread().id() != thread::current().id()) {
            // A panic there has ended the process already.
            let _ = reaper.join();
        }
    }
}

impl Shared {
    /// Submits waiting requests. If another thread is submitting, that one takes ours along: it looks again after
    /// releasing the lock.
    fn pump(&self) {
        loop {
            let Some(held) = self.submission.try_lock() else { return };
            if self.fill() > 0 {
                self.enter();
            }
            drop(held);
            let more = !self.waiting.lock().is_empty();
            if !more || self.in_flight.load(Ordering::Acquire) >= MAX_IN_FLIGHT as usize {
                return;
            }
        }
    }

    /// Moves requests into the submission queue as far as there is room. Called with `submission` held.
    fn fill(&self) -> usize {
        // SAFETY: the holder of `submission` is the only user of the submission queue.
        let mut queue = unsafe { self.uring.submission_shared() };
        let mut waiting = self.waiting.lock();
        let mut moved = 0;
        while !queue.is_full() && self.in_flight.load(Ordering::Acquire) < MAX_IN_FLIGHT as usize {
            let Some(mut request) = waiting.pop_front() else { break };
            let entry = request.entry();
            let entry = entry.user_data(Box::into_raw(request).expose_provenance() as u64);
            // SAFETY: the request, and with it all memory that the entry names, stays until its completion.
            unsafe { queue.push(&entry) }.expect("room was seen");
            self.in_flight.fetch_add(1, Ordering::AcqRel);
            moved += 1;
        }
        moved
    }

    /// Submits everything in the submission queue. Called with `submission` held.
    fn enter(&self) {
        loop {
            match self.uring.submit() {
                Ok(_) => {
                    // SAFETY: as in `fill`.
                    if unsafe { self.uring.submission_shared() }.is_empty() {
                        return;
                    }
                }
                // Short of memory or of completion entries: the reaper makes room.
                Err(cause)
                    if matches!(cause.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::EINTR)) =>
                {
                    thread::yield_now();
                }
                Err(cause) => panic!("io_uring refuses its own queue: {cause}"),
            }
        }
    }

    /// Submits an entry that does nothing but complete.
    fn wake(&self) {
        let held = self.submission.lock();
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        let entry = opcode::Nop::new().build().user_data(WAKE);
        // SAFETY: `submission` is held; the entry names no memory.
        unsafe { self.uring.submission_shared().push(&entry) }
            .expect("who held it before left the queue empty");
        self.enter();
        drop(held);
        self.pump();
    }

    fn reap(&self) {
        // A panic in a callback leaves requests that would never complete: the process ends rather than hangs.
        let _guard = AbortOnPanic;
        let mut completed = Vec::with_capacity(MAX_IN_FLIGHT as usize);
        while !self.is_over() {
            // SAFETY: this thread is the only user of the completion queue.
            let completions = unsafe { self.uring.completion_shared() };
            completed.extend(completions.map(|entry| (entry.user_data(), entry.result())));
            if completed.is_empty() {
                self.wait();
                continue;
            }
            for (address, answer) in completed.drain(..) {
                self.in_flight.fetch_sub(1, Ordering::AcqRel);
                if address == WAKE {
                    continue;
                }
                // SAFETY: the address came from `Box::into_raw` in `fill`, and each entry completes once.
                let request = unsafe {
                    Box::from_raw(std::ptr::with_exposed_provenance_mut::<Request>(address as usize))
                };
                if let Next::Again(request) = request.complete(answer) {
                    self.waiting.lock().push_back(request);
                }
            }
            if !self.waiting.lock().is_empty() {
                self.pump();
            }
        }
    }

    fn is_over(&self) -> bool {
        self.ending.load(Ordering::Acquire)
            && self.in_flight.load(Ordering::Acquire) == 0
            && self.waiting.lock().is_empty()
    }

    fn wait(&self) {
        // SAFETY: no argument is passed, and nothing is submitted.
        let entered = unsafe {
            self.uring.submitter().enter::<libc::sigset_t>(0, 1, EnterFlags::GETEVENTS.bits(), None)
        };
        match entered {
            Ok(_) => {}
            Err(cause) if matches!(cause.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {}
            Err(cause) => panic!("io_uring can't be waited for: {cause}"),
        }
    }
}

struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}
