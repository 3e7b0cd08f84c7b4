//! The receiving half of a connection: bytes from the socket, and the data of PDUs.
//!
//! The receive buffer of a connection is never shared, so the data of a PDU keep only their own memory allocated. Short
//! data are copied out of the buffer; the rest of long data is received directly into a buffer of its own.
//!
//! The buffer has the size for I/O only while it is used: it grows after bytes have filled it, and shrinks after a second in
//! which they did not. So an idle connection holds little.

use bytes::buf::Limit;
use bytes::{BufMut, Bytes, BytesMut};

/// Size of the receive buffer of a connection with I/O, in bytes. A batch of 32 writes of 4 KiB fits.
pub const LARGE_BUFFER_BYTES: usize = 160 << 10;
/// Size of the receive buffer before the login, or without I/O, in bytes.
pub const SMALL_BUFFER_BYTES: usize = 16 << 10;
/// Minimum number of missing bytes of data for which a buffer of its own is allocated.
const DIRECT_BYTES: usize = 12 << 10;

/// The receive buffer of a connection.
pub struct ReceiveBuffer {
    buffer: BytesMut,
    /// Bytes that `buffer` may hold now, and that it may grow to.
    capacity: usize,
    max_capacity: usize,
    /// Most bytes in `buffer` since the last tick.
    peak: usize,
    /// Bytes at the start of `buffer` that have been consumed.
    consumed: usize,
    /// Data that is received into a buffer of its own, and its length.
    direct: Option<(BytesMut, usize)>,
}

impl Default for ReceiveBuffer {
    fn default() -> Self {
        Self {
            buffer: BytesMut::with_capacity(SMALL_BUFFER_BYTES),
            capacity: SMALL_BUFFER_BYTES,
            max_capacity: SMALL_BUFFER_BYTES,
            peak: 0,
            consumed: 0,
            direct: None,
        }
    }
}

impl ReceiveBuffer {
    /// Lets the buffer grow to the size for I/O.
    pub fn enlarge(&mut self) {
        self.max_capacity = LARGE_BUFFER_BYTES;
    }

    /// Gives memory back that was not used since the last call: to be called once a second.
    pub fn tick(&mut self) {
        let peak = std::mem::take(&mut self.peak).max(self.buffer.len());
        if self.capacity > SMALL_BUFFER_BYTES && peak < SMALL_BUFFER_BYTES && self.direct.is_none() {
            let mut small = BytesMut::with_capacity(SMALL_BUFFER_BYTES);
            small.extend_from_slice(self.arrived());
            (self.buffer, self.consumed, self.capacity) = (small, 0, SMALL_BUFFER_BYTES);
        }
    }

    /// Space for the next bytes from the peer; empty only while the buffer is full of unconsumed bytes.
    pub fn space(&mut self) -> Limit<&mut BytesMut> {
        if let Some((data, bytes)) = &mut self.direct {
            let rest = *bytes - data.len();
            return data.limit(rest);
        }
        self.peak = self.peak.max(self.buffer.len());
        if self.buffer.len() == self.capacity {
            // More may wait in the socket.
            self.capacity = self.max_capacity;
        }
        if self.consumed == self.buffer.len() {
            self.buffer.clear();
            self.consumed = 0;
        } else if self.buffer.len() > self.capacity / 2 {
            self.buffer.copy_within(self.consumed.., 0);
            self.buffer.truncate(self.buffer.len() - self.consumed);
            self.consumed = 0;
        }
        let room = self.capacity - self.buffer.len();
        self.buffer.reserve(room);
        (&mut self.buffer).limit(room)
    }

    /// Bytes that have arrived and were not consumed.
    pub fn arrived(&self) -> &[u8] {
        &self.buffer[self.consumed..]
    }

    /// Consumes the first bytes of [`ReceiveBuffer::arrived`].
    ///
    /// # Panics
    /// If fewer have arrived.
    pub fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.arrived().len(), "bytes are consumed once they have arrived");
        self.consumed += bytes;
    }

    /// Consumes as many bytes of `left` as have arrived; returns the number of missing ones.
    pub fn discard(&mut self, left: usize) -> usize {
        let gone = left.min(self.arrived().len());
        self.consumed += gone;
        left - gone
    }

    /// Consumes the next `bytes` bytes once they have arrived. Until then the caller must repeat the call with the same
    /// number, and consume nothing else.
    pub fn receive(&mut self, bytes: usize) -> Option<Bytes> {
        if let Some((data, wanted)) = self.direct.take() {
            assert_eq!(wanted, bytes, "one piece of data is received at a time");
            if data.len() == wanted {
                return Some(data.freeze());
            }
            self.direct = Some((data, wanted));
            return None;
        }
        let arrived = self.arrived();
        if let Some(data) = arrived.get(..bytes) {
            let data = Bytes::copy_from_slice(data);
            self.consumed += bytes;
            return Some(data);
        }
        if bytes - arrived.len() < DIRECT_BYTES && bytes <= self.capacity {
            return None;
        }
        let mut data = BytesMut::with_capacity(bytes);
        data.extend_from_slice(arrived);
        self.consumed = self.buffer.len();
        self.direct = Some((data, bytes));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts bytes into the buffer while there is room; returns their number.
    fn put(buffer: &mut ReceiveBuffer, bytes: &[u8]) -> usize {
        let mut space = buffer.space();
        let count = bytes.len().min(space.remaining_mut());
        space.put_slice(&bytes[..count]);
        count
    }

    #[test]
    fn data_is_the_same_whether_it_is_copied_or_received_directly() {
        let stream: Vec<u8> = (0..400_000_u32).map(|index| index as u8).collect();
        for portion in [1000, 4096, 100_000] {
            let (mut buffer, mut rest, mut at) = (ReceiveBuffer::default(), &stream[..], 0);
            for length in [1, 0, 500, 20_000, 3, 200_000, 15_000] {
                let data = loop {
                    if let Some(data) = buffer.receive(length) {
                        break data;
                    }
                    let count = put(&mut buffer, &rest[..portion.min(rest.len())]);
                    assert_ne!(count, 0, "no room for data that is wanted");
                    rest = &rest[count..];
                };
                assert_eq!(data, &stream[at..at + length]);
                at += length;
            }
        }
    }

    #[test]
    fn a_connection_has_the_buffer_for_io_only_while_bytes_fill_it() {
        let mut buffer = ReceiveBuffer::default();
        let arrive = |buffer: &mut ReceiveBuffer, bytes: usize| {
            let count = put(buffer, &vec![7; bytes]);
            buffer.consume(count);
            count
        };
        arrive(&mut buffer, 1 << 20);
        assert_eq!(arrive(&mut buffer, 1 << 20), SMALL_BUFFER_BYTES, "a connection that is not known");
        buffer.enlarge();
        assert_eq!(buffer.buffer.capacity(), SMALL_BUFFER_BYTES, "nothing was received since");
        assert_eq!(arrive(&mut buffer, 1 << 20), LARGE_BUFFER_BYTES);
        buffer.tick();
        assert_eq!(arrive(&mut buffer, 1 << 20), LARGE_BUFFER_BYTES, "it is in use");
        buffer.tick();
        arrive(&mut buffer, 48);
        buffer.space();
        buffer.tick();
        assert!(buffer.buffer.capacity() > SMALL_BUFFER_BYTES, "it was in use a tick ago");
        put(&mut buffer, &[1, 2, 3]);
        buffer.tick();
        assert_eq!(buffer.buffer.capacity(), SMALL_BUFFER_BYTES);
        assert_eq!(buffer.arrived(), [1, 2, 3]);
    }

    #[test]
    fn discarded_bytes_take_no_memory() {
        let mut buffer = ReceiveBuffer::default();
        let (mut left, mut discarded) = (1 << 20, 0);
        while left > 0 {
            discarded += put(&mut buffer, &[7; 4096]);
            left = buffer.discard(left);
        }
        assert_eq!(discarded, 1 << 20);
        assert_eq!(buffer.buffer.capacity(), SMALL_BUFFER_BYTES);
    }
}
