//! Frames: a header with a checksum of its own, so that its length can be trusted, and a payload with another checksum.
//!
//! | bytes | header |
//! |---|---|
//! | 0–3 | `ASHL` |
//! | 4–5 | kind |
//! | 6–7 | domain |
//! | 8–15 | number of the request; the reply has the same |
//! | 16–19 | bytes of the payload |
//! | 20–23 | CRC32C of the payload |
//! | 24–27 | zero |
//! | 28–31 | CRC32C of bytes 0 to 27 |
//!
//! All numbers are little-endian.

use crate::{Error, Result};
use bytes::{Buf, Bytes, BytesMut};
use std::mem;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 32;

/// Maximum payload: the data of the longest command, and its other fields.
pub const MAX_PAYLOAD_BYTES: usize = (32 << 20) + (64 << 10);

const MAGIC: [u8; 4] = *b"ASHL";

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Kind of the payload. An unknown kind is refused alone and does not end the connection.
    pub kind: u16,
    /// The domain that the frame concerns.
    pub domain: u16,
    /// Number of the request, or of the request that the frame replies to.
    pub number: u64,
    /// Its payload.
    pub payload: Bytes,
}

fn crc32c<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    pieces.into_iter().for_each(|piece| digest.update(piece));
    digest.finalize() as u32
}

/// The header of a payload in pieces, which follow it on the wire.
///
/// # Panics
/// If the payload is longer than [`MAX_PAYLOAD_BYTES`].
pub fn header(kind: u16, domain: u16, number: u64, payload: &[Bytes]) -> [u8; HEADER_BYTES] {
    let len = payload.iter().map(Bytes::len).sum::<usize>();
    assert!(len <= MAX_PAYLOAD_BYTES, "a payload within the bound");
    let mut out = [0; HEADER_BYTES];
    out[..4].copy_from_slice(&MAGIC);
    out[4..6].copy_from_slice(&kind.to_le_bytes());
    out[6..8].copy_from_slice(&domain.to_le_bytes());
    out[8..16].copy_from_slice(&number.to_le_bytes());
    out[16..20].copy_from_slice(&(len as u32).to_le_bytes());
    out[20..24].copy_from_slice(&crc32c(payload.iter().map(|piece| &piece[..])).to_le_bytes());
    let sum = crc32c([&out[..28]]);
    out[28..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// A checked header.
struct Header {
    kind: u16,
    domain: u16,
    number: u64,
    len: usize,
    sum: u32,
}

impl Header {
    fn decode(mut bytes: &[u8], max_payload: usize) -> Result<Self> {
        let covered = bytes.get(..28).map(|covered| crc32c([covered]));
        if !bytes.starts_with(&MAGIC) {
            return Err(Error::Malformed("bytes that begin no frame"));
        }
        bytes.advance(4);
        let (kind, domain, number) = (bytes.get_u16_le(), bytes.get_u16_le(), bytes.get_u64_le());
        let (len, sum, zero, own) =
            (bytes.get_u32_le() as usize, bytes.get_u32_le(), bytes.get_u32_le(), bytes.get_u32_le());
        if covered != Some(own) {
            return Err(Error::Malformed("a header with a wrong checksum"));
        }
        if zero != 0 || len > max_payload {
            return Err(Error::Malformed("a frame that is longer than allowed"));
        }
        Ok(Self { kind, domain, number, len, sum })
    }

    fn frame(self, payload: Bytes) -> Result<Frame> {
        if crc32c([&payload[..]]) != self.sum {
            return Err(Error::Malformed("a payload with a wrong checksum"));
        }
        let Self { kind, domain, number, .. } = self;
        Ok(Frame { kind, domain, number, payload })
    }
}

/// Splits a stream into frames. The payload of a frame that arrived in one piece is not copied.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The start of a frame that arrived in several pieces.
    begun: BytesMut,
    /// The bytes after it.
    input: Bytes,
}

impl Decoder {
    /// Adds bytes of the stream.
    pub fn push(&mut self, bytes: Bytes) {
        self.input = match self.input.is_empty() {
            true => bytes,
            false => [&self.input[..], &bytes].concat().into(),
        };
    }

    /// The next frame; `None` until it is complete. A payload over `max_payload` is refused when its header arrives,
    /// before memory is allocated.
    ///
    /// # Errors
    /// [`Error::Malformed`]: the rest of the stream is unusable.
    pub fn next(&mut self, max_payload: usize) -> Result<Option<Frame>> {
        if self.begun.is_empty() {
            let Some(header) = whole(&self.input, max_payload)? else {
                self.begun.extend_from_slice(&mem::take(&mut self.input));
                return Ok(None);
            };
            self.input.advance(HEADER_BYTES);
            let payload = self.input.split_to(header.len);
            return header.frame(payload).map(Some);
        }
        loop {
            if let Some(header) = whole(&self.begun, max_payload)? {
                self.begun.advance(HEADER_BYTES);
                return header.frame(mem::take(&mut self.begun).freeze()).map(Some);
            }
            if self.input.is_empty() {
                return Ok(None);
            }
            let wanted = match self.begun.get(..HEADER_BYTES) {
                Some(header) => HEADER_BYTES + Header::decode(header, max_payload)?.len,
                None => HEADER_BYTES,
            };
            let count = (wanted - self.begun.len()).min(self.input.len());
            self.begun.extend_from_slice(&self.input.split_to(count));
        }
    }
}

/// The header of the first frame, if it is complete.
fn whole(bytes: &[u8], max_payload: usize) -> Result<Option<Header>> {
    let Some(header) = bytes.get(..HEADER_BYTES) else {
        // Bytes that can't begin a frame are refused at once.
        let begun = bytes.len().min(MAGIC.len());
        let fits = bytes.get(..begun) == MAGIC.get(..begun);
        return if fits { Ok(None) } else { Err(Error::Malformed("bytes that begin no frame")) };
    };
    let header = Header::decode(header, max_payload)?;
    Ok(Some(header).filter(|header| bytes.len() >= HEADER_BYTES + header.len))
}
