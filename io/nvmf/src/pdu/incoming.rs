//! Receiving half of a connection: splits the byte stream into PDUs, with limits and digests (TCP Transport 1.0 clauses
//! 3.3 and 3.6).
//!
//! A PDU is received in two steps: its header ([`Incoming::head`]); then, once there is room for its data
//! ([`Incoming::accept`]) or when they are unwanted ([`Incoming::skip`]), the whole PDU ([`Incoming::body`]).

use super::{
    COMMON_BYTES, DATA_DIGEST, Digests, FROM_HOST, FatalError, HEADER_DIGEST, Header, MAX_HEADER_BYTES, Row,
    Termination, kind,
};
use bytes::buf::Limit;
use bytes::{Bytes, BytesMut};
use transport::ReceiveBuffer;

const DIGEST_BYTES: usize = 4;

/// A received PDU with a correct header digest.
#[derive(Debug)]
pub(crate) struct Pdu {
    pub(crate) header: Header,
    /// The data; empty when they are damaged or skipped.
    pub(crate) data: Bytes,
    /// The data digest was wrong.
    pub(crate) damaged: bool,
    /// The PDU had data, which was skipped.
    pub(crate) skipped: bool,
    /// Memory charged for the PDU when it was accepted, in bytes.
    pub(crate) charge: u64,
}

/// The part of the stream that is received next.
enum Phase {
    Header,
    /// A header has arrived; its data are neither accepted nor skipped yet.
    Held(Box<Header>),
    /// The data are being received.
    Body(Box<Header>),
    /// The data are discarded; this many bytes are missing.
    Skipped(Box<Header>, usize),
}

/// The receiving half of a connection.
pub(crate) struct Incoming {
    buffer: ReceiveBuffer,
    phase: Phase,
    /// Charge of the arriving PDU in bytes.
    charge: u64,
    digests: Digests,
    /// ICReq has arrived: it must be the first PDU, and the only ICReq.
    greeted: bool,
}

impl Default for Incoming {
    fn default() -> Self {
        Self {
            buffer: ReceiveBuffer::default(),
            phase: Phase::Header,
            charge: 0,
            digests: Digests::default(),
            greeted: false,
        }
    }
}

impl Incoming {
    /// Notes the end of the initialization, with the digests of the PDUs that follow.
    pub(crate) fn greeted(&mut self, digests: Digests) {
        (self.greeted, self.digests) = (true, digests);
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
    pub(crate) fn charge(&self) -> u64 {
        self.charge
    }

    /// Buffer space for the next bytes from the host.
    pub(crate) fn space(&mut self) -> Limit<&mut BytesMut> {
        self.buffer.space()
    }

    /// The next header, once it is complete and while its PDU is neither accepted nor skipped.
    pub(crate) fn head(&mut self) -> Result<Option<&Header>, Termination> {
        if matches!(self.phase, Phase::Header) {
            match self.parse()? {
                Some(header) => self.phase = Phase::Held(Box::new(header)),
                None => return Ok(None),
            }
        }
        match &self.phase {
            Phase::Held(header) => Ok(Some(header)),
            _ => Ok(None),
        }
    }

    fn parse(&mut self) -> Result<Option<Header>, Termination> {
        let arrived = self.buffer.arrived();
        let Some((common, _)) = arrived.split_first_chunk::<COMMON_BYTES>() else { return Ok(None) };
        let row = self.check(common)?;
        let digest_bytes = if self.has_header_digest(row) { DIGEST_BYTES } else { 0 };
        let Some(whole) = arrived.get(..row.header_bytes + digest_bytes) else { return Ok(None) };
        let (raw, digest) = whole.split_at(row.header_bytes);
        if digest_bytes > 0 && digest != transport::digest(raw) {
            let mut came = [0; DIGEST_BYTES];
            came.copy_from_slice(digest);
            let header = raw.to_vec();
            let information = u32::from_le_bytes(came);
            let detail = "wrong header digest";
            return Err(Termination { error: FatalError::HeaderDigest, information, detail, header });
        }
        let data_bytes = self.data_bytes(row, raw)?;
        let mut bytes = [0; MAX_HEADER_BYTES];
        bytes[..row.header_bytes].copy_from_slice(raw);
        self.buffer.consume(row.header_bytes + digest_bytes);
        Ok(Some(Header { bytes, row, data_bytes }))
    }

    /// Checks the common header: type, order, flags and header length.
    fn check(&self, common: &[u8; COMMON_BYTES]) -> Result<&'static Row, Termination> {
        let [found, flags, header_bytes, ..] = *common;
        let Some(row) = FROM_HOST.iter().find(|row| row.kind == found) else {
            return Err(Termination::field(common, 0, "unknown PDU type"));
        };
        if (row.kind == kind::IC_REQ) == self.greeted && row.kind != kind::H2C_TERM_REQ {
            let detail = if self.greeted { "a second ICReq" } else { "no ICReq before it" };
            return Err(Termination::other(FatalError::SequenceError, common, detail));
        }
        if usize::from(header_bytes) != row.header_bytes {
            return Err(Termination::field(common, 2, "wrong header length"));
        }
        let wanted = if self.has_header_digest(row) { HEADER_DIGEST } else { 0 };
        if flags & !row.flags != 0 || flags & HEADER_DIGEST != wanted {
            return Err(Termination::field(common, 1, "wrong flags"));
        }
        Ok(row)
    }

    fn has_header_digest(&self, row: &Row) -> bool {
        self.digests.header && row.flags & HEADER_DIGEST != 0
    }

    /// Bytes of data of a PDU: its length without header and digests. Data follow the header without padding, since CPDA
    /// is zero (3.6.2.2).
    fn data_bytes(&self, row: &Row, raw: &[u8]) -> Result<usize, Termination> {
        let field = |at: usize| raw.get(at).copied().unwrap_or(0);
        let length = u32::from_le_bytes([field(4), field(5), field(6), field(7)]) as usize;
        let head = row.header_bytes + if self.has_header_digest(row) { DIGEST_BYTES } else { 0 };
        let Some(rest) = length.checked_sub(head) else {
            return Err(Termination::field(raw, 4, "shorter than its header"));
        };
        let has_digest = field(1) & DATA_DIGEST != 0;
        if has_digest && (rest == 0 || !self.digests.data)
            || rest > 0 && self.expects_digest(row) != has_digest
        {
            return Err(Termination::field(raw, 1, "wrong data digest flag"));
        }
        let digest = if has_digest { DIGEST_BYTES } else { 0 };
        let Some(data) = rest.checked_sub(digest).filter(|data| *data > 0 || rest == 0) else {
            return Err(Termination::field(raw, 4, "shorter than its digests"));
        };
        if data > row.max_data {
            let detail = "more data than accepted";
            return Err(match row.kind {
                kind::H2C_DATA => Termination::other(FatalError::LimitExceeded, raw, detail),
                _ => Termination::field(raw, 4, detail),
            });
        }
        let places_data = matches!(row.kind, kind::CAPSULE_CMD | kind::H2C_DATA);
        if places_data && data > 0 && usize::from(field(3)) != head {
            return Err(Termination::field(raw, 3, "wrong data offset"));
        }
        Ok(data)
    }

    fn expects_digest(&self, row: &Row) -> bool {
        self.digests.data && row.flags & DATA_DIGEST != 0
    }

    /// Accepts the PDU whose header has arrived. `charge` is its memory in bytes, until the PDU is taken.
    pub(crate) fn accept(&mut self, charge: u64) {
        let phase = std::mem::replace(&mut self.phase, Phase::Header);
        self.phase = match phase {
            Phase::Held(header) => {
                self.charge = charge;
                Phase::Body(header)
            }
            other => other,
        };
    }

    /// Skips the data of the PDU whose header has arrived: they are discarded on arrival.
    pub(crate) fn skip(&mut self) {
        let phase = std::mem::replace(&mut self.phase, Phase::Header);
        self.phase = match phase {
            Phase::Held(header) => {
                let bytes = wire_bytes(&header);
                Phase::Skipped(header, bytes)
            }
            other => other,
        };
    }

    /// The accepted or skipped PDU, once it is complete.
    pub(crate) fn body(&mut self) -> Option<Pdu> {
        let phase = std::mem::replace(&mut self.phase, Phase::Header);
        let (phase, pdu) = match phase {
            Phase::Body(header) => match self.buffer.receive(wire_bytes(&header)) {
                Some(wire) => {
                    let damaged = is_damaged(&header, &wire);
                    let data = wire.slice(..if damaged { 0 } else { header.data_bytes });
                    (Phase::Header, Some(self.pdu(*header, data, damaged, false)))
                }
                None => (Phase::Body(header), None),
            },
            Phase::Skipped(header, left) => match self.buffer.discard(left) {
                0 => {
                    let skipped = header.data_bytes > 0;
                    (Phase::Header, Some(self.pdu(*header, Bytes::new(), false, skipped)))
                }
                left => (Phase::Skipped(header, left), None),
            },
            other => (other, None),
        };
        self.phase = phase;
        pdu
    }

    fn pdu(&mut self, header: Header, data: Bytes, damaged: bool, skipped: bool) -> Pdu {
        Pdu { header, data, damaged, skipped, charge: std::mem::take(&mut self.charge) }
    }
}

/// Length of data and digest in bytes.
fn wire_bytes(header: &Header) -> usize {
    header.data_bytes + if header.flags() & DATA_DIGEST != 0 { DIGEST_BYTES } else { 0 }
}

fn is_damaged(header: &Header, wire: &[u8]) -> bool {
    let (data, digest) = wire.split_at(header.data_bytes.min(wire.len()));
    !digest.is_empty() && digest != transport::digest(data)
}

#[cfg(test)]
#[path = "incoming_test.rs"]
mod tests;
