//! A ring of one thread: its requests are submitted in one system call for each turn of its event loop, and it takes
//! the completions itself. No other thread is woken for them.

use super::request::{Next, Request};
use super::ring::{MAX_IN_FLIGHT, SUBMISSIONS};
use crate::Error;
use io_uring::{EnterFlags, IoUring};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Poll, Waker};

thread_local! {
    /// The ring of this thread, if it has one of its own.
    static OWN: RefCell<Option<Rc<Own>>> = const { RefCell::new(None) };
}

/// The calling thread's own ring. While it exists every request of this thread goes through it, and
/// [`LocalRing::turn`] must be called whenever the descriptor is readable or [`LocalRing::asked`] is ready. Dropping
/// it waits for requests in flight.
pub struct LocalRing(Rc<Own>);

struct Own {
    uring: IoUring,
    /// Signalled by the kernel when there are completions to take.
    event: OwnedFd,
    /// Requests that are not in the submission queue yet.
    waiting: RefCell<VecDeque<Box<Request>>>,
    in_flight: Cell<usize>,
    asking: RefCell<Option<Waker>>,
}

impl LocalRing {
    /// Gives this thread a ring.
    ///
    /// # Errors
    /// [`Error::Unusable`] when the system can't provide one: a kernel before 6.1, or a limit. The thread's requests
    /// then go through the ring of the process.
    ///
    /// # Panics
    /// When the thread has one already.
    pub fn attach() -> Result<Self, Error> {
        let refused = |cause: io::Error| Error::Unusable(format!("no io_uring for this thread: {cause}"));
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_cqsize(MAX_IN_FLIGHT);
        let uring = builder.build(SUBMISSIONS).map_err(refused)?;
        // SAFETY: the call takes no memory; the result is checked before it is owned.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if event < 0 {
            return Err(refused(io::Error::last_os_error()));
        }
        // SAFETY: the descriptor was just created and has no other owner.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        uring.submitter().register_eventfd(event.as_raw_fd()).map_err(refused)?;
        let own = Rc::new(Own {
            uring,
            event,
            waiting: RefCell::default(),
            in_flight: Cell::new(0),
            asking: RefCell::default(),
        });
        OWN.with_borrow_mut(|place| {
            assert!(place.is_none(), "a thread has one ring");
            *place = Some(own.clone());
        });
        Ok(Self(own))
    }

    /// Submits requests, and calls back for completions.
    pub fn turn(&self) {
        self.0.turn(0);
    }

    /// Waits until there is a request to submit.
    pub fn asked(&self) -> impl Future<Output = ()> + '_ {
        poll_fn(|cx| {
            if !self.0.waiting.borrow().is_empty() {
                return Poll::Ready(());
            }
            *self.0.asking.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
    }
}

impl AsRawFd for LocalRing {
    /// A descriptor that becomes readable with every completion, edge-triggered.
    fn as_raw_fd(&self) -> RawFd {
        self.0.event.as_raw_fd()
    }
}

impl AsFd for LocalRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}

impl Drop for LocalRing {
    fn drop(&mut self) {
        // Requests of callbacks from here on go through the ring of the process.
        OWN.with_borrow_mut(Option::take);
        while self.0.in_flight.get() > 0 || !self.0.waiting.borrow().is_empty() {
            self.0.turn(1);
        }
    }
}

/// Takes a request if this thread has a ring of its own; returns it otherwise.
pub(super) fn submit(request: Box<Request>) -> Result<(), Box<Request>> {
    // A thread that is ending has none.
    let own = OWN.try_with(|own| own.try_borrow().ok().and_then(|own| own.clone())).ok().flatten();
    let Some(own) = own else { return Err(request) };
    own.waiting.borrow_mut().push_back(request);
    let asking = own.asking.borrow_mut().take();
    if let Some(waker) = asking {
        waker.wake();
    }
    Ok(())
}

impl Own {
    /// One system call for everything, or none if there is nothing to do; `least` completions are waited for.
    fn turn(&self, least: u32) {
        let more = self.fill();
        if more || self.in_flight.get() > 0 {
            self.enter(least);
        }
        // SAFETY: this thread is the only user of the completion queue, and nothing below comes back here.
        let completions = unsafe { self.uring.completion_shared() };
        let ended: Vec<(u64, i32)> = completions.map(|entry| (entry.user_data(), entry.result())).collect();
        for (address, answer) in ended {
            self.in_flight.update(|count| count - 1);
            // SAFETY: the address came from `Box::into_raw` in `fill`, and each entry completes once.
            let request =
                unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<Request>(address as usize)) };
            if let Next::Again(request) = request.complete(answer) {
                self.waiting.borrow_mut().push_back(request);
            }
        }
        // Requests of callbacks wait for the next turn, with all others of this turn of the loop.
        if !self.waiting.borrow().is_empty()
            && let Some(waker) = self.asking.borrow_mut().take()
        {
            waker.wake();
        }
    }

    /// Moves requests into the submission queue as far as there is room; true if it is not empty.
    fn fill(&self) -> bool {
        // SAFETY: this thread is the only user of the submission queue, and nothing below comes back here.
        let mut queue = unsafe { self.uring.submission_shared() };
        let mut waiting = self.waiting.borrow_mut();
        while !queue.is_full() && self.in_flight.get() < MAX_IN_FLIGHT as usize {
            let Some(mut request) = waiting.pop_front() else { break };
            let entry = request.entry();
            let entry = entry.user_data(Box::into_raw(request).expose_provenance() as u64);
            // SAFETY: the request, and with it all memory that the entry names, stays until its completion.
            unsafe { queue.push(&entry) }.expect("room was seen");
            self.in_flight.update(|count| count + 1);
        }
        !queue.is_empty()
    }

    fn enter(&self, least: u32) {
        loop {
            // SAFETY: as in `fill`.
            let entries = unsafe { self.uring.submission_shared() }.len() as u32;
            // SAFETY: no argument is passed; the entries name memory that stays.
            let entered = unsafe {
                let flags = EnterFlags::GETEVENTS.bits();
                self.uring.submitter().enter::<libc::sigset_t>(entries, least, flags, None)
            };
            match entered {
                Ok(taken) if taken as u32 >= entries => return,
                Ok(_) => {}
                Err(cause) if cause.raw_os_error() == Some(libc::EINTR) => {}
                // Short of memory or of completion entries: completions are taken first.
                Err(cause) if matches!(cause.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => return,
                Err(cause) => panic!("io_uring refuses its own queue: {cause}"),
            }
        }
    }
}
