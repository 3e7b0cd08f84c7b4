//! Connection limiter: bounds the connections of the API in total and for each address.
//!
//! Without it a client could hold all connections, and with them the descriptors of the process. When a limit is reached,
//! the oldest connection without a request in progress is closed: of the same address, or of the address with the most
//! connections. Connections with a request in progress, such as subscribers of the event stream, are kept.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use tokio::sync::Notify;

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 256;
/// Maximum number of connections that are being closed, in addition to those that are open.
const MAX_CLOSING: usize = 32;
/// Maximum number of sockets of the API.
pub const MAX_SOCKETS: usize = MAX_CONNECTIONS + MAX_CLOSING;
/// Maximum number of connections of one address.
const MAX_CONNECTIONS_PER_ADDRESS: usize = 64;

/// The limiter of all connections.
pub struct ConnectionLimiter {
    max: usize,
    max_per_address: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    last: u64,
    /// In the order of their arrival.
    connections: BTreeMap<u64, Connection>,
}

struct Connection {
    address: IpAddr,
    /// Requests in progress.
    requests: usize,
    /// It is being closed.
    closing: bool,
    close: Arc<Notify>,
}

/// The permit of a connection; returned when it is dropped.
pub struct Permit {
    limiter: Arc<ConnectionLimiter>,
    id: u64,
    close: Arc<Notify>,
}

/// A request in progress, until it is dropped.
pub struct ActiveRequest(Arc<Permit>);

/// The network that an address stands for: a client with IPv6 has a /64 of addresses.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

impl ConnectionLimiter {
    /// For a number of sockets, a few of which are reserved for connections that are being closed.
    pub fn of_sockets(sockets: usize) -> Self {
        let closing = MAX_CLOSING.min(sockets / 4);
        Self::new((sockets - closing).min(MAX_CONNECTIONS), MAX_CONNECTIONS_PER_ADDRESS)
    }

    /// Maximum number of open sockets.
    pub fn sockets(&self) -> usize {
        self.max + MAX_CLOSING.min(self.max.div_ceil(3))
    }

    /// With the given limits.
    pub fn new(max: usize, max_per_address: usize) -> Self {
        Self { max, max_per_address, open: Mutex::default() }
    }

    /// A permit for a connection; `None` if all others have requests in progress.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Permit> {
        let address = network(address);
        let mut open = self.open.lock();
        let of = |open: &Open, address| open.open_connections().filter(|it| it.address == address).count();
        if of(&open, address) >= self.max_per_address {
            open.make_room(address)?;
        } else if open.open_connections().count() >= self.max {
            let most =
                open.open_connections().map(|it| it.address).max_by_key(|address| of(&open, *address))?;
            open.make_room(most)?;
        }
        open.last += 1;
        let (id, close) = (open.last, Arc::new(Notify::new()));
        let connection = Connection { address, requests: 0, closing: false, close: close.clone() };
        open.connections.insert(id, connection);
        Some(Permit { limiter: self.clone(), id, close })
    }
}

impl Open {
    fn open_connections(&self) -> impl Iterator<Item = &Connection> {
        self.connections.values().filter(|it| !it.closing)
    }

    /// Closes the oldest connection of an address that has no request in progress.
    fn make_room(&mut self, address: IpAddr) -> Option<()> {
        let idle = |it: &&mut Connection| it.address == address && it.requests == 0 && !it.closing;
        let oldest = self.connections.values_mut().find(idle)?;
        oldest.closing = true;
        oldest.close.notify_one();
        Some(())
    }
}

impl Permit {
    /// Waits until the connection must be closed in favour of another.
    pub async fn revoked(&self) {
        self.close.notified().await;
    }

    /// Marks a request as in progress.
    pub fn begin_request(self: &Arc<Self>) -> ActiveRequest {
        self.count(|requests| requests + 1);
        ActiveRequest(self.clone())
    }

    fn count(&self, to: impl Fn(usize) -> usize) {
        if let Some(it) = self.limiter.open.lock().connections.get_mut(&self.id) {
            it.requests = to(it.requests);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limiter.open.lock().connections.remove(&self.id);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.count(|requests| requests.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn at(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn is_revoked(permit: &Arc<Permit>) -> bool {
        pin!(permit.revoked()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn an_address_at_its_limit_loses_its_oldest_idle_connection() {
        let limiter = Arc::new(ConnectionLimiter::new(10, 3));
        let take = |from| limiter.admit(at(from)).map(Arc::new);
        let (first, second, third) = (take(1).unwrap(), take(1).unwrap(), take(1).unwrap());
        let busy = first.begin_request();
        let fourth = take(1).unwrap();
        assert_eq!([&first, &second, &third, &fourth].map(is_revoked), [false, true, false, false]);
        let (_third, _fourth) = (third.begin_request(), fourth.begin_request());
        assert!(take(1).is_none(), "all others have requests in progress");
        assert!(take(2).is_some(), "another address has its own");
        drop(busy);
        assert!(take(1).is_some() && is_revoked(&first));
    }

    #[test]
    fn at_the_total_limit_the_address_with_the_most_connections_loses_one() {
        let limiter = Arc::new(ConnectionLimiter::new(5, 3));
        let take = |from| limiter.admit(at(from)).map(Arc::new);
        let few = take(1).unwrap();
        let many: Vec<_> = (0..3).map(|_| take(2).unwrap()).collect();
        let other = take(3).unwrap();
        let new = take(4).unwrap();
        assert!(is_revoked(&many[0]) && ![&few, &other, &new].into_iter().any(is_revoked));
        drop((few, many, other, new));
        assert!(limiter.open.lock().connections.is_empty());
    }

    #[test]
    fn a_network_of_version_6_is_one() {
        let one = network("2001:db8::1".parse().unwrap());
        assert_eq!(one, network("2001:db8::ffff:1".parse().unwrap()));
        assert_ne!(one, network("2001:db8:0:1::1".parse().unwrap()));
        assert_eq!(network("::ffff:10.0.0.1".parse().unwrap()), at(1));
    }
}
