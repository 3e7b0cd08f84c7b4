//! From a stream of bytes to PDUs (RFC 7143 11.1 and 11.2): framing, limits and digests.
//!
//! Bytes are received into one buffer per connection that is never shared, so that what a PDU's data keep alive is
//! exactly those data. Short data are copied out of it; of long data, what has not arrived yet is received straight
//! into its own place.

use super::{HEADER_BYTES, Header, opcode, padded};
use bytes::buf::Limit;
use bytes::{BufMut, Bytes, BytesMut};
use crc_fast::CrcAlgorithm::Crc32Iscsi;

/// Size of the receive buffer in bytes. A batch of 32 writes of 4 KiB fits.
const BUFFER_BYTES: usize = 160 << 10;
/// When at least this many bytes of a PDU's data are still to come, they get their own place.
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

/// A PDU whose data are being received into their own place.
struct Partial {
    header: Header,
    ahs: Bytes,
    /// Data, padding and digest as far as they have arrived.
    wire: BytesMut,
    wire_bytes: usize,
}

/// The receiving half of a connection.
pub(crate) struct Incoming {
    buffer: BytesMut,
    /// Bytes at the start of `buffer` that have been taken.
    taken: usize,
    partial: Option<Box<Partial>>,
    header_digest: bool,
    data_digest: bool,
    max_data: usize,
}

impl Incoming {
    /// A stream without digests that accepts `max_data` bytes of data in a PDU.
    pub(crate) fn new(max_data: usize) -> Self {
        let buffer = BytesMut::with_capacity(BUFFER_BYTES);
        Self { buffer, taken: 0, partial: None, header_digest: false, data_digest: false, max_data }
    }

    /// Sets what login negotiated, for the PDUs that follow.
    pub(crate) fn set_digests(&mut self, header: bool, data: bool) {
        (self.header_digest, self.data_digest) = (header, data);
    }

    /// Where the next bytes from the peer belong; never without room, unless [`Incoming::next`] has PDUs left.
    pub(crate) fn space(&mut self) -> Limit<&mut BytesMut> {
        if let Some(partial) = &mut self.partial {
            let rest = partial.wire_bytes - partial.wire.len();
            return (&mut partial.wire).limit(rest);
        }
        if self.taken == self.buffer.len() {
            self.buffer.clear();
            self.taken = 0;
        } else if self.buffer.len() > BUFFER_BYTES / 2 {
            self.buffer.copy_within(self.taken.., 0);
            self.buffer.truncate(self.buffer.len() - self.taken);
            self.taken = 0;
        }
        let room = BUFFER_BYTES - self.buffer.len();
        (&mut self.buffer).limit(room)
    }

    /// The next whole PDU, or none before more bytes have arrived.
    pub(crate) fn next(&mut self) -> Result<Option<Pdu>, FramingError> {
        if let Some(partial) = self.partial.take_if(|partial| partial.wire.len() == partial.wire_bytes) {
            let Partial { header, ahs, wire, .. } = *partial;
            let damaged = self.data_digest && !self.data_is_right(&header, &wire);
            let data = wire.freeze().slice(..if damaged { 0 } else { header.data_bytes() });
            return Ok(Some(Pdu { header, ahs, data, damaged }));
        }
        if self.partial.is_some() {
            return Ok(None);
        }
        let arrived = &self.buffer[self.taken..];
        let Some((basic, behind)) = arrived.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let header = Header(*basic);
        let head_bytes = HEADER_BYTES + header.ahs_bytes();
        // Without a digest a header is as trustworthy before the rest of it has come.
        if !self.header_digest {
            self.check(&header)?;
        }
        let digest_bytes = if self.header_digest { DIGEST_BYTES } else { 0 };
        let Some((ahs, rest)) = behind.split_at_checked(header.ahs_bytes() + digest_bytes) else {
            return Ok(None);
        };
        let (ahs, digest) = ahs.split_at(header.ahs_bytes());
        if self.header_digest && digest != self::digest(&arrived[..head_bytes]) {
            return Err(FramingError::HeaderDigest);
        }
        self.check(&header)?;
        let wire_bytes = self.data_wire_bytes(&header);
        let ahs = Bytes::copy_from_slice(ahs);
        if let Some(wire) = rest.get(..wire_bytes) {
            let damaged = self.data_digest && !self.data_is_right(&header, wire);
            let data = if damaged { &[] } else { &wire[..header.data_bytes()] };
            let data = Bytes::copy_from_slice(data);
            self.taken += head_bytes + digest_bytes + wire_bytes;
            return Ok(Some(Pdu { header, ahs, data, damaged }));
        }
        let whole_bytes = head_bytes + digest_bytes + wire_bytes;
        if wire_bytes - rest.len() >= DIRECT_BYTES || whole_bytes > BUFFER_BYTES {
            let mut wire = BytesMut::with_capacity(wire_bytes);
            wire.extend_from_slice(rest);
            self.partial = Some(Box::new(Partial { header, ahs, wire, wire_bytes }));
            self.taken = self.buffer.len();
        }
        Ok(None)
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

/// CRC32C as it stands on the wire (12.1): least significant byte first.
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
