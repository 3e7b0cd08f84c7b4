//! The NVMe/TCP target: configuration, portals and connections.

use crate::connection::{Connection, ConnectionConfig};
use crate::observer::{ConnectRefusal, RefusedConnect};
use crate::subsystem::Subsystem;
use crate::worker::Worker;
use bytes::BytesMut;
use bytes::buf::Limit;
use smallvec::SmallVec;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Context;
use tokio::sync::mpsc::UnboundedSender;
use transport::{
    BoundPortal, Budget, ConnectionLimits, ConnectionSlot, Control, HandshakeFailure, Link, LoginAttempts,
    LoginThrottle, Peer, Permit, Portal, PreSharedKeys, Service, Serving, Shard,
};

/// Source of random bytes.
pub type Random = Box<dyn Fn() -> io::Result<[u8; 32]> + Send + Sync>;

/// A server of NVMe/TCP.
pub struct Server {
    subsystem: Arc<Subsystem>,
    budget: Arc<Budget>,
    permit: Permit,
    random: Random,
    worker: Worker,
    throttle: Arc<LoginThrottle>,
    serving: Serving,
}

impl Server {
    /// A server that does not listen yet. `budget` limits the memory of all connections, `permit` is the permission to
    /// answer hosts; `random` and `worker` serve authentication.
    pub fn new(
        subsystem: Arc<Subsystem>,
        budget: Arc<Budget>,
        permit: Permit,
        random: Random,
        worker: Worker,
    ) -> Arc<Self> {
        let throttle = Arc::new(LoginThrottle::new(subsystem.exports.clock().clone()));
        Arc::new(Self { subsystem, budget, permit, random, worker, throttle, serving: Serving::default() })
    }

    /// The subsystem.
    pub fn subsystem(&self) -> &Arc<Subsystem> {
        &self.subsystem
    }

    /// Serves connections on the shards' runtimes until [`Server::shutdown`]. A portal with the port 8009 serves discovery only, the
    /// others both. One that can't be bound is tried again until it can ([`Subsystem::down_portals`]). Returns the portals with
    /// their addresses, in the given order.
    ///
    /// # Errors
    /// The system's error for a socket that can't be used.
    ///
    /// # Panics
    /// Without a shard, if two portals have one number, or if it is called a second time.
    pub async fn serve(
        self: &Arc<Self>,
        wanted: &[Portal],
        shards: Vec<Shard>,
        limits: ConnectionLimits,
    ) -> io::Result<Vec<Portal>> {
        let portals = self.serving.begin(shards, limits);
        self.subsystem.set_down(portals.down());
        let bound = portals.bind_all(wanted).await?;
        let all: Vec<Portal> = bound.iter().map(BoundPortal::portal).collect();
        self.subsystem.set_portals(all.clone());
        bound.into_iter().try_for_each(|portal| portals.open(self, portal))?;
        Ok(all)
    }

    /// Opens another portal while others serve. Hosts that keep a discovery controller are notified.
    ///
    /// # Errors
    /// The system's error for a socket that can't be used, or if nothing is served.
    ///
    /// # Panics
    /// If an open portal has its number.
    pub fn open_portal(self: &Arc<Self>, bound: BoundPortal) -> io::Result<()> {
        let portals = self.serving.portals()?;
        portals.open(self, bound)?;
        self.subsystem.set_portals(portals.list());
        Ok(())
    }

    /// Binds a portal for [`Server::open_portal`], which retries if the portal can't be bound now.
    ///
    /// # Errors
    /// The system's error for a socket whose address it does not know, or if nothing is served.
    pub async fn bind_portal(&self, portal: Portal) -> io::Result<BoundPortal> {
        self.serving.portals()?.bind(portal).await
    }

    /// Closes a portal and its connections. Hosts that keep a discovery controller elsewhere are notified.
    pub async fn close_portal(&self, number: u16) {
        let Ok(portals) = self.serving.portals() else { return };
        let others = portals.list().into_iter().filter(|portal| portal.number != number);
        self.subsystem.set_portals(others.collect());
        portals.close(number, 0).await;
    }

    /// Replaces the limits on connections; open connections stay.
    pub fn set_connection_limits(&self, limits: ConnectionLimits) {
        if let Ok(portals) = self.serving.portals() {
            portals.set_limits(limits);
        }
    }

    /// Stops listening and ends all connections. NVMe has no notice of a shutdown: hosts reconnect.
    pub async fn shutdown(&self) {
        if let Some(portals) = self.serving.end() {
            portals.close_all(0).await;
        }
    }
}

impl Service for Server {
    type Link = ServerLink;

    fn connect(self: &Arc<Self>, peer: Peer, control: UnboundedSender<Control>) -> io::Result<ServerLink> {
        let Peer { portal, peer, local, tls } = peer;
        let (subsystem, budget) = (self.subsystem.clone(), self.budget.clone());
        let seed = (self.random)()?;
        let attempts = LoginAttempts::new(self.throttle.clone(), peer.ip());
        let worker = self.worker.clone();
        let setup = ConnectionConfig {
            subsystem: subsystem.clone(),
            budget,
            portal,
            local,
            peer,
            control,
            seed,
            attempts,
            worker,
            tls,
        };
        Ok(ServerLink { connection: Connection::new(setup), subsystem, peer, host: None })
    }

    fn refused(&self, peer: Peer) {
        let Peer { portal, peer, .. } = peer;
        let cause = ConnectRefusal::TooManyConnections;
        self.subsystem.refused(&RefusedConnect { host: None, peer, portal, cause });
    }

    fn permit(&self) -> Permit {
        self.permit.clone()
    }

    fn keys(self: &Arc<Self>) -> Option<Arc<dyn PreSharedKeys>> {
        Some(self.subsystem.clone())
    }
}

/// A connection of a server.
pub struct ServerLink {
    connection: Connection,
    subsystem: Arc<Subsystem>,
    peer: SocketAddr,
    /// NQN of the host, once it is known.
    host: Option<String>,
}

impl Link for ServerLink {
    fn secured(&mut self, identity: &[u8]) {
        self.connection.secured(identity);
    }

    fn handshake_failed(&mut self, failure: &HandshakeFailure) {
        self.connection.handshake_failed(failure);
    }

    fn space(&mut self) -> Limit<&mut BytesMut> {
        self.connection.space()
    }

    fn wants_input(&self) -> bool {
        self.connection.wants_input()
    }

    fn received(&mut self) {
        self.connection.received();
    }

    fn proceed(&mut self) -> bool {
        self.connection.proceed()
    }

    fn poll_tasks(&mut self, slot: &ConnectionSlot, cx: &mut Context<'_>) -> bool {
        if self.host.is_none()
            && let Some(host) = self.connection.host()
        {
            self.host = Some(host.to_owned());
            slot.set_host();
        }
        self.connection.poll_tasks(cx).is_ready()
    }

    fn wants_output(&self) -> bool {
        self.connection.wants_output()
    }

    fn slices(&self) -> SmallVec<[IoSlice<'_>; 96]> {
        self.connection.slices()
    }

    fn sent(&mut self, bytes: usize) {
        self.connection.sent(bytes);
    }

    fn tick(&mut self) {
        self.connection.tick();
    }

    fn close(&mut self, reason: &'static str) {
        self.connection.close(reason);
    }

    fn shut_down(&mut self, _: u16) {
        self.connection.close("shutting down");
    }

    fn ended(&self) -> Option<String> {
        self.connection.ended().map(str::to_owned)
    }

    fn finish(self, reason: &str) -> bool {
        let (peer, host) = (self.peer, self.host.as_deref().unwrap_or(""));
        if let Some(left_out) = self.subsystem.log.of(self.host.is_some()).admit() {
            tracing::info!(%peer, host, reason, left_out, "connection closed");
        }
        self.host.is_some()
    }
}
