//! Connections of the API, counted: in all, and for each address.
//!
//! Whoever may connect could hold all of them, and with them the descriptors of the process. When there are too many,
//! one that has nothing asked gives way: of the same address, or of that which has most. One that is being answered, as
//! those that follow what happens, stays, and counts.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use tokio::sync::Notify;

/// Connections at once.
const MAX_CONNECTIONS: usize = 256;
/// Connections that may be closing beside those that are open.
const MAX_CLOSING: usize = 32;
/// Sockets of the API at once.
pub const MAX_SOCKETS: usize = MAX_CONNECTIONS + MAX_CLOSING;
/// Connections of one address at once.
const MAX_CONNECTIONS_PER_ADDRESS: usize = 64;

/// All connections.
pub struct Places {
    max: usize,
    max_per_address: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    last: u64,
    /// In the order in which they came.
    connections: BTreeMap<u64, Connection>,
}

struct Connection {
    address: IpAddr,
    /// Requests that are being answered.
    requests: usize,
    /// It was asked to give way.
    leaving: bool,
    leave: Arc<Notify>,
}

/// A connection's place; given back when it is dropped.
pub struct Place {
    places: Arc<Places>,
    id: u64,
    leave: Arc<Notify>,
}

/// A request that is being answered, until it is dropped.
pub struct Busy(Arc<Place>);

/// Who an address is: a network of IP version 6 has as many addresses as it wants.
fn whose(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

impl Places {
    /// With room for so many sockets, a few of which are for connections that give way.
    pub fn of_sockets(sockets: usize) -> Self {
        let closing = MAX_CLOSING.min(sockets / 4);
        Self::new((sockets - closing).min(MAX_CONNECTIONS), MAX_CONNECTIONS_PER_ADDRESS)
    }

    /// Sockets that are open at most.
    pub fn sockets(&self) -> usize {
        self.max + MAX_CLOSING.min(self.max.div_ceil(3))
    }

    /// With room for so many.
    pub fn new(max: usize, max_per_address: usize) -> Self {
        Self { max, max_per_address, open: Mutex::default() }
    }

    /// A place for a connection; none when all others are being answered.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let address = whose(address);
        let mut open = self.open.lock();
        let of = |open: &Open, address| open.staying().filter(|it| it.address == address).count();
        if of(&open, address) >= self.max_per_address {
            open.make_room(address)?;
        } else if open.staying().count() >= self.max {
            let most = open.staying().map(|it| it.address).max_by_key(|address| of(&open, *address))?;
            open.make_room(most)?;
        }
        open.last += 1;
        let (id, leave) = (open.last, Arc::new(Notify::new()));
        let connection = Connection { address, requests: 0, leaving: false, leave: leave.clone() };
        open.connections.insert(id, connection);
        Some(Place { places: self.clone(), id, leave })
    }
}

impl Open {
    fn staying(&self) -> impl Iterator<Item = &Connection> {
        self.connections.values().filter(|it| !it.leaving)
    }

    /// Asks the oldest connection of an address that has nothing asked to give way.
    fn make_room(&mut self, address: IpAddr) -> Option<()> {
        let idle = |it: &&mut Connection| it.address == address && it.requests == 0 && !it.leaving;
        let oldest = self.connections.values_mut().find(idle)?;
        oldest.leaving = true;
        oldest.leave.notify_one();
        Some(())
    }
}

impl Place {
    /// Waits until it is needed for another connection.
    pub async fn needed(&self) {
        self.leave.notified().await;
    }

    /// Says that a request is being answered.
    pub fn answer(self: &Arc<Self>) -> Busy {
        self.count(|requests| requests + 1);
        Busy(self.clone())
    }

    fn count(&self, to: impl Fn(usize) -> usize) {
        if let Some(it) = self.places.open.lock().connections.get_mut(&self.id) {
            it.requests = to(it.requests);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.open.lock().connections.remove(&self.id);
    }
}

impl Drop for Busy {
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

    fn is_needed(place: &Arc<Place>) -> bool {
        pin!(place.needed()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn an_address_that_has_all_of_its_places_gives_up_the_oldest_that_is_idle() {
        let places = Arc::new(Places::new(10, 3));
        let take = |from| places.take(at(from)).map(Arc::new);
        let (first, second, third) = (take(1).unwrap(), take(1).unwrap(), take(1).unwrap());
        let busy = first.answer();
        let fourth = take(1).unwrap();
        assert_eq!([&first, &second, &third, &fourth].map(is_needed), [false, true, false, false]);
        let (_third, _fourth) = (third.answer(), fourth.answer());
        assert!(take(1).is_none(), "all others are being answered");
        assert!(take(2).is_some(), "another address has its own");
        drop(busy);
        assert!(take(1).is_some() && is_needed(&first));
    }

    #[test]
    fn when_there_are_too_many_that_with_most_gives_way() {
        let places = Arc::new(Places::new(5, 3));
        let take = |from| places.take(at(from)).map(Arc::new);
        let few = take(1).unwrap();
        let many: Vec<_> = (0..3).map(|_| take(2).unwrap()).collect();
        let other = take(3).unwrap();
        let new = take(4).unwrap();
        assert!(is_needed(&many[0]) && ![&few, &other, &new].into_iter().any(is_needed));
        drop((few, many, other, new));
        assert!(places.open.lock().connections.is_empty());
    }

    #[test]
    fn a_network_of_version_6_is_one() {
        let one = whose("2001:db8::1".parse().unwrap());
        assert_eq!(one, whose("2001:db8::ffff:1".parse().unwrap()));
        assert_ne!(one, whose("2001:db8:0:1::1".parse().unwrap()));
        assert_eq!(whose("::ffff:10.0.0.1".parse().unwrap()), at(1));
    }
}
