//! Encoding of records on media: fixed fields, little-endian, under a checksum.

use shelf::{ALIGN, Error};

/// Versions of a kind of record that this release reads. It writes the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest that it reads.
    pub oldest: u32,
    /// The one that it writes, and the newest that it reads.
    pub current: u32,
}

impl Versions {
    /// True for a version that this release reads.
    pub fn reads(self, version: u32) -> bool {
        (self.oldest..=self.current).contains(&version)
    }

    /// Why a record of another version is refused, and what to do.
    pub fn refusal(self, what: &str, version: u32) -> Error {
        let Self { oldest, current } = self;
        Error::Unusable(format!(
            "{what} was written by another release of Ashlar (version {version}; this one reads {oldest} to {current}): \
             use that release, the drives are left as they are"
        ))
    }
}

/// Envelopes. The version is part of the additional data of the wrapped key.
pub const ENVELOPES: Versions = Versions { oldest: 4, current: 4 };

/// CRC32C over the pieces, concatenated.
pub fn crc32c<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    pieces.into_iter().for_each(|piece| digest.update(piece));
    digest.finalize() as u32
}

/// `len` rounded up to whole pages.
pub fn pages(len: u64) -> u64 {
    len.next_multiple_of(ALIGN as u64)
}

/// CRC32C of these bytes, as in every record on media.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c([bytes])
}

/// Writes consecutive fields.
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

/// Reads consecutive fields; `None` when the bytes end.
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
