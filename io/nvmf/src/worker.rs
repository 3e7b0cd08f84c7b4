//! Worker for the finite-field arithmetic of authentications. It does not run on a shard, since that would delay the
//! shard's other connections.

use std::net::IpAddr;
use std::sync::Arc;

/// A piece of work. It takes milliseconds and does not block.
pub type Work = Box<dyn FnOnce() + Send>;

/// Accepts work for a connection from this address. The implementation chooses the threads, and orders the work of one
/// address after that of other waiting addresses. A connection has one piece at a time.
pub type Worker = Arc<dyn Fn(IpAddr, Work) + Send + Sync>;

/// Does the work at once, for tests.
pub fn at_once() -> Worker {
    Arc::new(|_, work| work())
}
