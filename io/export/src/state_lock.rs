//! Lock for changes of a volume's saved state: evaluating, saving and applying a change is one step.
//!
//! Saving takes a disk operation, so a change waits for the previous one without blocking its thread.

use parking_lot::Mutex;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The lock of one volume.
#[derive(Clone, Default)]
pub(crate) struct StateLock(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    held: bool,
    waiting: Vec<Waker>,
}

/// Held during a change of the state.
#[must_use]
pub struct StateGuard(StateLock);

impl StateLock {
    pub(crate) async fn lock(&self) -> StateGuard {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<StateGuard> {
        let mut inner = self.0.lock();
        if inner.held {
            inner.waiting.push(cx.waker().clone());
            return Poll::Pending;
        }
        inner.held = true;
        Poll::Ready(StateGuard(self.clone()))
    }
}

impl Drop for StateGuard {
    fn drop(&mut self) {
        let mut inner = self.0.0.lock();
        inner.held = false;
        inner.waiting.drain(..).for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    #[test]
    fn one_holds_it_at_a_time() {
        let lock = StateLock::default();
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(first) = lock.poll(&mut context) else { panic!("it is free") };
        let mut second = pin!(lock.lock());
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(second.as_mut().poll(&mut context).is_ready());
    }
}
