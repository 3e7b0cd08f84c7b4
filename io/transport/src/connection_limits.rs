//! Limits on the number of connections, and which connection is evicted for a new one.
//!
//! Connections of known hosts are never evicted. Those that have not logged in, discovery sessions
//! included, are limited in total and by address; the oldest one of the address with the most of them is evicted
//! first. So hosts can't be locked out by opening connections.

use crate::address::counted_address;
use crate::portal::shard::Shard;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::mpsc::UnboundedSender;

/// Control messages to a connection.
#[derive(Clone, Debug)]
pub enum Control {
    /// End now, for this reason.
    Close(&'static str),
    /// Close at once: the slot is needed, and the host of the connection is not known.
    Evict,
    /// The server shuts down: ask the host to end within this many seconds.
    ShutDown(u16),
}

/// Connections beyond the limit that may be open while evicted ones close.
const MAX_LEAVING_CONNECTIONS: usize = 32;

/// Limits on the number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// All connections.
    pub total: usize,
    /// Those that have not logged in to the target.
    pub unauthenticated: usize,
    /// Those that have not logged in, from one address; of IPv6 from one network of 64 bits.
    pub unauthenticated_per_address: usize,
}

impl ConnectionLimits {
    /// Limits for a total number of connections.
    pub fn new(total: usize) -> Self {
        let unauthenticated = (total / 4).max(1);
        Self { total, unauthenticated, unauthenticated_per_address: unauthenticated.div_ceil(2) }
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::new(1024)
    }
}

/// All connections, and the load of every shard.
pub(crate) struct Connections {
    limits: Mutex<ConnectionLimits>,
    shards: Vec<(Shard, AtomicUsize)>,
    /// By number: a higher one is newer.
    open: Mutex<BTreeMap<u64, Open>>,
    last: AtomicU64,
}

/// An open connection.
struct Open {
    control: UnboundedSender<Control>,
    state: ConnectionState,
    /// Number of its portal.
    portal: u16,
    from: IpAddr,
}

impl Open {
    /// Whether it came by a portal; by any for `None`.
    fn is_of(&self, portal: Option<u16>) -> bool {
        portal.is_none_or(|portal| self.portal == portal)
    }
}

/// The state of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    /// It has not logged in to the target.
    Unauthenticated,
    /// A session of a host that has access.
    Host,
    /// It is being evicted.
    Leaving,
}

impl Connections {
    pub(crate) fn new(shards: Vec<Shard>, limits: ConnectionLimits) -> Arc<Self> {
        let shards = shards.into_iter().map(|handle| (handle, AtomicUsize::new(0))).collect();
        let (limits, open, last) = (Mutex::new(limits), Mutex::default(), AtomicU64::new(0));
        Arc::new(Self { limits, shards, open, last })
    }

    /// Replaces the limits. Connections that are open stay.
    pub(crate) fn set_limits(&self, limits: ConnectionLimits) {
        *self.limits.lock() = limits;
    }

    fn limits(&self) -> ConnectionLimits {
        *self.limits.lock()
    }

    /// A shard for a listener.
    pub(crate) fn shard(&self, index: usize) -> Shard {
        self.shards[index % self.shards.len()].0.clone()
    }

    /// Sends this to the connections of a portal, or to all.
    pub(crate) fn broadcast(&self, portal: Option<u16>, control: &Control) {
        for open in self.open.lock().values().filter(|open| open.is_of(portal)) {
            // An ended connection no longer receives.
            let _gone = open.control.send(control.clone());
        }
    }

    /// One of the connections of a portal, or of all.
    pub(crate) fn any(&self, portal: Option<u16>) -> Option<UnboundedSender<Control>> {
        self.open.lock().values().find(|open| open.is_of(portal)).map(|open| open.control.clone())
    }

    /// True while too many evicted connections are still open.
    pub(crate) fn is_crowded(&self) -> bool {
        self.open.lock().len() >= self.limits().total + MAX_LEAVING_CONNECTIONS
    }

    /// Evicts an unauthenticated connection, if there is one.
    pub(crate) fn evict(&self) -> bool {
        evict(&mut self.open.lock())
    }

    fn least_loaded(&self) -> usize {
        let load = |index: &usize| self.shards[*index].1.load(Ordering::Relaxed);
        (0..self.shards.len()).min_by_key(load).unwrap_or(0)
    }
}

/// Evicts the oldest unauthenticated connection of the address that has the most of them.
fn evict(open: &mut BTreeMap<u64, Open>) -> bool {
    let mut by_address = BTreeMap::<IpAddr, usize>::new();
    for other in open.values().filter(|other| other.state == ConnectionState::Unauthenticated) {
        *by_address.entry(other.from).or_default() += 1;
    }
    let most = by_address.into_iter().max_by_key(|(_, count)| *count);
    most.is_some_and(|(address, _)| evict_from(open, address))
}

fn evict_from(open: &mut BTreeMap<u64, Open>, address: IpAddr) -> bool {
    let is_candidate =
        |other: &&mut Open| other.state == ConnectionState::Unauthenticated && other.from == address;
    let Some(oldest) = open.values_mut().find(is_candidate) else { return false };
    oldest.state = ConnectionState::Leaving;
    // A connection that is already ending frees its slot as well.
    let _gone = oldest.control.send(Control::Evict);
    true
}

/// A slot of a connection; freed when it is dropped.
pub struct ConnectionSlot {
    connections: Arc<Connections>,
    id: u64,
    shard: usize,
}

impl ConnectionSlot {
    /// Takes a slot on the shard with the fewest connections, for a connection by a portal from an address. `None` if all
    /// connections are sessions of hosts.
    pub(crate) fn take(
        connections: &Arc<Connections>,
        control: UnboundedSender<Control>,
        (portal, address): (u16, IpAddr),
    ) -> Option<Self> {
        let from = counted_address(address);
        let limits = connections.limits();
        let mut open = connections.open.lock();
        let mut active = 0;
        let (mut unauthenticated, mut of_address) = (0, 0);
        for other in open.values() {
            let is_unauthenticated = usize::from(other.state == ConnectionState::Unauthenticated);
            active += usize::from(other.state != ConnectionState::Leaving);
            unauthenticated += is_unauthenticated;
            of_address += if other.from == from { is_unauthenticated } else { 0 };
        }
        let made_room = match () {
            () if of_address >= limits.unauthenticated_per_address => evict_from(&mut open, from),
            () if unauthenticated >= limits.unauthenticated || active >= limits.total => evict(&mut open),
            () => true,
        };
        if !made_room {
            return None;
        }
        let shard = connections.least_loaded();
        connections.shards[shard].1.fetch_add(1, Ordering::Relaxed);
        let id = connections.last.fetch_add(1, Ordering::Relaxed);
        open.insert(id, Open { control, state: ConnectionState::Unauthenticated, portal, from });
        Some(Self { connections: connections.clone(), id, shard })
    }

    /// The runtime that runs the connection.
    pub(crate) fn shard(&self) -> Shard {
        self.connections.shards[self.shard].0.clone()
    }

    /// Marks the connection as a session of a host.
    pub fn set_host(&self) {
        if let Some(open) = self.connections.open.lock().get_mut(&self.id)
            && open.state == ConnectionState::Unauthenticated
        {
            open.state = ConnectionState::Host;
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.shards[self.shard].1.fetch_sub(1, Ordering::Relaxed);
        self.connections.open.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    struct Fixture {
        connections: Arc<Connections>,
        slots: Vec<(Option<ConnectionSlot>, UnboundedReceiver<Control>)>,
    }

    impl Fixture {
        fn new(limits: ConnectionLimits) -> Self {
            let shard = tokio::runtime::Handle::current();
            Self { connections: Connections::new(vec![shard], limits), slots: Vec::new() }
        }

        fn take(&mut self, address: &str) -> usize {
            let (sender, receiver) = unbounded_channel();
            let slot = ConnectionSlot::take(&self.connections, sender, (1, address.parse().unwrap()));
            self.slots.push((slot, receiver));
            self.slots.len() - 1
        }

        fn is_evicted(&mut self, index: usize) -> bool {
            matches!(self.slots[index].1.try_recv(), Ok(Control::Evict))
        }
    }

    const LIMITS: ConnectionLimits =
        ConnectionLimits { total: 8, unauthenticated: 6, unauthenticated_per_address: 4 };

    #[tokio::test]
    async fn an_address_with_many_unauthenticated_connections_loses_its_own() {
        let mut fixture = Fixture::new(LIMITS);
        let host = fixture.take("10.0.0.2");
        let attack: Vec<_> = (0..10).map(|_| fixture.take("10.0.0.1")).collect();
        assert!(!fixture.is_evicted(host));
        let evicted = attack.into_iter().map(|index| fixture.is_evicted(index)).collect::<Vec<_>>();
        assert_eq!(evicted.iter().filter(|evicted| **evicted).count(), 6);
        assert!(evicted[..6].iter().all(|evicted| *evicted), "the oldest are evicted first");
    }

    #[tokio::test]
    async fn unauthenticated_connections_are_limited_in_total_and_hosts_stay() {
        let mut fixture = Fixture::new(LIMITS);
        let hosts: Vec<_> = (0..3).map(|_| fixture.take("10.0.0.2")).collect();
        hosts.iter().for_each(|index| fixture.slots[*index].0.as_ref().unwrap().set_host());
        let attack: Vec<_> = (0..20).map(|number| fixture.take(&format!("10.1.0.{}", number % 7))).collect();
        let count = attack.iter().filter(|index| fixture.is_evicted(**index)).count();
        assert_eq!(count, 15, "eight slots, three of them with hosts");
        assert!(hosts.into_iter().all(|index| !fixture.is_evicted(index)));
        assert!(!fixture.connections.is_crowded());
    }

    #[tokio::test]
    async fn no_slot_is_free_when_all_connections_are_hosts() {
        let mut fixture = Fixture::new(LIMITS);
        for _ in 0..8 {
            let index = fixture.take("10.0.0.2");
            fixture.slots[index].0.as_ref().unwrap().set_host();
        }
        let late = fixture.take("10.0.0.3");
        assert!(fixture.slots[late].0.is_none());
        assert!(!fixture.connections.evict());
        fixture.slots[0].0 = None;
        let late = fixture.take("10.0.0.3");
        assert!(fixture.slots[late].0.is_some());
    }

    #[test]
    fn ipv6_addresses_are_counted_by_network() {
        let of = |text: &str| counted_address(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
