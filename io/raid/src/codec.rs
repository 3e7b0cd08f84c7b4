//! Pages on media: fixed fields, little-endian, under a checksum. The drawings are in `docs/format/shelf.md`.

use crate::ALIGN;

/// The format that this program writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 5;

/// The oldest that it reads. No batch of the journal was striped in it: all else is the same.
pub const OLDEST_VERSION: u32 = 4;

/// CRC32C over the pieces one behind the other.
pub fn crc32c<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    pieces.into_iter().for_each(|piece| digest.update(piece));
    digest.finalize() as u32
}

/// `len` rounded up to whole pages.
pub fn pages(len: u64) -> u64 {
    len.next_multiple_of(ALIGN as u64)
}

/// CRC32C of these bytes, as every record on media has it.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c([bytes])
}

/// Writes fields one behind the other.
pub struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// Starts at the front of `bytes`, which has room for every field.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Adds a field.
    pub fn put(&mut self, field: &[u8]) -> &mut Self {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
        self
    }
}

/// Reads fields one behind the other; none when the bytes end.
pub struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    /// The next `N` bytes.
    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    /// The next 32-bit number.
    pub fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    /// The next 64-bit number.
    pub fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// The next 128-bit number.
    pub fn u128(&mut self) -> Option<u128> {
        self.take().map(u128::from_le_bytes)
    }
}

#[cfg(test)]
#[path = "format_test.rs"]
mod tests;
