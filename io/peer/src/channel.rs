//! One end of a connection between two controllers, without its socket: hello first, then messages.

use crate::frame::{self, Decoder, MAX_PAYLOAD_BYTES};
use crate::message::{Hello, LINK, MAX_HELLO_BYTES, Message};
use crate::{Error, Result};
use bytes::Bytes;
use std::collections::VecDeque;

/// A received message of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// Hello of the other end: messages may be sent now.
    Hello(Hello),
    /// A message.
    Message {
        /// The domain.
        domain: u16,
        /// Number of the request, or of the request that it replies to.
        number: u64,
        /// Its content.
        message: Message,
    },
}

/// One end of a connection.
#[derive(Debug)]
pub struct Channel {
    own: Hello,
    decoder: Decoder,
    /// The version in use.
    version: Option<u16>,
    output: VecDeque<Bytes>,
    failed: Option<Error>,
}

impl Channel {
    /// A new connection. Its first message, the hello, names this controller.
    pub fn new(member: u16, array: u128, joined: u64) -> Self {
        let [oldest, newest] = LINK.versions;
        let own = Hello { oldest, newest, member, array, joined };
        let (decoder, output) = (Decoder::default(), VecDeque::new());
        let mut channel = Self { own: own.clone(), decoder, version: None, output, failed: None };
        channel.push(0, 0, &Message::Hello(own));
        channel
    }

    /// The version in use, once both hellos are known.
    pub fn version(&self) -> Option<u16> {
        self.version
    }

    /// Sends a message.
    ///
    /// # Panics
    /// Before the hello of the other end, or if the message exceeds the maximum frame length.
    pub fn send(&mut self, domain: u16, number: u64, message: &Message) {
        assert!(self.version.is_some(), "both ends have said hello");
        self.push(domain, number, message);
    }

    fn push(&mut self, domain: u16, number: u64, message: &Message) {
        let payload = message.encode();
        let header = frame::header(message.kind(), domain, number, &payload);
        self.output.push_back(Bytes::copy_from_slice(&header));
        self.output.extend(payload.into_iter().filter(|piece| !piece.is_empty()));
    }

    /// Takes the bytes to write to the socket, in order.
    pub fn take_output(&mut self) -> Vec<Bytes> {
        self.output.drain(..).collect()
    }

    /// Adds bytes from the socket.
    pub fn receive(&mut self, bytes: Bytes) {
        if self.failed.is_none() {
            self.decoder.push(bytes);
        }
    }

    /// The next received message; `None` until there is one. An unknown kind is refused here.
    ///
    /// # Errors
    /// The reason for closing the connection; the same at every later call.
    pub fn next_message(&mut self) -> Result<Option<Received>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let next = self.decode();
        self.failed = next.as_ref().err().cloned();
        next
    }

    fn decode(&mut self) -> Result<Option<Received>> {
        loop {
            let bound = if self.version.is_some() { MAX_PAYLOAD_BYTES } else { MAX_HELLO_BYTES };
            let Some(frame) = self.decoder.next(bound)? else { return Ok(None) };
            let message = Message::decode(frame.kind, frame.payload)?;
            match (self.version, message) {
                (None, Message::Hello(hello)) => return self.agree(hello).map(Some),
                (None, _) => return Err(Error::Malformed("a message before hello")),
                (Some(_), Message::Hello(_)) => return Err(Error::Malformed("a second hello")),
                (Some(_), Message::Unknown { .. }) => {
                    self.push(frame.domain, frame.number, &Message::Refused)
                }
                (Some(_), message) => {
                    let (domain, number) = (frame.domain, frame.number);
                    return Ok(Some(Received::Message { domain, number, message }));
                }
            }
        }
    }

    fn agree(&mut self, hello: Hello) -> Result<Received> {
        if hello.array != self.own.array {
            return Err(Error::OtherArray(hello.array));
        }
        self.version = Some(LINK.agree([hello.oldest, hello.newest])?);
        Ok(Received::Hello(hello))
    }
}

#[cfg(test)]
#[path = "channel_test.rs"]
mod tests;
