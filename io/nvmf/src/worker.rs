//! Where the finite-field work of authentications is done: not on a shard, whose other connections would wait for it.

use std::net::IpAddr;
use std::sync::Arc;

/// A piece of work. It takes milliseconds and waits for nothing.
pub type Work = Box<dyn FnOnce() + Send>;

/// Takes work of a connection from this address. Its owner decides on which threads, and does the work of one address after that of
/// others that wait. A connection has one piece at a time.
pub type Worker = Arc<dyn Fn(IpAddr, Work) + Send + Sync>;

/// Does the work at once, for tests.
pub fn at_once() -> Worker {
    Arc::new(|_, work| work())
}
