//! Fields of messages, read with checked access. Integers are little-endian.

use crate::{Error, Result};
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Writes a byte string: its length in four bytes, then the bytes.
pub fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32_le(bytes.len() as u32);
    out.put_slice(bytes);
}

/// The unread fields of a payload.
pub struct Fields(Bytes);

#[expect(missing_docs, reason = "the integers of these sizes")]
impl Fields {
    /// The fields of a whole payload.
    pub fn new(payload: Bytes) -> Self {
        Self(payload)
    }

    fn fixed<T>(&mut self, bytes: usize, read: impl FnOnce(&mut Bytes) -> T) -> Result<T> {
        if self.0.len() < bytes {
            return Err(Error::Malformed("a message that ends early"));
        }
        Ok(read(&mut self.0))
    }

    pub fn u8(&mut self) -> Result<u8> {
        self.fixed(1, Bytes::get_u8)
    }

    pub fn u16(&mut self) -> Result<u16> {
        self.fixed(2, Bytes::get_u16_le)
    }

    pub fn u32(&mut self) -> Result<u32> {
        self.fixed(4, Bytes::get_u32_le)
    }

    pub fn u64(&mut self) -> Result<u64> {
        self.fixed(8, Bytes::get_u64_le)
    }

    pub fn u128(&mut self) -> Result<u128> {
        self.fixed(16, Bytes::get_u128_le)
    }

    /// A field that older releases do not send; zero if it is missing.
    pub fn added_u8(&mut self) -> Result<u8> {
        if self.0.is_empty() { Ok(0) } else { self.u8() }
    }

    /// A field that older releases do not send; zero if it is missing.
    pub fn added_u64(&mut self) -> Result<u64> {
        if self.0.is_empty() { Ok(0) } else { self.u64() }
    }

    /// A fixed number of bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        self.fixed(N, |from| from.copy_to_slice(&mut out))?;
        Ok(out)
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<Bytes> {
        self.fixed(count, |from| from.split_to(count))
    }

    /// A byte string of at most `max` bytes, as written by [`put_bytes`].
    pub fn bytes(&mut self, max: usize) -> Result<Bytes> {
        let len = self.u32()? as usize;
        if len > max {
            return Err(Error::Malformed("a field that is longer than allowed"));
        }
        self.fixed(len, |from| from.split_to(len))
    }
}
