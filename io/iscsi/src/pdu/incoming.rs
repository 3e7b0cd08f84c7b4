//! Receiving half of a connection: splits the byte stream into PDUs, with limits and digests (RFC 7143 11.1 and 11.2).
//!
//! A PDU is received in two steps: its header ([`Incoming::head`]); then, once there is room for its data
//! ([`Incoming::accept`]) or when they are unwanted ([`Incoming::skip`]), the whole PDU ([`Incoming::body`]).

use super::{HEADER_BYTES, Header, opcode, padded};
use bytes::buf::Limit;
use bytes::{Bytes, BytesMut};
use transport::ReceiveBuffer;

const DIGEST_BYTES: usize = 4;

/// A received PDU with a correct header digest.
#[derive(Debug)]
pub(crate) struct Pdu {
    pub(crate) header: Header,
    /// All additional header segments together.
    pub(crate) ahs: Bytes,
    /// The data without padding; empty when they are damaged.
    pub(crate) data: Bytes,
    /// The data digest was wrong.
    pub(crate) damaged: bool,
    /// The PDU had data, which was skipped.
    pub(crate) skipped: bool,
}

/// Errors after which the rest of the stream can't be interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FramingError {
    #[error("wrong header digest")]
    HeaderDigest,
    #[error("{got} bytes of data where at most {limit} are accepted")]
    TooLong { got: usize, limit: usize },
    #[error("additional header segments with opcode {0:#04x}")]
    Segments(u8),
}

/// A complete header.
struct Head {
    header: Header,
    ahs: Bytes,
}

/// The part of the stream that is received next.
enum Phase {
    Header,
    /// A header has arrived; its data are neither accepted nor skipped yet.
    Held(Head),
    /// The data are being received.
    Body(Head),
    /// The data are discarded; this many bytes are missing.
    Skipped(Head, usize),
}

/// The receiving half of a connection.
pub(crate) struct Incoming {
    buffer: ReceiveBuffer,
    phase: Phase,
    /// Charge of the arriving PDU in bytes.
    arriving: u64,
    header_digest: bool,
    data_digest: bool,
    max_data: usize,
}

impl Incoming {
    /// A stream without digests that accepts `max_data` bytes of data in a PDU, with a small buffer.
    pub(crate) fn new(max_data: usize) -> Self {
        Self {
            buffer: ReceiveBuffer::default(),
            phase: Phase::Header,
            arriving: 0,
            header_digest: false,
            data_digest: false,
            max_data,
        }
    }

    /// Sets the negotiated digests for the PDUs that follow.
    pub(crate) fn set_digests(&mut self, header: bool, data: bool) {
        (self.header_digest, self.data_digest) = (header, data);
    }

    /// Sets the maximum number of bytes of data in the PDUs that follow.
    pub(crate) fn set_max_data(&mut self, bytes: usize) {
        self.max_data = bytes;
    }

    /// Lets the buffer grow to the size for I/O.
    pub(crate) fn enlarge(&mut self) {
        self.buffer.enlarge();
    }

    /// To be called once a second.
    pub(crate) fn tick(&mut self) {
        self.buffer.tick();
    }

    /// Charge of the arriving PDU.
    pub(crate) fn arriving(&self) -> u64 {
        self.arriving
    }

    /// Buffer space for the next bytes from the peer; empty only while a header waits to be accepted, or a PDU to be
    /// taken.
    pub(crate) fn space(&mut self) -> Limit<&mut BytesMut> {
        self.buffer.space()
    }

    /// The next header, once it is complete and while its PDU is neither accepted nor skipped.
    pub(crate) fn head(&mut self) -> Result<Option<Header>, FramingError> {
        match &self.phase {
            Phase::Header => {}
            Phase::Held(head) => return Ok(Some(head.header)),
            Phase::Body(_) | Phase::Skipped(..) => return Ok(None),
        }
        let arrived = self.buffer.arrived();
        let Some((basic, rest)) = arrived.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let header = Header(*basic);
        let head_bytes = HEADER_BYTES + header.ahs_bytes();
        // Without a digest, a header can be checked before the rest of the PDU has arrived.
        if !self.header_digest {
            self.check(&header)?;
        }
        let digest_bytes = if self.header_digest { DIGEST_BYTES } else { 0 };
        let Some((ahs, _)) = rest.split_at_checked(header.ahs_bytes() + digest_bytes) else {
            return Ok(None);
        };
        let (ahs, digest) = ahs.split_at(header.ahs_bytes());
        if self.header_digest && digest != transport::digest(&arrived[..head_bytes]) {
            return Err(FramingError::HeaderDigest);
        }
        self.check(&header)?;
        let ahs = Bytes::copy_from_slice(ahs);
        self.buffer.consume(head_bytes + digest_bytes);
        self.phase = Phase::Held(Head { header, ahs });
        Ok(Some(header))
    }

    /// Accepts the PDU whose header has arrived. `charge` is its memory in bytes, until the PDU is taken.
    pub(crate) fn accept(&mut self, charge: u64) {
        let phase = std::mem::replace(&mut self.phase, Phase::Header);
        self.phase = match phase {
            Phase::Held(head) => {
                self.arriving = charge;
                Phase::Body(head)
            }
            other => other,
        };
    }

    /// Skips the data of the PDU whose header has arrived: they are discarded on arrival.
    pub(crate) fn skip(&mut self) {
        let phase = std::mem::replace(&mut self.phase, Phase::Header);
        self.phase = match phase {
            Phase::Held(head) => {
                let bytes = self.data_wire_bytes(&head.header);
                Phase::Skipped(head, bytes)
            }
            other => other,
        };
    }

    /// The accepted or skipped PDU, once it is complete.
    pub(crate) fn body(&mut self) -> Option<Pdu> {
        let phase = std::mem::replace(&mut self.phase, Phase::Header);
        let (phase, pdu) = match phase {
            Phase::Body(head) => match self.buffer.receive(self.data_wire_bytes(&head.header)) {
                Some(wire) => {
                    let Head { header, ahs } = head;
                    let damaged = self.data_digest && !self.data_is_right(&header, &wire);
                    let data = wire.slice(..if damaged { 0 } else { header.data_bytes() });
                    (Phase::Header, Some(Pdu { header, ahs, data, damaged, skipped: false }))
                }
                None => (Phase::Body(head), None),
            },
            Phase::Skipped(head, left) => match self.buffer.discard(left) {
                0 => {
                    let Head { header, ahs } = head;
                    let skipped = header.data_bytes() > 0;
                    let pdu = Pdu { header, ahs, data: Bytes::new(), damaged: false, skipped };
                    (Phase::Header, Some(pdu))
                }
                left => (Phase::Skipped(head, left), None),
            },
            other => (other, None),
        };
        self.phase = phase;
        if pdu.is_some() {
            self.arriving = 0;
        }
        pdu
    }

    /// The next complete PDU; `None` until more bytes arrive.
    #[cfg(test)]
    pub(crate) fn next(&mut self) -> Result<Option<Pdu>, FramingError> {
        if self.head()?.is_some() {
            self.accept(0);
        }
        Ok(self.body())
    }

    fn check(&self, header: &Header) -> Result<(), FramingError> {
        if header.ahs_bytes() > 0 && header.opcode() != opcode::SCSI_COMMAND {
            return Err(FramingError::Segments(header.opcode()));
        }
        if header.data_bytes() > self.max_data {
            return Err(FramingError::TooLong { got: header.data_bytes(), limit: self.max_data });
        }
        Ok(())
    }

    /// Length of data, padding and digest in bytes.
    fn data_wire_bytes(&self, header: &Header) -> usize {
        match header.data_bytes() {
            0 => 0,
            bytes => padded(bytes) + if self.data_digest { DIGEST_BYTES } else { 0 },
        }
    }

    fn data_is_right(&self, header: &Header, wire: &[u8]) -> bool {
        let (data, digest) = wire.split_at(padded(header.data_bytes()).min(wire.len()));
        header.data_bytes() == 0 || digest == transport::digest(data)
    }
}

#[cfg(test)]
#[path = "incoming_test.rs"]
mod tests;
