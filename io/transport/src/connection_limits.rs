//! Limits on the number of connections, the connections of hosts, and the load of every shard.
//!
//! [`crate::admission`] decides on the admission of connections, and on the one that gives way.

use crate::admission::{Admission, Admitted, ConnectionLimits};
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

/// All connections, and the load of every shard.
pub(crate) struct Connections {
    admission: Arc<Admission>,
    shards: Vec<(Shard, AtomicUsize)>,
    /// Open connections by number.
    open: Mutex<BTreeMap<u64, Open>>,
    last: AtomicU64,
}

/// An open connection.
struct Open {
    control: UnboundedSender<Control>,
    /// Number of its portal.
    portal: u16,
}

impl Open {
    /// Whether the connection came by this portal; `None` is any portal.
    fn is_of(&self, portal: Option<u16>) -> bool {
        portal.is_none_or(|portal| self.portal == portal)
    }
}

impl Connections {
    pub(crate) fn new(shards: Vec<Shard>, limits: ConnectionLimits) -> Arc<Self> {
        let shards = shards.into_iter().map(|handle| (handle, AtomicUsize::new(0))).collect();
        let (admission, open, last) = (Admission::new(limits), Mutex::default(), AtomicU64::new(0));
        Arc::new(Self { admission, shards, open, last })
    }

    /// Which connections are admitted.
    pub(crate) fn admission(&self) -> &Admission {
        &self.admission
    }

    /// A shard for a listener.
    pub(crate) fn shard(&self, index: usize) -> Shard {
        self.shards[index % self.shards.len()].0.clone()
    }

    /// Sends a message to the connections of a portal, or to all.
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

    fn least_loaded(&self) -> usize {
        let load = |index: &usize| self.shards[*index].1.load(Ordering::Relaxed);
        (0..self.shards.len()).min_by_key(load).unwrap_or(0)
    }
}

/// A slot of a connection; freed when it is dropped.
pub struct ConnectionSlot {
    connections: Arc<Connections>,
    admitted: Admitted,
    id: u64,
    shard: usize,
}

impl ConnectionSlot {
    /// Takes a slot on the shard with the fewest connections, for a connection through a portal from an address. `None`
    /// if all connections are sessions of hosts.
    pub(crate) fn take(
        connections: &Arc<Connections>,
        control: UnboundedSender<Control>,
        (portal, address): (u16, IpAddr),
    ) -> Option<Self> {
        let evicted = control.clone();
        // A connection that is already ending frees its slot as well.
        let evict = move || drop(evicted.send(Control::Evict));
        let admitted = connections.admission.admit_evictable(address, evict)?;
        let shard = connections.least_loaded();
        connections.shards[shard].1.fetch_add(1, Ordering::Relaxed);
        let id = connections.last.fetch_add(1, Ordering::Relaxed);
        connections.open.lock().insert(id, Open { control, portal });
        Some(Self { connections: connections.clone(), admitted, id, shard })
    }

    /// The runtime that runs the connection.
    pub(crate) fn shard(&self) -> Shard {
        self.connections.shards[self.shard].0.clone()
    }

    /// Marks the connection as a session of a host: it no longer gives way.
    pub fn set_host(&self) {
        // A connection that already gives way is closed.
        let _is_kept = self.admitted.prove("");
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
    use crate::address::counted_address;
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

    const LIMITS: ConnectionLimits = ConnectionLimits {
        total: 8,
        unauthenticated: 6,
        unauthenticated_per_address: 4,
        authenticated: 8,
        authenticated_per_identity: 8,
    };

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
        assert!(!fixture.connections.admission().is_crowded());
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
        assert!(!fixture.connections.admission().evict());
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
