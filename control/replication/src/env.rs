//! Environment of this crate: a byte stream, time, and identities for new disks.

use crate::host_throttle::{HostIo, HostThrottle};
use block::DiskId;
use bytes::Bytes;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// A connection to the other array, encrypted and authenticated by both ends. Dropping it closes it.
///
/// An end that hears nothing for too long is to be found by the stream: it fails then. Between two messages there may be as
/// much time as the slower array needs to apply [`Limits::offer_blocks`](crate::Limits), which may be long on a busy one.
/// Messages under way from the target to the source must never need more than 4 KiB of buffers to be sent.
pub trait Stream: Send {
    /// Sends pieces in order.
    fn send(&mut self, pieces: Vec<Bytes>) -> impl Future<Output = std::io::Result<()>> + Send;

    /// The next bytes, at least one; none if the other end has closed the stream. Dropping the future loses nothing.
    fn receive(&mut self) -> impl Future<Output = std::io::Result<Bytes>> + Send;
}

/// Time and identities.
pub trait Env: Send + Sync {
    /// A clock that does not go back.
    fn now_ns(&self) -> u64;

    /// The time that snapshots and retention locks are given, in the unit of the engine's caller.
    fn timestamp(&self) -> u64;

    /// The time by which retention locks end, which can't be set forward.
    fn retention_now(&self) -> u64 {
        self.timestamp()
    }

    /// The time from which a retention lock counts that begins now.
    fn retention_begin(&self) -> u64 {
        self.timestamp()
    }

    /// Waits.
    fn sleep(&self, ns: u64) -> impl Future<Output = ()> + Send;

    /// Ends after this time. Without it no limit of time is kept, as in a simulation without clocks.
    fn timer(&self, _ns: u64) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Throttle of transfers beside hosts; `None`: full speed always.
    fn host_throttle(&self) -> Option<&HostThrottle> {
        None
    }

    /// I/O of hosts on this array.
    fn host_io(&self) -> HostIo {
        HostIo::default()
    }

    /// An identity that no disk of this array has had.
    fn fresh_id(&self) -> DiskId;
}

/// The result of a future; `None` if the timer ends before.
pub async fn before<T>(timer: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    let (mut timer, mut work) = (pin!(timer), pin!(work));
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
    })
    .await
}
