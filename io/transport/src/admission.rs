//! Admission of connections to a listener: limits by address and in total, and the choice of the connection that gives
//! way to a new one.
//!
//! A connection is unproven until its other end has authenticated. A new connection is admitted as long as an unproven
//! one can give way to it: the oldest of the address with the most of them, one of this machine last. Proven
//! connections never give way; they are limited in all and by identity, so that one identity can't take every slot.
//! Without this rule any end that reaches a port could hold every slot by being silent. Every listener uses it: portals
//! of hosts, the API, the links of other arrays and of controllers.

use crate::address::counted_address;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::Notify;

/// Excess connections that may be open while those that gave way close.
pub const MAX_LEAVING_CONNECTIONS: usize = 32;

/// Limits on the number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// All connections.
    pub total: usize,
    /// Connections whose other end has not authenticated, such as hosts that have not logged in.
    pub unauthenticated: usize,
    /// Unauthenticated connections from one address; for IPv6, from one /64 network.
    pub unauthenticated_per_address: usize,
    /// Connections whose other end has authenticated.
    pub authenticated: usize,
    /// Authenticated connections of one identity.
    pub authenticated_per_identity: usize,
}

impl ConnectionLimits {
    /// Limits for a total number of connections: a quarter of them may be unauthenticated, and each may be authenticated.
    pub fn new(total: usize) -> Self {
        let unauthenticated = (total / 4).max(1);
        Self {
            total,
            unauthenticated,
            unauthenticated_per_address: unauthenticated.div_ceil(2),
            authenticated: total,
            authenticated_per_identity: total,
        }
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::new(1024)
    }
}

/// The connections of a listener, or of several that share their limits.
pub struct Admission {
    limits: Mutex<ConnectionLimits>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// The highest number assigned so far.
    last: u64,
    connections: HashMap<u64, Entry>,
    /// Unproven connections by address, each with its age; a higher age is younger.
    unproven: BTreeMap<IpAddr, BTreeSet<(u64, u64)>>,
    unproven_count: usize,
    /// Numbers of proven connections by identity.
    proven: HashMap<Arc<str>, usize>,
    proven_count: usize,
}

/// An open connection.
struct Entry {
    from: IpAddr,
    state: State,
    evict: Box<dyn Fn() + Send>,
}

#[derive(Clone)]
enum State {
    /// The other end has not authenticated; with the age of the connection.
    Unproven(u64),
    /// The other end has authenticated as this identity.
    Proven(Arc<str>),
    /// The connection gives way to another one.
    Leaving,
}

impl Admission {
    /// An admission without open connections.
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits: Mutex::new(limits), open: Mutex::default() })
    }

    /// Replaces the limits. Open connections stay.
    pub fn set_limits(&self, limits: ConnectionLimits) {
        *self.limits.lock() = limits;
    }

    /// The limits.
    pub fn limits(&self) -> ConnectionLimits {
        *self.limits.lock()
    }

    /// Admits a connection from an address, and makes room for it. `None` if all connections are proven.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Admitted> {
        let gives_way = Arc::new(Notify::new());
        let notified = gives_way.clone();
        self.admit_with(address, move || notified.notify_one(), gives_way)
    }

    /// Like [`Admission::admit`], for a connection that `evict` notifies when it has to give way.
    pub(crate) fn admit_evictable(
        self: &Arc<Self>,
        address: IpAddr,
        evict: impl Fn() + Send + 'static,
    ) -> Option<Admitted> {
        self.admit_with(address, evict, Arc::default())
    }

    fn admit_with(
        self: &Arc<Self>,
        address: IpAddr,
        evict: impl Fn() + Send + 'static,
        gives_way: Arc<Notify>,
    ) -> Option<Admitted> {
        let (from, limits) = (counted_address(address), self.limits());
        let mut open = self.open.lock();
        let of_address = open.unproven.get(&from).map_or(0, BTreeSet::len);
        let has_room = match () {
            () if of_address >= limits.unauthenticated_per_address => open.evict_from(from),
            () if open.unproven_count >= limits.unauthenticated || open.active() >= limits.total => {
                open.evict()
            }
            () => true,
        };
        if !has_room {
            return None;
        }
        let id = open.next();
        open.connections.insert(id, Entry { from, state: State::Leaving, evict: Box::new(evict) });
        open.set_unproven(id);
        Some(Admitted { admission: self.clone(), id, gives_way })
    }

    /// True while too many connections that gave way are still open.
    pub fn is_crowded(&self) -> bool {
        self.open.lock().connections.len() >= self.limits().total + MAX_LEAVING_CONNECTIONS
    }

    /// Makes an unproven connection give way; returns false if there is none.
    pub fn evict(&self) -> bool {
        self.open.lock().evict()
    }
}

impl Open {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Number of connections that do not give way.
    fn active(&self) -> usize {
        self.unproven_count + self.proven_count
    }

    /// Makes the oldest unproven connection of the address with the most of them give way; one of this machine only if there
    /// is no other.
    fn evict(&mut self) -> bool {
        let most = self
            .unproven
            .iter()
            .max_by_key(|(address, of)| (!address.is_loopback(), of.len()))
            .map(|it| *it.0);
        most.is_some_and(|address| self.evict_from(address))
    }

    fn evict_from(&mut self, address: IpAddr) -> bool {
        let oldest = self.unproven.get(&address).and_then(|of| of.first());
        let Some((_, id)) = oldest.copied() else { return false };
        self.leave_state(id);
        self.connections[&id].evict();
        true
    }

    /// Removes a connection from the counters of its state.
    fn leave_state(&mut self, id: u64) {
        let Some(entry) = self.connections.get_mut(&id) else { return };
        match std::mem::replace(&mut entry.state, State::Leaving) {
            State::Unproven(age) => {
                let of = self.unproven.get_mut(&entry.from).expect("an unproven connection is counted");
                assert!(of.remove(&(age, id)), "an unproven connection is counted once");
                if of.is_empty() {
                    self.unproven.remove(&entry.from);
                }
                self.unproven_count -= 1;
            }
            State::Proven(identity) => {
                let count = self.proven.get_mut(&identity).expect("a proven connection is counted");
                *count -= 1;
                if *count == 0 {
                    self.proven.remove(&identity);
                }
                self.proven_count -= 1;
            }
            State::Leaving => {}
        }
    }

    /// Counts a connection as unproven, and as the youngest.
    fn set_unproven(&mut self, id: u64) {
        let age = self.next();
        let entry = self.connections.get_mut(&id).expect("an open connection");
        entry.state = State::Unproven(age);
        self.unproven.entry(entry.from).or_default().insert((age, id));
        self.unproven_count += 1;
    }
}

impl Entry {
    fn evict(&self) {
        (self.evict)();
    }
}

/// The slot of a connection; freed when it is dropped.
pub struct Admitted {
    admission: Arc<Admission>,
    id: u64,
    gives_way: Arc<Notify>,
}

impl Admitted {
    /// Waits until the connection has to give way to another one: the caller must then close it at once.
    pub async fn gives_way(&self) {
        self.gives_way.notified().await;
    }

    /// Notes that the other end has authenticated as this identity: the connection no longer gives way. Returns false,
    /// and changes nothing, if the limit of the identity or the total limit is reached, or if the connection already
    /// gives way.
    #[must_use]
    pub fn prove(&self, identity: &str) -> bool {
        let limits = self.admission.limits();
        let mut open = self.admission.open.lock();
        match open.connections.get(&self.id).map(|entry| &entry.state) {
            Some(State::Unproven(_)) => {}
            Some(State::Proven(known)) => return **known == *identity,
            Some(State::Leaving) | None => return false,
        }
        let of_identity = open.proven.get(identity).copied().unwrap_or_default();
        if of_identity >= limits.authenticated_per_identity || open.proven_count >= limits.authenticated {
            return false;
        }
        open.leave_state(self.id);
        let identity: Arc<str> = identity.into();
        open.connections.get_mut(&self.id).expect("an open connection").state =
            State::Proven(identity.clone());
        *open.proven.entry(identity).or_default() += 1;
        open.proven_count += 1;
        true
    }

    /// Notes that a proven connection is idle: it may give way again, as the youngest.
    pub fn rest(&self) {
        let mut open = self.admission.open.lock();
        if matches!(open.connections.get(&self.id).map(|entry| &entry.state), Some(State::Proven(_))) {
            open.leave_state(self.id);
            open.set_unproven(self.id);
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut open = self.admission.open.lock();
        open.leave_state(self.id);
        open.connections.remove(&self.id);
    }
}

#[cfg(test)]
#[path = "admission_test.rs"]
mod tests;
