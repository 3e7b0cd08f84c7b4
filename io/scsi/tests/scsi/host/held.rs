//! A disk whose changes wait until they are let go.

use block::mem::MemDisk;
use block::{Disk, DiskId, Geometry, Op, Pending, Space};
use bytes::Bytes;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// Holds every operation that changes something back until [`Held::release`].
#[derive(Clone)]
pub struct Held {
    pub inner: MemDisk,
    open: Arc<AtomicBool>,
    wakers: Arc<Mutex<Vec<Waker>>>,
}

impl Held {
    pub fn new(inner: MemDisk) -> Held {
        Held { inner, open: Arc::default(), wakers: Arc::default() }
    }

    pub fn release(&self) {
        self.open.store(true, Ordering::SeqCst);
        self.wakers.lock().expect("no panic before").drain(..).for_each(Waker::wake);
    }

    pub fn hold(&self) {
        self.open.store(false, Ordering::SeqCst);
    }
}

impl Disk for Held {
    fn id(&self) -> DiskId {
        self.inner.id()
    }

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn space(&self) -> Space {
        self.inner.space()
    }

    fn state(&self) -> Bytes {
        self.inner.state()
    }

    fn execute(&self, op: Op) -> Pending {
        if matches!(op, Op::Read(_) | Op::Locate(_) | Op::Status(_) | Op::Image | Op::SaveState(_)) {
            return self.inner.execute(op);
        }
        let disk = self.clone();
        Pending::later(async move {
            poll_fn(|context| {
                if disk.open.load(Ordering::SeqCst) {
                    return Poll::Ready(());
                }
                disk.wakers.lock().expect("no panic before").push(context.waker().clone());
                Poll::Pending
            })
            .await;
            disk.inner.execute(op).await
        })
    }
}
