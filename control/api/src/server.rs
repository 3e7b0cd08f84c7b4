//! The server: takes connections, agrees on keys, and hands requests to the router, with a bound on each: how many
//! there are (see [`crate::places`]), and how long a first byte, a handshake, a head, and somebody who does not read,
//! may take. Bodies have their bound where they are read (see [`crate::contract`]).

use crate::places::{Busy, Place, Places};
use crate::tls::{Peer, Stream, Tls};
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::ConnectInfo;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::Sleep;

/// How long somebody may take to say the first word and to agree on keys.
const GREETING: Duration = Duration::from_secs(10);
/// How long the head of a request may take, counted from the end of the one before.
const HEAD: Duration = Duration::from_secs(15);
/// How long nothing of an answer may be taken.
const UNREAD: Duration = Duration::from_secs(30);
/// Most bytes of a head.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// How long to wait when there are no sockets left.
const PAUSE: Duration = Duration::from_millis(100);

/// What every connection shares.
struct Server {
    router: Router,
    tls: Tls,
    plain: bool,
    end: watch::Receiver<bool>,
}

/// Serves until `end`; requests under way go on, and are to be polled on.
pub async fn run(
    listener: TcpListener,
    (tls, plain): (Tls, bool),
    router: Router,
    places: Places,
    end: impl Future<Output = ()> + Send,
) {
    let (stop, stopped) = watch::channel(false);
    let server = Arc::new(Server { router, tls, plain, end: stopped });
    let accept = accept(listener, server, Arc::new(places));
    tokio::select! {
        never = accept => never,
        () = end => {}
    }
    // Who is gone need not hear of it.
    let _ = stop.send(true);
}

async fn accept(listener: TcpListener, server: Arc<Server>, places: Arc<Places>) {
    let sockets = Arc::new(Semaphore::new(places.sockets()));
    loop {
        let Ok(socket) = sockets.clone().acquire_owned().await else { return };
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(place) = places.take(address.ip()) else {
            tracing::debug!(%address, "too many connections");
            continue;
        };
        let (server, place) = (server.clone(), Arc::new(place));
        tokio::spawn(async move {
            let needed = place.clone();
            tokio::select! {
                () = serve(server, stream, address, place) => {}
                () = needed.needed() => tracing::debug!(%address, "a connection with nothing asked gave way"),
            }
            drop(socket);
        });
    }
}

/// Serves one connection to its end.
async fn serve(server: Arc<Server>, stream: TcpStream, address: SocketAddr, place: Arc<Place>) {
    let greeted = tokio::time::timeout(GREETING, server.tls.greet(stream, address, server.plain)).await;
    let (stream, peer) = match greeted {
        Ok(Ok(Some(guest))) => guest,
        Ok(Ok(None)) | Err(_) => return,
        Ok(Err(error)) => return tracing::debug!(%address, %error, "a connection was not agreed on"),
    };
    if let Err(error) = converse(&server, stream, peer, place).await {
        tracing::debug!(%address, %error, "a connection broke off");
    }
}

async fn converse(
    server: &Server,
    stream: Box<dyn Stream>,
    peer: Peer,
    place: Arc<Place>,
) -> hyper::Result<()> {
    let router = TowerToHyperService::new(server.router.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        let (busy, answer) = (place.answer(), router.call(request));
        async move { answer.await.map(|answer: Response<Body>| answer.map(|body| Answer { body, _busy: busy })) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(Patient { stream, unread: None }), service);
    let (mut connection, mut end) = (pin!(connection), server.end.clone());
    tokio::select! {
        done = connection.as_mut() => return done,
        _ = end.wait_for(|end| *end) => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

/// The body of an answer: as long as it is sent, the connection is in use.
struct Answer {
    body: Body,
    _busy: Busy,
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

/// A connection that ends when the other side takes nothing for too long.
struct Patient {
    stream: Box<dyn Stream>,
    unread: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn bounded<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.unread = None;
            return written;
        }
        let unread = self.unread.get_or_insert_with(|| Box::pin(tokio::time::sleep(UNREAD)));
        ready!(unread.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "nothing of the answer was taken for too long",
        )))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Patient {
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
