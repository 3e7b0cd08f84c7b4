//! Listeners of the API, as the array directs them: the process has the sockets.

use std::io;
use std::net::SocketAddr;

/// The listeners of this controller's API.
pub trait ApiListeners: Send + Sync {
    /// Where it listens by its options, as long as it runs.
    fn by_option(&self) -> SocketAddr;

    /// Listens at another address, too.
    ///
    /// # Errors
    /// Why that is not possible.
    fn open(&self, address: SocketAddr) -> io::Result<()>;

    /// Takes no more connections there. Requests in progress get their responses.
    fn close(&self, address: SocketAddr);

    /// Whether it listens there.
    fn is_open(&self, address: SocketAddr) -> bool;

    /// Whether an authenticated request came by that address and succeeded.
    fn is_used(&self, address: SocketAddr) -> bool;
}

/// An address on trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    pub address: SocketAddr,
    /// Whether it goes to the next home.
    pub moves: bool,
    /// By the uptime of the machine, in seconds.
    pub ends: u64,
    /// By the time of day, in seconds since 1970.
    pub until: u64,
}
