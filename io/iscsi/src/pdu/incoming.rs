//! From a stream of bytes to PDUs (RFC 7143 11.1 and 11.2): framing, limits and digests.
//!
//! Bytes are received into one buffer per connection that is never shared, so that the data of a PDU keeps
//! exactly its own memory allocated. Short data is copied out of it; the rest of long data is received directly into a
//! buffer of its own.
//!
//! A PDU is received in two steps: its header ([`Incoming::head`]), and, once there is room for its data
//! ([`Incoming::accept`]) or when they are not wanted ([`Incoming::skip`]), the whole of it ([`Incoming::body`]).

use super::{HEADER_BYTES, Header, opcode, padded};
use bytes::buf::Limit;
use bytes::{BufMut, Bytes, BytesMut};
use crc_fast::CrcAlgorithm::Crc32Iscsi;

/// Size of a session's receive buffer in bytes. A batch of 32 writes of 4 KiB fits.
pub(crate) const BUFFER_BYTES: usize = 160 << 10;
/// The same before login, and in a discovery session.
pub(crate) const SMALL_BUFFER_BYTES: usize = 16 << 10;
/// If at least this many bytes of a PDU's data are still to come, they get a buffer of their own.
const DIRECT_BYTES: usize = 12 << 10;
const DIGEST_BYTES: usize = 4;

/// A PDU as it came. Its header digest was right.
#[derive(Debug)]
pub(crate) struct Pdu {
    pub(crate) header: Header,
    /// All additional header segments together.
    pub(crate) ahs: Bytes,
    /// The data without padding; empty when they are damaged.
    pub(crate) data: Bytes,
    /// The data digest was wrong.
    pub(crate) damaged: bool,
    /// It had data, which was skipped.
    pub(crate) skipped: bool,
}

/// Why the stream can't be followed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FramingError {
    #[error("wrong header digest")]
    HeaderDigest,
    #[error("{got} bytes of data where at most {limit} are accepted")]
    TooLong { got: usize, limit: usize },
    #[error("additional header segments with opcode {0:#04x}")]
    Segments(u8),
}

/// A header that has come whole.
struct Head {
    header: Header,
    ahs: Bytes,
}

/// A PDU whose data is being received into a buffer of its own.
struct Partial {
    head: Head,
    /// Data, padding and digest as far as they have arrived.
    wire: BytesMut,
    wire_bytes: usize,
}

/// The part of the stream that comes next.
enum Phase {
    Header,
    /// A header has come, and waits until its data are accepted or skipped.
    Held(Head),
    /// The data are to be copied out of the buffer.
    Body(Head),
    Partial(Box<Partial>),
    /// Of the data, this many bytes are still to be thrown away.
    Skipped(Head, usize),
}

/// The receiving half of a connection.
pub(crate) struct Incoming {
    buffer: BytesMut,
    capacity: usize,
    /// Bytes at the start of `buffer` that have been taken.
    taken: usize,
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
            buffer: BytesMut::with_capacity(SMALL_BUFFER_BYTES),
            capacity: SMALL_BUFFER_BYTES,
            taken: 0,
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

    /// Sets how many bytes of data a PDU may have from now on.
    pub(crate) fn set_max_data(&mut self, bytes: usize) {
        self.max_data = bytes;
    }

    /// Takes a buffer of the size for a session.
    pub(crate) fn enlarge(&mut self) {
        self.capacity = BUFFER_BYTES;
        self.buffer.reserve(BUFFER_BYTES - self.buffer.len());
    }

    /// Charge of the arriving PDU.
    pub(crate) fn arriving(&self) -> u64 {
        self.arriving
    }

    /// Where the next bytes from the peer belong; without room only while a header waits to be accepted, or a PDU to
    /// be taken.
    pub(crate) fn space(&mut self) -> Limit<&mut BytesMut> {
        if let Phase::Partial(partial) = &mut self.phase {
            let rest = partial.wire_bytes - partial.wire.len();
            return (&mut partial.wire).limit(rest);
        }
        if self.taken == self.buffer.len() {
            self.buffer.clear();
            self.taken = 0;
        } else if self.buffer.len() > self.capacity / 2 {
            self.buffer.copy_within(self.taken.., 0);
            self.buffer.truncate(self.buffer.len() - self.taken);
            self.taken = 0;
        }
        let room = self.capacity - self.buffer.len();
        (&mut self.buffer).limit(room)
    }

    /// The next header, once it has come whole and while its PDU is neither accepted nor skipped.
    pub(crate) fn head(&mut self) -> Result<Option<Header>, FramingError> {
        match &self.phase {
            Phase::Header => {}
            Phase::Held(head) => return Ok(Some(head.header)),
            Phase::Body(_) | Phase::Partial(_) | Phase::Skipped(..) => return Ok(None),
        }
        let arrived = &self.buffer[self.taken..];
        let Some((basic, rest)) = arrived.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let header = Header(*basic);
        let head_bytes = HEADER_BYTES + header.ahs_bytes();
        // Without a digest a header is as trustworthy before the rest of it has come.
        if !self.header_digest {
            self.check(&header)?;
        }
        let digest_bytes = if self.header_digest { DIGEST_BYTES } else { 0 };
        let Some((ahs, _)) = rest.split_at_checked(header.ahs_bytes() + digest_bytes) else {
            return Ok(None);
        };
        let (ahs, digest) = ahs.split_at(header.ahs_bytes());
        if self.header_digest && digest != self::digest(&arrived[..head_bytes]) {
            return Err(FramingError::HeaderDigest);
        }
        self.check(&header)?;
        let ahs = Bytes::copy_from_slice(ahs);
        self.taken += head_bytes + digest_bytes;
        self.phase = Phase::Held(Head { header, ahs });
        Ok(Some(header))
    }

    /// Accepts the PDU whose header has arrived, with `charge` bytes until it is taken.
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

    /// The data of the PDU whose header has come are thrown away as they arrive.
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

    /// The PDU that was accepted or skipped, once it has come whole.
    pub(crate) fn body(&mut self) -> Option<Pdu> {
        let phase = std::mem::replace(&mut self.phase, Phase::Header);
        let (phase, pdu) = match phase {
            Phase::Body(head) => self.copied(head),
            Phase::Partial(partial) if partial.wire.len() == partial.wire_bytes => {
                let Partial { head: Head { header, ahs }, wire, .. } = *partial;
                let damaged = self.data_digest && !self.data_is_right(&header, &wire);
                let data = wire.freeze().slice(..if damaged { 0 } else { header.data_bytes() });
                (Phase::Header, Some(Pdu { header, ahs, data, damaged, skipped: false }))
            }
            Phase::Skipped(head, left) => {
                let gone = left.min(self.buffer.len() - self.taken);
                self.taken += gone;
                match left - gone {
                    0 => {
                        let Head { header, ahs } = head;
                        let skipped = header.data_bytes() > 0;
                        (
                            Phase::Header,
                            Some(Pdu { header, ahs, data: Bytes::new(), damaged: false, skipped }),
                        )
                    }
                    left => (Phase::Skipped(head, left), None),
                }
            }
            other => (other, None),
        };
        self.phase = phase;
        if pdu.is_some() {
            self.arriving = 0;
        }
        pdu
    }

    /// The PDU, if its data is in the buffer; long data that has not arrived gets a buffer of its own.
    fn copied(&mut self, head: Head) -> (Phase, Option<Pdu>) {
        let wire_bytes = self.data_wire_bytes(&head.header);
        let rest = &self.buffer[self.taken..];
        if let Some(wire) = rest.get(..wire_bytes) {
            let Head { header, ahs } = head;
            let damaged = self.data_digest && !self.data_is_right(&header, wire);
            let data = if damaged { &[] } else { &wire[..header.data_bytes()] };
            let data = Bytes::copy_from_slice(data);
            self.taken += wire_bytes;
            return (Phase::Header, Some(Pdu { header, ahs, data, damaged, skipped: false }));
        }
        if wire_bytes - rest.len() < DIRECT_BYTES && wire_bytes <= self.capacity {
            return (Phase::Body(head), None);
        }
        let mut wire = BytesMut::with_capacity(wire_bytes);
        wire.extend_from_slice(rest);
        self.taken = self.buffer.len();
        (Phase::Partial(Box::new(Partial { head, wire, wire_bytes })), None)
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

    /// Data, padding and digest together.
    fn data_wire_bytes(&self, header: &Header) -> usize {
        match header.data_bytes() {
            0 => 0,
            bytes => padded(bytes) + if self.data_digest { DIGEST_BYTES } else { 0 },
        }
    }

    fn data_is_right(&self, header: &Header, wire: &[u8]) -> bool {
        let (data, digest) = wire.split_at(padded(header.data_bytes()).min(wire.len()));
        header.data_bytes() == 0 || digest == self::digest(data)
    }
}

/// CRC32C as on the wire (12.1): least significant byte first.
pub(super) fn digest(bytes: &[u8]) -> [u8; 4] {
    digest_of_parts([bytes])
}

/// The digest of parts in order.
pub(super) fn digest_of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 4] {
    let mut crc = crc_fast::Digest::new(Crc32Iscsi);
    parts.into_iter().for_each(|part| crc.update(part));
    (crc.finalize() as u32).to_le_bytes()
}

#[cfg(test)]
#[path = "incoming_test.rs"]
mod tests;
