//! PDU layout (NVMe TCP Transport 1.0 clause 3.6): common header, types, and the table of PDUs that a host sends.
//! Framing is in [`incoming`], encoding in [`outgoing`].

pub(crate) mod incoming;
pub(crate) mod outgoing;

use crate::sqe::SQE_BYTES;

/// Bytes of the common header (3.6.1).
pub(crate) const COMMON_BYTES: usize = 8;

/// Longest PDU header: that of ICReq and ICResp.
pub(crate) const MAX_HEADER_BYTES: usize = 128;

/// Flags (3.6.1, 3.6.2.5 to 3.6.2.7).
pub(crate) const HEADER_DIGEST: u8 = 0x01;
pub(crate) const DATA_DIGEST: u8 = 0x02;
pub(crate) const LAST_PDU: u8 = 0x04;
pub(crate) const SUCCESS: u8 = 0x08;

/// PDU types (figure 20).
pub(crate) mod kind {
    pub(crate) const IC_REQ: u8 = 0x00;
    pub(crate) const IC_RESP: u8 = 0x01;
    pub(crate) const H2C_TERM_REQ: u8 = 0x02;
    pub(crate) const C2H_TERM_REQ: u8 = 0x03;
    pub(crate) const CAPSULE_CMD: u8 = 0x04;
    pub(crate) const CAPSULE_RESP: u8 = 0x05;
    pub(crate) const H2C_DATA: u8 = 0x06;
    pub(crate) const C2H_DATA: u8 = 0x07;
    pub(crate) const R2T: u8 = 0x09;
}

/// A PDU type that a host sends.
pub(crate) struct Row {
    pub(crate) kind: u8,
    pub(crate) name: &'static str,
    /// Clause of TCP Transport 1.0.
    pub(crate) clause: &'static str,
    /// HLEN
    pub(crate) header_bytes: usize,
    /// Flags that may be set.
    pub(crate) flags: u8,
    /// Maximum number of bytes of data.
    pub(crate) max_data: usize,
}

/// In-capsule data that a host may send, in bytes: the limit that IOCCSZ reports, and 8 KiB, which every host may send
/// with admin and fabrics commands (3.2).
pub(crate) const MAX_IN_CAPSULE_BYTES: usize = 8 << 10;
/// MAXH2CDATA: bytes of data in one H2CData PDU.
pub(crate) const MAX_H2C_DATA_BYTES: usize = 256 << 10;
/// Maximum number of bytes of a terminated PDU in a termination request (3.6.2.3).
pub(crate) const MAX_TERMINATED_BYTES: usize = 128;

/// PDUs that a host may send.
pub(crate) const FROM_HOST: &[Row] = &[
    Row { kind: kind::IC_REQ, name: "ICReq", clause: "3.6.2.1", header_bytes: 128, flags: 0, max_data: 0 },
    Row {
        kind: kind::H2C_TERM_REQ,
        name: "H2CTermReq",
        clause: "3.6.2.3",
        header_bytes: 24,
        flags: 0,
        max_data: MAX_TERMINATED_BYTES,
    },
    Row {
        kind: kind::CAPSULE_CMD,
        name: "CapsuleCmd",
        clause: "3.6.2.5",
        header_bytes: COMMON_BYTES + SQE_BYTES,
        flags: HEADER_DIGEST | DATA_DIGEST,
        max_data: MAX_IN_CAPSULE_BYTES,
    },
    Row {
        kind: kind::H2C_DATA,
        name: "H2CData",
        clause: "3.6.2.7",
        header_bytes: 24,
        flags: HEADER_DIGEST | DATA_DIGEST | LAST_PDU,
        max_data: MAX_H2C_DATA_BYTES,
    },
];

/// Fatal error status of a termination request (figure 26).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u16)]
pub(crate) enum FatalError {
    #[error("invalid PDU header field")]
    InvalidHeaderField = 0x01,
    #[error("PDU sequence error")]
    SequenceError = 0x02,
    #[error("header digest error")]
    HeaderDigest = 0x03,
    #[error("data transfer out of range")]
    DataOutOfRange = 0x04,
    #[error("data transfer limit exceeded")]
    LimitExceeded = 0x05,
    #[error("unsupported parameter")]
    UnsupportedParameter = 0x06,
}

/// Cause of a termination, as the termination request reports it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error} in a PDU of type {:#04x}: {detail}", header.first().copied().unwrap_or(0))]
pub(crate) struct Termination {
    pub(crate) error: FatalError,
    /// FEI: offset of the wrong field in the header, or the digest that was received.
    pub(crate) information: u32,
    pub(crate) detail: &'static str,
    /// The header as received.
    pub(crate) header: Vec<u8>,
}

impl Termination {
    pub(crate) fn field(header: &[u8], offset: u32, detail: &'static str) -> Self {
        Self { error: FatalError::InvalidHeaderField, information: offset, detail, header: header.to_vec() }
    }

    pub(crate) fn other(error: FatalError, header: &[u8], detail: &'static str) -> Self {
        Self { error, information: 0, detail, header: header.to_vec() }
    }
}

/// A received PDU header, and the digests that the PDU has.
#[derive(Clone)]
pub(crate) struct Header {
    bytes: [u8; MAX_HEADER_BYTES],
    row: &'static Row,
    /// Bytes of data that follow, without digest.
    pub(crate) data_bytes: usize,
}

impl Header {
    pub(crate) fn kind(&self) -> u8 {
        self.row.kind
    }

    /// The header as received.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.row.header_bytes]
    }

    pub(crate) fn flags(&self) -> u8 {
        self.bytes[1]
    }

    pub(crate) fn u16<const AT: usize>(&self) -> u16 {
        u16::from_le_bytes(self.array::<AT, 2>())
    }

    pub(crate) fn u32<const AT: usize>(&self) -> u32 {
        u32::from_le_bytes(self.array::<AT, 4>())
    }

    /// `N` bytes from offset `AT`.
    pub(crate) fn array<const AT: usize, const N: usize>(&self) -> [u8; N] {
        const { assert!(AT + N <= MAX_HEADER_BYTES) };
        std::array::from_fn(|index| self.bytes[AT + index])
    }
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}) with {} bytes", self.row.name, self.row.clause, self.data_bytes)
    }
}

/// The digests that both sides agreed on (3.6.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digests {
    pub(crate) header: bool,
    pub(crate) data: bool,
}
