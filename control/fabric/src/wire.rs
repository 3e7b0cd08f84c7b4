//! The bytes of a link over its socket, in both directions at once.

use crate::link::HANDSHAKE_TIMEOUT;
use crate::mutual_tls::Session;
use anyhow::{Context, Result, bail};
use bytes::{Buf, Bytes, BytesMut};
use peer::message::Hello;
use peer::{Channel, Received};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context as Task, Poll, ready};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsStream;

/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;
/// A buffer with less room is not read into any more.
const MIN_READ_BYTES: usize = 16 << 10;
/// Pieces that are encrypted together.
const PIECES: usize = 64;

/// One end.
pub struct Wire {
    stream: TlsStream<TcpStream>,
    output: VecDeque<Bytes>,
    /// Something was written and may still be in the buffers of TLS.
    written: bool,
    input: BytesMut,
}

impl Wire {
    /// Of a session with another controller.
    pub fn new(Session { stream, .. }: Session) -> Self {
        Self { stream, output: VecDeque::new(), written: false, input: BytesMut::new() }
    }

    /// Exchanges hellos: who the other end is.
    pub async fn greet(&mut self, channel: &mut Channel) -> Result<Hello> {
        let greeting = async {
            loop {
                self.push(channel.take_output());
                channel.receive(self.receive().await?);
                match channel.next_message()? {
                    Some(Received::Hello(hello)) => return Ok(hello),
                    Some(Received::Message { .. }) => bail!("it does not identify itself"),
                    None => {}
                }
            }
        };
        timeout(HANDSHAKE_TIMEOUT, greeting).await.context("it did not identify itself in time")?
    }

    /// Bytes to be written, in order.
    pub fn push(&mut self, pieces: Vec<Bytes>) {
        self.output.extend(pieces);
    }

    /// Writes what is to be written, until bytes come, which are returned. Nothing is lost if this is dropped.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn receive(&mut self) -> io::Result<Bytes> {
        match poll_fn(|context| self.poll(context)).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => Ok(self.input.split_to(count).freeze()),
        }
    }

    fn poll(&mut self, context: &mut Task<'_>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Err(error)) = self.poll_write(context) {
            return Poll::Ready(Err(error));
        }
        if self.input.capacity() < MIN_READ_BYTES {
            self.input.reserve(READ_BYTES);
        }
        pin!(self.stream.read_buf(&mut self.input)).poll(context)
    }

    fn poll_write(&mut self, context: &mut Task<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let some = pieces.iter_mut().zip(&self.output).map(|(slice, piece)| *slice = IoSlice::new(piece));
            let some = some.count();
            let count = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, &pieces[..some]))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written = true;
            self.remove(count);
        }
        if self.written {
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            self.written = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Removes bytes that were written.
    fn remove(&mut self, mut count: usize) {
        while let Some(piece) = self.output.front_mut() {
            let written = count.min(piece.len());
            piece.advance(written);
            count -= written;
            if !piece.is_empty() {
                return;
            }
            self.output.pop_front();
        }
    }
}
