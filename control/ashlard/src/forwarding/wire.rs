//! The bytes of a link over its socket, in both directions at once.

use super::HANDSHAKE_TIMEOUT;
use crate::mutual_tls::Session;
use anyhow::{Context, Result, bail};
use bytes::{Buf, Bytes, BytesMut};
use peer::message::Hello;
use peer::{Channel, Received};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context as Task, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsStream;

/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;
/// Pieces shorter than this are put together before they are encrypted.
const SHORT_BYTES: usize = 16 << 10;

/// One end.
pub struct Wire {
    stream: TlsStream<TcpStream>,
    output: VecDeque<Bytes>,
    /// Something was written and may still be in the buffers of TLS.
    written: bool,
    input: Box<[u8]>,
}

impl Wire {
    /// Of a session with another controller.
    pub fn new(Session { stream, .. }: Session) -> Self {
        let input = vec![0; READ_BYTES].into();
        Self { stream, output: VecDeque::new(), written: false, input }
    }

    /// Exchanges hellos: who the other end is.
    pub async fn greet(&mut self, channel: &mut Channel) -> Result<Hello> {
        let greeting = async {
            loop {
                self.push(channel.take_output());
                let count = self.receive().await?;
                channel.receive(self.received(count));
                match channel.next_message()? {
                    Some(Received::Hello(hello)) => return Ok(hello),
                    Some(Received::Message { .. }) => bail!("it does not say who it is"),
                    None => {}
                }
            }
        };
        timeout(HANDSHAKE_TIMEOUT, greeting).await.context("it did not say in time who it is")?
    }

    /// Bytes to be written, in order.
    pub fn push(&mut self, pieces: Vec<Bytes>) {
        let mut short = BytesMut::new();
        for piece in pieces {
            if piece.len() >= SHORT_BYTES {
                self.output.extend((!short.is_empty()).then(|| short.split().freeze()));
                self.output.push_back(piece);
            } else {
                short.extend_from_slice(&piece);
            }
        }
        self.output.extend((!short.is_empty()).then(|| short.freeze()));
    }

    /// Writes what is to be written, until bytes come; returns how many. Nothing is lost if this is dropped.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn receive(&mut self) -> io::Result<usize> {
        match poll_fn(|context| self.poll(context)).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => Ok(count),
        }
    }

    /// The bytes that came last.
    pub fn received(&self, count: usize) -> &[u8] {
        self.input.get(..count).unwrap_or_default()
    }

    fn poll(&mut self, context: &mut Task<'_>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Err(error)) = self.poll_write(context) {
            return Poll::Ready(Err(error));
        }
        let mut buffer = ReadBuf::new(&mut self.input);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn poll_write(&mut self, context: &mut Task<'_>) -> Poll<io::Result<()>> {
        while let Some(piece) = self.output.front_mut() {
            let count = ready!(Pin::new(&mut self.stream).poll_write(context, piece))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written = true;
            piece.advance(count);
            if piece.is_empty() {
                self.output.pop_front();
            }
        }
        if self.written {
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            self.written = false;
        }
        Poll::Ready(Ok(()))
    }
}
