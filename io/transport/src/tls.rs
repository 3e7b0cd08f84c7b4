//! TLS 1.3 with pre-shared keys for connections of hosts, by s2n-tls: the handshake, and records instead of plain
//! bytes. Nothing here blocks: an operation that the socket can't complete now is continued later.
//!
//! ```text
//! Link ── slices ──► one record at a time ──► s2n-tls ──► send callback ──► socket, or `unsent`
//!      ◄── space ──────────────────────────── s2n-tls ◄── recv callback ◄── socket
//! ```
//!
//! The send callback accepts every record: bytes that the socket does not take are kept in `unsent`, one record at
//! most, and no further record is created before they are sent. So s2n-tls never needs the same bytes a second time,
//! which an aborted command could have changed. s2n-tls is used without kernel TLS: [`TlsStream`] owns its socket, so
//! keys could be moved to the kernel later.

mod client_hello;

use bytes::buf::Limit;
use bytes::{BufMut, BytesMut};
use client_hello::offered_identities;
use libc::{c_int, c_void};
use parking_lot::Mutex;
use s2n_tls::callbacks::{ClientHelloCallback, ConnectionFuture};
use s2n_tls::config::Config;
use s2n_tls::connection::Connection;
use s2n_tls::enums::{Blinding, PskHmac, Version};
use s2n_tls::error::{Error as TlsError, ErrorType};
use s2n_tls::psk::Psk;
use s2n_tls::security::Policy;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

/// TLS 1.3 alone; AES-GCM before ChaCha20, with x25519, secp256r1, secp384r1 and secp521r1. A numbered policy never changes.
const POLICY: &str = "AWS-CRT-SDK-TLSv1.3-2023";
/// The type of the record that a ClientHello comes in (RFC 8446 clause 5.1).
const HANDSHAKE: u8 = 22;
/// Plain bytes of a record: the maximum of RFC 8446 clause 5.1.
const RECORD_BYTES: usize = 16 << 10;
/// Bytes read from the socket before the shard's other connections run: otherwise a peer that sends only key updates or
/// empty records could occupy the shard.
const MAX_TURN_BYTES: usize = 64 << 10;
/// Additional memory of a connection with TLS in bytes: in the handshake, a ClientHello of maximum length; afterwards,
/// records of both directions in encrypted and plain form.
pub const TLS_BYTES: u64 = 160 << 10;

/// Hash function of a pre-shared key, which determines the cipher suite (RFC 8446 clause 4.2.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PskHash {
    /// SHA-256, with TLS_AES_128_GCM_SHA256.
    Sha256,
    /// SHA-384, with TLS_AES_256_GCM_SHA384.
    Sha384,
}

/// A pre-shared key. It is never printed.
pub struct PreSharedKey {
    /// Hash function of the key.
    pub hash: PskHash,
    /// At least 16 bytes.
    pub secret: Zeroizing<Vec<u8>>,
}

/// Pre-shared keys that authenticate hosts.
pub trait PreSharedKeys: Send + Sync + 'static {
    /// The key with this identity, as offered in a ClientHello; `None` if it does not exist. Called on a shard:
    /// implementations must not block.
    fn find(&self, identity: &[u8]) -> Option<PreSharedKey>;
}

/// Failure of a TLS handshake with a host.
#[derive(Debug)]
pub struct HandshakeFailure {
    /// The first identity that the host offered; it is unauthenticated.
    pub offered: Option<Vec<u8>>,
    /// The cause.
    pub error: io::Error,
}

/// TLS configuration of the portals of a service.
#[derive(Clone)]
pub(crate) struct TlsConfig(Config);

impl TlsConfig {
    /// A configuration with these keys.
    ///
    /// # Errors
    /// An error of s2n-tls.
    pub(crate) fn new(keys: Arc<dyn PreSharedKeys>) -> io::Result<Self> {
        let mut config = Config::builder();
        config.set_security_policy(&Policy::from_version(POLICY)?)?;
        config.set_client_hello_callback(Selection(keys))?;
        // Blinding hides the timing of CBC, which TLS 1.3 does not have: a failed connection need not wait.
        config.set_max_blinding_delay(0)?;
        Ok(Self(config.build()?))
    }
}

/// Identities offered in a ClientHello, in the context of a connection.
struct Offered(Option<Vec<u8>>);

/// Looks up the keys that a ClientHello offers; s2n-tls selects and verifies one of them.
struct Selection(Arc<dyn PreSharedKeys>);

impl ClientHelloCallback for Selection {
    fn on_client_hello(
        &self,
        connection: &mut Connection,
    ) -> Result<Option<Pin<Box<dyn ConnectionFuture>>>, TlsError> {
        let hello = connection.client_hello()?.raw_message()?;
        let offered = offered_identities(&hello);
        connection.set_application_context(Offered(offered.first().map(|it| it.to_vec())));
        let mut found = false;
        for identity in offered {
            let Some(key) = self.0.find(identity) else { continue };
            let mut psk = Psk::builder()?;
            psk.set_identity(identity)?.set_secret(&key.secret)?.set_hmac(match key.hash {
                PskHash::Sha256 => PskHmac::SHA256,
                PskHash::Sha384 => PskHmac::SHA384,
            })?;
            connection.append_psk(&psk.build()?)?;
            found = true;
        }
        let unknown = "no host has the PSK identity that it offers";
        if found { Ok(None) } else { Err(TlsError::application(unknown.into())) }
    }
}

/// The socket side, used by the callbacks of s2n-tls. The lock is never contended; it makes the callbacks' pointer
/// sound.
struct Wire {
    socket: TcpStream,
    /// Bytes that the socket did not take: of one record, and alerts.
    unsent: Vec<u8>,
    /// Number of these bytes that have been sent.
    sent: usize,
    /// Bytes that may still be read in this turn.
    turn_bytes: usize,
    first: First,
}

/// Kind of the peer's first byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// The byte has not arrived.
    Awaited,
    /// The byte of a TLS handshake record.
    Tls,
    /// Another byte. s2n-tls would interpret the bytes that follow as a record length, and wait.
    Other,
}

impl Wire {
    fn has_unsent(&self) -> bool {
        self.sent < self.unsent.len()
    }

    fn read(&mut self, space: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        let most = space.len().min(self.turn_bytes);
        if most == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let bytes = self.socket.try_read_buf(&mut &mut space[..most])?;
        self.turn_bytes -= bytes;
        if self.first == First::Awaited && bytes > 0 {
            // SAFETY: the first byte was written just now.
            let is_tls = unsafe { space[0].assume_init() } == HANDSHAKE;
            self.first = if is_tls { First::Tls } else { First::Other };
        }
        match self.first {
            First::Other => Err(io::ErrorKind::InvalidData.into()),
            _ => Ok(bytes),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() && !self.has_unsent() {
            match self.socket.try_write(rest) {
                Ok(sent) => rest = &rest[sent..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.unsent.extend_from_slice(rest);
        Ok(())
    }

    /// Sends the rest of a record.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.has_unsent() {
            match self.socket.try_write(&self.unsent[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.socket.poll_write_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.unsent.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

/// Return value of a callback: -1 with `errno` for an error; a would-block error makes s2n-tls wait.
fn returned(result: io::Result<usize>) -> c_int {
    match result.map(c_int::try_from) {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => failed(libc::EIO),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => failed(libc::EAGAIN),
        Err(error) => failed(error.raw_os_error().unwrap_or(libc::EIO)),
    }
}

fn failed(code: c_int) -> c_int {
    // SAFETY: the address of errno of this thread is valid as long as the thread runs.
    unsafe { *libc::__errno_location() = code };
    -1
}

unsafe extern "C" fn recv(context: *mut c_void, space: *mut u8, length: u32) -> c_int {
    // SAFETY: the context is the wire of the connection, which outlives the callback (`TlsStream`).
    let wire = unsafe { &*context.cast::<Mutex<Wire>>() };
    // SAFETY: s2n-tls passes memory of its own, of this length.
    let space = unsafe { std::slice::from_raw_parts_mut(space.cast::<MaybeUninit<u8>>(), length as usize) };
    returned(wire.lock().read(space))
}

unsafe extern "C" fn send(context: *mut c_void, bytes: *const u8, length: u32) -> c_int {
    // SAFETY: as in `recv`.
    let wire = unsafe { &*context.cast::<Mutex<Wire>>() };
    // SAFETY: s2n-tls passes a record, or a part of one, of this length.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, length as usize) };
    returned(wire.lock().write(bytes).map(|()| bytes.len()))
}

/// A connection with TLS.
pub(crate) struct TlsStream {
    /// Dropped before the wire, which its callbacks use.
    connection: Connection,
    wire: Arc<Mutex<Wire>>,
    /// Small slices of a record, concatenated.
    gathered: Vec<u8>,
    /// The handshake has ended.
    established: bool,
}

impl TlsStream {
    /// A connection whose peer has sent nothing yet.
    pub(crate) fn new(socket: TcpStream, config: &TlsConfig) -> io::Result<Self> {
        let wire = Wire { socket, unsent: Vec::new(), sent: 0, turn_bytes: 0, first: First::Awaited };
        let wire = Arc::new(Mutex::new(wire));
        let mut connection = Connection::new_server();
        connection.set_config(config.0.clone())?;
        connection.set_blinding(Blinding::SelfService)?;
        connection.set_receive_buffering(true)?.prefer_throughput()?;
        connection.set_receive_callback(Some(recv))?.set_send_callback(Some(send))?;
        let context = Arc::as_ptr(&wire).cast_mut().cast::<c_void>();
        // SAFETY: `wire` is dropped after `connection`, by the order of the fields, and is not moved.
        unsafe { connection.set_receive_context(context)?.set_send_context(context)? };
        Ok(Self { connection, wire, gathered: Vec::new(), established: false })
    }

    /// Continues the handshake; returns the PSK identity whose key the host has proved to know.
    pub(crate) fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>, HandshakeFailure>> {
        let done = self.poll(cx, |connection| connection.poll_negotiate().map_ok(|_| ()));
        // The controller's messages are sent during the handshake, and before the first record.
        let done = match (self.poll_flush(cx), done) {
            (Poll::Ready(Err(error)), _) => Err(error),
            (Poll::Pending, Poll::Ready(Ok(()))) => return Poll::Pending,
            (_, done) => ready!(done),
        };
        let proved = done.and_then(|()| self.proved_identity());
        self.established = proved.is_ok();
        Poll::Ready(proved.map_err(|error| {
            let offered = self.connection.application_context::<Offered>().and_then(|it| it.0.clone());
            HandshakeFailure { offered, error }
        }))
    }

    /// Whether the handshake has ended, so the host may send bytes.
    pub(crate) fn is_established(&self) -> bool {
        self.established
    }

    fn proved_identity(&self) -> io::Result<Vec<u8>> {
        let length = self.connection.negotiated_psk_identity_length()?;
        if length == 0 || self.connection.actual_protocol_version()? != Version::TLS13 {
            return Err(io::Error::other("the handshake was made without a pre-shared key"));
        }
        let mut identity = vec![0; length];
        self.connection.negotiated_psk_identity(&mut identity)?;
        Ok(identity)
    }

    /// Reads into the buffer space of a link; zero bytes mean the end of the stream.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        space: &mut Limit<&mut BytesMut>,
    ) -> Poll<io::Result<usize>> {
        let bytes = ready!(self.poll(cx, |connection| {
            // SAFETY: s2n-tls only writes to it (`poll_recv_uninitialized`).
            let chunk = unsafe { space.chunk_mut().as_uninit_slice_mut() };
            connection.poll_recv_uninitialized(chunk)
        }))?;
        // SAFETY: this many bytes were written.
        unsafe { space.advance_mut(bytes) };
        Poll::Ready(Ok(bytes))
    }

    /// Sends the first bytes of slices as one record, after the rest of the previous record; returns their number.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(cx))?;
        let mut gathered = std::mem::take(&mut self.gathered);
        let record = record(slices, &mut gathered);
        let sent = match self.connection.poll_send(record) {
            Poll::Ready(sent) => sent.map_err(|error| self.explained(error)),
            // The callback accepts every record.
            Poll::Pending => Err(io::Error::other("TLS: a record was not taken")),
        };
        self.gathered = gathered;
        Poll::Ready(sent)
    }

    /// Sends the rest of the last record.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire.lock().poll_flush(cx)
    }

    /// Whether a record was not sent completely.
    pub(crate) fn has_unsent(&self) -> bool {
        self.wire.lock().has_unsent()
    }

    /// Ends the session with an alert, and returns the socket. The alert is lost if the socket takes no bytes.
    pub(crate) fn into_socket(mut self) -> Option<TcpStream> {
        let _lost = self.connection.poll_shutdown_send();
        drop(self.connection);
        let wire = Arc::into_inner(self.wire)?.into_inner();
        Some(wire.socket)
    }

    /// Converts an error of s2n-tls to one of the connection.
    fn explained(&self, error: TlsError) -> io::Error {
        if let Some(cause) = error.application_error() {
            return io::Error::other(cause.to_string());
        }
        if self.wire.lock().first == First::Other {
            return io::Error::other("the host does not use TLS, which the portal requires");
        }
        match (error.kind(), self.connection.alert()) {
            (ErrorType::ConnectionClosed, _) => closed(),
            (ErrorType::IOError, _) => error.into(),
            (_, Some(alert)) => io::Error::other(format!("the initiator ended TLS with alert {alert}")),
            _ => io::Error::other(format!("TLS: {} ({})", error.message(), error.name())),
        }
    }

    /// Repeats an operation of s2n-tls until it is done, or the socket or this turn has no more bytes.
    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut operation: impl FnMut(&mut Connection) -> Poll<Result<T, TlsError>>,
    ) -> Poll<io::Result<T>> {
        self.wire.lock().turn_bytes = MAX_TURN_BYTES;
        // Callbacks need a waker, although ours never wait.
        self.connection.set_waker(Some(cx.waker()))?;
        loop {
            if let Poll::Ready(result) = operation(&mut self.connection) {
                return Poll::Ready(result.map_err(|error| self.explained(error)));
            }
            let wire = self.wire.lock();
            if wire.turn_bytes == 0 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            ready!(wire.socket.poll_read_ready(cx))?;
        }
    }
}

/// The next record of slices: a part of the first slice if it is large, otherwise copies of small ones.
fn record<'a>(slices: &'a [IoSlice<'_>], gathered: &'a mut Vec<u8>) -> &'a [u8] {
    if let Some(first) = slices.first().filter(|first| first.len() >= RECORD_BYTES) {
        return &first[..RECORD_BYTES];
    }
    gathered.clear();
    for slice in slices {
        let room = RECORD_BYTES - gathered.len();
        gathered.extend_from_slice(&slice[..slice.len().min(room)]);
    }
    gathered
}

/// The peer has closed the connection.
pub(crate) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "closed by the initiator")
}

#[cfg(test)]
#[path = "tls_test.rs"]
mod tests;
