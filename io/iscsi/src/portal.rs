//! Sockets and time: the only module of this crate that makes system calls. Listens, assigns connections to shards, and
//! drives [`Connection`] with bytes and ticks.

use crate::access::Portal;
use crate::chap::Nonce;
use crate::connection::{Connection, OpenedSession};
use crate::connection_limits::{ConnectionSlot, Connections};
use crate::login::LoginStatus;
use crate::observer::{RefusalCause, RefusedLogin};
use crate::server::Server;
use crate::sessions::{Control, Registration, SessionInfo};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
/// A runtime that runs connections.
pub use tokio::runtime::Handle as Shard;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, sleep_until, timeout};

/// One tick of [`Connection::tick`].
const TICK: Duration = Duration::from_secs(1);
/// How long a connection that ended waits for its peer to receive the last bytes and close.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes that are read and discarded meanwhile.
const LINGER_BYTES: usize = 1 << 20;
/// Rounds of input, tasks and output before the connection yields to the others of its shard.
const ROUNDS: usize = 32;
/// Pause after a failure to accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Pause while evicted connections are still open.
const CROWDED_PAUSE: Duration = Duration::from_millis(5);

/// The system's clock, with timers of the runtime that polls them.
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl scsi::Clock for SystemClock {
    fn now(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep_until(&self, moment: u64) -> scsi::Sleep {
        let moment = self.0 + Duration::from_nanos(moment);
        Box::pin(async move { sleep_until(moment.into()).await })
    }
}

/// The listening portals and their connections.
pub(crate) struct Portals {
    listeners: Vec<JoinHandle<()>>,
    connections: Arc<Connections>,
}

impl Portals {
    pub(crate) async fn open(
        server: &Arc<Server>,
        shards: Vec<Shard>,
    ) -> io::Result<(Self, Vec<SocketAddr>)> {
        assert!(!shards.is_empty(), "connections need at least one shard");
        let mut sockets = Vec::new();
        for address in &server.config.portals {
            sockets.push(TcpListener::bind(address).await?);
        }
        let addresses = sockets.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>()?;
        let portals: Vec<Portal> =
            (1..).zip(&addresses).map(|(tag, address)| Portal { tag, address: *address }).collect();
        server.directory.set_portals(portals);
        let connections = Connections::new(shards, server.config.connection_limits);
        let mut listeners = Vec::new();
        for (index, socket) in sockets.into_iter().enumerate() {
            // On a shard, which runs only connections, so that hosts can connect even if other threads of the process
            // are blocked. A socket belongs to the runtime that it is used on.
            let shard = connections.shard(index);
            let socket = socket.into_std()?;
            let socket = {
                let _on_shard = shard.enter();
                TcpListener::from_std(socket)?
            };
            let portal = index as u16 + 1;
            listeners.push(shard.spawn(listen(server.clone(), connections.clone(), portal, socket)));
        }
        Ok((Self { listeners, connections }, addresses))
    }

    /// Stops listening, requests logout on every connection, and closes what is left after `seconds`.
    pub(crate) async fn close(self, seconds: u16) {
        self.listeners.iter().for_each(JoinHandle::abort);
        for listener in self.listeners {
            let _aborted = listener.await;
        }
        self.connections.broadcast(&Control::RequestLogout(seconds));
        let all_closed = async {
            while let Some(control) = self.connections.any() {
                control.closed().await;
            }
        };
        if timeout(Duration::from_secs(seconds.into()), all_closed).await.is_err() {
            self.connections.broadcast(&Control::Close("shutting down"));
            while let Some(control) = self.connections.any() {
                control.closed().await;
            }
        }
    }
}

/// Accepts connections of one portal.
async fn listen(server: Arc<Server>, connections: Arc<Connections>, tag: u16, socket: TcpListener) {
    let mut failures = 0_u64;
    loop {
        // Evicted connections are still open for a moment.
        while connections.is_crowded() {
            sleep(CROWDED_PAUSE).await;
        }
        match socket.accept().await {
            Ok((stream, peer)) => {
                failures = 0;
                if let Err(error) = start(&server, &connections, tag, stream, peer) {
                    tracing::warn!(%peer, %error, "connection not served");
                }
            }
            Err(error) => {
                failures += 1;
                if failures.is_power_of_two() {
                    tracing::warn!(portal = tag, failures, %error, "accepting a connection failed");
                }
                // Probably too many open files: evict a connection that has not logged in.
                connections.evict();
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Moves an accepted connection to its shard.
fn start(
    server: &Arc<Server>,
    connections: &Arc<Connections>,
    tag: u16,
    stream: TcpStream,
    peer: SocketAddr,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let local = stream.local_addr()?;
    let (sender, receiver) = unbounded_channel();
    let Some(slot) = ConnectionSlot::take(connections, sender.clone(), peer.ip()) else {
        let refused =
            RefusedLogin { initiator: None, peer, portal: tag, cause: RefusalCause::TooManyConnections };
        server.notify(|observer| observer.refused(&refused));
        return Err(io::Error::other("too many connections"));
    };
    let connection = Connection::new(server.setup(tag, local, peer, nonce()?));
    // A socket belongs to the runtime that it is used on.
    let stream = stream.into_std()?;
    let server = server.clone();
    let info = SessionInfo { initiator: String::new(), isid: [0; 6], tsih: 0, portal: tag, peer, local };
    let handle = slot.shard();
    handle.spawn(async move {
        let stream = match TcpStream::from_std(stream) {
            Ok(stream) => stream,
            Err(error) => return tracing::warn!(%peer, %error, "connection not served"),
        };
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let driver = Driver {
            connection,
            registration: None,
            opening: None,
            ticks,
            sender,
            receiver,
            stream,
            server,
            info,
            slot,
            evicted: false,
        };
        driver.run().await;
    });
    Ok(())
}

/// Randomness for CHAP, from the system.
fn nonce() -> io::Result<Nonce> {
    let mut bytes = [0; 33];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let [id, challenge @ ..] = bytes;
    Ok(Nonce { id, challenge })
}

type Opening =
    Pin<Box<dyn Future<Output = Result<(OpenedSession, Option<Registration>), LoginStatus>> + Send>>;

/// Drives a connection with the bytes of a socket and with ticks. Its fields are dropped in this order, so that a
/// waiter for the receiver's close finds nexus and registration gone.
struct Driver {
    connection: Connection,
    opening: Option<Opening>,
    registration: Option<Registration>,
    slot: ConnectionSlot,
    receiver: UnboundedReceiver<Control>,
    sender: UnboundedSender<Control>,
    ticks: Interval,
    stream: TcpStream,
    server: Arc<Server>,
    info: SessionInfo,
    /// True if it is evicted: the socket is closed immediately.
    evicted: bool,
}

impl Driver {
    async fn run(mut self) {
        let peer = self.info.peer;
        let lost = poll_fn(|cx| self.poll(cx)).await.err();
        let initiator = self.info.initiator.clone();
        let reason =
            lost.map(|error| error.to_string()).or_else(|| self.connection.ended()).unwrap_or_default();
        tracing::info!(%peer, initiator, reason, "connection closed");
        self.notify_end(&reason);
        if self.connection.is_cold_reset() {
            self.server.close_sessions_sharing_with(&initiator);
        }
        let Self { connection, opening, registration, slot, mut receiver, mut stream, evicted, .. } = self;
        let is_host = registration.is_some();
        drop((connection, opening, registration));
        if evicted {
            return;
        }
        // Closing a socket with unread input would reset it and discard what the peer has not read yet.
        let graceful_close = async {
            stream.shutdown().await?;
            tokio::io::copy(&mut stream.take(LINGER_BYTES as u64), &mut tokio::io::sink()).await
        };
        if is_host {
            drop((slot, receiver));
            let _lost_or_late = timeout(LINGER, graceful_close).await;
            return;
        }
        // A connection that has not logged in keeps its slot until its socket is closed, unless it is evicted
        // meanwhile.
        tokio::select! {
            _lost_or_late = timeout(LINGER, graceful_close) => {}
            _wanted = receiver.recv() => {}
        }
        drop((slot, receiver));
    }

    /// Notifies the observer of the end of the session, or why there was none.
    fn notify_end(&mut self, reason: &str) {
        if self.registration.is_some() {
            return self.server.notify(|observer| observer.logged_out(&self.info, reason));
        }
        self.connection.close(reason);
        if let Some((initiator, cause)) = self.connection.take_refusal() {
            let SessionInfo { peer, portal, .. } = self.info;
            self.server.notify(|observer| observer.refused(&RefusedLogin { initiator, peer, portal, cause }));
        }
    }

    /// Runs until the connection has ended and its last bytes are sent, or the socket fails.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        for _ in 0..ROUNDS {
            let mut progress = self.poll_control(cx) | self.poll_opening(cx);
            // Input first: an abort that has arrived wins over a response that was not sent.
            if self.connection.wants_input() && self.poll_read(cx)?.is_ready() {
                progress = true;
            }
            progress |= self.connection.poll_tasks(cx).is_ready();
            while self.connection.wants_output() {
                match self.poll_write(cx)? {
                    Poll::Ready(()) => progress = true,
                    Poll::Pending => break,
                }
            }
            let is_over = self.evicted || !self.connection.wants_output();
            if self.connection.ended().is_some() && is_over {
                return Poll::Ready(Ok(()));
            }
            if !progress {
                return Poll::Pending;
            }
            // Freed memory may admit PDUs that have arrived.
            self.connection.proceed();
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut space = self.connection.space();
        let bytes = ready!(pin!(self.stream.read_buf(&mut space)).poll(cx))?;
        if bytes == 0 {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed by the initiator")));
        }
        self.connection.received();
        Poll::Ready(Ok(()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let slices = self.connection.slices();
        let bytes = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, &slices))?;
        drop(slices);
        self.connection.sent(bytes);
        Poll::Ready(Ok(()))
    }

    /// Ticks and messages from outside.
    fn poll_control(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        while self.ticks.poll_tick(cx).is_ready() {
            self.connection.tick();
            progress = true;
        }
        while let Poll::Ready(Some(control)) = self.receiver.poll_recv(cx) {
            match control {
                Control::Close(reason) => self.connection.close(reason),
                Control::Evict => {
                    self.evicted = true;
                    self.connection.close("evicted for another connection because it has not logged in");
                }
                Control::RequestLogout(seconds) => self.connection.request_logout(seconds),
            }
            progress = true;
        }
        progress
    }

    /// The session that a login waits for.
    fn poll_opening(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some((identity, _)) = self.connection.opening() {
            self.info.initiator.clone_from(&identity.initiator);
            self.info.isid = identity.isid;
            let (server, info, sender) = (self.server.clone(), self.info.clone(), self.sender.clone());
            self.opening = Some(Box::pin(async move { server.open(identity, info, sender).await }));
        }
        let Some(opening) = &mut self.opening else { return false };
        let Poll::Ready(result) = opening.as_mut().poll(cx) else { return false };
        self.opening = None;
        let (opened, registration) = match result {
            Ok((opened, registration)) => (Ok(opened), registration),
            Err(status) => (Err(status), None),
        };
        if let Some(registration) = &registration {
            self.slot.set_host();
            self.info.tsih = registration.tsih;
            self.server.notify(|observer| observer.logged_in(&self.info));
        }
        self.registration = registration;
        self.connection.opened(opened);
        true
    }
}
