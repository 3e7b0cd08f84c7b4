//! One end of a connection: frames on a byte stream, and the agreement on a version.

use crate::env::Stream;
use crate::limits::MAX_OFFERS;
use crate::wire::{MAX_HELLO_BYTES, MAX_PAYLOAD_BYTES, Message, PROTOCOL};
use crate::{Error, Result};
use bytes::Bytes;
use peer::frame::{self, Decoder};

/// Bound above the outstanding data of a source: [`Connection::drain`] ends after it.
const MAX_DRAINED_BYTES: usize = MAX_OFFERS * 2 * MAX_PAYLOAD_BYTES;

/// Messages on a stream.
pub struct Connection<S> {
    stream: S,
    decoder: Decoder,
    max_payload_bytes: usize,
    version: u16,
}

/// An encoded message.
pub struct Encoded(Vec<Bytes>);

impl Encoded {
    /// Encodes a message in a frame.
    pub fn new(message: &Message) -> Self {
        let payload = message.encode();
        let header = frame::header(message.kind(), 0, 0, &payload);
        let header = Bytes::copy_from_slice(&header);
        Self(std::iter::once(header).chain(payload).filter(|piece| !piece.is_empty()).collect())
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::Stream(error.to_string())
}

impl<S: Stream> Connection<S> {
    /// Exchanges hello messages, and agrees on a version.
    pub async fn open(stream: S, array: u128) -> Result<Self> {
        let mut connection =
            Self { stream, decoder: Decoder::default(), max_payload_bytes: MAX_HELLO_BYTES, version: 0 };
        let [least, most] = PROTOCOL.versions;
        connection.send(&Message::Hello { least, most, array }).await?;
        let Message::Hello { least, most, array: other } = connection.receive().await? else {
            return Err(Error::Malformed("a message before hello"));
        };
        connection.version = PROTOCOL.agree([least, most])?;
        if other == array {
            return Err(Error::SameArray);
        }
        connection.max_payload_bytes = MAX_PAYLOAD_BYTES;
        Ok(connection)
    }

    /// The agreed version.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Sends a message.
    pub async fn send(&mut self, message: &Message) -> Result<()> {
        self.send_encoded(Encoded::new(message)).await
    }

    /// Sends an encoded message.
    pub async fn send_encoded(&mut self, message: Encoded) -> Result<()> {
        self.stream.send(message.0).await.map_err(failed)
    }

    /// Receives and discards data until the other end has read a refusal and closed the stream. Closing a stream with
    /// unread bytes could lose the refusal.
    pub async fn drain(&mut self) {
        let mut left = MAX_DRAINED_BYTES;
        while let Ok(bytes) = self.stream.receive().await {
            left = left.saturating_sub(bytes.len());
            if bytes.is_empty() || left == 0 {
                return;
            }
        }
    }

    /// The next message. A refusal is an error. The future is cancel-safe.
    pub async fn receive(&mut self) -> Result<Message> {
        loop {
            if let Some(message) = self.arrived()? {
                return Ok(message);
            }
            let bytes = self.stream.receive().await.map_err(failed)?;
            if bytes.is_empty() {
                return Err(Error::Stream("the other array closed it".into()));
            }
            self.decoder.push(bytes);
        }
    }

    /// The next message if it has arrived completely. A refusal is an error.
    pub fn arrived(&mut self) -> Result<Option<Message>> {
        let Some(frame) = self.decoder.next(self.max_payload_bytes)? else { return Ok(None) };
        match Message::decode(frame.kind, frame.payload)? {
            Message::Refused { reason, text } => Err(Error::Refused { reason, text }),
            message => Ok(Some(message)),
        }
    }
}
