//! The HTTP server: accepts connections, performs the TLS handshake, and passes requests to the router. The number of
//! connections is limited (see [`crate::limiter`]), and there are time-outs for the first byte, the handshake, the request
//! head, and clients that do not read. The time-out of request bodies is in [`crate::contract`].

use crate::auth::Token;
use crate::headers::date;
use crate::limiter::{Connection, connection_limits};
use crate::tls::{Peer, Stream, Tls};
use crate::unread;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::ConnectInfo;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONNECTION, COOKIE, DATE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::Sleep;
use transport::{Admission, Admitted, MAX_LEAVING_CONNECTIONS};

/// Time-out of the first byte and of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time-out of the head of a request, counted from the end of the previous request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// Time-out of a client that reads nothing of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of the head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Delay after a failed accept, such as without descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A connection that this controller does not answer itself.
pub struct Passed {
    /// The connection.
    pub stream: TcpStream,
    /// Where it comes from.
    pub address: SocketAddr,
    /// Whether plain HTTP is answered beside HTTPS.
    pub plain: bool,
}

/// Passes connections on to the controller that serves the array. Ends with a connection; returns one that can't be passed on.
pub type PassOn = Arc<dyn Fn(Passed) -> Passing + Send + Sync>;

/// A connection on its way.
pub type Passing = Pin<Box<dyn Future<Output = Option<TcpStream>> + Send>>;

/// A connection that another controller passes on.
#[derive(Clone, Copy, Debug)]
pub struct Relayed {
    /// Where it comes from.
    pub address: SocketAddr,
    /// The address of that controller that it reached.
    pub reached: IpAddr,
    /// Whether plain HTTP is answered beside HTTPS.
    pub plain: bool,
    /// The token of that controller's data folder.
    pub token: Option<Token>,
}

/// What all listeners share.
pub struct Server {
    router: Router,
    tls: Tls,
    pass_on: Option<PassOn>,
    admission: Arc<Admission>,
    sockets: Arc<Semaphore>,
    end: watch::Sender<bool>,
}

/// A listener's connections.
struct Listening {
    server: Arc<Server>,
    /// Whether plain HTTP is answered beside HTTPS.
    plain: bool,
    /// Set by the first authenticated request that succeeds.
    used: Arc<AtomicBool>,
}

impl Server {
    /// Serves nothing before [`Server::listen`]. `sockets`: maximum number of open sockets.
    pub fn new(tls: Tls, (router, pass_on): (Router, Option<PassOn>), sockets: usize) -> Arc<Self> {
        let limits = connection_limits(sockets);
        let sockets = Arc::new(Semaphore::new(sockets.min(limits.total + MAX_LEAVING_CONNECTIONS)));
        let (admission, end) = (Admission::new(limits), watch::Sender::new(false));
        Arc::new(Self { router, tls, pass_on, admission, sockets, end })
    }

    /// Serves one connection that another controller passes on.
    pub async fn serve_relayed(self: Arc<Self>, stream: Box<dyn Stream>, from: Relayed) {
        let Relayed { address, reached, plain, token } = from;
        let peer = Peer { address, reached, encrypted: false, token };
        let Ok(socket) = self.sockets.clone().try_acquire_owned() else {
            return tracing::debug!(%address, "too many connections");
        };
        let listening = Arc::new(Listening { server: self, plain, used: Arc::default() });
        admit(listening, stream, peer).await;
        drop(socket);
    }

    /// Accepts connections, forever. `used` is set by the first authenticated request that succeeds.
    pub async fn listen(self: Arc<Self>, listener: TcpListener, plain: bool, used: Arc<AtomicBool>) {
        accept(listener, Arc::new(Listening { server: self, plain, used })).await;
    }

    /// Connections end after the request in progress.
    pub fn end(&self) {
        self.end.send_replace(true);
    }
}

/// Serves what is not passed on until `end`; requests in progress continue as long as they are polled.
pub async fn run(
    listener: TcpListener,
    (tls, plain): (Tls, bool),
    answers: (Router, Option<PassOn>),
    sockets: usize,
    end: impl Future<Output = ()> + Send,
) {
    let server = Server::new(tls, answers, sockets);
    tokio::select! {
        () = server.clone().listen(listener, plain, Arc::default()) => {}
        () = end => {}
    }
    server.end();
}

async fn accept(listener: TcpListener, listening: Arc<Listening>) {
    loop {
        let Ok(socket) = listening.server.sockets.clone().acquire_owned().await else { return };
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let listening = listening.clone();
        tokio::spawn(async move {
            take(listening, stream, address).await;
            drop(socket);
        });
    }
}

/// Serves one connection of a listener to its end.
async fn take(listening: Arc<Listening>, stream: TcpStream, address: SocketAddr) {
    let (server, plain) = (&listening.server, listening.plain);
    let stream = match &server.pass_on {
        Some(pass_on) => {
            // What is asked is encrypted, so each gives way; at the home those with a request do not.
            let Some(admitted) = server.admission.admit(address.ip()) else { return };
            let passed = tokio::select! {
                passed = pass_on(Passed { stream, address, plain }) => passed,
                () = admitted.gives_way() => return tracing::debug!(%address, "a connection that was passed on gave way"),
            };
            let Some(stream) = passed else { return };
            stream
        }
        None => stream,
    };
    let Ok(reached) = stream.set_nodelay(true).and_then(|()| stream.local_addr()) else { return };
    let peer = Peer { address, reached: reached.ip(), encrypted: false, token: None };
    admit(listening, Box::new(stream), peer).await;
}

/// Serves one connection to its end, or until it gives way to others.
async fn admit(listening: Arc<Listening>, stream: Box<dyn Stream>, peer: Peer) {
    let address = peer.address;
    let Some(admitted) = listening.server.admission.admit(address.ip()) else {
        return tracing::debug!(%address, "too many connections");
    };
    let admitted = Arc::new(admitted);
    tokio::select! {
        () = serve(listening, stream, peer, admitted.clone()) => {}
        () = admitted.gives_way() => tracing::debug!(%address, "a connection without an authenticated request gave way"),
    }
}

/// Serves one connection to its end.
async fn serve(listening: Arc<Listening>, stream: Box<dyn Stream>, peer: Peer, admitted: Arc<Admitted>) {
    let address = peer.address;
    let greeting = listening.server.tls.greet(stream, peer, listening.plain);
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, greeting).await;
    let (stream, peer) = match handshake {
        Ok(Ok(Some(connected))) => connected,
        Ok(Ok(None)) | Err(_) => return,
        Ok(Err(error)) => {
            return tracing::debug!(%address, %error, "a connection was refused in the handshake");
        }
    };
    let Listening { server, used, .. } = listening.as_ref();
    let end = server.end.subscribe();
    if let Err(error) = serve_http(&server.router, (end, used.clone()), stream, peer, admitted).await {
        tracing::debug!(%address, %error, "a connection ended with an error");
    }
}

/// Whether a request that succeeds shows that its sender can administer the array by this connection.
fn is_of_administrator(request: &Request<Incoming>) -> bool {
    let headers = request.headers();
    request.uri().path().starts_with("/api/")
        && (headers.contains_key(AUTHORIZATION) || headers.contains_key(COOKIE))
}

async fn serve_http(
    router: &Router,
    (mut end, used): (watch::Receiver<bool>, Arc<AtomicBool>),
    stream: Box<dyn Stream>,
    peer: Peer,
    admitted: Arc<Admitted>,
) -> hyper::Result<()> {
    let connection = Connection::new(admitted.clone(), peer.address.ip());
    let router = TowerToHyperService::new(router.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(connection.clone());
        let proves = is_of_administrator(&request).then(|| used.clone());
        let (request, rest) = unread::follow(request);
        let (ends, answer) = (RequestEnd(admitted.clone()), router.call(request));
        async move {
            let mut answer: Response<Body> = answer.await?;
            if let Some(date) = date(SystemTime::now()) {
                answer.headers_mut().insert(DATE, date);
            }
            if let Some(used) = proves.filter(|_| answer.status().is_success()) {
                used.store(true, Ordering::Relaxed);
            }
            if !rest.dropped().await {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(answer.map(|body| Answer { body, _ends: ends }))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // Hyper's own panics while the clock is before 1970.
        .auto_date_header(false)
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(TimeoutStream { stream, unread: None }), service);
    let mut connection = pin!(connection);
    tokio::select! {
        done = connection.as_mut() => return done,
        _ = end.wait_for(|end| *end) => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

/// The body of an answer: as long as it is sent, the request is in progress.
struct Answer {
    body: Body,
    _ends: RequestEnd,
}

/// The end of a request, when it is dropped: its connection may give way again.
struct RequestEnd(Arc<Admitted>);

impl Drop for RequestEnd {
    fn drop(&mut self) {
        self.0.rest();
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection that fails when the client reads nothing of a response for [`WRITE_TIMEOUT`].
struct TimeoutStream {
    stream: Box<dyn Stream>,
    unread: Option<Pin<Box<Sleep>>>,
}

impl TimeoutStream {
    fn bounded<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.unread = None;
            return written;
        }
        let unread = self.unread.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_TIMEOUT)));
        ready!(unread.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client read nothing of the response within the time-out",
        )))
    }
}

impl AsyncRead for TimeoutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for TimeoutStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, from);
        self.bounded(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.bounded(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.bounded(cx, shut)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, from);
        self.bounded(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
#[path = "server_test.rs"]
mod tests;
