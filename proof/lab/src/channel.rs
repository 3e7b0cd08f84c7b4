//! A non-blocking connection: batches sends, and parses received data in place.

use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

pub(crate) struct Channel {
    stream: TcpStream,
    /// Bytes to send.
    pub out: Vec<u8>,
    sent: usize,
    buffer: Vec<u8>,
    filled: usize,
    parsed: usize,
    skipped: usize,
}

impl Channel {
    /// Takes over a connection and makes it non-blocking.
    pub fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nonblocking(true)?;
        let buffer = vec![0; RECEIVE_BUFFER_BYTES];
        Ok(Self { stream, out: Vec::new(), sent: 0, buffer, filled: 0, parsed: 0, skipped: 0 })
    }

    /// Sends until the socket accepts no more. True if bytes remain.
    pub fn flush(&mut self) -> Result<bool> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error).context("sending"),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(false)
    }

    /// Reads received bytes after the last consumed header.
    pub fn fill(&mut self) -> Result<()> {
        self.buffer.copy_within(self.parsed..self.filled, 0);
        self.filled -= self.parsed;
        self.parsed = 0;
        match self.stream.read(&mut self.buffer[self.filled..]) {
            Ok(0) => bail!("the target closed the connection"),
            Ok(bytes) => self.filled += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).context("receiving"),
        }
        Ok(())
    }

    /// The next header of `N` bytes, once it has arrived.
    pub fn header<const N: usize>(&mut self) -> Option<[u8; N]> {
        let skipped = self.skipped.min(self.filled - self.parsed);
        self.parsed += skipped;
        self.skipped -= skipped;
        if self.skipped > 0 {
            return None;
        }
        let header = *self.buffer[self.parsed..self.filled].first_chunk()?;
        self.parsed += N;
        Some(header)
    }

    /// Skips this many bytes after the last header.
    pub fn skip(&mut self, bytes: usize) {
        self.skipped += bytes;
    }

    /// Takes up to this many received bytes after the last header; returns their number.
    pub fn take(&mut self, bytes: usize, to: &mut Vec<u8>) -> usize {
        let part = &self.buffer[self.parsed..self.filled];
        let part = &part[..bytes.min(part.len())];
        to.extend_from_slice(part);
        self.parsed += part.len();
        part.len()
    }

    /// Descriptor and events for poll(2).
    pub fn pollfd(&self) -> libc::pollfd {
        let write = if self.sent < self.out.len() { libc::POLLOUT } else { 0 };
        libc::pollfd { fd: self.stream.as_raw_fd(), events: libc::POLLIN | write, revents: 0 }
    }
}
