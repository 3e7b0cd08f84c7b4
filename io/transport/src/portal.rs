//! Sockets and time: with `tls` the only module of the TCP transports that makes system calls. Listens, assigns
//! connections to shards, and drives each [`Link`] with bytes and ticks.

pub(crate) mod shard;

use crate::admission::ConnectionLimits;
use crate::connection_limits::{ConnectionSlot, Connections, Control};
use crate::permit::Permit;
use crate::tls::{HandshakeFailure, PreSharedKeys, TlsConfig, TlsStream, closed};
use bytes::BytesMut;
use bytes::buf::Limit;
use parking_lot::Mutex;
use shard::Shard;
use smallvec::SmallVec;
use socket2::{SockRef, TcpKeepalive};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::{Interval, MissedTickBehavior, Sleep, interval, sleep, sleep_until, timeout};

/// One tick of [`Link::tick`].
const TICK: Duration = Duration::from_secs(1);
/// Time that an ended connection waits for its peer to receive the last bytes and close.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of bytes that are read and discarded in this time.
const MAX_LINGER_BYTES: usize = 1 << 20;
/// Maximum number of rounds of input, tasks and output before the connection yields to the others of its shard.
const MAX_ROUNDS: usize = 32;
/// Bytes read in these rounds, after which it yields as well: as commands without data, they take the shard milliseconds.
const MAX_TURN_BYTES: usize = 64 << 10;
/// PDUs that a connection takes from its buffer before it yields. A host sends more at once only if it does not wait for
/// responses.
pub const MAX_TURN_PDUS: usize = 128;
/// Pause after a failure to accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// TCP keepalive: probes after this time without traffic, at this interval, and how many without a response end a connection.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 6;
/// Pause before another attempt to bind a portal.
const BIND_PAUSE: Duration = Duration::from_secs(1);
/// Pause before the permission to answer is checked again.
const PERMIT_PAUSE: Duration = Duration::from_millis(50);
/// Pause while evicted connections are still open.
const CROWDED_PAUSE: Duration = Duration::from_millis(5);

/// The system's clock, with timers of the runtime that polls them.
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl export::Clock for SystemClock {
    fn now(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep_until(&self, moment: u64) -> export::Sleep {
        let moment = self.0 + Duration::from_nanos(moment);
        Box::pin(async move { sleep_until(moment.into()).await })
    }
}

/// Both ends of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Number of the portal, from 1.
    pub portal: u16,
    /// The host's address.
    pub peer: SocketAddr,
    /// The local address.
    pub local: SocketAddr,
    /// Whether the portal requires TLS: nothing is received before [`Link::secured`].
    pub tls: bool,
}

/// A protocol that is served on portals.
pub trait Service: Send + Sync + 'static {
    /// Connections of the protocol.
    type Link: Link;

    /// Creates a connection, with the sender of its control messages.
    ///
    /// # Errors
    /// The reason why it can't be served.
    fn connect(self: &Arc<Self>, peer: Peer, control: UnboundedSender<Control>) -> io::Result<Self::Link>;

    /// Reports a connection that was refused because of the limits. Implementations log it, coalesced.
    fn refused(&self, peer: Peer);

    /// Permission to answer hosts.
    fn permit(&self) -> Permit;

    /// Keys that authenticate hosts at portals that require TLS; `None` for a protocol without such portals.
    fn keys(self: &Arc<Self>) -> Option<Arc<dyn PreSharedKeys>> {
        None
    }
}

/// The state machine of one connection, without sockets and clocks.
pub trait Link: Send + 'static {
    /// The host has proved by TLS that it knows the key of this PSK identity.
    fn secured(&mut self, _identity: &[u8]) {}
    /// The TLS handshake with the host failed; the connection ends.
    fn handshake_failed(&mut self, _failure: &HandshakeFailure) {}
    /// Buffer space for the next bytes from the host.
    fn space(&mut self) -> Limit<&mut BytesMut>;
    /// True if the link can receive more bytes now.
    fn wants_input(&self) -> bool;
    /// Bytes were put into [`Link::space`].
    fn received(&mut self);
    /// Continues commands that waited for memory. True if PDUs that have arrived are left for the next turn, see
    /// [`MAX_TURN_PDUS`].
    fn proceed(&mut self) -> bool;
    /// Continues commands; returns true if there was work to do. Wakes the context when there may be more. A link whose
    /// host has become known marks its slot.
    fn poll_tasks(&mut self, slot: &ConnectionSlot, cx: &mut Context<'_>) -> bool;
    /// True if there are bytes to send.
    fn wants_output(&self) -> bool;
    /// The bytes to send next.
    fn slices(&self) -> SmallVec<[IoSlice<'_>; 96]>;
    /// The first bytes of [`Link::slices`] were sent.
    fn sent(&mut self, bytes: usize);
    /// Called once a second.
    fn tick(&mut self);
    /// Ends the connection; queued bytes may still be sent.
    fn close(&mut self, reason: &'static str);
    /// The server shuts down within this many seconds.
    fn shut_down(&mut self, seconds: u16);
    /// The reason of the end, once the connection has ended. Queued bytes may still have to be sent.
    fn ended(&self) -> Option<String>;
    /// Called last, with the reason of the end. Releases everything that the connection holds. Returns true if the host
    /// of the connection was known.
    fn finish(self, reason: &str) -> bool;
}

/// An address where hosts connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portal {
    /// Number, from 1: the relative identifier of the target port. It does not depend on other portals, and stays the
    /// same as long as the portal exists.
    pub number: u16,
    /// Address to listen on; an unspecified address stands for every address of the machine.
    pub address: SocketAddr,
    /// Whether the portal requires TLS.
    pub tls: bool,
}

impl Portal {
    /// A portal without TLS.
    pub fn plain(number: u16, address: SocketAddr) -> Self {
        Self { number, address, tls: false }
    }
}

/// Portals that do not listen yet, with the reason. Clones share the same list.
#[derive(Clone, Default)]
pub struct DownPortals(Arc<Mutex<BTreeMap<u16, (SocketAddr, String)>>>);

impl DownPortals {
    /// Addresses and reasons, ordered by portal number.
    pub fn list(&self) -> Vec<(SocketAddr, String)> {
        self.0.lock().values().cloned().collect()
    }

    /// Binds a portal, or notes the reason of the failure.
    async fn bind(&self, Portal { number, address, .. }: Portal) -> Option<TcpListener> {
        match listener(address).await {
            Ok(socket) => {
                if self.0.lock().remove(&number).is_some() {
                    tracing::info!(number, %address, "the portal listens now");
                }
                Some(socket)
            }
            Err(error) => {
                let before = self.0.lock().insert(number, (address, error.to_string()));
                if before.is_none() {
                    tracing::error!(number, %address, %error, "a portal can't listen, and is tried again until it can");
                }
                None
            }
        }
    }
}

/// The portals of a server while it serves.
#[derive(Default)]
pub struct Serving(Mutex<Option<Arc<Portals>>>);

impl Serving {
    /// Begins to serve, without portals yet.
    ///
    /// # Panics
    /// Without a shard, or if the server is already serving.
    pub fn begin(&self, shards: Vec<Shard>, limits: ConnectionLimits) -> Arc<Portals> {
        let portals = Portals::new(shards, limits);
        let before = self.0.lock().replace(portals.clone());
        assert!(before.is_none(), "a server serves once");
        portals
    }

    /// The portals.
    ///
    /// # Errors
    /// If nothing is served.
    pub fn portals(&self) -> io::Result<Arc<Portals>> {
        self.0.lock().clone().ok_or_else(|| io::Error::other("the array does not listen, or is stopping"))
    }

    /// Ends serving. Returns the portals if it was serving; the caller must close them.
    pub fn end(&self) -> Option<Arc<Portals>> {
        self.0.lock().take()
    }
}

/// A portal that does not accept connections yet.
pub struct BoundPortal {
    portal: Portal,
    /// `None` if the portal can't be bound.
    socket: Option<TcpListener>,
}

impl BoundPortal {
    /// Binds an address for a portal that is opened later.
    ///
    /// # Errors
    /// The system's error.
    pub async fn bind(portal: Portal) -> io::Result<Self> {
        let socket = listener(portal.address).await?;
        let portal = Portal { address: socket.local_addr()?, ..portal };
        Ok(Self { portal, socket: Some(socket) })
    }

    /// The portal with its bound address, or the address to bind.
    pub fn portal(&self) -> Portal {
        self.portal
    }
}

/// A portal that accepts connections, now or as soon as it can be bound.
struct OpenPortal {
    portal: Portal,
    listener: JoinHandle<()>,
}

/// The portals of a service and their connections. Binding a portal that can't be bound, for example because its
/// network is down, is retried; the other portals are served in any case.
pub struct Portals {
    open: Mutex<BTreeMap<u16, OpenPortal>>,
    down: DownPortals,
    connections: Arc<Connections>,
}

impl Portals {
    /// A set without portals.
    ///
    /// # Panics
    /// Without a shard.
    pub fn new(shards: Vec<Shard>, limits: ConnectionLimits) -> Arc<Self> {
        assert!(!shards.is_empty(), "connections need at least one shard");
        let (open, down) = (Mutex::default(), DownPortals::default());
        Arc::new(Self { open, down, connections: Connections::new(shards, limits) })
    }

    /// Portals that do not listen yet.
    pub fn down(&self) -> DownPortals {
        self.down.clone()
    }

    /// Replaces the limits on connections. Open connections stay.
    pub fn set_limits(&self, limits: ConnectionLimits) {
        self.connections.admission().set_limits(limits);
    }

    /// Binds portals as [`Portals::bind`] does.
    ///
    /// # Errors
    /// The system's error for a socket without a local address.
    pub async fn bind_all(&self, wanted: &[Portal]) -> io::Result<Vec<BoundPortal>> {
        let mut bound = Vec::new();
        for portal in wanted {
            bound.push(self.bind(*portal).await?);
        }
        Ok(bound)
    }

    /// Binds a portal if that is possible now. No connection is accepted before [`Portals::open`].
    ///
    /// # Errors
    /// The system's error for a socket without a local address.
    pub async fn bind(&self, portal: Portal) -> io::Result<BoundPortal> {
        let socket = self.down.bind(portal).await;
        let address = socket.as_ref().map_or(Ok(portal.address), TcpListener::local_addr)?;
        Ok(BoundPortal { portal: Portal { address, ..portal }, socket })
    }

    /// Accepts connections of a service at a portal, at once or as soon as the portal can be bound.
    ///
    /// # Errors
    /// The system's error for a socket that can't be moved to its shard, or if the service has no keys for a portal with TLS.
    ///
    /// # Panics
    /// If the number is that of an open portal.
    pub fn open<S: Service>(&self, service: &Arc<S>, bound: BoundPortal) -> io::Result<()> {
        let BoundPortal { portal, socket } = bound;
        let tls = portal.tls.then(|| tls_config(service)).transpose()?;
        let mut open = self.open.lock();
        assert!(!open.contains_key(&portal.number), "two portals have one number");
        // The listener runs on a shard, which runs only connections, so that hosts can connect even if other threads of
        // the process are blocked. A socket belongs to the runtime that uses it.
        let shard = self.connections.shard(open.len());
        let socket = match socket.map(TcpListener::into_std).transpose()? {
            Some(socket) => {
                let _on_shard = shard.enter();
                Some(TcpListener::from_std(socket)?)
            }
            None => None,
        };
        let (service, connections, down) = (service.clone(), self.connections.clone(), self.down.clone());
        let listener = shard.spawn(async move {
            let socket = match socket {
                Some(socket) => socket,
                None => bind_later(&down, portal).await,
            };
            listen(service, connections, (portal.number, tls), socket).await;
        });
        open.insert(portal.number, OpenPortal { portal, listener });
        Ok(())
    }

    /// The open portals ordered by number, with their bound addresses or the addresses to bind.
    pub fn list(&self) -> Vec<Portal> {
        self.open.lock().values().map(|open| open.portal).collect()
    }

    /// Stops listening at one portal, announces the end on its connections, and closes the remaining ones after
    /// `seconds`. Returns at once if the portal does not exist.
    pub async fn close(&self, number: u16, seconds: u16) {
        let Some(OpenPortal { listener, .. }) = self.open.lock().remove(&number) else { return };
        end(listener).await;
        self.down.0.lock().remove(&number);
        self.end_connections(Some(number), seconds).await;
    }

    /// Closes all portals like [`Portals::close`].
    pub async fn close_all(&self, seconds: u16) {
        let open = std::mem::take(&mut *self.open.lock());
        for OpenPortal { listener, .. } in open.into_values() {
            end(listener).await;
        }
        self.end_connections(None, seconds).await;
    }

    /// Announces the end on the connections of a portal, or of all, and closes the remaining ones after `seconds`.
    async fn end_connections(&self, portal: Option<u16>, seconds: u16) {
        self.connections.broadcast(portal, &Control::ShutDown(seconds));
        let all_closed = async {
            while let Some(control) = self.connections.any(portal) {
                control.closed().await;
            }
        };
        if timeout(Duration::from_secs(seconds.into()), all_closed).await.is_err() {
            self.connections.broadcast(portal, &Control::Close("shutting down"));
            while let Some(control) = self.connections.any(portal) {
                control.closed().await;
            }
        }
    }
}

/// The configuration of TLS of a service's portals.
fn tls_config<S: Service>(service: &Arc<S>) -> io::Result<TlsConfig> {
    let none = || io::Error::other("this protocol has no portals with TLS");
    TlsConfig::new(service.keys().ok_or_else(none)?)
}

/// Ends a listener. Afterwards every connection that it accepted is among those of its portal.
async fn end(listener: JoinHandle<()>) {
    listener.abort();
    let _aborted = listener.await;
}

/// Binds a portal as soon as that is possible.
async fn bind_later(down: &DownPortals, portal: Portal) -> TcpListener {
    loop {
        sleep(BIND_PAUSE).await;
        if let Some(socket) = down.bind(portal).await {
            return socket;
        }
    }
}

/// Accepts connections of one portal.
async fn listen<S: Service>(
    service: Arc<S>,
    connections: Arc<Connections>,
    (portal, tls): (u16, Option<TlsConfig>),
    socket: TcpListener,
) {
    let mut failures = 0_u64;
    loop {
        // Evicted connections remain open for a moment.
        while connections.admission().is_crowded() {
            sleep(CROWDED_PAUSE).await;
        }
        match socket.accept().await {
            Ok((stream, peer)) => {
                failures = 0;
                if let Err(error) = start(&service, &connections, (portal, tls.as_ref()), (stream, peer)) {
                    tracing::warn!(%peer, %error, "connection not served");
                }
            }
            Err(error) => {
                failures += 1;
                if failures.is_power_of_two() {
                    tracing::warn!(portal, failures, %error, "accepting a connection failed");
                }
                // Probably too many open files: evict a connection of an unknown host.
                connections.admission().evict();
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A socket that listens at an address. The kernel probes idle connections, which inherit that, and ends those whose host is gone: NVMe/TCP
/// allows hosts to send nothing for any time (KATO 0).
async fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpListener::bind(address).await?;
    let probes = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(&socket).set_tcp_keepalive(&probes.with_retries(KEEPALIVE_RETRIES))?;
    Ok(socket)
}

/// Moves an accepted connection to its shard.
fn start<S: Service>(
    service: &Arc<S>,
    connections: &Arc<Connections>,
    (portal, tls): (u16, Option<&TlsConfig>),
    (stream, peer): (TcpStream, SocketAddr),
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let about = Peer { portal, peer, local: stream.local_addr()?, tls: tls.is_some() };
    let (sender, receiver) = unbounded_channel();
    let Some(slot) = ConnectionSlot::take(connections, sender.clone(), (portal, peer.ip())) else {
        service.refused(about);
        return Ok(());
    };
    let (link, permit) = (service.connect(about, sender)?, service.permit());
    // A socket belongs to the runtime that uses it.
    let stream = stream.into_std()?;
    let shard = slot.shard();
    let tls = tls.cloned();
    shard.spawn(async move {
        let stream = match TcpStream::from_std(stream).and_then(|socket| Stream::new(socket, tls.as_ref())) {
            Ok(stream) => stream,
            Err(error) => return tracing::warn!(%peer, %error, "connection not served"),
        };
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let held = None;
        Driver { link, ticks, receiver, stream, slot, evicted: false, permit, held, left: false }.run().await;
    });
    Ok(())
}

/// The bytes of a connection.
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    fn new(socket: TcpStream, tls: Option<&TlsConfig>) -> io::Result<Self> {
        Ok(match tls {
            None => Self::Plain(socket),
            Some(config) => Self::Tls(Box::new(TlsStream::new(socket, config)?)),
        })
    }

    /// Returns the socket after announcing the end of TLS.
    fn into_socket(self) -> Option<TcpStream> {
        match self {
            Self::Plain(socket) => Some(socket),
            Self::Tls(stream) => stream.into_socket(),
        }
    }

    /// Whether accepted bytes wait for the socket.
    fn has_unsent(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.has_unsent())
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        space: &mut Limit<&mut BytesMut>,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(socket) => pin!(socket.read_buf(space)).poll(cx),
            Self::Tls(stream) => stream.poll_read(cx, space),
        }
    }

    /// Takes the first bytes of slices; without slices, sends bytes accepted before.
    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, slices),
            Self::Tls(stream) if slices.is_empty() => stream.poll_flush(cx).map_ok(|()| 0),
            Self::Tls(stream) => stream.poll_write(cx, slices),
        }
    }
}

/// Drives a link with the bytes of a socket and with ticks. The fields are dropped in this order: when the receiver is
/// closed, everything that the link held is released.
struct Driver<L> {
    link: L,
    slot: ConnectionSlot,
    receiver: UnboundedReceiver<Control>,
    ticks: Interval,
    stream: Stream,
    /// Whether the connection is evicted: its socket is closed immediately.
    evicted: bool,
    permit: Permit,
    /// Set while responses wait for permission: the time of the next check.
    held: Option<Pin<Box<Sleep>>>,
    /// PDUs that have arrived were left for the next turn.
    left: bool,
}

impl<L: Link> Driver<L> {
    async fn run(mut self) {
        let lost = poll_fn(|cx| self.poll(cx)).await.err();
        let reason = lost.map(|error| error.to_string()).or_else(|| self.link.ended()).unwrap_or_default();
        let Self { link, slot, mut receiver, stream, evicted, .. } = self;
        let is_host = link.finish(&reason);
        if evicted {
            return;
        }
        let Some(mut stream) = stream.into_socket() else { return };
        // Closing a socket with unread input would reset it and discard what the peer has not read yet.
        let graceful_close = async {
            stream.shutdown().await?;
            tokio::io::copy(&mut stream.take(MAX_LINGER_BYTES as u64), &mut tokio::io::sink()).await
        };
        if is_host {
            drop((slot, receiver));
            let _lost_or_late = timeout(LINGER_TIMEOUT, graceful_close).await;
            return;
        }
        // A connection of an unknown host keeps its slot until its socket is closed, unless it is evicted.
        tokio::select! {
            _lost_or_late = timeout(LINGER_TIMEOUT, graceful_close) => {}
            _wanted = receiver.recv() => {}
        }
        drop((slot, receiver));
    }

    /// Runs until the connection has ended and its last bytes are sent, or the socket fails.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Stream::Tls(stream) = &self.stream
            && !stream.is_established()
        {
            ready!(self.poll_handshake(cx))?;
            if self.link.ended().is_some() {
                return Poll::Ready(Ok(()));
            }
        }
        let mut read_bytes = 0;
        let mut progress = std::mem::take(&mut self.left);
        if progress {
            self.link.proceed();
        }
        for _ in 0..MAX_ROUNDS {
            progress |= self.poll_control(cx);
            // Input first: an abort that has arrived takes precedence over an unsent response.
            if self.link.wants_input()
                && let Poll::Ready(bytes) = self.poll_read(cx)?
            {
                (progress, read_bytes) = (true, read_bytes + bytes);
            }
            progress |= self.link.poll_tasks(&self.slot, cx);
            let permitted = self.poll_permit(cx);
            while permitted && self.wants_output() {
                match self.poll_write(cx)? {
                    Poll::Ready(()) => progress = true,
                    Poll::Pending => break,
                }
            }
            let is_over = self.evicted || !permitted || !self.wants_output();
            if is_over && self.link.ended().is_some() {
                return Poll::Ready(Ok(()));
            }
            if !progress {
                return Poll::Pending;
            }
            // Freed memory may admit PDUs that have arrived.
            self.left = self.link.proceed();
            if self.left || read_bytes >= MAX_TURN_BYTES {
                break;
            }
            progress = false;
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ready when TLS has authenticated the host, or the connection has ended. The link's ticks limit the time.
    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_control(cx);
        let Stream::Tls(stream) = &mut self.stream else { return Poll::Ready(Ok(())) };
        if self.link.ended().is_some() {
            return Poll::Ready(Ok(()));
        }
        match ready!(stream.poll_handshake(cx)) {
            Ok(identity) => {
                self.link.secured(&identity);
                Poll::Ready(Ok(()))
            }
            Err(failure) => {
                self.link.handshake_failed(&failure);
                Poll::Ready(Err(failure.error))
            }
        }
    }

    fn wants_output(&self) -> bool {
        self.link.wants_output() || self.stream.has_unsent()
    }

    /// Whether responses may be sent now. If responses wait, the context is woken for the next check.
    fn poll_permit(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.wants_output() || self.permit.holds() {
            self.held = None;
            return true;
        }
        let held = self.held.get_or_insert_with(|| Box::pin(sleep(PERMIT_PAUSE)));
        while held.as_mut().poll(cx).is_ready() {
            *held = Box::pin(sleep(PERMIT_PAUSE));
        }
        false
    }

    /// Reads once; returns the number of bytes.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = self.link.space();
        let bytes = ready!(self.stream.poll_read(cx, &mut space))?;
        if bytes == 0 {
            return Poll::Ready(Err(closed()));
        }
        self.link.received();
        Poll::Ready(Ok(bytes))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let slices = self.link.slices();
        let bytes = ready!(self.stream.poll_write(cx, &slices))?;
        drop(slices);
        self.link.sent(bytes);
        Poll::Ready(Ok(()))
    }

    /// Processes ticks and control messages.
    fn poll_control(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        while self.ticks.poll_tick(cx).is_ready() {
            self.link.tick();
            progress = true;
        }
        while let Poll::Ready(Some(control)) = self.receiver.poll_recv(cx) {
            match control {
                Control::Close(reason) => self.link.close(reason),
                Control::Evict => {
                    self.evicted = true;
                    self.link.close("evicted for another connection because it has not logged in");
                }
                Control::ShutDown(seconds) => self.link.shut_down(seconds),
            }
            progress = true;
        }
        progress
    }
}

#[cfg(test)]
#[path = "portal_test.rs"]
mod tests;
