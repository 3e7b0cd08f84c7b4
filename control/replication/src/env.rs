//! Environment of this crate: a byte stream, time, and identities for new disks.

use crate::host_throttle::{HostIo, HostThrottle};
use block::DiskId;
use bytes::Bytes;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// A connection to the other array, encrypted and authenticated by both ends. Dropping it closes it.
///
/// The stream must fail if the other end is silent for too long. The time between two messages may be as long as the
/// slower array needs to apply [`Limits::offer_blocks`](crate::Limits), which may be long on a busy one. Outstanding
/// messages from the target to the source never need more than 4 KiB of buffers.
pub trait Stream: Send {
    /// Sends pieces in order.
    fn send(&mut self, pieces: Vec<Bytes>) -> impl Future<Output = std::io::Result<()>> + Send;

    /// The next bytes, at least one; empty if the other end has closed the stream. The future must be cancel-safe.
    fn receive(&mut self) -> impl Future<Output = std::io::Result<Bytes>> + Send;
}

/// Time and identities.
pub trait Env: Send + Sync {
    /// Reading of a monotonic clock.
    fn now_ns(&self) -> u64;

    /// Time of snapshots and retention locks, in the unit of the engine's caller.
    fn timestamp(&self) -> u64;

    /// Time for the end of retention locks; it can't be set forward.
    fn retention_now(&self) -> u64 {
        self.timestamp()
    }

    /// Start time of a new retention lock.
    fn retention_begin(&self) -> u64 {
        self.timestamp()
    }

    /// Waits.
    fn sleep(&self, ns: u64) -> impl Future<Output = ()> + Send;

    /// Completes after this time. The default never does, as in a simulation without clocks.
    fn timer(&self, _ns: u64) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Throttle of transfers in favour of hosts; `None`: always full speed.
    fn host_throttle(&self) -> Option<&HostThrottle> {
        None
    }

    /// Counters of host I/O on this array.
    fn host_io(&self) -> HostIo {
        HostIo::default()
    }

    /// An identity that no disk of this array has ever had.
    fn fresh_id(&self) -> DiskId;
}

/// The result of a future; `None` if the timer completes first.
pub async fn before<T>(timer: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    let (mut timer, mut work) = (pin!(timer), pin!(work));
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
    })
    .await
}
